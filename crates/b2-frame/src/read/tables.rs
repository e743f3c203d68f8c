//! The tables of an open frame with the positions and the sums of its blocks: loading them for changes, and comparing
//! them.

use std::ops::Range;

use b2_core::memory;
use bytes::Bytes;

use crate::format::checksums::{END_LEN, Page, Sums, sum};
use crate::format::index::Entry;
use crate::format::records::{Found, Pages, RecordTable, TableKind};
use crate::format::starts::{ChunkStarts, MOST, Starts, budget};
use crate::names::FrameFile;
use crate::read::sums::{PageOf, PageRequest};
use crate::storage::files::Extent;
use crate::{FrameError, Structure, SuperChunk};

impl SuperChunk {
    /// Returns where the blocks of a chunk probably are, or the page to read for that, if requests are expensive and
    /// the frame records it.
    pub(super) fn starts_of(&self, nchunk: usize) -> (Option<Starts>, Option<PageRequest>) {
        let (Some(table), true, Ok(Entry::Stored(_))) =
            (&self.opened.starts, self.costs.ahead, self.entry(nchunk))
        else {
            return (None, None);
        };
        let nstored = self.index().nstored(nchunk) as u64;
        match self.record_page(table, PageOf::Starts, nstored) {
            None => (table.get(nstored).and_then(Starts::parse), None),
            page => (None, page),
        }
    }

    /// Returns a record, whose page is read if that is missing. Damaged pages have no records.
    pub(crate) fn record(
        &self,
        table: &RecordTable,
        of: PageOf,
        nstored: u64,
    ) -> Result<Option<Bytes>, FrameError> {
        if let Some(page) = self.record_page(table, of, nstored) {
            let bytes = self.driver().read(std::slice::from_ref(&page.extent))?;
            self.take_page(&page, bytes.into_iter().next().unwrap_or_default())?;
        }
        Ok(table.get(nstored))
    }

    /// Returns where the blocks of the chunks are, if the frame records it.
    pub(crate) fn chunk_starts(&self) -> Result<Option<ChunkStarts>, FrameError> {
        let Some(table) = &self.opened.starts else { return Ok(None) };
        let entries = self.index().to_entries(self.dparams.limits.max_metadata)?;
        let mut starts = ChunkStarts::new(self.is_beyond_budget(table));
        for (nstored, raw) in entries.iter().filter(|raw| **raw >= 0).enumerate() {
            let record = self.record(table, PageOf::Starts, nstored as u64)?;
            starts.put_record(*raw, &record.unwrap_or_default());
        }
        Ok(Some(starts))
    }

    /// Returns whether a table of block starts is so large that it must have been requested explicitly.
    pub(crate) fn is_beyond_budget(&self, table: &RecordTable) -> bool {
        let taken = [table.len(), self.sums_len(), self.block_sums_len().unwrap_or(0)];
        taken.into_iter().fold(0, u64::saturating_add) > budget(self.layout().data.end)
    }

    /// Returns the pages of the tables of sums, block sums and block starts.
    pub(crate) fn pages(&self) -> Pages {
        let records = |table: &Option<RecordTable>| {
            table.as_ref().map_or_else(Vec::new, |table| table.pages().to_vec())
        };
        Pages {
            sums: self.sum_pages().to_vec(),
            runs: records(&self.opened.runs),
            starts: records(&self.opened.starts),
        }
    }

    /// Returns the length of the table of block starts in bytes, if the frame has one
    /// (docs/format/block-starts.md).
    pub fn block_starts_len(&self) -> Option<u64> {
        self.opened.starts.as_ref().map(RecordTable::len)
    }

    /// Returns the length of the table of block sums in bytes, if the frame has one
    /// (docs/format/block-sums.md).
    pub fn block_sums_len(&self) -> Option<u64> {
        self.opened.runs.as_ref().map(RecordTable::len)
    }

    /// Compares the bytes between index and checksums, and the pages of the table of block starts wherever they are,
    /// with what the frame says about them.
    pub(super) fn verify_between(&self) -> Result<(), FrameError> {
        let Some(Sums::Pages(sums)) = &self.opened.sums else { return Ok(()) };
        let layout = &self.opened.layout;
        let block = (sums.pages().len() as u64).saturating_mul(Page::LEN as u64);
        let block = block.saturating_add(END_LEN as u64);
        let gap = layout.index.end..layout.trailer.start.saturating_sub(block);
        if self.nchunks() == 0 || gap.is_empty() {
            return Ok(());
        }
        let damaged = |structure, what| Err(FrameError::Checksum { structure, what });
        let mut known: Vec<_> = sums.pages().iter().filter_map(Page::range).collect();
        let tables =
            [(&self.opened.starts, Structure::BlockStarts), (&self.opened.runs, Structure::BlockSums)];
        for (table, structure) in tables {
            let Some(table) = table else { continue };
            for (npage, page) in table.pages().iter().enumerate() {
                let Some(range) = page.range() else {
                    return damaged(structure, "a page has an impossible offset");
                };
                let extent = Extent::at_most(FrameFile::Main, range.clone());
                let bytes = self.driver().read(&[extent])?.pop().unwrap_or_default();
                if bytes.len() as u64 != u64::from(page.len) || sum(&bytes) != page.sum {
                    return damaged(structure, "a page does not match its checksum");
                }
                table.put(npage, bytes);
                memory::push(&mut known, range)?;
            }
            memory::push(&mut known, table.list().clone())?;
        }
        known.sort_unstable_by_key(|range| range.start);
        let covered = known.iter().fold(gap.start, |at, range| match range.start <= at {
            true => at.max(range.end),
            false => at,
        });
        if covered >= gap.end || self.has_other_table(&gap)? {
            return Ok(());
        }
        // If both tables are missing, report the one next to the checksums first.
        let structure =
            if self.opened.runs.is_none() { Structure::BlockSums } else { Structure::BlockStarts };
        damaged(structure, "bytes between index and checksums belong to nothing")
    }

    /// Returns whether there is an intact table of a version unknown to this library.
    fn has_other_table(&self, gap: &Range<u64>) -> Result<bool, FrameError> {
        let (runs, starts) = (&self.opened.runs, &self.opened.starts);
        // The list of block starts precedes that of block sums.
        let (kind, end) = match (runs, starts) {
            (None, _) => (TableKind::Sums, gap.end),
            (Some(runs), None) => (TableKind::Starts, runs.list().start),
            _ => return Ok(false),
        };
        let start = gap.start.max(end.saturating_sub(MOST as u64));
        let bytes = self.driver().read(&[Extent::at_most(FrameFile::Main, start..end)])?;
        let bytes = bytes.into_iter().next().unwrap_or_default();
        let found = |kind| !matches!(Found::at_end(kind, &bytes, start, 0, 0), Found::Nothing);
        Ok(found(kind) || found(TableKind::Starts))
    }
}
