//! Counts the bytes of the data that the file does not store, without expanding anything.
//!
//! A file of 200 bytes may claim 2^60 zeros, so functions that read a whole frame check this first.
//! Stored data do not count, however large they are.

use std::ops::Range;

use b2_core::memory;

use crate::error::{max_metadata, within};
use crate::format::header::Storage;
use crate::format::index::Entry;
use crate::names::FrameFile;
use crate::{FrameError, SuperChunk};

/// Numbers of bytes that the data have but the file does not store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnstoredBytes {
    /// Bytes of special chunks, which only have an index entry (zeros, NaN, uninitialised).
    pub special: u64,
    /// Bytes of stored chunks in excess of [`max_ratio`](b2_chunk::Limits::max_ratio) times their
    /// stored size. Stored bytes that several chunks share count once.
    pub stored: u64,
    /// Number of chunks that share the stored bytes of another chunk.
    pub shared_chunks: u64,
    /// Number of special chunks, which only have an index entry.
    pub special_chunks: u64,
}

impl UnstoredBytes {
    /// Returns the sum of `special` and `stored`.
    pub fn total(&self) -> u64 {
        self.special.saturating_add(self.stored)
    }
}

/// Stored bytes and the size of the chunks that use them.
#[derive(Clone, Copy, Debug)]
struct StoredChunks {
    /// Offset in the frame or number of the chunk file.
    offset: u64,
    nbytes: u64,
}

impl SuperChunk {
    /// Fails if the data expand to more than [`max_output`](b2_chunk::Limits::max_output) bytes
    /// that the file does not store.
    ///
    /// Call this before expanding all of an untrusted frame. It decodes no data, and if all data
    /// together are below the limit it reads only the header.
    ///
    /// ```
    /// # use b2_chunk::{Limits, SpecialKind};
    /// # use b2_frame::{FrameError, FrameParams, FrameWriter, SuperChunk};
    /// # let mut writer = FrameWriter::memory(FrameParams::new(1).chunksize(1 << 30))?;
    /// # for _ in 0..100 { writer.append_special(SpecialKind::Zeros, 1 << 30)?; }
    /// # let bomb = writer.finish()?.into_bytes();
    /// let schunk = SuperChunk::from_bytes(bomb)?;
    /// assert_eq!(schunk.nbytes(), 100 << 30);
    /// let error = schunk.check_output().unwrap_err();
    /// assert!(matches!(error, FrameError::Limit(b2_chunk::base::LimitExceeded { name: "max_output", .. })));
    /// # Ok::<(), FrameError>(())
    /// ```
    ///
    /// # Errors
    /// [`FrameError::Limit`] (as [`detail`](FrameError::detail)) when the data exceed the limit, and as for
    /// [`unstored`](Self::unstored) when index or chunk sizes cannot be read.
    pub fn check_output(&self) -> Result<(), FrameError> {
        self.check_chunks(0..self.nchunks(), self.nbytes()).map_err(|error| self.add_name(error))
    }

    /// Counts the bytes of these chunks that the file does not store, without decoding anything.
    /// Counting stops at about `enough` bytes. In contiguous frames all bytes up to the next chunk
    /// count as stored, in sparse frames the size of the chunk file.
    ///
    /// # Errors
    /// [`FrameError::Io`] or [`FrameError::Changed`] when chunk sizes or files cannot be read. As
    /// [`detail`](FrameError::detail): [`Field`](FrameError::Field) when an index entry is malformed,
    /// [`Chunk`](FrameError::Chunk) or [`Truncated`](FrameError::Truncated) when a chunk header is,
    /// [`Limit`](FrameError::Limit) when there are too many stored chunks.
    pub fn unstored(&self, nchunks: Range<usize>, enough: u64) -> Result<UnstoredBytes, FrameError> {
        self.count_unstored(nchunks, enough).map_err(|error| self.add_name(error))
    }

    fn count_unstored(&self, nchunks: Range<usize>, enough: u64) -> Result<UnstoredBytes, FrameError> {
        let limits = &self.dparams().limits;
        let mut counted = UnstoredBytes::default();
        let mut stored = Vec::new();
        let mut nbytes_stored = 0u64;
        let mut nchunk = nchunks.start;
        while nchunk < nchunks.end {
            let (entry, run) = self.index().run(nchunk)?;
            let run = run.start..run.end.min(nchunks.end);
            let nbytes = self.run_nbytes(&run)?;
            match entry {
                Entry::Special(_) => {
                    counted.special = counted.special.saturating_add(nbytes);
                    counted.special_chunks += run.len() as u64;
                }
                Entry::Stored(offset) => {
                    let list = (stored.len() + 1) * size_of::<StoredChunks>();
                    within("table of stored chunks, in bytes", list as u64, max_metadata(self.dparams()))?;
                    memory::push(&mut stored, StoredChunks { offset, nbytes })?;
                    counted.shared_chunks += run.len() as u64 - 1;
                    nbytes_stored = nbytes_stored.saturating_add(nbytes);
                }
            }
            if counted.special > enough {
                return Ok(counted);
            }
            nchunk = run.end;
        }
        let layout = self.layout();
        if self.storage() == Storage::Contiguous {
            // If the limit is exceeded even when all bytes of the file count as stored, the table is not needed.
            let all = limits.unstored(nbytes_stored, layout.data.end - layout.data.start);
            if all > enough {
                return Ok(UnstoredBytes { stored: all, ..counted });
            }
        }
        stored.sort_unstable_by_key(|stored| stored.offset);
        let mut groups = stored.chunk_by(|a, b| a.offset == b.offset).peekable();
        while let Some(group) = groups.next() {
            let Some(first) = group.first() else { continue };
            let have = match self.storage() {
                Storage::Contiguous => {
                    let len = layout.data.end - layout.data.start;
                    let next = groups.peek().and_then(|group| group.first()).map_or(len, |next| next.offset);
                    next.min(len).saturating_sub(first.offset)
                }
                // A number that is too large is reported when the chunk is read.
                Storage::Sparse => match u32::try_from(first.offset) {
                    Ok(id) => self.files().open(FrameFile::Chunk(id))?.len(),
                    Err(_) => 0,
                },
            };
            counted.shared_chunks += group.len() as u64 - 1;
            let nbytes = group.iter().fold(0u64, |sum, stored| sum.saturating_add(stored.nbytes));
            counted.stored = counted.stored.saturating_add(limits.unstored(nbytes, have));
            if counted.total() > enough {
                break;
            }
        }
        Ok(counted)
    }

    /// Checks that a result of `nbytes` from these chunks does not exceed the limit on output.
    pub(crate) fn check_chunks(&self, nchunks: Range<usize>, nbytes: u64) -> Result<(), FrameError> {
        let limit = self.dparams().limits.max_output;
        if nbytes <= limit {
            return Ok(());
        }
        let asked = self.unstored(nchunks, limit)?.total().min(nbytes);
        within("bytes of zeros and repeated values", asked, ("max_output", limit))
    }

    /// Returns the uncompressed size of consecutive chunks with the same entry.
    fn run_nbytes(&self, run: &Range<usize>) -> Result<u64, FrameError> {
        let chunksize = self.chunksize() as u64;
        if chunksize > 0 {
            let end = (run.end as u64).saturating_mul(chunksize).min(self.nbytes());
            return Ok(end.saturating_sub((run.start as u64).saturating_mul(chunksize)));
        }
        // Chunks with equal entries have equal sizes.
        self.chunk_sizes()?;
        Ok(self.chunk_nbytes(run.start)?.saturating_mul(run.len() as u64))
    }
}
