//! The blosclz decoder.
//!
//! [`wide::tokens`] does most of the work on CPUs with certain instructions. It stops before tokens that are near an
//! end or malformed. Those, and all tokens on other CPUs, are decoded here.
//!
//! Wherever source and destination leave room, copies move pieces of fixed size: that compiles to one or two vector
//! moves, whereas a copy of variable length is a function call. Bytes written past the end of a run are overwritten by
//! later tokens, which must fill `dst` to its end.

use super::format::{FAR_BASE, LITERAL_MAX, malformed, read_array};
use super::wide;
use crate::lz77::{At, Isa};
use crate::{CodecError, CodecId};

/// Bytes per step of a match copy.
const MATCH_PIECE: usize = 16;
/// Matches of at least this length are copied with `memset` and `memmove`.
const LONG_MATCH: usize = 128;

/// Decodes one stream, the first `end` bytes of `src`, into the first `len` bytes of `dst`; the bytes after them do not
/// matter, and may be read and overwritten.
pub(super) fn decode(src: &[u8], end: usize, dst: &mut [u8], len: usize) -> Result<(), CodecError> {
    decode_with::<false>(Isa::best(), src, end, dst, len)
}

/// Decodes the start of a stream, `dst.len()` bytes.
pub(super) fn decode_start(src: &[u8], dst: &mut [u8]) -> Result<(), CodecError> {
    decode_with::<true>(Isa::best(), src, src.len(), dst, dst.len())
}

/// Decodes a stream into the first `whole` bytes of `dst`. If `START`, the stream may continue after them.
pub(crate) fn decode_with<const START: bool>(
    isa: Isa,
    with_more: &[u8],
    end: usize,
    dst: &mut [u8],
    whole: usize,
) -> Result<(), CodecError> {
    if START && whole == 0 {
        return Ok(());
    }
    let src = &with_more[..end];
    let first = *src.first().ok_or_else(|| malformed(0, "stream is empty"))?;
    // The first token is a literal run whatever its high bits are; encoders set a marker there.
    let mut control = first & 0x1f;
    let mut ip = 1;
    let mut op = 0;
    loop {
        if control < 32 {
            let mut len = usize::from(control) + 1;
            if START {
                len = len.min(whole - op);
            }
            copy_literals(with_more, end, ip, dst, op, len)?;
            ip += len;
            op += len;
            if ip == end {
                break;
            }
        } else {
            let (distance, mut len, next) = read_match(src, ip - 1)?;
            if START {
                len = len.min(whole - op);
            }
            // Streams end with literals. C drops a match at the end, so it would decode to another length.
            if next == src.len() {
                return Err(malformed(ip - 1, "stream ends with a match"));
            }
            if distance > op {
                return Err(malformed(ip - 1, "match starts before the output"));
            }
            if len > whole - op {
                return Err(wrong_length(op.saturating_add(len), whole));
            }
            copy_match(dst, op, distance, len);
            ip = next;
            op += len;
        }
        if START && op == whole {
            break;
        }
        At { ip, op } = wide::tokens(isa, with_more, end, dst, At { ip, op });
        if op > whole {
            return Err(wrong_length(op, whole));
        }
        if ip == end {
            break;
        }
        control = src[ip];
        ip += 1;
    }
    if op == whole {
        return Ok(());
    }
    Err(wrong_length(op, whole))
}

/// Reads the match token at `token`. Returns its distance, its length, and the offset of the next token.
#[inline(always)]
fn read_match(src: &[u8], token: usize) -> Result<(usize, usize, usize), CodecError> {
    let truncated = || malformed(token, "match is truncated");
    let control = usize::from(src[token]);
    let mut ip = token + 1;
    let mut len = (control >> 5) + 2;
    if len == 9 {
        loop {
            let extension = *src.get(ip).ok_or_else(truncated)?;
            ip += 1;
            // Saturation only matters on 32-bit targets. The callers check the length against the remaining output.
            len = len.saturating_add(usize::from(extension));
            if extension != 255 {
                break;
            }
        }
    }
    let low = usize::from(*src.get(ip).ok_or_else(truncated)?);
    ip += 1;
    let mut distance = ((control & 0x1f) << 8) + low + 1;
    if distance == FAR_BASE {
        distance += usize::from(u16::from_be_bytes(read_array(src, ip).ok_or_else(truncated)?));
        ip += 2;
    }
    Ok((distance, len, ip))
}

#[inline(always)]
fn copy_literals(
    src: &[u8],
    end: usize,
    ip: usize,
    dst: &mut [u8],
    op: usize,
    len: usize,
) -> Result<(), CodecError> {
    if len > end - ip {
        return Err(malformed(ip - 1, "literal run is truncated"));
    }
    if let (Some(from), Some(to)) = (read_array::<LITERAL_MAX>(src, ip), dst.get_mut(op..op + LITERAL_MAX)) {
        to.copy_from_slice(&from);
        return Ok(());
    }
    let from = &src[ip..ip + len];
    let to = match dst.get_mut(op..op + len) {
        Some(to) => to,
        None => return Err(wrong_length(op + len, dst.len())),
    };
    to.copy_from_slice(from);
    Ok(())
}

/// Appends `len` bytes from `distance` back; `distance <= op` and `len <= dst.len() - op`.
#[inline(always)]
fn copy_match(dst: &mut [u8], op: usize, distance: usize, len: usize) {
    if len >= LONG_MATCH || dst.len() - op < len + MATCH_PIECE || op < MATCH_PIECE {
        return copy_match_exact(dst, op, distance, len);
    }
    let end = op + len;
    let mut op = op;
    if distance >= MATCH_PIECE {
        while op < end {
            let piece = dst_piece(dst, op - distance);
            dst[op..op + MATCH_PIECE].copy_from_slice(&piece);
            op += MATCH_PIECE;
        }
        return;
    }
    // The distance is shorter than a piece, so the output repeats with period `distance`. Double the last `distance`
    // bytes until they fill a piece, then store it in steps that keep the phase.
    let last = u128::from_le_bytes(dst_piece(dst, op - MATCH_PIECE));
    let mut pattern = last >> (8 * (MATCH_PIECE - distance));
    let mut filled = distance;
    while filled < MATCH_PIECE {
        pattern |= pattern << (8 * filled);
        filled *= 2;
    }
    let pattern = pattern.to_le_bytes();
    let step = MATCH_PIECE - MATCH_PIECE % distance;
    while op < end {
        dst[op..op + MATCH_PIECE].copy_from_slice(&pattern);
        op += step;
    }
}

/// Copies a match without writing past its end. It is also the faster version for long matches.
#[inline(never)]
fn copy_match_exact(dst: &mut [u8], op: usize, distance: usize, len: usize) {
    let end = op + len;
    if distance == 1 {
        let byte = dst[op - 1];
        return dst[op..end].fill(byte);
    }
    // Everything from `start` on repeats with period `distance`. Each step copies all that is there, so the number of
    // steps is logarithmic.
    let start = op - distance;
    let mut op = op;
    while op < end {
        let step = (op - start).min(end - op);
        dst.copy_within(start..start + step, op);
        op += step;
    }
}

#[inline(always)]
fn dst_piece(dst: &[u8], at: usize) -> [u8; MATCH_PIECE] {
    let mut piece = [0; MATCH_PIECE];
    piece.copy_from_slice(&dst[at..at + MATCH_PIECE]);
    piece
}

#[cold]
fn wrong_length(got: usize, expected: usize) -> CodecError {
    CodecError::WrongLength { codec: CodecId::BLOSCLZ, got, expected }
}
