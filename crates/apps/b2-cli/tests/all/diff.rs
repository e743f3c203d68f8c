//! `b2kit diff`: compares data, independently of storage, chunks, blocks and compression.

use std::fs;

use crate::common::{Folder, counting, noise, npy};

/// Runs a command that must end with exit code 1 and this output.
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
    // Chunks cannot store an item size above 255.
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
    differ(
        &folder,
        &["a", "item"],
        "item [33,5]: 1325 | 29997; 2 of 2,400 differ, largest difference 28,672",
    );
    array("meta", &raw, "<i4", "(60, 40)", &["--meta", "m=3", "--vlmeta", "v=[2]"]);
    differ(&folder, &["a", "meta"], "metalayer m: 1 | 3");
    assert_eq!(folder.ok(&["diff", "--data-only", "a", "meta"]), b"");
    array("vlmeta", &raw, "<i4", "(60, 40)", &["--meta", "m=1"]);
    differ(&folder, &["a", "vlmeta"], "vlmetalayer v: [2] | none");

    folder.pack("s", &raw, &["--typesize", "4", "--chunksize", "1000"]);
    differ(&folder, &["a", "s"], "kind: array | not an array");
    folder.pack("typesize", &raw, &["--typesize", "8"]);
    differ(&folder, &["s", "typesize"], "item size: 4 | 8");
    folder.pack("shorter", &raw[..9000], &["--typesize", "4"]);
    differ(&folder, &["s", "shorter"], "bytes: 9600 | 9000");
    folder.pack("byte", &other, &["--typesize", "4", "--format", "sframe"]);
    differ(&folder, &["s", "byte"], "item 1325: 2d050000 | 2d750000; 2 of 2,400 differ");
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
    // Damage the data of one of them.
    folder.pack("text", &b"abcdefgh".repeat(600), &["--codec", "zstd"]);
    let mut bytes = folder.read("text");
    let at = u32::from_be_bytes(bytes[11..15].try_into().unwrap()) as usize + 32 + 4 + 4;
    bytes[at..at + 4].fill(0xff);
    folder.write("bad", &bytes);
    assert!(folder.fails(2, &["diff", "text", "bad"]).starts_with("b2kit: bad: "));
    folder.fails(2, &["diff", "s"]);
}

/// Returns an array of f8.
fn floats(items: &[f64]) -> Vec<u8> {
    npy(
        "<f8",
        false,
        &format!("({},)", items.len()),
        &items.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<_>>(),
    )
}

