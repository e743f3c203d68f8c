//! Which chunks and blocks hold selected items, and how items move between a block and a buffer. Reading and
//! writing share this.

use std::convert::Infallible;
use std::ops::Range;

use b2_chunk::memory::{self, OutOfMemory};

use crate::Geometry;
use crate::copy::Loops;
use crate::geometry::{coords, for_each_position, product, strides};
use crate::select::{Along, Run};

/// A box of items in a block, and where they are in the buffer. Offsets and strides are in bytes.
pub(crate) struct Move<'a> {
    counts: &'a [usize],
    size: usize,
    block: (usize, &'a [isize]),
    buffer: (usize, &'a [isize]),
}

impl<'a> Move<'a> {
    /// Items of `size` bytes.
    pub(crate) fn new(
        counts: &'a [usize],
        size: usize,
        block: (usize, &'a [isize]),
        buffer: (usize, &'a [isize]),
    ) -> Self {
        Self { counts, size, block, buffer }
    }

    /// How the items go from the block to the buffer; `None` if there are none.
    pub(crate) fn to_buffer(&self) -> Option<Loops> {
        Loops::new(self.counts, self.size, self.block, self.buffer)
    }

    /// How they go from the buffer to the block.
    pub(crate) fn to_block(&self) -> Option<Loops> {
        Loops::new(self.counts, self.size, self.buffer, self.block)
    }
}

/// Selected items, cut into parts of one chunk each.
pub(crate) trait Moves: Sync {
    /// Bytes moved in all.
    fn nbytes(&self) -> u64;
    /// How many parts there are.
    fn nparts(&self) -> u64;
    /// The chunk of part `npart`: in ascending order, each of them once.
    fn nchunk(&self, npart: u64) -> usize;
    /// Part `npart`.
    ///
    /// # Errors
    /// When there is not enough memory.
    fn part(&self, npart: u64) -> Result<Part<'_>, OutOfMemory>;
    /// The same as if the chunk was a single block: for chunks of equal items, which may have any number of blocks
    /// without storing one. `None` where that is not known.
    ///
    /// # Errors
    /// When there is not enough memory.
    fn unblocked(&self, npart: u64) -> Result<Option<Part<'_>>, OutOfMemory>;
    /// Which bytes of an item are moved.
    fn item(&self) -> Range<usize>;
    /// Whether each item has a place of its own in the buffer.
    fn disjoint(&self) -> bool;
}

/// The selected items of one chunk.
pub(crate) struct Part<'a> {
    pub(crate) nchunk: usize,
    /// The blocks that hold them, ascending.
    pub(crate) nblocks: Vec<usize>,
    /// Whether they are all items of the chunk, whole ones.
    pub(crate) whole: bool,
    pub(crate) moves: Box<BlockMoves<'a>>,
}

/// Calls back with each box of items to move in a block. Where several land at one place, the last counts.
pub(crate) type BlockMoves<'a> = dyn Fn(usize, &mut dyn FnMut(Move<'_>)) + Sync + 'a;

/// Every combination of the positions chosen along the dimensions.
pub(crate) struct BoxMoves<'a> {
    geometry: &'a Geometry,
    along: &'a [Along],
    /// Which bytes of an item.
    item: Range<usize>,
    buffer_offset: usize,
    buffer_strides: Vec<isize>,
    nbytes: u64,
    /// Along each dimension: which chunks, and the ranks of the positions each holds.
    chunks: Vec<Vec<(u64, Range<u64>)>>,
}

impl<'a> BoxMoves<'a> {
    /// `item`: which bytes of each item are moved. `buffer`: offset of the first item and distance between
    /// places along each of the array's dimensions, in bytes.
    pub(crate) fn new(
        geometry: &'a Geometry,
        along: &'a [Along],
        item: Range<usize>,
        (buffer_offset, buffer_strides): (usize, Vec<isize>),
    ) -> Result<Self, OutOfMemory> {
        let nbytes = product(along.iter().map(Along::len)).saturating_mul(item.len() as u64);
        let chunks = along
            .iter()
            .zip(geometry.chunkshape())
            .map(|(along, &c)| if nbytes == 0 { Ok(Vec::new()) } else { cut(along, 0, c.into(), u64::MAX) })
            .collect::<Result<_, _>>()?;
        Ok(Self { geometry, along, item, buffer_offset, buffer_strides, nbytes, chunks })
    }

    /// Place in the grid of the chunk of a part.
    fn grid(&self, npart: u64) -> Vec<u64> {
        let lens: Vec<u64> = self.chunks.iter().map(|chunks| chunks.len() as u64).collect();
        coords(npart, &lens).iter().zip(&self.chunks).map(|(&i, c)| c[i as usize].0).collect()
    }

    /// A part, with blocks of that shape.
    fn part_of(
        &self,
        npart: u64,
        blockshape: &'a [u32],
        in_chunk: Vec<u64>,
    ) -> Result<Part<'_>, OutOfMemory> {
        let geometry = self.geometry;
        let grid = self.grid(npart);
        let nchunk = linear(&grid, geometry.grid());
        let (starts, real) = geometry.chunk_box(&grid);

