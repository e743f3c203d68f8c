//! `b2kit completions`

use anyhow::Result;
use clap_complete::Shell;

use crate::output;

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

pub(crate) fn run(args: &Args, mut command: clap::Command) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "b2kit", &mut script);
    output::print(&String::from_utf8(script)?)
}
