//! Where chunks are and what is known about them before they are read.

#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
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

use b2_chunk::{Chunk, DParams, EXTENDED_HEADER_LEN, MIN_HEADER_LEN, SpecialKind};

use crate::error::{max_chunk_nbytes, within};
use crate::fetch::{BlocksPlan, ChunkPlan, Wanted};
use crate::head::Place;
use crate::header::Storage;
use crate::index::Entry;
use crate::open::Opened;
use crate::plan::FrameFile;
use crate::{FrameError, Structure};

/// Read first of a chunk file when the frame does not tell the chunk's size, in bytes.
const UNKNOWN_SIZE: u64 = 1 << 20;

impl Opened {
    /// Number of chunks.
    pub fn nchunks(&self) -> usize {
        self.index.len()
    }

    /// Uncompressed size of chunk `nchunk`, in bytes, as far as the header tells: not in frames whose chunks
    /// have individual sizes.
    pub fn expected_nbytes(&self, nchunk: usize) -> Option<u64> {
        let chunksize = self.header.chunksize() as u64;
        if chunksize == 0 || nchunk >= self.nchunks() {
            return None;
        }
        let rest = self.header.nbytes.checked_rem(chunksize).unwrap_or(0);
        let last = nchunk.checked_add(1) == Some(self.nchunks());
        Some(if last && rest != 0 { rest } else { chunksize })
    }

    /// A plan that reads chunk `nchunk`.
    ///
    /// # Errors
    /// When there is no such chunk, its entry is malformed, or it is above a limit.
    pub fn chunk_plan(&self, nchunk: usize, dparams: &DParams) -> Result<ChunkPlan, FrameError> {
        Ok(match self.index.entry(nchunk)? {
            Entry::Special(kind) => ChunkPlan::made(self.special_chunk(nchunk, kind, dparams)?),
            Entry::Stored(offset) => ChunkPlan::stored(self.place(nchunk, offset, dparams)?),
        })
    }

    /// A plan that reads some blocks of chunk `nchunk`.
    ///
    /// # Errors
    /// As [`Opened::chunk_plan`]; the plan itself fails when there are no such blocks.
    pub fn blocks_plan(
        &self,
        nchunk: usize,
        nblocks: &[usize],
        dparams: &DParams,
    ) -> Result<BlocksPlan, FrameError> {
        let wanted = Wanted::Blocks(nblocks.to_vec());
        Ok(match self.index.entry(nchunk)? {
            Entry::Special(kind) => {
                BlocksPlan::made(self.special_chunk(nchunk, kind, dparams)?, wanted, dparams.clone())
            }
            Entry::Stored(offset) => {
                BlocksPlan::stored(self.place(nchunk, offset, dparams)?, wanted, dparams.clone())
            }
        })
    }

    pub(crate) fn place(&self, nchunk: usize, offset: u64, dparams: &DParams) -> Result<Place, FrameError> {
        let nbytes = self.expected_nbytes(nchunk);
        within("uncompressed chunk, in bytes", nbytes.unwrap_or(0), max_chunk_nbytes(dparams))?;
        // No chunk is longer than stored plain; a wrong guess costs a second read.
        let longest = nbytes.map(|n| n.saturating_add(EXTENDED_HEADER_LEN as u64));
        let (file, start, end, guess) = match self.header.storage {
            Storage::Contiguous => {
                let data = &self.layout.data;
                let len = data.end.saturating_sub(data.start);
                if offset > len.saturating_sub(MIN_HEADER_LEN as u64) {
                    let expected = "an offset inside the chunk data";
                    return Err(FrameError::entry(nchunk, offset, expected));
                }
                let next = self.index.next_offset(offset)?.unwrap_or(len).min(len);
                let guess = next.saturating_sub(offset).min(longest.unwrap_or(u64::MAX));
                (FrameFile::Main, data.start.saturating_add(offset), data.end, guess)
            }
            Storage::Sparse => {
                let Ok(id) = u32::try_from(offset) else {
                    let expected = "a file number of at most 32 bits";
                    return Err(FrameError::entry(nchunk, offset, expected));
                };
                (FrameFile::Chunk(id), 0, u64::MAX, longest.unwrap_or(UNKNOWN_SIZE))
            }
        };
        let nblocks = match (nbytes, self.header.blocksize() as u64) {
            (Some(nbytes), blocksize) if blocksize > 0 => nbytes.div_ceil(blocksize),
            _ => 0,
        };
        let guess = guess.max(EXTENDED_HEADER_LEN as u64);
        let most = dparams.limits.max_memory;
        Ok(Place { nchunk, file, start, end, guess, nbytes, nblocks, most })
    }

    /// The chunk that a special entry stands for.
    pub(crate) fn special_chunk(
        &self,
        nchunk: usize,
        kind: SpecialKind,
        dparams: &DParams,
    ) -> Result<Chunk, FrameError> {
        let nbytes = self.special_nbytes(nchunk)?;
        within("uncompressed chunk, in bytes", nbytes, max_chunk_nbytes(dparams))?;
        let typesize = self.header.typesize();
        let nbytes = usize::try_from(nbytes).unwrap_or(usize::MAX);
        // Sizes that are no multiple of the item size cannot be told as "uninitialised"; both read as zeros.
        let kind = match kind {
            SpecialKind::Uninit if !nbytes.is_multiple_of(typesize) => SpecialKind::Zeros,
            kind => kind,
        };
        Chunk::special(kind, &[], nbytes, typesize, self.header.blocksize().min(nbytes))
            .map_err(FrameError::chunk(Structure::Chunk(nchunk)))
    }

    fn special_nbytes(&self, nchunk: usize) -> Result<u64, FrameError> {
        self.expected_nbytes(nchunk).ok_or_else(|| self.untold_size(nchunk))
    }

    /// Nothing tells the size of a special chunk where sizes are individual.
    pub(crate) fn untold_size(&self, nchunk: usize) -> FrameError {
        let raw = self.index.entry(nchunk).map_or(0, Entry::to_raw);
        let expected = "no special value in a frame whose chunks have individual sizes";
        FrameError::entry(nchunk, raw, expected)
    }
}
