//! Scans of 32 bytes at a time: within the two lanes first, then from the low lane to the high one.

use std::arch::x86_64::*;

use super::{Op, Scan, Sums, Xors, by_op, last_word};
use crate::kernels::vector::{fence, load16, load32, misalignment, store32, stream32};

/// Computes running sums like [`super::scan`].
#[target_feature(enable = "avx2")]
pub(in crate::kernels) fn scan(what: Scan, src: &[u8], dst: &mut [u8]) {
    by_op!(what, scan_by, src, dst)
}

#[inline]
#[target_feature(enable = "avx2")]
fn scan_by<O: Op>(src: &[u8], dst: &mut [u8]) {
    let last = _mm256_broadcastsi128_si256(load16(&const { last_word::<16>(O::WORD) }, 0));
    // The last element so far, broadcast.
    let mut before = _mm256_setzero_si256();
    let whole = src.len() & !31;
    for at in (0..whole).step_by(32) {
        let mut v = load32(src, at);
        if O::WORD <= 1 {
            v = add::<O>(v, _mm256_bslli_epi128::<1>(v));
        }
        if O::WORD <= 2 {
            v = add::<O>(v, _mm256_bslli_epi128::<2>(v));
        }
        if O::WORD <= 4 {
            v = add::<O>(v, _mm256_bslli_epi128::<4>(v));
        }
        v = add::<O>(v, _mm256_bslli_epi128::<8>(v));
        let lanes = _mm256_shuffle_epi8(v, last);
        v = add::<O>(v, _mm256_permute2x128_si256::<0x08>(lanes, lanes));
        store32(dst, at, add::<O>(v, before));
        before = add::<O>(before, add::<O>(lanes, _mm256_permute4x64_epi64::<0x4E>(lanes)));
    }
    O::plain(src, dst, whole);
}

/// Computes differences with the loop of [`super::differences`], compiled for wider vectors.
#[target_feature(enable = "avx2")]
pub(in crate::kernels) fn differences(what: Scan, src: &[u8], dst: &mut [u8]) {
    super::differences(what, src, dst);
}

/// XORs two blocks like [`super::xor`], but whole cache lines of `dst` bypass the caches.
#[target_feature(enable = "avx2")]
pub(in crate::kernels) fn xor_streaming(a: &[u8], b: &[u8], dst: &mut [u8]) {
    let start = ((64 - misalignment::<64>(dst, 0)) % 64).min(dst.len());
    let end = start + ((dst.len() - start) & !63);
    super::xor(&a[..start], &b[..start], &mut dst[..start]);
    for line in (start..end).step_by(64) {
        let low = _mm256_xor_si256(load32(a, line), load32(b, line));
        let high = _mm256_xor_si256(load32(a, line + 32), load32(b, line + 32));
        stream32(dst, line, low);
        stream32(dst, line + 32, high);
    }
    fence();
    super::xor(&a[end..], &b[end..], &mut dst[end..]);
}

#[inline]
#[target_feature(enable = "avx2")]
fn add<O: Op>(a: __m256i, b: __m256i) -> __m256i {
    if O::XOR { _mm256_xor_si256(a, b) } else { _mm256_add_epi8(a, b) }
}
