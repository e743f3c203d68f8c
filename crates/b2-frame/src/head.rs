//! The head of a stored chunk: header, block starts and dictionary, which tell where its blocks are.

#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
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

use b2_chunk::{ChunkHeader, DParams, EXTENDED_HEADER_LEN, LazyChunk, LazyHead};
use bytes::Bytes;

use crate::checksums::{Sum, sum};
use crate::error::within;
use crate::fetch::spent;
use crate::plan::{Extent, FrameFile, OpenFile, Step};
use crate::{FrameError, Structure};

/// Chunks up to this size are read whole when blocks of them are wanted, in bytes.
const SMALL: u64 = 16 * 1024;
/// Least that is read of the head of larger chunks, in bytes.
const HEAD: u64 = 4 * 1024;

/// Chunks above this size are summed up in pieces, in bytes: buffers of that size are not kept for the next one.
const LARGE: usize = 8 << 20;
/// Of so many bytes.
const PIECE: u64 = 1 << 20;

/// Where a stored chunk is, and what the frame knows about it.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) nchunk: usize,
    pub(crate) file: FrameFile,
    /// First byte of the chunk in the file.
    pub(crate) start: u64,
    /// One past the last byte it may have.
    pub(crate) end: u64,
    /// How many bytes it probably has. May be too few or too many.
    pub(crate) guess: u64,
    /// Its uncompressed size, if the frame tells.
    pub(crate) nbytes: Option<u64>,
    /// How many blocks it probably has, 0 if the frame has no idea.
    pub(crate) nblocks: u64,
    /// The most memory that the stored chunk may take.
    pub(crate) most: u64,
}

impl Place {
    pub(crate) fn structure(&self) -> Structure {
        Structure::StoredChunk { nchunk: self.nchunk, file: self.file, start: self.start }
    }

    pub(crate) fn room(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    pub(crate) fn at_most(&self, len: u64) -> Extent {
        Extent::at_most(self.file, self.start..self.start.saturating_add(len.min(self.room())))
    }

    pub(crate) fn exactly(&self, len: usize) -> Extent {
        Extent::exactly(self.file, self.start..self.start.saturating_add(len as u64))
    }

    /// What is read first where all of the chunk is wanted: all that it probably has. If that is too much, its header
    /// tells.
    pub(crate) fn first(&self) -> u64 {
        self.guess.min(self.most.max(EXTENDED_HEADER_LEN as u64))
    }

    /// The first `len` bytes of the chunk, as long as that is not too much.
    ///
    /// # Errors
    /// When it is above the limit for memory.
    pub(crate) fn within_limit(&self, len: usize) -> Result<Extent, FrameError> {
        within("stored chunk, in bytes", len as u64, ("max_memory", self.most))?;
        Ok(self.exactly(len))
    }

    /// Bytes from the chunk's start to where it must end, after `asked` bytes were asked for and `got` came.
    pub(crate) fn available(&self, asked: u64, got: usize) -> u64 {
        if (got as u64) < asked.min(self.room()) { got as u64 } else { self.room() }
    }

    pub(crate) fn header(&self, head: &[u8], available: u64) -> Result<ChunkHeader, FrameError> {
        let header = ChunkHeader::parse(head).map_err(FrameError::chunk(self.structure()))?;
        self.check(&header, available)?;
        Ok(header)
    }

    /// What the frame says against what the chunk says.
    pub(crate) fn check(&self, header: &ChunkHeader, available: u64) -> Result<(), FrameError> {
        let cbytes = header.cbytes() as u64;
        if cbytes > available {
            let (structure, offset) = (self.structure(), self.start);
            return Err(FrameError::Truncated { structure, offset, need: cbytes, have: available });
        }
        let nbytes = header.nbytes() as u64;
        if self.nbytes.is_some_and(|expected| expected != nbytes) {
            let expected = "the chunk size of the frame (the rest of nbytes in the last chunk)";
            return Err(FrameError::field(self.structure(), "nbytes", 4, nbytes, expected));
        }
        Ok(())
    }
}

/// A head that was read, with whatever was read along with it.
#[derive(Clone, Debug)]
pub(crate) struct ChunkHead {
    place: Place,
    lazy: LazyChunk,
    bytes: Bytes,
}

impl ChunkHead {
    pub(crate) fn chunk(&self) -> &LazyChunk {
        &self.lazy
    }

