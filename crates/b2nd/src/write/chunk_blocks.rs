//! Splits boxes of items into the blocks of a chunk.

use std::io;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use b2_chunk::{ChunkError, HookError, PlainBlocks};
use b2_core::memory::{self, sized};

use crate::model::geometry::MAX_DIM;
use crate::model::geometry::{coords, strides};
use crate::select::copy::{StridedCopy, copy_box};
use crate::write::source::{Region, SharedRegions, StridedItems, failed};
use crate::{Dtype, Geometry, NdError};

/// The items of one chunk, somewhere in memory.
pub(crate) struct ChunkItems<'a> {
    geometry: &'a Geometry,
    region: &'a StridedItems<'a>,
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

impl<'a> ChunkItems<'a> {
    /// Selects the items `at..at + part` of a region in memory.
    pub(crate) fn new(
        geometry: &'a Geometry,
        region: &'a StridedItems<'a>,
        at: &[u64],
        part: Vec<u64>,
    ) -> Self {
        let offset = at.iter().zip(region.strides()).fold(region.offset(), step);
        let block_strides = strides(geometry.blockshape().iter().map(|&n| n as usize), geometry.itemsize());
        let blocks = geometry.blocks().iter().map(|&n| n.into()).collect();
        Self { geometry, region, offset, part, block_strides, blocks }
    }

    /// Returns the copies of a block's items, and whether they fill the block.
    fn moves(&self, nblock: usize) -> (Option<StridedCopy>, bool) {
        let (start, counts, whole) = block_box(self.geometry, &self.blocks, nblock, &self.part);
        // In a block without items this offset is not used.
        let from = start.iter().zip(self.region.strides()).fold(self.offset, step);
        let (strides, itemsize) = (self.region.strides(), self.geometry.itemsize());
        let counts = &counts[..self.part.len()];
        (StridedCopy::new(counts, itemsize, (from, strides), (0, &self.block_strides)), whole)
    }
}

/// Returns the position of a block's first item in its chunk, the number of its items along each dimension (the chunk
/// has `part` items, the rest is padding), and whether the block has no padding.
fn block_box(
    geometry: &Geometry,
    blocks: &[u64],
    nblock: usize,
    part: &[u64],
) -> ([u64; MAX_DIM], [usize; MAX_DIM], bool) {
    let (mut start, mut counts) = ([0; MAX_DIM], [0; MAX_DIM]);
    let mut whole = true;
    for (dim, j) in coords(nblock as u64, blocks).into_iter().enumerate() {
        let b = u64::from(geometry.blockshape()[dim]);
        let count = part[dim].saturating_sub(j * b).min(b);
        whole &= count == b;
        counts[dim] = count as usize;
        start[dim] = j * b;
    }
    (start, counts, whole)
}

/// Returns each block in its stored order, padded with zeros.
impl PlainBlocks for ChunkItems<'_> {
    fn nbytes(&self) -> usize {
        self.geometry.chunk_nbytes()
    }

    fn block<'b>(&'b self, range: Range<usize>, buffer: &'b mut Vec<u8>) -> Result<&'b [u8], ChunkError> {
        let (moves, whole) = self.moves(range.start / self.geometry.block_nbytes());
        if whole
            && let Some((from, _, len)) = moves.as_ref().and_then(StridedCopy::contiguous)
            && len == range.len()
        {
            return Ok(&self.region.bytes()[from..from + len]);
        }
        let dst = sized(buffer, range.len())?;
        if !whole {
            dst.fill(0);
        }
        if let Some(moves) = moves {
            moves.copy(self.region.bytes(), dst);
        }
        Ok(dst)
    }
}

/// Rows of blocks of at least this many bytes are read one by one.
const LONG_ROW: usize = 16 << 10;

/// The blocks of a chunk, read from an uncompressed source when they are needed.
pub(crate) struct DirectBlocks<'a> {
    geometry: &'a Geometry,
    dtype: &'a Dtype,
    source: &'a dyn SharedRegions,
    start: Vec<u64>,
    part: Vec<u64>,
    blocks: Vec<u64>,
    /// The error of a block that could not be read.
    error: Mutex<Option<io::Error>>,
}

impl<'a> DirectBlocks<'a> {
    /// Returns whether the rows of a block are so long that reading them one by one is worthwhile.
    pub(crate) fn pays(geometry: &Geometry) -> bool {
        let mut row = geometry.itemsize();
        for (&b, &n) in geometry.blockshape().iter().zip(geometry.shape()).rev() {
            row = row.saturating_mul(b as usize);
            if u64::from(b) != n {
                break;
            }
        }
        row >= LONG_ROW.min(geometry.block_nbytes())
    }

    /// The chunk has the items `start..start + part` of the array.
    pub(crate) fn new(
        geometry: &'a Geometry,
        dtype: &'a Dtype,
        source: &'a dyn SharedRegions,
        start: Vec<u64>,
        part: Vec<u64>,
    ) -> Self {
        let blocks = geometry.blocks().iter().map(|&n| n.into()).collect();
        Self { geometry, dtype, source, start, part, blocks, error: Mutex::default() }
    }

    /// Returns the source's own error if it caused compression to fail.
    pub(crate) fn cause(&self, error: NdError) -> NdError {
        match self.error.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(error) => failed(error),
            None => error,
        }
    }

    fn read(&self, region: &Region<'_>, dst: &mut [u8]) -> Result<(), ChunkError> {
        self.source.read_region(region, dst).map_err(|error| {
            let kind = error.kind();
            self.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            ChunkError::Source(HookError::new(io::Error::from(kind).into()))
        })
    }
}

impl PlainBlocks for DirectBlocks<'_> {
    fn nbytes(&self) -> usize {
        self.geometry.chunk_nbytes()
    }

    fn block<'b>(&'b self, range: Range<usize>, buffer: &'b mut Vec<u8>) -> Result<&'b [u8], ChunkError> {
        let nblock = range.start / self.geometry.block_nbytes();
        let (first, counts, whole) = block_box(self.geometry, &self.blocks, nblock, &self.part);
        let start: Vec<u64> = self.start.iter().zip(first).map(|(a, b)| a + b).collect();
        let counts = &counts[..self.part.len()];
        let shape: Vec<u64> = counts.iter().map(|&n| n as u64).collect();
        let region = Region { whole: self.geometry.shape(), dtype: self.dtype, start: &start, shape: &shape };
        let dst = sized(buffer, range.len())?;
        if whole {
            self.read(&region, dst)?;
            return Ok(dst);
        }
        dst.fill(0);
        if region.nitems() > 0 {
            let itemsize = self.geometry.itemsize();
            let mut items = memory::zeroed(counts.iter().product::<usize>() * itemsize)?;
            self.read(&region, &mut items)?;
            let from = strides(counts.iter().copied(), itemsize);
            let to = strides(self.geometry.blockshape().iter().map(|&n| n as usize), itemsize);
            copy_box(counts, itemsize, (&items, 0, &from), (dst, 0, &to));
        }
        Ok(dst)
    }
}
