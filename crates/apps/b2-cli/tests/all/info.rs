//! `b2kit info`: the JSON keys of every kind, and the table for human readers.

use crate::common::{Folder, counting, noise, npy};
use serde_json::{Value, json};

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

const NO_SPECIAL: [(&str, u64); 4] = [("zero", 0), ("nan", 0), ("value", 0), ("uninit", 0)];

fn special(changed: &[(&str, u64)]) -> Value {
    let mut all: serde_json::Map<String, Value> =
        NO_SPECIAL.iter().map(|(kind, n)| ((*kind).to_owned(), json!(n))).collect();
    for (kind, n) in changed {
        all[*kind] = json!(n);
    }
    Value::Object(all)
}

#[test]
fn an_array() {
    let folder = Folder::new();
    folder.pack(
        "a",
        &npy("<i4", false, "(13, 11)", &counting(143)),
        &[
            "--chunks",
            "5,4",
            "--blocks",
            "2,3",
            "--codec",
            "lz4",
            "--clevel",
            "7",
            "--splitmode",
            "never",
            "--filters",
            "bitshuffle",
            "--meta",
            r#"fixed={"a":[1,2.5]}"#,
            "--vlmeta",
            "note=\"text\"",
        ],
    );
    let info = folder.info(&["a"]);
    let cbytes = info["cbytes"].as_u64().unwrap();
    assert!(cbytes > 0 && cbytes < folder.read("a").len() as u64);
    let expected = json!({
        "kind": "ndarray", "storage": "contiguous", "nbytes": 572, "cbytes": cbytes,
        "ratio": 572.0 / cbytes as f64, "typesize": 4, "nchunks": 9, "chunksize": 6 * 6 * 4, "blocksize": null,
        "codec": "lz4", "codec_meta": 0, "clevel": 7, "filters": [{"name": "bitshuffle", "meta": 0}],
        "splitmode": "never", "use_dict": false, "special": special(&[]), "dead": 0, "checksums": "ok",
        "shape": [13, 11], "chunks": [5, 4], "blocks": [2, 3], "dtype": "<i4",
        "metalayers": {"b2nd": [0, 2, [13, 11], [5, 4], [2, 3], 0, "<i4"], "fixed": {"a": [1, 2.5]}},
        "vlmetalayers": {"note": "text"},
    });
    assert_eq!(info, expected);
}

#[test]
fn a_super_chunk_contiguous_and_sparse() {
    let folder = Folder::new();
    // A chunk of zeros, a chunk of one value, and ordinary ones.
    let raw = [vec![0; 4000], 77i32.to_le_bytes().repeat(1000), counting(1500)].concat();
    for (format, storage) in [("cframe", "contiguous"), ("sframe", "sparse")] {
        folder.pack(
            storage,
            &raw,
            &[
                "--format",
                format,
                "--typesize",
                "4",
                "--chunksize",
                "4000",
                "--filters",
                "trunc_prec:-3,shuffle",
                "--dict",
            ],
        );
        let info = folder.info(&[storage]);
        let cbytes = info["cbytes"].as_u64().unwrap();
        let expected = json!({
            "kind": "schunk", "storage": storage, "nbytes": 14000, "cbytes": cbytes,
            "ratio": 14000.0 / cbytes as f64, "typesize": 4, "nchunks": 4, "chunksize": 4000, "blocksize": null,
            "codec": "zstd", "codec_meta": 0, "clevel": 5,
            "filters": [{"name": "trunc_prec", "meta": 253}, {"name": "shuffle", "meta": 0}],
            "splitmode": "auto", "use_dict": true, "special": special(&[("zero", 1)]), "dead": 0,
            "checksums": "ok", "shape": null, "chunks": null, "blocks": null, "dtype": null,
            "lossy": true, "metalayers": {}, "vlmetalayers": {},
        });
        assert_eq!(info, expected);
    }
    assert!(folder.path("sparse").join("chunks.b2frame").is_file());
}

