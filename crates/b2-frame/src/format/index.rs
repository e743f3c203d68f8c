//! The index of chunk positions (docs/format/frame-contiguous.md, section 5). Decoded, it has one little-endian i64 per
//! chunk: an offset counted from the end of the header (contiguous), the number of a file (sparse), or a special value.
//! A count of the stored chunks before each chunk gives the position of its checksum.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use b2_chunk::{
    Chunk, CodecId, Compression, DParams, EXTENDED_HEADER_LEN, FilterSlot, MAX_CHUNK_NBYTES, SpecialKind,
    SplitMode,
};
use b2_core::OutOfMemory;
use b2_core::memory;
use bytes::Bytes;

use crate::error::{max_metadata, max_nchunks, within};
use crate::{FrameError, Structure};

/// The largest number of chunks that a written frame can have, since its index must fit into one
/// chunk.
pub const MAX_NCHUNKS: usize = MAX_CHUNK_NBYTES / 8;

/// The index entry of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Entry {
    /// The chunk is stored at this offset from the end of the header (contiguous), or in the file
    /// with this number (sparse).
    Stored(u64),
    /// The chunk is not stored, because all its items are equal. Never [`SpecialKind::Value`].
    Special(SpecialKind),
}

impl Entry {
    const ZEROS: u8 = 1;
    const NAN: u8 = 2;
    const UNINIT: u8 = 4;

    /// Decodes an entry. Returns `None` for negative numbers of no known kind.
    pub(crate) fn from_raw(raw: i64) -> Option<Self> {
        if let Ok(offset) = u64::try_from(raw) {
            return Some(Self::Stored(offset));
        }
        let [kind, ..] = raw.to_be_bytes();
        Some(Self::Special(if kind & Self::ZEROS != 0 {
            SpecialKind::Zeros
        } else if kind & Self::UNINIT != 0 {
            SpecialKind::Uninit
        } else if kind & Self::NAN != 0 {
            SpecialKind::NaN
        } else {
            return None;
        }))
    }

    /// Returns the number that the index holds.
    #[doc(hidden)]
    pub fn to_raw(self) -> i64 {
        let special = |kind: u8| i64::from_be_bytes([0x80 | kind, 0, 0, 0, 0, 0, 0, 0]);
        match self {
            // The number was parsed from an i64 or is an offset in a file, so it fits.
            Self::Stored(offset) => i64::try_from(offset).unwrap_or(i64::MAX),
            Self::Special(SpecialKind::Zeros) => special(Self::ZEROS),
            Self::Special(SpecialKind::NaN) => special(Self::NAN),
            // Repeated values are stored chunks, so `Value` does not occur here.
            Self::Special(SpecialKind::Uninit | SpecialKind::Value) => special(Self::UNINIT),
        }
    }
}

/// The decoded index. Long runs of equal entries take no memory, so that a small file cannot demand
/// much.
#[derive(Debug, Default)]
pub(crate) struct Index {
    table: Table,
    len: usize,
    /// All stored offsets in ascending order; computed when first needed.
    sorted: OnceLock<Vec<u64>>,
    /// Number of stored chunks before each run or group of entries; computed when first needed.
    ranks: OnceLock<Vec<usize>>,
}

#[derive(Debug)]
enum Table {
    /// The first position and the raw entry of each run.
    Runs(Vec<(usize, i64)>),
    All(Arc<Vec<i64>>),
}

impl Default for Table {
    fn default() -> Self {
        Self::Runs(Vec::new())
    }
}

