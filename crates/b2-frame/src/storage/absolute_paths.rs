//! Files whose relative paths remain valid when the process changes its working directory.

use std::env;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::FrameError;
use crate::storage::traits::{FileId, FileKind, FileSystem, Links, ReadAt, ReadFiles, WriteAt};

/// Relative paths refer to the working directory at the time when the frame was opened. Errors still show paths as the
/// caller gave them.
#[derive(Debug)]
struct AbsolutePaths<F: ?Sized> {
    fs: Arc<F>,
    directory: PathBuf,
}

/// Returns files of which `path` remains valid.
///
/// # Errors
/// When the path is relative and the working directory no longer exists.
pub(crate) fn absolute_files(fs: &Arc<dyn ReadFiles>, path: &Path) -> Result<Arc<dyn ReadFiles>, FrameError> {
    Ok(match working_directory(&**fs, path)? {
        Some(directory) => Arc::new(AbsolutePaths { fs: fs.clone(), directory }),
        None => fs.clone(),
    })
}

/// Returns a file system in which `path` remains valid.
///
/// # Errors
/// As for [`absolute_files`].
pub(crate) fn absolute_file_system(
    fs: &Arc<dyn FileSystem>,
    path: &Path,
) -> Result<Arc<dyn FileSystem>, FrameError> {
    Ok(match working_directory(&**fs, path)? {
        Some(directory) => Arc::new(AbsolutePaths { fs: fs.clone(), directory }),
        None => fs.clone(),
    })
}

/// Returns the directory that the path is relative to, if there is one.
fn working_directory(fs: &dyn ReadFiles, path: &Path) -> Result<Option<PathBuf>, FrameError> {
    if path.is_absolute() || !fs.is_local() {
        return Ok(None);
    }
    env::current_dir().map(Some).map_err(FrameError::io(path.display().to_string()))
}

impl<F: ?Sized> AbsolutePaths<F> {
    /// Returns the absolute path.
    fn at(&self, path: &Path) -> PathBuf {
        // One allocation: this happens for each read.
        let mut absolute =
            PathBuf::with_capacity(self.directory.as_os_str().len() + 1 + path.as_os_str().len());
        absolute.push(&self.directory);
        absolute.push(path);
        absolute
    }
}

// A method that is not forwarded here would not work with relative paths.
#[warn(clippy::missing_trait_methods)]
impl<F: ReadFiles + ?Sized> ReadFiles for AbsolutePaths<F> {
    fn open(&self, path: &Path, links: Links) -> io::Result<Arc<dyn ReadAt>> {
        self.fs.open(&self.at(path), links)
    }
    fn open_with_len(&self, path: &Path, links: Links) -> io::Result<(Arc<dyn ReadAt>, u64)> {
        self.fs.open_with_len(&self.at(path), links)
    }
    fn kind(&self, path: &Path, links: Links) -> io::Result<FileKind> {
        self.fs.kind(&self.at(path), links)
    }
    fn identity(&self, path: &Path, links: Links) -> io::Result<Option<FileId>> {
        self.fs.identity(&self.at(path), links)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<OsString>> {
        self.fs.list(&self.at(dir))
    }
    fn is_local(&self) -> bool {
        self.fs.is_local()
    }
    fn is_locked(&self, path: &Path) -> io::Result<bool> {
        self.fs.is_locked(&self.at(path))
    }
    fn writable(self: Arc<Self>) -> Option<Arc<dyn FileSystem>> {
        let fs = self.fs.clone().writable()?;
        Some(Arc::new(AbsolutePaths { fs, directory: self.directory.clone() }))
    }
}

#[warn(clippy::missing_trait_methods)]
impl<F: FileSystem + ?Sized> FileSystem for AbsolutePaths<F> {
    fn open_write(&self, path: &Path, links: Links) -> io::Result<Arc<dyn WriteAt>> {
        self.fs.open_write(&self.at(path), links)
    }
    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn WriteAt>> {
        self.fs.create_new(&self.at(path))
    }
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.fs.create_dir(&self.at(path))
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.fs.rename(&self.at(from), &self.at(to))
    }
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.fs.rename_new(&self.at(from), &self.at(to))
    }
    fn exchange(&self, one: &Path, other: &Path) -> io::Result<()> {
        self.fs.exchange(&self.at(one), &self.at(other))
    }
    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.fs.remove_file(&self.at(path))
    }
    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.fs.remove_dir(&self.at(path))
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.fs.sync_dir(&self.at(dir))
    }
    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        self.fs.resolve(&self.at(path))
    }
    fn copy_attributes(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.fs.copy_attributes(&self.at(from), &self.at(to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::disk::Disk;

    /// Needed to open a frame while another writer exists, and to replace directories.
    #[test]
    fn relative_paths_have_locks_and_exchange_names() {
        let home = tempfile::tempdir_in(".").unwrap();
        let path = Path::new(home.path().file_name().unwrap());
        let disk: Arc<dyn FileSystem> = Arc::new(Disk);
        let fs = absolute_file_system(&disk, path).unwrap();
        assert!(fs.is_local());
        let (lock, other) = (path.join("lock"), path.join("other"));
        let file = fs.create_new(&lock).unwrap();
        assert!(!fs.is_locked(&lock).unwrap());
        file.lock().unwrap();
        assert!(fs.is_locked(&lock).unwrap());
        if cfg!(target_os = "linux") {
            fs.create_dir(&other).unwrap();
            fs.exchange(&lock, &other).unwrap();
            assert_eq!(fs.kind(&lock, Links::Refuse).unwrap(), FileKind::Directory);
        }
    }
}
