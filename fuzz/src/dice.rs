//! Pseudo-random numbers derived from the input, so that an input does the same in every run.

pub(crate) use b2_testkit::Rng as Dice;

/// Parameters read from the front of the input; zeros when it is used up.
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

    /// Returns a number from 0 to `max`, read from one byte if that is enough.
    pub(crate) fn up_to(&mut self, max: usize) -> usize {
        let value = if max < 256 { usize::from(self.u8()) } else { usize::from(self.u16()) };
        value % (max + 1)
    }

    /// Returns up to `n` bytes, fewer at the end of the input.
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
