//! Writes without bounds checks, for the inner loops of the encoders. They read their window with [`crate::lz77::raw`].
//!
//! With debug assertions, as in all tests, every access is checked and panics if out of bounds. The safe equivalent is
//! `output`.
#![allow(unsafe_code)]

use super::output::Output;
use super::window::MIN_MATCH;
use crate::lz77::raw::RawWindow;

/// A block being written to a buffer that may be too small, like `Output`, but with unchecked accesses.
pub(super) struct RawOutput<'a> {
    dst: &'a mut [u8],
    len: usize,
}

impl<'a> RawOutput<'a> {
    pub(super) fn new(dst: &'a mut [u8]) -> Self {
        Self { dst, len: 0 }
    }

    /// Returns the block for checked writing.
    pub(super) fn finish(self) -> Output<'a> {
        Output::resume(self.dst, self.len)
    }

    /// Writes the literals from `anchor` to `pos`, then a match of `len` bytes. Returns `None` if it does not fit.
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
        debug_assert!(anchor <= pos && pos + 16 <= window.bytes().len() && len >= MIN_MATCH);
        debug_assert!((1..=0xFFFF).contains(&distance));
        let nliterals = pos - anchor;
        let extra = len - MIN_MATCH;
        let room = nliterals + nliterals / 128 + extra / 128 + 40;
        if self.dst.len() - self.len < room {
            return self.tight_sequence(&window.bytes()[anchor..pos], distance, extra);
        }
        let mut at = self.len;
        // SAFETY: all writes are below `self.len + room`: token, `nliterals / 255 + 1` bytes of length, literals
        // rounded up to 16, distance, `extra / 255 + 1` bytes. Literals are read up to 15 bytes beyond `pos`.
        unsafe {
            let dst = self.dst.as_mut_ptr();
            let src = window.bytes().as_ptr().add(anchor);
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

    /// Writes a sequence with all checks, when there is little room.
    #[cold]
    #[inline(never)]
    fn tight_sequence(&mut self, literals: &[u8], distance: usize, extra: usize) -> Option<()> {
        let mut out = Output::resume(self.dst, self.len);
        let done = out.sequence(literals, (distance as u16).to_le_bytes(), extra);
        self.len = out.len();
        done
    }
}

/// Writes the part of a length that exceeds the 15 in the token at `at`. Returns the end of it.
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
        // Written unconditionally: whether it is needed cannot be predicted.
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

/// Copies the rest of a run after its first 16 bytes, up to 15 bytes more than `len`.
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
