//! States after a killed process: everything it had written remains, in order, and its last write
//! may be truncated.

use std::collections::BTreeSet;

use crate::log::{CrashState, Log};
use crate::op::Op;
use b2_testkit::Rng;

/// Writes up to this length are truncated at every byte.
const MAX_SPLIT_WRITE: usize = 1024;
/// Systems copy a write page by page, and can stop it only between pages.
const PAGE: u64 = 4096;
const SECTOR: u64 = 512;

impl Log {
    /// Returns the states between calls that a kill can leave.
    pub fn between_calls(&self) -> impl Iterator<Item = CrashState> {
        (0..=self.ops().len())
            .map(|at| self.state(at, self.image(at).clone(), format!("killed after {at} calls")))
    }

    /// Calls `each` with every state that a kill can leave, until it fails.
    ///
    /// # Errors
    /// The first error of `each`.
    pub fn kills<E>(&self, seed: u64, mut each: impl FnMut(CrashState) -> Result<(), E>) -> Result<(), E> {
        let mut rng = Rng::case(seed, 0);
        for (at, op) in self.ops().iter().enumerate() {
            each(self.state(at, self.image(at).clone(), format!("killed before call {at}")))?;
            if let Op::Write { node, offset, data } = op {
                for cut in cuts(*offset, data.len(), &mut rng) {
                    let mut image = self.image(at).clone();
                    image.apply(&Op::Write { node: *node, offset: *offset, data: data.slice(..cut) });
                    let how = format!("killed in call {at} after {cut} of {} bytes", data.len());
                    each(self.state(at, image, how))?;
                }
            }
        }
        let end = self.ops().len();
        each(self.state(end, self.image(end).clone(), "killed after the last call".into()))
    }
}

/// Returns the lengths to which a write of `len` bytes is truncated.
fn cuts(offset: u64, len: usize, rng: &mut Rng) -> BTreeSet<usize> {
    if len <= MAX_SPLIT_WRITE {
        return (1..len).collect();
    }
    let mut cuts: BTreeSet<usize> = (1..=32).chain(len - 32..len).collect();
    cuts.extend((0..32).map(|_| 1 + rng.below(len - 1)));
    let pages = (offset.next_multiple_of(PAGE)..offset + len as u64).step_by(PAGE as usize).take(256);
    let sectors = (offset.next_multiple_of(SECTOR)..offset + len as u64).step_by(SECTOR as usize).take(32);
    cuts.extend(pages.chain(sectors).map(|at| (at - offset) as usize).filter(|cut| *cut > 0));
    cuts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_writes_are_cut_everywhere_and_large_ones_at_pages() {
        let mut rng = Rng::case(1, 0);
        assert_eq!(cuts(100, 5, &mut rng), (1..5).collect());
        assert!(cuts(0, 1, &mut rng).is_empty() && cuts(0, 0, &mut rng).is_empty());
        let large = cuts(100, 20_000, &mut rng);
        assert!([1, 412, 3996, 3996 + 4096, 19_999].iter().all(|cut| large.contains(cut)));
        assert!(large.len() < 150 && large.iter().all(|cut| (1..20_000).contains(cut)));
    }
}
