//! Counts the stored chunks before a chunk, which gives the position of its checksum.

use super::{Index, Table};

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
