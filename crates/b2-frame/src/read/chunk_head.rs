//! The head of a stored chunk, from which the places of its blocks follow: header, block starts and
//! dictionary.

use std::ops::Range;
use std::sync::Arc;

use b2_chunk::{ChunkError, DParams, LazyChunk};
use b2_core::memory;
use bytes::Bytes;

use crate::format::runs::Runs;
use crate::names::FrameFile;
use crate::read::locate::ChunkLocation;
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
    fn found(&self, span: &Range<usize>) -> Option<(&Bytes, Range<usize>)> {
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
        match (self.found(span), &self.0.place) {
            (None, Some(place)) => {
                let at = |n: usize| place.start.saturating_add(n as u64);
                at(span.start)..at(span.end)
            }
            _ => 0..0,
        }
    }

    /// Returns the stored bytes of a block, and compares its run first if that is due. `read` are the
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
        let (bytes, start) = match self.found(span) {
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
    /// its run if that is due.
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
