//! Writes new and changed sparse frames. Chunks go to files that the committed index does not use.
//!
//! A change is committed by renaming a new index file over the old one, a new frame by renaming its
//! whole directory. Without syncs, a change of vlmetalayers alone is committed by writing one byte of the index file.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use b2_chunk::EXTENDED_HEADER_LEN;
use b2_core::memory;
use bytes::Bytes;

use crate::FrameError;
use crate::format::records::Pages;
use crate::format::trailer;
use crate::names::{INDEX_NAME, chunk_id, chunk_name, is_temporary};
use crate::read::open_plan::FrameLayout;
use crate::storage::files::{FrameFiles, OpenFile};
use crate::storage::lock::FrameLock;
use crate::storage::sparse::{CachedIndex, IndexWatch, Sparse};
use crate::storage::staging::{self, Durability, StagedTarget, Staging};
use crate::storage::traits::{FileSystem, Links, ReadAt, WriteAt};
use crate::write::encode::{self, EncodedMetadata, FrameContent, PagePosition};
use crate::write::state::{FrameState, StoredHeader};
use crate::write::store::CommitChange;

/// Writing to disk is started early for files of at least this many bytes, which shortens the final sync.
const START_SYNC: usize = 64 << 10;

/// At most this many names of removed files are skipped: a directory that cannot be written gives the same error.
const MAX_SKIPPED_NAMES: u32 = 100;

/// The length of a frame grows by a multiple of this when a trailer is added to its index file. So only the next byte of
/// the length differs, unless it overflows, and no crash can tear the write.
const TRAILER_STEP: u64 = 256;

/// An index file gets at most this much space for further trailers, in bytes.
const MAX_SPARE_LEN: usize = 32 << 10;

/// Files take up whole blocks of at least this size.
const FILE_BLOCK_LEN: usize = 4096;

/// The directory of a sparse frame.
pub(crate) struct SparseStore {
    fs: Arc<dyn FileSystem>,
    dir: PathBuf,
    lock: Option<FrameLock>,
    durability: Durability,
    header_len: u64,
    index: Arc<dyn ReadAt>,
    /// The same file, if it is open for writing.
    index_writer: Option<Arc<dyn WriteAt>>,
    /// Numbers of the files that the committed index uses.
    used: HashSet<u32>,
    /// Files created since the last commit, with their sizes.
    staged: BTreeMap<u32, u64>,
    /// Files that are no longer used, but that snapshots may read.
    doomed: BTreeSet<u32>,
    /// No lower file number is free.
    lowest: u32,
    watch: Arc<IndexWatch>,
    pub(super) written: u64,
    /// A sync of a chunk has failed. It may never reach the disk, even if later syncs succeed.
    pub(super) lost: bool,
    /// Whether a power loss could bring an older index back, so that the files it uses must stay.
    unsafe_index: bool,
    /// Whether a power loss could remove the directory itself, or bring back another one of this
    /// name.
    unsafe_name: bool,
    /// The directory of a new frame, which is renamed when it is complete.
    new: Option<StagedTarget>,
}

impl SparseStore {
    /// Creates the store of a new frame.
    pub(crate) fn create(target: Staging, path: &Path, header_len: u64) -> Result<Self, FrameError> {
        let durability = target.durability;
        let new = StagedTarget::directory(target, path)?;
        let fs = new.fs().clone();
        let dir = new.temporary().to_owned();
        let index: Arc<dyn ReadAt> = Arc::new(Bytes::new());
        let watch = Arc::new(staging::io(&dir, IndexWatch::of_new(index.clone()))?);
        Ok(Self {
            fs,
            dir,
            lock: None,
            durability,
            header_len,
            index,
            index_writer: None,
            used: HashSet::new(),
            staged: BTreeMap::new(),
            doomed: BTreeSet::new(),
            lowest: 0,
            watch,
            written: 0,
            lost: false,
            unsafe_index: false,
            unsafe_name: false,
            new: Some(new),
        })
    }

