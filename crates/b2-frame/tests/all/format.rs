//! Frames byte by byte: the written format, and unusual but valid files.

use crate::common::*;
use b2_chunk::{Chunk, CodecId, Compression, FilterSlot, SpecialKind};
use b2_frame::{Entry, FrameError, FrameParams, FrameWriter, Storage, Structure, SuperChunk};
use bytes::Bytes;

/// The header of an empty super-chunk as C-Blosc2 writes it: zstd 5, automatic split, items of 1 byte, two threads.
/// Followed by the shortest trailer.
const EMPTY: &[u8] = b"\x9e\xa8b2frame\0\
    \xd2\0\0\0\x61\
    \xcf\0\0\0\0\0\0\0\x84\
    \xa4\x12\0\x55\x02\
    \xd3\0\0\0\0\0\0\0\0\xd3\0\0\0\0\0\0\0\0\
    \xd2\0\0\0\x01\xd2\0\0\0\0\xd2\xff\xff\xff\xff\
    \xd1\0\x02\xd1\0\x02\xc2\
    \xd8\x06\0\0\0\0\0\x01\x05\0\0\0\0\0\0\0\0\0\
    \x93\xcd\0\x07\xde\0\0\xdc\0\0\
    \x94\x01\x93\xcd\0\x06\xde\0\0\xdc\0\0\xce\0\0\0\x23\xd8\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

#[test]
fn the_empty_frame_is_read() {
    let schunk = SuperChunk::from_bytes(EMPTY).unwrap();
    let header = schunk.header();
    assert_eq!((schunk.layout().header.end, header.frame_len(), header.general_flags() & 0x0F), (97, 132, 2));
    assert_eq!((header.codec(), header.codec_meta(), header.level()), (CodecId::ZSTD, 0, 5));
    assert_eq!(header.splitmode(), b2_chunk::SplitMode::Auto);
    assert_eq!(header.filters()[5], FilterSlot::SHUFFLE);
    assert_eq!(header.filters()[..5], [FilterSlot::EMPTY; 5]);
    assert_eq!((header.stored_chunksize(), header.chunksize(), header.blocksize()), (-1, 0, 0));
    assert!(!header.use_dict());
    assert_eq!((schunk.nchunks(), schunk.nbytes(), schunk.cbytes(), schunk.itemsize()), (0, 0, 0, 1));
    assert_eq!(schunk.storage(), Storage::Contiguous);
    assert!(schunk.metalayers().iter().len() == 0 && schunk.vlmetalayers().iter().len() == 0);
    assert_eq!(schunk.read_bytes(0..0).unwrap(), []);
    assert!(matches!(schunk.chunk(0).read(), Err(FrameError::OutOfRange { len: 0, .. })));
}

#[test]
fn the_empty_frame_is_written() {
    let frame = bare(FrameParams::new(1)).finish().unwrap().into_bytes();
    // Equal except for the thread counts.
    assert_eq!(patched(&frame, 63, &[0, 2, 0xd1, 0, 2]), EMPTY);
}

