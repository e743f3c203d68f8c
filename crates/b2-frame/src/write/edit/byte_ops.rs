//! Operations on bytes, independent of their division into chunks.

use std::ops::Range;

use b2_chunk::{Chunk, MAX_CHUNK_NBYTES, NAN4, NAN8, SpecialKind};
use b2_core::{Control, memory};

use crate::format::index::Entry;
use crate::write::draft::FittedChunk;
use crate::write::edit::chunk_ops::compress;
use crate::write::edit::{FrameEditor, Tail};
use crate::write::state::{Sizes, Sizing, check_nbytes, room_for};
use crate::{FrameError, Structure};

/// Chunk size if neither the frame nor a first chunk defines one, in bytes.
const CHUNKSIZE: usize = 1 << 20;

impl FrameEditor {
    /// Appends any number of bytes.
    ///
    /// A short last chunk is filled up first. Bytes that do not fill a chunk stay in memory until
    /// more are appended, so many small pieces cost no more than a few large ones. If chunks have
    /// individual sizes, each call makes new chunks.
    ///
    /// # Errors
    /// [`FrameError::Argument`] when the frame has variable-length blocks, or there would be too many chunks;
    /// [`FrameError::Chunk`] when the bytes cannot be compressed, or not as the frame header says; [`FrameError::Io`]
    /// when they cannot be written; as for [`ChunkRef::decompress`](crate::ChunkRef::decompress) when the last chunk
    /// cannot be read; [`FrameError::Cancelled`], [`FrameError::OutOfMemory`]; [`FrameError::Abandoned`] after a sync
    /// that failed. Nothing is appended then.
    pub fn append_bytes(&mut self, data: &[u8]) -> Result<(), FrameError> {
        self.no_vl_blocks()?;
        if data.is_empty() {
            return Ok(());
        }
        let (chunksize, last) = match self.draft.state.sizes {
            Sizes::Individual(_) => return self.append_individual(data),
            Sizes::Equal { chunksize, last } => (chunksize, last),
            Sizes::Open => {
                let chunksize = (CHUNKSIZE / self.draft.rules.typesize).max(1) * self.draft.rules.typesize;
                (chunksize, chunksize)
            }
        };
        check_nbytes(chunksize)?;
        if last < chunksize && self.nchunks() > 0 && self.tail.is_none() {
            let nchunk = self.nchunks() - 1;
            let plain = self.careful_snapshot()?.chunk(nchunk).decompress()?;
            self.tail = Some(Tail { plain, stored: true });
        }
        let begun = self.tail.as_ref().map_or(0, |tail| tail.plain.len());
        if begun + data.len() < chunksize {
            self.extend_tail(memory::copied(data)?, chunksize)?;
            return Ok(());
        }

        let nbytes = data.len() as u64;
        self.during(nbytes, |editor, control| editor.append_chunks(data, begun, chunksize, control))
    }

    /// Appends bytes that at least complete the last chunk, which already has `begun` bytes.
    fn append_chunks(
        &mut self,
        data: &[u8],
        begun: usize,
        chunksize: usize,
        control: &Control,
    ) -> Result<(), FrameError> {
        let cparams = self.cparams_of_call()?;
        let put = |editor: &mut Self, nchunk, plain: &[u8], new: usize| {
            let raw = editor.put(nchunk, compress(nchunk, plain, &cparams)?, Sizing::Equal)?;
            control.advance(new as u64)?;
            Ok::<_, FrameError>(raw)
        };
        // All chunks are stored before the state changes, so that an error leaves it unchanged.
        let first = self.nchunks() - usize::from(begun > 0);
        room_for(first + (begun + data.len()).div_ceil(chunksize))?;
        let (head, rest) = data.split_at(chunksize - begun);
        let mut raws = Vec::new();
        if let Some(tail) = &self.tail {
            let mut plain = memory::list(tail.plain.len() + head.len())?;
            plain.extend_from_slice(&tail.plain);
            plain.extend_from_slice(head);
            raws.push(put(self, first, &plain, head.len())?);
        } else {
            raws.push(put(self, first, head, head.len())?);
        }
        let mut parts = rest.chunks_exact(chunksize);
        for part in &mut parts {
            raws.push(put(self, first + raws.len(), part, part.len())?);
        }
        let rest = memory::copied(parts.remainder())?;
        if self.tail.take().is_some() {
            self.draft.state.remove(first);
        }
        self.begin_sizes(chunksize);
        for raw in raws {
            self.draft.state.insert(self.nchunks(), raw, chunksize);
        }
        if !rest.is_empty() {
            self.extend_tail(rest, chunksize)?;
        }
        Ok(())
    }

