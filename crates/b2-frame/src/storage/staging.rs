//! Writes files next to their target and then renames them, so that the target is always the complete old or new frame.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use b2_core::ProcessId;

use crate::names::is_member;
use crate::storage::absolute_paths::absolute_file_system;
use crate::storage::disk::refuse_device;
use crate::storage::traits::{FileKind, FileSystem, Links, WriteAt};
use crate::{FrameError, Storage};

/// Whether written data must survive a power loss when a call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Durability {
    /// Written data survive: files are synced before they are renamed, and their directory afterwards.
    #[default]
    Sync,
    /// Written data may be lost in a power loss. A killed process still leaves the old or the new
    /// frame.
    None,
}

/// How the target is written.
#[derive(Clone, Debug)]
pub(crate) struct Staging {
    pub(crate) fs: Arc<dyn FileSystem>,
    pub(crate) overwrite: bool,
    pub(crate) durability: Durability,
}

/// A temporary file or directory next to its target. Dropping it removes it or, after the rename, the old target.
pub(crate) struct StagedTarget {
    options: Staging,
    storage: Storage,
    path: PathBuf,
    temporary: PathBuf,
    /// The path that dropping removes.
    litter: Option<(Storage, PathBuf)>,
    /// The process that created it; no other process removes it.
    process: ProcessId,
}

impl StagedTarget {
    pub(crate) fn file(options: Staging, path: &Path) -> Result<(Self, Arc<dyn WriteAt>), FrameError> {
        Self::create(options, path, Storage::Contiguous, |fs, temporary| fs.create_new(temporary))
    }

    pub(crate) fn directory(options: Staging, path: &Path) -> Result<Self, FrameError> {
        Self::create(options, path, Storage::Sparse, |fs, temporary| fs.create_dir(temporary))
            .map(|(s, ())| s)
    }

    fn create<T>(
        options: Staging,
        path: &Path,
        storage: Storage,
        create: impl Fn(&dyn FileSystem, &Path) -> io::Result<T>,
    ) -> Result<(Self, T), FrameError> {
        let options = Staging { fs: absolute_file_system(&options.fs, path)?, ..options };
        if options.fs.is_local() {
            // Before anything is written, not when the file gets its name.
            io(path, refuse_device(path))?;
        }
        let mut path = path.to_owned();
        if io(&path, existing(&*options.fs, &path, Links::Refuse))? == Some(FileKind::Link) {
            // Keep the user's link and replace its target.
            path = io(&path, options.fs.resolve(&path))?;
        }
        let mut staged = Self {
            options,
            storage,
            path,
            temporary: PathBuf::new(),
            litter: None,
            process: ProcessId::current(),
        };
        staged.check_target()?;
        let (temporary, made) = temporary(&staged.path, &mut |temporary| create(&**staged.fs(), temporary))?;
        staged.litter = Some((storage, temporary.clone()));
        staged.temporary = temporary;
        Ok((staged, made))
    }

    pub(crate) fn temporary(&self) -> &Path {
        &self.temporary
    }