#[test]
fn metalayers_are_laid_out_as_c_does() {
    let params = FrameParams::new(1).metalayer("ab", [9]).metalayer("c", []);
    let mut writer = bare(params);
    let value = Chunk::compress_bytes(b"v", &cparams(1)).unwrap();
    assert_eq!(value.cbytes(), 33);
    writer.set_vlmetalayer_chunk("vl", value).unwrap();
    let frame = writer.finish().unwrap().into_bytes();
    let section = b"\x93\xcd\0\x16\xde\0\x02\
        \xa2ab\xd2\0\0\0\x70\xa1c\xd2\0\0\0\x76\
        \xdc\0\x02\xc6\0\0\0\x01\x09\xc6\0\0\0\0";
    assert_eq!(&frame[87..123], section);
    assert_eq!(frame[68], 0xc3, "has vlmetalayers");
    let trailer = &frame[123..];
    assert_eq!(
        &trailer[..26],
        b"\x94\x01\x93\xcd\0\x0e\xde\0\x01\xa2vl\xd2\0\0\0\x14\xdc\0\x01\xc6\0\0\0\x21\x05"
    );
    assert_eq!(trailer.len(), 25 + 33 + 23);
    assert_eq!(trailer[trailer.len() - 23..][..5], [0xce, 0, 0, 0, 81]);

    let schunk = SuperChunk::from_bytes(frame).unwrap();
    assert_eq!(schunk.metalayers().names().collect::<Vec<_>>(), ["ab", "c"]);
    assert_eq!(schunk.metalayers().get("ab"), Some(&[9][..]));
    assert_eq!(schunk.metalayers().get("c"), Some(&[][..]));
    assert_eq!(schunk.metalayers().get("d"), None);
    assert_eq!(schunk.vlmetalayers().names().collect::<Vec<_>>(), ["vl"]);
    assert_eq!(schunk.vlmetalayers().get("vl").unwrap().unwrap(), b"v");
    assert_eq!(schunk.vlmetalayers().get("no").unwrap(), None);
}

#[test]
fn general_flags_tell_the_kinds_of_chunks() {
    let flags = |name: &str| {
        let sample = samples().into_iter().find(|sample| sample.name == name).unwrap();
        (sample.frame[25], SuperChunk::from_bytes(sample.frame).unwrap().header().stored_chunksize())
    };
    assert_eq!(flags("empty"), (0x12, -1));
    assert_eq!(flags("plain"), (0x12, 300));
    assert_eq!(flags("individual sizes"), (0x53, 0));
    assert_eq!(flags("variable-length blocks"), (0x93, 81));
    let zero_items = bare(FrameParams::new(4).chunksize(0));
    assert_eq!(zero_items.finish().unwrap().into_bytes()[25], 0x53);
    let mut vl = bare(FrameParams::new(1));
    for block in [&[1; 40][..], &[2; 50]] {
        vl.append(Chunk::compress_vl(&[block], &cparams(1)).unwrap()).unwrap();
    }
    assert_eq!(vl.finish().unwrap().into_bytes()[25], 0xd3);
}

/// Odd files that C-Blosc2 also reads: they must not be refused.
#[test]
fn odd_files_are_read() {
    let sample = &samples()[2];
    let check = |what: &str, frame: Bytes| {
        let schunk = SuperChunk::from_bytes(frame).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(whole(&schunk), sample.raw, "{what}");
        assert_eq!(schunk.metalayers().iter().len(), 2, "{what}");
        assert_eq!(schunk.vlmetalayers().get("v1").unwrap().unwrap(), data(90, 3), "{what}");
    };
    let frame = &sample.frame;
    let layout = SuperChunk::from_bytes(frame.clone()).unwrap().layout().clone();
    let trailer = layout.trailer.start as usize;
    check("unchanged", frame.clone());
    for version in [0, 1, 3] {
        check("frame version", patched(frame, 25, &[0x10 | version]));
    }
    check("offset width", patched(frame, 25, &[0x32]));
    check("flags that do not fit the chunks", patched(frame, 25, &[0xd2]));
    check("reserved bits", patched(frame, 28, &[0xfe]));
    check("reserved byte", patched(frame, 86, &[0xff]));
    check("filter slots", patched(frame, 70, &[2]));
    check("unknown filter", patched(frame, 71, &[99]));
    check("unknown codec", patched(frame, 27, &[0x56]));
    check("negative block size", patched(frame, 53, &(-8i32).to_be_bytes()));
    check("negative threads", patched(frame, 63, &[0xff, 0xff]));
    check("vlmetalayer flag", patched(frame, 68, &[0xc2]));
    check("size of the index of names", patched(frame, 89, &[0xff, 0xff]));
    let values = 87 + 7 + 2 * 6 + 7;
    assert_eq!(frame[values], 0xdc);
    check("number of values", patched(frame, values + 1, &[0, 99]));
    check("trailer version", patched(frame, trailer + 1, &[0x7f]));
    check("size of the index of vlnames", patched(frame, trailer + 4, &[0xff, 0xff]));
    // To this library, a fingerprint indicates checksums, so it can be left alone.
    let fingerprint = patched(frame, frame.len() - 17, &[3; 17]);
    assert!(matches!(
        SuperChunk::from_bytes(fingerprint.clone()),
        Err(FrameError::Checksum { structure: Structure::Checksums, .. })
    ));
    assert!(SuperChunk::options().checksums(false).from_bytes(fingerprint).is_ok());
    let slack = layout.index.end as usize;
    for len in [1, 100, 5000, 2 << 20] {
        check("bytes between index and trailer", inserted(frame, slack, &vec![0xA5; len]));
    }
}

