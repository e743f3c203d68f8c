//! The script for bash. The generator of `clap_complete` offers options where files are expected.

use std::fmt::Write;

use clap::{Arg, Command, ValueHint};

use super::words::{operand_words, takes_values, words};

/// Offers what bash itself offers for the name of a file or a folder.
const FILES: &str = "files";
const FOLDERS: &str = "folders";
/// Offers nothing: a number, for example.
const NOTHING: &str = "nothing";

const START: &str = r#"# Completes command lines of b2kit in bash.

_b2kit() {
    local IFS=$' \t\n' command=b2kit at word head start key value ended= options= operands= values= list= one
    COMPREPLY=()
    # The command, and whether only operands follow.
    for ((at = 1; at < COMP_CWORD; at++)); do
        word=${COMP_WORDS[at]}
        if [[ $word == -- ]]; then
            ended=yes
            break
        fi
        case "$command $word" in
"#;

const MIDDLE: &str = r#"        esac
    done
    # The whole word, which bash has cut at each '=' and ':', and the part of it that is unchanged.
    at=$COMP_CWORD
    word=${COMP_WORDS[at]}
    while ((at > 1)) && [[ $word == [=:]* || ${COMP_WORDS[at - 1]} == [=:] ]]; do
        word=${COMP_WORDS[--at]}$word
    done
    head=$word
    if [[ $2 != [=:] ]]; then
        [[ $word == *"$2" ]] || word=$2
        head=${word%"$2"}
    fi
    # The option whose value is completed, and the value so far.
    key=${COMP_WORDS[at - 1]}
    start=
    if [[ $word == --*=* ]]; then
        key=${word%%=*}=
        start=$key
    fi
    value=${word#"$start"}
    case $command in
"#;

const END: &str = r#"    esac
    if [[ $ended ]]; then
        values=$operands
        start=
        value=$word
        list=
    elif [[ -z $values && $word == -* && -z $start ]]; then
        values=$options
    elif [[ -z $values ]]; then
        values=$operands
    fi
    case $values in
        files) ;;
        folders) compopt -o dirnames +o default +o bashdefault 2>/dev/null ;;
        nothing) compopt +o default +o bashdefault 2>/dev/null ;;
        *)
            if [[ $list && $value == *,* ]]; then
                start+=${value%,*},
                value=${value##*,}
            fi
            for one in $values; do
                if [[ $one == "$value"* ]]; then
                    one=$start$one
                    COMPREPLY+=("${one#"$head"}")
                fi
            done
            compopt +o default +o bashdefault 2>/dev/null
            ;;
    esac
    return 0
}

if [[ ${BASH_VERSINFO[0]} -gt 4 || ${BASH_VERSINFO[0]} -eq 4 && ${BASH_VERSINFO[1]} -ge 4 ]]; then
    complete -F _b2kit -o nosort -o bashdefault -o default b2kit
else
    complete -F _b2kit -o bashdefault -o default b2kit
fi
"#;

/// The script for a command that is built.
pub(super) fn script(root: &Command) -> String {
    let (mut found, mut cases) = (String::new(), String::new());
    add(&mut found, &mut cases, root, (root, root.get_name()));
    format!("{START}{found}{MIDDLE}{cases}{END}")
}

/// Adds the lines for the command named `path` and for its subcommands. Writing to a string does not fail.
fn add(found: &mut String, cases: &mut String, root: &Command, (command, path): (&Command, &str)) {
    let subs = || command.get_subcommands();
    for sub in subs() {
        let names = sub.get_name_and_visible_aliases();
        let patterns: Vec<String> = names.iter().map(|name| format!("\"{path} {name}\"")).collect();
        let _ =
            writeln!(found, "            {}) command=\"{path} {}\" ;;", patterns.join(" | "), sub.get_name());
    }
    let shown = || command.get_arguments().filter(|arg| !arg.is_hide_set() && !arg.is_positional());
    let options: Vec<String> = shown().flat_map(names).collect();
    let _ = writeln!(cases, "        \"{path}\")");
    let _ = writeln!(cases, "            options='{}'", options.join(" "));
    let _ = writeln!(cases, "            operands='{}'", operands(command, root));
    let valued: Vec<&Arg> = shown().filter(|arg| takes_values(arg)).collect();
    if !valued.is_empty() {
        let _ = writeln!(cases, "            case $key in");
        for arg in valued {
            let list = if is_list(arg) { " list=yes" } else { "" };
            let _ = writeln!(
                cases,
                "                {}) values='{}'{list} ;;",
                keys(arg).join(" | "),
                kind(arg).unwrap_or_else(|| NOTHING.into())
            );
        }
        let _ = writeln!(cases, "            esac");
    }
    let _ = writeln!(cases, "            ;;");
    // `help` takes the names of commands, but none of their options.
    for sub in subs().filter(|_| command.get_name() != "help") {
        add(found, cases, root, (sub, &format!("{path} {}", sub.get_name())));
    }
}

/// The names of an option, long and short.
fn names(arg: &Arg) -> Vec<String> {
    let long = arg.get_long_and_visible_aliases().unwrap_or_default();
    let short = arg.get_short_and_visible_aliases().unwrap_or_default();
    let long = long.iter().map(|name| format!("--{name}"));
    long.chain(short.iter().map(|name| format!("-{name}"))).collect()
}

/// The text before a value: the name of the option, perhaps with an equals sign.
fn keys(arg: &Arg) -> Vec<String> {
    let names = names(arg);
    let with = names.iter().filter(|name| name.starts_with("--")).map(|name| format!("{name}="));
    if arg.is_require_equals_set() { with.collect() } else { names.iter().cloned().chain(with).collect() }
}

/// Whether the values of an option are separated by commas.
fn is_list(arg: &Arg) -> bool {
    let named = arg.get_value_names().is_some_and(|names| names.iter().any(|name| name.as_str() == "LIST"));
    arg.get_value_delimiter().is_some() || named && kind(arg).is_some_and(|kind| kind != FILES)
}

/// Completions for the value of an argument; `None` if unknown.
fn kind(arg: &Arg) -> Option<String> {
    let words = words(arg);
    match arg.get_value_hint() {
        _ if !words.is_empty() => Some(words.join(" ")),
        ValueHint::AnyPath | ValueHint::FilePath => Some(FILES.into()),
        ValueHint::DirPath => Some(FOLDERS.into()),
        _ => None,
    }
}

/// Completions for the operands of a command: its subcommands, or the values of the first operand of a known kind.
fn operands(command: &Command, root: &Command) -> String {
    let subs: Vec<&str> = command.get_subcommands().flat_map(Command::get_name_and_visible_aliases).collect();
    if !subs.is_empty() {
        return subs.join(" ");
    }
    let words = operand_words(command, root);
    if !words.is_empty() {
        return words.join(" ");
    }
    command.get_positionals().find_map(kind).unwrap_or_else(|| NOTHING.into())
}
