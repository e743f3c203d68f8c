//! `b2kit verify`: one line per file, in order; hashes of what `cat` prints.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use crate::common::{Folder, counting, noise, npy, sha256};

fn line(raw: &[u8], name: &str) -> String {
    format!("ok\t{}\t{}\t{name}\n", raw.len(), sha256(raw))
}

#[test]
fn ok_lines_hash_what_cat_prints() {
    let folder = Folder::new();
    let raw = counting(2400);
    folder.pack("a", &npy("<i4", false, "(60, 40)", &raw), &["--chunks", "7,40", "--blocks", "4,16"]);
    folder.pack("s", &raw, &["--chunksize", "1000"]);
    folder.pack("d", &raw, &["--chunksize", "1000", "--format", "sframe"]);
    folder.pack("c", &raw, &["--format", "chunk"]);
    folder.pack("e", b"", &[]);
    let expected = ["a", "s", "d", "c"].map(|name| line(&raw, name)).concat() + &line(b"", "e");
    assert_eq!(folder.ok_text(&["verify", "a", "s", "d", "c", "e"]), expected);
    assert_eq!(folder.ok(&["cat", "a"]), raw);
}

#[test]
fn bad_files_are_told_and_the_rest_goes_on() {
    let folder = Folder::new();
    let raw = noise(5000);
    folder.pack("s", &raw, &["--chunksize", "1000"]);
    let whole = folder.read("s");
    folder.write("short", &whole[..whole.len() - 1]);
    folder.write("text", b"not a compressed file at all, just text");
    let output = folder.run(&["verify", "short", "s", "none", "text"]);
    assert_eq!(output.status.code(), Some(1));
    let out = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines.len(), 4, "{out}");
    assert!(lines[0].starts_with("FAIL\t-\t-\tshort\t"), "{out}");
    assert_eq!(format!("{}\n", lines[1]), line(&raw, "s"));
    assert!(lines[2].starts_with("FAIL\t-\t-\tnone\t"), "{out}");
    assert!(lines[3].starts_with("FAIL\t-\t-\ttext\t"), "{out}");
    for line in lines {
        let columns: Vec<&str> = line.split('\t').collect();
        assert_eq!(columns.len(), if columns[0] == "ok" { 4 } else { 5 }, "{line}");
        assert!(!columns.last().unwrap().starts_with(columns[3]) || columns[0] == "ok", "name once: {line}");
    }
}

/// Damage is found wherever it makes data undecodable, including padding blocks and vlmetalayers.
#[test]
fn everything_is_decoded() {
    let folder = Folder::new();
    // One chunk of 2 x 4 blocks, of which the array fills the left column: six blocks are only padding.
    let items = noise(64 * 64);
    folder.pack(
        "a",
        &npy("|u1", false, "(64, 64)", &items),
        &[
            "--chunks",
            "64,256",
            "--blocks",
            "32,64",
            "--clevel",
            "9",
            "--filters",
            "none",
            "--codec",
            "lz4",
            "--no-checksums",
        ],
    );
    assert_eq!(folder.ok_text(&["verify", "a"]), line(&items, "a"));
    let mut bytes = folder.read("a");
    // The chunk follows the header of the frame, and its table of block starts follows its own header. Block 7 is
    // padding.
    let header_len = u32::from_be_bytes(bytes[11..15].try_into().unwrap()) as usize;
    let entry = header_len + 32 + 7 * 4;
    bytes[entry..entry + 4].copy_from_slice(&[0xff, 0xff, 0xff, 0x7f]);
    folder.write("bad", &bytes);
    let output = folder.run(&["verify", "bad"]);
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stdout));

    let text = format!("note=\"{}\"", "abc".repeat(200));
    folder.pack("s", &items, &["--no-checksums", "--vlmeta", &text]);
    let mut bytes = folder.read("s");
    let at = bytes.len() - 35 - 20;
    bytes[at] ^= 0x55;
    folder.write("bad", &bytes);
    let output = folder.run(&["verify", "bad"]);
    let out = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{out}");
    assert!(out.contains("note"), "{out}");
}

#[test]
fn names_from_a_list() {
    let folder = Folder::new();
    let raw = counting(100);
    folder.pack("s 1", &raw, &[]);
    folder.pack("t", &raw[4..], &[]);
    folder.write("list", b"s 1\nt\n\nt");
    let expected = [line(&raw, "s 1"), line(&raw[4..], "t"), line(&raw[4..], "t")].concat();
    assert_eq!(folder.ok_text(&["verify", "--files-from", "list"]), expected);
    let output = folder.with_input(&["verify", "--files-from", "-"], b"s 1\nt\n\nt\n");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
    let both = folder.ok_text(&["verify", "t", "--files-from", "list"]);
    assert_eq!(both, line(&raw[4..], "t") + &expected);
    assert!(folder.fails(1, &["verify", "--files-from", "none"]).starts_with("b2kit: none: "));
}