#[test]
fn dead_space_and_any_order_of_chunks_are_read() {
    // After the header: a hole, chunk 1, a hole, chunk 0.
    let (cparams, raw) = (cparams(4), data(600, 7));
    let chunks = [compress(&raw[..300], &cparams), compress(&raw[300..], &cparams)];
    let frame = frame(&raw, 300, &cparams);
    let mut area = vec![0xEE; 11];
    let mut offsets = [0i64; 2];
    for nchunk in [1, 0] {
        offsets[nchunk] = area.len() as i64;
        area.extend_from_slice(chunks[nchunk].as_bytes());
        area.extend_from_slice(&[0xEE; 70]);
    }
    let index: Vec<u8> = offsets.iter().flat_map(|offset| offset.to_le_bytes()).collect();
    let index = Chunk::compress_bytes(
        &index,
        &Compression::new().itemsize(8).codec(CodecId::BLOSCLZ).build().unwrap(),
    )
    .unwrap();
    let layout = SuperChunk::from_bytes(frame.clone()).unwrap().layout().clone();
    let trailer = &frame[layout.trailer.start as usize..];
    let mut odd = [&frame[..97], &area, index.as_bytes(), trailer].concat();
    odd[39..47].copy_from_slice(&(area.len() as i64).to_be_bytes());
    let len = odd.len() as u64;
    odd[16..24].copy_from_slice(&len.to_be_bytes());
    let schunk = SuperChunk::from_bytes(odd).unwrap();
    assert_eq!(whole(&schunk), raw);
    assert_eq!(schunk.read_bytes(290..310).unwrap(), raw[290..310]);
}

#[test]
fn an_emptied_frame_with_stale_cbytes_is_read() {
    // C-Blosc2 keeps the old value when the last chunk is removed.
    let frame = bare(FrameParams::new(4).chunksize(400)).finish().unwrap().into_bytes();
    let schunk = SuperChunk::from_bytes(patched(&frame, 39, &123_456i64.to_be_bytes())).unwrap();
    assert_eq!((schunk.nchunks(), schunk.nbytes(), schunk.cbytes()), (0, 0, 123_456));
    assert!(schunk.layout().data.is_empty());
}

