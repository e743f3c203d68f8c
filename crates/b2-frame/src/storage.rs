//! What the frame layer asks of storage. Everything that touches files goes through these traits, so that
//! tests can count, fail, cut short or replay each call.

use std::ffi::OsString;
use std::fmt::Debug;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use b2_chunk::memory::{self, OutOfMemory};
use bytes::Bytes;

use crate::pool::Pooled;

/// Positioned reading: a file, a buffer, a test double. No call moves a cursor, so any number of threads
/// may read at once.
pub trait ReadAt: Send + Sync {
    /// Length in bytes.
    ///
    /// # Errors
    /// What the storage answers.
    fn len(&self) -> io::Result<u64>;

    /// Whether there are no bytes.
    ///
    /// # Errors
    /// As [`ReadAt::len`].
    fn is_empty(&self) -> io::Result<bool> {
        self.len().map(|len| len == 0)
    }

    /// Fills `buf` with the bytes from `offset` on.
    ///
    /// # Errors
    /// [`io::ErrorKind::UnexpectedEof`] if there are fewer, else what the storage answers.
    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()>;

    /// The bytes of `range`. Callers compare the range with [`ReadAt::len`] first, so that no length from a
    /// file decides on an allocation.
    ///
    /// # Errors
    /// As [`ReadAt::read_exact_at`].
    fn read_at(&self, range: Range<u64>) -> io::Result<Bytes> {
        let mut buf = Pooled::new(range.end.saturating_sub(range.start))
            .map_err(|error| io::Error::new(io::ErrorKind::OutOfMemory, error))?;
        self.read_exact_at(range.start, &mut buf)?;
        Ok(buf.freeze())
    }

    /// Which file this is, where files have an identity: tells a file from another that was renamed over it.
    ///
    /// # Errors
    /// What the storage answers.
    fn identity(&self) -> io::Result<Option<FileId>> {
        Ok(None)
    }

    /// How many names the file has, where files have names. Renaming another file over one of them leaves the
    /// others with the old content.
    ///
    /// # Errors
    /// What the storage answers.
    fn hard_links(&self) -> io::Result<u64> {
        Ok(1)
    }
}

/// Positioned writing. Through `&self`, as one handle may serve readers while it is written.
pub trait WriteAt: ReadAt {
    /// Writes all of `data` at `offset`; a gap before it reads as zeros.
    ///
    /// # Errors
    /// What the storage answers; part of the data may have been written.
    fn write_all_at(&self, offset: u64, data: &[u8]) -> io::Result<()>;

    /// Cuts the file off, or extends it with zeros.
    ///
    /// # Errors
    /// What the storage answers.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Returns when all that was written would survive a power loss.
    ///
    /// # Errors
    /// What the storage answers.
    fn sync(&self) -> io::Result<()>;

    /// Waits for an advisory lock on the file; it is released when the handle is dropped.
    ///
    /// # Errors
    /// What the storage answers, also when it knows no locks.
    fn lock(&self, mode: LockMode) -> io::Result<()>;
}

/// Who may hold a lock at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LockMode {
    /// Any number of shared holders.
    Shared,
    /// One holder.
    Exclusive,
}

/// Device and file number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileId {
    /// The device.
    pub device: u64,
    /// The file's number on it.
    pub inode: u64,
}

/// What a path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link (only seen when links are not followed).
    Link,
    /// A FIFO, socket or device. Opening one may block or do things.
    Other,
}

/// Whether a symbolic link in the last part of a path is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Links {
    /// Followed: for paths that the user named.
    Follow,
    /// Refused: for names inside a sparse frame, so that a frame cannot lead elsewhere.
    Refuse,
}

/// The operations on names. [`Disk`](crate::Disk) is the real one.
pub trait FileSystem: Debug + Send + Sync {
    /// What `path` names, without opening it.
    ///
    /// # Errors
    /// What the file system answers, [`io::ErrorKind::NotFound`] above all.
    fn kind(&self, path: &Path, links: Links) -> io::Result<FileKind>;

    /// Which regular file `path` names now, where files have an identity.
    ///
    /// # Errors
    /// As [`FileSystem::open`].
    fn identity(&self, path: &Path, links: Links) -> io::Result<Option<FileId>> {
        self.open(path, links)?.identity()
    }

    /// Opens a regular file for reading. Never blocks on anything else: that is refused.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if it is not a regular file, else what the file system answers.
    fn open(&self, path: &Path, links: Links) -> io::Result<Arc<dyn ReadAt>>;

    /// Opens a regular file for reading and writing.
    ///
    /// # Errors
    /// As [`FileSystem::open`].
    fn open_write(&self, path: &Path, links: Links) -> io::Result<Arc<dyn WriteAt>>;

    /// Creates a file that was not there.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`], or what the file system answers.
    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn WriteAt>>;

    /// Creates a directory that was not there.
    ///
    /// # Errors
    /// As [`FileSystem::create_new`].
    fn create_dir(&self, path: &Path) -> io::Result<()>;

    /// Gives a file or directory another name. A file of that name is replaced.
    ///
    /// # Errors
    /// What the file system answers.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Gives a file another name that nothing has yet.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`], or what the file system answers.
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// What the file system answers.
    fn remove_file(&self, path: &Path) -> io::Result<()>;

    /// Removes an empty directory.
    ///
    /// # Errors
    /// What the file system answers.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;

    /// The names in a directory, in no particular order.
    ///
    /// # Errors
    /// What the file system answers.
    fn list(&self, dir: &Path) -> io::Result<Vec<OsString>>;

    /// Returns when the names in a directory would survive a power loss.
    ///
    /// # Errors
    /// What the file system answers. Where directories cannot be synced this does nothing.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// The path with all symbolic links followed.
    ///
    /// # Errors
    /// What the file system answers.
    fn resolve(&self, path: &Path) -> io::Result<PathBuf>;

    /// Gives `to` the permissions of `from` and, where allowed, its owner.
    ///
    /// # Errors
    /// What the file system answers about permissions; a refused change of owner is none.
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

    /// Shares the buffer, copies nothing.
    fn read_at(&self, range: Range<u64>) -> io::Result<Bytes> {
        let len = usize::try_from(range.end.saturating_sub(range.start)).map_err(|_| eof())?;
        part(self, range.start, len).map(|part| self.slice_ref(part))
    }
}

fn part(bytes: &[u8], offset: u64, len: usize) -> io::Result<&[u8]> {
    let rest = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..));
    rest.and_then(|rest| rest.get(..len)).ok_or_else(eof)
}

pub(crate) fn eof() -> io::Error {
    io::ErrorKind::UnexpectedEof.into()
}

/// A buffer of zeros; running out of memory is an error.
pub(crate) fn zeroed(len: u64) -> Result<Vec<u8>, OutOfMemory> {
    // A length beyond the address space cannot be had either.
    memory::zeroed(usize::try_from(len).unwrap_or(usize::MAX)).map_err(|_| OutOfMemory { bytes: len })
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
