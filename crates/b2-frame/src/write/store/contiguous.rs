//! Writes new and changed contiguous frames. New data are always written after existing data.
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
use crate::format::start_copy;
use crate::format::starts::ChunkStarts;
use crate::read::open_plan::FrameLayout;
use crate::storage::files::Contiguous;
use crate::storage::files::{FrameFiles, OpenFile};
use crate::storage::lock::FrameLock;
use crate::storage::redo::Redo;
use crate::storage::staging::{self, Durability, StagedTarget, Staging};
use crate::storage::traits::{FileId, FileSystem, Links, ReadAt, WriteAt};
use crate::write::encode::{self, EncodedMetadata, FrameContent, PagePosition};
use crate::write::state::{FrameState, StoredHeader};
use crate::write::store::CommitChange;
use crate::write::store::appender::Appender;
use crate::write::store::trailing_bytes;
use crate::{FrameError, SuperChunk};

/// Length of the magic number, the header length and the marker after it, in bytes.
const FIXED_START_LEN: usize = 16;

/// The file of a contiguous frame.
pub(crate) struct ContiguousStore {
    home: FrameHome,
    pub(super) out: Appender,
    header_len: u64,
    /// End of the committed frame; 0 for a new frame.
    committed: u64,
    /// The committed pages of all tables.
    pages: Pages,
    /// The start of the committed chunk data, if it was needed already.
    first: Bytes,
    watch: Arc<ChangeCounters>,
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
pub(crate) struct CopiedChunks {
    /// The state with the new entries.
    pub(crate) state: FrameState,
    pub(crate) sums: Option<ChunkSums>,
    pub(crate) starts: Option<ChunkStarts>,
}

/// Stores a chunk and returns the offset for its index entry.
pub(crate) type ChunkSink<'a> = dyn FnMut(Bytes) -> Result<u64, FrameError> + 'a;

/// Where a contiguous frame is stored.
pub(crate) enum FrameHome {
    Disk {
        fs: Arc<dyn FileSystem>,
        /// The path with all symbolic links resolved.
        path: PathBuf,
        lock: Option<FrameLock>,
        /// Whether files with several hard links may be changed.
        force: bool,
    },
    /// A new frame, in a temporary file that is renamed when it is complete.
    StagedTarget(Option<StagedTarget>),
    /// A new frame that follows other bytes of a file.
    InsideFile,
}

/// Notifies snapshots of later changes, since bytes that were never committed may be overwritten.
#[derive(Debug)]
struct ChangeCounters {
    rollbacks: AtomicU64,
    committed: AtomicU64,
    /// The process of the editor. After a fork the child cannot see what the editor does.
    process: ProcessId,
}

impl ChangeCounters {
    fn new(committed: u64) -> Self {
        let process = ProcessId::current();
        Self { rollbacks: AtomicU64::new(0), committed: AtomicU64::new(committed), process }
    }
}

impl ContiguousStore {
    /// Creates the store of an existing frame in a file.
    pub(crate) fn of(
        home: FrameHome,
        file: Arc<dyn WriteAt>,
        name: Arc<str>,
        schunk: &SuperChunk,
        durability: Durability,
    ) -> Self {
        Self::existing(home, Appender::new(file, name, durability, schunk.layout().trailer.end), schunk)
    }

    fn existing(home: FrameHome, out: Appender, schunk: &SuperChunk) -> Self {
        let layout = schunk.layout();
        Self {
            home,
            header_len: layout.header.end,
            committed: layout.trailer.end,
            pages: schunk.pages(),
            first: Bytes::new(),
            watch: Arc::new(ChangeCounters::new(layout.trailer.end)),
            broken: false,
            lost: false,
            unsafe_name: out.durability == Durability::Sync,
            out,
        }
    }

    fn new(home: FrameHome, mut out: Appender, header_len: u64) -> Result<Self, FrameError> {
        out.skip(header_len, start_copy::MAX_COPIED_LEN)?;
        Ok(Self {
            home,
            out,
            header_len,
            committed: 0,
            pages: Pages::default(),
            first: Bytes::new(),
            watch: Arc::new(ChangeCounters::new(0)),
            broken: false,
            lost: false,
            unsafe_name: false,
        })
    }

