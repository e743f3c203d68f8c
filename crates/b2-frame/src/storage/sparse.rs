//! The files of sparse frames (docs/format/frame-sparse.md): a directory with an index file and one
//! file per chunk.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use crate::FrameError;
use crate::names::{FrameFile, INDEX_NAME, chunk_name};
use crate::storage::files::{FrameFiles, OpenFile, open_file};
use crate::storage::lock::LockFileVersion;
use crate::storage::request_stats::RequestStats;
use crate::storage::traits::{FileId, Links, ReadAt, ReadFiles};

/// The files of a sparse frame. Chunk files are opened when they are read.
pub(crate) struct Sparse {
    fs: Arc<dyn ReadFiles>,
    dir: PathBuf,
    /// The path of the index file.
    index_path: PathBuf,
    index: OpenFile,
    watch: Arc<IndexWatch>,
    /// For snapshots with uncommitted chunks: the number of rollbacks when the snapshot was taken.
    rollbacks: Option<u64>,
    guard: Option<Arc<LockFileVersion>>,
}

/// Knows the newest index file. A chunk file belongs to the state that was read only while this
/// index file is in place: afterwards another chunk may get its number.
pub(crate) struct IndexWatch {
    /// The file is kept open so that no other file gets its identity.
    current: Mutex<(Option<FileId>, Arc<dyn ReadAt>)>,
    pub(crate) rollbacks: AtomicU64,
    /// The frame is new: there is no index file yet.
    new: bool,
}

impl IndexWatch {
    pub(crate) fn new(index: Arc<dyn ReadAt>) -> io::Result<Self> {
        Ok(Self { current: Mutex::new((index.identity()?, index)), rollbacks: AtomicU64::new(0), new: false })
    }

    /// Watches a new frame, whose index is written last.
    pub(crate) fn of_new(index: Arc<dyn ReadAt>) -> io::Result<Self> {
        Ok(Self { new: true, ..Self::new(index)? })
    }

    /// Records that another index file has replaced the last one.
    pub(crate) fn advance(&self, index: Arc<dyn ReadAt>) -> io::Result<()> {
        let identity = index.identity()?;
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = (identity, index);
        Ok(())
    }

    /// Returns whether the index file at `path` is still the known one.
    pub(crate) fn is_current(&self, fs: &dyn ReadFiles, path: &Path) -> io::Result<bool> {
        if cfg!(windows) {
            return self.is_same(fs, path);
        }
        let found = match fs.identity(path, Links::Refuse) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(self.new),
            found => found?,
        };
        Ok(found == self.current.lock().unwrap_or_else(PoisonError::into_inner).0)
    }
}

impl IndexWatch {
    /// Like [`is_current`](Self::is_current) if the index file is not kept open: another file may then have the same
    /// identity, so the content is compared, too.
    fn is_same(&self, fs: &dyn ReadFiles, path: &Path) -> io::Result<bool> {
        let found = match fs.open(path, Links::Refuse) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(self.new),
            found => found?,
        };
        let (identity, known) = self.current.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let len = known.len()?;
        Ok(found.identity()? == identity
            && found.len()? == len
            && (len > MAX_CACHED_INDEX_LEN || found.read_at(0..len)? == known.read_at(0..len)?))
    }
}

/// The longest index file that is held in memory.
const MAX_CACHED_INDEX_LEN: u64 = 64 << 20;

/// An index file that was read as a whole. Windows does not rename a file over one that is open, so one that stays open
/// would keep everybody from changing the frame.
pub(crate) struct CachedIndex {
    bytes: Bytes,
    identity: Option<FileId>,
}

impl CachedIndex {
    /// Returns the file; on Windows, its current version.
    pub(crate) fn of(file: Arc<dyn ReadAt>) -> io::Result<Arc<dyn ReadAt>> {
        if !cfg!(windows) || file.len()? > MAX_CACHED_INDEX_LEN {
            return Ok(file);
        }
        Ok(Arc::new(Self { bytes: file.read_at(0..file.len()?)?, identity: file.identity()? }))
    }
}

impl ReadAt for CachedIndex {
    fn len(&self) -> io::Result<u64> {
        ReadAt::len(&self.bytes)
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.bytes.read_exact_at(offset, buf)
    }

    fn read_at(&self, range: Range<u64>) -> io::Result<Bytes> {
        self.bytes.read_at(range)
    }

    fn identity(&self) -> io::Result<Option<FileId>> {
        Ok(self.identity)
    }
}

impl Sparse {
    pub(crate) fn open(
        fs: Arc<dyn ReadFiles>,
        dir: PathBuf,
        guard: Option<Arc<LockFileVersion>>,
    ) -> Result<Self, FrameError> {
        let path = dir.join(INDEX_NAME);
        let mut index = open_file(&*fs, &path, Links::Refuse, 0)?;
        if fs.is_local() {
            let held = CachedIndex::of(index.storage().clone()).map_err(FrameError::io(index.name()))?;
            if !Arc::ptr_eq(&held, index.storage()) {
                index = OpenFile::new(held, index.name(), 0)?;
            }
        }
        let index = index.guarded(guard.as_ref());
        Self::new(fs, dir, index, guard)
    }

    /// Creates the files of the directory `dir`, whose index file is open.
    pub(crate) fn new(
        fs: Arc<dyn ReadFiles>,
        dir: PathBuf,
        index: OpenFile,
        guard: Option<Arc<LockFileVersion>>,
    ) -> Result<Self, FrameError> {
        let watch = IndexWatch::new(index.storage().clone());
        let watch = Arc::new(watch.map_err(FrameError::io(index.name()))?);
        Ok(Self { fs, index_path: dir.join(INDEX_NAME), dir, index, watch, rollbacks: None, guard })
    }

    /// Reads the index from another file, which has the same identity.
    pub(crate) fn with_index(self, index: OpenFile) -> Self {
        Self { index, ..self }
    }

    /// Opens the files for a snapshot of a frame that is being changed.
    pub(crate) fn snapshot(
        fs: Arc<dyn ReadFiles>,
        dir: PathBuf,
        index: OpenFile,
        watch: Arc<IndexWatch>,
        uncommitted: bool,
    ) -> Self {
        let rollbacks = uncommitted.then(|| watch.rollbacks.load(Ordering::SeqCst));
        Self { fs, index_path: dir.join(INDEX_NAME), dir, index, watch, rollbacks, guard: None }
    }
}

impl FrameFiles for Sparse {
    fn in_flight(&self) -> usize {
        self.index.in_flight()
    }

    fn request_stats(&self) -> Option<&RequestStats> {
        self.index.storage().request_stats()
    }

    fn open(&self, file: FrameFile) -> Result<OpenFile, FrameError> {
        let FrameFile::Chunk(id) = file else { return Ok(self.index.clone()) };
        let opened = open_file(&*self.fs, &self.dir.join(chunk_name(id)), Links::Refuse, 0);
        // Check after opening, since the file can be removed and its name reused at any moment.
        let current = self.watch.is_current(&*self.fs, &self.index_path);
        let rolled_back =
            self.rollbacks.is_some_and(|rollbacks| rollbacks != self.watch.rollbacks.load(Ordering::SeqCst));
        if rolled_back || !current.map_err(FrameError::io(self.index.name()))? {
            return Err(FrameError::Changed { name: self.dir.display().to_string() });
        }
        opened.map(|file| file.guarded(self.guard.as_ref()))
    }
}
