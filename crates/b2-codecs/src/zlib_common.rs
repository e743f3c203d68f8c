//! What the two zlib backends share.

use crate::{CodecContext, CodecError, CodecId};

/// zlib's level is the clevel.
pub(crate) fn level(cx: &CodecContext<'_>) -> u8 {
    cx.clevel.clamp(1, 9)
}

/// The chunk format has no dictionaries for zlib, and C refuses to write one.
pub(crate) fn refuse_dict(cx: &CodecContext<'_>) -> Result<(), CodecError> {
    match cx.dict {
        None => Ok(()),
        Some(_) => Err(CodecError::Unsupported { codec: CodecId::ZLIB, what: "dictionaries" }),
    }
}

#[cold]
pub(crate) fn malformed(offset: usize, what: &'static str) -> CodecError {
    CodecError::Malformed { codec: CodecId::ZLIB, offset, what }
}

#[cold]
pub(crate) fn wrong_length(got: usize, dst: &[u8]) -> CodecError {
    CodecError::WrongLength { codec: CodecId::ZLIB, got, expected: dst.len() }
}
