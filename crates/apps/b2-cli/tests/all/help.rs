//! The help: what each page lists, and that it fits the screen. The manual page and the completions contain everything.

use crate::common::Folder;

/// Returns the commands listed by `b2kit --help`.
fn commands(folder: &Folder) -> Vec<String> {
    let help = folder.ok_text(&["--help"]);
    let lines = help.lines().take_while(|line| *line != "Options:");
    let entries = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names: Vec<String> =
        entries.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect();
    assert!(names.len() > 20, "{help}");
    names
}

fn assert_fits(page: &str, columns: usize) {
    for line in page.lines() {
        assert!(line.chars().count() <= columns, "{line:?} is too long in:\n{page}");
    }
}

#[test]
fn short_help_fits_one_screen() {
    let folder = Folder::new();
    let mut pages: Vec<Vec<String>> = commands(&folder).into_iter().map(|name| vec![name]).collect();
    pages.extend(
        [["chunk", "append"], ["vlmeta", "set"], ["checksum", "add"]]
            .map(|page| page.map(String::from).to_vec()),
    );
    for page in pages {
        let args: Vec<&str> = page.iter().map(String::as_str).chain(["-h"]).collect();
        let text = folder.ok_text(&args);
        assert!(text.lines().count() <= 24, "{} lines:\n{text}", text.lines().count());
        assert_fits(&text, 80);
        assert!(text.contains(&format!("More: b2kit {} --help", page.join(" "))), "{text}");
    }
    let text = folder.ok_text(&["pack", "-h"]);
    for shown in [
        "b2kit pack [OPTIONS] IN [OUT]",
        "-d DIR IN...",
        "--codec",
        "--clevel",
        "--filters",
        "--chunks",
        "Examples:",
    ] {
        assert!(text.contains(shown), "{shown} in:\n{text}");
    }
    assert!(!text.contains("--splitmode"), "{text}");
}

/// Paragraphs and lists are wrapped to the width of the terminal, and were not wrapped to another width before.
#[test]
fn help_is_wrapped_once() {
    let folder = Folder::new();
    let mut pages: Vec<Vec<String>> =
        commands(&folder).into_iter().map(|name| vec![name, "--help".into()]).collect();
    pages.extend([vec!["--help".to_owned()], vec!["-h".to_owned()]]);
    for columns in [50, 60, 80, 120] {
        for page in &pages {
            let args: Vec<&str> = page.iter().map(String::as_str).collect();
            let output = folder.command(&args).env("COLUMNS", columns.to_string()).output().unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            // Longer lines are hard to read.
            let width = columns.min(80);
            // The parser does not wrap the text after "Usage:".
            let usage = |line: &&str| line.starts_with("Usage: ") || line.starts_with("       b2kit ");
            let lines: Vec<&str> = text.lines().filter(|line| !usage(line)).collect();
            assert_fits(&lines.join("\n"), width);
            for (line, next) in lines.iter().zip(&lines[1..]) {
                let word = next.split(' ').next().unwrap();
                if line.starts_with(' ') || line.is_empty() || word.is_empty() {
                    continue;
                }
                let full = line.chars().count() + 1 + word.chars().count() > width;
                assert!(full, "{columns} columns: {line:?} has room for {word:?} in:\n{text}");
            }
        }
    }
    let output = folder.command(&["--help"]).env("COLUMNS", "60").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let list =
        "  show        Print the values as NumPy does, with minimum,\n              maximum and mean\n";
    assert!(text.contains(list), "{text}");
}

/// Options shared by all commands are on the first page only.
#[test]
fn global_options_are_shown_once() {
    let folder = Folder::new();
    let global = ["--quiet", "--verbose", "--threads", "--no-checksums", "--max-memory", "--max-output"];
    let first = folder.ok_text(&["--help"]);
    assert_fits(&first, 80);
    for option in global {
        assert_eq!(first.matches(option).count(), 1, "{option} in:\n{first}");
    }
    for name in commands(&folder) {
        let page = folder.ok_text(&[&name, "--help"]);
        assert_fits(&page, 80);
        for option in global {
            let listed = |line: &str| {
                let text = line.trim_start().trim_start_matches("-q, ").trim_start_matches("-v, ");
                line.starts_with(' ') && text.starts_with(option)
            };
            assert!(!page.lines().any(listed), "{option} in:\n{page}");
        }
        assert!(page.contains("b2kit --help"), "{page}");
    }
    // They work before and after the name of the command.
    folder.write("in", b"some bytes");
    folder.ok(&["pack", "in", "out", "-q", "-t", "1"]);
    folder.ok(&["--threads", "2", "cat", "out", "--max-memory", "none"]);
}

#[test]
fn without_arguments_there_are_groups_and_two_examples() {
    let folder = Folder::new();
    let text = folder.fails(2, &[]);
    assert!(text.lines().count() <= 24, "{text}");
    assert_fits(&text, 80);
    for group in ["Look", "Make", "Change", "Check", "More"] {
        assert!(text.lines().any(|line| line.starts_with(&format!("  {group} "))), "{group} in:\n{text}");
    }
    assert_eq!(text.matches("  b2kit ").count(), 2, "{text}");
    assert_eq!(folder.ok_text(&["-h"]), text);
    for name in commands(&folder) {
        let word = |line: &str| line.split([' ', ',']).any(|word| word == name);
        assert!(text.lines().any(word), "{name} in:\n{text}");
    }
}

/// Returns the options of a command, as `--help` lists them.
fn options(page: &str) -> Vec<String> {
    let words = page
        .lines()
        .filter(|line| line.trim_start().starts_with('-'))
        .flat_map(|line| line.split([' ', ',']));
    words
        .filter(|word| word.starts_with("--") && word.len() > 3)
        .map(|word| word.trim_end_matches("[=<BOOL>]").to_owned())
        .collect()
}

