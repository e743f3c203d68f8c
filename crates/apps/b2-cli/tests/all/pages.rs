//! Runs the commands in the `console` blocks of all pages, and compares the output with the pages.
#![cfg_attr(not(all(unix, feature = "hdf5", feature = "http")), allow(dead_code, unused_imports))]

use std::fs;
use std::path::{Path, PathBuf};
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

/// Returns the repository's README, that of this crate, and all pages in `docs`.
fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let mut pages = vec![root.join("README.md"), root.join("crates/apps/b2-cli/README.md")];
    let mut folders = vec![root.join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path);
            }
        }
    }
    pages.sort();
    pages
}

/// The commands find an array of `testdata`, and a packed one at `$URL/sst.b2nd`.
#[test]
#[cfg(all(unix, feature = "hdf5", feature = "http"))]
fn the_commands_of_all_pages_print_what_the_pages_say() {
    let array = "sea_surface_temperature.npy";
    let server = b2_testkit::web::Server::start().unwrap();
    let packed = Folder::new();
    packed.fixture(array, &format!("arrays/{array}"));
    packed.ok(&["pack", array, "sst.b2nd"]);
    let url = server.put("data/sst.b2nd", packed.read("sst.b2nd"));
    let url = url.strip_suffix("/sst.b2nd").unwrap();
    let mut count = 0;
    for page in pages() {
        let folder = Folder::new();
        folder.fixture(array, &format!("arrays/{array}"));
        fs::create_dir_all(folder.path("testdata/arrays")).unwrap();
        folder.fixture(&format!("testdata/arrays/{array}"), &format!("arrays/{array}"));
        count += check(&folder, &page, url);
    }
    assert!(count > 60, "{count} commands");
}

/// Runs the commands of a page in a directory, and returns how many there are.
#[cfg(unix)]
fn check(folder: &Folder, page: &Path, url: &str) -> usize {
    let program = Path::new(env!("CARGO_BIN_EXE_b2kit"));
    let path = format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let commands = commands(&fs::read_to_string(page).unwrap());
    for (command, expected) in &commands {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("{{ {command}\n}} 2>&1")]).current_dir(folder.path("."));
        shell.env("PATH", &path).env("URL", url).env("NO_PROXY", "127.0.0.1").env("no_proxy", "127.0.0.1");
        let output = String::from_utf8(shell.output().unwrap().stdout).unwrap();
        let lines: Vec<&str> = output.lines().map(str::trim_end).collect();
        let name = page.display();
        assert!(fits(expected, &lines), "{name}:\n$ {command}\n{output}\nexpected:\n{}", expected.join("\n"));
    }
    commands.len()
}

/// The page with the help of all commands; `B2KIT_BLESS=1` writes it.
#[test]
#[cfg(all(feature = "hdf5", feature = "http", feature = "terminal"))]
fn the_reference_has_the_help_of_all_commands() {
    let folder = Folder::new();
    let help = |args: &[&str]| {
        let text = folder.command(args).env("COLUMNS", "80").output().unwrap().stdout;
        let text = String::from_utf8(text).unwrap();
        let text: Vec<&str> = text.lines().map(str::trim_end).collect();
        let text = text.join("\n");
        text.trim_end()
            .trim_end_matches("Options of all commands (-q, -v, -t and others): b2kit --help.")
            .trim_end()
            .to_owned()
    };
    let main = help(&["--help"]);
    let mut page = format!(
        "# The command\n\nThe text of `b2kit --help`, and of `b2kit COMMAND --help` for each command. The options of \
         `b2kit` itself are those of all commands.\n\n```text\n{main}\n```\n"
    );
    let listed = main.lines().take_while(|line| *line != "Options:");
    for name in
        listed.filter_map(|line| line.strip_prefix("  ")?.split(' ').next().filter(|name| !name.is_empty()))
    {
        let text = help(&[name, "--help"]);
        let (about, rest) = text.split_once('\n').unwrap();
        page += &format!("\n## {name}\n\n{about}.\n\n```text\n{}\n```\n", rest.trim());
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/reference/command.md");
    if std::env::var_os("B2KIT_BLESS").is_some() {
        fs::write(&path, &page).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap();
    let differ = page.lines().zip(written.lines()).find(|(new, old)| new != old);
    assert!(
        page == written,
        "docs/reference/command.md: B2KIT_BLESS=1 writes it; first difference: {differ:?}"
    );
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
