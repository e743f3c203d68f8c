//! Encoder for the higher levels of `lz4hc`: hash chains, and matches that give way to longer ones.
//!
//! After each match, the encoder searches for a longer one that contains its end. If there is one, the bytes covered by
//! both are divided so that the lengths are cheap to encode. If nothing would remain of the first match, the second
//! replaces it.
#![allow(unsafe_code)]

use super::chains::{Chains, Found};
use super::encode::looks_like_noise;
use super::matcher::Matcher;
use super::raw::RawOutput;
use super::window::{LAST_LITERALS, MIN_MATCH};
use crate::lz77::raw::RawWindow;
use b2_core::OutOfMemory;
use b2_core::Pooled;
use std::cell::RefCell;

/// The longest match whose length needs no extra byte.
const CHEAP: usize = 18;
/// How many bytes of a match the next one must contain.
const OVERLAP: usize = 2;
/// No match starts closer to the end. The start of a match may move to the end of another one, up to `OVERLAP` later,
/// and the unchecked output reads 16 bytes from there.
const LAST_SEARCH: usize = 16 + OVERLAP;
/// Matches of this length are never replaced.
const ENOUGH: usize = 4096;
/// After this many consecutive misses the stream is tested for noise. In noise the step grows that often, up to
/// `MAX_NOISE_STEP`.
const NOISE_TEST: usize = 256;
const MAX_NOISE_STEP: usize = 16;

thread_local! {
    static KEPT: RefCell<Vec<Chains>> = const { RefCell::new(Vec::new()) };
}

/// The state of the encoder.
pub(super) struct HcMatcher {
    /// How many earlier positions with the same hash are compared.
    attempts: usize,
    pub(super) chains: Pooled<Chains>,
    /// The length of the dictionary, and the chains after indexing it.
    dict: Option<(usize, Chains)>,
}

impl HcMatcher {
    pub(super) fn new(level: u8) -> Result<Self, OutOfMemory> {
        // The numbers of the C library.
        let attempts = 4 << (level.clamp(3, 9) - 3);
        Ok(Self { attempts, chains: Pooled::take(&KEPT, |_| true, Chains::new)?, dict: None })
    }
}

impl Matcher for HcMatcher {
    fn load_dict(&mut self, dict: &[u8]) -> Result<(), OutOfMemory> {
        let mut chains = Chains::new()?;
        if let Some(end) = dict.len().checked_sub(MIN_MATCH - 1) {
            // SAFETY: the last position has four bytes.
            unsafe { chains.add_until(RawWindow::new(dict), end) };
        }
        self.dict = Some((dict.len(), chains));
        Ok(())
    }

    fn compress(&mut self, window: &[u8], start: usize, dst: &mut [u8]) -> Option<usize> {
        let chains = &mut *self.chains;
        match &self.dict {
            None => chains.restart(window.len()),
            Some((len, dict)) => {
                assert_eq!(start, *len, "the window starts with the dictionary");
                chains.copy_from(dict);
            }
        }
        let mut out = RawOutput::new(dst);
        // SAFETY: the chains are empty, or hold positions in the dictionary, which ends at `start`.
        let anchor = unsafe { sequences(window, start, chains, self.attempts, &mut out)? };
        out.finish().last_literals(&window[anchor..])
    }
}

/// Writes all sequences but the last. Returns where the last literals start.
///
/// # Safety
/// The chains hold positions below `start` only.
unsafe fn sequences(
    bytes: &[u8],
    start: usize,
    chains: &mut Chains,
    attempts: usize,
    out: &mut RawOutput<'_>,
) -> Option<usize> {
    let mut anchor = start;
    let Some(last_start) = bytes.len().checked_sub(LAST_SEARCH) else { return Some(anchor) };
    let limit = bytes.len() - LAST_LITERALS;
    let window = RawWindow::new(bytes);
    let mut pos = start;
    let mut misses = 0;
    let mut noise = false;
    while pos <= last_start {
        // SAFETY: `pos` grows from search to search, and there are 16 bytes left.
        let found = unsafe { chains.search(window, (pos, pos, limit), MIN_MATCH - 1, attempts) };
        let Some(mut current) = found else {
            pos += 1;
            misses += 1;
            if misses % NOISE_TEST == 0 {
                noise = looks_like_noise(&bytes[pos - NOISE_TEST..pos]);
            }
            if noise {
                pos += (misses / NOISE_TEST).min(MAX_NOISE_STEP);
            }
            continue;
        };
        misses = 0;
        if noise {
            // In noise, positions were skipped: extend the match backwards.
            noise = false;
            let from = current.pos - current.distance;
            // SAFETY: the match is in the window, and `anchor` before it.
            let back = unsafe { window.back_len(from, current.pos, from.min(current.pos - anchor)) };
            current.pos -= back;
            current.len += back;
        }
        let mut before = Found::default();
        // The first of several matches that replaced each other.
        let mut first = current;
        loop {
            let end = current.end();
            let mut next = None;
            if current.len < ENOUGH && end - OVERLAP <= last_start {
                // SAFETY: the last search was before the last two bytes of the match, and 16 bytes follow these.
                next = unsafe {
                    chains.search(window, (current.pos, end - OVERLAP, limit), current.len, attempts)
                };
            }
            if let Some(next) = next {
                if next.pos < border(before, current) + MIN_MATCH {
                    current = next;
                    continue;
                }
                // The first match still reaches the next one, and it begins earlier.
                if first.pos < current.pos && first.end() >= next.pos {
                    current = first;
                }
            }
            let (border, end) = (border(before, current), current.end());
            if before.len > 0 {
                before.len = before.len.min(border - before.pos);
                // SAFETY: `anchor` is not above its start, and that is before the end of one that was searched.
                unsafe { out.sequence(window, anchor, before.pos, before.distance, before.len)? };
                anchor = before.end();
            }
            before = Found { pos: border, len: end - border, ..current };
            match next {
                Some(next) => {
                    current = next;
                    first = next;
                }
                None => {
                    // SAFETY: as above.
                    unsafe { out.sequence(window, anchor, before.pos, before.distance, before.len)? };
                    anchor = end;
                    pos = end;
                    break;
                }
            }
        }
    }
    Some(anchor)
}

/// Returns where the previous match ends and the current one begins: as late as the length stays cheap, if possible.
fn border(before: Found, current: Found) -> usize {
    match before.len {
        0 => current.pos,
        _ => (before.pos + CHEAP).min(before.end()).min(current.end() - MIN_MATCH).max(current.pos),
    }
}
