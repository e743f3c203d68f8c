//! Boxes of items in C order: reading them from a file, and copying the intersection of two boxes.

use std::io;
use std::ops::Range;

use b2_core::memory;
use b2_frame::ReadAt;

/// Maximum bytes of one read that covers a gap between rows.
const SPAN: u64 = 1 << 20;
/// Maximum ratio of the bytes read to those needed.
const WASTE: u64 = 8;

/// Returns the product, or `u64::MAX` if it is larger.
pub(crate) fn product(lengths: &[u64]) -> u64 {
    lengths.iter().fold(1, |n, &length| n.saturating_mul(length))
}

/// Returns the distances between neighbours along each dimension, in bytes.
pub(crate) fn strides(shape: &[u64], itemsize: u64) -> Vec<u64> {
    let mut out = Vec::new();
    let mut stride = itemsize;
    for &length in shape.iter().rev() {
        out.push(stride);
        stride = stride.saturating_mul(length);
    }
    out.reverse();
    out
}

/// A box within items that are stored in C order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    /// The shape of everything that is stored.
    pub(crate) whole: &'a [u64],
    /// The first item of the box.
    pub(crate) start: &'a [u64],
    /// The shape of the box.
    pub(crate) shape: &'a [u64],
    /// Bytes of an item.
    pub(crate) itemsize: usize,
}

impl Place<'_> {
    /// Reads the box from a file in which the items are stored from `offset` on.
    pub(crate) fn read(&self, file: &dyn ReadAt, offset: u64, dst: &mut [u8]) -> io::Result<()> {
        if dst.is_empty() {
            return Ok(());
        }
        let strides = strides(self.whole, self.itemsize as u64);
        let steps = self.start.iter().zip(&strides);
        let first = steps.fold(offset, |at, (&n, &stride)| at.saturating_add(n.saturating_mul(stride)));
        read_at(file, first, self.shape, &strides, self.itemsize, dst)
    }
}

/// Reads the box whose first item is at `first`.
fn read_at(
    file: &dyn ReadAt,
    first: u64,
    shape: &[u64],
    strides: &[u64],
    itemsize: usize,
    dst: &mut [u8],
) -> io::Result<()> {
    let wanted = dst.len() as u64;
    let last = shape.iter().zip(strides);
    let span = last.fold(itemsize as u64, |n, (&length, &stride)| {
        n.saturating_add(length.saturating_sub(1).saturating_mul(stride))
    });
    if span == wanted {
        return file.read_exact_at(first, dst);
    }
    if span <= SPAN && span <= wanted.saturating_mul(WASTE) {
        let mut bytes = memory::zeroed(usize::try_from(span).map_err(io::Error::other)?)
            .map_err(|error| io::Error::new(io::ErrorKind::OutOfMemory, error))?;
        file.read_exact_at(first, &mut bytes)?;
        let mut rows = Rows { src: &bytes, dst, itemsize };
        return rows.gather(0, shape, strides).ok_or_else(|| io::ErrorKind::InvalidData.into());
    }
    // A span that is larger than the box has a dimension with several items.
    let ([length, shape @ ..], [stride, strides @ ..]) = (shape, strides) else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    let part = usize::try_from(wanted / (*length).max(1)).map_err(io::Error::other)?;
    for (n, dst) in (0..).zip(dst.chunks_exact_mut(part.max(1))) {
        read_at(file, first.saturating_add(stride.saturating_mul(n)), shape, strides, itemsize, dst)?;
    }
    Ok(())
}

/// Copies rows to the next free position of `dst`.
struct Rows<'a, 'd> {
    src: &'a [u8],
    dst: &'d mut [u8],
    itemsize: usize,
}

impl Rows<'_, '_> {
    fn gather(&mut self, at: u64, shape: &[u64], strides: &[u64]) -> Option<()> {
        match (shape, strides) {
            ([], _) | (_, []) => self.put(at, self.itemsize),
            (&[length], _) => self.put(at, usize::try_from(length).ok()?.checked_mul(self.itemsize)?),
            ([length, shape @ ..], [stride, strides @ ..]) => {
                for n in 0..*length {
                    self.gather(at.checked_add(stride.checked_mul(n)?)?, shape, strides)?;
                }
                Some(())
            }
        }
    }

    fn put(&mut self, at: u64, len: usize) -> Option<()> {
        let at = usize::try_from(at).ok()?;
        let dst = std::mem::take(&mut self.dst);
        let (to, rest) = dst.split_at_mut_checked(len)?;
        to.copy_from_slice(self.src.get(at..at.checked_add(len)?)?);
        self.dst = rest;
        Some(())
    }
}

/// Items of a box in memory, in C order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BoxBounds<'a> {
    pub(crate) start: &'a [u64],
    pub(crate) shape: &'a [u64],
}

/// Copies the intersection of two boxes of items. Returns `None` if a buffer does not have the size of its box.
pub(crate) fn copy_shared(
    from: BoxBounds<'_>,
    src: &[u8],
    to: BoxBounds<'_>,
    dst: &mut [u8],
    itemsize: usize,
) -> Option<()> {
    for Row { from, to, len } in SharedRows::new(from, to, itemsize)? {
        let row = src.get(from..from.checked_add(len)?)?;
        dst.get_mut(to..to.checked_add(len)?)?.copy_from_slice(row);
    }
    Some(())
}

