//! The inner loop of the blosclz decoder for x86-64. See [`super`] for the format.

#![allow(unsafe_code)]

use std::hint::black_box;

use super::format::{FAR_BASE, LITERAL_MAX};
use crate::lz77::copier::{self, Copier, SLACK};
use crate::lz77::{At, Isa, IsaKind, length_bytes, to_the_end};

/// Decodes blosclz tokens until one needs the exact decoder, and returns its position. Not for the first token. The stream
/// ends at byte `end` of `src`; any bytes may follow. The position `end` means that the stream is complete.
#[inline]
pub(super) fn tokens(isa: Isa, src: &[u8], end: usize, dst: &mut [u8], at: At) -> At {
    if isa.kind() == IsaKind::Generic {
        return at;
    }
    to_the_end::<{ 2 * SLACK + SRC_MARGIN }>(src, end, dst, at, |src, end, dst, at| {
        tokens_before(isa, src, end, dst, at)
    })
}

/// Decodes tokens that end before byte `end` of `src`, and the last one; there may be other bytes from there on.
#[inline]
fn tokens_before(isa: Isa, src: &[u8], end: usize, dst: &mut [u8], at: At) -> At {
    match isa.kind() {
        // SAFETY: the value says that the CPU has these instructions.
        IsaKind::Avx512 => unsafe { avx512(src, end, dst, at) },
        // SAFETY: as above.
        IsaKind::Avx2 => unsafe { avx2(src, end, dst, at) },
        IsaKind::Generic => at,
    }
}

/// Decodes tokens with AVX-512.
///
/// # Safety
/// The CPU must have AVX-512 F, BW, VL and VBMI.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx2,bmi1,bmi2")]
unsafe fn avx512(src: &[u8], end: usize, dst: &mut [u8], at: At) -> At {
    // SAFETY: the instructions of the copiers are enabled here.
    unsafe {
        match pairs_with::<copier::Avx512Short>(src, end, dst, at) {
            Stop::FewLiterals(at) => tokens_with::<copier::Avx512>(src, end, dst, at),
            Stop::Unusual(at) => at,
        }
    }
}

/// Decodes tokens with AVX2.
///
/// # Safety
/// The CPU must have AVX2.
#[target_feature(enable = "avx2,bmi1,bmi2")]
unsafe fn avx2(src: &[u8], end: usize, dst: &mut [u8], at: At) -> At {
    // SAFETY: the instructions of the copiers are enabled here.
    unsafe {
        match pairs_with::<copier::Avx2Short>(src, end, dst, at) {
            Stop::FewLiterals(at) => tokens_with::<copier::Avx2>(src, end, dst, at),
            Stop::Unusual(at) => at,
        }
    }
}

/// Why the loop of pairs stopped, and where.
enum Stop {
    /// The next token needs the exact decoder.
    Unusual(At),
    /// Most matches follow another match, so the other loop is faster.
    FewLiterals(At),
}

/// After this many matches, the loop to continue with is selected.
const DECIDE: u32 = 32;

/// A match token without its position.
struct Token {
    distance: usize,
    len: usize,
    /// Where the next token starts.
    next: usize,
}

/// Reads the match token at `at`. `None` if it is cut off.
///
/// # Safety
/// There are five bytes from `at` on.
#[inline(always)]
unsafe fn match_token(src: &[u8], at: usize, control: usize) -> Option<Token> {
    let input = src.as_ptr();
    // SAFETY: the caller's.
    let read = |at: usize| usize::from(unsafe { *input.add(at) });
    // All three high bits: a length byte follows.
    let is_long = usize::from(control >= 0xE0);
    let extension = read(at + 1) & is_long.wrapping_neg();
    let token = if extension == 255 {
        long_match_token(src, at, control)?
    } else {
        let distance = ((control & 31) << 8) + read(at + 1 + is_long) + 1;
        Token { distance, len: (control >> 5) + 2 + extension, next: at + 2 + is_long }
    };
    if token.distance != FAR_BASE {
        return Some(token);
    }
    // SAFETY: at most 5 bytes from `at` on, or as checked for a long match.
    let more = unsafe { input.add(token.next).cast::<[u8; 2]>().read() };
    Some(Token { distance: FAR_BASE + usize::from(u16::from_be_bytes(more)), next: token.next + 2, ..token })
}

/// Reads a token with several length bytes, without the bytes of a far distance, of which there are enough.
#[cold]
#[inline(never)]
fn long_match_token(src: &[u8], at: usize, control: usize) -> Option<Token> {
    let (more, n) = length_bytes(src.get(at + 2..)?)?;
    // The distance follows the length bytes, and a token follows the distance.
    let after = src.get(at + 2 + n..).and_then(<[u8]>::first_chunk::<4>)?;
    let distance = ((control & 31) << 8) + usize::from(after[0]) + 1;
    Some(Token { distance, len: (control >> 5) + 2 + 255 + more, next: at + 2 + n + 1 })
}

