//! Stores of python-blosc2: `ls`, `--key`, `info` of a store.

use std::fs;

use crate::common::{Folder, counting, npy, sha256};
use serde_json::{Value, json};

/// Returns a zip archive of stored members, whose local headers have `extra` bytes that the directory does not have.
pub(crate) fn zip(members: &[(&str, &[u8])], method: u16, extra: usize) -> Vec<u8> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    for (name, data) in members {
        let at = out.len() as u32;
        let sizes = [0, data.len() as u32, data.len() as u32];
        let common = [[20, 0].map(u16::to_le_bytes), [method, 0].map(u16::to_le_bytes)].concat();
        out.extend(b"PK\x03\x04");
        out.extend(common.iter().flatten());
        out.extend(0u16.to_le_bytes());
        out.extend(sizes.iter().flat_map(|n: &u32| n.to_le_bytes()));
        out.extend((name.len() as u16).to_le_bytes());
        out.extend((extra as u16).to_le_bytes());
        out.extend(name.as_bytes());
        out.extend(vec![0; extra]);
        out.extend(*data);
        directory.extend(b"PK\x01\x02\x14\x00");
        directory.extend(common.iter().flatten());
        directory.extend(0u16.to_le_bytes());
        directory.extend(sizes.iter().flat_map(|n| n.to_le_bytes()));
        directory.extend((name.len() as u16).to_le_bytes());
        directory.extend([0; 12]);
        directory.extend(at.to_le_bytes());
        directory.extend(name.as_bytes());
    }
    let (at, len, n) = (out.len() as u32, directory.len() as u32, members.len() as u16);
    out.extend(directory);
    out.extend(b"PK\x05\x06\0\0\0\0");
    out.extend([n, n].iter().flat_map(|n| n.to_le_bytes()));
    out.extend([len, at].iter().flat_map(|n| n.to_le_bytes()));
    out.extend([0, 0]);
    out
}

/// Creates an array and a frame with two members in the layout of python-blosc2: the files `a` and `embed`.
fn members(folder: &Folder) -> (Vec<u8>, Vec<u8>) {
    folder.pack("a", &npy("<i4", false, "(6, 10)", &counting(60)), &[]);
    folder.pack("s", b"hello", &[]);
    let (a, s) = (folder.read("a"), folder.read("s"));
    let gap = b"unreachable".repeat(800);
    let plain = [&a[..], &gap, &s].concat();
    let map = json!({
        "embed_map": {
            "/small": {"offset": 0, "length": a.len()},
            "/g/s": {"offset": a.len() + gap.len(), "length": s.len()},
            "/__vlmeta__": {"offset": 0, "length": a.len()},
        },
        "current_offset": plain.len(),
    });
    let options = ["--chunksize", "8192", "--meta", "b2tree={\"version\":1}", "--vlmeta"];
    folder.pack("embed", &plain, &[&options[..], &[&format!("estore_metadata={map}")]].concat());
    (a, folder.read("embed"))
}

