//! `b2kit ls`

use std::path::{Path, PathBuf};

use anyhow::{Context, Error, Result, anyhow};

use crate::args::Global;
use crate::files::{Output, members, stdio};
use crate::print::printable;
use crate::read::{Hdf5, Store, find_cut_off};

const EXAMPLES: &str = "\
Examples:
  b2kit ls store.b2z
  b2kit cat store.b2z --key /group/array --npy -o array.npy
  b2kit ls ocean.nc

Stores are those of python-blosc2: EmbedStore (.b2e), DictStore and TreeStore
(.b2d directories and .b2z archives). Of HDF5 and NetCDF files, or a group in one
(FILE::/group), the data sets are listed. A table of python-blosc2 is listed
first: its key, a tab, and how many columns and rows it has.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A store of python-blosc2, or an HDF5 or NetCDF file
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
    let keys: Vec<String> = match Store::open(&args.file, 0, global).and_then(|store| store.ok_or_else(none))
    {
        Ok(store) => {
            let tables = store.tables().with_context(named)?;
            let tables =
                tables.iter().map(|table| format!("{}\t{}", printable(&table.key), table.describe()));
            tables.chain(store.keys().map(printable)).collect()
        }
        Err(error) => {
            let keys = inside(&args.file, global, error).with_context(named)?;
            keys.iter().map(|key| printable(key)).collect()
        }
    };
    let mut output = Output::stdout();
    let lines: String = keys.into_iter().map(|key| key + "\n").collect();
    output.send(lines.as_bytes())?;
    output.finish()
}

/// The data sets of an HDF5 or NetCDF file, or of a group in it.
fn inside(path: &Path, global: Global, error: Error) -> Result<Vec<String>> {
    let (file, group) = members::split(path).unwrap_or_else(|| (path.to_owned(), "/".into()));
    Hdf5::open_or(&file, global, error)?.keys(&group)
}