#[test]
fn the_manual_page_names_every_command_and_option() {
    let folder = Folder::new();
    let roff = folder.ok_text(&["man"]);
    assert!(roff.lines().any(|line| line.starts_with(".TH b2kit 1")), "{}", &roff[..300.min(roff.len())]);
    let plain = plain(&roff);
    for name in commands(&folder) {
        let heading = format!("B2KIT {}", name.to_uppercase());
        let section = plain.split("\n.SH ").find(|section| section.replace('"', "").starts_with(&heading));
        let section = section.unwrap_or_else(|| panic!("no section {heading}"));
        for option in options(&folder.ok_text(&[&name, "--help"])) {
            assert!(section.contains(&option), "{option} of {name} in:\n{section}");
        }
    }
    for option in options(&folder.ok_text(&["--help"])) {
        assert!(plain.contains(&option), "{option}");
    }
}

/// Returns the text of a page, without most of its markup.
fn plain(roff: &str) -> String {
    let escapes =
        [("\\-", "-"), ("\\fB", ""), ("\\fR", ""), ("\\fI", ""), ("\\*(Aq", "'"), ("\\&", ""), ("\\e", "\\")];
    escapes.iter().fold(roff.to_owned(), |text, (from, to)| text.replace(from, to))
}

#[test]
fn each_command_has_a_manual_page() {
    let folder = Folder::new();
    assert_eq!(folder.ok(&["man", "-d", "pages/man1"]), b"");
    let names = commands(&folder);
    let mut files: Vec<String> = std::fs::read_dir(folder.path("pages/man1"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    let mut expected: Vec<String> = names.iter().map(|name| format!("b2kit-{name}.1")).collect();
    expected.push("b2kit.1".into());
    expected.sort();
    assert_eq!(files, expected);
    let all = plain(&String::from_utf8(folder.read("pages/man1/b2kit.1")).unwrap());
    assert!(all.contains("\n.SH EXAMPLES\n") && all.contains("--max-memory"), "{all}");
    for name in names {
        let file = format!("pages/man1/b2kit-{name}.1");
        let roff = String::from_utf8(folder.read(&file)).unwrap();
        assert_eq!(folder.ok_text(&["man", &name]), roff);
        let page = plain(&roff);
        assert!(page.contains(&format!("\n.TH b2kit-{name} 1 ")), "{page}");
        let sections = ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXAMPLES", "\"SEE ALSO\""];
        for section in sections {
            // Some commands have no options except help.
            assert!(page.contains(&format!("\n.SH {section}\n")), "{section} in:\n{page}");
        }
        let examples = page.split("\n.SH EXAMPLES\n").nth(1).unwrap();
        assert!(examples.contains("b2kit"), "{page}");
        for option in options(&folder.ok_text(&[&name, "--help"])) {
            assert!(page.contains(&option), "{option} of {name} in:\n{page}");
        }
        assert!(all.contains(&format!("b2kit-{name}(1)")), "{all}");
    }
    assert_eq!(folder.ok(&["man", "compress"]), folder.ok(&["man", "pack"]));
    assert!(folder.fails(2, &["man", "nothing"]).contains("there is no command 'nothing'"));
    assert!(folder.fails(1, &["man", "-d", "pages/man1"]).contains("already exists; --force"));
    folder.ok(&["man", "-d", "pages/man1", "--force"]);
    check_with_groff(&folder, &["man"]);
    for file in files {
        let name = file.trim_start_matches("b2kit").trim_end_matches(".1").trim_start_matches('-');
        if !name.is_empty() {
            check_with_groff(&folder, &["man", name]);
        }
    }
}

/// The formatter finds nothing wrong with a page, where it is installed.
fn check_with_groff(folder: &Folder, args: &[&str]) {
    folder.write("page", &folder.ok(args));
    let mut groff = std::process::Command::new("groff");
    groff.args(["-ww", "-z", "-man", "-Tutf8", "-K", "utf8", "page"]).current_dir(folder.path("."));
    match groff.output() {
        Ok(output) => assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{args:?}"),
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{error}"),
    }
}

#[test]
fn completions_name_every_command() {
    let folder = Folder::new();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = folder.ok_text(&["completions", shell]);
        for name in commands(&folder) {
            assert!(script.contains(&name), "{shell}: {name}");
        }
        assert!(script.contains("splitmode"), "{shell}");
    }
}

#[test]
fn the_version_tells_what_is_built_in() {
    let folder = Folder::new();
    let text = folder.ok_text(&["--version"]);
    assert!(text.starts_with(&format!("b2kit {}\n", env!("CARGO_PKG_VERSION"))), "{text}");
    let line = |key: &str| {
        text.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_else(|| panic!("{key}: {text}"))
    };
    assert!(line("codecs: ").contains("zstd") && line("codecs: ").contains("lz4hc"), "{text}");
    let commit = line("commit: ");
    assert!(commit == "unknown" || commit.bytes().all(|byte| byte.is_ascii_hexdigit()), "{text}");
    assert!(line("instruction set: ").contains("generic"), "{text}");
    assert!(!text.contains('/'), "no paths: {text}");
    assert_eq!(folder.ok_text(&["-V"]), format!("b2kit {}\n", env!("CARGO_PKG_VERSION")));
    let generic = folder.command(&["--version"]).env("B2KIT_SIMD", "generic").output().unwrap();
    assert!(String::from_utf8(generic.stdout).unwrap().contains("instruction set: generic"));
}
