//! Messages must be correct: their counts, names that users know, and the same text for the same fault.

use crate::common::{Folder, counting, noise, npy};

/// All commands that write several files report how many are complete when they are stopped.
#[cfg(unix)]
#[test]
fn a_stopped_command_counts_what_it_did() {
    use std::process::{Command, Stdio};
    use std::thread::sleep;
    use std::time::Duration;

    let folder = Folder::new();
    let names: Vec<String> = (0..300).map(|n| format!("a{n:03}.npy")).collect();
    let array = npy("|u1", false, "(1048576,)", &noise(1 << 20));
    for name in &names {
        folder.write(name, &array);
    }
    let packed: Vec<String> = (0..300).map(|n| format!("out/a{n:03}.b2nd")).collect();
    let plain: Vec<String> = (0..300).map(|n| format!("plain/a{n:03}.npy")).collect();
    let run = |args: &[&str], files: &[String], new: &[String]| {
        let files: Vec<&str> = files.iter().map(String::as_str).collect();
        let mut command = folder.command(&[args, &files].concat());
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        while !folder.path(&new[3]).exists() {
            assert!(child.try_wait().unwrap().is_none(), "{args:?}: the command was over too early");
            sleep(Duration::from_millis(2));
        }
        let kill = Command::new("sh").args(["-c", &format!("kill -TERM {}", child.id())]).status().unwrap();
        assert!(kill.success());
        let output = child.wait_with_output().unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(143), "{args:?}: {message}");
        let done = new.iter().filter(|name| folder.path(name).exists()).count();
        assert!((4..300).contains(&done), "{args:?}: {done}");
        let expected = format!(
            "b2kit: stopped after {done} of 300 files; these are complete, the others were not changed\n"
        );
        assert_eq!(message, expected, "{args:?}");
    };
    run(&["pack", "-q", "--clevel", "9", "-t", "1", "-d", "out"], &names, &packed);
    std::fs::remove_dir_all(folder.path("out")).unwrap();
    folder.change(&["pack", "-q", "-d", "out", "a000.npy"]);
    for name in &packed[1..] {
        std::fs::copy(folder.path("out/a000.b2nd"), folder.path(name)).unwrap();
    }
    run(&["unpack", "-q", "-d", "plain"], &packed, &plain);
}

/// Runs in a shell where no file can grow beyond `blocks` of 512 or 1024 bytes.
#[cfg(unix)]
fn limited(folder: &Folder, blocks: u32, signal: &str, args: &str) -> std::process::Output {
    let line =
        format!("{signal} ulimit -c 0; ulimit -f {blocks}; exec {} {args}", env!("CARGO_BIN_EXE_b2kit"));
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &line]).current_dir(folder.path(""));
    command.output().unwrap()
}

/// A write that the system refuses fails cleanly: the message has the user's file name, and nothing is left behind.
#[cfg(unix)]
#[test]
fn writes_beyond_the_limit_of_the_shell_fail_in_order() {
    let folder = Folder::new();
    folder.write("a.npy", &npy("|u1", false, "(1048576,)", &noise(1 << 20)));
    folder.pack("f", &noise(1 << 20), &["--chunksize", "64K"]);
    folder.pack("small", &noise(100 << 10), &["--chunksize", "64K"]);
    folder.pack("dir", &noise(100 << 10), &["--chunksize", "512K", "--format", "sframe"]);
    let small = folder.read("small");
    folder.pack("array", &folder.read("a.npy"), &[]);
    let names = folder.names();
    let mut cases = vec![
        ("pack a.npy out", "out"),
        ("pack a.npy out --format sframe", "out/"),
        ("pack a.npy out --format chunk", "out"),
        ("pack --raw a.npy out", "out"),
        ("copy f out", "out"),
        ("copy f out --format sframe --chunksize 512K", "out/"),
        ("copy f out --format chunk", "out"),
        ("unpack f -o out", "out"),
        ("cat f -o out", "out"),
        ("append small f", "small"),
        ("append dir f", "dir"),
    ];
    if cfg!(feature = "hdf5") {
        cases.extend([
            ("convert array out.h5", "cannot write out.h5"),
            ("convert array out.nc", "cannot write out.nc"),
            ("convert array out.zarr", "cannot write out.zarr"),
            ("convert array out.npz", "cannot write out.npz"),
        ]);
    }
    for (args, name) in cases {
        let output = limited(&folder, 200, "", args);
        let error_text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{args}: {error_text}");
        assert!(error_text.starts_with("b2kit: ") && error_text.contains(name), "{args}: {error_text}");
        assert!(
            error_text.contains("the file would be larger than is allowed here (ulimit -f)"),
            "{args}: {error_text}"
        );
        assert!(!error_text.contains(".b2kit-") && !error_text.contains(".tmp"), "{args}: {error_text}");
        let left: Vec<String> =
            folder.names().into_iter().filter(|name| !name.ends_with(".b2lock")).collect();
        assert_eq!(left, names, "{args}");
        assert_eq!(folder.read("small"), small, "{args}");
    }
    assert_eq!(folder.ok(&["cat", "dir"]).len(), 100 << 10);
}

