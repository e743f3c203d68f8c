//! The inner loop of the LZ4 decoder for x86-64. See `decode` for the format.

#![allow(unsafe_code)]

use std::slice;

use crate::lz77::copier::{self, Copier, SLACK};
use crate::lz77::{At, Isa, IsaKind, length_bytes, to_the_end};

/// Decodes LZ4 sequences until one needs the exact decoder, and returns its position. The block ends at byte `end` of
/// `src`, which is after `at`; any bytes may follow. The position `end` means that the block is complete.
#[inline]
pub(super) fn sequences(isa: Isa, src: &[u8], end: usize, dst: &mut [u8], at: At) -> At {
    let at = match isa.kind() {
        IsaKind::Generic => return at,
        _ if end < SHORT_INPUT => at,
        // SAFETY: the value says that the CPU has these instructions.
        IsaKind::Avx512 => unsafe { avx512(src, end, dst, at) },
        // SAFETY: as above.
        IsaKind::Avx2 => unsafe { avx2(src, end, dst, at) },
    };
    to_the_end::<{ 2 * SLACK + SRC_MARGIN }>(src, end, dst, at, |src, end, dst, at| {
        // SAFETY: as above; all CPUs with AVX-512 have AVX2.
        unsafe { avx2_last(src, end, dst, at) }
    })
}

/// Shorter inputs are decoded by the loop for the end alone, since each loop takes some time to start.
const SHORT_INPUT: usize = if cfg!(any(test, fuzzing)) { 100 } else { 400 };

/// Outputs up to this length are decoded with 16-byte copies also with AVX-512. The sources of their matches are near, and
/// often still on their way to the cache: the CPU can forward a store to a load only if it covers all of it, which it more
/// often does for 16 bytes than for 32. Tests and fuzz targets, whose outputs are mostly shorter, go both ways.
const SHORT_OUTPUT: usize = if cfg!(any(test, fuzzing)) { 600 } else { 24 << 10 };

/// Decodes sequences with AVX-512.
///
/// # Safety
/// The CPU must have AVX-512 F, BW, VL and VBMI.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx2,bmi1,bmi2")]
unsafe fn avx512(src: &[u8], end: usize, dst: &mut [u8], at: At) -> At {
    let stop = if dst.len() <= SHORT_OUTPUT {
        // SAFETY: the instructions of all three copiers are enabled here.
        unsafe { sequences_with::<copier::Avx2Short, true, false>(src, end, dst, at) }
    } else {
        // SAFETY: as above.
        unsafe { sequences_with::<copier::Avx512Short, true, false>(src, end, dst, at) }
    };
    match stop {
        Stop::ManyLong(at) => {
            // SAFETY: as above.
            let (Stop::ManyLong(at) | Stop::Unusual(at)) =
                unsafe { sequences_with::<copier::Avx512, false, false>(src, end, dst, at) };
            at
        }
        Stop::Unusual(at) => at,
    }
}

/// Decodes sequences with AVX2.
///
/// # Safety
/// The CPU must have AVX2.
#[target_feature(enable = "avx2,bmi1,bmi2")]
unsafe fn avx2(src: &[u8], end: usize, dst: &mut [u8], at: At) -> At {
    // SAFETY: the instructions of both copiers are enabled here.
    match unsafe { sequences_with::<copier::Avx2Short, true, false>(src, end, dst, at) } {
        Stop::ManyLong(at) => {
            // SAFETY: as above.
            let (Stop::ManyLong(at) | Stop::Unusual(at)) =
                unsafe { sequences_with::<copier::Avx2, false, false>(src, end, dst, at) };
            at
        }
        Stop::Unusual(at) => at,
    }
}

/// Decodes the sequences at the end of a block, or a whole short block.
///
/// # Safety
/// The CPU must have AVX2.
#[target_feature(enable = "avx2,bmi1,bmi2")]
unsafe fn avx2_last(src: &[u8], end: usize, dst: &mut [u8], at: At) -> At {
    // SAFETY: the instructions of the copier are enabled here.
    let (Stop::ManyLong(at) | Stop::Unusual(at)) =
        unsafe { sequences_with::<copier::Avx2Short, true, true>(src, end, dst, at) };
    at
}

