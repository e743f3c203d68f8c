//! Seeded random numbers (splitmix64): the same seed gives the same cases on every machine.

use std::ops::RangeInclusive;

pub(crate) struct Rng(u64);

impl Rng {
    /// The generator of case `number` of `seed`.
    pub(crate) fn new(seed: u64, number: u64) -> Self {
        let mut rng = Self(seed ^ number.wrapping_mul(0xD134_2543_DE82_EF95));
        rng.next();
        rng
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number of the range. The bias of the remainder does not matter here.
    pub(crate) fn within(&mut self, range: RangeInclusive<usize>) -> usize {
        let (low, high) = (*range.start(), *range.end());
        assert!(low <= high, "empty range {low}..={high}");
        low + (self.next() % (high - low + 1) as u64) as usize
    }

    /// True in `percent` of 100.
    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.within(0..=99) < percent
    }

    pub(crate) fn pick<'a, T>(&mut self, options: &'a [T]) -> &'a T {
        &options[self.within(0..=options.len() - 1)]
    }

    /// A number between `low` and `high` with the magnitudes equally likely.
    pub(crate) fn magnitude(&mut self, low: usize, high: usize) -> usize {
        let (a, b) = ((low as f64).ln(), (high as f64).ln());
        let unit = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
        ((a + (b - a) * unit).exp() as usize).clamp(low, high)
    }

    pub(crate) fn bytes(&mut self, n: usize) -> Vec<u8> {
        let mut out: Vec<u8> = (0..n.div_ceil(8)).flat_map(|_| self.next().to_le_bytes()).collect();
        out.truncate(n);
        out
    }

    /// Data that compresses in one way or another, or not at all: (its name, the bytes).
    pub(crate) fn data(&mut self, nbytes: usize) -> (&'static str, Vec<u8>) {
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
