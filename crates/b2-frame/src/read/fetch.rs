//! Plans that read chunk headers, whole chunks, or some blocks of a chunk.

use std::ops::Range;

use b2_chunk::{Chunk, ChunkHeader, DParams, EXTENDED_HEADER_LEN, LazyChunk};
use b2_core::memory;
use bytes::Bytes;

use crate::format::checksums::sum;
use crate::format::index::Entry;

use crate::names::FrameFile;
use crate::read::compared::ComparedChunk;
use crate::read::head::{ChunkHead, ComparePlan, HeadPlan, Place, block0};
use crate::read::plan::{Coalesced, Plan, Step};
use crate::read::sums::PageRequest;
use crate::storage::files::Extent;
use crate::{FrameError, Structure, SuperChunk};
use b2_core::Buffer;

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

    /// Returns a plan that reads some blocks of chunk `nchunk`.
    ///
    /// # Errors
    /// As for [`SuperChunk::chunk_plan`]. The plan itself fails if a block does not exist.
    pub fn blocks_plan(&self, nchunk: usize, nblocks: &[usize]) -> Result<BlocksPlan<'_>, FrameError> {
        self.plan_blocks(nchunk, Wanted::Blocks(memory::collect(nblocks.iter().copied())?))
    }

    pub(crate) fn plan_blocks(&self, nchunk: usize, wanted: Wanted) -> Result<BlocksPlan<'_>, FrameError> {
        let size = self.header().blocksize().max(1);
        let blocks = match &wanted {
            Wanted::Blocks(numbers) => span(numbers.iter().copied()),
            Wanted::Bytes(range) => range.start / size..range.end.div_ceil(size),
            Wanted::Items { starts, len } => {
                let span = span(starts.iter().copied());
                span.start / size..span.end.saturating_add(*len).div_ceil(size)
            }
        };
        let state = BlocksState::Head(self.head_plan(nchunk)?.with_blocks(blocks));
        Ok(BlocksPlan { frame: self, wanted, state })
    }
}

/// Returns the range from the smallest to the largest number.
fn span(numbers: impl Iterator<Item = usize> + Clone) -> Range<usize> {
    let last = numbers.clone().max().map_or(0, |last| last.saturating_add(1));
    numbers.min().unwrap_or(0)..last
}

impl ChunkPlan<'_> {
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

/// The blocks of a chunk that are needed.
#[derive(Clone, Debug)]
pub(crate) enum Wanted {
    /// The blocks with these numbers.
    Blocks(Vec<usize>),
    /// The blocks that hold these plain bytes of the chunk.
    Bytes(Range<usize>),
    /// The blocks that hold items of `len` bytes that start at these plain bytes, in ascending
    /// order.
    Items { starts: Vec<usize>, len: usize },
}

/// A plan that reads the head of a chunk and then only the blocks that are needed, and block 0 if
/// the delta filter needs it. This takes two rounds, or one if the chunk is small. Runs that are
/// compared are read as a whole.
#[derive(Debug)]
pub struct BlocksPlan<'a> {
    frame: &'a SuperChunk,
    wanted: Wanted,
    state: BlocksState<'a>,
}

