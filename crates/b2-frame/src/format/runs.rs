//! Sums of the runs of a chunk (docs/format/block-sums.md): of its head, and of consecutive blocks. They make it
//! possible to check a part of a chunk without reading the rest.
//!
//! ```text
//! record: u16 number of sums, n (12 bits), and shift (4 bits)   n times u32: sum of the head, sums of the runs
//! ```
//!
//! A sum is the low half of XXH3 with 64 bits.
//!
//! [`VerifiedChunks`] records which of them have been verified since a frame was opened.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use b2_chunk::{DParams, LazyChunk, LazyHead};
use b2_core::memory;
use bytes::Bytes;

use crate::format::digest::sum;

/// A run ends with the block that makes it at least this long, in bytes, shifted left by the shift of the record.
pub(crate) const MIN_LEN: u64 = 16 << 10;
/// Chunks up to this size have no records, in bytes.
pub(crate) const MAX_UNRECORDED_LEN: usize = 16 << 10;
/// Bits for the number of sums.
const COUNT_BITS: u32 = 12;
/// The stored chunk must be at least this many times as long as its record and its sum together.
const BUDGET: usize = 2000;
/// The record of a chunk that has no sums of runs.
pub(crate) const NO_RUNS: [u8; 2] = [0; 2];

/// Returns the length of a record that starts with this number.
pub(super) fn record_len(number: u16) -> usize {
    usize::from(number & COUNT_MASK).saturating_mul(4).saturating_add(NO_RUNS.len())
}

const COUNT_MASK: u16 = (1 << COUNT_BITS) - 1;

/// Returns the unit in which block starts are recorded: the smallest in which the end of the chunk fits into 16 bits.
pub(crate) fn unit(cbytes: usize) -> usize {
    (cbytes / 65_535).saturating_add(1)
}

/// Returns the first block of each run. `starts` are the starts of the blocks in ascending order, rounded
/// down to whole units, so that they are the same in the table of block starts.
pub(crate) fn firsts(
    starts: impl Iterator<Item = u64>,
    unit: u64,
    min_len: u64,
) -> impl Iterator<Item = usize> {
    let mut run = None;
    starts.enumerate().filter_map(move |(nblock, start)| {
        let ends = run.is_none_or(|first: u64| start.saturating_add(unit).saturating_sub(first) >= min_len);
        ends.then(|| {
            run = Some(start);
            nblock
        })
    })
}

