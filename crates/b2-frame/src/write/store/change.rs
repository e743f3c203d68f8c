//! The changes of a commit.

use crate::format::checksums::ChunkSums;
use crate::format::starts::ChunkStarts;
use crate::write::state::FrameState;

/// The change that a commit makes.
pub(crate) struct Change<'a> {
    /// The committed state; for a new frame the same as `new`.
    pub(crate) old: &'a FrameState,
    pub(crate) new: &'a FrameState,
    /// Sums of the chunks, if the frame is to have checksums.
    pub(crate) sums: Option<&'a ChunkSums>,
    /// Where the blocks of the chunks are, if the frame gets a table of block starts.
    pub(crate) starts: Option<&'a ChunkStarts>,
    /// Whether only values in the header differ, and no checksums cover the header.
    pub(crate) metadata_only: bool,
}
