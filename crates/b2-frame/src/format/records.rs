//! Tables with a record for each stored chunk, which C-Blosc2 ignores: where its blocks are
//! (docs/format/block-starts.md), and sums of runs of its blocks (docs/format/block-sums.md).
//!
//! ```text
//! pages, anywhere in the frame: a record for each stored chunk
//! list: for each page u64 offset, u32 length, u32 number of records, u64 sum of the page
//!       magic and version   u64 length of the list   u64 number of stored chunks   u64 sum of the index chunk
//!       for sums of blocks: u64 sum of the array's metadata
//!       u64 sum of the list up to here
//! ```
//!
//! All numbers are little-endian. Sums are XXH3 with 64 bits. No value depends on a table: where one is
//! missing or damaged, readers fetch and compare more.

mod encode;

use std::ops::Range;
use std::sync::OnceLock;

use bytes::Bytes;

pub(crate) use self::encode::Records;
use crate::format::checksums::Page;
use crate::format::digest::sum;
use crate::format::runs;

/// Largest table of block starts, in bytes.
pub(crate) const MAX_STARTS_LEN: usize = 1 << 20;

/// Returns the length of a record of block starts for `nblocks` blocks; 0 if they are unknown.
pub(super) fn starts_len(nblocks: u16) -> usize {
    match nblocks {
        0 => 4,
        n => usize::from(n).saturating_mul(2).saturating_add(6),
    }
}

/// What the records of a table describe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TableKind {
    /// Where the blocks are.
    Starts,
    /// Sums of runs of blocks.
    Sums,
}

impl TableKind {
    fn magic(self) -> [u8; 8] {
        match self {
            Self::Starts => *b"b2start\x01",
            Self::Sums => *b"b2bsums\x01",
        }
    }

    /// Returns the size of the fixed end of the list, in bytes.
    pub(crate) fn end_len(self) -> usize {
        match self {
            Self::Starts => 40,
            Self::Sums => 48,
        }
    }

    /// Returns the length of the record that `bytes` start with.
    fn record_len(self, bytes: &[u8]) -> Option<usize> {
        let number = |at: usize| Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        Some(match self {
            Self::Starts => starts_len(number(2)?),
            Self::Sums => runs::record_len(number(0)?),
        })
    }

    /// Returns the length of the longest table that is used, in bytes.
    fn most(self) -> u64 {
        match self {
            Self::Starts => MAX_STARTS_LEN as u64,
            // Pages are read one by one.
            Self::Sums => u64::MAX,
        }
    }
}

/// The pages of all tables of a frame that are in its file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pages {
    /// The sums of the chunks.
    pub(crate) sums: Vec<Page>,
    /// The sums of runs of blocks.
    pub(crate) runs: Vec<RecordPage>,
    /// Where the blocks are.
    pub(crate) starts: Vec<RecordPage>,
    /// The copy of the start of the frame.
    pub(crate) copy: Option<RecordPage>,
}

/// A page: the records of consecutive stored chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordPage {
    /// Offset in bytes from the start of the frame (of the index file of a sparse frame).
    pub(crate) offset: u64,
    /// Length in bytes.
    pub(crate) len: u32,
    /// Number of records.
    pub(crate) count: u32,
    pub(crate) sum: u64,
}

impl RecordPage {
    /// Length of an entry in the list of pages, in bytes.
    pub(crate) const LEN: usize = 24;

    fn encode(&self, list: &mut Vec<u8>) {
        list.extend_from_slice(&self.offset.to_le_bytes());
        list.extend_from_slice(&self.len.to_le_bytes());
        list.extend_from_slice(&self.count.to_le_bytes());
        list.extend_from_slice(&self.sum.to_le_bytes());
    }

    fn decode(entry: &[u8]) -> Option<Self> {
        let (offset, rest) = entry.split_first_chunk()?;
        let (len, rest) = rest.split_first_chunk()?;
        let (count, rest) = rest.split_first_chunk()?;
        Some(Self {
            offset: u64::from_le_bytes(*offset),
            len: u32::from_le_bytes(*len),
            count: u32::from_le_bytes(*count),
            sum: u64::from_le_bytes(*rest.first_chunk()?),
        })
    }

