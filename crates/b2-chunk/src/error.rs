use b2_codecs::{CodecError, CodecId};
use b2_filters::{FilterError, FilterId};

/// Why a chunk could not be read or written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChunkError {
    /// The buffer ends before the chunk does.
    #[error("chunk is truncated: {what} needs {need} bytes, there are {have}")]
    Truncated {
        /// The part that does not fit.
        what: &'static str,
        /// Bytes needed, from the start of the chunk.
        need: u64,
        /// Bytes present.
        have: u64,
    },
    /// A header field has a value the format does not allow.
    #[error("chunk header field `{field}` at byte {offset} is {value}, expected {expected}")]
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
    /// The chunk uses features of a later format version.
    #[error("chunk format version {version} with unknown flags {flags2:#04x}: written by a newer Blosc2")]
    FromTheFuture {
        /// Header byte 0.
        version: u8,
        /// Header byte 0x1E.
        flags2: u8,
    },
    /// A table or block inside the chunk is malformed.
    #[error("block {nblock}, byte {offset} of the chunk: {what}")]
    Block {
        /// Which block.
        nblock: usize,
        /// Offset from the start of the chunk, in bytes.
        offset: u64,
        /// What is wrong there.
        what: &'static str,
    },
    /// The dictionary section is malformed.
    #[error("dictionary size at byte {offset} is {value}, expected {expected}")]
    Dictionary {
        /// Offset of the size field from the start of the chunk, in bytes.
        offset: u64,
        /// Its value.
        value: i64,
        /// What the format allows.
        expected: &'static str,
    },
    /// A stream needs a codec that is not there.
    #[error("codec id {} ({}) is not registered", .0.0, .0)]
    UnknownCodec(CodecId),
    /// A stream needs a codec format that nothing defines (2, 5 and 7).
    #[error("codec format {0} in the chunk flags is not defined")]
    UnknownCodecFormat(u8),
    /// The pipeline needs a filter that is not there.
    #[error("filter id {} ({}) is not registered", .0.0, .0)]
    UnknownFilter(FilterId),
    /// A stream could not be encoded or decoded.
    #[error("block {nblock}, stream {nstream}: {source}")]
    Codec {
        /// Which block.
        nblock: usize,
        /// Which stream of it.
        nstream: usize,
        /// The codec's own error.
        source: CodecError,
    },
    /// A filter could not be applied or undone.
    #[error("block {nblock}: {source}")]
    Filter {
        /// Which block.
        nblock: usize,
        /// The filter's own error.
        source: FilterError,
    },
    /// The request needs more than the caller's [`Limits`](crate::Limits) allow.
    #[error("{what} needs {asked} bytes, above the limit of {limit}")]
    LimitExceeded {
        /// What would be allocated.
        what: &'static str,
        /// Bytes asked for.
        asked: u64,
        /// Bytes allowed.
        limit: u64,
    },
    /// A parameter is out of its range or does not fit the others.
    #[error("{name}: {what}")]
    Argument {
        /// Which parameter.
        name: &'static str,
        /// The rule it breaks.
        what: String,
    },
    /// The requested part is not inside the chunk.
    #[error("{what} {start}..{end} is not inside 0..{len}")]
    OutOfRange {
        /// The unit of the numbers.
        what: &'static str,
        /// First one asked for.
        start: usize,
        /// One past the last asked for.
        end: usize,
        /// How many there are.
        len: usize,
    },
}

impl ChunkError {
    pub(crate) fn argument(name: &'static str, what: impl Into<String>) -> Self {
        Self::Argument { name, what: what.into() }
    }
}
