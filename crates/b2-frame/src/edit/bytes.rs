//! Operations on plain bytes, whatever chunks they are in.

use std::ops::Range;

use b2_chunk::{Chunk, MAX_CHUNK_NBYTES, SpecialKind, memory};

use crate::edit::state::{Sizes, check_nbytes, room_for};
use crate::edit::{FrameEditor, Tail};
use crate::fit::{NAN4, NAN8};
use crate::index::Entry;
use crate::{FrameError, Structure};

/// Size of chunks when neither the frame nor a first chunk says one, in bytes.
const CHUNKSIZE: usize = 1 << 20;

impl FrameEditor {
    /// Appends bytes, any number of them. A short last chunk is filled first; what does not fill a chunk is
    /// kept in memory until more comes, so that many small pieces cost no more than a few large ones. Where
    /// chunks have individual sizes, each call makes chunks of its own.
    ///
    /// # Errors
    /// When the frame has variable-length blocks, the last chunk cannot be read, or something cannot be
    /// compressed or written. Nothing is appended then.
    pub fn append_bytes(&mut self, data: &[u8]) -> Result<(), FrameError> {
        self.no_vl_blocks()?;
        if data.is_empty() {
            return Ok(());
        }
        let (chunksize, last) = match self.staged.sizes {
            Sizes::Individual(_) => return self.append_individual(data),
            Sizes::Equal { chunksize, last } => (chunksize, last),
            Sizes::Open => {
                let chunksize = (CHUNKSIZE / self.fit.typesize).max(1) * self.fit.typesize;
                (chunksize, chunksize)
            }
        };
        check_nbytes(chunksize)?;
        if last < chunksize && self.nchunks() > 0 && self.tail.is_none() {
            let nchunk = self.nchunks() - 1;
            let plain = self.careful_snapshot()?.decompress_chunk(nchunk)?;
            self.tail = Some(Tail { plain, stored: true });
        }
        let begun = self.tail.as_ref().map_or(0, |tail| tail.plain.len());
        if begun + data.len() < chunksize {
            self.extend_tail(memory::copied(data)?, chunksize)?;
            return Ok(());
        }

        // All chunks are put before the state changes, so that an error leaves it as it was.
        let first = self.nchunks() - usize::from(begun > 0);
        room_for(first + (begun + data.len()).div_ceil(chunksize))?;
        let (head, rest) = data.split_at(chunksize - begun);
        let mut raws = Vec::new();
        if let Some(tail) = &self.tail {
            let mut plain = memory::list(tail.plain.len() + head.len())?;
            plain.extend_from_slice(&tail.plain);
            plain.extend_from_slice(head);
            raws.push(self.put_plain(first, &plain)?);
        } else {
            raws.push(self.put_plain(first, head)?);
        }
        let mut parts = rest.chunks_exact(chunksize);
        for part in &mut parts {
            raws.push(self.put_plain(first + raws.len(), part)?);
        }
        let rest = memory::copied(parts.remainder())?;
        if self.tail.take().is_some() {
            self.staged.remove(first);
        }
        self.begin_sizes(chunksize);
        for raw in raws {
            self.staged.insert(self.nchunks(), raw, chunksize);
        }
        if !rest.is_empty() {
            self.extend_tail(rest, chunksize)?;
        }
        Ok(())
    }

    /// Adds to a last chunk that stays short.
    fn extend_tail(&mut self, data: Vec<u8>, chunksize: usize) -> Result<(), FrameError> {
        if let Some(tail) = &mut self.tail {
            memory::reserve(&mut tail.plain, data.len())?;
        }
        self.begin_sizes(chunksize);
        match &mut self.tail {
            Some(tail) => {
                tail.plain.extend_from_slice(&data);
                tail.stored = false;
                let (nchunk, nbytes) = (self.staged.nchunks() - 1, tail.plain.len());
                self.staged.replace(nchunk, UNSTORED, nbytes);
            }
            None => {
                self.staged.insert(self.staged.nchunks(), UNSTORED, data.len());
                self.tail = Some(Tail { plain: data, stored: false });
            }
        }
        Ok(())
    }

