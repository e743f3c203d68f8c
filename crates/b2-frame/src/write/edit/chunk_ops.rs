//! Operations on whole chunks. Prepared chunks are stored before anything refers to them, so that many threads can
//! prepare changes that then take effect together.

use std::sync::Arc;

use b2_chunk::{CParams, Chunk};
use b2_core::Control;

use crate::format::index::Entry;
use crate::write::edit::FrameEditor;
use crate::write::state::{Sizes, check_nbytes};
use crate::{FrameError, Structure};

impl FrameEditor {
    /// Appends a chunk and returns its position. A short last chunk is not filled up; the frame
    /// then has individual chunk sizes permanently.
    ///
    /// The chunk is stored unchanged unless C-Blosc2 could not read it in this frame. In that case
    /// it is recompressed with default parameters.
    ///
    /// # Errors
    /// [`FrameError::Argument`] when only one of the frame and the chunk has variable-length blocks, or there are too
    /// many chunks; [`FrameError::Chunk`] when the chunk must be recompressed and cannot be decoded, or when a buffered
    /// last chunk cannot be compressed; [`FrameError::Io`] when the chunk cannot be written; [`FrameError::Abandoned`]
    /// after a sync that failed; [`FrameError::Cancelled`], [`FrameError::OutOfMemory`].
    pub fn append(&mut self, chunk: Chunk) -> Result<usize, FrameError> {
        self.flush_tail()?;
        let nchunk = self.nchunks();
        self.insert(nchunk, chunk)?;
        Ok(nchunk)
    }

    /// Inserts a chunk before chunk `nchunk`, or at the end if `nchunk` is the number of chunks. A
    /// chunk of another size gives the frame individual chunk sizes permanently.
    ///
    /// # Errors
    /// [`FrameError::OutOfRange`] when `nchunk` is greater than the number of chunks, otherwise as for
    /// [`append`](Self::append).
    pub fn insert(&mut self, nchunk: usize, chunk: Chunk) -> Result<(), FrameError> {
        if nchunk > self.nchunks() {
            return Err(self.no_chunk(nchunk));
        }
        self.draft.check_chunk(self.nchunks(), chunk.header().is_vl())?;
        self.flush_tail()?;
        let chunk = self.draft.fit(nchunk, chunk)?;
        self.draft.insert(nchunk, chunk)?;
        self.tail = None;
        Ok(())
    }

    /// Replaces chunk `nchunk`. A chunk of another size gives the frame individual chunk sizes
    /// permanently, unless it is the last one and not larger than the others.
    ///
    /// # Errors
    /// [`FrameError::OutOfRange`] when chunk `nchunk` does not exist, otherwise as for [`append`](Self::append).
    pub fn update(&mut self, nchunk: usize, chunk: Chunk) -> Result<(), FrameError> {
        if nchunk >= self.nchunks() {
            return Err(self.no_chunk(nchunk));
        }
        self.draft.check_chunk(self.nchunks() - 1, chunk.header().is_vl())?;
        self.flush_tail()?;
        let chunk = self.draft.fit(nchunk, chunk)?;
        self.draft.replace(nchunk, chunk)?;
        self.tail = None;
        self.collect_garbage();
        Ok(())
    }

    /// Removes chunk `nchunk`.
    ///
    /// # Errors
    /// [`FrameError::OutOfRange`] when the chunk does not exist; [`FrameError::Chunk`], [`FrameError::Io`] or
    /// [`FrameError::Abandoned`] when a buffered last chunk cannot be compressed or written.
    pub fn delete(&mut self, nchunk: usize) -> Result<(), FrameError> {
        if nchunk >= self.nchunks() {
            return Err(self.no_chunk(nchunk));
        }
        self.flush_tail()?;
        self.tail = None;
        self.draft.state.remove(nchunk);
        Ok(())
    }

    /// Reorders the chunks: chunk `n` becomes the old chunk `order[n]`. Moving a short last chunk
    /// gives the frame individual chunk sizes permanently.
    ///
    /// # Errors
    /// [`FrameError::Argument`] when `order` is not a permutation of all chunks; [`FrameError::Chunk`],
    /// [`FrameError::Io`] or [`FrameError::Abandoned`] when a buffered last chunk, or a special one that must be stored
    /// now, cannot be made or written.
    pub fn reorder(&mut self, order: &[usize]) -> Result<(), FrameError> {
        let n = self.nchunks();
        let mut seen = vec![false; n];
        let each_once = order
            .iter()
            .all(|nchunk| seen.get_mut(*nchunk).is_some_and(|seen| !std::mem::replace(seen, true)));
        if order.len() != n || !each_once {
            return Err(FrameError::argument("order", format!("is not a permutation of {n} chunks")));
        }
        self.flush_tail()?;
        self.tail = None;
        let short_last =
            matches!(self.draft.state.sizes, Sizes::Equal { chunksize, last } if chunksize != last);
        if short_last && order.last() != n.checked_sub(1).as_ref() {
            self.draft.make_individual()?;
        }
        self.draft.state.reorder(order);
        Ok(())
    }

    /// Compresses `plain` with [`cparams`](Self::cparams) and inserts it before chunk `nchunk`.
    ///
    /// # Errors
    /// [`FrameError::Chunk`] when the bytes cannot be compressed, or not with the settings of the frame header;
    /// [`FrameError::Argument`] when they are more than a chunk can have; otherwise as for [`insert`](Self::insert).
    pub fn insert_bytes(&mut self, nchunk: usize, plain: &[u8]) -> Result<(), FrameError> {
        let chunk = self.compress_one(nchunk, plain)?;
        self.insert(nchunk, chunk)
    }

