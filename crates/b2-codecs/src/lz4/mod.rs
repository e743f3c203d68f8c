//! LZ4 blocks: the codecs `lz4` and `lz4hc`.
//!
//! Every stream is one raw LZ4 block, without frame or size. A dictionary acts as if its bytes preceded each stream;
//! streams do not depend on each other. See `decode` for the block format and `window` for the rules at its end.

#[allow(
    clippy::cast_possible_truncation,
    reason = "hashes and lengths are cut to their fields; input is below 4 GiB"
)]
mod chains;
mod decode;
#[allow(
    clippy::cast_possible_truncation,
    reason = "hashes and lengths are cut to their fields; input is below 4 GiB"
)]
mod encode;
#[cfg(feature = "lz4_flex")]
mod flex;
mod hc;
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "hashes are cut, and a sign is used as a mask; input is below 4 GiB"
)]
mod lazy;
mod matcher;
#[allow(
    clippy::cast_possible_truncation,
    reason = "hashes and lengths are cut to their fields; input is below 4 GiB"
)]
mod output;
#[allow(
    clippy::cast_possible_truncation,
    reason = "hashes and lengths are cut to their fields; input is below 4 GiB"
)]
mod raw;

#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod wide;
#[cfg(not(target_arch = "x86_64"))]
mod wide {
    pub(super) use crate::lz77::untouched as sequences;
}
mod window;

#[cfg(test)]
pub(crate) use self::decode::decode_with;
#[cfg(feature = "lz4_flex")]
pub use self::flex::Lz4Flex;
use self::matcher::Matcher;
use crate::Trial;
use crate::{Codec, CodecContext, CodecError, CodecId, CodecProperties, Decoder, Encoded, Encoder};
use b2_core::{OutOfMemory, memory};

/// The longest stream that the encoders accept, as in the C library.
const MAX_STREAM: usize = 0x7E00_0000;
/// Maximum distance of a match.
const MAX_DICT: usize = 0xFFFF;

/// The codecs that write LZ4 blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Lz4 {
    /// `lz4`: fast. Higher levels give a better ratio at lower speed.
    Fast,
    /// `lz4hc`: a slower encoder with a better ratio. Levels 1 and 2 look one byte ahead. From 3 on, the level
    /// determines how many candidates are compared for each match.
    High,
}

impl Codec for Lz4 {
    fn id(&self) -> CodecId {
        match self {
            Self::Fast => CodecId::LZ4,
            Self::High => CodecId::LZ4HC,
        }
    }

    fn name(&self) -> &str {
        match self {
            Self::Fast => "lz4",
            Self::High => "lz4hc",
        }
    }

    fn properties(&self) -> CodecProperties {
        match self {
            Self::Fast => PROPERTIES,
            Self::High => HC_PROPERTIES,
        }
    }

    fn encoder(&self, cx: &CodecContext<'_>) -> Result<Box<dyn Encoder>, CodecError> {
        crate::codec::may_encode(self.id())?;
        Ok(match (self, cx.level) {
            (Self::Fast, level) => {
                let acceleration = 10 - level.clamp(1, 9);
                BlockEncoder::boxed(encode::FastMatcher::new(acceleration.into())?, cx)?
            }
            (Self::High, ..=2) => BlockEncoder::boxed(lazy::LazyMatcher::new()?, cx)?,
            (Self::High, level) => BlockEncoder::boxed(hc::HcMatcher::new(level)?, cx)?,
        })
    }

    fn decoder(&self, cx: &CodecContext<'_>) -> Result<Box<dyn Decoder>, CodecError> {
        Ok(Box::new(BlockDecoder::new(self.id(), cx)?))
    }

    fn train_dict(
        &self,
        samples: &[u8],
        sample_lens: &[usize],
        max_len: usize,
    ) -> Result<Option<Vec<u8>>, CodecError> {
        Ok(first_samples(samples, sample_lens, max_len)?)
    }
}