    /// Returns the target, which errors name instead of the temporary name.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn durability(&self) -> Durability {
        self.options.durability
    }

    pub(crate) fn fs(&self) -> &Arc<dyn FileSystem> {
        &self.options.fs
    }

    /// Returns the existing target, or an error if it must not be replaced.
    fn check_target(&self) -> Result<Option<FileKind>, FrameError> {
        let kind = io(&self.path, existing(&**self.fs(), &self.path, Links::Follow))?;
        match kind {
            None => return Ok(None),
            Some(FileKind::Link | FileKind::Other) => {
                return Err(FrameError::NotRegular { path: self.path.clone(), or_directory: true });
            }
            Some(_) if !self.options.overwrite => {
                return Err(FrameError::Exists { path: self.path.clone() });
            }
            Some(FileKind::File) => {}
            // Never empty a directory that is not a sparse frame.
            Some(FileKind::Directory) => check_members(&**self.fs(), &self.path)?,
        }
        Ok(kind)
    }

    /// Renames to the target. The caller has synced all files if durability requires it.
    pub(crate) fn commit(mut self) -> Result<(), FrameError> {
        let existing = self.check_target()?;
        let (fs, path) = (self.options.fs.clone(), self.path.clone());
        let mut old = None;
        match (self.storage, existing) {
            (Storage::Contiguous, None) if !self.options.overwrite => {
                fs.rename_new(&self.temporary, &path).map_err(|error| match error.kind() {
                    io::ErrorKind::AlreadyExists => FrameError::Exists { path: path.clone() },
                    _ => FrameError::io(path.display().to_string())(error),
                })?;
            }
            (_, None) => io(&path, fs.rename(&self.temporary, &path))?,
            (Storage::Contiguous, Some(FileKind::File)) => {
                io(&path, fs.copy_attributes(&path, &self.temporary))?;
                io(&path, fs.rename(&self.temporary, &path))?;
            }
            (_, Some(kind)) => old = Some(self.replace(kind)?),
        }
        self.litter = old;
        if self.options.durability == Durability::Sync {
            let parent = parent(&path);
            let not_synced = |source| FrameError::NotSynced { name: parent.display().to_string(), source };
            fs.sync_dir(&parent).map_err(not_synced)?;
        }
        Ok(())
    }

    /// Swaps names with the old target, or moves it aside, since a rename cannot replace a directory. The old target
    /// is removed afterwards.
    fn replace(&self, kind: FileKind) -> Result<(Storage, PathBuf), FrameError> {
        let fs = &**self.fs();
        if kind == FileKind::Directory && self.storage == Storage::Sparse {
            io(&self.path, fs.copy_attributes(&self.path, &self.temporary))?;
        }
        let replaced = if kind == FileKind::Directory { Storage::Sparse } else { Storage::Contiguous };
        if fs.exchange(&self.temporary, &self.path).is_ok() {
            return Ok((replaced, self.temporary.clone()));
        }
        // Not every file system can swap names. A crash between the two renames leaves both directories under
        // temporary names.
        let (aside, ()) = temporary(&self.path, &mut |aside| match existing(fs, aside, Links::Refuse)? {
            None => fs.rename(&self.path, aside),
            Some(_) => Err(io::ErrorKind::AlreadyExists.into()),
        })?;
        if let Err(error) = fs.rename(&self.temporary, &self.path) {
            // Undo the first rename and return the error of the second.
            return Err(match fs.rename(&aside, &self.path) {
                Ok(()) => FrameError::io(self.path.display().to_string())(error),
                Err(_) => {
                    FrameError::SetAside { name: self.path.display().to_string(), aside, source: error }
                }
            });
        }
        Ok((replaced, aside))
    }
}

impl Drop for StagedTarget {
    fn drop(&mut self) {
        if let Some((storage, path)) = &self.litter
            && self.process.is_current()
        {
            // Errors cannot be handled here. The names of leftovers show what they are.
            let _ = match storage {
                Storage::Contiguous => self.fs().remove_file(path),
                Storage::Sparse => remove_members(&**self.fs(), path),
            };
        }
    }
}

fn existing(fs: &dyn FileSystem, path: &Path, links: Links) -> io::Result<Option<FileKind>> {
    match fs.kind(path, links) {
        Ok(kind) => Ok(Some(kind)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn check_members(fs: &dyn FileSystem, dir: &Path) -> Result<(), FrameError> {
    let names = io(dir, fs.list(dir))?;
    match names.iter().find(|name| !name.to_str().is_some_and(is_member)) {
        None => Ok(()),
        Some(stranger) => {
            Err(FrameError::NotASparseFrame { path: dir.to_owned(), stranger: stranger.into() })
        }
    }
}

fn remove_members(fs: &dyn FileSystem, dir: &Path) -> io::Result<()> {
    for name in fs.list(dir)? {
        if name.to_str().is_some_and(is_member) {
            fs.remove_file(&dir.join(name))?;
        }
    }
    fs.remove_dir(dir)
}

/// Returns the directory that contains the path.
pub(crate) fn parent(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// Calls `make` with unused random names in the directory of `path` until it succeeds.
pub(crate) fn temporary<T>(
    path: &Path,
    make: &mut dyn FnMut(&Path) -> io::Result<T>,
) -> Result<(PathBuf, T), FrameError> {
    const MAX_TRIES: u32 = 16;
    let parent = parent(path);
    let mut tries = 0;
    loop {
        tries += 1;
        // Every new hasher has a random seed.
        let random = RandomState::new().hash_one(tries);
        let name = parent.join(format!(".b2kit-{}-{random:016x}.tmp", std::process::id()));
        match make(&name) {
            Ok(made) => return Ok((name, made)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tries < MAX_TRIES => {}
            Err(error) => return io(path, Err(error)),
        }
    }
}

/// Refuses to change a file that has other names: writers that use another name lock only that name, and a rename
/// replaces only one of them.
pub(crate) fn check_links(name: &str, file: &dyn WriteAt) -> Result<(), FrameError> {
    match file.hard_links().map_err(FrameError::io(name))? {
        0 | 1 => Ok(()),
        links => Err(FrameError::HardLinks { name: name.to_owned(), links }),
    }
}

pub(crate) fn io<T>(path: &Path, result: io::Result<T>) -> Result<T, FrameError> {
    result.map_err(|error| FrameError::io(path.display().to_string())(error))
}
