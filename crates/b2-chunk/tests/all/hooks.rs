//! Prefilters and postfilters are called for every block of every kind of chunk, in all ways of reading.

use std::error::Error;

use b2_chunk::{
    BlockInfo, Chunk, ChunkError, CodecId, Compression, Container, DParams, ErrorKind, FilterId, FilterSlot,
    SpecialKind,
};

/// Adds to each byte its offset in the chunk, to detect wrong offsets and blocks.
#[allow(clippy::unnecessary_wraps, reason = "a hook")]
fn add_place(info: &BlockInfo, src: &[u8], dst: &mut [u8]) -> Result<(), Box<dyn Error + Send + Sync>> {
    for (i, (d, s)) in dst.iter_mut().zip(src).enumerate() {
        *d = s.wrapping_add(((info.offset + i) % 251) as u8);
    }
    Ok(())
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
            let builder = Compression::new()
                .itemsize(4)
                .codec(CodecId::LZ4)
                .level(clevel)
                .filters(filters)
                .blocksize(10_000);
            chunks.push(Chunk::compress_bytes(raw, &builder.build().unwrap()).unwrap());
        }
    }
    chunks
}

#[track_caller]
fn check(chunk: &Chunk, plain: &[u8]) {
    let dparams = DParams::default().postfilter(add_place);
    let expected = placed(plain);
    assert!(chunk.decompress_bytes_with(&dparams).unwrap() == expected);
    for range in [0..1, 5..10_005, 9_999..30_001, plain.len() - 3..plain.len()] {
        assert!(chunk.get_bytes(range.clone(), &dparams).unwrap() == expected[range]);
    }
    // The stored bytes do not change.
    assert!(chunk.decompress_bytes().unwrap() == plain);
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
    check(&Chunk::compress_vl(&blocks, &Compression::new().itemsize(4).build().unwrap()).unwrap(), &raw);
}

#[test]
fn prefilters_change_what_is_stored() {
    let raw = raw();
    for filters in [&[FilterSlot::SHUFFLE][..], &[FilterSlot::DELTA]] {
        for clevel in [0, 5] {
            let builder = Compression::new()
                .itemsize(4)
                .level(clevel)
                .filters(filters)
                .blocksize(10_000)
                .prefilter(add_place);
            let chunk = Chunk::compress_bytes(&raw, &builder.build().unwrap()).unwrap();
            assert!(chunk.decompress_bytes().unwrap() == placed(&raw));
        }
    }
    let empty = Compression::new().itemsize(4).prefilter(add_place).build().unwrap();
    assert_eq!(Chunk::compress_bytes(&[], &empty).unwrap().nbytes(), 0);
}

#[test]
fn what_a_prefilter_makes_decides_about_special_chunks() {
    let zeros = Compression::new().itemsize(4).prefilter(|_, _, dst| {
        dst.fill(0);
        Ok(())
    });
    let zeros = zeros.build().unwrap();
    let chunk = Chunk::compress_bytes(&raw(), &zeros).unwrap();
    assert_eq!(chunk.header().special(), Some(SpecialKind::Zeros));
}

/// A hook that fails in block 3 and records the chunk indices it gets.
fn failing(info: &BlockInfo, src: &[u8], dst: &mut [u8]) -> Result<(), Box<dyn Error + Send + Sync>> {
    dst.copy_from_slice(src);
    assert_eq!((info.nchunk, info.itemsize), (None, 4));
    if info.nblock == 3 { Err("no camera".into()) } else { Ok(()) }
}

#[test]
fn hooks_that_fail_end_the_call() {
    let raw = raw();
    for chunk in chunks(&raw) {
        let dparams = DParams::default().postfilter(failing);
        let results = [
            chunk.decompress_bytes_with(&dparams).unwrap_err(),
            chunk.get_bytes(25_000..50_000, &dparams).unwrap_err(),
            chunk.get_items::<u32>(9_000..9_001, &dparams).unwrap_err(),
        ];
        for error in results {
            let ChunkError::Hook { nblock, source, .. } = &error else { panic!("{error:?}") };
            assert_eq!(
                (*nblock, source.to_string(), error.kind()),
                (3, "no camera".into(), ErrorKind::Argument)
            );
            assert_eq!(error.source().unwrap().to_string(), "no camera");
        }
        // Other blocks can be read.
        assert!(chunk.get_bytes(0..30_000, &dparams).unwrap() == raw[..30_000]);
    }
    let failing = Compression::new().itemsize(4).blocksize(10_000).prefilter(failing).build().unwrap();
    assert!(matches!(Chunk::compress_bytes(&raw, &failing), Err(ChunkError::Hook { nblock: 3, .. })));
    let stopping = Compression::new().itemsize(4).prefilter(|_, _, _| Err(b2_chunk::base::Cancelled.into()));
    let error = Chunk::compress_bytes(&raw, &stopping.build().unwrap()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
}

#[test]
fn the_item_size_of_the_container_is_told() {
    let raw = raw();
    let record = |info: &BlockInfo, src: &[u8], dst: &mut [u8]| {
        assert_eq!(info.itemsize, 500);
        dst.copy_from_slice(src);
        Ok(())
    };
    let cparams = Compression::new().itemsize(500).prefilter(record).build().unwrap();
    let chunk = Chunk::compress_bytes(&raw, &cparams).unwrap();
    let container = Container::default().itemsize(Some(500));
    let dparams = DParams::default().container(container).postfilter(record);
    assert!(chunk.decompress_bytes_with(&dparams).unwrap() == raw);
}

/// An invalid parameter from the caller is not reported as damage; the same parameter in a chunk is.
#[test]
fn a_wrong_parameter_of_a_filter_is_an_argument() {
    for slot in [
        FilterSlot::new(FilterId::TRUNC_PREC, 99),
        FilterSlot::new(FilterId::INT_TRUNC, 99),
        FilterSlot::new(FilterId::NDMEAN, 0),
        FilterSlot::new(FilterId::NDCELL, 0),
    ] {
        let cparams = Compression::new().itemsize(4).filters([slot]).blockshape([16, 16]).build();
        let made = cparams.and_then(|cparams| Chunk::compress_bytes(&[1, 2, 3, 4].repeat(256), &cparams));
        let error = made.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Argument, "{slot:?}: {error}");
    }
}
