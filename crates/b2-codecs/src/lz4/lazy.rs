//! Encoder for the low levels of `lz4hc`: two hash tables and one byte of lookahead.
//!
//! One table finds matches of at least five bytes, the other of at least eight. A match from the first is replaced by a
//! longer one from the second that starts one byte later.
#![allow(unsafe_code)]

use super::encode::looks_like_noise;
use super::matcher::Matcher;
use super::raw::RawOutput;
use super::window::{FAR, LAST_LITERALS, MIN_MATCH, read_u64};
use crate::lz77::raw::RawWindow;
use b2_core::Pooled;
use b2_core::{OutOfMemory, memory::zeroed_array};
use std::cell::RefCell;
use std::mem::replace;

const HASH_BITS: u32 = 15;
/// No match starts closer to the end: the unchecked output reads 16 bytes from the start of a match.
const LAST_SEARCH: usize = 16;
/// The step grows by one after `1 << SKIP_BITS` misses.
const SKIP_BITS: u32 = 9;
/// `SKIP_BITS` for noise, for which the stream is tested after `NOISE_TEST` misses.
const NOISE_SKIP_BITS: u32 = 6;
const NOISE_TEST: usize = 256;
type Table = [u32; 1 << HASH_BITS];

/// Hash tables. A base is added to positions and grows from stream to stream, so that older entries are too far away
/// and the tables need not be cleared.
pub(super) struct Tables {
    short: Box<Table>,
    long: Box<Table>,
    pub(super) base: u32,
}

thread_local! {
    static POOLED_TABLES: RefCell<Vec<Tables>> = const { RefCell::new(Vec::new()) };
}

impl Tables {
    fn new() -> Result<Self, OutOfMemory> {
        Ok(Self { short: zeroed_array()?, long: zeroed_array()?, base: FAR })
    }

    #[inline(always)]
    fn short(&mut self, bytes: u64) -> &mut u32 {
        &mut self.short[((bytes << 24).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - HASH_BITS)) as usize]
    }

    #[inline(always)]
    fn long(&mut self, bytes: u64) -> &mut u32 {
        &mut self.long[(bytes.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - HASH_BITS)) as usize]
    }

    #[inline(always)]
    fn insert(&mut self, bytes: u64, here: u32) {
        *self.short(bytes) = here;
        *self.long(bytes) = here;
    }
}

/// The state of the lazy encoder.
pub(super) struct LazyMatcher {
    pub(super) tables: Pooled<Tables>,
    /// The length of the dictionary, and the tables after indexing it.
    dict: Option<(usize, Tables)>,
}

impl LazyMatcher {
    pub(super) fn new() -> Result<Self, OutOfMemory> {
        Ok(Self { tables: Pooled::take(&POOLED_TABLES, |_| true, Tables::new)?, dict: None })
    }
}

impl Matcher for LazyMatcher {
    fn load_dict(&mut self, dict: &[u8]) -> Result<(), OutOfMemory> {
        let mut tables = Tables::new()?;
        for pos in 0..dict.len().saturating_sub(7) {
            tables.insert(read_u64(dict, pos), FAR + pos as u32);
        }
        self.dict = Some((dict.len(), tables));
        Ok(())
    }

    fn compress(&mut self, window: &[u8], start: usize, dst: &mut [u8]) -> Option<usize> {
        let span = window.len() as u32 + FAR;
        let tables = &mut *self.tables;
        if let Some((len, dict)) = &self.dict {
            assert_eq!(start, *len, "the window starts with the dictionary");
            tables.short.copy_from_slice(&dict.short[..]);
            tables.long.copy_from_slice(&dict.long[..]);
            tables.base = FAR;
        } else if tables.base > u32::MAX - span {
            tables.short.fill(0);
            tables.long.fill(0);
            tables.base = FAR;
        }
        let base = tables.base;
        tables.base += span;
        let mut out = RawOutput::new(dst);
        // SAFETY: the tables hold entries of earlier streams, or positions in the dictionary with `base` added.
        let anchor = unsafe { sequences(window, start, tables, base, &mut out)? };
        out.finish().last_literals(&window[anchor..])
    }
}