    /// Creates the store of an existing frame.
    pub(crate) fn of(
        fs: Arc<dyn FileSystem>,
        dir: PathBuf,
        lock: Option<FrameLock>,
        durability: Durability,
        index: Arc<dyn ReadAt>,
        state: &FrameState,
    ) -> Result<Self, FrameError> {
        let watch = IndexWatch::new(index.clone());
        let watch = Arc::new(watch.map_err(FrameError::io(dir.display().to_string()))?);
        Ok(Self {
            fs,
            dir,
            lock,
            durability,
            header_len: state.head.len(),
            index,
            index_writer: None,
            used: referenced_files(state),
            staged: BTreeMap::new(),
            doomed: BTreeSet::new(),
            lowest: 0,
            watch,
            written: 0,
            lost: false,
            // The process that wrote the frame may have been killed before it synced the names.
            unsafe_index: durability == Durability::Sync,
            unsafe_name: durability == Durability::Sync,
            new: None,
        })
    }

    pub(super) fn name(&self) -> String {
        self.display_path(&self.dir).display().to_string()
    }

    /// Returns the path for errors: below the target, not below the temporary directory of a new frame.
    fn display_path(&self, path: &Path) -> PathBuf {
        match (&self.new, path.strip_prefix(&self.dir)) {
            (Some(new), Ok(rest)) if rest.as_os_str().is_empty() => new.path().to_owned(),
            (Some(new), Ok(rest)) => new.path().join(rest),
            _ => path.to_owned(),
        }
    }

    /// Adds the path to an error.
    fn io<T>(&self, path: &Path, result: io::Result<T>) -> Result<T, FrameError> {
        result.or_else(|error| staging::io(&self.display_path(path), Err(error)))
    }

    pub(crate) fn has_staged(&self) -> bool {
        !self.staged.is_empty()
    }

