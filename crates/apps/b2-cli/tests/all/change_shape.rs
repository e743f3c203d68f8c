//! `b2kit resize`, `insert` and `delete`: change the shape of arrays in place.

use crate::common::{FORMATS, Folder, counting, ints, npy};
use serde_json::json;

fn array(folder: &Folder, format: &str) {
    let options =
        ["--format", format, "--chunks", "4,5", "--blocks", "2,3", "--meta", "m=1", "--vlmeta", "v=2"];
    folder.pack("a", &npy("<i4", false, "(10, 12)", &counting(120)), &options);
}

/// Returns everything that changing the shape must preserve.
fn kept(folder: &Folder) -> Vec<serde_json::Value> {
    let info = folder.info(&["a"]);
    let keys = ["chunks", "blocks", "dtype", "codec", "clevel", "filters", "vlmetalayers", "storage"];
    keys.iter().map(|key| info[key].clone()).chain([info["metalayers"]["m"].clone()]).collect()
}

#[test]
fn resize_shows_zeros() {
    for format in FORMATS {
        let folder = Folder::new();
        array(&folder, format);
        let before = kept(&folder);
        let output = folder.change(&["resize", "a", "--shape", "3,7"]);
        assert!(output.starts_with("a: shape 3, 7 now, it was 10, 12; "), "{output}");
        let output = folder.change(&["resize", "a", "--shape", "3,7"]);
        assert_eq!(output, "a: shape 3, 7 now, it was 3, 7; nothing written\n");
        assert_eq!(folder.change(&["resize", "-q", "--no-sync", "--no-lock", "a", "--shape=5,12"]), "");
        let expected =
            ints((0..5).flat_map(|i| (0..12).map(move |j| if i < 3 && j < 7 { i * 12 + j } else { 0 })));
        assert_eq!(folder.ok(&["cat", "a"]), expected);
        assert_eq!(folder.info(&["a"])["shape"], json!([5, 12]));
        assert_eq!(before, kept(&folder));
        folder.change(&["resize", "-q", "a", "--shape", "0,12"]);
        folder.change(&["resize", "-q", "a", "--shape", "1,2"]);
        assert_eq!(folder.ok(&["cat", "a"]), [0; 8]);
    }
}

#[test]
fn insert_and_delete_rows() {
    for format in FORMATS {
        let folder = Folder::new();
        array(&folder, format);
        let before = kept(&folder);
        folder.write("rows.npy", &npy("<i4", false, "(3, 12)", &ints(1000..1036)));
        let output = folder.change(&["insert", "a", "rows.npy", "--axis", "0", "--at", "2"]);
        assert!(
            output.starts_with("a: 3 positions inserted at 2 of dimension 0, shape 13, 12 now; "),
            "{output}"
        );
        assert_eq!(folder.ok(&["cat", "a"]), ints((0..24).chain(1000..1036).chain(24..120)));
        // Insert before the last position, then at the end, with raw bytes. Dimension 0 is the default.
        folder.write("row", &ints(2000..2012));
        folder.change(&["insert", "-q", "a", "row", "--at", "-1"]);
        folder.change(&["insert", "-q", "a", "row", "--at", "14"]);
        let all =
            || (0..24).chain(1000..1036).chain(24..108).chain(2000..2012).chain(108..120).chain(2000..2012);
        assert_eq!(folder.ok(&["cat", "a"]), ints(all()));

        let output = folder.change(&["delete", "a", "--axis", "0", "--range", "2:5"]);
        assert!(output.starts_with("a: 3 positions of dimension 0 deleted, shape 12, 12 now; "), "{output}");
        folder.change(&["delete", "-q", "a", "--range=-1"]);
        folder.change(&["delete", "-q", "a", "--range=9:-1"]);
        folder.change(&["delete", "-q", "a", "--range", "20:30"]);
        assert_eq!(folder.ok(&["cat", "a"]), ints(0..120));
        assert_eq!(before, kept(&folder));
    }
}

#[test]
fn insert_and_delete_columns() {
    for format in FORMATS {
        let folder = Folder::new();
        array(&folder, format);
        // In Fortran order the column is contiguous.
        folder.write("column.npy", &npy("<i4", true, "(10, 1)", &ints(500..510)));
        folder.change(&["insert", "-q", "--no-sync", "a", "column.npy", "--axis=1", "--at=5"]);
        let row =
            |i: i32| (0..5).map(move |j| i * 12 + j).chain([500 + i]).chain((5..12).map(move |j| i * 12 + j));
        assert_eq!(folder.ok(&["cat", "a"]), ints((0..10).flat_map(row)));
        let output = folder.change(&["delete", "a", "--axis", "-1", "--range", ":6"]);
        assert!(output.starts_with("a: 6 positions of dimension 1 deleted, shape 10, 7 now; "), "{output}");
        assert_eq!(folder.ok(&["cat", "a"]), ints((0..10).flat_map(|i| (5..12).map(move |j| i * 12 + j))));
        folder.change(&["delete", "-q", "--no-lock", "a", "--axis", "1", "--range", ":"]);
        assert_eq!(folder.info(&["a"])["shape"], json!([10, 0]));
        // No bytes: the .npy file gives the number of rows.
        folder.write("none.npy", &npy("<i4", false, "(5, 0)", b""));
        folder.change(&["insert", "-q", "a", "none.npy", "--at", "0"]);
        assert_eq!(folder.info(&["a"])["shape"], json!([15, 0]));
    }
}

