//! `b2kit append`: more data at the end, in place.

use crate::common::{FORMATS, Folder, META, counting, exists, noise, npy};
use serde_json::json;

#[test]
fn rows_to_an_array() {
    for format in FORMATS {
        let folder = Folder::new();
        let old = counting(50 * 6);
        let options = [&META[..], &["--format", format, "--chunks", "20,4", "--blocks", "5,2"]].concat();
        folder.pack("a", &npy("<i4", false, "(50, 6)", &old), &options);
        let before = folder.info(&["a"]);
        let more = counting(7 * 6);
        folder.write("more.npy", &npy("<i4", false, "(7, 6)", &more));
        folder.write("more.raw", &more);

        let output = folder.change(&["append", "a", "more.npy"]);
        assert!(output.starts_with("a: 7 positions appended to dimension 0, shape 57, 6 now; "), "{output}");
        assert!(output.ends_with(" written\n"), "{output}");
        assert_eq!(folder.change(&["append", "-q", "a", "more.raw", "--axis", "0"]), "");
        assert_eq!(folder.ok(&["cat", "a"]), [&old[..], &more, &more].concat());

        let after = folder.info(&["a"]);
        assert_eq!(after["shape"], json!([64, 6]));
        for key in ["chunks", "blocks", "dtype", "codec", "clevel", "filters", "vlmetalayers", "storage"] {
            assert_eq!(before[key], after[key], "{key}");
        }
        assert_eq!(after["metalayers"]["m"], json!([1, 2]));
    }
}

#[test]
fn along_other_dimensions() {
    for format in FORMATS {
        let folder = Folder::new();
        let rows: Vec<u8> = (0..30).collect();
        folder.pack(
            "a",
            &npy("|u1", false, "(5, 6)", &rows),
            &["--format", format, "--chunks", "2,4", "--blocks", "2,2"],
        );
        // The file holds one column after the other.
        let columns: Vec<u8> = (100..115).collect();
        folder.write("columns.npy", &npy("|u1", true, "(5, 3)", &columns));
        let output = folder.change(&["append", "a", "columns.npy", "--axis", "-1", "--no-sync", "--no-lock"]);
        assert!(output.starts_with("a: 3 positions appended to dimension 1, shape 5, 9 now; "), "{output}");
        let expected: Vec<u8> = (0..5u8)
            .flat_map(|i| (0..9u8).map(move |j| if j < 6 { i * 6 + j } else { 100 + (j - 6) * 5 + i }))
            .collect();
        assert_eq!(folder.ok(&["cat", "a"]), expected);
    }
}

#[test]
fn bytes_to_a_super_chunk() {
    for format in FORMATS {
        let folder = Folder::new();
        let old = noise(2500);
        folder.pack("s", &old, &[&META[..], &["--format", format, "--chunksize", "1000"]].concat());
        let more = counting(1000);
        let output = folder.with_input(&["append", "s", "-"], &more);
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(message.starts_with("s: 3.91 KiB appended, 6.35 KiB in 7 chunks now; "), "{message}");
        assert_eq!((output.status.code(), &output.stdout[..]), (Some(0), &b""[..]));
        assert_eq!(folder.ok(&["cat", "s"]), [&old[..], &more].concat());
        let info = folder.info(&["s"]);
        assert_eq!((&info["chunksize"], &info["nchunks"]), (&json!(1000), &json!(7)));
        assert_eq!(info["vlmetalayers"], json!({"v": {"a": 1.5}}));

        folder.write("nothing", b"");
        let message = folder.change(&["append", "s", "nothing"]);
        assert_eq!(message, "s: 0 bytes appended, 6.35 KiB in 7 chunks now; nothing written\n");
    }
}

#[test]
fn npy_files_to_a_super_chunk_in_c_order() {
    let folder = Folder::new();
    folder.pack("s", &counting(10), &["--typesize", "4", "--chunksize", "32"]);
    folder.write("c.npy", &npy("<i4", false, "(2, 3)", &counting(6)));
    let f_order: Vec<u8> = [0, 3, 1, 4, 2, 5].into_iter().flat_map(i32::to_le_bytes).collect();
    folder.write("f.npy", &npy("<i4", true, "(2, 3)", &f_order));
    for name in ["c.npy", "f.npy"] {
        folder.change(&["append", "-q", "s", name]);
    }
    assert_eq!(folder.ok(&["cat", "s"]), [counting(10), counting(6), counting(6)].concat());
}