    /// Extends a last chunk that remains short.
    fn extend_tail(&mut self, data: Vec<u8>, chunksize: usize) -> Result<(), FrameError> {
        if let Some(tail) = &mut self.tail {
            memory::reserve(&mut tail.plain, data.len())?;
        }
        self.begin_sizes(chunksize);
        match &mut self.tail {
            Some(tail) => {
                tail.plain.extend_from_slice(&data);
                tail.stored = false;
                let (nchunk, nbytes) = (self.draft.state.nchunks() - 1, tail.plain.len());
                self.draft.state.replace(nchunk, UNSTORED, nbytes);
            }
            None => {
                self.draft.state.insert(self.draft.state.nchunks(), UNSTORED, data.len());
                self.tail = Some(Tail { plain: data, stored: false });
            }
        }
        Ok(())
    }

    fn begin_sizes(&mut self, chunksize: usize) {
        if let Sizes::Open = self.draft.state.sizes {
            self.draft.state.sizes = Sizes::Equal { chunksize, last: chunksize };
            self.draft.state.vl_blocks = false;
        }
    }

    /// Stores a short last chunk that is only in memory.
    pub(super) fn flush_tail(&mut self) -> Result<(), FrameError> {
        let Some(Tail { plain, stored: false }) = &self.tail else { return Ok(()) };
        let nchunk = self.draft.state.nchunks() - 1;
        let chunk = compress(nchunk, plain, &self.cparams_of_call()?)?;
        let nbytes = plain.len();
        let raw = self.put(nchunk, chunk, Sizing::Equal)?;
        // The items have changed before.
        let items_changed = self.draft.state.items_changed;
        self.draft.state.replace(nchunk, raw, nbytes);
        self.draft.state.items_changed = items_changed;
        if let Some(tail) = &mut self.tail {
            tail.stored = true;
        }
        Ok(())
    }

    fn append_individual(&mut self, data: &[u8]) -> Result<(), FrameError> {
        let largest = MAX_CHUNK_NBYTES / self.draft.rules.typesize * self.draft.rules.typesize;
        room_for(self.nchunks() + data.len().div_ceil(largest))?;
        let raws = self.during(data.len() as u64, |editor, control| {
            let cparams = editor.cparams_of_call()?;
            let mut raws = Vec::new();
            for part in data.chunks(largest) {
                let nchunk = editor.nchunks() + raws.len();
                let chunk = compress(nchunk, part, &cparams)?;
                raws.push((editor.put(nchunk, chunk, Sizing::Individual)?, part.len()));
                control.advance(part.len() as u64)?;
            }
            Ok(raws)
        })?;
        for (raw, nbytes) in raws {
            self.draft.state.insert(self.nchunks(), raw, nbytes);
        }
        Ok(())
    }

