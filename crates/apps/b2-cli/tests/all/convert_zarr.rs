//! `b2kit convert`: Zarr and `.npz`, in both directions. Arrays of other writers come from zarr-python (`zarr_python.py`).

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::common::{Folder, counting, npy};

impl Folder {
    fn json(&self, name: &str, json: &Value) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, json.to_string()).unwrap();
    }

    fn bytes(&self, name: &str, bytes: &[u8]) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    /// A group with an array of 4 x 6 numbers in chunks of 2 x 3, one of which is missing.
    fn zarr(&self, name: &str) {
        self.json(
            &format!("{name}/zarr.json"),
            &json!({"zarr_format": 3, "node_type": "group", "attributes": {"title": "x"}}),
        );
        self.json(&format!("{name}/a/zarr.json"), &array(&[4, 6], &[2, 3]));
        for (i, j) in [(0, 0), (0, 1), (1, 0)] {
            self.bytes(&format!("{name}/a/c/{i}/{j}"), &chunk(i, j));
        }
    }
}

fn array(shape: &[u64], chunks: &[u64]) -> Value {
    let names = &[json!("y"), Value::Null][..shape.len()];
    json!({
        "zarr_format": 3, "node_type": "array", "shape": shape, "data_type": "int32", "fill_value": -7,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunks}},
        "chunk_key_encoding": {"name": "default"}, "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        "attributes": {"units": "K"}, "dimension_names": names,
    })
}

/// The items of a chunk: their numbers in the array.
fn chunk(i: i32, j: i32) -> Vec<u8> {
    (0..6).flat_map(|n| ((i * 2 + n / 3) * 6 + j * 3 + n % 3).to_le_bytes()).collect()
}

/// The items of the whole array.
fn items() -> Vec<u8> {
    (0..24)
        .flat_map(|n: i32| if n / 6 >= 2 && n % 6 >= 3 { (-7_i32).to_le_bytes() } else { n.to_le_bytes() })
        .collect()
}

#[test]
fn zarr_becomes_arrays_and_stores() {
    let folder = Folder::new();
    folder.zarr("in.zarr");
    folder.change(&["convert", "in.zarr", "all.b2d", "--verify"]);
    assert_eq!(folder.ok_text(&["ls", "all.b2d"]), "/a\n");
    assert_eq!(folder.ok(&["cat", "all.b2d::/a"]), items());
    // An array by its folder, by its path, and as the only one.
    for args in [&["in.zarr/a"][..], &["in.zarr", "/a"], &["in.zarr::a"], &["in.zarr"], &["in.zarr", "/*"]] {
        folder.change(&[&["convert"], args, &["one.b2nd", "--force"]].concat());
        assert_eq!(folder.ok(&["cat", "one.b2nd"]), items(), "{args:?}");
    }
    let facts = folder.info(&["one.b2nd"]);
    assert_eq!((&facts["chunks"], &facts["dtype"]), (&json!([2, 3]), &json!("<i4")));
    let layers = json!({"units": "K", "_ARRAY_DIMENSIONS": ["y", "dim_1"]});
    assert_eq!(facts["vlmetalayers"], layers);
    folder.change(&["convert", "in.zarr", "/a", "part.b2nd", "--slice=1:,::-2", "--verify"]);
    assert_eq!(folder.ok(&["cat", "part.b2nd"]), folder.ok(&["cat", "one.b2nd", "--slice=1:,::-2"]));
    let listed = folder.ok_text(&["convert", "in.zarr", "--list"]);
    assert!(listed.contains("/a  <i4 4 x 6, chunks 2 x 3"), "{listed}");
    let listed = folder.ok_text(&["convert", "in.zarr", "--list", "--json"]);
    assert_eq!(
        serde_json::from_str::<Value>(listed.lines().last().unwrap()).unwrap()["shape"],
        json!([4, 6])
    );
    fs::create_dir(folder.path("some")).unwrap();
    fs::rename(folder.path("in.zarr"), folder.path("some/in.zarr")).unwrap();
    folder.change(&["convert", "-r", "some", "-d", "new"]);
    assert_eq!(folder.ok(&["cat", "new/in.b2d::/a"]), items());
}

