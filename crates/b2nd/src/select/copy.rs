//! Copies boxes of items between buffers with arbitrary strides.

use std::ops::Range;

use b2_frame::{RowCopy, Target};

use crate::model::geometry::MAX_DIM;

/// Nested loops that copy a box of items between two buffers, one contiguous row at a time.
#[derive(Clone, Debug)]
pub(crate) struct StridedCopy {
    /// Length of a row in bytes.
    row: usize,
    /// The loops, innermost first.
    dims: [Dim; MAX_DIM],
    ndims: usize,
    /// Offset of the first row in the source (`from`) and in the target (`to`).
    from: usize,
    to: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Dim {
    count: usize,
    from: isize,
    to: isize,
}

impl StridedCopy {
    /// Builds the loops. Offsets (of the first item) and strides are in bytes; strides may be
    /// negative. Returns `None` for an empty box. There must be at most [`MAX_DIM`] dimensions.
    pub(crate) fn new(
        counts: &[usize],
        itemsize: usize,
        (from, from_strides): (usize, &[isize]),
        (to, to_strides): (usize, &[isize]),
    ) -> Option<Self> {
        let mut loops = Self { row: itemsize, dims: [Dim::default(); MAX_DIM], ndims: 0, from, to };
        let mut sorted = [Dim::default(); MAX_DIM];
        let mut n = 0;
        for ((&count, &from), &to) in counts.iter().zip(from_strides).zip(to_strides).rev() {
            match count {
                0 => return None,
                1 => continue,
                _ => {}
            }
            // Order the loops by their larger stride: that one walks main memory and should be
            // sequential, while the other walks a block that is in the cache. The sort is stable.
            let dim = Dim { count, from, to };
            let way = |dim: &Dim| dim.from.unsigned_abs().max(dim.to.unsigned_abs());
            let at = sorted[..n].iter().position(|other| way(other) > way(&dim)).unwrap_or(n);
            sorted.copy_within(at..n, at + 1);
            sorted[at] = dim;
            n += 1;
        }
        for dim in &sorted[..n] {
            let inner = loops.dims[..loops.ndims].last_mut();
            match inner {
                None if dim.from == loops.row as isize && dim.to == dim.from => loops.row *= dim.count,
                Some(inner)
                    if dim.from == inner.from * inner.count as isize
                        && dim.to == inner.to * inner.count as isize =>
                {
                    inner.count *= dim.count;
                }
                _ => {
                    loops.dims[loops.ndims] = *dim;
                    loops.ndims += 1;
                }
            }
        }
        Some(loops)
    }

    /// Returns the source offset, target offset and length if the box is a single row.
    pub(crate) fn contiguous(&self) -> Option<(usize, usize, usize)> {
        (self.ndims == 0).then_some((self.from, self.to, self.row))
    }

    /// Returns the length of a row in bytes.
    pub(crate) fn row(&self) -> usize {
        self.row
    }

    /// Returns the length of all rows in bytes.
    pub(crate) fn nbytes(&self) -> usize {
        self.dims[..self.ndims].iter().map(|dim| dim.count).product::<usize>() * self.row
    }

    /// Returns the range of source bytes from the first to the last that is copied.
    pub(crate) fn source(&self) -> Range<usize> {
        let (mut start, mut end) = (self.from as isize, (self.from + self.row) as isize);
        for dim in &self.dims[..self.ndims] {
            let way = (dim.count - 1) as isize * dim.from;
            start += way.min(0);
            end += way.max(0);
        }
        start as usize..end as usize
    }

    /// Returns the loops for a source without its first `missing` bytes.
    pub(crate) fn without_first(&self, missing: usize) -> Self {
        Self { from: self.from - missing, ..self.clone() }
    }

    /// Returns the loops for a source with `more` bytes in front and then without its first
    /// `missing` bytes.
    pub(crate) fn moved(&self, more: usize, missing: usize) -> Self {
        Self { from: self.from + more - missing, ..self.clone() }
    }

    /// Returns whether the rows of the innermost loop are contiguous in the target and ascend in
    /// the source.
    pub(crate) fn gathers(&self) -> bool {
        self.ndims > 0 && self.dims[0].to == self.row as isize && self.dims[0].from > 0
    }

    /// Calls `visit` with the source and target offset of each row.
    pub(crate) fn each_row(&self, mut visit: impl FnMut(usize, usize)) {
        self.each_line(|line| line.each(&mut visit));
    }

    /// Calls `visit` for each innermost loop with the source offset of its first row, the source
    /// stride, the number of rows, and the target offset. Only valid if [`gathers`](Self::gathers)
    /// is true.
    pub(crate) fn each_run(&self, mut visit: impl FnMut(usize, usize, usize, usize)) {
        self.each_line(|line| {
            visit(line.from as usize, line.dim.from as usize, line.dim.count, line.to as usize);
        });
    }

