//! Third-party codecs and filters: the chunk code relies only on their declared properties.

mod codec;
mod codecs;
mod filter;
mod filters;

use b2_chunk::{Chunk, Compression, DParams, Plugins};

/// Items of 4 bytes that compress a little.
fn items(n: u32) -> Vec<u8> {
    (0..n).flat_map(|i| (i / 3 + (i.wrapping_mul(0x9E37_79B9) >> 29)).to_le_bytes()).collect()
}

/// Compresses, and reads the whole and parts of it back.
#[track_caller]
fn round_trip(plain: &[u8], builder: Compression, plugins: &Plugins) -> Chunk {
    let chunk = Chunk::compress_bytes(plain, &builder.plugins(plugins.clone()).build().unwrap()).unwrap();
    reads_as(&chunk, plain, plugins);
    chunk
}

#[track_caller]
fn reads_as(chunk: &Chunk, plain: &[u8], plugins: &Plugins) {
    let dparams = DParams::default().plugins(plugins.clone());
    assert!(chunk.decompress_bytes_with(&dparams).unwrap() == plain);
    let len = plain.len();
    for range in [0..1, 4..8, 13..14, len / 2..len / 2 + 50, len / 3..len - 1, len - 4..len] {
        assert!(chunk.get_bytes(range.clone(), &dparams).unwrap() == plain[range.clone()], "{range:?}");
    }
    // Many parts of one block.
    let lazy = chunk.lazy(&dparams).unwrap();
    let mut decoder = lazy.decoder(&dparams).unwrap();
    for nblock in 0..lazy.nblocks() {
        let (block, stored) = (lazy.block_range(nblock), &chunk.as_bytes()[lazy.block_extent(nblock)]);
        let hull = block.len() / 4..block.len() / 2;
        let Some(parts) = decoder.parts(nblock, stored, hull.clone()).unwrap() else { continue };
        for part in [hull.clone(), hull.start..hull.start + 1, hull.start + 3..hull.end - 2] {
            let mut dst = vec![0; part.len()];
            parts.copy(part.clone(), &mut dst, false).unwrap();
            assert!(dst == plain[block.start + part.start..block.start + part.end], "{nblock} {part:?}");
        }
        let mut every_other = vec![0; hull.len() / 8 * 4];
        if parts.gather(hull.start & !3, 8, 4, &mut every_other) {
            let expected = plain[block.start + (hull.start & !3)..].chunks(8).flat_map(|pair| &pair[..4]);
            assert!(every_other.iter().eq(expected.take(every_other.len())));
        }
    }
}
