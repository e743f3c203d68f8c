#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
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
#[cfg_attr(not(all(feature = "zlib-rs", feature = "zstd-c")), allow(dead_code))] // Each module uses only a part.
#[allow(clippy::cast_possible_truncation, reason = "counts and positions of streams below 4 GiB")]
mod probe;
#[cfg(feature = "snappy")]
mod snappy;
#[cfg(any(feature = "zlib-rs", feature = "miniz_oxide"))]
mod zlib;
#[cfg(any(feature = "zstd-c", feature = "zstd-rs"))]
mod zstd;

pub use codec::{Codec, CodecContext, CodecProperties, Decoder, Encoded, Encoder, Trial};
pub use error::CodecError;
pub use id::{CodecFormat, CodecId};
#[cfg(feature = "lz4_flex")]
pub use lz4::Lz4Flex;
#[cfg(feature = "miniz_oxide")]
pub use zlib::ZlibMiniz;
#[cfg(feature = "zstd-rs")]
pub use zstd::ZstdRs;

use std::sync::Arc;

/// Returns the codecs that the enabled features provide, at most one per [`CodecId`].
///
/// If two backends of a codec are enabled, the list contains the default one: `zlib-rs` rather than `miniz_oxide`, the
/// C library rather than `ruzstd`. The other backend is a public type that can be registered instead.
///
/// ```
/// use b2_codecs::{CodecContext, CodecError, CodecId, Encoded};
///
/// let codecs = b2_codecs::builtin();
/// let lz4 = codecs.iter().find(|codec| codec.id() == CodecId::LZ4).unwrap();
/// let cx = CodecContext::new(9);
/// let data = b"to be or not to be, to be or not to be";
/// let mut stream = [0; 64];
/// let Encoded::Len(len) = lz4.encoder(&cx)?.encode(data, &mut stream)? else { panic!("does not fit") };
/// assert!(len < data.len());
///
/// let mut decoded = [0; 38];
/// lz4.decoder(&cx)?.decode(&stream[..len], &mut decoded)?;
/// assert_eq!(&decoded, data);
/// # Ok::<(), CodecError>(())
/// ```
pub fn builtin() -> Vec<Arc<dyn Codec>> {
    vec![
        Arc::new(blosclz::BloscLz),
        Arc::new(lz4::Lz4::Fast),
        Arc::new(lz4::Lz4::High),
        #[cfg(feature = "zlib-rs")]
        Arc::new(zlib::Zlib),
        #[cfg(all(feature = "miniz_oxide", not(feature = "zlib-rs")))]
        Arc::new(ZlibMiniz),
        #[cfg(feature = "zstd-c")]
        Arc::new(zstd::Zstd),
        #[cfg(all(feature = "zstd-rs", not(feature = "zstd-c")))]
        Arc::new(ZstdRs),
        Arc::new(ndlz::Ndlz),
        #[cfg(feature = "snappy")]
        Arc::new(snappy::Snappy),
    ]
}
