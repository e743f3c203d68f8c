//! What `pack` and `copy` report on standard error.

use crate::common::{Folder, counting, noise, npy, plain};

#[test]
fn pack_and_copy_say_what_they_did() {
    let folder = Folder::new();
    folder.write("a.npy", &npy("<i4", false, "(500, 500)", &counting(250_000)));
    let output = folder.change(&["pack", "a.npy", "a.b2nd"]);
    let line = output.strip_suffix('\n').unwrap();
    assert!(line.starts_with("a.npy -> a.b2nd  977 -> ") && line.ends_with("x), zstd 5, shuffle"), "{line}");
    assert!(!line.contains('\n'), "one line: {line}");
    let output =
        folder.change(&["copy", "a.b2nd", "b.b2nd", "--codec", "lz4", "--clevel", "9", "--filters", "none"]);
    assert!(
        output.starts_with("a.b2nd -> b.b2nd  977 -> ") && output.ends_with("x), lz4 9, no filter\n"),
        "{output}"
    );
    let output = folder.change(&[
        "copy",
        "a.b2nd",
        "dir",
        "--format",
        "sframe",
        "--filters",
        "int_trunc:-10,bitshuffle",
    ]);
    assert!(output.ends_with("x), zstd 5, int_trunc:246, bitshuffle\n"), "{output}");
    assert_eq!(folder.change(&["-q", "copy", "a.b2nd", "c.b2nd"]), "");
    let output = folder.change(&["-v", "copy", "a.b2nd", "d.b2nd"]);
    assert!(output.ends_with(" s\n") && output.contains("shuffle, "), "{output}");
}

#[test]
fn sizes_are_those_of_the_files() {
    let folder = Folder::new();
    folder.write("raw", &noise(5000));
    let output = folder.change(&["pack", "raw", "s"]);
    let nbytes = folder.read("s").len();
    assert!((5000..6000).contains(&nbytes), "{nbytes}");
    let ratio = format!("({:.2}x)", 5000.0 / nbytes as f64);
    assert!(output.starts_with("raw -> s  4.88 -> ") && output.contains(&ratio), "{output}");
    let output = folder.change(&["pack", "raw", "c", "--format", "chunk"]);
    assert!(output.starts_with("raw -> c  4.88 -> 4.91 KiB (0.99x), zstd, not used"), "{output}");
    // A few hundred bytes represent all of it.
    let nan = f64::NAN.to_le_bytes().repeat(1_000_000);
    folder.write("nan.npy", &npy("<f8", false, "(1000, 1000)", &nan));
    let output = folder.change(&["pack", "nan.npy", "nan.b2nd"]);
    let nbytes = folder.read("nan.b2nd").len();
    assert!(
        output.contains(&format!("7.63 MiB -> {nbytes} bytes ({},", 8_000_000 / nbytes / 1000)),
        "{output}"
    );
    folder.write("none.npy", &npy("<f8", false, "(0, 3)", b""));
    let output = folder.change(&["pack", "none.npy", "none.b2nd"]);
    assert!(output.starts_with("none.npy -> none.b2nd  0 -> "), "{output}");
}

#[test]
fn what_auto_chose_is_told() {
    let folder = Folder::new();
    folder.write("a.npy", &npy("<i4", false, "(500, 500)", &counting(250_000)));
    let output = folder.change(&["pack", "--force", "a.npy", "a.b2nd", "--codec", "auto", "--goal", "size"]);
    let info = folder.info(&["a.b2nd"]);
    let codec = format!("{} {}, ", info["codec"].as_str().unwrap(), info["clevel"]);
    assert!(output.contains(&codec), "{output}: {codec}");
    for filter in info["filters"].as_array().unwrap() {
        assert!(output.contains(filter["name"].as_str().unwrap()), "{output}");
    }
    assert!(output.ends_with(" (chosen by --codec auto)\n"), "{output}");
}

#[test]
fn a_message_names_its_file_once() {
    let folder = Folder::new();
    let name = "unique.b2nd";
    folder.pack(name, &npy("<i4", false, "(20000,)", &noise(80_000)), &[]);
    let good = folder.read(name);
    let patched = |at: usize, bytes: &[u8]| [&good[..at], bytes, &good[at + bytes.len()..]].concat();
    // Without checksums there is no copy of the header to read instead.
    folder.pack("plain", &npy("<i4", false, "(20000,)", &noise(80_000)), &["--no-checksums"]);
    let mut headless = folder.read("plain");
    headless[10] = 0xD1;
    let readers: &[&[&str]] = &[&["cat", name], &["verify", name], &["copy", name, "out.b2nd"]];
    let openers: &[&[&str]] =
        &[&["info", name], &["show", name], &["compact", name], &["salvage", name, "out.b2nd"]];
    for (what, bytes, commands) in [
        ("missing", None, [readers, openers].concat()),
        ("text", Some(b"nothing of Blosc2 but a long enough text".to_vec()), [readers, openers].concat()),
        ("header", Some(headless), [readers, &openers[..3]].concat()),
        ("cut", Some(good[..good.len() / 2].to_vec()), [readers, &openers[..3]].concat()),
        ("chunk", Some(patched(good.len() / 2, &[0x55; 40])), readers.to_vec()),
    ] {
        match bytes {
            Some(bytes) => drop(folder.write(name, &bytes)),
            None => std::fs::remove_file(folder.path(name)).unwrap(),
        }
        for args in commands {
            let output = folder.run(args);
            let error_text = [plain(&output.stderr), String::from_utf8_lossy(&output.stdout).into_owned()];
            let error_text = if args[0] == "cat" { error_text[0].clone() } else { error_text.concat() };
            assert!(!output.status.success() && error_text.contains(name), "{what}: {args:?}: {error_text}");
            for line in error_text.lines() {
                // The hint of a command to run next names it again.
                let message = line.split('`').next().unwrap_or_default();
                assert!(message.matches(name).count() <= 1, "{what}: {args:?}: {line}");
            }
        }
    }
}
