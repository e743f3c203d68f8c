//! Block starts of chunks while a frame is being written.

use std::collections::HashMap;
use std::ops::Range;

use b2_chunk::{DParams, LazyChunk, LazyHead};
use b2_core::memory;

use super::{END_LEN, MAGIC, MOST, NEEDS_BLOCK0, StartPage, VERSION};
use crate::format::checksums::{EntryHashing, sum};

/// Smaller chunks are read as a whole by everyone, so nothing is told about them.
const SMALL: usize = 16 << 10;
/// Length of a full page in bytes, except that a record is never divided.
const PAGE: usize = 4 << 10;
/// Shorter pages are written again rather than kept, so that their list stays short.
const WORTH_KEEPING: u32 = 2 << 10;
/// Shorter tables are written again as a whole, so that they stand beside the trailer.
const NEAR: usize = 16 << 10;
/// A frame whose chunks take more than this has no table, in bytes.
const HELD: usize = 4 * MOST;
/// The record of a chunk about which nothing is known.
const UNKNOWN: [u8; 4] = [0; 4];

/// Records of the stored chunks of a frame that is being written, by index entry.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChunkStarts {
    records: HashMap<i64, Box<[u8]>, EntryHashing>,
    len: usize,
    /// Whether there were too many.
    full: bool,
}

/// An encoded table.
#[derive(Debug, Default)]
pub(crate) struct Table {
    /// New pages and the list.
    pub(crate) bytes: Vec<u8>,
    pub(crate) pages: Vec<StartPage>,
}

impl ChunkStarts {
    /// Records where the blocks of the chunk are that this entry now refers to.
    pub(crate) fn put(&mut self, raw: i64, chunk: &[u8], dparams: &DParams) {
        self.put_record(raw, &record(chunk, dparams).unwrap_or_default());
    }

    /// Records what is known of a chunk; nothing if `record` is empty.
    pub(crate) fn put_record(&mut self, raw: i64, record: &[u8]) {
        if let Some(old) = self.records.remove(&raw) {
            self.len = self.len.saturating_sub(old.len());
        }
        let record = if record.is_empty() { &UNKNOWN } else { record };
        let len = self.len.saturating_add(record.len());
        // This is only a hint, so without memory there is none.
        let copy = if len <= HELD && !self.full { memory::copied(record).ok() } else { None };
        match copy {
            Some(copy) if self.records.try_reserve(1).is_ok() => {
                self.records.insert(raw, copy.into());
                self.len = len;
            }
            _ => *self = Self { full: true, ..Self::default() },
        }
    }

    pub(crate) fn get(&self, raw: i64) -> &[u8] {
        self.records.get(&raw).map_or(&UNKNOWN, |record| record)
    }

    /// Drops the records of other entries if there are many.
    pub(crate) fn settle(&mut self, entries: &[i64]) {
        if self.records.len() > entries.len().saturating_mul(2).saturating_add(64) {
            let all = std::mem::take(&mut self.records);
            self.len = 0;
            for raw in entries {
                if let Some(record) = all.get(raw) {
                    self.put_record(*raw, record);
                }
            }
        }
    }

