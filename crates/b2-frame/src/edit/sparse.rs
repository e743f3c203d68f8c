//! Commits to sparse frames: chunks go to files that the committed index does not name, then a new index file
//! takes the place of the old one by renaming.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use b2_chunk::EXTENDED_HEADER_LEN;
use bytes::Bytes;

use crate::checksums::ChunkSums;
use crate::edit::state::State;
use crate::ends::{self, Content, Ends};
use crate::lock::FrameLock;
use crate::open::Layout;
use crate::plan::{FrameFiles, OpenFile};
use crate::sparse::{INDEX_NAME, IndexWatch, Sparse, chunk_id, chunk_name};
use crate::staging::{self, Durability};
use crate::storage::{FileSystem, Links, ReadAt, WriteAt};
use crate::{FrameError, FrameHeader};

/// The directory of a sparse frame.
pub(crate) struct SparseStore {
    fs: Arc<dyn FileSystem>,
    dir: PathBuf,
    lock: Option<FrameLock>,
    durability: Durability,
    header_len: u64,
    index: Arc<dyn ReadAt>,
    /// Files that the committed index names.
    used: HashSet<u32>,
    /// Files made since, with their sizes.
    staged: BTreeMap<u32, u64>,
    /// Files that nothing names any more, but snapshots may read.
    doomed: BTreeSet<u32>,
    /// No lower number is free.
    lowest: u32,
    watch: Arc<IndexWatch>,
    pub(crate) written: u64,
    /// A sync of a chunk has failed: it may never reach the disk, though later syncs succeed.
    pub(crate) lost: bool,
    /// Whether a power loss could bring an older index back: its files stay.
    unsafe_index: bool,
    /// Whether a power loss could take the directory itself away, or bring back another one of this name.
    unsafe_name: bool,
}

impl SparseStore {
    pub(crate) fn new(
        fs: Arc<dyn FileSystem>,
        dir: PathBuf,
        lock: Option<FrameLock>,
        durability: Durability,
        index: Arc<dyn ReadAt>,
        state: &State,
    ) -> Result<Self, FrameError> {
        let watch = IndexWatch::new(index.clone());
        let watch = Arc::new(watch.map_err(FrameError::io(dir.display().to_string()))?);
        Ok(Self {
            fs,
            dir,
            lock,
            durability,
            header_len: state.header.len() as u64,
            index,
            used: named(state),
            staged: BTreeMap::new(),
            doomed: BTreeSet::new(),
            lowest: 0,
            watch,
            written: 0,
            lost: false,
            // Who wrote it may have been killed before the names were synced.
            unsafe_index: durability == Durability::Sync,
            unsafe_name: durability == Durability::Sync,
        })
    }

    pub(crate) fn name(&self) -> String {
        self.dir.display().to_string()
    }

    pub(crate) fn has_staged(&self) -> bool {
        !self.staged.is_empty()
    }

