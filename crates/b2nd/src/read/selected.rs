//! Reads of selections: what a selection needs of each chunk, and how its items are decoded. Chunks whose items are all
//! equal only fill the result: the file stores nothing for them, however many chunks or blocks it claims.

use std::ops::Range;

use b2_chunk::{Chunk, ChunkHeader, DParams, LazyChunk, SpecialKind};
use b2_core::{Control, OutOfMemory, memory};
use b2_frame::{
    Destination, Entry, FrameError, Job, Read, ResolvedPart, ScatterPlan, Structure, SuperChunk, Target,
    read_places,
};

use crate::read::block_copier::BlockCopier;
use crate::select::copy_plan::{ChunkPart, CopyPlan};
use crate::{NdArray, NdError};

/// A read of a selection for a driver of your own, from [`Slice::begin`](crate::Slice::begin) or
/// [`Batch::begin`](crate::Batch::begin). It holds the destination for `'d`.
pub type SliceRead<'d> = Read<'d, SelectionRead>;

/// A piece of work of a [`SliceRead`].
pub type SliceJob<'d> = Job<'d, SelectionRead>;

/// The selected items of an array and their places in a destination.
pub struct SelectionRead {
    array: NdArray,
    moves: Box<dyn CopyPlan>,
    disjoint: bool,
}

/// The selected items of a chunk.
pub struct SelectedPart {
    part: ChunkPart,
    /// The numbers of the chunk's own blocks, if their size differs from the array's. This is
    /// legal, since only the byte order in the chunk matters.
    foreign: Option<Vec<usize>>,
}

impl std::fmt::Debug for SelectedPart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SelectedPart").field("part", &self.part).finish_non_exhaustive()
    }
}

/// Largest number of blocks in a chunk for which the read of the head is planned by blocks.
const MAX_GUESSED: usize = 1 << 12;

/// Reads the selected items to memory of any layout, and returns that memory as an initialised slice. The
/// places that `moves` gives must lie inside the destination. Uninitialised memory is written
/// completely, including bytes that belong to no item.
pub(crate) fn read_selection<'d>(
    array: &NdArray,
    moves: Box<dyn CopyPlan>,
    destination: impl Into<Destination<'d>>,
) -> Result<&'d mut [u8], NdError> {
    read_from(array, array.super_chunk(), moves, destination.into())
}

/// Reads items that will be stored again. All chunks are compared with their checksums, since
/// damaged data must not get a valid checksum.
pub(crate) fn read_to_keep(array: &NdArray, moves: Box<dyn CopyPlan>, dst: &mut [u8]) -> Result<(), NdError> {
    let frame = array.super_chunk().for_rewrite();
    read_from(array, &frame, moves, dst.into()).map(drop)
}

fn read_from<'d>(
    array: &NdArray,
    frame: &SuperChunk,
    moves: Box<dyn CopyPlan>,
    destination: Destination<'d>,
) -> Result<&'d mut [u8], NdError> {
    let read = || match begin(array, frame, moves, destination)? {
        StartedRead::Filled(memory) => Ok(memory),
        StartedRead::Read(selected, destination, control) => {
            read_places(frame, selected, destination, &control)
        }
    };
    read().map_err(|error| array.explain(error))
}

/// A selection whose reading has begun.
pub(crate) enum StartedRead<'d> {
    /// Nothing has to be read; the destination is filled.
    Filled(&'d mut [u8]),
    Read(SelectionRead, Destination<'d>, Control),
}

/// Begins to read a selection of an array, whose frame may have other options than the array's own.
pub(crate) fn begin<'d>(
    array: &NdArray,
    frame: &SuperChunk,
    moves: Box<dyn CopyPlan>,
    destination: Destination<'d>,
) -> Result<StartedRead<'d>, NdError> {
    if moves.nparts() == 0 {
        return Ok(StartedRead::Filled(destination.into_slice()));
    }
    let (nbytes, item, disjoint) = (moves.nbytes(), moves.item(), moves.disjoint());
    let control = frame.dparams().control.begin(nbytes, item.len() as u64);
    if disjoint
        && nbytes == destination.len() as u64
        && let Some(uniform) = ConstantValue::of_all(array)?
    {
        let memory = destination.into_slice();
        uniform.fill(&item, memory);
        control.advance(nbytes)?;
        return Ok(StartedRead::Filled(memory));
    }
    Ok(StartedRead::Read(SelectionRead { array: array.clone(), moves, disjoint }, destination, control))
}

