//! `b2kit set`: replaces items in place.

use crate::common::{FORMATS, Folder, counting, ints, noise, npy};
use serde_json::json;

#[test]
fn parts_of_an_array() {
    for format in FORMATS {
        let folder = Folder::new();
        let options =
            ["--format", format, "--chunks", "4,5", "--blocks", "2,2", "--meta", "m=1", "--vlmeta", "v=2"];
        folder.pack("a", &npy("<i4", false, "(10, 12)", &counting(120)), &options);
        let mut model: Vec<i32> = (0..120).collect();
        let before = folder.info(&["a"]);

        folder.write("block.npy", &npy("<i4", false, "(5, 4)", &ints(1000..1020)));
        let text = folder.change(&["set", "a", "block.npy", "--slice=1:10:2,3:7"]);
        assert!(text.starts_with("a: 20 items set; ") && text.ends_with(" written\n"), "{text}");
        for i in 0..20 {
            model[(1 + i / 4 * 2) * 12 + 3 + i % 4] = 1000 + i as i32;
        }
        assert_eq!(folder.ok(&["cat", "a"]), ints(model.clone()));

        // A dropped dimension, counted from the end, with raw bytes from a pipe.
        let output = folder.with_input(&["set", "-q", "a", "-", "--slice=:,-1"], &ints(-10..0));
        assert_eq!((output.status.code(), &output.stderr[..]), (Some(0), &b""[..]));
        for i in 0..10 {
            model[i * 12 + 11] = i as i32 - 10;
        }
        // Fortran order, with the missing dimension taken whole.
        let columns = ints((0..12).flat_map(|j| (0..2).map(move |i| 500 + i * 12 + j)));
        folder.write("f.npy", &npy("<i4", true, "(2, 12)", &columns));
        folder.change(&["set", "-q", "--no-sync", "--no-lock", "a", "f.npy", "--slice", "-2:"]);
        for (item, new) in model[96..].iter_mut().zip(500..) {
            *item = new;
        }
        folder.write("one", &ints([77]));
        folder.change(&["set", "-q", "a", "one", "--slice=0,0"]);
        model[0] = 77;
        assert_eq!(folder.ok(&["cat", "a"]), ints(model));

        let after = folder.info(&["a"]);
        for key in ["shape", "chunks", "blocks", "dtype", "codec", "filters", "metalayers", "vlmetalayers"] {
            assert_eq!(before[key], after[key], "{key}");
        }
    }
}

#[test]
fn items_of_a_super_chunk() {
    for (format, typesize) in FORMATS.into_iter().flat_map(|format| [1, 3, 4].map(|n| (format, n))) {
        let folder = Folder::new();
        // Items across chunk edges; the last item is incomplete.
        let mut model = noise(1000 * typesize + typesize / 2);
        let text = typesize.to_string();
        folder.pack("s", &model, &["--format", format, "--chunksize", "1000", "--typesize", &text]);
        let mut new = 0u8;
        for (spec, start, step, len) in [
            ("::-1", 999, -1_isize, 1000_usize),
            ("900:5:-13", 900, -13, 69),
            ("10:700", 10, 1, 690),
            ("3::7", 3, 7, 143),
            ("-1", 999, 1, 1),
            ("::999", 0, 999, 2),
            ("4:4", 4, 1, 0),
        ] {
            let bytes: Vec<u8> = (0..len * typesize)
                .map(|_| {
                    new = new.wrapping_add(1);
                    new
                })
                .collect();
            for (k, item) in bytes.chunks(typesize).enumerate() {
                model[(start + k as isize * step) as usize * typesize..][..typesize].copy_from_slice(item);
            }
            folder.write("new", &bytes);
            let plural = if len == 1 { "" } else { "s" };
            let output = folder.change(&["set", "s", "new", &format!("--slice={spec}")]);
            assert!(output.starts_with(&format!("s: {len} item{plural} set; ")), "{output}");
            assert!(folder.ok(&["cat", "s"]) == model, "{spec} of {typesize}");
        }
        assert_eq!(folder.info(&["s"])["chunksize"], json!(1000));
    }
}

#[test]
fn large_inputs_come_in_pieces() {
    let folder = Folder::new();
    let old = vec![0; 40 << 20];
    folder.pack("s", &old, &["--chunksize", "3M", "--codec", "lz4", "--clevel", "1"]);
    folder.pack("a", &npy("|u1", false, "(5120, 8192)", &old), &["--chunks", "1000,3000", "--codec", "lz4"]);
    let new: Vec<u8> = (0..(40u32 << 20) - 8192).map(|i| (i >> 10) as u8).collect();
    folder.write("new", &new);
    folder.change(&["set", "-q", "--no-sync", "s", "new", "--slice=8192:"]);
    folder.change(&["set", "-q", "--no-sync", "a", "new", "--slice=1:"]);
    let expected = [&old[..8192], &new].concat();
    assert!(folder.ok(&["cat", "s"]) == expected, "super-chunk");
    assert!(folder.ok(&["cat", "a"]) == expected, "array");
    let half: Vec<u8> = (0..20u32 << 20).map(|i| (i >> 8) as u8).collect();
    folder.write("half", &half);
    for name in ["s", "a"] {
        let spec = if name == "s" { "--slice=1::2" } else { "--slice=:,1::2" };
        folder.change(&["set", "-q", "--no-sync", name, "half", spec]);
        let expected: Vec<u8> =
            expected.iter().zip(0..).map(|(b, i)| if i % 2 == 1 { half[i / 2] } else { *b }).collect();
        assert!(folder.ok(&["cat", name]) == expected, "{name}");
    }
}

