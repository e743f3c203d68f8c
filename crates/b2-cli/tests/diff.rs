//! `b2kit diff`: the same data or not, whatever storage, cutting and compression.

mod common;

use common::{Folder, counting, noise, npy};

/// Exit code 1 and this answer.
#[track_caller]
fn differ(folder: &Folder, args: &[&str], answer: &str) {
    let mut all = vec!["diff"];
    all.extend(args);
    let output = folder.run(&all);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{args:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{answer}\n"), "{args:?}");
    assert_eq!(output.status.code(), Some(1), "{args:?}");
}

#[test]
fn storage_and_compression_make_no_difference() {
    let folder = Folder::new();
    let array = npy("<i4", false, "(60, 40)", &counting(2400));
    folder.pack("a", &array, &["--chunks", "7,40", "--blocks", "4,16", "--meta", "m=1", "--vlmeta", "v=[2]"]);
    for (name, options) in [
        ("b", ["--chunks", "60,9", "--blocks", "5,5", "--codec", "lz4"]),
        ("c", ["--format", "sframe", "--clevel", "0", "--filters", "none"]),
    ] {
        folder.ok(&[&["copy", "a", name][..], &options].concat());
        assert_eq!(folder.ok(&["diff", "a", name]), b"");
        assert_eq!(folder.ok(&["diff", name, "a"]), b"");
    }
    let raw = noise(10_007);
    folder.pack("s", &raw, &["--chunksize", "1000"]);
    folder.pack("t", &raw, &["--format", "chunk"]);
    assert_eq!(folder.ok(&["diff", "s", "t"]), b"");
    folder.pack("none", b"", &[]);
    assert_eq!(folder.ok(&["diff", "none", "none"]), b"");
    // A chunk does not know an item size above 255.
    folder.pack("big", &raw[..3000], &["--typesize", "300"]);
    folder.pack("bigchunk", &raw[..3000], &["--typesize", "300", "--format", "chunk"]);
    assert_eq!(folder.ok(&["diff", "big", "bigchunk"]), b"");
}

#[test]
fn the_first_difference_is_told() {
    let folder = Folder::new();
    let raw = counting(2400);
    let array = |name, bytes: &[u8], dtype, shape, options: &[&str]| {
        folder.pack(name, &npy(dtype, false, shape, bytes), options);
    };
    array("a", &raw, "<i4", "(60, 40)", &["--chunks", "7,40", "--meta", "m=1", "--vlmeta", "v=[2]"]);
    array("shape", &raw, "<i4", "(40, 60)", &[]);
    differ(&folder, &["a", "shape"], "shape: 60, 40 | 40, 60");
    array("dtype", &raw, "<f4", "(60, 40)", &[]);
    differ(&folder, &["a", "dtype"], "dtype: <i4 | <f4");
    let mut other = raw.clone();
    other[4 * (40 * 33 + 5) + 1] ^= 0x70;
    other[9000] ^= 1;
    array("item", &other, "<i4", "(60, 40)", &["--chunks", "60,9"]);
    differ(&folder, &["a", "item"], "item [33, 5], byte 5301: 2d050000 | 2d750000");
    array("meta", &raw, "<i4", "(60, 40)", &["--meta", "m=3", "--vlmeta", "v=[2]"]);
    differ(&folder, &["a", "meta"], "metalayer m: 1 | 3");
    assert_eq!(folder.ok(&["diff", "--data-only", "a", "meta"]), b"");
    array("vlmeta", &raw, "<i4", "(60, 40)", &["--meta", "m=1"]);
    differ(&folder, &["a", "vlmeta"], "vlmetalayer v: [2] | none");

    folder.pack("s", &raw, &["--typesize", "4", "--chunksize", "1000"]);
    differ(&folder, &["a", "s"], "kind: array | no array");
    folder.pack("typesize", &raw, &["--typesize", "8"]);
    differ(&folder, &["s", "typesize"], "item size: 4 | 8");
    folder.pack("shorter", &raw[..9000], &["--typesize", "4"]);
    differ(&folder, &["s", "shorter"], "bytes: 9600 | 9000");
    folder.pack("byte", &other, &["--typesize", "4", "--format", "sframe"]);
    differ(&folder, &["s", "byte"], "item 1325, byte 5301: 2d050000 | 2d750000");
    let output = folder.run(&["diff", "-q", "s", "byte"]);
    assert_eq!((output.status.code(), output.stdout), (Some(1), vec![]));
}

#[test]
fn trouble_is_neither_answer() {
    let folder = Folder::new();
    folder.pack("s", &noise(5000), &["--chunksize", "1000"]);
    let whole = folder.read("s");
    folder.write("cut", &whole[..whole.len() - 1]);
    assert!(folder.fails(2, &["diff", "s", "cut"]).starts_with("b2kit: cut: "));
    assert!(folder.fails(2, &["diff", "none", "s"]).starts_with("b2kit: none: "));
    // Damage inside the data of one of them.
    folder.pack("text", &b"abcdefgh".repeat(600), &["--codec", "zstd"]);
    let mut bytes = folder.read("text");
    let at = u32::from_be_bytes(bytes[11..15].try_into().unwrap()) as usize + 32 + 4 + 4;
    bytes[at..at + 4].fill(0xff);
    folder.write("bad", &bytes);
    assert!(folder.fails(2, &["diff", "text", "bad"]).starts_with("b2kit: bad: "));
    folder.fails(2, &["diff", "s"]);
}
