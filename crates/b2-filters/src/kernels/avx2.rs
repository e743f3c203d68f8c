//! AVX2: 32 items at a time, items 0 to 15 in the low lane and 16 to 31 in the high one.
//!
//! `P` is the item size rounded up to a power of two: `P` registers hold the group, 16 / P items per lane. Going
//! to planes, each lane is first sorted by byte number, then log2 P unpack steps trade one bit of the register
//! number (which items) against one bit of the position in the lane (which byte). Coming back, byte unpacks alone
//! do it. Columns from the item size up to `P` hold rubbish and are not stored.

use std::arch::x86_64::*;

use super::generic::Generic;
use super::vector::{load16, load32, store16, store32};
use super::{Kernels, Tile};

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
    fn scatter(&self, planes: &[u8], tile: Tile, items: &mut [u8]) {
        // SAFETY: `self` exists, so `detect` found AVX2.
        unsafe { scatter(planes, tile, items) }
    }
    fn gather_bits(&self, items: &[u8], tile: Tile, planes: &mut [u8]) {
        // SAFETY: `self` exists, so `detect` found AVX2.
        unsafe { gather_bits(items, tile, planes) }
    }
    fn scatter_bits(&self, planes: &[u8], tile: Tile, items: &mut [u8]) {
        // SAFETY: `self` exists, so `detect` found AVX2.
        unsafe { scatter_bits(planes, tile, items) }
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
pub(super) fn scatter(planes: &[u8], tile: Tile, items: &mut [u8]) {
    match (tile.cols, tile.pitch) {
        _ if tile.n < GROUP => Generic.scatter(planes, tile, items),
        (2, _) => scatter_by::<2, 2, false>(planes, tile, items),
        (3, _) => scatter_by::<4, 3, false>(planes, tile, items),
        (4, _) => scatter_by::<4, 4, false>(planes, tile, items),
        (8, _) => scatter_by::<8, 8, false>(planes, tile, items),
        (5..8, _) => scatter_by::<8, 0, false>(planes, tile, items),
        (16, 16) => scatter_by::<16, 16, false>(planes, tile, items),
        (9..=16, _) => scatter_by::<16, 0, false>(planes, tile, items),
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
pub(super) fn scatter_bits(planes: &[u8], tile: Tile, items: &mut [u8]) {
    if tile.n < GROUP {
        return Generic.scatter_bits(planes, tile, items);
    }
    scatter_by::<8, 8, true>(planes, tile, items)
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
    let by_byte = by_byte::<P>(tile.cols);
    let mut i = 0;
    while i < tile.n {
        // The last group reaches back into items already done.
        i = i.min(tile.n - GROUP);
        let from = &items[i * pitch..];
        let mut r = if from.len() >= reach::<P>(pitch) {
            load_group::<P>(from, pitch)
        } else {
            let mut edge = [0; GROUP * 16];
            edge[..from.len()].copy_from_slice(from);
            load_group::<P>(&edge, pitch)
        };
        for v in &mut r {
            if BITS {
                *v = transpose_bits(*v);
            }
            if P < 16 {
                *v = _mm256_shuffle_epi8(*v, by_byte);
            }
        }
        let r = to_planes(r);
        for j in 0..P {
            if j < tile.cols {
                // The steps leave the bits of the byte number in reverse order.
                let reversed = j.reverse_bits() >> (usize::BITS - P.ilog2());
                store32(planes, j * tile.stride + i, r[reversed]);
            }
        }
        i += GROUP;
    }
}

/// See [`gather_by`].
#[inline]
#[target_feature(enable = "avx2")]
fn scatter_by<const P: usize, const PITCH: usize, const BITS: bool>(
    planes: &[u8],
    tile: Tile,
    items: &mut [u8],
) {
    let items = &mut items[..tile.items_len()];
    let pitch = if PITCH == 0 { tile.pitch } else { PITCH };
    let by_item = by_item::<P>(tile.cols);
    let mut i = 0;
    while i < tile.n {
        i = i.min(tile.n - GROUP);
        let mut r = [_mm256_setzero_si256(); P];
        for (j, v) in r.iter_mut().enumerate() {
            if j < tile.cols {
                *v = load32(planes, j * tile.stride + i);
            }
        }
        let mut r = to_items(r);
        for v in &mut r {
            if BITS {
                *v = transpose_bits(*v);
            }
            if P < 16 && PITCH != P {
                *v = _mm256_shuffle_epi8(*v, by_item);
            }
        }
        let to = &mut items[i * pitch..];
        if PITCH == P {
            store_dense(r, to);
        } else if to.len() >= reach::<P>(pitch) {
            store_group(r, to, pitch);
        } else {
            let mut edge = [0; GROUP * 16];
            store_group(r, &mut edge, pitch);
            to.copy_from_slice(&edge[..to.len()]);
        }
        i += GROUP;
    }
}

/// Bytes that a group touches on the item side: 16 at a time, maybe beyond its last item.
fn reach<const P: usize>(pitch: usize) -> usize {
    (GROUP - 16 / P) * pitch + 16
}

#[inline]
#[target_feature(enable = "avx2")]
fn load_group<const P: usize>(items: &[u8], pitch: usize) -> [__m256i; P] {
    let items = &items[..reach::<P>(pitch)];
    let mut r = [_mm256_setzero_si256(); P];
    for (k, v) in r.iter_mut().enumerate() {
        let low = load16(items, k * (16 / P) * pitch);
        let high = load16(items, (16 + k * (16 / P)) * pitch);
        *v = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(low), high);
    }
    r
}

/// Ascending, so that what a store leaves beyond its items is written over by the next one.
#[inline]
#[target_feature(enable = "avx2")]
fn store_group<const P: usize>(r: [__m256i; P], items: &mut [u8], pitch: usize) {
    let items = &mut items[..reach::<P>(pitch)];
    for (k, &v) in r.iter().enumerate() {
        store16(items, k * (16 / P) * pitch, _mm256_castsi256_si128(v));
    }
    for (k, &v) in r.iter().enumerate() {
        store16(items, (16 + k * (16 / P)) * pitch, _mm256_extracti128_si256::<1>(v));
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn store_dense<const P: usize>(r: [__m256i; P], items: &mut [u8]) {
    let items = &mut items[..GROUP * P];
    for k in (0..P).step_by(2) {
        store32(items, 16 * k, _mm256_permute2x128_si256::<0x20>(r[k], r[k + 1]));
        store32(items, 16 * (P + k), _mm256_permute2x128_si256::<0x31>(r[k], r[k + 1]));
    }
}

/// Sorts the items of a lane, `cols` bytes each, by byte number; room for `P` bytes each.
#[inline]
#[target_feature(enable = "avx2")]
fn by_byte<const P: usize>(cols: usize) -> __m256i {
    let mut index = [0x80; 32];
    for i in 0..16 / P {
        for b in 0..cols.min(P) {
            index[b * (16 / P) + i] = (i * cols + b) as u8;
            index[16 + b * (16 / P) + i] = (i * cols + b) as u8;
        }
    }
    load32(&index, 0)
}

/// Closes the gaps between items of `cols` bytes that lie `P` bytes apart.
#[inline]
#[target_feature(enable = "avx2")]
fn by_item<const P: usize>(cols: usize) -> __m256i {
    let mut index = [0x80; 32];
    for i in 0..16 / P {
        for b in 0..cols.min(P) {
            index[i * cols + b] = (i * P + b) as u8;
            index[16 + i * cols + b] = (i * P + b) as u8;
        }
    }
    load32(&index, 0)
}

/// Items sorted by byte number within lanes, to planes (numbered with reversed bits).
#[inline]
#[target_feature(enable = "avx2")]
fn to_planes<const P: usize>(mut r: [__m256i; P]) -> [__m256i; P] {
    match P {
        2 => unpack::<P, 8, 1>(&mut r),
        4 => {
            unpack::<P, 4, 1>(&mut r);
            unpack::<P, 8, 2>(&mut r);
        }
        8 => {
            unpack::<P, 2, 1>(&mut r);
            unpack::<P, 4, 2>(&mut r);
            unpack::<P, 8, 4>(&mut r);
        }
        _ => {
            unpack::<P, 1, 1>(&mut r);
            unpack::<P, 2, 2>(&mut r);
            unpack::<P, 4, 4>(&mut r);
            unpack::<P, 8, 8>(&mut r);
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

/// Each 8 bytes as an 8 x 8 bit matrix: swaps single bits across the diagonal, then 2 x 2, then 4 x 4 bits.
#[inline]
#[target_feature(enable = "avx2")]
fn transpose_bits(x: __m256i) -> __m256i {
    let x = swap_bits::<7>(x, 0x00AA_00AA_00AA_00AA);
    let x = swap_bits::<14>(x, 0x0000_CCCC_0000_CCCC);
    swap_bits::<28>(x, 0x0000_0000_F0F0_F0F0)
}

/// Swaps the masked bits with those `D` places up.
#[inline]
#[target_feature(enable = "avx2")]
fn swap_bits<const D: i32>(x: __m256i, mask: i64) -> __m256i {
    let t = _mm256_and_si256(_mm256_xor_si256(x, _mm256_srli_epi64::<D>(x)), _mm256_set1_epi64x(mask));
    _mm256_xor_si256(x, _mm256_xor_si256(t, _mm256_slli_epi64::<D>(t)))
}