    /// Creates the store of a new frame in a file.
    pub(crate) fn create(target: Staging, path: &Path, header_len: u64) -> Result<Self, FrameError> {
        let (staged, file) = StagedTarget::file(target, path)?;
        let name = staged.path().display().to_string().into();
        let out = Appender::new(file, name, staged.durability(), 0).reserving();
        Self::new(FrameHome::StagedTarget(Some(staged)), out, header_len)
    }

    /// Creates the store of a new frame that starts at byte `base` of a file.
    pub(crate) fn appending_to(
        file: Arc<dyn WriteAt>,
        name: &str,
        durability: Durability,
        base: u64,
        header_len: u64,
    ) -> Result<Self, FrameError> {
        let out = Appender::new(file, name.into(), durability, 0).at_byte(base);
        Self::new(FrameHome::InsideFile, out, header_len)
    }

    pub(super) fn name(&self) -> &str {
        &self.out.name
    }

    /// Returns whether anything was stored since the last commit.
    fn has_staged(&self) -> bool {
        self.out.end() > self.committed
    }

    /// Writes the marker in front of staged data, so that leftovers of an interrupted commit can be
    /// recognized.
    fn begin(&mut self) -> Result<(), FrameError> {
        if !self.has_staged() && matches!(self.home, FrameHome::Disk { .. }) {
            self.out.push(&trailing_bytes::MARKER)?;
        }
        Ok(())
    }

    /// Stores a chunk and returns the offset for its index entry.
    pub(crate) fn put(&mut self, chunk: &[u8]) -> Result<u64, FrameError> {
        self.begin()?;
        let offset = self.out.end() - self.header_len;
        self.out.push(chunk)?;
        Ok(offset)
    }

    /// Returns the file with everything flushed so far, for a snapshot.
    pub(super) fn files(&self) -> Result<Arc<dyn FrameFiles>, FrameError> {
        let file = SnapshotFile {
            file: self.out.file.clone(),
            watch: self.watch.clone(),
            rollbacks: self.watch.rollbacks.load(Ordering::SeqCst),
        };
        Ok(Arc::new(Contiguous(OpenFile::new(Arc::new(file), self.out.name.clone(), 0)?.live())))
    }

    /// Returns the layout of the chunks stored so far; index and trailer are not written yet.
    pub(super) fn layout(&self) -> FrameLayout {
        let end = self.out.end();
        FrameLayout {
            header: 0..self.header_len,
            data: self.header_len..end,
            index: end..end,
            trailer: end..end,
        }
    }

    /// Commits a state and returns the stored header.
    pub(super) fn commit(&mut self, change: &CommitChange<'_>) -> Result<Arc<StoredHeader>, FrameError> {
        let &CommitChange { old, new, sums, starts, metadata_only, .. } = change;
        if self.committed == 0 {
            return self.complete(new, sums, starts, || Ok(0));
        }
        let old = &old.head;
        self.check_unchanged(&old.bytes)?;
        let (head, mut tail, frame_len, pages) = if metadata_only {
            let head = new.head(old.header.cbytes, self.committed);
            (head, Vec::new(), self.committed, Pages { sums: Vec::new(), ..self.pages.clone() })
        } else {
            self.begin()?;
            self.out.flush()?;
            let EncodedMetadata { head, tail, pages } = self.ends(new, sums, starts)?;
            let frame_len = head.header.frame_len;
            (head, tail, frame_len, pages)
        };
        let differing = old.bytes.iter().zip(&head.bytes).rposition(|(a, b)| a != b);
        let Some(last) = differing else { return Ok(head) };
        let range = patch::START..last + 1;
        let (before, after) = (old.bytes.slice(range.clone()), head.bytes.slice(range.clone()));
        if matches!(self.home, FrameHome::Disk { .. }) {
            let redo = Redo { start: range.start, old: before.clone(), new: after.clone() };
            let redo = redo.encode();
            memory::reserve(&mut tail, redo.len())?;
            tail.extend_from_slice(&redo);
        }
        let at = self.out.at;
        if !tail.is_empty() {
            self.out.write(at, &tail)?;
        }
        let cut = self.out.cut(at + tail.len() as u64);
        self.out.io(cut)?;
        let synced = self.out.sync().inspect_err(|_| self.lost = true);
        self.out.io(synced)?;
        self.save_name()?;
        if let FrameHome::Disk { lock: Some(lock), .. } = &self.home {
            self.out.written += lock.count_change()?;
        }
        self.write_header(&before, &after)?;
        self.out.at = frame_len;
        self.committed = frame_len;
        self.pages = pages;
        self.watch.committed.store(frame_len, Ordering::SeqCst);
        // A leftover record is harmless: the header is complete, and the next writer truncates the
        // record.
        let _ = self.out.cut(frame_len);
        Ok(head)
    }

