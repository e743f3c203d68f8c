//! A cheap look at a stream before a slow encoder gets it.
//!
//! After a shuffle, many streams are noise (the low bits of measured values), and many more have an uneven
//! spread of byte values but no repeats. Slow encoders spend as much time or more on these as on the others, for
//! nothing: noise is best stored, and the second kind is compressed as well by entropy coding alone.
//!
//! A stream is looked at by segments. Of each, the spread of values is taken from samples, and repeats are looked
//! for from sampled positions, in a table of every [`STRIDE`]th position: long repeats are always found, of
//! short ones a known share. The answer depends on the bytes only.

use crate::memory::{OutOfMemory, zeroed_array};
/// Bytes judged at once.
pub(crate) const SEGMENT: usize = 8 << 10;
/// Positions remembered. A repeat of `STRIDE + MIN_MATCH - 1` bytes has at least one of them.
const STRIDE: usize = 16;
const MIN_MATCH: usize = 4;
const HASH_LOG: u32 = 13;
/// Samples of a segment: where repeats are looked for, and which values are counted.
const NSAMPLES: usize = 4;
const SAMPLE_STEP: usize = SEGMENT / NSAMPLES;
const SAMPLE: usize = 256;
const SAMPLE_REPEATS: usize = 128;
const TOTAL: usize = NSAMPLES * SAMPLE;
/// Entropy of even spread. Of 1024 samples, it comes out 0.18 bits below 8.
const EVEN: u32 = 8 * 256 - 60;
/// Repeats are followed so far.
const MAX_MATCH: usize = 32;
/// About what a repeat costs in a compressed stream, in 1/256 bits.
const MATCH_COST: u32 = 28 << 8;

/// What a segment or a stream is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Nothing to gain by any means.
    Noise,
    /// Few repeats, but some values are more frequent than others.
    Uneven,
    /// One value.
    Constant,
    /// Mostly long repeats.
    Long,
    /// Anything else.
    Mixed,
}

/// What the samples of a segment promise.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Estimate {
    /// Entropy of the values, in 1/256 bits per byte.
    pub(crate) entropy: u32,
    /// Saved by repeats beyond coding by entropy, in 1/256 bits per byte.
    pub(crate) repeats: u32,
    /// How much belongs to long repeats, in 1/256.
    pub(crate) long: u32,
}

impl Estimate {
    pub(crate) fn kind(self) -> Kind {
        // With values this rare, a chance repeat is not worth much; with fewer values, most repeats are runs.
        const MANY_VALUES: u32 = 4 * 256;
        match self {
            Self { entropy, repeats, .. } if entropy >= EVEN && repeats < 8 => Kind::Noise,
            Self { entropy, repeats, .. } if entropy >= MANY_VALUES && repeats < entropy / 32 => Kind::Uneven,
            Self { long, .. } if long > 40 => Kind::Long,
            _ => Kind::Mixed,
        }
    }
}

/// The table of positions, kept from stream to stream.
pub(crate) struct Prober {
    table: Box<[u32; 1 << HASH_LOG]>,
    /// Added to positions in `table`, so that entries of earlier streams are out of reach without clearing.
    base: u32,
}

impl Prober {
    pub(crate) fn new() -> Result<Self, OutOfMemory> {
        Ok(Self { table: zeroed_array()?, base: 1 })
    }

    /// Judges the segments of `src` one after the other; the last one may overlap the one before it. There is
    /// none if `src` is shorter than a segment.
    pub(crate) fn segments(&mut self, src: &[u8], mut each: impl FnMut(Kind)) {
        let base = self.begin(src.len());
        for start in starts(src.len()) {
            self.remember(src, start, base);
            each(if is_constant(&src[start..start + SEGMENT]) {
                Kind::Constant
            } else if self.obviously_repeats(src, start, base) {
                Kind::Mixed
            } else {
                self.look(src, start, base).kind()
            });
        }
    }

