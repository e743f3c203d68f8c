//! The tables of an open frame with the positions and the sums of its blocks: loading them for changes, and comparing
//! them.

use std::ops::Range;

use b2_core::memory;
use bytes::Bytes;

use crate::format::checksums::{Checksums, ChunkSum, ChunkSums, END_LEN, Page, Sums};
use crate::format::digest::sum;
use crate::format::index::Entry;
use crate::format::records::{FoundTable, MAX_STARTS_LEN, Pages, RecordPage, RecordTable, TableKind};
use crate::format::start_copy;
use crate::format::starts::{ChunkStarts, Starts, StartsPolicy, budget};
use crate::names::FrameFile;
use crate::read::restored::restored_error;
use crate::read::sums::{PageOf, PageRequest, SumsPlan};
use crate::read::super_chunk::BoundPlan;
use crate::read::whole_chunk_plan::{CompareMode, WholeChunkPlan};
use crate::storage::files::Extent;
use crate::{FrameError, Structure, SuperChunk};

impl SuperChunk {
    /// Returns the sums of the chunks, if they exist and are reliable.
    pub(crate) fn chunk_sums(&self) -> Result<Option<ChunkSums>, FrameError> {
        let Some(Sums::Pages(table)) = &self.opened.sums else { return Ok(None) };
        self.driver().run(SumsPlan::all(self))?;
        let pages = (0..table.pages().len()).map(|npage| table.page(npage));
        let sums = pages.flat_map(|page| page.as_chunks::<8>().0).map(|sum| u64::from_le_bytes(*sum));
        let entries = self.index().to_entries(self.dparams.limits.max_metadata)?;
        let mut all = memory::list(entries.len())?;
        for (nstored, whole) in sums.enumerate() {
            let runs = match &self.opened.runs {
                Some(table) => self.record(table, PageOf::Runs, nstored as u64)?.unwrap_or_default(),
                None => Bytes::new(),
            };
            memory::push(&mut all, ChunkSum { whole, runs: memory::copied(&runs)?.into() })?;
        }
        Ok(Some(ChunkSums::of(&entries, all.into_iter())?))
    }

    /// Compares all stored chunks with their checksums, if there are any, without decoding them.
    /// Everything else was compared when the frame was opened.
    ///
    /// # Errors
    /// [`FrameError::Checksum`] (as [`detail`](FrameError::detail)) for the first damaged chunk; as for
    /// [`ChunkRef::read`](crate::ChunkRef::read) when a chunk cannot be read; [`FrameError::Cancelled`].
    pub fn verify_checksums(&self) -> Result<Checksums, FrameError> {
        self.compare_all().map_err(|error| self.add_name(error))
    }

    fn compare_all(&self) -> Result<Checksums, FrameError> {
        let control = self.dparams.control.begin(self.nbytes(), self.itemsize() as u64);
        self.verify_between()?;
        let mut driver = self.driver();
        let mut nchunk = 0;
        // Remote storage answers many requests in the time of one.
        let most = self.files.in_flight();
        while nchunk < self.nchunks() && self.opened.sums.is_some() {
            let (mut runs, mut plans) = (Vec::new(), Vec::new());
            while nchunk < self.nchunks() && plans.len() < most {
                let (entry, run) = self.index().run(nchunk)?;
                nchunk = run.end;
                if let Entry::Stored(_) = entry {
                    memory::push(
                        &mut plans,
                        BoundPlan(self, WholeChunkPlan::new(self, run.start, CompareMode::Never)?),
                    )?;
                    memory::push(&mut runs, run)?;
                }
            }
            for (run, chunk) in runs.into_iter().zip(driver.run_all(plans)?) {
                // Chunks that share their bytes have one sum each.
                let chunk = chunk?;
                let sum = sum(chunk.as_bytes());
                let count = run.len() as u64;
                for nchunk in run {
                    driver.run(SumsPlan::of(self, nchunk)?)?;
                    self.check_sum(nchunk, || sum)?;
                }
                control.advance((chunk.nbytes() as u64).saturating_mul(count))?;
            }
        }
        Ok(self.checksums())
    }

    /// Returns where the blocks of a chunk probably are, or the page to read for that, if requests are expensive and
    /// the frame records it.
    pub(super) fn starts_of(&self, nchunk: usize) -> (Option<Starts>, Option<PageRequest>) {
        let (Some(table), true, Ok(Entry::Stored(_))) =
            (&self.opened.starts, self.tuning.prefetch, self.entry(nchunk))
        else {
            return (None, None);
        };
        let nstored = self.index().nstored(nchunk) as u64;
        match self.record_page(table, PageOf::Starts, nstored) {
            None => (table.get(nstored).and_then(Starts::parse), None),
            page => (None, page),
        }
    }

    /// Returns a record, and reads its page first if that is not loaded. Damaged pages have no records.
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
        let mut starts = ChunkStarts::new(self.wanted_starts(table));
        for (nstored, raw) in entries.iter().filter(|raw| **raw >= 0).enumerate() {
            let record = self.record(table, PageOf::Starts, nstored as u64)?;
            starts.put_record(*raw, &record.unwrap_or_default());
        }
        Ok(Some(starts))
    }

    /// Returns when the frame gets a table of block starts: a table beyond the budget must have been requested.
    pub(crate) fn wanted_starts(&self, table: &RecordTable) -> StartsPolicy {
        let taken = [table.len(), self.sums_len(), self.block_sums_len().unwrap_or(0)];
        let taken = taken.into_iter().fold(0, u64::saturating_add);
        let copy = self.start_copy_len().unwrap_or(0);
        let beyond = taken > budget(self.layout().data.end)
            || taken.saturating_add(copy) > start_copy::budget(self.header().cbytes());
        if beyond { StartsPolicy::Always } else { StartsPolicy::IfSmall }
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
            copy: self.start_copy(),
        }
    }

    /// Returns the length of the copy of the frame's start in bytes, with its place in a list, if the frame has one
    /// (docs/format/start-copy.md).
    pub fn start_copy_len(&self) -> Option<u64> {
        self.start_copy().map(|page| u64::from(page.len).saturating_add(RecordPage::LEN as u64))
    }

    /// Returns the page with the copy of the start of the frame.
    pub(crate) fn start_copy(&self) -> Option<RecordPage> {
        self.opened.runs.as_ref()?.copy
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
    /// with the frame's information about them.
    pub(super) fn verify_between(&self) -> Result<(), FrameError> {
        if self.is_restored() {
            return Err(restored_error());
        }
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
                    return damaged(structure, "the offset of a page is impossible");
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
            if let Some(page) = &table.copy {
                let Some(range) = page.range() else {
                    return damaged(structure, "the offset of a page is impossible");
                };
                let extent = Extent::at_most(FrameFile::Main, range.clone());
                let bytes = self.driver().read(&[extent])?.pop().unwrap_or_default();
                if start_copy::in_page(page, &bytes).is_none() {
                    return damaged(
                        structure,
                        "the copy of the start of the frame does not match its checksum",
                    );
                }
                memory::push(&mut known, range)?;
            }
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
        damaged(structure, "unknown bytes between index and checksums")
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
        let start = gap.start.max(end.saturating_sub(MAX_STARTS_LEN as u64));
        let bytes = self.driver().read(&[Extent::at_most(FrameFile::Main, start..end)])?;
        let bytes = bytes.into_iter().next().unwrap_or_default();
        let found = |kind| !matches!(FoundTable::at_end(kind, &bytes, start, 0, 0), FoundTable::Nothing);
        Ok(found(kind) || found(TableKind::Starts))
    }
}
