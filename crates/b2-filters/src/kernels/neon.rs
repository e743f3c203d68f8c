//! NEON kernels: 16 items at a time.
//!
//! `P` is the item size rounded up to a power of two. `P` registers hold a group, 16 / P items each, padded to `P`
//! bytes per item. Regarded as one row of bytes, log2 P unzip steps move each byte number into a separate register, and
//! zips reverse that. Columns from the item size up to `P` hold arbitrary bytes and are not stored.

use std::arch::aarch64::*;

use super::bounds::padded;
use super::generic::Generic;
use super::kernel::{Kernels, Tile, call_functions};
use super::neon_vector::{load16, store16};
use super::scan::{self, Scan};

/// Items per group.
const GROUP: usize = 16;

/// Proves that the CPU has NEON: only [`Neon::detect`] creates values.
#[derive(Debug)]
pub(super) struct Neon(());

impl Neon {
    /// Returns the kernels if the CPU has NEON.
    pub(super) fn detect() -> Option<&'static dyn Kernels> {
        if std::arch::is_aarch64_feature_detected!("neon") { Some(&Self(())) } else { None }
    }
}

impl Kernels for Neon {
    fn name(&self) -> &'static str {
        "neon"
    }
    call_functions! { gather scatter gather_bits scatter_bits }
    fn scan(&self, what: Scan, src: &[u8], dst: &mut [u8]) {
        // SAFETY: `self` exists, so `detect` found NEON.
        unsafe { scan::neon::scan(what, src, dst) }
    }
}

#[target_feature(enable = "neon")]
fn gather(items: &[u8], tile: Tile, planes: &mut [u8]) {
    match tile.cols {
        _ if tile.n < GROUP => Generic.gather(items, tile, planes),
        2 => gather_by::<2, 2, false>(items, tile, planes),
        3 => gather_by::<4, 0, false>(items, tile, planes),
        4 => gather_by::<4, 4, false>(items, tile, planes),
        5..8 => gather_by::<8, 0, false>(items, tile, planes),
        8 if tile.pitch > 8 => Generic.gather(items, tile, planes),
        8 => gather_by::<8, 8, false>(items, tile, planes),
        16 if tile.pitch == 16 => gather_by::<16, 16, false>(items, tile, planes),
        9..=16 => gather_by::<16, 0, false>(items, tile, planes),
        _ => Generic.gather(items, tile, planes),
    }
}

#[target_feature(enable = "neon")]
fn scatter(planes: &[&[u8]], tile: Tile, items: &mut [u8]) {
    match tile.cols {
        _ if tile.n < GROUP => Generic.scatter(planes, tile, items),
        2 => scatter_by::<2, 2, false>(planes, tile, items),
        3 => scatter_by::<4, 0, false>(planes, tile, items),
        4 => scatter_by::<4, 4, false>(planes, tile, items),
        5..8 => scatter_by::<8, 0, false>(planes, tile, items),
        8 if tile.pitch > 8 => Generic.scatter(planes, tile, items),
        8 => scatter_by::<8, 8, false>(planes, tile, items),
        16 if tile.pitch == 16 => scatter_by::<16, 16, false>(planes, tile, items),
        9..=16 => scatter_by::<16, 0, false>(planes, tile, items),
        _ => Generic.scatter(planes, tile, items),
    }
}

#[target_feature(enable = "neon")]
fn gather_bits(items: &[u8], tile: Tile, planes: &mut [u8]) {
    if tile.n < GROUP {
        return Generic.gather_bits(items, tile, planes);
    }
    gather_by::<8, 8, true>(items, tile, planes)
}

#[target_feature(enable = "neon")]
fn scatter_bits(planes: &[&[u8]], tile: Tile, items: &mut [u8]) {
    if tile.n < GROUP {
        return Generic.scatter_bits(planes, tile, items);
    }
    scatter_by::<8, 8, true>(planes, tile, items)
}

/// Gathers at least `GROUP` items. `PITCH` is the pitch of the tile if it equals `P`, otherwise 0.
#[inline]
#[target_feature(enable = "neon")]
fn gather_by<const P: usize, const PITCH: usize, const BITS: bool>(
    items: &[u8],
    tile: Tile,
    planes: &mut [u8],
) {
    let pitch = if PITCH == 0 { tile.pitch } else { PITCH };
    let cols = if PITCH == 0 { tile.cols } else { PITCH };
    let spread = load16(&SPREAD[cols], 0);
    let mut edge = [0; GROUP * 16];
    let mut i = 0;
    while i < tile.n {
        // The last group overlaps items that are already done.
        i = i.min(tile.n - GROUP);
        let from = &items[i * pitch..];
        let from = if from.len() >= reach::<P>(pitch) { from } else { padded(from, &mut edge) };
        let mut r = [vdupq_n_u8(0); P];
        for (k, v) in r.iter_mut().enumerate() {
            *v = load16(from, k * (16 / P) * pitch);
            if P < 16 && PITCH != P {
                *v = vqtbl1q_u8(*v, spread);
            }
        }
        let mut step = 1;
        while step < P {
            r = unzip(r);
            step *= 2;
        }
        if BITS {
            transpose_bits(&mut r);
        }
        for (j, &v) in r.iter().enumerate() {
            if j < cols {
                store16(planes, j * tile.stride + i, v);
            }
        }
        i += GROUP;
    }
}