#[test]
fn every_kind_of_store() {
    let folder = Folder::new();
    let (a, embed) = members(&folder);
    fs::create_dir_all(folder.path("dir/g/h")).unwrap();
    folder.write("dir/embed.b2e", &embed);
    folder.write("dir/g/h/big.b2nd", &a);
    folder.write("dir/g/notes.txt", b"no member");
    folder.ok(&["copy", "a", "dir/sparse.b2nd", "--format", "sframe"]);
    folder.write("zip", &zip(&[("g/h/big.b2nd", &a), ("embed.b2e", &embed), ("g/notes.txt", b"x")], 0, 0));
    folder.write("aligned", &zip(&[("g/h/big.b2nd", &a), ("embed.b2e", &embed)], 0, 51));
    for (store, keys) in [
        ("embed", "/g/s\n/small\n"),
        ("dir", "/g/h/big\n/g/s\n/small\n/sparse\n"),
        ("zip", "/g/h/big\n/g/s\n/small\n"),
        ("aligned", "/g/h/big\n/g/s\n/small\n"),
    ] {
        assert_eq!(folder.ok_text(&["ls", store]), keys);
        let info = folder.info(&[store]);
        let listed: Vec<&str> = keys.lines().collect();
        assert_eq!((&info["kind"], &info["keys"]), (&"store".into(), &json!(listed)));
        assert_eq!(folder.ok(&["cat", store, "--key", "/g/s"]), b"hello");
        assert_eq!(folder.ok(&["cat", store, "--key", "small", "--slice=1,:"]), counting(60)[40..80]);
        for key in listed.iter().filter(|key| **key != "/g/s") {
            let info = folder.info(&[store, "--key", key]);
            assert_eq!(
                (&info["kind"], &info["shape"]),
                (&"ndarray".into(), &json!([6, 10])),
                "{store} {key}"
            );
            assert_eq!(folder.ok(&["cat", store, "--key", key]), counting(60), "{store} {key}");
        }
        // Attributes exist, but are not listed.
        assert_eq!(folder.info(&[store, "--key", "/__vlmeta__"])["kind"], Value::from("ndarray"));
        let text = folder.ok_text(&["info", store]);
        assert!(text.contains("kind     store\n"), "{text}");
    }
    // All members in the order of their keys, attributes first. For the frame with the small members, the hash covers
    // what `cat` prints.
    let verified = |store: &str| folder.ok_text(&["verify", store]);
    let all = [&counting(60)[..], &counting(60), b"hello", &counting(60)].concat();
    assert_eq!(verified("zip"), format!("ok\t{}\t{}\tzip\n", all.len(), sha256(&all)));
    assert!(verified("dir").starts_with("ok\t965\t"), "{}", verified("dir"));
    assert!(verified("embed").contains(&sha256(&folder.ok(&["cat", "embed"]))));
    let tree = folder.ok_text(&["info", "--tree", "dir"]);
    let shape: Vec<&str> = tree.lines().map(|line| line.split("  array").next().unwrap()).collect();
    assert_eq!(shape[..4], ["dir", "├── g", "│   ├── h", "│   │   └── big"], "{tree}");
    assert!(
        tree.contains("│   └── s  schunk, 5 bytes -> ") && tree.contains("├── small  array (6, 10) <i4, "),
        "{tree}"
    );
}

/// Damage in a member is detected, and its key is named.
#[test]
fn damaged_members() {
    let folder = Folder::new();
    let (a, embed) = members(&folder);
    let mut bad = a.clone();
    let at = bad.len() / 2;
    bad[at] ^= 1;
    folder.write("zip", &zip(&[("a.b2nd", &a), ("b.b2nd", &bad), ("embed.b2e", &embed)], 0, 0));
    let out = text(&folder, "zip");
    assert!(out.starts_with("FAIL\t-\t-\tzip\tkey /b: "), "{out}");
    // Change the list of small members, which is not part of the data.
    folder.change(&[
        "vlmeta",
        "set",
        "embed",
        "estore_metadata",
        r#"{"embed_map":{"/x":{"offset":1,"length":60}}}"#,
    ]);
    let out = text(&folder, "embed");
    assert!(out.starts_with("FAIL") && out.contains("key /x"), "{out}");
    // Zeros: each member is below the limit, but together they exceed it.
    folder.pack("zeros", &npy("<f8", false, "(10,)", &[0; 80]), &[]);
    folder.change(&["resize", "zeros", "--shape", "2000000"]);
    let zeros = folder.read("zeros");
    folder.ok(&["verify", "--max-output", "20M", "zeros"]);
    folder.write("zip", &zip(&[("a.b2nd", &zeros), ("b.b2nd", &zeros)], 0, 0));
    let output = folder.run(&["verify", "--max-output", "20M", "zip"]);
    let out = String::from_utf8(output.stdout).unwrap();
    assert!(out.starts_with("skipped\t16000000\t") && out.contains("--max-output"), "{out}");
    assert_eq!(output.status.code(), Some(3));
}

/// Returns the output of `verify`.
fn text(folder: &Folder, name: &str) -> String {
    String::from_utf8(folder.run(&["verify", name]).stdout).unwrap()
}