/// Bytes that are contiguous in two boxes: their start in each, and their number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) len: usize,
}

/// The items that two boxes share, as rows that are as long as possible, in C order.
#[derive(Clone, Debug)]
pub(crate) struct SharedRows {
    /// The outer dimensions, the last one first.
    steps: Vec<Step>,
    /// The next row; `None` after the last one.
    row: Option<Row>,
}

/// A dimension: the number of rows after the current one, the number after the first, and the distances in
/// bytes in each box.
#[derive(Clone, Debug)]
struct Step {
    left: u64,
    most: u64,
    from: usize,
    to: usize,
}

impl SharedRows {
    /// Returns `None` if the numbers of dimensions differ, or if the number of bytes overflows.
    pub(crate) fn new(from: BoxBounds<'_>, to: BoxBounds<'_>, itemsize: usize) -> Option<Self> {
        if from.start.len() != to.start.len() {
            return None;
        }
        let mut row = Row { from: 0, to: 0, len: itemsize };
        let mut steps: Vec<Step> = Vec::new();
        // The distances between neighbours along a dimension, in bytes.
        let (mut from_stride, mut to_stride) = (itemsize, itemsize);
        let dims = from.start.iter().zip(from.shape).zip(to.start.iter().zip(to.shape));
        for ((&a, &an), (&b, &bn)) in dims.rev() {
            let (start, end) = (a.max(b), a.checked_add(an)?.min(b.checked_add(bn)?));
            let count = match end.checked_sub(start) {
                Some(count @ 1..) => count,
                _ => return Some(Self { steps: Vec::new(), row: None }),
            };
            let offset =
                |at: u64, stride: usize| usize::try_from(start.checked_sub(at)?).ok()?.checked_mul(stride);
            row.from = row.from.checked_add(offset(a, from_stride)?)?;
            row.to = row.to.checked_add(offset(b, to_stride)?)?;
            if steps.is_empty() && (from_stride, to_stride) == (row.len, row.len) {
                // The inner dimensions are shared completely.
                row.len = row.len.checked_mul(usize::try_from(count).ok()?)?;
            } else if count > 1 {
                let most = count.saturating_sub(1);
                steps.push(Step { left: most, most, from: from_stride, to: to_stride });
            }
            from_stride = from_stride.checked_mul(usize::try_from(an).ok()?)?;
            to_stride = to_stride.checked_mul(usize::try_from(bn).ok()?)?;
        }
        // All rows are inside the boxes, whose bytes were just counted.
        Some(Self { steps, row: Some(row).filter(|row| row.len > 0) })
    }
}

impl Iterator for SharedRows {
    type Item = Row;

    fn next(&mut self) -> Option<Row> {
        let row = self.row?;
        let mut next = Some(row);
        for step in &mut self.steps {
            let at = next?;
            if step.left > 0 {
                step.left = step.left.saturating_sub(1);
                let (from, to) = (at.from.saturating_add(step.from), at.to.saturating_add(step.to));
                self.row = Some(Row { from, to, ..at });
                return Some(row);
            }
            // Back to the first of this dimension.
            step.left = step.most;
            let back =
                |stride: usize| usize::try_from(step.most).unwrap_or(usize::MAX).saturating_mul(stride);
            next = Some(Row {
                from: at.from.saturating_sub(back(step.from)),
                to: at.to.saturating_sub(back(step.to)),
                ..at
            });
        }
        self.row = None;
        Some(row)
    }
}

/// The rows that two boxes share, where the first box comes in consecutive pieces of any length.
pub(crate) struct RowsOfPieces {
    rows: SharedRows,
    /// The rest of the current row.
    row: Option<Row>,
    /// The length of all rows.
    length: usize,
}

impl RowsOfPieces {
    pub(crate) fn new(mut rows: SharedRows) -> Self {
        let row = rows.next();
        Self { rows, row, length: row.map_or(0, |row| row.len) }
    }

    /// Returns the length of a row in bytes.
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// Whether there is something in the piece with these bytes.
    pub(crate) fn are_in(&self, piece: &Range<usize>) -> bool {
        self.row.is_some_and(|row| row.from < piece.end)
    }

