//! Loads and stores of NEON registers.

use std::arch::aarch64::*;

use super::bounds::fits;

/// Loads 16 bytes from `at` on.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn load16(bytes: &[u8], at: usize) -> uint8x16_t {
    assert!(fits::<16>(bytes, at));
    // SAFETY: 16 bytes from `at` on are inside the slice; the load does not require alignment.
    unsafe { vld1q_u8(bytes.as_ptr().add(at)) }
}

/// Stores 16 bytes from `at` on.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn store16(bytes: &mut [u8], at: usize, v: uint8x16_t) {
    assert!(fits::<16>(bytes, at));
    // SAFETY: 16 bytes from `at` on are inside the slice; the store does not require alignment.
    unsafe { vst1q_u8(bytes.as_mut_ptr().add(at), v) }
}