#[test]
fn large_inputs_come_in_pieces() {
    let folder = Folder::new();
    let old = noise(1000);
    folder.pack("s", &old, &["--chunksize", "3M", "--codec", "lz4", "--clevel", "1"]);
    let more: Vec<u8> = (0..70u32 << 20).map(|i| (i >> 12) as u8).collect();
    folder.write("more", &more);
    folder.change(&["append", "-q", "--no-sync", "s", "more"]);
    let all = folder.ok(&["cat", "s"]);
    assert!(all == [old, more].concat(), "same bytes");
    assert_eq!(folder.info(&["s"])["chunksize"], json!(3 << 20));
}

#[test]
fn to_empty_files() {
    for format in FORMATS {
        let folder = Folder::new();
        folder.pack("a", &npy("<i4", false, "(0, 3)", b""), &["--format", format, "--chunks", "2,3"]);
        folder.write("more", &counting(9));
        folder.change(&["append", "-q", "a", "more"]);
        assert_eq!(folder.ok(&["cat", "a"]), counting(9));
        folder.pack("s", b"", &["--format", format, "--chunksize", "10"]);
        folder.change(&["append", "-q", "s", "more"]);
        assert_eq!(folder.ok(&["cat", "s"]), counting(9));
    }
}

#[test]
fn to_files_of_c() {
    let folder = Folder::new();
    for (name, path) in
        [("a", "array/2d.b2nd"), ("d", "array/3d-sparse.b2nd"), ("be", "array/dtype-i4-be.b2nd")]
    {
        folder.fixture(name, &format!("c-blosc2/3.3.5/{path}"));
        let (before, old) = (folder.info(&[name]), folder.ok(&["cat", name]));
        let rows = before["shape"][0].as_u64().unwrap() as usize;
        folder.write("more", &old[..old.len() / rows * 3]);
        folder.change(&["append", "-q", name, "more"]);
        assert_eq!(folder.ok(&["cat", name]), [&old[..], &old[..old.len() / rows * 3]].concat(), "{name}");
    }
    for path in [
        "plain-contiguous.b2frame",
        "plain-sparse.b2frame",
        "variable-contiguous.b2frame",
        "variable-sparse.b2frame",
        "emptied-contiguous.b2frame",
        "emptied-sparse.b2frame",
        "edited.b2frame",
        "typesize300.b2frame",
    ] {
        folder.fixture(path, &format!("c-blosc2/3.3.5/frame/{path}"));
        let old = folder.ok(&["cat", path]);
        folder.write("more", &noise(5000));
        folder.change(&["append", "-q", path, "more"]);
        assert_eq!(folder.ok(&["cat", path]), [&old[..], &noise(5000)].concat(), "{path}");
    }
}

#[test]
fn what_does_not_fit_changes_nothing() {
    for format in FORMATS {
        let folder = Folder::new();
        folder.pack("a", &npy("<i4", false, "(5, 6)", &counting(30)), &["--format", format]);
        folder.pack("s", &counting(30), &["--format", format, "--typesize", "4"]);
        let write = |name: &str, descr: &str, shape: &str, n: usize| {
            folder.write(name, &npy(descr, false, shape, &vec![0; n]));
        };
        write("f4", "<f4", "(5, 6)", 120);
        write("be", ">i4", "(5, 6)", 120);
        write("i8", "<i8", "(5, 6)", 240);
        write("wide", "<i4", "(5, 7)", 140);
        write("flat", "<i4", "(7,)", 28);
        folder.write("raw", &[0; 25]);
        folder.write("short.npy", &npy("<i4", false, "(5, 6)", &[0; 100]));
        let cases: [(&[&str], &str); 12] = [
            (&["a", "f4"], "a: f4: the dtype is <f4, the array has <i4"),
            (&["a", "be"], "a: be: the dtype is >i4, the array has <i4"),
            (&["s", "i8"], "s: i8: items of 8 bytes (<i8), the file has items of 4 bytes"),
            (
                &["a", "wide"],
                "a: wide: the shape is 5, 7, the array has 5, 6: all but dimension 0 must be the same",
            ),
            (
                &["a", "flat"],
                "a: flat: the shape is 7, the array has 5, 6: all but dimension 0 must be the same",
            ),
            (
                &["a", "wide", "--axis", "0"],
                "a: wide: the shape is 5, 7, the array has 5, 6: all but dimension 0 must be the same",
            ),
            (&["a", "raw"], "a: raw: 25 bytes, expected a multiple of 24 (shape 1, 6)"),
            (&["a", "raw", "--axis=1"], "a: raw: 25 bytes, expected a multiple of 20 (shape 5, 1)"),
            (&["a", "raw", "--axis", "2"], "a: --axis 2: the array has 2 dimensions"),
            (&["a", "raw", "--axis", "-3"], "a: --axis -3: the array has 2 dimensions"),
            (&["s", "raw", "--axis", "0"], "s: --axis: this is a super-chunk: only arrays have dimensions"),
            (
                &["a", "short.npy"],
                "short.npy: items: 120 bytes expected at offset 128, the file ends after 100",
            ),
        ];
        let before = (folder.ok(&["cat", "a"]), folder.info(&["a"]), folder.info(&["s"]));
        for (args, message) in cases {
            folder.refuses(&[&["append"], args].concat(), message);
        }
        assert_eq!(before, (folder.ok(&["cat", "a"]), folder.info(&["a"]), folder.info(&["s"])));
    }
}