/// Writes all sequences but the last. Returns where the last literals start.
///
/// # Safety
/// The tables hold nothing above `base - FAR` but positions below `start` with `base` added.
unsafe fn sequences(
    bytes: &[u8],
    start: usize,
    tables: &mut Tables,
    base: u32,
    out: &mut RawOutput<'_>,
) -> Option<usize> {
    let mut anchor = start;
    let Some(last_start) = bytes.len().checked_sub(LAST_SEARCH) else { return Some(anchor) };
    let limit = bytes.len() - LAST_LITERALS;
    let window = RawWindow::new(bytes);
    let mut pos = start;
    let mut misses = 0;
    let mut skip_bits = SKIP_BITS;
    // SAFETY: only positions up to `last_start` are looked up, and matches begin there or before; candidates
    // come before. A match ends at `limit` at most. Insertions are before its end.
    unsafe {
        while pos <= last_start {
            let here = base + pos as u32;
            let found = window.u64(pos);
            let long = replace(tables.long(found), here);
            let short = replace(tables.short(found), here);
            let (mut cand, mut len);
            if let Some(first) = candidate(window, pos, found, here - long) {
                cand = first;
                len = MIN_MATCH + window.match_len(cand + MIN_MATCH, pos + MIN_MATCH, limit);
            } else if let Some(first) = candidate(window, pos, found, here - short) {
                cand = first;
                len = MIN_MATCH + window.match_len(cand + MIN_MATCH, pos + MIN_MATCH, limit);
                if pos < last_start {
                    let found = window.u64(pos + 1);
                    let long = replace(tables.long(found), here + 1);
                    if let Some(later) = candidate(window, pos + 1, found, here + 1 - long) {
                        let ahead = window.match_len(later + MIN_MATCH, pos + 1 + MIN_MATCH, limit);
                        if MIN_MATCH + ahead > len {
                            (cand, len) = (later, MIN_MATCH + ahead);
                            pos += 1;
                        }
                    }
                }
            } else {
                pos += 1 + (misses >> skip_bits);
                misses += 1;
                if misses == NOISE_TEST && looks_like_noise(&bytes[pos - NOISE_TEST..pos]) {
                    skip_bits = NOISE_SKIP_BITS;
                }
                continue;
            }
            misses = 0;
            skip_bits = SKIP_BITS;
            let back = window.back_len(cand, pos, cand.min(pos - anchor));
            out.sequence(window, anchor, pos - back, pos - cand, len + back)?;
            let found_at = pos;
            pos += len;
            anchor = pos;
            if pos > last_start {
                break;
            }
            // Index only a few positions inside the match. Indexing all would evict older ones that are more useful.
            for inside in [found_at + 1, found_at + 2, pos - 5, pos - 3, pos - 2, pos - 1] {
                if inside > found_at && inside < pos {
                    tables.insert(window.u64(inside), base + inside as u32);
                }
            }
        }
    }
    Some(anchor)
}

/// Returns the position `distance` before `pos` if it holds the first four of `bytes`, which are at `pos`.
///
/// Distances of `FAR` and more come from entries of earlier streams. Which entries these are is unpredictable, so the
/// only branch is on the result.
///
/// # Safety
/// `pos + 4` is within the window. A distance below `FAR` is at most `pos`.
#[inline(always)]
unsafe fn candidate(window: RawWindow<'_>, pos: usize, bytes: u64, distance: u32) -> Option<usize> {
    let far = distance / FAR;
    // All ones if `far` is zero, else zero. In the latter case `pos` is compared with itself.
    let near = ((far as i32 - 1) >> 31) as u32;
    let cand = pos - (distance & near) as usize;
    // SAFETY: the position is `pos` or before.
    let differs = unsafe { window.u32(cand) } ^ bytes as u32 | far;
    (differs == 0).then_some(cand)
}
