//! Commits to contiguous frames: all that is new goes behind the committed end, then one write of the header
//! makes it visible. Nothing committed is overwritten but the header.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use b2_chunk::memory;
use bytes::Bytes;

use crate::checksums::{ChunkSums, Page};
use crate::contiguous::Contiguous;
use crate::edit::leftover;
use crate::edit::memory::MemoryFile;
use crate::edit::rewrite::{Rewritten, Whole};
use crate::edit::state::State;
use crate::ends::{self, Content, Ends};
use crate::header::patch;
use crate::lock::FrameLock;
use crate::open::Layout;
use crate::plan::{FrameFiles, OpenFile};
use crate::redo::Redo;
use crate::staging::{self, Durability, Target};
use crate::storage::{FileId, FileSystem, Links, ReadAt, WriteAt};
use crate::{FrameError, SuperChunk};

/// Small chunks are collected up to this size before they are written, in bytes.
const BUFFER: usize = 1 << 20;

/// The file or buffer of a contiguous frame.
pub(crate) struct ContiguousStore {
    pub(crate) home: Home,
    pub(crate) file: Arc<dyn WriteAt>,
    pub(crate) name: Arc<str>,
    pub(crate) header_len: u64,
    /// Where the committed frame ends.
    committed: u64,
    /// Where `buf` goes: the end of what is written.
    at: u64,
    buf: Vec<u8>,
    /// One past the last byte that may have been written.
    high: u64,
    /// The committed pages of sums.
    pages: Vec<Page>,
    watch: Arc<Watch>,
    pub(crate) durability: Durability,
    /// Bytes written so far.
    pub(crate) written: u64,
    /// The header on disk is in doubt: nothing may be written any more.
    pub(crate) broken: bool,
    /// A sync has failed: what was written before may never reach the disk, though later syncs succeed.
    pub(crate) lost: bool,
    /// Whether a power loss could bring back another file of this name: who renamed this one may have been
    /// killed before the name was synced.
    unsafe_name: bool,
}

/// Where a contiguous frame lives.
pub(crate) enum Home {
    Memory(Arc<MemoryFile>),
    Disk {
        fs: Arc<dyn FileSystem>,
        /// With all symbolic links followed.
        path: PathBuf,
        lock: Option<FrameLock>,
        /// Whether files with several names may be replaced.
        force: bool,
    },
}

/// What snapshots have to know about later changes: bytes that were never committed may be overwritten.
#[derive(Debug)]
struct Watch {
    rollbacks: AtomicU64,
    committed: AtomicU64,
}

