#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub use b2_chunk::{
    self as chunk, BlockInfo, CParams, CParamsBuilder, Chunk, ChunkError, ChunkHeader, CodecFormat, CodecId,
    Container, DParams, FilterId, FilterSlot, Goal, LazyChunk, LazyHead, Limits, Plugins, SpecialKind,
    SplitMode,
};
pub use b2_chunk::{ChunkReader, Destination};
pub use b2_codecs as codecs;
pub use b2_filters as filters;
pub use b2_frame::{
    self as frame, Checksums, Compare, Entry, FrameEditor, FrameError, FrameHeader, FrameParams, FrameWriter,
    Metalayers, OpenOptions, Storage, SuperChunk, VlMetalayers,
};
pub use b2nd::{
    self as nd, ArrayBuilder, ArrayEditor, ArrayOptions, Concat, Dtype, Element, Fill, Geometry, NdArray,
    NdError, Points, RegionSource, Select, SharedEditor, Slice, SliceDim,
};

#[cfg(feature = "ndarray")]
pub use b2nd::FromNdarray;

/// Any error of the crates behind this facade, for callers who do not tell them apart.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A chunk is at fault.
    #[error(transparent)]
    Chunk(#[from] ChunkError),
    /// A frame is at fault, or reading it.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// An array is at fault.
    #[error(transparent)]
    Array(#[from] NdError),
}
