//! The lock file next to a frame (docs/format/frame-contiguous.md, section 10), shared with C-Blosc2: `<file>.b2lock`,
//! or `.b2lock` in the directory of a sparse frame. Writers hold `flock` on it, on Windows a lock of byte 0. Byte 8
//! starts a change counter, a little-endian u64.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use b2_core::ProcessId;

use crate::FrameError;
use crate::names::{INDEX_NAME, LOCK_NAME};
use crate::storage::disk::Disk;
use crate::storage::traits::{FileSystem, Links, ReadAt, ReadFiles, WriteAt};

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
    pub(crate) fn foreign(self) -> u64 {
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
        let mut files = vec![lock(fs, beside(path), real)?];
        // Always lock links before the file itself, so that two writers cannot deadlock.
        if path != real {
            files.push(lock(fs, beside(real), real)?);
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
pub(crate) fn beside(path: &Path) -> PathBuf {
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
    let lock = if path.is_dir() { path.join(LOCK_NAME) } else { beside(path) };
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
