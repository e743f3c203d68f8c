//! How a box is cut along the borders of chunks, into parts that threads read at the same time.

use std::num::NonZeroUsize;
use std::thread;

use b2_core::{Control, Limits};
use b2_core::{OutOfMemory, memory};

use crate::boxes::{BoxBounds, product};

/// Minimum number of parts for each thread, if there are enough chunks, so that all threads finish at about the same time.
const PARTS: u64 = 4;
/// Several columns of chunks form one part of at most this many bytes.
const MAX_PART_LEN: u64 = 4 << 20;
/// Parts with fewer bytes are not worth a thread.
const MIN_PART_LEN: u64 = 32 << 10;
/// Minimum bytes of a row, if a part is copied to the result in rows: a list of the rows is held in memory.
const ROW: u64 = 256;

/// A part of a box.
#[derive(Debug)]
pub(crate) struct BoxPart<'d> {
    pub(crate) start: Vec<u64>,
    pub(crate) shape: Vec<u64>,
    /// The destinations of its items: rows of equal length, in C order.
    rows: Vec<&'d mut [u8]>,
}

impl BoxPart<'_> {
    /// Returns its size in bytes.
    pub(crate) fn nbytes(&self) -> u64 {
        self.rows.iter().fold(0, |nbytes, row| nbytes.saturating_add(row.len() as u64))
    }

    /// Lets `read` write the items directly to the result, or to `buffer`, from which they are copied to the result.
    ///
    /// # Errors
    /// Errors of `read`; also fails if there is not enough memory for the buffer.
    pub(crate) fn fill<E: From<OutOfMemory>>(
        &mut self,
        buffer: &mut Vec<u8>,
        read: impl FnOnce(&[u64], &[u64], &mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        if let [only] = &mut self.rows[..] {
            return read(&self.start, &self.shape, only);
        }
        let nbytes = usize::try_from(self.nbytes()).unwrap_or(usize::MAX);
        let items = memory::sized(buffer, nbytes)?;
        read(&self.start, &self.shape, items)?;
        let mut left = &*items;
        for row in &mut self.rows {
            let Some((items, rest)) = left.split_at_checked(row.len()) else { break };
            row.copy_from_slice(items);
            left = rest;
        }
        Ok(())
    }
}

/// A dimension along which a box is cut.
#[derive(Debug, PartialEq)]
struct Axis {
    axis: usize,
    /// The bytes of the result for one position along it and one along each dimension before it.
    step: u64,
    /// Number of items of a part, except for the first and the last.
    length: u64,
    /// How many parts there are.
    count: u64,
    /// Number of threads that have memory for a part.
    threads: usize,
}

/// A box in parts.
pub(crate) struct Parts<'d> {
    pub(crate) parts: Vec<BoxPart<'d>>,
    /// Maximum number of parts that are read concurrently.
    pub(crate) most: usize,
}

impl<'d> Parts<'d> {
    /// Cuts a box of items in chunks of this shape, whose bytes in C order are to be in `dst`. A box that cannot be cut is one part.
    pub(crate) fn of(
        bounds: BoxBounds<'_>,
        chunks: Option<&[u32]>,
        control: &Control,
        limits: &Limits,
        dst: &'d mut [u8],
    ) -> Self {
        let threads = match control.max_threads() {
            usize::MAX => thread::available_parallelism().map_or(1, NonZeroUsize::get),
            threads => threads,
        };
        let best = chunks.and_then(|chunks| best(bounds, chunks, threads, limits, dst.len() as u64));
        let cut = best.and_then(|axis| Some((axis.threads, ends(bounds, &axis)?, axis)));
        let Some((most, ends, Axis { axis, step, .. })) = cut else {
            let (start, shape) = (bounds.start.to_vec(), bounds.shape.to_vec());
            return Self { parts: vec![BoxPart { start, shape, rows: vec![dst] }], most: 1 };
        };
        let first = bounds.start.get(axis).copied().unwrap_or_default();
        let mut from = first;
        let mut parts: Vec<BoxPart<'d>> = Vec::with_capacity(ends.len());
        for &end in &ends {
            let (mut start, mut shape) = (bounds.start.to_vec(), bounds.shape.to_vec());
            if let (Some(start), Some(shape)) = (start.get_mut(axis), shape.get_mut(axis)) {
                (*start, *shape) = (from, end.saturating_sub(from));
            }
            parts.push(BoxPart { start, shape, rows: Vec::new() });
            from = end;
        }
        let mut rest = dst;
        while !rest.is_empty() {
            let before = rest.len();
            for part in &mut parts {
                let length = part.shape.get(axis).copied().unwrap_or_default();
                let len = usize::try_from(length.saturating_mul(step)).unwrap_or(usize::MAX);
                let Some((row, more)) = std::mem::take(&mut rest).split_at_mut_checked(len) else { break };
                part.rows.push(row);
                rest = more;
            }
            if rest.len() >= before {
                break;
            }
        }
        Self { parts, most }
    }
}

