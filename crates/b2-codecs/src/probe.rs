//! Estimates cheaply whether a slow encoder would help with a stream.
//!
//! After a shuffle, many streams are noise (the low bits of measured values), and many more have an uneven distribution
//! of byte values but no repeats. Slow encoders spend at least as much time on these as on others, without benefit:
//! noise is best stored, and for uneven values entropy coding alone compresses as well.
//!
//! A stream is judged by segments. In each, the distribution of values is estimated from samples. Repeats are searched
//! from sampled positions, in a table of every [`STRIDE`]th position, which finds all long repeats and a known share of
//! the short ones. The result depends on the bytes only.

use b2_core::{OutOfMemory, memory::zeroed_array};
/// Bytes per segment.
pub(crate) const SEGMENT: usize = 8 << 10;
/// Distance of positions in the table. A repeat of `STRIDE + MIN_MATCH - 1` bytes contains at least one of them.
const STRIDE: usize = 16;
const MIN_MATCH: usize = 4;
const HASH_LOG: u32 = 13;
/// Samples per segment: positions to search repeats for, and values to count.
const NSAMPLES: usize = 4;
const SAMPLE_STEP: usize = SEGMENT / NSAMPLES;
const SAMPLE: usize = 256;
const SAMPLE_REPEATS: usize = 128;
const TOTAL: usize = NSAMPLES * SAMPLE;
/// Entropy of evenly distributed values. With 1024 samples the estimate is 0.18 bits below 8.
const EVEN: u32 = 8 * 256 - 60;
/// Maximum length to which repeats are followed.
const MAX_MATCH: usize = 32;
/// Approximate cost of a repeat in a compressed stream, in 1/256 bits.
const MATCH_COST: u32 = 28 << 8;

/// The kind of data in a segment or stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamKind {
    /// Noise: neither repeats nor uneven values.
    Noise,
    /// Few repeats, but an uneven distribution of values.
    Uneven,
    /// A single byte value.
    Constant,
    /// Mostly long repeats, or hardly anything but repeats.
    Long,
    /// Few values, and repeats that save little: coding short repeats costs about as much as coding their values.
    Few,
    /// Any other data.
    Mixed,
}

/// Statistics of the samples of a segment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Estimate {
    /// Entropy of the values, in 1/256 bits per byte.
    pub(crate) entropy: u32,
    /// What repeats save compared with entropy coding, in 1/256 bits per byte.
    pub(crate) repeats: u32,
    /// Share of the savings that comes from long repeats, in 1/256.
    pub(crate) long: u32,
}

impl Estimate {
    pub(crate) fn kind(self) -> StreamKind {
        // With values this rare, a chance repeat is not worth much; with fewer values, most repeats are runs.
        const MANY_VALUES: u32 = 4 * 256;
        // Found with 1,500 streams of 46 arrays: up to here, ignoring repeats below six bytes makes no array larger by
        // more than 0.1 %, and all together 1.5 % smaller. From 3.5 bits on, some become 0.7 % larger.
        const FEW_VALUES: u32 = 3 * 256;
        const SMALL_SAVINGS: u32 = 160;
        match self {
            Self { entropy, repeats, .. } if entropy >= EVEN && repeats < 8 => StreamKind::Noise,
            Self { entropy, repeats, .. } if entropy >= MANY_VALUES && repeats < entropy / 32 => {
                StreamKind::Uneven
            }
            Self { long, .. } if long > 40 => StreamKind::Long,
            // Where repeats save most of the data, the best of them save several times as much as the first ones found.
            Self { entropy, repeats, .. } if repeats > entropy / 5 * 3 => StreamKind::Long,
            Self { entropy, repeats, .. } if entropy <= FEW_VALUES && repeats <= SMALL_SAVINGS => {
                StreamKind::Few
            }
            _ => StreamKind::Mixed,
        }
    }
}

/// The table of positions, reused from stream to stream.
pub(crate) struct Prober {
    table: Box<[u32; 1 << HASH_LOG]>,
    /// Offset added to positions in `table`. It grows, so that entries of earlier streams become invalid without
    /// clearing.
    base: u32,
}

