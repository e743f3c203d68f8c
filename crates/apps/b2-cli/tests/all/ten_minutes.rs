//! Runs the commands of `docs/ten-minutes.md` and of the two READMEs, and compares what they print.

use std::process::Command;

use crate::common::Folder;

/// Returns the commands of the code blocks, each with the lines it must print.
fn commands(document: &str) -> Vec<(String, Vec<String>)> {
    let mut out: Vec<(String, Vec<String>)> = Vec::new();
    let mut inside = false;
    for line in document.lines() {
        if line.starts_with("```") {
            inside = line == "```console";
            continue;
        }
        match (inside, line.strip_prefix("$ "), out.last_mut()) {
            (true, Some(command), _) => out.push((command.to_owned(), vec![])),
            (true, None, Some((_, lines))) => lines.push(line.to_owned()),
            _ => {}
        }
    }
    out
}

/// `...` matches any text, or, alone on a line, any number of lines.
fn fits(expected: &[String], lines: &[&str]) -> bool {
    match expected.split_first() {
        None => lines.is_empty(),
        Some((any, rest)) if any == "..." => (0..=lines.len()).any(|skip| fits(rest, &lines[skip..])),
        Some((pattern, rest)) => {
            lines.split_first().is_some_and(|(line, after)| fits_line(pattern, line) && fits(rest, after))
        }
    }
}

fn fits_line(pattern: &str, line: &str) -> bool {
    let mut parts = pattern.split("...");
    let Some(mut rest) = parts.next().and_then(|start| line.strip_prefix(start)) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[test]
#[cfg(unix)]
fn the_transcript_is_true() {
    let folder = Folder::new();
    folder.fixture("sea_surface_temperature.npy", "arrays/sea_surface_temperature.npy");
    check(&folder, include_str!("../../../../../docs/ten-minutes.md"), 13);
}

#[test]
#[cfg(unix)]
fn the_readme_is_true() {
    let folder = Folder::new();
    std::fs::create_dir_all(folder.path("testdata/arrays")).unwrap();
    let array = "arrays/sea_surface_temperature.npy";
    folder.fixture(&format!("testdata/{array}"), array);
    check(&folder, include_str!("../../../../../README.md"), 3);
}

#[test]
#[cfg(unix)]
fn the_readme_of_the_command_is_true() {
    let folder = Folder::new();
    folder.fixture("sea_surface_temperature.npy", "arrays/sea_surface_temperature.npy");
    check(&folder, include_str!("../../README.md"), 6);
}

/// Runs the commands of a document in a directory. Fails if there are fewer than `at_least`.
#[cfg(unix)]
#[track_caller]
fn check(folder: &Folder, document: &str, at_least: usize) {
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_b2kit"));
    let path = format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let commands = commands(document);
    assert!(commands.len() >= at_least, "the document has commands");
    for (command, expected) in commands {
        let mut shell = Command::new("sh");
        shell
            .args(["-c", &format!("{{ {command}\n}} 2>&1")])
            .current_dir(folder.path("."))
            .env("PATH", &path);
        let output = String::from_utf8(shell.output().unwrap().stdout).unwrap();
        let lines: Vec<&str> = output.lines().map(str::trim_end).collect();
        assert!(fits(&expected, &lines), "$ {command}\n{output}\nexpected:\n{}", expected.join("\n"));
    }
}

#[test]
fn patterns() {
    let fits = |expected: &[&str], lines: &[&str]| {
        fits(&expected.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>(), lines)
    };
    assert!(fits(&["a...c", "...", "e"], &["abc", "x", "y", "e"]));
    assert!(fits(&["a", "..."], &["a"]));
    assert!(fits(&["[1 ... 3 ... 5]"], &["[1 2 3 4 5]"]));
    assert!(!fits(&["a...c"], &["ab"]) && !fits(&["a"], &["a", "b"]) && !fits(&["a", "b"], &["a"]));
}
