//! `b2kit resize`

use anyhow::{Context, Result};

use crate::args::Global;
use crate::change::Target;
use crate::table::dims;
use crate::values::Dims;

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
    let named = || args.target.named();
    let mut array = args.target.array(global).with_context(named)?;
    let old = dims(array.shape());
    array.resize(&args.shape.0).context("--shape").with_context(named)?;
    let committed = array.commit().with_context(named)?;
    args.target.tell(global, &format!("shape {} now, it was {old}", dims(array.shape())), committed);
    Ok(())
}
