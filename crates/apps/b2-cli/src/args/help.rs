//! Builds the help pages from the definitions of the parser.
//!
//! `-h` fits on one screen, `--help` shows everything. Options of all commands are only on the first page.

use clap::builder::StyledStr;
use clap::{Arg, Command};

use crate::print::picture::columns;

/// Height of a typical terminal, in lines.
const LINES: usize = 24;
/// Maximum width of a line, in columns: longer ones are hard to read.
const COLUMNS: usize = 80;
/// Minimum width for wrapping, in columns.
const MIN_COLUMNS: usize = 30;

/// The commands, grouped by purpose. Commands without a group are in the last one.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Look", &["info", "show", "view", "cat", "ls", "items"]),
    ("Make", &["pack", "unpack", "copy"]),
    ("Change", &["append", "set", "insert", "delete", "resize", "chunk", "vlmeta", "compact"]),
    ("Check", &["verify", "diff", "checksum", "salvage"]),
    ("More", &[]),
];

/// Options to keep in the short help of a command with many options, by their identifiers.
const SHORT_HELP_OPTIONS: [&str; 12] = [
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

/// How much a help page shows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum HelpDetail {
    /// The short help, which fits on a screen: without headings and some options.
    Short,
    Full,
}

/// Sets up the help of all commands.
pub(crate) fn pages(command: Command, detail: HelpDetail) -> Command {
    let hidden: Vec<Arg> = globals(&command).map(|arg| arg.clone().hide(true)).collect();
    let width = columns().clamp(MIN_COLUMNS, COLUMNS);
    let command = command.mut_subcommands(|sub| page(sub.args(&hidden), "b2kit", detail, width));
    let (brief, full) = (brief_list(&command, width), full_list(&command, width));
    let after = flowing(&command.get_after_long_help().map(ToString::to_string).unwrap_or_default());
    command
        .term_width(width)
        .mut_args(|arg| if arg.is_global_set() { arg.hide_short_help(true) } else { arg })
        .help_template("{about}\n\n{usage-heading} {usage}\n\n{before-help}Options:\n{options}{after-help}")
        .before_help(brief)
        .before_long_help(full)
        .after_long_help(after)
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

/// Wraps a text whose first line starts in column `indent`, and indents the others.
pub(crate) fn hanging(text: &str, indent: usize, width: usize) -> String {
    let (mut out, mut at) = (String::new(), indent);
    for word in text.split(' ') {
        let len = word.chars().count();
        if at > indent && at + 1 + len > width {
            out.push('\n');
            out.push_str(&" ".repeat(indent));
            at = indent;
        } else if at > indent {
            out.push(' ');
            at += 1;
        }
        out.push_str(word);
        at += len;
    }
    out
}

/// One line for each group.
fn brief_list(command: &Command, width: usize) -> StyledStr {
    let style = command.get_styles().get_header();
    let mut text = String::from("Commands:\n");
    for (title, commands) in groups(command) {
        let names: Vec<&str> = commands.iter().map(|sub| sub.get_name()).collect();
        let names = hanging(&names.join(", "), 10, width);
        text.push_str(&format!("  {style}{title:<6}{style:#}  {names}\n"));
    }
    text.into()
}

/// One line for each command.
fn full_list(command: &Command, width: usize) -> StyledStr {
    let (header, literal) = (command.get_styles().get_header(), command.get_styles().get_literal());
    let mut text = String::new();
    for (title, commands) in groups(command) {
        text.push_str(&format!("{header}{title}:{header:#}\n"));
        for sub in commands {
            let about = sub.get_about().map(ToString::to_string).unwrap_or_default();
            let about = hanging(&about, 14, width);
            text.push_str(&format!("  {literal}{:<11}{literal:#} {about}\n", sub.get_name()));
        }
        text.push('\n');
    }
    text.truncate(text.trim_end_matches('\n').len() + 1);
    text.into()
}

/// A part of the text below the options of a help page.
#[derive(Debug, PartialEq)]
pub(crate) enum HelpSection {
    /// Lines that are not wrapped, without their indentation.
    Examples(Vec<String>),
    /// A paragraph, which is wrapped when it is shown.
    Text(String),
}

/// The parts of a text. Examples follow the line `Examples:`; all other lines are cut only to fit the source.
pub(crate) fn parts(text: &str) -> Vec<HelpSection> {
    let plain = |line: &str| line.strip_prefix("  ").unwrap_or(line).to_owned();
    let part = |block: &str| match block.strip_prefix("Examples:\n") {
        Some(lines) => HelpSection::Examples(lines.lines().map(plain).collect()),
        None => HelpSection::Text(block.lines().collect::<Vec<_>>().join(" ")),
    };
    text.split("\n\n").filter(|block| !block.is_empty()).map(part).collect()
}

/// A text whose paragraphs are single lines, for the parser to wrap.
fn flowing(text: &str) -> String {
    let line = |part| match part {
        HelpSection::Examples(lines) => format!("Examples:\n  {}", lines.join("\n  ")),
        HelpSection::Text(text) => text,
    };
    parts(text).into_iter().map(line).collect::<Vec<_>>().join("\n\n")
}

/// Sets the help page of a command.
fn page(command: Command, parent: &str, detail: HelpDetail, width: usize) -> Command {
    let path = format!("{parent} {}", command.get_name());
    let command = command.mut_subcommands(|sub| page(sub, &path, detail, width)).bin_name(&path);
    let full = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    if detail == HelpDetail::Full {
        let common = "Options of all commands (-q, -v, -t and others): b2kit --help.";
        let text =
            if full.is_empty() { common.to_owned() } else { format!("{}\n\n{common}", flowing(&full)) };
        return command.after_long_help(text);
    }
    let mut lines: Vec<&str> = full.split("\n\n").next().unwrap_or_default().lines().take(3).collect();
    if !lines.is_empty() {
        lines.push("");
    }
    let more = format!("More: {path} --help. Options of all commands: b2kit --help.");
    lines.push(&more);
    shortened(command.after_help(lines.join("\n")), width)
}

/// Hides options, the last ones first, until the page fits the screen. Options that few people need are hidden before
/// all others.
fn shortened(command: Command, width: usize) -> Command {
    // The usage line already shows the positional arguments.
    let mut command = command.mut_args(|arg| {
        let positional = arg.is_positional();
        arg.help_heading(None::<&str>).hide_short_help(positional)
    });
    let options: Vec<_> =
        command.get_arguments().filter(|arg| !arg.is_hide_set() && !arg.is_positional()).collect();
    let ids = options.into_iter().map(|arg| arg.get_id().clone());
    let (kept, rare): (Vec<_>, Vec<_>) = ids.partition(|id| SHORT_HELP_OPTIONS.contains(&id.as_str()));
    for id in rare.into_iter().rev().chain(kept.into_iter().rev()) {
        if command.clone().term_width(width).render_help().to_string().trim_end().lines().count() <= LINES {
            break;
        }
        command = command.mut_arg(id, |arg| arg.hide_short_help(true));
    }
    command
}