/// Returns the dimension along which a box is cut best: the first one along which its parts are single pieces of the result, if
/// there are enough of them.
fn best(bounds: BoxBounds<'_>, chunks: &[u32], threads: usize, limits: &Limits, nbytes: u64) -> Option<Axis> {
    let itemsize = nbytes.checked_div(product(bounds.shape))?;
    let is_right = bounds.start.len() == bounds.shape.len()
        && bounds.shape.len() == chunks.len()
        && itemsize > 0
        && product(bounds.shape).checked_mul(itemsize) == Some(nbytes);
    if !is_right {
        return None;
    }
    let mut best: Option<Axis> = None;
    // Number of rows in the part for one position.
    let mut rows = 1_u64;
    for (axis, (&length, &chunk)) in bounds.shape.iter().zip(chunks).enumerate() {
        let step = nbytes.checked_div(rows.checked_mul(length)?)?;
        if rows > 1 && threads < 2 {
            break;
        }
        let found = along(bounds, axis, chunk.into(), (rows, step), threads, limits);
        let is_better = |found: &Axis| {
            best.as_ref().is_none_or(|best| best.count < threads as u64 && found.count > best.count)
        };
        if let Some(found) = found.filter(is_better) {
            best = Some(found);
        }
        rows = rows.checked_mul(length)?;
    }
    best
}

/// How a box is cut along a dimension, if it can be.
fn along(
    bounds: BoxBounds<'_>,
    axis: usize,
    chunk: u64,
    (rows, step): (u64, u64),
    threads: usize,
    limits: &Limits,
) -> Option<Axis> {
    let (first, length) = (*bounds.start.get(axis)?, *bounds.shape.get(axis)?);
    let chunk = chunk.max(1);
    let grid = first.checked_add(length)?.div_ceil(chunk).saturating_sub(first / chunk);
    let column = step.checked_mul(rows)?.saturating_mul(chunk);
    let large = MAX_PART_LEN.checked_div(column)?.max(1);
    let mut columns = grid.div_ceil(PARTS.saturating_mul(threads as u64)).min(large);
    columns = columns.max(MIN_PART_LEN.div_ceil(column));
    let mut at_once = usize::MAX;
    if rows > 1 {
        columns = columns.max(ROW.div_ceil(step.saturating_mul(chunk)));
        at_once = limits.threads(column.saturating_mul(columns));
    }
    let count = grid.div_ceil(columns.max(1));
    let is_cut = count > 1 && (rows == 1 || at_once > 1);
    is_cut.then_some(Axis { axis, step, length: columns.saturating_mul(chunk), count, threads: at_once })
}

/// Returns where the parts along a dimension end.
fn ends(bounds: BoxBounds<'_>, axis: &Axis) -> Option<Vec<u64>> {
    let (first, length) = (*bounds.start.get(axis.axis)?, *bounds.shape.get(axis.axis)?);
    let last = first.checked_add(length)?;
    let mut ends = Vec::new();
    let mut at = first;
    while at < last {
        at = (at / axis.length).checked_add(1)?.saturating_mul(axis.length).min(last);
        ends.push(at);
    }
    Some(ends)
}

#[cfg(test)]
mod tests {
    use b2_testkit::Rng;

    use super::*;

    /// The reader of a part may fail only for lack of memory.
    #[derive(Debug)]
    struct NoMemory;

    impl From<OutOfMemory> for NoMemory {
        fn from(_: OutOfMemory) -> Self {
            Self
        }
    }

