//! The table of block starts (docs/format/block-starts.md): where the blocks of each stored chunk
//! are, so that a reader far away can ask for the head of a chunk and for blocks at once. It is a
//! hint: the head of the chunk decides, so a wrong table costs time, never a wrong value.
//!
//! ```text
//! pages, anywhere in the frame: a record for each stored chunk
//! record: u16 unit and flag   u16 number of blocks, n   n + 1 times u16: starts and end, in units
//! list: for each page u64 offset, u32 length, u32 number of records, u64 sum of the page
//!       "b2start" 01   u64 length of the list   u64 number of stored chunks
//!       u64 sums of: index chunk, list up to here
//! ```
//!
//! All numbers are little-endian. Sums are XXH3 with 64 bits.

mod chunks;

use std::ops::Range;
use std::sync::OnceLock;

use bytes::Bytes;

pub(crate) use self::chunks::ChunkStarts;
use crate::format::checksums::sum;

const MAGIC: [u8; 7] = *b"b2start";
const VERSION: u8 = 1;
/// Size of the fixed end of the list, in bytes.
const END_LEN: usize = 40;
/// Largest table, in bytes.
pub(crate) const MOST: usize = 1 << 20;
/// The flag in `unit`: other blocks refer to block 0.
const NEEDS_BLOCK0: u16 = 1 << 15;

/// A page: the records of consecutive stored chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StartPage {
    /// Offset in bytes from the start of the frame (of the index file of a sparse frame).
    pub(crate) offset: u64,
    /// Length in bytes.
    pub(crate) len: u32,
    /// Number of records.
    pub(crate) count: u32,
    pub(crate) sum: u64,
}

impl StartPage {
    /// Length of an entry in the list of pages, in bytes.
    const LEN: usize = 24;

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

/// What ends where the checksums begin, or the trailer if there are none.
#[derive(Debug)]
pub(crate) enum Found {
    /// Nothing that is known.
    Nothing,
    /// A table of a version that this one does not know, or of another index.
    Other,
    Table(StartTable),
}

impl Found {
    /// Looks for a list at the end of `gap`, whose start is at offset `base` of the frame.
    /// `index_sum` is the sum of the index chunk, `nstored` the number of stored chunks.
    pub(crate) fn at_end(gap: &Bytes, base: u64, index_sum: u64, nstored: u64) -> Self {
        let Some(end) = gap.last_chunk::<END_LEN>() else { return Self::Nothing };
        let field = |at: usize| {
            end.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u64::from_le_bytes(*bytes))
        };
        let list = usize::try_from(field(8)).ok().and_then(|len| gap.len().checked_sub(len));
        let Some(list) = list.and_then(|start| Some((start, gap.get(start..)?))) else {
            return Self::Nothing;
        };
        let (start, list) = list;
        let Some((covered, _)) = list.split_last_chunk::<8>() else { return Self::Nothing };
        if !end.starts_with(&MAGIC) || list.len() < END_LEN || sum(covered) != field(32) {
            return Self::Nothing;
        }
        let entries = list.get(..list.len().saturating_sub(END_LEN)).unwrap_or_default();
        if end.get(7) != Some(&VERSION)
            || !entries.len().is_multiple_of(StartPage::LEN)
            || field(16) != nstored
            || field(24) != index_sum
        {
            return Self::Other;
        }
        let pages: Vec<_> = entries.chunks_exact(StartPage::LEN).filter_map(StartPage::decode).collect();
        let count = pages.iter().map(|page| u64::from(page.count)).sum::<u64>();
        let len = pages.iter().map(|page| u64::from(page.len)).sum::<u64>();
        if count != nstored || len > MOST as u64 || list.len() > MOST {
            return Self::Other;
        }
        let at = |n: usize| base.saturating_add(n as u64);
        Self::Table(StartTable::new(pages, at(start)..at(gap.len()), (base, gap.slice(..start))))
    }
}

/// The table of an opened frame. Its pages are read when they are first needed.
#[derive(Debug)]
pub(crate) struct StartTable {
    pages: Vec<StartPage>,
    /// Number of records before each page.
    before: Vec<u64>,
    /// The bytes of each page; empty if they are damaged.
    loaded: Vec<OnceLock<Bytes>>,
    /// The range of the list in the frame.
    list: Range<u64>,
    /// Bytes of the frame that were read with the trailer, and their offset.
    at_hand: (u64, Bytes),
}