#[test]
fn zarr_and_npz_are_listed() {
    let folder = Folder::new();
    folder.zarr("in.zarr");
    folder.change(&["convert", "in.zarr", "all.b2d"]);
    folder.change(&["convert", "all.b2d", "all.npz"]);
    for (name, format) in [("in.zarr", "Zarr"), ("all.npz", ".npz")] {
        let output = folder.ok_text(&["info", name]);
        assert!(output.contains(format) && output.contains("/a  <i4 4 x 6"), "{output}");
        let facts = folder.info(&[name]);
        assert_eq!((&facts["format"], &facts["entries"][1]["shape"]), (&json!(format), &json!([4, 6])));
        assert_eq!(folder.info(&[&format!("{name}::a")])["entries"][0]["path"], "/a");
        let output = folder.ok_text(&["info", name, "all.b2d::/a"]);
        assert!(output.starts_with(&format!("{name}: {format}, 1 array\n")), "{output}");
        assert_eq!(folder.ok_text(&["ls", name]), "/a\n");
        assert_eq!(folder.ok_text(&["ls", "-l", name]), "/a  <i4  (4, 6)  96 bytes\n");
        let line: Value = serde_json::from_str(&folder.ok_text(&["ls", "--json", name])).unwrap();
        assert_eq!((&line["nbytes"], &line["stored"]), (&json!(96), &Value::Null));
        assert!(folder.fails(1, &["info", &format!("{name}::no")]).contains("no: no such "));
    }
}

#[test]
fn arrays_become_zarr_and_come_back() {
    let folder = Folder::new();
    folder.zarr("in.zarr");
    folder.change(&["convert", "in.zarr", "all.b2d"]);
    for (n, (codec, name)) in [
        (&[][..], "blosc"),
        (&["--codec", "gzip"], "gzip"),
        (&["--codec", "lz4hc", "--clevel", "9"], "blosc"),
    ]
    .into_iter()
    .enumerate()
    {
        let (new, back) = (format!("new{n}.zarr"), format!("back{n}.b2d"));
        let output = folder.change(&[&["convert", "all.b2d", &new, "--verify"][..], codec].concat());
        assert!(output.contains("1 array, 96 bytes"), "{output}");
        let metadata: Value = serde_json::from_slice(&folder.read(&format!("{new}/a/zarr.json"))).unwrap();
        assert_eq!(metadata["codecs"][1]["name"], name);
        assert_eq!(
            (&metadata["dimension_names"], &metadata["attributes"]),
            (&json!(["y", "dim_1"]), &json!({"units": "K"}))
        );
        folder.change(&["convert", &new, &back]);
        folder.ok(&["diff", "all.b2d", &back]);
    }
    assert!(folder.fails(1, &["convert", "all.b2d", "new0.zarr", "--force"]).contains("never replaced"));
    folder.change(&["convert", "all.b2d::/a", "one.zarr::/group/b"]);
    assert_eq!(folder.ok_text(&["convert", "one.zarr", "--list"]).lines().count(), 3);
    // Chunks of zeros are not stored.
    folder.pack("zeros.b2nd", &npy("<f8", false, "(50, 20)", &[0; 8000]), &[]);
    folder.change(&["convert", "zeros.b2nd", "zeros.zarr", "--verify"]);
    assert!(!folder.path("zeros.zarr/c").exists());
    assert!(!folder.names().iter().any(|name| name.contains(".tmp")));
    for args in [&["--codec", "zfp_acc"][..], &["--chunks", "5"], &["--slice", "1"], &["--codec", "blosc2"]] {
        folder.fails(2, &[&["convert", "zeros.b2nd", "x.zarr"], args].concat());
        assert!(!folder.path("x.zarr").exists());
    }
    let output = folder.fails(1, &["convert", "in.zarr", "x.zarr"]);
    assert!(output.contains("a Zarr array already"), "{output}");
}