/// Files whose end is missing all get the same message.
#[test]
fn cut_off_files_are_told_alike() {
    let folder = Folder::new();
    folder.pack("whole", &npy("<i4", false, "(4000,)", &noise(16_000)), &[]);
    let whole = folder.read("whole");
    folder.write("cut", &whole[..8000]);
    folder.write("row.npy", &npy("<i4", false, "(1,)", &[1, 2, 3, 4]));
    let text = format!("cut off: needs {} bytes, has 8,000", crate::common::thousands(whole.len()));
    for args in [
        &["info", "cut"][..],
        &["show", "cut"],
        &["cat", "cut"],
        &["unpack", "cut"],
        &["copy", "cut", "out"],
        &["diff", "cut", "whole"],
        &["ls", "cut"],
        &["items", "cut"],
        &["bench", "--quick", "cut"],
        &["append", "cut", "row.npy"],
        &["set", "cut", "row.npy", "--slice=0"],
        &["insert", "cut", "row.npy", "--at", "0"],
        &["delete", "cut", "--range", "0:1"],
        &["resize", "cut", "--shape", "9"],
        &["vlmeta", "list", "cut"],
        &["vlmeta", "get", "cut", "x"],
        &["vlmeta", "set", "cut", "x", "1"],
        &["chunk", "delete", "cut", "0"],
        &["compact", "cut"],
        &["checksum", "add", "cut"],
        &["checksum", "remove", "cut"],
        &["vlmeta", "del", "cut", "x"],
        &["info", "--key", "a", "cut"],
    ] {
        let error_text = folder.fails(if args[0] == "diff" { 2 } else { 1 }, args);
        assert!(error_text.contains(&text), "{args:?}: {error_text}");
    }
    let output = folder.run(&["verify", "cut"]);
    assert!(String::from_utf8(output.stdout).unwrap().contains(&text));
}

/// If checksums were ignored, no message says whether the file has any.
#[test]
fn checksums_that_were_ignored_are_not_denied() {
    let folder = Folder::new();
    folder.pack("a", &counting(1000), &[]);
    let output = folder.run(&["--no-checksums", "verify", "a"]);
    assert!(output.stdout.starts_with(b"ok\t"));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(
        message.contains("1 file not compared with checksums (--no-checksums)")
            && !message.contains("without"),
        "{message}"
    );
    let json = folder.ok_text(&["verify", "--json", "a", "--no-checksums"]);
    assert!(json.contains("\"checksums\":null"), "{json}");
    assert!(folder.ok_text(&["info", "a", "--no-checksums"]).contains("not looked for (--no-checksums)"));
    assert!(folder.info(&["a", "--no-checksums"])["checksums"].is_null());
}

#[test]
fn bench_tells_the_shape_of_the_file_and_reads_frames_from_standard_input() {
    let folder = Folder::new();
    let bytes = npy("<i4", false, "(3000, 1000)", &counting(3_000_000));
    folder.write("a.npy", &bytes);
    folder.change(&["pack", "-q", "a.npy", "a.b2nd"]);
    for name in ["a.npy", "a.b2nd"] {
        let text = folder.ok_text(&["bench", "--quick", name]);
        assert!(text.contains("shape 3000, 1000, items of 4 bytes, measured on"), "{text}");
    }
    let output = folder.with_input(&["bench", "--quick", "-"], &folder.read("a.b2nd"));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("shape 3000, 1000, items of 4 bytes"), "{text}");
    // A damaged frame is not measured as plain bytes.
    let frame = folder.read("a.b2nd");
    folder.write("cut", &frame[..frame.len() / 2]);
    assert!(folder.fails(1, &["bench", "--quick", "cut"]).contains("cut off"));
}