/// Computes the sum of a head or a run: the low half of the 64-bit hash.
fn half(bytes: &[u8]) -> u32 {
    let [a, b, c, d, ..] = sum(bytes).to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

/// Returns whether a record has sums of runs.
pub(crate) fn has_sums(record: Option<&[u8]>) -> bool {
    record.is_some_and(|record| record.len() > NO_RUNS.len())
}

/// Returns the least length of the runs of a chunk with this record, in bytes.
pub(crate) fn min_len(record: Option<&[u8]>) -> u64 {
    let number = record.and_then(<[u8]>::first_chunk).map_or(0, |bytes| u16::from_le_bytes(*bytes));
    MIN_LEN << (number >> COUNT_BITS)
}

/// Returns the starts of the blocks of a chunk in ascending order; `None` if the chunk cannot have sums
/// of runs: its blocks have variable lengths, two have the same start, or readers could disagree on
/// where they are.
fn starts(chunk: &LazyChunk) -> Option<Vec<u32>> {
    let header = chunk.header();
    if header.is_vl() || header.special().is_some() || chunk.blocksize() != header.blocksize() {
        return None;
    }
    let mut starts = memory::list(chunk.nblocks()).ok()?;
    for nblock in 0..chunk.nblocks() {
        starts.push(u32::try_from(chunk.block_extent(nblock).start).ok()?);
    }
    if !starts.is_sorted() {
        starts.sort_unstable();
    }
    (starts.is_sorted_by(|a, b| a < b) && !starts.is_empty()).then_some(starts)
}

/// Returns the end of each run of a chunk, from the start of the chunk.
fn ends(starts: &[u32], cbytes: usize, min_len: u64) -> Option<Vec<u32>> {
    let unit = u32::try_from(unit(cbytes)).ok()?;
    let whole = |start: &u32| u64::from(start.checked_div(unit).unwrap_or(0).saturating_mul(unit));
    let firsts = firsts(starts.iter().map(whole), unit.into(), min_len);
    let mut ends = Vec::new();
    for first in firsts.skip(1) {
        memory::push(&mut ends, *starts.get(first)?).ok()?;
    }
    memory::push(&mut ends, u32::try_from(cbytes).ok()?).ok()?;
    Some(ends)
}

/// Returns the record of a stored chunk. It is empty for small chunks, which readers compare as a whole.
pub(crate) fn record(stored: &[u8], chunk: Option<&LazyChunk>) -> Box<[u8]> {
    let record = chunk.filter(|_| stored.len() / BUDGET > 20).and_then(|chunk| {
        let starts = starts(chunk)?;
        let (shift, ends) = (0..16).find_map(|shift: u16| {
            let ends = ends(&starts, stored.len(), MIN_LEN << shift)?;
            let len = ends.len().saturating_mul(4).saturating_add(14);
            (len <= stored.len() / BUDGET && ends.len() < usize::from(COUNT_MASK)).then_some((shift, ends))
        })?;
        if ends.len() < 2 {
            return None;
        }
        let number = u16::try_from(ends.len().saturating_add(1)).ok()? | shift << COUNT_BITS;
        let mut record = memory::list(record_len(number)).ok()?;
        record.extend_from_slice(&number.to_le_bytes());
        let mut start = chunk.head_len();
        record.extend_from_slice(&half(stored.get(..start)?).to_le_bytes());
        for end in ends {
            let end = end as usize;
            record.extend_from_slice(&half(stored.get(start..end)?).to_le_bytes());
            start = end;
        }
        Some(record)
    });
    record.unwrap_or_default().into()
}

/// Parses the head of a stored chunk to find its blocks. Chunks that cannot be parsed, and small ones that are always
/// read as a whole, have no records.
pub(crate) fn parse(stored: &[u8], dparams: &DParams) -> Option<LazyChunk> {
    if stored.len() <= MAX_UNRECORDED_LEN {
        return None;
    }
    match LazyChunk::parse(stored, stored.len() as u64, dparams) {
        Ok(LazyHead::Ready(lazy)) => Some(lazy),
        _ => None,
    }
}

/// The runs of a chunk whose head has been compared, and which of them have been.
#[derive(Debug)]
pub(crate) struct Runs {
    head_len: u32,
    /// The end of each run, from the start of the chunk.
    ends: Vec<u32>,
    /// The sums of the runs, as stored.
    sums: Bytes,
    /// A bit for each run.
    compared: Vec<AtomicU64>,
}

/// Bits per word.
const BITS: usize = 64;

impl Runs {
    /// Divides a chunk into runs and compares its head, whose bytes are at the start of `stored`. Returns `None` if
    /// the record has no sums, and `Err` if the head is damaged.
    pub(crate) fn new(chunk: &LazyChunk, record: &Bytes, stored: &[u8]) -> Option<Result<Self, Mismatch>> {
        let number = u16::from_le_bytes(*record.first_chunk()?);
        let count = usize::from(number & COUNT_MASK);
        let sums = record.get(2..).filter(|sums| sums.len() == count.saturating_mul(4))?;
        let (expected, _) = sums.split_first_chunk::<4>()?;
        let head_len = chunk.head_len();
        let (Some(head), expected) = (stored.get(..head_len), u32::from_le_bytes(*expected)) else {
            return None;
        };
        if half(head) != expected {
            return Some(Err(Mismatch));
        }
        let ends = ends(&starts(chunk)?, chunk.header().cbytes(), min_len(Some(record)))?;
        if ends.len().saturating_add(1) != count {
            return None;
        }
        let mut compared = memory::list(ends.len().div_ceil(BITS)).ok()?;
        compared.resize_with(ends.len().div_ceil(BITS), AtomicU64::default);
        Some(Ok(Self { head_len: u32::try_from(head_len).ok()?, ends, sums: record.slice(6..), compared }))
    }

    /// Returns the number and the range of the run that holds the byte at `offset` of the chunk, if it was not
    /// compared yet.
    pub(crate) fn pending(&self, offset: usize) -> Option<(usize, Range<usize>)> {
        let run = self.ends.partition_point(|end| *end as usize <= offset);
        let end = *self.ends.get(run)? as usize;
        if self.is_compared(run) {
            return None;
        }
        let start =
            run.checked_sub(1).map_or(self.head_len, |last| self.ends.get(last).copied().unwrap_or(0));
        Some((run, start as usize..end))
    }

    fn is_compared(&self, run: usize) -> bool {
        let word = self.compared.get(run / BITS).map_or(0, |word| word.load(Ordering::Relaxed));
        word & 1 << (run % BITS) != 0
    }

    /// Compares the bytes of a run.
    pub(crate) fn compare(&self, run: usize, stored: &[u8]) -> Result<(), Mismatch> {
        let sum = self.sums.as_chunks::<4>().0.get(run).ok_or(Mismatch)?;
        if half(stored) != u32::from_le_bytes(*sum) {
            return Err(Mismatch);
        }
        self.mark(run);
        Ok(())
    }

    fn mark(&self, run: usize) {
        if let Some(word) = self.compared.get(run / BITS) {
            word.fetch_or(1 << (run % BITS), Ordering::Relaxed);
        }
    }

    /// Marks all runs as compared.
    pub(crate) fn mark_all(&self) {
        (0..self.ends.len()).for_each(|run| self.mark(run));
    }

    /// Returns whether all runs have been compared.
    pub(crate) fn all_compared(&self) -> bool {
        (0..self.ends.len()).all(|run| self.is_compared(run))
    }

    /// Returns whether these runs belong to this chunk, whose head was read again.
    pub(crate) fn fits(&self, chunk: &LazyChunk) -> bool {
        self.head_len as usize == chunk.head_len()
            && self.ends.last().is_some_and(|end| *end as usize == chunk.header().cbytes())
    }
}

/// Bytes that do not match their sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mismatch;

/// Number of chunks whose states are allocated together.
const SLOTS_PER_GROUP: usize = 64;

type Slots = Box<[OnceLock<VerifiedChunk>; SLOTS_PER_GROUP]>;

/// The verified parts of each chunk of a frame.
#[derive(Debug, Default)]
pub(crate) struct VerifiedChunks(OnceLock<Box<[OnceLock<Slots>]>>);

/// The verified parts of a chunk.
#[derive(Clone, Debug)]
pub(crate) enum VerifiedChunk {
    /// All of it.
    Whole,
    /// The head, and some runs.
    Runs(Arc<Runs>),
}

impl VerifiedChunk {
    pub(crate) fn is_whole(&self) -> bool {
        match self {
            Self::Whole => true,
            Self::Runs(runs) => runs.all_compared(),
        }
    }
}

impl VerifiedChunks {
    pub(crate) fn get(&self, nchunk: usize) -> Option<&VerifiedChunk> {
        self.0.get()?.get(nchunk / SLOTS_PER_GROUP)?.get()?.get(nchunk % SLOTS_PER_GROUP)?.get()
    }

    /// Records that a chunk of a frame with `nchunks` chunks was verified. Without memory for that, it will be verified
    /// again.
    pub(crate) fn put(&self, nchunk: usize, nchunks: usize, chunk: VerifiedChunk) {
        let groups = self.0.get_or_init(|| {
            let mut groups = b2_core::memory::list(nchunks.div_ceil(SLOTS_PER_GROUP)).unwrap_or_default();
            if groups.capacity() > 0 {
                groups.resize_with(nchunks.div_ceil(SLOTS_PER_GROUP), OnceLock::new);
            }
            groups.into()
        });
        let Some(slots) = groups.get(nchunk / SLOTS_PER_GROUP) else { return };
        let slots = slots.get_or_init(|| Box::new([const { OnceLock::new() }; SLOTS_PER_GROUP]));
        let Some(slot) = slots.get(nchunk % SLOTS_PER_GROUP) else { return };
        match (slot.get(), chunk) {
            (None, chunk) => drop(slot.set(chunk)),
            (Some(VerifiedChunk::Runs(runs)), VerifiedChunk::Whole) => runs.mark_all(),
            (Some(_), _) => {}
        }
    }
}
