//! Reading across chunks: bytes, items, and the sizes of chunks that have individual ones.

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

use b2_chunk::{ChunkError, SpecialKind, memory};

use crate::fetch::{BlocksPlan, Wanted};
use crate::fit::{NAN4, NAN8};
use crate::index::Entry;
use crate::plan::drive;
use crate::sizes::ChunkSizes;
use crate::{FrameError, Structure, SuperChunk};

/// Pieces made at once: their number depends on sizes in the file, and each costs a little memory.
const PIECES_AT_ONCE: usize = 1024;

/// A part of one chunk, or all of several equal ones, and where it goes.
struct Piece<'a> {
    nchunk: usize,
    /// Which bytes of the chunk.
    range: Range<usize>,
    /// Uncompressed size of the chunk.
    nbytes: u64,
    /// Longer than the range if the chunk is repeated.
    dst: &'a mut [u8],
}

impl SuperChunk {
    /// Decompresses the bytes `range` of all the data, reading only the blocks they are in. Works in parallel
    /// on the current rayon pool.
    ///
    /// # Errors
    /// When the range is not inside the data, or a chunk cannot be read or does not decode.
    pub fn read_bytes(&self, range: Range<u64>) -> Result<Vec<u8>, FrameError> {
        self.check_range("bytes", &range, self.nbytes())?;
        self.check_range_output(&range)?;
        let mut dst = crate::storage::zeroed(range.end - range.start)?;
        self.read_bytes_into(range.start, &mut dst)?;
        Ok(dst)
    }

    /// Decompresses the bytes from `start` on into `dst`.
    ///
    /// # Errors
    /// As [`SuperChunk::read_bytes`].
    pub fn read_bytes_into(&self, start: u64, dst: &mut [u8]) -> Result<(), FrameError> {
        let end = start.saturating_add(dst.len() as u64);
        self.check_range("bytes", &(start..end), self.nbytes())?;
        let chunksize = self.chunksize() as u64;
        // Not needed where all have the same size.
        let sizes =
            if chunksize == 0 && !dst.is_empty() { self.chunk_sizes()? } else { &ChunkSizes::default() };
        let (mut at, mut rest) = (start, dst);
        while !rest.is_empty() {
            let (mut pieces, mut nbytes) = (Vec::new(), 0);
            while !rest.is_empty() && pieces.len() < PIECES_AT_ONCE {
                let piece = self.next_piece(at, &mut rest, chunksize, sizes)?;
                at += piece.dst.len() as u64;
                nbytes += piece.dst.len() as u64;
                memory::push(&mut pieces, piece)?;
            }
            b2_chunk::parallel::for_each_on(
                self.threads(),
                pieces.into_iter(),
                nbytes,
                || Ok(()),
                |(), piece| self.read_piece(piece),
            )?;
        }
        Ok(())
    }

    /// Decompresses the items `range`: [`SuperChunk::read_bytes`] in units of the item size.
    ///
    /// # Errors
    /// As [`SuperChunk::read_bytes`].
    pub fn read_items(&self, range: Range<u64>) -> Result<Vec<u8>, FrameError> {
        self.check_range("items", &range, self.nitems())?;
        // Inside nbytes, so it cannot overflow.
        let typesize = self.typesize() as u64;
        self.read_bytes(range.start * typesize..range.end * typesize)
    }

