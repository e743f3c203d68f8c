//! Splits boxes of items into the blocks of a chunk.

use crate::Geometry;
use crate::model::geometry::{coords, strides};
use crate::model::meta::MAX_DIM;
use crate::select::copy::Loops;
use crate::write::source::Strided;

/// The items of one chunk, somewhere in memory.
pub(crate) struct Cut<'a> {
    geometry: &'a Geometry,
    region: &'a Strided<'a>,
    /// Offset of the chunk's first item in the region's memory, in bytes.
    offset: usize,
    /// Number of the chunk's items along each dimension; the rest of the chunk is padding.
    part: Vec<u64>,
    block_strides: Vec<isize>,
    blocks: Vec<u64>,
}

/// Returns the offset `n` items further along a dimension. Strides may be negative.
fn step(from: usize, (&n, &stride): (&u64, &isize)) -> usize {
    from.wrapping_add_signed((n as isize).wrapping_mul(stride))
}

impl<'a> Cut<'a> {
    /// Selects the items `at..at + part` of a region in memory.
    pub(crate) fn new(geometry: &'a Geometry, region: &'a Strided<'a>, at: &[u64], part: Vec<u64>) -> Self {
        let offset = at.iter().zip(region.strides()).fold(region.offset(), step);
        let block_strides = strides(geometry.blockshape().iter().map(|&n| n as usize), geometry.itemsize());
        let blocks = geometry.blocks().iter().map(|&n| n.into()).collect();
        Self { geometry, region, offset, part, block_strides, blocks }
    }

    /// Copies a block in its stored order, padded with zeros.
    pub(crate) fn block(&self, nblock: usize, dst: &mut [u8]) {
        let mut counts = [0; MAX_DIM];
        let mut from = self.offset;
        let mut whole = true;
        let nd = self.part.len();
        for (dim, j) in coords(nblock as u64, &self.blocks).into_iter().enumerate() {
            let b = u64::from(self.geometry.blockshape()[dim]);
            let count = self.part[dim].saturating_sub(j * b).min(b);
            whole &= count == b;
            counts[dim] = count as usize;
            // In a block without items this offset is not used.
            from = step(from, (&(j * b), &self.region.strides()[dim]));
        }
        if !whole {
            dst.fill(0);
        }
        let (counts, strides) = (&counts[..nd], self.region.strides());
        let itemsize = self.geometry.itemsize();
        if let Some(loops) = Loops::new(counts, itemsize, (from, strides), (0, &self.block_strides)) {
            loops.copy(self.region.bytes(), dst);
        }
    }

    /// Copies a chunk in its stored order, block after block.
    pub(crate) fn chunk(&self, dst: &mut [u8]) {
        for (nblock, dst) in dst.chunks_exact_mut(self.geometry.block_nbytes()).enumerate() {
            self.block(nblock, dst);
        }
    }
}
