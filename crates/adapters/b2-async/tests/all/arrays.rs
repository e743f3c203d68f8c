//! All kinds of arrays and selections, read synchronously and asynchronously.

use b2_async::{AsyncNdArray, AsyncOptions, AsyncSlice};
use b2_chunk::{CodecId, Compression, FilterSlot};
use b2_frame::{FrameWriter, Storage, SuperChunk};
use b2_testkit::Rng;
use b2nd::{ArrayBuilder, NdArray, NdError, Selection, range, source};

use crate::fixtures::{compare, same, tuning};
use crate::store::Store;

/// A random selection of any kind along each dimension, none of which is empty.
pub(crate) fn selection(shape: &[u64], dice: &mut Rng) -> Vec<Selection> {
    let along = |&n: &u64| {
        let n = n as i64;
        let at = |dice: &mut Rng| dice.below(n as usize) as i64;
        match dice.below(6) {
            0 => Selection::from(at(dice)),
            1 => (at(dice)..n).into(),
            2 => range(..).step(-1 - at(dice) / 2),
            3 => Selection::List((0..dice.below(6)).map(|_| at(dice) - n * (dice.below(2) as i64)).collect()),
            4 => Selection::mask((0..n).map(|_| dice.below(3) == 0).collect::<Vec<bool>>()),
            _ => (..).into(),
        }
    };
    shape.iter().map(along).collect()
}

pub(crate) fn points(shape: &[u64], dice: &mut Rng) -> Vec<Selection> {
    let npoints = dice.below(9);
    let lead = dice.below(shape.len() + 1);
    let list = |&n: &u64| Selection::List((0..npoints).map(|_| dice.below(n as usize) as i64).collect());
    shape[..lead].iter().map(list).collect()
}

fn array(dice: &mut Rng, sparse: Option<&std::path::Path>) -> (Store, NdArray) {
    let shape: Vec<u64> = (0..dice.below(4)).map(|_| 1 + dice.below(40) as u64).collect();
    let chunks: Vec<u32> = shape.iter().map(|&n| 1 + dice.below(n as usize + 2) as u32).collect();
    let blocks: Vec<u32> = chunks.iter().map(|&c| 1 + dice.below(c as usize) as u32).collect();
    let filters = *dice.pick(&[&[FilterSlot::SHUFFLE][..], &[FilterSlot::DELTA, FilterSlot::SHUFFLE], &[]]);
    let codec = *dice.pick(&[CodecId::ZSTD, CodecId::LZ4, CodecId::BLOSCLZ]);
    let dict = codec == CodecId::ZSTD && filters.is_empty() && dice.below(2) == 0;
    let cparams =
        Compression::new().itemsize(4).codec(codec).filters(filters).use_dict(dict).build().unwrap();
    let kind = dice.below(4);
    let item = move |i: u64| match kind {
        0 => 7,
        1 => 0,
        2 => (i as u32).wrapping_mul(2_654_435_761) >> 9,
        _ => i as u32 / 5,
    };
    let n: u64 = shape.iter().product();
    let items: Vec<u8> = (0..n).flat_map(|i| item(i).to_le_bytes()).collect();
    let builder = ArrayBuilder::new::<u32>(shape).chunks(chunks).blocks(blocks).compression(cparams);
    let checksums = FrameWriter::options().checksums(dice.below(3) > 0);
    match sparse {
        None => {
            let bytes = builder.write_options(checksums).to_bytes(&items[..]).unwrap();
            (Store::new(bytes.clone()), NdArray::from_bytes(bytes).unwrap())
        }
        Some(path) => {
            let options = checksums.storage(Storage::Sparse);
            builder.write_options(options).write(path, &items[..]).unwrap();
            (Store::read(path), NdArray::open(path).unwrap())
        }
    }
}

