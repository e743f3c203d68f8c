//! Shape, chunkshape and blockshape, checked against each other (docs/format/b2nd.md, section 2).

#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::string_slice,
        clippy::unreachable,
        clippy::unwrap_used,
        reason = "reads bytes from outside"
    )
)]

use b2_chunk::{MAX_BLOCKSIZE, MAX_CHUNK_NBYTES};

use crate::NdError;
use crate::meta::MAX_DIM;

/// How an array is cut into chunks and blocks. All products are computed once, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    shape: Vec<u64>,
    chunkshape: Vec<u32>,
    blockshape: Vec<u32>,
    itemsize: usize,
    /// Chunks along each dimension.
    grid: Vec<u64>,
    /// Blocks along each dimension of a chunk.
    blocks: Vec<u32>,
    nitems: u64,
    nchunks: u64,
    chunk_nbytes: usize,
    block_nbytes: usize,
}

impl Geometry {
    /// Checks the shapes (in items) and the item size (in bytes) against each other.
    ///
    /// # Errors
    /// When the numbers of dimensions differ or are above 16, a chunk or block length is 0 where the array
    /// has items, or a product is beyond the format's limits.
    pub fn new(
        shape: Vec<u64>,
        chunkshape: Vec<u32>,
        blockshape: Vec<u32>,
        itemsize: usize,
    ) -> Result<Self, NdError> {
        Self::checked(shape, chunkshape, blockshape, itemsize).map_err(|fault| NdError::geometry(fault.what))
    }

    /// As [`new`](Self::new); the error tells which part is at fault.
    pub(crate) fn checked(
        shape: Vec<u64>,
        chunkshape: Vec<u32>,
        blockshape: Vec<u32>,
        itemsize: usize,
    ) -> Result<Self, Fault> {
        let nd = shape.len();
        if nd > MAX_DIM {
            let what = format!("{nd} dimensions, at most {MAX_DIM} are supported");
            return Err(Fault::new(Part::Dimensions, 0, what));
        }
        if chunkshape.len() != nd || blockshape.len() != nd {
            let (c, b) = (chunkshape.len(), blockshape.len());
            let what = format!("shape has {nd} dimensions, chunkshape {c}, blockshape {b}");
            return Err(Fault::new(Part::Dimensions, 0, what));
        }
        if itemsize == 0 || itemsize > MAX_BLOCKSIZE {
            let what = format!("item size {itemsize}, expected 1 to {MAX_BLOCKSIZE}");
            return Err(Fault::new(Part::Shape, 0, what));
        }
        let mut grid = Vec::with_capacity(nd);
        let mut blocks = Vec::with_capacity(nd);
        let (mut chunk, mut block) = (itemsize as u64, itemsize as u64);
        for (dim, (&s, (&c, &b))) in shape.iter().zip(chunkshape.iter().zip(&blockshape)).enumerate() {
            let fail = |part, what: String| Err(Fault::new(part, dim, format!("dimension {dim}: {what}")));
            if (c == 0 || b == 0) && s > 0 {
                let part = if c == 0 { Part::Chunkshape } else { Part::Blockshape };
                return fail(part, format!("chunk length {c}, block length {b} in an array of length {s}"));
            }
            if c > i32::MAX as u32 {
                return fail(Part::Chunkshape, format!("length {c}, expected less than 2^31"));
            }
            if b > i32::MAX as u32 {
                return fail(Part::Blockshape, format!("length {b}, expected less than 2^31"));
            }
            if i64::try_from(s).ok().and_then(|s| s.checked_add(c.into())).is_none() {
                return fail(
                    Part::Shape,
                    format!("length {s}, expected less than 2^63 with a chunk of {c} more"),
                );
            }
            grid.push(if c == 0 { 0 } else { s.div_ceil(c.into()) });
            let nblocks = if b == 0 { 0 } else { c.div_ceil(b) };
            blocks.push(nblocks);
            let padded = u64::from(nblocks).saturating_mul(b.into());
            let bounded = |product: u64, factor, limit: usize, part, what| {
                let found = product.checked_mul(factor).filter(|&n| n <= limit as u64);
                found.ok_or_else(|| Fault::new(part, dim, format!("a {what} is larger than {limit} bytes")))
            };
            chunk = bounded(chunk, padded, MAX_CHUNK_NBYTES, Part::Chunkshape, "chunk")?;
            block = bounded(block, b.into(), MAX_BLOCKSIZE, Part::Blockshape, "block")?;
        }
        let product = |numbers: &[u64], what| {
            if numbers.contains(&0) {
                return Ok(0);
            }
            numbers
                .iter()
                .try_fold(1u64, |n, &x| n.checked_mul(x))
                .filter(|&n| n <= i64::MAX as u64)
                .ok_or_else(|| Fault::new(Part::Shape, 0, format!("the number of {what} is too large")))
        };
        let nitems = product(&shape, "items")?;
        let nchunks = product(&grid, "chunks")?;
        if nitems.checked_mul(itemsize as u64).is_none_or(|n| n > i64::MAX as u64)
            || nchunks.checked_mul(chunk).is_none_or(|n| n > i64::MAX as u64)
        {
            return Err(Fault::new(Part::Shape, 0, "the array is larger than 2^63 bytes"));
        }
        Ok(Self {
            shape,
            chunkshape,
            blockshape,
            itemsize,
            grid,
            blocks,
            nitems,
            nchunks,
            // Both are below 2^31.
            chunk_nbytes: usize::try_from(chunk).unwrap_or(usize::MAX),
            block_nbytes: usize::try_from(block).unwrap_or(usize::MAX),
        })
    }

