#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::string_slice,
        clippy::unreachable,
        clippy::unwrap_used,
        reason = "reads bytes from outside"
    )
)]

use std::fmt;
use std::io;
use std::path::PathBuf;

use b2_chunk::memory::OutOfMemory;
use b2_chunk::{ChunkError, DParams};

use crate::plan::FrameFile;
use crate::sparse::chunk_name;

/// Why a frame could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The file system or the storage failed.
    #[error("{name}: {source}")]
    Io {
        /// The file, or what stands for it.
        name: String,
        /// What it answered.
        source: io::Error,
    },
    /// A FIFO, device, socket or, inside a sparse frame, a symbolic link. It was not opened.
    #[error("{}: not a regular file{}", .path.display(), if *.or_directory { " or directory" } else { "" })]
    NotRegular {
        /// Which one.
        path: PathBuf,
        /// Whether a directory would have done as well.
        or_directory: bool,
    },
    /// The bytes do not start as a frame does.
    #[error("not a Blosc2 frame: bytes 0 to 9 are not 9E A8 \"b2frame\\0\"")]
    NotAFrame,
    /// The frame is of a later format version.
    #[error("frame format version {version} in header byte 25, expected 0 to 3: written by a newer Blosc2")]
    NewerVersion {
        /// The version found.
        version: u8,
    },
    /// The file or buffer ends before the frame does.
    #[error("{structure} is truncated: needs {need} bytes from byte {offset} on, there are {have}")]
    Truncated {
        /// What does not fit.
        structure: Structure,
        /// Where it starts, in bytes from the start of the file it is in.
        offset: u64,
        /// Bytes needed.
        need: u64,
        /// Bytes there are.
        have: u64,
    },
    /// A field has a value the format does not allow here.
    #[error("{structure} field `{field}` at byte {offset} is {value}, expected {expected}")]
    Field {
        /// The part of the frame.
        structure: Structure,
        /// The field's name in the format documentation.
        field: &'static str,
        /// Where the field is, in bytes from the start of the frame (of the chunk for chunk fields).
        offset: u64,
        /// Its value.
        value: i128,
        /// What the format allows.
        expected: &'static str,
    },
    /// Something else than the prescribed msgpack item.
    #[error("{structure} field `{field}`: {source}")]
    Msgpack {
        /// The part of the frame.
        structure: Structure,
        /// The field's name in the format documentation.
        field: &'static str,
        /// What was found where; offsets count from the start of the frame.
        source: b2_msgpack::Error,
    },
    /// A chunk is damaged, or needs a codec or filter that is not there.
    #[error("{structure}: {source}")]
    Chunk {
        /// Which chunk.
        structure: Structure,
        /// The chunk's own error.
        source: ChunkError,
    },
    /// A checksum says that bytes are not those that were written (docs/format/checksums.md).
    #[error("{structure} damaged: {what}")]
    Checksum {
        /// The part of the frame.
        structure: Structure,
        /// What does not fit.
        what: &'static str,
    },
    /// The request needs more than the caller's limits allow.
    #[error("{what}: {asked} is above the limit {name} of {limit}")]
    LimitExceeded {
        /// What is limited, with its unit.
        what: &'static str,
        /// How much was asked for.
        asked: u64,
        /// The limit: a field of [`Limits`](b2_chunk::Limits), or what the format allows.
        name: &'static str,
        /// How much is allowed.
        limit: u64,
    },
    /// There is not enough memory.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
    /// The requested part is not there.
    #[error("{what} {start}..{end} is not inside 0..{len}")]
    OutOfRange {
        /// The unit of the numbers.
        what: &'static str,
        /// First one asked for.
        start: u64,
        /// One past the last asked for.
        end: u64,
        /// How many there are.
        len: u64,
    },
    /// A parameter does not fit the others or the frame.
    #[error("{name}: {what}")]
    Argument {
        /// Which parameter.
        name: &'static str,
        /// The rule it breaks.
        what: String,
    },
    /// The target of a write is there already.
    #[error("{}: exists already", .path.display())]
    Exists {
        /// The target.
        path: PathBuf,
    },
    /// The directory to be replaced holds files that are not part of a sparse frame.
    #[error("{}: not replaced, it holds `{}`, which no sparse frame has", .path.display(), .stranger.display())]
    NotASparseFrame {
        /// The directory.
        path: PathBuf,
        /// A file in it.
        stranger: PathBuf,
    },
    /// Another process, or another handle, has changed the frame.
    #[error("{name}: the frame has been changed since it was opened")]
    Changed {
        /// The file or directory.
        name: String,
    },
    /// There are bytes behind the frame that a change would overwrite.
    #[error(
        "{name}: {len} bytes from byte {offset} on are not part of the frame, a change would destroy them"
    )]
    ForeignBytes {
        /// The file.
        name: String,
        /// Where the frame ends, in bytes.
        offset: u64,
        /// How many bytes are behind.
        len: u64,
    },
    /// The file has several names; replacing it would leave the others with the old content.
    #[error("{name}: has {links} names, replacing it would part them")]
    HardLinks {
        /// The file.
        name: String,
        /// How many names it has.
        links: u64,
    },
    /// The change is made and visible, but may not survive a power loss: the storage failed at the last step.
    #[error("{name}: changed, but may not survive a power loss: {source}")]
    NotSynced {
        /// The file, or the directory that holds it.
        name: String,
        /// What the storage answered.
        source: io::Error,
    },
    /// An earlier call on this writer failed; what it would write is incomplete.
    #[error("an earlier write to this frame failed")]
    Abandoned,
}

