//! Plans that look up the sums of chunks.

use b2_core::memory;
use bytes::Bytes;

use crate::error::{max_metadata, within};
use crate::format::checksums::{Lookup, SumTable, Sums};
use crate::format::index::Entry;
use crate::format::records::RecordTable;
use crate::format::runs;
use crate::format::runs::VerifiedChunk;
use crate::names::FrameFile;
use crate::read::plan::{Plan, Step};
use crate::storage::files::Extent;
use crate::{Compare, FrameError, Structure, SuperChunk};

impl SuperChunk {
    fn sum_table(&self) -> Option<&SumTable> {
        match &self.opened.sums {
            Some(Sums::Pages(table)) => Some(table),
            _ => None,
        }
    }

    /// Returns whether stored chunks are compared when they are read.
    #[doc(hidden)]
    pub fn compares_stored(&self) -> bool {
        self.opened.sums.is_some() && (self.keeps || self.compare != Compare::Never)
    }

    /// Returns whether verified data are verified again.
    pub(crate) fn compares_again(&self) -> bool {
        self.keeps || self.compare == Compare::Always || self.tuning.prefetch
    }

    /// Returns what has been verified in a chunk, unless it will be verified again.
    pub(crate) fn compared(&self, nchunk: usize) -> Option<&VerifiedChunk> {
        if self.compares_again() { None } else { self.opened.compared.get(nchunk) }
    }

    /// Records what has been verified in a chunk.
    pub(crate) fn put_compared(&self, nchunk: usize, chunk: VerifiedChunk) {
        if !self.compares_again() {
            // Later reads of the chunk compare nothing, so they must notice a program that begins to lock and overwrites it.
            self.source.as_ref().and_then(|source| source.guard.as_ref()).inspect(|guard| guard.watch());
            self.opened.compared.put(nchunk, self.nchunks(), chunk);
        }
    }

    /// Returns the missing pages that comparing a chunk needs, or probably needs if requests are
    /// expensive. `guess` is the estimated size of the chunk.
    pub(crate) fn pages_ahead(&self, nchunk: usize, guess: u64) -> Result<Vec<PageRequest>, FrameError> {
        if !self.compares_stored() || self.compared(nchunk).is_some() {
            return Ok(Vec::new());
        }
        let sums = |needed: bool| -> Result<Option<PageRequest>, FrameError> {
            Ok(if needed { self.sum_of(nchunk)?.err() } else { None })
        };
        let pages = if self.keeps {
            [None, sums(true)?]
        } else {
            match self.runs_of(nchunk)? {
                Err(page) => [Some(page), sums(self.tuning.prefetch && guess <= PROBABLY_WHOLE)?],
                Ok(record) => [None, sums(!runs::has_sums(record.as_deref()))?],
            }
        };
        Ok(pages.into_iter().flatten().collect())
    }

    /// Returns the record with the sums of a chunk's runs, if there is one, or the page that has to be
    /// read for it.
    pub(crate) fn runs_of(&self, nchunk: usize) -> Result<Result<Option<Bytes>, PageRequest>, FrameError> {
        let (sums, entry) = (&self.opened.sums, self.entry(nchunk)?);
        if self.is_own(entry) {
            return Ok(Ok(None));
        }
        if let (Some(Sums::Known(sums)), Entry::Stored(_)) = (sums, entry) {
            let record = sums.get(&entry.to_raw()).map(|sum| memory::copied(&sum.runs));
            return Ok(Ok(record.transpose()?.map(Bytes::from)));
        }
        let (Some(table), Entry::Stored(_)) = (&self.opened.runs, entry) else { return Ok(Ok(None)) };
        let nstored = self.index().nstored(nchunk) as u64;
        Ok(match self.record_page(table, PageOf::Runs, nstored) {
            Some(page) => Err(page),
            None => Ok(table.get(nstored)),
        })
    }

    /// Returns the page with a record if it is missing and not too long.
    pub(crate) fn record_page(&self, table: &RecordTable, of: PageOf, nstored: u64) -> Option<PageRequest> {
        let npage = table.page_of(nstored)?;
        let range = table.missing(npage)?;
        let fits = range.end.saturating_sub(range.start) <= max_metadata(&self.dparams).1;
        fits.then(|| PageRequest { of, npage, extent: Extent::at_most(FrameFile::Main, range) })
    }

