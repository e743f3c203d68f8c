//! Finds the chunks and blocks that hold selected items, and how the items move between a block and
//! a buffer. Reading and writing share this.

use std::convert::Infallible;
use std::ops::Range;
use std::sync::Arc;

use b2_core::{OutOfMemory, memory};

use crate::Geometry;
use crate::model::geometry::{MAX_DIM, coords, for_each_position, product};
use crate::select::copy::StridedCopy;
use crate::select::resolved::{AxisSelection, PositionRun};

/// A box of items in a block and the matching box in the buffer. Offsets and strides are in bytes.
pub(crate) struct CopyRegion<'a> {
    counts: &'a [usize],
    size: usize,
    block: (usize, &'a [isize]),
    buffer: (usize, &'a [isize]),
}

impl<'a> CopyRegion<'a> {
    /// Creates a copy of items of `size` bytes.
    pub(crate) fn new(
        counts: &'a [usize],
        size: usize,
        block: (usize, &'a [isize]),
        buffer: (usize, &'a [isize]),
    ) -> Self {
        Self { counts, size, block, buffer }
    }

    /// Returns the offset in the block, the offset in the buffer, and the length, if this is a single item.
    pub(crate) fn item(&self) -> Option<(usize, usize, usize)> {
        self.counts.iter().all(|&count| count == 1).then_some((self.block.0, self.buffer.0, self.size))
    }

    /// Returns the loops that copy from the block to the buffer, or `None` if there are no items.
    pub(crate) fn to_buffer(&self) -> Option<StridedCopy> {
        StridedCopy::new(self.counts, self.size, self.block, self.buffer)
    }

    /// Returns the loops that copy from the buffer to the block, or `None` if there are no items.
    pub(crate) fn to_block(&self) -> Option<StridedCopy> {
        StridedCopy::new(self.counts, self.size, self.buffer, self.block)
    }
}

/// A selection, split by chunk.
pub(crate) trait CopyPlan: Send + Sync {
    /// Returns the number of bytes to move.
    fn nbytes(&self) -> u64;
    /// Returns the number of chunks that hold selected items.
    fn nparts(&self) -> u64;
    /// Returns the chunk number of part `npart`. Parts are in ascending order of chunks, one part
    /// per chunk.
    fn nchunk(&self, npart: u64) -> usize;
    /// Returns the selected items of one chunk.
    ///
    /// # Errors
    /// When there is not enough memory.
    fn part(&self, npart: u64) -> Result<ChunkPart, OutOfMemory>;
    /// Like [`part`](Self::part), but treats the chunk as a single block. This is for chunks of
    /// equal items, which may claim any number of blocks without storing them. Returns `None` if
    /// that is not supported.
    ///
    /// # Errors
    /// When there is not enough memory.
    fn unblocked(&self, npart: u64) -> Result<Option<ChunkPart>, OutOfMemory>;
    /// Calls back with each box of items to move in one of the blocks of a part. If several items have the
    /// same place, the last one remains.
    fn visit(&self, part: &ChunkPart, nblock: usize, each: &mut dyn FnMut(CopyRegion<'_>));
    /// Returns the range of bytes that is moved of each item.
    fn item(&self) -> Range<usize>;
    /// Returns whether no two items share a place in the buffer.
    fn disjoint(&self) -> bool;
}

/// The selected items of one chunk.
pub struct ChunkPart {
    pub(crate) nchunk: usize,
    /// The blocks that hold selected items, in ascending order.
    pub(crate) nblocks: Vec<usize>,
    /// Whether every byte of every item of the chunk is selected.
    pub(crate) whole: bool,
    pub(crate) units: Units,
    /// The group of points, if the selection has points.
    pub(crate) group: usize,
    /// The share of the chunk in each dimension of the selection.
    pub(crate) dims: Vec<PartDim>,
    /// If several selections are read together: the number of each one with items in the chunk, and its part.
    pub(crate) members: Vec<(usize, ChunkPart)>,
}

impl std::fmt::Debug for ChunkPart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChunkPart")
            .field("nchunk", &self.nchunk)
            .field("nblocks", &self.nblocks)
            .finish_non_exhaustive()
    }
}

impl ChunkPart {
    /// Returns the part of several selections that are read together.
    pub(crate) fn of_members(
        nchunk: usize,
        nblocks: Vec<usize>,
        units: Units,
        members: Vec<(usize, Self)>,
    ) -> Self {
        Self { nchunk, nblocks, whole: false, units, group: 0, dims: Vec::new(), members }
    }
}

/// The units into which a chunk is divided.
#[derive(Clone, Copy)]
pub(crate) enum Units {
    Blocks,
    /// The chunk is treated as a single block.
    WholeChunk,
}

/// The share of a chunk in a dimension of the selection.
pub(crate) struct PartDim {
    /// First position of the chunk along the dimension.
    pub(crate) start: u64,
    /// The blocks of the chunk that hold positions, and the ranks of these positions.
    pub(crate) blocks: Vec<(u64, Range<u64>)>,
}

impl PartDim {
    /// Returns the ranks of the positions in block `at` along the dimension.
    pub(crate) fn ranks(&self, at: u64) -> Option<Range<u64>> {
        let found = self.blocks.binary_search_by_key(&at, |(block, _)| *block).ok()?;
        Some(self.blocks[found].1.clone())
    }
}

/// A selection of every combination of the positions chosen along the dimensions.
pub(crate) struct BoxCopyPlan {
    geometry: Arc<Geometry>,
    along: Vec<AxisSelection>,
    /// The range of bytes that is moved of each item.
    item: Range<usize>,
    buffer_offset: usize,
    buffer_strides: Vec<isize>,
    nbytes: u64,
    /// For each dimension, the chunks that hold positions and the ranks of these positions.
    chunks: Vec<Vec<(u64, Range<u64>)>>,
}

impl BoxCopyPlan {
    /// `item` is the range of bytes that is moved of each item. The last argument is the buffer's
    /// offset of the first item and its stride along each dimension of the array, in bytes.
    pub(crate) fn new(
        geometry: Arc<Geometry>,
        along: Vec<AxisSelection>,
        item: Range<usize>,
        (buffer_offset, buffer_strides): (usize, Vec<isize>),
    ) -> Result<Self, OutOfMemory> {
        let nbytes = product(along.iter().map(AxisSelection::len)).saturating_mul(item.len() as u64);
        let chunks = along
            .iter()
            .zip(geometry.chunkshape())
            .map(|(along, &c)| if nbytes == 0 { Ok(Vec::new()) } else { cut(along, 0, c.into(), u64::MAX) })
            .collect::<Result<_, _>>()?;
        Ok(Self { geometry, along, item, buffer_offset, buffer_strides, nbytes, chunks })
    }

    /// Returns the grid position of the chunk of a part.
    fn grid(&self, npart: u64) -> Vec<u64> {
        let lens: Vec<u64> = self.chunks.iter().map(|chunks| chunks.len() as u64).collect();
        coords(npart, &lens).iter().zip(&self.chunks).map(|(&i, c)| c[i as usize].0).collect()
    }

    /// Returns the shape of a block, and the number of blocks along each dimension of a chunk.
    fn blocks(&self, units: Units) -> (&[u32], &[u32]) {
        let geometry = &self.geometry;
        match units {
            Units::WholeChunk => (geometry.chunkshape(), &ONES[..geometry.ndim()]),
            Units::Blocks => (geometry.blockshape(), geometry.blocks()),
        }
    }

    fn part_of(&self, npart: u64, units: Units) -> Result<ChunkPart, OutOfMemory> {
        let geometry = &self.geometry;
        let grid = self.grid(npart);
        let nchunk = linear(&grid, geometry.grid());
        let (starts, real) = geometry.chunk_box(&grid);
        let (blockshape, in_chunk) = self.blocks(units);

        let mut dims = memory::list(starts.len())?;
        for (dim, along) in self.along.iter().enumerate() {
            let (start, chunk) = (starts[dim], u64::from(geometry.chunkshape()[dim]));
            let blocks = cut(along, start, blockshape[dim].into(), start + chunk)?;
            dims.push(PartDim { start, blocks });
        }
        let whole = self.item == (0..geometry.itemsize())
            && self.along.iter().zip(starts.iter().zip(&real)).all(|(a, (&s, &n))| a.covers(s, s + n));

        let ranges: Vec<Range<u64>> = dims.iter().map(|dim| 0..dim.blocks.len() as u64).collect();
        let mut nblocks = Vec::new();
        for_each_position(&ranges, |at| {
            let along = at.iter().zip(&dims).zip(in_chunk);
            let nblock = along.fold(0, |n, ((&i, dim), &len)| n * u64::from(len) + dim.blocks[i as usize].0);
            memory::push(&mut nblocks, nblock as usize)
        })?;
        Ok(ChunkPart { nchunk: nchunk as usize, nblocks, whole, units, group: 0, dims, members: Vec::new() })
    }
}

/// The number of blocks along each dimension of a chunk that is one block.
const ONES: [u32; MAX_DIM] = [1; MAX_DIM];

/// Splits the positions in `start..end` into pieces of length `unit`. Returns the non-empty pieces
/// with their ranks.
pub(crate) fn cut(
    along: &AxisSelection,
    start: u64,
    unit: u64,
    end: u64,
) -> Result<Vec<(u64, Range<u64>)>, OutOfMemory> {
    let ranks = along.within(start, end);
    let mut pieces = Vec::new();
    let mut rank = ranks.start;
    while rank < ranks.end {
        let piece = (along.ranked(rank) - start) / unit;
        let low = start + piece * unit;
        let within = along.within(low, low.saturating_add(unit).min(end));
        rank = within.end;
        memory::push(&mut pieces, (piece, within))?;
    }
    // With a negative step the pieces come in descending order.
    if pieces.first().zip(pieces.last()).is_some_and(|(first, last)| first.0 > last.0) {
        pieces.reverse();
    }
    Ok(pieces)
}

impl CopyPlan for BoxCopyPlan {
    fn nbytes(&self) -> u64 {
        self.nbytes
    }

    fn nparts(&self) -> u64 {
        match self.nbytes {
            0 => 0,
            _ => self.chunks.iter().map(|chunks| chunks.len() as u64).product(),
        }
    }

    fn disjoint(&self) -> bool {
        separate(
            self.item.len(),
            self.buffer_strides.iter().zip(&self.along).map(|(&s, along)| (s, along.len())),
        )
    }

    fn item(&self) -> Range<usize> {
        self.item.clone()
    }

    fn nchunk(&self, npart: u64) -> usize {
        linear(&self.grid(npart), self.geometry.grid()) as usize
    }

    fn part(&self, npart: u64) -> Result<ChunkPart, OutOfMemory> {
        self.part_of(npart, Units::Blocks)
    }

    fn unblocked(&self, npart: u64) -> Result<Option<ChunkPart>, OutOfMemory> {
        self.part_of(npart, Units::WholeChunk).map(Some)
    }

    fn visit(&self, part: &ChunkPart, nblock: usize, each: &mut dyn FnMut(CopyRegion<'_>)) {
        let (blockshape, in_chunk) = self.blocks(part.units);
        let nd = self.along.len();
        let (mut at, mut rest) = ([0; MAX_DIM], nblock as u64);
        for (at, &len) in at[..nd].iter_mut().zip(in_chunk).rev() {
            (*at, rest) = (rest % u64::from(len), rest / u64::from(len));
        }
        let mut region = RunsRegion::new(self);
        let (mut ranks, mut origin, mut strides) = ([const { 0..0 }; MAX_DIM], [0; MAX_DIM], [0; MAX_DIM]);
        let (mut stride, mut is_box) = (self.geometry.itemsize(), true);
        for dim in (0..nd).rev() {
            // Callers pass only members of `nblocks`, so the block is always found.
            let Some(found) = part.dims[dim].ranks(at[dim]) else { return };
            origin[dim] = part.dims[dim].start + at[dim] * u64::from(blockshape[dim]);
            strides[dim] = stride as isize;
            stride = stride.wrapping_mul(blockshape[dim] as usize);
            match self.along[dim].only_run(&found) {
                Some(run) => region.add(dim, run, origin[dim], strides[dim], self.buffer_strides[dim]),
                None => is_box = false,
            }
            ranks[dim] = found;
        }
        if is_box {
            // The usual case, for each block: without allocations.
            return each(region.get(nd, self.item.len()));
        }
        let runs: Vec<_> = self.along.iter().zip(ranks).map(|(along, ranks)| along.runs(ranks)).collect();
        self.visit_runs(&runs, &origin[..nd], &strides[..nd], each);
    }
}

/// The items of one run along each dimension.
struct RunsRegion {
    counts: [usize; MAX_DIM],
    from: isize,
    from_strides: [isize; MAX_DIM],
    to: isize,
    to_strides: [isize; MAX_DIM],
}

impl RunsRegion {
    fn new(plan: &BoxCopyPlan) -> Self {
        let (from, to) = (plan.item.start as isize, plan.buffer_offset as isize);
        Self { counts: [0; MAX_DIM], from, from_strides: [0; MAX_DIM], to, to_strides: [0; MAX_DIM] }
    }

    /// Adds the run along a dimension, of a block that starts at position `origin`.
    fn add(&mut self, dim: usize, run: PositionRun, origin: u64, block_stride: isize, buffer_stride: isize) {
        self.counts[dim] = run.count as usize;
        self.from += (run.position - origin) as isize * block_stride;
        self.to += run.place as isize * buffer_stride;
        // The step of a single item is meaningless and may be huge.
        let (step, place_step) = if run.count > 1 { (run.step, run.place_step) } else { (1, 1) };
        self.from_strides[dim] = block_stride * step as isize;
        self.to_strides[dim] = buffer_stride * place_step as isize;
    }

    fn get(&self, nd: usize, size: usize) -> CopyRegion<'_> {
        let block = (self.from as usize, &self.from_strides[..nd]);
        CopyRegion::new(&self.counts[..nd], size, block, (self.to as usize, &self.to_strides[..nd]))
    }
}

impl BoxCopyPlan {
    fn visit_runs(
        &self,
        runs: &[Vec<PositionRun>],
        origin: &[u64],
        block_strides: &[isize],
        each: &mut dyn FnMut(CopyRegion<'_>),
    ) {
        let ranges: Vec<Range<u64>> = runs.iter().map(|runs| 0..runs.len() as u64).collect();
        let done: Result<(), Infallible> = for_each_position(&ranges, |at| {
            let mut region = RunsRegion::new(self);
            for (dim, &i) in at.iter().enumerate() {
                let run = runs[dim][i as usize];
                region.add(dim, run, origin[dim], block_strides[dim], self.buffer_strides[dim]);
            }
            each(region.get(runs.len(), self.item.len()));
            Ok(())
        });
        let Ok(()) = done;
    }
}

/// Returns whether items of `size` bytes do not overlap in a buffer with this stride and length
/// along each dimension. May return false for unusual layouts that do not overlap.
pub(crate) fn separate(size: usize, dims: impl Iterator<Item = (isize, u64)>) -> bool {
    // From the smallest stride up, each stride must be at least as large as everything inside it.
    let dims = dims.map(|(stride, len)| (stride.unsigned_abs() as u128, u128::from(len)));
    let mut dims: Vec<(u128, u128)> = dims.filter(|&(_, len)| len > 1).collect();
    dims.sort_unstable();
    let mut reach = size as u128;
    dims.into_iter().all(|(stride, len)| {
        let separate = stride >= reach;
        reach = reach.saturating_add((len - 1).saturating_mul(stride));
        separate
    })
}

/// Returns the C-order number of a position.
pub(crate) fn linear(at: &[u64], shape: &[u64]) -> u64 {
    at.iter().zip(shape).fold(0, |n, (&at, &len)| n * len + at)
}

/// Returns the offset of the first item in a buffer of this layout and the length of the buffer,
/// which spans exactly the items. Strides are in bytes and may be negative. Returns `None` if the
/// layout exceeds the address space.
pub(crate) fn extent(shape: &[u64], strides: &[isize], itemsize: usize) -> Option<(usize, usize)> {
    if shape.contains(&0) {
        return Some((0, 0));
    }
    let (mut before, mut after) = (0usize, itemsize);
    for (&n, &stride) in shape.iter().zip(strides) {
        let way = usize::try_from(n - 1).ok()?.checked_mul(stride.unsigned_abs())?;
        let end = if stride < 0 { &mut before } else { &mut after };
        *end = end.checked_add(way)?;
    }
    let len = before.checked_add(after)?;
    isize::try_from(len).is_ok().then_some((before, len))
}
