//! `b2kit man`

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Command;
use clap_mangen::Man;

use crate::args::help::{self, HelpSection};
use crate::files::{Output, destination};
use crate::process::Usage;

const EXAMPLES: &str = "\
Examples:
  b2kit man pack | man -l -              the page of a command
  b2kit man | man -l -                   all commands on one page
  b2kit man -d ~/.local/share/man/man1   then: man b2kit-pack

-d DIR gets b2kit.1, and a page for each command, such as b2kit-pack.1.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Print the page of this command
    #[arg(value_name = "COMMAND")]
    command: Option<String>,
    /// Write the pages of all commands into this folder
    #[arg(
        short,
        long,
        value_name = "DIR",
        value_hint = clap::ValueHint::DirPath,
        conflicts_with = "command"
    )]
    directory: Option<PathBuf>,
    /// Overwrite existing pages
    #[arg(long, requires = "directory")]
    force: bool,
}

pub(crate) fn run(args: &Args, command: Command) -> Result<()> {
    let mut root = help::pages(command, help::HelpDetail::Full);
    root.build();
    if let Some(dir) = &args.directory {
        fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
        let mut pages = vec![("b2kit.1".to_owned(), overview(&root)?)];
        for sub in commands(&root) {
            pages.push((format!("b2kit-{}.1", sub.get_name()), page(sub)?));
        }
        for (name, page) in pages {
            let mut output = Output::create(Some(&dir.join(name)), args.force)?;
            output.send(&page)?;
            output.finish()?;
        }
        return Ok(());
    }
    let text = match &args.command {
        None => everything(&root)?,
        Some(name) => {
            let named = |sub: &&Command| sub.get_name_and_visible_aliases().contains(&name.as_str());
            let unknown = || Usage(format!("man: there is no command '{name}'; b2kit --help lists them"));
            page(commands(&root).find(named).ok_or_else(unknown)?)?
        }
    };
    destination::print(&String::from_utf8(text)?)
}

/// The commands, by their groups.
fn commands(root: &Command) -> impl Iterator<Item = &Command> {
    help::groups(root).into_iter().flat_map(|(_, commands)| commands)
}

/// The page with all commands and options.
fn everything(root: &Command) -> io::Result<Vec<u8>> {
    let mut page = start(root)?;
    for sub in commands(root) {
        section(&mut page, sub)?;
    }
    Ok(page)
}

/// The page about everything that the commands share.
fn overview(root: &Command) -> io::Result<Vec<u8>> {
    let mut page = start(root)?;
    let pages: Vec<String> =
        commands(root).map(|sub| reference(&format!("b2kit-{}", sub.get_name()))).collect();
    writeln!(page, ".SH \"SEE ALSO\"\n{}", pages.join(",\n"))?;
    Ok(page)
}

/// The start of both pages: the list of commands, and their common options.
fn start(root: &Command) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    title(&mut page, "b2kit")?;
    let man = Man::new(root.clone());
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    writeln!(page, ".SH DESCRIPTION")?;
    let parts = help::parts(&root.get_after_long_help().map(ToString::to_string).unwrap_or_default());
    text(&mut page, &parts)?;
    for (title, commands) in help::groups(root) {
        writeln!(page, ".SS {title}")?;
        for sub in commands {
            writeln!(page, ".TP 14\n.B {}\n{}", sub.get_name(), escape(&about(sub)))?;
        }
    }
    man.render_options_section(&mut page)?;
    examples(&mut page, ".SH", &parts)?;
    Ok(page)
}

/// The page about one command and its subcommands.
fn page(command: &Command) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    let name = format!("b2kit-{}", command.get_name());
    title(&mut page, &name)?;
    writeln!(page, ".SH NAME\n{} \\- {}", escape(&name), escape(&about(command)))?;
    let man = Man::new(command.clone());
    man.render_synopsis_section(&mut page)?;
    let parts = parts_of(command);
    writeln!(page, ".SH DESCRIPTION\n{}.\n.PP", escape(&about(command)))?;
    text(&mut page, &parts)?;
    man.render_options_section(&mut page)?;
    subcommands(command).try_for_each(|sub| section(&mut page, sub))?;
    examples(&mut page, ".SH", &parts)?;
    writeln!(page, ".SH \"SEE ALSO\"\n{} lists the options of all commands.", reference("b2kit"))?;
    Ok(page)
}

/// Renders a section for a command and for each of its subcommands.
fn section(page: &mut Vec<u8>, command: &Command) -> io::Result<()> {
    let name = command.get_bin_name().unwrap_or(command.get_name());
    writeln!(page, ".SH {}\n{}.", escape(&name.to_uppercase()), escape(&about(command)))?;
    let man = Man::new(command.clone());
    let mut sections = Vec::new();
    man.render_synopsis_section(&mut sections)?;
    man.render_options_section(&mut sections)?;
    // Make them subsections of this section.
    for line in sections.split_inclusive(|byte| *byte == b'\n') {
        match line.strip_prefix(b".SH ") {
            Some(title) => page.extend([b".SS ", title].concat()),
            None => page.extend(line),
        }
    }
    let parts = parts_of(command);
    writeln!(page, ".PP")?;
    text(page, &parts)?;
    examples(page, ".SS", &parts)?;
    subcommands(command).try_for_each(|sub| section(page, sub))
}

fn subcommands(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|sub| sub.get_name() != "help")
}

fn about(command: &Command) -> String {
    command.get_about().map(ToString::to_string).unwrap_or_default()
}

/// The text of a command, without references to other help pages.
fn parts_of(command: &Command) -> Vec<HelpSection> {
    help::parts(&command.get_after_help().map(ToString::to_string).unwrap_or_default())
}

/// Starts a page.
fn title(page: &mut Vec<u8>, name: &str) -> io::Result<()> {
    // Defines a plain apostrophe where the formatter supports it, as `clap_mangen` does.
    writeln!(page, ".ie \\n(.g .ds Aq \\(aq\n.el .ds Aq '")?;
    let version = env!("CARGO_PKG_VERSION");
    writeln!(page, ".TH {} 1 \"\" \"b2kit {version}\" \"b2kit manual\"", escape(name))
}

/// The name of another page.
fn reference(name: &str) -> String {
    format!("\\fB{}\\fR(1)", escape(name))
}

/// Writes paragraphs, to be wrapped by the formatter.
fn text(page: &mut Vec<u8>, parts: &[HelpSection]) -> io::Result<()> {
    for part in parts {
        if let HelpSection::Text(text) = part {
            writeln!(page, "{}\n.PP", escape(text))?;
        }
    }
    Ok(())
}

/// Writes the examples, which are not wrapped.
fn examples(page: &mut Vec<u8>, heading: &str, parts: &[HelpSection]) -> io::Result<()> {
    for part in parts {
        if let HelpSection::Examples(lines) = part {
            writeln!(page, "{heading} EXAMPLES\n.nf")?;
            lines.iter().try_for_each(|line| writeln!(page, "{}", escape(line)))?;
            writeln!(page, ".fi")?;
        }
    }
    Ok(())
}

/// Escapes text that roff would interpret.
fn escape(text: &str) -> String {
    let escaped = text.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\*(Aq");
    if escaped.starts_with('.') { format!("\\&{escaped}") } else { escaped }
}
