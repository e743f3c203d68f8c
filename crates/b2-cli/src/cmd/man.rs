//! `b2kit man`

use std::io::{self, Write};

use anyhow::Result;
use clap::Command;
use clap_mangen::Man;

use crate::{help, output};

const EXAMPLES: &str = "\
Examples:
  b2kit man | man -l -
  b2kit man > ~/.local/share/man/man1/b2kit.1";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {}

pub(crate) fn run(command: Command) -> Result<()> {
    let mut page = Vec::new();
    render(&mut page, command)?;
    output::print(&String::from_utf8(page)?)
}

/// Renders a single page with all commands and options.
fn render(page: &mut Vec<u8>, command: Command) -> io::Result<()> {
    let mut command = help::pages(command, false);
    command.build();
    let examples = command.get_after_help().map(ToString::to_string);
    let man = Man::new(command.clone()).section("1").manual("b2kit manual");
    man.render_title(page)?;
    man.render_name_section(page)?;
    man.render_synopsis_section(page)?;
    writeln!(page, ".SH DESCRIPTION")?;
    writeln!(page, "Files are recognised by content, never by their name.")?;
    for (title, commands) in help::groups(&command) {
        writeln!(page, ".SS {title}")?;
        for sub in commands {
            let about = sub.get_about().map(ToString::to_string).unwrap_or_default();
            writeln!(page, ".TP 14\n.B {}\n{}", sub.get_name(), escape(&about))?;
        }
    }
    man.render_options_section(page)?;
    if let Some(examples) = examples {
        literally(page, &examples)?;
    }
    for (_, commands) in help::groups(&command) {
        for sub in commands {
            section(page, sub)?;
        }
    }
    Ok(())
}

/// Renders a section for a command and for each of its subcommands.
fn section(page: &mut Vec<u8>, command: &Command) -> io::Result<()> {
    let name = command.get_bin_name().unwrap_or(command.get_name());
    writeln!(page, ".SH {}", escape(&name.to_uppercase()))?;
    let about = command.get_long_about().or(command.get_about()).map(ToString::to_string);
    writeln!(page, "{}.", escape(&about.unwrap_or_default()))?;
    let man = Man::new(command.clone());
    let mut parts = Vec::new();
    man.render_synopsis_section(&mut parts)?;
    man.render_options_section(&mut parts)?;
    // Make them subsections of this section.
    for line in parts.split_inclusive(|byte| *byte == b'\n') {
        match line.strip_prefix(b".SH ") {
            Some(title) => page.extend([b".SS ", title].concat()),
            None => page.extend(line),
        }
    }
    if let Some(text) = command.get_after_long_help() {
        let text = text.to_string();
        // Leave out the text after the last blank line, which refers to the global options: they are on this page.
        literally(page, text.rsplit_once("\n\n").map_or("", |(text, _)| text))?;
    }
    command.get_subcommands().filter(|sub| sub.get_name() != "help").try_for_each(|sub| section(page, sub))
}

/// Writes preformatted text.
fn literally(page: &mut Vec<u8>, text: &str) -> io::Result<()> {
    if text.is_empty() {
        return Ok(());
    }
    writeln!(page, ".PP\n.nf")?;
    text.lines().try_for_each(|line| writeln!(page, "{}", escape(line)))?;
    writeln!(page, ".fi")
}

/// Escapes text that roff would interpret.
fn escape(text: &str) -> String {
    let escaped = text.replace('\\', "\\e").replace('-', "\\-");
    if escaped.starts_with(['.', '\'']) { format!("\\&{escaped}") } else { escaped }
}
