use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use b2_chunk::{ChunkError, DParams};
use b2_core::{Cancelled, ErrorKind, LimitExceeded, OutOfMemory};

use crate::names::redact::redact;
use crate::names::{FrameFile, chunk_name};

/// The reason why a frame could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// A frame opened by path or with a name is malformed or exceeds a limit; see [`detail`](Self::detail).
    #[error("cannot read {name}")]
    #[non_exhaustive]
    Unreadable {
        /// The path or name.
        name: String,
        /// The error without the name.
        source: Box<Self>,
    },
    /// The file system or another storage failed.
    #[error("cannot {} {name}", b2_core::what_failed(.source))]
    #[non_exhaustive]
    Io {
        /// Name of the file or storage.
        name: String,
        /// The error that it returned.
        source: io::Error,
    },
    /// The path is a FIFO, device or socket. It was not opened.
    #[error("{}: not a regular file{}", .path.display(), if *.or_directory { " or directory" } else { "" })]
    #[non_exhaustive]
    NotRegular {
        /// The path.
        path: PathBuf,
        /// Whether a directory would have been accepted too.
        or_directory: bool,
    },
    /// The index file or a chunk file of a sparse frame is not a regular file. It was not opened.
    #[error("{}: not a regular file, as the files of a sparse frame are", .path.display())]
    #[non_exhaustive]
    Member {
        /// The path.
        path: PathBuf,
    },
    /// The lock file next to a frame, which excludes other writers, could not be opened, locked or written.
    #[error("cannot use the lock file {}", .path.display())]
    #[non_exhaustive]
    Lock {
        /// The lock file.
        path: PathBuf,
        /// The error that the file system returned.
        source: io::Error,
    },
    /// The bytes do not start with the magic number of a frame.
    #[error("not a Blosc2 frame: bytes 0 to 9 are not 9E A8 \"b2frame\\0\"")]
    NotAFrame,
    /// Header and all chunks of a damaged frame are lost; only its trailer or its checksums are left.
    #[error("nothing to recover: found only the end of a Blosc2 frame, neither its header nor a chunk")]
    NothingLeft,
    /// The frame is of a later format version.
    #[error("frame format version {version} in header byte 25, expected 0 to 3: written by a newer Blosc2")]
    #[non_exhaustive]
    NewerVersion {
        /// The version found.
        version: u8,
    },
    /// The file or buffer ends before the frame does.
    #[error("{structure} is truncated: needs {need} bytes from byte {offset} on, there are {have}")]
    #[non_exhaustive]
    Truncated {
        /// The structure that is cut off.
        structure: Structure,
        /// Offset of the structure in its file, in bytes.
        offset: u64,
        /// Number of bytes it needs.
        need: u64,
        /// Number of bytes that are left.
        have: u64,
    },
    /// A field has a value that the format does not allow.
    #[error("{structure} field `{field}` at byte {offset} is {value}, expected {expected}")]
    #[non_exhaustive]
    Field {
        /// The structure that holds the field.
        structure: Structure,
        /// The field's name in the format documentation.
        field: &'static str,
        /// Offset of the field in bytes from the start of the frame (of the chunk for chunk
        /// fields).
        offset: u64,
        /// The value found.
        value: i128,
        /// The values that the format allows.
        expected: &'static str,
    },
    /// A field is not the msgpack item that the format prescribes.
    #[error("{structure} field `{field}` is malformed")]
    #[non_exhaustive]
    Msgpack {
        /// The structure that holds the field.
        structure: Structure,
        /// The field's name in the format documentation.
        field: &'static str,
        /// The item found and its offset, counted from the start of the frame.
        source: b2_msgpack::Error,
    },
    /// A chunk is damaged, needs a codec or filter that this build lacks, or cannot be compressed.
    #[error("{structure} cannot be {}", .source.action())]
    #[non_exhaustive]
    Chunk {
        /// The chunk.
        structure: Structure,
        /// The chunk's own error.
        source: ChunkError,
    },
    /// Stored bytes do not match their checksum (docs/format/checksums.md).
    #[error("{structure} damaged: {what}")]
    #[non_exhaustive]
    Checksum {
        /// The damaged structure.
        structure: Structure,
        /// The part that does not match.
        what: &'static str,
    },
    /// The request needs more than the caller's limits allow.
    #[error(transparent)]
    Limit(#[from] LimitExceeded),
    /// The progress callback stopped the call. Nothing was changed.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
    /// There is not enough memory.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
    /// The request is out of range.
    #[error("{what} {start}..{end} is not inside 0..{len}")]
    #[non_exhaustive]
    OutOfRange {
        /// The unit of the numbers.
        what: &'static str,
        /// First number of the requested range.
        start: u64,
        /// End of the requested range.
        end: u64,
        /// The number of existing units.
        len: u64,
    },
    /// A parameter contradicts the others or the frame.
    #[error("{name}: {what}")]
    #[non_exhaustive]
    Argument {
        /// The parameter.
        name: &'static str,
        /// The violated rule.
        what: String,
    },
    /// The target of a write exists already.
    #[error("{}: already exists", .path.display())]
    #[non_exhaustive]
    Exists {
        /// The target.
        path: PathBuf,
    },
    /// The frame that salvage would replace has more intact chunks than were saved.
    #[error(
        "{}: not replaced, since it holds more intact chunks than the {saved} that could be saved", .path.display()
    )]
    #[non_exhaustive]
    HoldsMore {
        /// The target.
        path: PathBuf,
        /// Number of chunks that were saved.
        saved: usize,
    },
    /// The directory to be replaced holds files that are not part of a sparse frame.
    #[error("{}: not replaced, since it contains `{}`, which is not part of a sparse frame", .path.display(), .stranger.display())]
    #[non_exhaustive]
    NotASparseFrame {
        /// The directory.
        path: PathBuf,
        /// A file in it that is not part of a sparse frame.
        stranger: PathBuf,
    },
    /// Another process or another handle has changed the frame.
    #[error("{name}: the frame has been changed since it was opened")]
    #[non_exhaustive]
    Changed {
        /// The file or directory.
        name: String,
    },
    /// The editor or writer was created before a fork and is now used in the child. The files
    /// belong to the parent.
    #[error("{name}: this editor or writer belongs to the process that created it")]
    #[non_exhaustive]
    Forked {
        /// The file or directory.
        name: String,
    },
    /// A change would overwrite bytes after the frame that are not part of it.
    #[error(
        "{name}: {len} bytes from byte {offset} on are not part of the frame, and a change would destroy them"
    )]
    #[non_exhaustive]
    ForeignBytes {
        /// The file.
        name: String,
        /// Offset at which the frame ends, in bytes.
        offset: u64,
        /// Number of bytes after the frame.
        len: u64,
    },
    /// The file has several hard links. The lock of one name does not keep away who changes the
    /// file under another, and replacing it would leave the old content under the others.
    #[error("{name}: not changed, since it has {links} hard links: change a copy, or remove the other links")]
    #[non_exhaustive]
    HardLinks {
        /// The file.
        name: String,
        /// Number of hard links.
        links: u64,
    },
    /// The change is visible, but may not survive a power loss, because the last sync failed.
    #[error("{name}: changed, but may not survive a power loss")]
    #[non_exhaustive]
    NotSynced {
        /// The file, or the directory that contains it.
        name: String,
        /// The error that the storage returned.
        source: io::Error,
    },
    /// The old target was renamed, and neither the new frame nor the old one could get its name.
    #[error("{name}: not replaced, and what was there is now named {}", aside.display())]
    #[non_exhaustive]
    SetAside {
        /// The name that is free now.
        name: String,
        /// Where the old frame is.
        aside: PathBuf,
        /// Why the new frame could not be given its name.
        source: io::Error,
    },
    /// An earlier call on this writer failed, so its data are incomplete.
    #[error("an earlier write to this frame failed")]
    Abandoned,
}

