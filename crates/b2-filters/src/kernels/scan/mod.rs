//! Running sums and XORs, and the differences that reverse them: used by byte delta, and by delta in block 0.
//!
//! Each sum depends on all inputs before it, so compilers do not vectorise these loops. In a vector it takes log2 N
//! steps: add the vector shifted by one element, then by two, by four, and so on. Between vectors there is only one
//! dependent addition, since a vector's own total is computed before the sum so far is added.

#[cfg(target_arch = "x86_64")]
pub(super) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(super) mod avx512;
#[cfg(target_arch = "aarch64")]
pub(super) mod neon;
#[cfg(test)]
mod tests;

/// The operation and element size of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scan {
    /// Bytes, modulo 256.
    Sum,
    /// Words of 1 byte, by XOR.
    Xor1,
    /// Words of 2 bytes, by XOR.
    Xor2,
    /// Words of 4 bytes, by XOR.
    Xor4,
    /// Words of 8 bytes, by XOR.
    Xor8,
}

/// A [`Scan`] as compile-time constants.
pub(super) trait Op {
    /// Bytes per element: 1, 2, 4 or 8.
    const WORD: usize;
    /// XOR of the elements, or else their sum modulo 256 (single bytes).
    const XOR: bool;

    /// The reference implementation, from byte `from` on. Earlier elements must be done already.
    fn plain(src: &[u8], dst: &mut [u8], from: usize) {
        for at in from..src.len().min(dst.len()) {
            let before = at.checked_sub(Self::WORD).map_or(0, |before| dst[before]);
            dst[at] = if Self::XOR { src[at] ^ before } else { src[at].wrapping_add(before) };
        }
    }
}

/// Calls a function with a [`Scan`] as its type argument.
macro_rules! by_op {
    ($what:expr, $function:ident, $src:expr, $dst:expr) => {
        match $what {
            Scan::Sum => $function::<Sums>($src, $dst),
            Scan::Xor1 => $function::<Xors<1>>($src, $dst),
            Scan::Xor2 => $function::<Xors<2>>($src, $dst),
            Scan::Xor4 => $function::<Xors<4>>($src, $dst),
            Scan::Xor8 => $function::<Xors<8>>($src, $dst),
        }
    };
}
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use by_op;

/// The reference implementation of differences, which compilers vectorise.
#[inline(always)]
fn differences_by<O: Op>(src: &[u8], dst: &mut [u8]) {
    let first = O::WORD.min(src.len());
    dst[..first].copy_from_slice(&src[..first]);
    for ((d, s), before) in dst[first..].iter_mut().zip(&src[first..]).zip(src) {
        *d = if O::XOR { s ^ before } else { s.wrapping_sub(*before) };
    }
}

/// Sums of bytes, modulo 256.
pub(super) struct Sums;

impl Op for Sums {
    const WORD: usize = 1;
    const XOR: bool = false;
}

/// XOR of words of `WORD` bytes.
pub(super) struct Xors<const WORD: usize>;

impl<const WORD: usize> Op for Xors<WORD> {
    const WORD: usize = WORD;
    const XOR: bool = true;
}

/// The portable scan. The slices must have the same length; the last element may be incomplete.
pub(super) fn scan(what: Scan, src: &[u8], dst: &mut [u8]) {
    match what {
        Scan::Sum => sums(src, dst),
        Scan::Xor1 => xors::<1>(src, dst),
        Scan::Xor2 => xors::<2>(src, dst),
        Scan::Xor4 => xors::<4>(src, dst),
        Scan::Xor8 => xors::<8>(src, dst),
    }
}

/// The portable XOR of two blocks.
#[inline(always)]
pub(super) fn xor(a: &[u8], b: &[u8], dst: &mut [u8]) {
    for ((d, a), b) in dst.iter_mut().zip(a).zip(b) {
        *d = a ^ b;
    }
}

/// The portable reverse of [`scan`]. Inlined, so that other instruction sets can compile it for themselves.
#[inline(always)]
pub(super) fn differences(what: Scan, src: &[u8], dst: &mut [u8]) {
    by_op!(what, differences_by, src, dst)
}

/// Computes eight sums at a time. A multiplication adds up the predecessors of a byte, with even and odd bytes separate
/// so that each sum has 16 bits.
fn sums(src: &[u8], dst: &mut [u8]) {
    const LOW: u64 = 0x00FF_00FF_00FF_00FF;
    const ONES: u64 = 0x0001_0001_0001_0001;
    let mut before = 0_u8;
    let (words, _) = src.as_chunks::<8>();
    let (outs, _) = dst.as_chunks_mut::<8>();
    for (s, d) in words.iter().zip(outs) {
        let x = u64::from_le_bytes(*s);
        let even = (x & LOW).wrapping_mul(ONES);
        let odd = ((x >> 8) & LOW).wrapping_mul(ONES);
        let carry = u64::from(before) * ONES;
        // An even byte follows the odd bytes of the earlier pairs. Each sum is at most 8 * 255 + 255.
        let upto_even = (even + (odd << 16) + carry) & LOW;
        let upto_odd = (even + odd + carry) & LOW;
        *d = (upto_even | (upto_odd << 8)).to_le_bytes();
        before = before.wrapping_add(((even + odd) >> 48) as u8);
    }
    Sums::plain(src, dst, words.len() * 8);
}

/// Computes running XORs. `WORD` is 1, 2, 4 or 8.
fn xors<const WORD: usize>(src: &[u8], dst: &mut [u8]) {
    // One word, repeated to fill eight bytes.
    let repeat = match WORD {
        1 => 0x0101_0101_0101_0101,
        2 => 0x0001_0001_0001_0001,
        4 => 0x0000_0001_0000_0001,
        _ => 1,
    };
    let mut before = 0_u64;
    let (words, _) = src.as_chunks::<8>();
    let (outs, _) = dst.as_chunks_mut::<8>();
    for (s, d) in words.iter().zip(outs) {
        let mut x = u64::from_le_bytes(*s);
        let mut bits = 8 * WORD;
        while bits < 64 {
            x ^= x << bits;
            bits *= 2;
        }
        *d = (x ^ before.wrapping_mul(repeat)).to_le_bytes();
        before ^= x >> (64 - 8 * WORD);
    }
    Xors::<WORD>::plain(src, dst, words.len() * 8);
}

/// Returns the shuffle that copies the last element of `LEN` bytes to all positions.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
const fn last_word<const LEN: usize>(word: usize) -> [u8; LEN] {
    let mut table = [0; LEN];
    let mut k = 0;
    while k < LEN {
        table[k] = (LEN - word + k % word) as u8;
        k += 1;
    }
    table
}
