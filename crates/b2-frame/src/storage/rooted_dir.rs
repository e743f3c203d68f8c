//! A directory as a file system: nothing outside it can be reached, and links in it are not followed.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::fd::OwnedFd;
use rustix::fs::{self, AtFlags, Dir, FileType, Mode, OFlags};

use crate::storage::attributes;
use crate::storage::disk::{DiskFile, regular};
use crate::storage::traits::{FileKind, FileSystem, Links, ReadAt, ReadFiles, WriteAt};

/// The files of a directory and of its subdirectories. The directory is opened once. Each name below it is opened
/// relative to its parent directory and refused if it is a link, so that concurrent changes in the directory cannot
/// redirect reads or writes to other places.
///
/// Paths start with the path of the directory, as shown in errors.
#[derive(Clone, Debug)]
#[doc(hidden)]
pub struct RootedDir {
    root: Arc<OwnedFd>,
    path: PathBuf,
}

impl RootedDir {
    /// Opens the directory. Links in its own path are followed.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotADirectory`] if it is none, or any error of the file system.
    pub fn new(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = std::path::absolute(path)?;
        let root = fs::open(&path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self { root: Arc::new(root), path })
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
        let mut dir = self.root.try_clone()?;
        for name in self.names(path)? {
            match fs::mkdirat(&dir, name, Mode::from_raw_mode(0o777)) {
                Err(rustix::io::Errno::EXIST) => {}
                made => {
                    made?;
                    // What is stored in the new directory is only as durable as its name.
                    fs::fsync(&dir)?;
                }
            }
            dir = subdirectory(&dir, name)?;
        }
        Ok(())
    }

    /// Removes a file, or a directory with everything in it. Links are removed, not followed.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if it is outside of the directory, or any error of the file system. Part of a
    /// directory may have been removed.
    pub fn remove_all(&self, path: &Path) -> io::Result<()> {
        match self.kind(path, Links::Refuse)? {
            FileKind::Directory => {
                for name in self.list(path)? {
                    self.remove_all(&path.join(name))?;
                }
                self.remove_dir(path)
            }
            _ => self.remove_file(path),
        }
    }

    /// Lists a directory, with the kind of each entry.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if it is outside of the directory, or any error of the file system.
    pub fn entries(&self, dir: &Path) -> io::Result<Vec<(OsString, FileKind)>> {
        let fd = self.directory(&self.names(dir)?)?;
        let mut entries = Vec::new();
        for name in names_in(fd.try_clone()?)? {
            match kind(&fd, &name) {
                Ok(kind) => entries.push((name, kind)),
                // It was removed in the meantime.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(entries)
    }

    /// Returns the names after the path of the directory.
    fn names<'a>(&self, path: &'a Path) -> io::Result<Vec<&'a OsStr>> {
        let outside = || io::Error::new(io::ErrorKind::InvalidInput, "a path outside of the store");
        let rest = path.strip_prefix(&self.path).map_err(|_| outside())?;
        let name = |part| match part {
            Component::Normal(name) => Ok(name),
            _ => Err(outside()),
        };
        rest.components().map(name).collect()
    }

    fn directory(&self, names: &[&OsStr]) -> io::Result<OwnedFd> {
        let mut dir = self.root.try_clone()?;
        for name in names {
            dir = subdirectory(&dir, name)?;
        }
        Ok(dir)
    }

    /// Opens the parent directory of `path`, and returns it with the last name: `.` for the directory itself.
    fn place<'a>(&self, path: &'a Path) -> io::Result<(OwnedFd, &'a OsStr)> {
        let names = self.names(path)?;
        match names.split_last() {
            Some((name, above)) => Ok((self.directory(above)?, name)),
            None => Ok((self.directory(&[])?, OsStr::new("."))),
        }
    }

    fn open_as(&self, path: &Path, how: OFlags) -> io::Result<DiskFile> {
        let (dir, name) = self.place(path)?;
        // Check before opening, since opening a device can have side effects.
        if kind(&dir, name)? != FileKind::File {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        let flags = how | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(fs::openat(&dir, name, flags, Mode::empty())?);
        regular(&file.metadata()?)?;
        Ok(DiskFile::new(file))
    }
}

fn names_in(dir: OwnedFd) -> io::Result<Vec<OsString>> {
    use std::os::unix::ffi::OsStrExt;
    let mut names = Vec::new();
    // Use a separate descriptor, so that nobody shares its position.
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(OsStr::from_bytes(name).to_owned());
        }
    }
    Ok(names)
}

fn subdirectory(dir: &OwnedFd, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(fs::openat(dir, name, flags, Mode::empty())?)
}

fn kind(dir: &OwnedFd, name: &OsStr) -> io::Result<FileKind> {
    let stat = fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Link,
        _ => FileKind::Other,
    })
}

impl ReadFiles for RootedDir {
    fn open(&self, path: &Path, _: Links) -> io::Result<Arc<dyn ReadAt>> {
        self.open_as(path, OFlags::RDONLY).map(|file| Arc::new(file) as _)
    }

