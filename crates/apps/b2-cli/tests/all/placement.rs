//! The location of new files: next to their inputs, or as given by options.

use std::fs;

use crate::common::{Folder, counting, noise, npy, slashes};

#[test]
fn new_files_are_called_as_their_inputs() {
    let folder = Folder::new();
    let raw = counting(1000);
    std::fs::create_dir(folder.path("sub")).unwrap();
    folder.write("sub/data.npy", &npy("<i4", false, "(20, 50)", &raw));
    folder.write("sub/data.bin", &raw);
    let output = slashes(folder.change(&["pack", "sub/data.npy"]));
    assert!(output.starts_with("sub/data.npy -> sub/data.b2nd  3.91 -> "), "{output}");
    folder.change(&["pack", "sub/data.bin", "--typesize", "4"]);
    folder.change(&["pack", "sub/data.bin", "--dtype", "<i4"]);
    folder.change(&["pack", "sub/data.bin", "--format", "chunk"]);
    for name in ["data.b2nd", "data.bin.b2frame", "data.bin.b2nd", "data.bin.chunk"] {
        assert_eq!(folder.ok(&["cat", &format!("sub/{name}")]), raw, "{name}");
    }
    // Nothing is replaced without --force.
    folder.refuses(&["pack", "sub/data.npy"], "sub/data.b2nd: already exists; --force overwrites it");
    folder.change(&["pack", "sub/data.npy", "--force", "-1"]);
    assert_eq!(folder.info(&["sub/data.b2nd"])["clevel"], 1);
    let items = folder.read("sub/data.npy");
    folder.refuses(&["unpack", "sub/data.b2nd"], "sub/data.npy: already exists; --force overwrites it");
    std::fs::remove_file(folder.path("sub/data.npy")).unwrap();
    folder.change(&["unpack", "sub/data.b2nd"]);
    assert_eq!(folder.read("sub/data.npy"), items);
    std::fs::remove_file(folder.path("sub/data.bin")).unwrap();
    folder.change(&["unpack", "sub/data.bin.b2frame"]);
    assert_eq!(folder.read("sub/data.bin"), raw);
    assert!(folder.fails(2, &["pack", "-"]).contains("standard input has no name"));
    assert!(folder.fails(1, &["pack", "sub"]).contains("sub: is a directory; -r packs the files in it"));
    assert!(folder.fails(1, &["pack", "https://127.0.0.1:1/a.npy"]).contains("download it first"));
}

/// A replacement keeps the mode of the old file and, if the file system supports them, its extended attributes.
#[cfg(target_os = "linux")]
#[test]
fn what_replaces_a_file_keeps_its_attributes() {
    use std::fs::{Permissions, metadata, set_permissions};
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    let items = npy("<i4", false, "(20, 50)", &counting(1000));
    folder.write("data.npy", &items);
    folder.change(&["pack", "data.npy", "-o", "a.b2nd"]);
    folder.change(&["pack", "data.npy", "-o", "b.b2nd"]);
    let commands: [(&str, &[&str]); 7] = [
        ("out.npy", &["unpack", "a.b2nd", "-o", "out.npy", "--force"]),
        ("out.bin", &["cat", "a.b2nd", "-o", "out.bin", "--force"]),
        ("out.svg", &["view", "a.b2nd", "-o", "out.svg", "--force"]),
        ("out.b2nd", &["pack", "data.npy", "-o", "out.b2nd", "--force"]),
        ("copy.b2nd", &["copy", "a.b2nd", "-o", "copy.b2nd", "--force"]),
        ("b.b2nd", &["compact", "b.b2nd"]),
        ("saved.b2nd", &["salvage", "a.b2nd", "saved.b2nd", "--force"]),
    ];
    for (name, args) in commands {
        if name != "b.b2nd" {
            folder.write(name, b"old");
        }
        let path = folder.path(name);
        let noted =
            rustix::fs::setxattr(&path, "user.note", b"kept", rustix::fs::XattrFlags::empty()).is_ok();
        set_permissions(&path, Permissions::from_mode(0o604)).unwrap();
        folder.ok(&[args, &["-q"]].concat());
        assert_eq!(metadata(&path).unwrap().permissions().mode() & 0o7777, 0o604, "{args:?}");
        assert_ne!(folder.read(name), b"old", "{args:?}");
        if noted {
            let mut value = [0; 9];
            let found = rustix::fs::getxattr(&path, "user.note", &mut value[..]);
            assert_eq!(found.map(|len| &value[..len]), Ok(&b"kept"[..]), "{args:?}");
        }
    }
}

