//! SSE2 kernels for every x86-64 CPU: 16 items at a time with the kernels of [`lanes`](super::lanes).
//!
//! SSE2 has no byte shuffle, so items whose size is not a power of two are loaded and stored in pieces of 4, 8 or 16
//! bytes.

use std::arch::x86_64::*;

use super::bounds::CACHE_LINE_LEN;
use super::generic::Generic;
use super::kernel::{Kernels, Tile, call_functions};
use super::lanes::{EDGE_LEN, beyond, by_columns, lane_kernels};
use super::vector::{
    fence, load4, load8, load16 as load, prefetch, prefetch_ahead, store4, store8, store16 as store, stream16,
};
use super::views::{Items, ItemsMut, Planes, PlanesMut, groups};

/// The kernels for every x86-64 CPU.
#[derive(Debug)]
pub(super) struct Sse2;

const NARROWER: Generic = Generic;

impl Kernels for Sse2 {
    fn name(&self) -> &'static str {
        "sse2"
    }
    call_functions! { gather scatter gather_bits scatter_bits prefetch stream fence }
}

lane_kernels!("sse2", __m128i, false);

#[target_feature(enable = "sse2")]
fn stream(src: &[u8], dst: &mut [u8]) {
    for at in (0..dst.len()).step_by(CACHE_LINE_LEN) {
        stream16(dst, at, load(src, at));
        stream16(dst, at + 16, load(src, at + 16));
        stream16(dst, at + 32, load(src, at + 32));
        stream16(dst, at + 48, load(src, at + 48));
    }
}

#[inline]
#[target_feature(enable = "sse2")]
fn zero() -> __m128i {
    _mm_setzero_si128()
}

/// Loads items `P` bytes apart, with arbitrary bytes in the gaps.
#[inline]
#[target_feature(enable = "sse2")]
fn load_items<const C: usize, const P: usize, const DENSE: bool>(
    items: &Items<'_, C, DENSE>,
    i: usize,
) -> [__m128i; P] {
    let mut r = [zero(); P];
    if P == 8 && (C < P || !DENSE) {
        let places = items.places::<8>(i, 1, 16);
        for (k, v) in r.iter_mut().enumerate() {
            *v = _mm_unpacklo_epi64(load8(places.get(2 * k)), load8(places.get(2 * k + 1)));
        }
    } else if P == 4 && C < P {
        let places = items.places::<4>(i, 1, 16);
        for (k, v) in r.iter_mut().enumerate() {
            let low = _mm_unpacklo_epi32(load4(places.get(4 * k)), load4(places.get(4 * k + 1)));
            let high = _mm_unpacklo_epi32(load4(places.get(4 * k + 2)), load4(places.get(4 * k + 3)));
            *v = _mm_unpacklo_epi64(low, high);
        }
    } else {
        let places = items.places::<16>(i, 16 / P, P);
        for (k, v) in r.iter_mut().enumerate() {
            *v = load(places.get(k), 0);
        }
    }
    r
}

/// Stores items in ascending order, so that each store overwrites the excess bytes of the one before.
#[inline]
#[target_feature(enable = "sse2")]
fn store_items<const C: usize, const P: usize, const DENSE: bool>(
    r: [__m128i; P],
    items: &mut ItemsMut<'_, C, DENSE>,
    i: usize,
) {
    if P == 8 && (C < P || !DENSE) {
        let mut places = items.places::<8>(i, 1, 16);
        for (k, &v) in r.iter().enumerate() {
            store8(places.get(2 * k), v);
            store8(places.get(2 * k + 1), _mm_unpackhi_epi64(v, v));
        }
    } else if P == 4 && C < P {
        let mut places = items.places::<4>(i, 1, 16);
        for (k, &v) in r.iter().enumerate() {
            store4(places.get(4 * k), v);
            store4(places.get(4 * k + 1), _mm_shuffle_epi32::<1>(v));
            store4(places.get(4 * k + 2), _mm_shuffle_epi32::<2>(v));
            store4(places.get(4 * k + 3), _mm_shuffle_epi32::<3>(v));
        }
    } else {
        let mut places = items.places::<16>(i, 16 / P, P);
        for (k, &v) in r.iter().enumerate() {
            store(places.get(k), 0, v);
        }
    }
}

#[inline]
#[target_feature(enable = "sse2")]
fn zip<const WIDTH: usize>(a: __m128i, b: __m128i) -> (__m128i, __m128i) {
    match WIDTH {
        1 => (_mm_unpacklo_epi8(a, b), _mm_unpackhi_epi8(a, b)),
        2 => (_mm_unpacklo_epi16(a, b), _mm_unpackhi_epi16(a, b)),
        4 => (_mm_unpacklo_epi32(a, b), _mm_unpackhi_epi32(a, b)),
        _ => (_mm_unpacklo_epi64(a, b), _mm_unpackhi_epi64(a, b)),
    }
}

#[inline]
#[target_feature(enable = "sse2")]
fn swap_bits<const D: i32>(a: __m128i, b: __m128i, low: i8) -> (__m128i, __m128i) {
    // The mask removes bits that a 16-bit shift brings in from the neighbouring byte.
    let t = _mm_and_si128(_mm_xor_si128(_mm_srli_epi16::<D>(a), b), _mm_set1_epi8(low));
    (_mm_xor_si128(a, _mm_slli_epi16::<D>(t)), _mm_xor_si128(b, t))
}
