//! Boxes of items in C order: reading them from a file, and copying what two of them share.

use std::io;

use b2_core::memory;
use b2_frame::ReadAt;

/// Bytes that are read at once although not all of them are wanted.
const SPAN: u64 = 1 << 20;
/// How many times as many bytes as are wanted may be read.
const WASTE: u64 = 8;

/// Returns the product, or `u64::MAX` if it is larger.
pub(crate) fn product(lengths: &[u64]) -> u64 {
    lengths.iter().fold(1, |n, &length| n.saturating_mul(length))
}

/// Returns the distances between neighbours along each dimension, in bytes.
fn strides(shape: &[u64], itemsize: u64) -> Vec<u64> {
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
    // A span that is larger than what is wanted has a dimension with several items.
    let ([length, shape @ ..], [stride, strides @ ..]) = (shape, strides) else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    let part = usize::try_from(wanted / (*length).max(1)).map_err(io::Error::other)?;
    for (n, dst) in (0..).zip(dst.chunks_exact_mut(part.max(1))) {
        read_at(file, first.saturating_add(stride.saturating_mul(n)), shape, strides, itemsize, dst)?;
    }
    Ok(())
}

/// Moves rows to the next free place of `dst`.
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
pub(crate) struct Held<'a> {
    pub(crate) start: &'a [u64],
    pub(crate) shape: &'a [u64],
}

/// Copies what two boxes of items share. Returns `None` if a buffer does not have the size of its box.
pub(crate) fn copy_shared(
    from: Held<'_>,
    src: &[u8],
    to: Held<'_>,
    dst: &mut [u8],
    itemsize: usize,
) -> Option<()> {
    let mut shared = Vec::new();
    for ((&a, &an), (&b, &bn)) in from.start.iter().zip(from.shape).zip(to.start.iter().zip(to.shape)) {
        let (start, end) = (a.max(b), a.checked_add(an)?.min(b.checked_add(bn)?));
        if start >= end {
            return Some(());
        }
        shared.push((start.checked_sub(a)?, start.checked_sub(b)?, end.checked_sub(start)?));
    }
    let size = itemsize as u64;
    let (from_strides, to_strides) = (strides(from.shape, size), strides(to.shape, size));
    let steps: Vec<Step> = shared
        .iter()
        .zip(from_strides.iter().zip(&to_strides))
        .map(|(&(from, to, length), (&src, &dst))| Step { from, to, length, src, dst })
        .collect();
    copy_rows(&steps, (0, src), (0, dst), itemsize)
}

/// Copies a run of items of a box, in C order from byte `at` on, to where another box has them. The run consists of whole items.
/// Returns `None` if a buffer does not have the size of its box.
pub(crate) fn copy_run(
    from: Held<'_>,
    at: u64,
    run: &[u8],
    to: Held<'_>,
    dst: &mut [u8],
    itemsize: usize,
) -> Option<()> {
    let size = itemsize as u64;
    let (&length, outer) = from.shape.split_last()?;
    let row = length.checked_mul(size)?;
    let (&from_start, outer_start) = from.start.split_last()?;
    let (&to_start, to_outer) = to.start.split_last()?;
    let (&to_length, to_shape) = to.shape.split_last()?;
    let strides = strides(to.shape, size);
    let (mut at, mut rest) = (at, run);
    while !rest.is_empty() {
        let (mut number, within) = (at.checked_div(row)?, at.checked_rem(row)?);
        let len = row.checked_sub(within)?.min(rest.len() as u64);
        let (piece, more) = rest.split_at_checked(usize::try_from(len).ok()?)?;
        (at, rest) = (at.checked_add(len)?, more);
        // Where the row is in the other box, if it is there.
        let mut target = Some(0_u64);
        let outer = outer.iter().zip(outer_start).zip(to_outer.iter().zip(to_shape).zip(&strides));
        for ((&length, &start), ((&to_start, &to_length), &stride)) in outer.rev() {
            let place = start.checked_add(number.checked_rem(length)?)?;
            number = number.checked_div(length)?;
            let inside = place.checked_sub(to_start).filter(|&place| place < to_length);
            target = target
                .zip(inside)
                .and_then(|(target, inside)| target.checked_add(inside.checked_mul(stride)?));
        }
        let Some(target) = target else { continue };
        // The part of the row that both have, in items.
        let first = from_start.checked_add(within / size)?;
        let last = first.checked_add(len / size)?;
        let (start, end) = (first.max(to_start), last.min(to_start.checked_add(to_length)?));
        if start >= end {
            continue;
        }
        let (skipped, wanted) =
            (start.checked_sub(first)?.checked_mul(size)?, end.checked_sub(start)?.checked_mul(size)?);
        let target = target.checked_add(start.checked_sub(to_start)?.checked_mul(size)?)?;
        let (skipped, wanted) = (usize::try_from(skipped).ok()?, usize::try_from(wanted).ok()?);
        let target = usize::try_from(target).ok()?;
        let piece = piece.get(skipped..skipped.checked_add(wanted)?)?;
        dst.get_mut(target..target.checked_add(wanted)?)?.copy_from_slice(piece);
    }
    Some(())
}