#[test]
fn output_options() {
    let folder = Folder::new();
    let raw = counting(1000);
    let items = npy("<i4", false, "(20, 50)", &raw);
    folder.write("data.npy", &items);
    folder.change(&["pack", "-o", "a.b2nd", "data.npy"]);
    folder.change(&["pack", "data.npy", "--output=b.b2nd"]);
    assert_eq!(folder.read("a.b2nd"), folder.read("b.b2nd"));
    assert_eq!(folder.ok(&["pack", "-c", "data.npy"]), folder.read("a.b2nd"));
    let output = folder.with_input(&["pack", "-", "--stdout"], &items);
    assert_eq!(output.stdout, folder.read("a.b2nd"));
    folder.change(&["copy", "a.b2nd", "-o", "c.b2nd"]);
    assert_eq!(folder.read("c.b2nd"), folder.read("a.b2nd"));
    folder.change(&["copy", "-o", "d.b2nd", "a.b2nd"]);
    assert_eq!(folder.ok(&["copy", "a.b2nd", "-c"]), folder.read("a.b2nd"));
    folder.ok(&["unpack", "a.b2nd", "-q", "-o", "e.npy"]);
    assert_eq!(folder.ok(&["unpack", "-c", "a.b2nd"]), items);
    assert_eq!(folder.read("e.npy"), items);
    folder.refuses(&["pack", "data.npy", "-o", "a.b2nd"], "a.b2nd: already exists; --force overwrites it");
    folder.refuses(&["copy", "a.b2nd", "-o", "b.b2nd"], "b.b2nd: already exists; --force overwrites it");
    let same = "a.b2nd: IN and OUT are the same file";
    folder.refuses(&["unpack", "a.b2nd", "-o", "a.b2nd", "--force"], same);
    for args in [
        &["pack", "data.npy", "x", "-o", "y"][..],
        &["pack", "data.npy", "x", "-c"],
        &["pack", "data.npy", "-o", "y", "-c"],
        &["pack", "data.npy", "-o", "y", "-d", "z"],
        &["copy", "a.b2nd"],
        &["copy", "a.b2nd", "x", "-o", "y"],
        &["copy", "a.b2nd", "x", "-c"],
        &["copy", "a.b2nd", "-c", "-o", "y"],
        &["unpack", "a.b2nd", "b.b2nd", "-c"],
    ] {
        folder.fails(2, args);
    }
    assert!(folder.names().iter().all(|name| !["x", "y", "z"].contains(&name.as_str())));
}