impl Prober {
    pub(crate) fn new() -> Result<Self, OutOfMemory> {
        Ok(Self { table: zeroed_array()?, base: 1 })
    }

    /// Classifies the segments of `src` in order. The last one may overlap the one before it. If `src` is shorter than
    /// a segment, there are none.
    pub(crate) fn segments(&mut self, src: &[u8], mut each: impl FnMut(StreamKind)) {
        let base = self.begin(src.len());
        for start in starts(src.len()) {
            self.remember(src, start, base);
            each(if is_constant(&src[start..start + SEGMENT]) {
                StreamKind::Constant
            } else if self.obviously_repeats(src, start, base) {
                StreamKind::Mixed
            } else {
                self.look(src, start, base).kind()
            });
        }
    }

    /// Classifies all of `src`, from every other segment.
    pub(crate) fn stream(&mut self, src: &[u8]) -> StreamKind {
        let base = self.begin(src.len());
        let starts = starts(src.len());
        starts.clone().for_each(|start| self.remember(src, start, base));
        let (mut sum, mut long, mut count, mut all_noise) = (Estimate::default(), 0, 0, true);
        // Repeats over a large distance are found near the end.
        for start in starts.clone().rev().step_by(2) {
            let estimate = self.look(src, start, base);
            all_noise &= estimate.kind() == StreamKind::Noise;
            sum.entropy += estimate.entropy;
            sum.repeats += estimate.repeats;
            long += u64::from(estimate.long) * u64::from(estimate.entropy);
            count += 1;
            // Most streams that contain repeats contain them everywhere.
            if sum.repeats > sum.entropy / 2 || (count > 1 && sum.repeats > sum.entropy / 8) {
                break;
            }
        }
        if count == 0 {
            return StreamKind::Mixed;
        }
        // Ignore long repeats of data that entropy coding already makes tiny.
        sum.long = (long / u64::from(sum.entropy.max(1))) as u32;
        let mean = Estimate { entropy: sum.entropy / count, repeats: sum.repeats / count, long: sum.long };
        let mut others = starts.rev().skip(1).step_by(2);
        match mean.kind() {
            // Check the distribution of values in the segments that were skipped.
            StreamKind::Noise
                if all_noise && others.all(|start| sampled_entropy(&src[start..start + SEGMENT]) >= EVEN) =>
            {
                StreamKind::Noise
            }
            StreamKind::Noise => StreamKind::Uneven,
            kind => kind,
        }
    }

    fn begin(&mut self, len: usize) -> u32 {
        // No stream comes near 4 GiB. If one does, positions are still compared before use.
        let len = u32::try_from(len).unwrap_or(u32::MAX - 1);
        if self.base.checked_add(len).is_none() {
            self.table.fill(0);
            self.base = 1;
        }
        let base = self.base;
        self.base = base.saturating_add(len);
        base
    }

    /// Adds the positions of a segment to the table.
    fn remember(&mut self, src: &[u8], start: usize, base: u32) {
        let mut here = base.wrapping_add(start as u32);
        for group in src[start..start + SEGMENT].as_chunks::<STRIDE>().0 {
            let word = u128::from_le_bytes(*group) as u32;
            self.table[hash(word)] = here;
            here = here.wrapping_add(STRIDE as u32);
        }
    }

    /// Returns whether the first sample alone shows repeats, as it does in most segments that have any.
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

    /// Evaluates the samples of a segment.
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
                // Of shorter repeats, only `len - 3` in `STRIDE` contain a position of the table.
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

    /// Returns the length of the repeat found at `pos`, or 0.
    #[inline(always)]
    fn repeat(&self, src: &[u8], pos: usize, base: u32) -> usize {
        let Some(here) = word_at(src, pos) else { return 0 };
        let entry = self.table[hash(here)];
        let at = entry.wrapping_sub(base) as usize;
        // Entries of earlier streams are below `base`, so the position wraps beyond the end of any slice.
        if word_at(src, at) != Some(here) || at == pos {
            return 0;
        }
        let (a, b) = (&src[pos..], &src[at..]);
        a.iter().zip(b).take(MAX_MATCH).take_while(|(a, b)| a == b).count()
    }
}

