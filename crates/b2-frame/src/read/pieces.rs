//! Byte ranges and lists of items: the places of a read in one dimension.

use std::ops::Range;

use b2_chunk::{BlockDecoder, DParams, LazyChunk, SpecialKind};
use b2_core::memory;

use crate::format::index::Entry;
use crate::read::disjoint::Destination;
use crate::read::scatter_plan::Target;
use crate::read::scatter_plan::{ResolvedPart, ScatterPlan};
use crate::read::sizes::ChunkSizes;
use crate::{FrameError, SuperChunk};

/// Maximum number of chunks of a byte range whose positions are in memory at a time. The file determines how many there
/// are, and each takes some memory.
const MAX_PARTS: usize = 1024;
/// Number of bytes that are decoded for each byte of a single item, roughly.
const PER_ITEM: u64 = 256;

/// Bytes of a frame, and where they go in a destination.
pub(crate) struct Pieces {
    frame: SuperChunk,
    parts: Vec<ChunkPieces>,
    nbytes: u64,
    work: u64,
}

/// Selected bytes of one chunk.
struct ChunkPieces {
    nchunk: usize,
    /// They start and end in ascending order, and are not empty.
    pieces: Vec<Piece>,
    /// Size in the destination, if it is more than that of the only piece: the chunk is followed by others
    /// with the same content.
    repeated: Option<usize>,
}

/// Consecutive bytes of a chunk.
#[derive(Clone, Copy)]
struct Piece {
    /// Offset in the chunk.
    start: usize,
    len: usize,
    /// Offset in the destination.
    at: usize,
}

impl Piece {
    fn end(&self) -> usize {
        self.start + self.len
    }
}

impl ChunkPieces {
    /// Returns the pieces that lie in a range of the chunk, at least partly.
    fn within(&self, range: &Range<usize>) -> &[Piece] {
        let first = self.pieces.partition_point(|piece| piece.end() <= range.start);
        let last = self.pieces.partition_point(|piece| piece.start < range.end);
        self.pieces.get(first..last).unwrap_or_default()
    }
}

