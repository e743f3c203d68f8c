//! Determines where chunks are, and what is known about them before they are read.

use b2_chunk::{Chunk, DParams, EXTENDED_HEADER_LEN, MIN_HEADER_LEN, SpecialKind};

use crate::error::{max_chunk_nbytes, within};
use crate::format::header::Storage;
use crate::format::index::Entry;
use crate::names::FrameFile;
use crate::read::head::Place;
use crate::read::open::Opened;
use crate::{FrameError, Structure};

/// Length of the first read of a chunk file if the frame does not define the chunk's size, in
/// bytes.
const UNKNOWN_SIZE: u64 = 1 << 20;

impl Opened {
    /// Returns the number of chunks.
    pub fn nchunks(&self) -> usize {
        self.index.len()
    }

    /// Returns the uncompressed size of chunk `nchunk` in bytes, if the header defines it: not in
    /// frames with individual chunk sizes.
    pub fn expected_nbytes(&self, nchunk: usize) -> Option<u64> {
        let chunksize = self.header.chunksize() as u64;
        if chunksize == 0 || nchunk >= self.nchunks() {
            return None;
        }
        let rest = self.header.nbytes.checked_rem(chunksize).unwrap_or(0);
        let last = nchunk.checked_add(1) == Some(self.nchunks());
        Some(if last && rest != 0 { rest } else { chunksize })
    }

    pub(crate) fn place(&self, nchunk: usize, offset: u64, dparams: &DParams) -> Result<Place, FrameError> {
        let nbytes = self.expected_nbytes(nchunk);
        within("uncompressed chunk, in bytes", nbytes.unwrap_or(0), max_chunk_nbytes(dparams))?;
        // No chunk is longer than its uncompressed form. A wrong guess costs a second read.
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

    /// Creates the chunk that a special entry stands for.
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
        // An uninitialised chunk must have whole items, so others become zeros, which read the
        // same.
        let kind = match kind {
            SpecialKind::Uninit if !nbytes.is_multiple_of(typesize) => SpecialKind::Zeros,
            kind => kind,
        };
        Chunk::special(kind, &[], nbytes, typesize, self.header.blocksize().min(nbytes))
            .map(|chunk| chunk.with_nchunk(Some(nchunk)))
            .map_err(FrameError::chunk(Structure::Chunk(nchunk)))
    }

    fn special_nbytes(&self, nchunk: usize) -> Result<u64, FrameError> {
        self.expected_nbytes(nchunk).ok_or_else(|| self.untold_size(nchunk))
    }

    /// Returns the error for a special chunk in a frame with individual chunk sizes, where nothing
    /// defines its size.
    pub(crate) fn untold_size(&self, nchunk: usize) -> FrameError {
        let raw = self.index.entry(nchunk).map_or(0, Entry::to_raw);
        let expected = "no special value in a frame whose chunks have individual sizes";
        FrameError::entry(nchunk, raw, expected)
    }
}
