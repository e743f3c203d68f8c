//! Stored sums of chunks. They are divided into pages, so that a commit writes only pages that
//! change, and reading one chunk needs only one page. Frames that this process wrote have their sums by index entry
//! instead.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use b2_chunk::LazyChunk;
use b2_core::{OutOfMemory, memory};
use bytes::Bytes;

use crate::format::digest::sum;
use crate::format::runs;
use crate::{FrameError, Structure};

/// Number of sums in a full page. The last page may have fewer.
const SUMS_PER_PAGE: usize = 512;
/// A page with at least this many sums is reused when its neighbours change. Smaller ones are
/// merged, so that the list of pages stays short.
const WORTH_KEEPING: u64 = SUMS_PER_PAGE as u64 / 2;

/// A page: the sums of consecutive stored chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    /// Offset of the page in bytes from the start of the frame (of the index file of a sparse
    /// frame).
    pub(crate) offset: u64,
    /// Number of sums in the page.
    pub(crate) count: u64,
    /// Sum of the page itself.
    pub(crate) sum: u64,
}

impl Page {
    /// Length of an entry in the list of pages, in bytes.
    pub(crate) const LEN: usize = 24;

    pub(super) fn encode(&self, block: &mut Vec<u8>) {
        for number in [self.offset, self.count, self.sum] {
            block.extend_from_slice(&number.to_le_bytes());
        }
    }

    /// Returns the page's range of bytes in the frame; `None` if it overflows.
    pub(crate) fn range(&self) -> Option<Range<u64>> {
        Some(self.offset..self.offset.checked_add(self.count.checked_mul(8)?)?)
    }
}

/// Parses the list of pages.
pub(crate) fn read_table(table: &[u8]) -> Vec<Page> {
    let page = |entry: &[[u8; 8]]| match entry {
        [offset, count, sum] => {
            let [offset, count, sum] = [offset, count, sum].map(|bytes| u64::from_le_bytes(*bytes));
            Some(Page { offset, count, sum })
        }
        _ => None,
    };
    table.as_chunks::<8>().0.chunks(3).filter_map(page).collect()
}

/// How the sums of a frame that is being written are divided into pages.
#[derive(Debug)]
pub(crate) struct PagePlan {
    pages: Vec<Slot>,
    /// Total length of the new pages, in bytes.
    pub(crate) len: usize,
}

#[derive(Debug)]
enum Slot {
    Old(Page),
    /// A new page with this range of all sums, in bytes.
    New(Range<usize>),
}

impl PagePlan {
    /// Divides `sums` into pages. Pages of `kept` that match the first or last sums are reused.
    pub(crate) fn new(sums: &[u8], kept: &[Page]) -> Self {
        let fits = |page: &Page, range: Option<Range<usize>>| {
            let bytes = range.clone().and_then(|range| sums.get(range))?;
            (page.count >= WORTH_KEEPING && sum(bytes) == page.sum).then_some(bytes.len())
        };
        let len = |page: &Page| usize::try_from(page.count).ok()?.checked_mul(8);
        let (mut start, mut end) = (0usize, sums.len());
        let mut first = Vec::new();
        let mut rest = kept;
        while let [page, others @ ..] = rest
            && let Some(len) = fits(page, len(page).and_then(|len| Some(start..start.checked_add(len)?)))
        {
            first.push(Slot::Old(*page));
            start = start.saturating_add(len);
            rest = others;
        }
        let mut last = Vec::new();
        while let [others @ .., page] = rest
            && let Some(from) = len(page).and_then(|len| end.checked_sub(len)).filter(|from| *from >= start)
            && fits(page, Some(from..end)).is_some()
        {
            last.push(Slot::Old(*page));
            end = from;
            rest = others;
        }
        let len = end.saturating_sub(start);
        let new = (start..end)
            .step_by(SUMS_PER_PAGE * 8)
            .map(|at| Slot::New(at..end.min(at.saturating_add(SUMS_PER_PAGE * 8))));
        let pages = first.into_iter().chain(new).chain(last.into_iter().rev()).collect();
        Self { pages, len }
    }

