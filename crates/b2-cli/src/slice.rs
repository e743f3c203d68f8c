//! The `--slice` option: NumPy's syntax for the library's [`Selection`], and cutting the result into pieces of bounded
//! size.

use std::ops::Range;

use anyhow::{Context, Result, anyhow, bail, ensure};
use b2kit::Selection;

/// Parses `2, :10, ..., -3:, ::-5`. Numbers beyond 64 bits count as the largest ones: ranges are clipped anyway.
///
/// # Errors
/// When the text does not follow the form.
pub(crate) fn parse(spec: &str) -> Result<Vec<Selection>> {
    parse_named("--slice", spec)
}

/// As [`parse`], for an option of another name.
///
/// # Errors
/// As [`parse`].
pub(crate) fn parse_named(option: &str, spec: &str) -> Result<Vec<Selection>> {
    let text = spec.trim();
    // As in Python a comma may follow the last part.
    let text = text.strip_suffix(',').filter(|parts| !parts.trim().is_empty()).unwrap_or(text);
    let parts: Vec<Selection> =
        text.split(',').map(|part| parse_part(part.trim(), option, spec)).collect::<Result<_>>()?;
    let ellipses = parts.iter().filter(|part| **part == Selection::Ellipsis).count();
    ensure!(ellipses <= 1, "{option}={spec}: '...' may stand there only once");
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
    /// Negative ones walk down; 1 for a single item.
    pub(crate) step: i64,
    pub(crate) len: u64,
    /// Given as an index: not a dimension of the result.
    pub(crate) dropped: bool,
}

impl Axis {
    fn whole(len: u64) -> Self {
        Self { start: 0, step: 1, len, dropped: false }
    }

    /// The item of the dimension that item `k` of this selection is.
    pub(crate) fn position(self, k: u64) -> u64 {
        // Inside the dimension, whose length fits 63 bits.
        self.start.wrapping_add_signed((k as i64).wrapping_mul(self.step))
    }

    /// Items `from..to` of this selection.
    pub(crate) fn part(self, from: u64, to: u64) -> Self {
        Self { start: self.position(from), len: to - from, ..self }
    }

    /// The items of the dimension from the lowest to the highest one taken.
    pub(crate) fn span(self) -> Range<u64> {
        match self.len.checked_sub(1).map(|last| self.position(last)) {
            Some(last) => self.start.min(last)..self.start.max(last) + 1,
            None => self.start..self.start,
        }
    }

    /// One past the last item of this selection that is before the edge of a chunk: `cells` chunks of `grid` items from that
    /// of item `from` on.
    fn until(self, from: u64, grid: u64, cells: u64) -> u64 {
        let cell = self.position(from) / grid;
        let step = self.step.unsigned_abs();
        if self.step > 0 {
            let edge = cell.saturating_add(cells).saturating_mul(grid);
            (edge - self.start).div_ceil(step).min(self.len)
        } else {
            let edge = (cell + 1).saturating_sub(cells).saturating_mul(grid);
            ((self.start - edge) / step + 1).min(self.len)
        }
    }

    /// Converts the range to a selection of the library.
    ///
    /// # Errors
    /// When the dimension is longer than 2^63 items.
    pub(crate) fn selection(self) -> Result<Selection> {
        let Some(last) = self.len.checked_sub(1).map(|last| self.position(last)) else {
            return Ok(Selection::Range { start: Some(0), stop: Some(0), step: 1 });
        };
        let (start, last) = (i64::try_from(self.start)?, i64::try_from(last)?);
        // One behind the last item; there is none before item 0.
        let stop = if self.step > 0 {
            Some(last.saturating_add(1))
        } else {
            last.checked_sub(1).filter(|at| *at >= 0)
        };
        Ok(Selection::Range { start: Some(start), stop, step: self.step })
    }
}

