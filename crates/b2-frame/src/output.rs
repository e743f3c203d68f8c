//! How much of the data no stored bytes stand for, counted without expanding anything.
//!
//! A file of 200 bytes may stand for 2^60 zeros. What reads all of a frame asks here first; real data, however large,
//! counts nothing.

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

use std::ops::Range;

use b2_chunk::memory;

use crate::error::{max_metadata, within};
use crate::header::Storage;
use crate::index::Entry;
use crate::plan::FrameFile;
use crate::{FrameError, SuperChunk};

/// Bytes of plain data that no stored data stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unstored {
    /// Of chunks that are only named in the index (zeros, NaN, uninitialised).
    pub special: u64,
    /// Of stored chunks: what is above [`max_ratio`](b2_chunk::Limits::max_ratio) times their stored bytes. Chunks that
    /// share their stored bytes count those once.
    pub stored: u64,
    /// How many chunks have the stored bytes of another one.
    pub shared_chunks: u64,
    /// How many chunks are only named in the index.
    pub special_chunks: u64,
}

impl Unstored {
    /// Both together.
    pub fn total(&self) -> u64 {
        self.special.saturating_add(self.stored)
    }
}

/// Stored bytes, and what they stand for.
#[derive(Clone, Copy, Debug)]
struct Stored {
    /// Offset or file number.
    offset: u64,
    nbytes: u64,
}

impl SuperChunk {
    /// Fails when more bytes of the data than [`max_output`](b2_chunk::Limits::max_output) are such that no stored
    /// data stands for them. To be called before all of an untrusted frame is expanded: it expands nothing, and
    /// looks no further than the header when the data as a whole are below the limit.
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
    /// assert!(matches!(error, FrameError::LimitExceeded { name: "max_output", .. }));
    /// # Ok::<(), FrameError>(())
    /// ```
    ///
    /// # Errors
    /// [`FrameError::LimitExceeded`], or when index or chunk sizes cannot be read.
    pub fn check_output(&self) -> Result<(), FrameError> {
        self.check_chunks(0..self.nchunks(), self.nbytes())
    }

    /// Counts the bytes that no stored data stands for, without expanding or decoding anything; up to about
    /// `enough` of them. In contiguous frames what lies up to the next chunk counts as stored, in sparse frames the
    /// chunk's file.
    ///
    /// # Errors
    /// When an entry of the index is malformed, or chunk sizes or files cannot be read.
    pub fn unstored(&self, nchunks: Range<usize>, enough: u64) -> Result<Unstored, FrameError> {
        let limits = &self.dparams().limits;
        let mut counted = Unstored::default();
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
                    let list = (stored.len() + 1) * size_of::<Stored>();
                    within("table of stored chunks, in bytes", list as u64, max_metadata(self.dparams()))?;
                    memory::push(&mut stored, Stored { offset, nbytes })?;
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
            // Already all bytes of the file are too few.
            let all = limits.unstored(nbytes_stored, layout.data.end - layout.data.start);
            if all > enough {
                return Ok(Unstored { stored: all, ..counted });
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
                // Reading the chunk tells what is wrong with a number that is too large.
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

    /// Whether a result of `nbytes`, made of these chunks, is below the limit for output.
    pub(crate) fn check_chunks(&self, nchunks: Range<usize>, nbytes: u64) -> Result<(), FrameError> {
        let limit = self.dparams().limits.max_output;
        if nbytes <= limit {
            return Ok(());
        }
        let asked = self.unstored(nchunks, limit)?.total().min(nbytes);
        within("bytes of output that no stored data stands for", asked, ("max_output", limit))
    }

    /// Uncompressed size of consecutive chunks with the same entry.
    fn run_nbytes(&self, run: &Range<usize>) -> Result<u64, FrameError> {
        let chunksize = self.chunksize() as u64;
        if chunksize > 0 {
            let end = (run.end as u64).saturating_mul(chunksize).min(self.nbytes());
            return Ok(end.saturating_sub((run.start as u64).saturating_mul(chunksize)));
        }
        // Equal entries have equal sizes.
        self.chunk_sizes()?;
        Ok(self.chunk_nbytes(run.start)?.saturating_mul(run.len() as u64))
    }
}