    pub(crate) fn into_chunk(self) -> LazyChunk {
        self.lazy
    }

    pub(crate) fn structure(&self) -> Structure {
        self.place.structure()
    }

    pub(crate) fn nchunk(&self) -> usize {
        self.place.nchunk
    }

    pub(crate) fn file(&self) -> FrameFile {
        self.place.file
    }

    /// All that was read.
    pub(crate) fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The sum of the chunk's bytes. What is missing of a chunk that is not large is read at once, and kept.
    pub(crate) fn sum(&mut self, file: &OpenFile) -> Result<u64, FrameError> {
        let cbytes = self.lazy.header().cbytes();
        if cbytes <= LARGE {
            self.complete(cbytes, file)?;
            return Ok(sum(&self.bytes));
        }
        let mut sums = Sum::default();
        let end = self.place.start.saturating_add(cbytes as u64);
        let mut at = self.place.start;
        while at < end {
            let piece = at..end.min(at.saturating_add(PIECE));
            at = piece.end;
            sums.add(&file.read(&Extent::exactly(self.place.file, piece))?);
        }
        Ok(sums.finish())
    }

    fn complete(&mut self, cbytes: usize, file: &OpenFile) -> Result<(), FrameError> {
        if self.bytes.len() < cbytes {
            let bytes = file.read(&self.place.exactly(cbytes))?;
            // The file may have changed between two reads.
            if bytes.get(..self.bytes.len()) != Some(&self.bytes[..]) {
                return Err(FrameError::Changed { name: file.name().to_owned() });
            }
            self.bytes = bytes;
        }
        self.bytes.truncate(cbytes);
        Ok(())
    }

    /// The stored bytes of a block that came with the head; empty for others.
    pub(crate) fn at_hand(&self, nblock: usize) -> &[u8] {
        self.bytes.get(self.lazy.block_extent(nblock)).unwrap_or_default()
    }

    /// Where the stored bytes of a block are in the file; empty if they came with the head.
    pub(crate) fn to_read(&self, nblock: usize) -> Range<u64> {
        let extent = self.lazy.block_extent(nblock);
        match self.bytes.get(extent.clone()) {
            Some(_) => 0..0,
            None => {
                let at = |n: usize| self.place.start.saturating_add(n as u64);
                at(extent.start)..at(extent.end)
            }
        }
    }
}

/// Reading a head, in steps: each part tells the length of the next.
#[derive(Clone, Debug)]
pub(crate) enum HeadState {
    Start(Place),
    Asked(Place, u64),
    Spent,
}

impl HeadState {
    pub(crate) fn new(place: Place) -> Self {
        Self::Start(place)
    }

    /// As [`Plan::step`](crate::Plan::step).
    pub(crate) fn step(
        &mut self,
        parts: Vec<Bytes>,
        dparams: &DParams,
    ) -> Result<Step<ChunkHead>, FrameError> {
        match std::mem::replace(self, Self::Spent) {
            Self::Start(place) => {
                let tables = place.nblocks.saturating_mul(4).saturating_add(EXTENDED_HEADER_LEN as u64);
                let asked = if place.guess <= SMALL { place.guess } else { tables.clamp(HEAD, place.guess) };
                let need = place.at_most(asked);
                *self = Self::Asked(place, asked);
                Ok(Step::Need(vec![need]))
            }
            Self::Asked(place, asked) => {
                let bytes = parts.into_iter().next().unwrap_or_default();
                let available = place.available(asked, bytes.len());
                let header = place.header(&bytes, available)?;
                let parsed = LazyChunk::parse(&bytes, available, dparams);
                let more = match parsed.map_err(FrameError::chunk(place.structure()))? {
                    // Lengths stand in front of the blocks.
                    LazyHead::Ready(lazy) if lazy.header().is_vl() && bytes.len() < header.cbytes() => {
                        header.cbytes()
                    }
                    LazyHead::Ready(lazy) => return Ok(Step::Done(ChunkHead { place, lazy, bytes })),
                    LazyHead::Need(len) if len > bytes.len() => len,
                    LazyHead::Need(_) | LazyHead::Whole => header.cbytes(),
                };
                let need = place.within_limit(more)?;
                *self = Self::Asked(place, more as u64);
                Ok(Step::Need(vec![need]))
            }
            Self::Spent => Err(spent()),
        }
    }
}
