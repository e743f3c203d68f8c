use std::path::Path;
use std::sync::Arc;

use b2_chunk::{DParams, Limits, Plugins};
use bytes::Bytes;

use crate::contiguous::Contiguous;
use crate::header::{MAGIC, Storage};
use crate::open::OpenPlan;
use crate::plan::{Extent, FrameFile, FrameFiles, OpenFile, drive};
use crate::sparse::{Sparse, open_file};
use crate::storage::{FileKind, FileSystem, Links};
use crate::{Disk, FrameError, SuperChunk};

/// How to open a frame. Made by [`SuperChunk::options`].
///
/// ```no_run
/// use b2_frame::SuperChunk;
/// use b2_chunk::Limits;
///
/// // Refuse to decompress chunks above 64 MiB.
/// let limits = Limits::default().with_max_chunk_nbytes(64 << 20);
/// let schunk = SuperChunk::options().limits(limits).open("untrusted.b2frame")?;
/// # Ok::<(), b2_frame::FrameError>(())
/// ```
#[derive(Clone, Debug)]
pub struct OpenOptions {
    dparams: DParams,
    fs: Arc<dyn FileSystem>,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self { dparams: DParams::default(), fs: Arc::new(Disk) }
    }
}

impl OpenOptions {
    /// Sets where codecs and filters are looked up.
    pub fn plugins(mut self, plugins: Plugins) -> Self {
        self.dparams.plugins = plugins;
        self
    }

    /// Sets what the frame may cost.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.dparams.limits = limits;
        self
    }

    /// Sets the file system that paths are looked up in.
    pub fn file_system(mut self, fs: Arc<dyn FileSystem>) -> Self {
        self.fs = fs;
        self
    }

    /// Opens the file of a contiguous frame or the directory of a sparse one.
    ///
    /// # Errors
    /// As [`SuperChunk::open`].
    pub fn open(&self, path: impl AsRef<Path>) -> Result<SuperChunk, FrameError> {
        let path = path.as_ref();
        match kind(&*self.fs, path)? {
            FileKind::File => self.open_at(path, 0),
            FileKind::Directory => {
                let files = Sparse::open(self.fs.clone(), path.to_owned())?;
                self.open_files(Arc::new(files), Storage::Sparse, false)
            }
            FileKind::Link | FileKind::Other => {
                Err(FrameError::NotRegular { path: path.to_owned(), or_directory: true })
            }
        }
    }

    /// Opens a contiguous frame that starts at byte `offset` of a file.
    ///
    /// # Errors
    /// As [`SuperChunk::open`].
    pub fn open_at(&self, path: impl AsRef<Path>, offset: u64) -> Result<SuperChunk, FrameError> {
        let file = open_file(&*self.fs, path.as_ref(), Links::Follow, offset)?;
        self.open_files(Arc::new(Contiguous(file)), Storage::Contiguous, false)
    }

    /// Opens a contiguous frame in memory.
    ///
    /// # Errors
    /// As [`SuperChunk::from_bytes`].
    pub fn open_bytes(&self, frame: impl Into<Bytes>) -> Result<SuperChunk, FrameError> {
        let file = OpenFile::new(Arc::new(frame.into()), "frame in memory", 0)?;
        self.open_files(Arc::new(Contiguous(file)), Storage::Contiguous, true)
    }

    /// Opens a frame from storage of the caller's. `whole`: the main file must end where the frame ends.
    ///
    /// # Errors
    /// When the files cannot be read or are not a frame.
    pub fn open_files(
        &self,
        files: Arc<dyn FrameFiles>,
        storage: Storage,
        whole: bool,
    ) -> Result<SuperChunk, FrameError> {
        let len = files.open(FrameFile::Main)?.len();
        let plan = OpenPlan::new(len, storage, &self.dparams);
        let opened = drive(if whole { plan.whole() } else { plan }, &*files)?;
        Ok(SuperChunk::new(opened, files, self.dparams.clone()))
    }
}

/// What a path holds, as [`sniff`] finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A file that starts as a contiguous frame does.
    ContiguousFrame,
    /// A directory, which may be that of a sparse frame.
    SparseFrame,
    /// Any other file: a bare chunk, if it is one of ours.
    Chunk,
}

/// Finds out what a path holds, by content. Nothing marks a bare chunk, so every other file may be one.
///
/// # Errors
/// When there is no such file, or it is a FIFO, device or socket; those are not opened.
pub fn sniff(path: impl AsRef<Path>) -> Result<Kind, FrameError> {
    let path = path.as_ref();
    match kind(&Disk, path)? {
        FileKind::Directory => Ok(Kind::SparseFrame),
        FileKind::File => {
            let file = open_file(&Disk, path, Links::Follow, 0)?;
            let start = file.read(&Extent::at_most(FrameFile::Main, 0..MAGIC.len() as u64))?;
            Ok(if *start == MAGIC { Kind::ContiguousFrame } else { Kind::Chunk })
        }
        FileKind::Link | FileKind::Other => {
            Err(FrameError::NotRegular { path: path.to_owned(), or_directory: true })
        }
    }
}

fn kind(fs: &dyn FileSystem, path: &Path) -> Result<FileKind, FrameError> {
    fs.kind(path, Links::Follow).map_err(FrameError::io(path.display().to_string()))
}