/// Parts of a frame, as error messages name them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Structure {
    /// The whole of a contiguous frame, or the index file of a sparse one.
    Frame,
    /// The chunk file with this id, in a sparse frame.
    ChunkFile(u32),
    /// The fixed part of the header, 87 bytes.
    Header,
    /// Names and values of the metalayers, behind the fixed header.
    Metalayers,
    /// The index chunk.
    Index,
    /// What the index chunk decodes to: 8 bytes for each chunk.
    Entries,
    /// The checksums, between index and trailer.
    Checksums,
    /// The trailer.
    Trailer,
    /// Names and values of the vlmetalayers, in the trailer.
    VlMetalayers,
    /// The value of one vlmetalayer, a chunk.
    VlMetalayer(String),
    /// The data chunk at this position.
    Chunk(usize),
    /// A data chunk, and where it is stored.
    StoredChunk {
        /// Its position.
        nchunk: usize,
        /// The file it is in.
        file: FrameFile,
        /// Its first byte in that file, from the frame's start.
        start: u64,
    },
}

impl fmt::Display for Structure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Frame => f.write_str("frame"),
            Self::ChunkFile(id) => write!(f, "chunk file {}", chunk_name(*id)),
            Self::Header => f.write_str("frame header"),
            Self::Metalayers => f.write_str("metalayers"),
            Self::Index => f.write_str("index chunk"),
            Self::Entries => f.write_str("decoded index"),
            Self::Checksums => f.write_str("checksums"),
            Self::Trailer => f.write_str("trailer"),
            Self::VlMetalayers => f.write_str("vlmetalayers"),
            Self::VlMetalayer(name) => write!(f, "vlmetalayer {name:?}"),
            Self::Chunk(nchunk) => write!(f, "chunk {nchunk}"),
            Self::StoredChunk { nchunk, file: FrameFile::Main, start } => {
                write!(f, "chunk {nchunk} (from byte {start} on)")
            }
            Self::StoredChunk { nchunk, file: FrameFile::Chunk(id), .. } => {
                write!(f, "chunk {nchunk} ({})", chunk_name(*id))
            }
        }
    }
}

impl FrameError {
    pub(crate) fn io(name: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let name = name.into();
        move |source| Self::Io { name, source }
    }

    pub(crate) fn chunk(structure: Structure) -> impl FnOnce(ChunkError) -> Self {
        move |source| match source {
            ChunkError::OutOfMemory(error) => Self::OutOfMemory(error),
            source => Self::Chunk { structure, source },
        }
    }

    pub(crate) fn argument(name: &'static str, what: impl Into<String>) -> Self {
        Self::Argument { name, what: what.into() }
    }

    /// An entry of the index is wrong.
    pub(crate) fn entry(nchunk: usize, value: impl Into<i128>, expected: &'static str) -> Self {
        Self::field(Structure::Entries, "entry", (nchunk as u64).saturating_mul(8), value, expected)
    }

    pub(crate) fn field(
        structure: Structure,
        field: &'static str,
        offset: u64,
        value: impl Into<i128>,
        expected: &'static str,
    ) -> Self {
        Self::Field { structure, field, offset, value: value.into(), expected }
    }
}

/// Checks a cost against a limit before it is paid.
///
/// `name` is that of the field of [`Limits`](b2_chunk::Limits), or [`FORMAT`].
pub(crate) fn within(
    what: &'static str,
    asked: u64,
    (name, limit): (&'static str, u64),
) -> Result<(), FrameError> {
    if asked > limit { Err(FrameError::LimitExceeded { what, asked, name, limit }) } else { Ok(()) }
}

/// Size of metadata, as `within` takes it.
pub(crate) fn max_metadata(dparams: &DParams) -> (&'static str, u64) {
    ("max_metadata", dparams.limits.max_metadata)
}

/// Size of a chunk, as `within` takes it.
pub(crate) fn max_chunk_nbytes(dparams: &DParams) -> (&'static str, u64) {
    ("max_chunk_nbytes", dparams.limits.max_chunk_nbytes)
}

/// Number of chunks, as `within` takes it.
pub(crate) fn max_nchunks(dparams: &DParams) -> (&'static str, u64) {
    ("max_nchunks", dparams.limits.max_nchunks)
}

/// Name of the limits that no caller can raise.
pub(crate) const FORMAT: &str = "of the format";
