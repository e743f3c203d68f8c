//! Information about all chunks of a frame.

use std::ops::Range;

use b2_chunk::{ChunkHeader, SpecialKind};
use b2_core::memory;
use bytes::Bytes;

use crate::format::checksums::{END_LEN, Page};
use crate::format::header::Storage;
use crate::format::index::Entry;
use crate::read::headers::{HeadersPlan, SizesPlan};
use crate::read::plan::{Plan, Step};
use crate::{FrameError, SuperChunk};

/// Number of chunk headers that are read at once.
const HEADER_BATCH: usize = 1024;

/// Information about a chunk that is known without decoding it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChunkInfo {
    /// Position of the chunk in the frame.
    pub nchunk: usize,
    /// The index entry: whether the chunk is stored, and where.
    pub entry: Entry,
    /// The common value of all its items, if the chunk is special.
    pub special: Option<SpecialKind>,
    /// Uncompressed size in bytes.
    pub nbytes: u64,
    /// Compressed size in bytes; 0 if the chunk is not stored.
    pub cbytes: u64,
}

impl ChunkInfo {
    /// Returns the chunk's offset from the end of the header (contiguous frame) or the number of
    /// its file (sparse frame). Returns `None` if the chunk is not stored.
    pub fn offset(&self) -> Option<u64> {
        match self.entry {
            Entry::Stored(offset) => Some(offset),
            Entry::Special(_) => None,
        }
    }
}

impl SuperChunk {
    /// Returns information about all chunks, in order: sizes, special values, places. This reads
    /// the chunk headers, many at once.
    ///
    /// # Errors
    /// The last item is an error if an index entry is malformed, or a chunk header is damaged or cannot be read: as for
    /// [`ChunkRef::read`](crate::ChunkRef::read).
    pub fn chunk_infos(&self) -> impl Iterator<Item = Result<ChunkInfo, FrameError>> {
        let (mut next, mut batch) = (0, Vec::new().into_iter());
        std::iter::from_fn(move || {
            if let Some(info) = batch.next() {
                return Some(Ok(info));
            }
            if next >= self.nchunks() {
                return None;
            }
            match self.driver().run(self.infos_plan(next)) {
                Ok(infos) => {
                    next += infos.len();
                    batch = infos.into_iter();
                    batch.next().map(Ok)
                }
                Err(error) => {
                    next = usize::MAX;
                    Some(Err(self.explain(error)))
                }
            }
        })
    }

    /// Returns the number of dead bytes, to which nothing refers: replaced and deleted chunks, and
    /// indices and trailers of earlier states. This reads the headers of all chunks. It is always 0
    /// for sparse frames, whose dead chunks are separate files.
    ///
    /// # Errors
    /// As for [`ChunkRef::read`](crate::ChunkRef::read) if a chunk header is damaged or cannot be read,
    /// [`FrameError::OutOfMemory`].
    pub fn dead_bytes(&self) -> Result<u64, FrameError> {
        self.count_dead_bytes().map_err(|error| self.explain(error))
    }

    fn count_dead_bytes(&self) -> Result<u64, FrameError> {
        if self.storage() == Storage::Sparse {
            return Ok(0);
        }
        let layout = self.layout();
        // The offset of each stored chunk, once, with the number of one of the chunks at that
        // offset.
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
        for batch in places.chunks(HEADER_BATCH) {
            let nchunks: Vec<usize> = batch.iter().map(|(_, nchunk)| *nchunk).collect();
            live += self.headers(&nchunks)?.iter().map(|header| header.cbytes() as u64).sum::<u64>();
        }
        let data = if self.nbytes() > 0 { layout.data.end - layout.data.start } else { 0 };
        let gap = layout.trailer.start.saturating_sub(layout.index.end);
        let tables = [self.block_starts_len(), self.block_sums_len(), self.start_copy_len()];
        let tables: u64 = tables.into_iter().flatten().sum();
        Ok((data + gap).saturating_sub(live + self.sums_len() + tables))
    }

    /// Returns the size of current checksums in bytes. Outdated ones that C-Blosc2 left behind do
    /// not count.
    pub(crate) fn sums_len(&self) -> u64 {
        let pages = self.sum_pages();
        match &self.opened.sums {
            Some(_) if self.nchunks() > 0 => {
                let sums: u64 = pages.iter().map(|page| page.count * 8).sum();
                sums + (pages.len() * Page::LEN + END_LEN) as u64
            }
            _ => 0,
        }
    }

    /// Returns a plan that reads information about chunks from `start` on: about as many as are read at once.
    #[doc(hidden)]
    pub fn infos_plan(&self, start: usize) -> impl Plan<Output = Vec<ChunkInfo>> {
        InfosPlan { frame: self, start, sizes: None, headers: None }
    }
}

/// A plan that reads information about some chunks.
struct InfosPlan<'a> {
    frame: &'a SuperChunk,
    start: usize,
    /// Reads the sizes of all chunks, which determine that of a special one.
    sizes: Option<SizesPlan<'a>>,
    headers: Option<HeadersPlan>,
}

impl InfosPlan<'_> {
    fn nchunks(&self) -> Range<usize> {
        self.start..self.frame.nchunks().min(self.start + HEADER_BATCH)
    }

    fn infos(&self, headers: Vec<ChunkHeader>) -> Result<Vec<ChunkInfo>, FrameError> {
        let mut headers = headers.into_iter();
        let info = |nchunk: usize| {
            let entry = self.frame.entry(nchunk)?;
            let (special, nbytes, cbytes) = match entry {
                Entry::Special(kind) => (Some(kind), self.frame.chunk_nbytes(nchunk)?, 0),
                Entry::Stored(_) => match headers.next() {
                    Some(header) => (header.special(), header.nbytes() as u64, header.cbytes() as u64),
                    None => (None, self.frame.chunk_nbytes(nchunk)?, 0),
                },
            };
            Ok(ChunkInfo { nchunk, entry, special, nbytes, cbytes })
        };
        self.nchunks().map(info).collect()
    }
}

impl<'a> Plan for InfosPlan<'a> {
    type Output = Vec<ChunkInfo>;

    fn step(&mut self, mut parts: Vec<Bytes>) -> Result<Step<Vec<ChunkInfo>>, FrameError> {
        let frame = self.frame;
        let headers = match &mut self.headers {
            Some(headers) => headers,
            None => {
                let special = |nchunk| matches!(frame.entry(nchunk), Ok(Entry::Special(_)));
                if frame.chunksize() == 0 && self.nchunks().any(special) {
                    let sizes = self.sizes.get_or_insert_with(|| SizesPlan::new(frame));
                    if let Step::Need(need) = sizes.step(std::mem::take(&mut parts))? {
                        return Ok(Step::Need(need));
                    }
                }
                let nchunks = memory::collect(self.nchunks())?;
                self.headers.insert(frame.headers_plan(&nchunks)?)
            }
        };
        match headers.step(parts)? {
            Step::Need(need) => Ok(Step::Need(need)),
            Step::Done(headers) => self.infos(headers).map(Step::Done),
        }
    }
}
