//! The blosclz encoder: one pass, greedy (lazy from clevel 7 on), with one hash table of recent positions.
//!
//! The format leaves the choice of matches open. This encoder differs from C's in three ways, which together give
//! smaller streams at about twice the speed on shuffled floats. The hash covers as many bytes as the shortest useful
//! match, so shorter repeats do not overwrite a bucket. The step grows while no match is found, so no trial pass is
//! needed. And matches are encoded at full length.
//!
//! Regular data, such as the bytes of a counter, consist of short repeats inside long ones. Where a short repeat ends,
//! the bytes before and after its end are found only where the long one was: [`Finder::find_next`].
//!
//! Reads and writes have no bounds checks where there is room for whole pieces, which gains 6 to 14 %.
#![allow(unsafe_code)]

use super::format::{FAR_BASE, LITERAL_MAX};
use crate::lz77::raw::RawWindow;
use b2_core::{OutOfMemory, memory::zeroed_array};

/// Maximum distance of the far form.
const MAX_DISTANCE: usize = FAR_BASE + 65_535;
/// Shorter streams are not compressed.
const MIN_LEN: usize = 16;
/// No match starts in this many bytes at the end, so that hashing can always read 8 bytes.
const LAST_START: usize = 12;
/// Every stream ends with at least this many literals. The format requires one.
const LAST_LITERALS: usize = 4;
/// A match of this length is used without trying the next position.
const GOOD_MATCH: usize = 32;
/// Number of table entries. Low levels use only the first ones, which fit a smaller cache.
const TABLE_LEN: usize = 1 << 14;

/// A value of [`Effort::sparse`] for which any match is enough.
const ALWAYS: u32 = usize::BITS - 1;

/// The parameters of a clevel.
#[derive(Clone, Copy)]
struct Effort {
    /// log2 of the number of hash buckets, at most that of `TABLE_LEN`.
    hash_log: u32,
    /// Bytes hashed, 4 to 8.
    hash_bytes: u32,
    /// Shortest near match, at most 8. Far matches must be 2 bytes longer, since they cost 2 more.
    min_match: u32,
    /// The step between positions grows by one after every `1 << skip_shift` misses in a row.
    skip_shift: u32,
    /// If matches cover less than this power of two of the literals before them, the step stays as it is.
    sparse: u32,
    /// Whether to try the next position before taking a match.
    lazy: bool,
    /// Streams that save less than one byte in `gain` are stored, which makes reading them a copy.
    gain: usize,
    /// Streams that save less than a third, and fewer bytes than this for each match, are stored, too. A match takes 6 to 8 ns to
    /// decode if lengths are irregular, as long as storage of 0.5 to 0.65 GB/s takes for 4 bytes.
    per_match: usize,
}

impl Effort {
    const fn of(clevel: u8) -> Self {
        let (hash_log, hash_bytes, min_match, skip_shift, sparse, lazy, gain, per_match) = match clevel {
            0..=2 => (12, 6, 6, 3, ALWAYS, false, 6, 4),
            3..=5 => (12, 6, 6, 4, ALWAYS, false, 6, 4),
            6 => (13, 6, 6, 5, ALWAYS, false, 6, 4),
            7 => (14, 6, 5, 5, ALWAYS, true, 8, 0),
            8 => (14, 6, 5, 6, ALWAYS, true, 11, 0),
            _ => (14, 5, 5, 7, 7, true, 256, 0),
        };
        Self { hash_log, hash_bytes, min_match, skip_shift, sparse, lazy, gain, per_match }
    }
}

/// The encoder state, reused from stream to stream.
pub(super) struct EncoderState {
    table: Box<[u32; TABLE_LEN]>,
    /// Offset added to positions in `table`. It grows with every stream, which invalidates the entries of earlier
    /// streams without clearing them.
    base: u32,
}

impl EncoderState {
    pub(super) fn new() -> Result<Self, OutOfMemory> {
        // With a base of 1, an entry of 0 is older than any position.
        Ok(Self { table: zeroed_array()?, base: 1 })
    }

    /// Returns the length written to `dst`, or `None` if the stream does not fit or is better stored.
    pub(super) fn encode(&mut self, clevel: u8, src: &[u8], dst: &mut [u8]) -> Option<usize> {
        match clevel {
            0..=2 => self.encode_at::<2>(src, dst),
            3..=5 => self.encode_at::<5>(src, dst),
            6 => self.encode_at::<6>(src, dst),
            7 => self.encode_at::<7>(src, dst),
            8 => self.encode_at::<8>(src, dst),
            _ => self.encode_at::<9>(src, dst),
        }
    }

