//! The plan for the part of a read in one chunk: which bytes to read, then which blocks to decode. It does
//! no I/O, and its groups of blocks may arrive and be decoded in any order.

use std::ops::Range;

use bytes::Bytes;

use crate::read::chunk_head::ChunkHead;
use crate::read::chunk_plan::ChunkPlan;
use crate::read::plan::Step;
use crate::read::scatter_plan::Target;
use crate::read::scatter_plan::{ReadContext, ResolvedPart, ScatterPlan};
use crate::read::super_chunk::FramePlan;
use crate::storage::files::Extent;
use crate::{ReadTuning, SuperChunk};

/// Reads and verifies the head of a chunk, then returns which blocks to read.
pub(crate) struct PartPlan {
    npart: u64,
    nchunk: usize,
    /// `None` before the first step.
    plan: Option<ChunkPlan>,
}

/// The next step of a part.
pub(crate) enum PartStep<P: ScatterPlan> {
    /// Fetch these bytes and call again.
    Need(Vec<Extent>),
    /// All items are equal and nothing more has to be read.
    Fill(P::Fill),
    /// These blocks have to be read and decoded.
    Blocks(Blocks<P>),
}

impl PartPlan {
    pub(crate) fn new(places: &impl ScatterPlan, npart: u64) -> Self {
        Self { npart, nchunk: places.nchunk(npart), plan: None }
    }

    /// Continues with the bytes that were requested, like [`Plan::step`](crate::Plan::step).
    pub(crate) fn step<P: ScatterPlan>(
        &mut self,
        reading: &ReadContext<'_, P>,
        parts: Vec<Bytes>,
    ) -> Result<PartStep<P>, P::Error> {
        let ReadContext { frame, places, .. } = *reading;
        let plan = match &mut self.plan {
            Some(plan) => plan,
            none => {
                if let Some(fill) = places.constant(self.npart, self.nchunk)? {
                    return Ok(PartStep::Fill(fill));
                }
                let expected =
                    if frame.tuning.prefetch { places.expected_blocks(self.npart)? } else { Vec::new() };
                none.insert(ChunkPlan::new(frame, self.nchunk)?.with_blocks(expected).verified())
            }
        };
        let head = match plan.step(frame, parts)? {
            Step::Need(need) => return Ok(PartStep::Need(need)),
            Step::Done(head) => head,
        };
        Ok(match places.resolve((self.npart, self.nchunk), head.chunk())? {
            ResolvedPart::Fill(fill) => PartStep::Fill(fill),
            ResolvedPart::Blocks(part) => PartStep::Blocks(Blocks { head, part }),
        })
    }
}

/// The blocks of a chunk that hold selected bytes.
pub(crate) struct Blocks<P: ScatterPlan> {
    pub(crate) head: ChunkHead,
    part: P::Part,
}

impl<P: ScatterPlan> Blocks<P> {
    /// Returns the numbers of the blocks in the chunk.
    pub(crate) fn nblocks<'p>(&'p self, places: &'p P) -> &'p [usize] {
        places.nblocks(&self.part)
    }

    /// Returns how many bytes `count` of the blocks have, roughly.
    pub(crate) fn nbytes(&self, count: usize) -> u64 {
        let chunk = self.head.chunk();
        let all = chunk.nblocks().max(1) as u64;
        (chunk.header().nbytes() as u64).saturating_mul(count as u64) / all
    }

    /// Returns the groups of blocks to read together. They can be decoded in any order.
    pub(crate) fn groups<'p>(&'p self, reading: &ReadContext<'p, P>) -> Groups<'p> {
        self.head.groups(self.nblocks(reading.places), &reading.frame.tuning)
    }

