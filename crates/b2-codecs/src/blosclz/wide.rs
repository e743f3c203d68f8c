//! The inner loop of the blosclz decoder for x86-64. See [`super`] for the format.

#![allow(unsafe_code)]

use super::format::{FAR_BASE, LITERAL_MAX};
use crate::lz77::copier::{self, Copier, SLACK};
use crate::lz77::{At, Isa, Set, length_bytes};

/// Decodes blosclz tokens until one needs the exact decoder, and returns its position. Not for the first token.
#[inline]
pub(super) fn tokens(isa: Isa, src: &[u8], dst: &mut [u8], at: At) -> At {
    if isa.set() == Set::Generic {
        return at;
    }
    let At { ip, op } = tokens_before(isa, src, src.len(), dst, at);
    // The last tokens are decoded from a copy with room behind it. In short streams they are most of all.
    let Some(rest) = src.get(ip..).filter(|rest| (LAST_RUN..=SLACK).contains(&rest.len())) else {
        return At { ip, op };
    };
    if dst.len() - op < SLACK {
        return At { ip, op };
    }
    let mut padded = [0; 2 * SLACK + 1];
    padded[..rest.len()].copy_from_slice(rest);
    let after = tokens_before(isa, &padded, rest.len(), dst, At { ip: 0, op });
    At { ip: ip + after.ip, op: after.op }
}

/// With fewer bytes left, there are few tokens.
const LAST_RUN: usize = 6;

/// Decodes tokens that end before byte `end` of `src`; there may be other bytes from there on.
#[inline]
fn tokens_before(isa: Isa, src: &[u8], end: usize, dst: &mut [u8], at: At) -> At {
    match isa.set() {
        // SAFETY: the value says that the CPU has these instructions.
        Set::Avx512 => unsafe { avx512(src, end, dst, at) },
        // SAFETY: as above.
        Set::Avx2 => unsafe { avx2(src, end, dst, at) },
        Set::Generic => at,
    }
}

/// Decodes tokens with AVX-512.
///
/// # Safety
/// The CPU must have AVX-512 F, BW, VL and VBMI.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx2,bmi1,bmi2")]
unsafe fn avx512(src: &[u8], end: usize, dst: &mut [u8], at: At) -> At {
    // SAFETY: the instructions of the copier are enabled here.
    unsafe { tokens_with::<copier::Avx512>(src, end, dst, at) }
}

/// Decodes tokens with AVX2.
///
/// # Safety
/// The CPU must have AVX2.
#[target_feature(enable = "avx2,bmi1,bmi2")]
unsafe fn avx2(src: &[u8], end: usize, dst: &mut [u8], at: At) -> At {
    // SAFETY: the instructions of the copier are enabled here.
    unsafe { tokens_with::<copier::Avx2>(src, end, dst, at) }
}

/// Decodes tokens that end before byte `end` of `src`. In most streams it is unpredictable whether a token is a match or literals, so both use the same
/// instructions: `WIDTH` bytes are copied from the input or from the output.
///
/// # Safety
/// Must be inlined into a function with the instructions of `C` enabled.
#[inline(always)]
unsafe fn tokens_with<C: Copier>(src: &[u8], end: usize, dst: &mut [u8], at: At) -> At {
    const { assert!(C::WIDTH >= LITERAL_MAX && C::WIDTH <= SLACK) };
    let At { mut ip, mut op } = at;
    // Input required from a token on: the token and a copied literal run. A match without length bytes takes less.
    let (Some(last_ip), Some(last_op)) =
        (src.len().checked_sub(1 + C::WIDTH), dst.len().checked_sub(C::WIDTH))
    else {
        return at;
    };
    let input = src.as_ptr();
    let output = dst.as_mut_ptr();
    // `ip` and `op` advance only after a complete token.
    while ip <= last_ip && op <= last_op {
        // SAFETY: `1 + WIDTH` bytes, at least 33, are there from `ip` on.
        let read = |offset: usize| usize::from(unsafe { *input.add(ip + offset) });
        let control = read(0);
        let is_literal = control < 32;
        // All three high bits: a length byte follows.
        let is_long = usize::from(control >= 0xE0);
        let extension = read(1) & is_long.wrapping_neg();
        let distance = ((control & 31) << 8) + read(1 + is_long) + 1;
        // Literals are treated as a match at distance `WIDTH`, which does not overlap itself. The exact decoder handles
        // the first `WIDTH` bytes.
        let mut distance = select(is_literal, C::WIDTH, distance);
        let mut next = ip + select(is_literal, control + 2, 2 + is_long);
        let mut len = select(is_literal, control + 1, (control >> 5) + 2 + extension);
        if extension == 255 {
            let Some((more, after)) = length_bytes(src, ip + 2) else { break };
            // The distance follows the length bytes, and a token follows the distance.
            let Some(behind) = src.get(after..).and_then(<[u8]>::first_chunk::<4>) else { break };
            len += more;
            distance = ((control & 31) << 8) + usize::from(behind[0]) + 1;
            next = after + 1;
        }
        if distance == FAR_BASE {
            // SAFETY: at most 5 bytes from `ip` on, or as just checked.
            let more = unsafe { input.add(next).cast::<[u8; 2]>().read() };
            distance += usize::from(u16::from_be_bytes(more));
            next += 2;
        }
        if distance > op || next >= end {
            break;
        }
        // SAFETY: `ip + 1` is in the input, and the distance does not go beyond the start of the output.
        let (literals, earlier) = unsafe { (input.add(ip + 1), output.add(op - distance).cast_const()) };
        let from = if is_literal { literals } else { earlier };
        // SAFETY: `WIDTH` bytes are there, in the input by `last_ip`, in the output by `last_op`. Only a match is
        // nearer than `WIDTH`, and at this distance.
        let start = unsafe { C::start(from, output.add(op), distance) };
        if len > C::WIDTH {
            if len + SLACK > dst.len() - op {
                break;
            }
            // SAFETY: just checked. It is a match, since literals are no longer than `WIDTH`.
            unsafe { C::finish(output.add(op), distance, len, start) };
        }
        ip = next;
        op += len;
    }
    At { ip, op }
}

/// Returns `if condition { a } else { b }` without a branch.
#[inline(always)]
fn select(condition: bool, a: usize, b: usize) -> usize {
    let mask = usize::from(condition).wrapping_neg();
    b ^ ((a ^ b) & mask)
}
