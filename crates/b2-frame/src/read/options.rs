//! Options for reading: what is compared, what is fetched together, and when a read is retried.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use b2_chunk::{DParams, Plugins};
use b2_core::{Control, Limits};

use crate::Disk;
use crate::storage::files::FrameFiles;
use crate::storage::lock::LockFileVersion;
use crate::storage::traits::ReadFiles;

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

/// When stored bytes that have checksums are compared with them, before they are decoded.
///
/// Whole chunks and parts of chunks are compared in the same way: for a part, the head of the chunk and the runs of
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
    /// Whether latency and rate of earlier requests replace `coalesce_gap`, if the storage measures them
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

/// When a read that failed because another program changed the data in the meantime is retried: compacting a sparse
/// frame removes the files of the state that was opened.
///
/// The pause before a retry is 1 ms, then twice as long each time, up to 64 ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RetryPolicy {
    /// Number of retries that are made even if each takes long.
    pub min_retries: u32,
    /// Time after the first failure during which more retries are made.
    pub timeout: Duration,
}

impl Default for RetryPolicy {
    /// Returns the policy for all reads: 20 retries, and more for 30 seconds, as long as opening waits for a writer of
    /// C-Blosc2. A second is too short next to a writer that compacts about as fast as a reader reads.
    fn default() -> Self {
        Self { min_retries: 20, timeout: Duration::from_secs(30) }
    }
}

impl RetryPolicy {
    b2_core::setters! {
        min_retries: u32,
        timeout: Duration,
    }
}

/// Runs `attempt` on `state`, and retries as long as `recover` and the policy allow it. Each attempt must read one state of
/// the data from its start. `recover` gets the error and the pause before the next attempt. If the data were changed, it
/// waits, reloads what is needed and returns true; it returns false for other errors.
///
/// # Errors
/// The error of the last attempt, or of `recover`.
pub fn retry_on_change<S, T, E>(
    policy: RetryPolicy,
    state: &mut S,
    mut attempt: impl FnMut(&mut S) -> Result<T, E>,
    mut recover: impl FnMut(&mut S, &E, Duration) -> Result<bool, E>,
) -> Result<T, E> {
    let (mut retries, mut first_failure) = (0u32, None);
    loop {
        let error = match attempt(state) {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        let since = *first_failure.get_or_insert_with(Instant::now);
        let goes_on = retries < policy.min_retries || since.elapsed() < policy.timeout;
        if !goes_on || !recover(state, &error, Duration::from_millis(1 << retries.min(6)))? {
            return Err(error);
        }
        retries = retries.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(min_retries: u32) -> RetryPolicy {
        RetryPolicy::default().min_retries(min_retries).timeout(Duration::ZERO)
    }

    #[test]
    fn a_reader_is_not_starved_by_a_fast_writer() {
        let (mut left, mut pauses) = (5000, Vec::new());
        let attempt = |left: &mut u32| match *left {
            0 => Ok(7),
            _ => {
                *left -= 1;
                Err(*left)
            }
        };
        let recover = |_: &mut u32, _: &u32, pause: Duration| {
            pauses.push(pause.as_millis());
            Ok(true)
        };
        assert_eq!(retry_on_change(policy(6000), &mut left, attempt, recover), Ok(7));
        assert_eq!((pauses.len(), &pauses[..8]), (5000, &[1, 2, 4, 8, 16, 32, 64, 64][..]));
    }

    #[test]
    fn the_last_error_is_returned_after_all_retries() {
        let mut count = 0;
        let attempt = |count: &mut u32| {
            *count += 1;
            Err::<(), _>(*count)
        };
        assert_eq!(retry_on_change(policy(9), &mut count, attempt, |_, _, _| Ok(true)), Err(10));
        assert_eq!(retry_on_change(policy(9), &mut count, attempt, |_, _, _| Ok(false)), Err(11));
        assert_eq!(retry_on_change(policy(9), &mut count, attempt, |_, _, _| Err(0)), Err(0));
    }
}