    /// Splits the box along its largest source stride if the pieces then lie far apart in the
    /// source; otherwise returns it whole.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = Self> {
        let mut piece = self.clone();
        let longest =
            self.dims[..self.ndims].iter().enumerate().max_by_key(|(_, dim)| dim.from.unsigned_abs());
        let mut outer = Dim { count: 1, from: 0, to: 0 };
        if let Some((at, dim)) = longest {
            piece.dims.copy_within(at + 1..self.ndims, at);
            piece.ndims -= 1;
            // Split only if at least half of the source between the pieces is unused.
            if piece.source().len() < dim.from.unsigned_abs() / 2 {
                outer = *dim;
            } else {
                piece = self.clone();
            }
        }
        (0..outer.count as isize).map(move |k| Self {
            from: (piece.from as isize + k * outer.from) as usize,
            to: (piece.to as isize + k * outer.to) as usize,
            ..piece.clone()
        })
    }

    /// Copies the box from `src` to `dst`.
    pub(crate) fn copy(&self, src: &[u8], dst: &mut (impl Target + ?Sized)) {
        self.each_line(|line| match self.row {
            1 => items::<1>(line, src, dst),
            2 => items::<2>(line, src, dst),
            4 => items::<4>(line, src, dst),
            8 => items::<8>(line, src, dst),
            16 => items::<16>(line, src, dst),
            row => match line.rows(row) {
                Some(rows) => dst.put_rows(rows, src),
                None => line.each(|from, to| dst.put(to, &src[from..from + row])),
            },
        });
    }

    /// Sets all bytes of the box in the target to `byte`.
    pub(crate) fn fill(&self, byte: u8, dst: &mut (impl Target + ?Sized)) {
        self.each_line(|line| match line.dim.to == self.row as isize {
            true => dst.fill(line.to as usize, line.dim.count * self.row, byte),
            false => line.each(|_, to| dst.fill(to, self.row, byte)),
        });
    }

    /// Calls `visit` for each run of the innermost loop.
    fn each_line(&self, mut visit: impl FnMut(RowRun)) {
        let (inner, outer) = match self.dims[..self.ndims].split_first() {
            Some((inner, outer)) => (*inner, outer),
            None => (Dim { count: 1, from: 0, to: 0 }, &[][..]),
        };
        let mut line = RowRun { dim: inner, from: self.from as isize, to: self.to as isize };
        let mut at = [0; MAX_DIM];
        'lines: loop {
            visit(line);
            for (at, dim) in at.iter_mut().zip(outer) {
                *at += 1;
                line.from += dim.from;
                line.to += dim.to;
                if *at < dim.count {
                    continue 'lines;
                }
                *at = 0;
                line.from -= dim.from * dim.count as isize;
                line.to -= dim.to * dim.count as isize;
            }
            return;
        }
    }
}

/// Equally spaced rows: one run of the innermost loop.
#[derive(Clone, Copy)]
struct RowRun {
    dim: Dim,
    from: isize,
    to: isize,
}

impl RowRun {
    /// Returns the rows of `len` bytes, if they ascend in source and target.
    fn rows(self, len: usize) -> Option<RowCopy> {
        let Self { dim, from, to } = self;
        let (from_step, to_step) = (usize::try_from(dim.from).ok()?, usize::try_from(dim.to).ok()?);
        Some(RowCopy { len, count: dim.count, from: from as usize, from_step, to: to as usize, to_step })
    }

    #[inline]
    fn each(self, mut visit: impl FnMut(usize, usize)) {
        let (mut from, mut to) = (self.from, self.to);
        for _ in 0..self.dim.count {
            visit(from as usize, to as usize);
            from += self.dim.from;
            to += self.dim.to;
        }
    }
}

/// Copies a line of single items as machine words.
#[inline]
fn items<const N: usize>(line: RowRun, src: &[u8], dst: &mut (impl Target + ?Sized)) {
    let Dim { count, from: step, to: to_step } = line.dim;
    let span = |step: isize| (count - 1) * step as usize + N;
    if step >= N as isize && to_step == N as isize {
        // Strided source, contiguous target: the common case when planes are read.
        let from = line.from as usize;
        let src = &src[from..from + span(step)];
        let dst = dst.place(line.to as usize, count * N);
        for (to, from) in dst.as_chunks_mut::<N>().0.iter_mut().zip(src.chunks(step as usize)) {
            // Every piece has at least N bytes; the last has exactly N.
            if let Some(item) = from.first_chunk::<N>() {
                *to = *item;
            }
        }
        return;
    }
    line.each(|from, to| dst.put(to, &src[from..from + N]));
}

