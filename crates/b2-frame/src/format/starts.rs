//! Positions of the blocks of chunks (docs/format/block-starts.md), so that a remote reader can request the head of a
//! chunk and its blocks together. This is a hint: the head of the chunk decides, so a wrong record costs time, but
//! never gives a wrong value.
//!
//! ```text
//! record: u16 unit and flag   u16 number of blocks, n   n + 1 times u16: starts and end, in units
//! ```

use std::collections::HashMap;
use std::ops::Range;

use b2_chunk::LazyChunk;
use b2_core::memory;
use bytes::Bytes;

use crate::format::checksums::EntryHashing;
use crate::format::records::{MAX_STARTS_LEN, RecordPage, Records, TableKind, starts_len};
use crate::format::runs;

/// A frame whose records are longer than this in total gets no table, in bytes.
const MAX_RECORDS_LEN: usize = 4 * MAX_STARTS_LEN;
/// The flag in `unit`: other blocks refer to block 0.
const NEEDS_BLOCK0: u16 = 1 << 15;
/// The record of a chunk whose blocks are unknown.
const UNKNOWN: [u8; 4] = [0; 4];

/// Returns how many bytes sums and block starts may take in a frame with chunks up to `data_end`. If they take more,
/// block starts that were not requested are omitted.
pub(crate) fn budget(data_end: u64) -> u64 {
    (data_end / 2000).saturating_add(300)
}

/// Where the blocks of a chunk probably are.
#[derive(Clone, Debug)]
pub(crate) struct Starts {
    unit: u64,
    /// Whether other blocks refer to block 0.
    pub(crate) needs_block0: bool,
    /// Starts and end, in units.
    numbers: Bytes,
}

impl Starts {
    pub(crate) fn parse(record: Bytes) -> Option<Self> {
        let unit = u16::from_le_bytes(*record.first_chunk()?);
        let starts = Self {
            unit: (unit & !NEEDS_BLOCK0).into(),
            needs_block0: unit & NEEDS_BLOCK0 != 0,
            numbers: record.get(4..).filter(|rest| rest.len() >= 4).map(|_| record.slice(4..))?,
        };
        // In other records ranges could overlap and request the same bytes many times.
        let ascending = starts.numbers.as_chunks::<2>().0.is_sorted_by_key(|n| u16::from_le_bytes(*n));
        (ascending && starts.unit > 0).then_some(starts)
    }

    pub(crate) fn nblocks(&self) -> usize {
        (self.numbers.len() / 2).saturating_sub(1)
    }

    /// Returns a lower bound of the offset of a block, counted from the start of the chunk.
    pub(crate) fn start(&self, nblock: usize) -> u64 {
        let number = self.numbers.as_chunks::<2>().0.get(nblock.min(self.nblocks()));
        number.map_or(0, |n| u64::from(u16::from_le_bytes(*n)).saturating_mul(self.unit))
    }

    /// Returns the end of a block, rounded up.
    pub(crate) fn end(&self, nblock: usize) -> u64 {
        self.start(nblock.saturating_add(1)).saturating_add(self.unit)
    }

    /// Returns the end of the header, the chunk's own table and its dictionary, rounded up.
    pub(crate) fn head(&self) -> u64 {
        self.start(0).saturating_add(self.unit)
    }

    /// Returns the first block of each run whose stored bytes are compared together.
    pub(crate) fn runs(&self, min_len: u64) -> Vec<usize> {
        let starts = (0..self.nblocks()).map(|nblock| self.start(nblock));
        runs::firsts(starts, self.unit, min_len).collect()
    }

    /// Returns the blocks of all runs that overlap `blocks`, which must not be empty. `firsts` comes from
    /// [`runs`](Self::runs).
    pub(crate) fn in_runs(&self, firsts: &[usize], blocks: &Range<usize>) -> Range<usize> {
        let before = firsts.partition_point(|first| *first <= blocks.start);
        let start = before.checked_sub(1).and_then(|n| firsts.get(n)).copied().unwrap_or(0);
        let end = firsts.get(firsts.partition_point(|first| *first < blocks.end)).copied();
        start..end.unwrap_or(self.nblocks())
    }

    /// Returns the length of the chunk, or a little more.
    pub(crate) fn len(&self) -> u64 {
        self.end(self.nblocks().saturating_sub(1))
    }
}