    /// Makes the next commit rewrite all pages of the tables.
    pub(super) fn forget_pages(&mut self) {
        self.pages = Pages { copy: self.pages.copy, ..Pages::default() };
    }

    /// Serializes header and tail for the end of the chunks stored so far.
    fn ends(
        &mut self,
        state: &FrameState,
        sums: Option<&ChunkSums>,
        starts: Option<&ChunkStarts>,
    ) -> Result<EncodedMetadata, FrameError> {
        let end = self.out.end();
        self.read_first(end);
        encode::encode(&FrameContent {
            state,
            sums,
            starts,
            kept: &self.pages,
            first: if self.committed == 0 { &self.out.first } else { &self.first },
            cbytes: end - self.header_len,
            index_at: end,
            pages: PagePosition::BeforeIndex,
        })
    }

    /// Reads the start of the chunk data up to `end`, unless that was done before. The part in the copy of the start of
    /// the frame is taken from there, since it was verified: the file may be damaged.
    fn read_first(&mut self, end: u64) {
        let range = self.header_len..end.min(self.header_len + start_copy::MAX_COPIED_LEN as u64);
        if self.committed == 0 || self.first.len() as u64 == range.end.saturating_sub(range.start) {
            return;
        }
        // The copy is only useful after damage, so errors do not matter: it is then shorter.
        let read = |range| self.out.file.read_at(range).ok();
        let Some(first) = read(range) else { return };
        let mut first = Vec::from(first);
        let page = self.pages.copy.and_then(|page| start_copy::in_page(&page, &read(page.range()?)?));
        let behind_header = usize::try_from(self.header_len).unwrap_or(usize::MAX);
        let copy = page.as_ref().and_then(|copy| copy.get(behind_header..)).unwrap_or_default();
        for (byte, known) in first.iter_mut().zip(copy) {
            *byte = *known;
        }
        self.first = first.into();
    }

    /// Completes a new frame: writes index and trailer, then the header, then renames the file.
    /// `before` runs before any of this and returns how many bytes it wrote.
    fn complete(
        &mut self,
        state: &FrameState,
        sums: Option<&ChunkSums>,
        starts: Option<&ChunkStarts>,
        before: impl FnOnce() -> Result<u64, FrameError>,
    ) -> Result<Arc<StoredHeader>, FrameError> {
        let EncodedMetadata { head, tail, pages } = self.ends(state, sums, starts)?;
        self.out.written += before()?;
        self.out.push(&tail)?;
        self.out.flush()?;
        self.out.release()?;
        let mut start = &head.bytes[..];
        if let FrameHome::InsideFile = self.home {
            // No rename makes this frame visible; it exists as soon as the first bytes of its
            // header do. They are written last, and if that write is torn, the frame is not
            // recognized.
            let (first, rest) = start.split_at(FIXED_START_LEN.min(start.len()));
            self.out.write(first.len() as u64, rest)?;
            self.out.io(self.out.sync())?;
            start = first;
        }
        self.out.write(0, start)?;
        self.out.io(self.out.sync())?;
        if let FrameHome::StagedTarget(staged) = &mut self.home
            && let Some(staged) = staged.take()
        {
            staged.commit()?;
        }
        (self.committed, self.pages) = (self.out.end(), pages);
        Ok(head)
    }

    fn save_name(&mut self) -> Result<(), FrameError> {
        if let (FrameHome::Disk { fs, path, .. }, true) = (&self.home, self.unsafe_name) {
            staging::io(path, fs.sync_dir(&staging::parent(path)))?;
        }
        self.unsafe_name = false;
        Ok(())
    }

    /// Writes the header, which makes the commit visible. If that fails, the old header is
    /// restored.
    fn write_header(&mut self, before: &Bytes, after: &Bytes) -> Result<(), FrameError> {
        let start = patch::START as u64;
        let (file, io) = (&self.out.file, |error| FrameError::io(&*self.out.name)(error));
        let write = |bytes: &Bytes| file.write_all_at(start, bytes).and_then(|()| self.out.sync());
        let Err(error) = write(after) else {
            self.out.written += after.len() as u64;
            return Ok(());
        };
        if write(before).is_ok() {
            return Err(io(error));
        }
        // From here on nothing after the committed end may be changed, because the header may refer to it.
        self.broken = true;
        match file.read_at(start..start + after.len() as u64) {
            Ok(found) if found == before => Err(io(error)),
            // If the header is a mix of both versions, the redo record completes the new one.
            Ok(_) => Err(FrameError::NotSynced { name: self.out.name.to_string(), source: error }),
            Err(_) => Err(io(error)),
        }
    }