    fn begin_sizes(&mut self, chunksize: usize) {
        if let Sizes::Open = self.staged.sizes {
            self.staged.sizes = Sizes::Equal { chunksize, last: chunksize };
            self.staged.vl_blocks = false;
        }
    }

    /// Stores a short last chunk that is only in memory.
    pub(super) fn settle(&mut self) -> Result<(), FrameError> {
        let Some(Tail { plain, stored: false }) = &self.tail else { return Ok(()) };
        let nchunk = self.staged.nchunks() - 1;
        let chunk = self.compress(nchunk, plain)?;
        let nbytes = plain.len();
        let raw = self.put(nchunk, chunk, false)?;
        self.staged.replace(nchunk, raw, nbytes);
        if let Some(tail) = &mut self.tail {
            tail.stored = true;
        }
        Ok(())
    }

    fn append_individual(&mut self, data: &[u8]) -> Result<(), FrameError> {
        let largest = MAX_CHUNK_NBYTES / self.fit.typesize * self.fit.typesize;
        room_for(self.nchunks() + data.len().div_ceil(largest))?;
        let mut raws = Vec::new();
        for part in data.chunks(largest) {
            let nchunk = self.nchunks() + raws.len();
            let chunk = self.compress(nchunk, part)?;
            raws.push((self.put(nchunk, chunk, true)?, part.len()));
        }
        for (raw, nbytes) in raws {
            self.staged.insert(self.nchunks(), raw, nbytes);
        }
        Ok(())
    }

    /// Compresses and stores a chunk of the prescribed size.
    fn put_plain(&mut self, nchunk: usize, plain: &[u8]) -> Result<i64, FrameError> {
        let chunk = self.compress(nchunk, plain)?;
        self.put(nchunk, chunk, false)
    }

    /// Replaces the bytes from `start` on. Only the chunks they are in are compressed anew.
    ///
    /// # Errors
    /// When they are not inside the data, the frame has variable-length blocks, a chunk that keeps some of
    /// its bytes cannot be read, or something cannot be compressed or written. Nothing changes then.
    pub fn write_bytes(&mut self, start: u64, data: &[u8]) -> Result<(), FrameError> {
        let end = start.saturating_add(data.len() as u64);
        if end > self.nbytes() {
            return Err(FrameError::OutOfRange { what: "bytes", start, end, len: self.nbytes() });
        }
        self.no_vl_blocks()?;
        let mut snapshot = None;
        let mut changed = Vec::new();
        let (mut at, mut rest) = (start, data);
        let individual = self.staged.is_individual();
        self.settle()?;
        while !rest.is_empty() {
            let (nchunk, chunk) = self.chunk_at(at)?;
            let skip = (at - chunk.start) as usize;
            let nbytes = (chunk.end - chunk.start) as usize;
            let (part, others) = rest.split_at(rest.len().min(nbytes - skip));
            let compressed = if part.len() == nbytes {
                self.compress(nchunk, part)?
            } else {
                let schunk = match &mut snapshot {
                    Some(schunk) => schunk,
                    empty => empty.insert(self.careful_snapshot()?),
                };
                let mut plain = schunk.decompress_chunk(nchunk)?;
                if let Some(place) = plain.get_mut(skip..skip + part.len()) {
                    place.copy_from_slice(part);
                }
                self.compress(nchunk, &plain)?
            };
            changed.push((nchunk, self.put(nchunk, compressed, individual)?, nbytes));
            at += part.len() as u64;
            rest = others;
        }
        drop(snapshot);
        self.tail = None;
        for (nchunk, raw, nbytes) in changed {
            self.staged.replace(nchunk, raw, nbytes);
        }
        Ok(())
    }

    /// The chunk that holds byte `at`, and its bytes.
    fn chunk_at(&mut self, at: u64) -> Result<(usize, Range<u64>), FrameError> {
        if let Sizes::Equal { chunksize, .. } = self.staged.sizes {
            let nchunk = (at / chunksize as u64) as usize;
            let start = nchunk as u64 * chunksize as u64;
            return Ok((nchunk, start..start + self.chunk_nbytes(nchunk)? as u64));
        }
        let snapshot = self.snapshot()?;
        match snapshot.chunk_sizes()?.chunk_at(at) {
            Some((nchunk, range, _)) => Ok((nchunk, range)),
            None => Err(FrameError::OutOfRange { what: "bytes", start: at, end: at, len: self.nbytes() }),
        }
    }

