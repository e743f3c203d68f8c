//! The lock file next to a frame (docs/format/frame-contiguous.md, section 10), shared with C-Blosc2: `<file>.b2lock`,
//! or `.b2lock` in the directory of a sparse frame. Writers hold `flock` on it, on Windows a lock of byte 0. Byte 8
//! starts a change counter, a little-endian u64.
//!
//! Readers compare the counter: a writer that overwrites in place, as C-Blosc2 does, increments it before each change. So
//! all bytes belong to one state if no change was in progress when the frame was opened, and the counter is still the
//! same. Changes by this crate do not matter, since they overwrite nothing.

use std::ffi::OsString;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use b2_chunk::DParams;
use b2_core::ProcessId;
use bytes::Bytes;

use crate::FrameError;
use crate::names::{INDEX_NAME, LOCK_NAME};
use crate::storage::disk::Disk;
use crate::storage::request_stats::RequestStats;
use crate::storage::traits::{FileId, FileSystem, Links, ReadAt, ReadFiles, WriteAt};

const COUNTER_AT: usize = 8;

/// The content of the lock file: the change counter of C-Blosc2, followed by fields that C-Blosc2 leaves alone and
/// that distinguish our changes from others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LockRecord {
    /// Number of changes.
    counter: u64,
    /// How many of them were ours.
    ours: u64,
    /// One more than the counter at the time when one of our writers last took the lock.
    held: u64,
}

impl LockRecord {
    const LEN: usize = 32;

    pub(crate) fn read(file: &dyn ReadAt) -> io::Result<Self> {
        // Other writers make the file shorter.
        let len = file.len()?.min(Self::LEN as u64);
        let mut bytes = [0; Self::LEN];
        // On Windows the first byte cannot be read while others hold the lock.
        if let Some(part) = bytes.get_mut(COUNTER_AT..len as usize).filter(|part| !part.is_empty()) {
            file.read_exact_at(COUNTER_AT as u64, part)?;
        }
        let number = |at: usize| {
            let bytes = bytes.get(at..).and_then(<[u8]>::first_chunk);
            bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
        };
        let [counter, ours, held] = [8, 16, 24].map(number);
        Ok(Self { counter, ours, held })
    }