#[derive(Debug)]
enum BlocksState<'a> {
    Head(HeadPlan<'a>),
    Compare(ComparePlan<'a>),
    Blocks { head: Box<ChunkHead>, numbers: Vec<usize>, spans: Vec<Range<usize>>, coalesced: Coalesced },
    Spent,
}

impl<'a> BlocksPlan<'a> {
    /// Returns the numbers of the blocks to read, with block 0 at the end if it is needed in
    /// addition.
    fn numbers(&self, lazy: &LazyChunk) -> Result<Vec<usize>, FrameError> {
        let out_of_range = |what, range: Range<usize>, len: usize| FrameError::OutOfRange {
            what,
            start: range.start as u64,
            end: range.end as u64,
            len: len as u64,
        };
        let mut numbers = match &self.wanted {
            Wanted::Blocks(numbers) => {
                if let Some(&bad) = numbers.iter().find(|n| **n >= lazy.nblocks()) {
                    return Err(out_of_range("blocks", bad..bad + 1, lazy.nblocks()));
                }
                memory::collect(numbers.iter().copied())?
            }
            Wanted::Bytes(range) => {
                let nbytes = lazy.header().nbytes();
                if range.start > range.end || range.end > nbytes {
                    return Err(out_of_range("bytes", range.clone(), nbytes));
                }
                memory::collect(lazy.blocks_of(range.clone()))?
            }
            Wanted::Items { starts, len } => {
                let mut numbers: Vec<usize> = Vec::new();
                for start in starts {
                    let range = *start..start.saturating_add(*len);
                    let nbytes = lazy.header().nbytes();
                    if range.end > nbytes {
                        return Err(out_of_range("bytes", range, nbytes));
                    }
                    let known = numbers.last().map_or(0, |last| last + 1);
                    for nblock in lazy.blocks_of(range).filter(|nblock| *nblock >= known) {
                        memory::push(&mut numbers, nblock)?;
                    }
                }
                numbers
            }
        };
        if lazy.needs_block0() && !numbers.is_empty() {
            memory::push(&mut numbers, 0)?;
        }
        Ok(numbers)
    }

    fn blocks(&mut self, head: ChunkHead) -> Result<Step<StoredBlocks>, FrameError> {
        let numbers = self.numbers(head.chunk())?;
        let spans = memory::collect(numbers.iter().map(|n| head.span(*n)))?;
        let extents = memory::collect(spans.iter().map(|span| head.to_read(span)))?;
        let coalesced = Coalesced::new(&extents, self.frame.costs.gap)?;
        if coalesced.reads.is_empty() {
            return Self::finish(head, numbers, &spans, &coalesced, &[]);
        }
        let need = coalesced.reads.iter();
        let need = memory::collect(need.map(|read| Extent::exactly(head.file(), read.clone())))?;
        self.state = BlocksState::Blocks { head: Box::new(head), numbers, spans, coalesced };
        Ok(Step::Need(need))
    }

    fn finish(
        head: ChunkHead,
        numbers: Vec<usize>,
        spans: &[Range<usize>],
        coalesced: &Coalesced,
        parts: &[Bytes],
    ) -> Result<Step<StoredBlocks>, FrameError> {
        let mut blocks = memory::list(numbers.len())?;
        for (i, (nblock, span)) in numbers.into_iter().zip(spans).enumerate() {
            let bytes = match head.to_read(span).is_empty() {
                true => head.at_hand(span),
                false => coalesced.pick(parts, i),
            };
            blocks.push((nblock, head.kept(nblock, &bytes, span.start)?));
        }
        let (structure, lazy) = (head.structure(), head.into_chunk());
        Ok(Step::Done(StoredBlocks { structure, lazy, blocks }))
    }

    fn compare(
        &mut self,
        mut plan: ComparePlan<'a>,
        parts: Vec<Bytes>,
    ) -> Result<Step<StoredBlocks>, FrameError> {
        match plan.step(parts)? {
            Step::Need(need) => {
                self.state = BlocksState::Compare(plan);
                Ok(Step::Need(need))
            }
            Step::Done(head) => self.blocks(head),
        }
    }
}

impl Plan for BlocksPlan<'_> {
    type Output = StoredBlocks;

    fn step(&mut self, parts: Vec<Bytes>) -> Result<Step<StoredBlocks>, FrameError> {
        match std::mem::replace(&mut self.state, BlocksState::Spent) {
            BlocksState::Head(mut plan) => match plan.step(parts)? {
                Step::Need(need) => {
                    self.state = BlocksState::Head(plan);
                    Ok(Step::Need(need))
                }
                Step::Done(head) => self.compare(head.compare(self.frame), Vec::new()),
            },
            BlocksState::Compare(plan) => self.compare(plan, parts),
            BlocksState::Blocks { head, numbers, spans, coalesced } => {
                Self::finish(*head, numbers, &spans, &coalesced, &parts)
            }
            BlocksState::Spent => Err(spent()),
        }
    }
}

