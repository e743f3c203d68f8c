//! Reading across chunks: bytes, items, and the sizes of chunks that have individual ones.

use std::ops::Range;

use b2_chunk::{Chunk, ChunkError, ChunkHeader, SpecialKind};

use crate::error::within;
use crate::fetch::{BlocksPlan, HeadersPlan, Wanted};
use crate::fit::{NAN4, NAN8};
use crate::header::NBYTES_OFFSET;
use crate::index::Entry;
use crate::plan::drive;
use crate::{FrameError, Structure, SuperChunk};

/// Chunk headers asked for at once.
const HEADERS_AT_ONCE: usize = 4096;

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
        let mut dst = crate::storage::zeroed(range.end - range.start).map_err(FrameError::io("memory"))?;
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
        let starts = if chunksize == 0 && !dst.is_empty() { self.chunk_starts()? } else { &[] };
        let (mut at, mut rest) = (start, dst);
        while !rest.is_empty() {
            let (mut pieces, mut nbytes) = (Vec::new(), 0);
            while !rest.is_empty() && pieces.len() < PIECES_AT_ONCE {
                let piece = self.next_piece(at, &mut rest, chunksize, starts)?;
                at += piece.dst.len() as u64;
                nbytes += piece.dst.len() as u64;
                pieces.push(piece);
            }
            crate::parallel::for_each(pieces, nbytes, || Ok(()), |(), piece| self.read_piece(piece))?;
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

    /// Uncompressed size of chunk `nchunk`, in bytes. Where chunks have individual sizes this reads the
    /// chunk's header.
    ///
    /// # Errors
    /// When there is no such chunk, or its header cannot be read.
    pub fn chunk_nbytes(&self, nchunk: usize) -> Result<u64, FrameError> {
        if let Some(nbytes) = self.opened.expected_nbytes(nchunk) {
            return Ok(nbytes);
        }
        if self.starts.get().is_none()
            && let Some(header) = self.chunk_header(nchunk)?
        {
            return Ok(header.nbytes() as u64);
        }
        let starts = self.chunk_starts()?;
        match (starts.get(nchunk), starts.get(nchunk + 1)) {
            (Some(start), Some(end)) => Ok(end - start),
            // Tells that there is no such chunk.
            _ => self.entry(nchunk).map(|_| 0),
        }
    }

    /// The headers of stored chunks.
    pub(crate) fn headers(&self, nchunks: Range<usize>) -> Result<Vec<ChunkHeader>, FrameError> {
        let mut places = Vec::with_capacity(nchunks.len());
        for nchunk in nchunks {
            if let Entry::Stored(offset) = self.entry(nchunk)? {
                places.push(self.opened.place(nchunk, offset, &self.dparams)?);
            }
        }
        drive(HeadersPlan::new(places), &*self.files)
    }

    /// First byte of each chunk, and the end of the last. Read once; only for chunks of individual sizes.
    fn chunk_starts(&self) -> Result<&[u64], FrameError> {
        if let Some(starts) = self.starts.get() {
            return Ok(starts);
        }
        let n = self.nchunks();
        within("table of chunk sizes, in bytes", n as u64 * 8, self.dparams.limits.max_metadata)?;
        let mut sizes: Vec<Option<u64>> = Vec::with_capacity(n);
        for first in (0..n).step_by(HEADERS_AT_ONCE) {
            let range = first..(first + HEADERS_AT_ONCE).min(n);
            let mut headers = self.headers(range.clone())?.into_iter();
            for nchunk in range {
                sizes.push(match self.entry(nchunk)? {
                    Entry::Stored(_) => headers.next().map(|header| header.nbytes() as u64),
                    Entry::Special(_) => None,
                });
            }
        }
        let known = sizes.iter().flatten().fold(0, |sum: u64, size| sum.saturating_add(*size));
        // C-Blosc2 writes special entries into such frames, where their size is not told. That of a single
        // one follows from the others.
        let rest = self.nbytes().checked_sub(known);
        let unknown = sizes.iter().filter(|size| size.is_none()).count();
        let rest = match (rest, unknown) {
            (Some(0), 0) => 0,
            (Some(rest), 1) => rest,
            (Some(_), 2..) => {
                let nchunk = sizes.iter().position(|size| size.is_none()).unwrap_or(0);
                return self.opened.chunk_plan(nchunk, &self.dparams).map(|_| &[][..]);
            }
            _ => {
                let expected = "the sum of the chunks' sizes";
                let value = self.nbytes();
                return Err(FrameError::field(Structure::Header, "nbytes", NBYTES_OFFSET, value, expected));
            }
        };
        let mut starts = Vec::with_capacity(n + 1);
        let mut start = 0;
        starts.push(start);
        for size in sizes {
            start += size.unwrap_or(rest);
            starts.push(start);
        }
        Ok(self.starts.get_or_init(|| starts))
    }

    /// A special chunk in a frame whose chunks have individual sizes.
    pub(crate) fn inferred_special(&self, nchunk: usize, kind: SpecialKind) -> Result<Chunk, FrameError> {
        let nbytes = self.chunk_nbytes(nchunk)?;
        within("uncompressed chunk, in bytes", nbytes, self.dparams.limits.max_chunk_nbytes)?;
        let kind = if kind == SpecialKind::Uninit { SpecialKind::Zeros } else { kind };
        Chunk::special(kind, &[], nbytes as usize, self.typesize(), 0).map_err(self.chunk_error(nchunk))
    }

    /// Cuts the next piece off `rest`, which takes the bytes from `at` on.
    fn next_piece<'a>(
        &self,
        at: u64,
        rest: &mut &'a mut [u8],
        chunksize: u64,
        starts: &[u64],
    ) -> Result<Piece<'a>, FrameError> {
        let (nchunk, chunk, mut end) = if let Some(nchunk) = at.checked_div(chunksize) {
            let start = nchunk * chunksize;
            let chunk = start..start.saturating_add(chunksize).min(self.nbytes());
            let (entry, run) = self.index().run(nchunk as usize)?;
            let mut end = chunk.end;
            if matches!(entry, Entry::Special(_)) {
                end = (run.end as u64).saturating_mul(chunksize).min(self.nbytes());
            } else if run.len() > 1 && at == start && chunk.end - start == chunksize {
                // Many chunks that share their bytes are read once. The last one may be shorter.
                let equal = (run.end as u64).min(self.nbytes() / chunksize);
                end = equal.saturating_mul(chunksize).max(chunk.end);
            }
            (nchunk as usize, chunk, end)
        } else {
            // The last chunk that starts here; those before it at the same place are empty.
            let nchunk = starts.partition_point(|start| *start <= at).saturating_sub(1);
            match (starts.get(nchunk), starts.get(nchunk + 1)) {
                (Some(start), Some(end)) => (nchunk, *start..*end, *end),
                // Not reached: the range was inside all chunks.
                _ => {
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
        let len = (end - at) as usize;
        let (dst, others) = std::mem::take(rest).split_at_mut(len);
        *rest = others;
        // Both are inside one chunk, whose size fits 32 bits.
        let range = (at - chunk.start) as usize..(end.min(chunk.end) - chunk.start) as usize;
        Ok(Piece { nchunk, range, nbytes: chunk.end - chunk.start, dst })
    }

    fn read_piece(&self, piece: Piece<'_>) -> Result<(), FrameError> {
        let Piece { nchunk, range, nbytes, dst } = piece;
        match self.entry(nchunk)? {
            Entry::Special(SpecialKind::NaN) => {
                let mut pattern = self.nan_pattern(nchunk)?.to_vec();
                let skip = range.start % pattern.len();
                pattern.rotate_left(skip);
                for item in dst.chunks_mut(pattern.len()) {
                    item.copy_from_slice(pattern.get(..item.len()).unwrap_or_default());
                }
                Ok(())
            }
            Entry::Special(_) => {
                dst.fill(0);
                Ok(())
            }
            Entry::Stored(_) if range.len() as u64 == nbytes => {
                let (first, others) = dst.split_at_mut(range.len());
                self.decompress_chunk_into(nchunk, first)?;
                for other in others.chunks_mut(first.len().max(1)) {
                    other.copy_from_slice(first.get(..other.len()).unwrap_or_default());
                }
                Ok(())
            }
            Entry::Stored(offset) => {
                let place = self.opened.place(nchunk, offset, &self.dparams)?;
                let plan = BlocksPlan::stored(place, Wanted::Bytes(range.clone()), self.dparams.clone());
                drive(plan, &*self.files)?.decode_range(range, dst, &self.dparams)
            }
        }
    }

    /// The bytes of a NaN item.
    fn nan_pattern(&self, nchunk: usize) -> Result<&'static [u8], FrameError> {
        let nbytes = self.chunk_nbytes(nchunk)?;
        match self.typesize() {
            4 if nbytes % 4 == 0 => Ok(&NAN4),
            8 if nbytes % 8 == 0 => Ok(&NAN8),
            typesize => {
                let at = nchunk as u64 * 8;
                let expected = "items of 4 or 8 bytes, and whole ones, in a chunk of NaNs";
                Err(FrameError::field(Structure::Index, "entry", at, typesize as u64, expected))
            }
        }
    }

    fn check_range(&self, what: &'static str, range: &Range<u64>, len: u64) -> Result<(), FrameError> {
        if range.start > range.end || range.end > len {
            return Err(FrameError::OutOfRange { what, start: range.start, end: range.end, len });
        }
        Ok(())
    }

    pub(crate) fn chunk_error(&self, nchunk: usize) -> impl FnOnce(ChunkError) -> FrameError {
        FrameError::chunk(Structure::Chunk(nchunk))
    }
}