#[test]
fn version_2_with_fortran_order_and_missing_values() {
    let folder = Folder::new();
    folder.json("in.zarr/.zarray", &json!({
        "zarr_format": 2, "shape": [3, 2], "chunks": [3, 2], "dtype": ">i2", "fill_value": 9, "order": "F",
        "filters": null, "compressor": null,
    }));
    // Numbers that JSON does not support, as xarray and older versions of zarr-python write them.
    folder.bytes("in.zarr/.zattrs", br#"{"_ARRAY_DIMENSIONS": ["a", "b"], "valid": NaN}"#);
    folder.bytes("in.zarr/0.0", &[0, 0, 0, 2, 0, 4, 0, 1, 0, 3, 0, 5]);
    folder.change(&["convert", "in.zarr", "x.b2nd", "--verify"]);
    assert_eq!(folder.ok_text(&["cat", "--csv", "x.b2nd"]), "0,1\n2,3\n4,5\n");
    let facts = folder.info(&["x.b2nd"]);
    let layers = json!({"_ARRAY_DIMENSIONS": ["a", "b"], "valid": {"$float": "nan"}, "_FillValue": 9});
    assert_eq!((&facts["dtype"], &facts["vlmetalayers"]), (&json!(">i2"), &layers));
}

#[test]
fn what_cannot_be_read_is_named() {
    let folder = Folder::new();
    folder.zarr("in.zarr");
    let mut other = array(&[4], &[2]);
    other["codecs"] = json!(["bytes", "lzma"]);
    folder.json("in.zarr/b/zarr.json", &other);
    let message = folder.fails(1, &["convert", "in.zarr", "x.b2d"]);
    assert!(message.contains("/b: cannot be converted: codec lzma is not supported"), "{message}");
    let message = folder.change(&["convert", "in.zarr", "x.b2d", "--skip-unsupported"]);
    assert!(message.contains("left out"), "{message}");
    assert_eq!(folder.ok_text(&["ls", "x.b2d"]), "/a\n");
    assert!(folder.fails(1, &["convert", "in.zarr", "/no", "y.b2nd"]).contains("no such group or array"));
    assert!(folder.fails(1, &["convert", "in.zarr", "/a", "y.b2nd", "--mask-and-scale"]).contains("HDF5"));
    for name in ["pack", "show", "cat"] {
        let output = folder.run(&[name, "in.zarr"]);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && message.contains("b2kit convert"), "{name}: {message}");
    }
}

/// A store may not have every name.
#[test]
fn names_that_are_no_keys_are_skipped_on_request() {
    let folder = Folder::new();
    folder.zarr("in.zarr");
    folder.change(&["convert", "in.zarr", "a.b2d"]);
    folder.change(&["convert", "a.b2d", "x.npz"]);
    // The name of the member, in its header and in the directory.
    let mut bytes = folder.read("x.npz");
    for at in 0..bytes.len() - 5 {
        if &bytes[at..at + 5] == b"a.npy" {
            bytes[at] = b'\\';
        }
    }
    folder.write("y.npz", &bytes);
    let message = folder.fails(1, &["convert", "y.npz", "y.b2d"]);
    assert!(message.contains("--skip-unsupported") && !folder.path("y.b2d").exists(), "{message}");
    let message = folder.fails(1, &["convert", "y.npz", "y.b2d", "--skip-unsupported"]);
    assert!(message.contains("left out") && message.contains("there is no array"), "{message}");
}