    /// Returns the number of all pages.
    pub(crate) fn npages(&self) -> usize {
        self.pages.len()
    }

    /// Returns the bytes of the new pages, which will be stored at `offset`, and the list of all
    /// pages.
    ///
    /// # Errors
    /// When there is not enough memory.
    pub(crate) fn place(&self, sums: &[u8], offset: u64) -> Result<(Vec<u8>, Vec<Page>), OutOfMemory> {
        let mut bytes = memory::list(self.len)?;
        let mut page = |slot: &Slot| match slot {
            Slot::Old(page) => *page,
            Slot::New(range) => {
                let new = sums.get(range.clone()).unwrap_or_default();
                let offset = offset.saturating_add(bytes.len() as u64);
                bytes.extend_from_slice(new);
                Page { offset, count: new.len() as u64 / 8, sum: sum(new) }
            }
        };
        let pages = self.pages.iter().map(&mut page).collect();
        Ok((bytes, pages))
    }
}

/// The sums of an opened frame's chunks.
#[derive(Debug)]
pub(crate) enum Sums {
    /// Stored sums.
    Pages(SumTable),
    /// Sums of the committed chunks of a frame that is being changed.
    Known(Arc<SumsByEntry>),
}

/// The result of looking up the checksum of a chunk.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// The sum of the chunk; `None` if it has none.
    Sum(Option<u64>),
    /// The sum is in this page, which has to be read from these bytes of the frame.
    Page(usize, Range<u64>),
}

fn wrong(what: &'static str) -> FrameError {
    FrameError::Checksum { structure: Structure::Checksums, what }
}

/// Sums in pages, each of which is read when it is first needed.
#[derive(Debug, Default)]
pub(crate) struct SumTable {
    pages: Vec<Page>,
    /// Number of sums before each page.
    before: Vec<u64>,
    loaded: Vec<OnceLock<Bytes>>,
    /// Bytes of the frame that were read with the trailer, and their offset.
    at_hand: (u64, Bytes),
}

impl SumTable {
    /// Creates the table. `at_hand` are bytes of the frame that may contain pages, and their
    /// offset.
    pub(crate) fn new(pages: Vec<Page>, at_hand: (u64, Bytes)) -> Self {
        let mut total = 0u64;
        let before = |page: &Page| {
            let before = total;
            total = total.saturating_add(page.count);
            before
        };
        let before = pages.iter().map(before).collect();
        let loaded = pages.iter().map(|_| OnceLock::new()).collect();
        Self { pages, before, loaded, at_hand }
    }

    pub(crate) fn pages(&self) -> &[Page] {
        &self.pages
    }

    /// Looks up the sum of a chunk by its position among the stored chunks.
    ///
    /// # Errors
    /// When the list of pages is invalid.
    pub(crate) fn get(&self, nstored: u64) -> Result<Lookup, FrameError> {
        let npage = self.before.partition_point(|before| *before <= nstored).checked_sub(1);
        let Some((npage, before)) = npage.and_then(|n| Some((n, self.before.get(n)?))) else {
            return Ok(Lookup::Sum(None));
        };
        if let Some(range) = self.missing(npage)? {
            return Ok(Lookup::Page(npage, range));
        }
        let sum = usize::try_from(nstored.saturating_sub(*before))
            .ok()
            .and_then(|at| self.page(npage).as_chunks::<8>().0.get(at));
        Ok(Lookup::Sum(sum.map(|bytes| u64::from_le_bytes(*bytes))))
    }

