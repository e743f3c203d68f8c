//! The `--slice` option: parses NumPy's syntax to the library's [`Selection`], and cuts the result into pieces of
//! bounded size.

use std::ops::Range;

use anyhow::{Context, Result, anyhow, bail, ensure};
use b2kit::Selection;
use b2kit::nd::{CutDim, Geometry, PieceRanges};

use crate::print::count;

/// Parses `2, :10, ..., -3:, ::-5`. Numbers beyond 64 bits saturate, since ranges are clipped anyway.
///
/// # Errors
/// Fails if the syntax is invalid.
pub(crate) fn parse(spec: &str) -> Result<Vec<Selection>> {
    parse_named("--slice", spec)
}

/// Like [`parse`], for an option of another name.
///
/// # Errors
/// Same as [`parse`].
pub(crate) fn parse_named(option: &str, spec: &str) -> Result<Vec<Selection>> {
    let text = spec.trim();
    // As in Python, a trailing comma is allowed.
    let text = text.strip_suffix(',').filter(|parts| !parts.trim().is_empty()).unwrap_or(text);
    let parts: Vec<Selection> =
        text.split(',').map(|part| parse_part(part.trim(), option, spec)).collect::<Result<_>>()?;
    let ellipses = parts.iter().filter(|part| **part == Selection::Ellipsis).count();
    ensure!(ellipses <= 1, "{option}={spec}: '...' may occur only once");
    Ok(parts)
}

fn parse_part(part: &str, option: &str, spec: &str) -> Result<Selection> {
    let bad = || anyhow!("{option}={spec}: '{part}' is neither an index nor start:stop:step");
    match part {
        "..." | "Ellipsis" => return Ok(Selection::Ellipsis),
        "None" | "newaxis" | "np.newaxis" | "numpy.newaxis" => bail!(
            "{option}={spec}: '{part}' makes a new dimension; a slice only takes items, and the dimensions of the array stay"
        ),
        _ if part.starts_with(['[', '(']) || matches!(part, "True" | "False") => {
            bail!("{option}={spec}: lists and masks are not taken, only an index or start:stop:step")
        }
        _ => {}
    }
    let fields: Vec<&str> = part.split(':').map(str::trim).collect();
    let bound = |text: &str| -> Result<Option<i64>> {
        match text {
            "" => Ok(None),
            text => saturating(text).map(Some).ok_or_else(bad),
        }
    };
    match fields.as_slice() {
        [index] => Ok(Selection::Index(saturating(index).ok_or_else(bad)?)),
        [start, stop] => Ok(Selection::Range { start: bound(start)?, stop: bound(stop)?, step: 1 }),
        [start, stop, step] => {
            let step = bound(step)?.unwrap_or(1);
            ensure!(step != 0, "{option}={spec}: the step of '{part}' is 0");
            Ok(Selection::Range { start: bound(start)?, stop: bound(stop)?, step })
        }
        _ => Err(bad()),
    }
}

fn saturating(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some(text.parse().unwrap_or(if text.starts_with('-') { i64::MIN } else { i64::MAX }))
}

/// The items `start`, `start + step`, ... of one dimension, `len` of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Axis {
    pub(crate) start: u64,
    /// A negative step walks down; 1 for a single item.
    pub(crate) step: i64,
    pub(crate) len: u64,
    /// Given as an index, so it is not a dimension of the result.
    pub(crate) dropped: bool,
}

impl Axis {
    fn whole(len: u64) -> Self {
        Self { start: 0, step: 1, len, dropped: false }
    }

    /// The position in the dimension of item `k` of this selection.
    pub(crate) fn position(self, k: u64) -> u64 {
        // Cannot overflow: the position is inside the dimension, whose length fits in 63 bits.
        self.start.wrapping_add_signed((k as i64).wrapping_mul(self.step))
    }

    /// Items `from..to` of this selection.
    pub(crate) fn part(self, from: u64, to: u64) -> Self {
        Self { start: self.position(from), len: to - from, ..self }
    }

