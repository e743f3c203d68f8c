//! Odd files, one test for each decision that `docs/format/limits-and-hostile-input.md` lists and no other test covers.

use crate::common::*;
use b2kit::chunk::{Compression, SpecialKind};
use b2kit::frame::{Entry, FrameParams, Storage};
use b2kit::nd::ArrayMeta;
use b2kit::{Chunk, NdArray, SuperChunk};

fn plain(bytes: Vec<u8>) -> Result<Vec<u8>, b2kit::chunk::ChunkError> {
    Chunk::from_bytes(bytes)?.decompress_bytes()
}

#[test]
fn another_magic_or_marker_is_no_frame() {
    let frame = frame();
    for at in 0..10 {
        assert!(SuperChunk::from_bytes(patched(&frame, at, &[frame[at] ^ 1])).is_err(), "magic, byte {at}");
    }
    for at in [10, 15, 24, 29, 38, 47, 52, 57, 62, 65, 68, 69] {
        let error =
            b2kit::Report(&SuperChunk::from_bytes(patched(&frame, at, &[0xC1])).unwrap_err()).to_string();
        assert!(error.contains(&format!("byte {at}:")) && error.contains("expected"), "{error}");
    }
}

#[test]
fn payload_of_special_and_empty_chunks_is_ignored() {
    let junk = b"there is nothing to see here";
    for (kind, value) in [(1, &[0][..]), (2, &[0, 0, 0xC0, 0x7F]), (4, &[0])] {
        let odd = chunk(0x05, 4, 64, 64, kind << 4, junk);
        assert_eq!(plain(odd.clone()).unwrap(), value.repeat(64 / value.len()), "kind {kind}");
        let odd = around(&odd, 64, 4);
        assert_eq!(whole(&odd).unwrap(), value.repeat(64 / value.len()), "kind {kind} in a frame");
        let found = SuperChunk::from_bytes(odd).unwrap().cross_check(false).unwrap();
        assert_eq!((found.damage.len(), found.odd.len()), (0, 1));
    }
    assert_eq!(plain(chunk(0x05, 4, 0, 1, 0, junk)).unwrap(), []);
    assert_eq!(plain(chunk(0x05, 4, 0, 1, 1 << 4, junk)).unwrap(), []);
}

#[test]
fn a_special_kind_wins_over_memcpyed_if_the_sizes_agree() {
    assert_eq!(plain(chunk(0x07, 4, 8, 8, 1 << 4, &[9; 8])).unwrap(), [0; 8]);
    assert_eq!(plain(chunk(0x07, 4, 8, 8, 2 << 4, &[9; 8])).unwrap(), [0, 0, 0xC0, 0x7F, 0, 0, 0xC0, 0x7F]);
    for len in [0, 7, 9] {
        assert!(plain(chunk(0x07, 4, 8, 8, 1 << 4, &vec![9; len])).is_err(), "{len} bytes of payload");
        assert!(plain(chunk(0x07, 4, 8, 8, 0, &vec![9; len])).is_err(), "{len} bytes of payload");
    }
}

#[test]
fn the_lazy_bit_is_refused_but_with_a_special_kind() {
    assert!(plain(chunk(0x07, 1, 4, 4, 0x08, b"data")).is_err());
    assert_eq!(plain(chunk(0x05, 1, 4, 4, 0x18, b"")).unwrap(), [0; 4]);
}

#[test]
fn any_version_of_chunk_and_codec_is_read() {
    let raw = data(4000);
    let stored = Chunk::compress_bytes(&raw, &cparams(4)).unwrap().into_bytes();
    for version in (0..=255).filter(|version| *version != 3) {
        assert_eq!(plain(patched(&stored, 0, &[version])).unwrap(), raw, "version {version}");
    }
    for versionlz in [0, 2, 255] {
        assert_eq!(plain(patched(&stored, 1, &[versionlz])).unwrap(), raw);
    }
}

#[test]
fn streams_that_end_behind_the_chunk_are_refused() {
    let stored = Chunk::compress_bytes(&data(4000), &cparams(4)).unwrap().into_bytes();
    let cbytes = stored.len() as u32;
    for less in [1, 2, 5, 30] {
        // All bytes are there, but do not belong to the chunk.
        assert!(plain(patched(&stored, 12, &(cbytes - less).to_le_bytes())).is_err());
    }
    assert!(plain(patched(&stored, 12, &(cbytes + 1).to_le_bytes())).is_err());
}

