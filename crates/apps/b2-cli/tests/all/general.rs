//! Features shared by all commands: help, exit codes, completions, closed pipes.

use crate::common;
use std::io::Read;
use std::process::Stdio;

use crate::common::{Folder, counting, npy};

const COMMANDS: [&str; 8] = ["info", "show", "view", "cat", "verify", "pack", "copy", "completions"];

#[test]
fn help_has_examples_for_every_command() {
    let folder = Folder::new();
    let help = folder.ok_text(&["--help"]);
    for command in COMMANDS {
        assert!(help.contains(&format!("\n  {command:<11} ")), "{command} in:\n{help}");
        let own = folder.ok_text(&[command, "--help"]);
        assert!(own.contains("Examples:\n  b2kit "), "{own}");
        assert!(own.contains(&format!("b2kit {command}")), "{own}");
        assert_eq!(own, folder.ok_text(&["help", command]));
    }
}

#[test]
fn a_wrong_command_line_is_exit_2() {
    let folder = Folder::new();
    let lines: &[&[&str]] = &[
        &[],
        &["unknown"],
        &["info"],
        &["info", "a", "--offset", "-1"],
        &["info", "a", "--nonsense"],
        &["cat"],
        &["cat", "a", "--raw", "--npy"],
        &["cat", "a", "--slice=1", "--chunk", "1"],
        &["cat", "a", "--npy", "--chunk", "1"],
        &["cat", "a", "--chunk", "x"],
        &["verify"],
        &["pack", "a", "b", "--format", "zip"],
        &["pack", "a", "b", "--codec", "snappy"],
        &["pack", "a", "b", "--clevel", "10"],
        &["pack", "a", "b", "--filters", "shuffle,"],
        &["pack", "a", "b", "--filters", "x"],
        &["pack", "a", "b", "--splitmode", "sometimes"],
        &["pack", "a", "b", "--codec-meta", "256"],
        &["pack", "a", "b", "--meta", "x"],
        &["pack", "a", "b", "--meta", "x={"],
        &["pack", "a", "b", "--chunks", "1,x"],
        &["pack", "a", "b", "--shape", "3"],
        &["copy", "a"],
        &["completions"],
        &["completions", "cobol"],
        &["-t", "0", "info", "a"],
        &["-q", "-v", "info", "a"],
    ];
    for line in lines {
        folder.fails(2, line);
    }
}

#[test]
fn a_missing_file_is_exit_1_and_named() {
    let folder = Folder::new();
    for line in [&["info", "none"][..], &["cat", "none"], &["pack", "none", "x"], &["copy", "none", "x"]] {
        let message = folder.fails(1, line);
        assert!(message.starts_with("b2kit: none: "), "{message}");
        assert!(message.contains("No such file") && message.lines().count() == 1, "{message}");
    }
    assert_eq!(folder.names(), [""; 0]);
}

#[test]
fn files_that_are_nothing_are_exit_1_and_named() {
    let folder = Folder::new();
    folder.write("empty", b"");
    folder.write("text", b"hello, this is no compressed file, not at all");
    folder.write("zeros", &[0; 100]);
    folder.write("short", b"\x9e\xa8b2frame\0");
    std::fs::create_dir(folder.path("dir")).unwrap();
    for name in ["empty", "text", "zeros", "short", "dir"] {
        for command in ["info", "cat"] {
            let message = folder.fails(1, &[command, name]);
            assert!(message.starts_with(&format!("b2kit: {name}: ")), "{message}");
        }
        let message = folder.fails(1, &["copy", name, "out"]);
        assert!(message.starts_with(&format!("b2kit: {name}: ")), "{message}");
        let output = folder.run(&["verify", name]);
        assert_eq!(output.status.code(), Some(1));
        let line = String::from_utf8(output.stdout).unwrap();
        assert!(line.starts_with(&format!("FAIL\t-\t-\t{name}\t")), "{line}");
    }
    assert!(!common::exists(&folder.path("out")));
}

