//! BloscLZ: Blosc's own byte-oriented LZ77.
//!
//! ```text
//! stream  = literals token* literals          the first control byte counts only its low 5 bits
//! c < 32    c + 1 literal bytes follow
//! c >= 32   match: L = c >> 5, hi = c & 31
//!           L < 7: length L + 2;  L = 7: length 9 + sum of extension bytes, up to the first that is not 255
//!           next byte lo: distance hi * 256 + lo + 1 (1 to 8191),
//!           or for hi = 31, lo = 255: two more bytes, big-endian, + 8192 (8192 to 73727)
//! ```
//!
//! (Chunk format, BloscLZ stream.)

mod decode;
mod encode;

#[cfg(test)]
pub(crate) use self::decode::decode_with;

use crate::pool::Pooled;
use crate::{Codec, CodecContext, CodecError, CodecId, Decoder, Encoded, Encoder};
use std::cell::RefCell;

/// The blosclz codec. Both directions are our own code.
#[derive(Clone, Copy, Debug, Default)]
pub struct BloscLz;

/// Longest literal run of one token.
pub(crate) const LITERAL_MAX: usize = 32;
/// Distances from here on take two more bytes.
pub(crate) const FAR_BASE: usize = 8192;

thread_local! {
    static STATES: RefCell<Vec<encode::State>> = const { RefCell::new(Vec::new()) };
}

impl Codec for BloscLz {
    fn id(&self) -> CodecId {
        CodecId::BLOSCLZ
    }
    fn name(&self) -> &str {
        "blosclz"
    }
    fn encoder(&self, cx: &CodecContext<'_>) -> Result<Box<dyn Encoder>, CodecError> {
        refuse_dict(cx)?;
        let state = Pooled::any(&STATES, encode::State::new)?;
        Ok(Box::new(BloscLzEncoder { clevel: cx.clevel, state }))
    }
    fn decoder(&self, cx: &CodecContext<'_>) -> Result<Box<dyn Decoder>, CodecError> {
        refuse_dict(cx)?;
        Ok(Box::new(BloscLzDecoder))
    }
}

/// The format has no place for a dictionary, and C refuses to write one.
fn refuse_dict(cx: &CodecContext<'_>) -> Result<(), CodecError> {
    match cx.dict {
        None => Ok(()),
        Some(_) => Err(CodecError::Unsupported { codec: CodecId::BLOSCLZ, what: "dictionaries" }),
    }
}

struct BloscLzEncoder {
    clevel: u8,
    state: Pooled<encode::State>,
}

impl Encoder for BloscLzEncoder {
    fn encode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<Encoded, CodecError> {
        Ok(match self.state.encode(self.clevel, src, dst) {
            Some(len) => Encoded::Len(len),
            None => Encoded::TooBig,
        })
    }
}

struct BloscLzDecoder;

impl Decoder for BloscLzDecoder {
    fn decode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<(), CodecError> {
        decode::decode(src, dst)
    }

    fn decode_start(&mut self, src: &[u8], dst: &mut [u8], len: usize) -> Result<(), CodecError> {
        if dst.len() >= len {
            return self.decode(src, dst);
        }
        decode::decode_start(src, dst)
    }
}

#[cold]
fn malformed(offset: usize, what: &'static str) -> CodecError {
    CodecError::Malformed { codec: CodecId::BLOSCLZ, offset, what }
}

/// The `N` bytes at `at`, if they are there.
#[inline(always)]
fn read_array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk::<N>().copied()
}
