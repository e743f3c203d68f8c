//! An N-dimensional block cut into cells, for the filters `ndcell` and `ndmean`.

use crate::error::Result;
use crate::{FilterContext, FilterError, FilterId};

/// Most dimensions that these filters accept; b2nd allows 16.
const MAX_DIM: usize = 8;

/// A checked block shape and the sides of its cells. Cells at the upper edges are smaller.
#[derive(Debug)]
pub(crate) struct Cells {
    /// Items of the block per dimension, none of them 0. Dimensions of one item do not affect the order and are
    /// omitted.
    dims: Vec<usize>,
    /// Cell sides, none of them 0 or longer than the block.
    sides: Vec<usize>,
    /// Item size in bytes, not 0.
    pub(crate) itemsize: usize,
}

/// A row of cells along the last dimension. Each cell has as many rows, at successive offsets.
struct Band<'a> {
    /// Offset of the first cell in the block, in bytes.
    start: usize,
    /// Offsets of its rows, relative to the cell, in bytes.
    rows: &'a [usize],
    /// Length of all cells along the last dimension, in bytes.
    width: usize,
    /// Length of a row of a cell, in bytes; the last cell may have less.
    side: usize,
}

impl Cells {
    /// Checks the container's shape against the block length. `side` returns the cell side for a dimension.
    pub(crate) fn new(
        filter: FilterId,
        cx: &FilterContext<'_>,
        nbytes: usize,
        side: impl Fn(usize) -> usize,
    ) -> Result<Self> {
        let wrong = |what| FilterError::Container { filter, what };
        if cx.blockshape.is_empty() {
            return Err(wrong("no block shape: the block is not part of an array"));
        }
        if cx.blockshape.len() > MAX_DIM {
            return Err(wrong("more than 8 dimensions"));
        }
        let itemsize = cx.full_itemsize.unwrap_or(cx.itemsize);
        let mut expected = Some(itemsize);
        let mut dims = Vec::with_capacity(MAX_DIM);
        for &dim in cx.blockshape {
            let dim = usize::try_from(dim).map_err(|_| wrong("the block shape does not fit in memory"))?;
            expected = expected.and_then(|n| n.checked_mul(dim));
            dims.push(dim);
        }
        // This also limits the loops: without a zero in the product there are at most `nbytes` items.
        if itemsize == 0 || dims.contains(&0) || expected != Some(nbytes) {
            return Err(wrong("block shape times item size is not the length of the block"));
        }
        dims.retain(|&dim| dim > 1);
        if dims.is_empty() {
            dims.push(1);
        }
        let sides = dims.iter().map(|&dim| side(dim).clamp(1, dim)).collect();
        Ok(Self { dims, sides, itemsize })
    }

    /// Returns the number of items in the block.
    pub(crate) fn nitems(&self) -> usize {
        self.dims.iter().product()
    }

    /// Calls `band` for each run of cells along the last dimension, in C order.
    fn bands(&self, mut band: impl FnMut(Band<'_>)) {
        let last = self.dims.len() - 1;
        let mut strides = vec![self.itemsize; self.dims.len()];
        for k in (0..last).rev() {
            strides[k] = strides[k + 1] * self.dims[k + 1];
        }
        let mut origin = vec![0; last];
        // With a side above 1, rows have at least two items, so there are at most half as many rows as items.
        let mut rows = Vec::new();
        let mut extents = Vec::new();
        loop {
            let extent = |k: usize| self.sides[k].min(self.dims[k] - origin[k]);
            if (0..last).map(extent).ne(extents.iter().copied()) || rows.is_empty() {
                extents.clear();
                extents.extend((0..last).map(extent));
                rows.clear();
                rows.push(0);
                for k in 0..last {
                    rows = rows
                        .iter()
                        .flat_map(|row| (0..extents[k]).map(move |i| (row, i)))
                        .map(|(row, i)| row + i * strides[k])
                        .collect();
                }
            }
            band(Band {
                start: origin.iter().zip(&strides).map(|(o, s)| o * s).sum(),
                rows: &rows,
                width: self.dims[last] * self.itemsize,
                side: self.sides[last] * self.itemsize,
            });
            if !advance(&mut origin, &self.sides, &self.dims) {
                return;
            }
        }
    }

    /// Calls `cell` with the length of each cell in bytes, in the order in which they are stored.
    pub(crate) fn lengths(&self, mut cell: impl FnMut(usize)) {
        self.bands(|band| {
            for at in (0..band.width).step_by(band.side) {
                cell(band.rows.len() * band.side.min(band.width - at));
            }
        });
    }

    /// Reorders a block into cells.
    pub(crate) fn to_cells(&self, src: &[u8], dst: &mut [u8]) {
        self.copy::<false>(src, dst);
    }

    /// Reorders cells into a block.
    pub(crate) fn to_block(&self, src: &[u8], dst: &mut [u8]) {
        self.copy::<true>(src, dst);
    }

    fn copy<const BACK: bool>(&self, src: &[u8], dst: &mut [u8]) {
        let mut stored = 0;
        self.bands(|band| {
            // Rows are mostly short, with few different lengths. For those, a call to `memcpy` costs more than the
            // copy.
            let copy = match band.side {
                2 => copy_band::<2, BACK>,
                4 => copy_band::<4, BACK>,
                8 => copy_band::<8, BACK>,
                12 => copy_band::<12, BACK>,
                16 => copy_band::<16, BACK>,
                24 => copy_band::<24, BACK>,
                32 => copy_band::<32, BACK>,
                64 => copy_band::<64, BACK>,
                _ => copy_band::<0, BACK>,
            };
            stored = copy(&band, src, dst, stored);
        });
    }
}

/// Copies between the block and its cells, which are stored from byte `stored` on. Returns the end of the cells. Rows
/// have `N` bytes, or, if `N` is 0, the length in the band.
fn copy_band<const N: usize, const BACK: bool>(
    band: &Band<'_>,
    src: &[u8],
    dst: &mut [u8],
    mut stored: usize,
) -> usize {
    let side = if N == 0 { band.side } else { N };
    let whole = band.width - band.width % side;
    let mut copy = |row: usize, len: usize| {
        let (from, to) = if BACK { (stored, row) } else { (row, stored) };
        dst[to..to + len].copy_from_slice(&src[from..from + len]);
        stored += len;
    };
    for at in (band.start..band.start + whole).step_by(side) {
        for row in band.rows {
            copy(at + row, side);
        }
    }
    if whole < band.width {
        for row in band.rows {
            copy(band.start + whole + row, band.width - whole);
        }
    }
    stored
}

/// Advances the corner of a cell, last dimension first. Returns false after the last cell.
fn advance(origin: &mut [usize], sides: &[usize], dims: &[usize]) -> bool {
    for k in (0..origin.len()).rev() {
        // Cannot overflow: both are at most the dimension, which is at most half of `usize::MAX`.
        origin[k] += sides[k];
        if origin[k] < dims[k] {
            return true;
        }
        origin[k] = 0;
    }
    false
}
