//! Sums of chunks while a frame is written.

use std::collections::HashMap;

use b2_chunk::memory::{self, OutOfMemory};

use super::sum;

/// Sums of the stored chunks of a frame that is being written, by index entry: two entries that are equal have the
/// same bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChunkSums(HashMap<i64, u64>);

impl ChunkSums {
    /// Those of a frame with these entries; `sums` are those of the stored ones in order.
    ///
    /// # Errors
    /// When there is not enough memory.
    pub(crate) fn of(entries: &[i64], sums: impl Iterator<Item = u64>) -> Result<Self, OutOfMemory> {
        let mut all = Self::default();
        all.reserve(entries.len())?;
        all.0.extend(entries.iter().copied().filter(|raw| *raw >= 0).zip(sums));
        Ok(all)
    }

    fn reserve(&mut self, more: usize) -> Result<(), OutOfMemory> {
        let bytes = (more as u64).saturating_mul(size_of::<(i64, u64)>() as u64);
        self.0.try_reserve(more).map_err(|_| OutOfMemory { bytes })
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
        self.reserve(1)?;
        self.0.insert(raw, sum);
        Ok(())
    }

    /// That of a stored chunk, if it is known.
    pub(crate) fn get(&self, raw: i64) -> Option<u64> {
        self.0.get(&raw).copied()
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

    /// Forgets all but the chunks of these entries, when there are many more.
    pub(crate) fn tidy(&mut self, entries: &[i64]) {
        if self.0.len() > entries.len().saturating_mul(2).saturating_add(64) {
            let mut kept = Self::default();
            // Without memory for fewer the many stay.
            if kept.reserve(entries.len()).is_ok() {
                kept.0.extend(entries.iter().filter_map(|raw| Some((*raw, *self.0.get(raw)?))));
                *self = kept;
            }
        }
    }
}
