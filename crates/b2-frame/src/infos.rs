//! Facts about all chunks of a frame.

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

use b2_chunk::{SpecialKind, memory};

use crate::checksums::{END_LEN, Page};
use crate::header::Storage;
use crate::index::Entry;
use crate::{FrameError, SuperChunk};

/// Chunk headers read at once.
const AT_ONCE: usize = 1024;

/// What is known about a chunk without decoding it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChunkInfo {
    /// Its position.
    pub nchunk: usize,
    /// Whether it is stored, and where.
    pub entry: Entry,
    /// The value of all its items, if they are known to be the same.
    pub special: Option<SpecialKind>,
    /// Uncompressed size, in bytes.
    pub nbytes: u64,
    /// Compressed size, in bytes; 0 if it is not stored.
    pub cbytes: u64,
}

impl ChunkInfo {
    /// First byte of the chunk in a contiguous frame, counted behind the header; number of the chunk file of a
    /// sparse frame. `None` if it is not stored.
    pub fn offset(&self) -> Option<u64> {
        match self.entry {
            Entry::Stored(offset) => Some(offset),
            Entry::Special(_) => None,
        }
    }

    /// How many times larger the chunk is uncompressed; `None` if it is not stored.
    pub fn ratio(&self) -> Option<f64> {
        (self.cbytes > 0).then(|| self.nbytes as f64 / self.cbytes as f64)
    }
}

/// The facts about each chunk in turn. Made by [`SuperChunk::chunk_infos`].
#[derive(Debug)]
pub struct ChunkInfos<'a> {
    schunk: &'a SuperChunk,
    next: usize,
    /// Those to come, last one first.
    batch: Vec<ChunkInfo>,
}

impl SuperChunk {
    /// Facts about all chunks, in order: sizes, special values, places. Reads the chunks' headers, many at
    /// once.
    pub fn chunk_infos(&self) -> ChunkInfos<'_> {
        ChunkInfos { schunk: self, next: 0, batch: Vec::new() }
    }

    /// Bytes of the frame that nothing refers to: chunks that were replaced or deleted, indices and trailers
    /// of earlier states. Reads the headers of all chunks. Always 0 for sparse frames, where such chunks are
    /// files of their own.
    ///
    /// # Errors
    /// When a chunk's header cannot be read.
    pub fn dead_bytes(&self) -> Result<u64, FrameError> {
        if self.storage() == Storage::Sparse {
            return Ok(0);
        }
        let layout = self.layout();
        // First byte of each stored chunk, once, and one of those that are there.
        let mut places = Vec::new();
        let mut nchunk = 0;
        while nchunk < self.nchunks() {
            let (entry, run) = self.index().run(nchunk)?;
            if let Entry::Stored(offset) = entry {
                memory::push(&mut places, (offset, nchunk))?;
            }
            nchunk = run.end;
        }
        places.sort_unstable();
        places.dedup_by_key(|(offset, _)| *offset);
        let mut live = 0;
        for batch in places.chunks(AT_ONCE) {
            let nchunks: Vec<usize> = batch.iter().map(|(_, nchunk)| *nchunk).collect();
            live += self.headers(&nchunks)?.iter().map(|header| header.cbytes() as u64).sum::<u64>();
        }
        let data = if self.nbytes() > 0 { layout.data.end - layout.data.start } else { 0 };
        let gap = layout.trailer.start.saturating_sub(layout.index.end);
        Ok((data + gap).saturating_sub(live + self.sums_len()))
    }

    /// Bytes of checksums, wherever they are; not what C-Blosc2 has left behind.
    fn sums_len(&self) -> u64 {
        let pages = self.sum_pages();
        match &self.opened.sums {
            Some(_) if self.nchunks() > 0 => {
                let sums: u64 = pages.iter().map(|page| page.count * 8).sum();
                sums + (pages.len() * Page::LEN + END_LEN) as u64
            }
            _ => 0,
        }
    }

    fn infos(&self, start: usize) -> Result<Vec<ChunkInfo>, FrameError> {
        let nchunks: Vec<usize> = (start..self.nchunks().min(start + AT_ONCE)).collect();
        let mut stored = Vec::new();
        for nchunk in &nchunks {
            if let Entry::Stored(_) = self.entry(*nchunk)? {
                stored.push(*nchunk);
            }
        }
        let mut headers = self.headers(&stored)?.into_iter();
        let info = |nchunk: usize| {
            let entry = self.entry(nchunk)?;
            let (special, nbytes, cbytes) = match entry {
                Entry::Special(kind) => (Some(kind), self.chunk_nbytes(nchunk)?, 0),
                Entry::Stored(_) => match headers.next() {
                    Some(header) => (header.special(), header.nbytes() as u64, header.cbytes() as u64),
                    None => (None, self.chunk_nbytes(nchunk)?, 0),
                },
            };
            Ok(ChunkInfo { nchunk, entry, special, nbytes, cbytes })
        };
        nchunks.into_iter().map(info).collect()
    }
}

impl Iterator for ChunkInfos<'_> {
    type Item = Result<ChunkInfo, FrameError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.batch.is_empty() {
            if self.next >= self.schunk.nchunks() {
                return None;
            }
            match self.schunk.infos(self.next) {
                Ok(batch) => {
                    self.next += batch.len();
                    self.batch = batch;
                    self.batch.reverse();
                }
                Err(error) => {
                    self.next = usize::MAX;
                    return Some(Err(error));
                }
            }
        }
        self.batch.pop().map(Ok)
    }
}
