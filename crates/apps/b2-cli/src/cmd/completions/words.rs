//! The words that arguments take, for the scripts that complete them.

use clap::{Arg, Command};

/// Whether an option takes values.
pub(super) fn takes_values(arg: &Arg) -> bool {
    arg.get_action().takes_values()
}

/// The words that an argument takes; empty if it also takes others.
pub(super) fn words(arg: &Arg) -> Vec<String> {
    if !takes_values(arg) {
        return Vec::new();
    }
    let values = arg.get_possible_values();
    values.iter().filter(|value| !value.is_hide_set()).map(|value| value.get_name().to_owned()).collect()
}

/// The words that a command takes as operands; empty if it also takes others.
pub(super) fn operand_words(command: &Command, root: &Command) -> Vec<String> {
    if command.get_name() == "man" {
        // `help` takes the names of the other commands.
        return root
            .get_subcommands()
            .map(|sub| sub.get_name().to_owned())
            .filter(|name| name != "help")
            .collect();
    }
    command.get_positionals().flat_map(words).collect()
}
