//! `-` and the system's names for standard input and output: they work, or are refused with a reason.

use crate::common::{Folder, counting, npy};

#[test]
fn frames_come_from_standard_input() {
    let folder = Folder::new();
    let raw = counting(5000);
    folder.pack("a", &npy("<i4", false, "(100, 50)", &raw), &["--chunks", "30,20"]);
    folder.pack("c", &raw, &["--format", "chunk", "--typesize", "4"]);
    for name in ["a", "c"] {
        let file = folder.read(name);
        for stdin in ["-", "/dev/stdin"] {
            if stdin != "-" && !cfg!(target_os = "linux") {
                continue;
            }
            let sent = |args: &[&str]| {
                let quiet: &[&str] = if args[0] == "verify" { &["-q"] } else { &[] };
                let output = folder.with_input(&[quiet, args].concat(), &file);
                assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{args:?}");
                assert_eq!(output.status.code(), Some(0), "{args:?}");
                output.stdout
            };
            assert_eq!(sent(&["cat", stdin]), raw);
            assert_eq!(sent(&["cat", stdin, "--slice=-1"]), folder.ok(&["cat", name, "--slice=-1"]));
            let facts: serde_json::Value = serde_json::from_slice(&sent(&["info", stdin, "--json"])).unwrap();
            assert_eq!(facts["file"], stdin);
            for (key, fact) in folder.info(&[name]).as_object().unwrap() {
                assert_eq!(&facts[key], fact, "{key}");
            }
            let line = String::from_utf8(sent(&["verify", stdin])).unwrap();
            assert_eq!(
                line,
                folder.ok_text(&["verify", name]).replace(&format!("\t{name}"), &format!("\t{stdin}"))
            );
            sent(&["diff", stdin, name]);
            assert_eq!(sent(&["-q", "copy", stdin, "-"]), {
                folder.ok(&["-q", "copy", name, "copied", "--force"]);
                folder.read("copied")
            });
        }
    }
    let output = folder.with_input(&["info", "-"], b"");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "b2kit: -: standard input is empty\n");
}

#[test]
fn new_files_go_to_standard_output() {
    let folder = Folder::new();
    let raw = counting(5000);
    let items = npy("<i4", false, "(100, 50)", &raw);
    folder.write("in.npy", &items);
    folder.ok(&["-q", "pack", "in.npy", "out", "--chunks", "30,20"]);
    let expected = folder.read("out");
    let outputs: &[&str] = if cfg!(target_os = "linux") { &["-", "/dev/stdout"] } else { &["-"] };
    for stdout in outputs {
        assert_eq!(folder.ok(&["-q", "pack", "in.npy", stdout, "--chunks", "30,20"]), expected);
        let piped = folder.with_input(&["-q", "pack", "-", stdout, "--chunks", "30,20"], &items);
        assert_eq!(piped.stdout, expected);
        assert_eq!(folder.ok(&["-q", "copy", "out", stdout]), expected);
        assert_eq!(folder.ok(&["cat", "out", "-o", stdout]), raw);
        // Even if it is redirected to a file, which already exists.
        let file = std::fs::File::create(folder.path("redirected")).unwrap();
        let mut command = folder.command(&["cat", "out", "-o", stdout]);
        assert!(command.stdout(file).status().unwrap().success());
        assert_eq!(folder.read("redirected"), raw);
    }
    assert_eq!(folder.names(), ["in.npy", "out", "redirected"]);
}

/// A device is written to, not replaced.
#[cfg(target_os = "linux")]
#[test]
fn devices_stay_devices() {
    use std::os::unix::fs::FileTypeExt;
    let folder = Folder::new();
    folder.write("in", &counting(100));
    folder.ok(&["-q", "pack", "in", "out"]);
    for args in
        [&["pack", "in", "/dev/null"][..], &["copy", "out", "/dev/null"], &["cat", "out", "-o", "/dev/null"]]
    {
        folder.ok(&[&["-q"], args].concat());
    }
    assert!(std::fs::metadata("/dev/null").unwrap().file_type().is_char_device());
}