/// Why a loop stopped, and where.
enum Stop {
    /// The next sequence needs the exact decoder.
    Unusual(At),
    /// Long matches are frequent, so the other loop is faster.
    ManyLong(At),
}

/// Maximum number of literals in a run without length bytes.
const SHORT_RUN: usize = 14;
/// Input required from a token on: the token, a short run, the distance, a length byte, the next token. It also covers
/// copying a short run as 16 bytes.
const SRC_MARGIN: usize = 1 + SHORT_RUN + 2 + 1 + 1;
/// This many long matches within `MANY_IN` bytes of input, not counting long literal runs, select the other loop.
const MANY: u32 = 32;
const MANY_IN: usize = 1024;

/// Decodes sequences that end before byte `end` of `src`. With `LAST` it goes on up to the last sequence, otherwise it stops
/// about `SRC_MARGIN` before it, and saves the comparisons. With `FEW_LONG` it predicts that matches have no length bytes;
/// otherwise the first length byte is read without a branch, which costs a little each time.
///
/// # Safety
/// Must be inlined into a function with the instructions of `C` enabled.
#[inline(always)]
unsafe fn sequences_with<C: Copier, const FEW_LONG: bool, const LAST: bool>(
    src: &[u8],
    end: usize,
    dst: &mut [u8],
    at: At,
) -> Stop {
    let (Some(last_ip), Some(last_op)) = (
        if LAST { src.len() } else { end }.checked_sub(SRC_MARGIN),
        dst.len().checked_sub(SHORT_RUN + C::WIDTH),
    ) else {
        return Stop::Unusual(at);
    };
    if at.ip > last_ip || at.op > last_op {
        return Stop::Unusual(at);
    }
    // Pointers instead of positions, since these are all that the registers hold.
    let (input, output) = (src.as_ptr_range(), dst.as_mut_ptr_range());
    // SAFETY: positions in the input and the output; `end` is at most the length.
    let (mut ip, mut op, end, last_ip, last_op) = unsafe {
        (
            input.start.add(at.ip),
            output.start.add(at.op),
            input.start.add(end),
            input.start.add(last_ip),
            output.start.add(last_op),
        )
    };
    // SAFETY: called with pointers into the input and the output.
    let position = |ip: *const u8, op: *mut u8| unsafe {
        At { ip: ip.offset_from_unsigned(input.start), op: op.offset_from_unsigned(output.start) }
    };
    // SAFETY: as above.
    let input_from = |ip: *const u8| unsafe { input.end.offset_from_unsigned(ip) };
    // SAFETY: as above.
    let output_from = |op: *mut u8| unsafe { output.end.offset_from_unsigned(op) };
    // The number of long matches, and the input from which they are counted, without long literal runs.
    let (mut long, mut counted) = (0, input_from(ip));
    // Where a sequence starts depends on the token before it. In data with short sequences, most of the time goes into
    // waiting for tokens, so each is loaded as soon as possible, with few operations in between.
    // SAFETY: there are `SRC_MARGIN` bytes from `ip` on.
    let mut token = usize::from(unsafe { *ip });
    // `ip`, `op` and `token` advance only after a complete sequence.
    while ip <= last_ip && op <= last_op {
        let mut nliterals = token >> 4;
        // The position after the distance, and the byte there: the next token, or a length byte.
        let mut next;
        let mut following;
        if nliterals < 15 {
            // SAFETY: within `SRC_MARGIN`.
            unsafe {
                next = ip.add(nliterals + 3);
                following = usize::from(*next);
            }
            // SAFETY: 16 bytes of input follow the token. Of the output `SHORT_RUN + WIDTH` are there, at least 16.
            unsafe { C::piece16(ip.add(1), op) };
        } else {
            // SAFETY: within `SRC_MARGIN`.
            let (extension, mut from) = unsafe { (*ip.add(1), ip.add(2)) };
            nliterals += usize::from(extension);
            if extension == 255 {
                // SAFETY: the rest of the input.
                let rest = unsafe { slice::from_raw_parts(from, input_from(from)) };
                let Some((more, n)) = length_bytes(rest) else { break };
                nliterals += more;
                // SAFETY: `n` bytes of the rest.
                from = unsafe { from.add(n) };
            }
            if nliterals + SLACK > input_from(from).min(output_from(op)) {
                break;
            }
            counted -= nliterals;
            // SAFETY: just checked. There are `SLACK` bytes after the literals.
            unsafe {
                C::literals(from, op, nliterals);
                next = from.add(nliterals + 2);
                following = second_byte(next.sub(1));
            }
            if !LAST && next > last_ip {
                break;
            }
        }
        // SAFETY: in the output, see above, and in the input.
        let (to, after_literals) = unsafe { (op.add(nliterals), next.sub(2)) };
        if LAST && after_literals >= end {
            // The last sequence has no match.
            if after_literals == end {
                return Stop::Unusual(position(end, to));
            }
            break;
        }
        // SAFETY: two bytes before `following`.
        let distance = usize::from(u16::from_le_bytes(unsafe { after_literals.cast::<[u8; 2]>().read() }));
        if distance.wrapping_sub(1) >= position(ip, to).op {
            break;
        }
        let mut len = (token & 15) + 4;
        let mut extension = 0;
        if !FEW_LONG {
            // Written so that compilers do not turn it into a branch.
            let is_long = usize::from(len == 19);
            extension = following & is_long.wrapping_neg();
            len += extension;
            // SAFETY: within `SRC_MARGIN`, or `SLACK`.
            unsafe {
                next = next.add(is_long);
                following = usize::from(*next);
            }
        } else if len == 19 {
            extension = following;
            len += extension;
            // SAFETY: as above.
            unsafe {
                following = second_byte(next);
                next = next.add(1);
            }
            long += 1;
            if !LAST && long == MANY {
                if counted - input_from(next) < MANY_IN {
                    return Stop::ManyLong(position(ip, op));
                }
                (long, counted) = (0, input_from(next));
            }
        }
        // SAFETY: the distance is neither 0 nor beyond the start. `to` is at most `SHORT_RUN` beyond `last_op`
        // after a short run; after a long one there are `SLACK` bytes, and `WIDTH` is no more.
        let start = unsafe { C::start(to.sub(distance), to, distance) };
        if len > C::WIDTH {
            if extension == 255 {
                // SAFETY: the rest of the input.
                let rest = unsafe { slice::from_raw_parts(next, input_from(next)) };
                let Some((more, n)) = length_bytes(rest) else { break };
                if n >= rest.len() {
                    break;
                }
                len += more;
                // SAFETY: `n` bytes of the rest, and another one.
                unsafe {
                    next = next.add(n);
                    following = second_byte(next.sub(1));
                }
                if next >= end {
                    break;
                }
            }
            if len + SLACK > output_from(to) {
                break;
            }
            // SAFETY: just checked; `start` is from above.
            unsafe { C::finish(to, distance, len, start) };
        }
        if LAST && next >= end {
            break;
        }
        ip = next;
        // SAFETY: the match is within the output.
        op = unsafe { to.add(len) };
        token = following;
    }
    Stop::Unusual(position(ip, op))
}

/// Reads the byte after `at`. Unlike a load of one byte, this keeps compilers from merging it with the load of the usual path
/// into a byte that has to be extended again, which would delay each token by a cycle.
///
/// # Safety
/// Two bytes are there.
#[inline(always)]
unsafe fn second_byte(at: *const u8) -> usize {
    // SAFETY: as the caller promises.
    usize::from(u16::from_le_bytes(unsafe { at.cast::<[u8; 2]>().read() })) >> 8
}