    /// The range of the dimension from the lowest to the highest selected position.
    pub(crate) fn span(self) -> Range<u64> {
        match self.len.checked_sub(1).map(|last| self.position(last)) {
            Some(last) => self.start.min(last)..self.start.max(last) + 1,
            None => self.start..self.start,
        }
    }

    /// Converts the range to a selection of the library.
    ///
    /// # Errors
    /// Fails if the dimension is longer than 2^63 items.
    pub(crate) fn selection(self) -> Result<Selection> {
        let Some(last) = self.len.checked_sub(1).map(|last| self.position(last)) else {
            return Ok(Selection::Range { start: Some(0), stop: Some(0), step: 1 });
        };
        let (start, last) = (i64::try_from(self.start)?, i64::try_from(last)?);
        // The position after the last item; going down to item 0, there is none.
        let stop = if self.step > 0 {
            Some(last.saturating_add(1))
        } else {
            last.checked_sub(1).filter(|at| *at >= 0)
        };
        Ok(Selection::Range { start: Some(start), stop, step: self.step })
    }
}

/// Applies the parts to a shape. Dimensions without a part are taken whole.
///
/// # Errors
/// Fails if there are too many parts or an index is out of range.
pub(crate) fn resolve(parts: &[Selection], shape: &[u64]) -> Result<Vec<Axis>> {
    let given = parts.iter().filter(|part| **part != Selection::Ellipsis).count();
    let Some(missing) = shape.len().checked_sub(given) else {
        bail!(
            "--slice: {} given, but there {}",
            count(given as u64, "part"),
            match shape.len() {
                0 => "are no dimensions".to_owned(),
                1 => "is 1 dimension".to_owned(),
                n => format!("are {n} dimensions"),
            }
        );
    };
    let mut full = Vec::with_capacity(shape.len());
    for part in parts {
        match part {
            Selection::Ellipsis => full.extend(vec![Selection::ALL; missing]),
            part => full.push(part.clone()),
        }
    }
    full.resize(shape.len(), Selection::ALL);
    full.iter().zip(shape).enumerate().map(|(k, (part, len))| resolve_one(part, *len, k)).collect()
}

fn resolve_one(part: &Selection, length: u64, dimension: usize) -> Result<Axis> {
    if *part == Selection::ALL {
        return Ok(Axis::whole(length));
    }
    let positions = part.positions(length);
    let (start, step, len) = match part {
        Selection::Index(i) => positions.map_err(|_| {
            anyhow!("--slice: index {i} is out of range for dimension {dimension}, which has {length} items")
        })?,
        _ => positions.context("--slice")?,
    };
    let dropped = matches!(part, Selection::Index(_));
    // For a single item the step is not used, and may be of any size.
    Ok(Axis { start, step: if len > 1 { step } else { 1 }, len, dropped })
}

/// The coordinates of item `k`, in C order, of a box of this shape.
pub(crate) fn coordinates(k: u64, shape: impl DoubleEndedIterator<Item = u64>) -> Vec<u64> {
    let mut rest = k;
    let mut out: Vec<u64> = shape
        .rev()
        .map(|len| {
            let at = rest % len.max(1);
            rest /= len.max(1);
            at
        })
        .collect();
    out.reverse();
    out
}

/// Picks the items of a selection from `plain`, which holds all items between the lowest and the highest positions, into
/// `dst`, which has the size of the selection.
pub(crate) fn pick(axes: &[Axis], plain: &[u8], itemsize: usize, dst: &mut [u8]) {
    let spans: Vec<Range<u64>> = axes.iter().map(|axis| axis.span()).collect();
    for (item, dst) in (0..).zip(dst.chunks_exact_mut(itemsize.max(1))) {
        let (mut rest, mut at, mut stride) = (item, 0, 1);
        for (axis, span) in axes.iter().zip(&spans).rev() {
            at += (axis.position(rest % axis.len) - span.start) * stride;
            rest /= axis.len;
            stride *= span.end - span.start;
        }
        // All of these positions are in `plain`, whose length fits.
        let at = at as usize * itemsize;
        dst.copy_from_slice(&plain[at..at + itemsize]);
    }
}

