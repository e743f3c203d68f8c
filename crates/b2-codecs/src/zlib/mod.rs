//! zlib: the codec `zlib`, with two backends.

#[cfg(feature = "zlib-rs")]
#[allow(
    clippy::cast_possible_truncation,
    reason = "code lengths and symbols are below 2^16; input is below 4 GiB"
)]
mod deflate;
#[cfg(feature = "miniz_oxide")]
mod miniz;
#[cfg(feature = "zlib-rs")]
mod rs;

#[cfg(feature = "miniz_oxide")]
pub use self::miniz::ZlibMiniz;
#[cfg(feature = "zlib-rs")]
pub(crate) use self::rs::Zlib;

use crate::{CodecContext, CodecError, CodecId, CodecProperties};

const PROPERTIES: CodecProperties = CodecProperties::BYTES.long_windows(true);

/// Returns the zlib level, which is the clevel.
fn level(cx: &CodecContext<'_>) -> u8 {
    cx.level.clamp(1, 9)
}

#[cold]
fn malformed(offset: usize, what: &'static str) -> CodecError {
    CodecError::Malformed { codec: CodecId::ZLIB, offset, what }
}

#[cold]
fn wrong_length(got: usize, dst: &[u8]) -> CodecError {
    CodecError::WrongLength { codec: CodecId::ZLIB, got, expected: dst.len() }
}
