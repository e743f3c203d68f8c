//! Prefilters and postfilters see every block, whatever kind the chunk is of and however it is read.

use b2_chunk::{BlockInfo, CParams, Chunk, CodecId, DParams, FilterSlot, SpecialKind};

/// Adds the place of each byte in the chunk: a wrong offset or block would show.
fn add_place(info: &BlockInfo, src: &[u8], dst: &mut [u8]) {
    for (i, (d, s)) in dst.iter_mut().zip(src).enumerate() {
        *d = s.wrapping_add(((info.offset + i) % 251) as u8);
    }
}

fn placed(raw: &[u8]) -> Vec<u8> {
    raw.iter().enumerate().map(|(i, b)| b.wrapping_add((i % 251) as u8)).collect()
}

fn raw() -> Vec<u8> {
    (0..200_000u32).flat_map(|i| (i / 7).to_le_bytes()).collect()
}

fn chunks(raw: &[u8]) -> Vec<Chunk> {
    let mut chunks = Vec::new();
    for filters in [&[FilterSlot::SHUFFLE][..], &[], &[FilterSlot::DELTA, FilterSlot::SHUFFLE]] {
        for clevel in [0, 5] {
            let builder =
                CParams::builder(4).codec(CodecId::LZ4).clevel(clevel).filters(filters).blocksize(10_000);
            chunks.push(Chunk::compress(raw, &builder.build().unwrap()).unwrap());
        }
    }
    chunks
}

#[track_caller]
fn check(chunk: &Chunk, plain: &[u8]) {
    let dparams = DParams::default().with_postfilter(add_place);
    let expected = placed(plain);
    assert!(chunk.decompress_with(&dparams).unwrap() == expected);
    for range in [0..1, 5..10_005, 9_999..30_001, plain.len() - 3..plain.len()] {
        assert!(chunk.get_bytes(range.clone(), &dparams).unwrap() == expected[range]);
    }
    // What is stored stays.
    assert!(chunk.decompress().unwrap() == plain);
}

#[test]
fn postfilters_change_what_is_read() {
    let raw = raw();
    for chunk in chunks(&raw) {
        check(&chunk, &raw);
    }
    check(&Chunk::special(SpecialKind::Zeros, &[], 100_000, 4, 8_000).unwrap(), &[0; 100_000]);
    check(&Chunk::special(SpecialKind::Value, b"abcd", 100_000, 4, 8_000).unwrap(), &b"abcd".repeat(25_000));
    let blocks: Vec<&[u8]> = raw.chunks(12_345).collect();
    check(&Chunk::compress_vl(&blocks, &CParams::builder(4).build().unwrap()).unwrap(), &raw);
}

#[test]
fn prefilters_change_what_is_stored() {
    let raw = raw();
    for filters in [&[FilterSlot::SHUFFLE][..], &[FilterSlot::DELTA]] {
        for clevel in [0, 5] {
            let builder =
                CParams::builder(4).clevel(clevel).filters(filters).blocksize(10_000).prefilter(add_place);
            let chunk = Chunk::compress(&raw, &builder.build().unwrap()).unwrap();
            assert!(chunk.decompress().unwrap() == placed(&raw));
        }
    }
    let empty = CParams::builder(4).prefilter(add_place).build().unwrap();
    assert_eq!(Chunk::compress(&[], &empty).unwrap().nbytes(), 0);
}

#[test]
fn what_a_prefilter_makes_decides_about_special_chunks() {
    let zeros = CParams::builder(4).prefilter(|_, _, dst| dst.fill(0)).build().unwrap();
    let chunk = Chunk::compress(&raw(), &zeros).unwrap();
    assert_eq!(chunk.header().special(), Some(SpecialKind::Zeros));
}
