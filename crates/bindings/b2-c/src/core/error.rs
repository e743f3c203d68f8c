//! Errors as the codes of `blosc2.h`.

use std::io;

use b2_chunk::codecs::CodecError;
use b2_chunk::{ChunkError, ErrorKind};
use b2_core::{Cancelled, OutOfMemory};
use b2_frame::FrameError;

use crate::abi::code;

/// An error code of `blosc2.h`, negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Error(pub(crate) i32);

pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// Fails with `code` unless `condition` holds.
pub(crate) fn ensure(condition: bool, code: i32) -> Result<()> {
    if condition { Ok(()) } else { Err(Error(code)) }
}

/// Writes the reason of a failure to stderr if `BLOSC_TRACE` is set, like C-Blosc2.
pub(crate) fn trace(error: &dyn std::error::Error) {
    if std::env::var_os("BLOSC_TRACE").is_some() {
        eprintln!("[error] - {}", b2_core::Report(error));
    }
}

fn of_kind(kind: ErrorKind) -> i32 {
    match kind {
        ErrorKind::Argument => code::INVALID_PARAM,
        ErrorKind::Damaged | ErrorKind::NotBlosc => code::DATA,
        ErrorKind::Io => code::FILE_READ,
        ErrorKind::Limit | ErrorKind::Memory => code::MEMORY_ALLOC,
        ErrorKind::NewerVersion => code::VERSION_SUPPORT,
        ErrorKind::Unsupported => code::CODEC_SUPPORT,
        _ => code::FAILURE,
    }
}

impl From<ChunkError> for Error {
    fn from(error: ChunkError) -> Self {
        trace(&error);
        Self(match &error {
            ChunkError::Apply { .. } | ChunkError::UnknownFilter { .. } => code::FILTER_PIPELINE,
            ChunkError::Filter { .. } => code::FAILURE,
            ChunkError::Codec { source: CodecError::Backend { .. }, .. } => code::DATA,
            ChunkError::Dictionary { .. } => code::CODEC_DICT,
            ChunkError::Field { .. } => code::INVALID_HEADER,
            ChunkError::Hook { .. } => code::POSTFILTER,
            ChunkError::Truncated { .. } => code::READ_BUFFER,
            _ => of_kind(error.kind()),
        })
    }
}

impl Error {
    /// The error code of a compression, whose block functions are prefilters.
    pub(crate) fn compressing(error: ChunkError) -> Self {
        let hook = matches!(error, ChunkError::Hook { .. });
        let error = Self::from(error);
        if hook { Self(code::FILTER_PIPELINE) } else { error }
    }
}

impl From<FrameError> for Error {
    fn from(error: FrameError) -> Self {
        trace(&error);
        let detail = error.detail();
        Self(match detail {
            FrameError::Chunk { source, .. } => return source_code(source),
            FrameError::Lock { .. } => code::LOCK,
            FrameError::Exists { .. } => code::FILE_OPEN,
            FrameError::ForeignBytes { .. } => code::FILE_WRITE,
            FrameError::Truncated { .. } => code::FILE_READ,
            FrameError::Io { source, .. } => match source.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => code::FILE_OPEN,
                io::ErrorKind::WriteZero | io::ErrorKind::StorageFull => code::FILE_WRITE,
                _ => code::FILE_READ,
            },
            _ => of_kind(error.kind()),
        })
    }
}

fn source_code(error: &ChunkError) -> Error {
    match error {
        ChunkError::Apply { .. } | ChunkError::UnknownFilter { .. } => Error(code::FILTER_PIPELINE),
        ChunkError::Filter { .. } => Error(code::FAILURE),
        ChunkError::Hook { .. } => Error(code::POSTFILTER),
        ChunkError::Truncated { .. } => Error(code::FILE_READ),
        _ => Error(of_kind(error.kind())),
    }
}

impl From<OutOfMemory> for Error {
    fn from(_: OutOfMemory) -> Self {
        Self(code::MEMORY_ALLOC)
    }
}

/// For the engine's types: C programs cannot cancel a call.
impl From<Cancelled> for Error {
    fn from(_: Cancelled) -> Self {
        Self(code::FAILURE)
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        trace(&error);
        Self(match error.kind() {
            io::ErrorKind::NotFound => code::FILE_OPEN,
            _ => code::FAILURE,
        })
    }
}

/// The text returned by `blosc2_error_string`.
pub(crate) fn describe(error: i32) -> &'static std::ffi::CStr {
    match error {
        0 => c"Success",
        -1 => c"Generic failure",
        -2 => c"Bad stream",
        -3 => c"Invalid data",
        -4 => c"Memory alloc/realloc failure",
        -5 => c"Not enough space to read",
        -6 => c"Not enough space to write",
        -7 => c"Codec not supported",
        -8 => c"Invalid parameter supplied to codec",
        -9 => c"Codec dictionary error",
        -10 => c"Version not supported",
        -11 => c"Invalid value in header",
        -12 => c"Invalid parameter supplied to function",
        -13 => c"File read failure",
        -14 => c"File write failure",
        -15 => c"File open failure",
        -16 => c"Not found",
        -17 => c"Bad run length encoding",
        -18 => c"Filter pipeline error",
        -19 => c"Chunk insert failure",
        -20 => c"Chunk append failure",
        -21 => c"Chunk update failure",
        -22 => c"Sizes larger than 2gb not supported",
        -23 => c"Super-chunk copy failure",
        -24 => c"Wrong type for frame",
        -25 => c"File truncate failure",
        -26 => c"Thread or thread context creation failure",
        -27 => c"Postfilter failure",
        -28 => c"Special frame failure",
        -29 => c"Special super-chunk failure",
        -30 => c"IO plugin error",
        -31 => c"Remove file failure",
        -32 => c"Pointer is null",
        -33 => c"Invalid index",
        -34 => c"Metalayer has not been found",
        -35 => c"Maximum buffersize exceeded",
        -36 => c"Tuner failure",
        -37 => c"Frame lock failure",
        _ => c"Unknown error",
    }
}