    /// [`encode`](Self::encode) with the parameters of a clevel known to the compiler, which gains a tenth.
    fn encode_at<const CLEVEL: u8>(&mut self, src: &[u8], dst: &mut [u8]) -> Option<usize> {
        let effort = const { Effort::of(CLEVEL) };
        let len = u32::try_from(src.len()).ok()?;
        if src.len() < MIN_LEN {
            return None;
        }
        let end = match self.base.checked_add(len) {
            Some(end) => end,
            None => {
                self.table.fill(0);
                self.base = 1;
                len.checked_add(1)?
            }
        };
        let finder = Finder::<CLEVEL> { src, table: &mut self.table, base: self.base };
        self.base = end;
        let room = dst.len().min(src.len() - (src.len() / effort.gain).max(1));
        parse(finder, Writer { src, dst: &mut dst[..room], len: 0, nmatches: 0 })
    }
}

/// Returns the length of the stream, or `None` if it does not fit.
fn parse<const CLEVEL: u8>(mut finder: Finder<'_, CLEVEL>, mut out: Writer<'_>) -> Option<usize> {
    let Effort { skip_shift, sparse, lazy, per_match, .. } = const { Effort::of(CLEVEL) };
    let src = finder.src;
    let window = RawWindow::new(src);
    let limit = src.len() - LAST_START;
    // Start of the pending literals. The first token is always literals, so matches start at position 1.
    let mut anchor = 0;
    let mut pos = 1;
    let mut misses = 1 << skip_shift;
    finder.insert(0);
    'matches: while pos < limit {
        let mut found = loop {
            // SAFETY: `pos` is below `limit`, and the table holds positions before it.
            if let Some(found) = unsafe { finder.find(window, pos) } {
                break found;
            }
            pos += misses >> skip_shift;
            misses += 1;
            if pos >= limit {
                break 'matches;
            }
        };
        let (start, literals) = (anchor, pos - anchor);
        // Matches often follow each other without literals in between.
        loop {
            while lazy && found.len < GOOD_MATCH && pos + 1 < limit {
                // SAFETY: as above.
                match unsafe { finder.find(window, pos + 1) } {
                    Some(next) if next.saving() > found.saving() => {
                        found = next;
                        pos += 1;
                    }
                    _ => break,
                }
            }
            // After a match there is nothing to go back over, unless the lazy search moved on.
            if pos > anchor {
                // SAFETY: a match starts before `pos`, and `anchor` is not after it.
                let back = unsafe {
                    let most = (pos - found.distance).min(pos - anchor.max(1));
                    window.back_len(pos - found.distance, pos, most)
                };
                pos -= back;
                found.len += back;
            }
            out.sequence(anchor, pos, found)?;
            pos += found.len;
            anchor = pos;
            if pos >= limit {
                break 'matches;
            }
            // SAFETY: as above. A match has at least 5 bytes, and only the first two of them have been indexed.
            match unsafe { finder.find_next(window, pos, found.distance) } {
                Some(next) => found = next,
                None => break,
            }
        }
        pos += 1;
        if pos - start - literals >= literals >> sparse {
            misses = 1 << skip_shift;
        }
        misses += 1;
    }
    out.finish(anchor, per_match)
}

#[derive(Clone, Copy)]
struct Match {
    distance: usize,
    len: usize,
}

impl Match {
    /// Returns the bytes covered minus the bytes of the token, to compare matches.
    fn saving(self) -> usize {
        let token = 2 + usize::from(self.len >= 9) + if self.distance >= FAR_BASE { 2 } else { 0 };
        self.len - token
    }
}

struct Finder<'a, const CLEVEL: u8> {
    src: &'a [u8],
    table: &'a mut [u32; TABLE_LEN],
    base: u32,
}

