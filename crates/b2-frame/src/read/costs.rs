//! Read costs, which decide what is fetched together.

use crate::storage::files::FrameFiles;

/// The cost of a read besides its bytes, which decides what is fetched together. The reader sets
/// it, since a disk, an object store and a browser differ by orders of magnitude. Results do not
/// depend on it.
///
/// ```
/// use b2_frame::ReadCosts;
/// let costs = ReadCosts::REMOTE.gap(64 << 10);
/// assert!(costs.small > ReadCosts::LOCAL.small);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ReadCosts {
    /// Largest chunk that is read completely when only some blocks are needed, in bytes.
    pub small: u64,
    /// Smallest read for the head of a larger chunk, in bytes.
    pub head: u64,
    /// Largest gap between two ranges that are read at once, in bytes.
    pub gap: u64,
    /// Largest read for neighbouring blocks, in bytes. Such blocks are decoded one after the other.
    pub at_once: u64,
    /// Whether to request what is probably needed together with what is certainly needed, such as
    /// checksums with the heads of chunks.
    pub ahead: bool,
    /// Whether latency and rate of earlier requests replace `gap`, where the storage knows them
    /// ([`ReadAt::request_stats`](crate::ReadAt::pace)).
    pub adapt: bool,
}

impl ReadCosts {
    b2_core::setters! {
        small: u64,
        head: u64,
        gap: u64,
        at_once: u64,
        ahead: bool,
        adapt: bool,
    }

    /// Costs of files and memory. Reading 8 KiB from the page cache costs about as much as another
    /// call, and what was read at once is still in the cache when it is decoded.
    pub const LOCAL: Self =
        Self { small: 16 << 10, head: 4 << 10, gap: 8 << 10, at_once: 64 << 10, ahead: false, adapt: false };

    /// Costs of object stores and web servers, where a request takes as long as the transfer of
    /// some hundred KiB.
    pub const REMOTE: Self =
        Self { small: 128 << 10, head: 16 << 10, gap: 256 << 10, at_once: 2 << 20, ahead: true, adapt: true };
}

impl ReadCosts {
    /// Returns these costs, adapted to what earlier requests have cost.
    pub(crate) fn adapted(self, files: &dyn FrameFiles) -> Self {
        let gap = files
            .request_stats()
            .filter(|_| self.adapt)
            .and_then(|request_stats| request_stats.gap(files.in_flight()));
        Self { gap: gap.unwrap_or(self.gap), ..self }
    }
}

impl Default for ReadCosts {
    /// Returns [`ReadCosts::LOCAL`].
    fn default() -> Self {
        Self::LOCAL
    }
}
