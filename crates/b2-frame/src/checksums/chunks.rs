//! Sums of chunks while a frame is written.

use std::collections::HashMap;
use std::sync::Arc;

use b2_chunk::memory::{self, OutOfMemory};

use super::sum;

/// Sums of stored chunks by index entry: two entries that are equal have the same bytes.
pub(crate) type SumsByEntry = HashMap<i64, u64>;

/// Sums of the stored chunks of a frame that is being written.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChunkSums {
    /// Those of chunks that were there before. Snapshots share them, to compare what they read.
    old: Arc<SumsByEntry>,
    new: SumsByEntry,
}

impl ChunkSums {
    /// Those of a frame with these entries; `sums` are those of the stored ones in order.
    ///
    /// # Errors
    /// When there is not enough memory.
    pub(crate) fn of(entries: &[i64], sums: impl Iterator<Item = u64>) -> Result<Self, OutOfMemory> {
        let mut old = SumsByEntry::default();
        reserve(&mut old, entries.len())?;
        old.extend(entries.iter().copied().filter(|raw| *raw >= 0).zip(sums));
        Ok(Self { old: Arc::new(old), new: SumsByEntry::default() })
    }

    /// Those of chunks that were there before.
    pub(crate) fn old(&self) -> &Arc<SumsByEntry> {
        &self.old
    }

    /// Notes the chunk that the entry stands for from now on.
    ///
    /// # Errors
    /// When there is not enough memory.
    pub(crate) fn put(&mut self, raw: i64, chunk: &[u8]) -> Result<(), OutOfMemory> {
        self.put_sum(raw, sum(chunk))
    }

    /// Notes a sum that was known before.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub(crate) fn put_sum(&mut self, raw: i64, sum: u64) -> Result<(), OutOfMemory> {
        reserve(&mut self.new, 1)?;
        self.new.insert(raw, sum);
        // What was there before is no longer.
        if self.old.contains_key(&raw) {
            Arc::make_mut(&mut self.old).remove(&raw);
        }
        Ok(())
    }

    /// That of a stored chunk, if it is known.
    pub(crate) fn get(&self, raw: i64) -> Option<u64> {
        self.new.get(&raw).or_else(|| self.old.get(&raw)).copied()
    }

    /// Those of all stored entries in order, if they are known, as they are stored in pages.
    ///
    /// # Errors
    /// When there is not enough memory.
    pub(crate) fn all(&self, entries: &[i64]) -> Result<Option<Vec<u8>>, OutOfMemory> {
        let mut sums = memory::list(entries.len().saturating_mul(8))?;
        for raw in entries.iter().filter(|raw| **raw >= 0) {
            let Some(sum) = self.get(*raw) else { return Ok(None) };
            sums.extend_from_slice(&sum.to_le_bytes());
        }
        Ok(Some(sums))
    }

    /// Counts all chunks as there before, as far as no snapshot is in the way, and forgets all but those of these
    /// entries when there are many more.
    pub(crate) fn settle(&mut self, entries: &[i64]) {
        if self.old.len().saturating_add(self.new.len()) > entries.len().saturating_mul(2).saturating_add(64)
        {
            let mut kept = SumsByEntry::default();
            // Without memory for fewer the many stay.
            if reserve(&mut kept, entries.len()).is_ok() {
                kept.extend(entries.iter().filter_map(|raw| Some((*raw, self.get(*raw)?))));
                *self = Self { old: Arc::new(kept), new: SumsByEntry::default() };
            }
        } else if let Some(old) = Arc::get_mut(&mut self.old)
            && reserve(old, self.new.len()).is_ok()
        {
            old.extend(self.new.drain());
        }
    }
}

fn reserve(sums: &mut SumsByEntry, more: usize) -> Result<(), OutOfMemory> {
    let bytes = (more as u64).saturating_mul(size_of::<(i64, u64)>() as u64);
    sums.try_reserve(more).map_err(|_| OutOfMemory { bytes })
}