/// A dimension of two boxes: where the shared part starts in each, its length, and the distances in bytes.
struct Step {
    from: u64,
    to: u64,
    length: u64,
    src: u64,
    dst: u64,
}

fn copy_rows(
    steps: &[Step],
    (from, src): (u64, &[u8]),
    (to, dst): (u64, &mut [u8]),
    size: usize,
) -> Option<()> {
    let Some((step, rest)) = steps.split_first() else {
        let (from, to) = (usize::try_from(from).ok()?, usize::try_from(to).ok()?);
        let row = src.get(from..from.checked_add(size)?)?;
        dst.get_mut(to..to.checked_add(size)?)?.copy_from_slice(row);
        return Some(());
    };
    let from = from.checked_add(step.from.checked_mul(step.src)?)?;
    let to = to.checked_add(step.to.checked_mul(step.dst)?)?;
    if step.src == step.dst && step.src == size as u64 {
        // Items follow each other in both.
        let len = usize::try_from(step.length).ok()?.checked_mul(size)?;
        if rest.is_empty() {
            return copy_rows(rest, (from, src), (to, dst), len);
        }
    }
    for n in 0..step.length {
        let (from, to) =
            (from.checked_add(n.checked_mul(step.src)?)?, to.checked_add(n.checked_mul(step.dst)?)?);
        copy_rows(rest, (from, src), (to, dst), size)?;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Memory(Vec<u8>);

    impl ReadAt for Memory {
        fn len(&self) -> io::Result<u64> {
            Ok(self.0.len() as u64)
        }
        fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
            let at = offset as usize;
            buf.copy_from_slice(self.0.get(at..at + buf.len()).ok_or(io::ErrorKind::UnexpectedEof)?);
            Ok(())
        }
    }

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
        let file = Memory(file);
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
            let (from, to) = (Held { start: &zeros, shape: &whole }, Held { start: &start, shape: &shape });
            copy_shared(from, &items, to, &mut dst, 2).unwrap();
            assert_eq!(dst, want, "{start:?} {shape:?}");
        }
        // The same in runs, from a box that is not at the start.
        let (start, shape) = ([1, 1, 2], [3, 3, 4]);
        let part = expected(&start, &shape);
        for (to, to_shape) in
            [([0, 0, 0], [5, 4, 6]), ([2, 0, 3], [1, 4, 2]), ([3, 3, 5], [2, 1, 1]), ([4, 0, 0], [1, 1, 1])]
        {
            for run in [2, 6, 10, part.len()] {
                let len = (to_shape.iter().product::<u64>() * 2) as usize;
                let (mut dst, mut want) = (vec![0xFF; len], vec![0xFF; len]);
                let (from, to) =
                    (Held { start: &start, shape: &shape }, Held { start: &to, shape: &to_shape });
                copy_shared(from, &part, to, &mut want, 2).unwrap();
                for (n, piece) in part.chunks(run).enumerate() {
                    copy_run(from, (n * run) as u64, piece, to, &mut dst, 2).unwrap();
                }
                assert_eq!(dst, want, "{to:?} {run}");
            }
        }
        let mut one = [0, 0];
        let none = Held { start: &[], shape: &[] };
        copy_shared(none, &[1, 2], none, &mut one, 2).unwrap();
        assert_eq!(one, [1, 2]);
        // Large gaps are not read.
        let far = Memory((0..3_000_000).map(|n| (n / 1_000_000) as u8).collect());
        let mut column = [9; 3];
        let place = Place { whole: &[3, 1_000_000], start: &[0, 5], shape: &[3, 1], itemsize: 1 };
        place.read(&far, 0, &mut column).unwrap();
        assert_eq!(column, [0, 1, 2]);
    }
}
