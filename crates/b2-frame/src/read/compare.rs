//! Decides how chunks are compared with their checksums when they are read.

/// When stored bytes that have checksums are compared with them, before they are decoded.
///
/// Whole chunks and parts of chunks are compared alike: for a part, the head of the chunk and the runs of
/// blocks around the part (docs/format/block-sums.md). Chunks without sums of blocks are compared as a whole.
///
/// Data that will be stored again are compared with every setting, and
/// [`SuperChunk::verify_checksums`](crate::SuperChunk::verify_checksums) compares all chunks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Compare {
    /// Never compare. This is for storage that has its own checksums.
    Never,
    /// Verify everything that is read for the first time since the frame was opened or
    /// [refreshed](crate::SuperChunk::refresh). Data from remote storage
    /// ([`ReadTuning::prefetch`](crate::ReadTuning::prefetch)) are compared each time.
    #[default]
    Once,
    /// Compare each time.
    Always,
}
