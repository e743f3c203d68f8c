//! Signals and kills: the state on disk afterwards.
#![cfg(unix)]

use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::common::{Folder, noise, npy};

/// Returns bytes that take a third of a second per MiB at the highest level, so that no signal comes too late: short
/// matches occur everywhere, but none saves much.
fn slow(n: usize) -> Vec<u8> {
    noise(n).into_iter().map(|byte| byte & 0x0F).collect()
}

const SLOW: [&str; 6] = ["--codec", "zstd", "--clevel", "9", "--filters", "none"];

fn start(folder: &Folder, args: &[&str]) -> Child {
    folder.command(args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Returns the signal to send and its exit code. A process started by `nohup`, or in the background by a script,
/// ignores INT or HUP, and so, correctly, do the commands that it starts. TERM is sent to them instead.
fn obeyed(name: &'static str, number: i32) -> (&'static str, i32) {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    if mask >> (number - 1) & 1 == 1 {
        eprintln!("{name} is ignored here: TERM instead");
        return ("TERM", 143);
    }
    (name, 128 + number)
}

fn signal(child: &Child, name: &str) {
    // Use the shell's `kill`, because not every machine has the program.
    let kill = format!("kill -{name} {}", child.id());
    let sent = Command::new("sh").args(["-c", &kill]).status().unwrap();
    assert!(sent.success());
}

/// Waits until the condition holds; fails if the command ends before.
fn until(child: &mut Child, mut reached: impl FnMut() -> bool) {
    while !reached() {
        assert!(child.try_wait().unwrap().is_none(), "the command was over too early");
        sleep(Duration::from_millis(5));
    }
}

fn temporaries(folder: &Folder) -> Vec<String> {
    folder.names().into_iter().filter(|name| name.starts_with(".b2kit-")).collect()
}

#[test]
fn signals_leave_no_temporary_files() {
    let folder = Folder::new();
    let bytes = slow(48 << 20);
    folder.write("raw", &bytes);
    folder.write("a.npy", &npy("|u1", false, "(48, 1048576)", &bytes));
    folder.change(&["pack", "raw", "frame", "--codec", "lz4", "--clevel", "1"]);
    folder.write("old", b"what was there");
    let cases: [(&[&str], &str, i32); 6] = [
        (&["pack", "a.npy", "out"], "INT", 2),
        (&["pack", "raw", "old", "--force", "--chunksize", "1M"], "TERM", 15),
        (&["pack", "a.npy", "out", "--format", "sframe", "--chunks", "1,1048576"], "HUP", 1),
        (&["copy", "frame", "out", "--chunksize", "1M"], "TERM", 15),
        (&["copy", "frame", "old", "--force"], "INT", 2),
        (&["pack", "raw", "out", "--chunksize", "1M"], "QUIT", 3),
    ];
    for (args, name, number) in cases {
        let (name, code) = obeyed(name, number);
        let args: Vec<&str> = args.iter().chain(&SLOW).chain(&["--threads", "1"]).copied().collect();
        let mut child = start(&folder, &args);
        until(&mut child, || !temporaries(&folder).is_empty());
        signal(&child, name);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{args:?}");
        assert_eq!(temporaries(&folder), [""; 0], "{args:?}");
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(message.contains("stopped; nothing was changed"), "{args:?}: {message}");
        assert!(!folder.path("out").exists());
        assert_eq!(folder.read("old"), b"what was there");
    }
}

#[test]
fn a_stopped_append_leaves_the_file_as_it_was_and_a_killed_one_is_told() {
    let folder = Folder::new();
    folder.write("raw", &slow(48 << 20));
    folder.pack("log", &noise(1 << 20), &[&SLOW[..], &["--chunksize", "1M"]].concat());
    let before = folder.read("log");
    let grown = || fs::metadata(folder.path("log")).unwrap().len() > before.len() as u64 + 1_000_000;
    let mut child = start(&folder, &["append", "log", "raw", "--threads", "1"]);
    until(&mut child, grown);
    signal(&child, "TERM");
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(143));
    assert_eq!(folder.read("log"), before);

    let mut child = start(&folder, &["append", "log", "raw", "--threads", "1"]);
    until(&mut child, grown);
    signal(&child, "KILL");
    child.wait_with_output().unwrap();
    let left = fs::metadata(folder.path("log")).unwrap().len() - before.len() as u64;
    assert_eq!(folder.info(&["log"])["leftover"], left);
    let text = folder.ok_text(&["info", "log"]);
    assert!(text.contains("left after the frame by an interrupted change"), "{text}");
    let output = folder.change(&["compact", "log"]);
    assert!(output.contains("left after the frame by an interrupted change freed"), "{output}");
    assert_eq!(folder.read("log"), before);
    assert!(folder.info(&["log"])["leftover"].is_null());
    assert!(!folder.ok_text(&["info", "log"]).contains("left behind"));
    assert!(folder.change(&["compact", "log"]).contains("no holes; nothing written"));
}

/// A command that waits for input ends immediately: there is nothing to undo.
#[test]
fn waiting_for_input_ends_at_once() {
    let folder = Folder::new();
    folder.pack("log", &noise(1 << 10), &[]);
    for args in [&["append", "log", "-"][..], &["pack", "-", "out"]] {
        let mut command = folder.command(args);
        let mut child = command.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        sleep(Duration::from_millis(200));
        signal(&child, "TERM");
        assert!(!child.wait().unwrap().success());
        assert_eq!(folder.names(), ["log"]);
    }
}

/// A stopped salvage writes no output: neither what it has found so far nor zeros for the rest.
#[test]
fn a_stopped_salvage_leaves_no_output() {
    let folder = Folder::new();
    folder.write("raw", &slow(32 << 20));
    folder.change(&["pack", "raw", "frame", "--codec", "zlib", "--clevel", "1", "--chunksize", "1M"]);
    // Bytes that look like many trailers, which takes seconds to rule out.
    let mut hunted = folder.read("frame")[..1000].to_vec();
    hunted.extend([0x94, 0x01, 0x93, 0xCD].repeat(8 << 20));
    folder.write("hunted", &hunted);
    folder.write("old", b"what was there");
    for (input, while_writing) in [("frame", true), ("hunted", false)] {
        for (out, force) in [("out", &[][..]), ("old", &["--force"])] {
            let mut child = start(&folder, &[&["salvage", input, out, "--threads", "1"], force].concat());
            if while_writing {
                until(&mut child, || !temporaries(&folder).is_empty());
            } else {
                sleep(Duration::from_millis(300));
            }
            signal(&child, "TERM");
            let asked = Instant::now();
            let output = child.wait_with_output().unwrap();
            assert!(asked.elapsed() < Duration::from_secs(1), "{input}: {:?}", asked.elapsed());
            assert_eq!(output.status.code(), Some(143), "{input}");
            let message = String::from_utf8(output.stderr).unwrap();
            assert!(message.contains("stopped; nothing was changed"), "{input}: {message}");
            assert_eq!(temporaries(&folder), [""; 0], "{input}");
            assert!(!folder.path("out").exists(), "{input}");
            assert_eq!(folder.read("old"), b"what was there", "{input}");
        }
    }
}
