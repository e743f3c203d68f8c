//! One chunk of a frame: its properties, and reading it as a whole.

use std::ops::Range;

use b2_chunk::{Chunk, ChunkError, ChunkHeader, LazyChunk};
use bytes::Bytes;

use crate::format::index::Entry;
use crate::read::chunk_head::ChunkHead;
use crate::read::chunk_plan::ChunkPlan;
use crate::read::plan::{Plan, Step, ended};
use crate::read::super_chunk::BoundPlan;
use crate::read::whole_chunk_plan::{CompareMode, WholeChunkPlan};
use crate::{FrameError, SuperChunk};

/// A chunk of a frame, which need not exist. Returned by [`SuperChunk::chunk`]; nothing is read before it is needed.
#[derive(Clone, Copy, Debug)]
pub struct ChunkRef<'a> {
    pub(crate) frame: &'a SuperChunk,
    pub(crate) nchunk: usize,
}

impl SuperChunk {
    /// Returns chunk `nchunk`, whose facts and content are read on request. Its methods fail if it does not exist.
    pub fn chunk(&self, nchunk: usize) -> ChunkRef<'_> {
        ChunkRef { frame: self, nchunk }
    }
}

impl<'a> ChunkRef<'a> {
    /// Returns the index entry: whether the chunk is stored, or which special value it has.
    ///
    /// # Errors
    /// [`FrameError::OutOfRange`] if the chunk does not exist, [`FrameError::Field`] if its entry is malformed.
    pub fn entry(self) -> Result<Entry, FrameError> {
        self.frame.entry(self.nchunk).map_err(|error| self.frame.add_name(error))
    }

    /// Returns the entry, and the range of chunks from this one on that have the same. Stored chunks with the same
    /// entry share their bytes.
    ///
    /// # Errors
    /// As for [`entry`](Self::entry).
    pub fn run(self) -> Result<(Entry, Range<usize>), FrameError> {
        self.frame.index().run(self.nchunk).map_err(|error| self.frame.add_name(error))
    }

    /// Returns the uncompressed size in bytes. If chunks have individual sizes, this reads the chunk header.
    ///
    /// # Errors
    /// As for [`entry`](Self::entry), and as for [`read`](Self::read) where the header is needed.
    pub fn nbytes(self) -> Result<u64, FrameError> {
        self.frame.chunk_nbytes(self.nchunk).map_err(|error| self.frame.add_name(error))
    }

    /// Reads the header; `None` if the chunk is not stored.
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    pub fn header(self) -> Result<Option<ChunkHeader>, FrameError> {
        match self.entry()? {
            Entry::Special(_) => Ok(None),
            Entry::Stored(_) => {
                let headers = self.frame.headers(&[self.nchunk]).map(|mut headers| headers.pop());
                headers.map_err(|error| self.frame.add_name(error))
            }
        }
    }

    /// Reads the head: header, block starts and dictionary.
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    pub fn head(self) -> Result<LazyChunk, FrameError> {
        self.run_plan(ChunkPlan::new(self.frame, self.nchunk).map(|plan| BoundPlan(self.frame, plan)))
            .map(ChunkHead::into_chunk)
    }

    /// Reads the chunk without decoding it; special chunks are created from their entry. The chunk is compared with its
    /// checksum, if it has one, unless [`Compare::Never`](crate::Compare::Never) is set.
    ///
    /// # Errors
    /// [`FrameError::OutOfRange`] if the chunk does not exist, [`FrameError::Io`] if it cannot be read,
    /// [`FrameError::Changed`] if the frame was changed since it was opened. As [`detail`](FrameError::detail):
    /// [`Checksum`](FrameError::Checksum), [`Truncated`](FrameError::Truncated) and [`Chunk`](FrameError::Chunk) if it is
    /// damaged, [`Field`](FrameError::Field) if it contradicts the frame, [`Limit`](FrameError::Limit).
    pub fn read(self) -> Result<Chunk, FrameError> {
        self.run_plan(self.plan())
    }