pub(crate) fn spent() -> FrameError {
    FrameError::argument("plan", "has ended")
}

/// Blocks that were read but not decoded. Decoding needs no I/O and can be spread over threads.
#[derive(Clone, Debug)]
pub struct StoredBlocks {
    structure: Structure,
    lazy: LazyChunk,
    blocks: Vec<(usize, Bytes)>,
}

impl StoredBlocks {
    /// Returns the chunk that contains the blocks.
    pub fn chunk(&self) -> &LazyChunk {
        &self.lazy
    }

    /// Returns numbers and stored bytes of the blocks in the requested order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (usize, &[u8])> {
        let extra = usize::from(self.lazy.needs_block0() && !self.blocks.is_empty());
        let wanted = self.blocks.get(..self.blocks.len() - extra).unwrap_or_default();
        wanted.iter().map(|(nblock, stored)| (*nblock, &stored[..]))
    }

    /// Returns the decoded block 0 if other blocks refer to it (delta filter), as
    /// [`BlockDecoder::decode`] needs it.
    ///
    /// # Errors
    /// When the block does not decode.
    ///
    /// [`BlockDecoder::decode`]: b2_chunk::BlockDecoder::decode
    pub fn block0(&self, dparams: &DParams) -> Result<Option<Vec<u8>>, FrameError> {
        let (true, Some((0, stored))) = (self.lazy.needs_block0(), self.blocks.last()) else {
            return Ok(None);
        };
        block0(&self.lazy, stored, dparams).map(Some).map_err(FrameError::chunk(self.structure.clone()))
    }

    /// Decodes the blocks one after the other. `each` receives their numbers and plain bytes in the
    /// requested order.
    ///
    /// # Errors
    /// When a block does not decode.
    pub fn decode(&self, dparams: &DParams, mut each: impl FnMut(usize, &[u8])) -> Result<(), FrameError> {
        let chunk_error = || FrameError::chunk(self.structure.clone());
        let block0 = self.block0(dparams)?;
        let mut decoder = self.lazy.decoder(dparams).map_err(chunk_error())?;
        for (nblock, stored) in self.iter() {
            if let (0, Some(block0), false) = (nblock, &block0, dparams.has_postfilter()) {
                each(0, block0);
                continue;
            }
            let len = self.lazy.block_range(nblock).len() as u64;
            let mut block = Buffer::new(len)?;
            decoder.decode(nblock, stored, block0.as_deref(), &mut block).map_err(chunk_error())?;
            each(nblock, &block);
        }
        Ok(())
    }

    /// Decodes the plain bytes `range` of the chunk into `dst`, in parallel. The blocks must be
    /// exactly those that hold the range.
    pub(crate) fn decode_range(
        &self,
        range: Range<usize>,
        dst: &mut [u8],
        dparams: &DParams,
    ) -> Result<(), FrameError> {
        let chunk_error = || FrameError::chunk(self.structure.clone());
        let block0 = self.block0(dparams)?;
        let nbytes = dst.len() as u64;
        let mut rest = dst;
        let mut jobs = memory::list(self.blocks.len())?;
        for (nblock, stored) in self.iter() {
            let block = self.lazy.block_range(nblock);
            let part = block.start.max(range.start)..block.end.min(range.end);
            let Some((dst, others)) = std::mem::take(&mut rest).split_at_mut_checked(part.len()) else {
                break;
            };
            rest = others;
            jobs.push((nblock, stored, part.start - block.start, dst));
        }
        b2_core::for_each(
            &dparams.control,
            dparams.limits.threads(self.lazy.block_memory()),
            jobs.into_iter(),
            nbytes,
            || self.lazy.decoder(dparams).map_err(chunk_error()),
            |decoder, (nblock, stored, skip, dst)| {
                let part = skip..skip.saturating_add(dst.len());
                decoder.decode_part(nblock, stored, block0.as_deref(), part, dst).map_err(chunk_error())
            },
        )
    }
}