#[test]
fn a_bare_chunk() {
    let folder = Folder::new();
    let raw = counting(1000);
    folder.pack(
        "c",
        &raw,
        &[
            "--format",
            "chunk",
            "--typesize",
            "4",
            "--blocksize",
            "1024",
            "--codec",
            "lz4hc",
            "--filters",
            "delta,shuffle",
        ],
    );
    let cbytes = folder.read("c").len();
    let expected = json!({
        "kind": "chunk", "storage": null, "nbytes": 4000, "cbytes": cbytes, "ratio": 4000.0 / cbytes as f64,
        "typesize": 4, "nchunks": null, "chunksize": null, "blocksize": 1024, "codec": "lz4", "codec_meta": null,
        "clevel": null, "filters": [{"name": "delta", "meta": 0}, {"name": "shuffle", "meta": 0}],
        "splitmode": null, "use_dict": false, "special": special(&[]), "dead": null,
        "checksums": null, "shape": null, "chunks": null, "blocks": null, "dtype": null,
        "metalayers": null, "vlmetalayers": null,
    });
    assert_eq!(folder.info(&["c"]), expected);

    folder.pack("z", &[0; 4000], &["--format", "chunk", "--typesize", "4"]);
    let info = folder.info(&["z"]);
    assert_eq!(info["special"], special(&[("zero", 1)]));
    assert_eq!((&info["nbytes"], &info["cbytes"]), (&json!(4000), &json!(32)));
}

#[test]
fn empty_files_have_no_ratio() {
    let folder = Folder::new();
    folder.pack("e", b"", &[]);
    let info = folder.info(&["e"]);
    assert_eq!((&info["nbytes"], &info["nchunks"], &info["ratio"]), (&json!(0), &json!(0), &Value::Null));
    folder.pack("a", &npy("<f8", false, "(0, 3)", b""), &[]);
    let info = folder.info(&["a"]);
    assert_eq!((&info["shape"], &info["nchunks"], &info["ratio"]), (&json!([0, 3]), &json!(0), &Value::Null));
}

#[test]
fn every_key_is_always_there_in_the_same_order() {
    let folder = Folder::new();
    folder.pack("s", b"abc", &[]);
    folder.pack("c", b"abc", &["--format", "chunk"]);
    folder.pack("a", &npy("|u1", false, "(3,)", b"abc"), &[]);
    let of_array = folder.info(&["a"]);
    for name in ["s", "c"] {
        assert_eq!(keys(&folder.info(&[name])), keys(&of_array), "{name}");
    }
}

#[test]
fn chunks_are_listed() {
    let folder = Folder::new();
    // Noise does not shrink: it is stored, which takes 32 more bytes.
    let raw = [vec![0; 4000], noise(6000)].concat();
    folder.pack("s", &raw, &["--typesize", "4", "--chunksize", "4000"]);
    let list = folder.info(&["s", "--chunks"])["chunk_list"].clone();
    let expected = json!([
        {"nbytes": 4000, "cbytes": 0, "ratio": null, "special": "zero"},
        {"nbytes": 4000, "cbytes": 4032, "ratio": 4000.0 / 4032.0, "special": null},
        {"nbytes": 2000, "cbytes": 2032, "ratio": 2000.0 / 2032.0, "special": null},
    ]);
    assert_eq!(list, expected);
    let text = folder.ok_text(&["info", "s", "--chunks"]);
    let rows: Vec<Vec<&str>> = text.lines().rev().take(3).map(|l| l.split_whitespace().collect()).collect();
    assert_eq!(rows[2], ["0", "4000", "0", "-", "zero"], "{text}");
    assert_eq!(rows[0], ["2", "2000", "2032", "0.98x"], "{text}");
}

