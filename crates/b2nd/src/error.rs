use b2_chunk::ChunkError;
use b2_core::{Cancelled, ErrorKind, LimitExceeded, OutOfMemory};
use b2_frame::FrameError;

/// The reason why an array could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NdError {
    /// The array opened by path or with a name is malformed or exceeds a limit; see [`detail`](Self::detail).
    #[error("cannot read {name}")]
    #[non_exhaustive]
    Unreadable {
        /// The path or name.
        name: String,
        /// What is wrong with the array.
        source: Box<Self>,
    },
    /// Reading the frame that holds the array failed, or the frame is damaged.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// Stored bytes are damaged.
    #[error("{items} cannot be read, since stored bytes are damaged; `b2kit salvage` recovers the rest")]
    #[non_exhaustive]
    Damaged {
        /// The items of the damaged chunk, as a slice.
        items: String,
        /// The damaged structure.
        source: Box<FrameError>,
    },
    /// A chunk is damaged or could not be decoded.
    #[error(transparent)]
    Chunk(#[from] ChunkError),
    /// The frame is a plain super-chunk: it has no `b2nd` or `caterva` metalayer.
    #[error("not an array: the frame has neither a `b2nd` nor a `caterva` metalayer")]
    NotAnArray,
    /// The frame has the shape of an array, but its items are computed or fetched by python-blosc2. Here they would all
    /// read as zeros.
    #[error(
        "{what} of python-blosc2 (metalayer `{marker}`), which stores no items: save the computed array there"
    )]
    #[non_exhaustive]
    NoItems {
        /// Name of the metalayer that marks it.
        marker: &'static str,
        /// The kind of object.
        what: &'static str,
    },
    /// The array metalayer is malformed.
    #[error("{field} of the metalayer `{name}` is malformed")]
    #[non_exhaustive]
    Meta {
        /// Name of the metalayer.
        name: &'static str,
        /// The field that is malformed.
        field: &'static str,
        /// The problem, with the offset from the start of the metalayer.
        source: b2_msgpack::Error,
    },
    /// A field of the array metalayer contradicts the format, another field or the frame.
    #[error("metalayer `{name}` field `{field}` at byte {offset}: {what}")]
    #[non_exhaustive]
    Contradiction {
        /// Name of the metalayer.
        name: &'static str,
        /// The field.
        field: &'static str,
        /// Offset of the field in bytes from the start of the metalayer.
        offset: usize,
        /// The value found and the expected values.
        what: String,
    },
    /// A chunk does not have the size that the array's shape demands.
    #[error("chunk {nchunk} has {have} bytes, the shape of the array needs {need}")]
    #[non_exhaustive]
    ChunkSize {
        /// Number of the chunk.
        nchunk: usize,
        /// Its uncompressed size in bytes.
        have: usize,
        /// The size of every chunk of the array, in bytes.
        need: usize,
    },
    /// Shapes are out of range or contradict each other.
    #[error("{what}")]
    #[non_exhaustive]
    Geometry {
        /// The violated rule, with the numbers.
        what: String,
    },
    /// An argument is out of range, or does not fit the array or the other arguments.
    #[error("{what}")]
    #[non_exhaustive]
    Argument {
        /// What is wrong with it.
        what: String,
    },
    /// The request is valid, but this array or this build does not support it.
    #[error("{what}")]
    #[non_exhaustive]
    Unsupported {
        /// The unsupported feature.
        what: &'static str,
    },
    /// A selection does not fit the array.
    #[error("dimension {dim}: {what}")]
    #[non_exhaustive]
    Slice {
        /// The dimension, counted from 0.
        dim: usize,
        /// What is wrong with it.
        what: String,
    },
    /// A dtype string cannot be parsed.
    #[error("dtype {dtype:?}, byte {offset}: {what}")]
    #[non_exhaustive]
    Dtype {
        /// The dtype string.
        dtype: String,
        /// Byte offset at which parsing stopped.
        offset: usize,
        /// What was expected there.
        what: &'static str,
    },
    /// The requested element type does not match the array's dtype.
    #[error("the array has dtype {dtype}, but elements of type {asked} were requested")]
    #[non_exhaustive]
    Element {
        /// The array's dtype.
        dtype: String,
        /// The requested Rust type.
        asked: &'static str,
    },
    /// The dtype has no field of this name.
    #[error("items of dtype {dtype} have no field {name:?}")]
    #[non_exhaustive]
    Field {
        /// The array's dtype.
        dtype: String,
        /// The requested field.
        name: String,
    },
    /// The value of an attribute is not valid msgpack, or has extra bytes.
    #[error("attribute {name:?}: {what}")]
    #[non_exhaustive]
    Attribute {
        /// Name of the attribute.
        name: String,
        /// What is wrong with its value.
        what: String,
    },
    /// A buffer has the wrong length.
    #[error("the buffer has {have} bytes, but {need} are needed")]
    #[non_exhaustive]
    BufferLength {
        /// Length of the buffer in bytes.
        have: usize,
        /// Required length in bytes.
        need: usize,
    },
    /// The result is too large for memory.
    #[error("the result needs {asked} bytes, more than can be allocated")]
    #[non_exhaustive]
    TooLarge {
        /// Size of the result in bytes.
        asked: u64,
    },
    /// The request needs more than the caller's limits allow.
    #[error(transparent)]
    Limit(#[from] LimitExceeded),
    /// The progress callback stopped the call; nothing was changed.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
    /// Allocating the working memory of a read or write failed.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
    /// A source of items failed.
    #[error("cannot read the items from their source")]
    Source(#[source] std::io::Error),
}

impl NdError {
    /// Returns the kind of error, which callers can act on.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Unreadable { source, .. } => source.kind(),
            Self::Frame(error) => error.kind(),
            Self::Damaged { source, .. } => source.kind(),
            Self::Chunk(error) => error.kind(),
            Self::NotAnArray => ErrorKind::NotBlosc,
            Self::Meta { .. }
            | Self::Contradiction { .. }
            | Self::ChunkSize { .. }
            | Self::Attribute { .. } => ErrorKind::Damaged,
            Self::Geometry { .. }
            | Self::Slice { .. }
            | Self::Dtype { .. }
            | Self::Element { .. }
            | Self::Field { .. }
            | Self::Argument { .. }
            | Self::BufferLength { .. } => ErrorKind::Argument,
            Self::Unsupported { .. } | Self::NoItems { .. } => ErrorKind::Unsupported,
            Self::Limit(_) => ErrorKind::Limit,
            Self::Cancelled(_) => ErrorKind::Cancelled,
            Self::TooLarge { .. } | Self::OutOfMemory(_) => ErrorKind::Memory,
            Self::Source(error) => {
                let own = error.get_ref().and_then(|inner| inner.downcast_ref::<Self>());
                own.map_or(ErrorKind::Io, Self::kind)
            }
        }
    }

    /// Returns what is wrong with the array, if the error is [`Unreadable`](Self::Unreadable), else the error itself. See
    /// also [`FrameError::detail`].
    ///
    /// ```
    /// use b2_frame::{FrameParams, FrameWriter};
    /// use b2nd::{NdArray, NdError};
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("bytes.b2frame");
    /// FrameWriter::create(&path, FrameParams::new(4))?.finish()?;
    /// let error = NdArray::open(&path).unwrap_err();
    /// assert!(error.to_string().starts_with("cannot read ") && error.to_string().ends_with("bytes.b2frame"));
    /// assert!(matches!(error.detail(), NdError::NotAnArray));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn detail(&self) -> &Self {
        match self {
            Self::Unreadable { source, .. } => source.detail(),
            other => other,
        }
    }

    /// Adds the name of the array to an error about its content that does not name it.
    pub(crate) fn of(self, name: &str) -> Self {
        match self {
            Self::Frame(error) => Self::Frame(error.of(name)),
            Self::Damaged { .. }
            | Self::Chunk(_)
            | Self::NotAnArray
            | Self::NoItems { .. }
            | Self::Meta { .. }
            | Self::Contradiction { .. }
            | Self::ChunkSize { .. }
            | Self::Attribute { .. }
            | Self::Limit(_) => Self::Unreadable { name: name.to_owned(), source: Box::new(self) },
            _ => self,
        }
    }

    /// Creates the error for an invalid argument.
    #[doc(hidden)]
    pub fn argument(what: impl Into<String>) -> Self {
        Self::Argument { what: what.into() }
    }

    /// Creates the error for a result of `asked` bytes that cannot be allocated.
    #[doc(hidden)]
    pub fn too_large(asked: u64) -> Self {
        Self::TooLarge { asked }
    }

    /// Creates the error for an array that would have more than 2^64 - 1 items along `axis`.
    pub(crate) fn too_long(axis: usize) -> Self {
        Self::geometry(format!("dimension {axis} would be longer than any array can be"))
    }

    pub(crate) fn geometry(what: impl Into<String>) -> Self {
        Self::Geometry { what: what.into() }
    }
}
