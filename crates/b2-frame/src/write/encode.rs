//! Serializes the metadata around the chunks of a frame: the header before them; index, checksums and trailer after
//! them.

use std::sync::Arc;

use b2_core::memory;

use crate::FrameError;
use crate::format::checksums::{ChunkSums, END_LEN, FrameParts, Page, PagePlan};
use crate::format::digest::sum;
use crate::format::index;
use crate::format::records::{Pages, RecordPage, Records, TableKind};
use crate::format::start_copy::{self, Lengths};
use crate::format::starts::{ChunkStarts, StartsPolicy, budget};
use crate::format::trailer;
use crate::write::state::{FrameState, StoredHeader};

/// Minimum length of a tail whose pages are placed before the index, in bytes, so that everything needed to open a
/// frame is in the last 64 KiB.
const LONG_TAIL: usize = 60 << 10;

pub(crate) struct EncodedMetadata {
    pub(crate) head: Arc<StoredHeader>,
    /// Index chunk, checksums, block starts and trailer.
    pub(crate) tail: Vec<u8>,
    /// The pages of all tables.
    pub(crate) pages: Pages,
}

/// The content of a frame that is being serialized.
pub(crate) struct FrameContent<'a> {
    pub(crate) state: &'a FrameState,
    /// Sums of the chunks. Without them, or if one is unknown, the frame gets no checksums.
    pub(crate) sums: Option<&'a ChunkSums>,
    /// Where the blocks of the chunks are, if the frame gets a table of block starts.
    pub(crate) starts: Option<&'a ChunkStarts>,
    /// Pages that are in the file and keep their place.
    pub(crate) kept: &'a Pages,
    /// The start of the chunk data: all of it, or at least [`start_copy::MAX_COPIED_LEN`] bytes. Empty in a sparse frame.
    pub(crate) first: &'a [u8],
    /// The size of all chunks for the header, in bytes.
    pub(crate) cbytes: u64,
    /// Offset of the tail in the frame, in bytes.
    pub(crate) index_at: u64,
    /// Where pages may be placed.
    pub(crate) pages: PagePosition,
}

/// Where new pages of tables are placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PagePosition {
    /// Before the index, if the tail would be long otherwise.
    BeforeIndex,
    /// After the index.
    AfterIndex,
}

