//! Encoder for the low levels of `lz4hc`: two hash tables, and one byte of looking ahead.
//!
//! One table finds matches of five bytes or more, the other of eight or more. A match from the first gives
//! way to a longer one from the second that starts a byte later.

use super::output::{Match, Output};
use super::window::{FAR, LAST_LITERALS, LAST_START, MIN_MATCH, candidate, common_len, read_u64, zeroed};
use std::mem::replace;

const HASH_BITS: u32 = 15;
type Table = [u32; 1 << HASH_BITS];

/// As in the fast encoder, positions have a base added, so that no table need be cleared.
struct Tables {
    short: Box<Table>,
    long: Box<Table>,
}

impl Tables {
    fn new() -> Self {
        Self { short: zeroed(), long: zeroed() }
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

/// State of the encoder.
pub(super) struct LazyMatcher {
    /// After two to the power of this many misses the step grows by one.
    skip_bits: u32,
    tables: Tables,
    pub(super) base: u32,
    /// The tables as they are after the dictionary.
    dict_tables: Option<Tables>,
}

impl LazyMatcher {
    pub(super) fn new(skip_bits: u32) -> Self {
        Self { skip_bits, tables: Tables::new(), base: FAR, dict_tables: None }
    }
}

impl super::Matcher for LazyMatcher {
    fn load_dict(&mut self, dict: &[u8]) {
        let mut tables = Tables::new();
        for pos in 0..dict.len().saturating_sub(7) {
            tables.insert(read_u64(dict, pos), FAR + pos as u32);
        }
        self.dict_tables = Some(tables);
    }

    fn compress(&mut self, window: &[u8], start: usize, dst: &mut [u8]) -> Option<usize> {
        let mut out = Output::new(dst);
        let span = window.len() as u32 + FAR;
        if let Some(tables) = &self.dict_tables {
            self.tables.short.copy_from_slice(&tables.short[..]);
            self.tables.long.copy_from_slice(&tables.long[..]);
            self.base = FAR;
        } else if self.base > u32::MAX - span {
            self.tables = Tables::new();
            self.base = FAR;
        }
        let base = self.base;
        self.base += span;
        let anchor = sequences(window, start, &mut self.tables, base, self.skip_bits, &mut out)?;
        out.last_literals(&window[anchor..])
    }
}

/// Writes all sequences but the last. Returns where the last literals start.
fn sequences(
    window: &[u8],
    start: usize,
    tables: &mut Tables,
    base: u32,
    skip_bits: u32,
    out: &mut Output<'_>,
) -> Option<usize> {
    let mut anchor = start;
    let Some(last_start) = window.len().checked_sub(LAST_START) else { return Some(anchor) };
    let limit = window.len() - LAST_LITERALS;
    let match_len = |cand: usize, pos: usize| {
        MIN_MATCH + common_len(&window[cand + MIN_MATCH..], &window[pos + MIN_MATCH..limit])
    };
    let mut pos = start;
    let mut skip = 1usize << skip_bits;
    while pos <= last_start {
        let here = base + pos as u32;
        let bytes = read_u64(window, pos);
        let long = replace(tables.long(bytes), here);
        let short = replace(tables.short(bytes), here);
        let (mut cand, mut len);
        if let Some(found) = candidate(window, pos, bytes, here - long) {
            cand = found;
            len = match_len(cand, pos);
        } else if let Some(found) = candidate(window, pos, bytes, here - short) {
            cand = found;
            len = match_len(cand, pos);
            if pos < last_start {
                let bytes = read_u64(window, pos + 1);
                let long = replace(tables.long(bytes), here + 1);
                if let Some(later) = candidate(window, pos + 1, bytes, here + 1 - long) {
                    let later_len = match_len(later, pos + 1);
                    if later_len > len {
                        (cand, len) = (later, later_len);
                        pos += 1;
                    }
                }
            }
        } else {
            pos += skip >> skip_bits;
            skip += 1;
            continue;
        }
        skip = 1 << skip_bits;
        let found_at = pos;
        while pos > anchor && cand > 0 && window[pos - 1] == window[cand - 1] {
            pos -= 1;
            cand -= 1;
            len += 1;
        }
        out.sequence(window, anchor, pos, Match { distance: pos - cand, len })?;
        pos += len;
        anchor = pos;
        if pos > last_start {
            break;
        }
        // A few positions inside the match. All of them would push out older ones that are worth more.
        for inside in [found_at + 1, found_at + 2, pos - 5, pos - 3, pos - 2, pos - 1] {
            if inside > found_at && inside < pos {
                tables.insert(read_u64(window, inside), base + inside as u32);
            }
        }
    }
    Some(anchor)
}