    /// Takes a chunk and returns its index entry.
    pub(crate) fn put(&mut self, chunk: &Bytes) -> Result<u64, FrameError> {
        let mut id = self.lowest;
        let (path, file) = loop {
            while self.used.contains(&id) || self.staged.contains_key(&id) || self.doomed.contains(&id) {
                id = next(id)?;
            }
            let path = self.dir.join(chunk_name(id));
            match self.fs.create_new(&path) {
                // Without a lock it may belong to another writer.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && self.lock.is_none() => {
                    id = next(id)?;
                }
                // Left by a commit that did not happen, or not removed after one that did.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    self.save_index().map_err(FrameError::io(self.name()))?;
                    let again = self.fs.remove_file(&path).and_then(|()| self.fs.create_new(&path));
                    break (path.clone(), staging::io(&path, again)?);
                }
                created => break (path.clone(), staging::io(&path, created)?),
            }
        };
        if let Err(error) = file.write_all_at(0, chunk) {
            let _ = self.fs.remove_file(&path);
            return Err(FrameError::io(path.display().to_string())(error));
        }
        self.written += chunk.len() as u64;
        self.staged.insert(id, chunk.len() as u64);
        self.lowest = id;
        Ok(id.into())
    }

    pub(crate) fn files(&self) -> Result<Arc<dyn FrameFiles>, FrameError> {
        let name = self.dir.join(INDEX_NAME).display().to_string();
        let index = OpenFile::new(self.index.clone(), name, 0)?;
        let (fs, dir, watch) = (self.fs.clone(), self.dir.clone(), self.watch.clone());
        Ok(Arc::new(Sparse::snapshot(fs, dir, index, watch, self.has_staged())))
    }

    pub(crate) fn layout(&self) -> Layout {
        let end = self.header_len;
        Layout { header: 0..end, data: end..end, index: end..end, trailer: end..end }
    }

    /// Makes `new` the committed state. Returns the header written, and what went wrong after that.
    pub(crate) fn commit(
        &mut self,
        old: &State,
        new: &State,
        sums: Option<&ChunkSums>,
    ) -> Result<(Bytes, Result<(), FrameError>), FrameError> {
        self.check_unchanged(&old.header)?;
        let named = named(new);
        let cbytes = self.cbytes(old, &named)?;
        let header = |tail_len| new.encode_header(cbytes, self.header_len + tail_len);
        let content = Content {
            entries: &new.entries,
            vlmetalayers: &new.vlmetalayers,
            sums,
            // The index file is written anew.
            kept: &[],
            index_at: self.header_len,
        };
        let Ends { header, tail, .. } = ends::encode(&content, header)?;

        let path = self.dir.join(INDEX_NAME);
        let (temporary, file) = staging::temporary(&path, &mut |name| self.fs.create_new(name))?;
        let index = [&header[..], &tail].concat();
        if let Err(error) = self.prepare(&temporary, &*file, &index, &named) {
            let _ = self.fs.remove_file(&temporary);
            return Err(error);
        }
        if let Err(error) = staging::io(&path, self.fs.rename(&temporary, &path)) {
            let _ = self.fs.remove_file(&temporary);
            return Err(error);
        }

        // The new state is there. What fails from here on cannot take it back.
        self.written += index.len() as u64;
        self.index = file;
        let advanced = self.watch.advance(self.index.clone());
        let given_up = self.used.difference(&named).chain(self.staged.keys()).copied();
        self.doomed.extend(given_up.filter(|id| !named.contains(id)));
        self.used = named;
        self.staged.clear();
        self.unsafe_index = self.durability == Durability::Sync;
        let synced = self.save_index().and(advanced);
        self.remove_doomed(false);
        Ok((header, synced.map_err(|source| FrameError::NotSynced { name: self.name(), source })))
    }

    /// Everything before the rename.
    fn prepare(
        &mut self,
        temporary: &std::path::Path,
        file: &dyn WriteAt,
        index: &[u8],
        named: &HashSet<u32>,
    ) -> Result<(), FrameError> {
        let path = self.dir.join(INDEX_NAME);
        staging::io(temporary, self.fs.copy_attributes(&path, temporary))?;
        staging::io(temporary, file.write_all_at(0, index))?;
        if self.durability == Durability::Sync {
            for id in self.staged.keys().filter(|id| named.contains(id)) {
                let path = self.dir.join(chunk_name(*id));
                let file = staging::io(&path, self.fs.open_write(&path, Links::Refuse))?;
                staging::io(&path, file.sync().inspect_err(|_| self.lost = true))?;
            }
            staging::io(temporary, file.sync())?;
            staging::io(&self.dir, self.sync_dir())?;
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

    /// From here on no power loss brings an older index back.
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

    /// The sum of the sizes of all chunk files, or more: C-Blosc2 takes file numbers for offsets and wants them
    /// to lie inside.
    fn cbytes(&self, old: &State, named: &HashSet<u32>) -> Result<u64, FrameError> {
        let before = if old.nbytes > 0 { FrameHeader::parse(&old.header)?.cbytes() } else { 0 };
        let staged = self.staged.iter().filter(|(id, _)| named.contains(id)).map(|(_, size)| size);
        let added = staged.sum::<u64>();
        let mut removed = 0u64;
        for id in self.used.difference(named) {
            // A file that is missing was counted all the same; the number is only informative.
            let path = self.dir.join(chunk_name(*id));
            removed += self.fs.open(&path, Links::Refuse).and_then(|file| file.len()).unwrap_or(0);
        }
        let least = named.iter().max().map_or(0, |id| u64::from(*id) + EXTENDED_HEADER_LEN as u64);
        Ok(before.saturating_add(added).saturating_sub(removed).max(least))
    }

    fn check_unchanged(&self, header: &Bytes) -> Result<(), FrameError> {
        let unchanged = self
            .watch
            .is_current(&*self.fs, &self.dir)
            .and_then(|current| Ok(current && self.index.read_at(0..header.len() as u64)? == header));
        match unchanged.map_err(FrameError::io(self.name()))? {
            true => Ok(()),
            false => Err(FrameError::Changed { name: self.name() }),
        }
    }

    /// Removes files that nothing names, unless snapshots may read them.
    fn remove_doomed(&mut self, force: bool) {
        // If the index is not safe they are left to a later commit or `compact`.
        if self.unsafe_index || !force && Arc::strong_count(&self.watch) > 1 {
            return;
        }
        for id in std::mem::take(&mut self.doomed) {
            // What cannot be removed is in nobody's way: it is overwritten or removed by a later commit.
            let _ = self.fs.remove_file(&self.dir.join(chunk_name(id)));
            self.lowest = self.lowest.min(id);
        }
    }

    /// Forgets what was put since the last commit.
    pub(crate) fn rollback(&mut self) {
        if self.has_staged() {
            self.watch.rollbacks.fetch_add(1, Ordering::SeqCst);
        }
        self.lost = false;
        for id in std::mem::take(&mut self.staged).into_keys() {
            let _ = self.fs.remove_file(&self.dir.join(chunk_name(id)));
            self.lowest = self.lowest.min(id);
        }
    }

    /// Files in the directory that belong to no committed state: names and sizes.
    fn strays(&self) -> Result<Vec<(PathBuf, u64)>, FrameError> {
        let mut strays = Vec::new();
        for name in staging::io(&self.dir, self.fs.list(&self.dir))? {
            let Some(name) = name.to_str() else { continue };
            let stray = match chunk_id(name) {
                Some(id) => !self.used.contains(&id) && !self.staged.contains_key(&id),
                None => staging::is_temporary(name),
            };
            if stray {
                let path = self.dir.join(name);
                let len = self.fs.open(&path, Links::Refuse).and_then(|file| file.len());
                strays.push((path, len.unwrap_or(0)));
            }
        }
        Ok(strays)
    }

    /// Bytes in files that nothing names.
    pub(crate) fn dead_bytes(&self) -> Result<u64, FrameError> {
        Ok(self.strays()?.iter().map(|(_, len)| len).sum())
    }

    /// Removes them.
    pub(crate) fn clean(&mut self) -> Result<(), FrameError> {
        self.save_index().map_err(FrameError::io(self.name()))?;
        for (path, _) in self.strays()? {
            staging::io(&path, self.fs.remove_file(&path))?;
        }
        self.doomed.clear();
        self.lowest = 0;
        staging::io(&self.dir, self.sync_dir())
    }

    /// To be called when nobody changes the frame any more.
    pub(crate) fn close(&mut self) {
        self.rollback();
        self.remove_doomed(true);
    }
}

fn next(id: u32) -> Result<u32, FrameError> {
    id.checked_add(1).ok_or_else(|| FrameError::argument("chunks", "no file number is free"))
}

/// The files that the entries name.
fn named(state: &State) -> HashSet<u32> {
    state.entries.iter().filter_map(|raw| u32::try_from(*raw).ok()).collect()
}
