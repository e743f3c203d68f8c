//! No result depends on the previous content of a buffer: everything is decoded into buffers with different garbage,
//! with scratch memory used by other chunks before.

use crate::common::*;
use b2kit::chunk::{CParams, ChunkReader, Compression, DParams, FilterSlot, SpecialKind};
use b2kit::frame::FrameParams;
use b2kit::{ArrayBuilder, Chunk, CodecId, Dtype, FilterId, NdArray, SuperChunk, source};

/// Fills of buffers: none is a likely byte of the data.
const RUBBISH: [u8; 2] = [0xA5, 0x5A];

/// Leaves other bytes in the scratch memory of this thread: that of split, of bitshuffled and of delta blocks.
fn soil(byte: u8) {
    thread_local! {
        static CHUNKS: std::cell::RefCell<Vec<(u8, Chunk)>> = const { std::cell::RefCell::new(Vec::new()) };
    }
    CHUNKS.with_borrow_mut(|chunks| {
        if !chunks.iter().any(|(of, _)| *of == byte) {
            let raw: Vec<u8> = (0..6000u32).map(|i| byte ^ (i % 3) as u8).collect();
            for (codec, filter) in
                [(CodecId::LZ4, FilterSlot::SHUFFLE), (CodecId::ZSTD, FilterSlot::BITSHUFFLE)]
            {
                let filters = [FilterSlot::DELTA, filter];
                let cparams =
                    Compression::new().itemsize(4).codec(codec).filters(filters).blocksize(3000).build();
                chunks.push((byte, Chunk::compress_bytes(&raw, &cparams.unwrap()).unwrap()));
            }
        }
        for (_, chunk) in chunks.iter().filter(|(of, _)| *of == byte) {
            assert_eq!(chunk.decompress_bytes().unwrap()[0], byte);
        }
    });
}

/// The same result or error, whatever the buffer held before.
#[track_caller]
fn same<E: std::fmt::Display>(len: usize, decode: impl Fn(&mut [u8]) -> Result<(), E>) -> Option<Vec<u8>> {
    let answers = RUBBISH.map(|byte| {
        soil(byte);
        let mut dst = vec![byte; len];
        decode(&mut dst).map(|()| dst).map_err(|error| error.to_string())
    });
    let [first, second] = answers;
    assert!(first == second, "{len} bytes depend on what was there");
    first.ok()
}

/// All ways to read a chunk.
fn check(bytes: &[u8]) -> Option<Vec<u8>> {
    let dparams = DParams::default();
    let chunk = Chunk::from_bytes(bytes.to_vec()).ok()?;
    let nbytes = chunk.nbytes();
    let whole = same(nbytes, |dst| chunk.decompress_bytes_into(dst, &dparams));
    for range in [0..nbytes, 1..nbytes, nbytes / 3..nbytes / 2, nbytes.saturating_sub(3)..nbytes] {
        if range.start > range.end {
            continue;
        }
        let part = same(range.len(), |dst| chunk.get_bytes_into(range.start, dst, &dparams));
        if let (Some(part), Some(whole)) = (part, &whole) {
            assert_eq!(part, whole[range.clone()]);
        }
        let reader = |dst: &mut [u8]| {
            let mut reader = ChunkReader::new(chunk.clone(), DParams::default())?;
            // The block it keeps is used the third time.
            (0..3).try_for_each(|_| reader.read(range.start, dst))
        };
        if let (Some(part), Some(whole)) = (same(range.len(), reader), &whole) {
            assert_eq!(part, whole[range]);
        }
    }
    whole
}

#[test]
fn chunks_of_every_kind() {
    let raw = data(10_003);
    for typesize in [1, 3, 4, 8] {
        for codec in [CodecId::BLOSCLZ, CodecId::LZ4, CodecId::LZ4HC, CodecId::ZLIB, CodecId::ZSTD] {
            for filters in [
                vec![],
                vec![FilterSlot::SHUFFLE],
                vec![FilterSlot::BITSHUFFLE],
                vec![FilterSlot::DELTA, FilterSlot::SHUFFLE],
                vec![FilterSlot::SHUFFLE, FilterSlot::new(FilterId::BYTEDELTA, typesize as u8)],
            ] {
                let cparams = Compression::new()
                    .itemsize(typesize)
                    .codec(codec)
                    .filters(filters)
                    .blocksize(typesize * 700);
                let chunk = Chunk::compress_bytes(&raw, &cparams.build().unwrap()).unwrap();
                assert_eq!(check(chunk.as_bytes()).unwrap(), raw);
            }
        }
    }
    let vl = Chunk::compress_vl(&[&raw[..100], &raw[..1], &raw[..5000]], &cparams(4)).unwrap();
    assert_eq!(check(vl.as_bytes()).unwrap().len(), 5101);
    let stored =
        Chunk::compress_bytes(&raw, &Compression::new().itemsize(4).level(0).build().unwrap()).unwrap();
    assert_eq!(check(stored.as_bytes()).unwrap(), raw);
}

#[test]
fn special_kinds_and_runs() {
    for nbytes in [8u32, 64, 40_000] {
        for (kind, value) in [(1, &[0][..]), (2, &[0, 0, 0xC0, 0x7F]), (4, &[0])] {
            let plain = check(&chunk(0x05, 4, nbytes, nbytes.min(512), kind << 4, b"")).unwrap();
            assert_eq!(plain, value.repeat(nbytes as usize / value.len()), "kind {kind}");
        }
        let plain = check(&chunk(0x05, 4, nbytes, nbytes, 3 << 4, b"abcdefgh")).unwrap();
        assert_eq!(plain, b"abcdefgh".repeat(nbytes as usize / 8));
    }
    // Zero runs and runs of a byte, split and not, after each filter.
    for filter in [0, 1, 2, 3, 4, 35] {
        let blocks =
            [&40u32.to_le_bytes()[..], &44u32.to_le_bytes(), &[0; 4], &(-7i32).to_le_bytes(), &[1]].concat();
        let mut runs = chunk(0x15, 4, 120, 64, 0, &blocks);
        runs[0x15] = filter;
        runs[0x1D] = if filter == 35 { 4 } else { 0 };
        check(&runs).unwrap();
    }
}