    /// Length of each dimension, in items.
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }
    /// Length of a chunk along each dimension, in items.
    pub fn chunkshape(&self) -> &[u32] {
        &self.chunkshape
    }
    /// Length of a block along each dimension, in items.
    pub fn blockshape(&self) -> &[u32] {
        &self.blockshape
    }
    /// Size of an item in bytes.
    pub fn itemsize(&self) -> usize {
        self.itemsize
    }
    /// Number of dimensions.
    pub fn ndim(&self) -> usize {
        self.shape.len()
    }
    /// Chunks along each dimension.
    pub fn grid(&self) -> &[u64] {
        &self.grid
    }
    /// Blocks along each dimension of a chunk.
    pub fn blocks(&self) -> &[u32] {
        &self.blocks
    }
    /// Number of items.
    pub fn nitems(&self) -> u64 {
        self.nitems
    }
    /// Size of all items in bytes, padding not counted.
    pub fn nbytes(&self) -> u64 {
        // Checked when it was made.
        self.nitems.saturating_mul(self.itemsize as u64)
    }
    /// Number of chunks.
    pub fn nchunks(&self) -> u64 {
        self.nchunks
    }
    /// Size of a chunk in bytes, padding included; 0 when a chunk length is 0.
    pub fn chunk_nbytes(&self) -> usize {
        self.chunk_nbytes
    }
    /// Size of a block in bytes, padding included; 0 when a block length is 0.
    pub fn block_nbytes(&self) -> usize {
        self.block_nbytes
    }
    /// Blocks in a chunk.
    pub fn nblocks(&self) -> usize {
        self.blocks.iter().map(|&n| n as usize).product()
    }

    /// Place in the grid of a chunk, from its number.
    pub fn chunk_coords(&self, nchunk: u64) -> Vec<u64> {
        coords(nchunk, &self.grid)
    }

    /// The items a chunk really holds along each dimension: start and length, cut at the array's edge.
    pub fn chunk_box(&self, coords: &[u64]) -> (Vec<u64>, Vec<u64>) {
        let start: Vec<u64> =
            coords.iter().zip(&self.chunkshape).map(|(&g, &c)| g.saturating_mul(c.into())).collect();
        let len = start
            .iter()
            .zip(self.shape.iter().zip(&self.chunkshape))
            .map(|(&start, (&s, &c))| s.saturating_sub(start).min(c.into()))
            .collect();
        (start, len)
    }
}

/// The numbers that a geometry is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Dimensions,
    Shape,
    Chunkshape,
    Blockshape,
}

impl Part {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Dimensions => "number of dimensions",
            Self::Shape => "shape",
            Self::Chunkshape => "chunkshape",
            Self::Blockshape => "blockshape",
        }
    }
}

/// Which number is at fault, and why.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) part: Part,
    pub(crate) dim: usize,
    pub(crate) what: String,
}

impl Fault {
    fn new(part: Part, dim: usize, what: impl Into<String>) -> Self {
        Self { part, dim, what: what.into() }
    }
}

