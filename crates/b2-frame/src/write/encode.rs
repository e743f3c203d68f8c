//! Serializes what surrounds the chunks of a frame: the header before them; index, checksums and
//! trailer after them.

use std::sync::Arc;

use b2_core::memory;

use crate::FrameError;
use crate::format::checksums::{ChunkSums, END_LEN, Page, PagePlan, Parts};
use crate::format::index;
use crate::format::records::{Pages, RecordPage, Records, TableKind};
use crate::format::starts::{ChunkStarts, Wanted, budget};
use crate::format::trailer;
use crate::write::state::{FrameState, StoredHeader};

/// Minimum length of a tail whose pages are placed before the index, in bytes, so that everything needed to open a
/// frame is in the last 64 KiB.
const LONG_TAIL: usize = 60 << 10;

pub(crate) struct Encoded {
    pub(crate) head: Arc<StoredHeader>,
    /// Index chunk, checksums, block starts and trailer.
    pub(crate) tail: Vec<u8>,
    /// The pages of all tables.
    pub(crate) pages: Pages,
}

/// The content of a frame that is being serialized.
pub(crate) struct Content<'a> {
    pub(crate) state: &'a FrameState,
    /// Sums of the chunks. Without them, or if one is unknown, the frame gets no checksums.
    pub(crate) sums: Option<&'a ChunkSums>,
    /// Where the blocks of the chunks are, if the frame gets a table of block starts.
    pub(crate) starts: Option<&'a ChunkStarts>,
    /// Pages that are in the file and keep their place.
    pub(crate) kept: &'a Pages,
    /// The size of all chunks for the header, in bytes.
    pub(crate) cbytes: u64,
    /// Offset of the tail in the frame, in bytes.
    pub(crate) index_at: u64,
    /// Where pages may be placed.
    pub(crate) pages: PagesGo,
}

/// Where new pages of tables are placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PagesGo {
    /// Before the index, if the tail would be long otherwise.
    InFront,
    /// Behind the index.
    Behind,
}

/// Serializes header and tail.
pub(crate) fn encode(content: &Content<'_>) -> Result<Encoded, FrameError> {
    let Content { state, sums, starts, kept, cbytes, index_at, pages } = *content;
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
        let Tables { front, behind, pages, .. } =
            Tables { starts, index: &index, extra: 0, ..Tables::default() }
                .placed(index_at, PagesGo::Behind)?;
        let tail = joined(&[&front, &index, &behind, &trailer])?;
        return Ok(Encoded { head: state.head(cbytes, index_at + tail.len() as u64), tail, pages });
    };
    let plan = PagePlan::new(&all, &kept.sums);
    let block_len = Page::LEN * plan.npages() + END_LEN;
    let runs = sums.runs(entries, &kept.runs)?;
    let taken = all.len() + block_len + runs.len() + runs.list_len(TableKind::Sums);
    let most = budget(index_at);
    let fits =
        |records: &Records| (taken + records.len() + records.list_len(TableKind::Starts)) as u64 <= most;
    let starts = starts
        .filter(|(starts, records)| starts.wanted == Wanted::Always || fits(records))
        .map(|(_, records)| records);
    // The array's metadata do not depend on the numbers in the header.
    let head = state.head(cbytes, index_at);
    let parts = Parts { header: &head.bytes, index: &index, vlmetalayers: trailer::values(&trailer) };
    let tables = Tables {
        sums: Some((&plan, &all)),
        runs: Some(runs),
        starts,
        index: &index,
        extra: parts.array_sum()?,
        ..Tables::default()
    };
    let behind = index.len() + tables.len() + block_len + trailer.len();
    let tables = tables.placed(index_at, if behind > LONG_TAIL { pages } else { PagesGo::Behind })?;
    let Tables { front, behind, pages, .. } = tables;
    let len = front.len() + index.len() + behind.len() + block_len + trailer.len();
    let head = state.head(cbytes + front.len() as u64, index_at + len as u64);
    let parts = Parts { header: &head.bytes, index: &index, vlmetalayers: trailer::values(&trailer) };
    let (block, fingerprint) = parts.encode(&pages.sums)?;
    trailer::set_fingerprint(&mut trailer, fingerprint);
    let tail = joined(&[&front, &index, &behind, &block, &trailer])?;
    Ok(Encoded { head, tail, pages })
}

/// Serializes a frame without chunks, whose trailer must directly follow the header.
fn empty(content: &Content<'_>) -> Result<Encoded, FrameError> {
    let Content { state, sums, cbytes, index_at, .. } = *content;
    let mut trailer = trailer::encode(&state.vlmetalayers)?;
    let head = state.head(cbytes, index_at + trailer.len() as u64);
    if sums.is_some() {
        let parts = Parts { header: &head.bytes, index: &[], vlmetalayers: trailer::values(&trailer) };
        let fingerprint = parts.fingerprint_of_empty()?;
        trailer::set_fingerprint(&mut trailer, fingerprint);
    }
    Ok(Encoded { head, tail: trailer, pages: Pages::default() })
}

/// The tables of a frame, to be placed around its index.
#[derive(Default)]
struct Tables<'a> {
    sums: Option<(&'a PagePlan, &'a [u8])>,
    runs: Option<Records>,
    starts: Option<Records>,
    index: &'a [u8],
    extra: u64,
    /// What is written before the index.
    front: Vec<u8>,
    /// What is written between the index and the block of checksums.
    behind: Vec<u8>,
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
    fn placed(mut self, index_at: u64, pages: PagesGo) -> Result<Self, FrameError> {
        let in_front = pages == PagesGo::InFront;
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
        let list = |records: &Option<Records>, kind, pages: &[RecordPage]| {
            records
                .as_ref()
                .map_or_else(Vec::new, |records| records.list(kind, pages, self.index, self.extra))
        };
        let lists = [
            list(&self.starts, TableKind::Starts, &self.pages.starts),
            list(&self.runs, TableKind::Sums, &self.pages.runs),
        ];
        if in_front {
            self.front = std::mem::take(&mut new);
        }
        self.behind = joined(&[&new, &lists[0], &lists[1]])?;
        Ok(self)
    }
}

fn joined(parts: &[&[u8]]) -> Result<Vec<u8>, FrameError> {
    let mut all = memory::list(parts.iter().map(|part| part.len()).sum())?;
    parts.iter().for_each(|part| all.extend_from_slice(part));
    Ok(all)
}
