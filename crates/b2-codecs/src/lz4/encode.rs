//! Fast LZ4 encoder: one hash table, and the first match found is used.
//!
//! While the search finds nothing, its step grows, so that noise costs little time. The acceleration is the initial
//! step.
#![allow(unsafe_code)]

use super::matcher::Matcher;
use super::raw::RawOutput;
use super::window::{FAR, LAST_LITERALS, MIN_MATCH, read_u64};
use crate::lz77::raw::RawWindow;
use b2_core::Pooled;
use b2_core::{OutOfMemory, memory::zeroed_array};
use std::cell::RefCell;
use std::mem::replace;

/// Matches start at least this far from the end. That is three bytes more than the format requires, so that 16 literals
/// can always be copied at once.
const LAST_SEARCH: usize = 16;
/// The step grows by one after `1 << skip_bits` misses. C uses 6. A lower value costs compression only at the highest
/// accelerations, where it misses the last matches in noise.
const fn skip_bits(acceleration: usize) -> u32 {
    if acceleration <= 4 { 6 } else { 5 }
}

/// `skip_bits` for streams that look like noise.
const NOISE_SKIP_BITS: u32 = 3;
/// Consecutive misses after which the stream is tested for noise.
const NOISE_TEST: usize = 128;

/// The last position of each hash.
type Small = [u16; 1 << 13];
type Large = [u32; 1 << 12];

/// A hash table of 16 KiB.
trait Table {
    /// Whether every earlier position is near enough for a match.
    const ALL_IN_REACH: bool;
    /// Returns the last position with the hash of `bytes`, and replaces it with `pos`, the position of `bytes`.
    fn lookup(&mut self, pos: usize, bytes: u64) -> usize;
}

impl Table for Small {
    const ALL_IN_REACH: bool = true;

    #[inline(always)]
    fn lookup(&mut self, pos: usize, bytes: u64) -> usize {
        replace(&mut self[hash::<13>(bytes)], pos as u16).into()
    }
}

impl Table for Large {
    const ALL_IN_REACH: bool = false;

    #[inline(always)]
    fn lookup(&mut self, pos: usize, bytes: u64) -> usize {
        replace(&mut self[hash::<12>(bytes)], pos as u32) as usize
    }
}

/// A table that still holds positions of earlier streams, all at most `base`. They count as empty, and the positions of
/// this stream are stored with `base` added.
struct ReusedTable<'a> {
    table: &'a mut Small,
    base: u16,
}

impl Table for ReusedTable<'_> {
    const ALL_IN_REACH: bool = true;

    #[inline(always)]
    fn lookup(&mut self, pos: usize, bytes: u64) -> usize {
        let entry = replace(&mut self.table[hash::<13>(bytes)], self.base.wrapping_add(pos as u16));
        entry.saturating_sub(self.base).into()
    }
}

/// Up to this length of a stream, clearing the table would take as long as the search. So it is only cleared when the
/// positions run out.
const SHORT: usize = 8 << 10;

/// The tables for windows up to 64 KiB and for larger ones.
struct Tables {
    small: Box<Small>,
    /// No position in `small` is above this.
    highest: u16,
    large: Box<Large>,
}

impl Tables {
    fn new() -> Result<Self, OutOfMemory> {
        Ok(Self { small: zeroed_array()?, highest: 0, large: zeroed_array()? })
    }

    /// Returns the small table, without positions, for a stream of up to [`SHORT`] bytes.
    fn reused(&mut self, len: usize) -> ReusedTable<'_> {
        let base = match usize::from(self.highest) + len {
            end if end <= usize::from(u16::MAX) => self.highest,
            _ => {
                self.small.fill(0);
                0
            }
        };
        self.highest = base + len as u16;
        ReusedTable { table: &mut self.small, base }
    }
}

thread_local! {
    static POOLED_TABLES: RefCell<Vec<Tables>> = const { RefCell::new(Vec::new()) };
}

