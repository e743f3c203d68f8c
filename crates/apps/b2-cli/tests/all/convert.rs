//! `b2kit convert`: HDF5 and NetCDF files. Reading them is tested in `b2-hdf5`.

use std::fs;

use crate::common::{Folder, counting, npy};
use crate::hdf5::folder;

#[test]
fn a_data_set_becomes_an_array() {
    let folder = folder();
    folder.change(&["convert", "small.h5", "/group/ramp", "ramp.b2nd", "--verify"]);
    assert_eq!(folder.ok(&["cat", "ramp.b2nd"]), counting(200));
    let facts = folder.info(&["ramp.b2nd"]);
    assert_eq!(facts["chunks"], serde_json::json!([4, 6]));
    assert_eq!(facts["vlmetalayers"]["units"], "K");
    assert_eq!(facts["vlmetalayers"]["_ARRAY_DIMENSIONS"], serde_json::json!(["lat", "dim_1"]));
    // A soft link, and the only data set below a group.
    folder.change(&["convert", "small.h5", "group/soft", "soft.b2nd"]);
    assert_eq!(folder.ok(&["cat", "soft.b2nd"]), counting(200));
    assert!(folder.fails(1, &["convert", "small.h5", "ramp.b2nd"]).contains("already exists"));
    let facts = folder.fails(1, &["convert", "small.h5", "group", "x.b2nd"]);
    assert!(facts.contains("several data sets") && !folder.path("x.b2nd").exists(), "{facts}");
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
        "again.b2nd",
        "--codec",
        "zstd",
        "--chunks",
        "5,5",
    ]);
    let facts = folder.info(&["again.b2nd"]);
    assert_eq!((&facts["codec"], &facts["chunks"]), (&"zstd".into(), &serde_json::json!([5, 5])));
    assert_eq!(folder.ok(&["cat", "moved.b2nd"]), folder.ok(&["cat", "again.b2nd"]));
    folder.ok(&["verify", "moved.b2nd", "again.b2nd"]);
}

#[test]
fn files_become_stores_in_a_folder() {
    let folder = folder();
    let one = ["convert", "-d", "new", "three.nc", "small.h5", "--skip-unsupported"];
    folder.change(&one);
    for (name, key) in [("new/three.b2d", "/v"), ("new/small.b2d", "/group/ramp")] {
        let keys = String::from_utf8(folder.ok(&["ls", name])).unwrap();
        assert!(keys.lines().any(|line| line == key), "{name}: {keys}");
    }
    // Existing files are kept, and the others are still converted.
    fs::remove_dir_all(folder.path("new/small.b2d")).unwrap();
    let message = folder.fails(1, &one);
    assert!(message.contains("never replaced") && folder.path("new/small.b2d").exists(), "{message}");
    // Folders that also contain other files.
    fs::create_dir_all(folder.path("in/deep")).unwrap();
    fs::copy(folder.path("three.nc"), folder.path("in/deep/three.nc")).unwrap();
    // Files are recognised by content, not by name.
    fs::copy(folder.path("three.nc"), folder.path("in/other")).unwrap();
    fs::write(folder.path("in/text.h5"), "text").unwrap();
    let message = folder.change(&["convert", "-r", "in", "-d", "out", "-v"]);
    assert!(message.contains("text.h5"), "{message}");
    for name in ["out/deep/three.b2d", "out/other.b2d"] {
        assert_eq!(folder.info(&[name, "--key", "/v"])["vlmetalayers"]["scale_factor"], 0.5, "{name}");
    }
    assert!(!folder.path("out/text.b2d").exists());
    // Nothing is converted if two files would get the same name.
    let message = folder.fails(2, &["convert", "-d", "same", "three.nc", "in/deep/three.nc"]);
    assert!(message.contains("both become") && !folder.path("same").exists(), "{message}");
    folder.fails(2, &["convert", "-r", "in"]);
    folder.fails(2, &["convert", "a.h5", "/a", "b.b2d", "c.b2d"]);
}

#[test]
fn a_file_becomes_a_store() {
    let folder = folder();
    let message = folder.fails(1, &["convert", "small.h5", "small.b2d"]);
    assert!(message.contains("/group/odd") && message.contains("--skip-unsupported"), "{message}");
    assert!(!folder.path("small.b2d").exists());
    let message = folder.change(&["convert", "small.h5", "small.b2d", "--skip-unsupported", "--verify"]);
    assert!(
        message.contains("/group/odd") && message.contains("/group/soft: a link to /group/ramp"),
        "{message}"
    );
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
    for part in
        ["<i4 10 x 20 (lat, dim_1), chunks 4 x 6", "shuffle+gzip+fletcher32", "a link to /group/ramp", "null"]
    {
        assert!(text.contains(part), "{text}");
    }
    let lines = String::from_utf8(folder.ok(&["convert", "three.nc", "--list", "--json"])).unwrap();
    let last: serde_json::Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    assert_eq!((&last["path"], &last["shape"]), (&"/v".into(), &serde_json::json!([4, 3])));
    folder.write("x.h5", b"no HDF5");
    assert!(folder.fails(1, &["convert", "x.h5", "--list"]).contains("not an HDF5 or NetCDF file"));
    assert!(folder.fails(2, &["pack", "small.h5", "small.b2frame"]).contains("b2kit convert"));
}