    /// Judges the whole of `src`, from every other segment.
    pub(crate) fn stream(&mut self, src: &[u8]) -> Kind {
        let base = self.begin(src.len());
        let starts = starts(src.len());
        starts.clone().for_each(|start| self.remember(src, start, base));
        let (mut sum, mut long, mut count, mut all_noise) = (Estimate::default(), 0, 0, true);
        // Repeats from afar are found near the end.
        for start in starts.clone().rev().step_by(2) {
            let estimate = self.look(src, start, base);
            all_noise &= estimate.kind() == Kind::Noise;
            sum.entropy += estimate.entropy;
            sum.repeats += estimate.repeats;
            long += u64::from(estimate.long) * u64::from(estimate.entropy);
            count += 1;
            // Most streams that have repeats have them everywhere.
            if sum.repeats > sum.entropy / 2 || (count > 1 && sum.repeats > sum.entropy / 8) {
                break;
            }
        }
        if count == 0 {
            return Kind::Mixed;
        }
        // Long repeats of what hardly needs any space are of no account.
        sum.long = (long / u64::from(sum.entropy.max(1))) as u32;
        let mean = Estimate { entropy: sum.entropy / count, repeats: sum.repeats / count, long: sum.long };
        let mut others = starts.rev().skip(1).step_by(2);
        match mean.kind() {
            // The segments not looked at yet: there the values must do.
            Kind::Noise
                if all_noise && others.all(|start| sampled_entropy(&src[start..start + SEGMENT]) >= EVEN) =>
            {
                Kind::Noise
            }
            Kind::Noise => Kind::Uneven,
            kind => kind,
        }
    }

    fn begin(&mut self, len: usize) -> u32 {
        // No stream comes near 4 GiB; the positions of one that does are compared before use in any case.
        let len = u32::try_from(len).unwrap_or(u32::MAX - 1);
        if self.base.checked_add(len).is_none() {
            self.table.fill(0);
            self.base = 1;
        }
        let base = self.base;
        self.base = base.saturating_add(len);
        base
    }

    /// Puts the positions of a segment into the table.
    fn remember(&mut self, src: &[u8], start: usize, base: u32) {
        let mut here = base.wrapping_add(start as u32);
        for group in src[start..start + SEGMENT].as_chunks::<STRIDE>().0 {
            let word = u128::from_le_bytes(*group) as u32;
            self.table[hash(word)] = here;
            here = here.wrapping_add(STRIDE as u32);
        }
    }

    /// Whether the first sample alone shows repeats, as it does in most segments that have any.
    fn obviously_repeats(&self, src: &[u8], start: usize, base: u32) -> bool {
        let from = start + SAMPLE;
        let (mut pos, mut covered) = (from, 0);
        while pos < from + SAMPLE_REPEATS && covered < SAMPLE_REPEATS / 4 {
            let len = self.repeat(src, pos, base);
            covered += len;
            pos += len.max(1);
        }
        covered >= SAMPLE_REPEATS / 4
    }

    /// Takes the samples of a segment.
    fn look(&self, src: &[u8], start: usize, base: u32) -> Estimate {
        let entropy = sampled_entropy(&src[start..start + SEGMENT]);
        let (mut repeats, mut long) = (0, 0);
        for sample in 0..NSAMPLES {
            let from = start + sample * SAMPLE_STEP + SAMPLE;
            let mut pos = from;
            while pos < from + SAMPLE_REPEATS {
                let len = self.repeat(src, pos, base);
                if len == 0 {
                    pos += 1;
                    continue;
                }
                let gain = (len as u32 * entropy).saturating_sub(MATCH_COST);
                // Of repeats shorter than this, only `len - 3` in `STRIDE` contain a remembered position.
                let share = (len + 1 - MIN_MATCH).min(STRIDE) as u32;
                repeats += gain * STRIDE as u32 / share;
                if len == MAX_MATCH {
                    long += len as u32;
                }
                pos += len;
            }
        }
        let count = (NSAMPLES * SAMPLE_REPEATS) as u32;
        Estimate { entropy, repeats: repeats / count, long: long * 256 / count }
    }

    /// Length of the repeat found for `pos`, or 0.
    #[inline(always)]
    fn repeat(&self, src: &[u8], pos: usize, base: u32) -> usize {
        let Some(here) = word_at(src, pos) else { return 0 };
        let entry = self.table[hash(here)];
        let at = entry.wrapping_sub(base) as usize;
        // Entries of earlier streams are below `base`, and so beyond the end of any slice.
        if word_at(src, at) != Some(here) || at == pos {
            return 0;
        }
        let (a, b) = (&src[pos..], &src[at..]);
        a.iter().zip(b).take(MAX_MATCH).take_while(|(a, b)| a == b).count()
    }
}

fn is_constant(segment: &[u8]) -> bool {
    // Most segments are through with the first part.
    segment[..16] == segment[1..17] && segment[..SEGMENT - 1] == segment[1..]
}

/// Where the segments of a stream start.
fn starts(len: usize) -> impl DoubleEndedIterator<Item = usize> + Clone {
    let last = len.checked_sub(SEGMENT);
    (0..len.div_ceil(SEGMENT)).filter_map(move |n| Some((n * SEGMENT).min(last?)))
}