/// Each result is printed before the next name is read.
#[test]
fn answers_are_flushed() {
    let folder = Folder::new();
    folder.pack("s", &counting(100), &[]);
    let mut command = folder.command(&["verify", "--files-from", "-"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut names = child.stdin.take().unwrap();
    let mut answers = BufReader::new(child.stdout.take().unwrap());
    for name in ["s", "none", "s"] {
        writeln!(names, "{name}").unwrap();
        let mut answer = String::new();
        answers.read_line(&mut answer).unwrap();
        assert!(answer.contains(&format!("\t{name}")), "{answer}");
    }
    drop(names);
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

/// Without checksums, headers are compared with each other.
#[test]
fn odd_files_are_told() {
    let folder = Folder::new();
    let options = ["--chunks", "10,5", "--codec", "blosclz", "--no-checksums"];
    folder.pack("a", &npy("<i4", false, "(30, 10)", &counting(300)), &options);
    let good = folder.read("a");
    let ok = folder.ok_text(&["verify", "a"]);
    // The name of the metalayer that makes it an array.
    let at = good.windows(4).position(|name| name == b"b2nd").unwrap();
    let mut odd = good.clone();
    odd[at] = b'c';
    folder.write("odd", &odd);
    let output = folder.run(&["verify", "odd"]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{message}");
    assert!(output.stdout.starts_with(b"ok\t"));
    assert!(message.starts_with("b2kit: odd: odd: metalayer \"c2nd\" describes an array"), "{message}");
    assert_eq!(folder.run(&["verify", "-q", "odd"]).stderr, b"");
    // A dtype of another size.
    let at = good.windows(3).position(|dtype| dtype == b"<i4").unwrap();
    let mut odd = good.clone();
    odd[at + 2] = b'8';
    folder.write("a", &odd);
    let output = folder.run(&["verify", "a"]);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), ok);
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(
        message.starts_with("b2kit: a: odd: dtype <i8 has 8 bytes, the items of the frame have 4\n"),
        "{message}"
    );
    // Flip one bit in the filters of one chunk.
    let info = folder.info(&["a"]);
    assert_eq!(info["checksums"], "none");
    let header = u32::from_be_bytes(good[11..15].try_into().unwrap()) as usize;
    let mut odd = good.clone();
    odd[header + 0x15] ^= 2;
    folder.write("a", &odd);
    let output = folder.run(&["verify", "a"]);
    assert_eq!(output.status.code(), Some(1));
    let line = String::from_utf8(output.stdout).unwrap();
    assert!(line.contains("field `filters` at byte 21 is 3, expected what the frame header says"), "{line}");
}

/// The output says whether there were checksums to compare with.
#[test]
fn checksums_are_told() {
    let folder = Folder::new();
    folder.pack("with", &npy("<i4", false, "(100, 20)", &counting(2000)), &[]);
    folder.pack("without", &npy("<i4", false, "(100, 20)", &counting(2000)), &["--no-checksums"]);
    let output_of = |args: &[&str]| String::from_utf8(folder.run(args).stderr).unwrap();
    assert!(output_of(&["verify", "with"]).contains("1 file with checksums: all data compared"));
    assert!(output_of(&["verify", "without"]).contains("1 file without checksums"));
    let both = output_of(&["verify", "with", "without", "with"]);
    assert!(both.contains("2 files with checksums") && both.contains("1 file without checksums"), "{both}");
    assert_eq!(output_of(&["verify", "-q", "with", "without"]), "");
    let info = |name| folder.ok_text(&["info", name]);
    assert!(info("with").contains("checksums       present, data not compared (b2kit verify does)\n"));
    assert!(info("without").contains("checksums       none\n"));
    assert_eq!(folder.info(&["with"])["checksums"], "ok");
}

/// Damage is reported by the items that it affects.
#[test]
fn damage_is_told_in_rows_and_columns() {
    let folder = Folder::new();
    for (shape, chunks, nchunk, place) in [
        ("(60, 100)", "25,40", 4, "chunk 4 (rows 25-49, columns 40-79) damaged"),
        ("(60, 100)", "25,40", 8, "chunk 8 (rows 50-59, columns 80-99) damaged"),
        ("(6000,)", "1000", 5, "chunk 5 (items 5000-5999) damaged"),
        ("(20, 30, 10)", "10,30,10", 1, "chunk 1 (items [10:20,0:30,0:10]) damaged"),
    ] {
        for sums in [&[][..], &["--no-checksums"]] {
            let items = npy("|u1", false, shape, &noise(6000));
            folder.pack("a", &items, &[&["--chunks", chunks, "--codec", "lz4"], sums].concat());
            let mut bytes = folder.read("a");
            let mut at = u32::from_be_bytes(bytes[11..15].try_into().unwrap()) as usize;
            for _ in 0..nchunk {
                at += u32::from_le_bytes(bytes[at + 12..at + 16].try_into().unwrap()) as usize;
            }
            // Change the size of the chunk's data.
            bytes[at + 4] ^= 0x10;
            folder.write("a", &bytes);
            let answer = String::from_utf8(folder.run(&["verify", "a"]).stdout).unwrap();
            assert!(answer.starts_with("FAIL\t-\t-\ta\t") && answer.contains(place), "{answer}");
            let message = folder.run(&["cat", "a", "-o", "out", "--force"]).stderr;
            let message = String::from_utf8(message).unwrap();
            assert!(message.contains(place), "{message}");
        }
    }
}

/// Unreadable data are not reported as ok, whether the fault is found in the header or while reading items.
#[test]
fn a_last_chunk_that_is_too_short_fails() {
    use b2kit::chunk::Compression;
    use b2kit::frame::FrameParams;
    use b2kit::{Chunk, FrameWriter};

    let folder = Folder::new();
    folder.pack("a", &npy("<i4", false, "(20, 10)", &counting(200)), &["--chunks", "10,10"]);
    let array = b2kit::NdArray::open(folder.path("a")).unwrap();
    let meta = array.super_chunk().metalayers().get("b2nd").unwrap().to_vec();
    for (len, checksums) in [(400, true), (396, true), (396, false), (4, true), (4, false)] {
        let cparams = Compression::new().itemsize(4).build().unwrap();
        let params = FrameParams::from_cparams(&cparams).chunksize(400).metalayer("b2nd", &meta);
        let mut writer = FrameWriter::options().checksums(checksums).memory(params).unwrap();
        for len in [400, len] {
            writer.append(Chunk::compress_bytes(&noise(len), &cparams).unwrap()).unwrap();
        }
        folder.write("b", &writer.finish().unwrap().into_bytes());
        let output = folder.run(&["verify", "-q", "b"]);
        let line = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.success(), len == 400, "{len}: {line}");
        assert_eq!(line.contains(&format!("chunk 1 has {len} bytes")), len != 400, "{line}");
    }
}

/// Arrays of which python-blosc2 computes or fetches the items are files like others: intact or damaged.
#[test]
fn files_without_items_are_verified() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("s.b2d")).unwrap();
    let raw = noise(400);
    folder.pack("s.b2d/plain.b2nd", &npy("<i4", false, "(10, 10)", &raw), &[]);
    let marked = |name: &str, content: &[u8]| {
        let builder = b2kit::ArrayBuilder::new::<u8>([400]).metalayer(name, content);
        builder.to_bytes(b2kit::nd::source::by_index(|n| noise(400)[n as usize])).unwrap()
    };
    let lazy = marked("b2o", b"\x81\xa4kind\xa8lazyexpr");
    folder.write("s.b2d/lazy.b2nd", &lazy);
    folder.write("lazy", &lazy);
    folder.write("proxy", &marked("proxy", b"\x01"));
    let what = "a lazy expression (LazyExpr) of python-blosc2";
    let lines = format!(
        "ok\t-\t-\tlazy\twithout items: {what}\n\
         ok\t-\t-\tproxy\twithout items: a cache of another array (Proxy) of python-blosc2\n\
         ok\t-\t-\ts.b2d::/lazy\twithout items: {what}\n\
         {}\twithout items: /lazy ({what})\n",
        line(&raw, "s.b2d").trim_end()
    );
    let files = ["lazy", "proxy", "s.b2d::/lazy", "s.b2d"];
    assert_eq!(folder.ok_text(&[&["verify"][..], &files].concat()), lines);
    let facts: serde_json::Value =
        serde_json::from_slice(&folder.ok(&["verify", "--json", "s.b2d::/lazy"])).unwrap();
    assert_eq!((&facts["verdict"], &facts["sha256"]), (&"ok".into(), &serde_json::Value::Null));
    assert_eq!(facts["without_items"], serde_json::json!([{"key": null, "what": what}]));
    // What changes files without reading items takes them, too.
    folder.change(&["checksum", "remove", "lazy"]);
    assert_eq!(folder.ok_text(&["checksum", "add", "--dry-run", "lazy"]), "lazy: checksums would be added\n");
    folder.change(&["checksum", "add", "lazy"]);
    folder.change(&["compact", "lazy"]);
    assert_eq!(folder.ok_text(&["compact", "--dry-run", "lazy"]), "lazy: no holes\n");
    folder.change(&["vlmeta", "set", "lazy", "a", "1"]);
    assert_eq!(folder.ok_text(&["vlmeta", "list", "lazy"]), "a\t1\n");
    assert!(folder.fails(1, &["cat", "lazy"]).contains("LazyExpr"));
    // Nothing is lost.
    folder.ok(&["salvage", "lazy", "saved"]);
    folder.ok(&["verify", "saved"]);
    folder.pack("cache", &raw, &["--meta", "proxy-source=1"]);
    folder.write("more", &raw);
    for command in [&["append", "cache", "more"][..], &["chunk", "delete", "cache", "0"]] {
        assert!(folder.fails(1, command).contains("a cache of another array (Proxy)"), "{command:?}");
    }
    let mut bytes = lazy.to_vec();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    folder.write("lazy", &bytes);
    let output = folder.run(&["verify", "-q", "lazy"]);
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stdout));
}
