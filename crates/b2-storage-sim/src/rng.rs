/// Seeded random numbers (splitmix64): the same seed gives the same states on every machine.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The generator of that seed.
    pub fn new(seed: u64) -> Self {
        let mut rng = Self(seed);
        rng.next();
        rng
    }

    /// Any number.
    #[allow(clippy::should_implement_trait, reason = "not an iterator: it never ends")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `n`, which must not be 0. The bias of the remainder does not matter here.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// True in `percent` of 100.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// That many random bytes.
    pub fn bytes(&mut self, n: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..n.div_ceil(8)).flat_map(|_| self.next().to_le_bytes()).collect();
        bytes.truncate(n);
        bytes
    }
}
