use std::path::{Path, PathBuf};
use std::sync::Arc;

use b2_chunk::{DParams, Plugins};
use b2_core::{Control, Limits};

use crate::read::compare::Compare;
use crate::storage::lock_file_version::LockFileVersion;
use crate::storage::traits::ReadFiles;
use crate::{Disk, ReadTuning};

/// Options for opening a frame for reading. Returned by
/// [`SuperChunk::options`](crate::SuperChunk::options).
///
/// ```no_run
/// use b2_frame::SuperChunk;
/// use b2_chunk::Limits;
///
/// // Refuse to decompress chunks above 64 MiB.
/// let limits = Limits::default().max_chunk_nbytes(64 << 20);
/// let schunk = SuperChunk::options().limits(limits).open("untrusted.b2frame")?;
/// # Ok::<(), b2_frame::FrameError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct ReadOptions {
    pub(crate) dparams: DParams,
    pub(crate) fs: Arc<dyn ReadFiles>,
    pub(crate) offset: u64,
    pub(crate) checksums: bool,
    pub(crate) compare: Compare,
    pub(crate) tuning: ReadTuning,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            dparams: DParams::default(),
            fs: Arc::new(Disk),
            offset: 0,
            checksums: true,
            compare: Compare::default(),
            tuning: ReadTuning::default(),
        }
    }
}

impl ReadOptions {
    /// Sets the available codecs and filters.
    pub fn plugins(mut self, plugins: Plugins) -> Self {
        self.dparams.plugins = plugins;
        self
    }

    /// Sets limits on the memory and output that the frame may cost.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.dparams.limits = limits;
        self
    }

    /// Sets the threads and the progress callback of calls.
    pub fn control(mut self, control: Control) -> Self {
        self.dparams.control = control;
        self
    }

    /// Sets the file system, or other storage to find paths in.
    pub fn file_system(mut self, fs: Arc<dyn ReadFiles>) -> Self {
        self.fs = fs;
        self
    }

    /// Sets the offset of a contiguous frame in its file, buffer or reader, in bytes. The default
    /// is 0.
    pub fn offset(mut self, offset: u64) -> Self {
        self.offset = offset;
        self
    }

    /// Sets whether existing checksums are compared (the default): those of header, index and
    /// metadata on opening, those of chunks according to [`compare`](Self::compare).
    pub fn checksums(mut self, checksums: bool) -> Self {
        self.checksums = checksums;
        self
    }

    /// Sets when chunks are compared with their checksums on decoding. The default is
    /// [`Compare::Once`]. Chunks that are changed are always compared.
    pub fn compare(mut self, compare: Compare) -> Self {
        self.compare = compare;
        self
    }

    /// Sets the read tuning, which determines what is read together. The default is [`ReadTuning::LOCAL`].
    pub fn tuning(mut self, tuning: ReadTuning) -> Self {
        self.tuning = tuning;
        self
    }

    /// Returns the offset of the frame in its file, in bytes.
    pub fn frame_offset(&self) -> u64 {
        self.offset
    }

    /// Returns the file system.
    pub fn frame_file_system(&self) -> &Arc<dyn ReadFiles> {
        &self.fs
    }
}

/// The path and options with which a super-chunk was opened.
#[derive(Debug)]
pub(crate) struct FrameOrigin {
    pub(crate) options: ReadOptions,
    pub(crate) path: PathBuf,
    pub(crate) guard: Option<Arc<LockFileVersion>>,
}

impl FrameOrigin {
    pub(crate) fn new(options: &ReadOptions, path: &Path) -> Self {
        Self { options: options.clone(), path: path.to_owned(), guard: None }
    }
}
