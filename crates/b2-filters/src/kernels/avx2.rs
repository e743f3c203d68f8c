//! AVX2: 32 items at a time, items 0 to 15 in the low lane and 16 to 31 in the high one.
//!
//! `P` is the item size rounded up to a power of two: `P` registers hold the group, 16 / P items per lane. Going
//! to planes, each lane is first sorted by byte number, then log2 P unpack steps trade one bit of the register
//! number (which items) against one bit of the position in the lane (which byte). Coming back, byte unpacks alone
//! do it. Columns from the item size up to `P` hold rubbish and are not stored.

use std::arch::x86_64::*;

use super::generic::Generic;
use super::scan::{self, Scan};
use super::vector::{fence, load16, load32, misalignment, store16, store32, stream32};
use super::{Kernels, Tile, padded};

/// Items per group.
const GROUP: usize = 32;

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
    fn fence(&self) {
        fence();
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
}

#[target_feature(enable = "avx2")]
pub(super) fn gather(items: &[u8], tile: Tile, planes: &mut [u8]) {
    match (tile.cols, tile.pitch) {
        _ if tile.n < GROUP => Generic.gather(items, tile, planes),
        (2, _) => gather_by::<2, 2, false>(items, tile, planes),
        (3, _) => gather_by::<4, 3, false>(items, tile, planes),
        (4, _) => gather_by::<4, 4, false>(items, tile, planes),
        (8, _) => gather_by::<8, 8, false>(items, tile, planes),
        (5..8, _) => gather_by::<8, 0, false>(items, tile, planes),
        (16, 16) => gather_by::<16, 16, false>(items, tile, planes),
        (9..=16, _) => gather_by::<16, 0, false>(items, tile, planes),
        _ => Generic.gather(items, tile, planes),
    }
}

#[target_feature(enable = "avx2")]
pub(super) fn scatter(planes: &[&[u8]], tile: Tile, items: &mut [u8]) {
    match (tile.cols, tile.pitch, tile.streaming) {
        _ if tile.n < GROUP => Generic.scatter(planes, tile, items),
        (2, _, false) => scatter_by::<2, 2, false, false>(planes, tile, items),
        (2, _, true) => scatter_by::<2, 2, false, true>(planes, tile, items),
        (3, _, _) => scatter_by::<4, 3, false, false>(planes, tile, items),
        (4, _, false) => scatter_by::<4, 4, false, false>(planes, tile, items),
        (4, _, true) => scatter_by::<4, 4, false, true>(planes, tile, items),
        (8, _, false) => scatter_by::<8, 8, false, false>(planes, tile, items),
        (8, _, true) => scatter_by::<8, 8, false, true>(planes, tile, items),
        (5..8, _, _) => scatter_by::<8, 0, false, false>(planes, tile, items),
        (16, 16, false) => scatter_by::<16, 16, false, false>(planes, tile, items),
        (16, 16, true) => scatter_by::<16, 16, false, true>(planes, tile, items),
        (9..=16, _, _) => scatter_by::<16, 0, false, false>(planes, tile, items),
        _ => Generic.scatter(planes, tile, items),
    }
}

#[target_feature(enable = "avx2")]
pub(super) fn gather_bits(items: &[u8], tile: Tile, planes: &mut [u8]) {
    if tile.n < GROUP {
        return Generic.gather_bits(items, tile, planes);
    }
    gather_by::<8, 8, true>(items, tile, planes)
}

#[target_feature(enable = "avx2")]
pub(super) fn scatter_bits(planes: &[&[u8]], tile: Tile, items: &mut [u8]) {
    if tile.n < GROUP {
        return Generic.scatter_bits(planes, tile, items);
    }
    if tile.streaming {
        scatter_by::<8, 8, true, true>(planes, tile, items)
    } else {
        scatter_by::<8, 8, true, false>(planes, tile, items)
    }
}