#[test]
fn files_of_c() {
    for path in ["2d.b2nd", "3d-sparse.b2nd", "structured.b2nd", "vlmeta.b2nd", "resized.b2nd", "dict.b2nd"] {
        let folder = Folder::new();
        folder.fixture("a", &format!("c-blosc2/3.3.5/array/{path}"));
        let (old, before) = (folder.ok(&["cat", "a"]), folder.info(&["a"]));
        let shape: Vec<u64> =
            before["shape"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect();
        let row = old.len() / shape[0] as usize;
        let text = |first: u64| {
            let rest = shape[1..].iter().map(|n| format!(",{n}")).collect::<String>();
            format!("{first}{rest}")
        };
        folder.change(&["resize", "-q", "a", "--shape", &text(shape[0] + 30)]);
        assert_eq!(folder.ok(&["cat", "a"]), [&old[..], &vec![0; 30 * row]].concat(), "{path}");
        folder.change(&["resize", "-q", "a", "--shape", &text(shape[0])]);
        folder.write("rows", &old[..2 * row]);
        folder.change(&["insert", "-q", "a", "rows", "--at", "1"]);
        assert_eq!(folder.ok(&["cat", "a"]), [&old[..row], &old[..2 * row], &old[row..]].concat(), "{path}");
        folder.change(&["delete", "-q", "a", "--range", "0:2"]);
        assert_eq!(folder.ok(&["cat", "a"]), [&old[row..2 * row], &old[row..]].concat(), "{path}");
        assert_eq!(folder.info(&["a"])["vlmetalayers"], before["vlmetalayers"]);
    }
}

#[test]
fn what_does_not_fit_changes_nothing() {
    let folder = Folder::new();
    array(&folder, "cframe");
    folder.pack("s", &counting(30), &[]);
    folder.write("rows", &[0; 48]);
    folder.write("f4", &npy("<f4", false, "(1, 12)", &[0; 48]));
    folder.write("wide", &npy("<i4", false, "(1, 13)", &[0; 52]));
    folder.write("odd", &[0; 40]);
    let before = folder.read("a");
    let cases: [(&[&str], &str); 17] = [
        (&["resize", "s", "--shape", "3"], "s: this is a super-chunk: only arrays have dimensions"),
        (&["insert", "s", "rows", "--at", "0"], "s: this is a super-chunk: only arrays have dimensions"),
        (&["delete", "s", "--range", "0"], "s: this is a super-chunk: only arrays have dimensions"),
        (&["insert", "a", "f4", "--at", "0"], "a: f4: the dtype is <f4, the array has <i4"),
        (
            &["insert", "a", "wide", "--at", "0"],
            "a: wide: the shape is 1, 13, the array has 10, 12: all but dimension 0 must be the same",
        ),
        (
            &["insert", "a", "rows", "--at", "0", "--axis", "1"],
            "a: rows: 48 bytes, expected a multiple of 40 (shape 10, 1)",
        ),
        (&["insert", "a", "odd", "--at", "0"], "a: odd: 40 bytes, expected a multiple of 48 (shape 1, 12)"),
        (&["insert", "a", "rows", "--at", "11"], "a: --at 11: dimension 0 has 10 positions"),
        (&["insert", "a", "rows", "--at", "-11"], "a: --at -11: dimension 0 has 10 positions"),
        (&["insert", "a", "rows", "--at", "0", "--axis", "2"], "a: --axis 2: the array has 2 dimensions"),
        (&["delete", "a", "--range", "0", "--axis=-3"], "a: --axis -3: the array has 2 dimensions"),
        (&["delete", "a", "--range", "10"], "a: --range=10: dimension 0 has 10 positions"),
        (&["delete", "a", "--range=-11"], "a: --range=-11: dimension 0 has 10 positions"),
        (&["delete", "a", "--range", "0:4:2"], "--range=0:4:2: expected one position, or start:stop"),
        (&["delete", "a", "--range", "0,1"], "--range=0,1: expected one position, or start:stop"),
        (&["delete", "a", "--range", "x"], "--range=x: 'x' is neither an index nor start:stop:step"),
        (&["resize", "none", "--shape", "1"], "none: No such file or directory (os error 2)"),
    ];
    for (args, message) in cases {
        folder.refuses(args, message);
    }
    for shape in ["10", "10,12,1", "", "18446744073709551615,18446744073709551615"] {
        let message = folder.fails(1, &["resize", "a", "--shape", shape]);
        assert!(message.starts_with("b2kit: a: --shape"), "{message}");
    }
    for args in [
        &["resize", "a"][..],
        &["resize", "a", "--shape", "1,x"],
        &["insert", "a", "rows"],
        &["delete", "a"],
        &["insert", "a", "rows", "--at", "x"],
    ] {
        folder.fails(2, args);
    }
    assert_eq!(before, folder.read("a"));
}
