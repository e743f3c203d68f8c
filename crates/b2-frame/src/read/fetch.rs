//! Plans that read chunk headers and whole chunks.

use b2_chunk::{Chunk, ChunkHeader, EXTENDED_HEADER_LEN};
use b2_core::memory;
use bytes::Bytes;

use crate::format::checksums::sum;
use crate::format::index::Entry;
use crate::names::FrameFile;
use crate::read::compared::ComparedChunk;
use crate::read::head::Place;
use crate::read::plan::{Coalesced, Plan, Step};
use crate::read::sums::PageRequest;
use crate::storage::files::Extent;
use crate::{FrameError, SuperChunk};

/// A plan that reads a whole chunk, usually in one round. Special chunks are not read at all.
#[derive(Clone, Debug)]
pub struct ChunkPlan<'a> {
    frame: &'a SuperChunk,
    nchunk: usize,
    compare: Comparing,
    state: ChunkState,
}

/// Decides whether a chunk is compared with its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparing {
    No,
    /// If [`Compare`](crate::Compare) asks for it.
    Decoded,
    /// Always, unless [`Compare::Never`](crate::Compare::Never) is set.
    Yes,
}

#[derive(Clone, Debug)]
enum ChunkState {
    Made(Chunk),
    Start(Place),
    Guessed(Place, Option<PageRequest>),
    Whole(Place),
    Sum(Chunk, PageRequest),
    Spent,
}

impl SuperChunk {
    /// Returns a plan that reads chunk `nchunk` and compares it with its checksum like
    /// [`SuperChunk::chunk`].
    ///
    /// # Errors
    /// When the chunk does not exist, its entry is malformed, or it exceeds a limit.
    pub fn chunk_plan(&self, nchunk: usize) -> Result<ChunkPlan<'_>, FrameError> {
        self.plan_chunk(nchunk, Comparing::Yes)
    }

    pub(crate) fn plan_chunk(&self, nchunk: usize, compare: Comparing) -> Result<ChunkPlan<'_>, FrameError> {
        let state = match self.entry(nchunk)? {
            Entry::Special(kind) => ChunkState::Made(self.special(nchunk, kind)?),
            Entry::Stored(offset) => ChunkState::Start(self.opened.place(nchunk, offset, &self.dparams)?),
        };
        Ok(ChunkPlan { frame: self, nchunk, compare, state })
    }
}

impl ChunkPlan<'_> {
    /// Returns the same plan for a chunk that is decoded at once: it is compared as
    /// [`Compare`](crate::Compare) says.
    #[doc(hidden)]
    #[must_use]
    pub fn to_decode(self) -> Self {
        Self { compare: Comparing::Decoded, ..self }
    }

    fn finish(&mut self, place: &Place, bytes: Bytes) -> Result<Step<Chunk>, FrameError> {
        let chunk = Chunk::from_bytes(bytes).map_err(FrameError::chunk(place.structure()))?;
        let chunk = chunk.with_nchunk(Some(place.nchunk));
        // The header may have changed between two reads.
        place.check(chunk.header(), chunk.cbytes() as u64)?;
        let compares = match self.compare {
            Comparing::No => false,
            Comparing::Decoded => {
                let known = self.frame.compared(self.nchunk).is_some_and(ComparedChunk::is_whole);
                self.frame.compares_stored() && !known
            }
            Comparing::Yes => self.frame.compares_stored(),
        };
        if !compares {
            return Ok(Step::Done(chunk));
        }
        if let Err(page) = self.frame.sum_of(self.nchunk)? {
            let need = vec![page.extent.clone()];
            self.state = ChunkState::Sum(chunk, page);
            return Ok(Step::Need(need));
        }
        self.check(chunk)
    }

    fn check(&self, chunk: Chunk) -> Result<Step<Chunk>, FrameError> {
        self.frame.check_sum(self.nchunk, || sum(chunk.as_bytes()))?;
        self.frame.put_compared(self.nchunk, ComparedChunk::Whole);
        Ok(Step::Done(chunk))
    }
}

impl Plan for ChunkPlan<'_> {
    type Output = Chunk;

    fn step(&mut self, parts: Vec<Bytes>) -> Result<Step<Chunk>, FrameError> {
        let mut parts = parts.into_iter();
        let part = parts.next().unwrap_or_default();
        match std::mem::replace(&mut self.state, ChunkState::Spent) {
            ChunkState::Made(chunk) => Ok(Step::Done(chunk)),
            ChunkState::Start(place) => {
                let mut need = vec![place.at_most(place.first())];
                let page = match self.compare {
                    Comparing::Yes | Comparing::Decoded if self.frame.compares_stored() => {
                        self.frame.sum_of(self.nchunk)?.err()
                    }
                    _ => None,
                };
                need.extend(page.iter().map(|page| page.extent.clone()));
                self.state = ChunkState::Guessed(place, page);
                Ok(Step::Need(need))
            }
            ChunkState::Guessed(place, page) => {
                if let Some(page) = page {
                    self.frame.take_page(&page, parts.next().unwrap_or_default())?;
                }
                let header = place.header(&part, place.available(place.first(), part.len()))?;
                if part.len() >= header.cbytes() {
                    return self.finish(&place, part);
                }
                let need = place.within_limit(header.cbytes())?;
                self.state = ChunkState::Whole(place);
                Ok(Step::Need(vec![need]))
            }
            ChunkState::Whole(place) => self.finish(&place, part),
            ChunkState::Sum(chunk, page) => {
                self.frame.take_page(&page, part)?;
                self.check(chunk)
            }
            ChunkState::Spent => Err(spent()),
        }
    }
}

/// A plan that reads the headers of many chunks, neighbours at once.
#[derive(Clone, Debug)]
pub(crate) struct HeadersPlan {
    places: Vec<Place>,
    /// Largest gap between headers that are read at once, in bytes.
    gap: u64,
    reads: Option<(Coalesced, bool)>,
}

impl HeadersPlan {
    pub(crate) fn new(places: Vec<Place>, gap: u64) -> Self {
        Self { places, gap, reads: None }
    }
}

impl Plan for HeadersPlan {
    type Output = Vec<ChunkHeader>;

    fn step(&mut self, parts: Vec<Bytes>) -> Result<Step<Vec<ChunkHeader>>, FrameError> {
        let Some((coalesced, one_file)) = &self.reads else {
            let one_file = self.places.iter().all(|place| place.file == FrameFile::Main);
            let heads =
                memory::collect(self.places.iter().map(|place| place.at_most(EXTENDED_HEADER_LEN as u64)))?;
            let coalesced = if one_file {
                let wanted = memory::collect(heads.iter().map(|extent| extent.range.clone()))?;
                Coalesced::new(&wanted, self.gap)?
            } else {
                Coalesced::default()
            };
            let need = if one_file {
                let reads = coalesced.reads.iter();
                memory::collect(reads.map(|read| Extent::exactly(FrameFile::Main, read.clone())))?
            } else {
                heads
            };
            self.reads = Some((coalesced, one_file));
            return Ok(Step::Need(need));
        };
        let headers = self.places.iter().enumerate().map(|(i, place)| {
            let head =
                if *one_file { coalesced.pick(&parts, i) } else { parts.get(i).cloned().unwrap_or_default() };
            place.header(&head, place.room())
        });
        let mut all = memory::list(self.places.len())?;
        for header in headers {
            all.push(header?);
        }
        Ok(Step::Done(all))
    }
}

pub(crate) fn spent() -> FrameError {
    FrameError::argument("plan", "has ended")
}
