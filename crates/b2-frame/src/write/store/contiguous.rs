//! Writes new and changed contiguous frames. New data always go behind existing data.
//!
//! A change is committed by one write of the header, which is the only committed part that is
//! overwritten. A new frame is committed by writing its header last and then renaming the file.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use b2_core::{ProcessId, memory};
use bytes::Bytes;

use crate::format::checksums::ChunkSums;
use crate::format::header::patch;
use crate::format::records::Pages;
use crate::format::starts::ChunkStarts;
use crate::read::open::Layout;
use crate::storage::contiguous::Contiguous;
use crate::storage::files::{FrameFiles, OpenFile};
use crate::storage::lock::FrameLock;
use crate::storage::redo::Redo;
use crate::storage::staging::{self, Durability, Staged, Target};
use crate::storage::traits::{FileId, FileSystem, Links, ReadAt, WriteAt};
use crate::write::ends::{self, Content, Ends};
use crate::write::state::{FrameState, Head};
use crate::write::store::memory::MemoryFile;
use crate::write::store::{Change, leftover};
use crate::{FrameError, SuperChunk};

/// Small chunks are collected up to this size before they are written, in bytes.
const BUFFER: usize = 1 << 20;

/// New files reserve space in steps of this many bytes, once they are longer than one step.
const RESERVE: u64 = 16 << 20;

/// After this many bytes, writing them to disk is started early, which shortens the final sync.
const START_SYNC: u64 = 8 << 20;

/// Length of the magic number, the header length and the marker after it, in bytes.
const FIRST: usize = 16;

/// The file or buffer of a contiguous frame.
pub(crate) struct ContiguousStore {
    home: Home,
    file: Arc<dyn WriteAt>,
    name: Arc<str>,
    header_len: u64,
    /// End of the committed frame; 0 for a new frame.
    committed: u64,
    /// Offset of `buf`: the end of what is written.
    at: u64,
    buf: Vec<u8>,
    /// End of the bytes that may have been written.
    high: u64,
    /// End of the reserved space.
    reserved: u64,
    /// End of the bytes for which writing to disk was started.
    sync_started: u64,
    /// The committed pages of all tables.
    pages: Pages,
    watch: Arc<Watch>,
    durability: Durability,
    /// Number of bytes written so far.
    pub(super) written: u64,
    /// The header on disk may be invalid, so nothing may be written any more.
    pub(super) broken: bool,
    /// A sync has failed. Data written before may never reach the disk, even if later syncs
    /// succeed.
    pub(super) lost: bool,
    /// Whether a power loss could bring back another file under this name: the process that renamed
    /// this one may have been killed before it synced the directory.
    unsafe_name: bool,
}

/// The result of copying chunks to another store.
pub(crate) struct Copied {
    /// The state with the new entries.
    pub(crate) state: FrameState,
    pub(crate) sums: Option<ChunkSums>,
    pub(crate) starts: Option<ChunkStarts>,
}

/// Where a contiguous frame is stored.
pub(crate) enum Home {
    Memory(Arc<MemoryFile>),
    Disk {
        fs: Arc<dyn FileSystem>,
        /// The path with all symbolic links resolved.
        path: PathBuf,
        lock: Option<FrameLock>,
        /// Whether files with several hard links may be changed.
        force: bool,
    },
    /// A new frame, in a temporary file that is renamed when it is complete.
    Staged(Option<Staged>),
    /// A new frame that starts at this offset of a file.
    Behind(u64),
}

/// Tells snapshots about later changes, since bytes that were never committed may be overwritten.
#[derive(Debug)]
struct Watch {
    rollbacks: AtomicU64,
    committed: AtomicU64,
    /// The process of the editor. After a fork the child cannot see what the editor does.
    process: ProcessId,
}

impl Watch {
    fn new(committed: u64) -> Self {
        let process = ProcessId::current();
        Self { rollbacks: AtomicU64::new(0), committed: AtomicU64::new(committed), process }
    }
}

