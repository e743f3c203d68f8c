//! AVX-512 kernels with VBMI and GFNI (Ice Lake, Zen 4 and later): 64 items at a time.
//!
//! As in the AVX2 kernels, `P` is the item size rounded up to a power of two, and `P` registers hold a group, 64 / P
//! items each. One byte permute sorts a register by byte number, whatever the item size. Then 128-bit lanes, 8-byte and
//! 4-byte elements are exchanged between registers. The inverse does the same in reverse order. One affine instruction
//! over GF(2) transposes bits.

use std::arch::x86_64::*;

use super::avx2;
use super::bounds::CACHE_LINE_LEN;
use super::kernel::{Kernels, Tile, call_functions};
use super::lanes::by_columns;
use super::scan::{self, Scan};
use super::vector::{fence, load16, load64, prefetch, prefetch_ahead, store16, store64, stream64};
use super::views::{Items, ItemsMut, Planes, PlanesMut, groups};

/// Items per group.
const GROUP: usize = 64;

/// Proves that the CPU has all features the kernels use: only [`Avx512::detect`] creates values.
#[derive(Debug)]
pub(super) struct Avx512(());

impl Avx512 {
    /// Returns the kernels if the CPU has all required features.
    pub(super) fn detect() -> Option<&'static dyn Kernels> {
        let found = std::is_x86_feature_detected!("avx512f")
            && std::is_x86_feature_detected!("avx512bw")
            && std::is_x86_feature_detected!("avx512vbmi")
            && std::is_x86_feature_detected!("gfni");
        if found { Some(&Self(())) } else { None }
    }
}

