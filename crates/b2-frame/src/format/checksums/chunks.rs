//! Sums of chunks while a frame is being written.

use std::sync::Arc;

use b2_core::{OutOfMemory, memory};

use super::pages::{ChunkSum, SumsByEntry};
use crate::format::records::{RecordPage, Records};
use crate::format::runs;

/// Sums of the stored chunks of a frame that is being written.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChunkSums {
    /// Sums of chunks that existed before. Snapshots share them to compare what they read.
    old: Arc<SumsByEntry>,
    new: SumsByEntry,
    /// Whether some chunks have sums of runs.
    has_runs: bool,
}

impl ChunkSums {
    /// Creates the sums of a frame with these entries. `sums` are those of the stored entries, in
    /// order.
    ///
    /// # Errors
    /// When there is not enough memory.
    pub(crate) fn of(entries: &[i64], sums: impl Iterator<Item = ChunkSum>) -> Result<Self, OutOfMemory> {
        let mut old = SumsByEntry::default();
        reserve(&mut old, entries.len())?;
        old.extend(entries.iter().copied().filter(|raw| *raw >= 0).zip(sums));
        let has_runs = old.values().any(|sum| !sum.runs.is_empty());
        Ok(Self { old: Arc::new(old), new: SumsByEntry::default(), has_runs })
    }

    /// Returns the sums of chunks that existed before.
    pub(crate) fn old(&self) -> &Arc<SumsByEntry> {
        &self.old
    }

    /// Records the sums of the chunk that this entry now refers to.
    ///
    /// # Errors
    /// When there is not enough memory.
    pub(crate) fn put(&mut self, raw: i64, sum: ChunkSum) -> Result<(), OutOfMemory> {
        reserve(&mut self.new, 1)?;
        self.has_runs |= !sum.runs.is_empty();
        self.new.insert(raw, sum);
        // The entry no longer refers to the old chunk.
        if self.old.contains_key(&raw) {
            Arc::make_mut(&mut self.old).remove(&raw);
        }
        Ok(())
    }

    /// Returns the sums of a stored chunk, if they are known.
    pub(crate) fn get(&self, raw: i64) -> Option<&ChunkSum> {
        self.new.get(&raw).or_else(|| self.old.get(&raw))
    }

    /// Returns the sums of all stored entries, serialized in order; `None` if any is unknown.
    ///
    /// # Errors
    /// When there is not enough memory.
    pub(crate) fn all(&self, entries: &[i64]) -> Result<Option<Vec<u8>>, OutOfMemory> {
        let mut sums = memory::list(entries.len().saturating_mul(8))?;
        for raw in entries.iter().filter(|raw| **raw >= 0) {
            let Some(sum) = self.get(*raw) else { return Ok(None) };
            sums.extend_from_slice(&sum.whole.to_le_bytes());
        }
        Ok(Some(sums))
    }

    /// Returns the records with the sums of runs. `kept` are pages that are in the file already.
    ///
    /// # Errors
    /// When there is not enough memory.
    pub(crate) fn runs(&self, entries: &[i64], kept: &[RecordPage]) -> Result<Records, OutOfMemory> {
        let stored = entries.iter().filter(|raw| **raw >= 0);
        let records = stored.map(|raw| match self.get(*raw) {
            Some(sum) if !sum.runs.is_empty() => &*sum.runs,
            _ => &runs::NO_RUNS,
        });
        let something = self.has_runs && records.clone().any(|record| record != runs::NO_RUNS);
        match something {
            true => Records::new(records, kept),
            false => Records::nothing(entries.iter().filter(|raw| **raw >= 0).count()),
        }
    }

    /// Merges the new sums into the old ones unless a snapshot shares those. Drops sums of other
    /// entries if there are many.
    pub(crate) fn merge_new(&mut self, entries: &[i64]) {
        if self.old.len().saturating_add(self.new.len()) > entries.len().saturating_mul(2).saturating_add(64)
        {
            let mut kept = SumsByEntry::default();
            // Without memory for a smaller map, keep the large one.
            if reserve(&mut kept, entries.len()).is_ok() {
                kept.extend(entries.iter().filter_map(|raw| Some((*raw, self.get(*raw)?.clone()))));
                *self = Self { old: Arc::new(kept), new: SumsByEntry::default(), has_runs: self.has_runs };
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
    sums.try_reserve(more).map_err(|_| OutOfMemory::new(bytes))
}