/// Inputs are removed only when their data is safely stored in the new file.
#[test]
fn inputs_are_removed_on_request() {
    let folder = Folder::new();
    let raw = counting(1000);
    let items = npy("<i4", false, "(20, 50)", &raw);
    let names = |expected: &[&str]| assert_eq!(folder.names(), expected);
    folder.write("a.npy", &items);
    folder.write("raw", &raw);
    folder.change(&["pack", "--rm", "a.npy"]);
    names(&["a.b2nd", "raw"]);
    folder.change(&["pack", "--rm", "raw", "--format", "chunk", "-o", "c"]);
    names(&["a.b2nd", "c"]);
    folder.change(&["unpack", "--rm", "a.b2nd"]);
    assert_eq!(folder.read("a.npy"), items);
    folder.change(&["unpack", "--rm", "c"]);
    names(&["a.npy", "c.raw"]);
    folder.change(&["pack", "--rm", "a.npy", "c.raw", "-d", "new"]);
    names(&["new"]);
    folder.change(&["unpack", "--rm", "new/a.b2nd", "new/c.raw.b2frame", "-d", "."]);
    names(&["a.npy", "c.raw", "new"]);
    std::fs::remove_dir(folder.path("new")).unwrap();

    // A failure removes nothing.
    folder.write("a.b2nd", b"there already");
    folder.fails(1, &["pack", "--rm", "a.npy"]);
    folder.fails(1, &["pack", "--rm", "a.npy", "a.npy", "--force"]);
    folder.fails(1, &["pack", "--rm", "a.npy", "none/x"]);
    for args in [
        &["pack", "--rm", "-c", "a.npy"][..],
        &["pack", "--rm", "--no-sync", "a.npy"],
        &["pack", "--rm", "--each", "-d", "x", "a.npy"],
    ] {
        folder.fails(2, args);
    }
    folder.fails(1, &["pack", "--rm", "-o", "-", "a.npy"]);
    assert_eq!((folder.read("a.npy"), folder.read("a.b2nd")), (items, b"there already".to_vec()));
}