    /// Appends `nbytes` of zeros, NaNs or uninitialised items, mostly without storing anything.
    ///
    /// # Errors
    /// For repeated values, when NaNs do not fit the item size, and as [`append_bytes`](Self::append_bytes).
    pub fn fill_special(&mut self, kind: SpecialKind, nbytes: u64) -> Result<(), FrameError> {
        let pattern: &[u8] = match (kind, self.fit.typesize) {
            (SpecialKind::Value, _) => {
                return Err(FrameError::argument("kind", "a repeated value needs the value"));
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
            if !editor.staged.is_individual() && len.is_multiple_of(editor.fit.typesize) {
                return Ok(Entry::Special(kind).to_raw());
            }
            editor.put_special(editor.nchunks(), kind, len)
        })
    }

    /// Appends `count` times the same item.
    ///
    /// # Errors
    /// When the item does not have the frame's item size, and as [`append_bytes`](Self::append_bytes).
    pub fn fill_value(&mut self, item: &[u8], count: u64) -> Result<(), FrameError> {
        let typesize = self.fit.typesize;
        if item.len() != typesize {
            return Err(FrameError::argument("item", format!("{} bytes, not {typesize}", item.len())));
        }
        let nbytes = count.saturating_mul(typesize as u64);
        if item.iter().all(|byte| *byte == 0) {
            return self.fill_special(SpecialKind::Zeros, nbytes);
        }
        self.fill(item, nbytes, |editor, len| {
            let nchunk = editor.nchunks();
            let individual = editor.staged.is_individual();
            let blocksize = editor.fit.blocksize;
            let chunk = Chunk::special(SpecialKind::Value, item, len, typesize, blocksize);
            editor.put(nchunk, chunk.map_err(FrameError::chunk(Structure::Chunk(nchunk)))?, individual)
        })
    }

    /// Appends `nbytes` of a repeated pattern. Chunks that hold whole patterns only come from `chunk`, which is
    /// told their size and returns an entry.
    fn fill(
        &mut self,
        pattern: &[u8],
        nbytes: u64,
        mut chunk: impl FnMut(&mut Self, usize) -> Result<i64, FrameError>,
    ) -> Result<(), FrameError> {
        self.no_vl_blocks()?;
        let typesize = self.fit.typesize;
        let chunksize = match self.staged.sizes {
            Sizes::Equal { chunksize, .. } => chunksize,
            Sizes::Open | Sizes::Individual(_) => (CHUNKSIZE / typesize).max(1) * typesize,
        };
        let more = usize::try_from(nbytes.div_ceil(chunksize as u64)).unwrap_or(usize::MAX);
        room_for(self.nchunks().saturating_add(more))?;
        self.atomically(|editor| {
            let mut done = 0;
            while done < nbytes {
                let begun = editor.begun();
                let len = (nbytes - done).min((chunksize - begun) as u64) as usize;
                let skip = (done % pattern.len() as u64) as usize;
                if begun == 0 && skip == 0 && len.is_multiple_of(pattern.len()) {
                    let raw = chunk(editor, len)?;
                    editor.tail = None;
                    editor.begin_sizes(chunksize);
                    editor.staged.insert(editor.nchunks(), raw, len);
                } else {
                    let mut bytes = memory::zeroed(len)?;
                    b2_chunk::fill(&mut bytes, pattern, skip);
                    editor.append_bytes(&bytes)?;
                    editor.settle()?;
                }
                done += len as u64;
            }
            Ok(())
        })
    }

    /// Bytes in a last chunk that can take more.
    fn begun(&self) -> usize {
        match self.staged.sizes {
            Sizes::Equal { chunksize, last } if last < chunksize => last,
            _ => 0,
        }
    }

    fn no_vl_blocks(&self) -> Result<(), FrameError> {
        if self.nchunks() > 0 && self.staged.vl_blocks {
            return Err(FrameError::argument("frame", "its blocks have variable lengths: add whole chunks"));
        }
        Ok(())
    }
}

/// Entry of a last chunk that is only in memory. Never written: commits and snapshots settle first.
const UNSTORED: i64 = 0;
