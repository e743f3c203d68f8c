//! Every error about input names the structure, the field, its position, and the found and expected values.

use crate::common::*;
use b2kit::chunk::Compression;
use b2kit::frame::{Compare, FrameError, FrameParams, Storage};
use b2kit::nd::NdError;
use b2kit::{Chunk, ErrorKind, Limits, NdArray, Report, SuperChunk};

fn chunk_error(bytes: Vec<u8>) -> String {
    let decoded = Chunk::from_bytes(bytes).and_then(|chunk| chunk.decompress_bytes());
    text(decoded.unwrap_err())
}

fn frame_error(bytes: Vec<u8>) -> String {
    let read = NdArray::from_bytes(bytes.clone()).and_then(|array| array.all().read_bytes()).map_err(text);
    let read = match read {
        Err(not_an_array) if not_an_array.starts_with("not an array") => whole(&bytes).map_err(text),
        read => read,
    };
    read.expect_err("refused")
}

fn text(error: impl std::error::Error) -> String {
    Report(&error).to_string()
}

#[track_caller]
fn says(error: String, words: &str) {
    assert_eq!(error, words);
}

#[test]
fn chunk_headers() {
    let raw = data(4000);
    let stored = Chunk::compress_bytes(&raw, &cparams(4)).unwrap().into_bytes();
    let field = |at: usize, bytes: &[u8]| chunk_error(patched(&stored, at, bytes));
    let int = |at: usize, value: i32| field(at, &value.to_le_bytes());
    says(field(3, &[0]), "chunk header field `typesize` at byte 3 is 0, expected 1 to 255");
    says(int(4, -1), "chunk header field `nbytes` at byte 4 is -1, expected 0 or more");
    says(int(8, 0), "chunk header field `blocksize` at byte 8 is 0, expected 1 to 536866816");
    says(
        int(12, 31),
        "chunk header field `cbytes` at byte 12 is 31, expected 32 or more with an extended header",
    );
    let (need, have) = (stored.len() + 9, stored.len());
    says(
        int(12, need as i32),
        &format!("chunk is truncated: the chunk ends at byte {need}, but there are {have} bytes"),
    );
    says(
        field(2, &[0x97]),
        &format!(
            "chunk header field `cbytes` at byte 12 is {have}, expected nbytes + header in a memcpyed chunk"
        ),
    );
    says(field(0x1F, &[0x70]), "chunk header field `special kind` at byte 31 is 7, expected 0 to 4");
    says(
        field(0x1F, &[0x08]),
        "chunk header field `blosc2_flags` at byte 31 is 8, expected no lazy bit in stored data",
    );
    says(
        patched_twice(&stored, (0, &[7]), (0x1E, &[0x80])),
        "chunk header field `flags2` at byte 30 is 128, expected 0 or 1 in format version 7: written by a newer Blosc2",
    );
    says(field(0x14, &[99]), "filter id 99 (filter:99) in header byte 20 is not registered");
    says(
        chunk_error(stored[..15].to_vec()),
        "chunk is truncated: the header ends at byte 16, but there are 15 bytes",
    );
    says(
        chunk_error(stored[..31].to_vec()),
        "chunk is truncated: the header ends at byte 32, but there are 31 bytes",
    );
}

fn patched_twice(bytes: &[u8], (a, x): (usize, &[u8]), (b, y): (usize, &[u8])) -> String {
    chunk_error(patched(&patched(bytes, a, x), b, y))
}

