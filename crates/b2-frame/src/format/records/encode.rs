//! Writes tables of records. Unchanged pages of an earlier commit are kept.

use std::ops::Range;

use b2_core::{OutOfMemory, memory};

use super::{RecordPage, TableKind};
use crate::FrameError;
use crate::format::digest::sum;

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
