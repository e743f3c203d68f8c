//! The cost of reading: rounds, requests and bytes (docs/explanation/reading.md).

use b2_async::{AsyncNdArray, AsyncOptions};
use b2_chunk::{Compression, FilterSlot};
use b2_frame::{Compare, FrameWriter};
use b2nd::{ArrayBuilder, Selection, source};

use crate::store::{Counts, Store};

/// Numbers that do not compress.
pub(crate) fn mix(i: u64) -> u32 {
    let x = i.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    ((x ^ x >> 31).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 32) as u32
}

/// Chunks of 50 x 50 x 64 items of 4 bytes in blocks of 25 x 25 x 16, 32 of them, with noise in the
/// low bits.
fn field() -> Vec<u8> {
    let shape = [200, 200, 128];
    let item = |i: u64| {
        let noise = mix(i) >> 12;
        let (x, y, z) = (i / 25_600, i / 128 % 200, i % 128);
        (x * 1000 + y * 300 + z * 20) as f32 + noise as f32
    };
    let cparams =
        Compression::new().itemsize(4).filters(&[FilterSlot::SHUFFLE][..]).level(1).build().unwrap();
    let builder =
        ArrayBuilder::new::<f32>(shape).chunks([50, 50, 64]).blocks([25, 25, 16]).compression(cparams);
    builder.to_bytes(source::by_index(item)).unwrap().into()
}

fn cost(store: &Store, array: &AsyncNdArray<Store>, selection: Vec<Selection>) -> Counts {
    store.counts();
    let slice = array.slice(selection).unwrap();
    store.in_rounds(slice.read_bytes()).unwrap();
    store.counts()
}

#[test]
fn few_requests_in_few_rounds() {
    let frame = field();
    let (store, stored) = (Store::new(frame.clone()), frame.len() as u64);
    let options = AsyncOptions::new().compare(Compare::Once);
    let array = store.in_rounds(AsyncNdArray::open_with(store.clone(), &options)).unwrap();
    let opening = store.counts();
    assert_eq!((opening.rounds, opening.requests), (1, 2));
    assert!(opening.bytes <= 96 << 10, "{opening:?}");
    let all = || Selection::from(..);
    let chunk = stored / 32;
    assert!(chunk > 256 << 10, "small chunks are read whole: {chunk}");

    // The blocks come with the head.
    for at in [[101, 37, 40], [3, 3, 3], [199, 199, 127]] {
        let item = cost(&store, &array, at.iter().map(|&n| Selection::from(n)).collect());
        assert_eq!(item.rounds, 1, "{item:?}");
        assert!(item.requests <= 2 && item.bytes < chunk / 2, "{item:?}");
    }
    let local = |from: i64| Selection::from(from..from + 32);
    let cube = cost(&store, &array, vec![local(110), local(110), local(10)]);
    assert_eq!(cube.rounds, 1, "{cube:?}");
    assert!(cube.requests <= 2 && cube.bytes <= chunk + (64 << 10), "{cube:?}");
    let plane = cost(&store, &array, vec![Selection::from(101), all(), all()]);
    assert_eq!(plane.rounds, 1, "{plane:?}");
    assert!(plane.requests <= 16 && plane.bytes < 8 * chunk * 3 / 4, "{plane:?}");
    // Head and blocks of each of 16 chunks, 16 in flight at a time.
    let plane = cost(&store, &array, vec![all(), all(), Selection::from(101)]);
    assert_eq!(plane.rounds, 2, "{plane:?}");
    assert!(plane.requests <= 32, "{plane:?}");
    let whole = cost(&store, &array, vec![all(), all(), all()]);
    assert!(whole.requests <= 33 && whole.bytes <= stored / 100 * 101, "{whole:?}");
    assert!(whole.most <= 16);

    // Verifying each time needs no further round either.
    let options = AsyncOptions::new().compare(Compare::Always);
    let array = store.in_rounds(AsyncNdArray::open_with(store.clone(), &options)).unwrap();
    let item = cost(&store, &array, vec![101.into(), 37.into(), 40.into()]);
    assert_eq!(item.rounds, 1, "{item:?}");
}

