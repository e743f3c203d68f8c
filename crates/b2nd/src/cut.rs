//! Cutting boxes of items into the blocks of a chunk.

use crate::Geometry;
use crate::copy::Loops;
use crate::geometry::{coords, strides};
use crate::meta::MAX_DIM;
use crate::source::Region;

/// The items of one chunk, somewhere in memory.
pub(crate) struct Cut<'a> {
    geometry: &'a Geometry,
    region: &'a Region<'a>,
    /// Where the chunk's first item is in the region, in bytes.
    offset: usize,
    /// How many items of the chunk there are along each dimension; the rest is padding.
    part: Vec<u64>,
    block_strides: Vec<isize>,
    blocks: Vec<u64>,
}

impl<'a> Cut<'a> {
    /// The items `at..at + part` of a region.
    pub(crate) fn new(geometry: &'a Geometry, region: &'a Region<'a>, at: &[u64], part: Vec<u64>) -> Self {
        let steps = at.iter().zip(region.strides());
        let offset =
            region.offset() + steps.map(|(&at, &stride)| at as usize * stride as usize).sum::<usize>();
        let block_strides = strides(geometry.blockshape().iter().map(|&n| n as usize), geometry.itemsize());
        let blocks = geometry.blocks().iter().map(|&n| n.into()).collect();
        Self { geometry, region, offset, part, block_strides, blocks }
    }

    /// Fills a block as it is stored, padded with zeros.
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
            // Not used where there are no items.
            from = from.wrapping_add((j * b) as usize * self.region.strides()[dim] as usize);
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

    /// Fills a chunk as it is stored, block after block.
    pub(crate) fn chunk(&self, dst: &mut [u8]) {
        for (nblock, dst) in dst.chunks_exact_mut(self.geometry.block_nbytes()).enumerate() {
            self.block(nblock, dst);
        }
    }
}
