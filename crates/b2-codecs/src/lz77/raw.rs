//! Unchecked reads for the inner loops of the encoders.
//!
//! With debug assertions, as in all tests, every access is checked and panics if out of bounds. In release builds the
//! checks would cost the fast encoder a sixth of its speed on data full of matches, since the compiler cannot know that
//! candidates precede positions.
#![allow(unsafe_code)]

/// A window with unchecked reads.
#[derive(Clone, Copy)]
pub(crate) struct RawWindow<'a>(&'a [u8]);

impl<'a> RawWindow<'a> {
    #[inline(always)]
    pub(crate) fn new(window: &'a [u8]) -> Self {
        Self(window)
    }

    /// Returns the whole window.
    #[inline(always)]
    pub(crate) fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// # Safety
    /// `pos + 4` is within the window.
    #[inline(always)]
    pub(crate) unsafe fn u32(self, pos: usize) -> u32 {
        debug_assert!(pos + 4 <= self.0.len());
        // SAFETY: in bounds, as the caller promises.
        u32::from_le(unsafe { self.0.as_ptr().add(pos).cast::<u32>().read_unaligned() })
    }

    /// # Safety
    /// `pos + 8` is within the window.
    #[inline(always)]
    pub(crate) unsafe fn u64(self, pos: usize) -> u64 {
        debug_assert!(pos + 8 <= self.0.len());
        // SAFETY: in bounds, as the caller promises.
        u64::from_le(unsafe { self.0.as_ptr().add(pos).cast::<u64>().read_unaligned() })
    }

    /// Counts the equal bytes at `a` and `b`, up to `limit` for `b`.
    ///
    /// # Safety
    /// `a < b <= limit`, and `limit` is within the window.
    #[inline(always)]
    pub(crate) unsafe fn match_len(self, a: usize, b: usize, limit: usize) -> usize {
        debug_assert!(a < b && b <= limit && limit <= self.0.len());
        // SAFETY: `b + 8` is at most `limit`, and `a` is less than `b`.
        unsafe {
            if b + 16 <= limit {
                let low = self.u64(a) ^ self.u64(b);
                let high = self.u64(a + 8) ^ self.u64(b + 8);
                if low | high != 0 {
                    let (differs, before) = if low != 0 { (low, 0) } else { (high, 8) };
                    return before + (differs.trailing_zeros() / 8) as usize;
                }
                return 16 + self.long_match_len(a + 16, b + 16, limit);
            }
            self.long_match_len(a, b, limit)
        }
    }

    /// Continues [`match_len`](Self::match_len) for matches that are already long.
    ///
    /// # Safety
    /// The conditions of `match_len`.
    #[inline(never)]
    unsafe fn long_match_len(self, a: usize, b: usize, limit: usize) -> usize {
        let mut len = 0;
        // SAFETY: `b + len + 8`, or 32, is at most `limit`, and `a` is less than `b`.
        unsafe {
            let differs = |at: usize| self.u64(a + at) ^ self.u64(b + at);
            while b + len + 8 <= limit {
                let first = differs(len);
                if first != 0 {
                    return len + (first.trailing_zeros() / 8) as usize;
                }
                len += 8;
                while b + len + 32 <= limit
                    && differs(len) | differs(len + 8) | differs(len + 16) | differs(len + 24) == 0
                {
                    len += 32;
                }
            }
        }
        let (a, b) = (&self.0[a + len..], &self.0[b + len..limit]);
        len + b.iter().zip(a).take_while(|(x, y)| x == y).count()
    }

    /// Counts the equal bytes before `a` and `b`, up to `most`.
    ///
    /// # Safety
    /// `a < b`, `most <= a`, and `b` is within the window.
    #[inline(always)]
    pub(crate) unsafe fn back_len(self, a: usize, b: usize, most: usize) -> usize {
        debug_assert!(a < b && most <= a && b <= self.0.len());
        if a >= 8 {
            // SAFETY: both are 8 or more, and in the window.
            let differs = unsafe { self.u64(a - 8) ^ self.u64(b - 8) };
            if differs != 0 || most <= 8 {
                return most.min((differs.leading_zeros() / 8) as usize);
            }
        }
        // SAFETY: as the caller promises.
        unsafe { self.long_back_len(a, b, most) }
    }

    /// Continues [`back_len`](Self::back_len) for long runs of equal bytes.
    ///
    /// # Safety
    /// As for `back_len`.
    #[inline(never)]
    unsafe fn long_back_len(self, a: usize, b: usize, most: usize) -> usize {
        let mut len = 0;
        while len + 8 <= most {
            // SAFETY: both are `len + 8` or more, since `most <= a < b`, and in the window.
            let differs = unsafe { self.u64(a - len - 8) ^ self.u64(b - len - 8) };
            if differs != 0 {
                return len + (differs.leading_zeros() / 8) as usize;
            }
            len += 8;
        }
        let (a, b) = (&self.0[a - most..a - len], &self.0[b - most..b - len]);
        len + a.iter().rev().zip(b.iter().rev()).take_while(|(x, y)| x == y).count()
    }
}