/// The structures of a frame, as error messages name them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Structure {
    /// The whole contiguous frame, or the index file of a sparse frame.
    Frame,
    /// The chunk file with this id in a sparse frame.
    ChunkFile(u32),
    /// The fixed part of the header (87 bytes).
    Header,
    /// Names and values of the metalayers, after the fixed header.
    Metalayers,
    /// The index chunk.
    Index,
    /// The decoded index: 8 bytes per chunk.
    Entries,
    /// The checksums between index and trailer.
    Checksums,
    /// The table of block starts before the checksums (docs/format/block-starts.md).
    BlockStarts,
    /// The trailer.
    Trailer,
    /// Names and values of the vlmetalayers in the trailer.
    VlMetalayers,
    /// The value of one vlmetalayer, which is a chunk.
    VlMetalayer(String),
    /// The table of sums of blocks before the checksums (docs/format/block-sums.md).
    BlockSums,
    /// The data chunk at this position.
    Chunk(usize),
    /// Some blocks of a data chunk, which are compared together.
    Blocks {
        /// Position of the chunk in the frame.
        nchunk: usize,
        /// Number of the first of these blocks.
        first: usize,
        /// Number of the last of these blocks.
        last: usize,
    },
    /// A data chunk with its place in a file.
    StoredChunk {
        /// Position of the chunk in the frame.
        nchunk: usize,
        /// The file that holds it.
        file: FrameFile,
        /// Offset of its first byte in that file, counted from the start of the frame.
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
            Self::BlockStarts => f.write_str("table of block starts"),
            Self::BlockSums => f.write_str("table of block sums"),
            Self::Blocks { nchunk, first, last } if first == last => {
                write!(f, "chunk {nchunk}, block {first}")
            }
            Self::Blocks { nchunk, first, last } => write!(f, "chunk {nchunk}, blocks {first} to {last}"),
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
    /// Returns the kind of error, which callers can act on.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Unreadable { source, .. } => source.kind(),
            Self::Io { .. }
            | Self::NotSynced { .. }
            | Self::SetAside { .. }
            | Self::Lock { .. }
            | Self::Abandoned => ErrorKind::Io,
            Self::NotAFrame => ErrorKind::NotBlosc,
            Self::NewerVersion { .. } => ErrorKind::NewerVersion,
            Self::Truncated { .. }
            | Self::Field { .. }
            | Self::Msgpack { .. }
            | Self::Checksum { .. }
            | Self::NothingLeft
            | Self::Member { .. } => ErrorKind::Damaged,
            Self::ForeignBytes { .. } | Self::HardLinks { .. } => ErrorKind::Unsupported,
            Self::Chunk { source, .. } => source.kind(),
            Self::Limit(_) => ErrorKind::Limit,
            Self::Cancelled(_) => ErrorKind::Cancelled,
            Self::OutOfMemory(_) => ErrorKind::Memory,
            Self::Changed { .. } => ErrorKind::Changed,
            Self::NotRegular { .. }
            | Self::OutOfRange { .. }
            | Self::Argument { .. }
            | Self::Exists { .. }
            | Self::HoldsMore { .. }
            | Self::NotASparseFrame { .. }
            | Self::Forked { .. } => ErrorKind::Argument,
        }
    }

    /// Returns what is wrong with the frame, if the error is [`Unreadable`](Self::Unreadable), else the error itself.
    ///
    /// ```
    /// use b2_frame::{FrameError, SuperChunk};
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("notes.txt");
    /// std::fs::write(&path, "no frame")?;
    /// let error = SuperChunk::open(&path).unwrap_err();
    /// assert!(error.to_string().starts_with("cannot read ") && error.to_string().ends_with("notes.txt"));
    /// assert!(matches!(error.detail(), FrameError::NotAFrame));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn detail(&self) -> &Self {
        match self {
            Self::Unreadable { source, .. } => source.detail(),
            other => other,
        }
    }

    /// Returns whether a change by another program may be the cause: bytes cannot be used, or are no longer there.
    #[must_use]
    #[doc(hidden)]
    pub fn may_be_a_change(&self) -> bool {
        match self.detail() {
            Self::Io { source, .. } => {
                matches!(source.kind(), io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof)
            }
            other => other.kind() == ErrorKind::Damaged,
        }
    }

    /// Returns the [`detail`](Self::detail) itself.
    #[must_use]
    #[doc(hidden)]
    pub fn into_detail(self) -> Self {
        match self {
            Self::Unreadable { source, .. } => source.into_detail(),
            other => other,
        }
    }

    /// Adds the name of the frame to an error about its content that does not name it.
    #[must_use]
    #[doc(hidden)]
    pub fn of(self, name: &str) -> Self {
        match &self {
            Self::NotAFrame
            | Self::NothingLeft
            | Self::NewerVersion { .. }
            | Self::Truncated { .. }
            | Self::Field { .. }
            | Self::Msgpack { .. }
            | Self::Chunk { .. }
            | Self::Checksum { .. }
            | Self::Limit(_) => Self::Unreadable { name: redact(name), source: Box::new(self) },
            _ => self,
        }
    }

    /// Makes errors of I/O with this file or storage.
    #[doc(hidden)]
    pub fn io<'a>(name: impl Into<Cow<'a, str>>) -> impl FnOnce(io::Error) -> Self {
        let name = name.into();
        move |source| {
            let name = redact(&name);
            match source.kind() {
                // Remote storage reports that the object was replaced.
                io::ErrorKind::StaleNetworkFileHandle => Self::Changed { name },
                _ => Self::Io { name, source },
            }
        }
    }

    /// Creates the error for `what`, of which there are `len`, outside of them.
    #[doc(hidden)]
    pub fn out_of_range(what: &'static str, start: u64, end: u64, len: u64) -> Self {
        Self::OutOfRange { what, start, end, len }
    }

    /// Creates the error for a path that is taken.
    #[doc(hidden)]
    pub fn exists(path: impl Into<PathBuf>) -> Self {
        Self::Exists { path: path.into() }
    }

    pub(crate) fn lock(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Lock { path: path.to_owned(), source }
    }

    pub(crate) fn chunk(structure: Structure) -> impl FnOnce(ChunkError) -> Self {
        move |source| match source {
            ChunkError::OutOfMemory(error) => Self::OutOfMemory(error),
            ChunkError::Cancelled(error) => Self::Cancelled(error),
            source => Self::Chunk { structure, source },
        }
    }

    /// Creates the error for an invalid argument.
    #[doc(hidden)]
    pub fn argument(name: &'static str, what: impl Into<String>) -> Self {
        Self::Argument { name, what: what.into() }
    }

    /// Returns the error for an invalid index entry.
    pub(crate) fn entry(nchunk: usize, value: impl Into<i128>, expected: &'static str) -> Self {
        Self::field(Structure::Entries, "entry", (nchunk as u64).saturating_mul(8), value, expected)
    }

    /// Creates the error for a field with a value that is not allowed.
    #[doc(hidden)]
    pub fn field(
        structure: Structure,
        field: &'static str,
        offset: u64,
        value: impl Into<i128>,
        expected: &'static str,
    ) -> Self {
        Self::Field { structure, field, offset, value: value.into(), expected }
    }
}