fn is_constant(segment: &[u8]) -> bool {
    // The first comparison rejects most segments.
    segment[..16] == segment[1..17] && segment[..SEGMENT - 1] == segment[1..]
}

/// Returns the offsets of the segments of a stream.
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

/// Estimates the entropy of a segment from samples, in 1/256 bits.
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

/// Bits to code all `n` occurrences of a value among `TOTAL` samples, in 1/256; indexed by `n`.
static COUNT_BITS: [u32; TOTAL + 1] = {
    let mut bits = [0; TOTAL + 1];
    let mut count = 1;
    while count <= TOTAL {
        bits[count] = count as u32 * (log2(TOTAL as u32) - log2(count as u32));
        count += 1;
    }
    bits
};

/// Binary logarithm in 1/256, with an error below 5.
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

    fn kinds(src: &[u8]) -> Vec<StreamKind> {
        let mut kinds = Vec::new();
        Prober::new().unwrap().segments(src, |kind| kinds.push(kind));
        kinds
    }

    fn check(src: &[u8], expected: StreamKind) {
        let mut prober = Prober::new().unwrap();
        for _ in 0..3 {
            assert_eq!(prober.stream(src), expected);
        }
    }

    #[test]
    fn kinds_of_streams() {
        let noise = noise(1);
        check(&noise, StreamKind::Noise);
        assert_eq!(kinds(&noise), [StreamKind::Noise; 11]);
        // Sums of dice rolls contain no repeats, but some values are rare.
        let uneven: Vec<u8> = noise.iter().zip(&noise[7..]).map(|(a, b)| a / 4 + b / 4).collect();
        check(&uneven, StreamKind::Uneven);
        let words: Vec<u8> = noise.iter().flat_map(|&n| [n / 64, 100, n / 64, 3, 2, 1]).take(LEN).collect();
        check(&words, StreamKind::Few);
        // Each of 100 words of eight bytes, between noise, or alone.
        let word = |n: u8| &noise[usize::from(n) % 100 * 8..][..8];
        let mixed: Vec<u8> =
            noise.chunks(30).flat_map(|bytes| [bytes, word(bytes[0])].concat()).take(LEN).collect();
        check(&mixed, StreamKind::Mixed);
        let only_words: Vec<u8> =
            noise.iter().flat_map(|&n| [word(n), word(n ^ 1)].concat()).take(LEN).collect();
        check(&only_words, StreamKind::Long);
        // Noise that repeats at a large distance.
        let long: Vec<u8> = noise[..20_000].iter().copied().cycle().take(LEN).collect();
        check(&long, StreamKind::Long);
        assert_eq!(kinds(&vec![9; LEN]), [StreamKind::Constant; 11]);
        // Noise with a little other data in it.
        let mut mostly = noise.clone();
        mostly[5 * SEGMENT..6 * SEGMENT].fill(0);
        assert_ne!(Prober::new().unwrap().stream(&mostly), StreamKind::Noise);
        assert_eq!(kinds(&mostly)[5], StreamKind::Constant);
        for len in 0..SEGMENT {
            check(&noise[..len], StreamKind::Mixed);
            assert!(kinds(&noise[..len]).is_empty());
        }
    }

    /// Positions of earlier streams must not be mistaken for positions of this one, even after the count restarts.
    #[test]
    fn streams_are_independent() {
        let (a, b) = (noise(1), noise(2));
        let mut prober = Prober::new().unwrap();
        for base in [1, u32::MAX - LEN as u32 - 1, u32::MAX - 5] {
            prober.base = base;
            for src in [&a, &a, &b, &a] {
                assert_eq!(prober.stream(src), StreamKind::Noise);
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