    /// Decompresses the chunk. Its blocks are decoded in parallel according to the [`Control`](b2_core::Control) of the
    /// frame.
    ///
    /// # Errors
    /// As for [`read`](Self::read); [`FrameError::Chunk`] if the chunk does not decode, [`FrameError::Cancelled`] if
    /// the progress callback requests it.
    pub fn decompress(self) -> Result<Vec<u8>, FrameError> {
        self.run_plan(self.plan_decoding(|chunk| chunk.decompress_bytes_with(&self.frame.dparams)))
    }

    /// Decompresses the chunk into `dst`, which must have exactly its size.
    ///
    /// # Errors
    /// As for [`decompress`](Self::decompress); [`FrameError::Chunk`] (as [`detail`](FrameError::detail)) of the kind
    /// [`Argument`](b2_core::ErrorKind::Argument) when `dst` has another length.
    pub fn decompress_into(self, dst: &mut [u8]) -> Result<(), FrameError> {
        self.run_plan(self.plan_decoding(|chunk| chunk.decompress_bytes_into(dst, &self.frame.dparams)))
    }

    /// Decompresses all blocks one by one: the values of a frame with variable-length blocks.
    ///
    /// # Errors
    /// As for [`decompress`](Self::decompress).
    pub fn all_blocks(self) -> Result<Vec<Vec<u8>>, FrameError> {
        self.run_plan(self.plan_decoding(|chunk| chunk.blocks(&self.frame.dparams)))
    }

    fn run_plan<P: Plan>(self, plan: Result<P, FrameError>) -> Result<P::Output, FrameError> {
        plan.and_then(|plan| self.frame.driver().run(plan)).map_err(|error| self.frame.explain(error))
    }

    /// Returns a plan that reads the chunk and compares it with its checksum like [`read`](Self::read).
    ///
    /// # Errors
    /// When the chunk does not exist, its entry is malformed, or it exceeds a limit.
    #[doc(hidden)]
    pub fn plan(self) -> Result<impl Plan<Output = Chunk> + use<'a>, FrameError> {
        Ok(BoundPlan(self.frame, WholeChunkPlan::new(self.frame, self.nchunk, CompareMode::Always)?))
    }

    /// Returns a plan that reads the chunk, verifies it according to [`Compare`](crate::Compare), and decodes it.
    ///
    /// # Errors
    /// As for [`plan`](Self::plan).
    #[doc(hidden)]
    pub fn plan_decoding<T, D: FnOnce(&Chunk) -> Result<T, ChunkError>>(
        self,
        decode: D,
    ) -> Result<impl Plan<Output = T> + use<'a, T, D>, FrameError> {
        let plan = WholeChunkPlan::new(self.frame, self.nchunk, CompareMode::Decoded)?;
        Ok(DecodePlan { chunk: self, plan: BoundPlan(self.frame, plan), decode: Some(decode) })
    }
}

/// A plan that reads a chunk and decodes it.
struct DecodePlan<'a, D> {
    chunk: ChunkRef<'a>,
    plan: BoundPlan<'a, WholeChunkPlan>,
    /// `None` after the plan has ended.
    decode: Option<D>,
}

impl<T, D: FnOnce(&Chunk) -> Result<T, ChunkError>> Plan for DecodePlan<'_, D> {
    type Output = T;

    fn step(&mut self, parts: Vec<Bytes>) -> Result<Step<T>, FrameError> {
        match self.plan.step(parts)? {
            Step::Need(need) => Ok(Step::Need(need)),
            Step::Done(chunk) => {
                let decode = self.decode.take().ok_or_else(ended)?;
                let decoded = decode(&chunk).map_err(self.chunk.frame.chunk_error(self.chunk.nchunk));
                decoded.map(Step::Done)
            }
        }
    }
}