#[test]
fn tables_and_streams() {
    let run = |csize: i32, token: &[u8]| [&36u32.to_le_bytes()[..], &csize.to_le_bytes(), token].concat();
    let of = |body: &[u8]| chunk_error(chunk(0x95, 1, 64, 64, 0, body));
    says(of(b"abc"), "chunk is truncated: the table of block starts ends at byte 36, but there are 35 bytes");
    says(
        of(&[35, 0, 0, 0, 1, 0, 0, 0]),
        "block 0: block start at byte 32 of the chunk is 35, expected an offset after the tables and inside the chunk",
    );
    says(of(&run(-7, &[2])), "block 0: token of a run at byte 40 of the chunk is 2, expected an odd number");
    says(
        of(&run(-7, &[])),
        "block 0: room for the token of a run at byte 40 of the chunk is 0, expected 1 byte or more",
    );
    says(
        of(&run(-256, &[1])),
        "block 0: length of a stream at byte 36 of the chunk is -256, expected -255 or more",
    );
    says(
        of(&run(9, &[1])),
        "block 0: length of a stream at byte 36 of the chunk is 9, expected at most what is left of the block",
    );
    says(
        of(&run(3, b"abc")),
        "block 0, stream 0 from byte 40 of the chunk on cannot be decoded: zstd: malformed stream at byte 0: not a zstd frame",
    );
    says(
        chunk_error(chunk(0xF5, 1, 64, 64, 0, &run(3, b"abc"))),
        "codec format 7 in bits 5 to 7 of header byte 2 is not defined, expected 0, 1, 3, 4 or 6",
    );
    says(
        chunk_error(patched(&chunk(0xD5, 1, 64, 64, 0, &run(3, b"abc")), 22, &[200])),
        "codec id 200 (codec:200) in header byte 22 is not registered",
    );
    says(
        chunk_error(chunk(0x85, 4, 6, 6, 0, &run(0, b""))),
        "block 0: length of a split block at byte 36 of the chunk is 6, expected a multiple of typesize, and not 0",
    );
    says(
        chunk_error(chunk(0x95, 1, 64, 64, 1, &run(0, b"abc"))),
        "dictionary size at byte 36 is 0, expected 1 to 32768",
    );
    says(
        chunk_error(chunk(0x95, 1, 64, 64, 1, &run(50, b"abc"))),
        "chunk is truncated: the dictionary ends at byte 90, but there are 43 bytes",
    );
    let vl = Chunk::compress_vl(&[b"hello", b"world!"], &cparams(1)).unwrap().into_bytes();
    let field = |at: usize, value: i32| chunk_error(patched(&vl, at, &value.to_le_bytes()));
    says(
        field(36, 41),
        "block 0: block start at byte 32 of the chunk is 40, expected rising by more than 4, after the tables and inside the chunk",
    );
    says(field(40, 0), "block 0: block length at byte 40 of the chunk is 0, expected 1 or more");
    says(field(4, 12), "chunk header field `nbytes` at byte 4 is 12, expected the sum of the block lengths");
}

#[test]
fn frame_headers() {
    let frame = frame();
    let field = |at: usize, bytes: &[u8]| frame_error(patched(&frame, at, bytes));
    let len = frame.len();
    says(field(0, &[0]), "not a Blosc2 frame: bytes 0 to 9 are not 9E A8 \"b2frame\\0\"");
    says(
        field(10, &[0xD1]),
        "frame header field `header_len` is malformed: byte 10: expected int32, found 0xd1",
    );
    says(
        field(11, &96i32.to_be_bytes()),
        "frame header field `header_len` at byte 11 is 96, expected 97 to frame_len",
    );
    says(
        field(16, &(len as u64 + 5).to_be_bytes()),
        &format!("frame is truncated: needs {} bytes from byte 0 on, there are {len}", len + 5),
    );
    says(
        field(25, &[0x1F]),
        "frame format version 15 in header byte 25, expected 0 to 3: written by a newer Blosc2",
    );
    says(field(26, &[7]), "frame header field `frame type` at byte 26 is 7, expected 0 or 1");
    says(
        field(30, &[0xFF]),
        &format!("frame header field `nbytes` at byte 30 is {}, expected 0 or more", 1200 - (1i64 << 56)),
    );
    says(field(48, &[0; 4]), "frame header field `typesize` at byte 48 is 0, expected 1 or more");
    says(
        field(58, &(-2i32).to_be_bytes()),
        "frame header field `chunksize` at byte 58 is -2, expected 0 or more, or -1 without chunks",
    );
    says(field(70, &[7]), "frame header field `filters` at byte 70 is 7, expected at most 6 slots");
    says(
        field(39, &(1i64 << 40).to_be_bytes()),
        "frame header field `cbytes` at byte 39 is 1099511627776, expected room for index and trailer before frame_len",
    );
    says(
        frame_error(frame[..50].to_vec()),
        "frame header is truncated: needs 87 bytes from byte 0 on, there are 50",
    );
}