impl Index {
    /// Decodes the index chunk at the start of `bytes`. `nchunks` is the number of chunks, if the
    /// header defines it.
    pub(crate) fn decode(bytes: Bytes, nchunks: Option<u64>, dparams: &DParams) -> Result<Self, FrameError> {
        // The chunk is decoded in pieces of whole blocks of about this size, in bytes.
        const DECODE_LEN: usize = 1 << 20;
        let chunk = Chunk::from_bytes(bytes).map_err(FrameError::chunk(Structure::Index))?;
        let nbytes = chunk.nbytes();
        let expected = nchunks.map_or(nbytes as u64 & !7, |n| n.saturating_mul(8));
        if nbytes as u64 != expected {
            let rule = if nchunks.is_some() { "8 for each chunk" } else { "a multiple of 8" };
            return Err(FrameError::field(Structure::Index, "nbytes", 4, nbytes as u64, rule));
        }
        let len = nbytes / 8;
        within("chunks in the frame", len as u64, max_nchunks(dparams))?;
        let mut builder =
            Builder { table: Table::default(), len: 0, of: len, limit: dparams.limits.max_metadata };
        if let Some(entry) = uniform(&chunk)? {
            builder.repeat(entry);
        } else {
            // Variable-length blocks are decoded as one piece, since their offsets are known only
            // with all bytes.
            let blocksize = if chunk.header().is_vl() { nbytes } else { chunk.header().blocksize() }.max(1);
            within("block of the index chunk, in bytes", blocksize as u64, max_metadata(dparams))?;
            // Pieces consist of whole blocks, so that no block is decoded twice. Block sizes need
            // not be multiples of 8, so a partial entry is carried over.
            let piece = DECODE_LEN.next_multiple_of(blocksize);
            let mut bytes = Vec::new();
            let mut carried = 0;
            for start in (0..nbytes).step_by(piece) {
                let end = start.saturating_add(piece).min(nbytes);
                let len = end.saturating_sub(start).saturating_add(carried);
                if bytes.len() < len {
                    let mut longer = memory::zeroed(len)?;
                    if let (Some(to), Some(from)) = (longer.get_mut(..carried), bytes.get(..carried)) {
                        to.copy_from_slice(from);
                    }
                    bytes = longer;
                }
                let Some((_, to)) = bytes.get_mut(..len).and_then(|all| all.split_at_mut_checked(carried))
                else {
                    break;
                };
                chunk.get_bytes_into(start, to, dparams).map_err(FrameError::chunk(Structure::Index))?;
                let (entries, rest) = bytes.get(..len).unwrap_or_default().as_chunks::<8>();
                for entry in entries {
                    builder.push(i64::from_le_bytes(*entry))?;
                }
                carried = rest.len();
                bytes.copy_within(len.saturating_sub(carried)..len, 0);
            }
        }
        Ok(Self { table: builder.table, len, ..Self::default() })
    }

    /// Creates an index with these entries.
    pub(crate) fn from_entries(entries: Arc<Vec<i64>>) -> Self {
        Self { len: entries.len(), table: Table::All(entries), ..Self::default() }
    }

    /// Returns all entries, if they take at most `limit` bytes.
    pub(crate) fn to_entries(&self, limit: u64) -> Result<Arc<Vec<i64>>, FrameError> {
        match &self.table {
            Table::All(entries) => Ok(entries.clone()),
            Table::Runs(runs) => {
                within("index, in bytes", (self.len as u64).saturating_mul(8), ("max_metadata", limit))?;
                let mut entries = memory::list(self.len)?;
                let ends = runs.iter().skip(1).map(|(start, _)| *start).chain([self.len]);
                for ((_, raw), end) in runs.iter().zip(ends) {
                    entries.resize(end, *raw);
                }
                Ok(Arc::new(entries))
            }
        }
    }

    /// Returns the number of chunks.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no chunks.
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the entry of chunk `nchunk`.
    ///
    /// # Errors
    /// [`FrameError::OutOfRange`], or [`FrameError::Field`] for an entry of no known kind.
    pub(crate) fn entry(&self, nchunk: usize) -> Result<Entry, FrameError> {
        let raw = self.raw(nchunk).ok_or(FrameError::OutOfRange {
            what: "chunks",
            start: nchunk as u64,
            end: (nchunk as u64).saturating_add(1),
            len: self.len as u64,
        })?;
        Entry::from_raw(raw)
            .ok_or_else(|| FrameError::entry(nchunk, raw, "an offset, or a special value of known kind"))
    }

