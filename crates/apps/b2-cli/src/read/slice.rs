//! The `--slice` option, and pieces of bounded size that its selection is cut into.

pub(crate) use b2_view::slice::{Axis, parse, parse_named, resolve};
use std::ops::Range;

use anyhow::{Context, Result};
use b2kit::nd::{CutDim, Geometry, PieceRanges};

use crate::formats::npy;
use crate::process::buffer;

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

/// Reads a selection into `dst` with a function that reads boxes: those between its items are read as well.
///
/// # Errors
/// Fails if reading does, or if that box is too large.
pub(crate) fn read_strided(
    axes: &[Axis],
    itemsize: usize,
    dst: &mut [u8],
    read_box: impl FnOnce(&[u64], &[u64], &mut [u8]) -> Result<()>,
) -> Result<()> {
    let spans = axes.iter().map(|axis| axis.span());
    let (start, shape): (Vec<u64>, Vec<u64>) = spans.map(|span| (span.start, span.end - span.start)).unzip();
    if axes.iter().all(|axis| axis.step == 1) {
        return read_box(&start, &shape, dst);
    }
    let nbytes = npy::nbytes(&shape, itemsize as u64).context("the steps of the slice are too large")?;
    let mut plain = buffer(usize::try_from(nbytes)?)?;
    read_box(&start, &shape, &mut plain)?;
    pick(axes, &plain, itemsize, dst);
    Ok(())
}

/// Picks the items of a selection from `plain`, which holds all items between the lowest and the highest positions, into
/// `dst`, which has the size of the selection.
fn pick(axes: &[Axis], plain: &[u8], itemsize: usize, dst: &mut [u8]) {
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

/// How to split a selection: pieces of about `target` bytes, at most `max` unless a single item is larger.
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

/// The pieces of a selection in C order, split at the edges of chunks or blocks if possible.
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
    use b2kit::Selection;

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
        assert!(parse("0,None").unwrap_err().to_string().contains("'None' would add a dimension"));
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
