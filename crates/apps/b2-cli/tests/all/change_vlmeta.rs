//! `b2kit vlmeta`: changes metalayers of variable size in place.

use crate::common::{FORMATS, Folder, counting, npy};
use serde_json::json;

/// Names and values from files cannot control a terminal, even as JSON, and are unchanged when the JSON is parsed.
#[test]
fn what_is_printed_is_only_seen() {
    let folder = Folder::new();
    let odd = "a\u{9b}\u{7f}\u{202e}\u{200b}\u{feff}b";
    let value = serde_json::Value::from(odd).to_string();
    folder.pack("f", &counting(30), &["--format", "cframe", "--vlmeta", "unit=\"K\""]);
    folder.ok(&["vlmeta", "set", "-q", "f", odd, &value]);
    let commands: [&[&str]; 5] = [
        &["vlmeta", "list", "f"],
        &["vlmeta", "list", "f", "--json"],
        &["vlmeta", "get", "f", odd],
        &["info", "f", "--json"],
        &["info", "f", "--meta"],
    ];
    for args in commands {
        let text = folder.ok_text(args);
        assert!(!text.chars().any(|c| odd[1..odd.len() - 1].contains(c)), "{args:?}: {text:?}");
        assert!(text.contains("202e"), "{args:?}: {text:?}");
    }
    let json: serde_json::Value = serde_json::from_str(&folder.ok_text(commands[1])).unwrap();
    assert_eq!(json[odd], odd);
    assert_eq!(folder.info(&["f"])["vlmetalayers"][odd], odd);
}

#[test]
fn set_get_del() {
    for (format, array) in FORMATS.into_iter().flat_map(|format| [(format, true), (format, false)]) {
        let folder = Folder::new();
        let raw = counting(30);
        let data = if array { npy("<i4", false, "(5, 6)", &raw) } else { raw.clone() };
        folder.pack("f", &data, &["--format", format, "--meta", "m=1", "--vlmeta", "unit=\"K\""]);
        let output = folder.change(&["vlmeta", "set", "f", "range", "[-90, 1.5, {\"$float\": \"nan\"}]"]);
        assert!(
            output.starts_with("f: vlmetalayer \"range\" added; ") && output.ends_with(" written\n"),
            "{output}"
        );
        let output = folder.change(&["vlmeta", "set", "f", "unit", "-5"]);
        assert!(output.starts_with("f: vlmetalayer \"unit\" replaced; "), "{output}");
        assert_eq!(folder.ok_text(&["vlmeta", "get", "f", "range"]), "[-90,1.5,{\"$float\":\"nan\"}]\n");
        assert_eq!(folder.ok_text(&["vlmeta", "get", "f", "unit"]), "-5\n");
        let output = folder.change(&["vlmeta", "del", "f", "unit"]);
        assert!(output.starts_with("f: vlmetalayer \"unit\" removed; "), "{output}");
        assert_eq!(
            folder.change(&[
                "vlmeta",
                "set",
                "-q",
                "--no-sync",
                "--no-lock",
                "f",
                "é",
                "{\"$raw\":\"AQI=\"}"
            ]),
            ""
        );
        let info = folder.info(&["f"]);
        assert_eq!(
            info["vlmetalayers"],
            json!({"range": [-90, 1.5, {"$float": "nan"}], "é": {"$raw": "AQI="}})
        );
        assert_eq!(info["metalayers"]["m"], 1);
        assert_eq!(folder.ok(&["cat", "f"]), raw);
        folder.refuses(&["vlmeta", "get", "f", "unit"], "f: no vlmetalayer \"unit\"");
        folder.refuses(&["vlmeta", "del", "f", "unit"], "f: no vlmetalayer \"unit\"");
    }
}

#[test]
fn no_more_than_c_can_take() {
    let folder = Folder::new();
    folder.fixture("s", "c-blosc2/3.3.5/frame/vlmeta-16.b2frame");
    let (before, data) = (folder.info(&["s"]), folder.ok(&["cat", "s"]));
    let bytes = folder.read("s");
    let message = folder.fails(1, &["vlmeta", "set", "s", "another", "1"]);
    assert!(message.contains("more than 16"), "{message}");
    assert_eq!(folder.read("s"), bytes);
    folder.change(&["vlmeta", "set", "-q", "s", "layer3", "3"]);
    folder.change(&["vlmeta", "set", "-q", "s", "another", "1", "--many"]);
    let after = folder.info(&["s"])["vlmetalayers"].clone();
    let mut expected = before["vlmetalayers"].clone();
    expected["layer3"] = json!(3);
    expected["another"] = json!(1);
    assert_eq!(after, expected);
    folder.change(&["vlmeta", "del", "-q", "s", "another"]);
    assert_eq!(folder.ok(&["cat", "s"]), data);
}

#[test]
fn files_of_c() {
    for path in [
        "frame/plain-contiguous.b2frame",
        "frame/plain-sparse.b2frame",
        "frame/empty.b2frame",
        "frame/emptied-sparse.b2frame",
        "array/2d.b2nd",
        "array/3d-sparse.b2nd",
        "array/vlmeta.b2nd",
    ] {
        let folder = Folder::new();
        folder.fixture("f", &format!("c-blosc2/3.3.5/{path}"));
        let (mut expected, data) = (folder.info(&["f"])["vlmetalayers"].clone(), folder.ok(&["cat", "f"]));
        folder.change(&["vlmeta", "set", "-q", "f", "new", "{\"k\": [1, 2]}"]);
        expected["new"] = json!({"k": [1, 2]});
        assert_eq!(folder.info(&["f"])["vlmetalayers"], expected, "{path}");
        folder.change(&["vlmeta", "del", "-q", "f", "new"]);
        expected.as_object_mut().unwrap().remove("new");
        assert_eq!(folder.info(&["f"])["vlmetalayers"], expected, "{path}");
        assert_eq!(folder.ok(&["cat", "f"]), data, "{path}");
    }
}

#[test]
fn wrong_requests() {
    let folder = Folder::new();
    folder.pack("s", &counting(30), &[]);
    folder.pack("c", &counting(30), &["--format", "chunk"]);
    let before = folder.read("s");
    folder.refuses(&["vlmeta", "get", "c", "x"], "c: a bare chunk has no vlmetalayers");
    folder.refuses(&["vlmeta", "set", "c", "x", "1"], "c: not a frame: only frames can be changed");
    folder.refuses(&["vlmeta", "del", "c", "x"], "c: not a frame: only frames can be changed");
    folder.refuses(&["vlmeta", "get", "none", "x"], "none: No such file or directory (os error 2)");
    let message = folder.fails(1, &["vlmeta", "set", "s", "x", "[nope"]);
    assert!(
        message.starts_with("b2kit: vlmetalayer \"x\": [nope (as a string: '\"[nope\"'): not JSON: "),
        "{message}"
    );
    let long = "n".repeat(32);
    for name in ["", &long] {
        let message = folder.fails(1, &["vlmeta", "set", "s", name, "1"]);
        assert!(message.starts_with("b2kit: s: "), "{message}");
    }
    for args in [&["vlmeta"][..], &["vlmeta", "set", "s", "x"], &["vlmeta", "get", "s"]] {
        folder.fails(2, args);
    }
    assert_eq!(before, folder.read("s"));
}