#[test]
fn an_output_without_a_folder_is_told_by_its_own_name() {
    let folder = Folder::new();
    folder.pack("s", b"data", &[]);
    for args in [
        &["pack", "s", "none/x"][..],
        &["pack", "s", "none/x", "--format", "sframe"],
        &["copy", "s", "none/x"],
        &["copy", "s", "none/x", "--format", "chunk"],
        &["cat", "s", "-o", "none/x"],
    ] {
        let message = folder.fails(1, args);
        assert!(message.starts_with("b2kit: none/x: No such file"), "{message}");
    }
    std::fs::create_dir(folder.path("dir")).unwrap();
    folder.refuses(&["info", "dir"], "dir: a directory without chunks.b2frame: not a sparse frame");
    folder.refuses(&["pack", "dir", "x"], "dir: is a directory; -r packs the files in it");
}

#[cfg(unix)]
#[test]
fn a_closed_pipe_is_no_error() {
    let folder = Folder::new();
    // Much more than a pipe can hold, in many chunks.
    let raw = counting(2 << 20);
    folder.pack("s", &raw, &["--typesize", "4", "--chunksize", "100K"]);
    folder.pack("a", &npy("<i4", false, "(2097152,)", &raw), &[]);
    folder.pack("c", &raw, &["--format", "chunk", "--typesize", "4"]);
    for args in [
        &["cat", "s"][..],
        &["cat", "a"],
        &["cat", "c"],
        &["cat", "a", "--npy"],
        &["cat", "a", "--slice=::2"],
        &["cat", "a", "--csv"],
        &["info", "s", "--chunks"],
        &["completions", "bash"],
        &["--help"],
    ] {
        let mut child = folder.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut first = [0; 8];
        child.stdout.take().unwrap().read_exact(&mut first).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8(output.stderr).unwrap(), "", "{args:?}");
        assert_eq!(output.status.code(), Some(0), "{args:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error() {
    let folder = Folder::new();
    folder.pack("s", &counting(100_000), &[]);
    for args in [&["cat", "s"][..], &["info", "s"], &["info", "s", "--json"]] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let output = folder.command(args).stdout(full).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(message.starts_with("b2kit: standard output: "), "{message}");
    }
}

#[test]
fn verbose_talks_on_stderr_only_and_quiet_is_accepted() {
    let folder = Folder::new();
    let raw = counting(1000);
    folder.write("in", &raw);
    let output = folder.run(&["-v", "pack", "in", "s", "--typesize", "4"]);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), &b""[..]));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(
        message.contains("in -> s") && message.contains("3.91 -> ") && message.contains("zstd"),
        "{message}"
    );
    let output = folder.run(&["cat", "s", "-v"]);
    assert_eq!(output.stdout, raw);
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.starts_with("s: 3.91 KiB in ") && message.lines().count() == 1, "{message}");
    for flags in [&["-v", "-t", "1"][..], &["-q", "-t2"], &["--threads", "3"]] {
        let args = [flags, &["cat", "s"]].concat();
        assert_eq!(folder.run(&args).stdout, raw, "{args:?}");
    }
    folder.ok(&["cat", "s", "-q", "-t", "1"]);
}

#[test]
fn threads_never_change_what_is_written() {
    let folder = Folder::new();
    let raw: Vec<u8> = (0..300_000u32).flat_map(|i| (i.wrapping_mul(i) % 1000).to_le_bytes()).collect();
    folder.write("in.npy", &npy("<u4", false, "(300, 1000)", &raw));
    for threads in ["1", "2", "5"] {
        let name = format!("out{threads}");
        folder.ok(&["pack", "in.npy", &name, "--chunks", "70,300", "--blocks", "10,100", "-t", threads]);
        assert_eq!(folder.read(&name), folder.read("out1"));
        assert_eq!(folder.ok(&["cat", "out1", "-t", threads]), raw);
    }
}