    /// Stores a chunk and returns the number for its index entry.
    pub(super) fn put(&mut self, chunk: &[u8]) -> Result<u64, FrameError> {
        let (mut id, mut going) = (self.lowest, 0);
        let (path, file) = loop {
            while self.used.contains(&id) || self.staged.contains_key(&id) || self.doomed.contains(&id) {
                id = next(id)?;
            }
            let path = self.dir.join(chunk_name(id));
            match self.fs.create_new(&path) {
                // Without a lock the file may belong to another writer.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && self.lock.is_none() => {
                    id = next(id)?;
                }
                // On Windows the name of a removed file cannot be used while it is open.
                Err(error) if is_going(&error) && going < MAX_SKIPPED_NAMES => {
                    going += 1;
                    id = next(id)?;
                }
                // The file is left from an interrupted commit, or was not removed after a commit.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    self.save_index().map_err(FrameError::io(self.name()))?;
                    let again = self.fs.remove_file(&path).and_then(|()| self.fs.create_new(&path));
                    break (path.clone(), self.io(&path, again)?);
                }
                created => break (path.clone(), self.io(&path, created)?),
            }
        };
        if let Err(error) = file.write_all_at(0, chunk) {
            let _ = self.fs.remove_file(&path);
            return self.io(&path, Err(error));
        }
        if self.durability == Durability::Sync && chunk.len() >= START_SYNC {
            file.start_sync(0..chunk.len() as u64);
        }
        self.written += chunk.len() as u64;
        self.staged.insert(id, chunk.len() as u64);
        self.lowest = id;
        Ok(id.into())
    }

    pub(super) fn files(&self) -> Result<Arc<dyn FrameFiles>, FrameError> {
        let name = self.dir.join(INDEX_NAME).display().to_string();
        let index = OpenFile::new(self.index.clone(), name, 0)?;
        let index = if cfg!(windows) { index } else { index.live() };
        let (fs, dir, watch) = (self.fs.clone(), self.dir.clone(), self.watch.clone());
        Ok(Arc::new(Sparse::snapshot(fs, dir, index, watch, self.has_staged())))
    }

    pub(super) fn layout(&self) -> FrameLayout {
        let end = self.header_len;
        FrameLayout { header: 0..end, data: end..end, index: end..end, trailer: end..end }
    }

    /// Commits a state. Returns the stored header, and any error that occurred after the commit
    /// took effect.
    pub(super) fn commit(
        &mut self,
        change: &CommitChange<'_>,
    ) -> Result<(Arc<StoredHeader>, Result<(), FrameError>), FrameError> {
        let &CommitChange { old, new, sums, starts, trailer_only, .. } = change;
        if self.new.is_none() {
            self.check_unchanged(&old.head.bytes)?;
        }
        // A power loss could leave the new length without the trailer.
        let in_place = trailer_only && self.durability == Durability::None && cfg!(unix);
        if in_place && let Some(head) = self.add_trailer(old, new)? {
            return Ok((head, Ok(())));
        }
        let named = referenced_files(new);
        let content = FrameContent {
            state: new,
            sums,
            starts,
            // The whole index file is rewritten, so no page is reused.
            kept: &Pages::default(),
            first: &[],
            cbytes: self.cbytes(old, &named)?,
            index_at: new.head.len(),
            // The index directly follows the header.
            pages: PagePosition::AfterIndex,
        };
        let EncodedMetadata { head, tail, .. } = encode::encode(&content)?;
        let mut index = memory::list(head.bytes.len() + tail.len())?;
        index.extend_from_slice(&head.bytes);
        index.extend_from_slice(&tail);
        if self.new.is_some() {
            return self.complete(&index, &named).map(|()| (head, Ok(())));
        }
        if in_place {
            self.add_spare(&mut index)?;
        }

        let path = self.dir.join(INDEX_NAME);
        let (temporary, file) = staging::temporary(&path, &mut |name| self.fs.create_new(name))?;
        if let Err(error) = self.prepare(&temporary, &*file, &index, &named) {
            let _ = self.fs.remove_file(&temporary);
            return Err(error);
        }
        if let Err(error) = staging::io(&path, self.fs.rename(&temporary, &path)) {
            let _ = self.fs.remove_file(&temporary);
            return Err(error);
        }

        // The commit has taken effect. Errors from here on cannot undo it.
        self.written += index.len() as u64;
        self.header_len = head.len();
        self.index_writer = cfg!(unix).then(|| file.clone());
        let held = CachedIndex::of(file.clone());
        self.index = held.unwrap_or(file);
        let advanced = self.watch.advance(self.index.clone());
        let given_up = self.used.difference(&named).chain(self.staged.keys()).copied();
        self.doomed.extend(given_up.filter(|id| !named.contains(id)));
        self.used = named;
        self.staged.clear();
        self.unsafe_index = self.durability == Durability::Sync;
        let synced = self.save_index().and(advanced);
        if !self.has_snapshots() {
            self.remove_doomed();
        }
        Ok((head, synced.map_err(|source| FrameError::NotSynced { name: self.name(), source })))
    }

    /// Commits a change of vlmetalayers alone: adds a trailer after the committed one and changes the length of the frame,
    /// one byte of the header. Returns `None` if that is not possible, since there is no space for the trailer.
    fn add_trailer(
        &mut self,
        old: &FrameState,
        new: &FrameState,
    ) -> Result<Option<Arc<StoredHeader>>, FrameError> {
        let trailer = trailer::encode(&new.vlmetalayers)?;
        let len = trailer.len() as u64;
        let frame_len = old.head.header.frame_len.saturating_add(len.next_multiple_of(TRAILER_STEP));
        let head = new.head(old.head.header.cbytes, frame_len);
        // If the header grows, the field of its length differs, too.
        let bytes = old.head.bytes.iter().zip(&head.bytes).enumerate();
        let mut changed = bytes.filter(|(_, (old, new))| old != new);
        let (Some((at, (_, byte))), None) = (changed.next(), changed.next()) else { return Ok(None) };
        let path = self.dir.join(INDEX_NAME);
        let file = match self.index_writer.clone() {
            Some(file) => file,
            // Replacing the file needs other rights than writing to it.
            None => match self.fs.open_write(&path, Links::Refuse) {
                Ok(file) => file,
                Err(_) => return Ok(None),
            },
        };
        let identity = self.io(&path, file.identity())?;
        let is_known = identity.is_some() && identity == self.io(&path, self.index.identity())?;
        // The old content stays under other names of the file.
        let is_alone = self.io(&path, file.hard_links())? == 1;
        if !is_known || !is_alone || self.io(&path, ReadAt::len(&*file))? < frame_len {
            return Ok(None);
        }
        if let Some(lock) = &self.lock {
            self.written += lock.count_change()?;
        }
        self.io(&path, file.write_all_at(frame_len - len, &trailer))?;
        self.io(&path, file.write_all_at(at as u64, &[*byte]))?;
        self.written += len + 1;
        self.index_writer = Some(file);
        Ok(Some(head))
    }

    /// Adds space for further trailers to the content of an index file: the rest of its last block, more after each time that
    /// the space was used up.
    fn add_spare(&self, index: &mut Vec<u8>) -> Result<(), FrameError> {
        let before = self.io(&self.dir, self.index.len())?;
        let wanted = usize::try_from(before.saturating_mul(2)).unwrap_or(usize::MAX);
        let len = wanted.clamp(index.len(), index.len().saturating_add(MAX_SPARE_LEN));
        let len = len.next_multiple_of(FILE_BLOCK_LEN);
        memory::reserve(index, len - index.len())?;
        index.resize(len, 0);
        Ok(())
    }

    /// Completes a new frame: writes the index file and renames the directory.
    fn complete(&mut self, index: &[u8], named: &HashSet<u32>) -> Result<(), FrameError> {
        let path = self.dir.join(INDEX_NAME);
        let file = self.io(&path, self.fs.create_new(&path))?;
        self.io(&path, file.write_all_at(0, index))?;
        self.written += index.len() as u64;
        // Syncing late is cheaper: the system has already written most of the data by now.
        self.sync_all(named, &path, &*file)?;
        self.staged.clear();
        // Windows does not rename a folder while a file in it is open.
        drop(file);
        self.new.take().map_or(Ok(()), StagedTarget::commit)
    }

    /// Does everything that precedes the rename of the index file.
    fn prepare(
        &mut self,
        temporary: &Path,
        file: &dyn WriteAt,
        index: &[u8],
        named: &HashSet<u32>,
    ) -> Result<(), FrameError> {
        let path = self.dir.join(INDEX_NAME);
        staging::io(&path, self.fs.copy_attributes(&path, temporary))?;
        staging::io(&path, file.write_all_at(0, index))?;
        if self.durability == Durability::Sync {
            self.sync_all(named, &path, file)?;
            self.unsafe_index = false;
            if self.unsafe_name {
                staging::io(&self.dir, self.fs.sync_dir(&staging::parent(&self.dir)))?;
                self.unsafe_name = false;
            }
        }
        if let Some(lock) = &self.lock {
            self.written += lock.count_change()?;
        }
        Ok(())
    }

    /// Syncs the new chunks that are used, the index file and the directory.
    fn sync_all(
        &mut self,
        named: &HashSet<u32>,
        index_path: &Path,
        index: &dyn WriteAt,
    ) -> Result<(), FrameError> {
        if self.durability == Durability::None {
            return Ok(());
        }
        for id in self.staged.keys().filter(|id| named.contains(id)) {
            let path = self.dir.join(chunk_name(*id));
            let file = self.io(&path, self.fs.open_write(&path, Links::Refuse))?;
            let synced = file.sync().inspect_err(|_| self.lost = true);
            self.io(&path, synced)?;
        }
        self.io(index_path, index.sync())?;
        self.io(&self.dir, self.sync_dir())
    }

    /// Makes sure that no power loss brings an older index back.
    fn save_index(&mut self) -> io::Result<()> {
        if self.unsafe_index {
            self.sync_dir()?;
            self.unsafe_index = false;
        }
        Ok(())
    }

    fn sync_dir(&self) -> io::Result<()> {
        match self.durability {
            Durability::Sync => self.fs.sync_dir(&self.dir),
            Durability::None => Ok(()),
        }
    }

    /// Returns the sum of the sizes of all chunk files, or more: C-Blosc2 treats file numbers as
    /// offsets and expects them to be smaller.
    fn cbytes(&self, old: &FrameState, named: &HashSet<u32>) -> Result<u64, FrameError> {
        let before = if self.new.is_none() && old.nbytes > 0 { old.head.header.cbytes } else { 0 };
        let staged = self.staged.iter().filter(|(id, _)| named.contains(id)).map(|(_, size)| size);
        let added = staged.sum::<u64>();
        let mut removed = 0u64;
        for id in self.used.difference(named) {
            // A missing file was counted as well, but the number is only informative.
            let path = self.dir.join(chunk_name(*id));
            removed += self.fs.open(&path, Links::Refuse).and_then(|file| file.len()).unwrap_or(0);
        }
        let least = named.iter().max().map_or(0, |id| u64::from(*id) + EXTENDED_HEADER_LEN as u64);
        Ok(before.saturating_add(added).saturating_sub(removed).max(least))
    }

    fn check_unchanged(&self, header: &Bytes) -> Result<(), FrameError> {
        let unchanged = self
            .watch
            .is_current(&*self.fs, &self.dir.join(INDEX_NAME))
            .and_then(|current| Ok(current && self.index.read_at(0..header.len() as u64)? == header));
        match unchanged.map_err(FrameError::io(self.name()))? {
            true => Ok(()),
            false => Err(FrameError::Changed { name: self.name() }),
        }
    }

    /// Returns whether snapshots exist. Each holds a reference to the watch.
    fn has_snapshots(&self) -> bool {
        Arc::strong_count(&self.watch) > 1
    }

    /// Removes files that are no longer used.
    fn remove_doomed(&mut self) {
        // If the index is not safe, a later commit or `compact` removes them.
        if self.unsafe_index {
            return;
        }
        for id in std::mem::take(&mut self.doomed) {
            // Errors do not matter: a later commit overwrites or removes the file.
            let _ = self.fs.remove_file(&self.dir.join(chunk_name(id)));
            self.lowest = self.lowest.min(id);
        }
    }

    /// Discards everything stored since the last commit.
    pub(super) fn rollback(&mut self) {
        if self.has_staged() {
            self.watch.rollbacks.fetch_add(1, Ordering::SeqCst);
        }
        self.lost = false;
        for id in std::mem::take(&mut self.staged).into_keys() {
            let _ = self.fs.remove_file(&self.dir.join(chunk_name(id)));
            self.lowest = self.lowest.min(id);
        }
    }

    /// Lists files that belong to no committed or staged state, with their sizes.
    fn strays(&self) -> Result<Vec<(PathBuf, u64)>, FrameError> {
        let mut strays = Vec::new();
        for name in staging::io(&self.dir, self.fs.list(&self.dir))? {
            let Some(name) = name.to_str() else { continue };
            let stray = match chunk_id(name) {
                Some(id) => !self.used.contains(&id) && !self.staged.contains_key(&id),
                None => is_temporary(name),
            };
            if stray {
                let path = self.dir.join(name);
                let len = self.fs.open(&path, Links::Refuse).and_then(|file| file.len());
                strays.push((path, len.unwrap_or(0)));
            }
        }
        Ok(strays)
    }

    /// Returns the size of unused files in bytes.
    pub(crate) fn dead_bytes(&self) -> Result<u64, FrameError> {
        Ok(self.strays()?.iter().map(|(_, len)| len).sum())
    }

    /// Removes unused files.
    pub(crate) fn clean(&mut self) -> Result<(), FrameError> {
        self.save_index().map_err(FrameError::io(self.name()))?;
        for (path, _) in self.strays()? {
            staging::io(&path, self.fs.remove_file(&path))?;
        }
        self.doomed.clear();
        self.lowest = 0;
        staging::io(&self.dir, self.sync_dir())
    }

    /// Removes files that are not committed or not used. Called when no more changes follow.
    pub(super) fn close(&mut self) {
        // A new frame is removed with its directory.
        if self.new.is_some() {
            return;
        }
        self.rollback();
        self.remove_doomed();
    }
}

/// Returns whether this may be the error for a name whose file was removed and is still open.
fn is_going(error: &io::Error) -> bool {
    cfg!(windows) && error.kind() == io::ErrorKind::PermissionDenied
}

fn next(id: u32) -> Result<u32, FrameError> {
    id.checked_add(1).ok_or_else(|| FrameError::argument("chunks", "all file numbers are in use"))
}

/// Returns the numbers of the files that the entries use.
fn referenced_files(state: &FrameState) -> HashSet<u32> {
    state.entries.iter().filter_map(|raw| u32::try_from(*raw).ok()).collect()
}