/// Scatters at least `GROUP` items. `PITCH` is the pitch of the tile if it equals `P`, otherwise 0.
#[inline]
#[target_feature(enable = "neon")]
fn scatter_by<const P: usize, const PITCH: usize, const BITS: bool>(
    planes: &[&[u8]],
    tile: Tile,
    items: &mut [u8],
) {
    let items = &mut items[..tile.items_len()];
    let pitch = if PITCH == 0 { tile.pitch } else { PITCH };
    let cols = if PITCH == 0 { tile.cols } else { PITCH };
    let close = load16(&CLOSE[cols], 0);
    // Missing columns read the first plane. Their bytes are arbitrary, but the loop needs no branch.
    let planes: [&[u8]; P] = std::array::from_fn(|j| planes[if j < cols { j } else { 0 }]);
    let mut edge = [0; GROUP * 16];
    let mut i = 0;
    while i < tile.n {
        i = i.min(tile.n - GROUP);
        let mut r = [vdupq_n_u8(0); P];
        for (v, plane) in r.iter_mut().zip(planes) {
            *v = load16(plane, i);
        }
        if BITS {
            transpose_bits(&mut r);
        }
        let mut step = 1;
        while step < P {
            r = zip(r);
            step *= 2;
        }
        for v in &mut r {
            if P < 16 && PITCH != P {
                *v = vqtbl1q_u8(*v, close);
            }
        }
        let to = &mut items[i * pitch..];
        let fits = to.len() >= reach::<P>(pitch);
        let out = if fits { &mut *to } else { &mut edge };
        // In ascending order, so that each store overwrites the excess bytes of the one before.
        for (k, &v) in r.iter().enumerate() {
            store16(out, k * (16 / P) * pitch, v);
        }
        if !fits {
            to.copy_from_slice(&edge[..to.len()]);
        }
        i += GROUP;
    }
}

/// Returns how many bytes a group touches on the item side: in units of 16, possibly past its last item.
fn reach<const P: usize>(pitch: usize) -> usize {
    (GROUP - 16 / P) * pitch + 16
}

/// Shuffles, by item size, that move adjacent items `P` bytes apart.
static SPREAD: [[u8; 16]; 17] = tables(true);

/// Shuffles, by item size, that close the gaps between items `P` bytes apart.
static CLOSE: [[u8; 16]; 17] = tables(false);

const fn tables(spread: bool) -> [[u8; 16]; 17] {
    // An index out of range selects zero.
    let mut tables = [[0x80; 16]; 17];
    let mut cols: usize = 2;
    while cols <= 16 {
        let p = cols.next_power_of_two();
        let mut k = 0;
        while k < 16 / p * cols {
            let wide = k / cols * p + k % cols;
            if spread {
                tables[cols][wide] = k as u8;
            } else {
                tables[cols][k] = wide as u8;
            }
            k += 1;
        }
        cols += 1;
    }
    tables
}

/// Unzips the row of registers: the even bytes, then the odd ones.
#[inline]
#[target_feature(enable = "neon")]
fn unzip<const P: usize>(r: [uint8x16_t; P]) -> [uint8x16_t; P] {
    let mut out = r;
    for k in 0..P / 2 {
        out[k] = vuzp1q_u8(r[2 * k], r[2 * k + 1]);
        out[k + P / 2] = vuzp2q_u8(r[2 * k], r[2 * k + 1]);
    }
    out
}

/// Zips the row of registers: interleaves the bytes of its first and second half.
#[inline]
#[target_feature(enable = "neon")]
fn zip<const P: usize>(r: [uint8x16_t; P]) -> [uint8x16_t; P] {
    let mut out = r;
    for k in 0..P / 2 {
        out[2 * k] = vzip1q_u8(r[k], r[k + P / 2]);
        out[2 * k + 1] = vzip2q_u8(r[k], r[k + P / 2]);
    }
    out
}

/// Transposes the bytes at one position in 8 registers as an 8 x 8 bit matrix: swaps single bits across the diagonal,
/// then 2 x 2, then 4 x 4 bits.
#[inline]
#[target_feature(enable = "neon")]
fn transpose_bits<const P: usize>(r: &mut [uint8x16_t; P]) {
    swap_bits::<P, 1>(r, 0x55);
    swap_bits::<P, 2>(r, 0x33);
    for k in 0..4 {
        let (a, b) = (r[k], r[k + 4]);
        r[k] = vsliq_n_u8::<4>(a, b);
        r[k + 4] = vsriq_n_u8::<4>(b, a);
    }
}

/// Swaps the high bits of registers with the low bits (`low`) of the registers whose number is `D` greater.
#[inline]
#[target_feature(enable = "neon")]
fn swap_bits<const P: usize, const D: i32>(r: &mut [uint8x16_t; P], low: u8) {
    let low = vdupq_n_u8(low);
    for k in 0..P {
        if k & D as usize == 0 {
            let (a, b) = (r[k], r[k | D as usize]);
            r[k] = vbslq_u8(low, a, vshlq_n_u8::<D>(b));
            r[k | D as usize] = vbslq_u8(low, vshrq_n_u8::<D>(a), b);
        }
    }
}