    /// Returns block 0 if other blocks refer to it (the delta filter). It must be decoded before
    /// them.
    pub(crate) fn reference(&self, frame: &SuperChunk) -> Option<Group<'_>> {
        if self.head.chunk().needs_block0() { self.head.groups(&[0], &frame.tuning).next() } else { None }
    }

    /// Creates a decoder for one thread. `block0` is the decoded block 0, if others refer to it.
    pub(crate) fn worker<'w>(
        &'w self,
        reading: &ReadContext<'w, P>,
        block0: Option<&'w [u8]>,
    ) -> Result<P::Worker<'w>, P::Error> {
        let ReadContext { frame, places, streaming } = *reading;
        places.worker(&self.part, self.head.chunk(), &frame.dparams, block0, streaming)
    }

    /// Decodes blocks that were read together and copies their selected bytes. `extent` and `bytes` are the read that
    /// returned them. Returns the number of bytes for progress.
    pub(crate) fn copy<T: Target>(
        &self,
        places: &P,
        worker: &mut P::Worker<'_>,
        nblocks: &[usize],
        (extent, bytes): (Option<&Extent>, &[u8]),
        mut writer: impl FnMut() -> T,
    ) -> Result<usize, P::Error> {
        let mut nbytes = 0;
        for &nblock in nblocks {
            let stored = self.head.stored(nblock, extent, bytes)?;
            nbytes += places.copy(worker, &self.part, nblock, stored, &mut writer())?;
        }
        Ok(nbytes)
    }
}

impl ChunkHead {
    /// Divides a list of blocks into groups of neighbours in the file, to be read together.
    pub(crate) fn groups<'a>(&'a self, nblocks: &'a [usize], tuning: &ReadTuning) -> Groups<'a> {
        Groups { head: self, rest: nblocks, gap: tuning.coalesce_gap, at_once: tuning.coalesce_max }
    }

    /// Returns the part of the chunk that is needed for a block, even if it has been read.
    fn extent(&self, nblock: usize) -> Range<u64> {
        let extent = self.span(nblock);
        extent.start as u64..extent.end as u64
    }
}

/// Blocks to be read together. Returned by [`ChunkHead::groups`].
#[derive(Clone, Debug)]
pub(crate) struct Group<'a> {
    nblocks: &'a [usize],
    extent: Option<Extent>,
}

impl<'a> Group<'a> {
    /// Returns the numbers of the blocks.
    pub(crate) fn nblocks(&self) -> &'a [usize] {
        self.nblocks
    }

    /// Returns the range to read, or `None` if the blocks came with the head.
    pub(crate) fn extent(&self) -> &Option<Extent> {
        &self.extent
    }
}

/// An iterator over groups of blocks. Returned by [`ChunkHead::groups`].
#[derive(Clone, Debug)]
pub(crate) struct Groups<'a> {
    head: &'a ChunkHead,
    rest: &'a [usize],
    gap: u64,
    at_once: u64,
}

impl<'a> Iterator for Groups<'a> {
    type Item = Group<'a>;

    fn next(&mut self) -> Option<Group<'a>> {
        let (first, others) = self.rest.split_first()?;
        let mut all = self.head.extent(*first);
        let mut count = 1;
        for nblock in others {
            let next = self.head.extent(*nblock);
            let near = next.start >= all.start && next.start <= all.end.saturating_add(self.gap);
            if !(next.is_empty()
                || all.is_empty()
                || near && next.end.max(all.end) - all.start <= self.at_once)
            {
                break;
            }
            all = match (all.is_empty(), next.is_empty()) {
                (true, _) => next,
                (_, true) => all,
                _ => all.start..all.end.max(next.end),
            };
            count += 1;
        }
        let (nblocks, rest) = self.rest.split_at(count);
        self.rest = rest;
        // Blocks that came with the head need not be read.
        let extents = nblocks
            .iter()
            .map(|n| self.head.to_read(&self.head.span(*n)))
            .filter(|extent| !extent.is_empty());
        let all = extents.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end));
        Some(Group { nblocks, extent: all.map(|all| Extent::exactly(self.head.file(), all)) })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::from(!self.rest.is_empty()), Some(self.rest.len()))
    }
}