    /// Detects changes by a writer that ignored the lock or was active without one, and hard links created since
    /// opening: writers under another name hold another lock.
    fn check_unchanged(&self, header: &Bytes) -> Result<(), FrameError> {
        let FrameHome::Disk { fs, path, force, .. } = &self.home else { return Ok(()) };
        let (file, io) = (&self.out.file, |error| FrameError::io(&*self.out.name)(error));
        let same_file = fs.identity(path, Links::Follow).map_err(io)? == file.identity().map_err(io)?;
        if !same_file || file.read_at(0..header.len() as u64).map_err(io)? != header {
            return Err(FrameError::Changed { name: self.out.name.to_string() });
        }
        if *force { Ok(()) } else { staging::check_links(&self.out.name, &**file) }
    }

    /// Replaces this frame by a newly written one. `copy` stores the chunks in the new store and returns the data of
    /// the new entries. `header_len` is that of the new frame; `checksums` is whether it has checksums.
    pub(crate) fn rewrite(
        &mut self,
        old: &FrameState,
        header_len: u64,
        checksums: bool,
        copy: impl FnOnce(&mut ChunkSink<'_>) -> Result<CopiedChunks, FrameError>,
    ) -> Result<CopiedChunks, FrameError> {
        self.check_unchanged(&old.head.bytes)?;
        // Frames that are not complete yet are never rewritten.
        let FrameHome::Disk { fs, path, lock, .. } = &self.home else { return Err(FrameError::Abandoned) };
        let target = Staging { fs: fs.clone(), overwrite: true, durability: self.out.durability };
        let mut whole = Self::create(target, path, header_len)?;
        let CopiedChunks { mut state, sums, starts } = copy(&mut |chunk| whole.put(&chunk))?;
        let count_change = || match lock {
            Some(lock) => lock.count_change(),
            None => Ok(0),
        };
        let stored_sums = sums.as_ref().filter(|_| checksums);
        let closed = self.out.close_to_replace();
        let result = whole.complete(&state, stored_sums, starts.as_ref(), count_change);
        if let (Some(identity), Err(_), FrameHome::Disk { fs, path, .. }) = (closed, &result, &self.home) {
            // The old frame stays. If another program has replaced it in the meantime, it is not this store's.
            match fs.open_write(path, Links::Refuse) {
                Ok(file) if file.identity().is_ok_and(|found| found == identity) => self.out.file = file,
                _ => self.broken = true,
            }
        }
        // The target is already the new frame, which this store does not hold.
        self.broken |= matches!(result, Err(FrameError::NotSynced { .. }));
        state.head = result?;
        // Nothing may fail from here on, since the new frame is in place.
        self.out.replace(whole.out);
        self.unsafe_name = false;
        (self.header_len, self.committed, self.pages) = (header_len, whole.committed, whole.pages);
        self.first = Bytes::new();
        // Earlier snapshots keep the old file.
        self.watch = Arc::new(ChangeCounters::new(self.committed));
        Ok(CopiedChunks { state, sums, starts })
    }

    /// Discards everything stored since the last commit.
    pub(super) fn rollback(&mut self) {
        // The creator of a new frame removes or truncates it.
        if self.broken || self.committed == 0 {
            return;
        }
        if self.out.reaches_behind(self.committed) {
            self.watch.rollbacks.fetch_add(1, Ordering::SeqCst);
        }
        self.out.go_to(self.committed);
        self.first = Bytes::new();
        self.lost = false;
        // If this fails, the next commit truncates the file.
        let _ = self.out.cut(self.committed);
    }
}

/// The file as a snapshot sees it.
struct SnapshotFile {
    file: Arc<dyn WriteAt>,
    watch: Arc<ChangeCounters>,
    rollbacks: u64,
}

impl ReadAt for SnapshotFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let result = self.file.read_exact_at(offset, buf);
        // Check after reading, since the bytes may have been overwritten in the meantime.
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