    /// Returns the sum of a stored chunk, if there is one, or the page that has to be read for it.
    pub(crate) fn sum_of(&self, nchunk: usize) -> Result<Result<Option<u64>, PageRequest>, FrameError> {
        let sum = match (&self.opened.sums, self.entry(nchunk)?) {
            (_, entry) if self.is_own(entry) => None,
            (Some(Sums::Pages(table)), Entry::Stored(_)) => {
                match table.get(self.index().nstored(nchunk) as u64)? {
                    Lookup::Sum(sum) => sum,
                    Lookup::Page(npage, _) => match self.page_request(npage)? {
                        Some(request) => return Ok(Err(request)),
                        None => None,
                    },
                }
            }
            (Some(Sums::Known(sums)), entry) => sums.get(&entry.to_raw()).map(|sum| sum.whole),
            _ => None,
        };
        Ok(Ok(sum))
    }

    fn page_request(&self, npage: usize) -> Result<Option<PageRequest>, FrameError> {
        let Some(range) = self.sum_table().map_or(Ok(None), |table| table.missing(npage))? else {
            return Ok(None);
        };
        let len = range.end.saturating_sub(range.start);
        within("page of checksums, in bytes", len, max_metadata(&self.dparams))?;
        Ok(Some(PageRequest { of: PageOf::Sums, npage, extent: Extent::exactly(FrameFile::Main, range) }))
    }

    pub(crate) fn take_page(&self, request: &PageRequest, bytes: Bytes) -> Result<(), FrameError> {
        let put = |table: &Option<RecordTable>| {
            // Damaged pages are not used.
            let _ = table.as_ref().is_some_and(|table| table.put(request.npage, bytes.clone()));
            Ok(())
        };
        match request.of {
            PageOf::Sums => self.sum_table().map_or(Ok(()), |table| table.put(request.npage, bytes.clone())),
            PageOf::Runs => put(&self.opened.runs),
            PageOf::Starts => put(&self.opened.starts),
        }
    }

    /// Returns whether a stored chunk that was read and compared is known to be unchanged since it was written: it
    /// has a checksum, or no chunk of the frame has, or this process has put it into memory.
    #[doc(hidden)]
    pub fn is_verified(&self, nchunk: usize) -> bool {
        let own = || self.entry(nchunk).is_ok_and(|entry| self.is_own(entry));
        self.opened.sums.is_none() || own() || matches!(self.sum_of(nchunk), Ok(Ok(Some(_))))
    }

    /// Returns whether this process has put the chunk with this entry into memory that nothing can change.
    fn is_own(&self, entry: Entry) -> bool {
        matches!((self.trusted_from, entry), (Some(from), Entry::Stored(offset)) if offset >= from)
    }

    /// Compares the sum of a stored chunk with the one in the frame, if that is known.
    pub(crate) fn check_sum(&self, nchunk: usize, sum: impl FnOnce() -> u64) -> Result<(), FrameError> {
        match self.sum_of(nchunk)? {
            Ok(Some(expected)) if expected != sum() => Err(FrameError::Checksum {
                structure: Structure::Chunk(nchunk),
                what: "the bytes do not match the checksum",
            }),
            _ => Ok(()),
        }
    }
}

/// Chunks up to this size are probably compared as a whole, in bytes.
const PROBABLY_WHOLE: u64 = 64 << 10;

/// The table that a page belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageOf {
    Sums,
    Runs,
    Starts,
}

/// A request for a page of sums or of records.
#[derive(Clone, Debug)]
pub(crate) struct PageRequest {
    of: PageOf,
    npage: usize,
    pub(crate) extent: Extent,
}

/// A plan that reads missing pages of sums: the page for one chunk, or all pages.
pub(crate) struct SumsPlan<'a> {
    frame: &'a SuperChunk,
    pages: std::ops::Range<usize>,
    asked: Option<PageRequest>,
}

impl<'a> SumsPlan<'a> {
    /// Reads all pages.
    pub(crate) fn all(frame: &'a SuperChunk) -> Self {
        Self { frame, pages: 0..frame.sum_pages().len(), asked: None }
    }

    /// Reads the page with the sum of one chunk.
    pub(crate) fn of(frame: &'a SuperChunk, nchunk: usize) -> Result<Self, FrameError> {
        let pages = match frame.sum_of(nchunk)? {
            Err(PageRequest { npage, .. }) => npage..npage.saturating_add(1),
            Ok(_) => 0..0,
        };
        Ok(Self { frame, pages, asked: None })
    }
}

impl Plan for SumsPlan<'_> {
    type Output = ();

    fn step(&mut self, parts: Vec<Bytes>) -> Result<Step<()>, FrameError> {
        if let Some(request) = self.asked.take() {
            self.frame.take_page(&request, parts.into_iter().next().unwrap_or_default())?;
        }
        for npage in self.pages.by_ref() {
            if let Some(request) = self.frame.page_request(npage)? {
                let need = vec![request.extent.clone()];
                self.asked = Some(request);
                return Ok(Step::Need(need));
            }
        }
        Ok(Step::Done(()))
    }
}
