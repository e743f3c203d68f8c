//! Read tuning, which determines what is fetched together.

use crate::storage::files::FrameFiles;

/// Decides what is fetched together, by what a request costs besides its bytes. The reader sets it, since a disk, an
/// object store and a browser differ by orders of magnitude. Results do not depend on it.
///
/// ```
/// use b2_frame::ReadTuning;
/// let tuning = ReadTuning::REMOTE.coalesce_gap(64 << 10);
/// assert!(tuning.whole_chunk_max > ReadTuning::LOCAL.whole_chunk_max);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ReadTuning {
    /// Largest chunk that is read completely when only some blocks are needed, in bytes.
    pub whole_chunk_max: u64,
    /// Smallest read for the head of a larger chunk, in bytes.
    pub head_len: u64,
    /// Largest gap between two ranges that are read together, in bytes.
    pub coalesce_gap: u64,
    /// Largest read for neighbouring blocks, in bytes. Such blocks are decoded one after the other.
    pub coalesce_max: u64,
    /// Whether to request probably needed bytes together with certainly needed ones, such as checksums with the heads
    /// of chunks.
    pub prefetch: bool,
    /// Whether latency and rate of earlier requests replace `coalesce_gap`, where the storage knows them
    /// ([`ReadAt::request_stats`](crate::ReadAt::request_stats)).
    pub adaptive: bool,
}

impl ReadTuning {
    b2_core::setters! {
        whole_chunk_max: u64,
        head_len: u64,
        coalesce_gap: u64,
        coalesce_max: u64,
        prefetch: bool,
        adaptive: bool,
    }

    /// For files and memory. Reading 8 KiB from the page cache costs about as much as another call, and large
    /// reads are still in the cache when they are decoded.
    pub const LOCAL: Self = Self {
        whole_chunk_max: 16 << 10,
        head_len: 4 << 10,
        coalesce_gap: 8 << 10,
        coalesce_max: 64 << 10,
        prefetch: false,
        adaptive: false,
    };

    /// For object stores and web servers, where a request takes as long as the transfer of
    /// some hundred KiB.
    pub const REMOTE: Self = Self {
        whole_chunk_max: 128 << 10,
        head_len: 16 << 10,
        coalesce_gap: 256 << 10,
        coalesce_max: 2 << 20,
        prefetch: true,
        adaptive: true,
    };
}

impl ReadTuning {
    /// Returns this tuning, adapted to what earlier requests have cost.
    pub(crate) fn adapted(self, files: &dyn FrameFiles) -> Self {
        let gap = files
            .request_stats()
            .filter(|_| self.adaptive)
            .and_then(|request_stats| request_stats.gap(files.in_flight()));
        Self { coalesce_gap: gap.unwrap_or(self.coalesce_gap), ..self }
    }
}

impl Default for ReadTuning {
    /// Returns [`ReadTuning::LOCAL`].
    fn default() -> Self {
        Self::LOCAL
    }
}
