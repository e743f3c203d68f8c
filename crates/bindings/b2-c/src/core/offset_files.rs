//! Presents a frame at the end of a file as a separate file, so that the engine, which changes whole files, can change
//! it.

use std::ffi::OsString;
use std::io::{Error as IoError, ErrorKind, Result as IoResult};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use b2_frame::{Disk, FileId, FileKind, FileSystem, Links, ReadAt, ReadFiles, WriteAt};

/// The system's files, one of which starts at an offset.
#[derive(Debug)]
pub(crate) struct OffsetFiles {
    path: PathBuf,
    start: u64,
}

impl OffsetFiles {
    /// Presents the bytes of `path` from `start` on as a file. The path must be canonical.
    pub(crate) fn new(path: PathBuf, start: u64) -> Self {
        Self { path, start }
    }

    /// The file must keep its name, since it has other content.
    fn other(&self, path: &Path) -> IoResult<()> {
        if path == self.path {
            return Err(IoError::new(ErrorKind::Unsupported, "the file holds more than this frame"));
        }
        Ok(())
    }
}

/// An open file that starts at an offset.
struct OffsetFile<F: ?Sized> {
    start: u64,
    file: Arc<F>,
}

fn moved(start: u64, offset: u64) -> IoResult<u64> {
    start.checked_add(offset).ok_or_else(|| ErrorKind::InvalidInput.into())
}

impl<F: ReadAt + ?Sized> ReadAt for OffsetFile<F> {
    fn len(&self) -> IoResult<u64> {
        Ok(self.file.len()?.saturating_sub(self.start))
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> IoResult<()> {
        self.file.read_exact_at(moved(self.start, offset)?, buf)
    }

    fn identity(&self) -> IoResult<Option<FileId>> {
        self.file.identity()
    }
}

impl<F: WriteAt + ?Sized> WriteAt for OffsetFile<F> {
    fn write_all_at(&self, offset: u64, data: &[u8]) -> IoResult<()> {
        self.file.write_all_at(moved(self.start, offset)?, data)
    }

    fn set_len(&self, len: u64) -> IoResult<()> {
        self.file.set_len(moved(self.start, len)?)
    }

    fn sync(&self) -> IoResult<()> {
        self.file.sync()
    }

    fn start_sync(&self, range: Range<u64>) {
        if let (Ok(start), Ok(end)) = (moved(self.start, range.start), moved(self.start, range.end)) {
            self.file.start_sync(start..end);
        }
    }

    fn hard_links(&self) -> IoResult<u64> {
        self.file.hard_links()
    }

    fn lock(&self) -> IoResult<()> {
        self.file.lock()
    }

    fn unlock(&self) -> IoResult<()> {
        self.file.unlock()
    }
}

impl ReadFiles for OffsetFiles {
    fn open(&self, path: &Path, links: Links) -> IoResult<Arc<dyn ReadAt>> {
        let file = Disk.open(path, links)?;
        if path == self.path { Ok(Arc::new(OffsetFile { start: self.start, file })) } else { Ok(file) }
    }

    fn kind(&self, path: &Path, links: Links) -> IoResult<FileKind> {
        Disk.kind(path, links)
    }

    fn identity(&self, path: &Path, links: Links) -> IoResult<Option<FileId>> {
        Disk.identity(path, links)
    }

    fn list(&self, dir: &Path) -> IoResult<Vec<OsString>> {
        Disk.list(dir)
    }

    fn is_locked(&self, path: &Path) -> IoResult<bool> {
        Disk.is_locked(path)
    }

    fn writable(self: Arc<Self>) -> Option<Arc<dyn FileSystem>> {
        Some(self)
    }
}

impl FileSystem for OffsetFiles {
    fn open_write(&self, path: &Path, links: Links) -> IoResult<Arc<dyn WriteAt>> {
        let file = Disk.open_write(path, links)?;
        if path == self.path { Ok(Arc::new(OffsetFile { start: self.start, file })) } else { Ok(file) }
    }

    fn create_new(&self, path: &Path) -> IoResult<Arc<dyn WriteAt>> {
        Disk.create_new(path)
    }

    fn create_dir(&self, path: &Path) -> IoResult<()> {
        Disk.create_dir(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> IoResult<()> {
        self.other(from)?;
        self.other(to)?;
        Disk.rename(from, to)
    }

    fn rename_new(&self, from: &Path, to: &Path) -> IoResult<()> {
        self.other(from)?;
        Disk.rename_new(from, to)
    }

    fn remove_file(&self, path: &Path) -> IoResult<()> {
        self.other(path)?;
        Disk.remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> IoResult<()> {
        Disk.remove_dir(path)
    }

    fn sync_dir(&self, dir: &Path) -> IoResult<()> {
        Disk.sync_dir(dir)
    }

    fn resolve(&self, path: &Path) -> IoResult<PathBuf> {
        Disk.resolve(path)
    }

    fn copy_attributes(&self, from: &Path, to: &Path) -> IoResult<()> {
        Disk.copy_attributes(from, to)
    }
}
