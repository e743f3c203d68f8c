//! The table of block starts of an open frame: loading it for changes, and comparing it.

use std::ops::Range;

use b2_core::memory;
use bytes::Bytes;

use crate::format::checksums::{END_LEN, Page, Sums, sum};
use crate::format::index::Entry;
use crate::format::starts::{ChunkStarts, Found, MOST, StartPage, StartTable, Starts};
use crate::names::FrameFile;
use crate::storage::files::Extent;
use crate::{FrameError, Structure, SuperChunk};

impl SuperChunk {
    /// Returns where the blocks of a chunk probably are, or the page to read for that, if requests
    /// are expensive and the frame tells it.
    pub(super) fn starts_of(&self, nchunk: usize) -> (Option<Starts>, Option<(usize, Extent)>) {
        let (Some(table), true, Ok(Entry::Stored(_))) =
            (&self.opened.starts, self.costs.ahead, self.entry(nchunk))
        else {
            return (None, None);
        };
        let nstored = self.index().nstored(nchunk) as u64;
        let missing = table.page_of(nstored).and_then(|npage| Some((npage, table.missing(npage)?)));
        match missing {
            None => (table.get(nstored), None),
            Some((npage, range)) => (None, Some((npage, Extent::at_most(FrameFile::Main, range)))),
        }
    }

    pub(super) fn take_start_page(&self, npage: usize, bytes: Bytes) {
        if let Some(table) = &self.opened.starts {
            table.put(npage, bytes);
        }
    }

    /// Returns where the blocks of the chunks are, if the frame tells it.
    pub(crate) fn chunk_starts(&self) -> Result<Option<ChunkStarts>, FrameError> {
        let Some(table) = &self.opened.starts else { return Ok(None) };
        let entries = self.index().to_entries(self.dparams.limits.max_metadata)?;
        let mut stored = entries.iter().filter(|raw| **raw >= 0);
        let mut starts = ChunkStarts::default();
        for (npage, page) in table.pages().iter().enumerate() {
            if let Some(range) = table.missing(npage) {
                let extent = Extent::at_most(FrameFile::Main, range);
                if let Some(bytes) = self.driver().read(&[extent])?.pop() {
                    table.put(npage, bytes);
                }
            }
            let mut records = table.records(npage);
            for raw in stored.by_ref().take(page.count as usize) {
                starts.put_record(*raw, &records.next().unwrap_or_default());
            }
        }
        Ok(Some(starts))
    }

    /// Returns the pages of the table of block starts.
    pub(crate) fn start_pages(&self) -> &[StartPage] {
        self.opened.starts.as_ref().map_or(&[], StartTable::pages)
    }

    /// Returns the length of the table of block starts in bytes, if the frame has one
    /// (docs/format/block-starts.md).
    pub fn block_starts_len(&self) -> Option<u64> {
        self.opened.starts.as_ref().map(StartTable::len)
    }

    /// Compares what stands between index and checksums, and the table of block starts wherever
    /// its pages are, with what the frame says about it.
    pub(super) fn verify_between(&self) -> Result<(), FrameError> {
        let Some(Sums::Pages(sums)) = &self.opened.sums else { return Ok(()) };
        let layout = &self.opened.layout;
        let block = (sums.pages().len() as u64).saturating_mul(Page::LEN as u64);
        let block = block.saturating_add(END_LEN as u64);
        let gap = layout.index.end..layout.trailer.start.saturating_sub(block);
        if self.nchunks() == 0 || gap.is_empty() {
            return Ok(());
        }
        let damaged = |what| Err(FrameError::Checksum { structure: Structure::BlockStarts, what });
        let mut known: Vec<_> = sums.pages().iter().filter_map(Page::range).collect();
        if let Some(table) = &self.opened.starts {
            for (npage, page) in table.pages().iter().enumerate() {
                let Some(range) = page.range() else { return damaged("a page has an impossible offset") };
                let extent = Extent::at_most(FrameFile::Main, range.clone());
                let bytes = self.driver().read(&[extent])?.pop().unwrap_or_default();
                if bytes.len() as u64 != u64::from(page.len) || sum(&bytes) != page.sum {
                    return damaged("a page does not match its checksum");
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
        damaged("bytes between index and checksums belong to nothing")
    }

    /// Returns whether a range ends with an intact table of block starts of a version that this one
    /// does not know.
    fn has_other_table(&self, gap: &Range<u64>) -> Result<bool, FrameError> {
        let start = gap.start.max(gap.end.saturating_sub(MOST as u64));
        let bytes = self.driver().read(&[Extent::at_most(FrameFile::Main, start..gap.end)])?;
        let bytes = bytes.into_iter().next().unwrap_or_default();
        Ok(matches!(Found::at_end(&bytes, start, 0, 0), Found::Other | Found::Table(_)))
    }
}