#[test]
fn metalayers_and_trailers() {
    let frame = frame();
    let len = frame.len();
    let field = |at: usize, bytes: &[u8]| frame_error(patched(&frame, at, bytes));
    says(field(87, &[0x94]), "metalayers field `parts` is malformed: byte 87: expected 0x93, found 0x94");
    says(
        field(92, &[0, 17]),
        "metalayers field `count` at byte 92 is 17, expected at most 16 (8192 for vlmetalayers)",
    );
    says(field(94, &[0xC4]), "metalayers field `name` is malformed: byte 94: expected fixstr, found 0xc4");
    says(
        field(100, &[0xFF; 4]),
        "metalayers field `offset` at byte 100 is -1, expected an offset inside the section",
    );
    says(field(107, &[0xC4]), "metalayers field `value` is malformed: byte 107: expected bin32, found 0xc4");
    let trailer = len - 35;
    says(
        field(trailer, &[0x93]),
        &format!("trailer field `parts` is malformed: byte {trailer}: expected 0x94, found 0x93"),
    );
    says(
        field(len - 23, &[0]),
        &format!("trailer field `trailer_len` is malformed: byte {}: expected uint32, found 0x00", len - 23),
    );
    says(
        field(len - 22, &[0, 0, 0, 24]),
        &format!(
            "trailer field `trailer_len` at byte {} is 24, expected 25 to the length of the frame after its header",
            len - 22
        ),
    );
    says(
        field(trailer + 2, &[0]),
        &format!("vlmetalayers field `parts` is malformed: byte {}: expected 0x93, found 0x00", trailer + 2),
    );
}

#[test]
fn indices_and_chunks() {
    let frame = frame();
    let place = places(&frame)[1];
    let schunk = SuperChunk::from_bytes(frame.clone()).unwrap();
    let index = schunk.layout().index.start as usize;
    let field = |at: usize, bytes: &[u8]| frame_error(patched(&frame, at, bytes));
    says(
        field(place + 4, &396u32.to_le_bytes()),
        &format!(
            "chunk 1 (from byte {place} on) field `nbytes` at byte 4 is 396, expected the chunk size of the frame (the rest of nbytes in the last chunk)"
        ),
    );
    says(
        field(place + 3, &[0]),
        &format!(
            "chunk 1 (from byte {place} on) cannot be decoded: chunk header field `typesize` at byte 3 is 0, expected 1 to 255"
        ),
    );
    says(
        field(place + 32, &[1]),
        &format!(
            "chunk 1 (from byte {place} on) cannot be decoded: block 0: block start at byte 32 of the chunk is 1, expected an offset after the tables and inside the chunk"
        ),
    );
    says(
        field(index + 3, &[0]),
        "index chunk cannot be decoded: chunk header field `typesize` at byte 3 is 0, expected 1 to 255",
    );
    let stored = Compression::new().itemsize(8).level(0).build().unwrap();
    let entries = |entries: &[u64]| {
        let plain: Vec<u8> = entries.iter().flat_map(|entry| entry.to_le_bytes()).collect();
        frame_error(with_index(&frame, Chunk::compress_bytes(&plain, &stored).unwrap().as_bytes()))
    };
    says(
        entries(&[0, 1 << 40, 0]),
        "decoded index field `entry` at byte 8 is 1099511627776, expected an offset inside the chunk data",
    );
    says(
        entries(&[0, 0x88 << 56, 0]),
        &format!(
            "decoded index field `entry` at byte 8 is {}, expected an offset, or a special value of known kind",
            (0x88u64 << 56) as i64
        ),
    );
    says(entries(&[0, 1]), "index chunk field `nbytes` at byte 4 is 16, expected 8 for each chunk");
    let end = schunk.layout().data.end;
    let room = end - place as u64;
    says(
        field(place + 12, &100_000u32.to_le_bytes()),
        &format!(
            "chunk 1 (from byte {place} on) is truncated: needs 100000 bytes from byte {place} on, there are {room}"
        ),
    );
}

