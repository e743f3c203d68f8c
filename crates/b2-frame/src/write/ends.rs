//! Serializes what surrounds the chunks of a frame: the header before them; index, checksums and
//! trailer after them.

use std::sync::Arc;

use b2_core::memory;
use bytes::Bytes;

use crate::FrameError;
use crate::format::checksums::{ChunkSums, END_LEN, Kept, Page, Parts, Plan};
use crate::format::index;
use crate::format::starts::{ChunkStarts, StartPage};
use crate::format::trailer;
use crate::write::state::{FrameState, Head};

pub(crate) struct Ends {
    pub(crate) head: Arc<Head>,
    /// Index chunk, checksums, block starts and trailer.
    pub(crate) tail: Vec<u8>,
    /// The pages with the sums of the chunks.
    pub(crate) pages: Vec<Page>,
    /// The pages of the table of block starts.
    pub(crate) start_pages: Vec<StartPage>,
}

/// The content of a frame that is being serialized.
pub(crate) struct Content<'a> {
    pub(crate) state: &'a FrameState,
    /// Sums of the chunks. Without them, or if one is unknown, the frame gets no checksums.
    pub(crate) sums: Option<&'a ChunkSums>,
    /// Pages of sums that are in the file and stay where they are.
    pub(crate) kept: Kept<'a>,
    /// Where the blocks of the chunks are, if the frame is to tell it.
    pub(crate) starts: Option<&'a ChunkStarts>,
    /// Pages of the table of block starts that are in the file and stay where they are.
    pub(crate) kept_starts: &'a [StartPage],
    /// The size of all chunks for the header, in bytes.
    pub(crate) cbytes: u64,
    /// Offset of the tail in the frame, in bytes.
    pub(crate) index_at: u64,
}

/// Serializes header and tail.
pub(crate) fn encode(content: &Content<'_>) -> Result<Ends, FrameError> {
    let Content { state, sums, kept, starts, kept_starts, cbytes, index_at } = *content;
    let entries = &state.entries[..];
    let head = |tail_len: usize| state.head(cbytes, index_at + tail_len as u64);
    let index = if entries.is_empty() { Bytes::new() } else { index::encode(entries)?.into_bytes() };
    let mut trailer = trailer::encode(&state.vlmetalayers)?;
    let sums = match sums {
        Some(sums) => sums.all(entries)?,
        None => None,
    };
    let starts_at = |at: u64| {
        let table = starts.filter(|_| !entries.is_empty());
        table.and_then(|table| table.table(entries, kept_starts, at, &index)).unwrap_or_default()
    };
    let index_end = index_at + index.len() as u64;
    let Some(sums) = sums else {
        let table = starts_at(index_end);
        let tail = joined(&[&index, &table.bytes, &trailer])?;
        return Ok(Ends { head: head(tail.len()), tail, pages: Vec::new(), start_pages: table.pages });
    };
    let plan = Plan::new(&sums, kept);
    let (new, pages) = plan.place(&sums, index_end)?;
    let table = starts_at(index_end + new.len() as u64);
    // In a frame without chunks the block is not stored.
    let block_len = if entries.is_empty() { 0 } else { Page::LEN * pages.len() + END_LEN };
    let len = index.len() + new.len() + table.bytes.len() + block_len + trailer.len();
    let head = head(len);
    let parts = Parts { header: &head.bytes, index: &index, vlmetalayers: trailer::values(&trailer) };
    let (mut block, mut fingerprint) = parts.encode(&pages)?;
    if entries.is_empty() {
        fingerprint = parts.fingerprint_of_empty()?;
    }
    block.truncate(block_len);
    trailer::set_fingerprint(&mut trailer, fingerprint);
    let tail = joined(&[&index, &new, &table.bytes, &block, &trailer])?;
    Ok(Ends { head, tail, pages, start_pages: table.pages })
}

fn joined(parts: &[&[u8]]) -> Result<Vec<u8>, FrameError> {
    let mut all = memory::list(parts.iter().map(|part| part.len()).sum())?;
    parts.iter().for_each(|part| all.extend_from_slice(part));
    Ok(all)
}
