//! Fast LZ4 encoder: one hash table, and the first match found is taken.
//!
//! The longer the search finds nothing, the more positions it steps over, so noise costs little time. The
//! acceleration is how many it steps over to begin with.

use super::output::{Match, Output};
use super::window::{FAR, LAST_LITERALS, LAST_START, MIN_MATCH, candidate, common_len, read_u64, zeroed};

const HASH_BITS: u32 = 13;
/// After two to the power of this many misses the step grows by one.
const SKIP_BITS: u32 = 6;

/// Where each hash occurred last, plus a base that grows from stream to stream: entries of earlier streams
/// are then just too far away, and the table need not be cleared.
type Table = [u32; 1 << HASH_BITS];

/// State of the fast encoder.
pub(super) struct FastMatcher {
    acceleration: usize,
    table: Box<Table>,
    pub(super) base: u32,
    /// The table as it is after the dictionary.
    dict_table: Option<Box<Table>>,
}

impl FastMatcher {
    /// `acceleration` is 1 for the best ratio, more for speed.
    pub(super) fn new(acceleration: usize) -> Self {
        Self { acceleration, table: zeroed(), base: FAR, dict_table: None }
    }
}

impl super::Matcher for FastMatcher {
    fn load_dict(&mut self, dict: &[u8]) {
        // Matches are extended backwards, so every third position is enough.
        for pos in (0..dict.len().saturating_sub(7)).step_by(3) {
            self.table[hash(read_u64(dict, pos))] = FAR + pos as u32;
        }
        self.dict_table = Some(self.table.clone());
    }

    fn compress(&mut self, window: &[u8], start: usize, out: &mut Output<'_>) -> Option<()> {
        let span = window.len() as u32 + FAR;
        if let Some(dict_table) = &self.dict_table {
            self.table.copy_from_slice(&dict_table[..]);
            self.base = FAR;
        } else if self.base > u32::MAX - span {
            self.table.fill(0);
            self.base = FAR;
        }
        let base = self.base;
        self.base += span;
        let anchor = sequences(window, start, &mut self.table, base, self.acceleration, out)?;
        out.last_literals(&window[anchor..])
    }
}

/// Of five bytes: on shuffled data that gives fewer but longer matches, and a better ratio, than four.
#[inline(always)]
fn hash(bytes: u64) -> usize {
    ((bytes << 24).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - HASH_BITS)) as usize
}

/// Writes all sequences but the last. Returns where the last literals start.
fn sequences(
    window: &[u8],
    start: usize,
    table: &mut Table,
    base: u32,
    acceleration: usize,
    out: &mut Output<'_>,
) -> Option<usize> {
    let mut anchor = start;
    let Some(last_start) = window.len().checked_sub(LAST_START) else { return Some(anchor) };
    let limit = window.len() - LAST_LITERALS;
    let mut pos = start;
    while pos <= last_start {
        let mut bytes = read_u64(window, pos);
        let mut next = pos + 1;
        let mut skip = acceleration << SKIP_BITS;
        let mut cand = loop {
            if next > last_start {
                return Some(anchor);
            }
            let here = base + pos as u32;
            let entry = std::mem::replace(&mut table[hash(bytes)], here);
            if let Some(cand) = candidate(window, pos, bytes, here - entry) {
                break cand;
            }
            bytes = read_u64(window, next);
            pos = next;
            next += skip >> SKIP_BITS;
            skip += 1;
        };
        while pos > anchor && cand > 0 && window[pos - 1] == window[cand - 1] {
            pos -= 1;
            cand -= 1;
        }
        // Matches often follow each other without literals between them.
        loop {
            let len = MIN_MATCH + common_len(&window[cand + MIN_MATCH..], &window[pos + MIN_MATCH..limit]);
            out.sequence(window, anchor, pos, Match { distance: pos - cand, len })?;
            pos += len;
            anchor = pos;
            if pos > last_start {
                return Some(anchor);
            }
            let here = base + pos as u32;
            table[hash(read_u64(window, pos - 2))] = here - 2;
            let bytes = read_u64(window, pos);
            let entry = std::mem::replace(&mut table[hash(bytes)], here);
            match candidate(window, pos, bytes, here - entry) {
                Some(found) => cand = found,
                None => break,
            }
        }
        pos += 1;
    }
    Some(anchor)
}