#[test]
fn chunks_that_c_refuses_are_read() {
    let (cparams, raw) = (cparams(4), data(400, 8));
    let sample = frame(&raw, 400, &cparams);
    let layout = SuperChunk::from_bytes(sample.clone()).unwrap().layout().clone();
    let tail = sample[layout.index.start as usize..].to_vec();
    let check = |chunk: &[u8], expected: &[u8]| {
        let mut odd = [&sample[..97], chunk, &tail].concat();
        odd[39..47].copy_from_slice(&(chunk.len() as i64).to_be_bytes());
        odd[30..38].copy_from_slice(&(expected.len() as i64).to_be_bytes());
        odd[58..62].copy_from_slice(&(expected.len() as i32).to_be_bytes());
        let len = odd.len() as u64;
        odd[16..24].copy_from_slice(&len.to_be_bytes());
        let schunk = SuperChunk::from_bytes(odd).unwrap();
        assert_eq!(schunk.chunk(0).decompress().unwrap(), expected);
        let end = expected.len() as u64 - 2;
        assert_eq!(schunk.read_bytes(3..end).unwrap(), expected[3..end as usize]);
        schunk
    };
    // A 16-byte header of Blosc1, with uncompressed data.
    let mut blosc1 = vec![2, 1, 0x02, 4];
    for field in [400u32, 400, 416] {
        blosc1.extend_from_slice(&field.to_le_bytes());
    }
    blosc1.extend_from_slice(&raw);
    let odd = check(&blosc1, &raw);
    // A chunk shorter than an extended header.
    let mut tiny = vec![2, 1, 0x02, 4];
    for field in [8u32, 8, 24] {
        tiny.extend_from_slice(&field.to_le_bytes());
    }
    tiny.extend_from_slice(&raw[..8]);
    check(&tiny, &raw[..8]);
    // Special chunks that are stored as chunks.
    let zeros = Chunk::special(SpecialKind::Zeros, &[], 400, 4, 0).unwrap();
    check(zeros.as_bytes(), &[0; 400]);
    let nan = Chunk::special(SpecialKind::NaN, &[], 400, 4, 0).unwrap();
    check(nan.as_bytes(), &[0, 0, 0xC0, 0x7F].repeat(100));

    // When copied into a new frame, they get a form that C-Blosc2 can read.
    let mut copy = bare(FrameParams::like(odd.header()));
    copy.append(odd.chunk(0).read().unwrap()).unwrap();
    let copy = SuperChunk::from_bytes(copy.finish().unwrap().into_bytes()).unwrap();
    assert_eq!(copy.chunk(0).read().unwrap().header().header_len(), 32);
    assert_eq!(whole(&copy), raw);
}

#[test]
fn one_special_chunk_among_individual_sizes_is_inferred() {
    // C-Blosc2 writes this but cannot read it.
    let cparams = cparams(4);
    let mut writer = bare(FrameParams::from_cparams(&cparams).chunksize(0));
    let parts = [data(100, 1), vec![0; 60], data(44, 2)];
    for part in &parts {
        writer.append(compress(part, &cparams)).unwrap();
    }
    let frame = writer.finish().unwrap().into_bytes();
    let schunk = SuperChunk::from_bytes(frame.clone()).unwrap();
    assert!(matches!(schunk.chunk(1).entry().unwrap(), Entry::Stored(_)));
    let entry = Entry::Special(SpecialKind::Zeros);
    let index = schunk.layout().index.start as usize;
    let odd = patched(&frame, index + 32 + 8, &[0, 0, 0, 0, 0, 0, 0, 0x81]);
    let schunk = SuperChunk::from_bytes(odd).unwrap();
    assert_eq!(schunk.chunk(1).entry().unwrap(), entry);
    assert_eq!(schunk.chunk(1).nbytes().unwrap(), 60);
    assert_eq!(schunk.read_bytes(0..204).unwrap(), parts.concat());
    assert_eq!(whole(&schunk), parts.concat());
    // With two of them, their sizes cannot be determined.
    let odd = patched(&frame, index + 32, &[[0, 0, 0, 0, 0, 0, 0, 0x81]; 2].concat());
    let schunk = SuperChunk::from_bytes(odd).unwrap();
    assert!(matches!(schunk.read_bytes(0..1), Err(FrameError::Field { structure: Structure::Entries, .. })));
    assert!(schunk.chunk(0).read().is_err());
    assert!(schunk.chunk(2).read().is_ok());
}

#[test]
fn chunks_may_share_their_bytes() {
    let (cparams, raw) = (cparams(4), data(300, 9));
    let frame = frame(&[raw.clone(), data(300, 10), raw[..100].to_vec()].concat(), 300, &cparams);
    let schunk = SuperChunk::from_bytes(frame.clone()).unwrap();
    let index = schunk.layout().index.start as usize;
    let schunk = SuperChunk::from_bytes(patched(&frame, index + 32 + 8, &[0; 8])).unwrap();
    let shared = [raw.clone(), raw.clone(), raw[..100].to_vec()].concat();
    assert_eq!(whole(&schunk)[..600], shared[..600]);
    assert_eq!(schunk.read_bytes(0..600).unwrap(), shared[..600]);
    assert_eq!(schunk.read_bytes(10..590).unwrap(), shared[10..590]);
    assert_eq!(schunk.read_bytes(310..320).unwrap(), shared[310..320]);
}

