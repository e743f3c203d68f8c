//! `b2kit chunk`: whole chunks of a super-chunk, in place.

use crate::common::{FORMATS, Folder, META, counting, noise, npy};
use serde_json::json;

#[test]
fn all_actions() {
    for format in FORMATS {
        let folder = Folder::new();
        let all = noise(5000);
        folder.pack("s", &all[..3000], &[&META[..], &["--format", format, "--chunksize", "1000"]].concat());
        folder.write("c3", &all[3000..4000]);
        folder.write("c4", &all[4000..]);
        let text = folder.change(&["chunk", "append", "s", "c3"]);
        assert!(text.starts_with("s: chunk 3 appended, 3.91 KiB in 4 chunks now; "), "{text}");
        let text = folder.change(&["chunk", "insert", "s", "1", "c4"]);
        assert!(text.starts_with("s: chunk 1 inserted, 4.88 KiB in 5 chunks now; "), "{text}");
        assert_eq!(folder.ok(&["cat", "s"]), [&all[..1000], &all[4000..], &all[1000..4000]].concat());
        let output = folder.with_input(&["chunk", "update", "s", "0", "-"], &all[2000..3000]);
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.starts_with("s: chunk 0 updated, 4.88 KiB in 5 chunks now; "), "{text}");
        assert_eq!((output.status.code(), &output.stdout[..]), (Some(0), &b""[..]));
        let text = folder.change(&["chunk", "delete", "s", "2"]);
        assert!(text.starts_with("s: chunk 2 deleted, 3.91 KiB in 4 chunks now; "), "{text}");
        assert_eq!(folder.ok(&["cat", "s"]), [&all[2000..3000], &all[4000..], &all[2000..4000]].concat());
        let info = folder.info(&["s"]);
        assert_eq!((&info["chunksize"], &info["vlmetalayers"]), (&json!(1000), &json!({"v": {"a": 1.5}})));
        assert_eq!(info["metalayers"], json!({"m": [1, 2]}));

        // Move to the last chunk and back.
        for _ in 0..4 {
            folder.change(&["chunk", "delete", "-q", "--no-sync", "--no-lock", "s", "0"]);
        }
        assert_eq!(folder.ok(&["cat", "s"]), b"");
        folder.change(&["chunk", "append", "-q", "s", "c3"]);
        assert_eq!(folder.ok(&["cat", "s"]), &all[3000..4000]);
        assert_eq!(folder.info(&["s"])["vlmetalayers"], json!({"v": {"a": 1.5}}));
    }
}

#[test]
fn chunks_of_other_sizes() {
    for format in FORMATS {
        let folder = Folder::new();
        let all = [counting(600), vec![0; 2000]].concat();
        folder.pack("s", &all, &["--format", format, "--chunksize", "2000", "--typesize", "4"]);
        folder.write("small.npy", &npy("<i4", false, "(3, 1)", &counting(3)));
        folder.change(&["chunk", "insert", "-q", "s", "1", "small.npy"]);
        let expected = [&all[..2000], &counting(3), &all[2000..]].concat();
        assert_eq!(folder.ok(&["cat", "s"]), expected);
        let info = folder.info(&["s"]);
        assert_eq!((&info["chunksize"], &info["nchunks"]), (&json!(0), &json!(4)));
        assert_eq!(folder.ok(&["cat", "s", "--chunk", "1"]), counting(3));
    }
}

#[test]
fn files_of_c() {
    for path in [
        "plain-contiguous.b2frame",
        "plain-sparse.b2frame",
        "variable-contiguous.b2frame",
        "variable-sparse.b2frame",
        "zeros-between.b2frame",
        "vlmeta-16.b2frame",
        "metalayers-15.b2frame",
    ] {
        let folder = Folder::new();
        folder.fixture("s", &format!("c-blosc2/3.3.5/frame/{path}"));
        let before = folder.info(&["s"]);
        let nchunks = before["nchunks"].as_u64().unwrap() as usize;
        let mut chunks: Vec<Vec<u8>> =
            (0..nchunks).map(|n| folder.ok(&["cat", "s", "--chunk", &n.to_string()])).collect();
        folder.write("new", &noise(chunks[0].len()));
        let new = noise(chunks[0].len());
        folder.change(&["chunk", "update", "-q", "s", "1", "new"]);
        chunks[1] = new.clone();
        folder.change(&["chunk", "insert", "-q", "s", "0", "new"]);
        chunks.insert(0, new.clone());
        folder.change(&["chunk", "append", "-q", "s", "new"]);
        chunks.push(new);
        folder.change(&["chunk", "delete", "-q", "s", "2"]);
        chunks.remove(2);
        assert!(folder.ok(&["cat", "s"]) == chunks.concat(), "{path}");
        let after = folder.info(&["s"]);
        for key in ["metalayers", "vlmetalayers", "typesize", "codec", "filters"] {
            assert_eq!(before[key], after[key], "{path} {key}");
        }
    }
}

#[test]
fn what_does_not_fit_changes_nothing() {
    let folder = Folder::new();
    folder.pack("a", &npy("<i4", false, "(5, 6)", &counting(30)), &[]);
    folder.pack("s", &counting(30), &["--typesize", "4"]);
    folder.pack("c", &counting(30), &["--format", "chunk"]);
    folder.write("i8", &npy("<i8", false, "(3,)", &[0; 24]));
    folder.write("raw", &[0; 24]);
    folder.write("empty", b"");
    let before = (folder.read("a"), folder.read("s"));
    let array = "a: this is an array: use append, insert, delete, set or resize";
    let cases: [(&[&str], &str); 11] = [
        (&["append", "a", "raw"], array),
        (&["insert", "a", "0", "raw"], array),
        (&["update", "a", "0", "raw"], array),
        (&["delete", "a", "0"], array),
        (&["append", "c", "raw"], "c: not a frame: only frames can be changed"),
        (&["append", "s", "i8"], "s: i8: items of 8 bytes (<i8), the file has items of 4 bytes"),
        (&["append", "s", "empty"], "s: empty: empty, but a chunk has at least one byte"),
        (&["insert", "s", "2", "raw"], "s: cannot insert at 2: there are 1 chunk"),
        (&["update", "s", "1", "raw"], "s: no chunk 1: there are 1 chunk"),
        (&["delete", "s", "1"], "s: no chunk 1: there are 1 chunk"),
        (&["delete", "none", "1"], "none: No such file or directory (os error 2)"),
    ];
    for (args, message) in cases {
        folder.refuses(&[&["chunk"], args].concat(), message);
    }
    for args in
        [&["chunk"][..], &["chunk", "delete", "s"], &["chunk", "delete", "s", "-1"], &["chunk", "cut", "s"]]
    {
        folder.fails(2, args);
    }
    assert_eq!(before, (folder.read("a"), folder.read("s")));
}
