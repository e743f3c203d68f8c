use std::error::Error;
use std::io;
use std::path::Path;

use b2_core::ErrorKind;
use b2_frame::FrameError;

/// The reason why a store could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The store is malformed or exceeds a limit. [`detail`](Self::detail) returns the reason.
    #[error("cannot read {name}")]
    #[non_exhaustive]
    Unreadable {
        /// The path of the store.
        name: String,
        /// What is wrong with it.
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
    /// A frame that is a member or contains members could not be read or written.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The zip archive is damaged or could not be read.
    #[error("the zip archive is damaged or cannot be read")]
    #[non_exhaustive]
    Archive {
        /// The error of the zip library or of the storage.
        source: Box<dyn Error + Send + Sync>,
    },
    /// The store is malformed, or refers to something outside itself.
    #[error("{0}")]
    Damaged(String),
    /// The member cannot be read or changed in place.
    #[error("{0}")]
    Unsupported(String),
    /// There is no member with this key, or no attribute with this name.
    #[error("{0}: no such key")]
    NoSuchKey(String),
    /// A member, group or store of this name exists already.
    #[error("{0}")]
    Exists(String),
    /// The key cannot be used for a new member.
    #[error(
        "{0:?} is not a valid key: at most 64 names separated by slashes, without backslashes, line breaks and tabs; \
         `.`, `..` and `__vlmeta__` are reserved"
    )]
    Key(String),
}

impl StoreError {
    /// Returns the class of the error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Unreadable { source, .. } => source.kind(),
            Self::Io { .. } => ErrorKind::Io,
            Self::Frame(error) => error.kind(),
            Self::Archive { source } if is_io(source.as_ref()) => ErrorKind::Io,
            Self::Archive { .. } | Self::Damaged(_) => ErrorKind::Damaged,
            Self::Unsupported(_) => ErrorKind::Unsupported,
            Self::NoSuchKey(_) | Self::Exists(_) | Self::Key(_) => ErrorKind::Argument,
        }
    }

    /// Returns what is wrong with the store, if the error is [`Unreadable`](Self::Unreadable), else the error itself. See
    /// also [`FrameError::detail`].
    pub fn detail(&self) -> &Self {
        match self {
            Self::Unreadable { source, .. } => source.detail(),
            other => other,
        }
    }

    /// Adds the path of the store to an error about its content that does not name it.
    pub(crate) fn of(self, name: &str) -> Self {
        match self {
            Self::Frame(error) => Self::Frame(error.of(name)),
            Self::Archive { .. } | Self::Damaged(_) | Self::Unsupported(_) if !name.is_empty() => {
                Self::Unreadable { name: name.to_owned(), source: Box::new(self) }
            }
            _ => self,
        }
    }

    /// The archive could not be read. The error of the zip library is boxed, so that its version is not part of this
    /// crate's API.
    pub(crate) fn archive(source: impl Into<rawzip::Error>) -> Self {
        Self::Archive { source: Box::new(source.into()) }
    }

    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let name = path.display().to_string();
        move |source| Self::Io { name, source }
    }
}

fn is_io(error: &(dyn Error + Send + Sync + 'static)) -> bool {
    error
        .downcast_ref::<rawzip::Error>()
        .is_some_and(|error| matches!(error.kind(), rawzip::ErrorKind::IO(_)))
}
