//! `FILE::NAME`: data sets of HDF5 and NetCDF files, and members of stores, wherever commands read.

use std::fs;
use std::path::Path;

use crate::common::{Folder, counting, npy};
use crate::stores::zip;

/// A folder with the small files of `b2-hdf5`.
pub(crate) fn folder() -> Folder {
    let folder = Folder::new();
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../adapters/b2-hdf5/tests/data");
    for name in ["small.h5", "latest.h5", "three.nc"] {
        fs::copy(from.join(name), folder.path(name)).unwrap();
    }
    folder
}

#[cfg(not(feature = "hdf5"))]
#[test]
fn without_the_feature_the_error_says_how_to_get_it() {
    let folder = folder();
    for name in ["small.h5", "small.h5::/group/ramp", "three.nc::v"] {
        for command in [&["info"][..], &["info", "--json"], &["show"], &["cat"], &["cat", "--csv"], &["ls"]] {
            let message = folder.fails(1, &[command, &[name]].concat());
            assert!(message.contains("cargo install b2kit-cli --features hdf5"), "{message}");
            assert!(
                message.contains(if name.starts_with('t') { "a NetCDF file" } else { "an HDF5 file" }),
                "{message}"
            );
        }
        assert!(folder.fails(2, &["diff", name, name]).contains("--features hdf5"));
        let output = folder.run(&["verify", name]);
        assert_eq!(output.status.code(), Some(1));
        assert!(String::from_utf8(output.stdout).unwrap().contains("--features hdf5"));
    }
}

#[test]
fn members_of_stores_have_such_names_too() {
    let folder = Folder::new();
    folder.pack("a.b2nd", &npy("<i4", false, "(20,)", &counting(20)), &[]);
    folder.write("s.b2z", &zip(&[("group/a.b2nd", &folder.read("a.b2nd"))], 0, 0));
    let keys = folder.ok_text(&["ls", "s.b2z"]);
    let key = keys.lines().next().unwrap();
    let name = format!("s.b2z::{key}");
    assert_eq!(folder.ok(&["cat", &name]), folder.ok(&["cat", "s.b2z", "--key", key]));
    assert_eq!(folder.info(&[&name]), folder.info(&["s.b2z", "--key", key]));
    assert!(folder.ok_text(&["verify", &name]).starts_with("ok\t"));
    assert!(folder.fails(1, &["cat", "s.b2z::/no"]).contains("no such key"));
    // An existing file with such a name takes precedence.
    if cfg!(unix) {
        folder.write("s.b2z::x", b"neither");
        assert!(folder.fails(1, &["info", "s.b2z::x"]).contains("not a Blosc2 file"));
    }
}

#[cfg(feature = "hdf5")]
mod reading {
    use super::*;
    use crate::common::sha256;

    /// Facts are JSON fields, not sentences; names of dimensions and attributes need no option.
    #[test]
    fn facts_are_fields() {
        let folder = folder();
        let facts = folder.info(&["small.h5"]);
        assert_eq!(facts["attributes"]["title"], "small");
        let entries = facts["entries"].as_array().unwrap();
        let of = |path: &str| entries.iter().find(|entry| entry["path"] == path).unwrap();
        assert_eq!(
            (&of("/group/soft")["kind"], &of("/group/soft")["to"]),
            (&"link".into(), &"/group/ramp".into())
        );
        assert!(of("/group/soft")["in"].is_null());
        assert_eq!(of("/group/ramp")["dimensions"], serde_json::json!(["lat", "dim_1"]));
        let text = folder.ok_text(&["info", "small.h5::/group/ramp"]);
        assert!(text.contains("dimensions    lat, dim_1") && text.contains("units"), "{text}");
        let text = folder.ok_text(&["info", "three.nc"]);
        assert!(text.contains("/v  ") && text.contains(" 4 x 3 ("), "{text}");
        for name in ["three.nc", "three.nc::/v"] {
            assert!(
                folder.ok_text(&["info", name, "--json"]).starts_with("{\n  \"file\": \"three.nc\","),
                "{name}"
            );
        }
    }

