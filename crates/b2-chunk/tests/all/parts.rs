//! Several parts of a block, with its streams decoded once.

use b2_chunk::{Chunk, ChunkReader, CodecId, Compression, DParams, FilterSlot, SplitMode};

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
        let cparams = Compression::new()
            .itemsize(typesize)
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

/// C-Blosc2 stores the blocks of a chunk in the order in which its threads finish them.
#[test]
fn parts_of_blocks_stored_in_any_order() {
    let mut rng = b2_testkit::Rng::new(17);
    for round in 0..200 {
        let typesize = [1, 2, 4, 8][rng.below(4)];
        let raw: Vec<u8> = (0..(200 + rng.below(2000)) * typesize).map(|_| rng.below(7) as u8).collect();
        let filters = [
            vec![FilterSlot::SHUFFLE],
            vec![FilterSlot::DELTA],
            vec![FilterSlot::DELTA, FilterSlot::SHUFFLE],
            vec![FilterSlot::DELTA, FilterSlot::BITSHUFFLE],
        ];
        let cparams = Compression::new()
            .itemsize(typesize)
            .codec([CodecId::LZ4, CodecId::BLOSCLZ, CodecId::ZSTD][rng.below(3)])
            .filters(filters[round % 4].clone())
            .splitmode([SplitMode::Never, SplitMode::Always][rng.below(2)])
            .blocksize((32 + rng.below(100)) * typesize)
            .build()
            .unwrap();
        let chunk = Chunk::compress_bytes(&raw, &cparams).unwrap();
        let chunk = with_blocks_shuffled(&chunk, &mut rng);
        let dparams = DParams::default();
        assert!(chunk.decompress_bytes_with(&dparams).unwrap() == raw);
        let mut reader = ChunkReader::new(chunk.clone(), dparams.clone()).unwrap();
        for _ in 0..20 {
            let start = rng.below(raw.len());
            let range = start..start + 1 + rng.below(raw.len() - start);
            let mut dst = vec![0xA5; range.len()];
            chunk.get_bytes_into(range.start, &mut dst, &dparams).unwrap();
            assert!(dst == raw[range.clone()], "{range:?} {cparams:?}");
            dst.fill(0xA5);
            reader.read(range.start, &mut dst).unwrap();
            assert!(dst == raw[range.clone()], "by a reader {range:?} {cparams:?}");
        }
    }
}

/// The same chunk with its blocks stored in a random order.
fn with_blocks_shuffled(chunk: &Chunk, rng: &mut b2_testkit::Rng) -> Chunk {
    let lazy = chunk.lazy(&DParams::default()).unwrap();
    let bytes = chunk.as_bytes();
    let mut order: Vec<usize> = (0..lazy.nblocks()).collect();
    for k in (1..order.len()).rev() {
        order.swap(k, rng.below(k + 1));
    }
    if order.iter().any(|&nblock| lazy.block_extent(nblock).is_empty()) || chunk.header().is_memcpyed() {
        return chunk.clone();
    }
    let header_len = chunk.header().header_len();
    let tables_end = header_len + 4 * order.len();
    let mut shuffled = bytes[..tables_end].to_vec();
    for nblock in order {
        let start = shuffled.len() as u32;
        shuffled[header_len + 4 * nblock..][..4].copy_from_slice(&start.to_le_bytes());
        shuffled.extend_from_slice(&bytes[lazy.block_extent(nblock)]);
    }
    assert_eq!(shuffled.len(), bytes.len());
    Chunk::from_bytes(shuffled).unwrap()
}

#[test]
fn chunks_with_some_blocks_changed_are_as_compressed_anew() {
    let mut rng = b2_testkit::Rng::new(41);
    let (mut kept, mut created) = (0, 0);
    for round in 0..300 {
        let typesize = [1, 2, 4, 7, 8][rng.below(5)];
        let values = [2, 5, 60, 256][round % 4];
        let nbytes = (200 + rng.below(2000)) * typesize;
        let mut raw: Vec<u8> = (0..nbytes).map(|_| rng.below(values) as u8).collect();
        let filters =
            [vec![], vec![FilterSlot::SHUFFLE], vec![FilterSlot::BITSHUFFLE], vec![FilterSlot::DELTA]];
        let cparams = Compression::new()
            .itemsize(typesize)
            .codec([CodecId::LZ4, CodecId::BLOSCLZ, CodecId::ZSTD][rng.below(3)])
            .level([1, 5, 9][rng.below(3)])
            .filters(filters[rng.below(4)].clone())
            .blocksize((32 + rng.below(100)) * typesize)
            .build()
            .unwrap();
        let dparams = DParams::default();
        let chunk = Chunk::compress_bytes(&raw, &cparams).unwrap();
        let out_of_order = rng.below(2) == 0;
        let chunk = if out_of_order { with_blocks_shuffled(&chunk, &mut rng) } else { chunk };
        let lazy = chunk.lazy(&dparams).unwrap();
        let mut changed = Vec::new();
        for nblock in 0..lazy.nblocks() {
            if rng.below(4) == 0 {
                let range = lazy.block_range(nblock);
                let fill = rng.below(6);
                for byte in &mut raw[range.clone()] {
                    *byte = match fill {
                        0 => 9,
                        _ => rng.below(values) as u8,
                    };
                }
                changed.push((nblock, range));
            }
        }
        changed.reverse();
        let blocks: Vec<_> = changed.iter().map(|(nblock, range)| (*nblock, &raw[range.clone()])).collect();
        let Some(made) = chunk.with_blocks(&blocks, &cparams, &dparams).unwrap() else {
            created += 1;
            continue;
        };
        kept += 1;
        assert!(made.decompress_bytes().unwrap() == raw, "{cparams:?}");
        if !out_of_order {
            let whole = Chunk::compress_bytes(&raw, &cparams).unwrap();
            assert!(made.as_bytes() == whole.as_bytes(), "{cparams:?}");
        }
        let other = cparams.to_builder().splitmode(SplitMode::Always).codec(CodecId::ZLIB).build().unwrap();
        assert!(made.with_blocks(&blocks, &other, &dparams).unwrap().is_none());
        let short = [(0, &raw[..1])];
        assert!(made.with_blocks(&short, &cparams, &dparams).is_err());
        assert!(made.with_blocks(&[(lazy.nblocks(), &raw[..8])], &cparams, &dparams).is_err());
    }
    // Pure-Rust zstd stores more of these chunks uncompressed.
    assert!(kept > 20 && created > 50, "{kept} {created}");
}
