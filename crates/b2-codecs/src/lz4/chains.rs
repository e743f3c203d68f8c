//! Hash chains: the earlier positions of four bytes, most recent first.
#![allow(unsafe_code)]

use super::window::{FAR, MIN_MATCH};
use crate::lz77::raw::RawWindow;
use b2_core::{OutOfMemory, memory::zeroed_array};

const HASH_BITS: u32 = 16;

/// How many attempts skipping a run costs, since it takes about as long. Lower where the ratio matters more, or where
/// no attempts would remain.
const fn skip_cost(attempts: usize) -> usize {
    match attempts {
        ..=4 => 2,
        5..=128 => 4,
        _ => 1,
    }
}

/// The last position of each hash, and for each position the distance to the previous one with the same hash. A base is
/// added to positions, which grows from stream to stream, so that tables need not be cleared.
#[derive(Clone)]
pub(super) struct Chains {
    last: Box<[u32; 1 << HASH_BITS]>,
    distances: Box<[u16; FAR as usize]>,
    pub(super) base: u32,
    /// The next position to add.
    next: usize,
}

/// A match: the `len` bytes at `pos` equal those `distance` bytes earlier.
#[derive(Clone, Copy, Default)]
pub(super) struct ChainMatch {
    pub(super) pos: usize,
    pub(super) distance: usize,
    pub(super) len: usize,
}

impl ChainMatch {
    pub(super) fn end(self) -> usize {
        self.pos + self.len
    }
}

impl Chains {
    pub(super) fn new() -> Result<Self, OutOfMemory> {
        Ok(Self { last: zeroed_array()?, distances: zeroed_array()?, base: FAR, next: 0 })
    }

    /// Forgets all positions, for a new window of `len` bytes.
    pub(super) fn restart(&mut self, len: usize) {
        // Further from all added positions than a match reaches.
        self.base = match self.base.checked_add(self.next as u32 + FAR) {
            Some(base) if base < u32::MAX - len as u32 => base,
            _ => {
                self.last.fill(0);
                FAR
            }
        };
        self.next = 0;
    }

    pub(super) fn copy_from(&mut self, other: &Self) {
        self.last.copy_from_slice(&other.last[..]);
        self.distances.copy_from_slice(&other.distances[..]);
        (self.base, self.next) = (other.base, other.next);
    }

    /// Adds all positions before `end`.
    ///
    /// # Safety
    /// `end + 3` is within the window, and so was every earlier one since the restart.
    #[inline(always)]
    pub(super) unsafe fn add_until(&mut self, window: RawWindow<'_>, end: usize) {
        while self.next < end {
            // SAFETY: `next` is less than `end`.
            let bytes = unsafe { window.u32(self.next) };
            self.add(bytes);
            if bytes == bytes.rotate_left(8) {
                self.add_run(window, bytes, end);
            }
        }
    }

    /// Adds the position `next`, which holds `bytes`. Returns the distance to the previous one, or at least `FAR` if
    /// none.
    #[inline(always)]
    fn add(&mut self, bytes: u32) -> u32 {
        let hash = bytes.wrapping_mul(0x9E37_79B1) >> (32 - HASH_BITS);
        let here = self.base + self.next as u32;
        let distance = here - std::mem::replace(&mut self.last[hash as usize], here);
        // A candidate's distance grows by at least 1 more, so it still reaches `FAR`.
        self.distances[here as usize % FAR as usize] = distance.min(FAR - 1) as u16;
        self.next += 1;
        distance
    }

    /// Adds the positions before `end` that continue a run of equal bytes, all at once.
    fn add_run(&mut self, window: RawWindow<'_>, bytes: u32, end: usize) {
        let from = self.next;
        let same = window.bytes()[from..end + 3].iter().take_while(|byte| **byte == bytes as u8).count();
        let count = same.saturating_sub(3);
        for pos in from..from + count {
            self.distances[(self.base as usize + pos) % FAR as usize] = 1;
        }
        self.next = from + count;
        let hash = bytes.wrapping_mul(0x9E37_79B1) >> (32 - HASH_BITS);
        self.last[hash as usize] = self.base + self.next as u32 - 1;
    }

    /// Adds `pos` and everything before it. Then finds a match longer than `best` that contains the four bytes at
    /// `pos`, starts at `low` or later, and ends at `limit` at the latest.
    ///
    /// # Safety
    /// `low <= pos <= low + best`, `best` is 3 or more, `low + best < limit`, `pos + 4 <= limit`, `limit` is within
    /// the window, and `pos` has not been added.
    #[inline(always)]
    pub(super) unsafe fn search(
        &mut self,
        window: RawWindow<'_>,
        (low, pos, limit): (usize, usize, usize),
        mut best: usize,
        attempts: usize,
    ) -> Option<ChainMatch> {
        debug_assert!(low <= pos && pos <= low + best && best >= 3 && low + best < limit && pos + 4 <= limit);
        debug_assert!(self.next <= pos);
        let mut found = None;
        // SAFETY: a candidate is below `pos`, since each distance is at least 1, and above `pos - low`. What is
        // read after it is before `low + best + 1`, which is not above `limit`.
        unsafe {
            self.add_until(window, pos);
            let bytes = window.u32(pos);
            let mut distance = self.add(bytes) as usize;
            // A longer match contains these bytes as well, because it ends after them. They are rarer than the first
            // four.
            let mut tail_pos = pos.max(low + best - 3);
            let mut tail = window.u32(tail_pos);
            let mut left = attempts;
            while left > 0 {
                if distance >= FAR as usize || distance > low {
                    break;
                }
                let cand = pos - distance;
                if window.u32(tail_pos - distance) == tail && window.u32(cand) == bytes {
                    let ahead = MIN_MATCH + window.match_len(cand + MIN_MATCH, pos + MIN_MATCH, limit);
                    let back = window.back_len(cand, pos, pos - low);
                    if ahead + back > best {
                        best = ahead + back;
                        found = Some(ChainMatch { pos: pos - back, distance, len: best });
                        if pos + ahead == limit || low + best >= limit {
                            break;
                        }
                        tail_pos = pos.max(low + best - 3);
                        tail = window.u32(tail_pos);
                    }
                }
                let mut step = usize::from(self.distances[(self.base as usize + cand) % FAR as usize]);
                left -= 1;
                if step == 1 {
                    step = skip_run(window, cand, pos, limit);
                    left = left.saturating_sub(skip_cost(attempts));
                }
                distance += step;
            }
        }
        found
    }
}

/// Returns the distance from `cand` to the next candidate, if both `cand` and `pos` are in runs of the same byte.
///
/// Only two positions of a run can be useful: the one with as much of the run ahead as `pos`, since the match may
/// continue after the run, and the first one.
///
/// # Safety
/// `cand < pos < limit`, and `limit` is within the window.
#[cold]
#[inline(never)]
unsafe fn skip_run(window: RawWindow<'_>, cand: usize, pos: usize, limit: usize) -> usize {
    // SAFETY: as the caller promises.
    let (ahead, cand_ahead, cand_back) = unsafe {
        let ahead = window.match_len(pos, pos + 1, limit);
        let cand_ahead = window.match_len(cand, cand + 1, limit.min(cand + 1 + ahead));
        (ahead, cand_ahead, window.back_len(cand, cand + 1, cand))
    };
    let missing = if ahead > cand_ahead { ahead - cand_ahead } else { usize::MAX };
    // There is no run: two neighbours have the same hash by chance.
    missing.min(cand_back).max(1)
}