impl StartTable {
    fn new(pages: Vec<StartPage>, list: Range<u64>, at_hand: (u64, Bytes)) -> Self {
        let mut total = 0u64;
        let before = |page: &StartPage| {
            let before = total;
            total = total.saturating_add(page.count.into());
            before
        };
        let before = pages.iter().map(before).collect();
        let loaded = pages.iter().map(|_| OnceLock::new()).collect();
        Self { pages, before, loaded, list, at_hand }
    }

    pub(crate) fn pages(&self) -> &[StartPage] {
        &self.pages
    }

    /// Returns the range of the list of pages in the frame.
    pub(crate) fn list(&self) -> &Range<u64> {
        &self.list
    }

    /// Returns the length of the table in bytes.
    pub(crate) fn len(&self) -> u64 {
        let list = self.list.end.saturating_sub(self.list.start);
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
        slot.get_or_init(|| if fits { bytes } else { Bytes::new() });
        fits
    }

    /// Returns the record of stored chunk `nstored`, if its page is loaded and it tells something.
    pub(crate) fn get(&self, nstored: u64) -> Option<Starts> {
        let npage = self.page_of(nstored)?;
        let nth = nstored.checked_sub(*self.before.get(npage)?)?;
        let mut records = self.records(npage);
        Starts::parse(records.nth(usize::try_from(nth).ok()?)?)
    }

    /// Returns the records of a page, if it is loaded.
    pub(crate) fn records(&self, npage: usize) -> impl Iterator<Item = Bytes> {
        let mut rest = self.loaded.get(npage).and_then(OnceLock::get).cloned().unwrap_or_default();
        std::iter::from_fn(move || {
            let len = record_len(&rest)?;
            (len <= rest.len()).then(|| rest.split_to(len))
        })
    }
}

/// Returns the length of the record that `bytes` start with.
fn record_len(bytes: &[u8]) -> Option<usize> {
    let n = u16::from_le_bytes(*bytes.get(2..)?.first_chunk()?);
    Some(match n {
        0 => 4,
        n => usize::from(n).saturating_mul(2).saturating_add(6),
    })
}

/// Where the blocks of a chunk probably are.
#[derive(Clone, Debug)]
pub(crate) struct Starts {
    unit: u64,
    /// Whether other blocks refer to block 0.
    pub(crate) needs_block0: bool,
    /// Starts and end.
    numbers: Bytes,
}

impl Starts {
    fn parse(record: Bytes) -> Option<Self> {
        let unit = u16::from_le_bytes(*record.first_chunk()?);
        let starts = Self {
            unit: (unit & !NEEDS_BLOCK0).into(),
            needs_block0: unit & NEEDS_BLOCK0 != 0,
            numbers: record.get(4..).filter(|rest| rest.len() >= 4).map(|_| record.slice(4..))?,
        };
        // Ranges of other records could overlap, and ask for the same bytes many times.
        let ascending = starts.numbers.as_chunks::<2>().0.is_sorted_by_key(|n| u16::from_le_bytes(*n));
        (ascending && starts.unit > 0).then_some(starts)
    }

    pub(crate) fn nblocks(&self) -> usize {
        (self.numbers.len() / 2).saturating_sub(1)
    }

    /// Returns the first byte of a block or one before it, counted from the start of the chunk.
    pub(crate) fn start(&self, nblock: usize) -> u64 {
        let number = self.numbers.as_chunks::<2>().0.get(nblock.min(self.nblocks()));
        number.map_or(0, |n| u64::from(u16::from_le_bytes(*n)).saturating_mul(self.unit))
    }

    /// Returns the end of a block, or a byte behind it.
    pub(crate) fn end(&self, nblock: usize) -> u64 {
        self.start(nblock.saturating_add(1)).saturating_add(self.unit)
    }

    /// Returns the end of the header, the chunk's own table and its dictionary, or a byte behind
    /// it.
    pub(crate) fn head(&self) -> u64 {
        self.start(0).saturating_add(self.unit)
    }

    /// Returns the length of the chunk, or a little more.
    pub(crate) fn len(&self) -> u64 {
        self.end(self.nblocks().saturating_sub(1))
    }
}
