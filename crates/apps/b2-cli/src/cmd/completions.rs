//! `b2kit completions`

mod bash;
mod words;

use std::fmt::Write;

use anyhow::Result;
use clap::{Arg, Command, ValueHint};
use clap_complete::Shell;

use self::words::{operand_words, takes_values};
use crate::files::destination;

const EXAMPLES: &str = "\
Examples:
  b2kit completions bash > ~/.local/share/bash-completion/completions/b2kit
  b2kit completions zsh > ~/.zfunc/_b2kit
  b2kit completions fish > ~/.config/fish/completions/b2kit.fish";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The shell that the script is for
    shell: Shell,
}

pub(crate) fn run(args: &Args, command: Command) -> Result<()> {
    let mut command = hinted(command);
    command.build();
    let script = match args.shell {
        Shell::Bash => bash::script(&command),
        shell => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut command, "b2kit", &mut script);
            let mut script = String::from_utf8(script)?;
            if shell == Shell::Fish {
                fish_operands(&mut script, &command);
            }
            script
        }
    };
    destination::print(&script)
}

/// Marks options that take neither files nor known words, so that nothing is offered for them, not even files.
fn hinted(command: Command) -> Command {
    let hint = |arg: Arg| match arg.get_value_hint() {
        ValueHint::Unknown if !arg.is_positional() && takes_values(&arg) => arg.value_hint(ValueHint::Other),
        _ => arg,
    };
    command.mut_args(hint).mut_subcommands(hinted)
}

/// The operands that are words, which clap's generator for fish omits.
fn fish_operands(script: &mut String, root: &Command) {
    for sub in root.get_subcommands() {
        let words = operand_words(sub, root);
        if !words.is_empty() {
            let (name, words) = (sub.get_name(), words.join(" "));
            // Writing to a string does not fail.
            let _ = writeln!(
                script,
                "complete -c b2kit -n \"__fish_b2kit_using_subcommand {name}\" -f -a \"{words}\""
            );
        }
    }
}