#[test]
fn values_and_tolerance() {
    let folder = Folder::new();
    folder.pack("a", &floats(&[1.0, 2.0, f64::NAN, 4.0, 0.0]), &["--chunks", "2"]);
    folder.pack("b", &floats(&[1.0, 2.5, f64::NAN, 4.25, -0.0]), &[]);
    differ(&folder, &["a", "b"], "item [1]: 2.0 | 2.5; 3 of 5 differ, largest difference 0.5");
    differ(
        &folder,
        &["a", "b", "--tolerance", "0"],
        "item [1]: 2.0 | 2.5; 2 of 5 differ by more than 0, largest difference 0.5",
    );
    differ(
        &folder,
        &["a", "b", "--tolerance=0.25"],
        "item [1]: 2.0 | 2.5; 1 of 5 differs by more than 0.25, largest difference 0.5",
    );
    assert_eq!(folder.ok(&["diff", "a", "b", "--tolerance", "0.5"]), b"");
    folder.pack("n", &floats(&[1.0, 2.0, 3.0, 4.0, f64::INFINITY]), &[]);
    differ(
        &folder,
        &["a", "n", "--tolerance=9"],
        "item [2]: nan | 3.0; 2 of 5 differ by more than 9, largest difference inf",
    );
    // .npy files on either side, and from standard input. They have no metalayers.
    folder.write("a.npy", &floats(&[1.0, 2.0, f64::NAN, 4.0, 0.0]));
    folder.pack("m", &floats(&[1.0, 2.0, f64::NAN, 4.0, 0.0]), &["--vlmeta", "v=1"]);
    for pair in [["a", "a.npy"], ["a.npy", "a"], ["a.npy", "a.npy"], ["m", "a.npy"]] {
        assert_eq!(folder.ok(&["diff", pair[0], pair[1]]), b"", "{pair:?}");
    }
    differ(&folder, &["a.npy", "b"], "item [1]: 2.0 | 2.5; 3 of 5 differ, largest difference 0.5");
    let output = folder.with_input(&["diff", "-", "b"], &folder.read("a.npy"));
    assert_eq!(output.status.code(), Some(1));
    // Fortran order, no dimensions, records, booleans.
    let turned: Vec<u8> =
        (0..40).flat_map(|j| (0..60).map(move |i| i * 40 + j)).flat_map(i32::to_le_bytes).collect();
    folder.write("f.npy", &npy("<i4", true, "(60, 40)", &turned));
    folder.pack("c", &npy("<i4", false, "(60, 40)", &counting(2400)), &["--chunks", "7,9"]);
    assert_eq!(folder.ok(&["diff", "f.npy", "c"]), b"");
    folder.write("x.npy", &npy("|b1", false, "()", &[1]));
    folder.write("y.npy", &npy("|b1", false, "()", &[0]));
    differ(&folder, &["x.npy", "y.npy"], "item []: True | False; 1 of 1 differs");
    let record = |k: u8| npy("[('a', '|u1'), ('s', '|S1')]", false, "(2,)", &[1, 65, 2, k]);
    folder.pack("r", &record(66), &[]);
    folder.write("r.npy", &record(67));
    differ(&folder, &["r", "r.npy"], "item [1]: (2, b'B') | (2, b'C'); 1 of 2 differs");
    // `longdouble` has more digits and a larger range than a double.
    let wide = |low: u8, exponent: u16| {
        let item = [&[low, 0, 0, 0, 0, 0, 0, 0x80], &exponent.to_le_bytes()[..], &[0; 6]].concat();
        npy("<f16", false, "(1,)", &item)
    };
    for (name, low, exponent) in
        [("one", 0, 16383), ("more", 1, 16383), ("huge", 0, 0x7000), ("twice", 0, 0x7001)]
    {
        folder.write(name, &wide(low, exponent));
    }
    differ(
        &folder,
        &["one", "more", "--tolerance=0"],
        "item [0]: 1.0 | 1.0000000000000000001; 1 of 1 differs by more than 0, largest difference 1.0842021724855044e-19",
    );
    assert_eq!(folder.ok(&["diff", "one", "more", "--tolerance=2e-19"]), b"");
    let output = folder.run(&["diff", "huge", "twice", "--tolerance=9"]);
    assert_eq!(output.status.code(), Some(1));
    for args in [["r", "r.npy", "--tolerance=1"], ["a", "b", "--tolerance=-1"], ["a", "b", "--tolerance=x"]] {
        folder.fails(2, &[&["diff"][..], &args].concat());
    }
}

/// Members are compared by their keys, whatever kind of store holds them.
#[test]
fn stores_are_compared_by_member() {
    let folder = Folder::new();
    let array = |first: i32| {
        let mut raw = counting(300);
        raw[..4].copy_from_slice(&first.to_le_bytes());
        npy("<i4", false, "(30, 10)", &raw)
    };
    for (name, first) in [("a.b2d", 0), ("b.b2d", 0), ("c.b2d", 7)] {
        fs::create_dir_all(folder.path(&format!("{name}/g"))).unwrap();
        folder.pack(&format!("{name}/g/x.b2nd"), &array(first), &[]);
        folder.pack(&format!("{name}/y.b2nd"), &array(1), &[]);
    }
    folder.pack("c.b2d/more.b2nd", &array(1), &[]);
    assert_eq!(folder.ok_text(&["diff", "a.b2d", "b.b2d"]), "");
    let output = folder.run(&["diff", "a.b2d", "c.b2d"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("/g/x: ") && lines[0].contains("[0,0]"), "{text}");
    assert_eq!(lines[1..], ["/more: only in c.b2d"]);
    let output = folder.run(&["diff", "--json", "a.b2d", "c.b2d"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["same"], &report["differences"][1]["key"]), (&false.into(), &"/more".into()));
    let report: serde_json::Value =
        serde_json::from_slice(&folder.ok(&["diff", "--json", "a.b2d/y.b2nd", "a.b2d::/y"])).unwrap();
    assert_eq!(report, serde_json::json!({"same": true, "differences": []}));
    // A store is not an array.
    folder.fails(2, &["diff", "a.b2d", "a.b2d/y.b2nd"]);
}