    /// Returns the range from which page `npage` has to be read; `None` if it is loaded.
    ///
    /// # Errors
    /// When the page has an impossible range, or was read with the trailer and is damaged.
    pub(crate) fn missing(&self, npage: usize) -> Result<Option<Range<u64>>, FrameError> {
        let (page, slot) = self.slot(npage)?;
        if slot.get().is_some() {
            return Ok(None);
        }
        let range = page.range().ok_or(wrong("the offset of a page is impossible"))?;
        match self.at_hand(&range) {
            Some(bytes) => self.put(npage, bytes).map(|()| None),
            None => Ok(Some(range)),
        }
    }

    /// Loads the bytes of page `npage`.
    ///
    /// # Errors
    /// When they do not match the page's own sum.
    pub(crate) fn put(&self, npage: usize, bytes: Bytes) -> Result<(), FrameError> {
        let (page, slot) = self.slot(npage)?;
        if bytes.len() as u64 != page.count.saturating_mul(8) || sum(&bytes) != page.sum {
            return Err(wrong("a page of chunk checksums does not match its checksum"));
        }
        slot.get_or_init(|| bytes);
        Ok(())
    }

    /// Returns the sums in page `npage`; empty if it is not loaded.
    pub(crate) fn page(&self, npage: usize) -> &[u8] {
        self.loaded.get(npage).and_then(OnceLock::get).map_or(&[], |bytes| bytes)
    }

    fn slot(&self, npage: usize) -> Result<(&Page, &OnceLock<Bytes>), FrameError> {
        let nothing = || FrameError::argument("page", "there is none");
        self.pages.get(npage).zip(self.loaded.get(npage)).ok_or_else(nothing)
    }

    fn at_hand(&self, range: &Range<u64>) -> Option<Bytes> {
        let (base, bytes) = &self.at_hand;
        let index = |at: u64| at.checked_sub(*base).and_then(|at| usize::try_from(at).ok());
        let range = index(range.start)?..index(range.end)?;
        bytes.get(range.clone())?;
        Some(bytes.slice(range))
    }
}

/// The expected checksum of a stored chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChunkSum {
    /// The sum of the chunk as stored.
    pub(crate) whole: u64,
    /// The record with the sums of its runs; empty if it is not known.
    pub(crate) runs: Box<[u8]>,
}

impl ChunkSum {
    /// Computes the sums of a stored chunk. `chunk` is its head, if that could be parsed.
    pub(crate) fn of(stored: &[u8], chunk: Option<&LazyChunk>) -> Self {
        // Compute the sums of runs first, which leaves much of the chunk in the cache for its own sum.
        let runs = runs::record(stored, chunk);
        Self { whole: sum(stored), runs }
    }
}

/// Sums of stored chunks by index entry. Equal entries refer to the same bytes.
pub(crate) type SumsByEntry = HashMap<i64, ChunkSum, EntryHashing>;

/// Hashes numbers with one multiplication, since there is one number per chunk. The factors are
/// random, because a hostile file could otherwise make all numbers collide.
#[derive(Clone, Debug)]
pub(crate) struct EntryHashing {
    mask: u64,
    factor: u64,
}

impl Default for EntryHashing {
    fn default() -> Self {
        let random = RandomState::new();
        Self { mask: random.hash_one(0), factor: random.hash_one(1) | 1 }
    }
}

impl BuildHasher for EntryHashing {
    type Hasher = EntryHasher;

    fn build_hasher(&self) -> EntryHasher {
        EntryHasher { hash: self.mask, factor: self.factor }
    }
}

/// The hasher of [`EntryHashing`].
pub(crate) struct EntryHasher {
    hash: u64,
    factor: u64,
}

