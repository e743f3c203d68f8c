//! Options and commands that users know from gzip, zstd and tar.

use serde_json::{Value, json};

use crate::common::{Folder, counting, npy};

#[test]
fn unpack_writes_npy_files_and_raw_bytes() {
    let folder = Folder::new();
    let raw = counting(1000);
    folder.pack("a.b2nd", &npy("<i4", false, "(20, 50)", &raw), &[]);
    folder.pack("log.b2frame", &raw, &["--typesize", "4"]);
    folder.pack("other", &raw, &["--format", "sframe"]);
    for word in ["unpack", "decompress"] {
        let text = folder.change(&[word, "a.b2nd", "--force"]);
        assert_eq!(text, "a.b2nd -> a.npy  3.91 KiB\n");
        assert_eq!(folder.read("a.npy"), folder.ok(&["cat", "a.b2nd", "--npy"]));
    }
    folder.change(&["unpack", "log.b2frame", "other"]);
    assert_eq!(folder.read("log"), raw);
    assert_eq!(folder.read("other.raw"), raw);
    // Nothing is replaced, and the other files are processed.
    let output = folder.run(&["-q", "unpack", "a.b2nd", "log.b2frame"]);
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("b2kit: a.npy: ") && message.contains("b2kit: log: "), "{message}");
    assert!(message.contains("--force"), "{message}");

    assert_eq!(folder.ok(&["unpack", "a.b2nd", "-o", "-"]), folder.read("a.npy"));
    let output = folder.with_input(&["unpack", "-", "-o", "b.npy"], &folder.read("a.b2nd"));
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(folder.read("b.npy"), folder.read("a.npy"));
    folder.change(&["unpack", "-d", "plain", "a.b2nd", "log.b2frame"]);
    assert_eq!((folder.read("plain/a.npy"), folder.read("plain/log")), (folder.read("a.npy"), raw));
    folder.fails(2, &["unpack", "-"]);
    folder.fails(2, &["unpack", "a.b2nd", "log.b2frame", "-o", "x"]);
}

#[test]
fn levels_as_gzip_has_them() {
    let folder = Folder::new();
    folder.write("in", &counting(1000));
    for (flag, level) in [("-1", 1), ("-5", 5), ("-9", 9), ("--fast", 1), ("--best", 9), ("--clevel=0", 0)] {
        for word in ["pack", "compress"] {
            let out = format!("{word}{flag}");
            folder.ok(&["-q", word, flag, "in", &out]);
            assert_eq!(folder.info(&[&out])["clevel"], level, "{word} {flag}");
        }
    }
    folder.ok(&["-q", "copy", "pack-1", "copied", "-3"]);
    assert_eq!(folder.info(&["copied"])["clevel"], 3);
    // A number that belongs to an option is not such a word.
    folder.ok(&["-q", "pack", "in", "meta", "--codec-meta", "-9", "-2"]);
    let info = folder.info(&["meta"]);
    assert_eq!((&info["clevel"], &info["codec_meta"]), (&json!(2), &json!(247)));
    folder.fails(2, &["pack", "-1", "-9", "in", "x"]);
    folder.fails(2, &["pack", "-9", "--clevel", "3", "in", "x"]);
}

#[test]
fn list_is_for_stores_and_says_what_to_use_instead() {
    let folder = Folder::new();
    folder.pack("s", &counting(10), &[]);
    folder.refuses(&["list", "s"], "s: not a store: it has no members (b2kit info shows what it is)");
    assert_eq!(folder.ok_text(&["list", "--help"]), folder.ok_text(&["ls", "--help"]));
}

#[test]
fn vlmetalayers_take_plain_words_and_are_listed() {
    let folder = Folder::new();
    folder.pack("s", &counting(10), &[]);
    let output = folder.change(&["vlmeta", "set", "s", "unit", "K"]);
    assert!(output.contains("vlmetalayer \"unit\" added, as the string \"K\" (it is not JSON)"), "{output}");
    assert!(!folder.change(&["vlmeta", "set", "s", "range", "[-90, 90]"]).contains("string"));
    assert!(!folder.change(&["vlmeta", "set", "s", "flag", "true"]).contains("string"));
    folder.change(&["vlmeta", "set", "s", "name", "°C at 2 m"]);
    let lines = "unit\t\"K\"\nrange\t[-90,90]\nflag\ttrue\nname\t\"°C at 2 m\"\n";
    assert_eq!(folder.ok_text(&["vlmeta", "list", "s"]), lines);
    let object: Value = serde_json::from_slice(&folder.ok(&["vlmeta", "list", "s", "--json"])).unwrap();
    assert_eq!(object, folder.info(&["s"])["vlmetalayers"]);
    // A malformed list or number is an error, not a word.
    for broken in ["[1,", "{\"a\"", "\"abc", "1,5", "-", "2026-11-22", ""] {
        let message = folder.fails(1, &["vlmeta", "set", "s", "x", broken]);
        assert!(message.contains("(as a string: '"), "{message}");
    }
    folder.pack("empty", &counting(10), &[]);
    assert_eq!(folder.ok_text(&["vlmeta", "list", "empty"]), "");
    assert_eq!(folder.ok_text(&["vlmeta", "list", "empty", "--json"]), "{}\n");
    folder.pack("c", &counting(10), &["--format", "chunk"]);
    folder.refuses(&["vlmeta", "list", "c"], "c: a bare chunk has no vlmetalayers");
}
