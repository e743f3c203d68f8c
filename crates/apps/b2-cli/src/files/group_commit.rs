//! New files that are synced concurrently and then renamed together: this waits for the disk once for
//! many small files instead of several times for each file.

use std::ffi::OsString;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

use anyhow::Result;
use b2kit::frame::{Disk, FileId, FileKind, FileSystem, Links, ReadAt, ReadFiles, WriteAt};

use crate::process::WriteFailure;

/// Maximum number of pending files, all of which are open.
const MAX_FILES: usize = 64;
/// Maximum number of bytes in pending files, unless a single file is larger: after a crash, pending files have to be written again.
const MAX_LEN: u64 = 64 << 20;
/// Number of files to sync concurrently. File systems combine them into few journal writes.
const SYNCS: usize = 8;

/// A file system that defers syncs and renames of new files until [`GroupCommit::finish`].
///
/// A new file still gets its name only after it was synced. Unfinished files are removed on drop.
#[derive(Default)]
pub(crate) struct GroupCommit {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// New files that are being written.
    open: Vec<(PathBuf, Arc<dyn WriteAt>)>,
    /// Complete ones, in the order of their renames.
    complete: Vec<CompletedFile>,
}

struct CompletedFile {
    file: Arc<dyn WriteAt>,
    temporary: PathBuf,
    path: PathBuf,
    replace: bool,
}

impl std::fmt::Debug for GroupCommit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GroupCommit").finish_non_exhaustive()
    }
}

impl GroupCommit {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether enough is pending for a call of `finish`.
    pub(crate) fn is_full(&self) -> bool {
        let complete = &self.state().complete;
        let len = |file: &CompletedFile| file.file.len().unwrap_or(0);
        complete.len() >= MAX_FILES || complete.iter().map(len).fold(0, u64::saturating_add) >= MAX_LEN
    }

    /// Syncs all complete files and renames them in the order of their completion. Returns the
    /// result for each file. A file that could not be synced is removed.
    pub(crate) fn finish(&self) -> Vec<Result<()>> {
        let complete = std::mem::take(&mut self.state().complete);
        let synced = sync_all(&complete);
        let finished =
            complete.iter().zip(synced).map(|(file, synced)| Ok(synced.and_then(|()| file.rename())?));
        let mut results: Vec<Result<()>> = finished.collect();
        let mut folders: Vec<&Path> = Vec::new();
        for file in &complete {
            folders.extend(file.path.parent().filter(|folder| !folders.contains(folder)));
        }
        for folder in folders {
            let Err(error) = Disk.sync_dir(folder) else { continue };
            let of_folder = complete.iter().map(|file| file.path.parent() == Some(folder));
            for (result, _) in
                results.iter_mut().zip(of_folder).filter(|(result, here)| *here && result.is_ok())
            {
                // The same error applies to all files of the folder.
                let error = io::Error::new(error.kind(), error.to_string());
                *result = Err(anyhow::Error::new(error).context(WriteFailure::Unsynced));
            }
        }
        results
    }

    /// Defers the rename of a new file; `None` for any other file.
    fn put_off(&self, from: &Path, to: &Path, replace: bool) -> Option<()> {
        let mut state = self.state();
        let at = state.open.iter().position(|(path, _)| path == from)?;
        let (temporary, file) = state.open.swap_remove(at);
        state.complete.push(CompletedFile { file, temporary, path: to.to_owned(), replace });
        Some(())
    }
}

impl CompletedFile {
    fn rename(&self) -> io::Result<()> {
        let renamed = if self.replace {
            Disk.rename(&self.temporary, &self.path)
        } else {
            Disk.rename_new(&self.temporary, &self.path)
        };
        renamed.inspect_err(|_| self.remove())
    }

    fn remove(&self) {
        // If the file cannot be removed, its name shows that it is temporary.
        let _ = Disk.remove_file(&self.temporary);
    }
}

