//! An N-dimensional block cut into cells, for [`NdCell`](crate::NdCell) and [`NdMean`](crate::NdMean).

use crate::{FilterContext, FilterError, FilterId};

/// Most dimensions these filters take (b2nd itself allows 16).
const MAX_DIM: usize = 8;

/// A checked block shape with the sides of its cells. Cells at the upper edges are smaller.
#[derive(Debug)]
pub(crate) struct Cells {
    /// Items of the block per dimension, none of them 0.
    dims: Vec<usize>,
    /// Cell sides, none of them 0.
    sides: Vec<usize>,
    /// Item size in bytes, not 0.
    pub(crate) itemsize: usize,
}

impl Cells {
    /// Checks the container's figures against the block length. `side` gives the cell side for a dimension.
    pub(crate) fn new(
        filter: FilterId,
        cx: &FilterContext<'_>,
        nbytes: usize,
        side: impl Fn(usize) -> usize,
    ) -> Result<Self, FilterError> {
        let wrong = |what| FilterError::Container { filter, what };
        if cx.blockshape.is_empty() {
            return Err(wrong("there is no block shape: the block is not part of an array"));
        }
        if cx.blockshape.len() > MAX_DIM {
            return Err(wrong("more than 8 dimensions"));
        }
        let itemsize = cx.itemsize.unwrap_or(cx.typesize);
        let mut expected = Some(itemsize);
        let mut dims = Vec::with_capacity(MAX_DIM);
        for &dim in cx.blockshape {
            let dim = usize::try_from(dim).map_err(|_| wrong("the block shape does not fit in memory"))?;
            expected = expected.and_then(|n| n.checked_mul(dim));
            dims.push(dim);
        }
        // Also bounds the walk: with no zero in the product there are at most `nbytes` items.
        if itemsize == 0 || dims.contains(&0) || expected != Some(nbytes) {
            return Err(wrong("block shape times item size is not the length of the block"));
        }
        let sides = dims.iter().map(|&dim| side(dim).max(1)).collect();
        Ok(Self { dims, sides, itemsize })
    }

    /// Items in the block.
    pub(crate) fn nitems(&self) -> usize {
        self.dims.iter().product()
    }

    /// Cell sides, one per dimension.
    pub(crate) fn sides(&self) -> &[usize] {
        &self.sides
    }

    /// Calls `row(start, len)` for each row of each cell, in C order within cells and cells in C order, and
    /// `end(len)` after each cell. Rows start at item `start` of the block; lengths are in items.
    pub(crate) fn walk(&self, mut row: impl FnMut(usize, usize), mut end: impl FnMut(usize)) {
        let ndim = self.dims.len();
        let mut strides = vec![1; ndim];
        for k in (1..ndim).rev() {
            strides[k - 1] = strides[k] * self.dims[k];
        }
        let mut origin = vec![0; ndim];
        let mut extent = vec![0; ndim];
        let mut at = vec![0; ndim];
        loop {
            for k in 0..ndim {
                extent[k] = self.sides[k].min(self.dims[k] - origin[k]);
            }
            let corner: usize = origin.iter().zip(&strides).map(|(o, s)| o * s).sum();
            let len = extent[ndim - 1];
            at.fill(0);
            loop {
                row(corner + at.iter().zip(&strides).map(|(a, s)| a * s).sum::<usize>(), len);
                // The last dimension lies within the row.
                if !advance(&mut at[..ndim - 1], |_| 1, |k| extent[k]) {
                    break;
                }
            }
            end(extent.iter().product());
            if !advance(&mut origin, |k| self.sides[k], |k| self.dims[k]) {
                return;
            }
        }
    }

    /// Block order to cell order.
    pub(crate) fn to_cells(&self, src: &[u8], dst: &mut [u8]) {
        let mut to = 0;
        let row = |start: usize, len: usize| {
            let (from, len) = (start * self.itemsize, len * self.itemsize);
            copy_row(&src[from..from + len], &mut dst[to..to + len]);
            to += len;
        };
        self.walk(row, |_| ());
    }

    /// Cell order to block order.
    pub(crate) fn to_block(&self, src: &[u8], dst: &mut [u8]) {
        let mut from = 0;
        let row = |start: usize, len: usize| {
            let (to, len) = (start * self.itemsize, len * self.itemsize);
            copy_row(&src[from..from + len], &mut dst[to..to + len]);
            from += len;
        };
        self.walk(row, |_| ());
    }
}

/// Steps an odometer, last digit first; false when it has come round.
fn advance(digits: &mut [usize], step: impl Fn(usize) -> usize, limit: impl Fn(usize) -> usize) -> bool {
    for k in (0..digits.len()).rev() {
        // Saturating: on a 32-bit machine a side may reach beyond `usize` from the last origin.
        digits[k] = digits[k].saturating_add(step(k));
        if digits[k] < limit(k) {
            return true;
        }
        digits[k] = 0;
    }
    false
}

/// Rows are mostly short and of few lengths; for those a call to `memcpy` would cost more than the copy.
fn copy_row(src: &[u8], dst: &mut [u8]) {
    fn fixed<const N: usize>(src: &[u8], dst: &mut [u8]) {
        if let (Some(d), Some(s)) = (dst.first_chunk_mut::<N>(), src.first_chunk::<N>()) {
            *d = *s;
        }
    }
    match src.len() {
        4 => fixed::<4>(src, dst),
        8 => fixed::<8>(src, dst),
        16 => fixed::<16>(src, dst),
        32 => fixed::<32>(src, dst),
        64 => fixed::<64>(src, dst),
        _ => dst.copy_from_slice(src),
    }
}
