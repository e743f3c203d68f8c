//! The plan that reads a whole chunk.

use b2_chunk::Chunk;
use bytes::Bytes;

use crate::format::digest::sum;
use crate::format::index::Entry;
use crate::format::runs::VerifiedChunk;
use crate::read::chunk_head::ChunkLocation;
use crate::read::plan::{Step, ended};
use crate::read::sums::PageRequest;
use crate::read::super_chunk::FramePlan;
use crate::{FrameError, SuperChunk};

/// A plan that reads a whole chunk, usually in one round. Special chunks are not read at all.
#[derive(Clone, Debug)]
pub(crate) struct WholeChunkPlan {
    nchunk: usize,
    compare: CompareMode,
    state: WholeChunkState,
}

/// Decides whether a chunk is compared with its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CompareMode {
    Never,
    /// If [`Compare`](crate::Compare) requires it.
    Decoded,
    /// Always, unless [`Compare::Never`](crate::Compare::Never) is set.
    Always,
}

#[derive(Clone, Debug)]
enum WholeChunkState {
    Made(Chunk),
    Start(ChunkLocation),
    Guessed(ChunkLocation, Option<PageRequest>),
    Whole(ChunkLocation),
    Sum(Chunk, PageRequest),
    Spent,
}

impl WholeChunkPlan {
    /// Plans to read a chunk.
    ///
    /// # Errors
    /// When the chunk does not exist, its entry is malformed, or it exceeds a limit.
    pub(crate) fn new(frame: &SuperChunk, nchunk: usize, compare: CompareMode) -> Result<Self, FrameError> {
        let state = match frame.entry(nchunk)? {
            Entry::Special(kind) => WholeChunkState::Made(frame.special(nchunk, kind)?),
            Entry::Stored(offset) => {
                WholeChunkState::Start(frame.opened.place(nchunk, offset, &frame.dparams)?)
            }
        };
        Ok(Self { nchunk, compare, state })
    }

    fn finish(
        &mut self,
        frame: &SuperChunk,
        place: &ChunkLocation,
        bytes: Bytes,
    ) -> Result<Step<Chunk>, FrameError> {
        let chunk = Chunk::from_bytes(bytes).map_err(FrameError::chunk(place.structure()))?;
        let chunk = chunk.with_nchunk(Some(place.nchunk));
        // The header may have changed between two reads.
        place.check(chunk.header(), chunk.cbytes() as u64)?;
        let compares = match self.compare {
            CompareMode::Never => false,
            CompareMode::Decoded => {
                let known = frame.compared(self.nchunk).is_some_and(VerifiedChunk::is_whole);
                frame.compares_stored() && !known
            }
            CompareMode::Always => frame.compares_stored(),
        };
        if !compares {
            return Ok(Step::Done(chunk));
        }
        if let Err(page) = frame.sum_of(self.nchunk)? {
            let need = vec![page.extent.clone()];
            self.state = WholeChunkState::Sum(chunk, page);
            return Ok(Step::Need(need));
        }
        self.check(frame, chunk)
    }

    fn check(&self, frame: &SuperChunk, chunk: Chunk) -> Result<Step<Chunk>, FrameError> {
        frame.check_sum(self.nchunk, || sum(chunk.as_bytes()))?;
        frame.put_compared(self.nchunk, VerifiedChunk::Whole);
        Ok(Step::Done(chunk))
    }
}

impl FramePlan for WholeChunkPlan {
    type Output = Chunk;

    fn step(&mut self, frame: &SuperChunk, parts: Vec<Bytes>) -> Result<Step<Chunk>, FrameError> {
        let mut parts = parts.into_iter();
        let part = parts.next().unwrap_or_default();
        match std::mem::replace(&mut self.state, WholeChunkState::Spent) {
            WholeChunkState::Made(chunk) => Ok(Step::Done(chunk)),
            WholeChunkState::Start(place) => {
                let mut need = vec![place.at_most(place.first())];
                let page = match self.compare {
                    CompareMode::Always | CompareMode::Decoded if frame.compares_stored() => {
                        frame.sum_of(self.nchunk)?.err()
                    }
                    _ => None,
                };
                need.extend(page.iter().map(|page| page.extent.clone()));
                self.state = WholeChunkState::Guessed(place, page);
                Ok(Step::Need(need))
            }
            WholeChunkState::Guessed(place, page) => {
                if let Some(page) = page {
                    frame.take_page(&page, parts.next().unwrap_or_default())?;
                }
                let header = place.header(&part, place.available(place.first(), part.len()))?;
                if part.len() >= header.cbytes() {
                    return self.finish(frame, &place, part);
                }
                let need = place.within_limit(header.cbytes())?;
                self.state = WholeChunkState::Whole(place);
                Ok(Step::Need(vec![need]))
            }
            WholeChunkState::Whole(place) => self.finish(frame, &place, part),
            WholeChunkState::Sum(chunk, page) => {
                frame.take_page(&page, part)?;
                self.check(frame, chunk)
            }
            WholeChunkState::Spent => Err(ended()),
        }
    }
}