#[test]
fn files_of_c() {
    let folder = Folder::new();
    for path in [
        "array/2d.b2nd",
        "array/3d-sparse.b2nd",
        "array/structured.b2nd",
        "array/scalar.b2nd",
        "array/uninit.b2nd",
    ] {
        folder.fixture("a", &format!("c-blosc2/3.3.5/{path}"));
        let old = folder.ok(&["cat", "a"]);
        let new: Vec<u8> = old.iter().rev().copied().collect();
        let ndim = folder.info(&["a"])["shape"].as_array().unwrap().len();
        let rows = folder.info(&["a"])["shape"][0].as_u64().unwrap_or(1) as usize;
        let at = old.len() / rows * (rows / 2);
        folder.write("new", &new[at..]);
        folder.change(&[
            "set",
            "-q",
            "a",
            "new",
            &if ndim == 0 { "--slice=".into() } else { format!("--slice={}:", rows / 2) },
        ]);
        assert_eq!(folder.ok(&["cat", "a"]), [&old[..at], &new[at..]].concat(), "{path}");
        let gone = folder.path("a");
        if gone.is_dir() {
            std::fs::remove_dir_all(gone).unwrap()
        } else {
            std::fs::remove_file(gone).unwrap()
        }
    }
    for path in [
        "plain-contiguous.b2frame",
        "plain-sparse.b2frame",
        "variable-contiguous.b2frame",
        "edited.b2frame",
        "special-value.b2frame",
    ] {
        folder.fixture(path, &format!("c-blosc2/3.3.5/frame/{path}"));
        let old = folder.ok(&["cat", path]);
        let typesize = folder.info(&[path])["typesize"].as_u64().unwrap() as usize;
        let (from, to) = (100 * typesize, old.len() / typesize * typesize);
        let new = noise(to - from);
        folder.write("new", &new);
        folder.change(&["set", "-q", path, "new", "--slice=100:"]);
        assert_eq!(folder.ok(&["cat", path]), [&old[..from], &new, &old[to..]].concat(), "{path}");
    }
}

#[test]
fn what_does_not_fit_changes_nothing() {
    let folder = Folder::new();
    folder.pack("a", &npy("<i4", false, "(5, 6)", &counting(30)), &[]);
    folder.pack("s", &counting(30), &["--typesize", "4"]);
    folder.pack("c", &counting(30), &["--format", "chunk"]);
    folder.write("f4", &npy("<f4", false, "(2, 6)", &[0; 48]));
    folder.write("i8", &npy("<i8", false, "(3,)", &[0; 24]));
    folder.write("turned", &npy("<i4", false, "(6, 2)", &[0; 48]));
    folder.write("raw", &[0; 24]);
    let before = (folder.read("a"), folder.read("s"));
    let cases: [(&[&str], &str); 9] = [
        (&["a", "f4", "--slice=:2"], "a: f4: the dtype is <f4, the array has <i4"),
        (&["a", "turned", "--slice=:2"], "a: turned: the shape is 6, 2, expected 2, 6"),
        (&["a", "raw", "--slice=:2"], "a: raw: 24 bytes, expected 48 for shape 2, 6"),
        (
            &["a", "raw", "--slice=5"],
            "a: --slice: index 5 is out of range for dimension 0, which has 5 items",
        ),
        (&["a", "raw", "--slice=0,0,0"], "a: --slice: 3 parts given, but there are 2 dimensions"),
        (&["a", "raw", "--slice=x"], "--slice=x: 'x' is neither an index nor start:stop:step"),
        (&["s", "i8", "--slice=:6"], "s: i8: items of 8 bytes (<i8), the file has items of 4 bytes"),
        (&["s", "raw", "--slice=::6"], "s: raw: 24 bytes, expected 20 for 5 items of 4"),
        (&["c", "raw", "--slice=:6"], "c: not a frame: only frames can be changed"),
    ];
    for (args, message) in cases {
        folder.refuses(&[&["set"], args].concat(), message);
    }
    folder.fails(2, &["set", "a", "raw"]);
    assert_eq!(before, (folder.read("a"), folder.read("s")));
}