/// Copies a box of items between two buffers. Offsets (of the first item) and strides are in bytes;
/// strides may be negative.
pub(crate) fn copy_box(
    counts: &[usize],
    itemsize: usize,
    (src, src_offset, src_strides): (&[u8], usize, &[isize]),
    (dst, dst_offset, dst_strides): (&mut [u8], usize, &[isize]),
) {
    if let Some(loops) =
        StridedCopy::new(counts, itemsize, (src_offset, src_strides), (dst_offset, dst_strides))
    {
        loops.copy(src, dst);
    }
}

#[cfg(test)]
mod tests {
    use b2_testkit::Rng;

    use super::*;

    /// Returns a random layout of a box: offset, strides and length of the buffer.
    fn layout(rng: &mut Rng, counts: &[usize], itemsize: usize) -> (usize, Vec<isize>, usize) {
        let mut order: Vec<usize> = (0..counts.len()).collect();
        for i in (1..order.len()).rev() {
            order.swap(i, rng.below(i + 1));
        }
        if rng.below(2) == 0 {
            order = (0..counts.len()).rev().collect();
        }
        let (mut step, mut offset) = (itemsize, 0);
        let mut strides = vec![0; counts.len()];
        for &dim in &order {
            step += if rng.below(3) == 0 { rng.below(4) * itemsize } else { 0 };
            strides[dim] = step as isize;
            step *= counts[dim].max(1);
            if rng.below(5) == 0 {
                offset += (counts[dim].max(1) - 1) * strides[dim] as usize;
                strides[dim] = -strides[dim];
            }
        }
        let front = rng.below(9);
        (offset + front, strides, step + front + itemsize)
    }

    #[test]
    fn boxes_of_any_layout_are_copied() {
        let mut rng = Rng::new(1);
        for _ in 0..3000 {
            let itemsize = [1, 2, 3, 4, 8, 12, 16, 24][rng.below(8)];
            let counts: Vec<usize> =
                (0..rng.below(5)).map(|_| rng.below(6) + usize::from(rng.below(8) > 0)).collect();
            let (from, from_strides, src_len) = layout(&mut rng, &counts, itemsize);
            let (to, to_strides, dst_len) = layout(&mut rng, &counts, itemsize);
            let src: Vec<u8> = (0..src_len).map(|_| rng.below(256) as u8).collect();
            let mut dst = vec![7; dst_len];
            let mut expected = dst.clone();
            let mut filled = dst.clone();
            let total: usize = counts.iter().product();
            for n in 0..total {
                let (mut n, mut f, mut t) = (n, from as isize, to as isize);
                for dim in (0..counts.len()).rev() {
                    f += (n % counts[dim]) as isize * from_strides[dim];
                    t += (n % counts[dim]) as isize * to_strides[dim];
                    n /= counts[dim];
                }
                let (f, t) = (f as usize, t as usize);
                expected[t..t + itemsize].copy_from_slice(&src[f..f + itemsize]);
                filled[t..t + itemsize].fill(9);
            }
            copy_box(&counts, itemsize, (&src, from, &from_strides), (&mut dst, to, &to_strides));
            assert_eq!(dst, expected, "{counts:?} {itemsize} {from_strides:?} {to_strides:?}");
            dst.fill(7);
            if let Some(loops) = StridedCopy::new(&counts, itemsize, (from, &from_strides), (to, &to_strides))
            {
                loops.fill(9, &mut dst[..]);
            }
            assert_eq!(dst, filled);
            dst.fill(7);
            if let Some(loops) = StridedCopy::new(&counts, itemsize, (from, &from_strides), (to, &to_strides))
            {
                assert_eq!(loops.nbytes(), total * itemsize);
                let hull = loops.source();
                for piece in loops.pieces() {
                    let part = piece.source();
                    assert!(hull.start <= part.start && part.end <= hull.end);
                    piece.without_first(part.start).copy(&src[part], &mut dst[..]);
                }
                assert_eq!(dst, expected);
            }
        }
    }

    #[test]
    fn whole_boxes_are_one_row() {
        let loops = StridedCopy::new(&[2, 3, 1], 4, (0, &[12, 4, 99]), (100, &[12, 4, -7])).unwrap();
        assert_eq!(loops.contiguous(), Some((0, 100, 24)));
        let loops = StridedCopy::new(&[2, 3], 4, (0, &[12, 4]), (0, &[16, 4])).unwrap();
        assert_eq!((loops.contiguous(), loops.row), (None, 12));
    }
}