    /// Returns the next shared bytes in the piece: their range in the piece, and their offset in the second box.
    pub(crate) fn next_in(&mut self, piece: &Range<usize>) -> Option<Row> {
        let Row { from, to, len } = self.row.filter(|row| row.from < piece.end)?;
        let here = len.min(piece.end.saturating_sub(from));
        self.row = match len.saturating_sub(here) {
            0 => self.rows.next(),
            len => Some(Row { from: from.saturating_add(here), to: to.saturating_add(here), len }),
        };
        Some(Row { from: from.saturating_sub(piece.start), to, len: here })
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn boxes_are_read_and_copied() {
        let whole = [5, 4, 6];
        let items: Vec<u8> = (0..120).flat_map(|n: u16| n.to_le_bytes()).collect();
        let expected = |start: &[u64], shape: &[u64]| -> Vec<u8> {
            let mut out = Vec::new();
            for i in start[0]..start[0] + shape[0] {
                for j in start[1]..start[1] + shape[1] {
                    for k in start[2]..start[2] + shape[2] {
                        out.extend(((i * 24 + j * 6 + k) as u16).to_le_bytes());
                    }
                }
            }
            out
        };
        let mut file = vec![9; 7];
        file.extend(&items);
        let file = Bytes::from(file);
        let zeros = [0, 0, 0];
        for (start, shape) in [
            ([0, 0, 0], [5, 4, 6]),
            ([1, 2, 3], [3, 2, 2]),
            ([4, 3, 5], [1, 1, 1]),
            ([1, 0, 0], [2, 4, 6]),
            ([0, 1, 0], [5, 2, 6]),
            ([0, 0, 0], [0, 4, 6]),
        ] {
            let want = expected(&start, &shape);
            let mut dst = vec![0; want.len()];
            let place = Place { whole: &whole, start: &start, shape: &shape, itemsize: 2 };
            place.read(&file, 7, &mut dst).unwrap();
            assert_eq!(dst, want, "{start:?} {shape:?}");
            let mut dst = vec![0; want.len()];
            let (from, to) =
                (BoxBounds { start: &zeros, shape: &whole }, BoxBounds { start: &start, shape: &shape });
            copy_shared(from, &items, to, &mut dst, 2).unwrap();
            assert_eq!(dst, want, "{start:?} {shape:?}");
        }
        // From a box that is not at the start, to others that share a part of it, or nothing.
        let (start, shape) = ([1, 1, 2], [3, 3, 4]);
        let part = expected(&start, &shape);
        for (to, to_shape) in
            [([0, 0, 0], [5, 4, 6]), ([2, 0, 3], [1, 4, 2]), ([3, 3, 5], [2, 1, 1]), ([4, 0, 0], [1, 1, 1])]
        {
            let mut dst = vec![0xFF; (to_shape.iter().product::<u64>() * 2) as usize];
            let mut want = dst.clone();
            let mut at = 0;
            for i in to[0]..to[0] + to_shape[0] {
                for j in to[1]..to[1] + to_shape[1] {
                    for k in to[2]..to[2] + to_shape[2] {
                        let inside = |n: usize, at: u64| (start[n]..start[n] + shape[n]).contains(&at);
                        if inside(0, i) && inside(1, j) && inside(2, k) {
                            want[at..at + 2].copy_from_slice(&((i * 24 + j * 6 + k) as u16).to_le_bytes());
                        }
                        at += 2;
                    }
                }
            }
            let (from, to) =
                (BoxBounds { start: &start, shape: &shape }, BoxBounds { start: &to, shape: &to_shape });
            copy_shared(from, &part, to, &mut dst, 2).unwrap();
            assert_eq!(dst, want, "{to:?}");
            for len in [1, 2, 6, 11, part.len()] {
                let mut rows = RowsOfPieces::new(SharedRows::new(from, to, 2).unwrap());
                dst.fill(0xFF);
                for (n, piece) in part.chunks(len).enumerate() {
                    let range = n * len..n * len + piece.len();
                    while let Some(Row { from, to, len }) = rows.next_in(&range) {
                        dst[to..to + len].copy_from_slice(&piece[from..from + len]);
                    }
                }
                assert_eq!(dst, want, "{to:?} {len}");
            }
        }
        // Dimensions that both boxes contain completely are one row.
        let rows = |from_shape: &[u64], to_start: &[u64], to_shape: &[u64]| -> Vec<Row> {
            let from = BoxBounds { start: &zeros, shape: from_shape };
            SharedRows::new(from, BoxBounds { start: to_start, shape: to_shape }, 2).unwrap().collect()
        };
        assert_eq!(rows(&whole, &zeros, &whole), [Row { from: 0, to: 0, len: 240 }]);
        assert_eq!(rows(&whole, &[2, 0, 0], &[1, 4, 6]), [Row { from: 96, to: 0, len: 48 }]);
        let two = [Row { from: 60, to: 0, len: 24 }, Row { from: 108, to: 24, len: 24 }];
        assert_eq!(rows(&whole, &[1, 1, 0], &[2, 2, 6])[..], two);
        assert_eq!(rows(&whole, &[5, 0, 0], &[2, 2, 6])[..], []);
        let mut one = [0, 0];
        let none = BoxBounds { start: &[], shape: &[] };
        copy_shared(none, &[1, 2], none, &mut one, 2).unwrap();
        assert_eq!(one, [1, 2]);
        // Large gaps are not read.
        let data: Bytes = (0..3_000_000).map(|n| (n / 1_000_000) as u8).collect();
        let mut column = [9; 3];
        let place = Place { whole: &[3, 1_000_000], start: &[0, 5], shape: &[3, 1], itemsize: 1 };
        place.read(&data, 0, &mut column).unwrap();
        assert_eq!(column, [0, 1, 2]);
    }
}