impl SuperChunk {
    /// Divides a read of the bytes from `start` on into `dst` into reads of bounded size: which bytes, and where they go.
    /// There is at least one. In frames with individual chunk sizes, these must have been read.
    ///
    /// # Errors
    /// When the range is not inside the data, the index is damaged, or there is not enough memory.
    #[doc(hidden)]
    pub fn byte_reads<'d>(
        &self,
        start: u64,
        dst: &'d mut [u8],
    ) -> impl Iterator<Item = Result<(impl ScatterPlan<Error = FrameError>, Destination<'d>), FrameError>>
    {
        let end = start.saturating_add(dst.len() as u64);
        let mut rest = Some((start, dst));
        std::iter::from_fn(move || {
            let (at, dst) = rest.take()?;
            Some(self.pieces_of_bytes(at, end).map(|(pieces, next)| {
                // The pieces end at or before the end of the destination.
                let (now, later) = dst.split_at_mut((next - at) as usize);
                rest = (!later.is_empty()).then_some((next, later));
                (pieces, Destination::from(now))
            }))
        })
    }

    /// Returns the places of the bytes `start..end` of the data in a destination of that size, and their end.
    /// If they do not fit into one read, these are only the first bytes.
    fn pieces_of_bytes(&self, start: u64, end: u64) -> Result<(Pieces, u64), FrameError> {
        self.check_range("bytes", &(start..end), self.nbytes())?;
        let sizes = self.sizes_at_hand(start < end)?;
        let (mut parts, mut at) = (Vec::new(), start);
        while at < end && parts.len() < MAX_PARTS {
            let (part, next) = self.next_part(at, end, (at - start) as usize, sizes)?;
            memory::push(&mut parts, part)?;
            at = next;
        }
        let nbytes = at - start;
        Ok((Pieces { frame: self.clone(), parts, nbytes, work: nbytes }, at))
    }

    /// Returns the part of the bytes `at..end` that lies in the chunk of byte `at` and in following chunks
    /// with the same content, and its end.
    fn next_part(
        &self,
        at: u64,
        end: u64,
        to: usize,
        sizes: &ChunkSizes,
    ) -> Result<(ChunkPieces, u64), FrameError> {
        let (nchunk, chunk) = self.chunk_of(at, sizes)?;
        let mut until = chunk.end;
        // A postfilter gets the chunk number, so equal chunks may return different bytes.
        if !self.dparams.has_postfilter() {
            let (entry, run) = self.index().run(nchunk)?;
            let size = chunk.end - chunk.start;
            // Chunks that share their bytes are decoded once. The last one may be shorter.
            let same = match entry {
                Entry::Special(_) => self.nbytes().saturating_sub(chunk.start).div_ceil(size.max(1)),
                Entry::Stored(_) if at == chunk.start => self.nbytes().saturating_sub(at) / size.max(1),
                Entry::Stored(_) => 1,
            };
            let same = same.min((run.end - nchunk) as u64);
            until = chunk.start.saturating_add(same.saturating_mul(size)).min(self.nbytes()).max(until);
        }
        until = until.min(end);
        // Both offsets are inside one chunk, whose size fits 32 bits, and the destination fits in memory.
        let (start, len) = ((at - chunk.start) as usize, (until - at) as usize);
        let inside = (until.min(chunk.end) - at) as usize;
        let repeated = (inside < len).then_some(len);
        Ok((ChunkPieces { nchunk, pieces: vec![Piece { start, len: inside, at: to }], repeated }, until))
    }

    /// Returns the places of items, of the first one first, and so on, in a destination of their size, and its memory.
    /// Numbers may repeat. In frames with individual chunk sizes, these must have been read.
    ///
    /// # Errors
    /// When an item does not exist, the items exceed the limit on output, or there is not enough memory.
    #[doc(hidden)]
    pub fn item_read(
        &self,
        items: &[u64],
    ) -> Result<(impl ScatterPlan<Error = FrameError> + use<>, Vec<u8>), FrameError> {
        let total = (items.len() as u64).saturating_mul(self.itemsize() as u64);
        self.check_chunks(0..self.nchunks(), total.min(self.nbytes()))?;
        let dst = crate::storage::traits::zeroed(total)?;
        Ok((self.pieces_of_items(items)?, dst))
    }

    fn pieces_of_items(&self, items: &[u64]) -> Result<Pieces, FrameError> {
        let len = self.nitems();
        if let Some(&bad) = items.iter().find(|item| **item >= len) {
            return Err(FrameError::OutOfRange {
                what: "items",
                start: bad,
                end: bad.saturating_add(1),
                len,
            });
        }
        let sizes = self.sizes_at_hand(!items.is_empty())?;
        let (typesize, limits) = (self.itemsize(), &self.dparams.limits);
        let mut placed = memory::list(items.len())?;
        let (mut nchunk, mut chunk) = (0, 0..0);
        for (number, item) in items.iter().enumerate() {
            let mut at = item * typesize as u64;
            let end = at + typesize as u64;
            // An item may span chunks.
            while at < end {
                if !chunk.contains(&at) {
                    (nchunk, chunk) = self.chunk_of(at, sizes)?;
                }
                let len = (end.min(chunk.end) - at) as usize;
                let to = (number + 1) * typesize - (end - at) as usize;
                let piece = Piece { start: (at - chunk.start) as usize, len, at: to };
                memory::push(&mut placed, (nchunk, piece))?;
                // The file determines how many chunks an item spans.
                let more = placed.len().saturating_sub(items.len()) as u64;
                let each = (size_of::<ChunkPieces>() + 2 * size_of::<(usize, Piece)>()) as u64;
                limits.check_memory("list of parts of items, in bytes", more.saturating_mul(each))?;
                at += len as u64;
            }
        }
        let order = |(nchunk, piece): &(usize, Piece)| (*nchunk, piece.start, piece.at);
        if !placed.is_sorted_by_key(order) {
            placed.sort_unstable_by_key(order);
        }
        let mut parts = Vec::new();
        for group in placed.chunk_by(|a, b| a.0 == b.0) {
            let Some(&(nchunk, _)) = group.first() else { continue };
            let pieces = memory::collect(group.iter().map(|(_, piece)| *piece))?;
            memory::push(&mut parts, ChunkPieces { nchunk, pieces, repeated: None })?;
        }
        let nbytes = items.len() as u64 * typesize as u64;
        Ok(Pieces { frame: self.clone(), parts, nbytes, work: nbytes.saturating_mul(PER_ITEM) })
    }

    /// Returns the sizes of chunks, if they are individual and `needed`.
    fn sizes_at_hand(&self, needed: bool) -> Result<&ChunkSizes, FrameError> {
        static EQUAL: ChunkSizes = ChunkSizes::equal();
        if self.chunksize() == 0 && needed { self.chunk_sizes() } else { Ok(&EQUAL) }
    }

    /// Returns the chunk that holds byte `at`, and its range in the data.
    fn chunk_of(&self, at: u64, sizes: &ChunkSizes) -> Result<(usize, Range<u64>), FrameError> {
        let chunksize = self.chunksize() as u64;
        let found = match at.checked_div(chunksize) {
            Some(nchunk) => {
                let start = nchunk * chunksize;
                let end = start.saturating_add(chunksize).min(self.nbytes());
                usize::try_from(nchunk).ok().map(|nchunk| (nchunk, start..end))
            }
            None => sizes.chunk_at(at),
        };
        // The position is inside the data, so there is a chunk.
        found.ok_or(FrameError::OutOfRange { what: "bytes", start: at, end: at, len: self.nbytes() })
    }
}