impl<const CLEVEL: u8> Finder<'_, CLEVEL> {
    const EFFORT: Effort = Effort::of(CLEVEL);
    /// Shifts that select the hashed bytes of a word, and the hash bits of a product.
    const WORD_SHIFT: u32 = 64 - 8 * Self::EFFORT.hash_bytes;
    const HASH_SHIFT: u32 = 64 - Self::EFFORT.hash_log;
    /// Masks of the bytes that must be equal in near and far matches.
    const NEAR_MASK: u64 = u64::MAX >> (64 - 8 * Self::EFFORT.min_match);
    const FAR_MASK: u64 = u64::MAX >> (64 - 8 * (Self::EFFORT.min_match + 2));

    #[inline(always)]
    fn word(&self, pos: usize) -> u64 {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.src[pos..pos + 8]);
        u64::from_le_bytes(bytes)
    }

    /// Stores `pos` under the hash of `word`, the bytes at `pos`. Returns the entry it replaces.
    #[inline(always)]
    fn swap_in(&mut self, pos: usize, word: u64) -> u32 {
        // A multiplicative hash: odd, no regular bit pattern (2^64 divided by the golden ratio).
        let hash = (word << Self::WORD_SHIFT).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> Self::HASH_SHIFT;
        // `EncoderState::encode` has checked that `base + src.len()` fits.
        let here = self.base + pos as u32;
        std::mem::replace(&mut self.table[hash as usize & (TABLE_LEN - 1)], here)
    }

    #[inline(always)]
    fn insert(&mut self, pos: usize) {
        self.swap_in(pos, self.word(pos));
    }

    /// Returns the match of `pos` with the last position of the same hash, if it is long enough.
    ///
    /// # Safety
    /// `window` is `src`, and `pos` at least [`LAST_START`] before its end. All positions in the table that are not
    /// below `base` are of this stream, and `pos` is not one of them.
    #[inline(always)]
    unsafe fn find(&mut self, window: RawWindow<'_>, pos: usize) -> Option<Match> {
        // SAFETY: as the caller promises.
        unsafe { self.find_equal(window, pos, Self::NEAR_MASK, Self::FAR_MASK) }
    }

    /// Returns whether `found`, a match of `pos`, is far and covers the start of a run, which a near match covers better.
    #[inline(always)]
    fn cuts_a_run(&self, pos: usize, found: Match) -> bool {
        let (byte, end) = (self.src[pos], pos + found.len);
        // Limits the work of comparisons that fail.
        found.distance >= FAR_BASE
            && found.len < 1_024
            && self.src[end] == byte
            && self.src[end - 1] == byte
            && self.src[pos + 1] == byte
    }

    /// Returns a match that continues at `pos`, the end of a match of `distance`.
    ///
    /// Looks for 8 equal bytes from the last byte of that match on, which are more specific than those from `pos` on if
    /// a run or another short period starts there. The second last byte of a run distinguishes runs that start alike.
    ///
    /// # Safety
    /// As for `find`, and the two positions before `pos` are not in the table.
    #[inline(always)]
    unsafe fn find_next(&mut self, window: RawWindow<'_>, pos: usize, distance: usize) -> Option<Match> {
        let before = if distance == 1 { 2 } else { 1 };
        self.insert(pos - 3 + before);
        // SAFETY: as the caller promises.
        let found = unsafe { self.find_equal(window, pos - before, u64::MAX, u64::MAX) }
            .map(|found| Match { len: found.len - before, ..found })
            .filter(|found| !Self::EFFORT.lazy || !self.cuts_a_run(pos, *found));
        // SAFETY: as the caller promises.
        found.or_else(|| unsafe { self.find(window, pos) })
    }

    /// Returns the match of `pos` with the last position of the same hash, if the bytes of a mask are equal.
    ///
    /// # Safety
    /// As for `find`.
    #[inline(always)]
    unsafe fn find_equal(&mut self, window: RawWindow<'_>, pos: usize, near: u64, far: u64) -> Option<Match> {
        // SAFETY: `LAST_START` is more than 8.
        let word = unsafe { window.u64(pos) };
        let entry = self.swap_in(pos, word);
        // Entries of earlier streams are below `base`, so they are too far back. So are those after `pos`, as the
        // difference wraps. None is at `pos`, since the parser looks at no position that it has indexed.
        let distance = (self.base + pos as u32).wrapping_sub(entry) as usize;
        if distance > pos.min(MAX_DISTANCE) {
            return None;
        }
        // SAFETY: `distance` is at most `pos`, and not 0, as the entry is of a position before.
        let differs = word ^ unsafe { window.u64(pos - distance) };
        if differs & near != 0 || (distance >= FAR_BASE && differs & far != 0) {
            return None;
        }
        let len = match differs {
            // SAFETY: `LAST_START` is at least 8 + `LAST_LITERALS`.
            0 => 8 + unsafe { window.match_len(pos - distance + 8, pos + 8, self.src.len() - LAST_LITERALS) },
            _ => differs.trailing_zeros() as usize / 8,
        };
        Some(Match { distance, len })
    }
}

