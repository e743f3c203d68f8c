//! Seeded random numbers.

use std::ops::{Range, RangeInclusive};

use b2_measure::SplitMix64;
use twox_hash::XxHash3_64;

/// A pseudo-random number generator: the same seed gives the same cases on every machine.
///
/// The bias of its remainders does not matter for tests.
#[derive(Clone, Debug)]
pub struct Rng(SplitMix64);

impl Rng {
    /// Creates the generator for a seed.
    pub fn new(seed: u64) -> Self {
        Self(SplitMix64(seed))
    }

    /// Creates the generator for case `number` of a run with this seed.
    pub fn case(seed: u64, number: u64) -> Self {
        let mut rng = Self::new(seed ^ number.wrapping_mul(0xD134_2543_DE82_EF95));
        rng.next();
        rng
    }

    /// Creates the generator for an input: seeded with a hash of all its bytes.
    pub fn of(input: &[u8]) -> Self {
        Self::new(XxHash3_64::oneshot(input))
    }

    /// Returns any number.
    #[allow(clippy::should_implement_trait, reason = "not an iterator: it never ends")]
    pub fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a number below `n`, or 0 if `n` is 0.
    pub fn below(&mut self, n: usize) -> usize {
        if n == 0 { 0 } else { self.0.below(n) }
    }

    /// Returns a number in the range, which must not be empty.
    pub fn within(&mut self, range: RangeInclusive<usize>) -> usize {
        let (low, high) = (*range.start(), *range.end());
        assert!(low <= high, "empty range {low}..={high}");
        low + self.below(high - low + 1)
    }

    /// Returns true in `percent` of 100 cases.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// Returns true once in `n` cases.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// Returns one of the options, which must not be empty.
    pub fn pick<'a, T>(&mut self, options: &'a [T]) -> &'a T {
        &options[self.below(options.len())]
    }

    /// Returns one of the options, if there are any.
    pub fn pick_some<'a, T>(&mut self, options: &'a [T]) -> Option<&'a T> {
        if options.is_empty() { None } else { Some(self.pick(options)) }
    }

    /// Puts the items into a random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }

    /// Returns a range inside `0..len`, occasionally empty or all of it.
    pub fn range(&mut self, len: usize) -> Range<usize> {
        let (a, b) = (self.below(len + 1), self.below(len + 1));
        match self.below(8) {
            0 => 0..len,
            1 => a..a,
            _ => a.min(b)..a.max(b),
        }
    }

    /// Returns a number between `low` and `high`; all magnitudes are equally likely.
    pub fn magnitude(&mut self, low: usize, high: usize) -> usize {
        let (a, b) = ((low as f64).ln(), (high as f64).ln());
        let unit = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
        ((a + (b - a) * unit).exp() as usize).clamp(low, high)
    }

    /// Returns `n` random bytes.
    pub fn bytes(&mut self, n: usize) -> Vec<u8> {
        let mut out: Vec<u8> = (0..n.div_ceil(8)).flat_map(|_| self.next().to_le_bytes()).collect();
        out.truncate(n);
        out
    }

    /// Returns data with various degrees of compressibility: their name and the bytes.
    pub fn data(&mut self, nbytes: usize) -> (&'static str, Vec<u8>) {
        let kind = *self
            .pick(&["noise", "zeros", "walk1", "walk2", "walk4", "walk4", "walk8", "sparse", "runs", "text"]);
        let mut out = Vec::with_capacity(nbytes + 256);
        let mut walk = self.next() as i64 % 1000;
        while out.len() < nbytes {
            let word = self.next();
            walk = walk.wrapping_add((word % 31) as i64 - 14);
            match kind {
                "noise" => out.extend_from_slice(&word.to_le_bytes()),
                "zeros" => out.resize(nbytes, 0),
                "walk1" => out.push(walk as u8),
                "walk2" => out.extend_from_slice(&(walk as i16).to_le_bytes()),
                "walk4" => out.extend_from_slice(&(walk as f32 / 64.0).to_le_bytes()),
                "walk8" => out.extend_from_slice(&walk.to_le_bytes()),
                "sparse" => out.extend_from_slice(&[
                    if word.is_multiple_of(5) { (word >> 9) as u8 } else { 0 },
                    0,
                    0,
                    0,
                    0,
                    0,
                    0,
                    0,
                ]),
                "runs" => out.resize(
                    out.len() + 1 + (word >> 16) as usize % 200,
                    if word.is_multiple_of(3) { 0 } else { word as u8 },
                ),
                _ => out.extend_from_slice(
                    ["the ", "of ", "block ", "stream ", "frame ", "chunk "][word as usize % 6].as_bytes(),
                ),
            }
        }
        out.truncate(nbytes);
        (kind, out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_repeat_and_cases_differ() {
        let draw = |mut rng: Rng| [(); 4].map(|()| rng.next());
        assert_eq!(draw(Rng::case(1, 2)), draw(Rng::case(1, 2)));
        assert_ne!(draw(Rng::case(1, 2)), draw(Rng::case(1, 3)));
        assert_ne!(draw(Rng::case(1, 2)), draw(Rng::case(2, 2)));
        // Seeds in reports and corpora depend on these numbers.
        assert_eq!(Rng::new(0).next(), 0xE220_A839_7B1D_CDAF);
        assert_eq!(Rng::case(0, 0).next(), 0x6E78_9E6A_A1B9_65F4);
    }

    #[test]
    fn numbers_stay_in_their_ranges() {
        let rng = &mut Rng::of(b"input");
        for n in 1..500 {
            assert!(rng.below(n) < n);
            assert!((7..=7 + n).contains(&rng.within(7..=7 + n)));
            assert!((1..=n).contains(&rng.magnitude(1, n)));
            assert!(rng.range(n).end <= n);
            assert_eq!(rng.bytes(n).len(), n);
            assert_eq!(rng.data(n).1.len(), n);
        }
        assert_eq!((rng.below(0), rng.range(0), rng.pick_some::<u8>(&[])), (0, 0..0, None));
        assert!(rng.chance(100) && !rng.chance(0) && rng.one_in(1));
    }
}
