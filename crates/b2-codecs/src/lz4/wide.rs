//! The inner loop of the LZ4 decoder for x86-64. See `decode` for the format.

#![allow(unsafe_code)]

use crate::lz77::copier::{self, Copier, SLACK};
use crate::lz77::{At, Isa, IsaKind, length_bytes, to_the_end};

/// Decodes LZ4 sequences until one needs the exact decoder, and returns its position. The block ends at byte `end` of
/// `src`, which is after `at`; any bytes may follow. The position `end` means that the block is complete.
#[inline]
pub(super) fn sequences(isa: Isa, src: &[u8], end: usize, dst: &mut [u8], at: At) -> At {
    if isa.kind() == IsaKind::Generic {
        return at;
    }
    to_the_end::<{ 2 * SLACK + SRC_MARGIN }>(src, end, dst, at, |src, end, dst, at| {
        sequences_before(isa, src, end, dst, at)
    })
}

#[inline]
fn sequences_before(isa: Isa, src: &[u8], end: usize, dst: &mut [u8], at: At) -> At {
    match isa.kind() {
        // SAFETY: the value says that the CPU has these instructions.
        IsaKind::Avx512 => unsafe { avx512(src, end, dst, at) },
        // SAFETY: as above.
        IsaKind::Avx2 => unsafe { avx2(src, end, dst, at) },
        IsaKind::Generic => at,
    }
}

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
        unsafe { sequences_with::<copier::Avx2Short, true>(src, end, dst, at) }
    } else {
        // SAFETY: as above.
        unsafe { sequences_with::<copier::Avx512Short, true>(src, end, dst, at) }
    };
    match stop {
        Stop::ManyLong(at) => {
            // SAFETY: as above.
            let (Stop::ManyLong(at) | Stop::Unusual(at)) =
                unsafe { sequences_with::<copier::Avx512, false>(src, end, dst, at) };
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
    match unsafe { sequences_with::<copier::Avx2Short, true>(src, end, dst, at) } {
        Stop::ManyLong(at) => {
            // SAFETY: as above.
            let (Stop::ManyLong(at) | Stop::Unusual(at)) =
                unsafe { sequences_with::<copier::Avx2, false>(src, end, dst, at) };
            at
        }
        Stop::Unusual(at) => at,
    }
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
/// Input required from a token on: the token, a short run, the distance, a length byte. It also covers copying a short
/// run as 16 bytes.
const SRC_MARGIN: usize = 1 + SHORT_RUN + 2 + 1;
/// This many long matches within `MANY_IN` bytes of input, not counting long literal runs, select the other loop.
const MANY: u32 = 32;
const MANY_IN: usize = 1024;

/// Decodes sequences that end before byte `end` of `src`, and the last one. With `FEW_LONG` it predicts that matches have no length bytes; otherwise the first length byte is
/// read without a branch, which costs a little each time.
///
/// # Safety
/// Must be inlined into a function with the instructions of `C` enabled.
#[inline(always)]
unsafe fn sequences_with<C: Copier, const FEW_LONG: bool>(
    src: &[u8],
    end: usize,
    dst: &mut [u8],
    at: At,
) -> Stop {
    let At { mut ip, mut op } = at;
    let (Some(last_ip), Some(last_op)) =
        (src.len().checked_sub(SRC_MARGIN), dst.len().checked_sub(SHORT_RUN + C::WIDTH))
    else {
        return Stop::Unusual(at);
    };
    // The input position from which the current `long` long matches are counted, without long literal runs.
    let (mut long, mut counted_from) = (0, ip);
    let input = src.as_ptr();
    let output = dst.as_mut_ptr();
    // `ip` and `op` advance only after a complete sequence.
    while ip <= last_ip && op <= last_op {
        // SAFETY: there are `SRC_MARGIN` bytes from `ip` on.
        let token = usize::from(unsafe { *input.add(ip) });
        let mut nliterals = token >> 4;
        let mut next = ip + 1;
        if nliterals < 15 {
            // SAFETY: 16 bytes of input follow the token. Of the output `SHORT_RUN + WIDTH` are there, at least 16.
            unsafe { C::piece16(input.add(next), output.add(op)) };
        } else {
            // SAFETY: within `SRC_MARGIN`.
            let extension = unsafe { *input.add(next) };
            next += 1;
            nliterals += usize::from(extension);
            if extension == 255 {
                let Some((more, after)) = length_bytes(src, next) else { break };
                nliterals += more;
                next = after;
            }
            if nliterals + SLACK > (src.len() - next).min(dst.len() - op) {
                break;
            }
            // SAFETY: just checked.
            unsafe { C::literals(input.add(next), output.add(op), nliterals) };
            counted_from += nliterals;
        }
        next += nliterals;
        let to = op + nliterals;
        if next >= end {
            // The last sequence has no match.
            if next == end {
                return Stop::Unusual(At { ip: end, op: to });
            }
            break;
        }
        // SAFETY: after a short run this is within `SRC_MARGIN`; after a long one there are `SLACK` bytes.
        let distance = usize::from(u16::from_le_bytes(unsafe { input.add(next).cast::<[u8; 2]>().read() }));
        next += 2;
        if distance.wrapping_sub(1) >= to {
            break;
        }
        let mut len = (token & 15) + 4;
        let mut extension = 0;
        if !FEW_LONG {
            // SAFETY: as for the distance.
            let byte = usize::from(unsafe { *input.add(next) });
            // Written so that compilers do not turn it into a branch.
            let is_long = usize::from(len == 19);
            extension = byte & is_long.wrapping_neg();
            next += is_long;
            len += extension;
        } else if len == 19 {
            // SAFETY: as for the distance.
            extension = usize::from(unsafe { *input.add(next) });
            next += 1;
            len += extension;
            long += 1;
            if long == MANY {
                if next - counted_from < MANY_IN {
                    return Stop::ManyLong(At { ip, op });
                }
                (long, counted_from) = (0, next);
            }
        }
        // SAFETY: the distance is neither 0 nor beyond the start. `to` is at most `SHORT_RUN` beyond `last_op`
        // after a short run; after a long one there are `SLACK` bytes, and `WIDTH` is no more.
        let start = unsafe { C::start(output.add(to - distance), output.add(to), distance) };
        if len > C::WIDTH {
            if extension == 255 {
                let Some((more, after)) = length_bytes(src, next) else { break };
                len += more;
                next = after;
            }
            if len + SLACK > dst.len() - to {
                break;
            }
            // SAFETY: just checked; `start` is from above.
            unsafe { C::finish(output.add(to), distance, len, start) };
        }
        if next >= end {
            break;
        }
        ip = next;
        op = to + len;
    }
    Stop::Unusual(At { ip, op })
}
