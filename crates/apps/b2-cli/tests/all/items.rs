//! `b2kit items`: object lists of python-blosc2.

use crate::common::Folder;
use b2kit::chunk::{CParams, Compression};
use b2kit::frame::FrameParams;
use b2kit::{Chunk, FrameWriter};

/// Returns parameters for entries as they are stored: `{"version": 1, "serializer": SERIALIZER}` in the metalayer.
fn params(layer: &str, serializer: &[u8]) -> FrameParams {
    let head = b"\x82\xa7version\x01\xaaserializer";
    FrameParams::new(1).chunksize(0).metalayer(layer, [head, serializer].concat())
}

fn cparams() -> CParams {
    Compression::new().itemsize(1).build().unwrap()
}

fn entries(folder: &Folder, name: &str, entries: &[&[u8]]) {
    let mut writer = FrameWriter::create(folder.path(name), params("vlarray", b"\xa7msgpack")).unwrap();
    for entry in entries {
        writer.append(Chunk::compress_bytes(entry, &cparams()).unwrap()).unwrap();
    }
    writer.finish().unwrap();
}

#[test]
fn each_entry_is_a_line() {
    let folder = Folder::new();
    let long = [b"\xdb\x00\x00\x75\x30".to_vec(), vec![b'x'; 30_000]].concat();
    entries(
        &folder,
        "list",
        &[
            b"\x01",
            b"\xa3two",
            b"\x81\xa1k\x92\x01\xc0",
            b"\xc4\x02\x00\x01",
            b"\xcb\x7f\xf8\0\0\0\0\0\0",
            b"\xc1",
            &long,
        ],
    );
    let text = folder.ok_text(&["items", "list"]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[..6],
        [
            "1",
            "\"two\"",
            r#"{"k":[1,null]}"#,
            r#"{"$bin":"AAE="}"#,
            r#"{"$float":"nan"}"#,
            r#"{"$raw":"wQ=="}"#
        ]
    );
    assert_eq!(lines[6].len(), 30_002);
    assert_eq!(lines.len(), 7);
    entries(&folder, "none", &[]);
    assert_eq!(folder.ok(&["items", "none"]), b"");
}

#[test]
fn each_item_of_each_batch_is_a_line() {
    let folder = Folder::new();
    let path = folder.path("batches");
    let mut writer = FrameWriter::create(path, params("batcharray", b"\xa7msgpack")).unwrap();
    for batch in
        [&[&b"\x93\x01\x02\x03"[..], b"\x91\x04"][..], &[b"\x92\xa1x\x81\xa1y\x01"], &[b"\x91\xa1\xff"]]
    {
        writer.append(Chunk::compress_vl(batch, &cparams()).unwrap()).unwrap();
    }
    writer.finish().unwrap();
    let text = folder.ok_text(&["items", "batches"]);
    assert_eq!(text, "1\n2\n3\n4\n\"x\"\n{\"y\":1}\n{\"$raw\":\"of8=\"}\n");
}

#[test]
fn refusals() {
    let folder = Folder::new();
    folder.pack("s", b"data", &[]);
    folder.refuses(&["items", "s"], "s: not an object list: neither metalayer vlarray nor batcharray");
    folder.pack("c", b"data", &["--format", "chunk"]);
    folder.refuses(&["items", "c"], "c: not an object list: a bare chunk");
    for (name, serializer, block) in
        [("arrow", &b"\xa5arrow"[..], &b"x"[..]), ("odd", b"\xa7msgpack", b"\x01")]
    {
        let mut writer = FrameWriter::create(folder.path(name), params("batcharray", serializer)).unwrap();
        writer.append(Chunk::compress_vl(&[block], &cparams()).unwrap()).unwrap();
        writer.finish().unwrap();
    }
    folder.refuses(&["items", "arrow"], "arrow: its items are \"arrow\", only msgpack is supported");
    folder.refuses(&["items", "odd"], "odd: chunk 0: a block is not a msgpack array");
}

#[test]
fn bytes_do_not_break_lists_and_stores() {
    let folder = Folder::new();
    entries(&folder, "list", &[b"\x01", b"\xa3two"]);
    folder.write("raw", b"\x05");
    folder.pack("e.b2e", b"bytes of members", &["--meta", "b2embed={\"version\":1}"]);
    for command in [
        &["append", "list", "raw"][..],
        &["set", "list", "raw", "--slice=0"],
        &["copy", "list", "copy", "--chunksize", "100"],
        &["append", "e.b2e", "raw"],
        &["set", "e.b2e", "raw", "--slice=0"],
    ] {
        assert!(folder.fails(1, command).contains("of python-blosc2, whose"), "{command:?}");
    }
    let mut writer =
        FrameWriter::create(folder.path("batches"), params("batcharray", b"\xa7msgpack")).unwrap();
    for batch in [&b"\x91\x01"[..], b"\x92\x02\x03"] {
        writer.append(Chunk::compress_vl(&[batch], &cparams()).unwrap()).unwrap();
    }
    writer.finish().unwrap();
    for (file, why) in [("batches", "counts the items of each"), ("e.b2e", "whose bytes are its members")] {
        for action in [&["append"][..], &["insert", "0"], &["update", "0"], &["delete", "0"]] {
            let input = if action[0] == "delete" { &[][..] } else { &["raw"] };
            let command = [&["chunk", action[0], file], &action[1..], input].concat();
            assert!(folder.fails(1, &command).contains(why), "{command:?}");
        }
    }
    assert_eq!(folder.ok_text(&["items", "batches"]), "1\n2\n3\n");
    assert_eq!(folder.ok_text(&["items", "list"]), "1\n\"two\"\n");
    // Whole entries.
    folder.change(&["chunk", "append", "list", "raw"]);
    folder.change(&["copy", "list", "copy", "--codec", "lz4"]);
    assert_eq!(folder.ok_text(&["items", "copy"]), "1\n\"two\"\n5\n");
}
