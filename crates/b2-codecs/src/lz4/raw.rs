//! Reads and writes without bounds checks, for the inner loops of the encoders.
//!
//! Built with debug assertions, as tests are, everything here checks its bounds and panics. The checks would cost
//! the fast encoder a sixth of its speed on data full of matches: the compiler cannot see that candidates come
//! before positions. The safe twins are `window` and `output`.
#![allow(unsafe_code)]

use super::output::Output;
use super::window::MIN_MATCH;

/// A window that is read without checks.
#[derive(Clone, Copy)]
pub(crate) struct RawWindow<'a>(&'a [u8]);

impl<'a> RawWindow<'a> {
    pub(crate) fn new(window: &'a [u8]) -> Self {
        Self(window)
    }

    /// All of it.
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

    /// How many bytes are equal at `a` and `b`, up to `limit` for `b`.
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

    /// The same, for matches that are long already.
    ///
    /// # Safety
    /// As for `match_len`.
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

    /// How many bytes are equal before `a` and `b`, `most` if it is more.
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

    /// The same, where there is much to compare.
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

/// A block being written to a buffer that may be too small: what `Output` does, for callers that promise more.
pub(super) struct RawOutput<'a> {
    dst: &'a mut [u8],
    len: usize,
}

impl<'a> RawOutput<'a> {
    pub(super) fn new(dst: &'a mut [u8]) -> Self {
        Self { dst, len: 0 }
    }

    /// What has been written, and the buffer.
    pub(super) fn finish(self) -> Output<'a> {
        Output::resume(self.dst, self.len)
    }

    /// Writes the literals from `anchor` to `pos`, then a match of `len` bytes. `None`: it does not fit.
    ///
    /// # Safety
    /// `anchor <= pos`, and `pos + 16` is within the window.
    #[inline(always)]
    pub(super) unsafe fn sequence(
        &mut self,
        window: RawWindow<'_>,
        anchor: usize,
        pos: usize,
        distance: usize,
        len: usize,
    ) -> Option<()> {
        debug_assert!(anchor <= pos && pos + 16 <= window.0.len() && len >= MIN_MATCH);
        debug_assert!((1..=0xFFFF).contains(&distance));
        let nliterals = pos - anchor;
        let extra = len - MIN_MATCH;
        let room = nliterals + nliterals / 128 + extra / 128 + 40;
        if self.dst.len() - self.len < room {
            return self.tight_sequence(&window.0[anchor..pos], distance, extra);
        }
        let mut at = self.len;
        // SAFETY: all writes are below `self.len + room`: token, `nliterals / 255 + 1` bytes of length, literals
        // rounded up to 16, distance, `extra / 255 + 1` bytes. Literals are read up to 15 bytes beyond `pos`.
        unsafe {
            let dst = self.dst.as_mut_ptr();
            let src = window.0.as_ptr().add(anchor);
            dst.add(at).write((nliterals.min(15) << 4 | extra.min(15)) as u8);
            at = write_rest(dst, at + 1, nliterals);
            dst.add(at).copy_from_nonoverlapping(src, 16);
            if nliterals > 16 {
                copy_more(src, dst.add(at), nliterals);
            }
            at += nliterals;
            dst.add(at).cast::<u16>().write_unaligned((distance as u16).to_le());
            at = write_rest(dst, at + 2, extra);
        }
        self.len = at;
        Some(())
    }

    /// The same with all checks, where room is short.
    #[cold]
    #[inline(never)]
    fn tight_sequence(&mut self, literals: &[u8], distance: usize, extra: usize) -> Option<()> {
        let mut out = Output::resume(self.dst, self.len);
        let done = out.sequence(literals, (distance as u16).to_le_bytes(), extra);
        self.len = out.len();
        done
    }
}

/// Writes at `at` what a length needs beyond the 15 in the token. Returns where that ends.
///
/// # Safety
/// `dst` has room for `n / 255 + 1` bytes from `at`.
#[inline(always)]
unsafe fn write_rest(dst: *mut u8, at: usize, n: usize) -> usize {
    // SAFETY: as the caller promises.
    unsafe {
        if n >= 15 + 255 {
            return write_long_rest(dst, at, n - 15);
        }
        // Written in any case: whether it counts cannot be predicted.
        dst.add(at).write(n.wrapping_sub(15) as u8);
    }
    at + usize::from(n >= 15)
}

/// # Safety
/// `dst` has room for `rest / 255 + 1` bytes from `at`.
#[inline(never)]
unsafe fn write_long_rest(dst: *mut u8, at: usize, rest: usize) -> usize {
    let end = at + rest / 255;
    // SAFETY: as the caller promises.
    unsafe {
        dst.add(at).write_bytes(255, rest / 255);
        dst.add(end).write((rest % 255) as u8);
    }
    end + 1
}

/// Copies what is behind the first 16 bytes, up to 15 more than `len`.
///
/// # Safety
/// As many bytes can be read and written, and do not overlap.
#[inline(never)]
unsafe fn copy_more(src: *const u8, dst: *mut u8, len: usize) {
    // SAFETY: as the caller promises.
    unsafe {
        if len > 64 {
            dst.copy_from_nonoverlapping(src, len);
            return;
        }
        let mut at = 16;
        while at < len {
            dst.add(at).copy_from_nonoverlapping(src.add(at), 16);
            at += 16;
        }
    }
}
