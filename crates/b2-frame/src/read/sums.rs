//! Plans that look up the sums of chunks.

use bytes::Bytes;

use crate::error::{max_metadata, within};
use crate::format::checksums::{Lookup, SumTable, Sums};
use crate::format::index::Entry;
use crate::names::FrameFile;
use crate::read::plan::{Plan, Step};
use crate::storage::files::Extent;
use crate::{FrameError, Structure, SuperChunk};

impl SuperChunk {
    fn sum_table(&self) -> Option<&SumTable> {
        match &self.opened.sums {
            Some(Sums::Pages(table)) => Some(table),
            _ => None,
        }
    }

    /// Returns the page with the sum of a chunk, if it is certainly needed, or probably needed and
    /// cheap to request along with the chunk.
    pub(crate) fn sums_ahead(&self, nchunk: usize) -> Result<Option<PageRequest>, FrameError> {
        use crate::Compare::{Always, Never};
        match self.opened.sums {
            Some(_) if self.compare == Always || self.costs.ahead && self.compare != Never => {
                Ok(self.sum_of(nchunk)?.err())
            }
            _ => Ok(None),
        }
    }

    /// Returns the sum of a stored chunk, if there is one, or the page that has to be read for it.
    pub(crate) fn sum_of(&self, nchunk: usize) -> Result<Result<Option<u64>, PageRequest>, FrameError> {
        let sum = match (&self.opened.sums, self.entry(nchunk)?) {
            (Some(Sums::Pages(table)), Entry::Stored(_)) => {
                match table.get(self.index().nstored(nchunk) as u64)? {
                    Lookup::Sum(sum) => sum,
                    Lookup::Page(npage, _) => match self.page_request(npage)? {
                        Some(request) => return Ok(Err(request)),
                        None => None,
                    },
                }
            }
            (Some(Sums::Known(sums)), entry) => sums.get(&entry.to_raw()).copied(),
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
        Ok(Some(PageRequest { npage, extent: Extent::exactly(FrameFile::Main, range) }))
    }

    pub(crate) fn take_page(&self, request: &PageRequest, bytes: Bytes) -> Result<(), FrameError> {
        self.sum_table().map_or(Ok(()), |table| table.put(request.npage, bytes))
    }

    /// Returns whether a stored chunk that was read and compared is as it was written, as far as checksums tell: it has
    /// one, or no chunk of the frame has.
    #[doc(hidden)]
    pub fn is_vouched_for(&self, nchunk: usize) -> bool {
        self.opened.sums.is_none() || matches!(self.sum_of(nchunk), Ok(Ok(Some(_))))
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

/// A request for a page of sums.
#[derive(Clone, Debug)]
pub(crate) struct PageRequest {
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