    #[test]
    fn every_command_that_reads_takes_data_sets() {
        let folder = folder();
        let ramp = "small.h5::/group/ramp";
        folder.pack("ramp.b2nd", &npy("<i4", false, "(10, 20)", &counting(200)), &[]);
        let facts = folder.info(&[ramp]);
        assert_eq!((&facts["dtype"], &facts["chunks"]), (&"<i4".into(), &serde_json::json!([4, 6])));
        assert_eq!(facts["filters"][1]["name"], "gzip");
        assert_eq!(facts["attributes"]["units"], "K");
        assert!(folder.ok_text(&["info", ramp, "--meta"]).contains("_ARRAY_DIMENSIONS"));
        assert_eq!(folder.info(&["small.h5", "--key", "group/ramp"]), facts);
        assert_eq!(folder.ok(&["show", ramp]), folder.ok(&["show", "ramp.b2nd"]));
        assert_eq!(folder.ok(&["cat", ramp]), counting(200));
        // In any order and with steps, across chunks.
        for slice in ["3:9,-1", "::-3,5:17:4", "...,0", "9", "2:2"] {
            for form in ["--raw", "--npy", "--text"] {
                let read = |name: &str| folder.ok(&["cat", name, form, &format!("--slice={slice}")]);
                assert_eq!(read(ramp), read("ramp.b2nd"), "{slice} {form}");
            }
        }
        folder.change(&["cat", ramp, "-o", "ramp.npy"]);
        folder.ok(&["diff", ramp, "ramp.npy"]);
        folder.ok(&["view", ramp, "-o", "ramp.svg"]);
        assert!(String::from_utf8(folder.read("ramp.svg")).unwrap().contains("lat"), "a name of a dimension");
        let line = folder.ok_text(&["verify", ramp]);
        assert_eq!(line, format!("ok\t800\t{}\t{ramp}\n", sha256(&counting(200))));
        let all = folder.ok_text(&["verify", "latest.h5"]);
        assert!(all.starts_with("ok\t3200\t"), "{all}");
        assert_eq!(folder.ok_text(&["ls", "three.nc"]), "/t\n/v\n");
        assert!(folder.ok_text(&["ls", "small.h5::group"]).starts_with("/group/blosc2\n"));
        assert!(folder.ok_text(&["info", "small.h5"]).contains("a link to /group/ramp"));
        assert!(folder.ok_text(&["info", "small.h5", "--tree"]).contains("└── scalar  <i8 one item"));
        let lines = folder.ok_text(&["info", "three.nc", "ramp.b2nd", ramp]);
        assert!(lines.starts_with("three.nc: NetCDF 3, 2 data sets\nramp.b2nd: array"), "{lines}");
        assert!(lines.lines().nth(2).unwrap().starts_with(ramp), "{lines}");
    }

    #[test]
    fn a_data_set_differs_from_what_it_does_not_become() {
        let folder = folder();
        let data = "small.h5::/group/ramp";
        folder.change(&["convert", "small.h5", "/group/ramp", "ramp.b2nd"]);
        // Its attributes are those that convert writes.
        folder.ok(&["diff", data, "ramp.b2nd"]);
        folder.ok(&["diff", "ramp.b2nd", data]);
        folder.change(&["vlmeta", "set", "ramp.b2nd", "units", "\"C\""]);
        let output = folder.run(&["diff", data, "ramp.b2nd"]);
        assert_eq!(output.status.code(), Some(1));
        assert!(String::from_utf8(output.stdout).unwrap().contains("vlmetalayer units: \"K\" | \"C\""));
        folder.ok(&["diff", "--data-only", data, "ramp.b2nd"]);
        folder.ok(&["diff", "--data-only", data, "latest.h5::tree"]);
        let output = folder.run(&["diff", data, "small.h5::/group/lat"]);
        assert!(String::from_utf8(output.stdout).unwrap().contains("shape: 10, 20 | 10"));
        assert!(folder.fails(2, &["diff", data, "small.h5::/no"]).contains("no such group or data set"));
    }

