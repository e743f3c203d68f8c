//! Rebuilds the head of a chunk that is in a zeroed sector: the header is that of other chunks of the frame, and where
//! the blocks are follows from the lengths of their streams.

use std::cell::Cell;

use b2_chunk::{Chunk, ChunkHeader, EXTENDED_HEADER_LEN};
use b2_core::memory;
use bytes::Bytes;

/// A chunk whose head was rebuilt.
pub(super) struct RebuiltChunk {
    pub(super) chunk: Chunk,
    /// Whether each block is there, and where it was is known.
    pub(super) known: Vec<bool>,
}

/// Rebuilds the head of the chunk that takes all of `stored`. `like` is the header of another chunk of the frame;
/// `nbytes` is the uncompressed size.
pub(super) fn rebuild(stored: &[u8], nbytes: usize, like: &ChunkHeader) -> Option<RebuiltChunk> {
    let mut expected = like.to_bytes();
    expected.get_mut(4..8)?.copy_from_slice(&u32::try_from(nbytes).ok()?.to_le_bytes());
    expected.get_mut(12..16)?.copy_from_slice(&u32::try_from(stored.len()).ok()?.to_le_bytes());
    let zeros =
        |at: usize| stored.get(at..).unwrap_or_default().iter().take_while(|byte| **byte == 0).count();
    let differs = stored.iter().zip(&expected).position(|(found, expected)| found != expected);
    let differs = differs.unwrap_or(EXTENDED_HEADER_LEN);
    // The lost range starts in the header and extends over its end, or covers its start.
    let in_header = differs < EXTENDED_HEADER_LEN
        && zeros(differs) > 0
        && (differs == 0 || differs + zeros(differs) >= EXTENDED_HEADER_LEN);
    let header = match differs < EXTENDED_HEADER_LEN && !in_header {
        // A chunk of another kind.
        true => ChunkHeader::parse(stored).ok().filter(|own| own.cbytes() == stored.len())?,
        false => ChunkHeader::parse(&expected).ok()?,
    };
    let (header, blocksize) = (&header, header.blocksize());
    if header.is_vl() || header.has_dict() || header.special().is_some() || blocksize == 0 {
        return None;
    }
    let nblocks = nbytes.div_ceil(blocksize);
    let mut bytes = memory::copied(stored).ok()?;
    bytes.get_mut(..EXTENDED_HEADER_LEN)?.copy_from_slice(&header.to_bytes());
    if header.is_memcpyed() {
        if !in_header || stored.len() != nbytes.checked_add(EXTENDED_HEADER_LEN)? {
            return None;
        }
        let first = (differs + zeros(differs)).saturating_sub(EXTENDED_HEADER_LEN).div_ceil(blocksize);
        let known = (0..nblocks).map(|nblock| nblock >= first).collect();
        return Some(RebuiltChunk { chunk: Chunk::from_bytes(Bytes::from(bytes)).ok()?, known });
    }
    let head_len = EXTENDED_HEADER_LEN.checked_add(nblocks.checked_mul(4)?)?;
    let lost = if in_header {
        differs
    } else {
        let table = stored.get(EXTENDED_HEADER_LEN..stored.len().min(head_len.checked_add(7)?))?;
        EXTENDED_HEADER_LEN + table.windows(8).position(|bytes| bytes == [0; 8])?
    };
    let lost = lost..lost + zeros(lost);
    // Zeros look like many streams, so the number of attempts is limited.
    let budget = Cell::new(stored.len().saturating_mul(16).saturating_add(1 << 16));
    let walk = StreamWalk { stored, nbytes, header, budget };
    let mut starts: Vec<Option<usize>> = memory::list(nblocks).ok()?;
    for nblock in 0..nblocks {
        let at = EXTENDED_HEADER_LEN + nblock * 4;
        let start = u32::from_le_bytes(*stored.get(at..)?.first_chunk()?) as usize;
        let is_whole = at + 4 <= lost.start || at >= lost.end;
        starts.push(Some(start).filter(|start| is_whole && (head_len..stored.len()).contains(start)));
    }
    if let Some(first) = starts.first_mut() {
        first.get_or_insert(head_len);
    }
    // Each block starts where the one before it ends.
    let is_lost = |start: usize| (lost.start..lost.end).contains(&start);
    for nblock in 1..nblocks {
        if let (None, Some(before)) = (starts[nblock], starts[nblock - 1].filter(|start| !is_lost(*start))) {
            starts[nblock] = walk.end(nblock - 1, before).filter(|end| *end < stored.len());
        }
    }
    if starts.last() == Some(&None) || nblocks == 1 {
        if let Some(first) = starts.first_mut() {
            *first = first.filter(|start| !is_lost(*start));
        }
        walk.back_from_end(&mut starts, lost.end);
    }
    // The first bytes after a sector may be zeros as well.
    let lost = lost.start..lost.end.saturating_sub(3);
    let mut known: Vec<bool> = memory::list(nblocks).ok()?;
    for (nblock, start) in starts.iter().enumerate() {
        known.push(start.is_some_and(|start| {
            let end = walk.end(nblock, start);
            let next = starts.get(nblock + 1).copied().unwrap_or(Some(stored.len()));
            next.is_some() && end == next && (start >= lost.end || end.is_some_and(|end| end <= lost.start))
        }));
    }
    for (nblock, start) in starts.iter().enumerate() {
        let at = EXTENDED_HEADER_LEN + nblock * 4;
        let start = u32::try_from(start.unwrap_or(head_len)).ok()?;
        bytes.get_mut(at..at + 4)?.copy_from_slice(&start.to_le_bytes());
    }
    Some(RebuiltChunk { chunk: Chunk::from_bytes(Bytes::from(bytes)).ok()?, known })
}