/// Never has more in flight than allowed, however much is requested.
#[test]
fn what_is_in_flight_is_bounded() {
    let store = Store::new(field());
    let options = AsyncOptions::new().max_bytes_in_flight(1 << 20);
    let array = store.in_rounds(AsyncNdArray::open_with(store.clone(), &options)).unwrap();
    store.counts();
    store.in_rounds(array.all().read_bytes()).unwrap();
    let counts = store.counts();
    assert!(counts.most_bytes <= 1 << 20 && counts.most > 1, "{counts:?}");
}

/// If the frame stores block starts, one round fetches what is needed and hardly more.
#[test]
fn told_blocks_come_in_one_round() {
    // Blocks of very different sizes, whose positions cannot be guessed.
    let noise = |i: u64| (i / 4096).wrapping_mul(7) % 11 < 4;
    let item = move |i: u64| if noise(i) { mix(i) } else { 0 };
    for delta in [false, true] {
        let mut filters = vec![FilterSlot::SHUFFLE];
        if delta {
            filters.insert(0, FilterSlot { id: b2_chunk::FilterId::DELTA, meta: 0 });
        }
        let cparams = Compression::new().itemsize(4).filters(&filters[..]).level(1).build().unwrap();
        let builder = ArrayBuilder::new::<u32>([1 << 20]).chunks([1 << 18]).blocks([1 << 12]);
        let builder = builder.compression(cparams);
        let without = builder.clone().write_options(FrameWriter::options().block_starts(false));
        let plain = without.to_bytes(source::by_index(item)).unwrap();
        let options = FrameWriter::options().block_starts(true);
        let frame = builder.write_options(options).to_bytes(source::by_index(item)).unwrap();
        assert!(frame.len() > plain.len() && frame.len() < plain.len() + 1000);
        let store = Store::new(frame);
        let array = store.in_rounds(AsyncNdArray::open(store.clone())).unwrap();
        let opening = store.counts();
        assert_eq!((opening.rounds, opening.requests), (1, 2));
        for at in (0..(1 << 20) - 3).step_by(30_011) {
            store.counts();
            let slice = array.slice(at..at + 3).unwrap();
            let expected = [0, 1, 2].map(|k| item(at as u64 + k));
            assert_eq!(store.in_rounds(slice.read::<u32>()).unwrap(), expected);
            let counts = store.counts();
            assert!(
                counts.rounds <= 1 && counts.requests <= 3 && counts.bytes < 150 << 10,
                "{at}: {counts:?}"
            );
        }
        // Blocks far apart; a guess would also fetch everything between them.
        let array = &array;
        let rows = Selection::from((0..1 << 20).step_by(1 << 15).map(|n| n as i64).collect::<Vec<_>>());
        let remote = cost(&store, array, vec![rows]);
        assert_eq!(remote.rounds, 1, "{remote:?}");
    }
}

/// A wrong guess of block positions costs a round and nothing else.
#[test]
fn uneven_blocks_cost_a_round() {
    // The first half of each chunk compresses to nothing, the second half not at all.
    let item = |i: u64| if i % 262_144 < 131_072 { 0 } else { mix(i) };
    let builder = ArrayBuilder::new::<u32>([1 << 20]).chunks([1 << 18]).blocks([1 << 12]);
    // Without the table of block starts.
    let builder = builder.write_options(FrameWriter::options().block_starts(false));
    let frame = builder.to_bytes(source::by_index(item)).unwrap();
    let store = Store::new(frame);
    let array = store.in_rounds(AsyncNdArray::open(store.clone())).unwrap();
    let mut seen = [false; 3];
    for at in (0..1 << 20).step_by(30_011) {
        store.counts();
        let slice = array.slice(at..at + 3).unwrap();
        assert_eq!(store.in_rounds(slice.read::<u32>()).unwrap(), [0, 1, 2].map(|k| item(at as u64 + k)));
        seen[store.counts().rounds] = true;
    }
    assert_eq!(seen, [false, true, true]);
}