/// A few bytes of metadata cannot demand much memory, and nothing outside the store is read.
#[test]
fn hostile_stores_are_errors() {
    let folder = Folder::new();
    // More missing chunks than --max-output allows.
    let huge = array(&[1 << 40], &[1 << 20]);
    folder.json("huge/zarr.json", &huge);
    let message = folder.fails(1, &["convert", "huge", "x.b2nd", "--max-output", "50M"]);
    assert!(message.contains("--max-output"), "{message}");
    for (n, (shape, chunks)) in
        [([1_u64 << 62], [1_u64 << 62]), ([u64::MAX], [1]), ([5], [0])].into_iter().enumerate()
    {
        folder.json(&format!("bad{n}/zarr.json"), &array(&shape, &chunks));
        folder.fails(1, &["convert", &format!("bad{n}"), "x.b2nd"]);
    }
    folder.bytes("bad3/zarr.json", &b"[".repeat(100_000));
    folder.fails(1, &["convert", "bad3", "x.b2nd"]);
    // Chunks of another length.
    folder.json("short/zarr.json", &array(&[2, 3], &[2, 3]));
    folder.bytes("short/c/0/0", &chunk(0, 0)[..20]);
    let message = folder.fails(1, &["convert", "short", "x.b2nd"]);
    assert!(message.contains("[0, 0]") && message.contains("20 bytes"), "{message}");
    #[cfg(unix)]
    {
        folder.bytes("secret", &[1; 24]);
        fs::remove_file(folder.path("short/c/0/0")).unwrap();
        std::os::unix::fs::symlink(folder.path("secret"), folder.path("short/c/0/0")).unwrap();
        folder.fails(1, &["convert", "short", "x.b2nd"]);
        fs::remove_dir_all(folder.path("short/c")).unwrap();
        fs::create_dir_all(folder.path("other/0")).unwrap();
        folder.bytes("other/0/0", &[1; 24]);
        std::os::unix::fs::symlink(folder.path("other"), folder.path("short/c")).unwrap();
        folder.fails(1, &["convert", "short", "x.b2nd"]);
    }
    assert!(!folder.path("x.b2nd").exists());
}