#[test]
fn dry_runs_write_and_remove_nothing() {
    let folder = Folder::new();
    let array = npy("<i4", false, "(100,)", &counting(100));
    for name in ["a.npy", "b.npy"] {
        folder.write(name, &array);
    }
    std::fs::create_dir(folder.path("deep")).unwrap();
    folder.write("deep/c.npy", &array);
    let plan = |args: &[&str]| String::from_utf8(folder.run(args).stdout).unwrap();
    assert_eq!(
        plan(&["pack", "a.npy", "b.npy", "-d", "new", "--rm", "--dry-run"]),
        "a.npy -> new/a.b2nd\nb.npy -> new/b.b2nd\n"
    );
    assert_eq!(plan(&["pack", "a.npy", "--dry-run"]), "a.npy -> a.b2nd\n");
    assert_eq!(plan(&["pack", "-r", "deep", "-d", "new", "--dry-run"]), "deep/c.npy -> new/c.b2nd\n");
    assert_eq!(
        plan(&["pack", "--stack", "a.npy", "b.npy", "s.b2nd", "--dry-run"]),
        "a.npy, b.npy -> s.b2nd\n"
    );
    assert_eq!(folder.names(), ["a.npy", "b.npy", "deep"]);
    folder.write("deep/d.png", b"\x89PNG\r\n\x1a\n and more");
    let refused = folder.run(&["pack", "-r", "deep", "-d", "new", "--dry-run"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("deep/d.png: a PNG image"), "{refused:?}");
    assert_eq!(String::from_utf8_lossy(&refused.stdout), "deep/c.npy -> new/c.b2nd\n");
    assert!(folder.fails(1, &["pack", "absent", "--dry-run"]).starts_with("b2kit: absent: "));
    folder.change(&["pack", "a.npy"]);
    assert!(folder.fails(1, &["pack", "a.npy", "--dry-run"]).contains("already exists"));
    assert_eq!(plan(&["unpack", "a.b2nd", "-d", "plain", "--rm", "--dry-run"]), "a.b2nd -> plain/a.npy\n");
    assert!(folder.fails(1, &["unpack", "a.b2nd", "--dry-run"]).contains("already exists"));
    assert_eq!(folder.names(), ["a.b2nd", "a.npy", "b.npy", "deep"]);
}

#[test]
fn the_second_name_of_unpack_is_no_new_file() {
    let folder = Folder::new();
    folder.pack("a.b2nd", &npy("<i4", false, "(20,)", &counting(20)), &[]);
    folder.pack("b.b2nd", &npy("<i4", false, "(20,)", &counting(20)), &[]);
    folder.write("there.npy", b"something");
    for second in ["new.npy", "there.npy", "."] {
        let message = folder.fails(2, &["unpack", "a.b2nd", second]);
        assert!(message.contains("not a packed file: -o names the new file"), "{message}");
    }
    assert_eq!(folder.names(), ["a.b2nd", "b.b2nd", "there.npy"]);
    folder.change(&["unpack", "a.b2nd", "b.b2nd"]);
    assert!(folder.path("a.npy").exists() && folder.path("b.npy").exists());
}

#[test]
fn inputs_stay_where_something_would_be_lost() {
    let folder = Folder::new();
    let items: Vec<u8> = (0..1000_u32).flat_map(|i| (i as f32 * 0.1).to_le_bytes()).collect();
    folder.write("a.npy", &npy("<f4", false, "(10, 100)", &items));
    for options in [
        &["--codec", "zfp_acc", "--tolerance", "0.1"][..],
        &["--precision", "20"],
        &["--filters", "trunc_prec:10"],
        &["--format", "chunk"],
    ] {
        #[cfg(not(feature = "zfp"))]
        if options.contains(&"--tolerance") || options.contains(&"--precision") {
            continue;
        }
        let args = [&["pack", "--rm", "a.npy", "-o", "x"], options].concat();
        let message = folder.fails(1, &args);
        assert!(
            message.starts_with("b2kit: a.npy: --rm: ") && message.contains("--allow-lossy"),
            "{message}"
        );
        assert_eq!(folder.names(), ["a.npy"]);
        // --force only permits overwriting.
        folder.fails(1, &[&args[..], &["--force"]].concat());
        assert_eq!(folder.names(), ["a.npy"]);
    }
    folder.change(&["pack", "a.npy", "--filters", "trunc_prec:10", "-o", "x", "--rm", "--allow-lossy"]);
    assert_eq!(folder.names(), ["x"]);
    folder.change(&["unpack", "--rm", "x", "-o", "a.npy"]);

    // Metalayers, and bytes after the frame, are not unpacked.
    folder.change(&["pack", "a.npy", "--vlmeta", "unit=\"K\""]);
    folder.change(&["pack", "a.npy", "m.b2nd", "--meta", "unit=1"]);
    folder.change(&["pack", "a.npy", "s.b2nd", "--format", "sframe"]);
    folder.change(&["pack", "a.npy", "more.b2nd"]);
    let more = [folder.read("more.b2nd"), b"more".to_vec()].concat();
    folder.write("more.b2nd", &more);
    let why = [
        ("a.b2nd", "its metalayers are not unpacked; --allow-lossy removes it all the same"),
        ("m.b2nd", "its metalayers are not unpacked; --allow-lossy removes it all the same"),
        ("more.b2nd", "it has other bytes after the data; --allow-lossy removes it all the same"),
    ];
    for (name, why) in why {
        folder.refuses(&["unpack", "--rm", name, "-o", "y.npy"], &format!("{name}: --rm: {why}"));
        folder.refuses(&["unpack", "--rm", name, "-o", "y.npy", "--force"], &format!("{name}: --rm: {why}"));
    }
    let files = "--rm removes only regular files, not links";
    folder.refuses(&["unpack", "--rm", "s.b2nd"], &format!("s.b2nd: {files}"));
    assert_eq!(folder.names(), ["a.b2nd", "a.npy", "m.b2nd", "more.b2nd", "s.b2nd"]);
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("a.npy", folder.path("link.npy")).unwrap();
        folder.refuses(&["pack", "--rm", "link.npy"], &format!("link.npy: {files}"));
        let output = folder.with_input(&["pack", "--rm", "-", "z"], &folder.read("a.npy"));
        assert_eq!(String::from_utf8_lossy(&output.stderr), format!("b2kit: -: {files}\n"));
        assert!(!folder.names().contains(&"z".to_owned()));
    }
    folder.fails(1, &["unpack", "--rm", "a.b2nd", "--allow-lossy"]);
    folder.change(&["unpack", "--rm", "a.b2nd", "--force", "--allow-lossy"]);
    assert!(!folder.names().contains(&"a.b2nd".to_owned()));
}

