//! Errors of reading and writing HDF5.

use std::io;
use std::sync::Arc;

use b2_core::{Cancelled, ErrorKind, LimitExceeded, OutOfMemory};
use b2nd::NdError;

/// An error of reading an HDF5 or NetCDF file.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Hdf5Error {
    /// Reading failed.
    #[error("cannot read {name}")]
    #[non_exhaustive]
    Io {
        /// The file.
        name: String,
        /// Why.
        source: Arc<io::Error>,
    },
    /// Writing failed.
    #[error("cannot write {name}")]
    #[non_exhaustive]
    Write {
        /// The file.
        name: String,
        /// Why.
        source: Arc<io::Error>,
    },
    /// The file is neither HDF5 nor NetCDF.
    #[error("not an HDF5 or NetCDF file")]
    NotHdf5,
    /// The name does not exist.
    #[error("{path}: no such group or data set")]
    #[non_exhaustive]
    NoSuchPath {
        /// The name.
        path: String,
    },
    /// The name is a group where a data set is required.
    #[error("{path}: a group, not a data set")]
    #[non_exhaustive]
    Group {
        /// The name.
        path: String,
    },
    /// An array cannot hold this, or this crate cannot read it. The file may be valid.
    #[error("{path}: {what}")]
    #[non_exhaustive]
    Unsupported {
        /// The data set.
        path: String,
        /// The feature, by its name.
        what: String,
    },
    /// The request does not fit the data set.
    #[error("{path}: {what}")]
    #[non_exhaustive]
    Argument {
        /// The data set.
        path: String,
        /// The problem with the request.
        what: String,
    },
    /// The file contradicts itself or its format.
    #[error("{path}: damaged: {what}")]
    #[non_exhaustive]
    Damaged {
        /// The group or data set, or the file.
        path: String,
        /// The problem.
        what: String,
    },
    /// A limit of the caller is exceeded.
    #[error("cannot read {path}")]
    #[non_exhaustive]
    Limit {
        /// The data set, or the file.
        path: String,
        /// The limit.
        source: LimitExceeded,
    },
    /// The data set cannot be described as an array, or its items cannot be read.
    #[error("cannot read {path}")]
    #[non_exhaustive]
    Array {
        /// The data set.
        path: String,
        /// Why.
        source: Arc<NdError>,
    },
    /// The array to be written as a data set cannot be read.
    #[error("cannot write {path}")]
    #[non_exhaustive]
    Source {
        /// The data set.
        path: String,
        /// Why.
        source: Arc<NdError>,
    },
}

impl Hdf5Error {
    /// Returns the kind of the failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Io { .. } | Self::Write { .. } => ErrorKind::Io,
            Self::NotHdf5 | Self::Damaged { .. } => ErrorKind::Damaged,
            Self::NoSuchPath { .. } | Self::Group { .. } | Self::Argument { .. } => ErrorKind::Argument,
            Self::Unsupported { .. } => ErrorKind::Unsupported,
            Self::Limit { .. } => ErrorKind::Limit,
            Self::Array { source, .. } | Self::Source { source, .. } => source.kind(),
        }
    }

    pub(crate) fn io(name: &str) -> impl Fn(io::Error) -> Self + '_ {
        |source| Self::Io { name: name.to_owned(), source: Arc::new(source) }
    }

    pub(crate) fn write(name: &str) -> impl Fn(io::Error) -> Self + '_ {
        |source| Self::Write { name: name.to_owned(), source: Arc::new(source) }
    }

    pub(crate) fn damaged(path: &str, what: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), what: what.into() }
    }

    pub(crate) fn unsupported(path: &str, what: impl Into<String>) -> Self {
        Self::Unsupported { path: path.to_owned(), what: what.into() }
    }

    pub(crate) fn limit(path: &str) -> impl Fn(LimitExceeded) -> Self + '_ {
        |source| Self::Limit { path: path.to_owned(), source }
    }

    pub(crate) fn array(path: &str) -> impl Fn(NdError) -> Self + '_ {
        |source| Self::Array { path: path.to_owned(), source: Arc::new(source) }
    }

    pub(crate) fn source_of(path: &str) -> impl Fn(NdError) -> Self + '_ {
        |source| Self::Source { path: path.to_owned(), source: Arc::new(source) }
    }
}

/// Why work on many chunks stopped.
#[derive(Debug)]
pub(crate) enum Stop {
    /// Cancelled, or out of memory.
    Ended(NdError),
    Failed(Hdf5Error),
}

impl Stop {
    pub(crate) fn into_error(self, path: &str) -> Hdf5Error {
        match self {
            Self::Ended(error) => Hdf5Error::array(path)(error),
            Self::Failed(error) => error,
        }
    }
}

impl From<Cancelled> for Stop {
    fn from(cancelled: Cancelled) -> Self {
        Self::Ended(cancelled.into())
    }
}

impl From<OutOfMemory> for Stop {
    fn from(error: OutOfMemory) -> Self {
        Self::Ended(error.into())
    }
}

impl From<Hdf5Error> for Stop {
    fn from(error: Hdf5Error) -> Self {
        Self::Failed(error)
    }
}

#[cfg(test)]
mod tests {
    use b2_core::{Limits, Report};

    use super::*;

    #[test]
    fn each_message_is_a_sentence() {
        let limit = Limits::default().max_memory(1).check_memory("items, in bytes", 5).unwrap_err();
        let reason = limit.to_string();
        let error = Hdf5Error::limit("/a")(limit);
        assert_eq!(error.to_string(), "cannot read /a");
        assert_eq!(Report(&error).to_string(), format!("cannot read /a: {reason}"));
        assert_eq!(
            Report(&Hdf5Error::array("/a")(Cancelled.into())).to_string(),
            "cannot read /a: cancelled"
        );
        let written = Hdf5Error::source_of("/a")(Cancelled.into());
        assert_eq!(Report(&written).to_string(), "cannot write /a: cancelled");
        assert_eq!(written.kind(), ErrorKind::Cancelled);
    }
}
