use b2_core::ErrorKind;

use crate::FilterId;

/// The result of applying and undoing filters.
pub(crate) type Result<T> = std::result::Result<T, FilterError>;

/// The error type of applying and undoing filters.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FilterError {
    /// The parameter byte is not valid for the filter.
    #[error("{filter}: parameter {meta}: {what}")]
    #[non_exhaustive]
    Meta {
        /// Id of the filter.
        filter: FilterId,
        /// Its parameter byte.
        meta: u8,
        /// The rule that it breaks.
        what: &'static str,
    },
    /// The filter does not support this item size.
    #[error("{filter}: item size {itemsize} is not supported")]
    #[non_exhaustive]
    ItemSize {
        /// Id of the filter.
        filter: FilterId,
        /// Item size in bytes.
        itemsize: usize,
    },
    /// The filter needs a container (block shape or item size), or the container does not match the block.
    #[error("{filter}: {what}")]
    #[non_exhaustive]
    Container {
        /// Id of the filter.
        filter: FilterId,
        /// The problem.
        what: &'static str,
    },
    /// Source and destination differ in length.
    #[error("{filter}: source has {src} bytes, destination {dst}")]
    #[non_exhaustive]
    Length {
        /// Id of the filter.
        filter: FilterId,
        /// Source length in bytes.
        src: usize,
        /// Destination length in bytes.
        dst: usize,
    },
    /// There is not enough memory for the filter's buffers.
    #[error(transparent)]
    OutOfMemory(#[from] b2_core::OutOfMemory),
    /// The planes or the requested range do not match the block.
    #[error("{filter}: {what}")]
    #[non_exhaustive]
    Part {
        /// Id of the filter.
        filter: FilterId,
        /// The rule that is broken.
        what: &'static str,
    },
    /// The filter is obsolete: it can be undone but not applied.
    #[error("{filter} is only read, never written")]
    #[non_exhaustive]
    ReadOnly {
        /// Id of the filter.
        filter: FilterId,
    },
}

impl FilterError {
    /// Creates the error for a parameter byte that is not valid.
    pub fn meta(filter: FilterId, meta: u8, what: &'static str) -> Self {
        Self::Meta { filter, meta, what }
    }

    /// Creates the error for an item size that the filter does not support.
    pub fn item_size(filter: FilterId, itemsize: usize) -> Self {
        Self::ItemSize { filter, itemsize }
    }

    /// Creates the error for a block that does not match its container, or for a container that is missing.
    pub fn container(filter: FilterId, what: &'static str) -> Self {
        Self::Container { filter, what }
    }

    /// Classifies the error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Meta { .. } => ErrorKind::Damaged,
            Self::ItemSize { .. } | Self::ReadOnly { .. } => ErrorKind::Unsupported,
            Self::Container { .. } | Self::Length { .. } | Self::Part { .. } => ErrorKind::Argument,
            Self::OutOfMemory(_) => ErrorKind::Memory,
        }
    }
}