#[test]
fn refusals() {
    let folder = Folder::new();
    let (a, embed) = members(&folder);
    folder.write("zip", &zip(&[("a.b2nd", &a)], 0, 0));
    folder
        .refuses(&["cat", "zip", "--key", "/b"], "zip: key /b: there is no such key; `b2kit ls` lists them");
    folder.refuses(
        &["cat", "zip"],
        "zip: not a Blosc2 file but a store of Blosc2 files: --key picks a member, b2kit ls lists them",
    );
    folder.refuses(&["ls", "a"], "a: not a store: it has no members (b2kit info shows what it is)");
    folder.refuses(&["cat", "a", "--key", "/a"], "a: not a store: it has no members");
    folder.refuses(&["info", "a", "--tree"], "a: --tree: not a store");
    folder.write("deflated", &zip(&[("a.b2nd", b"\x4b\x04\x00")], 8, 0));
    assert_eq!(folder.ok(&["ls", "deflated"]), b"/a\n");
    assert!(folder.fails(1, &["cat", "deflated", "--key", "/a"]).contains("compressed in the archive"));
    for name in ["../a.b2nd", "/a.b2nd", "x/../../a.b2nd", "x\\a.b2nd", "./a.b2nd"] {
        folder.write("evil", &zip(&[(name, &a)], 0, 0));
        assert!(folder.fails(1, &["ls", "evil"]).contains("is not a path inside the archive"), "{name}");
    }
    // Each level of a tree is indented, so the output grows with the square of the depth.
    for (depth, fine) in [(60, true), (100, false), (20_000, false)] {
        folder.write("deep", &zip(&[(&("d/".repeat(depth) + "a.b2nd"), &a)], 0, 0));
        match fine {
            true => assert!(folder.ok(&["info", "deep", "--tree"]).len() > depth),
            false => assert!(folder.fails(1, &["info", "deep", "--tree"]).contains("nested")),
        }
    }
    // Links that lead out of a directory are not members.
    #[cfg(unix)]
    {
        fs::create_dir(folder.path("dir")).unwrap();
        folder.write("dir/b.b2nd", &a);
        std::os::unix::fs::symlink(folder.path("a"), folder.path("dir/link.b2nd")).unwrap();
        std::os::unix::fs::symlink(folder.path("."), folder.path("dir/all")).unwrap();
        assert_eq!(folder.ok(&["ls", "dir"]), b"/b\n");
        folder.fails(1, &["cat", "dir", "--key", "/../a"]);
    }
    // A store truncated at any position is either refused or read.
    let whole = zip(&[("a.b2nd", &a), ("embed.b2e", &embed)], 0, 0);
    for len in (0..whole.len()).step_by(whole.len() / 40) {
        folder.write("cut", &whole[..len]);
        folder.fails(1, &["ls", "cut"]);
    }
    // A member outside the frame.
    for entry in
        [json!({"offset": 90, "length": 20}), json!({"offset": u64::MAX, "length": 2}), json!({"offset": 1})]
    {
        let map = format!("estore_metadata={}", json!({"embed_map": {"/a": entry}}));
        folder.pack("bad", &[7; 100], &["--meta", "b2embed={}", "--vlmeta", &map]);
        assert!(folder.fails(1, &["ls", "bad"]).contains("estore_metadata"));
    }
}

#[test]
fn members_elsewhere_are_named_and_the_others_verified() {
    let folder = Folder::new();
    let (a, _) = members(&folder);
    let map = json!({"embed_map": {
        "/far": {"urlbase": "http://127.0.0.1:9/", "path": "x"},
        "/near": {"offset": 0, "length": a.len()},
    }});
    let map = format!("estore_metadata={map}");
    folder.pack("e.b2e", &a, &["--meta", "b2embed={}", "--vlmeta", &map]);
    std::fs::create_dir(folder.path("s.b2d")).unwrap();
    folder.write("s.b2d/embed.b2e", &folder.read("e.b2e"));
    folder.write("z.b2z", &zip(&[("near.b2nd", &a), ("embed.b2e", &folder.read("e.b2e"))], 0, 0));
    for store in ["e.b2e", "s.b2d", "z.b2z"] {
        let output = folder.run(&["verify", store]);
        let out = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(3), "{out}");
        assert!(out.starts_with("skipped\t") && out.contains("\tskipped: /far ("), "{out}");
        assert!(
            out.contains("is a reference to an array on the network") && !out.contains("cannot read"),
            "{out}"
        );
        let reported = folder.fails(1, &["info", &format!("{store}::/far")]);
        assert!(reported.contains(&format!("{store}:/far: /far is a reference")), "{reported}");
    }
    let mut damaged = a;
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    folder.write("s.b2d/other.b2nd", &damaged);
    assert_eq!(folder.run(&["verify", "s.b2d"]).status.code(), Some(1));
}

