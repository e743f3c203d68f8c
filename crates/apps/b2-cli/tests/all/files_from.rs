//! Names of files in a list: `--files-from`, also with NUL between them.

use crate::common::{Folder, counting, npy};

/// A name that only a list with NUL can hold, and its printed form. Windows allows no line feed in names.
const ODD: [&str; 2] = if cfg!(windows) { ["line end", "line end"] } else { ["line\nend", "line\\nend"] };

#[test]
fn commands_take_names_from_lists() {
    let folder = Folder::new();
    let raw = counting(100);
    let items = npy("<i4", false, "(10, 10)", &raw);
    folder.write("lines", b"a b\nc\n\n");
    let [odd, printed] = ODD;
    folder.write("nulls", format!("a b\0c\0\0{odd}").as_bytes());
    let lines = ["--files-from", "lines"];
    let nulls = ["-0", "--files-from", "nulls"];
    for name in ["a b", "c", odd, "d"] {
        folder.pack(name, &items, &[]);
    }
    let verified = |args: &[&str], n: usize| {
        let text = folder.ok_text(&[&["verify"], args].concat());
        assert_eq!(text.lines().filter(|line| line.starts_with("ok\t400\t")).count(), n, "{text}");
        text
    };
    verified(&lines, 2);
    assert!(verified(&nulls, 3).contains(&format!("\t{printed}\n")));
    verified(&["--null", "--files-from=nulls", "d"], 4);
    let output =
        folder.with_input(&["-q", "verify", "-0", "--files-from", "-"], format!("a b\0{odd}\0").as_bytes());
    assert_eq!(output.status.code(), Some(0));

    let text = folder.ok_text(&[&["info", "d"][..], &nulls].concat());
    assert_eq!(text.lines().count(), 4, "{text}");
    assert!(
        text.starts_with("d: array (10, 10)") && text.contains(&format!("\n{printed}: array (10, 10)")),
        "{text}"
    );
    // Even a single name gets a line.
    folder.write("one", b"c");
    assert!(folder.ok_text(&["info", "--files-from", "one"]).starts_with("c: array (10, 10)"));
    assert_eq!(folder.ok_text(&["info", "--json", "--files-from", "one"]).lines().count(), 1);

    for (command, message) in [
        (&["checksum", "remove"][..], ": checksums removed"),
        (&["checksum", "add"], ": checksums added"),
        (&["compact"], ": "),
    ] {
        let text = folder.change(&[command, &nulls].concat());
        assert_eq!(text.matches(message).count(), 3, "{command:?}: {text}");
    }
    for command in [&["info"][..], &["compact"], &["checksum", "add"], &["pack"], &["unpack"], &["verify"]] {
        folder.fails(2, &[command, &["-0", "c"]].concat());
        folder.fails(2, command);
        let message = folder.fails(1, &[command, &["--files-from", "none"]].concat());
        assert!(message.starts_with("b2kit: none: "), "{message}");
    }
}

#[test]
fn pack_and_unpack_take_names_from_lists() {
    let folder = Folder::new();
    let items = npy("<i4", false, "(10, 10)", &counting(100));
    std::fs::create_dir(folder.path("in")).unwrap();
    let odd = ODD[0];
    for name in ["a b", odd] {
        folder.write(&format!("in/{name}.npy"), &items);
    }
    folder.write("list", format!("in/a b.npy\0in/missing.npy\0in/{odd}.npy\0").as_bytes());
    let list = ["-0", "--files-from", "list"];
    // The others are packed, next to their inputs or in a folder.
    for to in [&[][..], &["-d", "new"]] {
        let message = folder.fails(1, &[&["pack"][..], &list, to].concat());
        assert!(
            message.contains("b2kit: in/missing.npy: ") && message.contains("1 of 3 files failed"),
            "{message}"
        );
    }
    for (to, name) in [("in", "a b"), ("in", odd), ("new", "a b"), ("new", odd)] {
        assert_eq!(folder.info(&[&format!("{to}/{name}.b2nd")])["shape"], serde_json::json!([10, 10]));
    }
    folder.write("packed", b"new/a b.b2nd\nnew/line");
    assert!(folder.fails(1, &["unpack", "--files-from", "packed"]).contains("1 of 2 files failed"));
    assert_eq!(folder.read("new/a b.npy"), items);
    folder.write("folders", b"in\0");
    folder.change(&["pack", "-q", "-r", "-0", "--files-from", "folders", "-d", "again"]);
    assert_eq!(folder.ok(&["cat", &format!("again/{odd}.b2nd")]), counting(100));
    for args in [&["pack", "-c", "--files-from", "list"][..], &["unpack", "-o", "x", "--files-from", "list"]]
    {
        folder.fails(2, args);
    }
}
