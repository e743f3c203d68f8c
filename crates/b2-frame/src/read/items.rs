//! Reads bytes and items across chunks.

use std::ops::Range;

use b2_chunk::{ChunkError, NAN4, NAN8, SpecialKind};
use b2_core::memory;

use crate::format::index::Entry;
use crate::read::fetch::Wanted;
use crate::read::sizes::ChunkSizes;
use crate::storage::files::together;
use crate::{FrameError, Structure, SuperChunk};

/// Number of pieces that are made at once. The file determines how many there are, and each takes
/// some memory.
const PIECES_AT_ONCE: usize = 1024;

/// A part of one chunk, or several whole equal chunks, with its destination.
struct Piece<'a> {
    nchunk: usize,
    /// The range of bytes in the chunk.
    range: Range<usize>,
    /// Uncompressed size of the chunk.
    nbytes: u64,
    /// The destination, which is longer than the range if the chunk is repeated.
    dst: &'a mut [u8],
}

impl SuperChunk {
    /// Decompresses the bytes `range` of the data, and reads only the blocks that hold them. Works
    /// in parallel on the current rayon pool.
    ///
    /// # Errors
    /// When the range is not inside the data, or a chunk cannot be read or does not decode.
    pub fn read_bytes(&self, range: Range<u64>) -> Result<Vec<u8>, FrameError> {
        self.check_bytes(&range)?;
        let mut dst = crate::storage::traits::zeroed(range.end - range.start)?;
        self.read_bytes_into(range.start, &mut dst)?;
        Ok(dst)
    }

