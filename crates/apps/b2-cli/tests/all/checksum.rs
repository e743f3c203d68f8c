//! Checksums on the command line: verify, info, checksum add and remove, --no-checksums.

use std::fs;

use crate::common::{Folder, counting, npy};
use serde_json::json;

fn verdict(folder: &Folder, name: &str) -> String {
    let output = folder.run(&["verify", name]);
    let text = String::from_utf8(output.stdout).unwrap();
    let verdict = text.split('\t').next().unwrap().to_owned();
    assert_eq!(output.status.code(), Some(i32::from(verdict == "FAIL")), "{text}");
    verdict
}

fn packed(folder: &Folder, name: &str, options: &[&str]) -> Vec<u8> {
    let raw = counting(60_000);
    let layout = ["--chunks", "50,60", "--blocks", "25,20", "--meta", "unit=\"K\"", "--vlmeta", "v=1"];
    folder.pack(name, &npy("<i4", false, "(200, 300)", &raw), &[&layout, options].concat());
    raw
}

#[test]
fn files_have_them_unless_told_otherwise() {
    let folder = Folder::new();
    for format in ["cframe", "sframe"] {
        let raw = packed(&folder, "with", &["--format", format]);
        assert_eq!(folder.info(&["with"])["checksums"], "ok");
        assert!(folder.ok_text(&["info", "with"]).contains("checksums"));
        packed(&folder, "without", &["--format", format, "--no-checksums"]);
        assert_eq!(folder.info(&["without"])["checksums"], "none");
        for name in ["with", "without"] {
            assert_eq!(verdict(&folder, name), "ok");
            assert_eq!(folder.ok(&["cat", name]), raw);
        }
        for (from, to, options, expected) in
            [("with", "a", vec!["--no-checksums"], "none"), ("without", "b", vec![], "ok")]
        {
            folder.ok(&[&["copy", from, to, "--force"], &options[..]].concat());
            assert_eq!(folder.info(&[to])["checksums"], expected);
        }
        for name in ["with", "without", "a", "b"] {
            let path = folder.path(name);
            if path.is_dir() { fs::remove_dir_all(path).unwrap() } else { fs::remove_file(path).unwrap() }
        }
    }
    folder.pack("chunk", &counting(100), &["--format", "chunk"]);
    assert_eq!(folder.info(&["chunk"])["checksums"], json!(null));
}

#[test]
fn damage_is_named_and_can_be_looked_behind() {
    let folder = Folder::new();
    packed(&folder, "f", &["--codec", "lz4", "--clevel", "0"]);
    let mut bad = folder.read("f");
    let at = bad.len() / 2;
    bad[at] ^= 1;
    folder.write("f", &bad);
    assert_eq!(verdict(&folder, "f"), "FAIL");
    let output = folder.run(&["verify", "f"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("chunk 1") && text.contains("checksum"), "{text}");
    assert_eq!(folder.ok(&["cat", "f", "--no-checksums"]).len(), 240_000);
    let message = folder.fails(1, &["checksum", "add", "f"]);
    assert!(message.contains("damaged: "), "{message}");
    assert!(folder.change(&["checksum", "remove", "f"]).contains("checksums removed"));
    assert_eq!(verdict(&folder, "f"), "ok");
    assert!(folder.change(&["checksum", "remove", "f"]).contains("no checksums; nothing written"));
}

#[test]
fn changes_keep_them_and_foreign_changes_are_told() {
    let folder = Folder::new();
    packed(&folder, "f", &[]);
    folder.change(&["resize", "f", "--shape", "300,300"]);
    folder.change(&["vlmeta", "set", "f", "w", "[1, 2]"]);
    folder.change(&["compact", "f"]);
    assert_eq!((verdict(&folder, "f").as_str(), &folder.info(&["f"])["checksums"]), ("ok", &json!("ok")));
    assert!(folder.change(&["checksum", "add", "f"]).contains("the checksums are right; nothing written"));

    // Change the thread counts, as C-Blosc2 does without knowing about checksums.
    let mut changed = folder.read("f");
    changed[64] ^= 3;
    folder.write("f", &changed);
    assert_eq!(
        (verdict(&folder, "f").as_str(), &folder.info(&["f"])["checksums"]),
        ("changed", &json!("changed"))
    );
    // A reader is warned, once.
    let output = folder.run(&["cat", "f", "--slice", "0,0", "--csv"]);
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && message.matches("another program has changed it").count() == 1,
        "{message}"
    );
    let plan = |action: &str| folder.ok_text(&["checksum", action, "--dry-run", "-q", "f"]);
    let before = folder.read("f");
    assert_eq!(plan("add"), "f: checksums would be renewed\n");
    assert_eq!(plan("remove"), "f: checksums would be removed\n");
    assert_eq!(folder.read("f"), before);
    assert!(folder.change(&["checksum", "add", "f"]).contains("checksums renewed"));
    assert_eq!(plan("add"), "f: the checksums are right\n");
    assert_eq!(verdict(&folder, "f"), "ok");
    assert_eq!(folder.info(&["f"])["checksums"], "ok");

    folder.change(&["resize", "f", "--shape", "310,300", "--no-checksums"]);
    assert_eq!(folder.info(&["f"])["checksums"], "none");
    assert_eq!(
        (plan("add"), plan("remove")),
        ("f: checksums would be added\n".into(), "f: no checksums\n".into())
    );
    assert!(folder.change(&["checksum", "add", "f"]).contains("checksums added"));
    assert_eq!(folder.info(&["f"])["checksums"], "ok");
}
