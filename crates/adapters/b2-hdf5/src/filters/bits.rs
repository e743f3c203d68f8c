//! Bit streams, the most significant bit of a byte first.

/// Reads bits.
pub(super) struct Bits<'a> {
    src: &'a [u8],
    at: usize,
    held: u64,
    count: u32,
}

impl<'a> Bits<'a> {
    pub(super) fn new(src: &'a [u8]) -> Self {
        Self { src, at: 0, held: 0, count: 0 }
    }

    fn fill(&mut self) {
        while self.count <= 56
            && let Some(&byte) = self.src.get(self.at)
        {
            self.held = self.held << 8 | u64::from(byte);
            self.count += 8;
            self.at += 1;
        }
    }

    /// Takes up to 32 bits.
    pub(super) fn take(&mut self, width: u32) -> Option<u64> {
        if width == 0 {
            return Some(0);
        }
        if self.count < width {
            self.fill();
        }
        self.count = self.count.checked_sub(width)?;
        Some(self.held >> self.count & ((1 << width) - 1))
    }

    /// Takes up to 64 bits.
    pub(super) fn take_long(&mut self, width: u32) -> Option<u64> {
        match width {
            ..=32 => self.take(width),
            _ => Some(self.take(width.checked_sub(32)?)? << 32 | self.take(32)?),
        }
    }

    /// Consumes zeros up to a one, and returns their number.
    pub(super) fn unary(&mut self) -> Option<u64> {
        let mut zeros = 0_u64;
        loop {
            if self.count == 0 {
                self.fill();
                if self.count == 0 {
                    return None;
                }
            }
            let held = self.held << (64 - self.count);
            let run = held.leading_zeros().min(self.count);
            zeros += u64::from(run);
            self.count -= run;
            if self.count > 0 {
                self.count -= 1;
                return Some(zeros);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_read_from_the_top() {
        let mut bits = Bits::new(&[0b0001_0110, 0xFF, 0]);
        assert_eq!(bits.unary(), Some(3));
        assert_eq!(bits.take(3), Some(0b011));
        assert_eq!(bits.take(9), Some(0b0_1111_1111));
        assert_eq!(bits.unary(), None);
        let mut bits = Bits::new(&[0x12, 0x34, 0x56, 0x78, 0x9A, 0xBC, 0xDE, 0xF0, 0x11]);
        assert_eq!(bits.take(4), Some(1));
        assert_eq!(bits.take_long(64), Some(0x2345_6789_ABCD_EF01));
        assert_eq!(bits.take_long(33), None);
    }
}
