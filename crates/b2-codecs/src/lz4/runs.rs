//! Runs of one byte value, as filtered data is full of them.
//!
//! Four equal bytes only match inside another run of that byte. Hash chains are bad at this: every position
//! of every run would be in one chain. So runs are kept as such, one list for each byte value, and all
//! positions of a run are answered at once: searching a run costs time in proportion to its length plus the
//! number of earlier runs looked at.

use super::output::{Match, PackedMatch};
use super::window::{FAR, MIN_MATCH, common_len};

/// More runs than this cannot start within the reach of a match.
const NRUNS: usize = FAR as usize / MIN_MATCH;

/// Whether four bytes are equal.
#[inline(always)]
pub(super) fn is_run(bytes: u32) -> bool {
    bytes == bytes.rotate_left(8)
}

#[derive(Clone, Copy, Default)]
struct Run {
    start: usize,
    end: usize,
    /// Number, counted from 1, of the run before this one with the same byte value; 0 for none.
    previous: usize,
}

impl Run {
    fn len(&self) -> usize {
        self.end - self.start
    }
}

/// The runs seen so far.
#[derive(Clone)]
pub(super) struct Runs {
    /// Run number `n` is at `(n - 1) % NRUNS`.
    runs: Vec<Run>,
    count: usize,
    /// Number of the last run of each byte value.
    last: [usize; 256],
}

impl Runs {
    pub(super) fn new() -> Self {
        Self { runs: Vec::new(), count: 0, last: [0; 256] }
    }

    pub(super) fn clear(&mut self) {
        self.runs.clear();
        self.count = 0;
        self.last = [0; 256];
    }

    pub(super) fn copy_from(&mut self, other: &Self) {
        self.runs.clone_from(&other.runs);
        self.count = other.count;
        self.last = other.last;
    }

    /// Records the run that `pos` is in, unless it is known; returns its end.
    pub(super) fn record(&mut self, window: &[u8], pos: usize) -> usize {
        self.run_at(window, pos).end
    }

    fn run_at(&mut self, window: &[u8], pos: usize) -> Run {
        if let Some(current) = self.count.checked_sub(1).map(|n| self.runs[n % NRUNS])
            && current.end > pos
        {
            return current;
        }
        let end = pos + 1 + common_len(&window[pos..], &window[pos + 1..]);
        let last = &mut self.last[usize::from(window[pos])];
        let run = Run { start: pos, end, previous: *last };
        if self.runs.len() < NRUNS {
            self.runs.push(run);
        } else {
            self.runs[self.count % NRUNS] = run;
        }
        self.count += 1;
        *last = self.count;
        run
    }

    /// Finds matches for the positions from `pos` up to `stop` in the run that `pos` is in, three before its
    /// end at most. `found` has one entry for each position. Matches end at `limit`.
    pub(super) fn search(
        &mut self,
        window: &[u8],
        pos: usize,
        limit: usize,
        attempts: usize,
        found: &mut [PackedMatch],
    ) {
        let run = self.run_at(window, pos);
        let rest = run.end - pos;
        let reach = limit - pos;
        found.fill(PackedMatch::default());
        // An earlier run matches the end of this one, as much as it has, and may go on matching behind it.
        // First note the best of these continuations at the position from which it can be used...
        let mut shorter = Match::default();
        let mut number = run.previous;
        for _ in 0..attempts {
            // Too far away to be kept: a newer one has its place.
            if self.count - number >= NRUNS {
                break;
            }
            let Some(earlier) = number.checked_sub(1).map(|n| self.runs[n % NRUNS]) else { break };
            let distance = run.end - earlier.end;
            if distance >= FAR as usize {
                break;
            }
            let skipped = rest.saturating_sub(earlier.len());
            if run.end < limit
                && let Some(slot) = found.get_mut(skipped)
            {
                let len = common_len(&window[earlier.end..], &window[run.end..limit]);
                if len > slot.unpack().len {
                    *slot = Match { distance, len }.pack();
                }
            }
            if skipped > 0 && earlier.len() > shorter.len && pos - earlier.start < FAR as usize {
                shorter = Match { distance: pos - earlier.start, len: earlier.len() };
            }
            number = earlier.previous;
        }
        // ... then turn them into matches.
        let mut beyond = Match::default();
        for (k, slot) in found.iter_mut().enumerate() {
            let continuation = slot.unpack();
            if continuation.len > beyond.len {
                beyond = continuation;
            }
            let mut best = if beyond.len > 0 {
                Match { len: beyond.len + rest - k, ..beyond }
            } else if pos + k > run.start {
                Match { distance: 1, len: rest - k }
            } else {
                shorter
            };
            best.len = best.len.min(reach - k);
            *slot = best.pack();
        }
    }
}
