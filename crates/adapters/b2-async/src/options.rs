//! Options for opening.

use b2_core::Limits;
use b2_frame::{Compare, ReadOptions, ReadTuning, SuperChunk};

use crate::remote::DEFAULT_MAX_BYTES;

/// Options for opening a frame or an array asynchronously:
/// [`AsyncSuperChunk::open_with`](crate::AsyncSuperChunk::open_with) and [`AsyncNdArray::open_with`](crate::AsyncNdArray::open_with).
#[derive(Clone, Debug)]
#[must_use]
pub struct AsyncOptions {
    pub(crate) options: ReadOptions,
    pub(crate) max_bytes: u64,
}

impl Default for AsyncOptions {
    fn default() -> Self {
        Self { options: SuperChunk::options().tuning(ReadTuning::REMOTE), max_bytes: DEFAULT_MAX_BYTES }
    }
}

impl From<ReadOptions> for AsyncOptions {
    /// Copies plugins, limits, control, checksums, offset and tuning from `ReadOptions`. The file system is not used.
    /// For remote storage, set the tuning to [`ReadTuning::REMOTE`], the default of [`AsyncOptions::new`].
    fn from(options: ReadOptions) -> Self {
        Self { options, ..Self::default() }
    }
}

impl AsyncOptions {
    /// Returns the default options: those of [`SuperChunk::options`] with [`ReadTuning::REMOTE`].
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets limits on the memory and output that the file may cost.
    pub fn limits(self, limits: Limits) -> Self {
        Self { options: self.options.limits(limits), ..self }
    }

    /// Sets when chunks are compared with their checksums.
    pub fn compare(self, compare: Compare) -> Self {
        Self { options: self.options.compare(compare), ..self }
    }

    /// Sets the read tuning, which decides what is requested together.
    pub fn tuning(self, tuning: ReadTuning) -> Self {
        Self { options: self.options.tuning(tuning), ..self }
    }

    /// Sets the maximum number of bytes in flight for one call; 64 MiB by default. A single request is always allowed,
    /// however large.
    pub fn max_bytes_in_flight(self, max_bytes: u64) -> Self {
        Self { max_bytes, ..self }
    }
}
