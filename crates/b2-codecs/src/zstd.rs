//! Zstandard through the C library: one frame per Blosc stream, contexts and digested dictionaries reused.

use crate::{Codec, CodecContext, CodecError, CodecId, Decoder, Encoded, Encoder};
use zstd::zstd_safe::{self, CCtx, CDict, DCtx, DDict, zstd_sys};

/// Level of the library for clevel 1 to 9; 22 is the highest there is.
const LEVELS: [i32; 9] = [1, 3, 5, 7, 9, 11, 13, 15, 22];
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// The zstd codec over the C library (feature `zstd-c`).
///
/// A dictionary is digested at the level of the clevel, where C-Blosc2 always digests at level 1: streams get
/// smaller and slower to write with the clevel, and every reader reads them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Zstd;

impl Codec for Zstd {
    fn id(&self) -> CodecId {
        CodecId::ZSTD
    }
    fn name(&self) -> &str {
        "zstd"
    }
    fn encoder(&self, cx: &CodecContext<'_>) -> Result<Box<dyn Encoder>, CodecError> {
        let level = LEVELS[usize::from(cx.clevel.clamp(1, 9)) - 1];
        let state = CCtx::try_create().ok_or_else(|| backend("no memory for a context"))?;
        let dict = match cx.dict {
            Some(dict) => Some(CDict::try_create(dict, level).ok_or_else(bad_dict)?),
            None => None,
        };
        Ok(Box::new(ZstdEncoder { state, level, dict }))
    }
    fn decoder(&self, cx: &CodecContext<'_>) -> Result<Box<dyn Decoder>, CodecError> {
        let state = DCtx::try_create().ok_or_else(|| backend("no memory for a context"))?;
        let dict = match cx.dict {
            Some(dict) => Some(DDict::try_create(dict).ok_or_else(bad_dict)?),
            None => None,
        };
        Ok(Box::new(ZstdDecoder { state, dict }))
    }
    fn train_dict(
        &self,
        samples: &[u8],
        sample_lens: &[usize],
        max_len: usize,
    ) -> Result<Option<Vec<u8>>, CodecError> {
        let total = sample_lens.iter().try_fold(0usize, |sum, &len| sum.checked_add(len));
        let Some(samples) = total.and_then(|total| samples.get(..total)) else {
            return Err(CodecError::Unsupported {
                codec: CodecId::ZSTD,
                what: "samples longer than their bytes",
            });
        };
        let mut dict = Vec::with_capacity(max_len);
        // Training fails when there is too little to learn from: a normal answer.
        Ok(zstd_safe::train_from_buffer(&mut dict, samples, sample_lens).ok().map(|_| dict))
    }
}

struct ZstdEncoder {
    state: CCtx<'static>,
    level: i32,
    dict: Option<CDict<'static>>,
}

impl Encoder for ZstdEncoder {
    fn encode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<Encoded, CodecError> {
        let result = match &self.dict {
            Some(dict) => self.state.compress_using_cdict(dst, src, dict),
            None => self.state.compress(dst, src, self.level),
        };
        match result {
            Ok(len) => Ok(Encoded::Len(len)),
            Err(code) if code == DST_TOO_SMALL => Ok(Encoded::TooBig),
            Err(code) => Err(backend(zstd_safe::get_error_name(code))),
        }
    }
}

struct ZstdDecoder {
    state: DCtx<'static>,
    dict: Option<DDict<'static>>,
}

impl Decoder for ZstdDecoder {
    fn decode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<(), CodecError> {
        // The library would also take several frames and skippable ones; a stream is one frame, no more.
        if !src.starts_with(&MAGIC) {
            return Err(malformed(0, "not a zstd frame"));
        }
        match zstd_safe::find_frame_compressed_size(src) {
            Ok(len) if len == src.len() => {}
            Ok(len) => return Err(malformed(len, "bytes behind the frame")),
            Err(code) => return Err(backend(zstd_safe::get_error_name(code))),
        }
        // Single-shot: the window is `dst` itself, and nothing is allocated by what the frame announces.
        let result = match &self.dict {
            Some(dict) => self.state.decompress_using_ddict(dst, src, dict),
            None => self.state.decompress(dst, src),
        };
        match result {
            Ok(len) if len == dst.len() => Ok(()),
            Ok(len) => Err(wrong_length(len, dst)),
            Err(code) if code == DST_TOO_SMALL => Err(wrong_length(dst.len().saturating_add(1), dst)),
            Err(code) => Err(backend(zstd_safe::get_error_name(code))),
        }
    }
}

/// The library returns error codes negated.
const DST_TOO_SMALL: usize = (zstd_sys::ZSTD_ErrorCode::ZSTD_error_dstSize_tooSmall as usize).wrapping_neg();

#[cold]
fn malformed(offset: usize, what: &'static str) -> CodecError {
    CodecError::Malformed { codec: CodecId::ZSTD, offset, what }
}

#[cold]
fn wrong_length(got: usize, dst: &[u8]) -> CodecError {
    CodecError::WrongLength { codec: CodecId::ZSTD, got, expected: dst.len() }
}

#[cold]
fn backend(message: &str) -> CodecError {
    CodecError::Backend { codec: CodecId::ZSTD, message: message.to_owned() }
}

#[cold]
fn bad_dict() -> CodecError {
    backend("dictionary is malformed")
}
