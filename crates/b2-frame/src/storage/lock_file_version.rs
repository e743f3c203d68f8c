//! Reading while others write in place, as C-Blosc2 does, under the lock file of the frame
//! (docs/format/frame-contiguous.md, section 10).
//!
//! Such a writer increments the counter in the lock file before each change. So all bytes belong to one state if no
//! change was in progress when the frame was opened, and the counter is still the same. Changes by this crate do not
//! matter, since they overwrite nothing.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use b2_chunk::DParams;
use bytes::Bytes;

use crate::FrameError;
use crate::storage::lock::LockRecord;
use crate::storage::request_stats::RequestStats;
use crate::storage::traits::{FileId, Links, ReadAt, ReadFiles};

/// How long opening waits for a writer to finish.
const WRITER_TIMEOUT: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(1);

/// The state of the lock file when a frame was opened.
pub(crate) struct LockFileVersion {
    fs: Arc<dyn ReadFiles>,
    path: PathBuf,
    /// Empty as long as the lock file does not exist.
    lock: OnceLock<Arc<dyn ReadAt>>,
    /// Number of changes by other programs.
    foreign: u64,
    /// The change counter when it was last compared. While it stays the same, so does `foreign`.
    counter: AtomicU64,
    /// Whether to look for a lock file that did not exist.
    watching: AtomicBool,
    /// How many users of the frame have locked the lock file, so that nothing can change.
    held: AtomicU32,
}

/// A lock of a frame that a reader holds. While it exists, the guard of the frame checks nothing.
#[derive(Debug)]
#[doc(hidden)]
pub struct HeldLock(Arc<LockFileVersion>);

impl HeldLock {
    pub(crate) fn new(guard: Arc<LockFileVersion>) -> Self {
        guard.held.fetch_add(1, Ordering::SeqCst);
        Self(guard)
    }
}

impl Drop for HeldLock {
    fn drop(&mut self) {
        self.0.held.fetch_sub(1, Ordering::SeqCst);
    }
}

impl std::fmt::Debug for LockFileVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guard").field("foreign", &self.foreign).finish_non_exhaustive()
    }
}

impl LockFileVersion {
    /// Waits until no other program is changing the frame with this lock file. Returns `None` if the lock file cannot
    /// be read or the file system does not support locks.
    pub(crate) fn wait(
        fs: &Arc<dyn ReadFiles>,
        path: &Path,
        dparams: &DParams,
    ) -> Result<Option<Arc<Self>>, FrameError> {
        if !fs.is_local() {
            return Ok(None);
        }
        let guard = |lock, record| Ok(Some(Self::of(fs.clone(), path.to_owned(), lock, record)));
        let lock = match fs.open(path, Links::Refuse) {
            Ok(lock) => lock,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return guard(OnceLock::new(), LockRecord::default());
            }
            Err(_) => return Ok(None),
        };
        let begun = Instant::now();
        loop {
            // Read the record before checking the lock: a writer that takes it in between is detected later.
            let Ok(record) = LockRecord::read(&*lock) else { return Ok(None) };
            // Writers of this crate may hold the lock for long, but need not be waited for.
            if record.is_ours() || !fs.is_locked(path).unwrap_or(false) {
                return guard(lock.into(), record);
            }
            if begun.elapsed() > WRITER_TIMEOUT {
                return Err(FrameError::lock(path)(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "another program holds it, and may be changing the frame",
                )));
            }
            dparams.control.check()?;
            std::thread::sleep(PAUSE);
        }
    }

    fn of(
        fs: Arc<dyn ReadFiles>,
        path: PathBuf,
        lock: OnceLock<Arc<dyn ReadAt>>,
        record: LockRecord,
    ) -> Arc<Self> {
        let (counter, watching) = (AtomicU64::new(record.counter()), AtomicBool::new(false));
        Arc::new(Self {
            fs,
            path,
            lock,
            foreign: record.foreign(),
            counter,
            watching,
            held: AtomicU32::new(0),
        })
    }

    /// Returns the present state of the same open lock file, which the caller has locked. Returns `None` if it is not open,
    /// has been replaced, or cannot be read.
    pub(crate) fn renewed(&self) -> Option<Arc<Self>> {
        let lock = self.lock.get()?;
        let identity = lock.identity().ok()??;
        if self.fs.identity(&self.path, Links::Refuse).ok()? != Some(identity) {
            return None;
        }
        let record = LockRecord::read(&**lock).ok()?;
        Some(Self::of(self.fs.clone(), self.path.clone(), lock.clone().into(), record))
    }

    /// Returns whether no other program has started a change since then.
    pub(crate) fn is_unchanged(&self) -> bool {
        if self.held.load(Ordering::SeqCst) > 0 {
            return true;
        }
        let unchanged = |lock: &Arc<dyn ReadAt>| {
            // Usually nothing has changed, which a single read shows. A new lock file is empty.
            let counter = LockRecord::read_counter(&**lock);
            if counter.is_ok_and(|counter| counter == self.counter.load(Ordering::Relaxed)) {
                return true;
            }
            LockRecord::read(&**lock).is_ok_and(|record| {
                let unchanged = record.foreign() == self.foreign;
                if unchanged {
                    self.counter.store(record.counter(), Ordering::Relaxed);
                }
                unchanged
            })
        };
        match self.lock.get() {
            Some(lock) => unchanged(lock),
            None if !self.watching.load(Ordering::Relaxed) => true,
            None => match self.fs.open(&self.path, Links::Refuse) {
                Ok(lock) => {
                    let is_unchanged = unchanged(&lock);
                    // Another thread may have set the same file.
                    let _ = self.lock.set(lock);
                    is_unchanged
                }
                // It still does not exist, or is not readable.
                Err(_) => true,
            },
        }
    }

    /// Starts looking for a lock file if there was none. This costs a system call per read, and is meant for frames
    /// without checksums.
    pub(crate) fn watch(&self) {
        self.watching.store(true, Ordering::Relaxed);
    }

    fn check<T>(&self, result: io::Result<T>) -> io::Result<T> {
        // Check after reading. A file that was truncated in the meantime has changed too.
        if self.is_unchanged() { result } else { Err(io::ErrorKind::StaleNetworkFileHandle.into()) }
    }
}

/// A file that returns bytes of the state in which the frame was opened, or an error.
pub(crate) struct GuardedFile {
    pub(crate) file: Arc<dyn ReadAt>,
    pub(crate) guard: Arc<LockFileVersion>,
}

impl ReadAt for GuardedFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.guard.check(self.file.read_exact_at(offset, buf))
    }

    fn read_at(&self, range: Range<u64>) -> io::Result<Bytes> {
        self.guard.check(self.file.read_at(range))
    }

    fn in_flight(&self) -> usize {
        self.file.in_flight()
    }

    fn request_stats(&self) -> Option<&RequestStats> {
        self.file.request_stats()
    }

    fn identity(&self) -> io::Result<Option<FileId>> {
        self.file.identity()
    }
}
