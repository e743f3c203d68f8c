//! `b2kit insert`

use std::path::PathBuf;

use anyhow::{Result, bail};
use b2kit::RegionSource;
use b2kit::frame::CommitReport;

use crate::args::Global;
use crate::print::{count, dims};
use crate::read::Operand;
use crate::write::{Target, edit};

const EXAMPLES: &str = "\
Examples:
  b2kit insert data.b2nd rows.npy --at 10             before row 10
  b2kit insert data.b2nd columns.npy --axis 1 --at -1 before the last column

Each IN must have the shape of the array in all other dimensions. Chunks that only
move are copied without compressing them again.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// .npy files, or raw bytes in C order (-: standard input)
    #[arg(value_name = "IN", required = true)]
    inputs: Vec<PathBuf>,
    /// The dimension that grows; a negative one counts from the end
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    axis: i64,
    /// Insert before this position; a negative one counts from the end
    #[arg(long, value_name = "I", allow_negative_numbers = true)]
    at: i64,
    /// Each IN holds .npy arrays that follow each other: insert all of them, in this order
    #[arg(long)]
    each: bool,
}

pub(crate) fn run(args: &Args, global: Global) -> Result<()> {
    let inputs = Operand::several(&args.inputs, &args.target.file, args.each)?;
    args.target.change(global, || insert(args, inputs, global))
}

fn insert(args: &Args, inputs: Vec<Operand>, global: Global) -> Result<(String, CommitReport)> {
    let mut array = args.target.array(global)?;
    inputs.iter().try_for_each(Operand::refuse_foreign_items)?;
    args.target.tell_lossy(array.snapshot()?.super_chunk(), global);
    let axis = edit::axis("--axis", args.axis, array.shape().len())?;
    let length = array.shape()[axis];
    let at = match i128::from(args.at) + if args.at < 0 { i128::from(length) } else { 0 } {
        at if (0..=i128::from(length)).contains(&at) => u64::try_from(at)?,
        _ => bail!("--at {}: dimension {axis} has {}", args.at, count(length, "position")),
    };
    let (items, grown) = edit::join(&mut array, inputs, axis, global)?;
    array.insert(axis, at, items.with_length(grown))?;
    let committed = array.commit()?;
    let grown = count(grown, "position");
    let what = format!("{grown} inserted at {at} of dimension {axis}, shape {} now", dims(array.shape()));
    Ok((what, committed))
}
