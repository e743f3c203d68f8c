//! A directory as a file system, for platforms where files cannot be opened relative to a directory: names are checked
//! before they are used.

use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use crate::storage::disk::Disk;
use crate::storage::traits::{FileId, FileKind, FileSystem, Links, ReadAt, ReadFiles, WriteAt};

/// The files of a directory and of its subdirectories. Names that are links are refused.
#[derive(Clone, Debug)]
pub struct RootedDir {
    path: PathBuf,
}

impl RootedDir {
    /// Opens the directory. Links in its own path are followed.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotADirectory`] if it is none, or any error of the file system.
    pub fn new(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = std::path::absolute(path)?;
        match Disk.kind(&path, Links::Follow)? {
            FileKind::Directory => Ok(Self { path }),
            _ => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Creates the missing directories of a path.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if it is outside of the directory; an error if one of them exists and is not a
    /// directory, or any other of the file system.
    pub fn create_dirs(&self, path: &Path) -> io::Result<()> {
        std::fs::create_dir_all(self.checked(path)?)
    }

    /// Removes a file, or a directory with everything in it. Links are removed, not followed.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if it is outside of the directory, or any error of the file system. Part of a
    /// directory may have been removed.
    pub fn remove_all(&self, path: &Path) -> io::Result<()> {
        match self.kind(path, Links::Refuse)? {
            FileKind::Directory => std::fs::remove_dir_all(path),
            _ => self.remove_file(path),
        }
    }

    /// Lists a directory, with the kind of each entry.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if it is outside of the directory, or any error of the file system.
    pub fn entries(&self, dir: &Path) -> io::Result<Vec<(OsString, FileKind)>> {
        let kind = |name: OsString| Ok((name.clone(), Disk.kind(&dir.join(name), Links::Refuse)?));
        self.list(dir)?.into_iter().map(kind).collect()
    }

    /// Returns the path, unless one of its parents is a link.
    fn checked<'a>(&self, path: &'a Path) -> io::Result<&'a Path> {
        let refused = || io::Error::new(io::ErrorKind::InvalidInput, "a path outside of the store");
        let names = path.strip_prefix(&self.path).map_err(|_| refused())?;
        let mut above = self.path.clone();
        for name in names.components() {
            if !matches!(name, Component::Normal(_)) {
                return Err(refused());
            }
            if above != self.path && Disk.kind(&above, Links::Refuse).is_ok_and(|kind| kind == FileKind::Link)
            {
                return Err(refused());
            }
            above.push(name);
        }
        Ok(path)
    }
}

#[warn(clippy::missing_trait_methods)]
impl ReadFiles for RootedDir {
    fn open(&self, path: &Path, _: Links) -> io::Result<Arc<dyn ReadAt>> {
        Disk.open(self.checked(path)?, Links::Refuse)
    }
    fn open_with_len(&self, path: &Path, _: Links) -> io::Result<(Arc<dyn ReadAt>, u64)> {
        Disk.open_with_len(self.checked(path)?, Links::Refuse)
    }
    fn kind(&self, path: &Path, _: Links) -> io::Result<FileKind> {
        Disk.kind(self.checked(path)?, Links::Refuse)
    }
    fn identity(&self, path: &Path, _: Links) -> io::Result<Option<FileId>> {
        Disk.identity(self.checked(path)?, Links::Refuse)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<OsString>> {
        Disk.list(self.checked(dir)?)
    }
    fn is_local(&self) -> bool {
        true
    }
    fn is_locked(&self, path: &Path) -> io::Result<bool> {
        Disk.is_locked(self.checked(path)?)
    }
    fn writable(self: Arc<Self>) -> Option<Arc<dyn FileSystem>> {
        Some(self)
    }
}

#[warn(clippy::missing_trait_methods)]
impl FileSystem for RootedDir {
    fn open_write(&self, path: &Path, _: Links) -> io::Result<Arc<dyn WriteAt>> {
        Disk.open_write(self.checked(path)?, Links::Refuse)
    }
    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn WriteAt>> {
        Disk.create_new(self.checked(path)?)
    }
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        Disk.create_dir(self.checked(path)?)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        Disk.rename(self.checked(from)?, self.checked(to)?)
    }
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        Disk.rename_new(self.checked(from)?, self.checked(to)?)
    }
    fn exchange(&self, one: &Path, other: &Path) -> io::Result<()> {
        Disk.exchange(self.checked(one)?, self.checked(other)?)
    }
    fn remove_file(&self, path: &Path) -> io::Result<()> {
        Disk.remove_file(self.checked(path)?)
    }
    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        Disk.remove_dir(self.checked(path)?)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        Disk.sync_dir(self.checked(dir)?)
    }
    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        match self.kind(path, Links::Refuse)? {
            FileKind::Link => Err(io::Error::new(io::ErrorKind::InvalidInput, "a link inside a store")),
            _ => Ok(path.to_owned()),
        }
    }
    fn copy_attributes(&self, from: &Path, to: &Path) -> io::Result<()> {
        Disk.copy_attributes(self.checked(from)?, self.checked(to)?)
    }
}