impl Pieces {
    fn part(&self, npart: u64) -> Option<&ChunkPieces> {
        self.parts.get(usize::try_from(npart).ok()?)
    }

    /// Returns the repeated bytes of a special chunk, if it stores any.
    fn pattern(&self, npart: u64, kind: SpecialKind) -> Result<Vec<u8>, FrameError> {
        if kind != SpecialKind::NaN {
            return Ok(Vec::new());
        }
        let Some(part) = self.part(npart) else { return Ok(Vec::new()) };
        let pattern = self.frame.nan_pattern(part.nchunk)?;
        // The last chunk that this reaches may be shorter, and then may not have whole items.
        let last =
            part.pieces.first().map_or(0, |piece| piece.start + part.repeated.unwrap_or(piece.len) - 1);
        if let Some(further @ 1..) = last.checked_div(self.frame.chunksize()) {
            self.frame.nan_pattern(part.nchunk.saturating_add(further))?;
        }
        Ok(memory::copied(pattern)?)
    }

    /// Returns the bytes that a stored chunk without blocks repeats.
    fn stored_pattern(&self, npart: u64, chunk: &LazyChunk) -> Result<Option<Vec<u8>>, FrameError> {
        let header = chunk.header();
        let width = match header.special() {
            Some(SpecialKind::Zeros | SpecialKind::Uninit) => return Ok(Some(Vec::new())),
            Some(SpecialKind::NaN) => header.itemsize(),
            Some(SpecialKind::Value) => header.cbytes().saturating_sub(header.header_len()),
            None => 0,
        };
        if width == 0 || chunk.block_range(0).len() < width {
            return Ok(None);
        }
        let mut pattern = memory::zeroed(width)?;
        let mut decoder =
            chunk.decoder(&self.frame.dparams).map_err(self.frame.chunk_error(self.nchunk(npart)))?;
        let decoded = decoder.decode_part(0, &[], None, 0..width, &mut pattern);
        decoded.map_err(self.frame.chunk_error(self.nchunk(npart)))?;
        Ok(Some(pattern))
    }
}

/// The blocks of a part.
pub(crate) struct PieceBlocks {
    npart: u64,
    nblocks: Vec<usize>,
}

/// Decodes blocks of one chunk.
pub(crate) struct PieceDecoder<'a> {
    chunk: &'a LazyChunk,
    decoder: BlockDecoder<'a>,
    block0: Option<&'a [u8]>,
    plain: Vec<u8>,
}

// SAFETY: The places are disjoint, as they are those of a byte range of the data, or one for each item, and
// each byte of the data is in one block. Together they cover the destination. A part requests the bytes of
// each of its pieces, which lie in one or several blocks, once, and repetitions for their own places.
#[allow(unsafe_code)]
unsafe impl ScatterPlan for Pieces {
    type Error = FrameError;
    type Fill = (u64, Vec<u8>);
    type Part = PieceBlocks;
    type Worker<'w> = PieceDecoder<'w>;

    fn nbytes(&self) -> u64 {
        self.nbytes
    }

    fn nparts(&self) -> u64 {
        self.parts.len() as u64
    }

    fn nchunk(&self, npart: u64) -> usize {
        self.part(npart).map_or(usize::MAX, |part| part.nchunk)
    }

    fn disjoint(&self) -> bool {
        true
    }

    fn worker_memory(&self) -> u64 {
        let (chunk, block) = (self.frame.chunksize() as u64, self.frame.header().blocksize() as u64);
        chunk.saturating_add(3 * block)
    }

    fn decode_cost(&self) -> Result<u64, FrameError> {
        Ok(self.work)
    }

    fn constant(&self, npart: u64, nchunk: usize) -> Result<Option<(u64, Vec<u8>)>, FrameError> {
        match self.frame.entry(nchunk)? {
            Entry::Special(kind) if !self.frame.dparams.has_postfilter() => {
                Ok(Some((npart, self.pattern(npart, kind)?)))
            }
            _ => Ok(None),
        }
    }

    fn expected_blocks(&self, npart: u64) -> Result<Vec<Range<usize>>, FrameError> {
        let pieces = self.part(npart).map_or(&[][..], |part| &part.pieces);
        let whole =
            |piece: &Piece| self.frame.opened.expected_nbytes(self.nchunk(npart)) == Some(piece.len as u64);
        if matches!(pieces, [piece] if whole(piece)) {
            let all = 0..usize::MAX;
            return Ok(vec![all]);
        }
        let size = self.frame.header().blocksize();
        if size == 0 {
            // The header does not identify these blocks.
            return Ok(Vec::new());
        }
        let mut runs: Vec<Range<usize>> = Vec::new();
        for piece in pieces {
            let blocks = piece.start / size..piece.end().div_ceil(size);
            match runs.last_mut() {
                Some(last) if blocks.start <= last.end => last.end = last.end.max(blocks.end),
                _ => memory::push(&mut runs, blocks)?,
            }
        }
        Ok(runs)
    }

