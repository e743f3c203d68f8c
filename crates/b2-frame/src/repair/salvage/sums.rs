//! The checksums of a damaged frame: they show which chunks are unchanged, and their order.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use twox_hash::XxHash3_128;

use super::files::DamagedFiles;
use super::head::{Condition, RepairedHeader};
use super::scan::{FoundChunk, trailer_at};
use crate::FrameError;
use crate::format::checksums::{END_LEN, MAGIC, Page, block_len, read_table};
use crate::format::digest::sum;
use crate::format::index::{Entry, Index};
use crate::names::FrameFile;
use crate::storage::files::Extent;

/// Number of bytes read at a time.
const WINDOW_LEN: u64 = 1 << 20;

/// Checksums that were found.
#[derive(Debug)]
pub(super) struct FoundSums {
    /// Of the whole header, and of the header without the fields that C-Blosc2 changes in place.
    pub(super) header: [u64; 2],
    /// Of the index chunk.
    pub(super) index: u64,
    /// Of the trailer up to its length.
    trailer: u64,
    /// The first byte of the frame after the trailer, if the trailer is at the position in the header.
    frame_len: Option<u64>,
    /// The sums of all stored chunks in order; `None` where the checksum itself is damaged.
    pub(super) chunks: Vec<Option<u64>>,
    /// The first byte after them.
    pub(super) end: u64,
    /// Whether the trailer after them is at the position in the header.
    in_place: bool,
}

/// Finds the checksums of the newest state: those before the trailer if it is in place, otherwise the last ones.
pub(super) fn find(
    damaged: &DamagedFiles<'_>,
    head: Option<&RepairedHeader>,
) -> Result<Option<FoundSums>, FrameError> {
    let len = damaged.searched();
    let frame_len =
        head.filter(|head| head.condition == Condition::Intact).map(|head| head.header.frame_len());
    let mut best: Option<FoundSums> = None;
    // A hostile file may look like many blocks, each of which lists the whole file.
    let mut budget = len.saturating_mul(64).saturating_add(64 << 20);
    let mut at = 0;
    while at < len {
        let window =
            damaged.main.read(&Extent::at_most(FrameFile::Main, at..at.saturating_add(WINDOW_LEN)))?;
        damaged.go_on()?;
        for i in positions(&window) {
            damaged.go_on()?;
            let found = read(damaged, at + i as u64, frame_len, &mut budget);
            if let Some(found) = found
                && best.as_ref().is_none_or(|best| found.in_place >= best.in_place)
            {
                best = Some(found);
            }
        }
        // Structures that start in the last bytes are complete in the next window.
        at += (window.len() as u64).saturating_sub(MAGIC.len() as u64 - 1).max(1);
    }
    Ok(best)
}

fn positions(window: &[u8]) -> impl Iterator<Item = usize> {
    window.windows(MAGIC.len()).enumerate().filter(|(_, bytes)| **bytes == MAGIC).map(|(i, _)| i)
}

/// Reads the block whose fixed end starts at `end_at`, if it is plausible.
fn read(
    damaged: &DamagedFiles<'_>,
    end_at: u64,
    frame_len: Option<u64>,
    budget: &mut u64,
) -> Option<FoundSums> {
    let bytes = |start: u64, end: u64| damaged.main.read(&Extent::exactly(FrameFile::Main, start..end)).ok();
    let after = end_at.checked_add(END_LEN as u64)?;
    let end = bytes(end_at, after)?;
    let len = block_len(&end, damaged.dparams.limits.max_metadata);
    *budget = budget.checked_sub(len)?;
    let block = bytes(after.checked_sub(len)?, after)?;
    let pages = read_table(block.get(..block.len() - END_LEN)?);
    let number = |at: usize| end.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
    if pages.iter().try_fold(0u64, |sum, page| sum.checked_add(page.count)) != Some(number(16)?)
        // All sums are stored before the block.
        || number(16)? > after / 8
    {
        return None;
    }
    let fingerprint = XxHash3_128::oneshot(&block).to_le_bytes();
    let rest = damaged.main.read(&Extent::at_most(FrameFile::Main, after..after.checked_add(32)?)).ok()?;
    let trailer = trailer_at(&damaged.main, after, &rest, &damaged.dparams, budget).ok().flatten();
    let trailer = trailer.filter(|(trailer, _)| trailer.fingerprint().1 == fingerprint);
    let mut chunks = Vec::new();
    let mut good = 0;
    for page in &pages {
        match load(damaged, page, budget) {
            Some(sums) => {
                good += 1;
                chunks.extend(sums.as_chunks::<8>().0.iter().map(|sum| Some(u64::from_le_bytes(*sum))));
            }
            None => chunks.resize(chunks.len() + page.count as usize, None),
        }
    }
    // Without the trailer, at least one intact page must confirm the list of pages.
    if trailer.is_none() && good == 0 {
        return None;
    }
    let in_place = trailer.as_ref().is_some_and(|(_, len)| Some(after + len) == frame_len);
    Some(FoundSums {
        header: [number(24)?, number(32)?],
        index: number(40)?,
        trailer: number(48)?,
        frame_len: frame_len.filter(|_| in_place),
        chunks,
        end: after,
        in_place,
    })
}

