//! The location of a stored chunk, and its head, from which the locations of its blocks follow: header, block starts
//! and dictionary.

use std::ops::Range;
use std::sync::Arc;

use b2_chunk::{
    Chunk, ChunkError, ChunkHeader, DParams, EXTENDED_HEADER_LEN, LazyChunk, MIN_HEADER_LEN, SpecialKind,
};
use b2_core::memory;
use bytes::Bytes;

use crate::error::{max_chunk_nbytes, within};
use crate::format::header::Storage;
use crate::format::index::Entry;
use crate::format::runs::Runs;
use crate::names::FrameFile;
use crate::read::open_plan::OpenedFrame;
use crate::storage::files::Extent;
use crate::{FrameError, Structure};

/// The head of a chunk (header, block starts, dictionary) with everything that was read along with
/// it. Returned by [`ChunkPlan`](crate::read::chunk_plan::ChunkPlan).
#[derive(Clone, Debug)]
pub(crate) struct ChunkHead(pub(super) Box<HeadContent>);

/// The content of a head, boxed because heads are moved often.
#[derive(Clone, Debug)]
pub(super) struct HeadContent {
    pub(super) nchunk: usize,
    /// `None` for special chunks, which are not stored.
    pub(super) place: Option<ChunkLocation>,
    pub(super) lazy: LazyChunk,
    /// Everything that was read, from the start of the chunk.
    pub(super) bytes: Bytes,
    /// Bytes read ahead, with their offsets in the chunk, in ascending order.
    pub(super) ahead: Vec<(usize, Bytes)>,
    /// The runs of the chunk, if they are compared when their blocks are taken.
    pub(super) runs: Option<Arc<Runs>>,
}

impl ChunkHead {
    /// Returns the chunk's header and tables.
    pub(crate) fn chunk(&self) -> &LazyChunk {
        &self.0.lazy
    }

    /// Returns whether the chunk is stored. A special chunk is not.
    pub(crate) fn is_stored(&self) -> bool {
        self.0.place.is_some()
    }

    /// Returns the file that holds the chunk.
    pub(crate) fn file(&self) -> FrameFile {
        self.0.place.as_ref().map_or(FrameFile::Main, |place| place.file)
    }

    pub(crate) fn into_chunk(self) -> LazyChunk {
        self.0.lazy
    }

    /// Returns the chunk's name in errors.
    pub(crate) fn structure(&self) -> Structure {
        self.0.place.as_ref().map_or(Structure::Index, ChunkLocation::structure)
    }

    /// Returns the part of the chunk that must be available to take a block: the block, or its run if that has to be
    /// compared first.
    pub(crate) fn span(&self, nblock: usize) -> Range<usize> {
        let block = self.0.lazy.block_extent(nblock);
        match self.pending(&block) {
            Some((_, run)) => run,
            None => block,
        }
    }

    /// Returns the run that has to be compared before a block is decoded, and its number.
    fn pending(&self, block: &Range<usize>) -> Option<(usize, Range<usize>)> {
        let runs = self.0.runs.as_ref().filter(|_| !block.is_empty())?;
        runs.pending(block.start)
    }

    /// Returns the bytes read with the head that contain a part of the chunk, and the part's range in them.
    fn read_ahead(&self, span: &Range<usize>) -> Option<(&Bytes, Range<usize>)> {
        if self.0.bytes.get(span.clone()).is_some() {
            return Some((&self.0.bytes, span.clone()));
        }
        let after = self.0.ahead.partition_point(|(start, _)| *start <= span.start);
        let (start, ahead) = self.0.ahead.get(after.checked_sub(1)?)?;
        let range = span.start.checked_sub(*start)?..span.end.checked_sub(*start)?;
        ahead.get(range.clone()).is_some().then_some((ahead, range))
    }

    /// Returns the range of a part of the chunk in the file, which is empty if it came with the head.
    pub(crate) fn to_read(&self, span: &Range<usize>) -> Range<u64> {
        match (self.read_ahead(span), &self.0.place) {
            (None, Some(place)) => {
                let at = |n: usize| place.start.saturating_add(n as u64);
                at(span.start)..at(span.end)
            }
            _ => 0..0,
        }
    }