/// When a frame gets a table of block starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum StartsPolicy {
    /// If the checksums leave enough of the [`budget`] for it.
    #[default]
    IfSmall,
    /// Always: the caller requested it.
    Always,
}

/// Records of the stored chunks of a frame that is being written, by index entry.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChunkStarts {
    records: HashMap<i64, Box<[u8]>, EntryHashing>,
    len: usize,
    /// Whether there were too many records.
    full: bool,
    pub(crate) wanted: StartsPolicy,
}

impl ChunkStarts {
    /// Creates an empty table.
    pub(crate) fn new(wanted: StartsPolicy) -> Self {
        Self { wanted, ..Self::default() }
    }

    /// Records where the blocks of the chunk are that this entry now refers to.
    pub(crate) fn put(&mut self, raw: i64, chunk: Option<&LazyChunk>) {
        self.put_record(raw, &chunk.and_then(record).unwrap_or_default());
    }

    /// Records the blocks of a chunk; nothing if `record` is empty.
    pub(crate) fn put_record(&mut self, raw: i64, record: &[u8]) {
        if !self.records.is_empty()
            && let Some(old) = self.records.remove(&raw)
        {
            self.len = self.len.saturating_sub(old.len());
        }
        if record.is_empty() || record == UNKNOWN {
            return;
        }
        let len = self.len.saturating_add(record.len());
        // This is only a hint, so without memory there is none.
        let copy = if len <= MAX_RECORDS_LEN && !self.full { memory::copied(record).ok() } else { None };
        match copy {
            Some(copy) if self.records.try_reserve(1).is_ok() => {
                self.records.insert(raw, copy.into());
                self.len = len;
            }
            _ => *self = Self { full: true, wanted: self.wanted, ..Self::default() },
        }
    }

    pub(crate) fn get(&self, raw: i64) -> &[u8] {
        self.records.get(&raw).map_or(&UNKNOWN, |record| record)
    }

    /// Drops the records of other entries if there are many.
    pub(crate) fn merge_new(&mut self, entries: &[i64]) {
        if self.records.len() > entries.len().saturating_mul(2).saturating_add(64) {
            let all = std::mem::take(&mut self.records);
            self.len = 0;
            for raw in entries {
                if let Some(record) = all.get(raw) {
                    self.put_record(*raw, record);
                }
            }
        }
    }

    /// Returns the records of a frame with these entries in order. `kept` are pages that are in the file already.
    /// `None` if they would be empty or too long.
    pub(crate) fn records(&self, entries: &[i64], kept: &[RecordPage]) -> Option<Records> {
        if self.full || self.records.is_empty() {
            return None;
        }
        let stored = entries.iter().filter(|raw| **raw >= 0).map(|raw| self.get(*raw));
        let len = stored.clone().map(<[u8]>::len).fold(0usize, usize::saturating_add);
        if len > MAX_STARTS_LEN || stored.clone().all(|record| record == UNKNOWN) {
            return None;
        }
        let records = Records::new(stored, kept).ok()?;
        (len.saturating_add(records.list_len(TableKind::Starts)) <= MAX_STARTS_LEN).then_some(records)
    }
}

/// Returns the record of a chunk, if it has one.
fn record(chunk: &LazyChunk) -> Option<Vec<u8>> {
    let header = chunk.header();
    let nblocks = u16::try_from(chunk.nblocks()).ok().filter(|n| *n > 0)?;
    if header.cbytes() <= runs::MAX_UNRECORDED_LEN || header.is_vl() || header.special().is_some() {
        return None;
    }
    let unit = u16::try_from(runs::unit(header.cbytes())).ok()?;
    if unit & NEEDS_BLOCK0 != 0 {
        return None;
    }
    let flags = if chunk.needs_block0() { NEEDS_BLOCK0 } else { 0 };
    let mut record = memory::list(starts_len(nblocks)).ok()?;
    record.extend_from_slice(&(unit | flags).to_le_bytes());
    record.extend_from_slice(&nblocks.to_le_bytes());
    let mut last = 0;
    let starts = (0..usize::from(nblocks)).map(|nblock| chunk.block_extent(nblock).start);
    for start in starts.chain([header.cbytes()]) {
        // There are no records for blocks in another order.
        if start < last {
            return None;
        }
        last = start;
        record.extend_from_slice(&u16::try_from(start.checked_div(unit.into())?).ok()?.to_le_bytes());
    }
    Some(record)
}