impl ContiguousStore {
    /// Creates the store of an existing frame.
    pub(crate) fn of(
        home: Home,
        file: Arc<dyn WriteAt>,
        name: Arc<str>,
        schunk: &SuperChunk,
        durability: Durability,
    ) -> Self {
        let opened = schunk.layout();
        let end = opened.trailer.end;
        Self {
            home,
            file,
            name,
            header_len: opened.header.end,
            committed: end,
            at: end,
            buf: Vec::new(),
            high: end,
            reserved: 0,
            sync_started: end,
            pages: schunk.pages(),
            watch: Arc::new(Watch::new(end)),
            durability,
            written: 0,
            broken: false,
            lost: false,
            unsafe_name: durability == Durability::Sync,
        }
    }

    fn new(
        home: Home,
        file: Arc<dyn WriteAt>,
        name: Arc<str>,
        header_len: u64,
        durability: Durability,
    ) -> Result<Self, FrameError> {
        Ok(Self {
            home,
            file,
            name,
            header_len,
            committed: 0,
            at: 0,
            buf: memory::zeroed(header_len as usize)?,
            high: 0,
            reserved: 0,
            sync_started: 0,
            pages: Pages::default(),
            watch: Arc::new(Watch::new(0)),
            durability,
            written: 0,
            broken: false,
            lost: false,
            unsafe_name: false,
        })
    }

    /// Creates the store of a new frame in memory.
    pub(crate) fn memory_of(header_len: u64) -> Result<Self, FrameError> {
        let memory = Arc::new(MemoryFile::new(Bytes::new()));
        let name = "frame in memory".into();
        Self::new(Home::Memory(memory.clone()), memory, name, header_len, Durability::None)
    }

    /// Creates the store of a new frame in a file.
    pub(crate) fn create(target: Target, path: &Path, header_len: u64) -> Result<Self, FrameError> {
        let (staged, file) = Staged::file(target, path)?;
        let (name, durability) = (staged.path().display().to_string(), staged.durability());
        Self::new(Home::Staged(Some(staged)), file, name.into(), header_len, durability)
    }

