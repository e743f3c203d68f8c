use b2_chunk::ChunkError;
use b2_chunk::memory::OutOfMemory;
use b2_frame::FrameError;

/// Why an array could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NdError {
    /// The frame that holds the array is at fault, or reading it.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// A chunk is at fault.
    #[error(transparent)]
    Chunk(#[from] ChunkError),
    /// The frame is a plain super-chunk: no `b2nd` or `caterva` metalayer.
    #[error("not an array: the frame has neither a `b2nd` nor a `caterva` metalayer")]
    NotAnArray,
    /// The array metalayer is malformed.
    #[error("metalayer `{name}`, {field}: {source}")]
    Meta {
        /// Name of the metalayer.
        name: &'static str,
        /// The part that is malformed.
        field: &'static str,
        /// What is wrong, with the offset from the start of the metalayer.
        source: b2_msgpack::Error,
    },
    /// A field of the array metalayer contradicts the format, another field, or the frame.
    #[error("metalayer `{name}` field `{field}` at byte {offset}: {what}")]
    Contradiction {
        /// Name of the metalayer.
        name: &'static str,
        /// The field.
        field: &'static str,
        /// Where it is, in bytes from the start of the metalayer.
        offset: usize,
        /// What was found and what was expected.
        what: String,
    },
    /// Shapes are out of range or contradict each other.
    #[error("{what}")]
    Geometry {
        /// The rule that is broken, with the numbers.
        what: String,
    },
    /// A selection does not fit the array.
    #[error("dimension {dim}: {what}")]
    Slice {
        /// Which dimension, from 0.
        dim: usize,
        /// What is wrong with it.
        what: String,
    },
    /// A dtype string cannot be parsed.
    #[error("dtype {dtype:?}, byte {offset}: {what}")]
    Dtype {
        /// The string.
        dtype: String,
        /// Where parsing stopped.
        offset: usize,
        /// What was expected there.
        what: &'static str,
    },
    /// The element type asked for is not that of the array.
    #[error("the array has dtype {dtype}, elements of type {asked} were asked for")]
    Element {
        /// The array's dtype.
        dtype: String,
        /// The Rust type.
        asked: &'static str,
    },
    /// Items have no such field.
    #[error("items of dtype {dtype} have no field {name:?}")]
    Field {
        /// Their dtype.
        dtype: String,
        /// The field asked for.
        name: String,
    },
    /// A buffer has the wrong length.
    #[error("the buffer has {have} bytes, {need} are needed")]
    BufferLength {
        /// Bytes it has.
        have: usize,
        /// Bytes needed.
        need: usize,
    },
    /// The result is too large for memory.
    #[error("the result has {asked} bytes, more than can be allocated")]
    TooLarge {
        /// Its size in bytes.
        asked: u64,
    },
    /// There is not enough memory for what reading or writing takes beside the result.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
    /// A source of items failed.
    #[error("reading the items: {0}")]
    Source(#[source] std::io::Error),
}

impl NdError {
    pub(crate) fn geometry(what: impl Into<String>) -> Self {
        Self::Geometry { what: what.into() }
    }
}