#[test]
fn sparse_frames_name_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("frame");
    let params = FrameParams::from_cparams(&cparams(4));
    let mut writer = b2kit::FrameWriter::options()
        .checksums(false)
        .storage(Storage::Sparse)
        .create(&path, params)
        .unwrap();
    for part in data(1200).chunks(400) {
        writer.append(Chunk::compress_bytes(part, &cparams(4)).unwrap()).unwrap();
    }
    writer.finish().unwrap();
    let member = path.join("00000001.chunk");
    let stored = std::fs::read(&member).unwrap();
    let damaged = |what: &str| format!("cannot read {}: {what}", path.display());
    let read = || text(SuperChunk::open(&path).unwrap().read_bytes(0..1200).unwrap_err());
    std::fs::write(&member, patched(&stored, 3, &[0])).unwrap();
    says(
        read(),
        &damaged(
            "chunk 1 (00000001.chunk) cannot be decoded: chunk header field `typesize` at byte 3 is 0, expected 1 to 255",
        ),
    );
    std::fs::write(&member, patched(&stored, 32, &[1])).unwrap();
    says(
        read(),
        &damaged(
            "chunk 1 (00000001.chunk) cannot be decoded: block 0: block start at byte 32 of the chunk is 1, expected an offset after the tables and inside the chunk",
        ),
    );
    std::fs::write(&member, &stored[..40]).unwrap();
    let need = stored.len();
    says(
        read(),
        &damaged(&format!(
            "chunk 1 (00000001.chunk) is truncated: needs {need} bytes from byte 0 on, there are 40"
        )),
    );
    std::fs::remove_file(&member).unwrap();
    let error = read();
    assert!(error.starts_with(&format!("cannot access {}: ", member.display())), "{error}");
}

#[test]
fn array_metalayers() {
    let array = array();
    let schunk = SuperChunk::from_bytes(array.clone()).unwrap();
    let stored = schunk.metalayers().get("b2nd").unwrap();
    let start = array.windows(stored.len()).position(|window| window == stored).unwrap();
    let field = |at: usize, bytes: &[u8]| frame_error(patched(&array, start + at, bytes));
    says(
        field(0, &[0xC0]),
        "number of parts of the metalayer `b2nd` is malformed: byte 0: expected fixarray, found 0xc0",
    );
    says(
        field(2, &[17]),
        "metalayer `b2nd` field `number of dimensions` at byte 2: found 17, expected 0 to 16",
    );
    says(field(4, &[0xD2]), "shape of the metalayer `b2nd` is malformed: byte 4: expected int64, found 0xd2");
    says(
        field(5, &[0xFF]),
        &format!("metalayer `b2nd` field `shape` at byte 5: found {}, expected 0 or more", 30 - (1i64 << 56)),
    );
    says(
        field(12, &[40]),
        "metalayer `b2nd` field `shape` at byte 5: [40, 22] in chunks of [8, 8] needs 15 chunks, the frame has 12",
    );
    says(
        field(27, &[7]),
        "metalayer `b2nd` field `shape` at byte 5: [30, 22] in chunks of [7, 8] needs 15 chunks, the frame has 12",
    );
    says(
        field(38, &[3]),
        "metalayer `b2nd` field `chunkshape` at byte 24: chunks of [8, 8] padded to blocks of [3, 8] with items of 4 bytes have 288 bytes, the frame says 256",
    );
    says(
        field(38, &[0]),
        "metalayer `b2nd` field `blockshape` at byte 35: dimension 0: the block length is 0, expected 1 or more",
    );
    says(
        field(45, &[0xDA]),
        "dtype of the metalayer `b2nd` is malformed: byte 45: expected str32, found 0xda",
    );
}