/// Checks a cost against a limit before it is incurred. `name` is a field of
/// [`Limits`](b2_chunk::Limits), or [`FORMAT`].
pub(crate) fn within(
    what: &'static str,
    asked: u64,
    (name, limit): (&'static str, u64),
) -> Result<(), FrameError> {
    Ok(LimitExceeded::check(what, asked, name, limit)?)
}

/// Returns the limit on metadata as an argument for [`within`].
pub(crate) fn max_metadata(dparams: &DParams) -> (&'static str, u64) {
    ("max_metadata", dparams.limits.max_metadata)
}

/// Returns the limit on the size of a chunk as an argument for [`within`].
pub(crate) fn max_chunk_nbytes(dparams: &DParams) -> (&'static str, u64) {
    ("max_chunk_nbytes", dparams.limits.max_chunk_nbytes)
}

/// Returns the limit on the number of chunks as an argument for [`within`].
pub(crate) fn max_nchunks(dparams: &DParams) -> (&'static str, u64) {
    ("max_nchunks", dparams.limits.max_nchunks)
}

/// Name of limits that the format sets and no caller can raise.
pub(crate) const FORMAT: &str = "of the format";

#[cfg(test)]
mod tests {
    use super::*;

    /// The wording matches the operation.
    #[test]
    fn errors_of_chunks_tell_compressing_from_decoding() {
        let text = |source| FrameError::Chunk { structure: Structure::Chunk(3), source }.to_string();
        assert_eq!(
            text(ChunkError::Source(b2_chunk::HookError::new("gone".into()))),
            "chunk 3 cannot be compressed"
        );
        assert_eq!(text(ChunkError::UnknownCodecFormat(2)), "chunk 3 cannot be decoded");
    }
}