/// Serializes header and tail.
pub(crate) fn encode(content: &FrameContent<'_>) -> Result<EncodedMetadata, FrameError> {
    let FrameContent { state, sums, starts, kept, first, cbytes, index_at, pages } = *content;
    let entries = &state.entries[..];
    if entries.is_empty() {
        return empty(content);
    }
    let index = index::encode(entries)?.into_bytes();
    let mut trailer = trailer::encode(&state.vlmetalayers)?;
    let all = match sums {
        Some(sums) => sums.all(entries)?.map(|all| (sums, all)),
        None => None,
    };
    let starts = starts.and_then(|starts| Some((starts, starts.records(entries, &kept.starts)?)));
    let Some((sums, all)) = all else {
        let starts = starts.map(|(_, records)| records);
        let tables = Tables { starts, index: &index, ..Tables::default() };
        let tables = tables.placed(index_at, PagePosition::AfterIndex)?;
        let [starts, _] = tables.lists();
        let tail = joined(&[&index, &tables.after_index, &starts, &trailer])?;
        let head = state.head(cbytes, index_at + tail.len() as u64);
        return Ok(EncodedMetadata { head, tail, pages: tables.pages });
    };
    let plan = PagePlan::new(&all, &kept.sums);
    let block_len = Page::LEN * plan.npages() + END_LEN;
    let runs = sums.runs(entries, &kept.runs)?;
    let taken = all.len() + block_len + runs.len() + runs.list_len(TableKind::Sums);
    // The array's metadata do not depend on the numbers in the header.
    let head = state.head(cbytes, index_at);
    let parts = FrameParts { header: &head.bytes, index: &index, vlmetalayers: trailer::values(&trailer) };
    let extra = parts.array_sum()?;
    let lengths = lengths(content, &head, index.len() + plan.len + runs.new_len());
    let copy = lengths.copy(taken);
    let copy_len = copy.map_or(0, |len| lengths.page_len(len));
    let most = budget(index_at);
    let fits = |records: &Records| {
        let all = taken + records.len() + records.list_len(TableKind::Starts);
        all as u64 <= most && (all + copy_len) as u64 <= lengths.budget
    };
    let starts = starts
        .filter(|(starts, records)| starts.wanted == StartsPolicy::Always || fits(records))
        .map(|(_, records)| records);
    let starts_len = starts.as_ref().map_or(0, |starts| starts.len() + starts.list_len(TableKind::Starts));
    let copy = copy.map(|len| lengths.large(len, taken + starts_len));
    let tables = Tables {
        sums: Some((&plan, &all)),
        runs: Some(runs),
        starts,
        index: &index,
        extra,
        ..Tables::default()
    };
    let copy_len = copy.map_or(0, |len| lengths.page_len(len));
    let after = index.len() + tables.len() + copy_len + block_len + trailer.len();
    let mut tables =
        tables.placed(index_at, if after > LONG_TAIL { pages } else { PagePosition::AfterIndex })?;
    let copy_at = index_at + (tables.front.len() + index.len() + tables.after_index.len()) as u64;
    let padding = start_copy::padding(copy_at);
    let copy_len = copy.map_or(0, |len| padding + len);
    let after = tables.after_index.len() + copy_len + tables.lists_len(copy.is_some()) + block_len;
    let len = tables.front.len() + index.len() + after + trailer.len();
    let head = state.head(cbytes + tables.front.len() as u64, index_at + len as u64);
    let copy = match copy {
        Some(_) => {
            let start = [&head.bytes[..], first, &tables.front, &index, &tables.after_index];
            let mut page = memory::list(copy_len)?;
            page.resize(padding, 0);
            for part in start {
                let rest = copy_len - page.len();
                page.extend_from_slice(part.get(..rest).unwrap_or(part));
            }
            start_copy::mark(page.get_mut(padding..).unwrap_or_default());
            page
        }
        None => Vec::new(),
    };
    tables.put_copy(copy_at, &copy)?;
    let parts = FrameParts { header: &head.bytes, index: &index, vlmetalayers: trailer::values(&trailer) };
    let (block, fingerprint) = parts.encode(&tables.pages.sums)?;
    trailer::set_fingerprint(&mut trailer, fingerprint);
    let [starts, runs] = tables.lists();
    let tail =
        joined(&[&tables.front, &index, &tables.after_index, &copy, &starts, &runs, &block, &trailer])?;
    Ok(EncodedMetadata { head, tail, pages: tables.pages })
}

/// Returns the input for the length of the copy of the start of the frame. At least `after` bytes follow the chunks
/// before it.
fn lengths(content: &FrameContent<'_>, head: &StoredHeader, after: usize) -> Lengths {
    let FrameContent { state, first, cbytes, index_at, .. } = *content;
    let header = head.bytes.len();
    let chunk = if state.entries.contains(&0) { start_copy::head_len(first) } else { None };
    let at = index_at + after as u64;
    let known =
        if header as u64 + first.len() as u64 == index_at { at } else { (header + first.len()) as u64 };
    Lengths {
        header,
        head_end: header + chunk.unwrap_or(0),
        known: usize::try_from(known).unwrap_or(usize::MAX),
        padding: start_copy::padding(at),
        budget: start_copy::budget(cbytes),
    }
}

/// Serializes a frame without chunks, whose trailer must directly follow the header.
fn empty(content: &FrameContent<'_>) -> Result<EncodedMetadata, FrameError> {
    let FrameContent { state, sums, cbytes, index_at, .. } = *content;
    let mut trailer = trailer::encode(&state.vlmetalayers)?;
    let head = state.head(cbytes, index_at + trailer.len() as u64);
    if sums.is_some() {
        let parts = FrameParts { header: &head.bytes, index: &[], vlmetalayers: trailer::values(&trailer) };
        let fingerprint = parts.fingerprint_of_empty()?;
        trailer::set_fingerprint(&mut trailer, fingerprint);
    }
    Ok(EncodedMetadata { head, tail: trailer, pages: Pages::default() })
}