impl Hasher for EntryHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    fn write_u64(&mut self, n: u64) {
        let n = self.hash ^ n;
        let high = u128::from(n).wrapping_mul(self.factor.into()) >> 64;
        self.hash = high as u64 ^ n.wrapping_mul(self.factor);
    }

    fn finish(&self) -> u64 {
        self.hash
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(range: impl Iterator<Item = u64>) -> Vec<u8> {
        range.flat_map(u64::to_le_bytes).collect()
    }

    /// Writes the sums, and returns the length of the new pages and the list of all pages.
    fn write(sums: &[u8], kept: &[Page], offset: u64) -> (usize, Vec<Page>) {
        let plan = PagePlan::new(sums, kept);
        let (bytes, pages) = plan.place(sums, offset).unwrap();
        assert_eq!(bytes.len(), plan.len);
        assert_eq!(pages.iter().map(|page| page.count * 8).sum::<u64>(), sums.len() as u64);
        (plan.len, pages)
    }

    #[test]
    fn pages_that_stay_are_not_written_again() {
        let all = sums(0..10_000);
        let (len, pages) = write(&all, &[], 100);
        assert_eq!((len, pages.len(), pages[1].offset), (80_000, 20, 100 + 4096));
        assert_eq!(write(&all[..8 * 9728], &pages, 0), (0, pages[..19].to_vec()));
        // Changes at the end, at the start and in the middle.
        let (len, more) = write(&sums(0..10_001), &pages, 90_000);
        assert_eq!((len, more[..20] == pages[..], more.len()), (8, true, 21));
        let (len, more) = write(&sums(0..10_002), &more, 90_000);
        assert_eq!((len, more[..20] == pages[..], more.len()), (16, true, 21));
        let (len, more) = write(&sums((7..8).chain(0..10_000)), &pages, 0);
        assert_eq!((len, more[1..] == pages[..]), (8, true));
        let (len, more) = write(&sums((0..5000).chain(5001..10_000)), &pages, 0);
        assert_eq!((len, more.len()), (8 * 511, 20));
        // A half-full page stays; sums after it start a new page.
        let (len, more) = write(&sums((0..5000).chain(5001..10_001)), &more, 0);
        assert_eq!((len, more.len()), (8, 21));
        // Nothing in common.
        assert_eq!(write(&sums(1..10_001), &pages, 0).0, 80_000);
        assert_eq!(write(&[], &pages, 0), (0, vec![]));
    }

    #[test]
    fn many_small_changes_leave_few_pages() {
        let mut list: Vec<u64> = (0..5000).collect();
        let (mut at, mut pages, mut written) = (0, Vec::new(), 0);
        for i in 0..5000u64 {
            at = (at + 2_654_435_761) % list.len() as u64;
            list.insert(at as usize, 1_000_000 + i);
            let (len, new) = write(&sums(list.iter().copied()), &pages, i * 100_000);
            (pages, written) = (new, written + len);
        }
        assert!(pages.len() < 2 * list.len() / SUMS_PER_PAGE, "{}", pages.len());
        assert!(written < 5000 * 8 * 5000, "{written}");
    }

    #[test]
    fn pages_are_read_when_needed_and_compared() {
        let all = sums(0..1000);
        let (_, pages) = write(&all, &[], 24);
        let table = SumTable::new(pages, (24 + 4096, Bytes::copy_from_slice(&all[4096..])));
        assert_eq!(table.get(999).unwrap(), Lookup::Sum(Some(999)));
        assert_eq!(table.get(1000).unwrap(), Lookup::Sum(None));
        assert_eq!(table.get(3).unwrap(), Lookup::Page(0, 24..24 + 4096));
        assert!(table.put(0, Bytes::copy_from_slice(&all[8..4104])).is_err());
        assert_eq!(table.get(3).unwrap(), Lookup::Page(0, 24..24 + 4096));
        table.put(0, Bytes::copy_from_slice(&all[..4096])).unwrap();
        assert_eq!(table.get(3).unwrap(), Lookup::Sum(Some(3)));
        assert_eq!(table.get(511).unwrap(), Lookup::Sum(Some(511)));
        let nowhere = Page { offset: u64::MAX - 8, count: u64::MAX / 2, sum: 0 };
        assert!(SumTable::new(vec![nowhere], (0, Bytes::new())).get(0).is_err());
    }
}
