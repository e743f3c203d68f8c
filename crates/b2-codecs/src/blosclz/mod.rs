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
//! See docs/format/codecs-and-filters.md, blosclz.

mod decode;
#[allow(
    clippy::cast_possible_truncation,
    reason = "hashes and lengths are cut to their fields; input is below 4 GiB"
)]
mod encode;
mod format;
#[cfg(target_arch = "x86_64")]
mod wide;
#[cfg(not(target_arch = "x86_64"))]
mod wide {
    pub(super) use crate::lz77::untouched as tokens;
}

#[cfg(test)]
pub(crate) use self::decode::decode_with;

use crate::{Codec, CodecContext, CodecError, CodecId, CodecProperties, Decoder, Encoded, Encoder};
use b2_core::Pooled;
use std::cell::RefCell;

/// The blosclz codec, implemented in this crate.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BloscLz;

thread_local! {
    static STATES: RefCell<Vec<encode::EncoderState>> = const { RefCell::new(Vec::new()) };
}

impl Codec for BloscLz {
    fn id(&self) -> CodecId {
        CodecId::BLOSCLZ
    }
    fn name(&self) -> &str {
        "blosclz"
    }
    fn properties(&self) -> CodecProperties {
        CodecProperties::BYTES.splits_up_to(9).decoding_cost(1).encoding_cost([3; 10])
    }
    fn encoder(&self, cx: &CodecContext<'_>) -> Result<Box<dyn Encoder>, CodecError> {
        crate::codec::may_encode(self.id())?;
        cx.refuse_dict(self.id())?;
        let state = Pooled::take(&STATES, |_| true, encode::EncoderState::new)?;
        Ok(Box::new(BloscLzEncoder { clevel: cx.level, state }))
    }
    fn decoder(&self, cx: &CodecContext<'_>) -> Result<Box<dyn Decoder>, CodecError> {
        cx.refuse_dict(self.id())?;
        Ok(Box::new(BloscLzDecoder))
    }
}

struct BloscLzEncoder {
    clevel: u8,
    state: Pooled<encode::EncoderState>,
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
        decode::decode(src, src.len(), dst, dst.len())
    }

    fn decode_with_room(
        &mut self,
        src: &[u8],
        end: usize,
        dst: &mut [u8],
        len: usize,
    ) -> Result<(), CodecError> {
        decode::decode(src, end, dst, len)
    }

    fn decode_start(&mut self, src: &[u8], dst: &mut [u8], len: usize) -> Result<(), CodecError> {
        if dst.len() >= len {
            return self.decode(src, dst);
        }
        decode::decode_start(src, dst)
    }
}
