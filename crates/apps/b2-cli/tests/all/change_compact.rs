//! `b2kit compact`, and what `info` reports about holes.

use crate::common::{Folder, counting, noise, npy};
use serde_json::json;

#[test]
fn holes_are_told_and_removed() {
    let folder = Folder::new();
    let raw = noise(40_000);
    folder.pack("s", &raw, &["--chunksize", "10000", "--meta", "m=1", "--vlmeta", "v=2"]);
    assert_eq!(folder.info(&["s"])["dead"], 0);
    assert!(folder.ok_text(&["info", "s"]).contains("  dead space      none\n"));
    assert_eq!(folder.change(&["compact", "s"]), "s: no holes; nothing written\n");
    let clean = folder.read("s").len();

    folder.write("new", &raw[..10_000]);
    folder.change(&["chunk", "update", "-q", "s", "2", "new"]);
    folder.change(&["chunk", "delete", "-q", "s", "3"]);
    let info = folder.info(&["s"]);
    let dead = info["dead"].as_u64().unwrap();
    assert!((20_000..22_000).contains(&dead), "{dead}");
    assert!(folder.ok_text(&["info", "s"]).contains(&format!(" ({dead} bytes)\n")));
    let expected = [&raw[..20_000], &raw[..10_000]].concat();
    assert_eq!(folder.ok(&["cat", "s"]), expected);

    let before = folder.read("s");
    let output = folder.ok_text(&["compact", "--dry-run", "s"]);
    assert!(output.starts_with("s: ") && output.ends_with(" KiB would be freed\n"), "{output}");
    assert!(folder.fails(1, &["compact", "--dry-run", "new"]).starts_with("b2kit: new: "));
    assert_eq!(folder.read("s"), before);

    let output = folder.change(&["compact", "s"]);
    assert!(output.starts_with("s: ") && output.contains(" KiB freed, "), "{output}");
    assert!(folder.read("s").len() < clean - 9_000);
    let after = folder.info(&["s"]);
    assert_eq!(after["dead"], 0);
    for key in ["nchunks", "chunksize", "nbytes", "metalayers", "vlmetalayers"] {
        assert_eq!(info[key], after[key], "{key}");
    }
    assert_eq!(folder.ok(&["cat", "s"]), expected);
    assert_eq!(folder.names(), ["new", "s", "s.b2lock"], "no temporary file is left");

    // The checksums that are dropped leave no hole.
    folder.change(&["compact", "-q", "--no-checksums", "s"]);
    let after = folder.info(&["s"]);
    assert_eq!((&after["dead"], &after["checksums"]), (&json!(0), &json!("none")));
    assert_eq!(folder.ok(&["cat", "s"]), expected);
}

#[test]
fn arrays_and_directories() {
    for format in ["cframe", "sframe"] {
        let folder = Folder::new();
        folder.pack(
            "a",
            &npy("<i4", false, "(50, 6)", &counting(300)),
            &["--format", format, "--chunks", "10,6"],
        );
        folder.change(&["resize", "-q", "a", "--shape", "35,6"]);
        folder.change(&["compact", "-q", "--no-sync", "--no-lock", "a"]);
        assert_eq!(folder.info(&["a"])["dead"], 0);
        assert_eq!(folder.ok(&["cat", "a"]), counting(210));
    }
}

#[test]
fn files_of_c() {
    for path in [
        "frame/edited.b2frame",
        "frame/edited-contiguous.b2frame",
        "frame/edited-sparse.b2frame",
        "frame/emptied-contiguous.b2frame",
        "frame/plain-contiguous.b2frame",
        "frame/vlmeta-16.b2frame",
        "array/resized.b2nd",
    ] {
        let folder = Folder::new();
        folder.fixture("f", &format!("c-blosc2/3.3.5/{path}"));
        let (before, data) = (folder.info(&["f"]), folder.ok(&["cat", "f"]));
        folder.change(&["compact", "-q", "f"]);
        let after = folder.info(&["f"]);
        assert_eq!(after["dead"], 0, "{path}");
        for key in ["nchunks", "chunksize", "nbytes", "metalayers", "vlmetalayers", "special", "storage"] {
            assert_eq!(before[key], after[key], "{path} {key}");
        }
        assert_eq!(folder.ok(&["cat", "f"]), data, "{path}");
    }
}

#[test]
fn what_cannot_be_compacted() {
    let folder = Folder::new();
    let chunk = folder.pack("c", &counting(30), &["--format", "chunk"]);
    assert_eq!(folder.info(&[chunk])["dead"], json!(null));
    folder.refuses(&["compact", chunk], "c: not a frame: only frames can be changed");
    folder.refuses(&["compact", "none"], "none: No such file or directory (os error 2)");
    folder.fails(2, &["compact"]);
    // The file has two names.
    folder.pack("s", &noise(3000), &["--chunksize", "1000"]);
    folder.change(&["chunk", "delete", "-q", "s", "0"]);
    std::fs::hard_link(folder.path("s"), folder.path("t")).unwrap();
    let before = folder.read("s");
    let message = folder.fails(1, &["compact", "s"]);
    assert!(message.starts_with("b2kit: s: "), "{message}");
    assert_eq!(folder.read("s"), before);
    folder.change(&["compact", "-q", "--force", "s"]);
    assert!(folder.read("s").len() < before.len());
    assert_eq!(folder.read("t"), before);
}

/// Members of stores in directories are changed like files, and looked at with `--dry-run`.
#[test]
fn members_of_stores() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("s.b2d")).unwrap();
    folder.pack("s.b2d/a.b2nd", &npy("<i4", false, "(30, 10)", &counting(300)), &["--no-checksums"]);
    folder.pack("b.b2nd", &npy("<i4", false, "(30, 10)", &counting(300)), &[]);
    folder.change(&["vlmeta", "set", "s.b2d::/a", "n", "1"]);
    folder.change(&["vlmeta", "set", "s.b2d::/a", "n", "2"]);
    assert_eq!(folder.ok_text(&["vlmeta", "get", "s.b2d::/a", "n"]), "2\n");
    assert_eq!(folder.ok_text(&["vlmeta", "list", "s.b2d::/a"]), "n\t2\n");
    let before = folder.read("s.b2d/a.b2nd");
    let output = folder.ok_text(&["compact", "--dry-run", "s.b2d::/a"]);
    assert!(output.starts_with("s.b2d::/a: ") && output.ends_with(" would be freed\n"), "{output}");
    let output = folder.ok_text(&["checksum", "add", "--dry-run", "s.b2d::/a", "b.b2nd"]);
    assert_eq!(output, "s.b2d::/a: checksums would be added\nb.b2nd: the checksums are right\n");
    assert_eq!(folder.read("s.b2d/a.b2nd"), before);
    let output = folder.change(&["compact", "s.b2d::/a"]);
    assert!(output.starts_with("s.b2d::/a: ") && output.contains(" freed, "), "{output}");
    assert_eq!(folder.ok_text(&["compact", "--dry-run", "s.b2d::/a"]), "s.b2d::/a: no holes\n");
    folder.change(&["checksum", "add", "s.b2d::/a"]);
    assert!(folder.info(&["s.b2d::/a"])["checksums"] == "ok");
    for args in [&["compact", "--dry-run", "s.b2d::/none"][..], &["compact", "s.b2d::/none"]] {
        assert!(folder.fails(1, args).contains("there is no such key"), "{args:?}");
    }
    for args in [&["compact", "--dry-run", "b.b2nd::/a"][..], &["compact", "b.b2nd::/a"]] {
        assert!(folder.fails(1, args).contains("only members of stores in directories"), "{args:?}");
    }
}
