//! Chunks that C-Blosc2 writes with another block size than it encodes with (docs/format/chunk.md, section
//! 7.4), and cannot read back itself.

use b2_chunk::{Chunk, CodecId, Compression, Container, DParams, FilterSlot};
use bytes::Bytes;

fn raw(len: usize) -> Vec<u8> {
    (0..len.div_ceil(4) as u32).flat_map(|i| (i / 5 * 257).to_le_bytes()).take(len).collect()
}

/// Encoded with `encoded` bytes a block, but saying `stored`.
fn unrounded(raw: &[u8], typesize: usize, encoded: usize, stored: u32) -> Bytes {
    let cparams = Compression::new()
        .itemsize(typesize)
        .codec(CodecId::LZ4)
        .filters([FilterSlot::SHUFFLE])
        .blocksize(encoded)
        .build()
        .unwrap();
    let mut bytes = Chunk::compress_bytes(raw, &cparams).unwrap().into_bytes().to_vec();
    assert_eq!(bytes[2] & 2, 0, "stored: nothing to recover");
    bytes[8..12].copy_from_slice(&stored.to_le_bytes());
    bytes.into()
}

#[track_caller]
fn check(raw: &[u8], chunk: Bytes, container: Container) {
    let dparams = DParams::default().container(container);
    let chunk = Chunk::from_bytes(chunk).unwrap();
    assert!(chunk.decompress_bytes_with(&dparams).unwrap() == raw);
    for start in (0..raw.len()).step_by(raw.len() / 7 + 1) {
        let end = (start + 301).min(raw.len());
        assert!(chunk.get_bytes(start..end, &dparams).unwrap() == raw[start..end]);
    }
}

#[test]
fn a_block_size_that_is_no_multiple_of_the_item_size() {
    let raw = raw(40_000);
    // A different number of blocks: the block starts show it.
    check(&raw, unrounded(&raw, 24, 1008, 1010), Container::default());
    // The same number of blocks: only decoding shows it.
    let raw = &raw[..10_000];
    check(raw, unrounded(raw, 4, 3000, 3001), Container::default());
    check(raw, unrounded(raw, 12, 4992, 5000), Container::default());
}

#[test]
fn a_last_chunk_that_is_no_multiple_of_the_item_size() {
    let raw = raw(1083);
    check(&raw, unrounded(&raw, 32, 1056, 1083), Container::default());
}

#[test]
fn an_item_size_that_only_the_container_knows() {
    let raw = raw(30_000);
    let container = Container::default().itemsize(Some(300));
    check(&raw, unrounded(&raw, 1, 9900, 10_001), container);
    let container = Container::default().frame_blocksize(9900);
    check(&raw, unrounded(&raw, 1, 9900, 30_000), container);
}

#[test]
fn what_is_stored_as_encoded_is_left_alone() {
    let raw = raw(10_001);
    for (typesize, blocksize) in [(4, 3000), (4, 10_001), (300, 3000), (1, 1), (8, 8)] {
        let cparams =
            Compression::new().itemsize(typesize).codec(CodecId::LZ4).blocksize(blocksize).build().unwrap();
        let chunk = Chunk::compress_bytes(&raw, &cparams).unwrap();
        for itemsize in [None, Some(300), Some(typesize)] {
            for frame_blocksize in [0, 256, 3000, 9999] {
                let container = Container::default().itemsize(itemsize).frame_blocksize(frame_blocksize);
                check(&raw, chunk.to_bytes(), container);
            }
        }
    }
}
