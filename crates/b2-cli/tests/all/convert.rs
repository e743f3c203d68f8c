//! `b2kit convert`: HDF5 and NetCDF files. What is read of them is tested in `b2-hdf5`.

use crate::common::counting;
use crate::hdf5::folder;

#[test]
fn a_data_set_becomes_an_array() {
    let folder = folder();
    folder.change(&["convert", "small.h5", "/group/ramp", "ramp.b2nd", "--verify"]);
    assert_eq!(folder.ok(&["cat", "ramp.b2nd"]), counting(200));
    let told = folder.info(&["ramp.b2nd"]);
    assert_eq!(told["chunks"], serde_json::json!([4, 6]));
    assert_eq!(told["vlmetalayers"]["units"], "K");
    assert_eq!(told["vlmetalayers"]["_ARRAY_DIMENSIONS"], serde_json::json!(["lat", "dim_1"]));
    // A soft link, and the only data set below a group.
    folder.change(&["convert", "small.h5", "group/soft", "soft.b2nd"]);
    assert_eq!(folder.ok(&["cat", "soft.b2nd"]), counting(200));
    assert!(folder.fails(1, &["convert", "small.h5", "ramp.b2nd"]).contains("already exists"));
    let told = folder.fails(1, &["convert", "small.h5", "group", "x.b2nd"]);
    assert!(told.contains("several data sets") && !folder.path("x.b2nd").exists(), "{told}");
    assert!(folder.fails(1, &["convert", "small.h5", "/no", "x.b2nd"]).contains("no such group or data set"));
    assert!(folder.fails(1, &["convert", "small.h5", "group/odd", "x.b2nd"]).contains("null"));
}

#[test]
fn chunks_of_blosc2_are_moved() {
    let folder = folder();
    folder.change(&["convert", "small.h5", "/group/blosc2", "moved.b2nd", "--verify"]);
    assert_eq!(folder.info(&["moved.b2nd"])["codec"], "lz4");
    folder.change(&[
        "convert",
        "small.h5",
        "/group/blosc2",
        "anew.b2nd",
        "--codec",
        "zstd",
        "--chunks",
        "5,5",
    ]);
    let told = folder.info(&["anew.b2nd"]);
    assert_eq!((&told["codec"], &told["chunks"]), (&"zstd".into(), &serde_json::json!([5, 5])));
    assert_eq!(folder.ok(&["cat", "moved.b2nd"]), folder.ok(&["cat", "anew.b2nd"]));
    folder.ok(&["verify", "moved.b2nd", "anew.b2nd"]);
}

#[test]
fn a_file_becomes_a_store() {
    let folder = folder();
    let told = folder.fails(1, &["convert", "small.h5", "small.b2d"]);
    assert!(told.contains("/group/odd") && told.contains("--skip-unsupported"), "{told}");
    assert!(!folder.path("small.b2d").exists());
    let told = folder.change(&["convert", "small.h5", "small.b2d", "--skip-unsupported", "--verify"]);
    assert!(told.contains("/group/odd") && told.contains("/group/soft: a link to /group/ramp"), "{told}");
    let keys = String::from_utf8(folder.ok(&["ls", "small.b2d"])).unwrap();
    for key in ["/group/ramp", "/group/blosc2", "/group/lat", "/group/names", "/scalar"] {
        assert!(keys.lines().any(|line| line == key), "{keys}");
    }
    assert_eq!(folder.ok(&["cat", "small.b2d", "--key", "/group/ramp"]), counting(200));
    folder.change(&["convert", "three.nc", "three.b2z"]);
    assert_eq!(folder.info(&["three.b2z", "--key", "/v"])["vlmetalayers"]["scale_factor"], 0.5);
    assert_eq!(folder.info(&["three.b2z", "--key", "/v"])["dtype"], ">i2");
    for name in ["fixed", "extensible", "tree", "single"] {
        let path = format!("{name}.b2nd");
        folder.change(&["convert", "latest.h5", name, &path]);
        assert_eq!(folder.ok(&["cat", &path]), counting(200), "{name}");
    }
}

#[test]
fn what_is_in_a_file_is_listed() {
    let folder = folder();
    let text = String::from_utf8(folder.ok(&["convert", "small.h5", "--list"])).unwrap();
    for part in ["<i4 10 x 20, chunks 4 x 6", "shuffle+gzip+fletcher32", "a link to /group/ramp", "null"] {
        assert!(text.contains(part), "{text}");
    }
    let lines = String::from_utf8(folder.ok(&["convert", "three.nc", "--list", "--json"])).unwrap();
    let last: serde_json::Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    assert_eq!((&last["path"], &last["shape"]), (&"/v".into(), &serde_json::json!([4, 3])));
    folder.write("x.h5", b"no HDF5");
    assert!(folder.fails(1, &["convert", "x.h5", "--list"]).contains("not an HDF5 or NetCDF file"));
    assert!(folder.fails(2, &["pack", "small.h5", "small.b2frame"]).contains("b2kit convert"));
}
