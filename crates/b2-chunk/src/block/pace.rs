//! Progress reports: finished blocks are counted in groups, since a report per block would cost too much.

use b2_core::Control;

use crate::ChunkError;

/// Bytes between two reports: about 50 microseconds of work.
pub(crate) const STEP: usize = 256 << 10;

/// Counts finished blocks of a chunk and reports them to the control in groups. All blocks but the last have equal
/// length.
pub(crate) struct BlockProgress<'c> {
    control: &'c Control,
    nbytes: usize,
    blocksize: usize,
    /// Blocks per group.
    group: usize,
}

impl<'c> BlockProgress<'c> {
    pub(crate) fn new(control: &'c Control, nbytes: usize, blocksize: usize) -> Self {
        let blocksize = blocksize.max(1);
        Self { control, nbytes, blocksize, group: (STEP / blocksize).max(1) }
    }

    /// Records that block `nblock` is finished. The last block of a group reports the whole group. Other threads may
    /// still be working on some of it, but in the end every block is counted once.
    ///
    /// # Errors
    /// Fails if the call has been cancelled.
    pub(crate) fn done(&self, nblock: usize) -> Result<(), ChunkError> {
        let end = (nblock + 1).saturating_mul(self.blocksize).min(self.nbytes);
        if !(nblock + 1).is_multiple_of(self.group) && end < self.nbytes {
            return Ok(());
        }
        let first = (nblock - nblock % self.group) * self.blocksize;
        Ok(self.control.advance(end.saturating_sub(first) as u64)?)
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn every_byte_counts_once() {
        for (nbytes, blocksize) in
            [(1, 1), (1000, 7), (5 << 20, 10_000), (5 << 20, 1 << 20), ((5 << 20) + 1, 1 << 20)]
        {
            let totals = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
            let counters = Arc::clone(&totals);
            let control = Control::new().progress(move |progress| {
                counters[0].store(progress.nbytes, Ordering::Relaxed);
                counters[1].fetch_add(1, Ordering::Relaxed);
                ControlFlow::Continue(())
            });
            let control = control.begin(nbytes as u64, 1);
            let pace = BlockProgress::new(&control, nbytes, blocksize);
            (0..nbytes.div_ceil(blocksize)).rev().for_each(|nblock| pace.done(nblock).unwrap());
            let [bytes, calls] = [0, 1].map(|i| totals[i].load(Ordering::Relaxed));
            assert_eq!(bytes, nbytes as u64);
            assert!(calls <= nbytes.div_ceil(STEP) as u64 + 1, "{calls} calls for {nbytes} bytes");
        }
    }
}
