//! The storage interface of this crate. All file access goes through these traits, so that tests
//! can count, fail, truncate or replay each call.

use std::ffi::OsString;
use std::fmt::Debug;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use b2_core::Buffer;
use b2_core::{OutOfMemory, memory};
use bytes::Bytes;

use crate::names::INDEX_NAME;
use crate::storage::request_stats::RequestStats;

/// Reads at given offsets from a file, a buffer or a test double. There is no cursor, so any number of threads may read
/// concurrently.
#[allow(clippy::len_without_is_empty, reason = "a length to compare with, not a collection")]
pub trait ReadAt: Send + Sync {
    /// Returns the length in bytes.
    ///
    /// # Errors
    /// Any error of the storage, which becomes [`FrameError::Io`](crate::FrameError::Io);
    /// [`io::ErrorKind::StaleNetworkFileHandle`] as for [`read_exact_at`](Self::read_exact_at).
    fn len(&self) -> io::Result<u64>;

    /// Fills `buf` with the bytes from `offset` on.
    ///
    /// # Errors
    /// [`io::ErrorKind::UnexpectedEof`] if there are fewer bytes; [`io::ErrorKind::StaleNetworkFileHandle`] if the file
    /// is no longer the one that was opened, which becomes [`FrameError::Changed`](crate::FrameError::Changed); or any
    /// error of the storage, which becomes [`FrameError::Io`](crate::FrameError::Io).
    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()>;

    /// Returns the bytes of `range`. Callers first compare the range with [`ReadAt::len`], so that
    /// no number in a file can cause a large allocation.
    ///
    /// # Errors
    /// As for [`ReadAt::read_exact_at`].
    fn read_at(&self, range: Range<u64>) -> io::Result<Bytes> {
        copied(self, range)
    }

    /// Returns the bytes of `range`, or only those up to the end of the chunk that holds its start if the storage knows
    /// that end.
    ///
    /// # Errors
    /// As for [`ReadAt::read_at`].
    #[doc(hidden)]
    fn read_at_most(&self, range: Range<u64>) -> io::Result<Bytes> {
        self.read_at(range)
    }

    /// Returns how many reads should be in flight concurrently. More than one means that reads have high latency, as from a
    /// web server: readers then send their requests concurrently from separate threads.
    fn in_flight(&self) -> usize {
        1
    }

    /// Returns what requests have cost so far, if the storage keeps track of it.
    fn request_stats(&self) -> Option<&RequestStats> {
        None
    }

    /// Returns the identity of the file, if files have one. It distinguishes a file from another
    /// that was renamed over it.
    ///
    /// # Errors
    /// Any error of the storage, which becomes [`FrameError::Io`](crate::FrameError::Io).
    fn identity(&self) -> io::Result<Option<FileId>> {
        Ok(None)
    }
}

pub(crate) fn out_of_memory(error: OutOfMemory) -> io::Error {
    io::Error::new(io::ErrorKind::OutOfMemory, error)
}

/// Reads a range into a buffer that is reused.
pub(crate) fn copied(file: &(impl ReadAt + ?Sized), range: Range<u64>) -> io::Result<Bytes> {
    let mut buf = Buffer::new(range.end.saturating_sub(range.start)).map_err(out_of_memory)?;
    file.read_exact_at(range.start, &mut buf)?;
    Ok(buf.freeze())
}

/// Writes at given offsets. Methods take `&self`, because readers may share the handle.
pub trait WriteAt: ReadAt {
    /// Writes all of `data` at `offset`. A gap before it reads as zeros.
    ///
    /// # Errors
    /// Any error of the storage, such as [`io::ErrorKind::StorageFull`], which becomes
    /// [`FrameError::Io`](crate::FrameError::Io). Part of the data may have been written.
    fn write_all_at(&self, offset: u64, data: &[u8]) -> io::Result<()>;

    /// Truncates the file, or extends it with zeros.
    ///
    /// # Errors
    /// Any error of the storage, such as [`io::ErrorKind::StorageFull`], which becomes
    /// [`FrameError::Io`](crate::FrameError::Io).
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Syncs the file: when this returns, all written data survive a power loss.
    ///
    /// # Errors
    /// Any error of the storage, which becomes [`FrameError::Io`](crate::FrameError::Io), or
    /// [`FrameError::NotSynced`](crate::FrameError::NotSynced) if a change is already visible. Data written since the
    /// last sync may be lost.
    fn sync(&self) -> io::Result<()>;

