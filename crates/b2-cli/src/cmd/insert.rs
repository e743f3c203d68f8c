//! `b2kit insert`

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use b2kit::frame::Committed;
use b2kit::{ArrayEditor, RegionSource};

use crate::args::Global;
use crate::change::{self, Target, count};
use crate::operand::Operand;
use crate::table::dims;

const EXAMPLES: &str = "\
Examples:
  b2kit insert data.b2nd rows.npy --at 10             before row 10
  b2kit insert data.b2nd columns.npy --axis 1 --at -1 before the last column

IN must have the shape of the array in all other dimensions. Chunks that only
move are copied without compressing them again.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// An .npy file, or raw bytes in C order (-: standard input)
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// The dimension that grows; a negative one counts from the end
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    axis: i64,
    /// Insert before this position; a negative one counts from the end
    #[arg(long, value_name = "I", allow_negative_numbers = true)]
    at: i64,
    /// IN holds .npy arrays that follow each other: insert all of them, in this order
    #[arg(long)]
    each: bool,
}

pub(crate) fn run(args: &Args, global: Global) -> Result<()> {
    let named = || args.target.named();
    let inputs = Operand::one_or_each(&args.input, &args.target.file, args.each)?;
    let mut array = args.target.array(global).with_context(named)?;
    args.target.tell_lossy(array.snapshot().with_context(named)?.super_chunk(), global);
    let (what, committed) = insert(&mut array, args, inputs, global).with_context(named)?;
    args.target.tell(global, &what, committed);
    Ok(())
}

fn insert(
    array: &mut ArrayEditor,
    args: &Args,
    inputs: Vec<Operand>,
    global: Global,
) -> Result<(String, Committed)> {
    let axis = change::axis(args.axis, array.shape().len())?;
    let length = array.shape()[axis];
    let at = match i128::from(args.at) + if args.at < 0 { i128::from(length) } else { 0 } {
        at if (0..=i128::from(length)).contains(&at) => u64::try_from(at)?,
        _ => bail!("--at {}: dimension {axis} has {}", args.at, count(length, "position")),
    };
    let mut grown = 0;
    for input in inputs {
        let (items, shape) = change::part(array, input, axis, global)?;
        array.insert(axis, at + grown, items.with_length(shape[axis]))?;
        grown += shape[axis];
    }
    let committed = array.commit()?;
    let grown = count(grown, "position");
    let what = format!("{grown} inserted at {at} of dimension {axis}, shape {} now", dims(array.shape()));
    Ok((what, committed))
}
