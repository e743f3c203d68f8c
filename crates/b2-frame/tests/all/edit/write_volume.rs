//! How many bytes are written for what is appended.

use b2_chunk::Compression;
use b2_frame::{FrameEditor, FrameWriter, SuperChunk};

use super::{options, params};
use crate::common::data;

const APPENDS: usize = 10_000;
const PIECE_LEN: usize = 4096;

fn create(dir: &tempfile::TempDir) -> FrameEditor {
    // Stored uncompressed, so that all bytes written can be accounted for.
    let cparams = Compression::new().itemsize(4).level(0).build().unwrap();
    let path = dir.path().join("frame");
    FrameWriter::create(&path, params(&cparams).chunksize(1 << 20)).unwrap().finish().unwrap();
    options().edit(path).unwrap()
}

#[test]
fn many_small_appends_cost_little_with_one_commit() {
    let raw = data(PIECE_LEN, 1);
    let total = (APPENDS * PIECE_LEN) as f64;

    let dir = tempfile::tempdir().unwrap();
    let mut editor = create(&dir);
    for _ in 0..APPENDS {
        editor.append_bytes(&raw).unwrap();
    }
    let once = editor.commit().unwrap().bytes_written as f64 / total;
    drop(editor);
    let schunk = SuperChunk::open(dir.path().join("frame")).unwrap();
    assert_eq!(schunk.nbytes(), total as u64);
    assert!(schunk.read_bytes(1 << 22..(1 << 22) + 10_000).unwrap().starts_with(&raw));
    assert!(once < 1.2, "{once}");

    // Commit every hundredth piece: a commit rewrites the short last chunk, the index and the trailer.
    let dir = tempfile::tempdir().unwrap();
    let mut editor = create(&dir);
    let mut written = 0;
    for i in 1..=APPENDS {
        editor.append_bytes(&raw).unwrap();
        if i % 100 == 0 {
            written += editor.commit().unwrap().bytes_written;
        }
    }
    let hundredth = written as f64 / total;

    // Commit each piece, as a chunk of its own of 4 KiB, and at the end of a chunk of 1 MiB.
    let mut each = Vec::new();
    for chunksize in [PIECE_LEN, 1 << 20] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("frame");
        let cparams = Compression::new().itemsize(4).level(0).build().unwrap();
        FrameWriter::create(&path, params(&cparams).chunksize(chunksize)).unwrap().finish().unwrap();
        let mut editor = options().edit(&path).unwrap();
        let mut written = 0;
        // Compare the first and the last tenth: the cost of a commit grows with the index.
        let n = APPENDS / 10;
        for i in 0..n {
            if i == n / 2 {
                editor
                    .transaction(|editor| (0..APPENDS - n).try_for_each(|_| editor.append_bytes(&raw)))
                    .unwrap();
                editor.commit().unwrap();
            }
            editor.append_bytes(&raw).unwrap();
            written += editor.commit().unwrap().bytes_written;
        }
        each.push(written as f64 / (n * PIECE_LEN) as f64);
        editor.compact().unwrap();
        assert_eq!(editor.dead_bytes().unwrap(), 0);
        assert_eq!(editor.nbytes(), total as u64);
    }
    println!(
        "bytes written for each byte appended, {APPENDS} appends of {PIECE_LEN} bytes: {once:.4} with one commit, \
         {hundredth:.2} with a commit for each hundred; a commit for each append: {:.2} in chunks of {PIECE_LEN} \
         bytes, {:.1} in chunks of 1 MiB",
        each[0], each[1]
    );
}