/// Finds the ends of blocks by the lengths of their streams.
struct StreamWalk<'a> {
    stored: &'a [u8],
    nbytes: usize,
    header: &'a ChunkHeader,
    /// How many more streams may be examined.
    budget: Cell<usize>,
}

impl StreamWalk<'_> {
    /// Returns the end of a block that starts at `at`.
    fn end(&self, nblock: usize, mut at: usize) -> Option<usize> {
        let blocksize = self.header.blocksize();
        let len = self.nbytes.checked_sub(nblock * blocksize)?.min(blocksize);
        let nstreams = if self.header.is_split() && len == blocksize { self.header.itemsize() } else { 1 };
        for _ in 0..nstreams {
            self.budget.set(self.budget.get().checked_sub(1)?);
            let stream = i32::from_le_bytes(*self.stored.get(at..)?.first_chunk()?);
            at += 4;
            at += match stream {
                0 => 0,
                // A run of equal bytes, with a token.
                -255..=-1 => 1,
                _ => usize::try_from(stream).ok().filter(|stream| *stream <= len)?,
            };
        }
        (at <= self.stored.len()).then_some(at)
    }

    /// Finds the first place from which whole blocks reach exactly to the end of the chunk, at `from` or shortly before
    /// it: the last bytes of a length may be zeros as well.
    fn back_from_end(&self, starts: &mut [Option<usize>], from: usize) {
        let nblocks = starts.len();
        let most = from.saturating_add(self.header.blocksize().saturating_mul(2)).min(self.stored.len());
        let first_unknown = starts.iter().position(Option::is_none).unwrap_or(nblocks);
        for at in from.saturating_sub(3)..most {
            if self.budget.get() == 0 {
                return;
            }
            // The last block may be shorter, so the number of blocks is tried from the most on.
            for first in first_unknown..nblocks {
                let mut ends = Vec::new();
                let mut next = Some(at);
                for nblock in first..nblocks {
                    ends.push(next);
                    next = next.and_then(|start| self.end(nblock, start));
                    if next.is_none() {
                        break;
                    }
                }
                if next == Some(self.stored.len()) {
                    for (place, start) in starts[first..].iter_mut().zip(ends) {
                        *place = start;
                    }
                    return;
                }
            }
        }
    }
}