    /// Decompresses the bytes from `start` on into `dst`.
    ///
    /// # Errors
    /// As for [`SuperChunk::read_bytes`].
    pub fn read_bytes_into(&self, start: u64, dst: &mut [u8]) -> Result<(), FrameError> {
        let end = start.saturating_add(dst.len() as u64);
        self.check_range("bytes", &(start..end), self.nbytes())?;
        let chunksize = self.chunksize() as u64;
        // The table of sizes is not needed if all chunks have the same size.
        let sizes =
            if chunksize == 0 && !dst.is_empty() { self.chunk_sizes()? } else { &ChunkSizes::default() };
        let (control, frame) = &self.begin(dst.len() as u64);
        let (mut at, mut rest) = (start, dst);
        while !rest.is_empty() {
            let (mut pieces, mut nbytes) = (Vec::new(), 0);
            while !rest.is_empty() && pieces.len() < PIECES_AT_ONCE {
                let piece = self.next_piece(at, &mut rest, chunksize, sizes)?;
                at += piece.dst.len() as u64;
                nbytes += piece.dst.len() as u64;
                memory::push(&mut pieces, piece)?;
            }
            let read = |piece: Piece<'_>| {
                let nbytes = piece.dst.len();
                frame.read_piece(piece)?;
                control.advance(nbytes as u64).map_err(FrameError::from)
            };
            let waiting = self.files.in_flight();
            if waiting > 1 {
                // Threads of their own, since they mostly wait.
                let chunk = (self.chunksize() as u64).max(1);
                together(pieces.into_iter(), waiting.min(self.dparams.limits.threads(2 * chunk)), read)?;
                continue;
            }
            b2_core::for_each(
                control,
                self.threads(),
                pieces.into_iter(),
                nbytes,
                || Ok(()),
                |(), piece| read(piece),
            )?;
        }
        Ok(())
    }

    /// Decompresses the items `range`, like [`SuperChunk::read_bytes`] in units of the item size.
    ///
    /// # Errors
    /// As for [`SuperChunk::read_bytes`].
    pub fn read_items(&self, range: Range<u64>) -> Result<Vec<u8>, FrameError> {
        self.check_range("items", &range, self.nitems())?;
        // The range is inside the data, so this cannot overflow.
        let typesize = self.typesize() as u64;
        self.read_bytes(range.start * typesize..range.end * typesize)
    }

    /// Splits the next piece off `rest`, whose first byte is byte `at` of the data.
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
                // Chunks that share their bytes are decoded once. The last one may be shorter.
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
                // This cannot happen, since the range is inside the data.
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
        if self.dparams.has_postfilter() {
            // A postfilter sees the chunk number, so equal chunks may read differently.
            end = end.min(chunk.end);
        }
        end = end.min(at.saturating_add(rest.len() as u64));
        // The piece is not longer than `rest`.
        let len = usize::try_from(end - at).unwrap_or(rest.len());
        let (dst, others) = std::mem::take(rest).split_at_mut(len);
        *rest = others;
        // Both offsets are inside one chunk, whose size fits 32 bits.
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
            Entry::Stored(_) => {
                let plan = self.plan_blocks(nchunk, Wanted::Bytes(range.clone()))?;
                let stored = self.driver().run(plan);
                let decoded = stored.and_then(|stored| stored.decode_range(range, dst, &self.dparams));
                decoded.map_err(|error| self.explain(error))
            }
        }
    }

    /// Fills `dst` with the plain bytes of a special chunk, starting at byte `start`. If `dst` is
    /// longer than the chunk, the content is repeated.
    pub(crate) fn fill_special(
        &self,
        nchunk: usize,
        kind: SpecialKind,
        start: usize,
        dst: &mut [u8],
    ) -> Result<(), FrameError> {
        if self.dparams.has_postfilter() {
            let chunk = self.chunk(nchunk)?;
            return chunk.get_bytes_into(start, dst, &self.dparams).map_err(self.chunk_error(nchunk));
        }
        if kind != SpecialKind::NaN {
            dst.fill(0);
            return Ok(());
        }
        let mut pattern = self.nan_pattern(nchunk)?.to_vec();
        // The last chunk that this reaches may be shorter, and then may not have whole items.
        let further = start.saturating_add(dst.len()).saturating_sub(1).checked_div(self.chunksize());
        if let Some(further @ 1..) = further {
            self.nan_pattern(nchunk.saturating_add(further))?;
        }
        let skip = start % pattern.len();
        pattern.rotate_left(skip);
        b2_chunk::fill(dst, &pattern, 0);
        Ok(())
    }

    /// Returns the bytes of a NaN item.
    fn nan_pattern(&self, nchunk: usize) -> Result<&'static [u8], FrameError> {
        let nbytes = self.chunk_nbytes(nchunk)?;
        match self.typesize() {
            4 if nbytes % 4 == 0 => Ok(&NAN4),
            8 if nbytes % 8 == 0 => Ok(&NAN8),
            typesize => {
                let expected = "4 or 8, and whole items, for the chunk of NaNs in the index";
                let at = crate::format::header::TYPESIZE_OFFSET;
                Err(FrameError::field(Structure::Header, "typesize", at, typesize as u64, expected))
            }
        }
    }

    /// Returns how many threads may read whole chunks at once.
    pub(crate) fn threads(&self) -> usize {
        let (chunk, block) = (self.chunksize() as u64, self.header().blocksize() as u64);
        self.dparams.limits.threads(chunk.saturating_add(3 * block))
    }

    /// Makes the checks of [`read_bytes`](Self::read_bytes).
    #[doc(hidden)]
    pub fn check_bytes(&self, range: &Range<u64>) -> Result<(), FrameError> {
        self.check_range("bytes", range, self.nbytes())?;
        self.check_range_output(range)
    }

    /// Checks the part of a result that is not stored in the file against the limit on output.
    fn check_range_output(&self, range: &Range<u64>) -> Result<(), FrameError> {
        let chunksize = self.chunksize() as u64;
        let nchunks = match (range.start.checked_div(chunksize), chunksize) {
            // The range is inside the data, so it covers no more chunks than the index has entries.
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

    pub(crate) fn chunk_error(&self, nchunk: usize) -> impl FnOnce(ChunkError) -> FrameError {
        move |source| FrameError::Chunk { structure: self.structure(nchunk), source }
    }
}
