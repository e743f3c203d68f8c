//! The command line: the list of commands, and which of them is run.

use std::ffi::OsString;

use anyhow::Result;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ColorChoice, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::args::help::HelpDetail;
use crate::args::{Global, help};
use crate::cmd;
use crate::files::{retry_read, urls};
use crate::process::{capture, outcome, signals};

const EXAMPLES: &str = "\
Examples:
  b2kit info data.b2nd                   see what is in it
  b2kit pack data.npy data.b2nd          compress an array
  b2kit unpack data.b2nd                 and back: data.npy
  b2kit cat data.b2nd --slice=0,10:20    a part of it, as raw bytes
  b2kit verify *.b2nd                    decode everything, print hashes

Files are recognised by content, never by their name. Exit code: 0 success,
1 the file or the request is bad, 2 wrong command line, 3 verify: not all could
be checked.";

/// Look into, read, write and change Blosc2 files
#[derive(Debug, Parser)]
#[command(
    name = "b2kit",
    version,
    long_version = crate::args::version::long(),
    after_long_help = EXAMPLES,
    subcommand_value_name = "COMMAND"
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show what a file holds
    Info(cmd::info::Args),
    /// Print the values as NumPy does, with minimum, maximum and mean
    Show(cmd::show::Args),
    /// View the data: as a PNG or SVG picture, or on the whole screen
    View(cmd::view::Args),
    /// Write the decompressed data to standard output or a file
    Cat(cmd::cat::Args),
    /// Decode everything, and print size and SHA-256 of each file
    Verify(cmd::verify::Args),
    /// Compress .npy files or raw bytes into new files
    #[command(visible_alias = "compress")]
    Pack(cmd::pack::Args),
    /// Decompress files into .npy files or raw bytes
    #[command(visible_alias = "decompress")]
    Unpack(cmd::unpack::Args),
    /// Copy a file to another format, chunk shape or compression
    Copy(cmd::copy::Args),
    /// Convert HDF5, NetCDF, Zarr, NIfTI and .npz files to arrays and back, or list their contents
    #[cfg(feature = "hdf5")]
    Convert(cmd::convert::Args),
    /// Add data at the end
    Append(cmd::append::Args),
    /// Overwrite items
    Set(cmd::set::Args),
    /// Change the shape of an array
    Resize(cmd::resize::Args),
    /// Insert data along a dimension of an array
    Insert(cmd::insert::Args),
    /// Delete positions along a dimension of an array
    Delete(cmd::delete::Args),
    /// Append, insert, update or delete whole chunks of a super-chunk
    Chunk(cmd::chunk::Args),
    /// List, set, get or delete metadata of variable size
    Vlmeta(cmd::vlmeta::Args),
    /// Add checksums to files, or remove them
    Checksum(cmd::checksum::Args),
    /// Reclaim unused space in files
    Compact(cmd::compact::Args),
    /// Compare the data of two files
    Diff(cmd::diff::Args),
    /// Recover what is readable of a damaged file
    Salvage(cmd::salvage::Args),
    /// List the members of a store
    #[command(visible_alias = "list")]
    Ls(cmd::ls::Args),
    /// Print the entries of an object list as lines of JSON
    Items(cmd::items::Args),
    /// Measure how well and how fast a file compresses
    Bench(cmd::bench::Args),
    /// Run commands from standard input, one JSON array per line
    Batch(cmd::batch::Args),
    /// Print a script that completes command lines in a shell
    Completions(cmd::completions::Args),
    /// Print the manual page, or one for each command
    Man(cmd::man::Args),
}

/// Parses a command line.
///
/// # Errors
/// Fails if it is invalid, and also for `--help` and `--version`, which clap reports as errors.
pub(crate) fn parse<T: Into<OsString> + Clone>(
    args: impl IntoIterator<Item = T>,
) -> Result<Cli, clap::Error> {
    let args: Vec<OsString> = urls::hide_all(args.into_iter().map(Into::into));
    let color = color();
    let parsed = parse_with(Cli::command().color(color), &args);
    let wanted = [ErrorKind::DisplayHelp, ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand];
    match parsed {
        // Build the help pages only when needed, since that takes some time.
        Err(error) if wanted.contains(&error.kind()) => {
            let full = args.iter().any(|arg| arg == "--help") || args.get(1).is_some_and(|arg| arg == "help");
            let pages = help::pages(Cli::command(), if full { HelpDetail::Full } else { HelpDetail::Short });
            parse_with(pages.color(color), &args)
        }
        parsed => parsed.map_err(plain),
    }
}

fn parse_with(command: clap::Command, args: &[OsString]) -> Result<Cli, clap::Error> {
    command.try_get_matches_from(args).and_then(|matches| Cli::from_arg_matches(&matches))
}

/// Whether help and errors are coloured. clap would send colours to any terminal of a CI service, also to a dumb one.
fn color() -> ColorChoice {
    let forced = std::env::var_os("CLICOLOR_FORCE").is_some_and(|value| value != "0");
    if console::is_dumb() && !forced { ColorChoice::Never } else { ColorChoice::Auto }
}

/// Names that other programs use for these commands. For them, the parser would suggest a name that only looks similar.
const OTHER_NAMES: [(&str, &str); 14] = [
    ("stat", "info"),
    ("tree", "info --tree"),
    ("version", "--version"),
    ("cp", "copy"),
    ("dump", "cat"),
    ("head", "show"),
    ("print", "show"),
    ("extract", "unpack"),
    ("test", "verify"),
    ("check", "verify"),
    ("compare", "diff"),
    ("repair", "salvage"),
    ("attrs", "vlmeta"),
    ("plot", "view"),
];

