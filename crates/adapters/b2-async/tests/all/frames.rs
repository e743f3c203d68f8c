//! All kinds of super-chunks.

use b2_async::{AsyncOptions, AsyncSuperChunk};
use b2_chunk::{Chunk, Compression, FilterSlot};
use b2_frame::{FrameParams, FrameWriter, SuperChunk};
use b2_testkit::Rng;

use crate::fixtures::{compare, same, tuning};
use crate::store::Store;

#[test]
fn bytes_and_items_read_the_same() {
    let dice = &mut Rng::new(3);
    for case in 0..80 {
        let typesize = *dice.pick(&[1, 3, 4]);
        let filters = *dice.pick(&[&[FilterSlot::SHUFFLE][..], &[FilterSlot::DELTA], &[]]);
        let cparams = Compression::new()
            .itemsize(typesize)
            .filters(filters)
            .blocksize(typesize * (1 + dice.below(300)));
        let cparams = cparams.build().unwrap();
        // Chunks of equal or of individual sizes.
        let equal = case % 2 == 0;
        let size = typesize * (1 + dice.below(900));
        let mut writer = FrameWriter::memory(FrameParams::from_cparams(&cparams)).unwrap();
        for _ in 0..dice.below(30) {
            let len = if equal { size } else { typesize * (1 + dice.below(900)) };
            let data = dice.data(len).1;
            writer.append(Chunk::compress_bytes(&data, &cparams).unwrap()).unwrap();
        }
        let bytes = writer.finish().unwrap().into_bytes();
        let options = SuperChunk::options().tuning(tuning(dice)).compare(compare(dice));
        let local = options.from_bytes(bytes.clone()).unwrap();
        let store = Store::new(bytes);
        // A single request is allowed even above the limit of bytes in flight.
        let remote = AsyncOptions::from(options).max_bytes_in_flight(*dice.pick(&[1, 1000, 1 << 20]));
        let remote = store.in_any_order(dice, AsyncSuperChunk::open_with(store.clone(), &remote)).unwrap();
        for _ in 0..8 {
            let range = dice.range(local.nbytes() as usize + 1);
            let range = range.start as u64..range.end as u64;
            let found = store.in_any_order(dice, remote.read_bytes(range.clone()));
            same(found, local.read_bytes(range.clone()), range);
            let range = dice.range(local.nitems() as usize + 2);
            let range = range.start as u64..range.end as u64;
            let found = store.in_any_order(dice, remote.read_items(range.clone()));
            same(found, local.read_items(range.clone()), range);
            let items: Vec<u64> =
                (0..dice.below(30)).map(|_| dice.below(local.nitems() as usize + 1) as u64).collect();
            let found = store.in_any_order(dice, remote.gather(&items));
            same(found, local.gather(&items), items);
        }
        same(store.in_rounds(remote.verify_checksums()), local.verify_checksums(), case);
        assert_eq!(store.flying(), 0);
    }
}

#[test]
fn a_frame_may_stand_in_a_larger_file() {
    let cparams = Compression::new().itemsize(1).build().unwrap();
    let mut writer = FrameWriter::memory(FrameParams::from_cparams(&cparams)).unwrap();
    let data = Rng::new(1).bytes(200_000);
    writer.append(Chunk::compress_bytes(&data, &cparams).unwrap()).unwrap();
    let frame = writer.finish().unwrap().into_bytes();
    let file = [&[7; 5000][..], &frame, &[8; 100_000]].concat();
    let store = Store::new(file);
    let options = SuperChunk::options().offset(5000).into();
    let remote = store.in_rounds(AsyncSuperChunk::open_with(store.clone(), &options)).unwrap();
    assert!(store.in_rounds(remote.read_bytes(0..200_000)).unwrap() == data);
    let beyond = SuperChunk::options().offset(500_000).into();
    assert!(store.in_rounds(AsyncSuperChunk::open_with(store.clone(), &beyond)).is_err());
}
