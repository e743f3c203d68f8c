//! `b2kit bench`
//!
//! - `machine`: one operation at a time, a line of JSON each
//! - `table`: all choices for a file, for people; `sample`: what they are measured on; `choice`: which are best

mod choice;
mod clock;
mod machine;
mod sample;
mod table;

use std::num::NonZeroUsize;

use anyhow::{Context, Result};

use crate::args::Global;

const EXAMPLES: &str = "\
Examples:
  b2kit bench data.npy                        codecs, levels and filters side by side
  b2kit bench data.npy --codecs lz4,zstd --clevels 1,3,5 --filters shuffle --filters delta,shuffle
  b2kit bench --input raw.bin --typesize 4 --codec lz4 --filter bitshuffle \\
      --threads 1 --op compress,decompress,getitem

With FILE: a table of all choices. Those marked with * are on the Pareto front: no
other one is both smaller and faster (to compress and decompress once). Below it,
commands for the best balance (a byte written weighs as much as 30 ns of work, and
reading twice as much as writing, as in `pack --goal balance`), the smallest, and
the fastest.

With --input: one operation after the other, one line of JSON for each.
Every round trip is verified; a wrong one ends with exit code 2.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    table: table::Args,
    #[command(flatten)]
    machine: machine::Args,
    /// Print JSON (always so with --input)
    #[arg(long)]
    json: bool,
    /// Bytes per item of raw data
    #[arg(long, value_name = "N")]
    typesize: Option<NonZeroUsize>,
    /// Take only so many bytes [default: all of --input, 16M of FILE]
    #[arg(long, value_name = "BYTES", value_parser = crate::values::parse_size)]
    limit: Option<u64>,
}

pub(crate) fn run(args: &Args, global: Global) -> Result<()> {
    let threads = match global.threads {
        Some(threads) => threads.into(),
        None => std::thread::available_parallelism().map_or(1, NonZeroUsize::get),
    };
    // This thread is one of the pool: nothing has to be handed over to the others and waited for.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).use_current_thread();
    pool.build_global().context("--threads")?;
    let common = Common { threads, typesize: args.typesize, limit: args.limit };
    match args.machine.input() {
        Some(input) => machine::run(&args.machine, input, &common),
        None => table::run(&args.table, &common, args.json, global),
    }
}

/// What both forms take.
struct Common {
    threads: usize,
    typesize: Option<NonZeroUsize>,
    limit: Option<u64>,
}

/// A wrong answer is not a bad file: exit code 2.
fn ensure_same(same: bool, message: &str) -> Result<()> {
    if same { Ok(()) } else { Err(crate::error::Trouble(anyhow::anyhow!("{message}")).into()) }
}

/// SplitMix64, so that all programs ask for the same items.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// `n` is not 0.
    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}