/// Returns the names of all files below a folder, sorted.
fn tree(folder: &Folder, below: &str) -> Vec<String> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder.path(below)).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{below}/{}", entry.file_name().to_str().unwrap());
        match entry.file_type().unwrap().is_dir() {
            true => all.extend(tree(folder, &name)),
            false => all.push(name),
        }
    }
    all.sort();
    all
}

#[test]
fn folders_are_packed_and_unpacked() {
    let folder = Folder::new();
    let raw = counting(1000);
    let items = npy("<i4", false, "(20, 50)", &raw);
    std::fs::create_dir_all(folder.path("in/sub/deep")).unwrap();
    folder.write("in/a.npy", &items);
    folder.write("in/sub/a.npy", &items);
    folder.write("in/sub/deep/raw.bin", &raw);
    folder.ok(&["pack", "in/a.npy", "in/sub/there.b2nd"]);
    let names = ["new/a.b2nd", "new/sub/a.b2nd", "new/sub/deep/raw.bin.b2frame"];
    let output = slashes(folder.change(&["pack", "-r", "in", "-d", "new", "-1"]));
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(lines.len(), 4, "{output}");
    assert_eq!(lines[0], "b2kit: -r: 1 file left out (-v says why)");
    assert!(lines[1].starts_with("in/a.npy -> new/a.b2nd  "), "{output}");
    assert_eq!(tree(&folder, "new"), names);
    for name in names {
        assert_eq!(folder.ok(&["cat", name]), raw);
    }
    let output = slashes(folder.change(&["-v", "pack", "-r", "in", "-d", "v"]));
    assert!(output.contains("in/sub/there.b2nd: left out: packed"), "{output}");
    let output = slashes(folder.fails(1, &["pack", "-r", "in", "-d", "new"]));
    assert!(
        output.contains("new/sub/a.b2nd: already exists") && output.contains("3 of 3 files failed"),
        "{output}"
    );
    // The folder of the new files is not an input, even if it is inside the input folder.
    folder.change(&["pack", "-r", ".", "-d", "v", "--force", "-q"]);
    assert!(!folder.path("v/v").exists());

    folder.change(&["unpack", "-r", "new", "-d", "plain"]);
    let plain = ["plain/a.npy", "plain/sub/a.npy", "plain/sub/deep/raw.bin"];
    assert_eq!(tree(&folder, "plain"), plain);
    assert_eq!((folder.read(plain[1]), folder.read(plain[2])), (items.clone(), raw));

    // Next to the inputs, which are removed.
    folder.ok(&["-q", "pack", "-r", "--rm", "plain"]);
    assert_eq!(tree(&folder, "plain"), names.map(|name| name.replace("new", "plain")));
    folder.write("plain/notes", b"text");
    folder.change(&["unpack", "--recursive", "--rm", "plain", "-q"]);
    assert_eq!(tree(&folder, "plain"), [plain[0], "plain/notes", plain[1], plain[2]]);
    assert_eq!(folder.read("plain/notes"), b"text");

    // A sparse frame is one file.
    folder.ok(&["-q", "pack", "-r", "--rm", "plain/sub", "--format", "sframe"]);
    let output = slashes(folder.change(&["-v", "pack", "-r", "plain"]));
    assert!(output.contains("plain/sub/a.b2nd: left out: packed already"), "{output}");
    folder.change(&["unpack", "-r", "plain/sub"]);
    assert_eq!(folder.read("plain/sub/a.npy"), items);
}

