#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]
// Input bytes must never panic. Modules that are exempt say why at their declaration.
#![cfg_attr(
    not(test),
    deny(
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss,
        clippy::expect_used,
        clippy::panic,
        clippy::string_slice,
        clippy::unreachable,
        clippy::unwrap_used
    )
)]

mod blosclz;
mod codec;
mod error;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
mod id;
mod lz4;
mod lz77;
mod ndlz;
#[cfg(any(feature = "zlib-rs", feature = "zstd-c"))]
#[cfg_attr(not(all(feature = "zlib-rs", feature = "zstd-c")), allow(dead_code))] // Each uses its own part.
#[allow(clippy::cast_possible_truncation, reason = "counts and positions of streams below 4 GiB")]
mod probe;
#[cfg(any(feature = "zlib-rs", feature = "miniz_oxide"))]
mod zlib;
#[cfg(any(feature = "zstd-c", feature = "zstd-rs"))]
mod zstd;

pub use blosclz::BloscLz;
pub use codec::{Codec, CodecContext, CodecProperties, Decoder, Encoded, Encoder, Trial};
pub use error::CodecError;
pub use id::{CodecFormat, CodecId};
#[cfg(feature = "lz4_flex")]
pub use lz4::Lz4Flex;
pub use lz4::{Lz4, Lz4Hc};
pub use ndlz::Ndlz;
#[cfg(feature = "zlib-rs")]
pub use zlib::Zlib;
#[cfg(feature = "miniz_oxide")]
pub use zlib::ZlibMiniz;
#[cfg(feature = "zstd-c")]
pub use zstd::Zstd;
#[cfg(feature = "zstd-rs")]
pub use zstd::ZstdRs;

use std::sync::Arc;

/// Returns the codecs that the enabled features provide, at most one per [`CodecId`].
///
/// If two backends of a codec are enabled, the list contains the default one: `zlib-rs` rather than `miniz_oxide`, the
/// C library rather than `ruzstd`. The other backend is a public type that can be registered instead.
///
/// ```
/// let codecs = b2_codecs::builtin();
/// assert!(codecs.iter().any(|codec| codec.id() == b2_codecs::CodecId::BLOSCLZ));
/// ```
pub fn builtin() -> Vec<Arc<dyn Codec>> {
    vec![
        Arc::new(BloscLz),
        Arc::new(Lz4),
        Arc::new(Lz4Hc),
        #[cfg(feature = "zlib-rs")]
        Arc::new(Zlib),
        #[cfg(all(feature = "miniz_oxide", not(feature = "zlib-rs")))]
        Arc::new(ZlibMiniz),
        #[cfg(feature = "zstd-c")]
        Arc::new(Zstd),
        #[cfg(all(feature = "zstd-rs", not(feature = "zstd-c")))]
        Arc::new(ZstdRs),
        Arc::new(Ndlz),
    ]
}