/// Syncs files concurrently. Files that cannot be synced are removed.
fn sync_all(files: &[CompletedFile]) -> Vec<io::Result<()>> {
    let results: Vec<OnceLock<io::Result<()>>> = files.iter().map(|_| OnceLock::new()).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some((file, result)) = {
            let k = next.fetch_add(1, Ordering::Relaxed);
            files.get(k).zip(results.get(k))
        } {
            let _ = result.set(file.file.sync().inspect_err(|_| file.remove()));
        }
    };
    thread::scope(|scope| {
        // These threads block, so they are not from the pool. If none can be started, this thread does all the work.
        let start = |_: &usize| thread::Builder::new().spawn_scoped(scope, work).is_ok();
        let helpers = SYNCS.min(files.len()).saturating_sub(1);
        (0..helpers).take_while(start).for_each(drop);
        work();
    });
    results
        .into_iter()
        .map(|result| result.into_inner().unwrap_or_else(|| Err(io::Error::other("was not synced"))))
        .collect()
}

impl Drop for GroupCommit {
    fn drop(&mut self) {
        self.state().complete.iter().for_each(CompletedFile::remove);
    }
}

/// A new file whose syncs are deferred.
struct DeferredSync(Arc<dyn WriteAt>);

#[warn(clippy::missing_trait_methods)]
impl ReadAt for DeferredSync {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }
    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(offset, buf)
    }
    fn read_at(&self, range: Range<u64>) -> io::Result<bytes::Bytes> {
        self.0.read_at(range)
    }
    fn read_at_most(&self, range: Range<u64>) -> io::Result<bytes::Bytes> {
        self.0.read_at_most(range)
    }
    fn in_flight(&self) -> usize {
        self.0.in_flight()
    }
    fn request_stats(&self) -> Option<&b2kit::frame::RequestStats> {
        self.0.request_stats()
    }
    fn identity(&self) -> io::Result<Option<FileId>> {
        self.0.identity()
    }
}

#[warn(clippy::missing_trait_methods)]
impl WriteAt for DeferredSync {
    fn write_all_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write_all_at(offset, data)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
    fn reserve(&self, range: Range<u64>) {
        self.0.reserve(range);
    }
    fn start_sync(&self, range: Range<u64>) {
        self.0.start_sync(range);
    }
    fn hard_links(&self) -> io::Result<u64> {
        self.0.hard_links()
    }
    fn lock(&self) -> io::Result<()> {
        self.0.lock()
    }
    fn unlock(&self) -> io::Result<()> {
        self.0.unlock()
    }
}

#[warn(clippy::missing_trait_methods)]
impl ReadFiles for GroupCommit {
    fn open(&self, path: &Path, links: Links) -> io::Result<Arc<dyn ReadAt>> {
        Disk.open(path, links)
    }
    fn open_with_len(&self, path: &Path, links: Links) -> io::Result<(Arc<dyn ReadAt>, u64)> {
        Disk.open_with_len(path, links)
    }
    fn kind(&self, path: &Path, links: Links) -> io::Result<FileKind> {
        Disk.kind(path, links)
    }
    fn identity(&self, path: &Path, links: Links) -> io::Result<Option<FileId>> {
        Disk.identity(path, links)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<OsString>> {
        Disk.list(dir)
    }
    fn is_local(&self) -> bool {
        true
    }
    fn is_locked(&self, path: &Path) -> io::Result<bool> {
        Disk.is_locked(path)
    }
    fn writable(self: Arc<Self>) -> Option<Arc<dyn FileSystem>> {
        Some(self)
    }
}

#[warn(clippy::missing_trait_methods)]
impl FileSystem for GroupCommit {
    fn open_write(&self, path: &Path, links: Links) -> io::Result<Arc<dyn WriteAt>> {
        Disk.open_write(path, links)
    }
    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn WriteAt>> {
        let file = Disk.create_new(path)?;
        self.state().open.push((path.to_owned(), file.clone()));
        Ok(Arc::new(DeferredSync(file)))
    }
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        Disk.create_dir(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.put_off(from, to, true).map_or_else(|| Disk.rename(from, to), Ok)
    }
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.put_off(from, to, false).map_or_else(|| Disk.rename_new(from, to), Ok)
    }
    fn exchange(&self, one: &Path, other: &Path) -> io::Result<()> {
        Disk.exchange(one, other)
    }
    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.state().open.retain(|(there, _)| there != path);
        Disk.remove_file(path)
    }
    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        Disk.remove_dir(path)
    }
    /// The folder of new files is synced with them.
    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }
    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        Disk.resolve(path)
    }
    fn copy_attributes(&self, from: &Path, to: &Path) -> io::Result<()> {
        Disk.copy_attributes(from, to)
    }
}
