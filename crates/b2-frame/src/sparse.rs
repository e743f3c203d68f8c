//! Sparse frames (docs/format/frame-sparse.md): a directory with an index file and a file for each chunk.

#![cfg_attr(
    not(test),
    deny(
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::string_slice,
        clippy::unreachable,
        clippy::unwrap_used,
        reason = "reads bytes from outside"
    )
)]

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::FrameError;
use crate::plan::{FrameFile, FrameFiles, OpenFile};
use crate::staging::is_temporary;
use crate::storage::{FileId, FileKind, FileSystem, Links, ReadAt};

/// Name of the index file.
pub const INDEX_NAME: &str = "chunks.b2frame";
/// Name of the lock file that other programs may leave in the directory.
pub(crate) const LOCK_NAME: &str = ".b2lock";

/// Name of the file with chunk `id`.
pub(crate) fn chunk_name(id: u32) -> String {
    format!("{id:08X}.chunk")
}

/// Whether a sparse frame may hold a file of that name.
pub(crate) fn is_member(name: &str) -> bool {
    let is_chunk = name.strip_suffix(".chunk").is_some_and(|id| {
        id.len() == 8 && id.bytes().all(|b| b.is_ascii_digit() || (b'A'..=b'F').contains(&b))
    });
    is_chunk || name == INDEX_NAME || name == LOCK_NAME || is_temporary(name)
}

/// The id in the name of a chunk file.
pub(crate) fn chunk_id(name: &str) -> Option<u32> {
    let id = u32::from_str_radix(name.strip_suffix(".chunk")?, 16).ok()?;
    (chunk_name(id) == name).then_some(id)
}

/// The files of a sparse frame. Chunk files are opened when they are read.
pub(crate) struct Sparse {
    fs: Arc<dyn FileSystem>,
    dir: PathBuf,
    index: OpenFile,
    watch: Arc<IndexWatch>,
    /// For snapshots with chunks that are not committed: how often there had been a rollback.
    rollbacks: Option<u64>,
}

/// Which index file is the newest that is known. A chunk file belongs to the state that was read only as long
/// as the index file has not been replaced: afterwards its number may have been given to another chunk.
pub(crate) struct IndexWatch {
    /// The file is kept open so that its identity is not given to another one.
    current: Mutex<(Option<FileId>, Arc<dyn ReadAt>)>,
    pub(crate) rollbacks: AtomicU64,
}

impl IndexWatch {
    pub(crate) fn new(index: Arc<dyn ReadAt>) -> io::Result<Self> {
        Ok(Self { current: Mutex::new((index.identity()?, index)), rollbacks: AtomicU64::new(0) })
    }

    /// Another index file has taken the place of the last one.
    pub(crate) fn advance(&self, index: Arc<dyn ReadAt>) -> io::Result<()> {
        let identity = index.identity()?;
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = (identity, index);
        Ok(())
    }

    /// Whether the index file in `dir` is still the one that is known.
    pub(crate) fn is_current(&self, fs: &dyn FileSystem, dir: &Path) -> io::Result<bool> {
        let found = match fs.identity(&dir.join(INDEX_NAME), Links::Refuse) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            found => found?,
        };
        Ok(found == self.current.lock().unwrap_or_else(PoisonError::into_inner).0)
    }
}

impl Sparse {
    pub(crate) fn open(fs: Arc<dyn FileSystem>, dir: PathBuf) -> Result<Self, FrameError> {
        let path = dir.join(INDEX_NAME);
        let index = open_file(&*fs, &path, Links::Refuse, 0)?;
        let watch = IndexWatch::new(index.storage().clone());
        let watch = Arc::new(watch.map_err(FrameError::io(path.display().to_string()))?);
        Ok(Self { fs, dir, index, watch, rollbacks: None })
    }

    /// For snapshots of a frame that is being changed.
    pub(crate) fn snapshot(
        fs: Arc<dyn FileSystem>,
        dir: PathBuf,
        index: OpenFile,
        watch: Arc<IndexWatch>,
        uncommitted: bool,
    ) -> Self {
        let rollbacks = uncommitted.then(|| watch.rollbacks.load(Ordering::SeqCst));
        Self { fs, dir, index, watch, rollbacks }
    }
}

impl FrameFiles for Sparse {
    fn open(&self, file: FrameFile) -> Result<OpenFile, FrameError> {
        let FrameFile::Chunk(id) = file else { return Ok(self.index.clone()) };
        let opened = open_file(&*self.fs, &self.dir.join(chunk_name(id)), Links::Refuse, 0);
        // Afterwards, as the file may be given up and its name used again at any moment.
        let current = self.watch.is_current(&*self.fs, &self.dir);
        let rolled_back =
            self.rollbacks.is_some_and(|rollbacks| rollbacks != self.watch.rollbacks.load(Ordering::SeqCst));
        if rolled_back || !current.map_err(FrameError::io(self.index.name()))? {
            return Err(FrameError::Changed { name: self.dir.display().to_string() });
        }
        opened
    }
}

/// Opens a regular file; anything else is refused without being opened.
pub(crate) fn open_file(
    fs: &dyn FileSystem,
    path: &Path,
    links: Links,
    base: u64,
) -> Result<OpenFile, FrameError> {
    let name = path.display().to_string();
    match fs.kind(path, links).map_err(FrameError::io(&*name))? {
        FileKind::File => {}
        _ => return Err(FrameError::NotRegular { path: path.to_owned(), or_directory: false }),
    }
    let file = fs.open(path, links).map_err(FrameError::io(&*name))?;
    OpenFile::new(file, name, base)
}