    /// Cuts the next piece off `rest`, which takes the bytes from `at` on.
    fn next_piece<'a>(
        &self,
        at: u64,
        rest: &mut &'a mut [u8],
        chunksize: u64,
        sizes: &ChunkSizes,
    ) -> Result<Piece<'a>, FrameError> {
        let (nchunk, chunk, mut end) = if let Some(nchunk) = at.checked_div(chunksize) {
            let start = nchunk * chunksize;
            let chunk = start..start.saturating_add(chunksize).min(self.nbytes());
            let (entry, run) = self.index().run(usize::try_from(nchunk).unwrap_or(usize::MAX))?;
            let mut end = chunk.end;
            if matches!(entry, Entry::Special(_)) {
                end = (run.end as u64).saturating_mul(chunksize).min(self.nbytes());
            } else if run.len() > 1 && at == start && chunk.end - start == chunksize {
                // Many chunks that share their bytes are read once. The last one may be shorter.
                let equal = (run.end as u64).min(self.nbytes() / chunksize);
                end = equal.saturating_mul(chunksize).max(chunk.end);
            }
            (usize::try_from(nchunk).unwrap_or(usize::MAX), chunk, end)
        } else {
            match sizes.chunk_at(at) {
                Some((nchunk, chunk, equal)) => {
                    let end = if at == chunk.start { equal } else { chunk.end };
                    (nchunk, chunk, end)
                }
                // Not reached: the range was inside all chunks.
                None => {
                    return Err(FrameError::OutOfRange {
                        what: "bytes",
                        start: at,
                        end: at,
                        len: self.nbytes(),
                    });
                }
            }
        };
        end = end.min(at.saturating_add(rest.len() as u64));
        // Not beyond `rest`.
        let len = usize::try_from(end - at).unwrap_or(rest.len());
        let (dst, others) = std::mem::take(rest).split_at_mut(len);
        *rest = others;
        // Both are inside one chunk, whose size fits 32 bits.
        let inside = |at: u64| usize::try_from(at - chunk.start).unwrap_or(usize::MAX);
        let range = inside(at)..inside(end.min(chunk.end));
        Ok(Piece { nchunk, range, nbytes: chunk.end - chunk.start, dst })
    }

    fn read_piece(&self, piece: Piece<'_>) -> Result<(), FrameError> {
        let Piece { nchunk, range, nbytes, dst } = piece;
        match self.entry(nchunk)? {
            Entry::Special(kind) => self.fill_special(nchunk, kind, range.start, dst),
            Entry::Stored(_) if range.len() as u64 == nbytes => {
                let (first, others) = dst.split_at_mut(range.len());
                self.decompress_chunk_into(nchunk, first)?;
                for other in others.chunks_mut(first.len().max(1)) {
                    other.copy_from_slice(first.get(..other.len()).unwrap_or_default());
                }
                Ok(())
            }
            Entry::Stored(offset) => {
                self.compare_part(nchunk)?;
                let place = self.opened.place(nchunk, offset, &self.dparams)?;
                let plan = BlocksPlan::stored(place, Wanted::Bytes(range.clone()), self.dparams.clone());
                drive(plan, &*self.files)?.decode_range(range, dst, &self.dparams)
            }
        }
    }

    /// The plain bytes of a special chunk from byte `start` of it on; repeats as long as `dst` is.
    pub(crate) fn fill_special(
        &self,
        nchunk: usize,
        kind: SpecialKind,
        start: usize,
        dst: &mut [u8],
    ) -> Result<(), FrameError> {
        if kind != SpecialKind::NaN {
            dst.fill(0);
            return Ok(());
        }
        let mut pattern = self.nan_pattern(nchunk)?.to_vec();
        // The last chunk that this reaches may be shorter, and then have no whole items.
        let further = start.saturating_add(dst.len()).saturating_sub(1).checked_div(self.chunksize());
        if let Some(further @ 1..) = further {
            self.nan_pattern(nchunk.saturating_add(further))?;
        }
        let skip = start % pattern.len();
        pattern.rotate_left(skip);
        b2_chunk::fill(dst, &pattern, 0);
        Ok(())
    }

    /// The bytes of a NaN item.
    fn nan_pattern(&self, nchunk: usize) -> Result<&'static [u8], FrameError> {
        let nbytes = self.chunk_nbytes(nchunk)?;
        match self.typesize() {
            4 if nbytes % 4 == 0 => Ok(&NAN4),
            8 if nbytes % 8 == 0 => Ok(&NAN8),
            typesize => {
                let expected = "4 or 8, and whole items, for the chunk of NaNs in the index";
                let at = crate::header::TYPESIZE_OFFSET;
                Err(FrameError::field(Structure::Header, "typesize", at, typesize as u64, expected))
            }
        }
    }

    /// How many threads may read whole chunks at once.
    pub(crate) fn threads(&self) -> usize {
        let (chunk, block) = (self.chunksize() as u64, self.header().blocksize() as u64);
        self.dparams.limits.threads(chunk.saturating_add(3 * block))
    }

    /// Compares what no stored data stands for in a result with the limit for output.
    fn check_range_output(&self, range: &Range<u64>) -> Result<(), FrameError> {
        let chunksize = self.chunksize() as u64;
        let nchunks = match (range.start.checked_div(chunksize), chunksize) {
            // The range is inside the data, so chunks are fewer than the index has entries.
            (Some(first), 1..) => {
                let nchunk = |n: u64| usize::try_from(n).unwrap_or(usize::MAX).min(self.nchunks());
                nchunk(first)..nchunk(range.end.div_ceil(chunksize))
            }
            _ => 0..self.nchunks(),
        };
        self.check_chunks(nchunks, range.end - range.start)
    }

    fn check_range(&self, what: &'static str, range: &Range<u64>, len: u64) -> Result<(), FrameError> {
        if range.start > range.end || range.end > len {
            return Err(FrameError::OutOfRange { what, start: range.start, end: range.end, len });
        }
        Ok(())
    }

    /// The chunk, as errors name it.
    pub(crate) fn structure(&self, nchunk: usize) -> Structure {
        match self.entry(nchunk) {
            Ok(Entry::Stored(offset)) => self
                .opened
                .place(nchunk, offset, &self.dparams)
                .map_or(Structure::Chunk(nchunk), |place| place.structure()),
            _ => Structure::Chunk(nchunk),
        }
    }

    pub(crate) fn chunk_error(&self, nchunk: usize) -> impl FnOnce(ChunkError) -> FrameError {
        move |source| FrameError::Chunk { structure: self.structure(nchunk), source }
    }
}
