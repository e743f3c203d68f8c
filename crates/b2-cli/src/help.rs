//! Builds the help pages from the definitions of the parser.
//!
//! `-h` fits on one screen, `--help` shows everything. Options of all commands are only on the first page.

use clap::builder::StyledStr;
use clap::{Arg, Command};

/// Default size of a terminal, in lines and columns.
const LINES: usize = 24;
const COLUMNS: usize = 80;

/// The commands, grouped by purpose. Commands that are in no group go to the last one.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Look", &["info", "show", "cat", "ls", "items"]),
    ("Make", &["pack", "unpack", "copy"]),
    ("Change", &["append", "set", "insert", "delete", "resize", "chunk", "vlmeta", "compact"]),
    ("Check", &["verify", "diff", "checksum", "salvage"]),
    ("More", &[]),
];

/// Options to keep in the short help of a command with many options, by their identifiers.
const KEPT: [&str; 12] = [
    "output",
    "directory",
    "force",
    "raw",
    "codec",
    "clevel",
    "filters",
    "chunks",
    "shape",
    "dtype",
    "slice",
    "quick",
];

const SHORT_EXAMPLES: &str = "\
Examples:
  b2kit pack data.npy data.b2nd          compress an array
  b2kit info data.b2nd                   see what is in it

All commands: b2kit --help. One command: b2kit pack -h, or pack --help.";

/// Sets up the help of all commands. `short` leaves out headings and some options.
pub(crate) fn pages(command: Command, short: bool) -> Command {
    let hidden: Vec<Arg> = globals(&command).map(|arg| arg.clone().hide(true)).collect();
    let command = command.mut_subcommands(|sub| page(sub.args(&hidden), "b2kit", short));
    let (brief, full) = (brief_list(&command), full_list(&command));
    command
        .mut_args(|arg| if arg.is_global_set() { arg.hide_short_help(true) } else { arg })
        .help_template("{about}\n\n{usage-heading} {usage}\n\n{before-help}Options:\n{options}{after-help}")
        .before_help(brief)
        .before_long_help(full)
        .after_help(SHORT_EXAMPLES)
}

/// The options that all commands have.
pub(crate) fn globals(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|arg| arg.is_global_set())
}

/// The groups with their commands.
pub(crate) fn groups(command: &Command) -> Vec<(&'static str, Vec<&Command>)> {
    let named = |sub: &&Command| GROUPS.iter().any(|(_, names)| names.contains(&sub.get_name()));
    let visible = || command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help");
    GROUPS
        .iter()
        .map(|(title, names)| match names {
            [] => (*title, visible().filter(|sub| !named(sub)).collect()),
            names => {
                let find = |name: &&str| visible().find(|sub| sub.get_name() == *name);
                (*title, names.iter().filter_map(find).collect())
            }
        })
        .collect()
}

/// One line for each group.
fn brief_list(command: &Command) -> StyledStr {
    let style = command.get_styles().get_header();
    let mut text = String::from("Commands:\n");
    for (title, commands) in groups(command) {
        let names: Vec<&str> = commands.iter().map(|sub| sub.get_name()).collect();
        text.push_str(&format!("  {style}{title:<6}{style:#}  {}\n", names.join(", ")));
    }
    text.into()
}

/// One line for each command.
fn full_list(command: &Command) -> StyledStr {
    let (header, literal) = (command.get_styles().get_header(), command.get_styles().get_literal());
    let mut text = String::new();
    for (title, commands) in groups(command) {
        text.push_str(&format!("{header}{title}:{header:#}\n"));
        for sub in commands {
            let about = sub.get_about().map(ToString::to_string).unwrap_or_default();
            text.push_str(&format!("  {literal}{:<11}{literal:#} {about}\n", sub.get_name()));
        }
        text.push('\n');
    }
    text.truncate(text.trim_end_matches('\n').len() + 1);
    text.into()
}

/// Sets the help page of a command.
fn page(command: Command, parent: &str, short: bool) -> Command {
    let path = format!("{parent} {}", command.get_name());
    let command = command.mut_subcommands(|sub| page(sub, &path, short)).bin_name(&path);
    let full = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    if !short {
        let common = "Options of all commands (-q, -v, -t and others): b2kit --help.";
        let text = if full.is_empty() { common.to_owned() } else { format!("{full}\n\n{common}") };
        return command.after_long_help(text);
    }
    let mut lines: Vec<&str> = full.split("\n\n").next().unwrap_or_default().lines().take(3).collect();
    if !lines.is_empty() {
        lines.push("");
    }
    let more = format!("More: {path} --help. Options of all commands: b2kit --help.");
    lines.push(&more);
    shortened(command.after_help(lines.join("\n")))
}

/// Hides options, the last ones first, until the page fits the screen. Options that few people need are hidden before
/// all others.
fn shortened(command: Command) -> Command {
    // The usage line already shows the positional arguments.
    let mut command = command.mut_args(|arg| {
        let positional = arg.is_positional();
        arg.help_heading(None::<&str>).hide_short_help(positional)
    });
    let options: Vec<_> =
        command.get_arguments().filter(|arg| !arg.is_hide_set() && !arg.is_positional()).collect();
    let ids = options.into_iter().map(|arg| arg.get_id().clone());
    let (kept, rare): (Vec<_>, Vec<_>) = ids.partition(|id| KEPT.contains(&id.as_str()));
    for id in rare.into_iter().rev().chain(kept.into_iter().rev()) {
        if command.clone().term_width(COLUMNS).render_help().to_string().trim_end().lines().count() <= LINES {
            break;
        }
        command = command.mut_arg(id, |arg| arg.hide_short_help(true));
    }
    command
}
