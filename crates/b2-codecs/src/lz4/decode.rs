//! LZ4 block decoder.
//!
//! A block is a list of sequences:
//!
//! ```text
//! token       literal length (high 4 bits), match length - 4 (low 4 bits)
//! [length]    if the literal length is 15: bytes to add, up to and including the first that is not 255
//! literals
//! distance    16 bits, little-endian, 1 to 65 535: how far back the match starts
//! [length]    if the match length bits are 15: as above
//! ```
//!
//! The last sequence ends after its literals. A match may overlap its own output.
//!
//! Three functions share the work. [`wide::sequences`] is the fastest and requires certain CPU instructions.
//! [`fast_sequences`] is portable code that copies in pieces of fixed size; it may write past the end of a sequence,
//! but stays within the slack that it has checked. Both stop before any sequence they cannot handle: near an end,
//! reaching into the dictionary, or malformed. [`one_sequence`] handles all sequences, is slower, and alone reports
//! errors.

use super::wide;
use super::window::MIN_MATCH;
use crate::lz77::{At, Isa};
use crate::{CodecError, CodecId};

/// Decodes one block, the first `end` bytes of `src`, into the first `len` bytes of `dst`; the bytes after them do not
/// matter, and may be read and overwritten. Matches may reach back into `dict`, as if it were stored right before `dst`.
pub(super) fn decode(
    codec: CodecId,
    src: &[u8],
    end: usize,
    dst: &mut [u8],
    len: usize,
    dict: &[u8],
) -> Result<(), CodecError> {
    decode_with::<false>(Isa::best(), codec, src, end, dst, len, dict)
}

/// Decodes the start of a block, `dst.len()` bytes.
pub(super) fn decode_start(
    codec: CodecId,
    src: &[u8],
    dst: &mut [u8],
    dict: &[u8],
) -> Result<(), CodecError> {
    decode_with::<true>(Isa::best(), codec, src, src.len(), dst, dst.len(), dict)
}

/// Decodes a block into the first `len` bytes of `dst`. If `START`, the block may continue after them.
pub(crate) fn decode_with<const START: bool>(
    isa: Isa,
    codec: CodecId,
    src: &[u8],
    end: usize,
    dst: &mut [u8],
    len: usize,
    dict: &[u8],
) -> Result<(), CodecError> {
    if START && len == 0 {
        return Ok(());
    }
    decode_sequences::<START>(isa, src, end, dst, len, dict).map_err(|fault| fault.into_error(codec, len))
}

