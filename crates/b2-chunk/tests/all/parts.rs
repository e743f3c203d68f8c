//! Several parts of a block, with its streams decoded once.

use b2_chunk::{CParams, Chunk, CodecId, DParams, FilterSlot, SplitMode};

#[test]
fn parts_and_items_are_those_of_the_block() {
    let mut rng = b2_testkit::Rng::new(3);
    let (mut had, mut gathered) = (0, 0);
    for round in 0..300 {
        let typesize = [1, 2, 3, 4, 7, 8, 16, 24][rng.below(8)];
        let nitems = 100 + rng.below(3000);
        let raw: Vec<u8> = (0..nitems * typesize)
            .map(|i| match i % typesize {
                0 => rng.below(256) as u8,
                j => (i >> (3 * j).min(30)) as u8,
            })
            .collect();
        let filter = [FilterSlot::SHUFFLE, FilterSlot::SHUFFLE, FilterSlot::BITSHUFFLE, FilterSlot::DELTA]
            [rng.below(4)];
        let cparams = CParams::builder(typesize)
            .codec([CodecId::LZ4, CodecId::BLOSCLZ, CodecId::ZSTD][rng.below(3)])
            .level([0, 5, 5, 5][rng.below(4)])
            .filters([filter])
            .splitmode([SplitMode::Auto, SplitMode::Never, SplitMode::Always][round % 3])
            .blocksize((64 + rng.below(800)) * typesize)
            .build()
            .unwrap();
        let chunk = Chunk::compress_bytes(&raw, &cparams).unwrap();
        let dparams = DParams::default();
        let lazy = chunk.lazy(&dparams).unwrap();
        let mut decoder = lazy.decoder(&dparams).unwrap();
        for nblock in 0..lazy.nblocks() {
            let block = &raw[lazy.block_range(nblock)];
            let stored = &chunk.as_bytes()[lazy.block_extent(nblock)];
            let start = rng.below(block.len());
            let hull = start..start + 1 + rng.below(block.len() - start);
            let Some(parts) = decoder.parts(nblock, stored, hull.clone()).unwrap() else { continue };
            had += 1;
            for _ in 0..4 {
                let from = hull.start + rng.below(hull.len());
                let part = from..from + rng.below(hull.end - from + 1);
                let mut dst = vec![0xA5; part.len()];
                parts.copy(part.clone(), &mut dst, rng.below(2) == 0).unwrap();
                assert!(dst == block[part.clone()], "{part:?} of {} bytes, {cparams:?}", block.len());
            }
            assert!(parts.copy(0..block.len() + 1, &mut vec![0; block.len() + 1], false).is_err());
            // Whole items inside the hull.
            let first = hull.start.next_multiple_of(typesize);
            let step = (1 + rng.below(9)) * typesize;
            let count = hull.end.saturating_sub(first) / step;
            let mut dst = vec![0x5A; count * typesize];
            if count > 0 && parts.gather(first, step, typesize, &mut dst) {
                gathered += 1;
                for (k, item) in dst.chunks(typesize).enumerate() {
                    assert_eq!(*item, block[first + k * step..][..typesize]);
                }
            }
            assert!(!parts.gather(0, typesize, typesize + 1, &mut dst));
        }
        assert!(decoder.parts(0, &[], 0..usize::MAX).is_err());
    }
    assert!(had > 100 && gathered > 50, "{had} {gathered}");
}