    /// Replaces the bytes from `start` on. Only the affected chunks are recompressed.
    ///
    /// # Errors
    /// [`FrameError::OutOfRange`] when the range is not inside the data; as for
    /// [`ChunkRef::decompress`](crate::ChunkRef::decompress) when a chunk that keeps some of its bytes cannot be read;
    /// otherwise as for [`append_bytes`](Self::append_bytes). Nothing changes then.
    pub fn write_bytes(&mut self, start: u64, data: &[u8]) -> Result<(), FrameError> {
        let end = start.saturating_add(data.len() as u64);
        if end > self.nbytes() {
            return Err(FrameError::OutOfRange { what: "bytes", start, end, len: self.nbytes() });
        }
        self.no_vl_blocks()?;
        self.flush_tail()?;
        let nbytes = data.len() as u64;
        let changed = self.during(nbytes, |editor, control| editor.put_changed(start, data, control))?;
        self.tail = None;
        for (nchunk, raw, nbytes) in changed {
            self.draft.state.replace(nchunk, raw, nbytes);
        }
        self.collect_garbage();
        Ok(())
    }

    /// Stores new versions of the chunks that change. Returns their numbers, entries and sizes.
    fn put_changed(
        &mut self,
        start: u64,
        data: &[u8],
        control: &Control,
    ) -> Result<Vec<(usize, i64, usize)>, FrameError> {
        let cparams = self.cparams_of_call()?;
        let mut snapshot = None;
        let mut changed = Vec::new();
        let (mut at, mut rest) = (start, data);
        let sizing = self.draft.state.sizing();
        while !rest.is_empty() {
            let (nchunk, chunk) = self.chunk_at(at)?;
            let skip = (at - chunk.start) as usize;
            let nbytes = (chunk.end - chunk.start) as usize;
            let (part, others) = rest.split_at(rest.len().min(nbytes - skip));
            let compressed = if part.len() == nbytes {
                compress(nchunk, part, &cparams)?
            } else {
                let schunk = match &mut snapshot {
                    Some(schunk) => schunk,
                    empty => empty.insert(self.careful_snapshot()?),
                };
                let mut plain = schunk.chunk(nchunk).decompress()?;
                if let Some(place) = plain.get_mut(skip..skip + part.len()) {
                    place.copy_from_slice(part);
                }
                compress(nchunk, &plain, &cparams)?
            };
            changed.push((nchunk, self.put(nchunk, compressed, sizing)?, nbytes));
            control.advance(part.len() as u64)?;
            at += part.len() as u64;
            rest = others;
        }
        Ok(changed)
    }

    /// Returns the number and the byte range of the chunk that holds byte `at`.
    fn chunk_at(&mut self, at: u64) -> Result<(usize, Range<u64>), FrameError> {
        if let Sizes::Equal { chunksize, .. } = self.draft.state.sizes {
            let nchunk = (at / chunksize as u64) as usize;
            let start = nchunk as u64 * chunksize as u64;
            return Ok((nchunk, start..start + self.chunk_nbytes(nchunk)? as u64));
        }
        let snapshot = self.snapshot()?;
        match snapshot.chunk_sizes()?.chunk_at(at) {
            Some(found) => Ok(found),
            None => Err(FrameError::OutOfRange { what: "bytes", start: at, end: at, len: self.nbytes() }),
        }
    }

    /// Appends `nbytes` of zeros, NaNs or uninitialised items, mostly without storing anything.
    ///
    /// # Errors
    /// [`FrameError::Argument`] for repeated values and when NaNs do not match the item size, otherwise as for
    /// [`append_bytes`](Self::append_bytes).
    pub fn append_special(&mut self, kind: SpecialKind, nbytes: u64) -> Result<(), FrameError> {
        let pattern: &[u8] = match (kind, self.draft.rules.typesize) {
            (SpecialKind::Value, _) => {
                return Err(FrameError::argument("kind", "repeated values need `append_value`"));
            }
            (SpecialKind::NaN, 4) => &NAN4,
            (SpecialKind::NaN, 8) => &NAN8,
            (SpecialKind::NaN, _) => {
                return Err(FrameError::argument("kind", "NaN needs items of 4 or 8 bytes"));
            }
            (SpecialKind::Zeros | SpecialKind::Uninit, _) => &[0],
        };
        let width = pattern.len() as u64;
        if !nbytes.is_multiple_of(width) || !self.nbytes().is_multiple_of(width) {
            return Err(FrameError::argument("nbytes", "NaN needs whole items"));
        }
        self.fill(pattern, nbytes, |editor, len| {
            if !editor.draft.state.is_individual() && len.is_multiple_of(editor.draft.rules.typesize) {
                return Ok(Entry::Special(kind).to_raw());
            }
            editor.draft.put(editor.nchunks(), FittedChunk::special(kind, len), Sizing::Individual)
        })
    }