fn load(damaged: &DamagedFiles<'_>, page: &Page, budget: &mut u64) -> Option<Bytes> {
    let range = page.range()?;
    *budget = budget.checked_sub(range.end.checked_sub(range.start)?)?;
    let bytes = damaged.main.read(&Extent::exactly(FrameFile::Main, range)).ok()?;
    (sum(&bytes) == page.sum).then_some(bytes)
}

impl FoundSums {
    /// The checksums of all chunks of the index that they belong to; `None` for chunks that are not stored.
    pub(super) fn by_index(&self, index: &Index) -> Vec<Option<u64>> {
        let mut sums = self.chunks.iter();
        let sum = |nchunk| match index.entry(nchunk) {
            Ok(Entry::Stored(_)) => sums.next().copied().flatten(),
            _ => None,
        };
        (0..index.len()).map(sum).collect()
    }

    /// Whether the trailer after them is known to be unchanged.
    pub(super) fn fit_trailer(&self, damaged: &DamagedFiles<'_>) -> bool {
        let Some(end) = self.frame_len.and_then(|end| end.checked_sub(23)) else { return true };
        let bytes = damaged.main.read(&Extent::at_most(FrameFile::Main, self.end..end));
        bytes.is_ok_and(|bytes| sum(&bytes) == self.trailer)
    }

    /// All known checksums.
    pub(super) fn known(&self) -> HashSet<u64> {
        self.chunks.iter().copied().flatten().collect()
    }

    /// Whether the checksums of all chunks are known.
    pub(super) fn is_complete(&self) -> bool {
        self.chunks.iter().all(Option::is_some)
    }

    /// The positions of the chunks in order, `None` for those that were not found. Where a checksum is unknown, chunks
    /// that match none are used in file order. Returns `None` if no checksum is known.
    pub(super) fn places(
        &self,
        damaged: &DamagedFiles<'_>,
        found: &[FoundChunk],
    ) -> Result<Option<Vec<Option<u64>>>, FrameError> {
        if !self.chunks.is_empty() && self.chunks.iter().all(Option::is_none) {
            return Ok(None);
        }
        let mut places: HashMap<u64, Vec<u64>> = HashMap::new();
        for chunk in found.iter().rev() {
            damaged.go_on()?;
            if let Ok(stored) = damaged.chunk(chunk.offset) {
                places.entry(sum(stored.as_bytes())).or_default().push(chunk.offset);
            }
        }
        // Equal chunks may be stored several times, or once for several entries.
        let mut place = |sum: &Option<u64>| {
            let places = places.get_mut(sum.as_ref()?)?;
            if places.len() > 1 { places.pop() } else { places.first().copied() }
        };
        let mut ordered: Vec<Option<u64>> = self.chunks.iter().map(&mut place).collect();
        let taken: HashSet<u64> = ordered.iter().copied().flatten().collect();
        let mut others = found.iter().map(|chunk| chunk.offset).filter(|offset| !taken.contains(offset));
        for (place, _) in ordered.iter_mut().zip(&self.chunks).filter(|(_, sum)| sum.is_none()) {
            *place = others.next();
        }
        Ok(Some(ordered))
    }
}