#[test]
fn folders_with_trouble() {
    let folder = Folder::new();
    let items = npy("<i4", false, "(10,)", &counting(10));
    std::fs::create_dir_all(folder.path("in/empty")).unwrap();
    folder.refuses(&["pack", "-r", "in"], "-r: there are no inputs in in");
    folder.refuses(&["unpack", "-r", "in"], "-r: there are no inputs in in");
    folder.write("in/a.npy", &items);
    folder.write("in/bad.png", b"\x89PNG\r\n\x1a\n");
    let message = slashes(folder.fails(1, &["pack", "-r", "in", "-d", "new"]));
    assert!(
        message.contains("in/bad.png: a PNG image") && message.contains("1 of 2 files failed"),
        "{message}"
    );
    assert_eq!(tree(&folder, "new"), ["new/a.b2nd"]);
    // All operands must exist before anything is written.
    let message = folder.fails(1, &["pack", "-r", "in", "OUT"]);
    assert!(message.starts_with("b2kit: OUT: "), "{message}");
    assert!(!folder.path("in/a.b2nd").exists());
    for args in
        [&["pack", "-r", "in", "-c"][..], &["pack", "-r", "in", "-o", "x"], &["unpack", "-r", "in", "-c"]]
    {
        folder.fails(2, args);
    }
    std::fs::create_dir(folder.path("other")).unwrap();
    folder.write("other/a.npy", &items);
    let message = slashes(folder.fails(2, &["pack", "-r", "in", "other", "-d", "x"]));
    assert!(message.contains("in/a.npy and other/a.npy would both become x/a.b2nd"), "{message}");
    #[cfg(unix)]
    {
        // Links may form a cycle.
        std::os::unix::fs::symlink("..", folder.path("other/up")).unwrap();
        std::os::unix::fs::symlink("a.npy", folder.path("other/link.npy")).unwrap();
        let message = folder.change(&["-v", "pack", "-r", "other"]);
        assert!(
            message.contains("other/up: left out: a link") && message.contains("other/link.npy: left"),
            "{message}"
        );
        assert_eq!(tree(&folder, "other").len(), 4);
    }
}

