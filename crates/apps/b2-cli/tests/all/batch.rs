//! `b2kit batch`: many commands in one process.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;

use crate::common::{Folder, counting, noise};
use serde_json::Value;

/// Runs the lines and splits the output into responses: exit code, message, output.
fn batch(folder: &Folder, lines: &str) -> Vec<(u64, String, Vec<u8>)> {
    let output = folder.with_input(&["batch"], lines.as_bytes());
    assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0));
    let mut rest = output.stdout.as_slice();
    let mut answers = Vec::new();
    while !rest.is_empty() {
        let mut line = String::new();
        rest.read_line(&mut line).unwrap();
        let head: Value = serde_json::from_str(&line).unwrap();
        let (out, after) = rest.split_at(head["out"].as_u64().unwrap() as usize);
        rest = after;
        answers.push((head["rc"].as_u64().unwrap(), head["err"].as_str().unwrap().to_owned(), out.to_vec()));
    }
    answers
}

#[test]
fn each_line_is_answered_as_the_command_would() {
    let folder = Folder::new();
    // More than is buffered in memory.
    let raw = noise(20 << 20);
    folder.pack("s", &raw, &["--clevel", "1"]);
    folder.pack("t", &counting(10), &[]);
    let info = folder.ok(&["info", "s", "--json"]);
    let answers = batch(
        &folder,
        "[\"info\", \"s\", \"--json\"]\n\n[\"cat\", \"s\"]\n[\"cat\",\"t\"]\n[\"copy\",\"t\",\"u\"]\n[\"cat\", \"u\", \"-o\", \"v\"]\n[\"diff\",\"s\",\"t\"]",
    );
    assert_eq!(answers.len(), 6);
    assert_eq!(answers[0], (0, String::new(), info));
    assert!(answers[1] == (0, String::new(), raw));
    assert_eq!(answers[2], (0, String::new(), counting(10)));
    assert_eq!(answers[3], (0, String::new(), vec![]));
    assert_eq!(answers[4], (0, String::new(), vec![]));
    assert_eq!(folder.read("v"), counting(10));
    assert_eq!((answers[5].0, &answers[5].2[..6]), (1, &b"bytes:"[..]));
}

#[test]
fn a_bad_line_does_not_end_it() {
    let folder = Folder::new();
    folder.pack("t", &counting(10), &[]);
    let lines = [
        "nonsense",
        "[1]",
        "[\"frob\"]",
        "[\"cat\"]",
        "[\"cat\",\"none\"]",
        "[\"cat\",\"t\",\"--slice=99\"]",
        "[\"batch\"]",
        "[\"-t\",\"2\",\"cat\",\"t\"]",
        "[\"verify\",\"--files-from\",\"-\"]",
        "[\"--version\"]",
        "[\"cat\",\"t\"]",
    ];
    let answers = batch(&folder, &lines.join("\n"));
    let codes: Vec<u64> = answers.iter().map(|answer| answer.0).collect();
    assert_eq!(codes, [2, 2, 2, 2, 1, 1, 2, 2, 1, 0, 0]);
    for (answer, line) in answers.iter().zip(lines).take(9) {
        assert!(!answer.1.is_empty() && answer.2.is_empty(), "{line}: {answer:?}");
    }
    assert!(answers[4].1.starts_with("none: "), "{:?}", answers[4]);
    assert!(answers[8].1.contains("standard input holds the commands"), "{:?}", answers[8]);
    assert!(answers[9].2.starts_with(b"b2kit "));
    assert_eq!(answers[10], (0, String::new(), counting(10)));
}

/// Each response is written before the next line is read.
#[test]
fn answers_are_flushed() {
    let folder = Folder::new();
    folder.pack("t", &counting(10), &[]);
    let mut child = folder.command(&["batch"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut commands = child.stdin.take().unwrap();
    let mut answers = BufReader::new(child.stdout.take().unwrap());
    for _ in 0..3 {
        writeln!(commands, "[\"cat\",\"t\"]").unwrap();
        let mut head = String::new();
        answers.read_line(&mut head).unwrap();
        assert_eq!(head, "{\"rc\":0,\"out\":40,\"err\":\"\"}\n");
        let mut data = [0; 40];
        answers.read_exact(&mut data).unwrap();
        assert_eq!(data[..], counting(10));
    }
    drop(commands);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
