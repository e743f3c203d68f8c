//! The copy of the start of a frame (docs/format/start-copy.md): its header, and what follows up to the head of the
//! first chunk or further. With it, a bad sector at the start of a file costs neither shape and dtype nor the first
//! chunk.
//!
//! ```text
//! page without records, the last one in the list of block sums: zeros up to byte 512 of the file, copy
//! ```

use b2_chunk::{ChunkHeader, EXTENDED_HEADER_LEN};
use bytes::Bytes;

use crate::format::digest::sum;
use crate::format::header::MAGIC as FRAME_MAGIC;
use crate::format::records::RecordPage;

/// Replaces the magic number of the frame in the copy, so that the copy is not mistaken for a frame: after a power loss
/// it may follow lost sectors after a frame.
const MAGIC: [u8; FRAME_MAGIC.len()] = *b"\x9e\xa8b2start\0";
/// A copy never starts in the first bytes of the file, since they may be lost together.
const SECTOR: usize = 512;
/// The copy reaches at least to the end of a sector of this size if there is space.
const LARGE_SECTOR: usize = 4096;
/// How many bytes after the header may be copied.
pub(crate) const MAX_COPIED_LEN: usize = 8 << 10;

/// Returns how many bytes a table in a frame with this many bytes of chunks may take together with the sums and the
/// copy.
pub(crate) fn budget(cbytes: u64) -> u64 {
    (cbytes / 2000).max(1 << 10)
}

/// Returns the number of zeros in front of the copy, in a page at this offset of the frame.
pub(crate) fn padding(offset: u64) -> usize {
    usize::try_from(offset).map_or(0, |at| SECTOR.saturating_sub(at))
}

/// Returns the copy in a page that was read; `None` if it does not match its sum.
pub(crate) fn in_page(page: &RecordPage, bytes: &Bytes) -> Option<Bytes> {
    let fits = bytes.len() as u64 == u64::from(page.len) && sum(bytes) == page.sum;
    let start = padding(page.offset);
    let rest = bytes.get(start..).filter(|_| fits)?.strip_prefix(&MAGIC)?;
    Some([&FRAME_MAGIC[..], rest].concat().into())
}

/// Marks the start of a frame as a copy of it.
pub(crate) fn mark(copy: &mut [u8]) {
    if let Some(magic) = copy.first_chunk_mut() {
        *magic = MAGIC;
    }
}

/// Returns the length of the head of the chunk that `bytes` start with: header, block starts and dictionary.
pub(crate) fn head_len(bytes: &[u8]) -> Option<usize> {
    let header = ChunkHeader::parse(bytes).ok()?;
    if header.is_memcpyed() || header.special().is_some() {
        return Some(EXTENDED_HEADER_LEN);
    }
    let tables = header.nblocks().checked_mul(4)?.checked_add(EXTENDED_HEADER_LEN)?;
    if !header.has_dict() {
        return Some(tables);
    }
    let len = usize::try_from(u32::from_le_bytes(*bytes.get(tables..)?.first_chunk()?)).ok()?;
    tables.checked_add(4)?.checked_add(len)
}

/// The lengths that determine the length of the copy.
pub(crate) struct Lengths {
    /// Length of the header.
    pub(crate) header: usize,
    /// End of the head of the first chunk, counted from the start of the frame; that of the header if there is none.
    pub(crate) head_end: usize,
    /// How many bytes at the start of the frame are known, at most.
    pub(crate) known: usize,
    /// Number of zeros in front of the copy.
    pub(crate) padding: usize,
    /// How many bytes the sums and the tables may take.
    pub(crate) budget: u64,
}

impl Lengths {
    /// Returns the length of the page and its entry in the list, for a copy of this length.
    pub(crate) fn page_len(&self, copy: usize) -> usize {
        copy.saturating_add(self.padding).saturating_add(RecordPage::LEN)
    }

    fn fits(&self, copy: usize, taken: usize) -> bool {
        (self.page_len(copy).saturating_add(taken) as u64) <= self.budget
    }

    /// Returns the length of the copy if the sums take `taken` bytes; `None` if there is no space for one.
    pub(crate) fn copy(&self, taken: usize) -> Option<usize> {
        let all = [self.head_end.max(SECTOR), self.head_end, self.header.max(SECTOR), self.header];
        let all = all.map(|len| len.min(self.known));
        let within = all.into_iter().find(|len| self.fits(*len, taken));
        // With many small chunks, the sums alone take all of it. A long header is cut off.
        let alone = || {
            let few = [self.head_end, self.header, SECTOR].map(|len| len.min(self.known));
            few.into_iter().find(|len| self.fits(*len, 0))
        };
        within.or_else(alone)
    }

    /// Returns the length of a copy that reaches to the end of a large sector, if there is space.
    pub(crate) fn large(&self, copy: usize, taken: usize) -> usize {
        let large = self.head_end.max(LARGE_SECTOR).min(self.known);
        if large > copy && self.fits(large, taken) { large } else { copy }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(header: usize, head_end: usize, known: usize, cbytes: u64) -> Lengths {
        Lengths { header, head_end, known, padding: 0, budget: budget(cbytes) }
    }

    #[test]
    fn the_copy_takes_what_the_sums_leave() {
        // A sector, if there is space for it.
        assert_eq!(lengths(250, 300, 5000, 100_000).copy(200), Some(512));
        assert_eq!(lengths(250, 300, 400, 100_000).copy(200), Some(400));
        assert_eq!(lengths(250, 300, 5000, 100_000).copy(500), Some(300));
        assert_eq!(lengths(250, 800, 5000, 100_000).copy(300), Some(512));
        assert_eq!(lengths(250, 800, 5000, 100_000).copy(700), Some(250));
        // The sums take everything.
        assert_eq!(lengths(250, 300, 5000, 100_000).copy(8000), Some(300));
        assert_eq!(lengths(250, 3000, 5000, 100_000).copy(8000), Some(250));
        // A long header.
        assert_eq!(lengths(3000, 3100, 5000, 100_000).copy(100), Some(512));
        assert_eq!(lengths(3000, 3100, 5000, 10_000_000).copy(100), Some(3100));
        // Large sectors.
        assert_eq!(lengths(250, 300, 8000, 10_000_000).large(512, 200), 4096);
        assert_eq!(lengths(250, 300, 8000, 5_000_000).large(512, 200), 512);
    }

    #[test]
    fn a_copy_does_not_start_in_the_first_sector() {
        assert_eq!([0, 500, 512, 513, u64::MAX].map(padding), [512, 12, 0, 0, 0]);
        let mut copy = [&FRAME_MAGIC[..], b"rest"].concat();
        mark(&mut copy);
        assert!(!copy.starts_with(&FRAME_MAGIC));
        let bytes = Bytes::from([vec![0; 12], copy].concat());
        let page = RecordPage { offset: 500, len: 26, count: 0, sum: sum(&bytes) };
        assert_eq!(in_page(&page, &bytes).unwrap(), [&FRAME_MAGIC[..], b"rest"].concat());
        assert!(in_page(&RecordPage { sum: 0, ..page }, &bytes).is_none());
        assert!(in_page(&RecordPage { offset: 496, ..page }, &bytes).is_none());
        let unmarked = Bytes::from([&[0; 12][..], &FRAME_MAGIC, b"rest"].concat());
        assert!(in_page(&RecordPage { sum: sum(&unmarked), ..page }, &unmarked).is_none());
    }
}