    /// Numbers of the items of a box in an array of this shape, two bytes each.
    fn numbers(whole: &[u64], start: &[u64], shape: &[u64], dst: &mut [u8]) {
        let count = dst.len() as u64 / 2;
        for n in 0..count {
            let (mut left, mut number, mut stride) = (n, 0, 1);
            for ((&length, &at), &all) in shape.iter().zip(start).zip(whole).rev() {
                number += (at + left % length) * stride;
                (left, stride) = (left / length, stride * all);
            }
            dst[n as usize * 2..][..2].copy_from_slice(&(number as u16).to_le_bytes());
        }
    }

    #[test]
    fn parts_are_the_box() {
        let mut rng = Rng::new(25);
        let (mut cut, mut rows) = (0, 0);
        for _ in 0..150 {
            let shape: Vec<u64> = (0..1 + rng.below(3)).map(|_| 1 + rng.below(120) as u64).collect();
            let start: Vec<u64> = shape.iter().map(|_| rng.below(40) as u64).collect();
            let whole: Vec<u64> = start.iter().zip(&shape).map(|(at, length)| at + length).collect();
            let chunks: Vec<u32> = shape.iter().map(|_| 1 + rng.below(100) as u32).collect();
            let mut found = vec![0xAA; product(&shape) as usize * 2];
            let mut expected = found.clone();
            numbers(&whole, &start, &shape, &mut expected);
            let control = Control::new().threads(1 + rng.below(4));
            let limits = Limits::default().max_memory(1 << (20 + rng.below(8)));
            let bounds = BoxBounds { start: &start, shape: &shape };
            let Parts { parts, most } = Parts::of(bounds, Some(&chunks), &control, &limits, &mut found);
            assert_eq!(parts.iter().map(BoxPart::nbytes).sum::<u64>(), expected.len() as u64);
            cut += usize::from(parts.len() > 1);
            rows += usize::from(parts[0].rows.len() > 1);
            let mut buffer = Vec::new();
            for mut part in parts {
                // Parts of several rows need memory, which the limit allows for as many as are read concurrently.
                let needs = if part.rows.len() > 1 { part.nbytes() } else { 0 };
                assert!(needs == 0 || most >= 2 && limits.threads(needs) >= 2, "{needs} {most}");
                // Parts end at chunk boundaries, or at the ends of the box.
                for ((at, length), (chunk, end)) in
                    part.start.iter().zip(&part.shape).zip(chunks.iter().zip(&whole))
                {
                    assert!((at + length) % u64::from(*chunk) == 0 || at + length == *end);
                }
                let read = |start: &[u64], shape: &[u64], dst: &mut [u8]| -> Result<(), NoMemory> {
                    numbers(&whole, start, shape, dst);
                    Ok(())
                };
                part.fill(&mut buffer, read).unwrap();
            }
            assert_eq!(found, expected, "{start:?} {shape:?} {chunks:?}");
        }
        assert!(cut > 10 && rows > 1, "{cut} {rows}");
    }

    /// The number of parts, and of rows of the first one.
    fn counts(shape: &[u64], chunks: &[u32], threads: usize) -> (usize, usize) {
        let mut dst = vec![0; product(shape) as usize];
        let (start, control) = (vec![0; shape.len()], Control::new().threads(threads));
        let bounds = BoxBounds { start: &start, shape };
        let parts = Parts::of(bounds, Some(chunks), &control, &Limits::default(), &mut dst).parts;
        (parts.len(), parts[0].rows.len())
    }

    #[test]
    fn single_pieces_of_the_result_are_preferred() {
        assert_eq!(counts(&[4, 1000, 1000], &[2, 200, 1000], 2), (2, 1));
        assert_eq!(counts(&[4, 1000, 1000], &[2, 200, 1000], 8), (5, 4));
        assert_eq!(counts(&[4, 1000, 1000], &[4, 200, 1000], 2), (5, 4));
        // One thread gains nothing from a copy.
        assert_eq!(counts(&[4, 1000, 1000], &[4, 200, 1000], 1), (1, 1));
        // Rows are not too short for a list of them, parts not too small.
        assert_eq!(counts(&[4000, 1000], &[4000, 1], 2), (4, 4000));
        assert_eq!(counts(&[4000, 10], &[4000, 1], 2), (1, 1));
        assert_eq!(counts(&[1_000_000], &[1], 64), (31, 1));
        assert_eq!(counts(&[], &[], 2), (1, 1));
        assert_eq!(counts(&[0, 5], &[1, 1], 2), (1, 1));
    }
}
