//! No command replaces a file unless told to.

use std::fs;

use crate::common::{Folder, counting, noise, npy};

/// Returns names and contents of all files in the directory and its subdirectories.
fn everything(folder: &Folder) -> Vec<(String, Vec<u8>)> {
    let mut out = Vec::new();
    for name in folder.names() {
        let path = folder.path(&name);
        if path.is_dir() {
            let mut names: Vec<_> = fs::read_dir(&path).unwrap().map(|e| e.unwrap().path()).collect();
            names.sort();
            out.extend(names.into_iter().map(|path| (path.display().to_string(), fs::read(path).unwrap())));
        } else {
            out.push((name, fs::read(path).unwrap()));
        }
    }
    out
}

#[test]
fn nothing_is_replaced_without_force() {
    let folder = Folder::new();
    folder.write("a.npy", &npy("<i4", false, "(30, 10)", &counting(300)));
    folder.write("old.b2nd", &npy("<i4", false, "(20, 10)", &counting(200)));
    folder.write("raw", &noise(5000));
    folder.pack("array", &folder.read("a.npy"), &[]);
    folder.pack("dir", &folder.read("a.npy"), &["--format", "sframe", "--chunks", "5,10"]);
    let before = everything(&folder);
    for (command, inputs) in
        [("pack", ["a.npy", "raw"]), ("copy", ["array", "dir"]), ("salvage", ["array", "dir"])]
    {
        for input in inputs {
            for output in ["old.b2nd", "raw", "array", "dir"].into_iter().filter(|output| *output != input) {
                let message = folder.fails(1, &[command, input, output]);
                assert!(message.contains("already exists") && message.contains("--force"), "{message}");
                assert_eq!(everything(&folder), before, "{command} {input} {output}");
            }
        }
    }
    for format in ["cframe", "sframe", "chunk"] {
        folder.fails(1, &["pack", "a.npy", "old.b2nd", "--format", format]);
        folder.fails(1, &["copy", "array", "dir", "--format", format]);
    }
    folder.fails(1, &["cat", "array", "-o", "old.b2nd"]);
    assert_eq!(everything(&folder), before);

    // With `--force`, they are replaced.
    folder.change(&["pack", "a.npy", "old.b2nd", "--force"]);
    assert_eq!(folder.ok(&["cat", "old.b2nd"]), counting(300));
    folder.change(&["pack", "raw", "dir", "--force", "--format", "sframe"]);
    assert_eq!(folder.ok(&["cat", "dir"]), folder.read("raw"));
    folder.change(&["copy", "array", "dir", "--force", "--format", "cframe"]);
    assert!(folder.path("dir").is_file());
}

#[test]
fn input_and_output_are_never_the_same() {
    let folder = Folder::new();
    folder.write("a.npy", &npy("<i4", false, "(300,)", &counting(300)));
    folder.pack("array", &folder.read("a.npy"), &[]);
    folder.pack("dir", &folder.read("a.npy"), &["--format", "sframe", "--chunks", "50"]);
    fs::create_dir(folder.path("sub")).unwrap();
    fs::hard_link(folder.path("array"), folder.path("hard")).unwrap();
    let mut pairs = vec![("array", "hard"), ("hard", "array"), ("array", "sub/../array"), ("dir", "./dir")];
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("array", folder.path("soft")).unwrap();
        std::os::unix::fs::symlink("dir", folder.path("softdir")).unwrap();
        pairs.extend([("array", "soft"), ("soft", "array"), ("dir", "softdir"), ("soft", "hard")]);
    }
    let before = everything(&folder);
    for (input, output) in pairs {
        for command in ["copy", "salvage"] {
            for force in [&[][..], &["--force"]] {
                let message = folder.fails(1, &[&[command, input, output], force].concat());
                assert!(
                    message.contains("IN and OUT are the same file"),
                    "{command} {input} {output}: {message}"
                );
            }
        }
        folder.fails(1, &["cat", input, "-o", output, "--force"]);
        folder.fails(1, &["append", input, output]);
    }
    for args in [
        &["pack", "a.npy", "a.npy", "--force"][..],
        &["pack", "a.npy", "./a.npy", "--force"],
        &["copy", "dir", "dir/new", "--force"],
        &["pack", "dir/00000000.chunk", "dir", "--force", "--raw"],
        &["set", "array", "array", "--slice=0:1"],
    ] {
        folder.fails(1, args);
    }
    assert_eq!(everything(&folder), before);
}

/// A directory is replaced only if it is a sparse frame.
#[test]
fn other_directories_stay() {
    let folder = Folder::new();
    folder.write("a.npy", &npy("<i4", false, "(300,)", &counting(300)));
    folder.pack("array", &folder.read("a.npy"), &[]);
    for name in ["empty", "full", "store"] {
        fs::create_dir(folder.path(name)).unwrap();
    }
    folder.write("full/notes.txt", b"mine");
    folder.pack("store/member.b2nd", &folder.read("a.npy"), &[]);
    folder.pack("mixed", &folder.read("a.npy"), &["--format", "sframe"]);
    folder.write("mixed/notes.txt", b"mine");
    let before = everything(&folder);
    for output in ["empty", "full", "store", "mixed"] {
        for format in ["cframe", "sframe", "chunk"] {
            for args in [["pack", "a.npy"], ["copy", "array"]] {
                folder.fails(1, &[args[0], args[1], output, "--force", "--format", format]);
            }
        }
        folder.fails(1, &["salvage", "array", output, "--force"]);
        folder.fails(1, &["cat", "array", "-o", output, "--force"]);
        assert!(folder.path(output).is_dir());
    }
    assert_eq!(everything(&folder), before);
}

/// Each name of a file has its own lock, so two shells that append under two names would destroy the file.
#[cfg(unix)]
#[test]
fn files_with_several_names_are_not_changed() {
    let folder = Folder::new();
    folder.write("rows.npy", &npy("<i4", false, "(30, 10)", &counting(300)));
    folder.pack("a", &folder.read("rows.npy"), &["--chunks", "10,10", "--vlmeta", "v=1"]);
    fs::hard_link(folder.path("a"), folder.path("b")).unwrap();
    let before = folder.read("a");
    let changes: [&[&str]; 12] = [
        &["append", "a", "rows.npy"],
        &["append", "b", "rows.npy"],
        &["append", "--no-lock", "b", "rows.npy"],
        &["set", "a", "rows.npy", "--slice", ":,:"],
        &["resize", "a", "--shape", "50,10"],
        &["insert", "a", "rows.npy", "--at", "0"],
        &["delete", "a", "--range", "0:10"],
        &["vlmeta", "set", "a", "v", "2"],
        &["vlmeta", "del", "a", "v"],
        &["checksum", "add", "a"],
        &["checksum", "remove", "a"],
        &["compact", "a"],
    ];
    for args in changes {
        let message = folder.fails(1, args);
        assert!(message.contains("2 hard links: change a copy"), "{args:?}: {message}");
        assert_eq!(folder.read("b"), before, "{args:?}");
    }
    // A copy has a single name, and reading is allowed.
    folder.ok(&["copy", "b", "c"]);
    folder.change(&["append", "-q", "c", "rows.npy"]);
    folder.ok(&["verify", "a", "b", "c"]);
    folder.change(&["append", "-q", "--force", "a", "rows.npy"]);
    assert_eq!(folder.info(&["b"])["shape"], serde_json::json!([60, 10]));
}