/// The tables of a frame, to be placed around its index.
#[derive(Default)]
struct Tables<'a> {
    sums: Option<(&'a PagePlan, &'a [u8])>,
    runs: Option<Records>,
    starts: Option<Records>,
    index: &'a [u8],
    extra: u64,
    /// Pages written before the index.
    front: Vec<u8>,
    /// New pages between the index and the lists.
    after_index: Vec<u8>,
    pages: Pages,
}

impl Tables<'_> {
    /// Returns the length of new pages and lists, in bytes.
    fn len(&self) -> usize {
        let records = |records: &Option<Records>, kind| {
            records.as_ref().map_or(0, |records| records.new_len() + records.list_len(kind))
        };
        self.sums.map_or(0, |(plan, _)| plan.len)
            + records(&self.runs, TableKind::Sums)
            + records(&self.starts, TableKind::Starts)
    }

    /// Assigns offsets to the new pages.
    fn placed(mut self, index_at: u64, pages: PagePosition) -> Result<Self, FrameError> {
        let in_front = pages == PagePosition::BeforeIndex;
        let start = if in_front { index_at } else { index_at + self.index.len() as u64 };
        let mut new = Vec::new();
        if let Some((plan, sums)) = self.sums {
            (new, self.pages.sums) = plan.place(sums, start)?;
        }
        let mut place = |records: &Option<Records>| -> Result<Vec<RecordPage>, FrameError> {
            let Some(records) = records else { return Ok(Vec::new()) };
            let (bytes, pages) = records.place(start + new.len() as u64)?;
            memory::reserve(&mut new, bytes.len())?;
            new.extend_from_slice(&bytes);
            Ok(pages)
        };
        self.pages.starts = place(&self.starts)?;
        self.pages.runs = place(&self.runs)?;
        *(if in_front { &mut self.front } else { &mut self.after_index }) = new;
        Ok(self)
    }

    /// Adds the page with the copy of the start of the frame, which is stored at offset `at`; none if it is empty.
    fn put_copy(&mut self, at: u64, page: &[u8]) -> Result<(), FrameError> {
        if !page.is_empty() {
            let Ok(len) = u32::try_from(page.len()) else {
                return Err(FrameError::argument("metalayers", "too long to have checksums"));
            };
            self.pages.copy = Some(RecordPage { offset: at, len, count: 0, sum: sum(page) });
        }
        Ok(())
    }

    /// Returns the length of both lists, in bytes.
    fn lists_len(&self, has_copy: bool) -> usize {
        let list =
            |records: &Option<Records>, kind| records.as_ref().map_or(0, |records| records.list_len(kind));
        let copy = if has_copy { RecordPage::LEN } else { 0 };
        list(&self.starts, TableKind::Starts) + list(&self.runs, TableKind::Sums) + copy
    }

    /// Returns the lists of the pages of block starts and of block sums.
    fn lists(&self) -> [Vec<u8>; 2] {
        let list = |records: &Option<Records>, kind, pages: &[RecordPage], copy| match records {
            Some(records) => records.list(kind, (pages, copy), self.index, self.extra),
            None => Vec::new(),
        };
        [
            list(&self.starts, TableKind::Starts, &self.pages.starts, None),
            list(&self.runs, TableKind::Sums, &self.pages.runs, self.pages.copy),
        ]
    }
}

fn joined(parts: &[&[u8]]) -> Result<Vec<u8>, FrameError> {
    let mut all = memory::list(parts.iter().map(|part| part.len()).sum())?;
    parts.iter().for_each(|part| all.extend_from_slice(part));
    Ok(all)
}