/// The format that a new file's name implies is written, or refused.
#[test]
fn the_ending_of_the_output_decides() {
    let folder = Folder::new();
    let array = npy("<i4", false, "(3, 4)", &counting(12));
    folder.pack("a", &array, &[]);
    folder.pack("s", &counting(12), &[]);
    for (args, start) in [
        (&["cat", "a", "-o", "y.npy"][..], &array[..]),
        (&["cat", "a", "-o", "U.NPY"], &array),
        (&["cat", "a", "-o", "y.png"], b"\x89PNG"),
        (&["cat", "a", "-o", "y.csv"], b"0,1,2,3\n"),
        (&["cat", "a", "--raw", "-o", "z.npy"], &counting(12)),
        (&["cat", "a", "--csv", "-o", "z.png"], b"0,1,2,3\n"),
        (&["cat", "a", "-o", "z.bin"], &counting(12)),
    ] {
        folder.ok(args);
        assert!(folder.read(args[args.len() - 1]).starts_with(start), "{args:?}");
    }
    assert!(folder.fails(1, &["cat", "s", "-o", "x.npy"]).contains("only arrays have a shape and a dtype"));
    assert!(folder.fails(2, &["cat", "a", "--chunk", "0", "-o", "x.npy"]).contains("--raw"));
    assert!(!folder.path("x.npy").exists());
}

/// Names cannot inject lines, columns or colours into the output.
#[cfg(unix)]
#[test]
fn names_are_escaped() {
    let folder = Folder::new();
    let name = "a\tb\nok\t0\tc\x1b[31m";
    folder.pack(name, &counting(10), &[]);
    folder.write("b\x1b[2J", b"no frame");
    let answer = folder.ok_text(&["verify", name]);
    assert_eq!(answer.lines().count(), 1, "{answer}");
    assert!(answer.ends_with("\ta\\tb\\nok\\t0\\tc\\u{1b}[31m\n"), "{answer}");
    for args in [
        &["info", "b\x1b[2J"][..],
        &["verify", "b\x1b[2J"],
        &["cat", "b\x1b[2J"],
        &["append", name, "b\x1b[2J", "--axis", "0"],
        &["diff", name, "b\x1b[2J"],
    ] {
        let output = folder.run(args);
        let message = [output.stdout, output.stderr].concat();
        assert!(
            !output.status.success() && !message.contains(&0x1b),
            "{args:?}: {}",
            String::from_utf8_lossy(&message)
        );
        assert!(String::from_utf8(message).unwrap().contains("\\u{1b}"), "{args:?}");
    }
    let json: serde_json::Value = serde_json::from_slice(&folder.ok(&["verify", "--json", name])).unwrap();
    assert_eq!(json["file"], name);
}

#[test]
fn urls_are_refused_plainly_where_they_are_not_read() {
    let folder = Folder::new();
    folder.pack("a", &npy("<i4", false, "(10,)", &counting(10)), &[]);
    let before = folder.read("a");
    let url = "https://127.0.0.1:9/x.npy";
    for args in [
        &["pack", url, "out"][..],
        &["append", "a", url],
        &["set", "a", url, "--slice=:"],
        &["insert", "a", url, "--at", "0"],
        &["bench", "--quick", url],
        &["bench", url],
        &["append", url, "a"],
        &["compact", url],
        &["checksum", "add", url],
        &["resize", url, "--shape", "3"],
        &["vlmeta", "set", url, "x", "1"],
    ] {
        let message = folder.fails(1, args);
        assert!(message.contains(&format!("{url}: a URL")), "{args:?}: {message}");
    }
    assert_eq!((folder.names(), folder.read("a")), (vec!["a".to_owned()], before));
}