#[test]
fn what_is_no_frame() {
    let folder = Folder::new();
    folder.pack("c", &counting(30), &["--format", "chunk"]);
    std::fs::create_dir(folder.path("d")).unwrap();
    folder.write("raw", b"1");
    folder.refuses(&["append", "c", "raw"], "c: not a frame: only frames can be changed");
    folder.refuses(&["append", "d", "raw"], "d: a directory without chunks.b2frame: not a sparse frame");
    for args in [["none", "raw"], ["c", "none"]] {
        let message = folder.fails(1, &[&["append"], &args[..]].concat());
        assert!(message.contains("none: "), "{message}");
    }
    assert_eq!(folder.names(), ["c", "d", "raw"], "no locks of what cannot be changed");
    folder.fails(2, &["append", "c"]);
    folder.fails(2, &["append", "c", "raw", "--axis", "x"]);
}

#[test]
fn locks_and_bytes_behind() {
    let folder = Folder::new();
    let frame = folder.pack("s", b"12", &[]);
    folder.write("raw", b"345");
    folder.change(&["append", "-q", frame, "raw", "--no-lock"]);
    assert!(!exists(&folder.path("s.b2lock")));
    folder.change(&["append", "-q", frame, "raw"]);
    assert!(exists(&folder.path("s.b2lock")));
    let mut bytes = folder.read("s");
    bytes.extend(b"not ours");
    folder.write("s", &bytes);
    let message = folder.fails(1, &["append", frame, "raw"]);
    assert!(message.starts_with("b2kit: s: "), "{message}");
    assert_eq!(folder.read("s"), bytes);
    folder.change(&["append", "-q", frame, "raw", "--force"]);
    assert_eq!(folder.ok(&["cat", frame]), b"12345345345");
}

/// An input with one dimension fewer counts as one position, such as a day appended to a year.
#[test]
fn a_missing_dimension_is_added() {
    let folder = Folder::new();
    folder.pack("a", &npy("<i4", false, "(2, 3, 4)", &counting(24)), &["--chunks", "2,2,3"]);
    folder.write("day.npy", &npy("<i4", false, "(3, 4)", &counting(12)));
    let output = folder.change(&["append", "a", "day.npy"]);
    let expected =
        "a: 1 position (the input has one dimension fewer) appended to dimension 0, shape 3, 3, 4 now; ";
    assert!(output.starts_with(expected), "{output}");
    assert_eq!(folder.ok(&["cat", "a"]), [counting(24), counting(12)].concat());
    assert_eq!(folder.ok(&["cat", "a", "--slice=2"]), counting(12));
    // In Fortran order, along the last dimension: item [i, j] is 3 * i + j.
    let turned: Vec<u8> =
        (0..3).flat_map(|j| (0..3).map(move |i| 3 * i + j)).flat_map(i32::to_le_bytes).collect();
    folder.write("f.npy", &npy("<i4", true, "(3, 3)", &turned));
    folder.change(&["append", "a", "f.npy", "--axis=-1"]);
    assert_eq!(folder.ok(&["cat", "a", "--slice=...,-1"]), counting(9));
    // A single item can be appended to a list; other shapes are refused.
    folder.pack("list", &npy("<i4", false, "(5,)", &counting(5)), &[]);
    folder.write("one.npy", &npy("<i4", false, "()", &5_i32.to_le_bytes()));
    folder.change(&["append", "list", "one.npy"]);
    assert_eq!(folder.ok(&["cat", "list"]), counting(6));
    folder.write("other.npy", &npy("<i4", false, "(4, 3)", &counting(12)));
    folder.fails(1, &["append", "a", "other.npy"]);
    folder.fails(1, &["append", "a", "one.npy"]);
}