/// Writes tokens. Methods return `None` if the output does not fit.
struct Writer<'a> {
    src: &'a [u8],
    dst: &'a mut [u8],
    len: usize,
    nmatches: usize,
}

impl Writer<'_> {
    /// Writes the literals from `anchor` to `pos`, then a match.
    #[inline(always)]
    fn sequence(&mut self, anchor: usize, pos: usize, found: Match) -> Option<()> {
        self.nmatches += 1;
        let count = pos - anchor;
        let room = count + count / LITERAL_MAX + found.len / 255 + 8 + LITERAL_MAX;
        if pos + LITERAL_MAX > self.src.len() || room > self.dst.len() - self.len {
            return self.tight_sequence(anchor, pos, found);
        }
        let mut at = self.len;
        // SAFETY: all that is written lies within `room`: each run of literals with its control byte, the last one
        // rounded up to 32, then a control byte, `len / 255 + 1` bytes of length and 3 of distance. Literals are read up to
        // 31 bytes beyond `pos`.
        unsafe {
            let dst = self.dst.as_mut_ptr();
            let mut from = anchor;
            while from < pos {
                let run = (pos - from).min(LITERAL_MAX);
                dst.add(at).write((run - 1) as u8);
                dst.add(at + 1).copy_from_nonoverlapping(self.src.as_ptr().add(from), LITERAL_MAX);
                at += 1 + run;
                from += run;
            }
            let Match { distance, len } = found;
            let near = distance < FAR_BASE;
            let high = if near { (distance - 1) >> 8 } else { 31 };
            if len < 9 {
                dst.add(at).write(((len - 2) << 5 | high) as u8);
                at += 1;
            } else {
                dst.add(at).write((7 << 5 | high) as u8);
                at += 1;
                let mut rest = len - 9;
                while rest >= 255 {
                    dst.add(at).write(255);
                    at += 1;
                    rest -= 255;
                }
                dst.add(at).write(rest as u8);
                at += 1;
            }
            if near {
                dst.add(at).write((distance - 1) as u8);
                at += 1;
            } else {
                let far = distance - FAR_BASE;
                dst.add(at).copy_from_nonoverlapping([255, (far >> 8) as u8, far as u8].as_ptr(), 3);
                at += 3;
            }
        }
        self.len = at;
        Some(())
    }

    /// Writes a sequence with all checks, when there is little room.
    #[cold]
    #[inline(never)]
    fn tight_sequence(&mut self, anchor: usize, pos: usize, found: Match) -> Option<()> {
        self.literals(anchor, pos)?;
        self.match_token(found)
    }

    /// Writes the literals from `anchor` to the end. Returns the length of the stream, or `None` if decoding it is not worth
    /// what it saves: less than a third, and less than `per_match` bytes for each match.
    fn finish(mut self, anchor: usize, per_match: usize) -> Option<usize> {
        self.literals(anchor, self.src.len())?;
        // Marks the first control byte as C does. Readers ignore it.
        self.dst[0] |= 0x20;
        let saved = self.src.len() - self.len;
        let worth = saved >= self.src.len() / 3 || saved >= per_match * self.nmatches;
        worth.then_some(self.len)
    }

    #[inline(always)]
    fn literals(&mut self, start: usize, end: usize) -> Option<()> {
        let count = end - start;
        if count + count.div_ceil(LITERAL_MAX) > self.dst.len() - self.len {
            return None;
        }
        let mut pos = start;
        while pos < end {
            let run = (end - pos).min(LITERAL_MAX);
            self.dst[self.len] = (run - 1) as u8;
            let at = self.len + 1;
            // Copy a full run with fixed size. Excess bytes are overwritten by the next token.
            match (self.src.get(pos..pos + LITERAL_MAX), self.dst.get_mut(at..at + LITERAL_MAX)) {
                (Some(from), Some(to)) => to.copy_from_slice(from),
                _ => self.dst[at..at + run].copy_from_slice(&self.src[pos..pos + run]),
            }
            self.len = at + run;
            pos += run;
        }
        Some(())
    }

    #[inline(always)]
    fn match_token(&mut self, found: Match) -> Option<()> {
        let Match { distance, len } = found;
        let near = distance < FAR_BASE;
        let high = if near { (distance - 1) >> 8 } else { 31 };
        // Control byte, length extension, low distance byte, and two more bytes for a far match.
        if len / 255 + 6 > self.dst.len() - self.len {
            return None;
        }
        if len < 9 {
            self.put((len - 2) << 5 | high);
        } else {
            self.put(7 << 5 | high);
            let mut rest = len - 9;
            while rest >= 255 {
                self.put(255);
                rest -= 255;
            }
            self.put(rest);
        }
        if near {
            self.put((distance - 1) & 0xff);
        } else {
            self.put(255);
            self.put((distance - FAR_BASE) >> 8);
            self.put((distance - FAR_BASE) & 0xff);
        }
        Some(())
    }

    #[inline(always)]
    fn put(&mut self, byte: usize) {
        self.dst[self.len] = byte as u8;
        self.len += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Positions in the table keep growing from stream to stream. When they overflow, the table is cleared.
    #[test]
    fn positions_run_out() {
        let raw: Vec<u8> = (0..3_000_u32).map(|i| (i % 50 * (i / 1_000 + 1)) as u8).collect();
        let mut first = vec![0; raw.len()];
        let len = EncoderState::new().unwrap().encode(5, &raw, &mut first).unwrap();
        for left in [0, 1, 2_999, 3_000, 3_001, 6_000] {
            let mut state = EncoderState::new().unwrap();
            state.base = u32::MAX - left;
            state.table.fill(u32::MAX - left - 1);
            for _ in 0..4 {
                let mut dst = vec![0; raw.len()];
                assert_eq!(state.encode(5, &raw, &mut dst), Some(len), "{left}");
                assert_eq!(dst[..len], first[..len]);
            }
        }
    }

    /// A subset that is fast enough for Miri: a period, and runs that repeat.
    #[test]
    fn small_blocks_fit_or_not() {
        for raw in
            [|i: u32| i % 50, |i| i / 9 % 20].map(|byte| (0..400).map(|i| byte(i) as u8).collect::<Vec<_>>())
        {
            for clevel in [5, 9] {
                let mut dst = vec![0; 400];
                let len = EncoderState::new().unwrap().encode(clevel, &raw, &mut dst).unwrap();
                for room in [0, 1, len / 2, len - 1] {
                    assert_eq!(
                        EncoderState::new().unwrap().encode(clevel, &raw, &mut dst[..room]),
                        None,
                        "{room}"
                    );
                }
            }
        }
    }

    /// Words with noise between them: 6 bytes save 3 for each match, 12 bytes save 8.
    #[test]
    fn many_matches_that_save_little_are_stored() {
        let mut state = 1_u64;
        let mut random = move || {
            state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(99);
            (state >> 40) as usize
        };
        let words: Vec<u8> = (0..480).map(|_| random() as u8).collect();
        for (word_len, noise_len, worth) in [(6, 9, false), (12, 26, true)] {
            let raw: Vec<u8> = (0..2_000)
                .flat_map(|_| {
                    let word = words[random() % 40 * 12..][..word_len].to_vec();
                    word.into_iter().chain((0..noise_len).map(|_| random() as u8)).collect::<Vec<_>>()
                })
                .collect();
            let encode = |clevel| {
                let mut dst = vec![0; raw.len()];
                EncoderState::new().unwrap().encode(clevel, &raw, &mut dst)
            };
            assert_eq!([1, 5, 6].map(|clevel| encode(clevel).is_some()), [worth; 3], "{word_len}");
            assert!(encode(9).is_some_and(|len| len < raw.len() / 6 * 5 && len > raw.len() / 3 * 2));
        }
    }

    #[test]
    fn nothing_is_written_behind_the_end() {
        let raw = vec![7; 5_000];
        for room in 0..60 {
            let mut dst = [0xcc; 100];
            let written = EncoderState::new().unwrap().encode(5, &raw, &mut dst[..room]);
            assert!(written.is_none_or(|len| len <= room));
            assert!(dst[room..].iter().all(|&byte| byte == 0xcc));
        }
    }
}
