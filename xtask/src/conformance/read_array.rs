//! Reads an array as a whole and in random slices, and compares with a simple definition of slices.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use b2_testkit::Rng;
use b2kit::{NdArray, Selection, SuperChunk, range};
use serde_json::Value;

use super::checker::{Checker, same_bytes};
use super::read_frame::{facts, layers, opened};
use super::session::plugins;

/// Reads the array at `path` and compares it with the case.
pub(crate) fn check(checker: &mut Checker, case: &Value, path: &Path, raw: Option<&[u8]>, rng: &mut Rng) {
    let options = |offset| SuperChunk::options().offset(offset).plugins(plugins());
    let open = |offset| Ok(NdArray::open_with(path, &options(offset))?);
    let open_memory = |bytes| Ok(NdArray::from_super_chunk(options(0).from_bytes(bytes)?)?);
    opened(checker, case, path, (rng, 20), open, open_memory, |checker, array, rng| {
        contents(checker, case, array, raw, rng);
    });
}

fn contents(checker: &mut Checker, case: &Value, array: &NdArray, raw: Option<&[u8]>, rng: &mut Rng) {
    checker.field(case, "shape", array.shape());
    checker.field(case, "chunkshape", array.chunkshape());
    checker.field(case, "blockshape", array.blockshape());
    checker.field(case, "dtype", array.dtype().as_str());
    checker.field(case, "itemsize", array.itemsize());
    facts(checker, case, array.super_chunk());
    layers(checker, case, array.super_chunk());

    // Items that were never written: C may return anything, this project returns zeros.
    let unwritten = if raw.is_none() { vec![0; array.nbytes() as usize] } else { Vec::new() };
    let raw = raw.unwrap_or(&unwritten);
    checker.run("whole", || same_bytes(&array.all().read_bytes()?, raw));
    checker.run("slices", || {
        (0..6).try_for_each(|_| {
            let selection = random_slice(rng, array.shape());
            slice(array, raw, &selection).with_context(|| format!("slice {selection:?}"))
        })
    });
}

fn slice(array: &NdArray, raw: &[u8], selection: &[Selection]) -> Result<()> {
    let slice = array.slice(selection)?;
    let wanted = reference(raw, array.shape(), array.itemsize(), selection);
    ensure!(slice.shape() == wanted.shape, "shape {:?}, expected {:?}", slice.shape(), wanted.shape);
    same_bytes(&slice.read_bytes()?, &wanted.bytes)
}

/// Returns a selection with NumPy's semantics, along a random number of leading dimensions.
fn random_slice(rng: &mut Rng, shape: &[u64]) -> Vec<Selection> {
    let ndim = if rng.chance(80) { shape.len() } else { rng.within(0..=shape.len()) };
    shape[..ndim]
        .iter()
        .map(|&len| {
            let len = len as i64;
            let end = |rng: &mut Rng| match rng.chance(30) {
                true => None,
                // Sometimes beyond the ends, where ranges are clipped.
                false => Some(rng.within(0..=(3 * len + 4) as usize) as i64 - (3 * len + 4) / 2),
            };
            match rng.within(0..=9) {
                0 | 1 if len > 0 => Selection::Index(rng.within(0..=2 * len as usize - 1) as i64 - len),
                2 => Selection::ALL,
                3..=6 => {
                    // A range that is not empty, like most in practice.
                    let start = rng.within(0..=len as usize) as i64;
                    range(start..rng.within(start as usize..=len as usize) as i64)
                }
                _ => {
                    let step = *rng.pick(&[1, 1, 2, 3, 7, -1, -2, -5]);
                    Selection::Range { start: end(rng), stop: end(rng), step }
                }
            }
        })
        .collect()
}

struct SelectedPart {
    shape: Vec<u64>,
    bytes: Vec<u8>,
}

/// The reference result of a selection: picks item by item from the whole array in C order.
fn reference(raw: &[u8], shape: &[u64], itemsize: usize, selection: &[Selection]) -> SelectedPart {
    let all = std::iter::repeat(Selection::ALL);
    let mut out_shape = Vec::new();
    let mut offsets = vec![0usize];
    for (k, (len, dim)) in shape.iter().zip(selection.iter().cloned().chain(all)).enumerate() {
        let stride: usize = shape[k + 1..].iter().product::<u64>() as usize;
        let positions = positions(*len as i64, &dim);
        if !matches!(dim, Selection::Index(_)) {
            out_shape.push(positions.len() as u64);
        }
        offsets = offsets
            .iter()
            .flat_map(|base| positions.iter().map(move |p| base + *p as usize * stride))
            .collect();
    }
    let bytes =
        offsets.iter().flat_map(|at| raw[at * itemsize..(at + 1) * itemsize].iter().copied()).collect();
    SelectedPart { shape: out_shape, bytes }
}

/// Returns the positions along one dimension, like Python's `range(*slice.indices(len))`.
fn positions(len: i64, dim: &Selection) -> Vec<i64> {
    let (start, stop, step) = match *dim {
        Selection::Index(at) => return vec![if at < 0 { at + len } else { at }],
        Selection::Range { start, stop, step } => (start, stop, step),
        _ => unreachable!("not made here"),
    };
    let (low, high) = if step > 0 { (0, len) } else { (-1, len - 1) };
    let clip = |at: i64| (if at < 0 { at + len } else { at }).clamp(low, high);
    let first = start.map_or(if step > 0 { low } else { high }, clip);
    let last = stop.map_or(if step > 0 { high } else { low }, clip);
    let before_end = |at: &i64| if step > 0 { *at < last } else { *at > last };
    std::iter::successors(Some(first), |at| Some(at + step)).take_while(before_end).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(len: i64, start: Option<i64>, stop: Option<i64>, step: i64, wanted: &[i64]) {
        assert_eq!(positions(len, &Selection::Range { start, stop, step }), wanted);
    }

    /// Compares with values from Python's `slice.indices`.
    #[test]
    fn ranges_have_pythons_meaning() {
        check(5, None, None, 1, &[0, 1, 2, 3, 4]);
        check(5, None, None, -1, &[4, 3, 2, 1, 0]);
        check(5, Some(-2), None, 1, &[3, 4]);
        check(5, Some(10), Some(-10), -2, &[4, 2, 0]);
        check(5, Some(1), Some(-1), 2, &[1, 3]);
        check(5, Some(-9), Some(9), 3, &[0, 3]);
        check(5, Some(3), Some(1), 1, &[]);
        check(0, None, None, -1, &[]);
    }

    #[test]
    fn the_reference_slices_two_dimensions() {
        let raw: Vec<u8> = (0..12).collect();
        let selected = reference(&raw, &[3, 4], 1, &[Selection::Index(-1), range(1..3)]);
        assert_eq!((selected.shape, selected.bytes), (vec![2], vec![9, 10]));
        let selected = reference(&raw, &[3, 4], 1, &[range(..).step(-2)]);
        assert_eq!((selected.shape, selected.bytes), (vec![2, 4], vec![8, 9, 10, 11, 0, 1, 2, 3]));
    }
}
