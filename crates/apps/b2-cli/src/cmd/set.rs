//! `b2kit set`

use std::ops::Range;
use std::path::PathBuf;

use anyhow::{Result, ensure};
use b2kit::frame::CommitReport;
use b2kit::{ArrayEditor, FrameEditor, Selection};

use crate::args::Global;
use crate::print::count;
use crate::process::resize;
use crate::read::{Axis, Operand, resolve, slice};
use crate::write::{BATCH, Editor, Target, edit};

const EXAMPLES: &str = "\
Examples:
  b2kit set data.b2nd window.npy --slice=0:24,100:200,-1
  b2kit set data.b2nd row.bin --slice=7
  b2kit set log.b2frame items.bin --slice=::2

A slice has one part per dimension, each an index or start:stop:step as in
NumPy. Super-chunks have one dimension, their items. IN must have the size of
the slice, and .npy files its shape.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// An .npy file, or raw bytes in C order (-: standard input)
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// The items to overwrite
    #[arg(long, value_name = "SPEC", allow_hyphen_values = true)]
    slice: String,
}

pub(crate) fn run(args: &Args, global: Global) -> Result<()> {
    let parts = match args.slice.as_str() {
        // An array without dimensions has a single item.
        "" => vec![],
        spec => slice::parse(spec)?,
    };
    let input = Operand::open(&args.input, &args.target.file)?;
    args.target.change(global, || {
        let (nitems, committed) = match args.target.open_for_data(global)? {
            Editor::Array(mut array) => {
                input.refuse_foreign_items()?;
                set_items(&mut array, &parts, input, global)
            }
            Editor::SuperChunk(mut frame) => set_bytes(&mut frame, &parts, args, input, global),
        }?;
        Ok((format!("{} set", count(nitems, "item")), committed))
    })
}

fn set_items(
    array: &mut ArrayEditor,
    parts: &[Selection],
    input: Operand,
    global: Global,
) -> Result<(u64, CommitReport)> {
    let itemsize = array.geometry().itemsize();
    let chunks: Vec<u64> = array.geometry().chunkshape().iter().map(|n| u64::from(*n)).collect();
    let axes = resolve(parts, array.shape())?;
    let shape: Vec<u64> = axes.iter().filter(|axis| !axis.dropped).map(|axis| axis.len).collect();
    edit::check_dtype(array, &input)?;
    input.check_shape(&shape, itemsize)?;
    let nitems = input.nbytes() / itemsize as u64;
    let items = input.into_items(&shape, itemsize, global.quiet)?;
    let mut buffer = Vec::new();
    for_each_box(&axes, &chunks, itemsize as u64, &mut |ranges| {
        let kept = || ranges.iter().zip(&axes).filter(|(_, axis)| !axis.dropped).map(|(range, _)| range);
        let (start, shape): (Vec<u64>, Vec<u64>) =
            kept().map(|range| (range.start, range.end - range.start)).unzip();
        let nbytes = shape.iter().product::<u64>() * itemsize as u64;
        resize(&mut buffer, usize::try_from(nbytes)?)?;
        items.read(&start, &shape, &mut buffer)?;
        let dims = axes.iter().zip(ranges).map(|(axis, range)| axis.part(range.start, range.end).selection());
        Ok(array.set_bytes(dims.collect::<Result<Vec<_>>>()?, &buffer)?)
    })?;
    drop(items);
    Ok((nitems, array.commit()?))
}

fn set_bytes(
    frame: &mut FrameEditor,
    parts: &[Selection],
    args: &Args,
    input: Operand,
    global: Global,
) -> Result<(u64, CommitReport)> {
    edit::refuse_objects(frame, false)?;
    let itemsize = frame.itemsize() as u64;
    let axes = resolve(parts, &[frame.nbytes() / itemsize])?;
    let [axis] = axes[..] else { return Ok((0, frame.commit()?)) };
    input.check_itemsize(frame.itemsize())?;
    let (have, need) = (input.nbytes(), axis.len * itemsize);
    ensure!(
        have == need,
        "{}: {have} bytes, expected {need} for {} of {itemsize}",
        input.name,
        count(axis.len, "item")
    );
    let bytes = input.into_bytes(&args.target.file, global.quiet)?;
    // Cut at chunk boundaries, if all chunks have the same size, so that each chunk is compressed only once.
    let chunk = match frame.chunksize() as u64 / itemsize {
        0 => (BATCH / itemsize).max(1),
        n => n,
    };
    // The items between the ones to set must be read first.
    let old = if axis.step != 1 { Some(frame.snapshot()?) } else { None };
    let (mut buffer, mut span) = (Vec::new(), Vec::new());
    for_each_box(&axes, &[chunk], itemsize.saturating_mul(axis.step.unsigned_abs()), &mut |ranges| {
        let Some(range) = ranges.first() else { return Ok(()) };
        let part = axis.part(range.start, range.end);
        resize(&mut buffer, usize::try_from(part.len * itemsize)?)?;
        bytes.read(&[range.start * itemsize], &[part.len * itemsize], &mut buffer)?;
        let Range { start, end } = part.span();
        let Some(old) = &old else { return Ok(frame.write_bytes(start * itemsize, &buffer)?) };
        resize(&mut span, usize::try_from((end - start) * itemsize)?)?;
        old.read_bytes_into(start * itemsize, &mut span)?;
        let width = usize::try_from(itemsize)?;
        for (k, item) in buffer.chunks_exact(width).enumerate() {
            let at = usize::try_from(part.position(k as u64) - start)? * width;
            span[at..at + width].copy_from_slice(item);
        }
        Ok(frame.write_bytes(start * itemsize, &span)?)
    })?;
    drop((bytes, old));
    Ok((axis.len, frame.commit()?))
}

