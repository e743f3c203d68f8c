use std::fmt;

use b2_codecs::memory::OutOfMemory;
use b2_codecs::{CodecError, CodecId};
use b2_filters::{FilterError, FilterId};

/// Why a chunk could not be read or written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChunkError {
    /// The buffer ends before the chunk does.
    #[error("chunk is truncated: {what} reaches to byte {need}, there are {have} bytes")]
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
    #[error(
        "chunk header field `flags2` at byte 30 is {flags2}, expected 0 or 1 in format version {version}: written by a newer Blosc2"
    )]
    FromTheFuture {
        /// Header byte 0.
        version: u8,
        /// Header byte 0x1E.
        flags2: u8,
    },
    /// A table or block inside the chunk is malformed.
    #[error("block {nblock}: {field} at byte {offset} of the chunk is {value}, expected {expected}")]
    Block {
        /// Which block.
        nblock: usize,
        /// What stands there.
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
    Dictionary {
        /// Offset of the size field from the start of the chunk, in bytes.
        offset: u64,
        /// Its value.
        value: i64,
        /// What the format allows.
        expected: &'static str,
    },
    /// A codec is not there.
    #[error("codec id {} ({id}){} is not registered", .id.0, InHeader(*.at))]
    UnknownCodec {
        /// Which one.
        id: CodecId,
        /// The byte of the chunk header that asks for it.
        at: Option<usize>,
    },
    /// A stream needs a codec format that nothing defines (2, 5 and 7).
    #[error("codec format {0} in bits 5 to 7 of header byte 2 is not defined, expected 0, 1, 3, 4 or 6")]
    UnknownCodecFormat(u8),
    /// A filter is not there.
    #[error("filter id {} ({id}){} is not registered", .id.0, InHeader(*.at))]
    UnknownFilter {
        /// Which one.
        id: FilterId,
        /// The byte of the chunk header that asks for it.
        at: Option<usize>,
    },
    /// A stream could not be encoded.
    #[error("block {nblock}, stream {nstream}: {source}")]
    Codec {
        /// Which block.
        nblock: usize,
        /// Which stream of it.
        nstream: usize,
        /// The codec's own error.
        source: CodecError,
    },
    /// A stream could not be decoded.
    #[error("block {nblock}, stream {nstream} from byte {offset} of the chunk on: {source}")]
    Stream {
        /// Which block.
        nblock: usize,
        /// Which stream of it.
        nstream: usize,
        /// Where its bytes begin, from the start of the chunk.
        offset: u64,
        /// The codec's own error; offsets in it count from there.
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
    #[error("{what}: {asked} is above the limit {name} of {limit}")]
    LimitExceeded {
        /// What is limited, with its unit.
        what: &'static str,
        /// How much was asked for.
        asked: u64,
        /// The limit: a field of [`Limits`](crate::Limits).
        name: &'static str,
        /// How much is allowed.
        limit: u64,
    },
    /// There is not enough memory.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
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

/// The place of a field of the header, in a message.
struct InHeader(Option<usize>);

impl fmt::Display for InHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |at| write!(f, " in header byte {at}"))
    }
}
