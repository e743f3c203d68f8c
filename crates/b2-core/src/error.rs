use std::error::Error;
use std::fmt;
use std::io;

/// The class of an error, shared by all crates. There are ten classes, for callers that handle them differently.
///
/// The error types of the crates carry the details. Each has a method `kind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The input is not a Blosc2 chunk, frame or array.
    NotBlosc,
    /// The input was written by a newer version of the format.
    NewerVersion,
    /// The input or the request is valid, but needs a codec, filter or feature that is not available. This includes
    /// changing a file that holds more than a frame (bytes after it, or several names).
    Unsupported,
    /// The input is truncated, malformed, inconsistent, or does not match its checksums.
    Damaged,
    /// The request exceeds the caller's [`Limits`](crate::Limits).
    Limit,
    /// The system has no more memory.
    Memory,
    /// An argument is out of range or conflicts with another one.
    Argument,
    /// The file was changed by another writer in the meantime.
    Changed,
    /// The progress callback cancelled the call.
    Cancelled,
    /// The operating system or the storage failed.
    Io,
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotBlosc => "not Blosc2 data",
            Self::NewerVersion => "written by a newer version",
            Self::Unsupported => "not supported",
            Self::Damaged => "damaged",
            Self::Limit => "above a limit",
            Self::Memory => "out of memory",
            Self::Argument => "invalid argument",
            Self::Changed => "changed meanwhile",
            Self::Cancelled => "cancelled",
            Self::Io => "input or output failed",
        })
    }
}

/// A request exceeds the caller's [`Limits`](crate::Limits).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {asked} is above the limit {name} of {limit}")]
#[non_exhaustive]
pub struct LimitExceeded {
    /// The limited quantity, with its unit.
    pub what: &'static str,
    /// The quantity requested.
    pub asked: u64,
    /// Name of the limit: a field of [`Limits`](crate::Limits), or a limit of the format.
    pub name: &'static str,
    /// Value of the limit.
    pub limit: u64,
}

impl LimitExceeded {
    /// Checks that `asked` is at most `limit`. `what` names the quantity and its unit.
    ///
    /// # Errors
    /// [`LimitExceeded`] if it is above.
    pub fn check(what: &'static str, asked: u64, name: &'static str, limit: u64) -> Result<(), Self> {
        if asked > limit { Err(Self { what, asked, name, limit }) } else { Ok(()) }
    }
}

/// The progress callback cancelled the call. Nothing was changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, thiserror::Error)]
#[error("cancelled")]
pub struct Cancelled;

/// An allocation failed because the system has no more memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("out of memory: {bytes} bytes could not be allocated")]
#[non_exhaustive]
pub struct OutOfMemory {
    /// Size of the failed allocation, in bytes.
    pub bytes: u64,
}

impl OutOfMemory {
    /// Creates the error for an allocation of `bytes` bytes.
    pub const fn new(bytes: u64) -> Self {
        Self { bytes }
    }
}

/// Displays an error and its causes on one line: `outer: cause: cause of that`.
///
/// The errors of these crates describe only their own level, and leave the rest to [`Error::source`].
///
/// ```
/// use b2_core::Report;
/// let error = std::io::Error::other("no such frame");
/// assert_eq!(Report(&error).to_string(), "no such frame");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Report<'a>(pub &'a dyn Error);

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut error = self.0;
        while let Some(source) = error.source() {
            write!(f, ": {source}")?;
            error = source;
        }
        Ok(())
    }
}

/// Returns the verb for a message about an error of the file system: "write" for errors that only writing has,
/// otherwise "access".
#[doc(hidden)]
pub fn what_failed(error: &io::Error) -> &'static str {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    match error.kind() {
        StorageFull | QuotaExceeded | FileTooLarge | ReadOnlyFilesystem => "write",
        _ => "access",
    }
}