    /// Returns the stored bytes of a block, and compares its run first if that has not been done. `read` are the
    /// bytes of `extent`; they are not needed for what came with the head.
    ///
    /// # Errors
    /// When the stored bytes do not match their checksum.
    pub(crate) fn stored<'b>(
        &'b self,
        nblock: usize,
        extent: Option<&Extent>,
        read: &'b [u8],
    ) -> Result<&'b [u8], FrameError> {
        let block = self.0.lazy.block_extent(nblock);
        let pending = self.pending(&block);
        let span = pending.as_ref().map_or(&block, |(_, run)| run);
        let (bytes, start) = match self.read_ahead(span) {
            Some((bytes, range)) => (bytes.get(range).unwrap_or_default(), span.start),
            None => {
                let start = self.0.place.as_ref().map_or(0, |place| place.start);
                let base = extent.and_then(|extent| extent.range.start.checked_sub(start));
                (read, base.and_then(|base| usize::try_from(base).ok()).unwrap_or(usize::MAX))
            }
        };
        self.take(block, pending, bytes, start)
    }

    /// Returns the stored bytes of a block from bytes of the chunk that begin at `start`, after comparing
    /// its run if that has not been done.
    pub(crate) fn take<'b>(
        &self,
        block: Range<usize>,
        pending: Option<(usize, Range<usize>)>,
        bytes: &'b [u8],
        start: usize,
    ) -> Result<&'b [u8], FrameError> {
        let part = |range: &Range<usize>| {
            let range = range.start.checked_sub(start)?..range.end.checked_sub(start)?;
            bytes.get(range)
        };
        if let (Some((number, run)), Some(runs)) = (pending, &self.0.runs) {
            let fits = run.start <= block.start && block.end <= run.end;
            let compared = part(&run).filter(|_| fits).map(|bytes| runs.compare(number, bytes));
            if compared != Some(Ok(())) {
                return Err(self.damaged(&run));
            }
        }
        Ok(part(&block).unwrap_or_default())
    }

    /// Returns the error for a run that does not match its checksum.
    fn damaged(&self, run: &Range<usize>) -> FrameError {
        let lazy = &self.0.lazy;
        let in_run = |nblock: &usize| run.contains(&lazy.block_extent(*nblock).start);
        let nchunk = self.0.nchunk;
        let structure = match (0..lazy.nblocks()).find(in_run) {
            Some(first) => {
                let last = (first..lazy.nblocks()).rev().find(in_run).unwrap_or(first);
                Structure::Blocks { nchunk, first, last }
            }
            None => Structure::Chunk(nchunk),
        };
        FrameError::Checksum { structure, what: "the bytes do not match the checksum" }
    }

    /// Decodes block 0 from its stored bytes if other blocks refer to it (delta filter), as
    /// [`BlockDecoder::decode`](b2_chunk::BlockDecoder::decode) needs it.
    ///
    /// # Errors
    /// When the block does not decode.
    pub(crate) fn decode_block0(
        &self,
        stored: &[u8],
        dparams: &DParams,
    ) -> Result<Option<Vec<u8>>, FrameError> {
        if !self.0.lazy.needs_block0() {
            return Ok(None);
        }
        block0(&self.0.lazy, stored, dparams).map(Some).map_err(FrameError::chunk(self.structure()))
    }
}

pub(crate) fn block0(lazy: &LazyChunk, stored: &[u8], dparams: &DParams) -> Result<Vec<u8>, ChunkError> {
    let mut block = memory::zeroed(lazy.block_range(0).len())?;
    lazy.decoder(dparams)?.decode_reference(0, stored, None, &mut block)?;
    Ok(block)
}

/// Length of the first read of a chunk file if the frame does not define the chunk's size, in
/// bytes.
const UNKNOWN_SIZE: u64 = 1 << 20;

/// The location of a stored chunk, and its properties that follow from the frame.
#[derive(Clone, Debug)]
pub(crate) struct ChunkLocation {
    pub(crate) nchunk: usize,
    pub(crate) file: FrameFile,
    /// Offset of the chunk in the file.
    pub(crate) start: u64,
    /// End of the space that the chunk may occupy in the file.
    pub(crate) end: u64,
    /// Estimated stored size, which may be too small or too large.
    pub(crate) guess: u64,
    /// Uncompressed size, if the frame defines it.
    pub(crate) nbytes: Option<u64>,
    /// Estimated number of blocks, or 0 if the frame does not define it.
    pub(crate) nblocks: u64,
    /// Largest stored size that the memory limit allows.
    pub(crate) most: u64,
}

impl ChunkLocation {
    pub(crate) fn structure(&self) -> Structure {
        Structure::StoredChunk { nchunk: self.nchunk, file: self.file, start: self.start }
    }