#[test]
fn a_slice_becomes_an_array() {
    let folder = folder();
    folder.change(&["convert", "small.h5", "/group/ramp", "whole.b2nd"]);
    for slice in ["2:8", "3,5:18", "::-2,1::3", "...,4", "9:2:-3,-1", "1,2", "4:4"] {
        let option = format!("--slice={slice}");
        folder.change(&["convert", "small.h5", "/group/ramp", "part.b2nd", &option, "--verify", "--force"]);
        assert_eq!(folder.ok(&["cat", "part.b2nd"]), folder.ok(&["cat", "whole.b2nd", &option]), "{slice}");
    }
    // Only the names of the remaining dimensions.
    folder.change(&["convert", "small.h5", "/group/ramp", "part.b2nd", "--slice=:,0", "--force"]);
    let facts = folder.info(&["part.b2nd"]);
    assert_eq!(facts["vlmetalayers"]["_ARRAY_DIMENSIONS"], serde_json::json!(["lat"]));
    assert_eq!((&facts["chunks"], &facts["shape"]), (&serde_json::json!([4]), &serde_json::json!([10])));
    folder.change(&["convert", "small.h5", "/group/blosc2", "floats.b2nd", "--slice=3:5", "--clevel", "9"]);
    assert_eq!(folder.info(&["floats.b2nd"])["shape"], serde_json::json!([2, 20]));
    let facts = folder.fails(1, &["convert", "small.h5", "/group/ramp", "x.b2nd", "--slice=10"]);
    assert!(facts.contains("out of range"), "{facts}");
    let facts = folder.fails(1, &["convert", "small.h5", "/group", "x.b2d", "--slice=1"]);
    assert!(facts.contains("--slice is for one data set") && !folder.path("x.b2d").exists(), "{facts}");
}

#[test]
fn patterns_pick_data_sets() {
    let folder = folder();
    // Nodes that do not match are ignored, even if they cannot be converted.
    folder.change(&["convert", "small.h5", "/group/[br]*", "some.b2d", "--verify"]);
    assert_eq!(folder.ok_text(&["ls", "some.b2d"]), "/blosc2\n/ramp\n");
    folder.change(&["convert", "small.h5", "/**/*a*", "deep.b2z", "--skip-unsupported"]);
    assert_eq!(folder.ok_text(&["ls", "deep.b2z"]), "/group/lat\n/group/names\n/group/ramp\n/scalar\n");
    folder.change(&["convert", "small.h5", "/group/r*", "one.b2nd"]);
    folder.change(&["convert", "small.h5", "/{group,other}/ramp", "braces.b2nd"]);
    folder.ok(&["diff", "one.b2nd", "braces.b2nd"]);
    assert_eq!(folder.ok(&["cat", "one.b2nd"]), counting(200));
    assert!(folder.fails(1, &["convert", "small.h5", "/group/*a*", "x.b2nd"]).contains("several data sets"));
    assert!(folder.fails(1, &["convert", "small.h5", "/group/x*", "x.b2d"]).contains("matches no data set"));
    assert!(folder.fails(1, &["convert", "small.h5", "/group/*", "x.b2d"]).contains("/group/odd"));
    assert!(folder.fails(1, &["convert", "small.h5", "/no/*", "x.b2d"]).contains("no such group"));
}

#[test]
fn packed_numbers_are_unpacked_on_request() {
    let folder = folder();
    folder.change(&["convert", "three.nc", "v", "packed.b2nd"]);
    folder.change(&["convert", "three.nc", "v", "numbers.b2nd", "--mask-and-scale", "--verify"]);
    let facts = folder.info(&["numbers.b2nd"]);
    assert_eq!((&facts["dtype"], &facts["vlmetalayers"]["units"]), (&"<f8".into(), &"m".into()));
    assert!(facts["vlmetalayers"].get("scale_factor").is_none(), "{facts}");
    let halves: Vec<u8> = (0..12).flat_map(|n| (f64::from(n) / 2.0).to_le_bytes()).collect();
    assert_eq!(folder.ok(&["cat", "numbers.b2nd"]), halves);
    folder.change(&["convert", "three.nc", "v", "part.b2nd", "--mask-and-scale", "--slice=::-1,1"]);
    assert_eq!(folder.ok(&["cat", "part.b2nd"]), folder.ok(&["cat", "numbers.b2nd", "--slice=::-1,1"]));
    // Variables without such attributes are unchanged.
    folder.change(&["convert", "three.nc", "three.b2d", "--mask-and-scale"]);
    assert_eq!(folder.info(&["three.b2d::/v"])["dtype"], "<f8");
    assert_eq!(folder.info(&["three.b2d::/t"])["dtype"], ">f8");
}

