//! Encoder for the higher levels of `lz4hc`: hash chains and an optimal parse.
//!
//! Positions are handled a segment at a time. First the longest match of each position is searched, as hard
//! as the level says. Then the cheapest way through the segment is computed, from its end backwards. That
//! takes two choices for each position, a literal or the longest match: matches cost the same at every
//! distance, and the rest never becomes cheaper by leaving more of it. The exception are matches whose
//! length needs a byte of its own, so their longest part that needs none is tried too.

use super::output::{Match, Output, PackedMatch};
use super::runs::{Runs, is_run};
use super::window::{FAR, LAST_LITERALS, LAST_START, MIN_MATCH, common_len, read_u32, zeroed};

const HASH_BITS: u32 = 16;
/// Positions parsed at a time. Matches are cut at the end of a segment, which costs about three bytes.
const SEGMENT: usize = 1 << 15;

/// How hard a level tries.
#[derive(Clone, Copy)]
struct Effort {
    /// How many earlier positions with the same hash are looked at.
    attempts: usize,
    /// How many earlier runs of the same byte are looked at.
    run_attempts: usize,
    /// Inside a match of this length nothing is searched.
    enough: usize,
}

impl Effort {
    /// Chosen for the ratio of the C library at the same level, on shuffled measurements.
    fn of_level(level: u8) -> Self {
        let (attempts, run_attempts, enough) = match level {
            ..=3 => (4, 8, 32),
            4 => (6, 16, 32),
            5 => (8, 32, 48),
            6 => (16, 48, 64),
            7 => (32, 96, 96),
            8 => (64, 128, 96),
            9.. => (160, 256, 128),
        };
        Self { attempts, run_attempts, enough }
    }
}

/// Where bytes occurred: the last position of each hash, and from each position the distance to the one
/// before with the same hash. Positions have a base added, so that no table need be cleared.
#[derive(Clone)]
pub(super) struct Chains {
    last: Box<[u32; 1 << HASH_BITS]>,
    distances: Box<[u16; FAR as usize]>,
    pub(super) base: u32,
}

impl Chains {
    fn new() -> Self {
        Self { last: zeroed(), distances: zeroed(), base: FAR }
    }

    fn copy_from(&mut self, other: &Self) {
        self.last.copy_from_slice(&other.last[..]);
        self.distances.copy_from_slice(&other.distances[..]);
        self.base = other.base;
    }

    /// Adds `pos`, where `bytes` are. Returns the distance to the position before, `FAR` or more if none.
    #[inline(always)]
    fn insert(&mut self, pos: usize, bytes: u32) -> u32 {
        let hash = bytes.wrapping_mul(0x9E37_79B1) >> (32 - HASH_BITS);
        let here = self.base + pos as u32;
        let distance = here - std::mem::replace(&mut self.last[hash as usize], here);
        // At least 1 is added to this where it is used, so it does not get shorter than `FAR`.
        self.distances[(here % FAR) as usize] = distance.min(FAR - 1) as u16;
        distance
    }

    /// Finds a match of `wanted`, which is at `pos`, that is longer than `best`. Starts `distance` before.
    #[inline(always)]
    fn search(
        &self,
        window: &[u8],
        pos: usize,
        wanted: &[u8],
        mut distance: u32,
        attempts: usize,
        mut best: Match,
    ) -> Match {
        // A longer match has these bytes, too, where the best so far ends.
        let mut tail = read_u32(wanted, best.len - 3);
        for _ in 0..attempts {
            if distance >= FAR {
                break;
            }
            let cand = pos - distance as usize;
            if read_u32(window, cand + best.len - 3) == tail {
                let len = common_len(&window[cand..], wanted);
                if len > best.len {
                    best = Match { distance: distance as usize, len };
                    if len == wanted.len() {
                        break;
                    }
                    tail = read_u32(wanted, len - 3);
                }
            }
            distance += u32::from(self.distances[(self.base as usize).wrapping_add(cand) % FAR as usize]);
        }
        best
    }
}

/// State of the encoder.
pub(super) struct HcMatcher {
    effort: Effort,
    pub(super) chains: Chains,
    runs: Runs,
    /// Both as they are after the dictionary.
    dict: Option<(Chains, Runs)>,
    /// The longest match found at each position of the segment.
    found: Box<[PackedMatch; SEGMENT]>,
    /// Bytes needed from each position of the segment to its end.
    costs: Vec<u32>,
}

impl HcMatcher {
    pub(super) fn new(level: u8) -> Self {
        Self {
            effort: Effort::of_level(level),
            chains: Chains::new(),
            runs: Runs::new(),
            dict: None,
            found: zeroed(),
            costs: vec![0; SEGMENT + 1],
        }
    }

