//! AVX-512 with VBMI and GFNI (Ice Lake, Zen 4 and later): 64 items at a time.
//!
//! As in the AVX2 kernels `P` is the item size rounded up to a power of two, and `P` registers hold the group, 64 / P
//! items each. One byte permute sorts a register by byte number, whatever the item size; then 128-bit lanes, 8-byte
//! and 4-byte elements are traded against the register number. The way back is the same in reverse. One affine
//! instruction over GF(2) transposes the bits.

use std::arch::x86_64::*;

use super::scan::{self, Scan};
use super::vector::{fence, load16, load64, misalignment, store16, store64, stream64};
use super::{Kernels, Tile, avx2, padded};

/// Items per group.
const GROUP: usize = 64;

/// Proof that the CPU has all that the kernels use: values come from [`Avx512::detect`] only.
#[derive(Debug)]
pub(super) struct Avx512(());

impl Avx512 {
    /// The kernels, if the CPU has what they need.
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
    fn gather(&self, items: &[u8], tile: Tile, planes: &mut [u8]) {
        // SAFETY: `self` exists, so `detect` found all features that the function enables.
        unsafe { gather(items, tile, planes) }
    }
    fn scatter(&self, planes: &[&[u8]], tile: Tile, items: &mut [u8]) {
        // SAFETY: `self` exists, so `detect` found all features that the function enables.
        unsafe { scatter(planes, tile, items) }
    }
    fn fence(&self) {
        fence();
    }
    fn gather_bits(&self, items: &[u8], tile: Tile, planes: &mut [u8]) {
        // SAFETY: `self` exists, so `detect` found all features that the function enables.
        unsafe { gather_bits(items, tile, planes) }
    }
    fn scatter_bits(&self, planes: &[&[u8]], tile: Tile, items: &mut [u8]) {
        // SAFETY: `self` exists, so `detect` found all features that the function enables.
        unsafe { scatter_bits(planes, tile, items) }
    }
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
    match (tile.cols, tile.pitch) {
        _ if tile.n < GROUP => avx2::gather(items, tile, planes),
        (2, _) => gather_by::<2, false, false>(items, tile, planes),
        (3..=4, _) => gather_by::<4, false, false>(items, tile, planes),
        (5..=8, _) => gather_by::<8, false, false>(items, tile, planes),
        (9..=16, pitch) if pitch == tile.cols => gather_by::<16, false, false>(items, tile, planes),
        (16, _) => gather_by::<16, true, false>(items, tile, planes),
        _ => avx2::gather(items, tile, planes),
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
fn scatter(planes: &[&[u8]], tile: Tile, items: &mut [u8]) {
    match (tile.cols, tile.pitch, tile.streaming) {
        _ if tile.n < GROUP => avx2::scatter(planes, tile, items),
        (2, _, false) => scatter_by::<2, false, false, false>(planes, tile, items),
        (2, _, true) => scatter_by::<2, false, false, true>(planes, tile, items),
        (4, _, true) => scatter_by::<4, false, false, true>(planes, tile, items),
        (3..=4, _, _) => scatter_by::<4, false, false, false>(planes, tile, items),
        (8, _, true) => scatter_by::<8, false, false, true>(planes, tile, items),
        (5..=8, _, _) => scatter_by::<8, false, false, false>(planes, tile, items),
        (16, 16, true) => scatter_by::<16, false, false, true>(planes, tile, items),
        (9..=16, pitch, _) if pitch == tile.cols => {
            scatter_by::<16, false, false, false>(planes, tile, items)
        }
        (16, _, _) => scatter_by::<16, true, false, false>(planes, tile, items),
        _ => avx2::scatter(planes, tile, items),
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
fn gather_bits(items: &[u8], tile: Tile, planes: &mut [u8]) {
    if tile.n < GROUP {
        return avx2::gather_bits(items, tile, planes);
    }
    gather_by::<8, false, true>(items, tile, planes)
}

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
fn scatter_bits(planes: &[&[u8]], tile: Tile, items: &mut [u8]) {
    if tile.n < GROUP {
        return avx2::scatter_bits(planes, tile, items);
    }
    if tile.streaming {
        scatter_by::<8, false, true, true>(planes, tile, items)
    } else {
        scatter_by::<8, false, true, false>(planes, tile, items)
    }
}

/// `SPREAD`: 16 bytes of items that are further apart. At least `GROUP` items.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
fn gather_by<const P: usize, const SPREAD: bool, const BITS: bool>(
    items: &[u8],
    tile: Tile,
    planes: &mut [u8],
) {
    let cols = if BITS { 8 } else { tile.cols };
    let by_byte = load64(&BY_BYTE[cols], 0);
    let reverse = load64(&REVERSE, 0);
    let mut edge = [0; GROUP * 16];
    let mut i = 0;
    while i < tile.n {
        // The last group reaches back into items already done.
        i = i.min(tile.n - GROUP);
        let from = &items[i * tile.pitch..];
        let fits = from.len() >= reach::<P, SPREAD>(tile.pitch);
        let from = if fits { from } else { padded(from, &mut edge) };
        let mut r = [_mm512_setzero_si512(); P];
        for (k, v) in r.iter_mut().enumerate() {
            let at = k * (GROUP / P) * tile.pitch;
            *v = if SPREAD {
                let v = _mm512_castsi128_si512(load16(from, at));
                let v = _mm512_inserti32x4::<1>(v, load16(from, at + tile.pitch));
                let v = _mm512_inserti32x4::<2>(v, load16(from, at + 2 * tile.pitch));
                _mm512_inserti32x4::<3>(v, load16(from, at + 3 * tile.pitch))
            } else {
                load64(from, at)
            };
        }
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
        for (j, &v) in r.iter().enumerate() {
            if j < cols {
                store64(planes, j * tile.stride + i, v);
            }
        }
        i += GROUP;
    }
}

/// See [`gather_by`]. `STREAM`, for dense items of `P` bytes: past the caches.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
fn scatter_by<const P: usize, const SPREAD: bool, const BITS: bool, const STREAM: bool>(
    planes: &[&[u8]],
    tile: Tile,
    items: &mut [u8],
) {
    let items = &mut items[..tile.items_len()];
    let cols = if BITS { 8 } else { tile.cols };
    let by_item = load64(if BITS { &BY_ITEM_REVERSED } else { &BY_ITEM[cols] }, 0);
    let mut edge = [0; GROUP * 16];
    let mut i = 0;
    while i < tile.n {
        i = i.min(tile.n - GROUP);
        let mut r = [_mm512_setzero_si512(); P];
        for (j, v) in r.iter_mut().enumerate() {
            if j < cols {
                *v = load64(planes[j], i);
            }
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
        let to = &mut items[i * tile.pitch..];
        if STREAM && misalignment::<64>(to, 0) == 0 {
            for (k, &v) in r.iter().enumerate() {
                stream64(to, 64 * k, v);
            }
            i += GROUP;
            continue;
        }
        let fits = to.len() >= reach::<P, SPREAD>(tile.pitch);
        let out = if fits { &mut *to } else { &mut edge };
        // Ascending, so that what a store leaves beyond its items is written over by the next one.
        for (k, &v) in r.iter().enumerate() {
            let at = k * (GROUP / P) * tile.pitch;
            if SPREAD {
                store16(out, at, _mm512_castsi512_si128(v));
                store16(out, at + tile.pitch, _mm512_extracti32x4_epi32::<1>(v));
                store16(out, at + 2 * tile.pitch, _mm512_extracti32x4_epi32::<2>(v));
                store16(out, at + 3 * tile.pitch, _mm512_extracti32x4_epi32::<3>(v));
            } else {
                store64(out, at, v);
            }
        }
        if !fits {
            to.copy_from_slice(&edge[..to.len()]);
        }
        i += GROUP;
        if STREAM && i == GROUP && tile.n > GROUP {
            // Back to an item at the start of a cache line, where there is one.
            i -= misalignment::<64>(items, 0) / P;
        }
    }
}

/// Bytes that a group touches on the item side, maybe beyond its last item.
fn reach<const P: usize, const SPREAD: bool>(pitch: usize) -> usize {
    if SPREAD { (GROUP - 1) * pitch + 16 } else { (GROUP - GROUP / P) * pitch + 64 }
}

/// Where byte `b` of item `i` stands in a register sorted by byte number.
const fn sorted(p: usize, b: usize, i: usize) -> usize {
    // For P = 16 the low bits of `b` change places, since two unpack steps follow each other.
    let b = if p == 16 { (b & 12) | ((b & 1) << 1) | ((b >> 1) & 1) } else { b };
    b * (GROUP / p) + i
}

/// By item size: sorts dense items by byte number; the places of absent bytes get rubbish.
static BY_BYTE: [[u8; 64]; 17] = tables(false);

/// By item size: the way back.
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

/// The 8 bytes of each item last to first: the order in which the affine instruction wants its matrix rows.
static REVERSE: [u8; 64] = {
    let mut index = [0; 64];
    let mut k = 0;
    while k < 64 {
        index[k] = k as u8 ^ 7;
        k += 1;
    }
    index
};

/// [`BY_ITEM`] for items of 8 bytes and [`REVERSE`] in one.
static BY_ITEM_REVERSED: [u8; 64] = {
    let mut index = [0; 64];
    let mut k = 0;
    while k < 64 {
        index[k] = BY_ITEM[8][k ^ 7];
        k += 1;
    }
    index
};

/// Trades the lane number against the high bits of the register number: both of two, or one for `P` = 2.
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

/// Interleaves 8-byte elements of the registers whose numbers differ in the bit `BIT`.
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

/// Interleaves 4-byte elements of the registers whose numbers differ in the bit `BIT`.
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

/// Each 8 bytes, given last to first, as an 8 x 8 bit matrix, transposed.
#[inline]
#[target_feature(enable = "avx512f,gfni")]
fn transpose_bits(x: __m512i) -> __m512i {
    // Byte i of each 8 selects bit i of the matrix rows.
    let unit = _mm512_set1_epi64(0x8040_2010_0804_0201_u64 as i64);
    _mm512_gf2p8affine_epi64_epi8::<0>(unit, x)
}
