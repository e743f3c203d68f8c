//! Output to terminals: colours and progress bars if the terminal supports them and the user wants them.

use crate::common::terminal::run;
use crate::common::{Folder, counting, noise, npy};

/// Runs a command in a terminal of this kind. Returns its output.
fn screen(folder: &Folder, args: &[&str], term: &str, no_color: &str) -> String {
    let mut command = folder.command(args);
    command.env("TERM", term).env("NO_COLOR", no_color).env_remove("CLICOLOR_FORCE").env_remove("CI");
    run(&mut command, 80, b"").1
}

/// Whether a text moves the cursor or changes colours.
fn has_controls(text: &str) -> bool {
    text.replace("\r\n", "\n").contains(|c: char| c.is_control() && c != '\n' && c != '\t')
}

#[test]
fn colours_are_for_terminals_that_have_them() {
    let folder = Folder::new();
    folder.pack("a", &npy("<i4", false, "(20, 50)", &counting(1000)), &[]);
    for args in [
        &["--help"][..],
        &["-h"],
        &[],
        &["pack", "--help"],
        &["help", "chunk"],
        &["pack", "--no-such-option"],
        &["show", "a"],
    ] {
        let coloured = screen(&folder, args, "xterm-256color", "");
        assert!(has_controls(&coloured), "{args:?}: {coloured}");
        for (term, no_color) in [("xterm-256color", "1"), ("dumb", ""), ("dumb", "1")] {
            let plain = screen(&folder, args, term, no_color);
            assert!(!plain.is_empty() && !has_controls(&plain), "{args:?}, {term}, {no_color}: {plain:?}");
        }
    }
    // A CI service does not enable colours on a dumb terminal, but an explicit request does.
    for (variable, coloured) in [("CI", false), ("CLICOLOR_FORCE", true)] {
        let mut command = folder.command(&["--help"]);
        command.env("TERM", "dumb").env_remove("CI").env_remove("CLICOLOR_FORCE").env_remove("NO_COLOR");
        let seen = run(command.env(variable, "1"), 80, b"").1;
        assert_eq!(has_controls(&seen), coloured, "{variable}: {seen:?}");
    }
    // An explicit request for a picture is honoured.
    assert!(has_controls(&screen(&folder, &["show", "a", "--picture"], "dumb", "")));
}

#[test]
fn bars_are_drawn_where_the_cursor_moves() {
    let folder = Folder::new();
    let args = [
        "pack",
        "in",
        "out",
        "--force",
        "--raw",
        "-t",
        "1",
        "-9",
        "--filters",
        "none",
        "--chunksize",
        "256K",
    ];
    // A bar appears only if the work takes long, as for bytes with four random bits each.
    let piece: Vec<u8> = noise(1 << 20).into_iter().map(|byte| byte & 15).collect();
    let drawn = [3, 12, 48, 192].into_iter().find_map(|mib| {
        folder.write("in", &piece.repeat(mib));
        let seen = screen(&folder, &args, "xterm", "");
        has_controls(&seen).then_some(seen)
    });
    let drawn = drawn.expect("a bar");
    assert!(drawn.contains("MiB/"), "{drawn:?}");
    let plain = screen(&folder, &args, "dumb", "");
    assert!(plain.starts_with("in -> out  ") && plain.lines().count() == 1, "{plain:?}");
    assert!(!has_controls(&plain), "{plain:?}");
    assert_eq!(screen(&folder, &[&args[..], &["-q"]].concat(), "xterm", ""), "");
    // Without colours, the bar is shown uncoloured.
    let bar = screen(&folder, &args, "xterm", "1");
    assert!(!bar.contains("\x1b[3") && !bar.contains("\x1b[1m"), "{bar:?}");
}
