//! `b2kit copy`: same data and metalayers, with another format, layout or compression.

use std::fs;

use crate::common::{Folder, counting, noise, npy};
use serde_json::{Value, json};

/// Returns what a copy must not change unless asked to.
fn contents(folder: &Folder, name: &str) -> (Value, Value, Vec<u8>) {
    let info = folder.info(&[name]);
    let mut metalayers = info["metalayers"].clone();
    if let Some(map) = metalayers.as_object_mut() {
        // Describes the layout, which may change.
        map.remove("b2nd");
    }
    (metalayers, info["vlmetalayers"].clone(), folder.ok(&["cat", name]))
}

const META: [&str; 6] =
    ["--meta", "m=[1,2]", "--vlmeta", "v={\"a\":1.5}", "--vlmeta", "w={\"$raw\":\"AQI=\"}"];

#[test]
fn a_plain_copy_is_the_same() {
    let folder = Folder::new();
    let raw = counting(3000);
    folder.pack(
        "a",
        &npy("<i4", false, "(60, 50)", &raw),
        &[&META[..], &["--chunks", "25,20", "--blocks", "10,8"]].concat(),
    );
    folder.pack(
        "s",
        &raw,
        &[&META[..], &["--chunksize", "1000", "--typesize", "4", "--codec", "blosclz"]].concat(),
    );
    folder.pack("c", &raw, &["--format", "chunk", "--typesize", "4"]);
    folder.pack("d", &raw, &[&META[..], &["--format", "sframe", "--chunksize", "1000"]].concat());
    folder.pack("e", b"", &META);
    for name in ["a", "s", "c", "d", "e"] {
        let copy = format!("{name}2");
        folder.ok(&["copy", name, &copy]);
        let (mut before, mut after) = (folder.info(&[name]), folder.info(&[&copy]));
        if name == "a" {
            // Sizes may differ if the copy leaves out holes; there are none here.
            assert_eq!(before["cbytes"], after["cbytes"]);
        }
        for info in [&mut before, &mut after] {
            info.as_object_mut().unwrap().shift_remove("ratio");
        }
        assert_eq!(before, after, "{name}");
        assert_eq!(contents(&folder, name), contents(&folder, &copy), "{name}");
    }
    assert_eq!(folder.read("c"), folder.read("c2"));
}

#[test]
fn between_formats() {
    let folder = Folder::new();
    let raw = [counting(2500), vec![0; 3000], vec![1, 2, 3]].concat();
    folder.pack("s", &raw, &[&META[..], &["--chunksize", "1000", "--typesize", "4"]].concat());
    folder.ok(&["copy", "s", "d", "--format", "sframe"]);
    assert_eq!(folder.info(&["d"])["storage"], "sparse");
    assert_eq!(folder.info(&["d"])["special"], folder.info(&["s"])["special"]);
    folder.ok(&["copy", "d", "s2", "--format", "cframe"]);
    assert_eq!(contents(&folder, "s2"), contents(&folder, "s"));
    folder.ok(&["copy", "d", "c", "--format", "chunk"]);
    assert_eq!(folder.ok(&["cat", "c"]), raw);
    assert_eq!(folder.info(&["c"])["typesize"], 4);
    folder.ok(&["copy", "c", "s3", "--format", "cframe"]);
    let info = folder.info(&["s3"]);
    assert_eq!(
        (&info["kind"], &info["nchunks"], &info["typesize"]),
        (&json!("schunk"), &json!(1), &json!(4))
    );
    assert_eq!(folder.ok(&["cat", "s3"]), raw);
    let array = npy("<i4", false, "(50, 50)", &counting(2500));
    folder.pack("a", &array, &META);
    folder.ok(&["copy", "a", "ad", "--format", "sframe", "--force"]);
    assert_eq!(folder.ok(&["cat", "ad", "--npy"]), array);
    folder.ok(&["copy", "a", "ac", "--format", "chunk"]);
    assert_eq!(folder.ok(&["cat", "ac"]), counting(2500));
}

