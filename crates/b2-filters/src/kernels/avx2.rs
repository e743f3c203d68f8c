//! AVX2: 32 items at a time, by the kernels of [`lanes`](super::lanes): items 0 to 15 in the low lane and 16 to 31 in the
//! high one.

use std::arch::x86_64::*;

use super::generic::Generic;
use super::lanes::{EDGE, beyond, by_columns, lane_kernels};
use super::scan::{self, Scan};
use super::sse2::Sse2;
use super::vector::{
    fence, load8, load16, load32 as load, prefetch, prefetch_ahead, store8, store16, store32 as store,
    stream32,
};
use super::views::{Items, ItemsMut, Planes, PlanesMut, groups};
use super::{Kernels, LINE, Tile};

/// Proof that the CPU has AVX2: values come from [`Avx2::detect`] only.
#[derive(Debug)]
pub(super) struct Avx2(());

impl Avx2 {
    /// The kernels, if the CPU has what they need.
    pub(super) fn detect() -> Option<&'static dyn Kernels> {
        if std::is_x86_feature_detected!("avx2") { Some(&Self(())) } else { None }
    }
}

impl Kernels for Avx2 {
    fn name(&self) -> &'static str {
        "avx2"
    }
    fn gather(&self, items: &[u8], tile: Tile, planes: &mut [u8]) {
        // SAFETY: `self` exists, so `detect` found AVX2.
        unsafe { gather(items, tile, planes) }
    }
    fn scatter(&self, planes: &[&[u8]], tile: Tile, items: &mut [u8]) {
        // SAFETY: `self` exists, so `detect` found AVX2.
        unsafe { scatter(planes, tile, items) }
    }
    fn gather_bits(&self, items: &[u8], tile: Tile, planes: &mut [u8]) {
        // SAFETY: `self` exists, so `detect` found AVX2.
        unsafe { gather_bits(items, tile, planes) }
    }
    fn scatter_bits(&self, planes: &[&[u8]], tile: Tile, items: &mut [u8]) {
        // SAFETY: `self` exists, so `detect` found AVX2.
        unsafe { scatter_bits(planes, tile, items) }
    }
    fn scan(&self, what: Scan, src: &[u8], dst: &mut [u8]) {
        // SAFETY: `self` exists, so `detect` found AVX2.
        unsafe { scan::avx2::scan(what, src, dst) }
    }
    fn differences(&self, what: Scan, src: &[u8], dst: &mut [u8]) {
        // SAFETY: `self` exists, so `detect` found AVX2.
        unsafe { scan::avx2::differences(what, src, dst) }
    }
    fn xor(&self, a: &[u8], b: &[u8], dst: &mut [u8], streaming: bool) {
        if streaming {
            // SAFETY: `self` exists, so `detect` found AVX2.
            unsafe { scan::avx2::xor_streaming(a, b, dst) }
        } else {
            scan::xor(a, b, dst);
        }
    }
    fn prefetch(&self, bytes: &[u8]) {
        prefetch(bytes);
    }
    fn stream(&self, src: &[u8], dst: &mut [u8]) {
        // SAFETY: `self` exists, so `detect` found AVX2.
        unsafe { stream(src, dst) }
    }
    fn fence(&self) {
        fence();
    }
}

const NARROWER: Sse2 = Sse2;
lane_kernels!("avx2", __m256i, true);

