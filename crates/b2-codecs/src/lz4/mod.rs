//! LZ4 blocks: the codecs `lz4` and `lz4hc`.
//!
//! Every stream is one raw LZ4 block, without frame or size. A dictionary acts as the bytes right before each
//! stream; streams do not depend on each other. The block format is told in `decode`, the rules for its end in
//! `window`.

mod chains;
mod decode;
mod encode;
mod hc;
mod lazy;
mod output;
pub(crate) mod raw;

#[cfg(test)]
mod tests;
mod window;

#[cfg(test)]
pub(crate) use self::decode::decode_with;
use crate::memory::{self, OutOfMemory};
use crate::{Codec, CodecContext, CodecError, CodecId, Decoder, Encoded, Encoder};

/// The longest stream that the encoders take, as in the C library.
const MAX_STREAM: usize = 0x7E00_0000;
/// Matches reach no further back.
const MAX_DICT: usize = 0xFFFF;

/// The `lz4` codec: fast, levels trade ratio for speed.
///
/// ```
/// use b2_codecs::{Codec, CodecContext, CodecError, Encoded, Lz4};
///
/// let cx = CodecContext::new(9);
/// let data = b"to be or not to be, to be or not to be";
/// let mut stream = [0; 64];
/// let Encoded::Len(len) = Lz4.encoder(&cx)?.encode(data, &mut stream)? else { panic!("does not fit") };
/// assert!(len < data.len());
///
/// let mut decoded = [0; 38];
/// Lz4.decoder(&cx)?.decode(&stream[..len], &mut decoded)?;
/// assert_eq!(&decoded, data);
/// # Ok::<(), CodecError>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Lz4;

/// The `lz4hc` codec: LZ4 streams from a slower encoder with a better ratio. Decoding is that of [`Lz4`].
///
/// Levels 1 and 2 look one byte ahead; from 3 on the level says among how many candidates the longest match is
/// looked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lz4Hc;

impl Codec for Lz4 {
    fn id(&self) -> CodecId {
        CodecId::LZ4
    }

    fn name(&self) -> &str {
        "lz4"
    }

    fn encoder(&self, cx: &CodecContext<'_>) -> Result<Box<dyn Encoder>, CodecError> {
        let acceleration = 10 - cx.clevel.clamp(1, 9);
        Ok(BlockEncoder::boxed(encode::FastMatcher::new(acceleration.into())?, cx)?)
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

impl Codec for Lz4Hc {
    fn id(&self) -> CodecId {
        CodecId::LZ4HC
    }

    fn name(&self) -> &str {
        "lz4hc"
    }

    fn encoder(&self, cx: &CodecContext<'_>) -> Result<Box<dyn Encoder>, CodecError> {
        Ok(match cx.clevel {
            ..=2 => BlockEncoder::boxed(lazy::LazyMatcher::new()?, cx)?,
            level => BlockEncoder::boxed(hc::HcMatcher::new(level)?, cx)?,
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

/// A dictionary of the first samples, as far as they go. Nothing is trained: LZ4 has no format for it.
pub(crate) fn first_samples(
    samples: &[u8],
    sample_lens: &[usize],
    max_len: usize,
) -> Result<Option<Vec<u8>>, OutOfMemory> {
    let len = sample_lens.iter().fold(0usize, |sum, len| sum.saturating_add(*len));
    let dict = &samples[..len.min(max_len).min(samples.len())];
    if dict.is_empty() { Ok(None) } else { memory::copied(dict).map(Some) }
}

/// The part of a context's dictionary that matches can reach.
pub(crate) fn dict_in_reach<'a>(cx: &CodecContext<'a>) -> &'a [u8] {
    let dict = cx.dict.unwrap_or_default();
    &dict[dict.len().saturating_sub(MAX_DICT)..]
}

/// What differs between the encoders: how they find matches.
trait Matcher: Send {
    /// Learns the dictionary, once and before anything else.
    ///
    /// # Errors
    /// When there is not enough memory.
    fn load_dict(&mut self, dict: &[u8]) -> Result<(), OutOfMemory>;

    /// Writes `window[start..]` as a block. `window[..start]` is the dictionary. Returns its length;
    /// `None`: it does not fit.
    fn compress(&mut self, window: &[u8], start: usize, dst: &mut [u8]) -> Option<usize>;
}

struct BlockEncoder<M> {
    matcher: M,
    /// The dictionary, and while a stream is compressed a copy of it behind. Not used without dictionary.
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
            // One window spares the encoders a second place where a match can be.
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
        decode::decode(self.codec, src, dst, &self.dict)
    }

    fn decode_start(&mut self, src: &[u8], dst: &mut [u8], len: usize) -> Result<(), CodecError> {
        if dst.len() >= len {
            return self.decode(src, dst);
        }
        decode::decode_start(self.codec, src, dst, &self.dict)
    }
}
