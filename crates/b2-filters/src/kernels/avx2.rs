//! AVX2 kernels: 32 items at a time with the kernels of [`lanes`](super::lanes), items 0 to 15 in the low lane and 16
//! to 31 in the high one. With GFNI as well, they use it to transpose bits.

use std::arch::x86_64::*;

use super::bounds::CACHE_LINE_LEN;
use super::generic::Generic;
use super::kernel::{Kernels, Tile, call_functions};
use super::lanes::{EDGE_LEN, beyond, by_columns, lane_kernels};
use super::scan::{self, Scan};
use super::sse2::Sse2;
use super::vector::{
    fence, load8, load16, load32 as load, prefetch, prefetch_ahead, store8, store16, store32 as store,
    stream32,
};
use super::views::{Items, ItemsMut, Planes, PlanesMut, groups};

/// Proves that the CPU has AVX2: only the functions below create values.
#[derive(Debug)]
pub(super) struct Avx2 {
    /// Whether the CPU also has GFNI, which transposes bits.
    gfni: bool,
}

impl Avx2 {
    /// Returns the kernels if the CPU has AVX2.
    pub(super) fn detect() -> Option<&'static dyn Kernels> {
        if std::is_x86_feature_detected!("avx2") { Some(&Self { gfni: false }) } else { None }
    }

    /// Returns the kernels that transpose bits with GFNI, if the CPU has AVX2 and GFNI.
    pub(super) fn detect_gfni() -> Option<&'static dyn Kernels> {
        let found = std::is_x86_feature_detected!("avx2") && std::is_x86_feature_detected!("gfni");
        if found { Some(&Self { gfni: true }) } else { None }
    }
}

impl Kernels for Avx2 {
    fn name(&self) -> &'static str {
        if self.gfni { "gfni" } else { "avx2" }
    }
    call_functions! { gather scatter prefetch stream fence }
    fn gather_bits(&self, items: &[u8], tile: Tile, planes: &mut [u8]) {
        if self.gfni && tile.n >= GROUP {
            // SAFETY: `self` exists only if `detect_gfni` found AVX2 and GFNI.
            unsafe { gather_bits_gfni(items, tile, planes) }
        } else {
            // SAFETY: `self` exists, so `detect` found AVX2.
            unsafe { gather_bits(items, tile, planes) }
        }
    }
    fn scatter_bits(&self, planes: &[&[u8]], tile: Tile, items: &mut [u8]) {
        if self.gfni && tile.n >= GROUP {
            // SAFETY: `self` exists only if `detect_gfni` found AVX2 and GFNI.
            unsafe { scatter_bits_gfni(planes, tile, items) }
        } else {
            // SAFETY: `self` exists, so `detect` found AVX2.
            unsafe { scatter_bits(planes, tile, items) }
        }
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
}

const NARROWER: Sse2 = Sse2;
lane_kernels!("avx2", __m256i, true);

/// Gathers bits with GFNI: one instruction transposes the bits of 4 items. Requires at least `GROUP` items.
#[target_feature(enable = "avx2,gfni")]
fn gather_bits_gfni(items: &[u8], tile: Tile, planes: &mut [u8]) {
    let by_byte = _mm256_broadcastsi128_si256(load16(&BY_BYTE[8], 0));
    let mut planes = PlanesMut::<8>::new(planes, tile.stride, tile.n);
    let items = Items::<8, true>::new(items, 8, tile.n);
    for part in groups(tile.n, GROUP) {
        for i in part {
            let mut r = load_unsorted::<8, 8, true>(&items, i);
            for v in &mut r {
                *v = _mm256_shuffle_epi8(transpose_bits_of_items(*v), by_byte);
            }
            for (j, v) in to_planes(r).into_iter().enumerate() {
                store(planes.get::<GROUP>(j, i), 0, v);
            }
        }
    }
}

/// Scatters bits with GFNI. Requires at least `GROUP` items.
#[target_feature(enable = "avx2,gfni")]
fn scatter_bits_gfni(planes: &[&[u8]], tile: Tile, items: &mut [u8]) {
    let planes = Planes::<8>::new(&planes[..8], tile.n);
    let mut items = ItemsMut::<8, true>::new(items, 8, tile.n);
    for part in groups(tile.n, GROUP) {
        for i in part {
            let mut r = [zero(); 8];
            for (j, v) in r.iter_mut().enumerate() {
                *v = load(planes.get::<GROUP>(j, i), 0);
            }
            let mut r = to_items(r);
            for v in &mut r {
                *v = transpose_bits_of_items(*v);
            }
            store_items::<8, 8, true>(r, &mut items, i);
        }
    }
}

/// Transposes each 8 bytes as an 8 x 8 bit matrix.
#[inline]
#[target_feature(enable = "avx2,gfni")]
fn transpose_bits_of_items(v: __m256i) -> __m256i {
    // The instruction expects matrix rows in reverse order; byte i of each 8 selects their bit i.
    let reverse = _mm256_broadcastsi128_si256(_mm_set_epi64x(0x0809_0A0B_0C0D_0E0F, 0x0001_0203_0405_0607));
    let unit = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64 as i64);
    _mm256_gf2p8affine_epi64_epi8::<0>(unit, _mm256_shuffle_epi8(v, reverse))
}

#[target_feature(enable = "avx2")]
fn stream(src: &[u8], dst: &mut [u8]) {
    for at in (0..dst.len()).step_by(CACHE_LINE_LEN) {
        stream32(dst, at, load(src, at));
        stream32(dst, at + 32, load(src, at + 32));
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn zero() -> __m256i {
    _mm256_setzero_si256()
}

/// Loads items and sorts their bytes by byte number within lanes. Items of 16 bytes are left unchanged.
#[inline]
#[target_feature(enable = "avx2")]
fn load_items<const C: usize, const P: usize, const DENSE: bool>(
    items: &Items<'_, C, DENSE>,
    i: usize,
) -> [__m256i; P] {
    let mut r = load_unsorted::<C, P, DENSE>(items, i);
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
fn load_unsorted<const C: usize, const P: usize, const DENSE: bool>(
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
    // In ascending order, so that each store overwrites the excess bytes of the one before.
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
    // The mask removes bits that a 16-bit shift brings in from the neighbouring byte.
    let t = _mm256_and_si256(_mm256_xor_si256(_mm256_srli_epi16::<D>(a), b), _mm256_set1_epi8(low));
    (_mm256_xor_si256(a, _mm256_slli_epi16::<D>(t)), _mm256_xor_si256(b, t))
}

/// Shuffles, by item size, that sort the items of a lane by byte number and pad each to `P` bytes.
static BY_BYTE: [[u8; 16]; 17] = tables(false);

/// Shuffles, by item size, that close the gaps between items `P` bytes apart.
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