#[test]
fn recompressed_and_recut() {
    let folder = Folder::new();
    let raw = counting(6000);
    folder.pack(
        "a",
        &npy("<i4", false, "(60, 100)", &raw),
        &[&META[..], &["--chunks", "25,20", "--blocks", "10,8"]].concat(),
    );
    let before = contents(&folder, "a");
    for (options, chunks, blocks, codec) in [
        (&["--codec", "lz4", "--clevel", "9"][..], [25, 20], [10, 8], "lz4"),
        (&["--filters", "bitshuffle", "--splitmode", "always"], [25, 20], [10, 8], "zstd"),
        (&["--chunks", "60,10", "--blocks", "7,10"], [60, 10], [7, 10], "zstd"),
        (&["--chunks", "13,100", "--codec", "blosclz"], [13, 100], [10, 8], "blosclz"),
        (&["--blocks", "5,5", "--format", "sframe"], [25, 20], [5, 5], "zstd"),
    ] {
        folder.ok(&[&["copy", "a", "b"], options].concat());
        let info = folder.info(&["b"]);
        assert_eq!((&info["chunks"], &info["blocks"]), (&json!(chunks), &json!(blocks)), "{options:?}");
        assert_eq!(info["codec"], codec);
        assert_eq!(contents(&folder, "b"), before, "{options:?}");
        let path = folder.path("b");
        if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.unwrap();
    }
    let raw = [raw, vec![9; 3]].concat();
    folder.pack("s", &raw, &[&META[..], &["--chunksize", "1000", "--typesize", "4"]].concat());
    let before = contents(&folder, "s");
    for (options, chunksize, typesize) in [
        (&["--codec", "zlib"][..], 1000, 4),
        (&["--chunksize", "4096", "--blocksize", "512"], 4096, 4),
        (&["--chunksize", "1G"], 1 << 30, 4),
        (&["--typesize", "2", "--clevel", "1", "--dict"], 1000, 2),
    ] {
        folder.ok(&[&["copy", "s", "t", "--force"], options].concat());
        let info = folder.info(&["t"]);
        assert_eq!(
            (&info["chunksize"], &info["typesize"]),
            (&json!(chunksize), &json!(typesize)),
            "{options:?}"
        );
        assert_eq!(contents(&folder, "t"), before, "{options:?}");
    }
    folder.pack("c", &raw, &["--format", "chunk", "--typesize", "4", "--codec", "lz4"]);
    folder.ok(&["copy", "c", "c2", "--codec", "zstd", "--blocksize", "2048"]);
    let info = folder.info(&["c2"]);
    assert_eq!(
        (&info["codec"], &info["blocksize"], &info["typesize"]),
        (&json!("zstd"), &json!(2048), &json!(4))
    );
    assert_eq!(folder.ok(&["cat", "c2"]), raw);
}

#[test]
fn another_codec_leaves_behind_what_it_cannot_have() {
    let folder = Folder::new();
    let floats: Vec<u8> = (0..4096u32).flat_map(|i| (i as f32).to_le_bytes()).collect();
    let source = npy("<f4", false, "(64, 64)", &floats);
    folder.pack("dict", &source, &["--codec", "zstd", "--dict", "--blocks", "8,64"]);
    folder.ok(&["copy", "dict", "b", "--codec", "zlib"]);
    let info = folder.info(&["b"]);
    assert_eq!((&info["codec"], &info["use_dict"]), (&json!("zlib"), &json!(false)));
    assert_eq!(info["filters"], json!([{"name": "shuffle", "meta": 0}]));
    assert_eq!(folder.ok(&["cat", "b"]), floats);
    folder.ok(&["copy", "dict", "c", "--codec", "lz4"]);
    assert_eq!(folder.info(&["c"])["use_dict"], json!(true));
    // Options that were given explicitly must not be dropped silently.
    folder.fails(1, &["copy", "dict", "d", "--codec", "zlib", "--dict"]);

    folder.ok(&["copy", "c", "zfp", "--codec", "zfp_prec", "--codec-meta", "57"]);
    let info = folder.info(&["zfp"]);
    assert_eq!((&info["codec"], &info["codec_meta"]), (&json!("zfp_prec"), &json!(57)));
    assert_eq!((&info["filters"], &info["use_dict"]), (&json!([]), &json!(false)));
    folder.ok(&["copy", "zfp", "e", "--codec", "lz4"]);
    assert_eq!(folder.info(&["e"])["codec_meta"], json!(0));
    assert_eq!(folder.ok(&["cat", "e"]), folder.ok(&["cat", "zfp"]));
    // Without a change of codec, the settings are kept.
    folder.ok(&["copy", "zfp", "f", "--codec", "zfp_prec", "--chunks", "32,32"]);
    assert_eq!(folder.info(&["f"])["codec_meta"], json!(57));
}

