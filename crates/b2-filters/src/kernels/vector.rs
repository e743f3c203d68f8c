//! Loads and stores between slices and vector registers.
//!
//! The value intrinsics are safe; memory is the one thing they do not cover. Indexing proves the range here, so
//! that the kernels themselves hold no `unsafe`.

use std::arch::x86_64::*;

/// 16 bytes from `at` on.
#[inline]
#[target_feature(enable = "sse2")]
pub(super) fn load16(bytes: &[u8], at: usize) -> __m128i {
    let bytes = &bytes[at..at + 16];
    // SAFETY: the slice above holds 16 readable bytes; loadu asks for no alignment.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}

/// 16 bytes to `at` and on.
#[inline]
#[target_feature(enable = "sse2")]
pub(super) fn store16(bytes: &mut [u8], at: usize, v: __m128i) {
    let bytes = &mut bytes[at..at + 16];
    // SAFETY: the slice above holds 16 writable bytes; storeu asks for no alignment.
    unsafe { _mm_storeu_si128(bytes.as_mut_ptr().cast(), v) }
}

/// 32 bytes from `at` on.
#[inline]
#[target_feature(enable = "avx")]
pub(super) fn load32(bytes: &[u8], at: usize) -> __m256i {
    let bytes = &bytes[at..at + 32];
    // SAFETY: the slice above holds 32 readable bytes; loadu asks for no alignment.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
}

/// 32 bytes to `at` and on.
#[inline]
#[target_feature(enable = "avx")]
pub(super) fn store32(bytes: &mut [u8], at: usize, v: __m256i) {
    let bytes = &mut bytes[at..at + 32];
    // SAFETY: the slice above holds 32 writable bytes; storeu asks for no alignment.
    unsafe { _mm256_storeu_si256(bytes.as_mut_ptr().cast(), v) }
}

/// 64 bytes from `at` on.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn load64(bytes: &[u8], at: usize) -> __m512i {
    let bytes = &bytes[at..at + 64];
    // SAFETY: the slice above holds 64 readable bytes; loadu asks for no alignment.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
}

/// 64 bytes to `at` and on.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn store64(bytes: &mut [u8], at: usize, v: __m512i) {
    let bytes = &mut bytes[at..at + 64];
    // SAFETY: the slice above holds 64 writable bytes; storeu asks for no alignment.
    unsafe { _mm512_storeu_si512(bytes.as_mut_ptr().cast(), v) }
}
