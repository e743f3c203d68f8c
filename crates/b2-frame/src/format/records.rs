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
//! missing or damaged, readers fetch and compare more bytes.

use std::ops::Range;
use std::sync::OnceLock;

use b2_core::{OutOfMemory, memory};
use bytes::Bytes;

use crate::FrameError;
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

/// The subject of the records of a table.
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

/// The table before the checksums, or before the trailer if there are none.
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

/// Minimum length of a full page in bytes. A record is never divided.
const MIN_PAGE_LEN: usize = 4 << 10;
/// A table has at most about this many pages, so that their list can be read with the trailer.
const MAX_PAGES: usize = 512;
/// Tables shorter than this are rewritten as a whole, so that they stay next to the trailer.
const MAX_SHORT_TABLE_LEN: usize = 16 << 10;

/// The records of all stored chunks in order, divided into pages.
#[derive(Debug, Default)]
pub(crate) struct Records {
    all: Vec<u8>,
    /// The end of each record in `all`.
    ends: Vec<usize>,
    slots: Vec<Slot>,
}

impl Records {
    /// Divides `records` into pages. `kept` are pages that are in the file already.
    ///
    /// # Errors
    /// When there is not enough memory.
    pub(crate) fn new<'a>(
        records: impl Iterator<Item = &'a [u8]> + Clone,
        kept: &[RecordPage],
    ) -> Result<Self, OutOfMemory> {
        let mut all = memory::list(records.clone().map(<[u8]>::len).fold(0, usize::saturating_add))?;
        let mut ends = memory::list(records.clone().count())?;
        for record in records {
            all.extend_from_slice(record);
            ends.push(all.len());
        }
        let kept = if all.len() <= MAX_SHORT_TABLE_LEN { &[] } else { kept };
        let full = MIN_PAGE_LEN.max(all.len() / MAX_PAGES);
        let slots = Division { all: &all, ends: &ends, full }.pages(kept);
        Ok(Self { all, ends, slots })
    }

    /// Returns a table without information about `nstored` chunks.
    pub(crate) fn nothing(nstored: usize) -> Result<Self, OutOfMemory> {
        let mut ends = memory::list(nstored)?;
        ends.resize(nstored, 0);
        Ok(Self { ends, ..Self::default() })
    }

    /// Returns the total length of the records in bytes.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns the length of the pages that are not in the file yet, in bytes.
    pub(crate) fn new_len(&self) -> usize {
        let new = self.slots.iter().map(|slot| match slot {
            Slot::Old(_) => 0,
            Slot::New(range, _) => range.len(),
        });
        new.sum()
    }

    /// Returns the length of the list of pages, in bytes.
    pub(crate) fn list_len(&self, kind: TableKind) -> usize {
        self.slots.len().saturating_mul(RecordPage::LEN).saturating_add(kind.end_len())
    }

    /// Returns the bytes of the new pages, which will be stored at `offset`, and all pages.
    ///
    /// # Errors
    /// When a page is too long, or there is not enough memory.
    pub(crate) fn place(&self, offset: u64) -> Result<(Vec<u8>, Vec<RecordPage>), FrameError> {
        let mut bytes = memory::list(self.new_len())?;
        let mut pages = memory::list(self.slots.len())?;
        for slot in &self.slots {
            pages.push(match slot {
                Slot::Old(page) => *page,
                Slot::New(range, count) => {
                    let new = self.all.get(range.clone()).unwrap_or_default();
                    let at = offset.saturating_add(bytes.len() as u64);
                    bytes.extend_from_slice(new);
                    let (Ok(len), Ok(count)) = (u32::try_from(new.len()), u32::try_from(*count)) else {
                        return Err(FrameError::argument("chunks", "too many to have checksums"));
                    };
                    RecordPage { offset: at, len, count, sum: sum(new) }
                }
            });
        }
        Ok((bytes, pages))
    }

    /// Returns the list of these pages and the copy of the start of the frame. `index` is the index chunk; `extra` is
    /// stored in tables of sums.
    pub(crate) fn list(
        &self,
        kind: TableKind,
        (pages, copy): (&[RecordPage], Option<RecordPage>),
        index: &[u8],
        extra: u64,
    ) -> Vec<u8> {
        let mut list = Vec::new();
        pages.iter().chain(&copy).for_each(|page| page.encode(&mut list));
        list.extend_from_slice(&kind.magic());
        let len = list.len().saturating_sub(kind.magic().len()).saturating_add(kind.end_len());
        list.extend_from_slice(&(len as u64).to_le_bytes());
        list.extend_from_slice(&(self.ends.len() as u64).to_le_bytes());
        list.extend_from_slice(&sum(index).to_le_bytes());
        if kind == TableKind::Sums {
            list.extend_from_slice(&extra.to_le_bytes());
        }
        list.extend_from_slice(&sum(&list).to_le_bytes());
        list
    }
}

#[derive(Debug)]
enum Slot {
    Old(RecordPage),
    /// A new page with this range of all records, in bytes, and their number.
    New(Range<usize>, usize),
}

/// All records in order, and where each ends.
struct Division<'a> {
    all: &'a [u8],
    ends: &'a [usize],
    /// Length of a full page in bytes.
    full: usize,
}

impl Division<'_> {
    /// Returns the offset of record `nth`, or the end.
    fn at(&self, nth: usize) -> usize {
        nth.checked_sub(1).map_or(0, |last| self.ends.get(last).copied().unwrap_or(self.all.len()))
    }

    /// Returns whether a page holds these records.
    fn is(&self, page: &RecordPage, records: Range<usize>) -> bool {
        records.end <= self.ends.len()
            && page.len as usize >= self.full / 2
            // Shorter pages are rewritten, so that their list stays short.
            && (self.all.get(self.at(records.start)..self.at(records.end)))
                .is_some_and(|bytes| bytes.len() as u64 == u64::from(page.len) && sum(bytes) == page.sum)
    }

    /// Divides the records into pages. Pages of `kept` that hold the first or the last are reused.
    fn pages(&self, kept: &[RecordPage]) -> Vec<Slot> {
        let (mut start, mut end) = (0usize, self.ends.len());
        let (mut first, mut last) = (Vec::new(), Vec::new());
        let mut rest = kept;
        while let [page, others @ ..] = rest
            && let next = start.saturating_add(page.count as usize)
            && self.is(page, start..next)
        {
            first.push(Slot::Old(*page));
            (start, rest) = (next, others);
        }
        while let [others @ .., page] = rest
            && let Some(before) = end.checked_sub(page.count as usize).filter(|before| *before >= start)
            && self.is(page, before..end)
        {
            last.push(Slot::Old(*page));
            (end, rest) = (before, others);
        }
        while start < end {
            let from = self.at(start);
            let full = from.saturating_add(self.full);
            let fits = self.ends.get(start..end).unwrap_or_default().partition_point(|end| *end <= full);
            let next = start.saturating_add(fits.max(1));
            first.push(Slot::New(from..self.at(next), next.saturating_sub(start)));
            start = next;
        }
        first.extend(last.into_iter().rev());
        first
    }
}
