//! Chunks that are stored before anything refers to them, so that many threads can prepare changes
//! that then become effective at once.

use std::sync::Arc;

use b2_chunk::Chunk;

use crate::FrameError;
use crate::format::index::Entry;
use crate::write::edit::FrameEditor;

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
