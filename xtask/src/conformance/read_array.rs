//! Reads an array as a whole and in random slices, and compares with a simple definition of slices.

use std::path::Path;

use b2_testkit::Rng;
use b2kit::{NdArray, Selection, range};
use serde_json::Value;

use super::checker::{Checker, Fields, Verdict, same_bytes, text};
use super::plugins;
use super::read_frame::{facts, layers};

/// Reads the array at `path` and compares it with the case.
pub(crate) fn check(checker: &mut Checker, case: &Value, path: &Path, raw: Option<&[u8]>, rng: &mut Rng) {
    let offset = case.number("offset").unwrap_or(0);
    let options = NdArray::options().offset(offset).plugins(plugins());
    let Some(array) = checker.get("open", || options.open(path).map_err(text)) else { return };
    contents(checker, case, &array, raw, rng);
    if path.is_file() && offset == 0 && rng.chance(20) {
        // Repeat everything from memory.
        let Some(memory) = checker
            .get("open from memory", || options.from_bytes(std::fs::read(path).map_err(text)?).map_err(text))
        else {
            return;
        };
        contents(checker, case, &memory, raw, rng);
    }
}

fn contents(checker: &mut Checker, case: &Value, array: &NdArray, raw: Option<&[u8]>, rng: &mut Rng) {
    let wide = |shape: &[u32]| shape.iter().map(|n| u64::from(*n)).collect::<Vec<_>>();
    checker.same("shape", Some(array.shape().to_vec()), case.numbers("shape"));
    checker.same("chunkshape", Some(wide(array.chunkshape())), case.numbers("chunkshape"));
    checker.same("blockshape", Some(wide(array.blockshape())), case.numbers("blockshape"));
    checker.same("dtype", Some(array.dtype().as_str()), case.text("dtype"));
    checker.same("itemsize", Some(array.itemsize() as u64), case.number("itemsize"));
    facts(checker, case, array.super_chunk());
    layers(checker, case, array.super_chunk());

    let zeros;
    let raw = match raw {
        Some(raw) => raw,
        // These items were never written: C may return anything, this project returns zeros.
        None => {
            zeros = vec![0; array.nbytes() as usize];
            &zeros
        }
    };
    checker.run("whole", || same_bytes(&array.all().read_bytes().map_err(text)?, raw));
    checker.run("slices", || {
        for _ in 0..6 {
            slice(array, raw, &random_slice(rng, array.shape()))?;
        }
        Ok(())
    });
}

fn slice(array: &NdArray, raw: &[u8], selection: &[Selection]) -> Verdict {
    let name = |e: String| format!("slice {selection:?}: {e}");
    let slice = array.slice(selection).map_err(|e| name(text(e)))?;
    let wanted = reference(raw, array.shape(), array.itemsize(), selection);
    if slice.shape() != wanted.shape {
        return Err(name(format!("shape {:?}, expected {:?}", slice.shape(), wanted.shape)));
    }
    same_bytes(&slice.read_bytes().map_err(|e| name(text(e)))?, &wanted.bytes).map_err(name)
}

/// Returns a selection with NumPy's semantics, along a random number of leading dimensions.
pub(crate) fn random_slice(rng: &mut Rng, shape: &[u64]) -> Vec<Selection> {
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

struct Selected {
    shape: Vec<u64>,
    bytes: Vec<u8>,
}

/// The reference result of a selection: picks item by item from the whole array in C order.
fn reference(raw: &[u8], shape: &[u64], itemsize: usize, selection: &[Selection]) -> Selected {
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
    Selected { shape: out_shape, bytes }
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
    let mut out = Vec::new();
    let mut at = first;
    while (step > 0 && at < last) || (step < 0 && at > last) {
        out.push(at);
        at += step;
    }
    out
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