#[test]
fn metalayers_of_all_kinds() {
    let folder = Folder::new();
    let values = [
        ("int", "18446744073709551615"),
        ("float", "1.0"),
        ("floats", r#"[{"$float":"nan"},{"$float":"-inf"}]"#),
        ("bin", r#"{"$bin":"AAH/"}"#),
        ("map", r#"{"$map":[[1,"one"],[[2],{"$ext":[5,"Zm8="]}]]}"#),
        ("raw", r#"{"$raw":"AQI="}"#),
        ("nested", r#"{"a":{"b":[null,true,{"c":-9007199254740993}]}}"#),
        ("tuple", r#"["__tuple__",1,"x"]"#),
    ];
    let mut options = vec![];
    let named: Vec<String> = values.iter().map(|(name, json)| format!("{name}={json}")).collect();
    for named in &named {
        options.extend(["--meta", named, "--vlmeta", named]);
    }
    folder.pack("s", b"data", &options);
    // Compare as text, so that numbers are compared digit by digit.
    let text = folder.ok_text(&["info", "s", "--json"]);
    let list: Vec<String> = values.iter().map(|(name, json)| format!("\"{name}\":{json}")).collect();
    let list = list.join(",");
    let compact: String = text.split_whitespace().collect();
    assert!(compact.contains(&format!("\"metalayers\":{{{list}}}")), "{text}");
    assert!(compact.contains(&format!("\"vlmetalayers\":{{{list}}}")), "{text}");
    let table = folder.ok_text(&["info", "s", "--meta"]);
    for (name, json) in values {
        assert_eq!(table.matches(&format!("{name} ")).count(), 2, "{table}");
        assert_eq!(table.matches(json).count(), 2, "{json} in:\n{table}");
    }
    assert!(!folder.ok_text(&["info", "s"]).contains("nested"));
}

#[test]
fn the_table_says_what_matters() {
    let folder = Folder::new();
    let raw = [vec![0; 1 << 16], counting(1 << 14)].concat();
    folder.pack(
        "a",
        &npy("<i4", false, "(256, 128)", &raw),
        &["--chunks", "128,128", "--blocks", "16,128", "--filters", "delta,shuffle"],
    );
    let text = folder.ok_text(&["info", "a"]);
    for (name, value) in [
        ("kind", "array, contiguous frame"),
        ("shape", "256, 128"),
        ("dtype", "<i4"),
        ("chunks", "128, 128 (2 chunks of 64.0 KiB)"),
        ("blocks", "16, 128 (8.00 KiB)"),
        ("item size", "4 bytes"),
        ("uncompressed", "128 KiB (131072 bytes)"),
        ("codec", "zstd, level 5, split auto"),
        ("filters", "delta, shuffle"),
        ("special chunks", "1 zero"),
        ("dead space", "none"),
    ] {
        assert!(
            text.lines().any(|l| l.trim_start().starts_with(name) && l.ends_with(value)),
            "{name}: {value} in:\n{text}"
        );
    }
    assert!(text.starts_with("a\n"), "{text}");
    assert!(text.contains("compressed") && text.contains("ratio"), "{text}");
    folder.pack(
        "s",
        &raw,
        &["--typesize", "4", "--chunksize", "64K", "--filters", "none", "--format", "sframe"],
    );
    let text = folder.ok_text(&["info", "s"]);
    for value in ["super-chunk, sparse frame", "2 of 64.0 KiB", "none"] {
        assert!(text.lines().any(|l| l.ends_with(value)), "{value} in:\n{text}");
    }
    folder.pack("c", &raw, &["--format", "chunk", "--blocksize", "4096"]);
    let text = folder.ok_text(&["info", "c"]);
    for value in ["chunk", "4.00 KiB (32 blocks)", "shuffle"] {
        assert!(text.lines().any(|l| l.ends_with(value)), "{value} in:\n{text}");
    }
}

/// Text from files cannot control the terminal.
#[test]
fn control_characters_are_escaped() {
    let folder = Folder::new();
    folder.pack("s", b"x", &["--vlmeta", "n\u{1b}[31m=\"\\u001b[31m\""]);
    let text = folder.ok_text(&["info", "s", "--meta"]);
    assert!(!text.contains('\u{1b}'), "{text:?}");
}

/// If nothing but a repeated item is stored, the size of the file is what counts.
#[test]
fn special_chunks_alone() {
    let folder = Folder::new();
    for item in [f32::NAN, 0.0] {
        let items: Vec<u8> = (0..2_000_000).flat_map(|_| item.to_le_bytes()).collect();
        folder.pack("a", &npy("<f4", false, "(1000, 2000)", &items), &["--no-checksums"]);
        let len = folder.read("a").len();
        let ratio = (8_000_000 / len).to_string();
        let ratio = format!("{},{}", &ratio[..ratio.len() - 3], &ratio[ratio.len() - 3..]);
        let text = folder.ok_text(&["info", "a"]);
        assert!(text.contains(&format!("file {len} bytes, {ratio}x")), "{text}");
        assert_eq!(folder.info(&["a"])["ratio"], Value::Null);
    }
}

/// Names that are not UTF-8 are binary, as in msgpack, and none hides another.
#[test]
fn names_that_are_not_utf_8() {
    let folder = Folder::new();
    let metas = ["--meta", "mm0=1", "--meta", "mm1=2", "--vlmeta", "vv0=3", "--vlmeta", "vv1=4"];
    folder.pack("f", &counting(10), &[&metas[..], &["--no-checksums"]].concat());
    let mut bytes = folder.read("f");
    for (from, to) in [(b"mm0", b"m\xff0"), (b"mm1", b"m\xfe0"), (b"vv0", b"v\xff0"), (b"vv1", b"v\xfe0")] {
        let at = bytes.windows(3).position(|name| name == from).unwrap();
        bytes[at..at + 3].copy_from_slice(to);
    }
    folder.write("f", &bytes);
    let info = folder.info(&["f"]);
    assert_eq!(info["metalayers"], json!({"$map": [[{"$bin": "bf8w"}, 1], [{"$bin": "bf4w"}, 2]]}));
    assert_eq!(info["vlmetalayers"], json!({"$map": [[{"$bin": "dv8w"}, 3], [{"$bin": "dv4w"}, 4]]}));
    let listed: Value = serde_json::from_slice(&folder.ok(&["vlmeta", "list", "--json", "f"])).unwrap();
    assert_eq!(listed, info["vlmetalayers"]);
    assert_eq!(folder.ok_text(&["vlmeta", "list", "f"]), "v\\xff0\t3\nv\\xfe0\t4\n");
    let text = folder.ok_text(&["info", "--meta", "f"]);
    for line in ["m\\xff0  1\n", "m\\xfe0  2\n", "v\\xff0  3\n", "v\\xfe0  4\n"] {
        assert!(text.contains(line), "{text}");
    }
    folder.pack("g", &counting(10), &["--vlmeta", "$bin=1"]);
    assert_eq!(folder.info(&["g"])["vlmetalayers"], json!({"$map": [["$bin", 1]]}));
}

#[cfg(target_os = "linux")]
#[test]
fn names_of_files_that_are_not_utf_8() {
    use std::os::unix::ffi::OsStrExt;

    let folder = Folder::new();
    let name = std::ffi::OsStr::from_bytes(b"\xff.b2f");
    folder.pack("f", &counting(10), &[]);
    std::fs::rename(folder.path("f"), folder.path("").join(name)).unwrap();
    for args in [&["info", "--json"][..], &["verify", "-q", "--json"], &["bench", "-q", "--quick", "--json"]]
    {
        for twice in [false, true] {
            let mut command = folder.command(args);
            command.arg(name);
            let output = if twice { command.arg(name).output() } else { command.output() }.unwrap();
            assert!(output.status.success(), "{args:?}");
            let mut objects = serde_json::Deserializer::from_slice(&output.stdout).into_iter::<Value>();
            let object = objects.next().unwrap().unwrap();
            assert_eq!(object["file"], "\u{fffd}.b2f");
            assert_eq!(object["file_bytes"], json!({"$bin": "/y5iMmY="}), "{args:?}");
            assert_eq!(keys(&object)[..2], ["file", "file_bytes"]);
        }
    }
    let store = std::ffi::OsStr::from_bytes(b"\xfe.b2d");
    std::fs::create_dir(folder.path("").join(store)).unwrap();
    std::fs::rename(folder.path("").join(name), folder.path("").join(store).join("a.b2f")).unwrap();
    let member = std::ffi::OsStr::from_bytes(b"\xfe.b2d::/a");
    let output = folder.command(&["cat"]).arg(member).output().unwrap();
    assert_eq!(output.stdout, counting(10));
    let status = folder.command(&["vlmeta", "set"]).arg(member).args(["n", "1"]).status().unwrap();
    assert!(status.success());
}