/// A tree has the name of the store at its top, and no other paths, which differ between machines.
#[test]
fn a_tree_tells_what_is_wrong_with_a_member_without_its_path() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("dir.b2d")).unwrap();
    folder.write("dir.b2d/a.b2nd", b"nothing of Blosc2, but a long enough text");
    let tree = folder.ok_text(&["info", "--tree", "dir.b2d"]);
    assert!(tree.starts_with("dir.b2d\n└── a  key /a: not a Blosc2 frame"), "{tree}");
    let message = folder.fails(1, &["cat", "dir.b2d", "--key", "a"]);
    assert!(message.contains("a.b2nd: not a Blosc2 frame"), "{message}");
}

/// A member is copied and unpacked like a file.
#[test]
fn members_become_files() {
    let folder = Folder::new();
    fs::create_dir_all(folder.path("s.b2d/g")).unwrap();
    let raw = counting(300);
    folder.pack("s.b2d/g/a.b2nd", &npy("<i4", false, "(30, 10)", &raw), &["--vlmeta", "unit=\"K\""]);
    folder.pack("s.b2d/log.b2f", b"some bytes", &[]);
    folder.ok(&["copy", "s.b2d::/g/a", "one.b2nd"]);
    folder.ok(&["copy", "s.b2d", "two.b2nd", "--key", "g/a", "--codec", "lz4"]);
    for name in ["one.b2nd", "two.b2nd"] {
        assert_eq!(folder.ok(&["cat", name]), raw);
        assert_eq!(folder.info(&[name])["vlmetalayers"]["unit"], "K");
    }
    folder.change(&["unpack", "s.b2d::/g/a"]);
    folder.change(&["unpack", "s.b2d", "--key", "/log"]);
    folder.change(&["unpack", "-d", "plain", "s.b2d::/g/a", "s.b2d::/log"]);
    assert_eq!(folder.read("a.npy"), npy("<i4", false, "(30, 10)", &raw));
    assert_eq!(
        (folder.read("plain/a.npy"), folder.read("log")),
        (folder.read("a.npy"), b"some bytes".to_vec())
    );
    assert_eq!(folder.read("plain/log"), b"some bytes");
    assert!(folder.fails(1, &["unpack", "s.b2d::/none"]).contains("no such key"));
    folder.fails(2, &["unpack", "s.b2d::/g/a", "--rm", "--force"]);
    // Neither a copy into the store nor a copy of a whole store.
    assert!(folder.fails(1, &["copy", "s.b2d::/g/a", "s.b2d", "--force"]).contains("s.b2d"));
    assert_eq!(folder.ok_text(&["ls", "s.b2d"]), "/g/a\n/log\n");
}

#[test]
fn members_are_listed_with_what_they_are() {
    let folder = Folder::new();
    fs::create_dir_all(folder.path("s.b2d/g")).unwrap();
    folder.pack("s.b2d/g/a.b2nd", &npy("<i4", false, "(30, 10)", &counting(300)), &[]);
    folder.pack("s.b2d/log.b2f", b"some bytes", &[]);
    folder.write("s.b2d/bad.b2nd", b"no frame");
    let text = folder.ok_text(&["ls", "-l", "s.b2d"]);
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0][0], "/bad");
    assert_eq!(rows[1][..5], ["/g/a", "<i4", "(30,", "10)", "1.17"]);
    assert_eq!(rows[2][..4], ["/log", "schunk", "10", "bytes"]);
    let text = folder.ok_text(&["ls", "--json", "s.b2d"]);
    let rows: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(rows[0]["error"].as_str().unwrap().contains("not a Blosc2 frame"), "{text}");
    assert_eq!((&rows[1]["key"], &rows[1]["shape"]), (&"/g/a".into(), &serde_json::json!([30, 10])));
    assert_eq!((&rows[1]["nbytes"], &rows[2]["shape"]), (&1200.into(), &serde_json::Value::Null));
    let both = folder.ok_text(&["ls", "s.b2d", "s.b2d"]);
    assert_eq!(both, "s.b2d:\n/bad\n/g/a\n/log\n\ns.b2d:\n/bad\n/g/a\n/log\n");
    let output = folder.run(&["ls", "none.b2d", "s.b2d"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stdout).unwrap().ends_with("/log\n"));
}

#[test]
fn shapes_without_dimensions_have_one_pair_of_parentheses() {
    let folder = Folder::new();
    fs::create_dir_all(folder.path("s.b2d")).unwrap();
    folder.pack("s.b2d/n.b2nd", &npy("<i4", false, "()", &counting(1)), &[]);
    assert!(folder.ok_text(&["ls", "-l", "s.b2d"]).starts_with("/n  <i4  ()  "));
    assert!(folder.ok_text(&["info", "s.b2d/n.b2nd", "s.b2d::/n"]).contains("array () <i4"));
}

