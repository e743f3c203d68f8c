//! The sizes of chunks in frames with individual chunk sizes. The frame header does not define
//! them, so the chunk headers have to be read.

use std::ops::Range;

/// Consecutive chunks of equal size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SizeRun {
    pub(crate) nchunk: usize,
    /// Offset of the first of these chunks in the data.
    pub(crate) start: u64,
    /// Size of each chunk.
    pub(crate) nbytes: u64,
}

/// The offsets of all chunks in the data, followed by a run for the end. A run of chunks with the
/// same entry takes as much memory as one, so that a small file cannot demand much.
#[derive(Debug, Default)]
pub(crate) struct ChunkSizes(pub(crate) Vec<SizeRun>);

impl ChunkSizes {
    /// Returns the empty table of a frame whose header defines the sizes.
    pub(crate) const fn equal() -> Self {
        Self(Vec::new())
    }

    /// Creates the table from the size of each chunk.
    pub(crate) fn of(sizes: &[u32]) -> Self {
        let mut start = 0;
        let place = |(nchunk, nbytes): (usize, &u32)| {
            let run = SizeRun { nchunk, start, nbytes: u64::from(*nbytes) };
            start += run.nbytes;
            run
        };
        let mut runs: Vec<SizeRun> = sizes.iter().enumerate().map(place).collect();
        runs.push(SizeRun { nchunk: sizes.len(), start, nbytes: 0 });
        Self(runs)
    }

    /// Returns the chunk that holds byte `at`, and its range. `at` must be inside the data.
    pub(crate) fn chunk_at(&self, at: u64) -> Option<(usize, Range<u64>)> {
        // Use the last run that starts here; runs before it at the same offset are empty.
        let next = self.0.partition_point(|run| run.start <= at);
        let run = self.0.get(next).and(self.0.get(next.checked_sub(1)?))?;
        let n = (at - run.start).checked_div(run.nbytes)?;
        let start = run.start + n * run.nbytes;
        Some((run.nchunk + usize::try_from(n).ok()?, start..start + run.nbytes))
    }

    pub(crate) fn nbytes(&self, nchunk: usize) -> Option<u64> {
        let next = self.0.partition_point(|run| run.nchunk <= nchunk);
        // There is another run after every chunk.
        self.0.get(next).and(self.0.get(next.checked_sub(1)?)).map(|run| run.nbytes)
    }
}