#[test]
fn what_needs_a_name_says_so() {
    let folder = Folder::new();
    folder.write("in", &counting(100));
    folder.pack("s", &counting(100), &["--typesize", "4"]);
    let in_place = "-: standard input cannot be changed in place: name the file";
    for args in [
        &["append", "-", "in"][..],
        &["set", "-", "in", "--slice=:"],
        &["resize", "-", "--shape", "3"],
        &["insert", "-", "in", "--at", "0"],
        &["delete", "-", "--range", "0"],
        &["chunk", "append", "-", "in"],
        &["vlmeta", "set", "-", "unit", "1"],
        &["vlmeta", "del", "-", "unit"],
        &["checksum", "remove", "-"],
        &["compact", "-"],
    ] {
        folder.refuses(args, in_place);
    }
    folder.refuses(&["salvage", "-", "out"], "standard input cannot be salvaged: name the damaged file");
    folder.refuses(&["salvage", "s", "-"], "-: salvage writes a file; name it");
    folder.refuses(
        &["copy", "s", "-", "--format", "sframe"],
        "-: a sparse frame is a folder of files; it needs a name",
    );
    folder.refuses(&["cat", "-", "--key", "/a"], "-: standard input cannot be a store: name the file");
    folder.refuses(&["ls", "-"], "-: standard input cannot be a store: name the file");
    folder.fails(2, &["pack", "-", "-d", "dir"]);
    assert_eq!(folder.names(), ["in", "s"]);
}

/// Pipes that a shell creates, as in `b2kit info <(command)`, can be read in place of files.
#[cfg(target_os = "linux")]
#[test]
fn pipes_by_name() {
    let folder = Folder::new();
    let array = npy("<i4", false, "(100, 30)", &counting(3000));
    folder.pack("a.b2nd", &array, &[]);
    folder.write("a.npy", &array);
    let run = |line: &str| {
        let line = line.replace("b2kit", env!("CARGO_BIN_EXE_b2kit"));
        let mut command = std::process::Command::new("bash");
        let output = command.args(["-c", &line]).current_dir(folder.path("")).output().unwrap();
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    for line in [
        "b2kit info <(cat a.b2nd)",
        "b2kit diff <(cat a.b2nd) <(cat a.npy)",
        "b2kit view <(cat a.npy) -o a.png",
        "b2kit show <(cat a.b2nd)",
        "b2kit verify -q <(cat a.b2nd)",
        "b2kit pack -q <(cat a.npy) b.b2nd",
    ] {
        run(line);
    }
    assert_eq!(run("b2kit cat <(cat a.b2nd)"), counting(3000));
    // Other pipes are refused instead of waited for.
    run("mkfifo pipe && ! b2kit info pipe");
}

/// What could not be written is not reported as written.
#[cfg(target_os = "linux")]
#[test]
fn full_devices_are_no_success() {
    let folder = Folder::new();
    folder.write("a.npy", &npy("<i4", false, "(100, 30)", &counting(3000)));
    let message = folder.fails(1, &["pack", "a.npy", "/dev/full", "--force"]);
    assert_eq!(message, "b2kit: /dev/full: no space left on the disk\n");
    let message = folder.change(&["pack", "a.npy", "/dev/null", "--force"]);
    assert!(message.starts_with("a.npy -> /dev/null  "), "{message}");
}

/// CSV has all digits of a `longdouble`.
#[test]
fn long_doubles_keep_their_digits() {
    let folder = Folder::new();
    let item = |mantissa: u64, exponent: u16| {
        let mut item = mantissa.to_le_bytes().to_vec();
        item.extend(exponent.to_le_bytes());
        item.resize(16, 0);
        item
    };
    let items = [item(0xC90F_DAA2_2168_C235, 0x4000), item(0xFFFF_FFFF_FFFF_FFFF, 0x7FFE)].concat();
    folder.pack("a", &npy("<f16", false, "(2,)", &items), &[]);
    assert_eq!(folder.ok_text(&["cat", "--csv", "a"]), "3.1415926535897932385\n1.189731495357231765e+4932\n");
    folder.pack("c", &npy("<c32", false, "(1,)", &items), &[]);
    assert_eq!(folder.ok_text(&["cat", "--csv", "c"]), "3.1415926535897932385+1.189731495357231765e+4932j\n");
}
