//! `b2kit ls`

use std::path::PathBuf;

use anyhow::{Context, Result, anyhow};

use crate::args::Global;
use crate::files::{Output, stdio};
use crate::read::{Store, find_cut_off};

const EXAMPLES: &str = "\
Examples:
  b2kit ls store.b2z
  b2kit cat store.b2z --key /group/array --npy -o array.npy

Stores are those of python-blosc2: EmbedStore (.b2e), DictStore and TreeStore
(.b2d directories and .b2z archives).";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A store of python-blosc2
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub(crate) fn run(args: &Args, global: Global) -> Result<()> {
    let named = || args.file.display().to_string();
    stdio::refuse_stdin(&args.file, "cannot be a store: name the file").with_context(named)?;
    let none = || {
        let not_one = "not a store: it has no members (b2kit info tells what it is)";
        find_cut_off(&args.file).unwrap_or_else(|| anyhow!(not_one))
    };
    let store =
        Store::open(&args.file, 0, global).and_then(|store| store.ok_or_else(none)).with_context(named)?;
    let mut output = Output::stdout();
    let mut lines = String::new();
    for key in store.keys() {
        lines.push_str(&crate::print::table::printable(key));
        lines.push('\n');
    }
    output.send(lines.as_bytes())?;
    output.finish()
}
