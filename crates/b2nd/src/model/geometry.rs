//! Shape, chunk shape and block shape, checked against each other (docs/format/b2nd.md, section 2).

use b2_chunk::{MAX_BLOCKSIZE, MAX_CHUNK_NBYTES};

use crate::NdError;

/// The largest number of dimensions of an array.
pub(crate) const MAX_DIM: usize = 16;

/// How an array is divided into chunks and blocks. All products are checked for overflow once, at
/// construction.
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
    /// [`NdError::Geometry`] when the shapes differ in their number of dimensions or have more than 16, when a chunk or
    /// block length is 0 along a dimension that has items, or when a product exceeds the limits of the format.
    pub fn new(
        shape: Vec<u64>,
        chunkshape: Vec<u32>,
        blockshape: Vec<u32>,
        itemsize: usize,
    ) -> Result<Self, NdError> {
        Self::checked(shape, chunkshape, blockshape, itemsize).map_err(|fault| NdError::geometry(fault.what))
    }

    /// Like [`new`](Self::new), but the error also identifies the wrong number.
    pub(crate) fn checked(
        shape: Vec<u64>,
        chunkshape: Vec<u32>,
        blockshape: Vec<u32>,
        itemsize: usize,
    ) -> Result<Self, GeometryFault> {
        let nd = shape.len();
        if nd > MAX_DIM {
            let what = format!("{nd} dimensions, at most {MAX_DIM} are supported");
            return Err(GeometryFault::new(GeometryPart::Dimensions, 0, what));
        }
        if chunkshape.len() != nd || blockshape.len() != nd {
            let (what, given) = match chunkshape.len() {
                given if given != nd => ("chunk shape", given),
                _ => ("block shape", blockshape.len()),
            };
            return Err(GeometryFault::new(GeometryPart::Dimensions, 0, wrong_length(what, given, nd)));
        }
        if itemsize == 0 || itemsize > MAX_BLOCKSIZE {
            let what = format!("item size {itemsize}, expected 1 to {MAX_BLOCKSIZE}");
            return Err(GeometryFault::new(GeometryPart::Shape, 0, what));
        }
        let mut grid = Vec::with_capacity(nd);
        let mut blocks = Vec::with_capacity(nd);
        let (mut chunk, mut block) = (itemsize as u64, itemsize as u64);
        for (dim, (&s, (&c, &b))) in shape.iter().zip(chunkshape.iter().zip(&blockshape)).enumerate() {
            let fail =
                |part, what: String| Err(GeometryFault::new(part, dim, format!("dimension {dim}: {what}")));
            if (c == 0 || b == 0) && s > 0 {
                let (part, what) = match c {
                    0 => (GeometryPart::Chunkshape, "chunk"),
                    _ => (GeometryPart::Blockshape, "block"),
                };
                return fail(part, format!("the {what} length is 0, expected 1 or more"));
            }
            if c > i32::MAX as u32 {
                return fail(GeometryPart::Chunkshape, format!("length {c}, expected less than 2^31"));
            }
            if b > i32::MAX as u32 {
                return fail(GeometryPart::Blockshape, format!("length {b}, expected less than 2^31"));
            }
            if i64::try_from(s).ok().and_then(|s| s.checked_add(c.into())).is_none() {
                return fail(
                    GeometryPart::Shape,
                    format!("length {s}, expected less than 2^63 with a chunk of {c} more"),
                );
            }
            grid.push(if c == 0 { 0 } else { s.div_ceil(c.into()) });
            let nblocks = if b == 0 { 0 } else { c.div_ceil(b) };
            blocks.push(nblocks);
            let padded = u64::from(nblocks).saturating_mul(b.into());
            let bounded = |product: u64, factor, limit: usize, part, what| {
                let found = product.checked_mul(factor).filter(|&n| n <= limit as u64);
                found.ok_or_else(|| {
                    GeometryFault::new(part, dim, format!("a {what} is larger than {limit} bytes"))
                })
            };
            chunk = bounded(chunk, padded, MAX_CHUNK_NBYTES, GeometryPart::Chunkshape, "chunk")?;
            block = bounded(block, b.into(), MAX_BLOCKSIZE, GeometryPart::Blockshape, "block")?;
        }
        let product = |numbers: &[u64], what| {
            if numbers.contains(&0) {
                return Ok(0);
            }
            numbers
                .iter()
                .try_fold(1u64, |n, &x| n.checked_mul(x))
                .filter(|&n| n <= i64::MAX as u64)
                .ok_or_else(|| {
                    GeometryFault::new(GeometryPart::Shape, 0, format!("the number of {what} is too large"))
                })
        };
        let nitems = product(&shape, "items")?;
        let nchunks = product(&grid, "chunks")?;
        if nitems.checked_mul(itemsize as u64).is_none_or(|n| n > i64::MAX as u64)
            || nchunks.checked_mul(chunk).is_none_or(|n| n > i64::MAX as u64)
        {
            return Err(GeometryFault::new(GeometryPart::Shape, 0, "the array is larger than 2^63 bytes"));
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

    /// Returns the geometry of an array with the same chunks and blocks that is no longer along any
    /// dimension, so nothing has to be checked again.
    pub(crate) fn within(&self, shape: &[u64]) -> Self {
        let shape: Vec<u64> = shape.iter().zip(&self.shape).map(|(&len, &most)| len.min(most)).collect();
        let chunks = |(&s, &c): (&u64, &u32)| if c == 0 { 0 } else { s.div_ceil(c.into()) };
        let grid: Vec<u64> = shape.iter().zip(&self.chunkshape).map(chunks).collect();
        let (nitems, nchunks) = (product(shape.iter().copied()), product(grid.iter().copied()));
        Self { shape, grid, nitems, nchunks, ..self.clone() }
    }

    /// Returns the length of each dimension, in items.
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }
    /// Returns the length of a chunk along each dimension, in items.
    pub fn chunkshape(&self) -> &[u32] {
        &self.chunkshape
    }
    /// Returns the length of a block along each dimension, in items.
    pub fn blockshape(&self) -> &[u32] {
        &self.blockshape
    }
    /// Returns the size of an item in bytes.
    pub fn itemsize(&self) -> usize {
        self.itemsize
    }
    /// Returns the number of dimensions.
    pub fn ndim(&self) -> usize {
        self.shape.len()
    }
    /// Returns the number of chunks along each dimension.
    pub fn grid(&self) -> &[u64] {
        &self.grid
    }
    /// Returns the number of blocks along each dimension of a chunk.
    pub fn blocks(&self) -> &[u32] {
        &self.blocks
    }
    /// Returns the number of items.
    pub fn nitems(&self) -> u64 {
        self.nitems
    }
    /// Returns the size of all items in bytes, without padding.
    pub fn nbytes(&self) -> u64 {
        // `new` has checked that this does not overflow.
        self.nitems.saturating_mul(self.itemsize as u64)
    }
    /// Returns the number of chunks.
    pub fn nchunks(&self) -> u64 {
        self.nchunks
    }
    /// Returns the size of a chunk in bytes, with padding; 0 if a chunk length is 0.
    pub fn chunk_nbytes(&self) -> usize {
        self.chunk_nbytes
    }
    /// Returns the size of a block in bytes, with padding; 0 if a block length is 0.
    pub fn block_nbytes(&self) -> usize {
        self.block_nbytes
    }
    /// Returns the number of blocks in a chunk.
    pub fn nblocks(&self) -> usize {
        self.blocks.iter().map(|&n| n as usize).product()
    }

    /// Returns the position of chunk `nchunk` in the grid of chunks.
    pub fn chunk_coords(&self, nchunk: u64) -> Vec<u64> {
        coords(nchunk, &self.grid)
    }

    /// Returns the start and the lengths of the box of items in a chunk, clipped at the edge of the
    /// array.
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

/// The numbers that define a geometry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GeometryPart {
    Dimensions,
    Shape,
    Chunkshape,
    Blockshape,
}