#[test]
fn arrays_become_data_sets_and_come_back() {
    let folder = folder();
    folder.change(&["convert", "small.h5", "/group/ramp", "ramp.b2nd"]);
    for (options, filter) in
        [(&[][..], "blosc2"), (&["--codec", "gzip"], "gzip"), (&["--codec=gzip", "--clevel=9"], "gzip")]
    {
        let mut args = vec!["convert", "ramp.b2nd", "new.h5", "--verify", "--force"];
        args.extend(options);
        let output = folder.change(&args);
        assert!(output.starts_with("ramp.b2nd -> new.h5  1 data set, 800 bytes"), "{output}");
        folder.ok(&["diff", "new.h5::ramp", "small.h5::/group/ramp"]);
        folder.ok(&["diff", "new.h5::ramp", "ramp.b2nd"]);
        let output = folder.info(&["new.h5::ramp"]);
        assert_eq!(output["filters"].as_array().unwrap().last().unwrap()["name"], filter, "{output}");
        folder.change(&["convert", "new.h5", "/ramp", "back.b2nd", "--force"]);
        folder.ok(&["diff", "back.b2nd", "ramp.b2nd"]);
    }
    assert!(folder.fails(1, &["convert", "ramp.b2nd", "new.h5"]).contains("already exists"));
    folder.change(&["convert", "ramp.b2nd", "named.nc::/a/b"]);
    assert_eq!(folder.ok_text(&["ls", "named.nc"]), "/a/b\n");
    assert!(!folder.names().iter().any(|name| name.contains(".tmp") || name.contains("::")));
}

#[test]
fn force_loses_no_members() {
    let folder = folder();
    for store in ["s.b2z", "s.b2e"] {
        folder.change(&["convert", "small.h5", store, "--skip-unsupported"]);
        let old = folder.read(store);
        let output =
            folder.fails(1, &["convert", "small.h5", "/group", store, "--skip-unsupported", "--force"]);
        assert!(output.contains(store) && output.contains("would be lost"), "{output}");
        assert_eq!(folder.read(store), old);
        let output = folder.change(&["convert", "small.h5", store, "--skip-unsupported", "--force"]);
        assert!(output.contains("in place of a store with "), "{output}");
        assert!(
            folder.fails(1, &["convert", "small.h5", store, "--skip-unsupported"]).contains("already exists")
        );
    }
    folder.change(&["convert", "small.h5", "/group/ramp", "ramp.b2nd"]);
    let old = folder.read("small.h5");
    let output = folder.fails(1, &["convert", "ramp.b2nd", "small.h5::/g/new", "--force"]);
    assert!(output.contains("small.h5: holds /") && output.contains("would be lost"), "{output}");
    assert_eq!(folder.read("small.h5"), old);
    folder.change(&["convert", "ramp.b2nd", "one.h5::/g/new"]);
    folder.change(&["convert", "ramp.b2nd", "one.h5::/g/new", "--force"]);
}

#[test]
fn stores_become_files_and_come_back() {
    let folder = folder();
    folder.change(&["convert", "small.h5", "small.b2d", "--skip-unsupported"]);
    for codec in [&[][..], &["--codec", "gzip"]] {
        let output =
            folder.change(&[&["convert", "small.b2d", "new.h5", "--verify", "--force"][..], codec].concat());
        assert!(output.contains("5 data sets"), "{output}");
        assert_eq!(
            folder.ok_text(&["ls", "new.h5"]),
            "/group/blosc2\n/group/lat\n/group/names\n/group/ramp\n/scalar\n"
        );
        for key in ["/group/blosc2", "/group/lat", "/group/names", "/group/ramp", "/scalar"] {
            folder.ok(&["diff", &format!("new.h5::{key}"), &format!("small.h5::{key}")]);
        }
        assert_eq!(folder.info(&["new.h5"])["attributes"], serde_json::json!({"title": "small"}));
    }
    folder.change(&["convert", "small.b2d::/group/lat", "lat.h5"]);
    assert_eq!(folder.ok_text(&["ls", "lat.h5"]), "/lat\n");
    let reported = folder.change(&["convert", "small.b2d::/group/ramp", "ramp.h5::/lat"]);
    assert!(
        reported.contains("/lat: dimension \"lat\" of length 10") && reported.contains("left out"),
        "{reported}"
    );
}