/// Begins to read a selection for a driver of the caller. Returns `None` if nothing has to be read; the destination is
/// filled then.
pub(crate) fn begin_read<'d>(
    array: &NdArray,
    moves: Box<dyn CopyPlan>,
    destination: Destination<'d>,
) -> Result<Option<SliceRead<'d>>, NdError> {
    let frame = array.super_chunk();
    match begin(array, frame, moves, destination)? {
        StartedRead::Filled(_) => Ok(None),
        StartedRead::Read(selected, destination, control) => {
            Ok(Some(Read::new(frame, selected, destination, control)))
        }
    }
}

impl std::fmt::Debug for SelectionRead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SelectionRead").field("array", &self.array).finish_non_exhaustive()
    }
}

impl SelectionRead {
    fn array_block(&self) -> usize {
        self.array.geometry().block_nbytes()
    }

    /// Returns the numbers of the blocks of a chunk that hold those of the array.
    fn blocks_of_other_size(&self, part: &ChunkPart, chunk: &LazyChunk) -> Result<Vec<usize>, NdError> {
        // Every block takes some bytes in the file, except in special chunks.
        let list = chunk.nblocks() as u64 * size_of::<usize>() as u64;
        let limits = &self.array.super_chunk().dparams().limits;
        limits.check_memory("list of blocks, in bytes", list)?;
        let (moves, size) = (&*self.moves, self.array_block());
        // The chunk has the right size, so all blocks of the array are inside it.
        Ok(touched_blocks((moves, part), size, chunk.nblocks(), |bytes| chunk.blocks_of(bytes))?)
    }

    /// Returns the value of all items of a special chunk that was read.
    fn uniform(&self, npart: u64, chunk: &LazyChunk) -> Result<Option<(ConstantValue, ChunkPart)>, NdError> {
        let Some(kind) = chunk.header().special() else { return Ok(None) };
        let hooked = self.array.super_chunk().dparams().has_postfilter();
        let uniform = match kind {
            SpecialKind::Zeros | SpecialKind::Uninit if !hooked => Some(ConstantValue::Zeros),
            // There may be very many blocks of another size than the array's.
            _ if chunk.blocksize() != self.array_block() => ConstantValue::of_chunk(&self.array, chunk)?,
            _ => None,
        };
        Ok(uniform.zip(self.moves.unblocked(npart)?))
    }
}

/// Returns which of the `nblocks` blocks of a chunk hold selected items, where `blocks_of` returns those of a range of its
/// bytes. `size` is the size of a block of the array.
pub(crate) fn touched_blocks(
    (moves, part): (&dyn CopyPlan, &ChunkPart),
    size: usize,
    nblocks: usize,
    blocks_of: impl Fn(Range<usize>) -> Range<usize>,
) -> Result<Vec<usize>, OutOfMemory> {
    let mut marks = memory::zeroed(nblocks)?;
    let mut mark = |blocks: Range<usize>| marks.get_mut(blocks).into_iter().for_each(|marks| marks.fill(1));
    for &nblock in &part.nblocks {
        let start = nblock * size;
        let all = blocks_of(start..start + size);
        if part.whole || all.len() == 1 {
            mark(all);
            continue;
        }
        moves.visit(part, nblock, &mut |step| {
            let Some(loops) = step.to_buffer() else { return };
            let (row, source) = (loops.row(), loops.source());
            match blocks_of(start + source.start..start + source.end) {
                // The first and the last byte are selected.
                blocks if blocks.len() <= 2 => mark(blocks),
                _ => loops.each_row(|from, _| mark(blocks_of(start + from..start + from + row))),
            }
        });
    }
    memory::collect(marks.iter().enumerate().filter(|(_, mark)| **mark > 0).map(|(nblock, _)| nblock))
}

// SAFETY: Every item is in one block, and those `CopyPlan`s that are disjoint have checked the strides that
// their places follow from.
#[allow(unsafe_code)]
unsafe impl ScatterPlan for SelectionRead {
    type Error = NdError;
    type Fill = (ConstantValue, ChunkPart);
    type Part = SelectedPart;
    type Worker<'w> = BlockCopier<'w>;

    fn nbytes(&self) -> u64 {
        self.moves.nbytes()
    }

    fn nparts(&self) -> u64 {
        self.moves.nparts()
    }

    fn nchunk(&self, npart: u64) -> usize {
        self.moves.nchunk(npart)
    }