impl Kernels for Avx512 {
    fn name(&self) -> &'static str {
        "avx512"
    }
    call_functions! { gather scatter gather_bits scatter_bits prefetch stream fence }
    fn scan(&self, what: Scan, src: &[u8], dst: &mut [u8]) {
        // SAFETY: `self` exists, so `detect` found all features that the function enables.
        unsafe { scan::avx512::scan(what, src, dst) }
    }
    fn differences(&self, what: Scan, src: &[u8], dst: &mut [u8]) {
        // SAFETY: `self` exists, so `detect` found AVX2 as well.
        unsafe { scan::avx2::differences(what, src, dst) }
    }
    fn xor(&self, a: &[u8], b: &[u8], dst: &mut [u8], streaming: bool) {
        if streaming {
            // SAFETY: `self` exists, so `detect` found AVX2 as well.
            unsafe { scan::avx2::xor_streaming(a, b, dst) }
        } else {
            scan::xor(a, b, dst);
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
fn gather(items: &[u8], tile: Tile, planes: &mut [u8]) {
    // For 8 columns of wider items, each register takes eight small accesses whatever its width.
    if tile.n < GROUP || tile.cols == 8 && tile.pitch > 8 {
        return avx2::gather(items, tile, planes);
    }
    by_columns!(tile, gather_by(items, tile, planes), avx2::gather(items, tile, planes))
}

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
fn scatter(planes: &[&[u8]], tile: Tile, items: &mut [u8]) {
    // For 8 columns of wider items, each register takes eight small accesses whatever its width.
    if tile.n < GROUP || tile.cols == 8 && tile.pitch > 8 {
        return avx2::scatter(planes, tile, items);
    }
    by_columns!(tile, scatter_by(planes, tile, items), avx2::scatter(planes, tile, items))
}

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
fn gather_bits(items: &[u8], tile: Tile, planes: &mut [u8]) {
    if tile.n < GROUP {
        return avx2::gather_bits(items, tile, planes);
    }
    gather_by::<8, 8, true, true>(items, tile, planes)
}

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
fn scatter_bits(planes: &[&[u8]], tile: Tile, items: &mut [u8]) {
    if tile.n < GROUP {
        return avx2::scatter_bits(planes, tile, items);
    }
    scatter_by::<8, 8, true, true>(planes, tile, items)
}

/// Gathers at least `GROUP` items. `DENSE`: items are adjacent. `BITS`: transposes the bits of each item first.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
fn gather_by<const C: usize, const P: usize, const DENSE: bool, const BITS: bool>(
    items: &[u8],
    tile: Tile,
    planes: &mut [u8],
) {
    let by_byte = load64(&BY_BYTE[C], 0);
    let reverse = load64(&REVERSE, 0);
    let mut planes = PlanesMut::<C>::new(planes, tile.stride, tile.n);
    let source = Items::<C, DENSE>::new(items, tile.pitch, tile.n);
    let mut edge = [0; EDGE_LEN];
    for part in groups(tile.n, GROUP) {
        for i in part {
            if !BITS && DENSE {
                prefetch_ahead(source.address(i), GROUP * C);
            }
            let mut r = if beyond(C, P) == 0 || i + GROUP + beyond(C, P) <= tile.n {
                load_items::<C, P, DENSE>(&source, i)
            } else {
                let last = &items[i * tile.pitch..tile.items_len()];
                edge[..last.len()].copy_from_slice(last);
                load_items::<C, P, DENSE>(&Items::new(&edge, tile.pitch, GROUP + beyond(C, P)), 0)
            };
            for v in &mut r {
                if BITS {
                    *v = transpose_bits(_mm512_permutexvar_epi8(reverse, *v));
                }
                *v = _mm512_permutexvar_epi8(by_byte, *v);
            }
            if P == 16 {
                unpack4::<P, 1>(&mut r);
                unpack8::<P, 2>(&mut r);
            } else if P == 8 {
                unpack8::<P, 1>(&mut r);
            }
            trade_lanes(&mut r);
            for (j, &v) in r.iter().enumerate().take(C) {
                store64(planes.get::<GROUP>(j, i), 0, v);
            }
        }
    }
}

/// Scatters at least `GROUP` items. `DENSE`: items are adjacent. `BITS`: transposes the bits of each item last.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
fn scatter_by<const C: usize, const P: usize, const DENSE: bool, const BITS: bool>(
    planes: &[&[u8]],
    tile: Tile,
    items: &mut [u8],
) {
    let by_item = load64(if BITS { &BY_ITEM_REVERSED } else { &BY_ITEM[C] }, 0);
    let planes = Planes::<P>::new(&planes[..C], tile.n);
    let mut target = ItemsMut::<C, DENSE>::new(items, tile.pitch, tile.n);
    let mut edge = [0; EDGE_LEN];
    for part in groups(tile.n, GROUP) {
        for i in part {
            let mut r = [_mm512_setzero_si512(); P];
            for (j, v) in r.iter_mut().enumerate().take(C) {
                *v = load64(planes.get::<GROUP>(j, i), 0);
            }
            trade_lanes(&mut r);
            if P == 16 {
                unpack4::<P, 2>(&mut r);
                unpack8::<P, 1>(&mut r);
            } else if P == 8 {
                unpack8::<P, 1>(&mut r);
            }
            for v in &mut r {
                *v = _mm512_permutexvar_epi8(by_item, *v);
                if BITS {
                    *v = transpose_bits(*v);
                }
            }
            if beyond(C, P) == 0 || i + GROUP + beyond(C, P) <= tile.n {
                store_items::<C, P, DENSE>(r, &mut target, i);
            } else {
                let mut view = ItemsMut::<C, DENSE>::new(&mut edge, tile.pitch, GROUP + beyond(C, P));
                store_items::<C, P, DENSE>(r, &mut view, 0);
                let last = target.rest(i);
                last.copy_from_slice(&edge[..last.len()]);
            }
        }
    }
}

/// Loads a group of items, 64 / P per register.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
fn load_items<const C: usize, const P: usize, const DENSE: bool>(
    items: &Items<'_, C, DENSE>,
    i: usize,
) -> [__m512i; P] {
    let mut r = [_mm512_setzero_si512(); P];
    if DENSE {
        let places = items.places::<64>(i, GROUP / P, P);
        for (k, v) in r.iter_mut().enumerate() {
            *v = load64(places.get(k), 0);
        }
    } else {
        let places = items.places::<16>(i, 1, GROUP);
        for (k, r) in r.iter_mut().enumerate() {
            let v = _mm512_castsi128_si512(load16(places.get(4 * k), 0));
            let v = _mm512_inserti32x4::<1>(v, load16(places.get(4 * k + 1), 0));
            let v = _mm512_inserti32x4::<2>(v, load16(places.get(4 * k + 2), 0));
            *r = _mm512_inserti32x4::<3>(v, load16(places.get(4 * k + 3), 0));
        }
    }
    r
}

/// Stores a group of items in ascending order, so that each store overwrites the excess bytes of the one before.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
fn store_items<const C: usize, const P: usize, const DENSE: bool>(
    r: [__m512i; P],
    items: &mut ItemsMut<'_, C, DENSE>,
    i: usize,
) {
    if DENSE {
        let mut places = items.places::<64>(i, GROUP / P, P);
        for (k, &v) in r.iter().enumerate() {
            store64(places.get(k), 0, v);
        }
    } else {
        let mut places = items.places::<16>(i, 1, GROUP);
        for (k, &v) in r.iter().enumerate() {
            store16(places.get(4 * k), 0, _mm512_castsi512_si128(v));
            store16(places.get(4 * k + 1), 0, _mm512_extracti32x4_epi32::<1>(v));
            store16(places.get(4 * k + 2), 0, _mm512_extracti32x4_epi32::<2>(v));
            store16(places.get(4 * k + 3), 0, _mm512_extracti32x4_epi32::<3>(v));
        }
    }
}

/// Returns how many items past a group are touched by registers of 64 / `p` items. It is 0 if `c` equals `p`.
const fn beyond(c: usize, p: usize) -> usize {
    64usize.div_ceil(c) - 64 / p
}

/// Buffer size for a group and the items past it that are touched.
const EDGE_LEN: usize = (64 + 8) * 16;

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
fn stream(src: &[u8], dst: &mut [u8]) {
    for at in (0..dst.len()).step_by(CACHE_LINE_LEN) {
        stream64(dst, at, load64(src, at));
    }
}

/// Returns the position of byte `b` of item `i` in a register sorted by byte number.
const fn sorted(p: usize, b: usize, i: usize) -> usize {
    // For P = 16 the low bits of `b` are swapped, because two unpack steps follow each other.
    let b = if p == 16 { (b & 12) | ((b & 1) << 1) | ((b >> 1) & 1) } else { b };
    b * (GROUP / p) + i
}

/// Permutes, by item size, that sort adjacent items by byte number. Padding bytes are arbitrary.
static BY_BYTE: [[u8; 64]; 17] = tables(false);

/// Permutes, by item size, that reverse [`BY_BYTE`].
static BY_ITEM: [[u8; 64]; 17] = tables(true);

const fn tables(back: bool) -> [[u8; 64]; 17] {
    let mut tables = [[0; 64]; 17];
    let mut cols: usize = 2;
    while cols <= 16 {
        let p = cols.next_power_of_two();
        let mut k = 0;
        while k < GROUP / p * cols {
            let to = sorted(p, k % cols, k / cols);
            if back {
                tables[cols][k] = to as u8;
            } else {
                tables[cols][to] = k as u8;
            }
            k += 1;
        }
        cols += 1;
    }
    tables
}

/// Reverses the 8 bytes of each item: the order in which the affine instruction expects matrix rows.
static REVERSE: [u8; 64] = {
    let mut index = [0; 64];
    let mut k = 0;
    while k < 64 {
        index[k] = k as u8 ^ 7;
        k += 1;
    }
    index
};

/// Combines [`BY_ITEM`] for items of 8 bytes with [`REVERSE`].
static BY_ITEM_REVERSED: [u8; 64] = {
    let mut index = [0; 64];
    let mut k = 0;
    while k < 64 {
        index[k] = BY_ITEM[8][k ^ 7];
        k += 1;
    }
    index
};

/// Exchanges the lane number with the high bits of the register number: both of two, or one for `P` = 2.
#[inline]
#[target_feature(enable = "avx512f")]
fn trade_lanes<const P: usize>(r: &mut [__m512i; P]) {
    if P == 2 {
        let (a, b) = (r[0], r[1]);
        r[0] = _mm512_shuffle_i64x2::<0x44>(a, b);
        r[1] = _mm512_shuffle_i64x2::<0xEE>(a, b);
        return;
    }
    let step = P / 4;
    for k in 0..step {
        let a = _mm512_shuffle_i64x2::<0x44>(r[k], r[k + step]);
        let b = _mm512_shuffle_i64x2::<0xEE>(r[k], r[k + step]);
        let c = _mm512_shuffle_i64x2::<0x44>(r[k + 2 * step], r[k + 3 * step]);
        let d = _mm512_shuffle_i64x2::<0xEE>(r[k + 2 * step], r[k + 3 * step]);
        r[k] = _mm512_shuffle_i64x2::<0x88>(a, c);
        r[k + step] = _mm512_shuffle_i64x2::<0xDD>(a, c);
        r[k + 2 * step] = _mm512_shuffle_i64x2::<0x88>(b, d);
        r[k + 3 * step] = _mm512_shuffle_i64x2::<0xDD>(b, d);
    }
}

/// Interleaves 8-byte elements of registers whose numbers differ in the bit `BIT`.
#[inline]
#[target_feature(enable = "avx512f")]
fn unpack8<const P: usize, const BIT: usize>(r: &mut [__m512i; P]) {
    for k in 0..P {
        if k & BIT == 0 {
            let (a, b) = (r[k], r[k | BIT]);
            (r[k], r[k | BIT]) = (_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
        }
    }
}

/// Interleaves 4-byte elements of registers whose numbers differ in the bit `BIT`.
#[inline]
#[target_feature(enable = "avx512f")]
fn unpack4<const P: usize, const BIT: usize>(r: &mut [__m512i; P]) {
    for k in 0..P {
        if k & BIT == 0 {
            let (a, b) = (r[k], r[k | BIT]);
            (r[k], r[k | BIT]) = (_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
        }
    }
}

/// Transposes each 8 bytes, given in reverse order, as an 8 x 8 bit matrix.
#[inline]
#[target_feature(enable = "avx512f,gfni")]
fn transpose_bits(x: __m512i) -> __m512i {
    // Byte i of each 8 selects bit i of the matrix rows.
    let unit = _mm512_set1_epi64(0x8040_2010_0804_0201_u64 as i64);
    _mm512_gf2p8affine_epi64_epi8::<0>(unit, x)
}