#[test]
fn commands_of_other_programs_are_recognised() {
    let folder = Folder::new();
    for (given, ours) in [("stat", "'info'"), ("tree", "'info --tree'"), ("version", "'--version'")] {
        assert!(folder.fails(2, &[given]).contains(ours));
    }
}

#[test]
fn members_are_changed_by_their_keys() {
    let folder = Folder::new();
    fs::create_dir_all(folder.path("s.b2d/g")).unwrap();
    let rows = counting(20);
    folder.pack("s.b2d/g/a.b2nd", &npy("<i4", false, "(2, 10)", &rows), &[]);
    folder.write("more.npy", &npy("<i4", false, "(2, 10)", &rows));
    let output = folder.change(&["append", "s.b2d::/g/a", "more.npy"]);
    assert!(output.starts_with("s.b2d::/g/a: 2 positions appended"), "{output}");
    folder.change(&["vlmeta", "set", "s.b2d::g/a", "unit", "\"K\""]);
    // Also from standard input.
    for command in [
        &["set", "s.b2d::/g/a", "-", "--slice=2:"][..],
        &["append", "s.b2d::/g/a", "-"],
        &["insert", "s.b2d::/g/a", "-", "--at", "0"],
    ] {
        assert!(folder.with_input(command, &folder.read("more.npy")).status.success(), "{command:?}");
    }
    folder.change(&["delete", "s.b2d::/g/a", "--range=:4"]);
    folder.change(&["compact", "s.b2d::/g/a"]);
    assert_eq!(folder.ok(&["cat", "s.b2d::/g/a"]), [&rows[..], &rows].concat());
    assert!(folder.fails(1, &["append", "s.b2d::/none", "more.npy"]).contains("no such key"));
    let output = folder.fails(1, &["append", "s.b2d/g/a.b2nd::/x", "more.npy"]);
    assert!(output.contains("only members of stores in directories (.b2d) can be changed"), "{output}");
}

#[test]
fn members_of_tables_are_neither_replaced_nor_removed() {
    let folder = Folder::new();
    fs::create_dir_all(folder.path("t.b2d/_cols")).unwrap();
    let rows = npy("<i4", false, "(20,)", &counting(20));
    folder.pack("t.b2d/_meta.b2f", b"", &["--vlmeta", "kind=\"ctable\""]);
    folder.pack("t.b2d/_cols/a.b2nd", &rows, &[]);
    folder.write("short.npy", &npy("<i4", false, "(3,)", &counting(3)));
    folder.pack("short.b2nd", &folder.read("short.npy"), &[]);
    let before = folder.read("t.b2d/_cols/a.b2nd");
    fs::create_dir(folder.path("there")).unwrap();
    for command in [
        &["pack", "short.npy", "t.b2d/_cols/a.b2nd", "--force"][..],
        &["pack", "short.npy", "t.b2d/_cols/a.b2nd", "--force", "--format", "chunk"],
        &["pack", "--concat", "0", "short.npy", "short.npy", "t.b2d/_cols/a.b2nd", "--force"],
        &["copy", "short.b2nd", "t.b2d/_cols/a.b2nd", "--force"],
        &["salvage", "short.b2nd", "t.b2d/_cols/a.b2nd", "--force"],
        &["unpack", "t.b2d/_cols/a.b2nd", "--rm"],
        &["copy", "short.b2nd", "t.b2d/_meta.b2f", "--force"],
    ] {
        let message = folder.fails(1, command);
        assert!(message.contains("belongs to a table"), "{command:?}: {message}");
        assert_eq!(folder.read("t.b2d/_cols/a.b2nd"), before, "{command:?}");
    }
    fs::write(folder.path("there/a.npy"), folder.read("short.npy")).unwrap();
    let message = folder.fails(1, &["pack", "-d", "t.b2d/_cols", "there/a.npy", "--force"]);
    assert!(message.contains("belongs to a table"), "{message}");
    // Nothing was left next to it, and new columns are only files.
    assert_eq!(fs::read_dir(folder.path("t.b2d/_cols")).unwrap().count(), 1);
    folder.change(&["pack", "short.npy", "t.b2d/_cols/b.b2nd"]);
}