    /// Reserves space for the bytes of `range`, which will be written soon, so that writing them costs less. It does
    /// not change the length of the file. [`WriteAt::set_len`] releases unused space. A storage may ignore this.
    fn reserve(&self, range: Range<u64>) {
        let _ = range;
    }

    /// Starts sending the bytes of `range` to the disk without waiting, so that a later [`WriteAt::sync`] takes less
    /// time. A storage may ignore this.
    fn start_sync(&self, range: Range<u64>) {
        let _ = range;
    }

    /// Returns the number of hard links of the file. Renaming another file over one of its names
    /// leaves the others with the old content.
    ///
    /// # Errors
    /// Any error of the storage, which becomes [`FrameError::Io`](crate::FrameError::Io).
    fn hard_links(&self) -> io::Result<u64> {
        Ok(1)
    }

    /// Waits for an exclusive advisory lock on the file. It is released when the handle is dropped.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`] if the storage does not support locks, or any error of it, which becomes
    /// [`FrameError::Lock`](crate::FrameError::Lock).
    fn lock(&self) -> io::Result<()>;

    /// Releases the lock immediately, even if a child process holds a copy of the handle.
    ///
    /// # Errors
    /// Any error of the storage. Writers of this crate ignore it.
    fn unlock(&self) -> io::Result<()> {
        Ok(())
    }
}

/// The identity of a file, to compare with others: two names with the same identity are the same file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileId {
    device: u64,
    file: u128,
}

impl FileId {
    /// Creates an identity from the number of a device and a unique number of a file on it: the inode number on Unix;
    /// on Windows the serial number of the volume and the file id, which has 128 bits on some file systems. Other
    /// storage may number its files in any way.
    pub const fn new(device: u64, file: u128) -> Self {
        Self { device, file }
    }
}

/// The kind of a path's target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link. Reported only if links are not followed.
    Link,
    /// A FIFO, socket or device. Opening one may block or have side effects.
    Other,
}

/// Whether a symbolic link in the last component of a path is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Links {
    /// Follow it: for paths that the user gave.
    Follow,
    /// Refuse it: for names inside a sparse frame, so that a frame cannot lead elsewhere.
    Refuse,
}

/// Finds and opens files for reading. Storage that can only be read, such as a web server, implements
/// [`open`](Self::open) and, if it can determine the kind of a path without opening it, [`kind`](Self::kind).
pub trait ReadFiles: Debug + Send + Sync {
    /// Opens a regular file for reading. Anything else is refused, so this never blocks.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if it is not a regular file, or any error of the storage, most often
    /// [`io::ErrorKind::NotFound`].
    fn open(&self, path: &Path, links: Links) -> io::Result<Arc<dyn ReadAt>>;

    /// Opens a file as [`open`](Self::open) does, and returns its length in bytes, too.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    #[doc(hidden)]
    fn open_with_len(&self, path: &Path, links: Links) -> io::Result<(Arc<dyn ReadAt>, u64)> {
        let file = self.open(path, links)?;
        let len = file.len()?;
        Ok((file, len))
    }

    /// Returns what `path` refers to. The default opens it: a path is a file if that succeeds, and a directory if there
    /// is no such file, but the index file of a sparse frame below the path.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    fn kind(&self, path: &Path, links: Links) -> io::Result<FileKind> {
        match self.open(path, links) {
            Ok(_) => Ok(FileKind::File),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.open(&path.join(INDEX_NAME), links).map(|_| FileKind::Directory).map_err(|_| error)
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the identity of the regular file at `path`, if files have one.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    fn identity(&self, path: &Path, links: Links) -> io::Result<Option<FileId>> {
        self.open(path, links)?.identity()
    }

    /// Lists the names in a directory, in any order. Only [`salvage`](crate::salvage) and writers need this.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`], which is the default, or any error of the storage.
    fn list(&self, dir: &Path) -> io::Result<Vec<OsString>> {
        let _ = dir;
        Err(io::Error::new(io::ErrorKind::Unsupported, "this storage cannot list directories"))
    }

    /// Returns whether these are files of this machine: relative paths are then relative to the working directory of
    /// the process, and readers look for lock files and check them with [`is_locked`](Self::is_locked).
    fn is_local(&self) -> bool {
        false
    }

    /// Returns whether there is an exclusive lock on the regular file at `path`, without waiting.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    fn is_locked(&self, path: &Path) -> io::Result<bool> {
        let _ = path;
        Ok(false)
    }

    /// Returns the file system that changes these files; `None`, which is the default, if they can only be read.
    fn writable(self: Arc<Self>) -> Option<Arc<dyn FileSystem>> {
        None
    }
}