#[inline(always)]
fn word_at(src: &[u8], at: usize) -> Option<u32> {
    src.get(at..)?.first_chunk().map(|word| u32::from_le_bytes(*word))
}

fn hash(word: u32) -> usize {
    (word.wrapping_mul(0x9e37_79b1) >> (32 - HASH_LOG)) as usize
}

/// Entropy of sampled values in 1/256 bits.
fn sampled_entropy(segment: &[u8]) -> u32 {
    let mut counts = [[0u16; 256]; 2];
    for sample in segment.chunks_exact(SAMPLE_STEP) {
        for pair in sample[SAMPLE..2 * SAMPLE].as_chunks::<2>().0 {
            counts[0][usize::from(pair[0])] += 1;
            counts[1][usize::from(pair[1])] += 1;
        }
    }
    let mut bits = 0;
    for (a, b) in counts[0].iter().zip(&counts[1]) {
        bits += COUNT_BITS[usize::from(a + b).min(TOTAL)];
    }
    bits / TOTAL as u32
}

/// Bits that code all of so many equal ones of `TOTAL` values, in 1/256.
static COUNT_BITS: [u32; TOTAL + 1] = {
    let mut bits = [0; TOTAL + 1];
    let mut count = 1;
    while count <= TOTAL {
        bits[count] = count as u32 * (log2(TOTAL as u32) - log2(count as u32));
        count += 1;
    }
    bits
};

/// Binary logarithm in 1/256, off by less than 5.
const fn log2(x: u32) -> u32 {
    let whole = x.ilog2();
    let rest = (((x as u64) << 8 >> whole) & 0xff) as u32;
    // log2(1 + t) is about t + 0.34 t (1 - t).
    (whole << 8) + rest + ((87 * rest * (256 - rest)) >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: usize = 10 * SEGMENT + 100;

    fn noise(seed: u64) -> Vec<u8> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (state >> 56) as u8
        };
        (0..LEN).map(|_| next()).collect()
    }

    fn kinds(src: &[u8]) -> Vec<Kind> {
        let mut kinds = Vec::new();
        Prober::new().unwrap().segments(src, |kind| kinds.push(kind));
        kinds
    }

    fn check(src: &[u8], expected: Kind) {
        let mut prober = Prober::new().unwrap();
        for _ in 0..3 {
            assert_eq!(prober.stream(src), expected);
        }
    }

    #[test]
    fn kinds_of_streams() {
        let noise = noise(1);
        check(&noise, Kind::Noise);
        assert_eq!(kinds(&noise), [Kind::Noise; 11]);
        // Sums of dice have no repeats, but some are rare.
        let uneven: Vec<u8> = noise.iter().zip(&noise[7..]).map(|(a, b)| a / 4 + b / 4).collect();
        check(&uneven, Kind::Uneven);
        let words: Vec<u8> = noise.iter().flat_map(|&n| [n / 64, 100, n / 64, 3, 2, 1]).take(LEN).collect();
        check(&words, Kind::Mixed);
        // Noise again from afar.
        let long: Vec<u8> = noise[..20_000].iter().copied().cycle().take(LEN).collect();
        check(&long, Kind::Long);
        assert_eq!(kinds(&vec![9; LEN]), [Kind::Constant; 11]);
        // A little of something else in noise.
        let mut mostly = noise.clone();
        mostly[5 * SEGMENT..6 * SEGMENT].fill(0);
        assert_ne!(Prober::new().unwrap().stream(&mostly), Kind::Noise);
        assert_eq!(kinds(&mostly)[5], Kind::Constant);
        for len in 0..SEGMENT {
            check(&noise[..len], Kind::Mixed);
            assert!(kinds(&noise[..len]).is_empty());
        }
    }

    /// Positions of earlier streams are not taken for such of this one, nor when the count starts anew.
    #[test]
    fn streams_are_independent() {
        let (a, b) = (noise(1), noise(2));
        let mut prober = Prober::new().unwrap();
        for base in [1, u32::MAX - LEN as u32 - 1, u32::MAX - 5] {
            prober.base = base;
            for src in [&a, &a, &b, &a] {
                assert_eq!(prober.stream(src), Kind::Noise);
            }
        }
    }

    #[test]
    fn logarithms() {
        for x in 1..100_000 {
            let exact = f64::from(x).log2() * 256.0;
            assert!((f64::from(log2(x)) - exact).abs() < 5.0, "{x}");
        }
    }
}