#[cfg(feature = "http")]
#[test]
fn zarr_at_a_url() {
    let folder = Folder::new();
    folder.zarr("in.zarr");
    let server = b2_testkit::web::Server::start().unwrap();
    let mut url = String::new();
    for name in ["a/zarr.json", "a/c/0/0", "a/c/0/1", "a/c/1/0", "zarr.json"] {
        let mut bytes = folder.read(&format!("in.zarr/{name}"));
        if name == "zarr.json" {
            let listed = json!({"kind": "inline", "metadata": {"a": array(&[4, 6], &[2, 3])}});
            let group = json!({"zarr_format": 3, "node_type": "group", "consolidated_metadata": listed});
            bytes = group.to_string().into_bytes();
        }
        url = server.put(&format!("in.zarr/{name}"), bytes);
    }
    let root = url.strip_suffix("/zarr.json").unwrap();
    let run = |args: &[&str]| {
        let output =
            folder.command(args).env("NO_PROXY", "127.0.0.1").env("no_proxy", "127.0.0.1").output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    for (from, to) in
        [(root.to_owned(), "x.b2d"), (format!("{root}/a"), "y.b2nd"), (format!("{root}::/a"), "z.b2nd")]
    {
        let (code, text) = run(&["convert", &from, to]);
        assert_eq!(code, Some(0), "{text}");
    }
    assert_eq!(folder.ok(&["cat", "x.b2d::/a"]), items());
    assert_eq!((folder.ok(&["cat", "y.b2nd"]), folder.ok(&["cat", "z.b2nd"])), (items(), items()));
    server.put("in.zarr/zarr.json", folder.read("in.zarr/zarr.json"));
    let (code, text) = run(&["convert", root, "n.b2d"]);
    assert!(code == Some(1) && text.contains("consolidated"), "{text}");
    assert_eq!(run(&["convert", &format!("{root}/none"), "n.b2nd"]).0, Some(1));
}

#[test]
fn npz_is_written_and_read() {
    let folder = Folder::new();
    folder.zarr("in.zarr");
    folder.change(&["convert", "in.zarr", "all.b2d"]);
    for codec in [&[][..], &["--codec", "gzip", "--clevel", "9"]] {
        let error_text =
            folder.change(&[&["convert", "all.b2d", "x.npz", "--force", "--verify"][..], codec].concat());
        assert!(
            error_text.contains("a: 2 attributes: left out")
                && error_text.contains("/: 1 attribute: left out"),
            "{error_text}"
        );
        folder.change(&["convert", "x.npz::a", "one.b2nd", "--force", "--verify"]);
        assert_eq!(folder.ok(&["cat", "one.b2nd"]), items());
        folder.change(&["convert", "x.npz", "back.b2z", "--force", "--verify"]);
        assert_eq!(folder.ok(&["cat", "back.b2z::/a"]), items());
    }
    folder.pack("b.b2nd", &npy("<f4", false, "(3,)", &[0; 12]), &[]);
    folder.change(&["convert", "b.b2nd", "y.npz::group/name"]);
    assert_eq!(folder.ok_text(&["convert", "y.npz", "--list"]), "/            group\n/group/name  <f4 3\n");
    // An existing file is neither extended nor damaged.
    folder.change(&["convert", "b.b2nd", "y.npz::/group/name", "--force"]);
    let error_text = folder.fails(1, &["convert", "b.b2nd", "y.npz::other", "--force"]);
    assert!(error_text.contains("holds /group/name, which would be lost"), "{error_text}");
    // The message names the command to use.
    let error_text = folder.fails(2, &["pack", "x.npz", "p.b2nd"]);
    assert!(error_text.contains(".npz") && error_text.contains("b2kit convert"), "{error_text}");
    assert!(folder.fails(1, &["convert", "x.npz", "/none", "n.b2nd"]).contains("no such array"));
    assert!(folder.fails(2, &["convert", "b.b2nd", "z.npz", "--codec", "lz4"]).contains("gzip"));
}

#[test]
fn damaged_npz_files_are_errors() {
    let folder = Folder::new();
    folder.pack("a.b2nd", &npy("<i4", false, "(500,)", &counting(500)), &[]);
    for (name, codec) in [("s.npz", &[][..]), ("d.npz", &["--codec", "gzip"])] {
        folder.change(&[&["convert", "a.b2nd", name][..], codec].concat());
        let whole = folder.read(name);
        let mut failed = 0;
        for at in (0..whole.len()).step_by(whole.len() / 40) {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x10;
            folder.write("x.npz", &damaged);
            let output = folder.run(&["convert", "x.npz", "x.b2nd", "--force"]);
            let message = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(!message.contains("panicked"), "{message}");
            match output.status.code() {
                Some(0) => assert_eq!(folder.ok(&["cat", "x.b2nd"]), counting(500), "byte {at}"),
                code => {
                    assert_eq!(code, Some(1), "{message}");
                    failed += 1;
                }
            }
        }
        assert!(failed > 20, "{name}: {failed}");
        folder.write("x.npz", &whole[..whole.len() - 30]);
        folder.fails(1, &["convert", "x.npz", "x.b2nd", "--force"]);
    }
}

/// Needs `B2KIT_ZARR_PYTHON`, a Python with zarr, numcodecs and xarray.
#[test]
#[ignore = "needs zarr-python"]
fn arrays_are_exchanged_with_zarr_python() {
    let python = std::env::var("B2KIT_ZARR_PYTHON").expect("B2KIT_ZARR_PYTHON: a Python with zarr");
    let folder = Folder::new();
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/zarr_python.py");
    let mut command = Command::new(python);
    command.arg(script).arg(env!("CARGO_BIN_EXE_b2kit")).arg(folder.path("")).arg("150");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.stdout, b"150 cases\n");
}

/// Items may be longer than the 255 bytes that fit in a chunk of Blosc.
#[test]
fn long_items_are_unshuffled() {
    let folder = Folder::new();
    let items: Vec<u8> = (0..3 * 300_usize).map(|n| (n % 251) as u8 + 1).collect();
    let filters = json!([{"id": "shuffle", "elementsize": 300}]);
    folder.json(
        "in.zarr/.zarray",
        &json!({
            "zarr_format": 2, "shape": [3], "chunks": [3], "dtype": "|S300", "fill_value": null, "order": "C",
            "compressor": null, "filters": filters,
        }),
    );
    let planes: Vec<u8> = (0..300).flat_map(|k| [items[k], items[300 + k], items[600 + k]]).collect();
    folder.bytes("in.zarr/0", &planes);
    folder.change(&["convert", "in.zarr", "out.b2nd"]);
    assert_eq!(folder.ok(&["cat", "out.b2nd"]), items);
}
