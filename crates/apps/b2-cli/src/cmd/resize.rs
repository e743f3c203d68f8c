//! `b2kit resize`

use anyhow::{Context, Result};

use crate::args::{Dims, Global};
use crate::print::dims;
use crate::write::{Target, check_lengths};

const EXAMPLES: &str = "\
Examples:
  b2kit resize data.b2nd --shape 100,200,300

New items are zeros, even where the array had other items before it shrank.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// The new lengths of all dimensions, in items
    #[arg(long, value_name = "A,B,...")]
    shape: Dims,
}

pub(crate) fn run(args: &Args, global: Global) -> Result<()> {
    args.target.change(global, || {
        let mut array = args.target.array(global)?;
        let old = dims(array.shape());
        check_lengths("--shape", &args.shape.0, array.shape())?;
        array.resize(&args.shape.0).context("--shape")?;
        let committed = array.commit()?;
        Ok((format!("shape {} now, it was {old}", dims(array.shape())), committed))
    })
}