/// The properties of `lz4`, for both backends.
const PROPERTIES: CodecProperties = CodecProperties::BYTES
    .dictionaries(true)
    .splits_up_to(9)
    .decoding_cost(1)
    .encoding_cost([3; 10])
    .trials(&[Trial::new(1, 0.6, 0.15), Trial::new(5, 0.7, 0.17), Trial::new(9, 0.9, 0.2)]);

const HC_PROPERTIES: CodecProperties = CodecProperties::BYTES
    .dictionaries(true)
    .long_windows(true)
    .trials(&[Trial::new(5, 11.0, 0.2), Trial::new(9, 20.0, 0.2).smallest(true)]);

/// Builds a dictionary from the first samples, up to its maximum length. LZ4 defines no training.
fn first_samples(
    samples: &[u8],
    sample_lens: &[usize],
    max_len: usize,
) -> Result<Option<Vec<u8>>, OutOfMemory> {
    let len = sample_lens.iter().fold(0usize, |sum, len| sum.saturating_add(*len));
    let dict = &samples[..len.min(max_len).min(samples.len())];
    if dict.is_empty() { Ok(None) } else { memory::copied(dict).map(Some) }
}

/// Returns the part of the dictionary that matches can reach.
fn dict_in_reach<'a>(cx: &CodecContext<'a>) -> &'a [u8] {
    let dict = cx.dict.unwrap_or_default();
    &dict[dict.len().saturating_sub(MAX_DICT)..]
}

struct BlockEncoder<M> {
    matcher: M,
    /// The dictionary, followed by a copy of the stream being compressed. Unused without a dictionary.
    window: Vec<u8>,
    dict_len: usize,
}

impl<M: Matcher + 'static> BlockEncoder<M> {
    fn boxed(mut matcher: M, cx: &CodecContext<'_>) -> Result<Box<dyn Encoder>, OutOfMemory> {
        let dict = dict_in_reach(cx);
        if !dict.is_empty() {
            matcher.load_dict(dict)?;
        }
        Ok(Box::new(Self { matcher, window: memory::copied(dict)?, dict_len: dict.len() }))
    }
}

impl<M: Matcher> Encoder for BlockEncoder<M> {
    fn encode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<Encoded, CodecError> {
        if src.len() > MAX_STREAM {
            return Ok(Encoded::TooBig);
        }
        let done = if self.dict_len == 0 {
            self.matcher.compress(src, 0, dst)
        } else {
            // With a contiguous window, encoders need not distinguish matches in the dictionary.
            self.window.truncate(self.dict_len);
            memory::reserve(&mut self.window, src.len())?;
            self.window.extend_from_slice(src);
            self.matcher.compress(&self.window, self.dict_len, dst)
        };
        Ok(done.map_or(Encoded::TooBig, Encoded::Len))
    }
}

struct BlockDecoder {
    codec: CodecId,
    dict: Vec<u8>,
}

impl BlockDecoder {
    fn new(codec: CodecId, cx: &CodecContext<'_>) -> Result<Self, OutOfMemory> {
        Ok(Self { codec, dict: memory::copied(dict_in_reach(cx))? })
    }
}

impl Decoder for BlockDecoder {
    fn decode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<(), CodecError> {
        decode::decode(self.codec, src, src.len(), dst, dst.len(), &self.dict)
    }

    fn decode_with_room(
        &mut self,
        src: &[u8],
        end: usize,
        dst: &mut [u8],
        len: usize,
    ) -> Result<(), CodecError> {
        decode::decode(self.codec, src, end, dst, len, &self.dict)
    }

    fn decode_start(&mut self, src: &[u8], dst: &mut [u8], len: usize) -> Result<(), CodecError> {
        if dst.len() >= len {
            return self.decode(src, dst);
        }
        decode::decode_start(self.codec, src, dst, &self.dict)
    }
}