    #[test]
    fn other_bytes_may_be_in_front() {
        let folder = folder();
        let plain = folder.read("small.h5");
        for block in [512, 4096, 65536] {
            folder.write("user.mat", &[vec![b'#'; block], plain.clone()].concat());
            assert_eq!(folder.ok_text(&["ls", "user.mat"]), folder.ok_text(&["ls", "small.h5"]));
            folder.ok(&["diff", "user.mat::/group/ramp", "small.h5::/group/ramp"]);
            assert_eq!(folder.run(&["verify", "user.mat"]).stdout[..8], *b"skipped\t");
            assert!(folder.ok_text(&["info", "user.mat"]).contains("HDF5"));
            assert!(folder.fails(2, &["pack", "user.mat", "out"]).contains("HDF5"));
            folder.change(&["convert", "user.mat", "/group/ramp", &format!("{block}.b2nd")]);
        }
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let folder = folder();
        let several = folder.fails(1, &["show", "small.h5"]);
        assert!(several.contains("several data sets") && several.contains("::"), "{several}");
        assert!(folder.fails(1, &["cat", "small.h5::/group"]).contains("a group, not a data set"));
        assert!(folder.fails(1, &["cat", "small.h5::/no"]).contains("no such group or data set"));
        assert!(folder.fails(1, &["show", "small.h5::/group/odd"]).contains("null"));
        assert!(folder.fails(1, &["info", "small.h5::/group/ramp", "--chunks"]).contains("--chunks"));
        // Data sets that cannot be decoded are not damage, and the rest is checked.
        let skipping = |args: &[&str]| {
            let output = folder.run(&[&["-q", "verify"], args].concat());
            assert_eq!((output.status.code(), &output.stderr[..]), (Some(3), &b""[..]), "{args:?}");
            String::from_utf8(output.stdout).unwrap()
        };
        let line = skipping(&["small.h5"]);
        assert!(line.starts_with("skipped\t") && line.contains("\tskipped: /group/odd ("), "{line}");
        assert!(line.split('\t').nth(1).unwrap().parse::<u64>().unwrap() > 0, "{line}");
        let text: serde_json::Value = serde_json::from_str(&skipping(&["--json", "small.h5"])).unwrap();
        assert_eq!((&text["verdict"], &text["skipped"][0]["key"]), (&"skipped".into(), &"/group/odd".into()));
        let line = skipping(&["small.h5::/group/odd"]);
        assert!(line.starts_with("skipped\t-\t-\t"), "{line}");
        // Damage in the rest is still found.
        let mut bytes = folder.read("small.h5");
        bytes.truncate(bytes.len() / 2);
        folder.write("cut.h5", &bytes);
        assert_eq!(folder.run(&["verify", "cut.h5"]).status.code(), Some(1));
        // The file itself is not overwritten.
        assert!(
            folder
                .fails(1, &["cat", "small.h5::/scalar", "-o", "small.h5", "--force"])
                .contains("IN and OUT are the same file")
        );
        // Damage is found, and named.
        let mut bytes = folder.read("small.h5");
        let ramp = folder.ok(&["cat", "small.h5::/group/ramp"]);
        let mut hits = 0;
        for at in (bytes.len() / 2..bytes.len()).step_by(97) {
            bytes[at] ^= 0x10;
            folder.write("bad.h5", &bytes);
            bytes[at] ^= 0x10;
            let output = folder.run(&["cat", "bad.h5::/group/ramp"]);
            match output.status.code() {
                Some(0) => assert_eq!(output.stdout, ramp, "byte {at}: fletcher32 would have seen it"),
                Some(1) => hits += 1,
                other => panic!("byte {at}: {other:?}"),
            }
        }
        assert!(hits > 0);
    }

    #[cfg(feature = "http")]
    #[test]
    fn data_sets_are_read_from_servers() {
        let folder = folder();
        let server = b2_testkit::web::Server::start().unwrap();
        let url = server.put("data/small.h5", folder.read("small.h5"));
        let run = |args: &[&str]| {
            let mut command = folder.command(args);
            let output = command.env("NO_PROXY", "127.0.0.1").env("no_proxy", "127.0.0.1").output().unwrap();
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(0), "{args:?}: {stderr}");
            output.stdout
        };
        let name = format!("{url}::/group/ramp");
        assert_eq!(run(&["cat", &name]), counting(200));
        assert_eq!(run(&["show", &name]), folder.ok(&["show", "small.h5::/group/ramp"]));
        assert_eq!(run(&["ls", &url]), folder.ok(&["ls", "small.h5"]));
        run(&["diff", &name, "small.h5::/group/ramp"]);
        assert!(String::from_utf8(run(&["info", &name])).unwrap().contains("4, 6"));
        assert!(run(&["verify", "-q", &name]).starts_with(b"ok\t800\t"));
        // A query, which may be secret, is not treated as a part of the name.
        let secret = format!("{url}?token=secret::/group/ramp");
        let text = run(&["info", &secret]);
        assert!(!String::from_utf8(text).unwrap().contains("secret"));
    }
}