/// The state of the fast encoder.
pub(super) struct FastMatcher {
    acceleration: usize,
    tables: Pooled<Tables>,
    /// The length of the dictionary, and the tables after indexing it.
    dict: Option<(usize, Tables)>,
}

impl FastMatcher {
    /// Creates a matcher. `acceleration` is 1 for the best ratio, higher for speed.
    pub(super) fn new(acceleration: usize) -> Result<Self, OutOfMemory> {
        Ok(Self { acceleration, tables: Pooled::take(&POOLED_TABLES, |_| true, Tables::new)?, dict: None })
    }
}

impl Matcher for FastMatcher {
    fn load_dict(&mut self, dict: &[u8]) -> Result<(), OutOfMemory> {
        let mut tables = Tables::new()?;
        // Matches are extended backwards, so indexing every third position is enough.
        for pos in (0..dict.len().saturating_sub(7)).step_by(3) {
            let bytes = read_u64(dict, pos);
            tables.small.lookup(pos, bytes);
            tables.large.lookup(pos, bytes);
        }
        self.dict = Some((dict.len(), tables));
        Ok(())
    }

    fn compress(&mut self, window: &[u8], start: usize, dst: &mut [u8]) -> Option<usize> {
        let mut out = RawOutput::new(dst);
        if self.dict.is_none() && window.len() <= SHORT {
            let mut table = self.tables.reused(window.len());
            // SAFETY: entries up to `base` count as zeros, and there are no others.
            let anchor = unsafe { sequences(window, start, &mut table, self.acceleration, &mut out)? };
            return out.finish().last_literals(&window[anchor..]);
        }
        let Tables { small, highest, large } = &mut *self.tables;
        let is_small = window.len() <= FAR as usize;
        if is_small {
            *highest = u16::MAX;
        }
        // Clear the table, so that the result does not depend on earlier streams.
        match &self.dict {
            None if is_small => small.fill(0),
            None => large.fill(0),
            Some((len, dict)) => {
                assert_eq!(start, *len, "the window starts with the dictionary");
                if is_small {
                    small.copy_from_slice(&dict.small[..]);
                } else {
                    large.copy_from_slice(&dict.large[..]);
                }
            }
        }
        // SAFETY: the tables hold zeros, or positions in the dictionary, which ends at `start`.
        let anchor = unsafe {
            if is_small {
                sequences(window, start, &mut **small, self.acceleration, &mut out)?
            } else {
                sequences(window, start, &mut **large, self.acceleration, &mut out)?
            }
        };
        out.finish().last_literals(&window[anchor..])
    }
}

/// Hashes five bytes. On shuffled data that gives fewer but longer matches than four bytes, and a better ratio.
#[inline(always)]
fn hash<const BITS: u32>(bytes: u64) -> usize {
    ((bytes << 24).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - BITS)) as usize
}

