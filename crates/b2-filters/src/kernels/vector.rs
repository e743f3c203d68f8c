//! Loads and stores between slices and vector registers.
//!
//! Intrinsics on values are safe, those that access memory are not. Each access is checked here, so that the kernels
//! contain no `unsafe`.

use std::arch::x86_64::*;

use super::bounds::fits;

/// Loads 4 bytes and sets the others to zero.
#[inline]
#[target_feature(enable = "sse2")]
pub(super) fn load4(bytes: &[u8; 4]) -> __m128i {
    _mm_cvtsi32_si128(i32::from_le_bytes(*bytes))
}

/// Stores the lowest 4 bytes.
#[inline]
#[target_feature(enable = "sse2")]
pub(super) fn store4(bytes: &mut [u8; 4], v: __m128i) {
    *bytes = _mm_cvtsi128_si32(v).to_le_bytes();
}

/// Loads 8 bytes and sets the others to zero.
#[inline]
#[target_feature(enable = "sse2")]
pub(super) fn load8(bytes: &[u8; 8]) -> __m128i {
    // SAFETY: the instruction reads the 8 bytes of the array and does not require alignment.
    unsafe { _mm_loadl_epi64(bytes.as_ptr().cast()) }
}

/// Stores the lowest 8 bytes.
#[inline]
#[target_feature(enable = "sse2")]
pub(super) fn store8(bytes: &mut [u8; 8], v: __m128i) {
    // SAFETY: the instruction writes the 8 bytes of the array and does not require alignment.
    unsafe { _mm_storel_epi64(bytes.as_mut_ptr().cast(), v) }
}

/// Writes the functions that access as many bytes as a register has.
macro_rules! accesses {
    ($($feature:literal $n:literal $register:ident: $($name:ident $instruction:ident),*;)*) => {
        $(accesses! { @functions $feature $n $register $($name $instruction)* })*
    };
    (@functions $feature:literal $n:literal $register:ident
        $load:ident $loadu:ident $store:ident $storeu:ident $stream:ident $streamed:ident) => {
        #[doc = concat!("Loads ", $n, " bytes from `at` on.")]
        #[inline]
        #[target_feature(enable = $feature)]
        pub(super) fn $load(bytes: &[u8], at: usize) -> $register {
            assert!(fits::<$n>(bytes, at));
            // SAFETY: the bytes from `at` on are inside the slice; the load does not require alignment.
            unsafe { $loadu(bytes.as_ptr().add(at).cast()) }
        }

        #[doc = concat!("Stores ", $n, " bytes from `at` on.")]
        #[inline]
        #[target_feature(enable = $feature)]
        pub(super) fn $store(bytes: &mut [u8], at: usize, v: $register) {
            assert!(fits::<$n>(bytes, at));
            // SAFETY: the bytes from `at` on are inside the slice; the store does not require alignment.
            unsafe { $storeu(bytes.as_mut_ptr().add(at).cast(), v) }
        }

        #[doc = concat!("Stores ", $n, " bytes from `at` on, bypassing the caches.")]
        ///
        /// The address must be a multiple of their number; a [`fence`] must follow.
        #[inline]
        #[target_feature(enable = $feature)]
        pub(super) fn $stream(bytes: &mut [u8], at: usize, v: $register) {
            assert!(fits::<$n>(bytes, at) && misalignment::<$n>(bytes, at) == 0);
            // SAFETY: the bytes from `at` on are inside the slice, and their address is aligned. The callers end with a
            // fence, so that no other thread can see the slice before the bytes are in it.
            unsafe { $streamed(bytes.as_mut_ptr().add(at).cast(), v) }
        }
    };
}
accesses! {
    "sse2" 16 __m128i: load16 _mm_loadu_si128, store16 _mm_storeu_si128, stream16 _mm_stream_si128;
    "avx" 32 __m256i: load32 _mm256_loadu_si256, store32 _mm256_storeu_si256, stream32 _mm256_stream_si256;
    "avx512f" 64 __m512i: load64 _mm512_loadu_si512, store64 _mm512_storeu_si512, stream64 _mm512_stream_si512;
}

/// Prefetches `nbytes` bytes, `PREFETCH_DISTANCE` bytes after the current position of a sequential read. Hardware prefetching does
/// not reach far enough.
#[inline(always)]
pub(super) fn prefetch_ahead(now: *const u8, nbytes: usize) {
    for at in (0..nbytes).step_by(64) {
        // SAFETY: SSE is part of x86-64, and a prefetch has no effect that a program could see, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(now.wrapping_add(PREFETCH_DISTANCE + at).cast()) };
    }
}

const PREFETCH_DISTANCE: usize = 4096;

/// Prefetches the cache lines of `bytes`.
#[inline]
pub(super) fn prefetch(bytes: &[u8]) {
    for line in bytes.chunks(64) {
        // SAFETY: SSE is part of x86-64, and a prefetch has no effect that a program could see.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
    }
}

/// Orders streaming stores before whatever follows, such as passing the buffer to another thread.
#[inline]
pub(super) fn fence() {
    // SAFETY: SSE is part of x86-64, and the instruction touches no memory.
    unsafe { _mm_sfence() }
}

/// Returns how far the address of `bytes[at]` is past a multiple of `N`.
#[inline]
pub(super) fn misalignment<const N: usize>(bytes: &[u8], at: usize) -> usize {
    bytes.as_ptr().addr().wrapping_add(at) % N
}