    fn kind(&self, path: &Path, _: Links) -> io::Result<FileKind> {
        let (dir, name) = self.place(path)?;
        kind(&dir, name)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<OsString>> {
        names_in(self.directory(&self.names(dir)?)?)
    }

    fn is_local(&self) -> bool {
        true
    }

    fn is_locked(&self, path: &Path) -> io::Result<bool> {
        self.open_as(path, OFlags::RDONLY)?.is_locked()
    }

    fn writable(self: Arc<Self>) -> Option<Arc<dyn FileSystem>> {
        Some(self)
    }
}

impl FileSystem for RootedDir {
    fn open_write(&self, path: &Path, _: Links) -> io::Result<Arc<dyn WriteAt>> {
        self.open_as(path, OFlags::RDWR).map(|file| Arc::new(file) as _)
    }

    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn WriteAt>> {
        let (dir, name) = self.place(path)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = fs::openat(&dir, name, flags, Mode::from_raw_mode(0o666))?;
        Ok(Arc::new(DiskFile::new(file.into())))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        let (dir, name) = self.place(path)?;
        Ok(fs::mkdirat(&dir, name, Mode::from_raw_mode(0o777))?)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let ((from_dir, from), (to_dir, to)) = (self.place(from)?, self.place(to)?);
        Ok(fs::renameat(&from_dir, from, &to_dir, to)?)
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        let ((from_dir, from), (to_dir, to)) = (self.place(from)?, self.place(to)?);
        // As on `Disk`: a hard link fails if the name exists.
        match fs::linkat(&from_dir, from, &to_dir, to, AtFlags::empty()) {
            Ok(()) => Ok(fs::unlinkat(&from_dir, from, AtFlags::empty())?),
            Err(rustix::io::Errno::EXIST) => Err(io::ErrorKind::AlreadyExists.into()),
            Err(_) => match kind(&to_dir, to) {
                Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
                Err(_) => Ok(fs::renameat(&from_dir, from, &to_dir, to)?),
            },
        }
    }

    #[cfg(target_os = "linux")]
    fn exchange(&self, one: &Path, other: &Path) -> io::Result<()> {
        let ((one_dir, one), (other_dir, other)) = (self.place(one)?, self.place(other)?);
        Ok(fs::renameat_with(&one_dir, one, &other_dir, other, fs::RenameFlags::EXCHANGE)?)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let (dir, name) = self.place(path)?;
        Ok(fs::unlinkat(&dir, name, AtFlags::empty())?)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        let (dir, name) = self.place(path)?;
        Ok(fs::unlinkat(&dir, name, AtFlags::REMOVEDIR)?)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        Ok(fs::fsync(self.directory(&self.names(dir)?)?)?)
    }

    /// Nothing needs to be resolved, since links are refused.
    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        match self.kind(path, Links::Refuse)? {
            FileKind::Link => Err(io::Error::new(io::ErrorKind::InvalidInput, "a link inside a store")),
            _ => Ok(path.to_owned()),
        }
    }

    fn copy_attributes(&self, from: &Path, to: &Path) -> io::Result<()> {
        let open = |path: &Path| -> io::Result<File> {
            let (dir, name) = self.place(path)?;
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            Ok(fs::openat(&dir, name, flags, Mode::empty())?.into())
        };
        attributes::copy_open(&open(from)?, &open(to)?)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use b2_chunk::{Chunk, Compression};

    use crate::{EditOptions, FrameParams, FrameWriter, Storage, SuperChunk};

    #[test]
    fn frames_are_written_and_changed_inside_and_links_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (store, secret) = (dir.path().join("s"), dir.path().join("secret"));
        fs::create_dir_all(&secret).unwrap();
        fs::create_dir(&store).unwrap();
        let inside = Arc::new(RootedDir::new(&store).unwrap());
        inside.create_dirs(&store.join("a/b")).unwrap();
        let read = SuperChunk::options().file_system(inside.clone());
        for (storage, name) in [(Storage::Contiguous, "a/b/file"), (Storage::Sparse, "a/b/folder")] {
            let path = store.join(name);
            let options = FrameWriter::options().storage(storage).file_system(inside.clone());
            for overwrite in [false, true] {
                let options = options.clone().overwrite(overwrite);
                let mut writer = options.create(&path, FrameParams::new(1)).unwrap();
                let chunk =
                    Chunk::compress_bytes(b"one", &Compression::new().itemsize(1).build().unwrap()).unwrap();
                writer.append(chunk).unwrap();
                writer.finish().unwrap();
            }
            assert!(options.create(&path, FrameParams::new(1)).is_err());
            let mut editor = EditOptions::from(read.clone()).edit(&path).unwrap();
            editor.append_bytes(b"two").unwrap();
            editor.commit().unwrap();
            drop(editor);
            assert_eq!(read.open(&path).unwrap().read_bytes(0..6).unwrap(), b"onetwo"[..]);
            // The same with links to a folder, and to the frame itself.
            fs::rename(&path, secret.join("file")).unwrap();
            symlink(secret.join("file"), &path).unwrap();
            symlink(&secret, store.join("aside")).unwrap();
            for path in [path.clone(), store.join("aside/file"), store.join("../secret/file")] {
                assert!(read.open(&path).is_err(), "{path:?}");
                assert!(EditOptions::from(read.clone()).edit(&path).is_err(), "{path:?}");
                let options = options.clone().overwrite(true);
                assert!(options.create(&path, FrameParams::new(1)).is_err(), "{path:?}");
            }
            assert!(inside.create_dirs(&store.join("aside/new")).is_err());
            fs::remove_file(store.join("aside")).unwrap();
            inside.remove_all(&path).unwrap();
            assert!(SuperChunk::open(secret.join("file")).is_ok());
            let _ = fs::remove_file(secret.join("file"));
            let _ = fs::remove_dir_all(secret.join("file"));
        }
        inside.remove_all(&store.join("a")).unwrap();
        assert_eq!(inside.list(&store).unwrap(), Vec::<OsString>::new());
    }
}