impl GeometryPart {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Dimensions => "number of dimensions",
            Self::Shape => "shape",
            Self::Chunkshape => "chunkshape",
            Self::Blockshape => "blockshape",
        }
    }
}

/// The error for a list of lengths that does not fit an array of `nd` dimensions.
pub(crate) fn wrong_length(what: &str, given: usize, nd: usize) -> String {
    let lengths = if given == 1 { "length" } else { "lengths" };
    format!("the {what} has {given} {lengths}, the array has {}", dimensions(nd))
}

/// `1 dimension`, `2 dimensions`.
pub(crate) fn dimensions(n: usize) -> String {
    format!("{n} dimension{}", if n == 1 { "" } else { "s" })
}

/// The number that is wrong, and why.
#[derive(Debug)]
pub(crate) struct GeometryFault {
    pub(crate) part: GeometryPart,
    pub(crate) dim: usize,
    pub(crate) what: String,
}

impl GeometryFault {
    fn new(part: GeometryPart, dim: usize, what: impl Into<String>) -> Self {
        Self { part, dim, what: what.into() }
    }
}

/// Returns the number of items of a shape: 0 if any length is 0, otherwise saturating at
/// `u64::MAX`.
pub(crate) fn product(lengths: impl IntoIterator<Item = u64>) -> u64 {
    let (mut n, mut empty) = (1u64, false);
    for length in lengths {
        empty |= length == 0;
        n = n.saturating_mul(length.max(1));
    }
    if empty { 0 } else { n }
}

/// Returns the coordinates of position `n` in C order.
pub(crate) fn coords(mut n: u64, shape: &[u64]) -> Vec<u64> {
    let mut coords = vec![0; shape.len()];
    for (coord, &len) in coords.iter_mut().zip(shape).rev() {
        *coord = n.checked_rem(len).unwrap_or(0);
        n = n.checked_div(len).unwrap_or(0);
    }
    coords
}

/// Returns the strides of a C-contiguous buffer, where neighbours along the last dimension are
/// `unit` apart.
pub(crate) fn strides(
    shape: impl DoubleEndedIterator<Item = usize> + ExactSizeIterator,
    unit: usize,
) -> Vec<isize> {
    let mut strides = vec![0; shape.len()];
    let mut step = unit.cast_signed();
    for (stride, len) in strides.iter_mut().rev().zip(shape.rev()) {
        *stride = step;
        // Callers pass shapes of existing buffers, so this wraps only where the stride is never
        // used.
        step = step.wrapping_mul(len.cast_signed());
    }
    strides
}

/// Calls `visit` for each position of a box, given as half-open ranges, in C order.
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
        // Count like an odometer: advance the last coordinate that has not reached its end, and
        // reset those after it.
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