#[target_feature(enable = "avx2")]
fn stream(src: &[u8], dst: &mut [u8]) {
    for at in (0..dst.len()).step_by(LINE) {
        stream32(dst, at, load(src, at));
        stream32(dst, at + 32, load(src, at + 32));
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn zero() -> __m256i {
    _mm256_setzero_si256()
}

/// Items sorted by byte number within lanes; those of 16 bytes are left as they are.
#[inline]
#[target_feature(enable = "avx2")]
fn load_items<const C: usize, const P: usize, const DENSE: bool>(
    items: &Items<'_, C, DENSE>,
    i: usize,
) -> [__m256i; P] {
    let mut r = [zero(); P];
    if P == 8 && !DENSE {
        let places = items.places::<8>(i, 1, 32);
        for (k, v) in r.iter_mut().enumerate() {
            let low = _mm_unpacklo_epi64(load8(places.get(2 * k)), load8(places.get(2 * k + 1)));
            let high = _mm_unpacklo_epi64(load8(places.get(16 + 2 * k)), load8(places.get(17 + 2 * k)));
            *v = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(low), high);
        }
    } else {
        let places = items.places::<16>(i, 16 / P, 2 * P);
        for (k, v) in r.iter_mut().enumerate() {
            let low = _mm256_castsi128_si256(load16(places.get(k), 0));
            *v = _mm256_inserti128_si256::<1>(low, load16(places.get(P + k), 0));
        }
    }
    if P < 16 {
        let by_byte = _mm256_broadcastsi128_si256(load16(&BY_BYTE[C], 0));
        for v in &mut r {
            *v = _mm256_shuffle_epi8(*v, by_byte);
        }
    }
    r
}

#[inline]
#[target_feature(enable = "avx2")]
fn store_items<const C: usize, const P: usize, const DENSE: bool>(
    mut r: [__m256i; P],
    items: &mut ItemsMut<'_, C, DENSE>,
    i: usize,
) {
    if P == C && DENSE {
        let mut places = items.places::<32>(i, 32 / P, P);
        for k in (0..P).step_by(2) {
            store(places.get(k / 2), 0, _mm256_permute2x128_si256::<0x20>(r[k], r[k + 1]));
            store(places.get((P + k) / 2), 0, _mm256_permute2x128_si256::<0x31>(r[k], r[k + 1]));
        }
        return;
    }
    if P == 8 && !DENSE {
        let mut places = items.places::<8>(i, 1, 32);
        for (k, &v) in r.iter().enumerate() {
            let (low, high) = (_mm256_castsi256_si128(v), _mm256_extracti128_si256::<1>(v));
            store8(places.get(2 * k), low);
            store8(places.get(2 * k + 1), _mm_unpackhi_epi64(low, low));
            store8(places.get(16 + 2 * k), high);
            store8(places.get(17 + 2 * k), _mm_unpackhi_epi64(high, high));
        }
        return;
    }
    if P < 16 {
        let by_item = _mm256_broadcastsi128_si256(load16(&BY_ITEM[C], 0));
        for v in &mut r {
            *v = _mm256_shuffle_epi8(*v, by_item);
        }
    }
    // Ascending, so that what a store leaves beyond its items is written over by the next one.
    let mut places = items.places::<16>(i, 16 / P, 2 * P);
    for (k, &v) in r.iter().enumerate() {
        store16(places.get(k), 0, _mm256_castsi256_si128(v));
    }
    for (k, &v) in r.iter().enumerate() {
        store16(places.get(P + k), 0, _mm256_extracti128_si256::<1>(v));
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn zip<const WIDTH: usize>(a: __m256i, b: __m256i) -> (__m256i, __m256i) {
    match WIDTH {
        1 => (_mm256_unpacklo_epi8(a, b), _mm256_unpackhi_epi8(a, b)),
        2 => (_mm256_unpacklo_epi16(a, b), _mm256_unpackhi_epi16(a, b)),
        4 => (_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b)),
        _ => (_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b)),
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn swap_bits<const D: i32>(a: __m256i, b: __m256i, low: i8) -> (__m256i, __m256i) {
    // 16-bit shifts: the mask drops what comes over from the neighbouring byte.
    let t = _mm256_and_si256(_mm256_xor_si256(_mm256_srli_epi16::<D>(a), b), _mm256_set1_epi8(low));
    (_mm256_xor_si256(a, _mm256_slli_epi16::<D>(t)), _mm256_xor_si256(b, t))
}

/// By item size: sorts the items of a lane by byte number, with room for `P` bytes each.
static BY_BYTE: [[u8; 16]; 17] = tables(false);

/// By item size: closes the gaps between items that lie `P` bytes apart.
static BY_ITEM: [[u8; 16]; 17] = tables(true);

const fn tables(back: bool) -> [[u8; 16]; 17] {
    let mut tables = [[0x80; 16]; 17];
    let mut cols: usize = 2;
    while cols <= 16 {
        let p = cols.next_power_of_two();
        let mut k = 0;
        while k < 16 / p * cols {
            let (i, b) = (k / cols, k % cols);
            if back {
                tables[cols][k] = (i * p + b) as u8;
            } else {
                tables[cols][b * (16 / p) + i] = k as u8;
            }
            k += 1;
        }
        cols += 1;
    }
    tables
}
