//! Operations on whole chunks.

use b2_chunk::{Chunk, SpecialKind};

use crate::edit::FrameEditor;
use crate::edit::state::{Sizes, check_nbytes, room_for};
use crate::index::Entry;
use crate::{FrameError, Structure};

impl FrameEditor {
    /// Appends a chunk, and returns its position. A short last chunk is not filled up: chunks then have
    /// individual sizes, for good.
    ///
    /// The chunk is stored as it is unless C-Blosc2 could not read it in this frame; then it is compressed
    /// anew, with default parameters.
    ///
    /// # Errors
    /// When the frame has variable-length blocks and the chunk has not (or the other way round), it cannot be
    /// written, or decoded where it must be compressed anew.
    pub fn append(&mut self, chunk: Chunk) -> Result<usize, FrameError> {
        self.settle()?;
        let nchunk = self.nchunks();
        self.insert(nchunk, chunk)?;
        Ok(nchunk)
    }

    /// Puts a chunk in before chunk `nchunk`; at the end if `nchunk` is the number of chunks. A chunk of
    /// another size than the others gives the frame chunks of individual sizes, for good.
    ///
    /// # Errors
    /// As [`append`](Self::append), and when `nchunk` is above the number of chunks.
    pub fn insert(&mut self, nchunk: usize, chunk: Chunk) -> Result<(), FrameError> {
        if nchunk > self.nchunks() {
            return Err(self.no_chunk(nchunk));
        }
        room_for(self.nchunks() + 1)?;
        self.check_vl_blocks(&chunk, None)?;
        self.settle()?;
        let (vl, nbytes) = (chunk.header().is_vl(), chunk.nbytes());
        let equal = self.staged.equal_with(nchunk, nbytes);
        if !equal {
            self.make_individual()?;
        }
        let raw = self.put(nchunk, chunk, !equal)?;
        self.tail = None;
        if self.nchunks() == 0 {
            self.staged.vl_blocks = vl;
        }
        self.staged.insert(nchunk, raw, nbytes);
        Ok(())
    }

    /// Puts another chunk in the place of chunk `nchunk`. One of another size gives the frame chunks of
    /// individual sizes, for good, unless it is the last one and not larger.
    ///
    /// # Errors
    /// As [`append`](Self::append), and when there is no such chunk.
    pub fn update(&mut self, nchunk: usize, chunk: Chunk) -> Result<(), FrameError> {
        if nchunk >= self.nchunks() {
            return Err(self.no_chunk(nchunk));
        }
        self.check_vl_blocks(&chunk, Some(nchunk))?;
        self.settle()?;
        let (vl, nbytes) = (chunk.header().is_vl(), chunk.nbytes());
        let equal = self.staged.equal_after(nchunk, nbytes);
        if !equal {
            self.make_individual()?;
        }
        let raw = self.put(nchunk, chunk, !equal)?;
        self.tail = None;
        if self.nchunks() == 1 {
            self.staged.vl_blocks = vl;
        }
        self.staged.replace(nchunk, raw, nbytes);
        Ok(())
    }

    /// Removes chunk `nchunk`.
    ///
    /// # Errors
    /// When there is no such chunk, or a last chunk in the making cannot be written.
    pub fn delete(&mut self, nchunk: usize) -> Result<(), FrameError> {
        if nchunk >= self.nchunks() {
            return Err(self.no_chunk(nchunk));
        }
        self.settle()?;
        self.tail = None;
        self.staged.remove(nchunk);
        Ok(())
    }