    fn resolve(
        &self,
        (npart, _): (u64, usize),
        chunk: &LazyChunk,
    ) -> Result<ResolvedPart<(u64, Vec<u8>), PieceBlocks>, FrameError> {
        let pieces = self.part(npart).map_or(&[][..], |part| &part.pieces);
        let nbytes = chunk.header().nbytes();
        if let Some(bad) = pieces.last().filter(|piece| piece.end() > nbytes) {
            let (start, end) = (bad.start as u64, bad.end() as u64);
            return Err(FrameError::OutOfRange { what: "bytes", start, end, len: nbytes as u64 });
        }
        if !self.frame.dparams.has_postfilter()
            && let Some(pattern) = self.stored_pattern(npart, chunk)?
        {
            return Ok(ResolvedPart::Fill((npart, pattern)));
        }
        // A chunk may consist of very many blocks of a byte.
        let list = chunk.nblocks() as u64 * size_of::<usize>() as u64;
        self.frame.dparams.limits.check_memory("list of blocks, in bytes", list)?;
        let mut nblocks: Vec<usize> = Vec::new();
        for piece in pieces {
            let known = nblocks.last().map_or(0, |last| last + 1);
            for nblock in chunk.blocks_of(piece.start..piece.end()).filter(|nblock| *nblock >= known) {
                memory::push(&mut nblocks, nblock)?;
            }
        }
        Ok(ResolvedPart::Blocks(PieceBlocks { npart, nblocks }))
    }

    fn nblocks<'p>(&'p self, part: &'p PieceBlocks) -> &'p [usize] {
        &part.nblocks
    }

    fn fill(&self, (npart, pattern): &(u64, Vec<u8>), dst: &mut impl Target) -> usize {
        let Some(part) = self.part(*npart) else { return 0 };
        let mut nbytes = 0;
        for piece in &part.pieces {
            let len = part.repeated.unwrap_or(piece.len);
            match pattern.is_empty() {
                true => dst.fill(piece.at, len, 0),
                false => b2_chunk::fill(dst.place(piece.at, len), pattern, piece.start),
            }
            nbytes += len;
        }
        nbytes
    }

    fn worker<'w>(
        &self,
        part: &PieceBlocks,
        chunk: &'w LazyChunk,
        dparams: &'w DParams,
        block0: Option<&'w [u8]>,
        _: bool,
    ) -> Result<PieceDecoder<'w>, FrameError> {
        let decoder = chunk.decoder(dparams).map_err(self.frame.chunk_error(self.nchunk(part.npart)))?;
        Ok(PieceDecoder { chunk, decoder, block0, plain: Vec::new() })
    }

    fn copy(
        &self,
        worker: &mut PieceDecoder<'_>,
        part: &PieceBlocks,
        nblock: usize,
        stored: &[u8],
        dst: &mut impl Target,
    ) -> Result<usize, FrameError> {
        let PieceDecoder { chunk, decoder, block0, plain } = worker;
        let npart = part.npart;
        let Some(part) = self.part(npart) else { return Ok(0) };
        let block = chunk.block_range(nblock);
        let block0 = block0.filter(|_| nblock > 0);
        let inside = |piece: &Piece| piece.start.max(block.start)..piece.end().min(block.end);
        let pieces = part.within(&block);
        if let ([piece], None) = (pieces, part.repeated) {
            let both = inside(piece);
            let to = dst.place(piece.at + both.start - piece.start, both.len());
            let both = both.start - block.start..both.end - block.start;
            decoder
                .decode_part(nblock, stored, block0, both, to)
                .map_err(self.frame.chunk_error(self.nchunk(npart)))?;
            return Ok(to.len());
        }
        let (Some(first), Some(last)) = (pieces.first(), pieces.last()) else { return Ok(0) };
        let hull = inside(first).start..inside(last).end;
        let plain = memory::sized(plain, hull.len())?;
        let within = hull.start - block.start..hull.end - block.start;
        decoder
            .decode_part(nblock, stored, block0, within, plain)
            .map_err(self.frame.chunk_error(self.nchunk(npart)))?;
        let mut nbytes = 0;
        for piece in pieces {
            let both = inside(piece);
            let bytes = plain.get(both.start - hull.start..both.end - hull.start).unwrap_or_default();
            let mut to = piece.at + both.start - piece.start;
            let end = piece.at + part.repeated.unwrap_or(piece.len);
            while to < end {
                let bytes = bytes.get(..end - to).unwrap_or(bytes);
                dst.put(to, bytes);
                nbytes += bytes.len();
                to += piece.len;
            }
        }
        Ok(nbytes)
    }
}