    fn disjoint(&self) -> bool {
        self.disjoint
    }

    fn worker_memory(&self) -> u64 {
        3 * self.array_block() as u64
    }

    /// The work is what has to be decoded, not just the selected part of it.
    fn decode_cost(&self) -> Result<u64, NdError> {
        let nparts = self.moves.nparts();
        let per_part = self.moves.nbytes() / nparts.max(1);
        let nblocks = match ConstantValue::of_entry(&self.array, self.moves.nchunk(0))? {
            Some(_) => 0,
            None => self.moves.part(0)?.nblocks.len(),
        };
        Ok(nparts.saturating_mul(((nblocks * self.array_block()) as u64).max(per_part)))
    }

    fn constant(&self, npart: u64, nchunk: usize) -> Result<Option<(ConstantValue, ChunkPart)>, NdError> {
        match ConstantValue::of_entry(&self.array, nchunk)? {
            Some(uniform) => Ok(self.moves.unblocked(npart)?.map(|part| (uniform, part))),
            None => Ok(None),
        }
    }

    fn expected_blocks(&self, npart: u64) -> Result<Vec<Range<usize>>, NdError> {
        // This number is only a claim of the file, not checked yet.
        if self.array.geometry().nblocks() > MAX_GUESSED {
            return Ok(Vec::new());
        }
        let mut runs = Vec::<Range<usize>>::new();
        for nblock in self.moves.part(npart)?.nblocks {
            match runs.last_mut() {
                Some(run) if run.end == nblock => run.end += 1,
                _ => memory::push(&mut runs, nblock..nblock + 1)?,
            }
        }
        Ok(runs)
    }

    fn resolve(
        &self,
        (npart, nchunk): (u64, usize),
        chunk: &LazyChunk,
    ) -> Result<ResolvedPart<(ConstantValue, ChunkPart), SelectedPart>, NdError> {
        self.array.check_chunk(nchunk, chunk.header().nbytes())?;
        if let Some(fill) = self.uniform(npart, chunk)? {
            return Ok(ResolvedPart::Fill(fill));
        }
        // The number of blocks is bounded by the stored bytes at this point.
        let part = self.moves.part(npart)?;
        let foreign = match chunk.blocksize() == self.array_block() {
            true => None,
            false if self.array.requires_blocks() => {
                let (structure, size) = (Structure::Chunk(nchunk), chunk.blocksize() as u64);
                Err(FrameError::field(structure, "blocksize", 8, size, "the size of the array's blocks"))?
            }
            false => Some(self.blocks_of_other_size(&part, chunk)?),
        };
        Ok(ResolvedPart::Blocks(SelectedPart { part, foreign }))
    }

    fn nblocks<'p>(&'p self, part: &'p SelectedPart) -> &'p [usize] {
        part.foreign.as_ref().unwrap_or(&part.part.nblocks)
    }

    fn fill(&self, (uniform, part): &(ConstantValue, ChunkPart), dst: &mut impl Target) -> usize {
        uniform.fill_part((&*self.moves, part), dst)
    }

    fn worker<'w>(
        &self,
        _: &SelectedPart,
        chunk: &'w LazyChunk,
        dparams: &'w DParams,
        block0: Option<&'w [u8]>,
        streaming: bool,
    ) -> Result<BlockCopier<'w>, NdError> {
        BlockCopier::new(chunk, dparams, block0, streaming)
    }

    fn copy(
        &self,
        worker: &mut BlockCopier<'_>,
        part: &SelectedPart,
        nblock: usize,
        stored: &[u8],
        dst: &mut impl Target,
    ) -> Result<usize, NdError> {
        let selected = (&*self.moves, &part.part);
        match &part.foreign {
            None => worker.copy(selected, nblock, stored, dst),
            Some(_) => worker.copy_foreign(selected, nblock, self.array_block(), stored, dst),
        }
    }
}

#[cfg(test)]
mod tests;

/// Larger items are not examined, in bytes.
const LARGEST_ITEM: usize = 4096;

/// The value of all items of a chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConstantValue {
    /// All bytes are 0.
    Zeros,
    /// The bytes of one item.
    Item(Vec<u8>),
}