#[test]
fn names_are_bytes_and_the_first_of_equal_ones_counts() {
    let params = FrameParams::new(1).metalayer([0xff, b'x'], [1]).metalayer([0xff, b'y'], [2]);
    let frame = bare(params).finish().unwrap().into_bytes();
    let schunk = SuperChunk::from_bytes(frame.clone()).unwrap();
    assert_eq!(schunk.metalayers().names().collect::<Vec<_>>(), ["\u{fffd}x", "\u{fffd}y"]);
    assert_eq!(schunk.metalayers().get([0xff, b'y']), Some(&[2][..]));
    let twice = patched(&frame, 87 + 7 + 8 + 2, b"x");
    let schunk = SuperChunk::from_bytes(twice).unwrap();
    assert_eq!(schunk.metalayers().iter().len(), 1);
    assert_eq!(schunk.metalayers().get([0xff, b'x']), Some(&[1][..]));
}

#[test]
fn many_vlmetalayers_are_read() {
    let mut writer = FrameWriter::options().many_vlmetalayers(true).memory(FrameParams::new(1)).unwrap();
    for i in 0..8192 {
        writer.set_vlmetalayer(format!("v{i}"), &[i as u8]).unwrap();
    }
    assert!(writer.set_vlmetalayer("one more", b"").is_err());
    let schunk = SuperChunk::from_bytes(writer.finish().unwrap().into_bytes()).unwrap();
    assert_eq!(schunk.vlmetalayers().iter().len(), 8192);
    assert_eq!(schunk.vlmetalayers().get("v8191").unwrap().unwrap(), [255]);

    let mut writer = bare(FrameParams::new(1));
    for i in 0..16 {
        writer.set_vlmetalayer(format!("v{i}"), &[]).unwrap();
    }
    assert!(matches!(writer.set_vlmetalayer("v16", b""), Err(FrameError::Argument { .. })));
    // Setting an existing one does not count as new, and a refused one does no harm.
    writer.set_vlmetalayer("v3", b"new").unwrap();
    let schunk = SuperChunk::from_bytes(writer.finish().unwrap().into_bytes()).unwrap();
    assert_eq!(
        (schunk.vlmetalayers().iter().len(), schunk.vlmetalayers().get("v3").unwrap().unwrap()),
        (16, b"new".to_vec())
    );
}

#[test]
fn bad_parameters_are_refused() {
    let refused = |params: FrameParams| assert!(FrameWriter::memory(params).is_err());
    refused(FrameParams::new(0));
    refused(FrameParams::new(1).chunksize(usize::MAX));
    refused(FrameParams::new(1).blocksize(1 << 30));
    refused(FrameParams::new(1).metalayer("", []));
    refused(FrameParams::new(1).metalayer([b'n'; 32], []));
    refused(FrameParams::new(1).metalayer("twice", []).metalayer("twice", [1]));
    refused((0..17).fold(FrameParams::new(1), |params, i| params.metalayer([b'a' + i], [])));
    let mut writer = bare(FrameParams::new(2));
    assert!(writer.set_vlmetalayer("", b"").is_err());
    assert!(writer.append_special(SpecialKind::Value, 4).is_err());
    assert!(writer.append_special(SpecialKind::NaN, 4).is_err());
    assert!(writer.append_special(SpecialKind::Zeros, 0).is_err());
    writer.append_special(SpecialKind::Zeros, 4).unwrap();
    let vl = Chunk::compress_vl(&[b"abc"], &cparams(2)).unwrap();
    assert!(writer.append(vl).is_err());
    // None of these errors made the writer unusable.
    assert_eq!(writer.finish().unwrap().nbytes, 4);

    let mut writer = bare(FrameParams::new(2));
    writer.append(compress(b"", &cparams(2))).unwrap();
    assert!(writer.finish().is_err(), "a frame cannot tell empty chunks from none");
}
