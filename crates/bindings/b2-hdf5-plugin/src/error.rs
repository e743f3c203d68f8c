use b2_chunk::ChunkError;
use b2_frame::FrameError;
use b2nd::NdError;

/// The reason why a filter could not be set up, or a chunk could not be encoded or decoded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The parameters of the filter (`cd_values`) are invalid.
    #[error("parameters of the filter: {0}")]
    Parameters(String),
    /// The chunk does not belong to this data set.
    #[error("{0}")]
    Mismatch(String),
    /// There is not enough memory for a buffer of this many bytes.
    #[error("out of memory: {0} bytes could not be allocated")]
    OutOfMemory(usize),
    /// The chunk could not be encoded or decoded.
    #[error(transparent)]
    Chunk(#[from] ChunkError),
    /// The frame in the chunk could not be written or read.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The array in the chunk could not be written or read.
    #[error(transparent)]
    Array(#[from] NdError),
    /// A function of HDF5 failed or could not be found.
    #[error("{0}")]
    Hdf5(&'static str),
}
