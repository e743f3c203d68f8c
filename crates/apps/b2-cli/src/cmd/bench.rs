//! `b2kit bench`
//!
//! - `machine`: measures one operation after the other and prints a line of JSON for each
//! - `quick`: measures five parameter sets within seconds
//! - `table`: measures all parameter sets on a file and prints a table; `sample` reads the part of the file to measure
//!   on, and `choice` finds the best parameter sets

mod choice;
mod common;
mod machine;
mod quick;
mod sample;
mod table;

use std::num::NonZeroUsize;

use anyhow::Result;

use self::common::BenchOptions;
use crate::args::options::Global;

const EXAMPLES: &str = "\
Examples:
  b2kit bench --quick data.npy           how well would it compress?
  b2kit bench data.npy                   codecs, levels and filters side by side
  b2kit bench data.npy --codecs lz4,zstd --clevels 1,3,5 --filters delta,shuffle
  b2kit bench --input raw.bin --typesize 4 --codec lz4 --op compress,getitem

--quick measures five choices on 4 MiB from the middle of the file and prints the
best ratio first, each with its pack command.

Without --quick, FILE gives a table of all choices. Those marked with * are on the
Pareto front: no other one is both smaller and faster (to compress and decompress
once). Commands for the best balance, the smallest and the fastest follow. The
balance is that of pack --goal balance: a byte written costs as much as 30 ns of
work, and reading counts twice as much as writing.

With --input: one operation after the other, one line of JSON for each. Every
round trip is verified; a wrong one ends with exit code 2.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    table: table::Args,
    #[command(flatten)]
    machine: machine::Args,
    /// Print JSON (always with --input)
    #[arg(long)]
    json: bool,
    /// Bytes per item of raw data
    #[arg(long, value_name = "N")]
    typesize: Option<NonZeroUsize>,
    /// Measure on this many bytes
    ///
    /// The default is all of --input, 16M of FILE, and 4M with --quick.
    #[arg(long, value_name = "BYTES", value_parser = crate::args::values::parse_size)]
    limit: Option<u64>,
}

pub(crate) fn run(args: &Args, global: Global) -> Result<()> {
    let threads = match global.threads {
        Some(threads) => threads.into(),
        None => std::thread::available_parallelism().map_or(1, NonZeroUsize::get),
    };
    // This thread is part of the pool, so that no work has to be handed over to other threads and waited for.
    crate::process::threads::begin(threads)?;
    let common = BenchOptions { threads, typesize: args.typesize, limit: args.limit };
    match args.machine.input() {
        Some(input) => machine::run(&args.machine, input, &common),
        None => table::run(&args.table, &common, args.json, global),
    }
}
