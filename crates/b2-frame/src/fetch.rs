//! Plans that read chunks: a header, a whole chunk, some blocks of one.

#![cfg_attr(
    not(test),
    deny(
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::string_slice,
        clippy::unreachable,
        clippy::unwrap_used,
        reason = "reads bytes from outside"
    )
)]

use std::ops::Range;

use b2_chunk::{Chunk, ChunkHeader, DParams, EXTENDED_HEADER_LEN, LazyChunk, memory};
use bytes::Bytes;

use crate::head::{ChunkHead, HeadState, Place};
use crate::plan::{Coalesced, Extent, FrameFile, Plan, Step};
use crate::pool::Pooled;
use crate::{FrameError, Structure};

/// Blocks at most this far apart are read at once, in bytes. Reading so much from the page cache costs about
/// as much as another call.
pub(crate) const GAP: u64 = 8 * 1024;

/// Reads a whole chunk; for special entries without any reading.
#[derive(Clone, Debug)]
pub struct ChunkPlan(ChunkState);

#[derive(Clone, Debug)]
enum ChunkState {
    Made(Chunk),
    Start(Place),
    Guessed(Place),
    Whole(Place),
    Spent,
}

impl ChunkPlan {
    pub(crate) fn made(chunk: Chunk) -> Self {
        Self(ChunkState::Made(chunk))
    }

    pub(crate) fn stored(place: Place) -> Self {
        Self(ChunkState::Start(place))
    }
}

impl Plan for ChunkPlan {
    type Output = Chunk;

    fn step(&mut self, parts: Vec<Bytes>) -> Result<Step<Chunk>, FrameError> {
        let part = parts.into_iter().next().unwrap_or_default();
        match std::mem::replace(&mut self.0, ChunkState::Spent) {
            ChunkState::Made(chunk) => Ok(Step::Done(chunk)),
            ChunkState::Start(place) => {
                let need = place.at_most(place.first());
                self.0 = ChunkState::Guessed(place);
                Ok(Step::Need(vec![need]))
            }
            ChunkState::Guessed(place) => {
                let header = place.header(&part, place.available(place.first(), part.len()))?;
                if part.len() >= header.cbytes() {
                    return finish(&place, part);
                }
                let need = place.within_limit(header.cbytes())?;
                self.0 = ChunkState::Whole(place);
                Ok(Step::Need(vec![need]))
            }
            ChunkState::Whole(place) => finish(&place, part),
            ChunkState::Spent => Err(spent()),
        }
    }
}

fn finish(place: &Place, bytes: Bytes) -> Result<Step<Chunk>, FrameError> {
    let chunk = Chunk::parse(bytes).map_err(FrameError::chunk(place.structure()))?;
    // The header may have changed between two reads.
    place.check(chunk.header(), chunk.cbytes() as u64)?;
    Ok(Step::Done(chunk))
}

/// Reads the headers of many chunks, neighbours at once.
#[derive(Clone, Debug)]
pub(crate) struct HeadersPlan {
    places: Vec<Place>,
    reads: Option<(Coalesced, bool)>,
}

