//! `b2kit bench`

mod clock;
mod machine;

use anyhow::Result;

use crate::args::Global;

const EXAMPLES: &str = "\
Examples:
  b2kit bench --input raw.bin --typesize 4 --codec lz4 --filter bitshuffle \\
      --threads 1 --op compress,decompress,getitem

Prints one line of JSON for each operation. Every round trip is verified
before it is timed; a wrong one ends with exit code 2.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    machine: machine::Args,
    /// Print JSON (always so with --input)
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, global: Global) -> Result<()> {
    let _ = args.json;
    machine::run(&args.machine, global)
}