/// Creates, changes, renames and removes files. [`Disk`](crate::Disk) is the file system of the operating system.
///
/// [`ReadFiles::writable`] of the same type returns the value itself, so that options for reading can become options
/// for changing.
pub trait FileSystem: ReadFiles {
    /// Opens a regular file for reading and writing.
    ///
    /// # Errors
    /// As for [`ReadFiles::open`].
    fn open_write(&self, path: &Path, links: Links) -> io::Result<Arc<dyn WriteAt>>;

    /// Creates a file that must not exist yet.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`], or any error of the file system.
    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn WriteAt>>;

    /// Creates a directory that must not exist yet.
    ///
    /// # Errors
    /// As for [`FileSystem::create_new`].
    fn create_dir(&self, path: &Path) -> io::Result<()>;

    /// Renames a file or directory, replacing a file of the new name.
    ///
    /// # Errors
    /// Any error of the file system, such as [`io::ErrorKind::NotFound`], which becomes
    /// [`FrameError::Io`](crate::FrameError::Io) or [`FrameError::SetAside`](crate::FrameError::SetAside).
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Renames a file to a name that must not exist yet.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`], or any error of the file system.
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Swaps the names of two files or directories in one step, so that a directory can be replaced without a moment
    /// in which it is missing.
    ///
    /// # Errors
    /// Any error of the storage, in particular [`io::ErrorKind::Unsupported`]. Nothing has changed then.
    fn exchange(&self, _one: &Path, _other: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Removes a file.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] if it does not exist, or any error of the file system.
    fn remove_file(&self, path: &Path) -> io::Result<()>;

    /// Removes an empty directory.
    ///
    /// # Errors
    /// [`io::ErrorKind::DirectoryNotEmpty`], or any error of the file system.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;

    /// Syncs a directory: when this returns, the names in it survive a power loss. Does nothing
    /// where directories cannot be synced.
    ///
    /// # Errors
    /// Any error of the file system, which becomes [`FrameError::Io`](crate::FrameError::Io), or
    /// [`FrameError::NotSynced`](crate::FrameError::NotSynced) if a change is already visible.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// Returns the path with all symbolic links resolved.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] if its target does not exist, or any error of the file system.
    fn resolve(&self, path: &Path) -> io::Result<PathBuf>;

    /// Gives `to` the permissions of `from`, its access control list and, if allowed, its owner and extended attributes.
    ///
    /// # Errors
    /// [`io::ErrorKind::PermissionDenied`], or any other error from setting the permissions or the list. A refused change
    /// of owner or of another attribute is ignored.
    fn copy_attributes(&self, from: &Path, to: &Path) -> io::Result<()>;
}

impl ReadAt for Bytes {
    fn len(&self) -> io::Result<u64> {
        Ok(Bytes::len(self) as u64)
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        buf.copy_from_slice(part(self, offset, buf.len())?);
        Ok(())
    }

    /// Shares the buffer without copying it.
    fn read_at(&self, range: Range<u64>) -> io::Result<Bytes> {
        let len = usize::try_from(range.end.saturating_sub(range.start)).map_err(|_| eof())?;
        part(self, range.start, len).map(|part| self.slice_ref(part))
    }
}

/// Returns `len` bytes from `offset` on.
pub(crate) fn part(bytes: &[u8], offset: u64, len: usize) -> io::Result<&[u8]> {
    let rest = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..));
    rest.and_then(|rest| rest.get(..len)).ok_or_else(eof)
}

pub(crate) fn eof() -> io::Error {
    io::ErrorKind::UnexpectedEof.into()
}

/// Allocates a zeroed buffer. Running out of memory is an error.
pub(crate) fn zeroed(len: u64) -> Result<Vec<u8>, OutOfMemory> {
    // A length beyond the address space cannot be allocated either.
    memory::zeroed(usize::try_from(len).unwrap_or(usize::MAX)).map_err(|_| OutOfMemory::new(len))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_without_copying_and_not_beyond_its_end() {
        let bytes = Bytes::from_static(b"0123456789");
        let part = bytes.read_at(2..5).unwrap();
        assert_eq!(part, "234");
        assert_eq!(part.as_ptr(), bytes[2..].as_ptr());
        for range in [8..11, 11..12, u64::MAX - 1..u64::MAX] {
            assert_eq!(bytes.read_at(range).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        }
        let mut buf = [0; 3];
        bytes.read_exact_at(7, &mut buf).unwrap();
        assert_eq!(&buf, b"789");
        assert!(bytes.read_exact_at(8, &mut buf).is_err());
    }
}