/// Private data stay private, from input to every kind of output.
#[cfg(unix)]
#[test]
fn new_files_take_the_mode_of_their_inputs() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    let set = |name: &str, mode: u32| {
        fs::set_permissions(folder.path(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    let mode = |name: &str| fs::metadata(folder.path(name)).unwrap().permissions().mode() & 0o777;
    folder.write("in.npy", &npy("<f8", false, "(1000,)", &noise(8000)));
    folder.ok(&["pack", "in.npy", "usual.b2nd"]);
    for rights in [0o600, 0o640] {
        set("in.npy", rights);
        folder.ok(&["pack", "in.npy", "a.b2nd", "--force"]);
        set("a.b2nd", rights);
        folder.ok(&["pack", "in.npy", "s.b2nd", "--format", "sframe"]);
        folder.ok(&["pack", "-d", "many", "in.npy"]);
        folder.ok(&["pack", "--stack", "in.npy", "in.npy", "two.b2nd"]);
        folder.ok(&["copy", "a.b2nd", "copy.b2nd"]);
        folder.change(&["unpack", "a.b2nd", "-o", "out.npy"]);
        folder.ok(&["cat", "a.b2nd", "-o", "out.raw"]);
        folder.ok(&["view", "a.b2nd", "-o", "out.png"]);
        folder.ok(&["salvage", "a.b2nd", "saved.b2nd"]);
        let new = [
            "s.b2nd/chunks.b2frame",
            "many/in.b2nd",
            "two.b2nd",
            "copy.b2nd",
            "out.npy",
            "out.raw",
            "out.png",
            "saved.b2nd",
        ];
        for name in new {
            assert_eq!(mode(name) & !mode("usual.b2nd"), 0, "{name}: more than the umask allows");
            assert_eq!(mode(name), rights & mode("usual.b2nd"), "{name}");
            let path = folder.path(name.split('/').next().unwrap());
            if path.is_dir() { fs::remove_dir_all(path).unwrap() } else { fs::remove_file(path).unwrap() }
        }
    }
    // One of two inputs is private.
    folder.write("open.npy", &npy("<f8", false, "(1000,)", &noise(8000)));
    set("in.npy", 0o600);
    folder.ok(&["pack", "--stack", "open.npy", "in.npy", "two.b2nd"]);
    assert_eq!(mode("two.b2nd"), 0o600);
}

#[test]
fn new_files_keep_the_time_on_request() {
    let folder = Folder::new();
    folder.write("in.npy", &npy("<f8", false, "(1000,)", &noise(8000)));
    let past = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    let time = |name: &str| fs::metadata(folder.path(name)).unwrap().modified().unwrap();
    fs::File::options().write(true).open(folder.path("in.npy")).unwrap().set_modified(past).unwrap();
    folder.ok(&["pack", "in.npy", "a.b2nd", "--keep-time"]);
    folder.ok(&["pack", "-d", "many", "in.npy", "--keep-time"]);
    folder.ok(&["copy", "a.b2nd", "copy.b2nd", "--keep-time"]);
    folder.change(&["unpack", "a.b2nd", "-o", "out.npy", "--keep-time"]);
    for name in ["a.b2nd", "many/in.b2nd", "copy.b2nd", "out.npy"] {
        assert_eq!(time(name), past, "{name}");
    }
    folder.ok(&["pack", "in.npy", "new.b2nd"]);
    assert!(time("new.b2nd") > past);
}

/// `pack *.npy` with two files must not overwrite the second one.
#[test]
fn an_input_is_not_taken_for_the_output() {
    let folder = Folder::new();
    let array = npy("<i4", false, "(100,)", &counting(100));
    for name in ["a.npy", "b.npy", "C.NPY"] {
        folder.write(name, &array);
    }
    for name in ["a.bin", "b.bin"] {
        folder.write(name, &noise(500));
    }
    folder.ok(&["pack", "a.npy"]);
    std::fs::copy(folder.path("a.b2nd"), folder.path("c.b2nd")).unwrap();
    for force in [&[][..], &["--force"]] {
        for (inputs, why) in [
            (["pack", "a.npy", "b.npy"], "several inputs need -d DIR"),
            (["pack", "a.npy", "C.NPY"], "several inputs need -d DIR"),
            (["pack", "a.bin", "b.bin"], "several inputs need -d DIR"),
            (["pack", "a.npy", "new.h5"], ".h5 is the name of another format"),
            (["pack", "a.npy", "-onew.npz"], ".npz is the name of another format"),
            (["copy", "a.b2nd", "b.npy"], ".npy is the name of another format"),
            (["salvage", "a.b2nd", "b.npy"], ".npy is the name of another format"),
            (["unpack", "a.b2nd", "-oc.b2nd"], ".b2nd is the name of Blosc2 files"),
            (["cat", "a.b2nd", "-oc.b2nd"], ".b2nd is the name of Blosc2 files"),
        ] {
            let message = folder.fails(1, &[&inputs[..], force].concat());
            assert!(message.contains(why), "{message}");
            assert!(!message.contains("--force overwrites"), "{message}");
        }
    }
    assert_eq!(folder.read("b.npy"), array);
    assert_eq!(folder.read("C.NPY"), array);
    assert_eq!(folder.read("a.b2nd"), folder.read("c.b2nd"));
    assert_eq!(folder.read("b.bin"), noise(500));
    folder.ok(&["pack", "a.bin", "-o", "b.bin", "--force"]);
    // Now it is Blosc2, and may be replaced.
    folder.ok(&["pack", "a.bin", "b.bin", "--force"]);
    assert_eq!(folder.ok(&["cat", "b.bin"]), noise(500));
}