    pub(crate) fn room(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    pub(crate) fn at_most(&self, len: u64) -> Extent {
        Extent::at_most(self.file, self.start..self.start.saturating_add(len.min(self.room())))
    }

    /// Returns the extent of a range of the chunk, clipped to the space of the chunk.
    pub(crate) fn part(&self, range: &Range<u64>) -> Extent {
        let at = |offset: u64| self.start.saturating_add(offset.min(self.room()));
        Extent::at_most(self.file, at(range.start)..at(range.end))
    }

    pub(crate) fn exactly(&self, len: usize) -> Extent {
        Extent::exactly(self.file, self.start..self.start.saturating_add(len as u64))
    }

    /// Returns the length of the first read for a whole chunk: its estimated size, unless that
    /// exceeds the limit.
    pub(crate) fn first(&self) -> u64 {
        self.guess.min(self.most.max(EXTENDED_HEADER_LEN as u64))
    }

    /// Returns the extent of the first `len` bytes of the chunk.
    ///
    /// # Errors
    /// When `len` exceeds the memory limit.
    pub(crate) fn within_limit(&self, len: usize) -> Result<Extent, FrameError> {
        within("stored chunk, in bytes", len as u64, ("max_memory", self.most))?;
        Ok(self.exactly(len))
    }

    /// Returns the number of bytes from the start of the chunk to where it must end, after a read
    /// of `asked` bytes returned `got`.
    pub(crate) fn available(&self, asked: u64, got: usize) -> u64 {
        if (got as u64) < asked.min(self.room()) { got as u64 } else { self.room() }
    }

    pub(crate) fn header(&self, head: &[u8], available: u64) -> Result<ChunkHeader, FrameError> {
        let header = ChunkHeader::parse(head).map_err(FrameError::chunk(self.structure()))?;
        self.check(&header, available)?;
        Ok(header)
    }

    /// Compares the chunk header with the frame's information about the chunk.
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

impl OpenedFrame {
    /// Returns the number of chunks.
    pub(crate) fn nchunks(&self) -> usize {
        self.index.len()
    }

    /// Returns the uncompressed size of chunk `nchunk` in bytes, if the header defines it: not in
    /// frames with individual chunk sizes.
    pub(crate) fn expected_nbytes(&self, nchunk: usize) -> Option<u64> {
        let chunksize = self.header.chunksize() as u64;
        if chunksize == 0 || nchunk >= self.nchunks() {
            return None;
        }
        let rest = self.header.nbytes.checked_rem(chunksize).unwrap_or(0);
        let last = nchunk.checked_add(1) == Some(self.nchunks());
        Some(if last && rest != 0 { rest } else { chunksize })
    }

    pub(crate) fn place(
        &self,
        nchunk: usize,
        offset: u64,
        dparams: &DParams,
    ) -> Result<ChunkLocation, FrameError> {
        let nbytes = self.expected_nbytes(nchunk);
        within("uncompressed chunk, in bytes", nbytes.unwrap_or(0), max_chunk_nbytes(dparams))?;
        // No chunk is longer than its uncompressed form. A wrong guess costs a second read.
        let longest = nbytes.map(|n| n.saturating_add(EXTENDED_HEADER_LEN as u64));
        let (file, start, end, guess) = match self.header.storage {
            Storage::Contiguous => {
                let data = &self.layout.data;
                let len = data.end.saturating_sub(data.start);
                if offset > len.saturating_sub(MIN_HEADER_LEN as u64) {
                    let expected = "an offset inside the chunk data";
                    return Err(FrameError::entry(nchunk, offset, expected));
                }
                let next = self.index.next_offset(offset)?.unwrap_or(len).min(len);
                let guess = next.saturating_sub(offset).min(longest.unwrap_or(u64::MAX));
                (FrameFile::Main, data.start.saturating_add(offset), data.end, guess)
            }
            Storage::Sparse => {
                let Ok(id) = u32::try_from(offset) else {
                    let expected = "a file number of at most 32 bits";
                    return Err(FrameError::entry(nchunk, offset, expected));
                };
                (FrameFile::Chunk(id), 0, u64::MAX, longest.unwrap_or(UNKNOWN_SIZE))
            }
        };
        let nblocks = match (nbytes, self.header.blocksize() as u64) {
            (Some(nbytes), blocksize) if blocksize > 0 => nbytes.div_ceil(blocksize),
            _ => 0,
        };
        let guess = guess.max(EXTENDED_HEADER_LEN as u64);
        let most = dparams.limits.max_memory;
        Ok(ChunkLocation { nchunk, file, start, end, guess, nbytes, nblocks, most })
    }

    /// Creates the chunk of a special entry.
    pub(crate) fn special_chunk(
        &self,
        nchunk: usize,
        kind: SpecialKind,
        dparams: &DParams,
    ) -> Result<Chunk, FrameError> {
        let nbytes = self.special_nbytes(nchunk)?;
        within("uncompressed chunk, in bytes", nbytes, max_chunk_nbytes(dparams))?;
        let typesize = self.header.itemsize();
        let nbytes = usize::try_from(nbytes).unwrap_or(usize::MAX);
        // An uninitialised chunk must have whole items, so others become zeros, which read the
        // same.
        let kind = match kind {
            SpecialKind::Uninit if !nbytes.is_multiple_of(typesize) => SpecialKind::Zeros,
            kind => kind,
        };
        Chunk::special(kind, &[], nbytes, typesize, self.header.blocksize().min(nbytes))
            .map(|chunk| chunk.with_nchunk(Some(nchunk)))
            .map_err(FrameError::chunk(Structure::Chunk(nchunk)))
    }

    fn special_nbytes(&self, nchunk: usize) -> Result<u64, FrameError> {
        self.expected_nbytes(nchunk).ok_or_else(|| self.unknown_size(nchunk))
    }

    /// Returns the error for a special chunk in a frame with individual chunk sizes, where nothing
    /// defines its size.
    pub(crate) fn unknown_size(&self, nchunk: usize) -> FrameError {
        let raw = self.index.entry(nchunk).map_or(0, Entry::to_raw);
        let expected = "no special value in a frame whose chunks have individual sizes";
        FrameError::entry(nchunk, raw, expected)
    }
}