/// Streams that are too short, filters with unsuitable parameters: errors or not, but never garbage.
#[test]
fn damaged_chunks() {
    let raw = data(3000);
    for (codec, filters) in [
        (CodecId::LZ4, vec![FilterSlot::SHUFFLE]),
        (CodecId::BLOSCLZ, vec![FilterSlot::DELTA, FilterSlot::BITSHUFFLE]),
        (CodecId::ZSTD, vec![FilterSlot::SHUFFLE, FilterSlot::new(FilterId::BYTEDELTA, 4)]),
    ] {
        let cparams =
            Compression::new().itemsize(4).codec(codec).filters(filters).blocksize(1000).build().unwrap();
        let stored = Chunk::compress_bytes(&raw, &cparams).unwrap().into_bytes();
        for at in (0..stored.len()).filter(|at| *at < 64 || at % 7 == 0) {
            for value in [0, 1, 0x7F, 0xFF, stored[at] ^ 4] {
                let odd = patched(&stored, at, &[value]);
                let Ok(chunk) = Chunk::from_bytes(odd.clone()) else { continue };
                if chunk.nbytes() <= 1 << 20 {
                    let dparams = DParams::default();
                    same(chunk.nbytes(), |dst| chunk.decompress_bytes_into(dst, &dparams));
                    same(chunk.nbytes() / 2, |dst| chunk.get_bytes_into(chunk.nbytes() / 3, dst, &dparams));
                }
            }
        }
    }
}

#[test]
fn frames_and_items() {
    let params = || FrameParams::from_cparams(&cparams(4));
    let raw = data(1100);
    let mut writer = b2kit::FrameWriter::memory(params().chunksize(400)).unwrap();
    writer.append_special(SpecialKind::Uninit, 400).unwrap();
    writer.append_special(SpecialKind::NaN, 400).unwrap();
    writer.append_special(SpecialKind::Zeros, 400).unwrap();
    for part in raw.chunks(400) {
        writer.append(Chunk::compress_bytes(part, &cparams(4)).unwrap()).unwrap();
    }
    let schunk = SuperChunk::from_bytes(writer.finish().unwrap().into_bytes()).unwrap();
    let nan = [0, 0, 0xC0, 0x7F].repeat(100);
    let expected = [vec![0; 400], nan, vec![0; 400], raw].concat();
    for range in [0..2300, 3..797, 399..402, 790..1210, 2290..2300] {
        let plain = same(range.len(), |dst| schunk.read_bytes_into(range.start as u64, dst)).unwrap();
        assert_eq!(plain, expected[range]);
    }
    for nchunk in 0..schunk.nchunks() {
        let nbytes = schunk.chunk(nchunk).nbytes().unwrap() as usize;
        let plain = same(nbytes, |dst| schunk.chunk(nchunk).decompress_into(dst)).unwrap();
        assert_eq!(plain, expected[nchunk * 400..][..nbytes]);
    }
}

/// Edges, padding, blocks that are covered in part, chunks that were never written.
#[test]
fn slices_of_arrays() {
    let shape = [13u64, 11, 9];
    let raw = data(13 * 11 * 9 * 4);
    let build = |cparams: CParams| {
        let builder = ArrayBuilder::of_dtype(shape, Dtype::parse("<i4").unwrap());
        builder.compression(cparams).chunks([6, 5, 9]).blocks([4, 2, 4]).to_bytes(&raw[..]).unwrap()
    };
    let filters = [vec![FilterSlot::SHUFFLE], vec![FilterSlot::DELTA, FilterSlot::SHUFFLE], vec![]];
    let mut arrays: Vec<_> = filters
        .into_iter()
        .map(|filters| build(Compression::new().itemsize(4).filters(filters).build().unwrap()))
        .map(|frame| (NdArray::from_bytes(frame).unwrap(), raw.clone()))
        .collect();
    let builder = ArrayBuilder::of_dtype(shape, Dtype::parse("<i4").unwrap()).chunks([6, 5, 9]);
    let uninit = builder.to_bytes(source::uninit()).unwrap();
    arrays.push((NdArray::from_bytes(uninit).unwrap(), vec![0; raw.len()]));
    for (array, raw) in arrays {
        assert_eq!(same(raw.len(), |dst| array.all().read_bytes_into(dst)).unwrap(), raw);
        for (z, y, x) in
            [(0..13, 0..11, 8..9), (5..7, 4..6, 3..5), (12..13, 10..11, 0..9), (2..2, 0..1, 0..1)]
        {
            let slice = array.slice([z.clone(), y.clone(), x.clone()]).unwrap();
            let plain = same(slice.nbytes() as usize, |dst| slice.read_bytes_into(dst)).unwrap();
            let mut expected = Vec::new();
            for z in z {
                for y in y.clone() {
                    let row = ((z * 11 + y) * 9) as usize * 4;
                    expected.extend(&raw[row + x.start as usize * 4..row + x.end as usize * 4]);
                }
            }
            assert_eq!(plain, expected);
        }
    }
}
