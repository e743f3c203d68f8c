//! Numbers that follow from the input: the same input does the same in every run.

/// A generator of pseudo-random numbers (splitmix64).
#[derive(Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Seeded with all of `data`, for targets whose inputs are files and have no room for parameters.
    pub(crate) fn of(data: &[u8]) -> Self {
        Self(twox_hash::XxHash3_64::oneshot(data))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `n`; 0 when `n` is 0.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        if n == 0 { 0 } else { (self.next() % n as u64) as usize }
    }

    /// True once in `n`.
    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn pick<'a, T>(&mut self, options: &'a [T]) -> &'a T {
        &options[self.below(options.len())]
    }

    /// A range inside `0..len`, empty ones and all of it now and then.
    pub(crate) fn range(&mut self, len: usize) -> std::ops::Range<usize> {
        let (a, b) = (self.below(len + 1), self.below(len + 1));
        match self.below(8) {
            0 => 0..len,
            1 => a..a,
            _ => a.min(b)..a.max(b),
        }
    }
}

/// Parameters from the front of the input; zeros when it is used up.
pub(crate) struct Params<'a>(&'a [u8]);

impl<'a> Params<'a> {
    pub(crate) fn new(data: &'a [u8]) -> Self {
        Self(data)
    }

    pub(crate) fn u8(&mut self) -> u8 {
        match self.0.split_first() {
            Some((byte, rest)) => {
                self.0 = rest;
                *byte
            }
            None => 0,
        }
    }

    pub(crate) fn u16(&mut self) -> u16 {
        u16::from_le_bytes([self.u8(), self.u8()])
    }

    pub(crate) fn u32(&mut self) -> u32 {
        u32::from(self.u16()) | u32::from(self.u16()) << 16
    }

    /// A number of 0 to `max`, one byte when that is enough.
    pub(crate) fn up_to(&mut self, max: usize) -> usize {
        let value = if max < 256 { usize::from(self.u8()) } else { usize::from(self.u16()) };
        value % (max + 1)
    }

    /// As many bytes as there are, up to `n`.
    pub(crate) fn bytes(&mut self, n: usize) -> &'a [u8] {
        let (bytes, rest) = self.0.split_at(n.min(self.0.len()));
        self.0 = rest;
        bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn rest(self) -> &'a [u8] {
        self.0
    }
}