/// Start and shape of a block of an array, clipped to the edges of chunk and array. The shape of a block that is
/// nothing but padding has a zero.
pub(crate) fn block_box(geometry: &Geometry, nchunk: u64, nblock: u64) -> (Vec<u64>, Vec<u64>) {
    let (mut start, mut shape) = geometry.chunk_box(&geometry.chunk_coords(nchunk));
    let blocks = coordinates(nblock, geometry.blocks().iter().map(|n| u64::from(*n)));
    for (dim, (at, block)) in blocks.into_iter().zip(geometry.blockshape()).enumerate() {
        let offset = at * u64::from(*block);
        start[dim] += offset;
        shape[dim] = shape[dim].saturating_sub(offset).min(u64::from(*block));
    }
    (start, shape)
}

/// How to cut a selection: pieces of about `target` bytes, at most `max` unless a single item is larger.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PieceSize {
    pub(crate) target: u64,
    pub(crate) max: u64,
}

impl Default for PieceSize {
    fn default() -> Self {
        Self { target: 32 << 20, max: 256 << 20 }
    }
}

/// The pieces of a selection in C order, cut at the edges of chunks or blocks if possible.
pub(crate) struct Pieces {
    axes: Vec<Axis>,
    ranges: PieceRanges,
}

impl Pieces {
    /// `chunks` and `blocks` are the array's chunk and block shape, in items.
    pub(crate) fn new(axes: &[Axis], chunks: &[u64], blocks: &[u64], itemsize: u64, size: PieceSize) -> Self {
        let dim = |(k, axis): (usize, &Axis)| {
            let length = |lens: &[u64]| lens.get(k).copied().unwrap_or(0);
            let Axis { start, step, len, .. } = *axis;
            CutDim { start, step, len, chunk: length(chunks), block: length(blocks) }
        };
        let dims = axes.iter().enumerate().map(dim).collect();
        Self { axes: axes.to_vec(), ranges: PieceRanges::new(dims, itemsize, size.target, size.max) }
    }
}

impl Iterator for Pieces {
    type Item = Vec<Axis>;