#[test]
fn split_blocks_are_whole_items() {
    // One block of 10 bytes in 4 streams: C-Blosc2 leaves the last 2 undefined.
    let run = [&36u32.to_le_bytes()[..], &(-7i32).to_le_bytes(), &[1]].concat();
    assert_eq!(plain(chunk(0x05 | 0x10, 4, 10, 10, 0, &run)).unwrap(), [7; 10]);
    let runs =
        [&36u32.to_le_bytes()[..], &[(-7i32).to_le_bytes().as_slice(), &[1]].concat().repeat(4)].concat();
    assert!(plain(chunk(0x05, 4, 10, 10, 0, &runs)).is_err());
    assert_eq!(plain(chunk(0x05, 4, 12, 12, 0, &runs)).unwrap(), [7; 12]);
}

#[test]
fn vlmetalayers_are_any_kind_of_chunk() {
    let mut blosc1 = vec![2, 1, 0x02, 1];
    for field in [5u32, 5, 21] {
        blosc1.extend(field.to_le_bytes());
    }
    blosc1.extend(b"hello");
    let value = chunk(0x05, 1, 6, 6, 3 << 4, b"ab");
    for (stored, expected) in [
        (blosc1, &b"hello"[..]),
        (value, b"ababab"),
        (chunk(0x05, 1, 3, 3, 1 << 4, b""), &[0; 3]),
        (chunk(0x05, 1, 3, 3, 4 << 4, b""), &[0; 3]),
    ] {
        let params = FrameParams::from_cparams(&cparams(1));
        let mut writer = b2kit::FrameWriter::options().checksums(false).memory(params).unwrap();
        writer.set_vlmetalayer_chunk("v", Chunk::from_bytes(stored).unwrap()).unwrap();
        let schunk = SuperChunk::from_bytes(writer.finish().unwrap().into_bytes()).unwrap();
        assert_eq!(schunk.vlmetalayers().get("v").unwrap().unwrap(), expected);
    }
}

#[test]
fn the_index_may_be_any_chunk_that_tells_offsets() {
    let frame = frame();
    let raw = whole(&frame).unwrap();
    let entries: Vec<u8> = {
        let start = SuperChunk::from_bytes(frame.clone()).unwrap().layout().data.start;
        places(&frame).into_iter().flat_map(|at| (at as u64 - start).to_le_bytes()).collect()
    };
    for typesize in [1, 2, 3, 8, 16, 24, 255] {
        for clevel in [0, 5] {
            let cparams = Compression::new().itemsize(typesize).level(clevel).build().unwrap();
            let index = Chunk::compress_bytes(&entries, &cparams).unwrap();
            assert_eq!(
                whole(&with_index(&frame, index.as_bytes())).unwrap(),
                raw,
                "items of {typesize} bytes"
            );
        }
    }
    let mut blosc1 = vec![2, 1, 0x02, 8];
    for field in [24u32, 24, 40] {
        blosc1.extend(field.to_le_bytes());
    }
    blosc1.extend(&entries);
    assert_eq!(whole(&with_index(&frame, &blosc1)).unwrap(), raw);
    // All at offset 0.
    let zeros = with_index(&frame, &chunk(0x05, 8, 24, 24, 1 << 4, b""));
    assert_eq!(whole(&zeros).unwrap(), raw[..400].repeat(3));
    assert!(!SuperChunk::from_bytes(zeros).unwrap().cross_check(false).unwrap().odd.is_empty());
    // Offsets that cannot be determined, or that are inconsistent.
    for (kind, body) in [(4, &b""[..]), (1, &entries[..])] {
        let odd = with_index(&frame, &chunk(0x05, 8, 24, 24, kind << 4, body));
        let error = SuperChunk::from_bytes(odd).unwrap_err().to_string();
        assert!(error.starts_with("index chunk field"), "{error}");
    }
}

#[test]
fn special_entries_are_told_by_their_first_byte() {
    let params = FrameParams::from_cparams(&cparams(4)).chunksize(400);
    let mut writer = b2kit::FrameWriter::options().checksums(false).memory(params).unwrap();
    for kind in [SpecialKind::Zeros, SpecialKind::NaN, SpecialKind::Uninit] {
        writer.append_special(kind, 400).unwrap();
    }
    let frame = writer.finish().unwrap().into_bytes();
    let index = SuperChunk::from_bytes(frame.clone()).unwrap().layout().index.start as usize + 32;
    let check = |at: usize, byte: u8, kind: Option<SpecialKind>| {
        let schunk = SuperChunk::from_bytes(patched(&frame, index + at, &[byte])).unwrap();
        let entry = schunk.chunk(at / 8).entry().ok();
        assert_eq!(entry, kind.map(Entry::Special), "byte {at} is {byte:#x}");
        schunk
    };
    check(7, 0x81, Some(SpecialKind::Zeros));
    for (byte, kind) in [(0x83, SpecialKind::Zeros), (0xFF, SpecialKind::Zeros), (0x86, SpecialKind::Uninit)]
    {
        let schunk = check(7, byte, Some(kind));
        assert_eq!(schunk.cross_check(false).unwrap().odd.len(), 1);
    }
    let schunk = check(0, 1, Some(SpecialKind::Zeros));
    assert_eq!(schunk.cross_check(true).unwrap().odd.len(), 1);
    check(7, 0x80, None);
    check(7, 0x88, None);
}