    /// Returns the page's range of bytes in the frame; `None` if it overflows.
    pub(crate) fn range(&self) -> Option<Range<u64>> {
        Some(self.offset..self.offset.checked_add(self.len.into())?)
    }
}

/// What precedes the checksums, or the trailer if there are none.
#[derive(Debug)]
pub(crate) enum FoundTable {
    /// Nothing that this version recognizes.
    Nothing,
    /// A table of an unknown version, or of another index.
    Other,
    Table(RecordTable),
}

impl FoundTable {
    pub(crate) fn table(self) -> Option<RecordTable> {
        match self {
            Self::Table(table) => Some(table),
            Self::Nothing | Self::Other => None,
        }
    }

    /// Looks for a list of this kind at the end of `gap`, whose start is at offset `base` of the
    /// frame. `index_sum` is the sum of the index chunk, `nstored` the number of stored chunks.
    pub(crate) fn at_end(kind: TableKind, gap: &Bytes, base: u64, index_sum: u64, nstored: u64) -> Self {
        let end_len = kind.end_len();
        let Some(end) = gap.len().checked_sub(end_len).and_then(|at| gap.get(at..)) else {
            return Self::Nothing;
        };
        let field = |at: usize| {
            end.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u64::from_le_bytes(*bytes))
        };
        let list = usize::try_from(field(8)).ok().and_then(|len| gap.len().checked_sub(len));
        let Some((start, list)) = list.and_then(|start| Some((start, gap.get(start..)?))) else {
            return Self::Nothing;
        };
        let Some((covered, own)) = list.split_last_chunk::<8>() else { return Self::Nothing };
        let [name @ .., version] = kind.magic();
        if !end.starts_with(&name) || list.len() < end_len || sum(covered) != u64::from_le_bytes(*own) {
            return Self::Nothing;
        }
        let entries = list.get(..list.len().saturating_sub(end_len)).unwrap_or_default();
        if end.get(7) != Some(&version)
            || !entries.len().is_multiple_of(RecordPage::LEN)
            || field(16) != nstored
            || field(24) != index_sum
        {
            return Self::Other;
        }
        let mut pages: Vec<_> =
            entries.chunks_exact(RecordPage::LEN).filter_map(RecordPage::decode).collect();
        let copy = pages.pop_if(|page| kind == TableKind::Sums && page.count == 0);
        let count = pages.iter().map(|page| u64::from(page.count)).fold(0, u64::saturating_add);
        let len = pages.iter().map(|page| u64::from(page.len)).fold(0, u64::saturating_add);
        if !(count == nstored || pages.is_empty()) || len.max(list.len() as u64) > kind.most() {
            return Self::Other;
        }
        let at = |n: usize| base.saturating_add(n as u64);
        let extra = if kind == TableKind::Sums { field(32) } else { 0 };
        let at_hand = (base, gap.slice(..start));
        let table = RecordTable::new(kind, pages, at(start)..at(gap.len()), extra, at_hand);
        Self::Table(RecordTable { copy, ..table })
    }
}

/// The table of an opened frame. Its pages are read when they are first needed.
#[derive(Debug)]
pub(crate) struct RecordTable {
    kind: TableKind,
    /// The sum of the array's metadata, in a table of sums.
    pub(crate) extra: u64,
    pages: Vec<RecordPage>,
    /// The page with the copy of the start of the frame, in a table of sums (docs/format/start-copy.md).
    pub(crate) copy: Option<RecordPage>,
    /// Number of records before each page.
    before: Vec<u64>,
    /// The content of each page; empty if it is damaged.
    loaded: Vec<OnceLock<LoadedPage>>,
    /// The range of the list in the frame.
    list: Range<u64>,
    /// Bytes of the frame that were read with the trailer, and their offset.
    at_hand: (u64, Bytes),
}