impl ContiguousStore {
    pub(crate) fn new(
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
            pages: schunk.sum_pages().to_vec(),
            watch: Arc::new(Watch { rollbacks: AtomicU64::new(0), committed: AtomicU64::new(end) }),
            durability,
            written: 0,
            broken: false,
            lost: false,
            unsafe_name: durability == Durability::Sync,
        }
    }

    fn end(&self) -> u64 {
        self.at + self.buf.len() as u64
    }

    /// Whether something was put since the last commit.
    pub(crate) fn has_staged(&self) -> bool {
        self.end() > self.committed
    }

    /// Where the committed frame ends, in bytes.
    pub(crate) fn committed(&self) -> u64 {
        self.committed
    }

    /// What is behind the committed end until the next commit says whose it is, should there be none.
    fn begin(&mut self) {
        if !self.has_staged() && matches!(self.home, Home::Disk { .. }) {
            self.buf.extend_from_slice(&leftover::MARKER);
        }
    }

    /// Takes a chunk and returns its index entry.
    pub(crate) fn put(&mut self, chunk: &Bytes) -> Result<u64, FrameError> {
        if self.buf.len() + chunk.len() > BUFFER {
            self.flush()?;
        }
        self.begin();
        let offset = self.end() - self.header_len;
        if chunk.len() > BUFFER {
            self.flush()?;
            self.write(self.at, chunk)?;
            self.at += chunk.len() as u64;
        } else {
            memory::reserve(&mut self.buf, chunk.len())?;
            self.buf.extend_from_slice(chunk);
        }
        Ok(offset)
    }

    /// Writes what is collected.
    pub(crate) fn flush(&mut self) -> Result<(), FrameError> {
        if !self.buf.is_empty() {
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
        self.high = self.high.max(at + data.len() as u64);
        self.file.write_all_at(at, data).map_err(FrameError::io(&*self.name))?;
        self.written += data.len() as u64;
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        match self.durability {
            Durability::Sync => self.file.sync(),
            Durability::None => Ok(()),
        }
    }

    /// The file with all that is flushed, for a snapshot.
    pub(crate) fn files(&self) -> Result<Arc<dyn FrameFiles>, FrameError> {
        let file = SnapshotFile {
            file: self.file.clone(),
            watch: self.watch.clone(),
            rollbacks: self.watch.rollbacks.load(Ordering::SeqCst),
        };
        Ok(Arc::new(Contiguous(OpenFile::new(Arc::new(file), self.name.clone(), 0)?)))
    }

    /// The chunk data up to now; index and trailer are not written yet.
    pub(crate) fn layout(&self) -> Layout {
        let end = self.end();
        Layout { header: 0..self.header_len, data: self.header_len..end, index: end..end, trailer: end..end }
    }

    /// Makes `new` the committed state, and returns the header written. `old` is the committed state;
    /// `metadata_only`: all that differs are values in the header, and there are no checksums of it.
    pub(crate) fn commit(
        &mut self,
        old: &State,
        new: &State,
        metadata_only: bool,
        sums: Option<&ChunkSums>,
    ) -> Result<Bytes, FrameError> {
        self.check_unchanged(&old.header)?;
        let (header, mut behind, frame_len, pages) = if metadata_only {
            let cbytes = crate::FrameHeader::parse(&old.header)?.cbytes();
            (new.encode_header(cbytes, self.committed), Vec::new(), self.committed, Vec::new())
        } else {
            self.begin();
            self.flush()?;
            let cbytes = self.at - self.header_len;
            let header = |tail_len| new.encode_header(cbytes, self.at + tail_len);
            let content = Content {
                entries: &new.entries,
                vlmetalayers: &new.vlmetalayers,
                sums,
                kept: &self.pages,
                index_at: self.at,
            };
            let Ends { header, tail, pages } = ends::encode(&content, header)?;
            let frame_len = self.at + tail.len() as u64;
            (header, tail, frame_len, pages)
        };
        let differing = old.header.iter().zip(&header).rposition(|(a, b)| a != b);
        let Some(last) = differing else { return Ok(header) };
        let range = patch::START..last + 1;
        let (before, after) = (old.header.slice(range.clone()), header.slice(range.clone()));
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
        // Left behind the record does no harm: the header is no mix, and the next writer removes it.
        let _ = self.cut(frame_len);
        Ok(header)
    }

    fn save_name(&mut self) -> Result<(), FrameError> {
        if let (Home::Disk { fs, path, .. }, true) = (&self.home, self.unsafe_name) {
            staging::io(path, fs.sync_dir(&staging::parent(path)))?;
        }
        self.unsafe_name = false;
        Ok(())
    }

    /// Cuts off what an earlier attempt may have left behind `len`.
    fn cut(&mut self, len: u64) -> io::Result<()> {
        if self.high > len {
            self.file.set_len(len)?;
            self.high = len;
        }
        Ok(())
    }

    /// The one write that makes a commit visible. If it fails, the header is put back.
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
        // From here on nothing behind the committed end may be touched: the header may refer to it.
        self.broken = true;
        match self.file.read_at(start..start + after.len() as u64) {
            Ok(found) if found == after => {
                Err(FrameError::NotSynced { name: self.name.to_string(), source: error })
            }
            _ => Err(FrameError::io(&*self.name)(error)),
        }
    }

    /// Another writer may have ignored the lock, or there is none.
    fn check_unchanged(&self, header: &Bytes) -> Result<(), FrameError> {
        let Home::Disk { fs, path, .. } = &self.home else { return Ok(()) };
        let io = |error| FrameError::io(&*self.name)(error);
        let same_file = fs.identity(path, Links::Follow).map_err(io)? == self.file.identity().map_err(io)?;
        if !same_file || self.file.read_at(0..header.len() as u64).map_err(io)? != header {
            return Err(FrameError::Changed { name: self.name.to_string() });
        }
        Ok(())
    }

    /// Writes `state` as a whole new frame, which takes the place of this one. Returns the header written and
    /// the new entries, with the sums of their chunks. `source` is a snapshot of `state`.
    pub(crate) fn rewrite(
        &mut self,
        old: &State,
        state: &State,
        source: &SuperChunk,
        sums: Option<&ChunkSums>,
        checksums: bool,
    ) -> Result<(Bytes, Vec<i64>, Option<ChunkSums>), FrameError> {
        self.check_unchanged(&old.header)?;
        if let (Home::Disk { force: false, .. }, links) =
            (&self.home, self.file.hard_links().map_err(FrameError::io(&*self.name))?)
            && links > 1
        {
            return Err(FrameError::HardLinks { name: self.name.to_string(), links });
        }
        let whole = Whole { header_len: self.header_len, state, source, sums, checksums };
        let (header, entries, sums, pages, len) = match &self.home {
            Home::Memory(_) => {
                let Rewritten { place, header, entries, sums, pages, len } = whole.memory()?;
                let memory = Arc::new(MemoryFile::new(place));
                self.file = memory.clone();
                self.home = Home::Memory(memory);
                (header, entries, sums, pages, len)
            }
            Home::Disk { fs, path, lock, .. } => {
                let target = Target { fs: fs.clone(), overwrite: true, durability: self.durability };
                let before_rename = || lock.as_ref().map_or(Ok(0), FrameLock::count_change);
                let result = whole.disk(target, path, before_rename);
                // The frame is the new one then, which this store does not hold.
                self.broken |= matches!(result, Err(FrameError::NotSynced { .. }));
                let Rewritten { place, header, entries, sums, pages, len } = result?;
                self.file = place;
                (header, entries, sums, pages, len)
            }
        };
        // Nothing may fail from here on: the new frame is there.
        self.unsafe_name = false;
        self.written += len;
        (self.committed, self.at, self.high) = (len, len, len);
        self.pages = pages;
        self.buf.clear();
        // Earlier snapshots keep the old file.
        self.watch = Arc::new(Watch { rollbacks: AtomicU64::new(0), committed: AtomicU64::new(len) });
        Ok((header, entries, sums))
    }

    /// Forgets what was put since the last commit.
    pub(crate) fn rollback(&mut self) {
        if self.broken {
            return;
        }
        if self.has_staged() || self.high > self.committed {
            self.watch.rollbacks.fetch_add(1, Ordering::SeqCst);
        }
        self.buf.clear();
        self.at = self.committed;
        self.lost = false;
        // If this fails the next commit does it.
        let _ = self.cut(self.committed);
    }

    /// The buffer of a frame in memory.
    pub(crate) fn memory(&self) -> Option<&Arc<MemoryFile>> {
        match &self.home {
            Home::Memory(memory) => Some(memory),
            Home::Disk { .. } => None,
        }
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
        // Afterwards, as the bytes may have been overwritten meanwhile.
        let end = offset + buf.len() as u64;
        if end > self.watch.committed.load(Ordering::SeqCst)
            && self.watch.rollbacks.load(Ordering::SeqCst) != self.rollbacks
        {
            return Err(io::Error::other("this part of the snapshot was never committed"));
        }
        result
    }

    fn identity(&self) -> io::Result<Option<FileId>> {
        self.file.identity()
    }
}