/// Number of items of a shape: 0 as soon as one length is 0, `u64::MAX` where it is too large.
pub(crate) fn product(lengths: impl IntoIterator<Item = u64>) -> u64 {
    let (mut n, mut empty) = (1u64, false);
    for length in lengths {
        empty |= length == 0;
        n = n.saturating_mul(length.max(1));
    }
    if empty { 0 } else { n }
}

/// Coordinates of position `n` in C order.
pub(crate) fn coords(mut n: u64, shape: &[u64]) -> Vec<u64> {
    let mut coords = vec![0; shape.len()];
    for (coord, &len) in coords.iter_mut().zip(shape).rev() {
        *coord = n.checked_rem(len).unwrap_or(0);
        n = n.checked_div(len).unwrap_or(0);
    }
    coords
}

/// Distance between neighbours along each dimension in C order, in units of the last one's `unit`.
pub(crate) fn strides(
    shape: impl DoubleEndedIterator<Item = usize> + ExactSizeIterator,
    unit: usize,
) -> Vec<isize> {
    let mut strides = vec![0; shape.len()];
    let mut step = unit.cast_signed();
    for (stride, len) in strides.iter_mut().rev().zip(shape.rev()) {
        *stride = step;
        // Callers pass shapes of buffers that exist, so this cannot wrap for anything that is read.
        step = step.wrapping_mul(len.cast_signed());
    }
    strides
}

/// Calls `visit` for each position of a box in C order, given as half-open ranges.
pub(crate) fn for_each_position<E>(
    ranges: &[std::ops::Range<u64>],
    mut visit: impl FnMut(&[u64]) -> Result<(), E>,
) -> Result<(), E> {
    if ranges.iter().any(|r| r.is_empty()) {
        return Ok(());
    }
    let mut at: Vec<u64> = ranges.iter().map(|r| r.start).collect();
    loop {
        visit(&at)?;
        // As an odometer: the last wheel that has not come around goes on, those behind it start anew.
        let mut wheels = at.iter_mut().zip(ranges).rev();
        loop {
            let Some((wheel, range)) = wheels.next() else { return Ok(()) };
            *wheel = wheel.saturating_add(1);
            if *wheel < range.end {
                break;
            }
            *wheel = range.start;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn geometry(shape: &[u64], chunks: &[u32], blocks: &[u32], itemsize: usize) -> Result<Geometry, NdError> {
        Geometry::new(shape.to_vec(), chunks.to_vec(), blocks.to_vec(), itemsize)
    }

    #[test]
    fn chunks_are_padded_to_whole_blocks() {
        let g = geometry(&[10, 7], &[4, 5], &[3, 2], 4).unwrap();
        assert_eq!(g.grid(), [3, 2]);
        assert_eq!(g.blocks(), [2, 3]);
        assert_eq!(g.chunk_nbytes(), 6 * 6 * 4);
        assert_eq!(g.block_nbytes(), 24);
        assert_eq!(g.nchunks(), 6);
        assert_eq!(g.chunk_box(&g.chunk_coords(5)), (vec![8, 5], vec![2, 2]));
    }

    #[test]
    fn a_scalar_is_one_chunk_of_one_item() {
        let g = geometry(&[], &[], &[], 8).unwrap();
        assert_eq!((g.nitems(), g.nchunks(), g.chunk_nbytes(), g.nblocks()), (1, 1, 8, 1));
    }

    #[test]
    fn an_empty_array_has_no_chunks() {
        let g = geometry(&[0, 5], &[0, 5], &[0, 5], 4).unwrap();
        assert_eq!((g.nitems(), g.nchunks()), (0, 0));
        let g = geometry(&[0, 5], &[2, 5], &[1, 5], 4).unwrap();
        assert_eq!((g.nitems(), g.nchunks()), (0, 0));
    }

    #[test]
    fn impossible_shapes_are_errors() {
        assert!(geometry(&[5], &[0], &[0], 1).is_err());
        assert!(geometry(&[5], &[5], &[5, 5], 1).is_err());
        assert!(geometry(&[5], &[5], &[5], 0).is_err());
        assert!(geometry(&[u64::MAX], &[5], &[5], 1).is_err());
        assert!(geometry(&[1 << 40, 1 << 40], &[5, 5], &[5, 5], 1).is_err());
        assert!(geometry(&[1 << 40], &[i32::MAX as u32], &[1 << 29], 8).is_err());
        assert!(geometry(&[1; 17], &[1; 17], &[1; 17], 1).is_err());
    }
}
