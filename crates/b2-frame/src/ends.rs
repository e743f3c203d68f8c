//! What stands around the chunks of a frame: the header in front, index, checksums and trailer behind.

#![cfg_attr(
    not(test),
    deny(
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::string_slice,
        clippy::unreachable,
        clippy::unwrap_used,
        reason = "reads bytes from outside"
    )
)]

use b2_chunk::memory;
use bytes::Bytes;

use crate::checksums::{ChunkSums, END_LEN, Kept, Page, Parts, Plan};
use crate::{FrameError, index, trailer};

pub(crate) struct Ends {
    pub(crate) header: Bytes,
    /// Index chunk, checksums, trailer.
    pub(crate) tail: Vec<u8>,
    /// Where the sums of the chunks are.
    pub(crate) pages: Vec<Page>,
}

/// What the ends of a frame are made for.
pub(crate) struct Content<'a> {
    pub(crate) entries: &'a [i64],
    pub(crate) vlmetalayers: &'a [(Bytes, Bytes)],
    /// Those of the chunks. Checksums are left out without, and where that of a chunk is not known.
    pub(crate) sums: Option<&'a ChunkSums>,
    /// Pages of sums that are in the file, at places where they stay.
    pub(crate) kept: Kept<'a>,
    /// Where the tail will be, in bytes from the start of the frame.
    pub(crate) index_at: u64,
}

/// Encodes them. `header` makes the header once the length of all that is behind the chunks is known.
pub(crate) fn encode(content: &Content<'_>, header: impl FnOnce(u64) -> Bytes) -> Result<Ends, FrameError> {
    let Content { entries, vlmetalayers, sums, kept, index_at } = *content;
    let index = if entries.is_empty() { Bytes::new() } else { index::encode(entries)?.into_bytes() };
    let mut trailer = trailer::encode(vlmetalayers)?;
    let sums = match sums {
        Some(sums) => sums.all(entries)?,
        None => None,
    };
    let Some(sums) = sums else {
        let tail = joined(&[&index, &trailer])?;
        return Ok(Ends { header: header(tail.len() as u64), tail, pages: Vec::new() });
    };
    let plan = Plan::new(&sums, kept);
    let (new, pages) = plan.place(&sums, index_at + index.len() as u64)?;
    // Without chunks the block is not written.
    let block_len = if entries.is_empty() { 0 } else { Page::LEN * pages.len() + END_LEN };
    let len = index.len() + new.len() + block_len + trailer.len();
    let header = header(len as u64);
    let parts = Parts { header: &header, index: &index, vlmetalayers: trailer::values(&trailer) };
    let (mut block, mut fingerprint) = parts.encode(&pages)?;
    if entries.is_empty() {
        fingerprint = parts.fingerprint_of_empty()?;
    }
    block.truncate(block_len);
    trailer::set_fingerprint(&mut trailer, fingerprint);
    let tail = joined(&[&index, &new, &block, &trailer])?;
    Ok(Ends { header, tail, pages })
}

fn joined(parts: &[&[u8]]) -> Result<Vec<u8>, FrameError> {
    let mut all = memory::list(parts.iter().map(|part| part.len()).sum())?;
    parts.iter().for_each(|part| all.extend_from_slice(part));
    Ok(all)
}
