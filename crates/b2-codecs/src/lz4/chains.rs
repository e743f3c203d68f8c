//! Hash chains: where four bytes occurred before, the last place first.
#![allow(unsafe_code)]

use super::raw::RawWindow;
use super::window::{FAR, MIN_MATCH};
use crate::memory::{OutOfMemory, zeroed_array};

const HASH_BITS: u32 = 16;

/// How many attempts are taken off when a run is skipped, which takes as long: fewer where it is the ratio that
/// counts, or where there would be none left.
const fn skip_cost(attempts: usize) -> usize {
    match attempts {
        ..=4 => 2,
        5..=128 => 4,
        _ => 1,
    }
}

/// The last position of each hash, and from each position the distance to the one before with the same hash.
/// Positions have a base added that grows from stream to stream, so that nothing need be cleared.
#[derive(Clone)]
pub(super) struct Chains {
    last: Box<[u32; 1 << HASH_BITS]>,
    distances: Box<[u16; FAR as usize]>,
    pub(super) base: u32,
    /// The position that is added next.
    next: usize,
}

/// A match somewhere: `len` bytes at `pos` are those `distance` before.
#[derive(Clone, Copy, Default)]
pub(super) struct Found {
    pub(super) pos: usize,
    pub(super) distance: usize,
    pub(super) len: usize,
}

impl Found {
    pub(super) fn end(self) -> usize {
        self.pos + self.len
    }
}

impl Chains {
    pub(super) fn new() -> Result<Self, OutOfMemory> {
        Ok(Self { last: zeroed_array()?, distances: zeroed_array()?, base: FAR, next: 0 })
    }

    /// Forgets all positions. `len` is that of the next window.
    pub(super) fn restart(&mut self, len: usize) {
        // Beyond everything that has been added, and further than a match reaches.
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

    /// Adds `next`, where `bytes` are. Returns the distance to the position before, `FAR` or more if none.
    #[inline(always)]
    fn add(&mut self, bytes: u32) -> u32 {
        let hash = bytes.wrapping_mul(0x9E37_79B1) >> (32 - HASH_BITS);
        let here = self.base + self.next as u32;
        let distance = here - std::mem::replace(&mut self.last[hash as usize], here);
        // At least 1 is added to this where it is used, so it does not get shorter than `FAR`.
        self.distances[here as usize % FAR as usize] = distance.min(FAR - 1) as u16;
        self.next += 1;
        distance
    }

    /// Adds the positions before `end` which continue a run of equal bytes, all at once.
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

    /// Adds `pos` and everything before, and finds a match of more than `best` bytes that holds the four bytes
    /// at `pos`, begins at `low` or later and ends at `limit` at most.
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
    ) -> Option<Found> {
        debug_assert!(low <= pos && pos <= low + best && best >= 3 && low + best < limit && pos + 4 <= limit);
        debug_assert!(self.next <= pos);
        let mut found = None;
        // SAFETY: a candidate is below `pos`, since each distance is at least 1, and above `pos - low`. What is
        // read behind it is before `low + best + 1`, which is not above `limit`.
        unsafe {
            self.add_until(window, pos);
            let bytes = window.u32(pos);
            let mut distance = self.add(bytes) as usize;
            // A longer match has these bytes, too, since it ends behind them. They are the rarer ones.
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
                        found = Some(Found { pos: pos - back, distance, len: best });
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

/// How far before `cand` the next candidate is, where both `cand` and `pos` are in runs of the same byte.
///
/// Only two positions of a run are worth a look: the one with as much of the run ahead as `pos` has, since the
/// match may go on behind the run, and the first one.
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
    // Without a run, two neighbours had the same hash by chance.
    missing.min(cand_back).max(1)
}
