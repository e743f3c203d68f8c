//! `b2kit delete`

use anyhow::{Context, Result, bail, ensure};
use b2kit::Selection;
use b2kit::frame::CommitReport;

use crate::args::Global;
use crate::print::{count, dims};
use crate::read::slice;
use crate::write::{Target, edit};

const EXAMPLES: &str = "\
Examples:
  b2kit delete data.b2nd --range 10:20           rows 10 to 19
  b2kit delete data.b2nd --axis 1 --range=-3:    the last three columns
  b2kit delete data.b2nd --range 0               the first row

Chunks that only move are copied without compressing them again. Their old space
stays unused until b2kit compact reclaims it.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// The dimension that shrinks; a negative one counts from the end
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    axis: i64,
    /// The positions to delete: one position, or start:stop as in a slice
    #[arg(long, value_name = "A:B", allow_hyphen_values = true)]
    range: String,
}

pub(crate) fn run(args: &Args, global: Global) -> Result<()> {
    let range = match &slice::parse_named("--range", &args.range)?[..] {
        [part @ (Selection::Index(_) | Selection::Range { step: 1, .. })] => part.clone(),
        _ => bail!("--range={}: expected one position, or start:stop", args.range),
    };
    args.target.change(global, || delete(args, range, global))
}

fn delete(args: &Args, range: Selection, global: Global) -> Result<(String, CommitReport)> {
    let mut array = args.target.array(global)?;
    let axis = edit::axis("--axis", args.axis, array.shape().len())?;
    let length = array.shape()[axis];
    let gone = match slice::resolve(&[range], &[length]) {
        Ok(axes) => axes.into_iter().next().context("no positions")?,
        Err(_) => bail!("--range={}: dimension {axis} has {}", args.range, count(length, "position")),
    };
    ensure!(gone.step == 1, "--range={}: the step must be 1", args.range);
    array.delete(axis, gone.start..gone.start + gone.len)?;
    let committed = array.commit()?;
    let shrunk = count(gone.len, "position");
    Ok((format!("{shrunk} of dimension {axis} deleted, shape {} now", dims(array.shape())), committed))
}
