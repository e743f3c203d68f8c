//! The inner loop for LZ4 sequences; the format is told in the `lz4` decoder.

use super::At;
use super::copier::{self, Copier, SLACK};
use super::length_bytes;

/// Decodes as long as sequences are ordinary; returns where it stopped.
///
/// # Safety
/// The CPU must have AVX-512 F, BW, VL and VBMI.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx2,bmi1,bmi2")]
pub(super) unsafe fn avx512(src: &[u8], dst: &mut [u8], at: At) -> At {
    // SAFETY: the instructions of both copiers are enabled here.
    match unsafe { sequences::<copier::Avx512Short, true>(src, dst, at) } {
        Stop::ManyLong(at) => {
            // SAFETY: as above.
            let (Stop::ManyLong(at) | Stop::Unusual(at)) =
                unsafe { sequences::<copier::Avx512, false>(src, dst, at) };
            at
        }
        Stop::Unusual(at) => at,
    }
}

/// As [`avx512`].
///
/// # Safety
/// The CPU must have AVX2.
#[target_feature(enable = "avx2,bmi1,bmi2")]
pub(super) unsafe fn avx2(src: &[u8], dst: &mut [u8], at: At) -> At {
    // SAFETY: the instructions of the copier are enabled here.
    match unsafe { sequences::<copier::Avx2, true>(src, dst, at) } {
        Stop::ManyLong(at) => {
            // SAFETY: as above.
            let (Stop::ManyLong(at) | Stop::Unusual(at)) =
                unsafe { sequences::<copier::Avx2, false>(src, dst, at) };
            at
        }
        Stop::Unusual(at) => at,
    }
}

/// Why a loop stopped, and where.
enum Stop {
    /// Here is a sequence for the exact decoder.
    Unusual(At),
    /// Long matches are frequent enough to be worth another loop.
    ManyLong(At),
}

/// Literals in a run without length bytes, at most.
const SHORT_RUN: usize = 14;
/// Input that must be there from a token on: the token, a short run, the distance, a length byte. Also what is needed
/// to copy a short run as 16 bytes.
const SRC_MARGIN: usize = 1 + SHORT_RUN + 2 + 1;
/// So many long matches in so much input, long literal runs not counted, are many.
const MANY: u32 = 32;
const MANY_IN: usize = 1024;

/// `FEW_LONG`: bet on matches without length bytes. Otherwise the first length byte is taken in without a branch,
/// which costs a little each time.
///
/// # Safety
/// Must be inlined into a function with the instructions of `C` enabled.
#[inline(always)]
unsafe fn sequences<C: Copier, const FEW_LONG: bool>(src: &[u8], dst: &mut [u8], at: At) -> Stop {
    let At { mut ip, mut op } = at;
    let (Some(last_ip), Some(last_op)) =
        (src.len().checked_sub(SRC_MARGIN), dst.len().checked_sub(SHORT_RUN + C::WIDTH))
    else {
        return Stop::Unusual(at);
    };
    // Where the last `long` long matches began to be counted, in input that was no long literal run.
    let (mut long, mut counted_from) = (0, ip);
    let input = src.as_ptr();
    let output = dst.as_mut_ptr();
    // `ip` and `op` only move once a sequence is complete.
    while ip <= last_ip && op <= last_op {
        // SAFETY: `SRC_MARGIN` bytes are there from `ip` on.
        let token = usize::from(unsafe { *input.add(ip) });
        let mut nliterals = token >> 4;
        let mut next = ip + 1;
        if nliterals < 15 {
            // SAFETY: 16 bytes of input follow the token. Of the output `SHORT_RUN + WIDTH` are there, more than 16.
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
            // Written so that no compiler makes a branch of it.
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
        ip = next;
        op = to + len;
    }
    Stop::Unusual(At { ip, op })
}