/// The most common errors: each message names the file once and describes the problem.
#[test]
fn every_message_names_the_file_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.b2nd");
    let shown = path.display().to_string();
    let of_array = |limits: Limits| -> Result<(), NdError> {
        let array = NdArray::open_with(&path, &SuperChunk::options().limits(limits))?;
        array.all().read_bytes()?;
        array.verify().map(drop)
    };
    let of_frame = |limits: Limits| -> Result<(), FrameError> {
        let schunk = SuperChunk::options().limits(limits).open(&path)?;
        schunk.read_bytes(0..schunk.nbytes())?;
        schunk.verify().map(drop)
    };
    let of_editor = || NdArray::edit(&path).map(drop);
    let said = |message: String, start: &str, words: &str| {
        assert!(message.starts_with(&format!("cannot {start} {shown}: ")), "{message}");
        assert_eq!(message.matches(&shown).count(), 1, "{message}");
        assert!(message.contains(words), "{words}: {message}");
    };
    let all = |start: &str, words: &str| {
        said(text(of_array(Limits::default()).unwrap_err()), start, words);
        said(text(of_frame(Limits::default()).unwrap_err()), start, words);
    };
    // Missing.
    all("access", &std::io::Error::from_raw_os_error(2).to_string());
    assert_eq!(of_array(Limits::default()).unwrap_err().kind(), ErrorKind::Io);
    // Something else.
    std::fs::write(&path, "some text that is long enough for a header").unwrap();
    all("read", "not a Blosc2 frame");
    said(text(of_editor().unwrap_err()), "read", "not a Blosc2 frame");
    // A damaged header.
    let good = array();
    std::fs::write(&path, patched(&good, 10, &[0xD1])).unwrap();
    all("read", "frame header field `header_len` is malformed");
    said(text(of_editor().unwrap_err()), "read", "frame header field `header_len` is malformed");
    // Cut off.
    std::fs::write(&path, &good[..good.len() / 2]).unwrap();
    all("read", "truncated");
    // A damaged chunk, with its checksum and without.
    let place = SuperChunk::from_bytes(good.clone()).unwrap().layout().data.start as usize;
    std::fs::write(&path, patched(&good, place + 36, &[0xFF; 4])).unwrap();
    all("read", "chunk 0");
    assert_eq!(of_array(Limits::default()).unwrap_err().kind(), ErrorKind::Damaged);
    let unchecked = SuperChunk::options().compare(Compare::Never).checksums(false).open(&path).unwrap();
    said(text(unchecked.chunk(0).decompress().unwrap_err()), "read", "chunk 0");
    // Otherwise Windows does not allow replacing its lock file.
    drop(unchecked);
    // Above a limit.
    std::fs::write(&path, &good).unwrap();
    of_array(Limits::default()).unwrap();
    let little = Limits::default().max_metadata(20);
    said(text(of_array(little.clone()).unwrap_err()), "read", "above the limit max_metadata of 20");
    assert_eq!(of_frame(little).unwrap_err().kind(), ErrorKind::Limit);
    // A plain super-chunk is not an array.
    std::fs::write(&path, frame()).unwrap();
    said(text(of_array(Limits::default()).unwrap_err()), "read", "not an array");
    // A lock file that cannot be used.
    std::fs::write(&path, &good).unwrap();
    let lock = dir.path().join("x.b2nd.b2lock");
    let _ = std::fs::remove_file(&lock);
    std::fs::create_dir(&lock).unwrap();
    let message = text(of_editor().unwrap_err());
    assert!(message.starts_with(&format!("cannot use the lock file {}", lock.display())), "{message}");
}

/// Permissions do not bind the superuser.
#[test]
#[cfg(unix)]
fn a_file_without_permission_is_named() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.b2nd");
    std::fs::write(&path, array()).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o000)).unwrap();
    if std::fs::File::open(&path).is_ok() {
        // The system's errors, by the name of the library's error.
        let denied = FrameError::io(path.display().to_string())(std::io::ErrorKind::PermissionDenied.into());
        says(text(denied), &format!("cannot access {}: permission denied", path.display()));
        return;
    }
    let message = text(NdArray::open(&path).unwrap_err());
    assert!(message.starts_with(&format!("cannot access {}: ", path.display())), "{message}");
}