    /// Appends `count` copies of an item.
    ///
    /// # Errors
    /// [`FrameError::Argument`] when the item does not have the frame's item size, otherwise as for
    /// [`append_bytes`](Self::append_bytes).
    pub fn append_value(&mut self, item: &[u8], count: u64) -> Result<(), FrameError> {
        let typesize = self.draft.rules.typesize;
        if item.len() != typesize {
            let what = format!("has {} bytes, but items have {typesize}", item.len());
            return Err(FrameError::argument("item", what));
        }
        let nbytes = count.saturating_mul(typesize as u64);
        if item.iter().all(|byte| *byte == 0) {
            return self.append_special(SpecialKind::Zeros, nbytes);
        }
        self.fill(item, nbytes, |editor, len| {
            let nchunk = editor.nchunks();
            let sizing = editor.draft.state.sizing();
            let blocksize = editor.draft.rules.blocksize;
            let chunk = Chunk::special(SpecialKind::Value, item, len, typesize, blocksize);
            editor.put(nchunk, chunk.map_err(FrameError::chunk(Structure::Chunk(nchunk)))?, sizing)
        })
    }

    /// Appends `nbytes` of a repeated pattern. Chunks that consist of whole patterns come from
    /// `chunk`, which gets their size and returns their entry.
    fn fill(
        &mut self,
        pattern: &[u8],
        nbytes: u64,
        mut chunk: impl FnMut(&mut Self, usize) -> Result<i64, FrameError>,
    ) -> Result<(), FrameError> {
        self.no_vl_blocks()?;
        let typesize = self.draft.rules.typesize;
        let chunksize = match self.draft.state.sizes {
            Sizes::Equal { chunksize, .. } => chunksize,
            Sizes::Open | Sizes::Individual(_) => (CHUNKSIZE / typesize).max(1) * typesize,
        };
        let more = usize::try_from(nbytes.div_ceil(chunksize as u64)).unwrap_or(usize::MAX);
        room_for(self.nchunks().saturating_add(more))?;
        let fill = |editor: &mut Self, control: &Control| {
            let mut done = 0;
            while done < nbytes {
                let begun = editor.begun();
                let len = (nbytes - done).min((chunksize - begun) as u64) as usize;
                let skip = (done % pattern.len() as u64) as usize;
                if begun == 0 && skip == 0 && len.is_multiple_of(pattern.len()) {
                    let raw = chunk(editor, len)?;
                    editor.tail = None;
                    editor.begin_sizes(chunksize);
                    editor.draft.state.insert(editor.nchunks(), raw, len);
                } else {
                    let mut bytes = memory::zeroed(len)?;
                    b2_chunk::fill(&mut bytes, pattern, skip);
                    editor.append_bytes(&bytes)?;
                    editor.flush_tail()?;
                }
                done += len as u64;
                control.advance(len as u64)?;
            }
            Ok(())
        };
        self.atomically(|editor| editor.during(nbytes, fill))
    }

    /// Returns the number of bytes in a short last chunk, or 0 if the last chunk is full.
    fn begun(&self) -> usize {
        match self.draft.state.sizes {
            Sizes::Equal { chunksize, last } if last < chunksize => last,
            _ => 0,
        }
    }

    fn no_vl_blocks(&self) -> Result<(), FrameError> {
        if self.nchunks() > 0 && self.draft.state.vl_blocks {
            return Err(FrameError::argument("frame", "has variable-length blocks: append whole chunks"));
        }
        Ok(())
    }
}

/// Entry of a last chunk that is only in memory. It is never written, since commits and snapshots
/// settle first.
const UNSTORED: i64 = 0;