    /// Returns a run of chunks with the same entry that starts at `nchunk`, as far as the index determines it without a
    /// search. Callers can thus handle billions of equal chunks in one step.
    ///
    /// # Errors
    /// As for [`Index::entry`].
    pub(crate) fn run(&self, nchunk: usize) -> Result<(Entry, Range<usize>), FrameError> {
        let entry = self.entry(nchunk)?;
        let end = match (entry, &self.table) {
            (_, Table::Runs(runs)) => {
                let next = runs.partition_point(|(start, _)| *start <= nchunk);
                runs.get(next).map_or(self.len, |(start, _)| *start)
            }
            // Stored chunks rarely share their bytes, so there is no search for a run.
            (Entry::Stored(_), Table::All(_)) => nchunk.saturating_add(1),
            (Entry::Special(_), Table::All(entries)) => {
                let rest = entries.get(nchunk..).unwrap_or_default();
                let same = rest.iter().take_while(|raw| Some(**raw) == rest.first().copied()).count();
                nchunk.saturating_add(same)
            }
        };
        Ok((entry, nchunk..end))
    }

    /// Returns the entry as stored.
    pub(crate) fn raw(&self, nchunk: usize) -> Option<i64> {
        if nchunk >= self.len {
            return None;
        }
        match &self.table {
            Table::All(entries) => entries.get(nchunk).copied(),
            Table::Runs(runs) => {
                let next = runs.partition_point(|(start, _)| *start <= nchunk);
                runs.get(next.checked_sub(1)?).map(|(_, raw)| *raw)
            }
        }
    }

    /// Returns the smallest stored offset above `offset`, where a chunk at `offset` normally ends.
    pub(crate) fn next_offset(&self, offset: u64) -> Result<Option<u64>, OutOfMemory> {
        let sorted = match self.sorted.get() {
            Some(sorted) => sorted,
            None => {
                let stored = |raw: &i64| u64::try_from(*raw).ok();
                let mut offsets = match &self.table {
                    Table::All(entries) => memory::collect(entries.iter().filter_map(stored))?,
                    Table::Runs(runs) => memory::collect(runs.iter().filter_map(|(_, raw)| stored(raw)))?,
                };
                // The offsets are mostly sorted already, so this is usually one pass.
                offsets.sort_unstable();
                self.sorted.get_or_init(|| offsets)
            }
        };
        Ok(sorted.get(sorted.partition_point(|o| *o <= offset)).copied())
    }
}

/// Returns the common entry of all chunks, if the index is itself a special chunk.
fn uniform(chunk: &Chunk) -> Result<Option<i64>, FrameError> {
    let value = chunk.as_bytes().get(EXTENDED_HEADER_LEN..).unwrap_or_default();
    match chunk.header().special() {
        // Without a value all chunks are at offset 0. With one, the special kind is wrong.
        Some(SpecialKind::Zeros) if value.is_empty() => Ok(Some(0)),
        Some(SpecialKind::Zeros) => {
            let (cbytes, expected) = (chunk.cbytes() as u64, "32 in an index that is all zeros");
            Err(FrameError::field(Structure::Index, "cbytes", 0x0C, cbytes, expected))
        }
        Some(SpecialKind::Uninit) => {
            let expected = "a kind that defines offsets: 0 to 3";
            Err(FrameError::field(Structure::Index, "special kind", 0x1F, 4, expected))
        }
        Some(SpecialKind::Value) => Ok(<[u8; 8]>::try_from(value).ok().map(i64::from_le_bytes)),
        Some(SpecialKind::NaN) | None => Ok(None),
    }
}

struct Builder {
    table: Table,
    len: usize,
    /// The final number of entries.
    of: usize,
    limit: u64,
}

impl Builder {
    fn repeat(&mut self, entry: i64) {
        if self.of > 0 {
            self.table = Table::Runs(vec![(0, entry)]);
        }
        self.len = self.of;
    }