fn decode_sequences<const START: bool>(
    isa: Isa,
    with_more: &[u8],
    end: usize,
    dst: &mut [u8],
    len: usize,
    dict: &[u8],
) -> Result<(), SequenceFault> {
    let src = &with_more[..end];
    let mut at = At { ip: 0, op: 0 };
    loop {
        if at.ip < end {
            at = wide::sequences(isa, with_more, end, dst, at);
            if at.ip == end {
                return if at.op == len { Ok(()) } else { Err(SequenceFault::WrongLength { got: at.op }) };
            }
        }
        at = fast_sequences(src, dst, at);
        if at.op > len {
            return Err(SequenceFault::WrongLength { got: at.op });
        }
        match one_sequence::<START>(src, &mut dst[..len], dict, at)? {
            Some(next) => at = next,
            None => return Ok(()),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum SequenceFault {
    Malformed { offset: usize, what: &'static str },
    WrongLength { got: usize },
}

impl SequenceFault {
    #[cold]
    fn into_error(self, codec: CodecId, expected: usize) -> CodecError {
        match self {
            Self::Malformed { offset, what } => CodecError::Malformed { codec, offset, what },
            Self::WrongLength { got } => CodecError::WrongLength { codec, got, expected },
        }
    }
}

/// Input required after the start of a token: the token, 14 literals (16 are copied) and the distance.
const SRC_SLACK: usize = 18;
/// Output that copying a match may write: a whole short match, or past the end of a long one.
const MATCH_SLACK: usize = 32;
/// Output required at a token: 14 literals and a short match.
const DST_SLACK: usize = 16 + MATCH_SLACK;

/// Decodes sequences until one needs [`one_sequence`]. Returns the position of that sequence.
#[inline(always)]
fn fast_sequences(src: &[u8], dst: &mut [u8], at: At) -> At {
    let Some(mut rest) = src.get(at.ip..) else { return at };
    let mut done = at.op;
    while let Some(head) = rest.first_chunk::<SRC_SLACK>()
        && let Some(room) = dst.get_mut(done..).and_then(|room| room.first_chunk_mut::<DST_SLACK>())
    {
        // `rest` and `done` advance only after a complete sequence.
        let token = usize::from(head[0]);
        let nliterals = token >> 4;
        let mut op = done;
        let mut tail;
        if nliterals < 15 {
            room[..16].copy_from_slice(&head[1..17]);
            op += nliterals;
            tail = &rest[nliterals + 1..];
        } else {
            let Some((n, after)) = read_length(&rest[1..]) else { break };
            let to = &mut dst[op..];
            if n <= 64
                && let Some(from) = after.first_chunk::<64>()
                && let Some(to) = to.first_chunk_mut::<64>()
            {
                to[..32].copy_from_slice(&from[..32]);
                if n > 32 {
                    to[32..].copy_from_slice(&from[32..]);
                }
            } else {
                let (Some(to), Some(from)) = (to.get_mut(..n), after.get(..n)) else { break };
                to.copy_from_slice(from);
            }
            op += n;
            tail = &after[n..];
        }
        let Some((distance, after)) = tail.split_first_chunk::<2>() else { break };
        tail = after;
        let distance = usize::from(u16::from_le_bytes(*distance));
        if distance == 0 || distance > op {
            break;
        }
        // From here on `window` starts at the source of the match, and `distance` is the offset of its destination.
        let len = token & 15;
        if len < 15 {
            let Some(window) = dst[op - distance..].get_mut(..distance + MATCH_SLACK) else { break };
            copy_short_match(window, distance);
            op += len + MIN_MATCH;
        } else {
            let Some((n, after)) = read_length(tail) else { break };
            tail = after;
            if n > dst.len() {
                break;
            }
            let len = n + MIN_MATCH;
            let Some(window) = dst[op - distance..].get_mut(..distance + len + MATCH_SLACK) else { break };
            copy_long_match(window, distance, len);
            op += len;
        }
        rest = tail;
        done = op;
    }
    At { ip: src.len() - rest.len(), op: done }
}

/// Reads the rest of a length whose four bits in the token are all set. Also returns the remaining input.
#[inline(always)]
fn read_length(mut src: &[u8]) -> Option<(usize, &[u8])> {
    let mut n = 15usize;
    loop {
        let (&byte, rest) = src.split_first()?;
        src = rest;
        n = n.saturating_add(usize::from(byte));
        if byte != 255 {
            return Some((n, src));
        }
    }
}

/// Copies `N` bytes, reading all of them before writing.
#[inline(always)]
fn copy_piece<const N: usize>(window: &mut [u8], from: usize, to: usize) {
    let mut piece = [0; N];
    piece.copy_from_slice(&window[from..from + N]);
    window[to..to + N].copy_from_slice(&piece);
}

/// Copies a match of up to 18 bytes.
#[inline(always)]
fn copy_short_match(window: &mut [u8], distance: usize) {
    // More special cases cost more in branches than they save, such as copying 16 bytes for distances from 16 on.
    if distance >= 8 {
        copy_piece::<8>(window, 0, distance);
        copy_piece::<8>(window, 8, distance + 8);
        copy_piece::<2>(window, 16, distance + 16);
    } else {
        copy_periods(window, distance, 18);
    }
}

/// Copies a match of 19 bytes or more.
#[inline(always)]
fn copy_long_match(window: &mut [u8], distance: usize, len: usize) {
    if distance >= 32 {
        for k in (0..len).step_by(32) {
            copy_piece::<32>(window, k, k + distance);
        }
    } else if distance >= 8 {
        for k in (0..len).step_by(16) {
            copy_piece::<8>(window, k, k + distance);
            copy_piece::<8>(window, k + 8, k + 8 + distance);
        }
    } else if distance == 1 && len > 64 {
        let byte = window[0];
        window[1..1 + len].fill(byte);
    } else {
        copy_periods(window, distance, len);
    }
}

/// Multiplying a number of `d` bytes by `REPEAT[d]` repeats it over eight bytes.
const REPEAT: [u64; 8] = [
    0,
    0x0101_0101_0101_0101,
    0x0001_0001_0001_0001,
    0x0001_0000_0100_0001,
    0x0000_0001_0000_0001,
    0x0000_0100_0000_0001,
    0x0001_0000_0000_0001,
    0x0100_0000_0000_0001,
];
/// All but `REST[d]` of those eight bytes are whole periods.
const REST: [u8; 8] = [0, 0, 0, 2, 0, 3, 2, 1];

/// Copies a match with a distance from 1 to 7.
#[inline(always)]
fn copy_periods(window: &mut [u8], distance: usize, len: usize) {
    let d = distance & 7;
    let mut period = [0; 8];
    period.copy_from_slice(&window[..8]);
    let period = u64::from_le_bytes(period) & !(u64::MAX << (8 * d));
    let periods = period.wrapping_mul(REPEAT[d]).to_le_bytes();
    let step = 8 - usize::from(REST[d] & 3);
    let mut to = distance;
    while to < distance + len {
        let part = &mut window[to..to + MATCH_SLACK];
        for k in 0..4 {
            part[k * step..k * step + 8].copy_from_slice(&periods);
        }
        to += 4 * step;
    }
}

/// Decodes exactly one sequence. Returns `None` if the block is complete, or, with `START`, if `dst` is full.
fn one_sequence<const START: bool>(
    src: &[u8],
    dst: &mut [u8],
    dict: &[u8],
    at: At,
) -> Result<Option<At>, SequenceFault> {
    let truncated = || SequenceFault::Malformed { offset: src.len(), what: "input ends inside a sequence" };
    let At { ip, op } = at;
    let (&token, mut rest) = src.get(ip..).and_then(<[u8]>::split_first).ok_or_else(truncated)?;

    let mut nliterals = usize::from(token >> 4);
    if nliterals == 15 {
        (nliterals, rest) = read_length(rest).ok_or_else(truncated)?;
    }
    let room = &mut dst[op..];
    if START {
        nliterals = nliterals.min(room.len());
    }
    let (literals, after) = rest.split_at_checked(nliterals).ok_or_else(truncated)?;
    rest = after;
    if nliterals > room.len() {
        return Err(SequenceFault::WrongLength { got: op.saturating_add(nliterals) });
    }
    room[..nliterals].copy_from_slice(literals);
    let op = op + nliterals;
    if START && op == dst.len() {
        return Ok(None);
    }
    if rest.is_empty() {
        return if op == dst.len() { Ok(None) } else { Err(SequenceFault::WrongLength { got: op }) };
    }

    let offset = src.len() - rest.len();
    let (distance, after) = rest.split_first_chunk::<2>().ok_or_else(truncated)?;
    rest = after;
    let distance = usize::from(u16::from_le_bytes(*distance));
    if distance == 0 {
        return Err(SequenceFault::Malformed { offset, what: "distance of zero" });
    }
    if distance > op + dict.len() {
        return Err(SequenceFault::Malformed { offset, what: "distance beyond the start of the output" });
    }
    let mut len = usize::from(token & 15);
    if len == 15 {
        (len, rest) = read_length(rest).ok_or_else(truncated)?;
    }
    let mut len = len.saturating_add(MIN_MATCH);
    if START {
        len = len.min(dst.len() - op);
    }
    if len > dst.len() - op {
        return Err(SequenceFault::WrongLength { got: op.saturating_add(len) });
    }
    copy_match_exactly(dst, dict, op, distance, len);
    let op = op + len;
    if START && op == dst.len() {
        return Ok(None);
    }
    Ok(Some(At { ip: src.len() - rest.len(), op }))
}

/// Copies a match that fits `dst` and starts within `dict` or `dst`.
fn copy_match_exactly(dst: &mut [u8], dict: &[u8], op: usize, distance: usize, len: usize) {
    let end = op + len;
    let mut to = op;
    if distance > op {
        let from = dict.len() - (distance - op);
        let n = len.min(dict.len() - from);
        dst[op..op + n].copy_from_slice(&dict[from..from + n]);
        to += n;
    }
    if to < end {
        let from = to - distance;
        // The repeated part doubles with each copy, so even a short distance needs few copies.
        while to < end {
            let n = (to - from).min(end - to);
            dst.copy_within(from..from + n, to);
            to += n;
        }
    }
}