impl HeadersPlan {
    pub(crate) fn new(places: Vec<Place>) -> Self {
        Self { places, reads: None }
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
                Coalesced::new(&wanted, GAP / 2)?
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

/// Which blocks of a chunk are wanted.
#[derive(Clone, Debug)]
pub(crate) enum Wanted {
    /// These.
    Blocks(Vec<usize>),
    /// Those that hold these plain bytes of the chunk.
    Bytes(Range<usize>),
    /// Those that hold items of `len` bytes which start at these plain bytes, ascending.
    Items { starts: Vec<usize>, len: usize },
}

/// Reads the head of a chunk and then the wanted blocks only (and block 0 where the delta filter needs it).
#[derive(Clone, Debug)]
pub struct BlocksPlan {
    wanted: Wanted,
    dparams: DParams,
    state: BlocksState,
}

#[derive(Clone, Debug)]
enum BlocksState {
    Made(Chunk),
    Head(HeadState),
    Blocks { head: Box<ChunkHead>, numbers: Vec<usize>, coalesced: Coalesced },
    Spent,
}

impl BlocksPlan {
    pub(crate) fn made(chunk: Chunk, wanted: Wanted, dparams: DParams) -> Self {
        Self { wanted, dparams, state: BlocksState::Made(chunk) }
    }

    pub(crate) fn stored(place: Place, wanted: Wanted, dparams: DParams) -> Self {
        Self { wanted, dparams, state: BlocksState::Head(HeadState::new(place)) }
    }

    /// The numbers of the wanted blocks, with block 0 at the end if it is needed besides.
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

    fn lazy(&self, chunk: &Chunk, structure: Structure) -> Result<LazyChunk, FrameError> {
        chunk.lazy(&self.dparams).map_err(FrameError::chunk(structure))
    }
}

impl Plan for BlocksPlan {
    type Output = StoredBlocks;

    fn step(&mut self, parts: Vec<Bytes>) -> Result<Step<StoredBlocks>, FrameError> {
        match std::mem::replace(&mut self.state, BlocksState::Spent) {
            BlocksState::Made(chunk) => {
                let lazy = self.lazy(&chunk, Structure::Index)?;
                let numbers = self.numbers(&lazy)?;
                let blocks = memory::collect(numbers.into_iter().map(|n| (n, Bytes::new())))?;
                Ok(Step::Done(StoredBlocks { structure: Structure::Index, lazy, blocks }))
            }
            BlocksState::Head(mut state) => {
                let head = match state.step(parts, &self.dparams)? {
                    Step::Need(need) => {
                        self.state = BlocksState::Head(state);
                        return Ok(Step::Need(need));
                    }
                    Step::Done(head) => Box::new(head),
                };
                let numbers = self.numbers(head.chunk())?;
                let extents = memory::collect(numbers.iter().map(|n| head.to_read(*n)))?;
                let coalesced = Coalesced::new(&extents, GAP)?;
                let need = coalesced.reads.iter();
                let need = memory::collect(need.map(|read| Extent::exactly(head.file(), read.clone())))?;
                self.state = BlocksState::Blocks { head, numbers, coalesced };
                Ok(Step::Need(need))
            }
            BlocksState::Blocks { head, numbers, coalesced } => {
                let stored = |(i, nblock): (usize, usize)| match head.to_read(nblock).is_empty() {
                    true => (nblock, head.bytes().slice_ref(head.at_hand(nblock))),
                    false => (nblock, coalesced.pick(&parts, i)),
                };
                let blocks = memory::collect(numbers.into_iter().enumerate().map(stored))?;
                let (structure, lazy) = (head.structure(), head.into_chunk());
                Ok(Step::Done(StoredBlocks { structure, lazy, blocks }))
            }
            BlocksState::Spent => Err(spent()),
        }
    }
}

pub(crate) fn spent() -> FrameError {
    FrameError::argument("plan", "it has ended")
}

/// Blocks as read, still compressed. Decoding them is no I/O and can be spread over threads.
#[derive(Clone, Debug)]
pub struct StoredBlocks {
    structure: Structure,
    lazy: LazyChunk,
    blocks: Vec<(usize, Bytes)>,
}

impl StoredBlocks {
    /// The chunk they are blocks of.
    pub fn chunk(&self) -> &LazyChunk {
        &self.lazy
    }

    /// Numbers and stored bytes of the blocks, in the order they were asked for.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (usize, &[u8])> {
        let extra = usize::from(self.lazy.needs_block0() && !self.blocks.is_empty());
        let wanted = self.blocks.get(..self.blocks.len() - extra).unwrap_or_default();
        wanted.iter().map(|(nblock, stored)| (*nblock, &stored[..]))
    }

    /// The decoded block 0 if the others refer to it (delta filter): what [`BlockDecoder::decode`] asks for.
    ///
    /// # Errors
    /// When it does not decode.
    ///
    /// [`BlockDecoder::decode`]: b2_chunk::BlockDecoder::decode
    pub fn block0(&self, dparams: &DParams) -> Result<Option<Vec<u8>>, FrameError> {
        let (true, Some((0, stored))) = (self.lazy.needs_block0(), self.blocks.last()) else {
            return Ok(None);
        };
        let decode = || {
            let mut block = memory::zeroed(self.lazy.block_range(0).len())?;
            self.lazy.decoder(dparams)?.decode_reference(0, stored, None, &mut block)?;
            Ok(block)
        };
        decode().map(Some).map_err(FrameError::chunk(self.structure.clone()))
    }

    /// Decodes the blocks one after the other; `each` gets number and plain bytes of each, in the order they
    /// were asked for.
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
            let mut block = Pooled::new(len)?;
            decoder.decode(nblock, stored, block0.as_deref(), &mut block).map_err(chunk_error())?;
            each(nblock, &block);
        }
        Ok(())
    }

    /// Decodes the plain bytes `range` of the chunk into `dst`, in parallel. The blocks must be those that
    /// hold the range.
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
        b2_chunk::parallel::for_each_on(
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
