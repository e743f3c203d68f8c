use std::error::Error;
use std::fmt;
use std::sync::Arc;

use b2_codecs::{CodecError, CodecId};
use b2_core::{Cancelled, ErrorKind, LimitExceeded, OutOfMemory};
use b2_filters::{FilterError, FilterId};

/// The error type of reading and writing chunks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChunkError {
    /// The buffer ends before the chunk does.
    #[error("chunk is truncated: {what} ends at byte {need}, but there are {have} bytes")]
    #[non_exhaustive]
    Truncated {
        /// What is cut off.
        what: &'static str,
        /// Bytes needed, from the start of the chunk.
        need: u64,
        /// Bytes available.
        have: u64,
    },
    /// A header field has a value that the format does not allow.
    #[error("chunk header field `{field}` at byte {offset} is {value}, expected {expected}")]
    #[non_exhaustive]
    Field {
        /// Name of the field.
        field: &'static str,
        /// Its offset from the start of the chunk, in bytes.
        offset: usize,
        /// Its value.
        value: i64,
        /// What the format allows.
        expected: &'static str,
    },
    /// The chunk uses features of a newer format version.
    #[error(
        "chunk header field `flags2` at byte 30 is {flags2}, expected 0 or 1 in format version {version}: written by a newer Blosc2"
    )]
    #[non_exhaustive]
    NewerVersion {
        /// Header byte 0.
        version: u8,
        /// Header byte 0x1E.
        flags2: u8,
    },
    /// A table or block inside the chunk is malformed.
    #[error("block {nblock}: {field} at byte {offset} of the chunk is {value}, expected {expected}")]
    #[non_exhaustive]
    Block {
        /// Index of the block.
        nblock: usize,
        /// Name of the malformed field.
        field: &'static str,
        /// Offset from the start of the chunk, in bytes.
        offset: u64,
        /// Its value.
        value: i64,
        /// What the format allows.
        expected: &'static str,
    },
    /// The dictionary section is malformed.
    #[error("dictionary size at byte {offset} is {value}, expected {expected}")]
    #[non_exhaustive]
    Dictionary {
        /// Offset of the size field from the start of the chunk, in bytes.
        offset: u64,
        /// Its value.
        value: i64,
        /// What the format allows.
        expected: &'static str,
    },
    /// No codec with this id is registered.
    #[error("codec id {} ({id}){} is not registered", .id.0, InHeader(*.at))]
    #[non_exhaustive]
    UnknownCodec {
        /// Id of the codec.
        id: CodecId,
        /// Offset of the header byte that names it, if it comes from a chunk header.
        at: Option<usize>,
    },
    /// The codec format is undefined (2, 5 and 7).
    #[error("codec format {0} in bits 5 to 7 of header byte 2 is not defined, expected 0, 1, 3, 4 or 6")]
    UnknownCodecFormat(u8),
    /// No filter with this id is registered.
    #[error("filter id {} ({id}){} is not registered", .id.0, InHeader(*.at))]
    #[non_exhaustive]
    UnknownFilter {
        /// Id of the filter.
        id: FilterId,
        /// Offset of the header byte that names it, if it comes from a chunk header.
        at: Option<usize>,
    },
    /// A stream could not be encoded.
    #[error("block {nblock}, stream {nstream} cannot be encoded")]
    #[non_exhaustive]
    Codec {
        /// Index of the block.
        nblock: usize,
        /// Index of the stream in the block.
        nstream: usize,
        /// The codec's own error.
        source: CodecError,
    },
    /// A stream could not be decoded.
    #[error("block {nblock}, stream {nstream} from byte {offset} of the chunk on cannot be decoded")]
    #[non_exhaustive]
    Stream {
        /// Index of the block.
        nblock: usize,
        /// Index of the stream in the block.
        nstream: usize,
        /// Offset of the stream from the start of the chunk, in bytes.
        offset: u64,
        /// The codec's own error; its offsets count from the start of the stream.
        source: CodecError,
    },
    /// A filter could not be applied: the caller chose it, or its parameter.
    #[error("block {nblock} cannot be filtered")]
    #[non_exhaustive]
    Apply {
        /// Index of the block.
        nblock: usize,
        /// The filter's own error.
        source: FilterError,
    },
    /// A filter could not be undone.
    #[error("the filters of block {nblock} cannot be undone")]
    #[non_exhaustive]
    Filter {
        /// Index of the block.
        nblock: usize,
        /// The filter's own error.
        source: FilterError,
    },
    /// The caller's prefilter or postfilter failed.
    #[error("block {nblock}: a prefilter or postfilter failed")]
    #[non_exhaustive]
    Hook {
        /// Index of the block.
        nblock: usize,
        /// The error that it returned.
        source: HookError,
    },
    /// The uncompressed bytes of a chunk could not be read; see [`PlainBlocks`](crate::PlainBlocks).
    #[error("the bytes to compress could not be read")]
    Source(#[source] HookError),
    /// The request needs more than the caller's [`Limits`](crate::Limits) allow.
    #[error(transparent)]
    Limit(#[from] LimitExceeded),
    /// The progress callback cancelled the call.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
    /// There is not enough memory.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
    /// A parameter is out of range or conflicts with another one.
    #[error("{name}: {what}")]
    #[non_exhaustive]
    Argument {
        /// Name of the parameter.
        name: &'static str,
        /// Its value and the rule it breaks.
        what: String,
    },
    /// The requested part is not inside the chunk.
    #[error("{what} {start}..{end} is not inside 0..{len}")]
    #[non_exhaustive]
    OutOfRange {
        /// Unit of the numbers.
        what: &'static str,
        /// First index requested.
        start: usize,
        /// One past the last index requested.
        end: usize,
        /// Number of valid indices.
        len: usize,
    },
}

impl ChunkError {
    /// Returns what could not be done with the chunk: "compressed", "decoded", or "processed" where the error does not
    /// tell.
    #[doc(hidden)]
    pub fn action(&self) -> &'static str {
        match self {
            Self::Codec { .. } | Self::Apply { .. } | Self::Source(_) | Self::Argument { .. } => "compressed",
            Self::Hook { .. } | Self::Limit(_) | Self::Cancelled(_) | Self::OutOfMemory(_) => "processed",
            _ => "decoded",
        }
    }

    /// Classifies the error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Truncated { .. } | Self::Field { .. } | Self::Block { .. } | Self::Dictionary { .. } => {
                ErrorKind::Damaged
            }
            Self::NewerVersion { .. } => ErrorKind::NewerVersion,
            Self::UnknownCodec { .. } | Self::UnknownCodecFormat(_) | Self::UnknownFilter { .. } => {
                ErrorKind::Unsupported
            }
            Self::Stream { source, .. } => source.kind(),
            // An error of a codec or filter that the caller chose does not mean that data is damaged.
            Self::Codec { source, .. } => parameter_kind(source.kind()),
            Self::Apply { source, .. } => parameter_kind(source.kind()),
            // The chunk names a filter that cannot be undone with the information in the chunk alone.
            Self::Filter { source, .. } => match source.kind() {
                ErrorKind::Argument => ErrorKind::Unsupported,
                kind => kind,
            },
            Self::Limit(_) => ErrorKind::Limit,
            Self::Cancelled(_) => ErrorKind::Cancelled,
            Self::OutOfMemory(_) => ErrorKind::Memory,
            Self::Argument { .. } | Self::OutOfRange { .. } | Self::Hook { .. } => ErrorKind::Argument,
            Self::Source(_) => ErrorKind::Io,
        }
    }

    pub(crate) fn argument(name: &'static str, what: impl Into<String>) -> Self {
        Self::Argument { name, what: what.into() }
    }
}

fn parameter_kind(kind: ErrorKind) -> ErrorKind {
    if kind == ErrorKind::Damaged { ErrorKind::Argument } else { kind }
}

/// Formats the position of a header field, if known.
struct InHeader(Option<usize>);

impl fmt::Display for InHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |at| write!(f, " in header byte {at}"))
    }
}

/// The error that a prefilter or postfilter returned.
#[derive(Clone, Debug)]
pub struct HookError(Arc<dyn Error + Send + Sync>);

impl HookError {
    /// Wraps an error.
    pub fn new(error: Box<dyn Error + Send + Sync>) -> Self {
        Self(error.into())
    }

    /// Returns the error.
    pub fn get(&self) -> &(dyn Error + Send + Sync + 'static) {
        &*self.0
    }
}

impl fmt::Display for HookError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for HookError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}

/// Two values are equal if they are clones of one failure.
impl PartialEq for HookError {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for HookError {}
