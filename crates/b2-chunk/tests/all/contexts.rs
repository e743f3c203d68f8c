//! Compressors and decompressors used for many chunks, and state that threads reuse from chunk to chunk.

use b2_chunk::{
    CParams, Chunk, ChunkRef, CodecId, Compression, Compressor, DParams, Decompressor, FilterId, Limits,
    SpecialKind,
};
use b2_testkit::Rng;
use b2_testkit::hostile::flipped;

fn data(len: usize, seed: u64) -> Vec<u8> {
    let mut random = Rng::new(seed);
    let mut value = 0u32;
    let items = std::iter::repeat_with(|| {
        value = value.wrapping_add((random.next() % 9) as u32);
        value.to_le_bytes()
    });
    items.flatten().take(len).collect()
}

/// Parameters that differ in all reused state: codec, level, item size, filters, blocks.
fn parameters() -> Vec<CParams> {
    let mut all = Vec::new();
    for codec in [CodecId::BLOSCLZ, CodecId::LZ4, CodecId::LZ4HC, CodecId::ZSTD] {
        for (typesize, blocksize) in [(1, 0), (2, 0), (4, 0), (4, 512), (8, 0), (12, 0), (24, 480)] {
            for filter in [None, Some(FilterId::SHUFFLE), Some(FilterId::BITSHUFFLE), Some(FilterId::DELTA)] {
                let mut params =
                    Compression::new().itemsize(typesize).codec(codec).blocksize(blocksize).no_filters();
                if let Some(filter) = filter {
                    params = params.filter(filter);
                }
                all.push(params.level(if typesize == 2 { 9 } else { 5 }).build().unwrap());
            }
        }
    }
    all
}

/// Decompresses in a new thread, which has no state to reuse.
fn fresh<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    std::thread::scope(|scope| scope.spawn(work).join().unwrap())
}

#[test]
fn nothing_of_earlier_chunks_shows() {
    let parameters = parameters();
    let mut random = Rng::new(5);
    let mut decompressor = Decompressor::new(DParams::default());
    for cparams in &parameters {
        let mut compressor = Compressor::new(cparams.clone());
        for round in 0..5 {
            let len = [1000, 1000, 4096, 31, 70_001][round];
            let src = data(len, random.next());
            let expected = fresh(|| Chunk::compress_bytes(&src, cparams).unwrap());
            let mut room = vec![0xCC; len + 32];
            let used = compressor.compress_into(&src, &mut room).unwrap();
            assert!(room[..used] == *expected.as_bytes(), "{cparams:?} {round}");
            // Reused by this thread, for alternating parameters.
            let other = &parameters[random.below(parameters.len())];
            for cparams in [other, cparams] {
                let stored = Chunk::compress_bytes(&src, cparams).unwrap();
                let mut plain = vec![0x33; len + 7];
                assert_eq!(decompressor.decompress_into(stored.as_bytes(), &mut plain).unwrap(), len);
                assert!(plain[..len] == src && plain[len..] == [0x33; 7], "{cparams:?} {round}");
                assert!(stored.decompress_bytes().unwrap() == src, "{cparams:?} {round}");
            }
        }
    }
}

#[test]
fn damage_is_found_as_without_a_context() {
    let dparams = DParams::default();
    for cparams in parameters().iter().step_by(3) {
        let chunk = Chunk::compress_bytes(&data(1000, 7), cparams).unwrap();
        let mut decompressor = Decompressor::new(dparams.clone());
        let mut plain = vec![0; 1000];
        for at in 0..chunk.cbytes() {
            // The reused state is that of an intact chunk before each damaged one.
            decompressor.decompress_into(chunk.as_bytes(), &mut plain).unwrap();
            let damaged = flipped(chunk.as_bytes(), 8 * at + at % 8);
            let nbytes = ChunkRef::from_slice(&damaged).map_or(0, |chunk| chunk.nbytes());
            if nbytes > 100_000 {
                continue;
            }
            let alone = fresh(|| {
                let mut plain = vec![0; nbytes];
                let chunk = ChunkRef::from_slice(&damaged)?;
                chunk.decompress_bytes_into(&mut plain, &dparams).map(|()| plain)
            });
            let mut plain = vec![0; nbytes];
            let kept = decompressor.decompress_into(&damaged, &mut plain).map(|_| plain);
            let text =
                |result: Result<Vec<u8>, b2_chunk::ChunkError>| result.map_err(|error| error.to_string());
            assert_eq!(text(kept), text(alone), "{cparams:?} {at}");
        }
    }
}

#[test]
fn limits_hold_also_for_known_layouts() {
    let chunk =
        Chunk::compress_bytes(&data(4000, 1), &Compression::new().itemsize(4).build().unwrap()).unwrap();
    let mut plain = vec![0; 4000];
    chunk.decompress_bytes_into(&mut plain, &DParams::default()).unwrap();
    for limits in [Limits::default().max_chunk_nbytes(3999), Limits::default().max_memory(100)] {
        let dparams = DParams::default().limits(limits);
        assert!(chunk.decompress_bytes_into(&mut plain, &dparams).is_err());
        assert!(Decompressor::new(dparams).decompress_into(chunk.as_bytes(), &mut plain).is_err());
    }
}

#[test]
fn buffers_that_are_too_short() {
    let cparams = Compression::new().itemsize(4).build().unwrap();
    let chunk = Chunk::compress_bytes(&data(4000, 1), &cparams).unwrap();
    let zeros = Chunk::special(SpecialKind::Zeros, &[], 4000, 4, 0).unwrap();
    let mut decompressor = Decompressor::new(DParams::default());
    for chunk in [&chunk, &zeros] {
        assert!(decompressor.decompress_into(chunk.as_bytes(), &mut [0; 3999]).is_err());
        assert!(
            decompressor.decompress_into(&chunk.as_bytes()[..chunk.cbytes() - 1], &mut [0; 4000]).is_err()
        );
        assert_eq!(decompressor.decompress_into(chunk.as_bytes(), &mut [0; 4000]).unwrap(), 4000);
    }
    assert!(Compressor::new(cparams).compress_into(&[1; 100], &mut [0; 131]).is_err());
}
