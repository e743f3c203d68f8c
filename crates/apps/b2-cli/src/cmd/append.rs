//! `b2kit append`

use std::path::PathBuf;

use anyhow::{Result, ensure};
use b2kit::frame::CommitReport;
use b2kit::{ArrayEditor, FrameEditor, RegionSource};

use crate::args::Global;
use crate::print::{count, dims, short_size};
use crate::process::{buffer, signals};
use crate::read::Operand;
use crate::write::{BATCH, Editor, Target, edit};

const EXAMPLES: &str = "\
Examples:
  b2kit append log.b2nd rows.npy             more rows
  b2kit append log.b2nd columns.npy --axis 1
  b2kit append year.b2nd day.npy             (180,360) to (365,180,360)
  b2kit append year.b2nd 2026-*.npy          in this order
  b2kit append log.b2nd many.npy --each      arrays that numpy.save wrote in a row
  b2kit append log.b2frame more.bin
  sensor | b2kit append -q log.b2frame -

Each IN is appended completely or not at all.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// .npy files, or raw bytes in C order (-: standard input)
    #[arg(value_name = "IN", required = true)]
    inputs: Vec<PathBuf>,
    /// Grow along this dimension; negative ones count from the end (arrays)
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    axis: Option<i64>,
    /// Each IN holds .npy arrays that follow each other: append one after the other
    #[arg(long)]
    each: bool,
}

pub(crate) fn run(args: &Args, global: Global) -> Result<()> {
    // Read the input before locking the file: it may arrive slowly, and other programs would have to wait for the lock.
    let inputs = Operand::several(&args.inputs, &args.target.file, args.each)?;
    args.target.change(global, || match args.target.open_for_data(global)? {
        Editor::Array(mut array) => append_items(&mut array, args, inputs, global),
        Editor::SuperChunk(mut frame) => append_bytes(&mut frame, args, inputs, global),
    })
}

fn append_items(
    array: &mut ArrayEditor,
    args: &Args,
    mut inputs: Vec<Operand>,
    global: Global,
) -> Result<(String, CommitReport)> {
    let axis = edit::axis("--axis", args.axis.unwrap_or(0), array.shape().len())?;
    let (several, mut added) = (inputs.len() > 1, false);
    for input in &mut inputs {
        input.refuse_foreign_items()?;
        added |= add_dimension(input, array.shape(), axis);
    }
    let (items, grown) = edit::join(array, inputs, axis, global)?;
    array.append(axis, items.with_length(grown))?;
    let committed = array.commit()?;
    let grown = count(grown, "position");
    let grown = match (added, several) {
        (false, _) => grown,
        (true, false) => format!("{grown} (the input has one dimension fewer)"),
        (true, true) => format!("{grown} (the inputs have one dimension fewer)"),
    };
    Ok((format!("{grown} appended to dimension {axis}, shape {} now", dims(array.shape())), committed))
}

/// Inserts `axis`, with length 1, into the shape of an `.npy` file that has one dimension fewer than the array, such as
/// a single day for a year. Returns whether the file fits.
fn add_dimension(input: &mut Operand, shape: &[u64], axis: usize) -> bool {
    let Some(header) = &mut input.npy else { return false };
    let others = shape.iter().enumerate().filter(|(dim, _)| *dim != axis).map(|(_, length)| length);
    let fits = others.eq(&header.shape);
    if fits {
        // A dimension of length 1 can be inserted in both C and Fortran order.
        header.shape.insert(axis, 1);
    }
    fits
}

fn append_bytes(
    frame: &mut FrameEditor,
    args: &Args,
    inputs: Vec<Operand>,
    global: Global,
) -> Result<(String, CommitReport)> {
    edit::refuse_objects(frame, false)?;
    ensure!(args.axis.is_none(), "--axis: this is a super-chunk: only arrays have dimensions");
    let mut grown = 0;
    for input in inputs {
        input.check_itemsize(frame.itemsize())?;
        let nbytes = input.nbytes();
        let bytes = input.into_bytes(&args.target.file, global.quiet)?;
        let mut batch = buffer(usize::try_from(BATCH.min(nbytes))?)?;
        let mut done = 0;
        while done < nbytes {
            let part = &mut batch[..usize::try_from(BATCH.min(nbytes - done))?];
            signals::check()?;
            bytes.read(&[done], &[part.len() as u64], part)?;
            frame.append_bytes(part)?;
            done += part.len() as u64;
        }
        grown += nbytes;
    }
    let committed = frame.commit()?;
    let (grown, total) = (short_size(grown), short_size(committed.nbytes));
    let chunks = count(committed.nchunks as u64, "chunk");
    Ok((format!("{grown} appended, {total} in {chunks} now"), committed))
}
