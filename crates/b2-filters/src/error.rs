use crate::FilterId;

/// Why a filter could not be applied or undone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FilterError {
    /// The parameter byte is outside what the filter allows here.
    #[error("{filter}: meta {meta} is not valid: {what}")]
    Meta {
        /// The filter.
        filter: FilterId,
        /// Its parameter byte.
        meta: u8,
        /// The rule it breaks.
        what: &'static str,
    },
    /// The filter does not work with this item size.
    #[error("{filter}: item size {typesize} is not supported")]
    ItemSize {
        /// The filter.
        filter: FilterId,
        /// Item size in bytes.
        typesize: usize,
    },
    /// The filter needs the container (block shape or item size), or what it says does not fit the block.
    #[error("{filter}: {what}")]
    Container {
        /// The filter.
        filter: FilterId,
        /// What is missing or wrong.
        what: &'static str,
    },
    /// Source and destination differ in length.
    #[error("{filter}: source has {src} bytes, destination {dst}")]
    Length {
        /// The filter.
        filter: FilterId,
        /// Source length in bytes.
        src: usize,
        /// Destination length in bytes.
        dst: usize,
    },
    /// There is no memory for what the filter needs beside source and destination.
    #[error("{filter}: out of memory: {bytes} bytes could not be allocated")]
    OutOfMemory {
        /// The filter.
        filter: FilterId,
        /// Bytes asked for.
        bytes: usize,
    },
    /// Planes or the range of bytes asked do not fit each other or the block.
    #[error("{filter}: {what}")]
    Part {
        /// The filter.
        filter: FilterId,
        /// The rule that is broken.
        what: &'static str,
    },
    /// The filter can be undone but not applied: nobody should write it any more.
    #[error("{filter} is only read, never written")]
    ReadOnly {
        /// The filter.
        filter: FilterId,
    },
}