    /// Puts the chunks in another order: chunk `n` is what chunk `order[n]` was. Moving a short last chunk
    /// gives the frame chunks of individual sizes, for good.
    ///
    /// # Errors
    /// When `order` does not have each chunk once, or something cannot be written.
    pub fn reorder(&mut self, order: &[usize]) -> Result<(), FrameError> {
        let n = self.nchunks();
        let mut seen = vec![false; n];
        let each_once = order
            .iter()
            .all(|nchunk| seen.get_mut(*nchunk).is_some_and(|seen| !std::mem::replace(seen, true)));
        if order.len() != n || !each_once {
            return Err(FrameError::argument("order", format!("not each of {n} chunks once")));
        }
        self.settle()?;
        self.tail = None;
        let short_last = matches!(self.staged.sizes, Sizes::Equal { chunksize, last } if chunksize != last);
        if short_last && order.last() != n.checked_sub(1).as_ref() {
            self.make_individual()?;
        }
        self.staged.reorder(order);
        Ok(())
    }

    /// Compresses `plain` with [`cparams`](Self::cparams) and puts it in before chunk `nchunk`.
    ///
    /// # Errors
    /// As [`insert`](Self::insert), and when it cannot be compressed.
    pub fn insert_bytes(&mut self, nchunk: usize, plain: &[u8]) -> Result<(), FrameError> {
        let chunk = self.compress(nchunk, plain)?;
        self.insert(nchunk, chunk)
    }

    /// Compresses `plain` with [`cparams`](Self::cparams) and puts it in the place of chunk `nchunk`.
    ///
    /// # Errors
    /// As [`update`](Self::update), and when it cannot be compressed.
    pub fn update_bytes(&mut self, nchunk: usize, plain: &[u8]) -> Result<(), FrameError> {
        let chunk = self.compress(nchunk, plain)?;
        self.update(nchunk, chunk)
    }

    /// Appends a chunk of variable-length blocks, compressed with [`cparams`](Self::cparams).
    ///
    /// # Errors
    /// As [`append`](Self::append), and when the blocks cannot be compressed.
    pub fn append_blocks(&mut self, blocks: &[&[u8]]) -> Result<usize, FrameError> {
        let nchunk = self.nchunks();
        let chunk = Chunk::compress_vl(blocks, &self.cparams()?);
        self.append(chunk.map_err(FrameError::chunk(Structure::Chunk(nchunk)))?)
    }

    /// Compresses the plain bytes of a chunk.
    pub(super) fn compress(&self, nchunk: usize, plain: &[u8]) -> Result<Chunk, FrameError> {
        check_nbytes(plain.len())?;
        Chunk::compress(plain, &self.cparams()?).map_err(FrameError::chunk(Structure::Chunk(nchunk)))
    }

    /// Chunks with and without variable-length blocks cannot be mixed. `replaced`: the chunk that goes.
    fn check_vl_blocks(&self, chunk: &Chunk, replaced: Option<usize>) -> Result<(), FrameError> {
        let others = self.nchunks() - usize::from(replaced.is_some());
        if others > 0 && self.staged.vl_blocks != chunk.header().is_vl() {
            let what = "chunks with and without variable-length blocks cannot be mixed";
            return Err(FrameError::argument("chunk", what));
        }
        Ok(())
    }

    /// Prepares for chunks of individual sizes: where those are, an index entry cannot tell the size of a
    /// special chunk, so each is stored. The content stays the same.
    pub(super) fn make_individual(&mut self) -> Result<(), FrameError> {
        let mut stored = Vec::new();
        for nchunk in 0..self.nchunks() {
            let raw = self.staged.entries.get(nchunk).copied().unwrap_or_default();
            if let Some(Entry::Special(kind)) = Entry::from_raw(raw) {
                let nbytes = self.chunk_nbytes(nchunk)?;
                let kind = if kind == SpecialKind::NaN && !self.fit.nan_fits(nbytes) {
                    let expected = "NaN in whole items of 4 or 8 bytes";
                    let at = nchunk as u64 * 8;
                    return Err(FrameError::field(Structure::Index, "entry", at, raw, expected));
                } else {
                    kind
                };
                stored.push((nchunk, self.put_special(nchunk, kind, nbytes)?, nbytes));
            }
        }
        for (nchunk, raw, nbytes) in stored {
            self.staged.replace(nchunk, raw, nbytes);
        }
        self.staged.make_individual();
        Ok(())
    }
}