/// Adds to an error of the parser what number it expects, or which command has the name that was given in other programs.
fn plain(mut error: clap::Error) -> clap::Error {
    if let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidSubcommand)
        && let Some((_, ours)) = OTHER_NAMES.iter().find(|(name, _)| name == given)
    {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(vec![(*ours).to_owned()]));
        return error;
    }
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        _ => None,
    };
    let source = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
    let found = (context(ContextKind::InvalidValue), context(ContextKind::InvalidArg), expected(&source));
    let (Some(value), Some(arg), Some(expected)) = found else { return error };
    let message =
        format!("invalid value '{value}' for '{arg}': {expected}\n\nFor more information, try '--help'.\n");
    clap::Error::raw(error.kind(), message)
}

/// The expected range of a number, from the text of its parse error; `None` for other errors.
fn expected(text: &str) -> Option<String> {
    if let Some((low, high)) = text.split_once(" is not in ").and_then(|(_, range)| range.split_once("..=")) {
        return Some(format!("expected a whole number from {low} to {high}"));
    }
    let what = match text {
        "invalid digit found in string" | "cannot parse integer from empty string" => {
            "expected a whole number"
        }
        "number too large to fit in target type" | "number too small to fit in target type" => {
            "the number is too large"
        }
        "number would be zero for non-zero type" => "expected a whole number above 0",
        "invalid float literal" | "cannot parse float from empty string" => "expected a number",
        _ => return None,
    };
    Some(what.to_owned())
}

impl Cli {
    /// Runs the command.
    pub(crate) fn run(&self) -> Result<()> {
        let global = self.global;
        signals::reset();
        if let Command::Bench(args) = &self.command {
            // The benchmark creates its own thread pools.
            return cmd::bench::run(args, global);
        }
        // The viewer reads on a separate thread, which starts the pool.
        let views = matches!(&self.command, Command::View(args) if cmd::view::is_interactive(args));
        if let Some(threads) = global.threads.filter(|_| !views) {
            crate::process::threads::begin(threads.into())?;
        }
        urls::begin(global);
        let result = match &self.command {
            Command::Info(_)
            | Command::Show(_)
            | Command::View(_)
            | Command::Cat(_)
            | Command::Unpack(_)
            | Command::Copy(_)
            | Command::Diff(_)
            | Command::Ls(_)
            | Command::Items(_) => retry_read(|| self.dispatch(global)),
            _ => self.dispatch(global),
        };
        urls::report(global);
        result
    }

    fn dispatch(&self, global: Global) -> Result<()> {
        match &self.command {
            Command::Info(args) => cmd::info::run(args, global),
            Command::Show(args) => cmd::show::run(args, global),
            Command::View(args) => cmd::view::run(args, global),
            Command::Cat(args) => cmd::cat::run(args, global),
            Command::Verify(args) => cmd::verify::run(args, global),
            Command::Pack(args) => cmd::pack::run(args, global),
            Command::Unpack(args) => cmd::unpack::run(args, global),
            Command::Copy(args) => cmd::copy::run(args, global),
            #[cfg(feature = "hdf5")]
            Command::Convert(args) => cmd::convert::run(args, global),
            Command::Append(args) => cmd::append::run(args, global),
            Command::Set(args) => cmd::set::run(args, global),
            Command::Resize(args) => cmd::resize::run(args, global),
            Command::Insert(args) => cmd::insert::run(args, global),
            Command::Delete(args) => cmd::delete::run(args, global),
            Command::Chunk(args) => cmd::chunk::run(args, global),
            Command::Vlmeta(args) => cmd::vlmeta::run(args, global),
            Command::Checksum(args) => cmd::checksum::run(args, global),
            Command::Compact(args) => cmd::compact::run(args, global),
            Command::Diff(args) => cmd::diff::run(args, global),
            Command::Salvage(args) => cmd::salvage::run(args, global),
            Command::Bench(args) => cmd::bench::run(args, global),
            Command::Ls(args) => cmd::ls::run(args, global),
            Command::Items(args) => cmd::items::run(args, global),
            Command::Batch(_) => cmd::batch::run(in_batch),
            Command::Completions(args) => cmd::completions::run(args, Self::command()),
            Command::Man(args) => cmd::man::run(args, Self::command()),
        }
    }
}

/// Runs one command of a batch and returns the exit code and message.
pub(crate) fn in_batch(args: Vec<String>) -> (u8, String) {
    let cli = match parse(std::iter::once("b2kit".to_owned()).chain(args)) {
        Ok(cli) => cli,
        // Help and version are not errors and go to standard output.
        Err(error) if !error.use_stderr() => {
            return match capture::write_all(error.to_string().as_bytes()) {
                Ok(()) => (0, String::new()),
                Err(error) => (1, error.to_string()),
            };
        }
        Err(error) => return (2, error.to_string().trim_end().to_owned()),
    };
    if matches!(cli.command, Command::Batch(_)) {
        return (2, "a batch cannot hold another one".into());
    }
    if matches!(cli.command, Command::Bench(_)) {
        return (2, "a batch cannot measure".into());
    }
    if cli.global.threads.is_some() {
        return (2, "--threads: only for the batch as a whole".into());
    }
    let (rc, message) = outcome(&cli.run());
    signals::end();
    (rc, message.unwrap_or_default())
}