/// Splits a selection into boxes of about the size of a batch, along chunk boundaries, so that each chunk is in only
/// one box. `visit` receives the positions within the selection, along each axis.
fn for_each_box(
    axes: &[Axis],
    chunks: &[u64],
    itemsize: u64,
    visit: &mut dyn FnMut(&[Range<u64>]) -> Result<()>,
) -> Result<()> {
    let mut pending = vec![axes.iter().map(|axis| 0..axis.len).collect::<Vec<_>>()];
    while let Some(ranges) = pending.pop() {
        if ranges.iter().any(|range| range.is_empty()) {
            continue;
        }
        let nbytes = ranges.iter().fold(itemsize, |n, range| n.saturating_mul(range.end - range.start));
        let cut = || {
            let mut along = ranges.iter().zip(axes).zip(chunks).enumerate();
            along.find_map(|(k, ((range, axis), chunk))| Some((k, middle(range, axis, *chunk)?)))
        };
        let Some((k, middle)) = (if nbytes > BATCH { cut() } else { None }) else {
            visit(&ranges)?;
            continue;
        };
        let (mut low, mut high) = (ranges.clone(), ranges);
        low[k].end = middle;
        high[k].start = middle;
        pending.extend([high, low]);
    }
    Ok(())
}

/// Where to split the positions of a selection so that each side has about half of the chunks. `None` if there is only
/// one chunk.
fn middle(range: &Range<u64>, axis: &Axis, chunk: u64) -> Option<u64> {
    let place = |position: u64| axis.position(position);
    let (first, last) = (place(range.start).checked_div(chunk)?, place(range.end - 1) / chunk);
    if first == last {
        return None;
    }
    let edge = (first + last).div_ceil(2) * chunk;
    let step = axis.step.unsigned_abs();
    Some(if axis.step > 0 { (edge - axis.start).div_ceil(step) } else { (axis.start - edge) / step + 1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boxes(spec: &str, shape: &[u64], chunks: &[u64], itemsize: u64) -> Vec<Vec<Range<u64>>> {
        let axes = resolve(&slice::parse(spec).unwrap(), shape).unwrap();
        let mut boxes = vec![];
        for_each_box(&axes, chunks, itemsize, &mut |ranges| {
            boxes.push(ranges.to_vec());
            Ok(())
        })
        .unwrap();
        boxes
    }

    #[test]
    fn boxes_cover_a_selection_once() {
        let (shape, chunks) = ([50, 40], [7, 9]);
        for spec in [":", "3:48:5,1:39:2", "7,::10", "::13", "49,39", "4:4", "::-1,30:3:-4"] {
            let axes = resolve(&slice::parse(spec).unwrap(), &shape).unwrap();
            let mut seen = vec![0; 2000];
            let boxes = boxes(spec, &shape, &chunks, BATCH / 20);
            for ranges in &boxes {
                for i in ranges[0].clone() {
                    for j in ranges[1].clone() {
                        seen[(i * axes[1].len + j) as usize] += 1;
                    }
                }
                let n: u64 = ranges.iter().map(|range| range.end - range.start).product();
                let chunks = ranges.iter().zip(&axes).zip(chunks).map(|((range, axis), c)| {
                    (axis.position(range.end - 1) / c).abs_diff(axis.position(range.start) / c) + 1
                });
                assert!(n <= 20 || chunks.product::<u64>() == 1, "{spec}: {ranges:?}");
            }
            let n = (axes[0].len * axes[1].len) as usize;
            assert!(seen[..n].iter().all(|n| *n == 1) && seen[n..].iter().all(|n| *n == 0), "{spec}");
        }
    }

    #[test]
    fn small_and_odd_selections_are_one_box() {
        assert_eq!(boxes(":", &[50, 40], &[7, 9], 4), [[0..50, 0..40]]);
        let boxes = boxes("3", &[5], &[0], BATCH * 2);
        assert_eq!(boxes.concat(), vec![0..1; 1], "chunks of unknown size");
    }
}