#[test]
fn special_entries_of_odd_sizes() {
    // A last chunk of 3 bytes in a frame with items of 4: C-Blosc2 writes it, and cannot read it.
    let params = FrameParams::from_cparams(&cparams(4)).chunksize(400);
    let mut writer = b2kit::FrameWriter::options().checksums(false).memory(params).unwrap();
    writer.append_special(SpecialKind::Zeros, 400).unwrap();
    writer.append_special(SpecialKind::Zeros, 400).unwrap();
    let frame = patched(&writer.finish().unwrap().into_bytes(), 30, &403u64.to_be_bytes());
    assert_eq!(whole(&frame).unwrap(), [0; 403]);
    let index = SuperChunk::from_bytes(frame.clone()).unwrap().layout().index.start as usize;
    // One value for all chunks.
    let uninit = patched(&frame, index + 39, &[0x84]);
    assert_eq!(whole(&uninit).unwrap(), [0; 403]);
    assert_eq!(SuperChunk::from_bytes(uninit).unwrap().chunk(1).decompress().unwrap(), [0; 3]);
    let nan = SuperChunk::from_bytes(patched(&frame, index + 39, &[0x82])).unwrap();
    assert!(nan.chunk(0).decompress().is_ok());
    assert!(nan.chunk(1).decompress().is_err());
    assert!(nan.read_bytes(0..403).is_err());
    // And with items of 3 bytes.
    let items = patched(&patched(&frame, index + 39, &[0x82]), 48, &3i32.to_be_bytes());
    assert!(whole(&items).is_err());
}

#[test]
fn instrumented_chunks_give_their_records() {
    let records = data(32);
    let odd = chunk(0x17, 4, 32, 16, 0x80, &records);
    assert_eq!(plain(odd.clone()).unwrap(), records);
    let frame = around(&odd, 32, 4);
    assert_eq!(whole(&frame).unwrap(), records);
    let schunk = SuperChunk::from_bytes(frame).unwrap();
    assert!(schunk.cross_check(false).unwrap().damage.is_empty());
    assert!(!schunk.cross_check(true).unwrap().damage.is_empty(), "not in an array");
    // The flipped bit does not match the block size.
    let frame = around(&chunk(0x17, 4, 32, 32, 0x80, &records), 32, 4);
    assert!(!SuperChunk::from_bytes(frame).unwrap().cross_check(false).unwrap().damage.is_empty());
}

#[test]
fn chunks_have_the_size_that_the_frame_says() {
    let frame = frame();
    for (at, chunksize, nbytes) in [(58, 396i32, 1200u64), (58, 404, 1200), (58, 400, 1204), (58, 400, 1196)]
    {
        let odd = patched(&patched(&frame, at, &chunksize.to_be_bytes()), 30, &nbytes.to_be_bytes());
        assert!(whole(&odd).is_err(), "chunks of {chunksize} in {nbytes} bytes");
    }
    // Individual sizes: their sum counts.
    let odd = patched(&frame, 58, &0i32.to_be_bytes());
    assert_eq!(whole(&odd).unwrap().len(), 1200);
    for nbytes in [1199u64, 1201, 400] {
        assert!(whole(&patched(&odd, 30, &nbytes.to_be_bytes())).is_err(), "{nbytes}");
    }
}

#[test]
fn chunks_of_another_item_size_are_read() {
    let raw = data(1200);
    let chunks = raw
        .chunks(400)
        .zip([4, 8, 4])
        .map(|(part, typesize)| Chunk::compress_bytes(part, &cparams(typesize)).unwrap());
    // The writer would make them fit.
    let mut frame = frame_of(chunks.clone(), FrameParams::from_cparams(&cparams(4)));
    assert_eq!(whole(&frame).unwrap(), raw);
    let place = places(&frame)[1];
    assert_eq!(frame[place + 3], 4);
    frame = patched(&frame, 48, &8i32.to_be_bytes());
    assert_eq!(whole(&frame).unwrap(), raw);
    let found = SuperChunk::from_bytes(frame).unwrap().cross_check(false).unwrap();
    assert_eq!((found.damage.len(), found.odd.len()), (0, 3));
}