#[test]
fn into_and_out_of_arrays() {
    let folder = Folder::new();
    let raw = counting(600);
    folder.pack("s", &raw, &[&META[..], &["--chunksize", "1000"]].concat());
    folder.ok(&["copy", "s", "a", "--dtype", "<i4", "--shape", "20,30"]);
    let info = folder.info(&["a"]);
    assert_eq!((&info["shape"], &info["dtype"]), (&json!([20, 30]), &json!("<i4")));
    assert_eq!(contents(&folder, "a"), contents(&folder, "s"));
    folder.ok(&["copy", "a", "b", "--shape", "30,20"]);
    assert_eq!(folder.info(&["b"])["shape"], json!([30, 20]));
    assert_eq!(folder.info(&["b"])["dtype"], "<i4");
    assert_eq!(folder.ok(&["cat", "b"]), raw);
    folder.ok(&["copy", "a", "f", "--dtype", ">f4"]);
    assert_eq!(folder.info(&["f"])["dtype"], ">f4");
    assert_eq!(folder.info(&["f"])["shape"], json!([20, 30]));
    assert_eq!(folder.ok(&["cat", "f"]), raw);
    folder.refuses(
        &["copy", "a", "x", "--shape", "7"],
        "a: --shape 7 of <i4 takes 28 bytes, there are 2400 (2372 too many)",
    );
    folder.fails(1, &["copy", "s", "x", "--shape", "600"]);
    folder.pack("c", &raw, &["--format", "chunk"]);
    folder.ok(&["copy", "c", "ca", "--dtype", "<i4", "--shape", "600", "--format", "cframe"]);
    assert_eq!(folder.ok(&["cat", "ca"]), raw);
}

#[test]
fn metalayers_are_added_and_replaced() {
    let folder = Folder::new();
    folder.pack("s", b"data", &META);
    folder.ok(&[
        "copy", "s", "t", "--meta", "m=[3]", "--meta", "new=true", "--vlmeta", "v=null", "--vlmeta", "x=1",
    ]);
    let info = folder.info(&["t"]);
    assert_eq!(info["metalayers"], json!({"m": [3], "new": true}));
    assert_eq!(info["vlmetalayers"], json!({"v": null, "w": {"$raw": "AQI="}, "x": 1}));
}

#[test]
fn nothing_is_overwritten_unless_forced() {
    let folder = Folder::new();
    folder.pack("s", b"data", &[]);
    folder.pack("d", b"data", &["--format", "sframe"]);
    folder.pack("c", b"data", &["--format", "chunk"]);
    for source in ["s", "d", "c"] {
        folder.write("there", b"old");
        folder.refuses(&["copy", source, "there"], "there: already exists; --force overwrites it");
        assert_eq!(folder.read("there"), b"old");
        if source != "d" {
            folder.refuses(
                &["copy", source, "d"],
                "d: already exists (a whole sparse frame); --force overwrites it",
            );
        }
    }
    folder.ok(&["copy", "s", "there", "--force"]);
    assert_eq!(folder.ok(&["cat", "there"]), b"data");
    folder.pack("e", b"other", &["--format", "sframe"]);
    folder.ok(&["copy", "d", "e", "--force"]);
    assert_eq!(folder.ok(&["cat", "e"]), b"data");
    // A file cannot be copied onto itself.
    folder.refuses(&["copy", "s", "s", "--force", "--codec", "lz4"], "s: IN and OUT are the same file");
    assert_eq!(folder.ok(&["cat", "s"]), b"data");
    assert_eq!(folder.names(), ["c", "d", "e", "s", "there"]);
}

#[test]
fn at_an_offset_and_broken() {
    let folder = Folder::new();
    let raw = noise(50_000);
    folder.pack("s", &raw, &["--chunksize", "10000"]);
    let mut bytes = folder.read("s");
    bytes[97 + 10_032 + 4..][..4].copy_from_slice(&[0xff; 4]);
    folder.write("bad", &bytes);
    let message = folder.fails(1, &["copy", "bad", "out"]);
    assert!(message.starts_with("b2kit: bad: ") && message.contains("chunk 1"), "{message}");
    assert_eq!(folder.names(), ["bad", "s"], "no output, no temporary file");
}