/// Applies the parts to a shape; dimensions that no part is for are taken whole.
///
/// # Errors
/// When there are too many parts or an index is out of range.
pub(crate) fn resolve(parts: &[Selection], shape: &[u64]) -> Result<Vec<Axis>> {
    let given = parts.iter().filter(|part| **part != Selection::Ellipsis).count();
    let Some(missing) = shape.len().checked_sub(given) else {
        bail!("--slice: {given} parts given, but there are {} dimensions", shape.len());
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
    // The step to an item that is not taken may be of any size.
    Ok(Axis { start, step: if len > 1 { step } else { 1 }, len, dropped })
}

/// How a selection is cut: pieces of about `target` bytes, never above `max` unless one item is.
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

/// Cuts a selection into parts that follow each other in C order.
///
/// Cuts lie on chunk boundaries if pieces of whole chunk rows stay below the maximum, else on block boundaries, so
/// that as little as possible is decoded twice.
pub(crate) struct Pieces {
    axes: Vec<Axis>,
    /// The axis that is cut; those before it are taken index by index.
    cut: usize,
    /// Cuts along that axis lie on multiples of this.
    grid: u64,
    /// So many units of `grid` go into one piece.
    units: u64,
    /// Where the next piece starts, along the axes up to `cut`; `None` at the end.
    at: Option<Vec<u64>>,
}

impl Pieces {
    /// `chunks` and `blocks` are the array's chunk and block shape, in items.
    pub(crate) fn new(axes: &[Axis], chunks: &[u64], blocks: &[u64], itemsize: u64, size: PieceSize) -> Self {
        let empty = axes.iter().any(|axis| axis.len == 0);
        // Bytes below one index of each axis; saturated values are far above any limit.
        let mut inner = vec![itemsize; axes.len()];
        for k in (1..axes.len()).rev() {
            inner[k - 1] = inner[k].saturating_mul(axes[k].len);
        }
        let mut this = Self { axes: axes.to_vec(), cut: 0, grid: 1, units: 1, at: None };
        for (k, axis) in axes.iter().enumerate() {
            let step = axis.step.unsigned_abs();
            let unit_bytes = |grid: u64| grid.div_ceil(step).min(axis.len).saturating_mul(inner[k]);
            let grids = [chunks.get(k), blocks.get(k)].into_iter().flatten().copied().filter(|g| *g > 0);
            this.cut = k;
            this.grid = grids.chain([1]).find(|grid| unit_bytes(*grid) <= size.max).unwrap_or(1);
            // Rows that are too big even one by one are cut along the next axis.
            if unit_bytes(this.grid) <= size.max || k + 1 == axes.len() {
                // Pieces smaller than a block decode it again for each: then as large as may be.
                let within_block = blocks.get(k).is_some_and(|block| this.grid < *block);
                let aim = if within_block { size.max } else { size.target };
                this.units = (aim / unit_bytes(this.grid).max(1)).max(1);
                break;
            }
        }
        this.at = (!empty).then(|| vec![0; (this.cut + 1).min(axes.len())]);
        this
    }
}

impl Iterator for Pieces {
    type Item = Vec<Axis>;

    fn next(&mut self) -> Option<Vec<Axis>> {
        let mut at = self.at.take()?;
        let mut piece = self.axes.clone();
        // Without dimensions there is one item.
        let Some(axis) = self.axes.get(self.cut).copied() else { return Some(piece) };
        for (k, i) in at.iter().enumerate().take(self.cut) {
            piece[k] = self.axes[k].part(*i, i + 1);
        }
        let from = at[self.cut];
        let to = axis.until(from, self.grid, self.units);
        piece[self.cut] = axis.part(from, to);
        at[self.cut] = to;
        for k in (0..=self.cut).rev() {
            if at[k] < self.axes[k].len {
                self.at = Some(at);
                break;
            }
            at[k] = 0;
            if let Some(before) = k.checked_sub(1) {
                at[before] += 1;
            }
        }
        Some(piece)
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

    /// The indices that `spec` takes of a dimension of 10, worked out with NumPy.
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

    #[test]
    fn cuts_lie_on_chunks_then_blocks() {
        let axes = resolve(&[], &[100, 10]).unwrap();
        let cuts = |max, target| -> Vec<u64> {
            Pieces::new(&axes, &[32, 10], &[8, 10], 1, PieceSize { target, max })
                .map(|p| p[0].start)
                .collect()
        };
        assert_eq!(cuts(1000, 1000), [0, 96], "three rows of chunks make 960 bytes");
        assert_eq!(cuts(1000, 1), [0, 32, 64, 96], "one row of chunks at least");
        assert_eq!(
            cuts(319, 200),
            [0, 16, 32, 48, 64, 80, 96],
            "a row of chunks is too big, two of blocks fit"
        );
        assert_eq!(cuts(10, 10).len(), 100, "row by row");
        let axes = resolve(&parse("::-1").unwrap(), &[100, 10]).unwrap();
        let pieces = Pieces::new(&axes, &[32, 10], &[8, 10], 1, PieceSize { target: 1, max: 1000 });
        let starts: Vec<u64> = pieces.map(|p| p[0].start).collect();
        assert_eq!(starts, [99, 95, 63, 31], "from the last row of chunks down");
    }

    #[test]
    fn special_shapes() {
        let pieces: Vec<_> = Pieces::new(&[], &[], &[], 8, PieceSize::default()).collect();
        assert_eq!(pieces, [vec![]], "no dimensions: one item");
        let none = resolve(&[], &[5, 0]).unwrap();
        assert_eq!(Pieces::new(&none, &[5, 0], &[5, 0], 8, PieceSize::default()).count(), 0);
        let huge = resolve(&[], &[u64::MAX >> 1, 3]).unwrap();
        let mut pieces = Pieces::new(&huge, &[1 << 31, 3], &[1 << 20, 3], 255, PieceSize::default());
        assert_eq!(
            pieces.next().unwrap()[0],
            Axis::whole((256 << 20) / 765),
            "blocks are too big: as much as may be"
        );
    }
}