        // Along each dimension: which blocks of the chunk, and the ranks each holds.
        let ends = starts.iter().zip(geometry.chunkshape()).map(|(&start, &c)| start + u64::from(c));
        let blocks: Vec<Vec<(u64, Range<u64>)>> = self
            .along
            .iter()
            .zip(starts.iter().zip(ends))
            .zip(blockshape)
            .map(|((along, (&start, end)), &b)| cut(along, start, b.into(), end))
            .collect::<Result<_, _>>()?;
        let whole = self.item == (0..geometry.itemsize())
            && self.along.iter().zip(starts.iter().zip(&real)).all(|(a, (&s, &n))| a.covers(s, s + n));

        let ranges: Vec<Range<u64>> = blocks.iter().map(|blocks| 0..blocks.len() as u64).collect();
        let mut nblocks = Vec::new();
        let mut at_block = vec![0; blocks.len()];
        for_each_position(&ranges, |at| {
            for ((at_block, &i), blocks) in at_block.iter_mut().zip(at).zip(&blocks) {
                *at_block = blocks[i as usize].0;
            }
            memory::push(&mut nblocks, linear(&at_block, &in_chunk) as usize)
        })?;

        let block_strides = strides(blockshape.iter().map(|&b| b as usize), geometry.itemsize());
        let moves = move |nblock: usize, each: &mut dyn FnMut(Move<'_>)| {
            let at = coords(nblock as u64, &in_chunk);
            let mut runs: Vec<Vec<Run>> = Vec::with_capacity(at.len());
            let mut origin = Vec::with_capacity(at.len());
            for (dim, &j) in at.iter().enumerate() {
                // Only blocks from `nblocks` are asked for, so it is there.
                let Ok(found) = blocks[dim].binary_search_by_key(&j, |(piece, _)| *piece) else { return };
                runs.push(self.along[dim].runs(blocks[dim][found].1.clone()));
                origin.push(starts[dim] + j * u64::from(blockshape[dim]));
            }
            self.visit_runs(&runs, &origin, &block_strides, each);
        };
        Ok(Part { nchunk: nchunk as usize, nblocks, whole, moves: Box::new(moves) })
    }
}

/// Cuts the positions in `start..end` at every `unit` from `start`: which pieces have any, and their ranks.
fn cut(along: &Along, start: u64, unit: u64, end: u64) -> Result<Vec<(u64, Range<u64>)>, OutOfMemory> {
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
    // Walking backward they come in descending order.
    if pieces.first().zip(pieces.last()).is_some_and(|(first, last)| first.0 > last.0) {
        pieces.reverse();
    }
    Ok(pieces)
}

impl Moves for BoxMoves<'_> {
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
        // Along dimensions from the innermost of the buffer on, each step must lead behind all before it.
        let mut dims: Vec<(u128, u128)> = self
            .along
            .iter()
            .zip(&self.buffer_strides)
            .map(|(along, stride)| (stride.unsigned_abs() as u128, along.len().into()))
            .filter(|&(_, len)| len > 1)
            .collect();
        dims.sort_unstable();
        let mut reach = self.item.len() as u128;
        dims.into_iter().all(|(stride, len)| {
            let behind = stride >= reach;
            reach = reach.saturating_add((len - 1).saturating_mul(stride));
            behind
        })
    }

    fn item(&self) -> Range<usize> {
        self.item.clone()
    }

    fn nchunk(&self, npart: u64) -> usize {
        linear(&self.grid(npart), self.geometry.grid()) as usize
    }

    fn part(&self, npart: u64) -> Result<Part<'_>, OutOfMemory> {
        let in_chunk = self.geometry.blocks().iter().map(|&n| n.into()).collect();
        self.part_of(npart, self.geometry.blockshape(), in_chunk)
    }

    fn unblocked(&self, npart: u64) -> Result<Option<Part<'_>>, OutOfMemory> {
        self.part_of(npart, self.geometry.chunkshape(), vec![1; self.along.len()]).map(Some)
    }
}

impl BoxMoves<'_> {
    fn visit_runs(
        &self,
        runs: &[Vec<Run>],
        origin: &[u64],
        block_strides: &[isize],
        each: &mut dyn FnMut(Move<'_>),
    ) {
        let nd = runs.len();
        let ranges: Vec<Range<u64>> = runs.iter().map(|runs| 0..runs.len() as u64).collect();
        let mut counts = vec![0; nd];
        let (mut from_strides, mut to_strides) = (vec![0; nd], vec![0; nd]);
        let done: Result<(), Infallible> = for_each_position(&ranges, |at| {
            let (mut from, mut to) = (self.item.start as isize, self.buffer_offset as isize);
            for (dim, &i) in at.iter().enumerate() {
                let run = runs[dim][i as usize];
                counts[dim] = run.count as usize;
                from += (run.position - origin[dim]) as isize * block_strides[dim];
                to += run.place as isize * self.buffer_strides[dim];
                // With a single item the step has no meaning, and might be huge.
                let (step, place_step) = if run.count > 1 { (run.step, run.place_step) } else { (1, 1) };
                from_strides[dim] = block_strides[dim] * step as isize;
                to_strides[dim] = self.buffer_strides[dim] * place_step as isize;
            }
            let (block, buffer) = ((from as usize, &from_strides[..]), (to as usize, &to_strides[..]));
            each(Move::new(&counts, self.item.len(), block, buffer));
            Ok(())
        });
        let Ok(()) = done;
    }
}

/// Number of a place in C order.
pub(crate) fn linear(at: &[u64], shape: &[u64]) -> u64 {
    at.iter().zip(shape).fold(0, |n, (&at, &len)| n * len + at)
}