    /// Creates the store of a new frame that starts at byte `base` of a file.
    pub(crate) fn behind(
        file: Arc<dyn WriteAt>,
        name: &str,
        durability: Durability,
        base: u64,
        header_len: u64,
    ) -> Result<Self, FrameError> {
        Self::new(Home::Behind(base), file, name.into(), header_len, durability)
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    fn end(&self) -> u64 {
        self.at + self.buf.len() as u64
    }

    /// Returns whether anything was stored since the last commit.
    fn has_staged(&self) -> bool {
        self.end() > self.committed
    }

    /// Writes the marker in front of staged data, so that leftovers of an interrupted commit can be
    /// recognized.
    fn begin(&mut self) {
        if !self.has_staged() && matches!(self.home, Home::Disk { .. }) {
            self.buf.extend_from_slice(&leftover::MARKER);
        }
    }

    /// Stores a chunk and returns the offset for its index entry.
    pub(crate) fn put(&mut self, chunk: &[u8]) -> Result<u64, FrameError> {
        self.begin();
        let offset = self.end() - self.header_len;
        self.push(chunk)?;
        Ok(offset)
    }

    fn push(&mut self, data: &[u8]) -> Result<(), FrameError> {
        if self.buf.len() + data.len() > BUFFER && self.empty_memory().is_none() {
            self.flush()?;
            if data.len() > BUFFER {
                self.write(self.at, data)?;
                self.at += data.len() as u64;
                return Ok(());
            }
        }
        memory::reserve(&mut self.buf, data.len())?;
        self.buf.extend_from_slice(data);
        Ok(())
    }

    /// Returns the buffer of a new frame in memory as long as it is empty: the collected bytes then
    /// become its content.
    fn empty_memory(&self) -> Option<&Arc<MemoryFile>> {
        self.memory().filter(|_| self.at == 0)
    }

    /// Writes the collected bytes.
    pub(super) fn flush(&mut self) -> Result<(), FrameError> {
        if let Some(memory) = self.empty_memory().cloned() {
            let len = self.buf.len() as u64;
            memory.put(std::mem::take(&mut self.buf));
            (self.at, self.high) = (len, len);
            self.written += len;
        } else if !self.buf.is_empty() {
            let buf = std::mem::take(&mut self.buf);
            let result = self.write(self.at, &buf);
            self.buf = buf;
            result?;
            self.at += self.buf.len() as u64;
            self.buf.clear();
        }
        Ok(())
    }

    fn write(&mut self, at: u64, data: &[u8]) -> Result<(), FrameError> {
        let end = at + data.len() as u64;
        if matches!(self.home, Home::Staged(_)) && end > self.reserved.max(RESERVE) {
            self.reserved = end + RESERVE;
            self.file.reserve(at..self.reserved);
        }
        self.high = self.high.max(end);
        let base = if let Home::Behind(base) = self.home { base } else { 0 };
        self.file.write_all_at(base + at, data).map_err(FrameError::io(&*self.name))?;
        self.written += data.len() as u64;
        if self.durability == Durability::Sync && end >= self.sync_started + START_SYNC {
            self.file.start_sync(base + self.sync_started..base + end);
            self.sync_started = end;
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        match self.durability {
            Durability::Sync => self.file.sync(),
            Durability::None => Ok(()),
        }
    }

    /// Returns the file with everything flushed so far, for a snapshot.
    pub(super) fn files(&self) -> Result<Arc<dyn FrameFiles>, FrameError> {
        let file = SnapshotFile {
            file: self.file.clone(),
            watch: self.watch.clone(),
            rollbacks: self.watch.rollbacks.load(Ordering::SeqCst),
        };
        Ok(Arc::new(Contiguous(OpenFile::new(Arc::new(file), self.name.clone(), 0)?)))
    }

    /// Returns the layout of the chunks stored so far; index and trailer are not written yet.
    pub(super) fn layout(&self) -> Layout {
        let end = self.end();
        Layout { header: 0..self.header_len, data: self.header_len..end, index: end..end, trailer: end..end }
    }

    /// Commits a state and returns the stored header.
    pub(super) fn commit(&mut self, change: &Change<'_>) -> Result<Arc<Head>, FrameError> {
        let &Change { old, new, sums, starts, metadata_only } = change;
        if self.committed == 0 {
            return self.complete(new, sums, starts, || Ok(0));
        }
        let old = &old.head;
        self.check_unchanged(&old.bytes)?;
        let (head, mut behind, frame_len, pages) = if metadata_only {
            let head = new.head(old.header.cbytes, self.committed);
            (head, Vec::new(), self.committed, Pages { sums: Vec::new(), ..self.pages.clone() })
        } else {
            self.begin();
            self.flush()?;
            let Ends { head, tail, pages } = self.ends(new, sums, starts)?;
            let frame_len = head.header.frame_len;
            (head, tail, frame_len, pages)
        };
        let differing = old.bytes.iter().zip(&head.bytes).rposition(|(a, b)| a != b);
        let Some(last) = differing else { return Ok(head) };
        let range = patch::START..last + 1;
        let (before, after) = (old.bytes.slice(range.clone()), head.bytes.slice(range.clone()));
        if matches!(self.home, Home::Disk { .. }) {
            let redo = Redo { start: range.start, old: before.clone(), new: after.clone() };
            let redo = redo.encode();
            memory::reserve(&mut behind, redo.len())?;
            behind.extend_from_slice(&redo);
        }
        if !behind.is_empty() {
            self.write(self.at, &behind)?;
        }
        self.cut(self.at + behind.len() as u64).map_err(FrameError::io(&*self.name))?;
        self.sync().inspect_err(|_| self.lost = true).map_err(FrameError::io(&*self.name))?;
        self.save_name()?;
        if let Home::Disk { lock: Some(lock), .. } = &self.home {
            self.written += lock.count_change()?;
        }
        self.write_header(&before, &after)?;
        self.at = frame_len;
        self.committed = frame_len;
        self.pages = pages;
        self.watch.committed.store(frame_len, Ordering::SeqCst);
        // A leftover record is harmless: the header is complete, and the next writer truncates the
        // record.
        let _ = self.cut(frame_len);
        Ok(head)
    }

    /// Makes the next commit rewrite all pages of the tables.
    pub(super) fn forget_pages(&mut self) {
        self.pages = Pages::default();
    }

    /// Serializes header and tail for the end of the chunks stored so far.
    fn ends(
        &self,
        state: &FrameState,
        sums: Option<&ChunkSums>,
        starts: Option<&ChunkStarts>,
    ) -> Result<Ends, FrameError> {
        let end = self.end();
        ends::encode(&Content {
            state,
            sums,
            starts,
            kept: &self.pages,
            cbytes: end - self.header_len,
            index_at: end,
            in_front: true,
        })
    }

    /// Completes a new frame: writes index and trailer, then the header, then renames the file.
    /// `before` runs before any of this and returns how many bytes it wrote.
    fn complete(
        &mut self,
        state: &FrameState,
        sums: Option<&ChunkSums>,
        starts: Option<&ChunkStarts>,
        before: impl FnOnce() -> Result<u64, FrameError>,
    ) -> Result<Arc<Head>, FrameError> {
        let Ends { head, tail, pages } = self.ends(state, sums, starts)?;
        self.written += before()?;
        self.push(&tail)?;
        self.flush()?;
        if self.reserved > self.at {
            self.file.set_len(self.at).map_err(FrameError::io(&*self.name))?;
            self.reserved = 0;
        }
        let mut start = &head.bytes[..];
        if let Home::Behind(_) = self.home {
            // No rename makes this frame visible; it exists as soon as the first bytes of its
            // header do. They are written last, and if that write is torn, the frame is not
            // recognized.
            let (first, rest) = start.split_at(FIRST.min(start.len()));
            self.write(first.len() as u64, rest)?;
            self.sync().map_err(FrameError::io(&*self.name))?;
            start = first;
        }
        self.write(0, start)?;
        self.sync().map_err(FrameError::io(&*self.name))?;
        if let Home::Staged(staged) = &mut self.home
            && let Some(staged) = staged.take()
        {
            staged.commit()?;
        }
        (self.committed, self.pages) = (self.at, pages);
        Ok(head)
    }

    fn save_name(&mut self) -> Result<(), FrameError> {
        if let (Home::Disk { fs, path, .. }, true) = (&self.home, self.unsafe_name) {
            staging::io(path, fs.sync_dir(&staging::parent(path)))?;
        }
        self.unsafe_name = false;
        Ok(())
    }

    /// Truncates what an earlier attempt may have left behind `len`.
    fn cut(&mut self, len: u64) -> io::Result<()> {
        if self.high > len {
            self.file.set_len(len)?;
            self.high = len;
        }
        Ok(())
    }

    /// Writes the header, which makes the commit visible. If that fails, the old header is
    /// restored.
    fn write_header(&mut self, before: &Bytes, after: &Bytes) -> Result<(), FrameError> {
        let start = patch::START as u64;
        let write = |bytes: &Bytes| self.file.write_all_at(start, bytes).and_then(|()| self.sync());
        let Err(error) = write(after) else {
            self.written += after.len() as u64;
            return Ok(());
        };
        if write(before).is_ok() {
            return Err(FrameError::io(&*self.name)(error));
        }
        // From here on nothing behind the committed end may be changed, because the header may
        // refer to it.
        self.broken = true;
        match self.file.read_at(start..start + after.len() as u64) {
            Ok(found) if found == before => Err(FrameError::io(&*self.name)(error)),
            // If the header is a mix of both versions, the redo record completes the new one.
            Ok(_) => Err(FrameError::NotSynced { name: self.name.to_string(), source: error }),
            Err(_) => Err(FrameError::io(&*self.name)(error)),
        }
    }

    /// Detects changes by a writer that ignored the lock or was active without one, and hard links created since
    /// opening: writers under another name hold another lock.
    fn check_unchanged(&self, header: &Bytes) -> Result<(), FrameError> {
        let Home::Disk { fs, path, force, .. } = &self.home else { return Ok(()) };
        let io = |error| FrameError::io(&*self.name)(error);
        let same_file = fs.identity(path, Links::Follow).map_err(io)? == self.file.identity().map_err(io)?;
        if !same_file || self.file.read_at(0..header.len() as u64).map_err(io)? != header {
            return Err(FrameError::Changed { name: self.name.to_string() });
        }
        if *force { Ok(()) } else { staging::check_links(&self.name, &*self.file) }
    }

    /// Replaces this frame by a newly written one. `copy` stores the chunks in the new store and
    /// returns what belongs to the new entries. `checksums` says whether the frame gets them.
    pub(crate) fn rewrite(
        &mut self,
        old: &FrameState,
        checksums: bool,
        copy: impl FnOnce(&mut Self) -> Result<Copied, FrameError>,
    ) -> Result<Copied, FrameError> {
        self.check_unchanged(&old.head.bytes)?;
        let mut whole = match &self.home {
            Home::Disk { fs, path, .. } => {
                let target = Target { fs: fs.clone(), overwrite: true, durability: self.durability };
                Self::create(target, path, self.header_len)?
            }
            _ => Self::memory_of(self.header_len)?,
        };
        let Copied { mut state, sums, starts } = copy(&mut whole)?;
        let count_change = || match &self.home {
            Home::Disk { lock: Some(lock), .. } => lock.count_change(),
            _ => Ok(0),
        };
        let stored_sums = sums.as_ref().filter(|_| checksums);
        let result = whole.complete(&state, stored_sums, starts.as_ref(), count_change);
        // The target is already the new frame, which this store does not hold.
        self.broken |= matches!(result, Err(FrameError::NotSynced { .. }));
        state.head = result?;
        // Nothing may fail from here on, since the new frame is in place.
        if let Home::Memory(memory) = whole.home {
            self.home = Home::Memory(memory);
        }
        self.file = whole.file;
        self.unsafe_name = false;
        let len = whole.committed;
        self.written += len;
        (self.committed, self.at, self.high) = (len, len, len);
        self.pages = whole.pages;
        self.buf.clear();
        // Earlier snapshots keep the old file.
        self.watch = Arc::new(Watch::new(len));
        Ok(Copied { state, sums, starts })
    }

    /// Discards what was stored since the last commit.
    pub(super) fn rollback(&mut self) {
        // The creator of a new frame removes or truncates it.
        if self.broken || self.committed == 0 {
            return;
        }
        if self.has_staged() || self.high > self.committed {
            self.watch.rollbacks.fetch_add(1, Ordering::SeqCst);
        }
        self.buf.clear();
        self.at = self.committed;
        self.lost = false;
        // If this fails, the next commit truncates the file.
        let _ = self.cut(self.committed);
    }

    /// Returns the buffer of a frame in memory.
    pub(super) fn memory(&self) -> Option<&Arc<MemoryFile>> {
        match &self.home {
            Home::Memory(memory) => Some(memory),
            _ => None,
        }
    }

    /// Takes the content of a frame in memory. It is copied only if there are snapshots.
    pub(super) fn take_memory(&mut self) -> Option<Bytes> {
        let Home::Memory(memory) = &mut self.home else { return None };
        let empty = Arc::new(MemoryFile::new(Bytes::new()));
        self.file = empty.clone();
        // All other references belong to snapshots now.
        let content = match Arc::try_unwrap(std::mem::replace(memory, empty)) {
            Ok(memory) => memory.into_vec(),
            Err(shared) => shared.copy(),
        };
        Some(content.into())
    }
}

/// The file as a snapshot sees it.
struct SnapshotFile {
    file: Arc<dyn WriteAt>,
    watch: Arc<Watch>,
    rollbacks: u64,
}

impl ReadAt for SnapshotFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let result = self.file.read_exact_at(offset, buf);
        // Check after reading, since the bytes may have been overwritten meanwhile.
        let end = offset + buf.len() as u64;
        if end > self.watch.committed.load(Ordering::SeqCst)
            && (self.watch.rollbacks.load(Ordering::SeqCst) != self.rollbacks
                || !self.watch.process.is_current())
        {
            return Err(io::Error::other("this part of the snapshot was never committed"));
        }
        result
    }

    fn identity(&self) -> io::Result<Option<FileId>> {
        self.file.identity()
    }
}
