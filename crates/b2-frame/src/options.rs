use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use b2_chunk::{DParams, Limits, Plugins};
use bytes::Bytes;

use crate::checksums::Compare;
use crate::contiguous::Contiguous;
use crate::header::{MAGIC, Storage};
use crate::metalayers::{MAX_METALAYERS, MAX_VLMETALAYERS};
use crate::open::OpenPlan;
use crate::plan::{Extent, FrameFile, FrameFiles, OpenFile, drive};
use crate::redo::{Redo, Repaired};
use crate::sparse::{INDEX_NAME, Sparse, open_file};
use crate::staging::Durability;
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
    pub(crate) dparams: DParams,
    pub(crate) fs: Arc<dyn FileSystem>,
    pub(crate) durability: Durability,
    pub(crate) lock: bool,
    pub(crate) max_vlmetalayers: usize,
    pub(crate) force: bool,
    pub(crate) checksums: bool,
    pub(crate) compare: Compare,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            dparams: DParams::default(),
            fs: Arc::new(Disk),
            durability: Durability::Sync,
            lock: true,
            max_vlmetalayers: MAX_METALAYERS,
            force: false,
            checksums: true,
            compare: Compare::default(),
        }
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

    /// For changing: whether commits must survive a power loss (the default).
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// For changing: whether to hold the lock beside the frame (the default), which keeps other writers away,
    /// those of C-Blosc2 too if locking is switched on there. Reading needs no lock.
    pub fn lock(mut self, lock: bool) -> Self {
        self.lock = lock;
        self
    }

    /// For changing: whether there may be more than 16 vlmetalayers. C-Blosc2 opens such a frame, but destroys
    /// it when it changes it.
    pub fn many_vlmetalayers(mut self, many: bool) -> Self {
        self.max_vlmetalayers = if many { MAX_VLMETALAYERS } else { MAX_METALAYERS };
        self
    }

    /// For changing: whether bytes behind the frame that are not part of it may be destroyed, and a file that
    /// has several names may be replaced under one of them.
    pub fn force(mut self, force: bool) -> Self {
        self.force = force;
        self
    }

    /// Whether checksums, where the frame has them, are compared (the default): those of header, index and metadata
    /// when it is opened, those of chunks as [`compare`](Self::compare) says. For changing: whether they are kept up;
    /// without, the next commit drops them.
    pub fn checksums(mut self, checksums: bool) -> Self {
        self.checksums = checksums;
        self
    }

    /// When chunks are compared with their checksums on decoding: by default where it costs little. What is changed is
    /// compared in any case.
    pub fn compare(mut self, compare: Compare) -> Self {
        self.compare = compare;
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
            FileKind::Directory => self.open_steadily(path, 0, || {
                let files = Sparse::open(self.fs.clone(), path.to_owned())?;
                let index = files.open(FrameFile::Main)?;
                Ok((self.open_files(Arc::new(files), Storage::Sparse, false), index))
            }),
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
        let path = path.as_ref();
        self.open_steadily(path, offset, || {
            let file = open_file(&*self.fs, path, Links::Follow, offset)?;
            Ok((self.open_contiguous(file.clone(), offset), file))
        })
    }

    fn open_contiguous(&self, file: OpenFile, offset: u64) -> Result<SuperChunk, FrameError> {
        let open = |file: OpenFile| self.open_files(Arc::new(Contiguous(file)), Storage::Contiguous, false);
        let result = open(file.clone());
        let suspect = match &result {
            Ok(schunk) => schunk.header().frame_len() < file.len(),
            Err(_) => true,
        };
        if suspect && offset == 0 {
            // A commit may have been cut short while it wrote the header.
            let limit = self.dparams.limits.max_metadata;
            let redo = Redo::pending(&**file.storage(), limit).map_err(FrameError::io(file.name()))?;
            if let Some(redo) = redo {
                let repaired = Repaired { file: file.storage().clone(), redo };
                return open(OpenFile::new(Arc::new(repaired), file.name(), 0)?);
            }
        }
        result
    }

    /// Opens until nobody has changed the header meanwhile: without a lock, header, index and trailer could
    /// otherwise be of different states.
    fn open_steadily(
        &self,
        path: &Path,
        offset: u64,
        open: impl Fn() -> Result<(Result<SuperChunk, FrameError>, OpenFile), FrameError>,
    ) -> Result<SuperChunk, FrameError> {
        const TRIES: u32 = 100;
        let mut failed_at = None;
        for _ in 0..TRIES {
            let (result, file) = open()?;
            match result {
                Ok(mut schunk) => {
                    let header = schunk.layout().header.clone();
                    // Through the same files, so that a repaired header is compared with itself.
                    let again =
                        schunk.files.open(FrameFile::Main)?.read(&Extent::exactly(FrameFile::Main, header));
                    let same = again.is_ok_and(|header| header == schunk.opened().header_bytes);
                    if same {
                        let source = Source { options: self.clone(), path: path.to_owned(), offset };
                        schunk.source = Some(Arc::new(source));
                        return Ok(schunk);
                    }
                }
                // Lengths are compared before anything is read: the end has moved since, as a writer cut off its
                // redo record.
                Err(FrameError::Io { source, .. }) if source.kind() == ErrorKind::UnexpectedEof => {}
                Err(error) => {
                    let page = file.read(&Extent::at_most(FrameFile::Main, 0..PAGE)).ok();
                    if page.is_none() || failed_at == page {
                        return Err(error);
                    }
                    failed_at = page;
                }
            }
            std::thread::yield_now();
        }
        Err(FrameError::Changed { name: path.display().to_string() })
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
        let plan = OpenPlan::new(len, storage, &self.dparams).checksums(self.checksums);
        let opened = drive(if whole { plan.whole() } else { plan }, &*files)?;
        Ok(SuperChunk::new(opened, files, self.dparams.clone()).with_compare(self.compare))
    }
}

/// Compared after a failure, in bytes: a header that has changed may explain it.
const PAGE: u64 = 4096;

/// Where a super-chunk was opened.
#[derive(Debug)]
pub(crate) struct Source {
    options: OpenOptions,
    path: PathBuf,
    offset: u64,
}

impl Source {
    pub(crate) fn new(options: &OpenOptions, path: &Path) -> Self {
        Self { options: options.clone(), path: path.to_owned(), offset: 0 }
    }

    /// The newest state, if it is another one than that of `schunk`.
    pub(crate) fn newer_than(&self, schunk: &SuperChunk) -> Result<Option<SuperChunk>, FrameError> {
        let OpenOptions { fs, .. } = &self.options;
        let ours = schunk.files.open(FrameFile::Main)?.storage().identity();
        let main = match schunk.storage() {
            Storage::Contiguous => self.path.clone(),
            Storage::Sparse => self.path.join(INDEX_NAME),
        };
        // Any failure is told by opening.
        if let (Ok(Some(ours)), Ok(Some(theirs))) = (ours, fs.identity(&main, Links::Follow))
            && ours == theirs
            && let Ok(file) = open_file(&**fs, &main, Links::Follow, self.offset)
            && let header = Extent::exactly(FrameFile::Main, schunk.layout().header.clone())
            && file.read(&header).is_ok_and(|header| header == schunk.opened().header_bytes)
        {
            return Ok(None);
        }
        let newest = match schunk.storage() {
            Storage::Contiguous => self.options.open_at(&self.path, self.offset)?,
            Storage::Sparse => self.options.open(&self.path)?,
        };
        Ok(Some(newest))
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