/// Writes all sequences but the last. Returns where the last literals start.
///
/// # Safety
/// The table holds nothing but zeros and positions below `start`.
unsafe fn sequences<T: Table>(
    bytes: &[u8],
    start: usize,
    table: &mut T,
    acceleration: usize,
    out: &mut RawOutput<'_>,
) -> Option<usize> {
    let mut anchor = start;
    let Some(last_start) = bytes.len().checked_sub(LAST_SEARCH) else { return Some(anchor) };
    let limit = bytes.len() - LAST_LITERALS;
    let window = RawWindow::new(bytes);
    let mut skip_bits = skip_bits(acceleration);
    let mut tested = false;
    // An empty table entry is 0, so position 0 counts as indexed.
    let mut pos = start.max(1);
    // SAFETY: lookups are at `pos` or `next`, at most `last_start` and thus at least 16 bytes before the end.
    // Positions grow by at least one from lookup to lookup, and the table holds earlier positions or 0, so a
    // candidate is below `pos`. A match ends at `limit` at most. `back` is at most `cand` and `pos - anchor`.
    unsafe {
        while pos <= last_start {
            let mut next = pos + 1;
            let mut skip = acceleration << skip_bits;
            let mut stop = if tested { last_start } else { last_start.min(pos + acceleration * NOISE_TEST) };
            let mut found = window.u64(pos);
            let mut cand = loop {
                if next > stop {
                    if tested || next > last_start {
                        return Some(anchor);
                    }
                    tested = true;
                    stop = last_start;
                    if looks_like_noise(&bytes[start..]) {
                        skip_bits = NOISE_SKIP_BITS;
                        skip = acceleration << skip_bits;
                    }
                }
                let cand = table.lookup(pos, found);
                if is_match::<T>(window, pos, cand, found) {
                    break cand;
                }
                found = window.u64(next);
                pos = next;
                next += skip >> skip_bits;
                skip += 1;
            };
            // Independent of the length, so that both can be computed in parallel.
            let mut back = window.back_len(cand, pos, cand.min(pos - anchor));
            // Matches often follow each other without literals in between.
            loop {
                let len = MIN_MATCH + window.match_len(cand + MIN_MATCH, pos + MIN_MATCH, limit);
                out.sequence(window, anchor, pos - back, pos - cand, len + back)?;
                pos += len;
                anchor = pos;
                back = 0;
                if pos > last_start {
                    return Some(anchor);
                }
                // Index this position as well: a run may start there.
                table.lookup(pos - 2, window.u64(pos - 2));
                let found = window.u64(pos);
                cand = table.lookup(pos, found);
                if !is_match::<T>(window, pos, cand, found) {
                    break;
                }
            }
            pos += 1;
        }
    }
    Some(anchor)
}

/// Returns whether `cand` holds the first four of `bytes` (those at `pos`) and is near enough.
///
/// # Safety
/// `cand < pos`, and `pos + 4` is within the window.
#[inline(always)]
unsafe fn is_match<T: Table>(window: RawWindow<'_>, pos: usize, cand: usize, bytes: u64) -> bool {
    // SAFETY: as the caller promises.
    let same = unsafe { window.u32(cand) } == bytes as u32;
    same && (T::ALL_IN_REACH || pos - cand < FAR as usize)
}

/// Returns whether the byte values of a sample are distributed like noise.
#[cold]
pub(super) fn looks_like_noise(stream: &[u8]) -> bool {
    const SAMPLES: usize = 256;
    let mut seen = [false; 256];
    let step = (stream.len() / SAMPLES).max(1) | 1;
    for k in 0..stream.len().div_ceil(step).min(SAMPLES) {
        seen[usize::from(stream[k * step])] = true;
    }
    // 256 random values contain 162 different ones on average, with a standard deviation of 5.
    seen.iter().filter(|seen| **seen).count() >= 140
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Short streams leave their positions in the table. They must not affect the output, whenever the table is cleared.
    #[test]
    fn short_streams_are_independent() {
        let stream = |len: usize, step: usize| -> Vec<u8> {
            (0..len).map(|k| (k * k / step % 37 * (k / 300 + 1)) as u8).collect()
        };
        let encode = |matcher: &mut FastMatcher, src: &[u8]| {
            let mut dst = vec![0; src.len() + 40];
            let len = matcher.compress(src, 0, &mut dst).unwrap();
            dst.truncate(len);
            dst
        };
        let fresh = || FastMatcher {
            acceleration: 5,
            tables: Pooled::take(&POOLED_TABLES, |_| false, Tables::new).unwrap(),
            dict: None,
        };
        let lens = if cfg!(miri) { [300, 20] } else { [SHORT, 1000] };
        let mut reused = fresh();
        for round in 0..if cfg!(miri) { 3 } else { 200 } {
            // The long stream does not use old entries, but leaves the table full.
            let long = if round % 50 == 49 { 40_000 } else { lens[1] };
            for len in [lens[0] - round, lens[1], 0, 15, 16, 17, long] {
                let src = stream(len, 50 + round % 3);
                assert!(encode(&mut reused, &src) == encode(&mut fresh(), &src), "{round} {len}");
            }
            if round == 1 {
                reused.tables.highest = u16::MAX - 17;
                reused.tables.small.fill(u16::MAX - 17);
            }
        }
    }
}