/// Decodes tokens that end before byte `end` of `src`, and the last one. Each step copies literals, of which there may be
/// none, and a match: in most streams it is unpredictable whether a match follows literals.
///
/// # Safety
/// Must be inlined into a function with the instructions of `C` enabled.
#[inline(always)]
unsafe fn pairs_with<C: Copier>(src: &[u8], end: usize, dst: &mut [u8], at: At) -> Stop {
    const { assert!(LITERAL_MAX == 32 && C::WIDTH <= SLACK) };
    let At { mut ip, mut op } = at;
    let (Some(last_ip), Some(last_op)) =
        (src.len().checked_sub(SRC_MARGIN), dst.len().checked_sub(LITERAL_MAX + C::WIDTH))
    else {
        return Stop::Unusual(at);
    };
    let input = src.as_ptr();
    let output = dst.as_mut_ptr();
    let mut unused = [0_u8; LITERAL_MAX];
    // Hidden from the compiler, which otherwise replaces unused copies by a branch around them.
    let unused = black_box(unused.as_mut_ptr());
    let (mut matches, mut with_literals) = (0, 0);
    // `ip` and `op` advance only after a complete token.
    while ip <= last_ip && op <= last_op {
        // SAFETY: the offsets below are less than `SRC_MARGIN` from `ip` on.
        let read = |at: usize| usize::from(unsafe { *input.add(at) });
        let control = read(ip);
        let is_literal = control < 32;
        // A copy without literals must not cover the source of the match, whose load would wait for the store.
        // SAFETY: `op` is in the output.
        let to = if is_literal { unsafe { output.add(op) } } else { unused };
        // SAFETY: 32 bytes are there from `ip + 1` on, in the output by `last_op`, and in `unused`.
        unsafe { copier::piece32(input.add(ip + 1), to) };
        // Loaded before it is known whether it is needed, since the next token has to wait for it.
        let after_literals = read(ip + (control & 31) + 2);
        let token = ip + select(is_literal, control + 2, 0);
        let to = op + select(is_literal, control + 1, 0);
        if token >= end {
            // Only literals end the stream.
            if token == end {
                return Stop::Unusual(At { ip: end, op: to });
            }
            break;
        }
        let control = select(is_literal, after_literals, control);
        if control < 32 {
            // More literals.
            (ip, op) = (token, to);
            continue;
        }
        // SAFETY: within `SRC_MARGIN`.
        let Some(Token { distance, len, next }) = (unsafe { match_token(src, token, control) }) else {
            break;
        };
        if distance > to || next >= end {
            break;
        }
        // SAFETY: the distance does not go beyond the start of the output. `WIDTH` bytes are there after `to`, which is
        // at most `LITERAL_MAX` after `last_op`.
        let start = unsafe { C::start(output.add(to - distance), output.add(to), distance) };
        if len > C::WIDTH {
            if len + SLACK > dst.len() - to {
                break;
            }
            // SAFETY: just checked; `start` is from above.
            unsafe { C::finish(output.add(to), distance, len, start) };
        }
        ip = next;
        op = to + len;
        with_literals += u32::from(is_literal);
        matches += 1;
        if matches == DECIDE && with_literals < DECIDE / 2 {
            return Stop::FewLiterals(At { ip, op });
        }
    }
    Stop::Unusual(At { ip, op })
}

/// Like [`pairs_with`], with a step for each token: literals are copied as if they were a match in the input.
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
        let control = usize::from(unsafe { *input.add(ip) });
        let is_literal = control < 32;
        // SAFETY: as above.
        let Some(token) = (unsafe { match_token(src, ip, control) }) else { break };
        // Literals are treated as a match at distance `WIDTH`, which does not overlap itself.
        let distance = select(is_literal, C::WIDTH, token.distance);
        let next = select(is_literal, ip + control + 2, token.next);
        let len = select(is_literal, control + 1, token.len);
        // The source of the bytes in the output; unused for literals.
        let back = select(is_literal, 0, distance);
        // Only literals end the stream.
        if back > op || next >= end + usize::from(is_literal) {
            break;
        }
        // SAFETY: `ip + 1` is in the input, and `back` does not go beyond the start of the output.
        let (literals, earlier) = unsafe { (input.add(ip + 1), output.add(op - back).cast_const()) };
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
        if ip == end {
            break;
        }
    }
    At { ip, op }
}

/// Input required from a token on: the token, the literals that are copied, and a match with one length byte.
const SRC_MARGIN: usize = 1 + LITERAL_MAX + 5;

/// Returns `if condition { a } else { b }` without a branch.
#[inline(always)]
fn select(condition: bool, a: usize, b: usize) -> usize {
    let mask = usize::from(condition).wrapping_neg();
    b ^ ((a ^ b) & mask)
}
