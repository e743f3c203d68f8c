//! The `--slice` option: parsing, resolving against a shape, and cutting the result into pieces of bounded
//! size.

use anyhow::{Result, bail, ensure};

/// One part of a `--slice` specification, with NumPy's meaning.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Part {
    /// That index; the dimension goes away.
    Index(i64),
    /// `[start]:[stop][:step]`, step at least 1.
    Range { start: Option<i64>, stop: Option<i64>, step: u64 },
}

/// Parses `2,:10,-3:,::5`. Numbers beyond 64 bits count as the largest ones: ranges are clipped anyway.
///
/// # Errors
/// When the text does not follow the form.
pub(crate) fn parse(spec: &str) -> Result<Vec<Part>> {
    parse_named("--slice", spec)
}

/// As [`parse`], for an option of another name.
///
/// # Errors
/// As [`parse`].
pub(crate) fn parse_named(option: &str, spec: &str) -> Result<Vec<Part>> {
    spec.split(',').map(|part| parse_part(part, option, spec)).collect()
}

fn parse_part(part: &str, option: &str, spec: &str) -> Result<Part> {
    let bad = || anyhow::anyhow!("{option}={spec}: '{part}' is neither an index nor start:stop:step");
    let fields: Vec<&str> = part.split(':').collect();
    let bound = |text: &str| -> Result<Option<i64>> {
        match text {
            "" => Ok(None),
            text => saturating(text).map(Some).ok_or_else(bad),
        }
    };
    match fields.as_slice() {
        [index] => Ok(Part::Index(saturating(index).ok_or_else(bad)?)),
        [start, stop] => Ok(Part::Range { start: bound(start)?, stop: bound(stop)?, step: 1 }),
        [start, stop, step] => {
            let step = bound(step)?.unwrap_or(1);
            ensure!(step >= 1, "{option}={spec}: the step of '{part}' must be at least 1");
            Ok(Part::Range { start: bound(start)?, stop: bound(stop)?, step: step.unsigned_abs() })
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
    pub(crate) step: u64,
    pub(crate) len: u64,
    /// Given as an index: not a dimension of the result.
    pub(crate) dropped: bool,
}

impl Axis {
    fn whole(len: u64) -> Self {
        Self { start: 0, step: 1, len, dropped: false }
    }

    /// Items `from..to` of this selection.
    pub(crate) fn part(self, from: u64, to: u64) -> Self {
        Self { start: self.start + from * self.step, len: to - from, ..self }
    }

    /// One past the last item taken, in items of the dimension.
    pub(crate) fn stop(self) -> u64 {
        match self.len.checked_sub(1) {
            Some(last) => self.start + last * self.step + 1,
            None => self.start,
        }
    }
}

/// Applies the parts to a shape; missing trailing parts take their dimension whole.
///
/// # Errors
/// When there are too many parts or an index is out of range.
pub(crate) fn resolve(parts: &[Part], shape: &[u64]) -> Result<Vec<Axis>> {
    ensure!(
        parts.len() <= shape.len(),
        "--slice: {} parts given, but there are {} dimensions",
        parts.len(),
        shape.len()
    );
    let parts = parts.iter().map(Some).chain(std::iter::repeat(None));
    shape.iter().zip(parts).enumerate().map(|(k, (len, part))| resolve_one(part, *len, k)).collect()
}

fn resolve_one(part: Option<&Part>, len: u64, dimension: usize) -> Result<Axis> {
    let signed = i128::from(len);
    let from_end = |i: i64| i128::from(i) + if i < 0 { signed } else { 0 };
    match part {
        None => Ok(Axis::whole(len)),
        Some(Part::Index(i)) => match u64::try_from(from_end(*i)) {
            Ok(start) if start < len => Ok(Axis { start, step: 1, len: 1, dropped: true }),
            _ => bail!("--slice: index {i} is out of range for dimension {dimension}, which has {len} items"),
        },
        Some(Part::Range { start, stop, step }) => {
            let clip = |i: i64| u64::try_from(from_end(i).clamp(0, signed)).unwrap_or(len);
            let start = start.map_or(0, clip);
            let stop = stop.map_or(len, clip);
            Ok(Axis { start, step: *step, len: stop.saturating_sub(start).div_ceil(*step), dropped: false })
        }
    }
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
            let unit_bytes = |grid: u64| grid.div_ceil(axis.step).min(axis.len).saturating_mul(inner[k]);
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
        let position = axis.start + from * axis.step;
        let limit = (position / self.grid).saturating_add(self.units).saturating_mul(self.grid);
        let to = (limit - axis.start).div_ceil(axis.step).min(axis.len);
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

    fn range(start: Option<i64>, stop: Option<i64>, step: u64) -> Part {
        Part::Range { start, stop, step }
    }

    #[test]
    fn parses_numpy_slices() {
        for (spec, parts) in [
            ("3", vec![Part::Index(3)]),
            ("-1,+2", vec![Part::Index(-1), Part::Index(2)]),
            (":", vec![range(None, None, 1)]),
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
            "", ",", "1,", "a", "1:b", "1:2:3:4", "::0", "::-1", " 1", "1 :2", "1.0", "-", "0x1", "1_0",
            "...",
        ] {
            assert!(parse(spec).is_err(), "{spec:?}");
        }
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
            ("9", vec![9]),
            ("-10", vec![0]),
        ] {
            let axes = resolve(&parse(spec).unwrap(), &[10]).unwrap();
            let indices: Vec<u64> = (0..axes[0].len).map(|i| axes[0].start + i * axes[0].step).collect();
            assert_eq!(indices, expected, "{spec}");
        }
        for (spec, shape) in
            [("10", vec![10]), ("-11", vec![10]), ("0", vec![0]), ("0,0", vec![10]), ("0", vec![])]
        {
            assert!(resolve(&parse(spec).unwrap(), &shape).is_err(), "{spec} of {shape:?}");
        }
        assert_eq!(resolve(&[], &[3, 4]).unwrap(), [Axis::whole(3), Axis::whole(4)]);
    }

    /// C-order positions of the items of a selection.
    fn positions(axes: &[Axis], shape: &[u64]) -> Vec<u64> {
        let mut out = vec![0];
        for (axis, len) in axes.iter().zip(shape) {
            out = out
                .iter()
                .flat_map(|base| (0..axis.len).map(move |i| base * len + axis.start + i * axis.step))
                .collect();
        }
        out
    }

    #[test]
    fn pieces_follow_each_other() {
        let shape = [23, 17, 11];
        let (chunks, blocks) = ([10, 8, 5], [5, 4, 5]);
        for spec in [":", "3:20:2,1:16,::3", "4,:,:", "::7,3,2:", "22,16,10", ":,5:5"] {
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