    fn push(&mut self, entry: i64) -> Result<(), FrameError> {
        // Up to this many runs are always kept; more only while they take much less memory than a
        // table.
        const MAX_SMALL_RUNS: usize = 4096;
        match &mut self.table {
            Table::Runs(runs) => {
                if runs.last().is_none_or(|(_, last)| *last != entry) {
                    memory::push(runs, (self.len, entry))?;
                }
                if runs.len() > MAX_SMALL_RUNS && runs.len() > self.len.saturating_add(1) / 4 {
                    self.unroll()?;
                }
            }
            Table::All(entries) => Arc::make_mut(entries).push(entry),
        }
        self.len = self.len.saturating_add(1);
        Ok(())
    }

    /// Expands the runs, including the entry being pushed, into a table of all entries.
    fn unroll(&mut self) -> Result<(), FrameError> {
        let Table::Runs(runs) = &self.table else { return Ok(()) };
        within("index, in bytes", (self.of as u64).saturating_mul(8), ("max_metadata", self.limit))?;
        let mut entries = memory::list(self.of)?;
        let ends = runs.iter().skip(1).map(|(start, _)| *start).chain([self.len.saturating_add(1)]);
        for ((_, raw), end) in runs.iter().zip(ends) {
            entries.resize(end, *raw);
        }
        self.table = Table::All(Arc::new(entries));
        Ok(())
    }
}

/// Compresses the index chunk for these raw entries in the same way as C-Blosc2.
pub(crate) fn encode(entries: &[i64]) -> Result<Chunk, FrameError> {
    const BLOCKSIZE: usize = 16 * 1024;
    let result = match entries.split_first() {
        // If all entries are the same special value, it is stored once and read without expanding
        // it.
        Some((first, rest)) if *first < 0 && !rest.is_empty() && rest.iter().all(|entry| entry == first) => {
            Chunk::special(
                SpecialKind::Value,
                &first.to_le_bytes(),
                entries.len().saturating_mul(8),
                8,
                BLOCKSIZE,
            )
        }
        _ => {
            let mut payload = memory::list(entries.len().saturating_mul(8))?;
            entries.iter().for_each(|entry| payload.extend_from_slice(&entry.to_le_bytes()));
            Compression::new()
                .itemsize(8)
                .codec(CodecId::BLOSCLZ)
                .filters([FilterSlot::SHUFFLE])
                .splitmode(SplitMode::Never)
                .blocksize(BLOCKSIZE)
                .build()
                .and_then(|cparams| Chunk::compress_bytes(&payload, &cparams))
        }
    };
    result.map_err(FrameError::chunk(Structure::Index))
}

/// Number of entries that are counted as one group.
const GROUP: usize = 256;

impl Index {
    /// Returns how many of the first `nchunk` chunks are stored.
    pub(crate) fn nstored(&self, nchunk: usize) -> usize {
        let nchunk = nchunk.min(self.len);
        let ranks = self.ranks.get_or_init(|| self.ranks());
        let (group, rest) = match &self.table {
            Table::All(entries) => {
                let group = nchunk.checked_div(GROUP).unwrap_or(0);
                (group, stored(entries.get(group.saturating_mul(GROUP)..nchunk).unwrap_or_default()))
            }
            Table::Runs(runs) => {
                let Some(run) = runs.partition_point(|(start, _)| *start < nchunk).checked_sub(1) else {
                    return 0;
                };
                let stored = runs.get(run).filter(|(_, raw)| *raw >= 0);
                (run, stored.map_or(0, |(start, _)| nchunk.saturating_sub(*start)))
            }
        };
        ranks.get(group).copied().unwrap_or(0).saturating_add(rest)
    }

