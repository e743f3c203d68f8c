//! The plan for one chunk's share of a selection: which bytes to read, then which blocks to decode
//! to which places. It does no I/O, and its groups of blocks may arrive and be decoded in any
//! order.

use std::ops::Range;

use b2_chunk::SpecialKind;
use b2_core::memory;
use b2_frame::{ChunkHead, ComparePlan, Extent, Group, Groups, HeadPlan, Plan, ReadCosts, Step, SuperChunk};
use bytes::Bytes;

use crate::read::block::Worker;
use crate::read::uniform::Uniform;
use crate::select::copy::Target;
use crate::select::moves::{ChunkPart, Moves};
use crate::{NdArray, NdError};

/// What all parts of a selection have in common.
#[derive(Clone, Copy)]
pub(crate) struct Reading<'a> {
    pub(crate) array: &'a NdArray,
    /// The frame of the array, possibly with other options.
    pub(crate) frame: &'a SuperChunk,
    pub(crate) moves: &'a dyn Moves,
    /// Size of a block of the array, in bytes.
    pub(crate) size: usize,
    /// Whether the result exceeds the caches.
    pub(crate) streaming: bool,
}

impl<'a> Reading<'a> {
    /// Returns the value of all items of a part's chunk, if the index determines it.
    pub(crate) fn uniform(&self, npart: u64) -> Result<Option<Uniform>, NdError> {
        Uniform::of_entry(self.array, self.moves.nchunk(npart))
    }
}

/// Largest number of blocks in a chunk for which the read of the head is planned by blocks.
const MAX_GUESSED: usize = 1 << 12;

/// Reads the head of a chunk, and compares the chunk with its checksum if required.
pub(crate) struct PartPlan<'a> {
    reading: &'a Reading<'a>,
    npart: u64,
    nchunk: usize,
    state: PartState<'a>,
}

enum PartState<'a> {
    Start,
    Head(HeadPlan<'a>),
    /// A special chunk, which consists of a few bytes.
    Special(Box<ComparePlan<'a>>),
    Compare(Box<(ComparePlan<'a>, ChunkPart<'a>)>),
    Ended,
}

/// The next step of a part.
pub(crate) enum PartStep<'a> {
    /// Fetch these bytes and call again.
    Need(Vec<Extent>),
    /// All items are equal and nothing more has to be read.
    Fill(Uniform, ChunkPart<'a>),
    /// These blocks have to be read and decoded.
    Blocks(Blocks<'a>),
}

impl<'a> PartPlan<'a> {
    pub(crate) fn new(reading: &'a Reading<'a>, npart: u64) -> Self {
        Self { reading, npart, nchunk: reading.moves.nchunk(npart), state: PartState::Start }
    }

    /// Continues with the bytes that were requested, like [`Plan::step`].
    pub(crate) fn step(&mut self, parts: Vec<Bytes>) -> Result<PartStep<'a>, NdError> {
        let Reading { frame, moves, .. } = *self.reading;
        match std::mem::replace(&mut self.state, PartState::Ended) {
            PartState::Start => {
                if let Some(uniform) = Uniform::of_entry(self.reading.array, self.nchunk)?
                    && let Some(part) = moves.unblocked(self.npart)?
                {
                    return Ok(PartStep::Fill(uniform, part));
                }
                let plan = frame.head_plan(self.nchunk)?.with_runs(self.blocks()?);
                self.head(plan, parts)
            }
            PartState::Head(plan) => self.head(plan, parts),
            PartState::Special(plan) => self.special(*plan, parts),
            PartState::Compare(compare) => {
                let (plan, part) = *compare;
                self.compare(plan, part, parts)
            }
            PartState::Ended => {
                Err(b2_frame::FrameError::Argument { name: "plan", what: "it has ended".to_owned() })?
            }
        }
    }

    /// Returns the blocks that will be read, if it is worth knowing before the head.
    fn blocks(&self) -> Result<Vec<Range<usize>>, NdError> {
        let Reading { array, frame, moves, .. } = *self.reading;
        // The file only claims this number so far.
        if !frame.costs().ahead || array.geometry().nblocks() > MAX_GUESSED {
            return Ok(Vec::new());
        }
        let mut runs = Vec::<Range<usize>>::new();
        // They are in ascending order.
        for nblock in moves.part(self.npart)?.nblocks {
            match runs.last_mut() {
                Some(run) if run.end == nblock => run.end += 1,
                _ => memory::push(&mut runs, nblock..nblock + 1)?,
            }
        }
        Ok(runs)
    }

    fn head(&mut self, mut plan: HeadPlan<'a>, parts: Vec<Bytes>) -> Result<PartStep<'a>, NdError> {
        let head = match plan.step(parts)? {
            Step::Need(need) => {
                self.state = PartState::Head(plan);
                return Ok(PartStep::Need(need));
            }
            Step::Done(head) => head,
        };
        let Reading { array, frame, .. } = *self.reading;
        let header = head.chunk().header();
        array.check_chunk(self.nchunk, header.nbytes())?;
        if header.special().is_some() {
            return self.special(head.compare(frame), Vec::new());
        }
        self.found(head)
    }

    fn special(&mut self, mut plan: ComparePlan<'a>, parts: Vec<Bytes>) -> Result<PartStep<'a>, NdError> {
        let head = match plan.step(parts)? {
            Step::Need(need) => {
                self.state = PartState::Special(Box::new(plan));
                return Ok(PartStep::Need(need));
            }
            Step::Done(head) => head,
        };
        let hooked = self.reading.frame.dparams().has_postfilter();
        if let (Some(SpecialKind::Zeros | SpecialKind::Uninit), false) =
            (head.chunk().header().special(), hooked)
            && let Some(part) = self.reading.moves.unblocked(self.npart)?
        {
            return Ok(PartStep::Fill(Uniform::Zeros, part));
        }
        if let Some(uniform) = self.foreign_uniform(&head)?
            && let Some(part) = self.reading.moves.unblocked(self.npart)?
        {
            return Ok(PartStep::Fill(uniform, part));
        }
        self.found(head)
    }

    /// Returns the value of all items if the chunk holds one value in blocks of another size than
    /// the array's. There may be very many of these.
    fn foreign_uniform(&self, head: &ChunkHead) -> Result<Option<Uniform>, NdError> {
        match head.chunk().blocksize() == self.reading.size {
            true => Ok(None),
            false => Uniform::of_head(self.reading.array, head),
        }
    }

    /// Lists the blocks of the chunk. Their number is bounded by the stored bytes at this point.
    fn found(&mut self, head: ChunkHead) -> Result<PartStep<'a>, NdError> {
        let part = self.reading.moves.part(self.npart)?;
        self.compare(head.compare(self.reading.frame), part, Vec::new())
    }

    fn compare(
        &mut self,
        mut plan: ComparePlan<'a>,
        part: ChunkPart<'a>,
        parts: Vec<Bytes>,
    ) -> Result<PartStep<'a>, NdError> {
        match plan.step(parts)? {
            Step::Need(need) => {
                self.state = PartState::Compare(Box::new((plan, part)));
                Ok(PartStep::Need(need))
            }
            Step::Done(head) => Ok(PartStep::Blocks(Blocks::new(self.reading, head, part)?)),
        }
    }
}

/// The blocks of a chunk that hold selected items.
pub(crate) struct Blocks<'a> {
    reading: &'a Reading<'a>,
    head: ChunkHead,
    part: ChunkPart<'a>,
    /// The numbers of the chunk's own blocks, if their size differs from the array's. This is
    /// legal, since only the byte order in the chunk matters.
    foreign: Option<Vec<usize>>,
}