#[test]
fn blocks_of_an_array_need_not_be_those_of_its_chunks() {
    let array = array();
    let expected = NdArray::from_bytes(array.clone()).unwrap().all().read_bytes().unwrap();
    let schunk = SuperChunk::from_bytes(array.clone()).unwrap();
    let other = Compression::new().itemsize(4).blocksize(52).build().unwrap();
    let chunks =
        (0..12).map(|n| Chunk::compress_bytes(&schunk.chunk(n).decompress().unwrap(), &other).unwrap());
    let meta = schunk.metalayers().get("b2nd").unwrap();
    let params = FrameParams::from_cparams(&cparams(4)).chunksize(256).metalayer("b2nd", meta);
    let odd = NdArray::from_bytes(frame_of(chunks, params)).unwrap();
    assert_ne!(odd.super_chunk().chunk(0).read().unwrap().header().blocksize(), 128);
    assert_eq!(odd.all().read_bytes().unwrap(), expected);
    assert_eq!(odd.slice([3..9, 5..17]).unwrap().read_bytes().unwrap().len(), 6 * 12 * 4);
}

#[test]
fn array_metalayers_that_do_not_fit_are_refused() {
    let array = array();
    let schunk = SuperChunk::from_bytes(array.clone()).unwrap();
    let stored = schunk.metalayers().get("b2nd").unwrap();
    let at = array.windows(stored.len()).position(|window| window == stored).unwrap();
    let meta = ArrayMeta::parse("b2nd", stored).unwrap();
    let open = |meta: &ArrayMeta| NdArray::from_bytes(patched(&array, at, &meta.to_bytes()));
    let with = |change: fn(&mut ArrayMeta)| {
        let mut meta = meta.clone();
        change(&mut meta);
        open(&meta)
    };
    let refused = |array: Result<NdArray, b2kit::nd::NdError>, says: &str| {
        let error = array.unwrap_err().to_string();
        assert!(error.starts_with(says), "{error}");
    };
    assert!(open(&meta).is_ok());
    refused(with(|m| m.shape[0] = 33), "metalayer `b2nd` field `shape` at byte 5:");
    refused(with(|m| m.shape[0] = 24), "metalayer `b2nd` field `shape` at byte 5:");
    refused(with(|m| m.chunkshape[1] = 9), "metalayer `b2nd` field `chunkshape` at byte 24:");
    refused(with(|m| m.chunkshape[1] = 0), "metalayer `b2nd` field `chunkshape` at byte 29:");
    refused(with(|m| m.blockshape[0] = 5), "metalayer `b2nd` field `chunkshape` at byte 24:");
    refused(with(|m| m.blockshape[1] = 1 << 30), "metalayer `b2nd` field `chunkshape` at byte 29:");
    // Other versions and dtype formats are accepted, as is a dtype of another size.
    assert!(NdArray::from_bytes(patched(&array, at + 1, &[9])).is_ok());
    let odd = with(|m| m.dtype = Some(b"<i8".to_vec())).unwrap();
    assert_eq!((odd.itemsize(), odd.dtype().as_str()), (4, "<i8"));
    assert!(odd.all().read::<Vec<i64>>().is_err());
    for object in [&b"|O8"[..], b"O", b"[('', 'O')"] {
        let text = [object, &b"            "[..]].concat()[..3.min(object.len() + 12)].to_vec();
        let odd = open(&ArrayMeta { dtype: Some(text), ..meta.clone() }).unwrap();
        assert_eq!(odd.all().read_bytes().unwrap().len(), 30 * 22 * 4);
    }
}

#[test]
fn the_size_in_a_sparse_frame_is_informative() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("frame");
    let params = FrameParams::from_cparams(&cparams(4));
    let mut writer = b2kit::FrameWriter::options()
        .checksums(false)
        .storage(Storage::Sparse)
        .create(&path, params)
        .unwrap();
    let raw = data(1200);
    for part in raw.chunks(400) {
        writer.append(Chunk::compress_bytes(part, &cparams(4)).unwrap()).unwrap();
    }
    writer.finish().unwrap();
    let index = std::fs::read(path.join("chunks.b2frame")).unwrap();
    for cbytes in [0, 1, 33, 1 << 40, i64::MAX] {
        std::fs::write(path.join("chunks.b2frame"), patched(&index, 39, &cbytes.to_be_bytes())).unwrap();
        assert_eq!(SuperChunk::open(&path).unwrap().read_bytes(0..1200).unwrap(), raw, "cbytes {cbytes}");
    }
}