    /// Returns the table for a frame with these entries. Its new pages will be stored at `offset`;
    /// `kept` are pages that are in the file already. `None` if it would tell nothing or be too
    /// large.
    pub(crate) fn table(
        &self,
        entries: &[i64],
        kept: &[StartPage],
        offset: u64,
        index: &[u8],
    ) -> Option<Table> {
        let stored = || entries.iter().filter(|raw| **raw >= 0).map(|raw| self.get(*raw));
        let len = stored().map(<[u8]>::len).fold(0usize, usize::saturating_add);
        let most_pages = (len / PAGE).saturating_mul(2).saturating_add(2).saturating_mul(StartPage::LEN);
        if self.full || len.saturating_add(most_pages) > MOST || stored().all(|record| record == UNKNOWN) {
            return None;
        }
        let mut all = memory::list(len).ok()?;
        let mut ends = memory::list(stored().count()).ok()?;
        for record in stored() {
            all.extend_from_slice(record);
            ends.push(all.len());
        }
        let kept = if len <= NEAR { &[] } else { kept };
        let mut table = Table::default();
        let old_or_new = Division { all: &all, ends: &ends }.pages(kept);
        for page in old_or_new {
            let page = match page {
                Slot::Old(page) => page,
                Slot::New(bytes, count) => {
                    let bytes = all.get(bytes)?;
                    let at = offset.saturating_add(table.bytes.len() as u64);
                    table.bytes.extend_from_slice(bytes);
                    let len = u32::try_from(bytes.len()).ok()?;
                    StartPage { offset: at, len, count: u32::try_from(count).ok()?, sum: sum(bytes) }
                }
            };
            table.pages.push(page);
        }
        let mut list = Vec::new();
        table.pages.iter().for_each(|page| page.encode(&mut list));
        list.extend_from_slice(&MAGIC);
        list.push(VERSION);
        let len = (table.pages.len() as u64).saturating_mul(StartPage::LEN as u64);
        list.extend_from_slice(&len.saturating_add(END_LEN as u64).to_le_bytes());
        list.extend_from_slice(&(ends.len() as u64).to_le_bytes());
        list.extend_from_slice(&sum(index).to_le_bytes());
        list.extend_from_slice(&sum(&list).to_le_bytes());
        table.bytes.extend_from_slice(&list);
        Some(table)
    }
}

enum Slot {
    Old(StartPage),
    /// A new page with this range of all records, in bytes, and their number.
    New(Range<usize>, usize),
}

/// All records in order, and where each ends.
struct Division<'a> {
    all: &'a [u8],
    ends: &'a [usize],
}

impl Division<'_> {
    /// Returns the offset of record `nth`, or the end.
    fn at(&self, nth: usize) -> usize {
        nth.checked_sub(1).map_or(0, |last| self.ends.get(last).copied().unwrap_or(self.all.len()))
    }

    /// Returns whether a page holds these records.
    fn is(&self, page: &StartPage, records: Range<usize>) -> bool {
        records.end <= self.ends.len()
            && page.len >= WORTH_KEEPING
            && (self.all.get(self.at(records.start)..self.at(records.end)))
                .is_some_and(|bytes| bytes.len() as u64 == u64::from(page.len) && sum(bytes) == page.sum)
    }

    /// Divides the records into pages. Pages of `kept` that hold the first or the last are reused.
    fn pages(&self, kept: &[StartPage]) -> Vec<Slot> {
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
            let full = from.saturating_add(PAGE);
            let fits = self.ends.get(start..end).unwrap_or_default().partition_point(|end| *end <= full);
            let next = start.saturating_add(fits.max(1));
            first.push(Slot::New(from..self.at(next), next.saturating_sub(start)));
            start = next;
        }
        first.extend(last.into_iter().rev());
        first
    }
}

/// Returns the record of a chunk, if there is something to tell.
fn record(chunk: &[u8], dparams: &DParams) -> Option<Vec<u8>> {
    if chunk.len() <= SMALL {
        return None;
    }
    let Ok(LazyHead::Ready(lazy)) = LazyChunk::parse(chunk, chunk.len() as u64, dparams) else {
        return None;
    };
    let nblocks = u16::try_from(lazy.nblocks()).ok().filter(|n| *n > 0)?;
    if lazy.header().is_vl() || lazy.header().special().is_some() {
        return None;
    }
    // The smallest unit with which the end fits.
    let unit = chunk.len().checked_div(u16::MAX.into())?.saturating_add(1);
    let unit = u16::try_from(unit).ok()?;
    if unit & NEEDS_BLOCK0 != 0 {
        return None;
    }
    let flags = if lazy.needs_block0() { NEEDS_BLOCK0 } else { 0 };
    let mut record = memory::list(usize::from(nblocks).saturating_mul(2).saturating_add(6)).ok()?;
    record.extend_from_slice(&(unit | flags).to_le_bytes());
    record.extend_from_slice(&nblocks.to_le_bytes());
    let mut last = 0;
    let starts = (0..usize::from(nblocks)).map(|nblock| lazy.block_extent(nblock).start);
    for start in starts.chain([chunk.len()]) {
        // Blocks in another order are not told.
        if start < last {
            return None;
        }
        last = start;
        record.extend_from_slice(&u16::try_from(start.checked_div(unit.into())?).ok()?.to_le_bytes());
    }
    Some(record)
}