#[test]
fn selections_read_the_same() {
    let dice = &mut Rng::new(11);
    let dir = tempfile::tempdir().unwrap();
    for case in 0..150 {
        let path = dir.path().join(case.to_string());
        let (mut store, local) = array(dice, (case % 5 == 0).then_some(&path));
        store.most = *dice.pick(&[1, 2, 16]);
        let (tuning, compare) = (tuning(dice), compare(dice));
        let local = local.super_chunk().clone().with_tuning(tuning).with_compare(compare);
        let local = NdArray::from_super_chunk(local).unwrap();
        let options = AsyncOptions::new().tuning(tuning).compare(compare);
        let options = options.max_bytes_in_flight(*dice.pick(&[1, 1000, 1 << 20]));
        let remote = store.in_any_order(dice, AsyncNdArray::open_with(store.clone(), &options)).unwrap();
        for _ in 0..4 {
            let some = selection(local.shape(), dice);
            let one = remote.slice(&some).unwrap();
            let two = local.slice(&some).unwrap();
            same(store.in_any_order(dice, one.read_bytes()), two.read_bytes(), &some);
            same(store.in_rounds(one.read::<u32>()), two.read::<Vec<u32>>(), &some);
            same(store.in_rounds(one.read::<f32>()), two.read::<Vec<f32>>(), &some);
            // Views of views.
            let turn = |view: &b2nd::Slice| Ok(view.transpose());
            let one = one.map(turn).unwrap();
            same(store.in_any_order(dice, one.read_bytes()), two.transpose().read_bytes(), &some);
            same(parts(&store, &one, dice), two.transpose().read_bytes(), &some);
            let some = points(local.shape(), dice);
            let (one, two) = (remote.points(&some).unwrap(), local.points(&some).unwrap());
            same(store.in_any_order(dice, one.read_bytes()), two.read_bytes(), &some);
        }
        let marks: Vec<bool> = (0..local.len()).map(|_| dice.below(3) == 0).collect();
        let (one, two) = (remote.mask(&marks).unwrap(), local.mask(&marks).unwrap());
        same(store.in_any_order(dice, one.read_bytes()), two.read_bytes(), "mask");
        let counts = store.counts();
        // Opening takes two concurrent requests, whatever the limit is afterwards.
        assert!(counts.most <= store.most.max(2), "{counts:?}");
        assert_eq!(store.flying(), 0);
    }
}

/// Reads a selection part by part.
fn parts(store: &Store, slice: &AsyncSlice<Store>, dice: &mut Rng) -> Result<Vec<u8>, NdError> {
    let mut parts = slice.parts(1 + dice.below(2000) as u64);
    let (mut all, mut at) = (Vec::new(), 0);
    while let Some(part) = store.in_rounds(parts.next())? {
        assert!(part.positions.start == at && part.positions.end > at);
        at = part.positions.end;
        all.extend(part.bytes);
    }
    assert_eq!(at, slice.shape().first().copied().unwrap_or(1));
    Ok(all)
}

#[test]
fn parts_end_where_chunks_do() {
    let items: Vec<u16> = (0..100 * 50).collect();
    let frame = ArrayBuilder::new::<u16>([100, 50]).chunks([10, 50]).blocks([5, 50]).to_bytes(items);
    let store = Store::new(frame.unwrap());
    let array = store.in_rounds(AsyncNdArray::open(store.clone())).unwrap();
    let view = array.slice(7..95).unwrap();
    let mut parts = view.parts(25 * 100);
    let mut seen = Vec::new();
    while let Some(part) = store.in_rounds(parts.next()).unwrap() {
        seen.push(part.positions);
    }
    assert_eq!(seen, [0..23, 23..43, 43..63, 63..88]);
}

#[test]
fn futures_can_be_sent_and_limits_hold() {
    fn sendable<T: Send>(future: T) -> T {
        future
    }
    // 64 MiB of zeros, of which the file stores nothing.
    let frame = ArrayBuilder::new::<u8>([1 << 13, 1 << 13]).to_bytes(source::zeros()).unwrap();
    let store = Store::new(frame.clone());
    let limits = b2_core::Limits::default().max_output(1 << 20);
    let options = AsyncOptions::new().limits(limits.clone());
    let remote = store.in_rounds(sendable(AsyncNdArray::open_with(store.clone(), &options))).unwrap();
    let local =
        NdArray::from_super_chunk(SuperChunk::options().limits(limits).from_bytes(frame).unwrap()).unwrap();
    same(store.in_rounds(sendable(remote.all().read::<u8>())), local.all().read::<Vec<u8>>(), "limit");
    let some = remote.slice(..1000).unwrap();
    same(store.in_rounds(sendable(some.read_bytes())), local.slice(..1000).unwrap().read_bytes(), "limit");
    let some = remote.slice(..100).unwrap();
    assert_eq!(store.in_rounds(sendable(some.read_bytes())).unwrap(), vec![0; 100 << 13]);
    let frame = remote.super_chunk();
    assert!(store.in_rounds(sendable(frame.read_bytes(0..1 << 22))).is_err());
    drop(sendable(some.parts(5).next()));
    drop(sendable(frame.gather(&[1])));
    drop(sendable(frame.verify_checksums()));
}
