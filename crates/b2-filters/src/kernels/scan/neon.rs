//! Scans of 16 bytes at a time.

use std::arch::aarch64::*;

use super::{Op, Scan, Sums, Xors, by_op, last_word};
use crate::kernels::neon_vector::{load16, store16};

/// Computes running sums like [`super::scan`].
#[target_feature(enable = "neon")]
pub(in crate::kernels) fn scan(what: Scan, src: &[u8], dst: &mut [u8]) {
    by_op!(what, scan_by, src, dst)
}

#[inline]
#[target_feature(enable = "neon")]
fn scan_by<O: Op>(src: &[u8], dst: &mut [u8]) {
    let last = load16(&const { last_word::<16>(O::WORD) }, 0);
    let zero = vdupq_n_u8(0);
    // The last element so far, broadcast.
    let mut before = zero;
    let whole = src.len() & !15;
    for at in (0..whole).step_by(16) {
        let mut v = load16(src, at);
        if O::WORD <= 1 {
            v = add::<O>(v, vextq_u8::<15>(zero, v));
        }
        if O::WORD <= 2 {
            v = add::<O>(v, vextq_u8::<14>(zero, v));
        }
        if O::WORD <= 4 {
            v = add::<O>(v, vextq_u8::<12>(zero, v));
        }
        v = add::<O>(v, vextq_u8::<8>(zero, v));
        store16(dst, at, add::<O>(v, before));
        before = add::<O>(before, vqtbl1q_u8(v, last));
    }
    O::plain(src, dst, whole);
}

#[inline]
#[target_feature(enable = "neon")]
fn add<O: Op>(a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
    if O::XOR { veorq_u8(a, b) } else { vaddq_u8(a, b) }
}