    fn next(&mut self) -> Option<Vec<Axis>> {
        let ranges = self.ranges.next()?;
        Some(self.axes.iter().zip(ranges).map(|(axis, range)| axis.part(range.start, range.end)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: Option<i64>, stop: Option<i64>, step: i64) -> Selection {
        Selection::Range { start, stop, step }
    }

    #[test]
    fn parses_numpy_slices() {
        use Selection::{Ellipsis, Index};
        for (spec, parts) in [
            ("3", vec![Index(3)]),
            ("-1,+2", vec![Index(-1), Index(2)]),
            (" 3 , 1 : 5 ", vec![Index(3), range(Some(1), Some(5), 1)]),
            ("3,", vec![Index(3)]),
            (":", vec![range(None, None, 1)]),
            ("...", vec![Ellipsis]),
            ("0, ..., ::-2", vec![Index(0), Ellipsis, range(None, None, -2)]),
            (
                "1:5,::2,-3::",
                vec![range(Some(1), Some(5), 1), range(None, None, 2), range(Some(-3), None, 1)],
            ),
            (":99999999999999999999", vec![range(None, Some(i64::MAX), 1)]),
            ("-99999999999999999999:", vec![range(Some(i64::MIN), None, 1)]),
        ] {
            assert_eq!(parse(spec).unwrap(), parts, "{spec}");
        }
        for spec in [
            "", " ", ",", "1,,", ",1", "a", "1:b", "1:2:3:4", "::0", "1.0", "-", "0x1", "1_0", "- 1", "1 2",
            "....", "...,...", "None", "[1,2]", "True",
        ] {
            assert!(parse(spec).is_err(), "{spec:?}");
        }
        assert!(parse("0,None").unwrap_err().to_string().contains("'None' makes a new dimension"));
    }

    /// The indices that `spec` selects in a dimension of length 10, computed with NumPy.
    #[test]
    fn resolves_as_numpy_does() {
        for (spec, expected) in [
            (":", vec![0, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
            ("2:5", vec![2, 3, 4]),
            ("-3:", vec![7, 8, 9]),
            (":-8", vec![0, 1]),
            ("8:100", vec![8, 9]),
            ("-100:2", vec![0, 1]),
            ("::4", vec![0, 4, 8]),
            ("1:8:3", vec![1, 4, 7]),
            ("5:5", vec![]),
            ("7:2", vec![]),
            ("100:200", vec![]),
            (":-100", vec![]),
            ("::9223372036854775807", vec![0]),
            ("::-4", vec![9, 5, 1]),
            ("7:2:-2", vec![7, 5, 3]),
            ("100:-100:-3", vec![9, 6, 3, 0]),
            ("2::-1", vec![2, 1, 0]),
            ("2:7:-1", vec![]),
            ("::-9223372036854775808", vec![9]),
            ("...", vec![0, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
            ("9", vec![9]),
            ("-10", vec![0]),
        ] {
            let axes = resolve(&parse(spec).unwrap(), &[10]).unwrap();
            let indices: Vec<u64> = (0..axes[0].len).map(|k| axes[0].position(k)).collect();
            assert_eq!(indices, expected, "{spec}");
            assert_eq!(resolve(&[axes[0].selection().unwrap()], &[10]).unwrap()[0].len, axes[0].len);
            let (first, _, len) = axes[0].selection().unwrap().positions(10).unwrap();
            assert_eq!(
                (first, len),
                (expected.first().copied().unwrap_or(0), expected.len() as u64),
                "{spec}"
            );
        }
        for (spec, shape) in
            [("10", vec![10]), ("-11", vec![10]), ("0", vec![0]), ("0,0", vec![10]), ("0", vec![])]
        {
            assert!(resolve(&parse(spec).unwrap(), &shape).is_err(), "{spec} of {shape:?}");
        }
        assert_eq!(resolve(&[], &[3, 4]).unwrap(), [Axis::whole(3), Axis::whole(4)]);
        assert_eq!(resolve(&parse("...").unwrap(), &[]).unwrap(), []);
        let axes = resolve(&parse("1,...,2").unwrap(), &[3, 4, 5]).unwrap();
        assert_eq!(axes.iter().map(|axis| axis.dropped).collect::<Vec<_>>(), [true, false, true]);
        assert_eq!(resolve(&parse("1,...,2").unwrap(), &[3, 4]).unwrap().len(), 2);
    }

    /// C-order positions of the items of a selection.
    fn positions(axes: &[Axis], shape: &[u64]) -> Vec<u64> {
        let mut out = vec![0];
        for (axis, len) in axes.iter().zip(shape) {
            out = out
                .iter()
                .flat_map(|base| (0..axis.len).map(move |k| base * len + axis.position(k)))
                .collect();
        }
        out
    }

    #[test]
    fn pieces_follow_each_other() {
        let shape = [23, 17, 11];
        let (chunks, blocks) = ([10, 8, 5], [5, 4, 5]);
        for spec in [":", "3:20:2,1:16,::3", "4,:,:", "::7,3,2:", "22,16,10", ":,5:5", "::-1,::-3,8:2:-1"] {
            let axes = resolve(&parse(spec).unwrap(), &shape).unwrap();
            let all = positions(&axes, &shape);
            for max in [1, 8, 100, 1000, 5000, 1 << 20] {
                let size = PieceSize { target: max, max };
                let pieces: Vec<_> = Pieces::new(&axes, &chunks, &blocks, 4, size).collect();
                let joined: Vec<u64> = pieces.iter().flat_map(|piece| positions(piece, &shape)).collect();
                assert_eq!(joined, all, "{spec} max {max}");
                for piece in &pieces {
                    let bytes: u64 = 4 * piece.iter().map(|axis| axis.len).product::<u64>();
                    assert!(bytes <= max.max(4) && bytes > 0, "{spec} max {max}: {bytes}");
                }
            }
        }
    }
}