/// `PITCH` is the tile's pitch where it is worth a copy of the code, or 0. At least `GROUP` items.
#[inline]
#[target_feature(enable = "avx2")]
fn gather_by<const P: usize, const PITCH: usize, const BITS: bool>(
    items: &[u8],
    tile: Tile,
    planes: &mut [u8],
) {
    let pitch = if PITCH == 0 { tile.pitch } else { PITCH };
    let cols = if BITS { 8 } else { tile.cols };
    let by_byte = _mm256_broadcastsi128_si256(load16(&BY_BYTE[cols], 0));
    let mut edge = [0; GROUP * 16];
    let mut i = 0;
    while i < tile.n {
        // The last group reaches back into items already done.
        i = i.min(tile.n - GROUP);
        let from = &items[i * pitch..];
        let fits = from.len() >= reach::<P>(pitch);
        let from = if fits { from } else { padded(from, &mut edge) };
        let mut r = [_mm256_setzero_si256(); P];
        for (k, v) in r.iter_mut().enumerate() {
            let low = load16(from, k * (16 / P) * pitch);
            let high = load16(from, (16 + k * (16 / P)) * pitch);
            *v = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(low), high);
        }
        for v in &mut r {
            if P < 16 {
                *v = _mm256_shuffle_epi8(*v, by_byte);
            }
        }
        let mut r = to_planes(r);
        if BITS {
            transpose_bits(&mut r);
        }
        for (j, &v) in r.iter().enumerate() {
            if j < cols {
                store32(planes, j * tile.stride + i, v);
            }
        }
        i += GROUP;
    }
}

/// See [`gather_by`]. `STREAM`, for `PITCH` = `P`: past the caches.
#[inline]
#[target_feature(enable = "avx2")]
fn scatter_by<const P: usize, const PITCH: usize, const BITS: bool, const STREAM: bool>(
    planes: &[&[u8]],
    tile: Tile,
    items: &mut [u8],
) {
    let items = &mut items[..tile.items_len()];
    let pitch = if PITCH == 0 { tile.pitch } else { PITCH };
    let cols = if BITS { 8 } else { tile.cols };
    let by_item = _mm256_broadcastsi128_si256(load16(&BY_ITEM[cols], 0));
    let mut edge = [0; GROUP * 16];
    let mut i = 0;
    while i < tile.n {
        i = i.min(tile.n - GROUP);
        let mut r = [_mm256_setzero_si256(); P];
        for (j, v) in r.iter_mut().enumerate() {
            if j < cols {
                *v = load32(planes[j], i);
            }
        }
        if BITS {
            transpose_bits(&mut r);
        }
        let mut r = to_items(r);
        for v in &mut r {
            if P < 16 && PITCH != P {
                *v = _mm256_shuffle_epi8(*v, by_item);
            }
        }
        let to = &mut items[i * pitch..];
        if STREAM && misalignment::<32>(to, 0) == 0 {
            for k in (0..P).step_by(2) {
                stream32(to, 16 * k, _mm256_permute2x128_si256::<0x20>(r[k], r[k + 1]));
                stream32(to, 16 * (P + k), _mm256_permute2x128_si256::<0x31>(r[k], r[k + 1]));
            }
        } else if PITCH == P {
            let to = &mut to[..GROUP * P];
            for k in (0..P).step_by(2) {
                store32(to, 16 * k, _mm256_permute2x128_si256::<0x20>(r[k], r[k + 1]));
                store32(to, 16 * (P + k), _mm256_permute2x128_si256::<0x31>(r[k], r[k + 1]));
            }
        } else {
            let fits = to.len() >= reach::<P>(pitch);
            let out = if fits { &mut *to } else { &mut edge };
            // Ascending, so that what a store leaves beyond its items is written over by the next one.
            for (k, &v) in r.iter().enumerate() {
                store16(out, k * (16 / P) * pitch, _mm256_castsi256_si128(v));
            }
            for (k, &v) in r.iter().enumerate() {
                store16(out, (16 + k * (16 / P)) * pitch, _mm256_extracti128_si256::<1>(v));
            }
            if !fits {
                to.copy_from_slice(&edge[..to.len()]);
            }
        }
        i += GROUP;
        if STREAM && i == GROUP && tile.n > GROUP {
            // Back to an item at an aligned address, where there is one.
            i -= misalignment::<32>(items, 0) / P;
        }
    }
}

