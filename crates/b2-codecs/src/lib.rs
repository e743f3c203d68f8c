#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

mod blosclz;
#[cfg(feature = "zlib-rs")]
mod deflate;
mod error;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
mod id;
mod lz4;
#[cfg(feature = "lz4_flex")]
mod lz4_flex;
pub mod memory;
mod ndlz;
mod pool;
#[cfg(any(feature = "zlib-rs", feature = "zstd-c"))]
#[cfg_attr(not(all(feature = "zlib-rs", feature = "zstd-c")), allow(dead_code))] // Each uses its own part.
mod probe;
#[allow(unsafe_code)]
mod wide;
#[cfg(feature = "zlib-rs")]
mod zlib;
#[cfg(any(feature = "zlib-rs", feature = "miniz_oxide"))]
mod zlib_common;
#[cfg(feature = "miniz_oxide")]
mod zlib_miniz;
#[cfg(feature = "zstd-c")]
mod zstd;
#[cfg(feature = "zstd-c")]
mod zstd_dict;
#[cfg(feature = "zstd-rs")]
mod zstd_rs;

pub use blosclz::BloscLz;
pub use error::CodecError;
pub use id::{CodecFormat, CodecId};
pub use lz4::{Lz4, Lz4Hc};
#[cfg(feature = "lz4_flex")]
pub use lz4_flex::Lz4Flex;
pub use ndlz::Ndlz;
#[cfg(feature = "zlib-rs")]
pub use zlib::Zlib;
#[cfg(feature = "miniz_oxide")]
pub use zlib_miniz::ZlibMiniz;
#[cfg(feature = "zstd-c")]
pub use zstd::Zstd;
#[cfg(feature = "zstd-rs")]
pub use zstd_rs::ZstdRs;

use std::fmt::Debug;
use std::sync::Arc;

/// The codecs that the enabled features provide, at most one per [`CodecId`].
///
/// Where two backends are enabled for one codec, the default one is listed: `zlib-rs` before `miniz_oxide`, the
/// C library before `ruzstd`. The other type is public, for callers who want to plug it in instead.
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

/// What a codec may know about the streams it is asked to handle.
///
/// Everything here is constant over one chunk, so an [`Encoder`] or [`Decoder`] made from it can be
/// reused for all streams of the chunk.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct CodecContext<'a> {
    /// Compression level, 0 to 9 (encoders only).
    pub clevel: u8,
    /// The codec's parameter byte, chunk header byte 0x17.
    pub meta: u8,
    /// Item size in bytes; 1 for chunks whose real item size is above 255.
    pub typesize: usize,
    /// The chunk's dictionary, if it has one.
    pub dict: Option<&'a [u8]>,
    /// Shape of a block in items, for codecs that are N-dimensional (ndlz). Empty if not an array.
    pub blockshape: &'a [u32],
}

impl<'a> CodecContext<'a> {
    /// A context for plain streams at `clevel`: typesize 1, no dictionary, not an array.
    pub fn new(clevel: u8) -> Self {
        Self { clevel, typesize: 1, ..Self::default() }
    }
    /// Sets the codec's parameter byte.
    pub fn with_meta(self, meta: u8) -> Self {
        Self { meta, ..self }
    }
    /// Sets the item size in bytes.
    pub fn with_typesize(self, typesize: usize) -> Self {
        Self { typesize, ..self }
    }
    /// Sets the dictionary.
    pub fn with_dict(self, dict: Option<&'a [u8]>) -> Self {
        Self { dict, ..self }
    }
    /// Sets the block shape in items.
    pub fn with_blockshape(self, blockshape: &'a [u32]) -> Self {
        Self { blockshape, ..self }
    }
}

/// A compressor for one stream, found by the id in the chunk header.
pub trait Codec: Debug + Send + Sync {
    /// The id that chunk and frame headers carry.
    fn id(&self) -> CodecId;
    /// Name as users write it, for example `zstd`.
    fn name(&self) -> &str;
    /// State for one worker thread, reused for every stream it handles.
    ///
    /// # Errors
    /// When the codec cannot encode (decode-only codecs), or not with this context.
    fn encoder(&self, cx: &CodecContext<'_>) -> Result<Box<dyn Encoder>, CodecError>;
    /// State for one worker thread, reused for every stream it handles.
    ///
    /// # Errors
    /// When the codec cannot decode with this context.
    fn decoder(&self, cx: &CodecContext<'_>) -> Result<Box<dyn Decoder>, CodecError>;
    /// Makes a dictionary of at most `max_len` bytes for the streams of a chunk.
    ///
    /// `samples` is the concatenation of the filtered blocks, `sample_lens` the lengths of the consecutive
    /// samples at its start. `Ok(None)`: no dictionary is worth it, or training failed.
    ///
    /// # Errors
    /// [`CodecError::Unsupported`] when the codec has no dictionaries (the default).
    fn train_dict(
        &self,
        samples: &[u8],
        sample_lens: &[usize],
        max_len: usize,
    ) -> Result<Option<Vec<u8>>, CodecError> {
        let _ = (samples, sample_lens, max_len);
        Err(CodecError::Unsupported { codec: self.id(), what: "dictionaries" })
    }
}

/// Compresses streams.
pub trait Encoder: Send {
    /// Compresses `src` into the start of `dst`. [`Encoded::TooBig`] is a normal answer (the result would
    /// not fit `dst`, or the codec gave up); the caller then stores the stream as it is.
    ///
    /// # Errors
    /// Only when the backend fails for another reason than space.
    fn encode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<Encoded, CodecError>;
}

/// Decompresses streams.
pub trait Decoder: Send {
    /// Fills all of `dst` from `src`. The result never depends on what `dst` held before.
    ///
    /// # Errors
    /// When `src` is malformed, or decodes to fewer or more bytes than `dst` holds.
    fn decode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<(), CodecError>;

    /// Fills `dst` with the first bytes of a stream that decodes to `len` bytes, `dst.len()` or more.
    ///
    /// What the stream has to say behind these bytes may be looked at or not. So a damaged stream may be an
    /// error here or give the bytes in front of the damage; it never gives others, nor bytes beyond its end.
    ///
    /// The default decodes all `len` bytes into memory of its own, so `len` must not come unchecked from a
    /// file. Codecs that can stop early do so, and need no memory for the rest.
    ///
    /// # Errors
    /// As [`decode`](Self::decode), as far as the stream is looked at.
    fn decode_start(&mut self, src: &[u8], dst: &mut [u8], len: usize) -> Result<(), CodecError> {
        if dst.len() >= len {
            return self.decode(src, dst);
        }
        let mut all = memory::zeroed(len)?;
        self.decode(src, &mut all)?;
        dst.copy_from_slice(&all[..dst.len()]);
        Ok(())
    }
}

/// What [`Encoder::encode`] achieved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoded {
    /// This many bytes were written.
    Len(usize),
    /// The result does not fit.
    TooBig,
}
