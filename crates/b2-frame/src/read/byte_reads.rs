//! Reads bytes and items across chunks.

use std::ops::Range;

use b2_chunk::{ChunkError, NAN4, NAN8};

use crate::format::index::Entry;
use crate::read::disjoint::Destination;
use crate::read::local::read_places;
use crate::{FrameError, Structure, SuperChunk};

impl SuperChunk {
    /// Decompresses the bytes `range` of the data, and reads only the blocks that hold them. Works in parallel
    /// according to the [`Control`](b2_core::Control) of the frame.
    ///
    /// # Errors
    /// [`FrameError::OutOfRange`] if the range is not inside the data; [`FrameError::Limit`] if more than the limit on
    /// output is not stored; otherwise as for [`ChunkRef::decompress`](crate::ChunkRef::decompress). Errors about the
    /// content come as [`FrameError::Unreadable`] if the frame has a name.
    pub fn read_bytes(&self, range: Range<u64>) -> Result<Vec<u8>, FrameError> {
        let mut dst = self.room_for(&range)?;
        self.read_bytes_into(range.start, &mut dst)?;
        Ok(dst)
    }

    /// Decompresses the bytes from `start` on into `dst`.
    ///
    /// # Errors
    /// As for [`SuperChunk::read_bytes`].
    pub fn read_bytes_into(&self, start: u64, dst: &mut [u8]) -> Result<(), FrameError> {
        let control = self.dparams.control.begin(dst.len() as u64, self.itemsize() as u64);
        let mut reads = self.byte_reads(start, dst);
        let read = reads.try_for_each(|read| {
            let (places, dst) = read?;
            read_places(self, places, dst, &control).map(drop)
        });
        read.map_err(|error| self.explain(error))
    }

    /// Decompresses the items `range`, like [`SuperChunk::read_bytes`] in units of the item size.
    ///
    /// # Errors
    /// As for [`SuperChunk::read_bytes`].
    pub fn read_items(&self, range: Range<u64>) -> Result<Vec<u8>, FrameError> {
        self.check_range("items", &range, self.nitems())?;
        // The range is inside the data, so this cannot overflow.
        let typesize = self.itemsize() as u64;
        self.read_bytes(range.start * typesize..range.end * typesize)
    }

    /// Decompresses the items with these numbers, in this order. Numbers may repeat. Only the
    /// blocks that hold the items are read and decoded, each once.
    ///
    /// # Errors
    /// [`FrameError::OutOfRange`] if an item does not exist; otherwise as for [`SuperChunk::read_bytes`].
    pub fn gather(&self, items: &[u64]) -> Result<Vec<u8>, FrameError> {
        let (pieces, mut dst) = self.item_read(items).map_err(|error| self.add_name(error))?;
        let control = self.dparams.control.begin(dst.len() as u64, self.itemsize() as u64);
        let done = read_places(self, pieces, Destination::from(&mut dst[..]), &control);
        done.map_err(|error| self.explain(error))?;
        Ok(dst)
    }

    /// Returns the bytes of a NaN item.
    pub(crate) fn nan_pattern(&self, nchunk: usize) -> Result<&'static [u8], FrameError> {
        let nbytes = self.chunk_nbytes(nchunk)?;
        match self.itemsize() {
            4 if nbytes % 4 == 0 => Ok(&NAN4),
            8 if nbytes % 8 == 0 => Ok(&NAN8),
            typesize => {
                let expected = "4 or 8, and whole items, for the chunk of NaNs in the index";
                let at = crate::format::header::TYPESIZE_OFFSET;
                Err(FrameError::field(Structure::Header, "typesize", at, typesize as u64, expected))
            }
        }
    }

    /// Returns how many threads may read whole chunks concurrently.
    pub(crate) fn threads(&self) -> usize {
        let (chunk, block) = (self.chunksize() as u64, self.header().blocksize() as u64);
        self.dparams.limits.threads(chunk.saturating_add(3 * block))
    }

    /// Allocates memory for bytes of the data, after checking the part of them that is not stored in the file against
    /// the limit on output.
    ///
    /// # Errors
    /// As for [`read_bytes`](Self::read_bytes).
    #[doc(hidden)]
    pub fn room_for(&self, range: &Range<u64>) -> Result<Vec<u8>, FrameError> {
        self.check_range("bytes", range, self.nbytes())?;
        let chunksize = self.chunksize() as u64;
        let nchunks = match (range.start.checked_div(chunksize), chunksize) {
            // The range is inside the data, so it covers no more chunks than the index has entries.
            (Some(first), 1..) => {
                let nchunk = |n: u64| usize::try_from(n).unwrap_or(usize::MAX).min(self.nchunks());
                nchunk(first)..nchunk(range.end.div_ceil(chunksize))
            }
            _ => 0..self.nchunks(),
        };
        let nbytes = range.end - range.start;
        self.check_chunks(nchunks, nbytes).map_err(|error| self.add_name(error))?;
        Ok(crate::storage::traits::zeroed(nbytes)?)
    }

    pub(crate) fn check_range(
        &self,
        what: &'static str,
        range: &Range<u64>,
        len: u64,
    ) -> Result<(), FrameError> {
        if range.start > range.end || range.end > len {
            return Err(FrameError::OutOfRange { what, start: range.start, end: range.end, len });
        }
        Ok(())
    }

    /// Returns the chunk's name in errors.
    pub(crate) fn structure(&self, nchunk: usize) -> Structure {
        match self.entry(nchunk) {
            Ok(Entry::Stored(offset)) => self
                .opened
                .place(nchunk, offset, &self.dparams)
                .map_or(Structure::Chunk(nchunk), |place| place.structure()),
            _ => Structure::Chunk(nchunk),
        }
    }

    /// Returns the error for a chunk that does not decode.
    pub(crate) fn chunk_error(&self, nchunk: usize) -> impl FnOnce(ChunkError) -> FrameError {
        move |error| FrameError::chunk(self.structure(nchunk))(error)
    }
}