impl<'a> Blocks<'a> {
    fn new(reading: &'a Reading<'a>, head: ChunkHead, part: ChunkPart<'a>) -> Result<Self, NdError> {
        let (chunk, size) = (head.chunk(), reading.size);
        let mut foreign = None;
        if chunk.blocksize() != size {
            // Every block takes some bytes in the file, except in special chunks.
            let list = chunk.nblocks() as u64 * size_of::<usize>() as u64;
            reading.frame.dparams().limits.check_memory("list of blocks, in bytes", list)?;
            let numbers = foreign.insert(Vec::new());
            for &nblock in &part.nblocks {
                // The chunk has the right size, so all blocks of the array lie inside it.
                let known = numbers.last().map_or(0, |last| last + 1);
                for nblock in chunk.blocks_of(nblock * size..(nblock + 1) * size).filter(|n| *n >= known) {
                    memory::push(numbers, nblock)?;
                }
            }
        }
        Ok(Self { reading, head, part, foreign })
    }

    pub(crate) fn head(&self) -> &ChunkHead {
        &self.head
    }

    /// Returns the numbers of the blocks in the chunk.
    pub(crate) fn nblocks(&self) -> &[usize] {
        self.foreign.as_ref().unwrap_or(&self.part.nblocks)
    }

    /// Returns the number of bytes to decode.
    pub(crate) fn work(&self) -> u64 {
        (self.part.nblocks.len() * self.reading.size) as u64
    }

    /// Returns the groups of blocks to read at once. They can be decoded in any order.
    pub(crate) fn groups(&self, costs: &ReadCosts) -> Groups<'_> {
        self.head.groups(self.nblocks(), costs)
    }

    /// Returns block 0 if other blocks refer to it (the delta filter). It must be decoded before
    /// them.
    pub(crate) fn reference(&self, costs: &ReadCosts) -> Option<Group<'_>> {
        if self.head.chunk().needs_block0() { self.head.groups(&[0], costs).next() } else { None }
    }

    /// Decodes the block that [`reference`](Self::reference) returned; `None` if no other block
    /// refers to it.
    pub(crate) fn decode_reference(&self, stored: &[u8]) -> Result<Option<Vec<u8>>, NdError> {
        Ok(self.head.decode_block0(stored, self.reading.frame.dparams())?)
    }

    /// Creates a decoder for one thread. `block0` is the decoded block 0, if others refer to it.
    pub(crate) fn worker<'w>(&'w self, block0: Option<&'w [u8]>) -> Result<Worker<'w>, NdError> {
        Worker::new(&self.head, self.reading.frame.dparams(), block0, self.reading.streaming)
    }

    /// Decodes a block and copies its selected items. Returns their size in bytes.
    pub(crate) fn copy(
        &self,
        worker: &mut Worker<'_>,
        nblock: usize,
        stored: &[u8],
        dst: &mut impl Target,
    ) -> Result<usize, NdError> {
        match &self.foreign {
            None => worker.copy(&self.part, nblock, stored, dst),
            Some(_) => {
                let bytes = self.head.chunk().block_range(nblock);
                worker.copy_foreign(&self.part, (nblock, bytes), self.reading.size, stored, dst)
            }
        }
    }
}