/// Bytes that a group touches on the item side: 16 at a time, maybe beyond its last item.
fn reach<const P: usize>(pitch: usize) -> usize {
    (GROUP - 16 / P) * pitch + 16
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

/// Items sorted by byte number within lanes, to planes.
#[inline]
#[target_feature(enable = "avx2")]
fn to_planes<const P: usize>(mut r: [__m256i; P]) -> [__m256i; P] {
    // Each step leaves one bit of the byte number in the register number, the highest one in the lowest place: the
    // swaps reverse them.
    match P {
        2 => unpack::<P, 8, 1>(&mut r),
        4 => {
            unpack::<P, 4, 1>(&mut r);
            unpack::<P, 8, 2>(&mut r);
            r.swap(1, 2);
        }
        8 => {
            unpack::<P, 2, 1>(&mut r);
            unpack::<P, 4, 2>(&mut r);
            unpack::<P, 8, 4>(&mut r);
            r.swap(1, 4);
            r.swap(3, 6);
        }
        _ => {
            unpack::<P, 1, 1>(&mut r);
            unpack::<P, 2, 2>(&mut r);
            unpack::<P, 4, 4>(&mut r);
            unpack::<P, 8, 8>(&mut r);
            r.swap(1, 8);
            r.swap(2, 4);
            r.swap(3, 12);
            r.swap(5, 10);
            r.swap(7, 14);
            r.swap(11, 13);
        }
    }
    r
}

/// Planes to items `P` bytes apart.
#[inline]
#[target_feature(enable = "avx2")]
fn to_items<const P: usize>(mut r: [__m256i; P]) -> [__m256i; P] {
    unpack::<P, 1, 8>(&mut r);
    unpack::<P, 1, 4>(&mut r);
    unpack::<P, 1, 2>(&mut r);
    unpack::<P, 1, 1>(&mut r);
    r
}

/// Interleaves elements of `WIDTH` bytes of the registers whose numbers differ in the bit `BIT`, if there are any.
#[inline]
#[target_feature(enable = "avx2")]
fn unpack<const P: usize, const WIDTH: usize, const BIT: usize>(r: &mut [__m256i; P]) {
    for k in 0..P {
        if BIT < P && k & BIT == 0 {
            let (a, b) = (r[k], r[k | BIT]);
            (r[k], r[k | BIT]) = match WIDTH {
                1 => (_mm256_unpacklo_epi8(a, b), _mm256_unpackhi_epi8(a, b)),
                2 => (_mm256_unpacklo_epi16(a, b), _mm256_unpackhi_epi16(a, b)),
                4 => (_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b)),
                _ => (_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b)),
            };
        }
    }
}

/// The bytes at one place in 8 registers as an 8 x 8 bit matrix: swaps single bits across the diagonal, then
/// 2 x 2, then 4 x 4 bits. Across registers this takes half the steps that it takes within each item.
#[inline]
#[target_feature(enable = "avx2")]
fn transpose_bits<const P: usize>(r: &mut [__m256i; P]) {
    swap_bits::<P, 1>(r, 0x55);
    swap_bits::<P, 2>(r, 0x33);
    swap_bits::<P, 4>(r, 0x0F);
}

/// Swaps the high bits of registers with the low bits (`low`) of those whose number is `D` more.
#[inline]
#[target_feature(enable = "avx2")]
fn swap_bits<const P: usize, const D: i32>(r: &mut [__m256i; P], low: i8) {
    let low = _mm256_set1_epi8(low);
    for k in 0..P {
        if k & D as usize == 0 {
            let (a, b) = (r[k], r[k | D as usize]);
            // 16-bit shifts: the mask drops what comes over from the neighbouring byte.
            let t = _mm256_and_si256(_mm256_xor_si256(_mm256_srli_epi16::<D>(a), b), low);
            r[k | D as usize] = _mm256_xor_si256(b, t);
            r[k] = _mm256_xor_si256(a, _mm256_slli_epi16::<D>(t));
        }
    }
}