    /// Reads only the counter.
    pub(crate) fn read_counter(file: &dyn ReadAt) -> io::Result<u64> {
        let mut bytes = [0; 8];
        file.read_exact_at(COUNTER_AT as u64, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Returns the number of changes.
    pub(crate) fn counter(self) -> u64 {
        self.counter
    }

    /// Writes the record and returns the number of bytes.
    fn write(self, file: &dyn WriteAt) -> io::Result<u64> {
        let known = [self.counter, self.ours, self.held].map(u64::to_le_bytes).concat();
        // The first 8 bytes belong to C-Blosc2, but must exist.
        file.write_all_at(COUNTER_AT as u64, &known)?;
        Ok(known.len() as u64)
    }

    /// Returns the number of changes that were not ours.
    pub(crate) fn external_changes(self) -> u64 {
        self.counter.wrapping_sub(self.ours)
    }

    /// Returns whether the last holder of the lock was one of our writers.
    pub(crate) fn is_ours(self) -> bool {
        self.held == self.counter.wrapping_add(1)
    }

    /// Returns the record after `changes` of ours, while we hold the lock.
    fn held_after(self, changes: u64) -> Self {
        let counter = self.counter.wrapping_add(changes);
        Self { counter, ours: self.ours.wrapping_add(changes), held: counter.wrapping_add(1) }
    }
}

/// Exclusive locks on one frame, released on drop. A frame that was opened through a symbolic link
/// has two, since C-Blosc2 locks the name that it was given.
pub(crate) struct FrameLock {
    files: Vec<(PathBuf, Arc<dyn WriteAt>)>,
    /// The process that holds the locks.
    process: ProcessId,
}

impl Drop for FrameLock {
    fn drop(&mut self) {
        // A forked child shares the lock with its parent. It must not release the parent's lock,
        // and closing its copy of the handle does not.
        if self.process.is_current() {
            for (_, file) in &self.files {
                // Closing the file would not release the lock if a child still has a copy.
                let _ = file.unlock();
            }
        }
    }
}

impl FrameLock {
    /// Waits for the locks of a contiguous frame that was opened as `path` and whose file is
    /// `real`.
    pub(crate) fn file(fs: &dyn FileSystem, path: &Path, real: &Path) -> Result<Self, FrameError> {
        let mut files = vec![lock(fs, lock_path(path), real)?];
        // Always lock links before the file itself, so that two writers cannot deadlock.
        if path != real {
            files.push(lock(fs, lock_path(real), real)?);
        }
        Ok(Self { files, process: ProcessId::current() })
    }

    /// Waits for the lock of a sparse frame.
    pub(crate) fn directory(fs: &dyn FileSystem, dir: &Path) -> Result<Self, FrameError> {
        let files = vec![lock(fs, dir.join(LOCK_NAME), &dir.join(INDEX_NAME))?];
        Ok(Self { files, process: ProcessId::current() })
    }

    /// Increments the change counter, so that others who have the frame open read it again. This
    /// happens before the change: after a crash in between they read once too often, never too
    /// rarely.
    pub(crate) fn count_change(&self) -> Result<u64, FrameError> {
        let mut written = 0;
        for (path, file) in &self.files {
            written += raise(&**file).map_err(FrameError::lock(path))?;
        }
        Ok(written)
    }
}

fn raise(file: &dyn WriteAt) -> io::Result<u64> {
    LockRecord::read(file)?.held_after(1).write(file)
}

/// Returns the path of the lock file next to a contiguous frame.
pub(crate) fn lock_path(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(LOCK_NAME);
    name.into()
}

fn lock(fs: &dyn FileSystem, path: PathBuf, frame: &Path) -> Result<(PathBuf, Arc<dyn WriteAt>), FrameError> {
    let announced = wait(fs, &path).and_then(|file| {
        check_separate(fs, &*file, frame)?;
        // Readers need not wait for this writer.
        let record = LockRecord::read(&*file)?;
        if !record.is_ours() {
            record.held_after(0).write(&*file)?;
        }
        Ok(file)
    });
    match announced {
        Ok(file) => Ok((path, file)),
        Err(error) => Err(FrameError::lock(&path)(error)),
    }
}

/// Refuses a lock file that is another file as well, since the counter is written into it: a hard link to the frame
/// or to anything else, or the frame mounted under a second name.
fn check_separate(fs: &dyn FileSystem, lock: &dyn WriteAt, frame: &Path) -> io::Result<()> {
    let links = lock.hard_links()?;
    if links > 1 {
        let what = format!("it is a hard link to another file ({links} names)");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    let Some(identity) = lock.identity()? else { return Ok(()) };
    match fs.identity(frame, Links::Refuse) {
        Ok(Some(other)) if other == identity => {
            Err(io::Error::new(io::ErrorKind::InvalidInput, "it is the frame itself"))
        }
        // Opening the frame reports the problem.
        _ => Ok(()),
    }
}

/// Returns whether the frame at `path` (a file or the directory of a sparse frame) is locked, without waiting. The
/// result may be outdated when this returns; [`EditOptions::edit`](crate::EditOptions::edit) waits for the lock.
///
/// # Errors
/// [`FrameError::Lock`] if the lock file cannot be opened or is not a regular file.
pub fn is_locked(path: impl AsRef<Path>) -> Result<bool, FrameError> {
    let path = path.as_ref();
    let lock = if path.is_dir() { path.join(LOCK_NAME) } else { lock_path(path) };
    match Disk.is_locked(&lock) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        result => result.map_err(FrameError::lock(&lock)),
    }
}

fn wait(fs: &dyn FileSystem, path: &Path) -> io::Result<Arc<dyn WriteAt>> {
    const MAX_TRIES: u32 = 100;
    let mut tries = 0;
    loop {
        tries += 1;
        let file = match fs.open_write(path, Links::Refuse) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => match fs.create_new(path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tries < MAX_TRIES => continue,
                created => created?,
            },
            opened => opened?,
        };
        file.lock()?;
        // The file may have been removed while we waited, and another process may hold a lock on a
        // new one.
        match fs.identity(path, Links::Refuse) {
            Ok(identity) if identity == file.identity()? => return Ok(file),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ if tries >= MAX_TRIES => return Err(io::Error::other("the lock file keeps being replaced")),
            _ => {}
        }
    }
}

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
    external_changes: u64,
    /// The change counter when it was last compared. While it stays the same, so does `external_changes`.
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
        f.debug_struct("LockFileVersion")
            .field("external_changes", &self.external_changes)
            .finish_non_exhaustive()
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
            external_changes: record.external_changes(),
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
                let unchanged = record.external_changes() == self.external_changes;
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

    /// Starts looking for a lock file if there was none. This costs a system call per read, and is meant for data that are
    /// not compared with checksums, or not again.
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
