//! Scans of 64 bytes at a time: within groups of 8 bytes first, then over the totals of the groups.

use std::arch::x86_64::*;

use super::{Op, Scan, Sums, Xors, by_op, last_word};
use crate::kernels::vector::{load64, store64};

/// Computes running sums like [`super::scan`].
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
pub(in crate::kernels) fn scan(what: Scan, src: &[u8], dst: &mut [u8]) {
    by_op!(what, scan_by, src, dst)
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn scan_by<O: Op>(src: &[u8], dst: &mut [u8]) {
    let total = load64(&const { total_word(O::WORD) }, 0);
    let last = load64(&const { last_word::<64>(O::WORD) }, 0);
    // The last element so far, broadcast.
    let mut before = _mm512_setzero_si512();
    let whole = src.len() & !63;
    for at in (0..whole).step_by(64) {
        let mut v = load64(src, at);
        if O::WORD <= 1 {
            v = add::<O>(v, _mm512_slli_epi64::<8>(v));
        }
        if O::WORD <= 2 {
            v = add::<O>(v, _mm512_slli_epi64::<16>(v));
        }
        if O::WORD <= 4 {
            v = add::<O>(v, _mm512_slli_epi64::<32>(v));
        }
        let mut groups = if O::WORD < 8 { _mm512_shuffle_epi8(v, total) } else { v };
        groups = add::<O>(groups, moved::<1>(groups));
        groups = add::<O>(groups, moved::<2>(groups));
        groups = add::<O>(groups, moved::<4>(groups));
        v = if O::WORD < 8 { add::<O>(v, moved::<1>(groups)) } else { groups };
        store64(dst, at, add::<O>(v, before));
        before = add::<O>(before, _mm512_permutexvar_epi8(last, groups));
    }
    O::plain(src, dst, whole);
}

/// Shifts all groups by `N` positions and fills with zeros.
#[inline]
#[target_feature(enable = "avx512f")]
fn moved<const N: usize>(v: __m512i) -> __m512i {
    let zero = _mm512_setzero_si512();
    match N {
        1 => _mm512_alignr_epi64::<7>(v, zero),
        2 => _mm512_alignr_epi64::<6>(v, zero),
        _ => _mm512_alignr_epi64::<4>(v, zero),
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn add<O: Op>(a: __m512i, b: __m512i) -> __m512i {
    if O::XOR { _mm512_xor_si512(a, b) } else { _mm512_add_epi8(a, b) }
}

/// Returns the shuffle within 16 bytes that broadcasts the last element of each group.
const fn total_word(word: usize) -> [u8; 64] {
    let mut table = last_word::<64>(word);
    let mut k = 0;
    while k < 64 {
        table[k] = (table[k] - 56) + (k & 8) as u8;
        k += 1;
    }
    table
}