#[test]
fn what_hdf5_has_not_is_refused_before_anything_is_written() {
    let folder = folder();
    folder.pack("bytes.b2frame", &counting(100), &[]);
    folder.pack("array.b2nd", &npy("<i4", false, "(100,)", &counting(100)), &[]);
    for (code, args, what) in [
        (1, &["bytes.b2frame", "x.h5"][..], "not an array"),
        (1, &["small.h5", "x.h5"], "HDF5"),
        (2, &["array.b2nd", "x.h5", "--codec", "zstd"], "gzip"),
        (2, &["array.b2nd", "x.h5", "--chunks", "5"], "b2kit copy"),
        (2, &["array.b2nd", "x.h5", "--clevel", "5"], "--codec gzip"),
        (2, &["array.b2nd", "x.h5", "--slice", "5"], "only for reading"),
        (2, &["array.b2nd", "/a", "x.h5"], "x.h5::"),
        (2, &["small.h5", "/group/ramp", "x.b2nd", "--codec", "gzip"], "only for a new HDF5"),
        (1, &["no.b2nd", "x.h5"], "No such file"),
    ] {
        let message = folder.fails(code, &[&["convert"], args].concat());
        assert!(message.contains(what), "{args:?}: {message}");
        assert!(!folder.path("x.h5").exists(), "{args:?}");
    }
}

/// Other netCDF readers rarely have the Blosc2 filter.
#[test]
fn netcdf_gets_gzip_unless_asked_otherwise() {
    let folder = Folder::new();
    folder.pack("a.b2nd", &npy("<i4", false, "(100, 30)", &counting(3000)), &[]);
    for (output, options, filter) in [
        ("a.nc", &[][..], "gzip"),
        ("b.nc4", &["--clevel", "9"], "gzip"),
        ("c.nc", &["--codec", "blosc2"], "Blosc2"),
        ("d.h5", &[], "Blosc2"),
        ("e.h5", &["--codec", "gzip"], "gzip"),
    ] {
        folder.change(&[&["convert", "a.b2nd", output], options].concat());
        let listed = folder.ok_text(&["convert", output, "--list"]);
        assert!(listed.to_lowercase().contains(&filter.to_lowercase()), "{output}: {listed}");
        assert_eq!(folder.ok(&["cat", output]), counting(3000));
    }
    folder.fails(2, &["convert", "a.b2nd", "f.nc", "--codec", "blosc2", "--clevel", "9"]);
    folder.fails(2, &["convert", "a.nc", "f.b2nd", "--codec", "blosc2"]);
}

/// Messages name the remedy.
#[test]
fn what_convert_does_not_do_is_named() {
    let folder = Folder::new();
    folder.pack("a.b2nd", &npy("<i4", false, "(100, 30)", &counting(3000)), &[]);
    folder.change(&["convert", "a.b2nd", "a.h5"]);
    assert!(folder.fails(1, &["convert", "a.b2nd", "foo"]).contains("b2kit copy"));
    assert!(folder.fails(1, &["convert", "a.h5", "b.h5"]).contains("already"));
}

/// Unlimited dimensions and texts of type char are restored from the file that an array came from.
#[test]
fn unlimited_dimensions_stay_unlimited() {
    let folder = folder();
    // The record dimension is the unlimited dimension of NetCDF 3.
    folder.change(&["convert", "three.nc", "three.b2d"]);
    let layers = folder.info(&["three.b2d::/v"])["metalayers"].clone();
    folder.change(&["convert", "three.b2d", "again.nc"]);
    folder.change(&["convert", "again.nc", "again.b2d"]);
    assert_eq!(folder.info(&["again.b2d::/v"])["metalayers"]["unlimited"], layers["unlimited"]);
    assert_eq!(layers["unlimited"], serde_json::json!([0]));
    assert_eq!(folder.ok(&["cat", "again.nc::/v"]), folder.ok(&["cat", "three.b2d::/v"]));
    folder.ok(&["diff", "three.nc::/v", "three.b2d::/v"]);
}

#[test]
fn texts_of_both_byte_orders_are_verified() {
    let folder = Folder::new();
    for (order, name) in [("<", "little"), (">", "big")] {
        let characters = ['é', 'ü', '\0', 'b', '\0', '\0'].map(u32::from);
        let raw: Vec<u8> = match order {
            "<" => characters.iter().flat_map(|c| c.to_le_bytes()).collect(),
            _ => characters.iter().flat_map(|c| c.to_be_bytes()).collect(),
        };
        folder.pack(name, &npy(&format!("{order}U3"), false, "(2,)", &raw), &[]);
        folder.change(&["convert", name, &format!("{name}.h5"), "--verify"]);
        assert_eq!(folder.ok(&["cat", &format!("{name}.h5::/{name}"), "--text"]), "éü\nb\n".as_bytes());
    }
}
