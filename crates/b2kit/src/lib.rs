#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

pub use b2_chunk::{
    self as chunk, Chunk, ChunkRef, CodecId, Compression, Compressor, Decompressor, FilterId, Limits, Plugins,
};
pub use b2_codecs as codecs;
pub use b2_core::{self as base, Control, ErrorKind, Progress, Report};
pub use b2_filters as filters;
pub use b2_frame::{self as frame, FrameEditor, FrameWriter, SuperChunk};
/// The version of `ndarray` (0.17) whose arrays this crate reads and writes.
#[cfg(feature = "ndarray")]
#[doc(no_inline)]
pub use b2nd::ndarray;
pub use b2nd::{
    self as nd, ArrayBuilder, ArrayEditor, Axis, Dtype, Element, NdArray, RegionSource, Selection, Slice,
    range, source,
};

use b2_chunk::ChunkError;
use b2_frame::FrameError;
use b2nd::NdError;

/// Compresses values into a chunk, a buffer that needs no file.
///
/// ```
/// use b2kit::{Chunk, Compression};
/// let values: Vec<f64> = (0..10_000).map(|i| f64::from(i).sqrt()).collect();
/// let packed: Chunk = b2kit::compress(&values, &Compression::lz4())?;
/// let again: Vec<f64> = packed.decompress()?;
/// assert_eq!(again, values);
/// # Ok::<(), b2kit::Error>(())
/// ```
///
/// # Errors
/// As for [`Chunk::compress`].
pub fn compress<T: Element>(values: &[T], compression: &Compression) -> Result<Chunk, ChunkError> {
    Chunk::compress(values, compression)
}

/// Decompresses the values of a chunk, given its bytes.
///
/// ```
/// let packed = b2kit::compress(&[1i64, 2, 3], &b2kit::Compression::zstd(9))?.into_bytes();
/// assert_eq!(b2kit::decompress::<i64>(&packed)?, [1, 2, 3]);
/// # Ok::<(), b2kit::Error>(())
/// ```
///
/// # Errors
/// As for [`Chunk::from_bytes`] and [`ChunkRef::decompress_with`].
pub fn decompress<T: Element>(chunk: &[u8]) -> Result<Vec<T>, ChunkError> {
    ChunkRef::from_slice(chunk)?.decompress()
}

/// Any error of the crates that this facade re-exports, for callers that treat them the same.
///
/// Its message describes the failed action; the reason is its [`source`](std::error::Error::source). [`Report`]
/// displays both:
///
/// ```
/// use b2kit::{NdArray, Report};
/// fn main() {
///     if let Err(error) = first_item("field.b2nd") {
///         // cannot access field.b2nd: No such file or directory (os error 2)
///         eprintln!("{}", Report(&error));
///     }
/// }
///
/// fn first_item(path: &str) -> Result<f32, b2kit::Error> {
///     let items: Vec<f32> = NdArray::open(path)?.slice(0)?.read()?;
///     Ok(items[0])
/// }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A chunk is damaged, or compressing or decompressing it failed.
    #[error(transparent)]
    Chunk(#[from] ChunkError),
    /// A frame is damaged, or reading or writing it failed.
    #[error(transparent)]
    Frame(Box<FrameError>),
    /// An array is damaged, or reading or writing it failed.
    #[error(transparent)]
    Array(Box<NdError>),
}

impl Error {
    /// Returns the kind of error, which callers can act on.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Chunk(error) => error.kind(),
            Self::Frame(error) => error.kind(),
            Self::Array(error) => error.kind(),
        }
    }
}

impl From<FrameError> for Error {
    fn from(error: FrameError) -> Self {
        Self::Frame(Box::new(error))
    }
}

impl From<NdError> for Error {
    fn from(error: NdError) -> Self {
        Self::Array(Box::new(error))
    }
}

/// The Rust examples of the repository's README and of the pages in `docs`, as documentation tests.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../README.md")]
    struct Readme;
    #[doc = include_str!("../../../docs/get-started/rust.md")]
    struct GetStarted;
    #[doc = include_str!("../../../docs/how-to/plug-in.md")]
    struct PlugIn;
}
