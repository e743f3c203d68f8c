//! Completions that the shells offer for Tab.

use std::process::Command;

use crate::common::Folder;

/// Returns the completions of the function for bash: the words, and `files`, `folders` or nothing. The last of `words` is
/// completed.
fn offered(folder: &Folder, words: &[&str]) -> Vec<String> {
    folder.write("script", &folder.ok(&["completions", "bash"]));
    // `compopt` works only while readline completes.
    let program = r#"
        files=yes folders=
        compopt() { [[ "$*" == *"+o default"* ]] && files=; [[ "$*" == *"-o dirnames"* ]] && folders=yes; return 0; }
        source ./script
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
        _b2kit b2kit "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        for word in "${COMPREPLY[@]}"; do echo "$word"; done
        if [[ $folders ]]; then echo /folders; elif [[ $files ]]; then echo /files; fi
    "#;
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-c", program, "bash", "b2kit"]).args(words).current_dir(folder.path("."));
    let output = bash.output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{words:?}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
#[cfg(unix)]
fn bash_offers_files_where_files_are_expected() {
    let folder = Folder::new();
    for words in [
        &["info", ""][..],
        &["info", "da"],
        &["-q", "info", ""],
        &["-t", "2", "verify", "a", "b", ""],
        &["pack", "--codec", "zstd", "a.npy", ""],
        &["pack", "--force", ""],
        &["compress", ""],
        &["chunk", "append", ""],
        &["vlmeta", "set", ""],
        &["checksum", "add", ""],
        &["cat", "a", "-o", ""],
        &["cat", "a", "--output", "x"],
        &["cat", "a", "--output", "=", "x"],
        &["cat", "--", "-"],
        &["pack", "--dict", ""],
    ] {
        assert_eq!(offered(&folder, words), ["/files"], "{words:?}");
    }
    assert_eq!(offered(&folder, &["unpack", "-d", ""]), ["/folders"]);
    for words in [&["pack", "--clevel", ""][..], &["-t", ""], &["cat", "a", "--slice", "=", "1"]] {
        assert_eq!(offered(&folder, words), [""; 0], "{words:?}");
    }
}

#[test]
#[cfg(unix)]
fn bash_offers_commands_options_and_values() {
    let folder = Folder::new();
    let all = offered(&folder, &[""]);
    assert!(["info", "compress", "list", "help"].iter().all(|name| all.iter().any(|word| word == name)));
    assert!(!all.iter().any(|word| word.starts_with('-')), "{all:?}");
    for (words, expected) in [
        (&["unp"][..], &["unpack"][..]),
        (&["help", "uns"], &[]),
        (&["help", "unp"], &["unpack"]),
        (&["checksum", ""], &["add", "remove", "help"]),
        (&["completions", "z"], &["zsh"]),
        (&["man", "unp"], &["unpack"]),
        (&["pack", "--no-s"], &["--no-sync"]),
        (&["pack", "a", "--codec", "z"], &["zlib", "zstd", "zfp_acc", "zfp_prec", "zfp_rate"]),
        (&["copy", "a", "b", "--codec", "=", "lz"], &["lz4", "lz4hc"]),
        (&["pack", "--filters", "bi"], &["bitshuffle"]),
        // Bash splits words at colons, and replaces the text after the last one.
        (&["pack", "--filters", "delta,trunc_prec", ":", "10,by"], &["10,bytedelta"]),
        (&["pack", "--filters", "=", "delta,bit"], &["delta,bitshuffle"]),
        // Bash can be configured not to split.
        (&["pack", "--codec=lz"], &["--codec=lz4", "--codec=lz4hc"]),
        (&["pack", "--format", ""], &["cframe", "sframe", "chunk"]),
        (&["pack", "--splitmode", "a"], &["always", "auto"]),
        (&["pack", "--goal", "s"], &["speed", "size"]),
        (&["info", "--compare", ""], &["always", "once", "never"]),
        (&["pack", "--dict", "=", ""], &["true", "false"]),
        (&["bench", "--op", "compress,de"], &["compress,decompress"]),
    ] {
        assert_eq!(offered(&folder, words), expected, "{words:?}");
    }
    let options = offered(&folder, &["info", "-"]);
    assert!(options.contains(&"--json".to_owned()) && options.contains(&"-q".to_owned()), "{options:?}");
    assert!(!options.contains(&"--codec".to_owned()), "{options:?}");
}

/// The script works in an interactive shell.
#[test]
#[cfg(target_os = "linux")]
fn tab_completes_in_bash() {
    let folder = Folder::new();
    folder.write("data with blanks.npy", b"");
    folder.write("script", &folder.ok(&["completions", "bash"]));
    let program =
        "source ./script\nb2kit() { printf '%s\\n' \"$@\" > \"$result\"; }\nbind 'set bell-style none'\n";
    folder.write("rc", program.as_bytes());
    for (n, (typed, expected)) in [
        ("b2kit unp\tdat\t\n", &["unpack", "data with blanks.npy"][..]),
        ("b2kit pack --codec=blo\tdat\t\n", &["pack", "--codec=blosclz", "data with blanks.npy"]),
        ("b2kit pack --output=dat\t\n", &["pack", "--output=data with blanks.npy"]),
        (
            "b2kit pack --filters trunc_prec:10,by\t--goal=sp\t\n",
            &["pack", "--filters", "trunc_prec:10,bytedelta", "--goal=speed"],
        ),
        ("b2kit pack --dict=t\t--goal=\tspeed\n", &["pack", "--dict=true", "--goal=speed"]),
    ]
    .into_iter()
    .enumerate()
    {
        let result = format!("result{n}");
        let mut bash = Command::new("setsid");
        bash.args(["--wait", "bash", "--noprofile", "--rcfile", "rc", "-i"]);
        bash.current_dir(folder.path(".")).env("result", &result).env("TERM", "dumb").env("HISTFILE", "");
        let screen = crate::common::terminal::run(&mut bash, 80, format!("{typed}exit\n").as_bytes()).1;
        let got = std::fs::read_to_string(folder.path(&result)).unwrap_or_else(|_| panic!("{screen}"));
        assert_eq!(got.lines().collect::<Vec<_>>(), expected, "{typed:?}: {screen}");
    }
}

#[test]
fn zsh_and_fish_offer_values_and_files() {
    let folder = Folder::new();
    let zsh = folder.ok_text(&["completions", "zsh"]);
    let fish = folder.ok_text(&["completions", "fish"]);
    for line in [":NAME:(blosclz lz4 lz4hc zlib zstd pco auto", ":LIST:(shuffle bitshuffle", ":DIR:_files -/"]
    {
        assert!(zsh.contains(line), "{line} in:\n{zsh}");
    }
    assert!(zsh.lines().any(|line| line.starts_with("'*::files -- ") && line.contains(":_files'")), "{zsh}");
    assert!(zsh.contains("--clevel=[") && !zsh.contains(":0..9:_default"), "no files for a number");
    assert!(fish.lines().any(|line| line.contains(" -l codec ") && line.contains(" -r -f -a \"blosclz")));
    assert!(fish.lines().any(|line| line.contains(" -l clevel ") && line.ends_with(" -r -f")));
    assert!(fish.contains("__fish_b2kit_using_subcommand completions\" -f -a \"bash elvish fish"), "{fish}");
}