    /// Finds the longest match at each position of `from..to`, none reaching beyond `limit`.
    fn search(&mut self, window: &[u8], from: usize, to: usize, limit: usize) {
        let Effort { attempts, run_attempts, enough } = self.effort;
        let mut pos = from;
        let mut best = Match::default();
        while pos < to {
            let bytes = read_u32(window, pos);
            // Without its first byte, the match of the position before is a match of this one.
            if is_run(bytes) {
                let end = (self.runs.record(window, pos) - 3).min(to);
                let found = &mut self.found[pos - from..end - from];
                self.runs.search(window, pos, limit, run_attempts, found);
                for slot in found {
                    best.len = best.len.saturating_sub(1);
                    let here = slot.unpack();
                    if here.len > best.len {
                        best = here;
                    }
                    *slot = best.pack();
                }
                pos = end;
            } else {
                let distance = self.chains.insert(pos, bytes);
                best.len = best.len.saturating_sub(1).max(MIN_MATCH - 1);
                let wanted = &window[pos..limit];
                if best.len < wanted.len() {
                    best = self.chains.search(window, pos, wanted, distance, attempts, best);
                }
                self.found[pos - from] = best.pack();
                pos += 1;
            }
            if best.len >= enough {
                let end = (pos + best.len - MIN_MATCH).min(to);
                while pos < end {
                    let bytes = read_u32(window, pos);
                    let next = if is_run(bytes) {
                        (self.runs.record(window, pos) - 3).min(end)
                    } else {
                        self.chains.insert(pos, bytes);
                        pos + 1
                    };
                    for slot in &mut self.found[pos - from..next - from] {
                        best.len -= 1;
                        *slot = best.pack();
                    }
                    pos = next;
                }
            }
        }
    }

    /// Decides which matches are worth it and how long; the other ones get length 0. Matches were searched
    /// for the first `nfound` positions of the `len` of the segment.
    fn parse(&mut self, nfound: usize, len: usize) {
        let costs = &mut self.costs[..=len];
        costs[len] = 0;
        let mut nliterals = 0;
        let mut next_length_byte = 15;
        for pos in (0..len).rev() {
            let mut cost = costs[pos + 1] + 1;
            nliterals += 1;
            if nliterals == next_length_byte {
                cost += 1;
                next_length_byte += 255;
            }
            if let Some(slot) = self.found[..nfound].get_mut(pos) {
                let found = slot.unpack();
                let mut taken = 0;
                if found.len >= MIN_MATCH {
                    let length_bytes = if found.len < 19 { 0 } else { 1 + (found.len as u32 - 19) / 255 };
                    let whole = costs[pos + found.len] + 3 + length_bytes;
                    if whole <= cost {
                        (cost, taken) = (whole, found.len);
                    }
                    if found.len > 18 && costs[pos + 18] + 3 < cost {
                        (cost, taken) = (costs[pos + 18] + 3, 18);
                    }
                    if taken > 0 {
                        nliterals = 0;
                        next_length_byte = 15;
                    }
                }
                *slot = Match { len: taken, ..found }.pack();
            }
            costs[pos] = cost;
        }
    }

    /// Writes all sequences but the last. Returns where the last literals start.
    fn sequences(&mut self, window: &[u8], start: usize, out: &mut Output<'_>) -> Option<usize> {
        let mut anchor = start;
        let mut from = start;
        while from + LAST_START <= window.len() {
            let to = (window.len() - LAST_START + 1).min(from + SEGMENT);
            let limit = (window.len() - LAST_LITERALS).min(from + SEGMENT);
            self.search(window, from, to, limit);
            self.parse(to - from, limit - from);
            let mut pos = from;
            while pos < to {
                let found = self.found[pos - from].unpack();
                if found.len == 0 {
                    pos += 1;
                } else {
                    out.sequence(window, anchor, pos, found)?;
                    pos += found.len;
                    anchor = pos;
                }
            }
            from = pos;
        }
        Some(anchor)
    }
}

impl super::Matcher for HcMatcher {
    fn load_dict(&mut self, dict: &[u8]) {
        let (mut chains, mut runs) = (Chains::new(), Runs::new());
        let mut pos = 0;
        while pos + MIN_MATCH <= dict.len() {
            let bytes = read_u32(dict, pos);
            if is_run(bytes) {
                pos = runs.record(dict, pos) - 3;
            } else {
                chains.insert(pos, bytes);
                pos += 1;
            }
        }
        self.dict = Some((chains, runs));
    }

    fn compress(&mut self, window: &[u8], start: usize, dst: &mut [u8]) -> Option<usize> {
        let mut out = Output::new(dst);
        let span = window.len() as u32 + FAR;
        if let Some((chains, runs)) = &self.dict {
            self.chains.copy_from(chains);
            self.runs.copy_from(runs);
        } else {
            if self.chains.base > u32::MAX - span {
                self.chains.last.fill(0);
                self.chains.base = FAR;
            }
            self.runs.clear();
        }
        let anchor = self.sequences(window, start, &mut out);
        self.chains.base += span;
        out.last_literals(&window[anchor?..])
    }
}
