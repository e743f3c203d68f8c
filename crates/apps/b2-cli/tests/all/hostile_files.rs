//! Files, directories and stores that try to make the command hang, follow links, or read files outside.
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::common::{Folder, counting, noise, npy};
use serde_json::json;

/// Much longer than any of these takes.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Runs to the end, and fails if that takes too long.
fn run(folder: &Folder, args: &[&str]) -> Output {
    let mut command = folder.command(args);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > TIMEOUT {
            child.kill().unwrap();
            panic!("{args:?} hangs");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().unwrap()
}

/// Runs a command that must end with exit code 1 and a message with these words.
#[track_caller]
fn refused(folder: &Folder, args: &[&str], words: &str) {
    let output = run(folder, args);
    let message = [&output.stdout[..], &output.stderr].concat();
    let message = String::from_utf8_lossy(&message);
    assert_eq!(output.status.code(), Some(1), "{args:?}: {message}");
    assert!(message.contains(words), "{args:?}: {message}");
}

/// Creates something at a path.
type Make = Box<dyn Fn(&Path)>;

/// Returns everything that is not a regular file.
fn specials(folder: &Folder) -> Vec<(&'static str, Make)> {
    let outside = folder.path("outside");
    vec![
        ("FIFO", Box::new(|path| assert!(Command::new("mkfifo").arg(path).status().unwrap().success()))),
        ("socket", Box::new(|path| drop(UnixListener::bind(path).unwrap()))),
        ("device", Box::new(|path| symlink("/dev/zero", path).unwrap())),
        ("directory", Box::new(|path| fs::create_dir(path).unwrap())),
        ("link to itself", Box::new(|path| symlink(path.file_name().unwrap(), path).unwrap())),
        ("link to outside", Box::new(move |path| symlink(&outside, path).unwrap())),
    ]
}

#[test]
fn only_regular_files_and_directories_are_opened() {
    let folder = Folder::new();
    folder.write("list", b"special\n");
    for (what, make) in specials(&folder) {
        make(&folder.path("special"));
        for args in [
            &["info", "special"][..],
            &["info", "--json", "special"],
            &["cat", "special"],
            &["view", "special"],
            &["view", "special", "-o", "out", "--format", "svg"],
            &["cat", "special", "--offset", "0"],
            &["verify", "special"],
            &["verify", "--files-from", "list"],
            &["ls", "special"],
            &["items", "special"],
            &["salvage", "special", "out"],
            &["copy", "special", "out"],
            &["vlmeta", "get", "special", "a"],
            &["vlmeta", "set", "special", "a", "1"],
            &["checksum", "add", "special"],
            &["compact", "special"],
        ] {
            let output = run(&folder, args);
            assert_eq!(output.status.code(), Some(1), "{what}: {args:?}");
            assert!(!folder.path("out").exists(), "{what}: {args:?}");
        }
        let special = folder.path("special");
        if special.symlink_metadata().unwrap().is_dir() {
            fs::remove_dir(special).unwrap();
        } else {
            fs::remove_file(special).unwrap();
        }
    }
}

#[test]
fn members_of_sparse_frames_are_regular_files() {
    let folder = Folder::new();
    folder.pack("good", &counting(3000), &["--format", "sframe", "--chunksize", "4000", "--typesize", "4"]);
    fs::copy(folder.path("good/00000001.chunk"), folder.path("outside")).unwrap();
    for member in ["00000001.chunk", "chunks.b2frame"] {
        for (what, make) in specials(&folder) {
            let name = format!("{what}-{member}");
            folder.ok(&["copy", "good", &name, "--format", "sframe"]);
            if what == "link to outside" && member == "chunks.b2frame" {
                fs::copy(folder.path("good/chunks.b2frame"), folder.path("outside")).unwrap();
            }
            fs::remove_file(folder.path(&name).join(member)).unwrap();
            make(&folder.path(&name).join(member));
            for command in ["verify", "cat", "info", "view"] {
                // For a member that cannot even be queried, the message is that of the system.
                let words = if what == "link to itself" { member } else { "not a regular file" };
                if what == "link to itself" && member == "chunks.b2frame" {
                    assert_eq!(run(&folder, &[command, &name]).status.code(), Some(1));
                } else {
                    refused(&folder, &[command, &name], words);
                }
            }
        }
    }
    // The directory itself may be a link, because the user named it.
    symlink("good", folder.path("link")).unwrap();
    assert_eq!(folder.ok(&["cat", "link"]), counting(3000));
}

#[test]
fn a_lock_that_is_no_regular_file_is_not_followed() {
    let folder = Folder::new();
    let victim = noise(100);
    folder.write("outside", &victim);
    for (what, make) in specials(&folder) {
        folder.pack("frame", b"data", &["--format", "sframe"]);
        make(&folder.path("frame/.b2lock"));
        assert_eq!(run(&folder, &["cat", "frame"]).stdout, b"data", "{what}");
        refused(&folder, &["vlmeta", "set", "frame", "a", "1"], ".b2lock");
        assert_eq!(folder.read("outside"), victim, "{what}");
        fs::remove_dir_all(folder.path("frame")).unwrap();
        folder.pack("frame", b"data", &[]);
        make(&folder.path("frame.b2lock"));
        refused(&folder, &["vlmeta", "set", "frame", "a", "1"], "frame.b2lock");
        assert_eq!(folder.read("outside"), victim, "{what}");
        let lock = folder.path("frame.b2lock");
        if lock.symlink_metadata().unwrap().is_dir() { fs::remove_dir(lock) } else { fs::remove_file(lock) }
            .unwrap();
        fs::remove_file(folder.path("frame")).unwrap();
    }
}

/// One member of an archive: its name, its bytes, and its length as the archive states it.
struct Member<'a>(&'a str, &'a [u8], u32);

/// Returns a zip archive of stored members.
fn zip(members: &[Member<'_>]) -> Vec<u8> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    for Member(name, data, len) in members {
        let at = out.len() as u32;
        let fixed = [[0; 8].as_slice(), &[0; 4], &len.to_le_bytes(), &len.to_le_bytes()].concat();
        let name_len = (name.len() as u16).to_le_bytes();
        out.extend([b"PK\x03\x04\x14\0", &fixed[..], &name_len, &[0; 2], name.as_bytes(), data].concat());
        directory
            .extend([b"PK\x01\x02\x14\0\x14\0", &fixed[..], &name_len, &[0; 12], &at.to_le_bytes()].concat());
        directory.extend(name.as_bytes());
    }
    let n = (members.len() as u16).to_le_bytes();
    let (at, len) = (out.len() as u32, directory.len() as u32);
    let end = [b"PK\x05\x06\0\0\0\0", &n[..], &n, &len.to_le_bytes(), &at.to_le_bytes(), &[0; 2]].concat();
    [out, directory, end].concat()
}

#[test]
fn members_of_archives_stay_inside() {
    let folder = Folder::new();
    folder.pack("a", &npy("<i4", false, "(60,)", &counting(60)), &[]);
    let a = folder.read("a");
    let len = a.len() as u32;
    let zipped = |name: &str, members: &[Member<'_>]| drop(folder.write(name, &zip(members)));
    // If two have the same name, the last one counts, as in Python.
    folder.pack("b", b"second", &[]);
    let b = folder.read("b");
    zipped("twice", &[Member("x.b2nd", &a, len), Member("x.b2nd", &b, b.len() as u32)]);
    assert_eq!(folder.ok(&["ls", "twice"]), b"/x\n");
    assert_eq!(folder.ok(&["cat", "twice", "--key", "/x"]), b"second");
    // The archive states a shorter length than the frame, which would then extend into the next member.
    zipped("short", &[Member("x.b2nd", &a, len - 1), Member("y.b2nd", &a, len)]);
    let short = folder.read("short");
    refused(&folder, &["cat", "short", "--key", "/x"], "its slot in the archive");
    assert_eq!(run(&folder, &["cat", "short", "--key", "/y"]).status.code(), Some(0));
    // Members beyond the end of the archive, or overlapping others.
    for (at, value) in [(18u32, u32::MAX), (22, u32::MAX), (26, 0xFFFF), (14, u32::MAX)] {
        let mut odd = short.clone();
        odd[at as usize..][..4].copy_from_slice(&value.to_le_bytes());
        folder.write("odd", &odd);
        for args in
            [&["ls", "odd"][..], &["info", "odd"], &["info", "--tree", "odd"], &["cat", "odd", "--key", "/x"]]
        {
            assert!(matches!(run(&folder, args).status.code(), Some(0 | 1)), "{args:?}, byte {at}");
        }
    }
    // Change every byte of the directory and the end.
    let whole = zip(&[Member("x.b2nd", &a, len), Member("g/y.b2nd", &b, b.len() as u32)]);
    let start = a.len() + b.len() + 2 * 30 + 6 + 8;
    for at in (start..whole.len()).step_by(3) {
        for value in [0, 0xFF, whole[at] ^ 1] {
            let mut odd = whole.clone();
            odd[at] = value;
            folder.write("odd", &odd);
            let output = run(&folder, &["ls", "odd"]);
            assert!(matches!(output.status.code(), Some(0 | 1)), "byte {at} is {value}");
            let keys = String::from_utf8(output.stdout).unwrap();
            assert!(keys.lines().all(|key| key.starts_with('/') && !key.contains("..")), "{keys}");
        }
    }
}

#[test]
fn members_of_directories_stay_inside() {
    let folder = Folder::new();
    folder.pack("outside", b"outside", &[]);
    fs::create_dir_all(folder.path("store/inner")).unwrap();
    for (i, (_, make)) in specials(&folder).into_iter().enumerate() {
        make(&folder.path("store").join(format!("s{i}.b2nd")));
        make(&folder.path("store/inner").join(format!("t{i}.b2f")));
    }
    assert_eq!(run(&folder, &["ls", "store"]).stdout, b"");
    folder.pack("store/x.b2nd", b"first", &[]);
    folder.pack("store/x.b2f", b"other", &[]);
    assert_eq!(run(&folder, &["ls", "store"]).stdout, b"/x\n");
    // The order of the directory does not matter.
    assert_eq!(run(&folder, &["cat", "store", "--key", "/x"]).stdout, b"other");
    for key in ["/../outside", "../outside", "/x/../../outside", "/s5", "/inner/t5", "/etc/passwd", ""] {
        refused(&folder, &["cat", "store", "--key", key], "there is no such key");
    }
    // Special files in place of the file that holds the small members.
    for (what, make) in specials(&folder) {
        fs::create_dir(folder.path("odd")).unwrap();
        make(&folder.path("odd/embed.b2e"));
        let output = run(&folder, &["ls", "odd"]);
        assert!(matches!(output.status.code(), Some(0 | 1)) && output.stdout.is_empty(), "{what}");
        fs::remove_dir_all(folder.path("odd")).unwrap();
    }
    // Nested deeper than any real store.
    let mut deep = folder.path("deep");
    fs::create_dir(&deep).unwrap();
    folder.pack("deep/x.b2nd", b"x", &[]);
    for _ in 0..100 {
        deep.push("d");
        fs::create_dir(&deep).unwrap();
    }
    refused(&folder, &["ls", "deep"], "nested more than 64 deep");
}

#[test]
fn embedded_members_stay_inside_their_frame() {
    let folder = Folder::new();
    folder.pack("s", b"hello", &[]);
    let plain = [folder.read("s"), noise(50)].concat();
    let len = folder.read("s").len();
    let store = |name: &str, map: serde_json::Value| {
        let layer = format!("estore_metadata={}", json!({"embed_map": map}));
        folder.pack(name, &plain, &["--meta", "b2embed={\"version\":1}", "--vlmeta", &layer]);
    };
    store("good", json!({"/s": {"offset": 0, "length": len}, "/../s": {"offset": 0, "length": len}}));
    assert_eq!(folder.ok(&["cat", "good", "--key", "/s"]), b"hello");
    // A key is a name, not a path.
    assert_eq!(folder.ok(&["cat", "good", "--key", "/../s"]), b"hello");
    // Members that are shorter than the frame states, and that are not frames.
    store("short", json!({"/s": {"offset": 0, "length": len - 1}, "/n": {"offset": len, "length": 50}}));
    refused(&folder, &["cat", "short", "--key", "/s"], "truncated");
    refused(&folder, &["cat", "short", "--key", "/n"], "key /n");
    for (name, entry) in [
        ("o1", json!({"offset": plain.len(), "length": 1})),
        ("o2", json!({"offset": u64::MAX, "length": 1})),
        ("o3", json!({"offset": 0, "length": u64::MAX})),
        ("o4", json!({"offset": -1, "length": 1})),
        ("o5", json!({"offset": "0", "length": 1})),
        ("o6", json!([])),
    ] {
        store(name, json!({"/s": entry}));
        refused(&folder, &["ls", name], "estore_metadata");
    }
}