    /// Compresses `plain` with [`cparams`](Self::cparams) and replaces chunk `nchunk` by it.
    ///
    /// # Errors
    /// [`FrameError::Chunk`] when the bytes cannot be compressed, or not with the settings of the frame header;
    /// [`FrameError::Argument`] when they are more than a chunk can have; otherwise as for [`update`](Self::update).
    pub fn update_bytes(&mut self, nchunk: usize, plain: &[u8]) -> Result<(), FrameError> {
        let chunk = self.compress_one(nchunk, plain)?;
        self.update(nchunk, chunk)
    }

    /// Appends a chunk of variable-length blocks, compressed with [`cparams`](Self::cparams).
    ///
    /// # Errors
    /// [`FrameError::Chunk`] when the blocks cannot be compressed, or not with the settings of the frame header;
    /// otherwise as for [`append`](Self::append).
    pub fn append_blocks(&mut self, blocks: &[&[u8]]) -> Result<usize, FrameError> {
        let nchunk = self.nchunks();
        let nbytes = blocks.iter().map(|block| block.len() as u64).sum();
        self.during(nbytes, |editor, control| {
            let chunk = Chunk::compress_vl(blocks, &editor.cparams_of_call()?);
            let chunk = chunk.map_err(FrameError::chunk(Structure::Chunk(nchunk)))?;
            control.advance(nbytes)?;
            editor.append(chunk)
        })
    }

    /// Runs a call that handles `nbytes` uncompressed bytes and reports progress to the control
    /// that it receives. Operations that the call uses can be cancelled too, but do not count.
    pub(super) fn during<T>(
        &mut self,
        nbytes: u64,
        call: impl FnOnce(&mut Self, &Control) -> Result<T, FrameError>,
    ) -> Result<T, FrameError> {
        let control = self.draft.begin(nbytes);
        let callers = std::mem::replace(&mut self.draft.rules.dparams.control, control.quiet());
        let result = call(self, &control);
        self.draft.rules.dparams.control = callers;
        result
    }

    /// Returns the compression parameters for the chunks of a call.
    pub(super) fn cparams_of_call(&self) -> Result<CParams, FrameError> {
        Ok(self.cparams()?.with_control(self.control().clone()))
    }

    /// Compresses the only chunk of a call.
    fn compress_one(&mut self, nchunk: usize, plain: &[u8]) -> Result<Chunk, FrameError> {
        let nbytes = plain.len() as u64;
        self.during(nbytes, |editor, control| {
            let chunk = compress(nchunk, plain, &editor.cparams_of_call()?)?;
            control.advance(nbytes)?;
            Ok(chunk)
        })
    }
}

/// Compresses the plain bytes of a chunk.
pub(super) fn compress(nchunk: usize, plain: &[u8], cparams: &CParams) -> Result<Chunk, FrameError> {
    check_nbytes(plain.len())?;
    Chunk::compress_bytes(plain, &cparams.for_chunk(nchunk))
        .map_err(FrameError::chunk(Structure::Chunk(nchunk)))
}

/// A stored chunk that replaces another one when it is [installed](FrameEditor::install).
#[derive(Clone, Debug)]
pub struct PreparedChunk {
    nchunk: usize,
    nbytes: usize,
    raw: i64,
    epoch: Arc<()>,
}

impl PreparedChunk {
    /// Returns the number of the chunk that it replaces.
    pub fn nchunk(&self) -> usize {
        self.nchunk
    }
}

impl FrameEditor {
    /// Stores a chunk that will replace chunk `nchunk`, which has the same size. Nothing refers to
    /// it yet; if it is never installed, it takes space until the frame is compacted.
    ///
    /// # Errors
    /// When the chunk does not exist or has another size, or when the new one cannot be written.
    #[doc(hidden)]
    pub fn prepare(&mut self, nchunk: usize, chunk: Chunk) -> Result<PreparedChunk, FrameError> {
        self.flush_tail()?;
        let nbytes = chunk.nbytes();
        if self.chunk_nbytes(nchunk)? != nbytes {
            return Err(FrameError::argument("chunk", "a prepared chunk must have the size of the old one"));
        }
        self.draft.check_chunk(self.nchunks() - 1, chunk.header().is_vl())?;
        let raw = self.put(nchunk, chunk, self.draft.state.sizing())?;
        Ok(PreparedChunk { nchunk, nbytes, raw, epoch: self.epoch.clone() })
    }

    /// Replaces chunks by prepared ones: all of them or none.
    ///
    /// # Errors
    /// When there was a commit or a rollback since one of them was prepared.
    #[doc(hidden)]
    pub fn install(&mut self, prepared: &[PreparedChunk]) -> Result<(), FrameError> {
        self.flush_tail()?;
        let valid = |p: &PreparedChunk| {
            Arc::ptr_eq(&p.epoch, &self.epoch) && self.draft.state.chunk_nbytes(p.nchunk) == Some(p.nbytes)
        };
        if !prepared.iter().all(valid) {
            return Err(FrameError::argument("prepared", "the frame has been changed since"));
        }
        self.tail = None;
        for p in prepared {
            self.draft.state.replace(p.nchunk, p.raw, p.nbytes);
        }
        Ok(())
    }

    /// Returns the staged index entry of a chunk.
    #[doc(hidden)]
    pub fn entry(&self, nchunk: usize) -> Option<Entry> {
        Entry::from_raw(*self.draft.state.entries.get(nchunk)?)
    }
}