impl ConstantValue {
    /// Returns the value of all items of the array, if the first entry of the index covers them
    /// all.
    pub(crate) fn of_all(array: &NdArray) -> Result<Option<Self>, NdError> {
        let frame = array.super_chunk();
        if frame.nchunks() == 0 {
            return Ok(None);
        }
        match frame.chunk(0).run()? {
            // The last chunk may be shorter than the others, so it is checked too.
            (Entry::Special(_), run) if run.end == frame.nchunks() => {
                Self::of_entry(array, run.end - 1)?;
                Self::of_entry(array, 0)
            }
            _ => Ok(None),
        }
    }

    /// Returns the value of all items of a chunk, if the index determines it.
    pub(crate) fn of_entry(array: &NdArray, nchunk: usize) -> Result<Option<Self>, NdError> {
        let frame = array.super_chunk();
        match frame.chunk(nchunk).entry()? {
            Entry::Stored(_) => Ok(None),
            // A fast path for zeros, since there may be very many such chunks.
            Entry::Special(SpecialKind::Zeros | SpecialKind::Uninit) if !frame.dparams().has_postfilter() => {
                let nbytes = frame.chunk(nchunk).nbytes()?;
                frame.dparams().limits.check_chunk(nbytes)?;
                array.check_chunk(nchunk, usize::try_from(nbytes).unwrap_or(usize::MAX))?;
                Ok(Some(Self::Zeros))
            }
            Entry::Special(_) => {
                let chunk = frame.chunk(nchunk).read()?;
                array.check_chunk(nchunk, chunk.nbytes())?;
                Ok(Self::of_stored(array, &chunk))
            }
        }
    }

    /// Returns the value of all items of a chunk, if its header determines it.
    fn of_stored(array: &NdArray, chunk: &Chunk) -> Option<Self> {
        let dparams = array.super_chunk().dparams();
        Self::of_header(array, chunk.header(), |itemsize| {
            chunk.get_bytes(0..itemsize.min(chunk.nbytes()), dparams).ok()
        })
    }

    /// Returns the value of all items of a chunk whose head has been read, if its header determines
    /// it.
    pub(crate) fn of_chunk(array: &NdArray, chunk: &LazyChunk) -> Result<Option<Self>, NdError> {
        let dparams = array.super_chunk().dparams();
        let mut decoder = chunk.decoder(dparams)?;
        Ok(Self::of_header(array, chunk.header(), |itemsize| {
            let mut item = memory::zeroed(itemsize).ok()?;
            // A special chunk stores no data for its blocks.
            let first = chunk.block_range(0).len() >= itemsize;
            (first && decoder.decode_part(0, &[], None, 0..itemsize, &mut item).is_ok()).then_some(item)
        }))
    }

    fn of_header(
        array: &NdArray,
        header: &ChunkHeader,
        item: impl FnOnce(usize) -> Option<Vec<u8>>,
    ) -> Option<Self> {
        let itemsize = array.itemsize();
        if array.super_chunk().dparams().has_postfilter() {
            return None;
        }
        let width = match header.special()? {
            SpecialKind::Zeros | SpecialKind::Uninit => return Some(Self::Zeros),
            SpecialKind::NaN => header.itemsize(),
            SpecialKind::Value => header.cbytes().checked_sub(header.header_len())?,
        };
        // The item must be a whole number of repeated values, so that the item order does not
        // matter.
        if width == 0 || itemsize > LARGEST_ITEM || !itemsize.is_multiple_of(width) {
            return None;
        }
        item(itemsize).map(Self::Item)
    }

    /// Fills `dst` with the bytes `item` of each item.
    pub(crate) fn fill(&self, item: &Range<usize>, dst: &mut [u8]) {
        match self {
            Self::Zeros => dst.fill(0),
            Self::Item(bytes) => b2_chunk::fill(dst, bytes.get(item.clone()).unwrap_or_default(), 0),
        }
    }

    /// Fills the places of a part. Returns their size in bytes.
    pub(crate) fn fill_part(
        &self,
        (moves, part): (&dyn CopyPlan, &ChunkPart),
        dst: &mut impl Target,
    ) -> usize {
        let (mut nbytes, item) = (0, moves.item());
        for &nblock in &part.nblocks {
            moves.visit(part, nblock, &mut |step| {
                let Some(loops) = step.to_buffer() else { return };
                nbytes += loops.nbytes();
                match self {
                    Self::Zeros => loops.fill(0, dst),
                    Self::Item(_) => {
                        let row = loops.row();
                        loops.each_row(|_, to| self.fill(&item, dst.place(to, row)));
                    }
                }
            });
        }
        nbytes
    }
}
