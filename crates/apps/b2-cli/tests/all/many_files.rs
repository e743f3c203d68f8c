//! Commands that take several files: one line for each, errors at the end.

use serde_json::Value;

use crate::common::{Folder, counting, npy, slashes};

/// Creates two good files with two bad ones between them.
fn files(folder: &Folder) -> [&'static str; 4] {
    let raw = counting(1000);
    folder.pack("a", &npy("<i4", false, "(20, 50)", &raw), &[]);
    folder.write("bad", b"this is no compressed file at all, only text");
    folder.pack("s", &raw, &["--typesize", "4"]);
    ["a", "bad", "none", "s"]
}

#[test]
fn info_of_several_files_is_a_line_each() {
    let folder = Folder::new();
    let names = files(&folder);
    let output = folder.run(&[&["info"][..], &names].concat());
    assert_eq!(output.status.code(), Some(1));
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines.len(), 2, "{out}");
    assert!(lines[0].starts_with("a: array (20, 50) <i4, 3.91 KiB -> "), "{out}");
    assert!(lines[1].starts_with("s: "), "{out}");
    let errors: Vec<&str> = err.lines().collect();
    assert_eq!(errors.len(), 3, "{err}");
    assert!(errors[0].starts_with("b2kit: bad: ") && errors[1].starts_with("b2kit: none: "), "{err}");
    assert_eq!(errors[2], "b2kit: 2 of 4 files failed");
    assert_eq!(folder.ok_text(&["info", "a", "s"]), out);

    let text = folder.ok_text(&["info", "a", "s", "--json"]);
    let objects: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(objects.len(), 2);
    for (object, name) in objects.into_iter().zip(["a", "s"]) {
        assert_eq!(object["file"], name);
        let mut alone = folder.info(&[name]);
        alone["file"] = name.into();
        assert_eq!(object, alone, "the same as alone, and the name");
    }
    // Tables take more than one line.
    let tables = folder.ok_text(&["info", "a", "s", "--meta"]);
    assert_eq!(tables, folder.ok_text(&["info", "a", "--meta"]) + &folder.ok_text(&["info", "s", "--meta"]));
}

#[test]
fn changes_of_several_files_go_on_after_a_bad_one() {
    let folder = Folder::new();
    let names = files(&folder);
    for (command, text) in [
        (&["checksum", "remove"][..], "checksums removed"),
        (&["checksum", "add"], "checksums added"),
        (&["compact"], ""),
    ] {
        let output = folder.run(&[command, &names].concat());
        assert_eq!(output.status.code(), Some(1), "{command:?}");
        assert_eq!(output.stdout, b"");
        let err = String::from_utf8(output.stderr).unwrap();
        let lines: Vec<&str> = err.lines().collect();
        assert_eq!(lines.len(), 5, "{err}");
        assert!(lines[0].starts_with(&format!("a: {text}")), "{err}");
        assert!(lines[1].starts_with(&format!("s: {text}")), "{err}");
        assert!(lines[2].starts_with("b2kit: bad: ") && lines[3].starts_with("b2kit: none: "), "{err}");
        assert_eq!(lines[4], "b2kit: 2 of 4 files failed");
    }
}

#[test]
fn pack_into_a_folder() {
    let folder = Folder::new();
    let raw = counting(1000);
    let items = npy("<i4", false, "(20, 50)", &raw);
    folder.write("one.npy", &items);
    folder.write("two.dat", &items);
    folder.write("raw.bin", &raw);
    folder.write("bad.npy", &items[..100]);
    let output =
        folder.run(&["-q", "pack", "-d", "new", "one.npy", "bad.npy", "two.dat", "raw.bin", "--clevel", "9"]);
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(err.starts_with("b2kit: bad.npy: ") && err.ends_with("b2kit: 1 of 4 files failed\n"), "{err}");
    let mut names: Vec<String> = std::fs::read_dir(folder.path("new"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["one.b2nd", "raw.bin.b2frame", "two.dat.b2nd"]);
    for name in names {
        let name = format!("new/{name}");
        assert_eq!(folder.ok(&["cat", &name]), raw);
        assert_eq!(folder.info(&[&name])["clevel"], 9);
    }
    folder.ok(&["-q", "pack", "raw.bin", "-d", "new", "--dtype", "<i4", "--shape", "1000"]);
    assert_eq!(folder.info(&["new/raw.bin.b2nd"])["kind"], "ndarray");
    folder.ok(&["-q", "pack", "raw.bin", "-d", "new", "--format", "chunk"]);
    assert_eq!(folder.info(&["new/raw.bin.chunk"])["kind"], "chunk");

    std::fs::create_dir(folder.path("sub")).unwrap();
    folder.write("sub/one.npy", &items);
    let message = slashes(folder.fails(2, &["pack", "-d", "other", "one.npy", "sub/one.npy"]));
    assert!(message.contains("one.npy and sub/one.npy would both become other/one.b2nd"), "{message}");
    assert!(folder.fails(2, &["pack", "one.npy", "two.dat", "raw.bin"]).contains("-d DIR"));
}

#[test]
fn verify_as_json() {
    let folder = Folder::new();
    let names = files(&folder);
    let table = folder.run(&[&["verify"][..], &names].concat());
    let output = folder.run(&[&["verify", "--json"][..], &names].concat());
    assert_eq!((table.status.code(), output.status.code()), (Some(1), Some(1)));
    let (table, text) = (String::from_utf8(table.stdout).unwrap(), String::from_utf8(output.stdout).unwrap());
    assert_eq!(text.lines().count(), 4);
    for (line, columns) in text.lines().zip(table.lines()) {
        let object: Value = serde_json::from_str(line).unwrap();
        let columns: Vec<&str> = columns.split('\t').collect();
        assert_eq!(object["verdict"], columns[0]);
        assert_eq!(object["file"], columns[3]);
        if columns[0] == "ok" {
            assert_eq!(object["nbytes"].to_string(), columns[1]);
            assert_eq!(object["sha256"], columns[2]);
            assert_eq!(object["checksums"], "ok");
            assert_eq!(object["message"], Value::Null);
        } else {
            assert_eq!(object["message"], columns[4]);
            assert_eq!(object["nbytes"], Value::Null);
        }
    }
}