/// The content of a page.
#[derive(Debug, Default)]
struct LoadedPage {
    bytes: Bytes,
    /// The end of each record.
    ends: Vec<u32>,
}

impl RecordTable {
    fn new(
        kind: TableKind,
        pages: Vec<RecordPage>,
        list: Range<u64>,
        extra: u64,
        at_hand: (u64, Bytes),
    ) -> Self {
        let mut total = 0u64;
        let before = |page: &RecordPage| {
            let before = total;
            total = total.saturating_add(page.count.into());
            before
        };
        let before = pages.iter().map(before).collect();
        let loaded = pages.iter().map(|_| OnceLock::new()).collect();
        Self { kind, extra, pages, copy: None, before, loaded, list, at_hand }
    }

    pub(crate) fn pages(&self) -> &[RecordPage] {
        &self.pages
    }

    /// Returns the range of the list of pages in the frame.
    pub(crate) fn list(&self) -> &Range<u64> {
        &self.list
    }

    /// Returns the length of the table in bytes, without the copy of the start of the frame.
    pub(crate) fn len(&self) -> u64 {
        let list = self.list.end.saturating_sub(self.list.start);
        let list = list.saturating_sub(self.copy.map_or(0, |_| RecordPage::LEN as u64));
        self.pages.iter().map(|page| u64::from(page.len)).fold(list, u64::saturating_add)
    }

    /// Returns the number of the page with the record of stored chunk `nstored`.
    pub(crate) fn page_of(&self, nstored: u64) -> Option<usize> {
        self.before.partition_point(|before| *before <= nstored).checked_sub(1)
    }

    /// Returns the range from which page `npage` has to be read; `None` if that is done or useless.
    pub(crate) fn missing(&self, npage: usize) -> Option<Range<u64>> {
        let (page, slot) = (self.pages.get(npage)?, self.loaded.get(npage)?);
        if slot.get().is_some() {
            return None;
        }
        let range = page.range()?;
        let (base, bytes) = &self.at_hand;
        let index = |at: u64| at.checked_sub(*base).and_then(|at| usize::try_from(at).ok());
        match (index(range.start), index(range.end)) {
            (Some(start), Some(end)) if end <= bytes.len() => {
                self.put(npage, bytes.slice(start..end));
                None
            }
            _ => Some(range),
        }
    }

    /// Loads the bytes of a page, and returns whether they match its sum. Others are not used.
    pub(crate) fn put(&self, npage: usize, bytes: Bytes) -> bool {
        let Some((page, slot)) = self.pages.get(npage).zip(self.loaded.get(npage)) else { return false };
        let fits = bytes.len() as u64 == u64::from(page.len) && sum(&bytes) == page.sum;
        slot.get_or_init(|| if fits { self.divided(bytes) } else { LoadedPage::default() });
        fits
    }

    fn divided(&self, bytes: Bytes) -> LoadedPage {
        let mut ends = Vec::new();
        let mut at = 0usize;
        while let Some(len) = bytes.get(at..).and_then(|rest| self.kind.record_len(rest)) {
            let end = at.saturating_add(len);
            match u32::try_from(end) {
                Ok(end) if end as usize <= bytes.len() && b2_core::memory::push(&mut ends, end).is_ok() => {}
                _ => break,
            }
            at = end;
        }
        LoadedPage { bytes, ends }
    }

    /// Returns the record of stored chunk `nstored`, if its page is loaded.
    pub(crate) fn get(&self, nstored: u64) -> Option<Bytes> {
        let npage = self.page_of(nstored)?;
        let nth = usize::try_from(nstored.checked_sub(*self.before.get(npage)?)?).ok()?;
        let LoadedPage { bytes, ends } = self.loaded.get(npage)?.get()?;
        let start = nth.checked_sub(1).map_or(Some(0), |last| ends.get(last).copied())?;
        let range = start as usize..*ends.get(nth)? as usize;
        bytes.get(range.clone())?;
        Some(bytes.slice(range))
    }
}