    /// Returns the number of stored chunks before each run, or before each group of entries and
    /// after the last group.
    fn ranks(&self) -> Vec<usize> {
        let mut total = 0usize;
        let mut before = |stored: usize| {
            let before = total;
            total = total.saturating_add(stored);
            before
        };
        match &self.table {
            Table::All(entries) => {
                entries.chunks(GROUP).chain([&[][..]]).map(|g| before(stored(g))).collect()
            }
            Table::Runs(runs) => {
                let ends = runs.iter().skip(1).map(|(start, _)| *start).chain([self.len]);
                let len =
                    |start: usize, end: usize, raw: i64| if raw >= 0 { end.saturating_sub(start) } else { 0 };
                runs.iter().zip(ends).map(|((start, raw), end)| before(len(*start, end, *raw))).collect()
            }
        }
    }
}

fn stored(entries: &[i64]) -> usize {
    entries.iter().filter(|raw| **raw >= 0).count()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const ZEROS: i64 = i64::from_be_bytes([0x81, 0, 0, 0, 0, 0, 0, 0]);

    fn check(entries: &[i64]) -> Index {
        let chunk = encode(entries).unwrap();
        let n = entries.len();
        let index = Index::decode(chunk.into_bytes(), Some(n as u64), &DParams::default()).unwrap();
        assert_eq!(index.len(), n);
        for (i, raw) in entries.iter().enumerate() {
            assert_eq!(index.raw(i), Some(*raw), "entry {i} of {n}");
        }
        assert_eq!(index.raw(n), None);
        index
    }

    #[test]
    fn entries_come_back() {
        check(&[0]);
        check(&[5, 0, ZEROS]);
        check(&[0; 100]);
        check(&[ZEROS; 100_000]);
        let index = check(&(0..100_000).map(|i| i * 977).collect::<Vec<_>>());
        assert!(matches!(index.table, Table::All(_)));
        // Runs at first, then a table.
        let index = check(&[vec![ZEROS; 10_000], (0..50_000).map(|i| i * 977).collect()].concat());
        assert!(matches!(index.table, Table::All(_)));
        let index = check(&(0..100_000).map(|i| i / 1000).collect::<Vec<_>>());
        assert!(matches!(index.table, Table::Runs(_)));
    }

    #[test]
    fn special_values_follow_the_order_of_bits() {
        let kind = |byte: u8| Entry::from_raw(i64::from_be_bytes([byte, 0, 0, 0, 0, 0, 0, 0]));
        assert_eq!(kind(0x81), Some(Entry::Special(SpecialKind::Zeros)));
        assert_eq!(kind(0x82), Some(Entry::Special(SpecialKind::NaN)));
        assert_eq!(kind(0x84), Some(Entry::Special(SpecialKind::Uninit)));
        assert_eq!(kind(0x86), Some(Entry::Special(SpecialKind::Uninit)));
        assert_eq!(kind(0x87), Some(Entry::Special(SpecialKind::Zeros)));
        assert_eq!(kind(0xFF), Some(Entry::Special(SpecialKind::Zeros)));
        assert_eq!(kind(0x88), None);
        assert_eq!(kind(0x80), None);
        assert_eq!(kind(0x7F), Some(Entry::Stored(0x7F00_0000_0000_0000)));
        for kind in [SpecialKind::Zeros, SpecialKind::NaN, SpecialKind::Uninit] {
            assert_eq!(Entry::from_raw(Entry::Special(kind).to_raw()), Some(Entry::Special(kind)));
        }
    }

    #[test]
    fn runs_of_special_chunks_are_told_at_once() {
        for filler in [0, 20_000] {
            let stored = (0..filler).map(|i| i * 100).collect::<Vec<_>>();
            let index = check(&[vec![ZEROS, ZEROS, 7, 7, ZEROS], stored].concat());
            let zeros = Entry::Special(SpecialKind::Zeros);
            assert_eq!(index.run(0).unwrap(), (zeros, 0..2));
            assert_eq!(index.run(1).unwrap(), (zeros, 1..2));
            let end = if filler == 0 { 4 } else { 3 };
            assert_eq!(index.run(2).unwrap(), (Entry::Stored(7), 2..end));
            assert_eq!(index.run(4).unwrap(), (zeros, 4..5));
            assert!(index.run(index.len()).is_err());
        }
    }

    #[test]
    fn the_next_offset_is_found_in_any_order() {
        let index = check(&[500, ZEROS, 0, 200, 200]);
        assert_eq!(index.next_offset(0).unwrap(), Some(200));
        assert_eq!(index.next_offset(200).unwrap(), Some(500));
        assert_eq!(index.next_offset(499).unwrap(), Some(500));
        assert_eq!(index.next_offset(500).unwrap(), None);
    }

    #[test]
    fn odd_layouts_are_read() {
        let entries: Vec<i64> = (0..5000).map(|i| i * 31).collect();
        let payload: Vec<u8> = entries.iter().flat_map(|entry| entry.to_le_bytes()).collect();
        for blocksize in [1, 3, 8, 4096, 40_000] {
            let cparams =
                Compression::new().itemsize(1).codec(CodecId::BLOSCLZ).blocksize(blocksize).build().unwrap();
            let chunk = Chunk::compress_bytes(&payload, &cparams).unwrap();
            let index = Index::decode(chunk.into_bytes(), None, &DParams::default()).unwrap();
            assert!((0..5000).all(|i| index.raw(i) == Some(entries[i])), "block size {blocksize}");
        }
    }

    #[test]
    fn sizes_are_checked() {
        let chunk = encode(&[1, 2, 3]).unwrap().into_bytes();
        assert!(Index::decode(chunk.clone(), Some(2), &DParams::default()).is_err());
        assert!(Index::decode(chunk.clone(), Some(u64::MAX / 8), &DParams::default()).is_err());
        let limits = b2_chunk::Limits::default().max_nchunks(2);
        assert!(matches!(
            Index::decode(chunk, Some(3), &DParams::default().limits(limits)),
            Err(FrameError::Limit(b2_chunk::base::LimitExceeded { asked: 3, limit: 2, .. }))
        ));
        let odd = Chunk::compress_bytes(&[1; 12], &Compression::new().itemsize(1).build().unwrap()).unwrap();
        assert!(Index::decode(odd.into_bytes(), None, &DParams::default()).is_err());
    }

    #[test]
    fn a_small_chunk_cannot_demand_a_large_index() {
        // 2^27 entries in a chunk of a few hundred bytes: one run, decoded piece by piece.
        let n = 1 << 27;
        let chunk = Chunk::zero_runs(8 * n, 8, 32 << 20).unwrap();
        assert!(chunk.cbytes() < 400);
        let index = Index::decode(chunk.into_bytes(), Some(n as u64), &DParams::default()).unwrap();
        assert_eq!(index.raw(n - 1), Some(0));
        assert!(matches!(&index.table, Table::Runs(runs) if runs.len() == 1));
    }

    #[test]
    fn both_forms_count_alike() {
        let entries: Vec<i64> = (0..3000).map(|i| if i % 7 < 3 || i > 2500 { i } else { i64::MIN }).collect();
        let all = Index::from_entries(Arc::new(entries.clone()));
        let mut runs: Vec<(usize, i64)> = Vec::new();
        for (nchunk, raw) in entries.iter().enumerate() {
            if runs.last().is_none_or(|(_, last)| last != raw) {
                runs.push((nchunk, *raw));
            }
        }
        let runs = Index { table: Table::Runs(runs), len: entries.len(), ..Index::default() };
        for nchunk in 0..=entries.len() {
            let expected = stored(&entries[..nchunk]);
            assert_eq!((all.nstored(nchunk), runs.nstored(nchunk)), (expected, expected), "{nchunk}");
        }
        assert_eq!((all.nstored(9999), runs.nstored(9999)), (stored(&entries), stored(&entries)));
        assert_eq!(Index::default().nstored(0), 0);
        // A run of chunks that share their bytes.
        let shared = Index { table: Table::Runs(vec![(0, 40)]), len: 1 << 28, ..Index::default() };
        assert_eq!(shared.nstored(1 << 27), 1 << 27);
    }
}
