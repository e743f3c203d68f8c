use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use b2_chunk::{DParams, Plugins};
use b2_core::{Control, Limits};
use bytes::Bytes;

use crate::format::checksums::Checksums;
use crate::format::header::{MAGIC, Storage};
use crate::names::FrameFile;
use crate::names::{INDEX_NAME, LOCK_NAME};
use crate::read::compare::Compare;
use crate::read::open::{OpenPlan, Opened};
use crate::read::plan::drive;
use crate::storage::anchored::anchored;
use crate::storage::contiguous::Contiguous;
use crate::storage::files::{Extent, FrameFiles, OpenFile};
use crate::storage::guard::Guard;
use crate::storage::lock::beside;
use crate::storage::redo::{Redo, Repaired};
use crate::storage::sparse::{Sparse, open_file};
use crate::storage::traits::{FileKind, FileSystem, Links, ReadAt};
use crate::{Disk, FrameError, ReadCosts, SuperChunk};

/// Options for opening a frame for reading. Returned by [`SuperChunk::options`].
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
pub struct ReadOptions {
    pub(crate) dparams: DParams,
    pub(crate) fs: Arc<dyn FileSystem>,
    pub(crate) offset: u64,
    pub(crate) checksums: bool,
    pub(crate) compare: Compare,
    pub(crate) costs: ReadCosts,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            dparams: DParams::default(),
            fs: Arc::new(Disk),
            offset: 0,
            checksums: true,
            compare: Compare::default(),
            costs: ReadCosts::default(),
        }
    }
}

impl ReadOptions {
    /// Sets the available codecs and filters.
    pub fn plugins(mut self, plugins: Plugins) -> Self {
        self.dparams.plugins = plugins;
        self
    }

    /// Sets limits on the memory and output that the frame may cost.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.dparams.limits = limits;
        self
    }

    /// Sets the threads and the progress callback of calls.
    pub fn control(mut self, control: Control) -> Self {
        self.dparams.control = control;
        self
    }

    /// Sets the file system.
    pub fn file_system(mut self, fs: Arc<dyn FileSystem>) -> Self {
        self.fs = fs;
        self
    }

    /// Sets the offset of a contiguous frame in its file, buffer or reader, in bytes. The default
    /// is 0.
    pub fn offset(mut self, offset: u64) -> Self {
        self.offset = offset;
        self
    }

    /// Sets whether existing checksums are compared (the default): those of header, index and
    /// metadata on opening, those of chunks according to [`compare`](Self::compare).
    pub fn checksums(mut self, checksums: bool) -> Self {
        self.checksums = checksums;
        self
    }

    /// Sets when chunks are compared with their checksums on decoding. The default is
    /// [`Compare::Once`]. Chunks that are changed are always compared.
    pub fn compare(mut self, compare: Compare) -> Self {
        self.compare = compare;
        self
    }

    /// Sets the read costs, which decide what is read at once. The default is [`ReadCosts::LOCAL`].
    pub fn costs(mut self, costs: ReadCosts) -> Self {
        self.costs = costs;
        self
    }

    /// Opens a contiguous frame (a file) or a sparse frame (a directory).
    ///
    /// # Errors
    /// As for [`SuperChunk::open`].
    pub fn open(&self, path: impl AsRef<Path>) -> Result<SuperChunk, FrameError> {
        let path = path.as_ref();
        let fs = anchored(&self.fs, path)?;
        Self { fs, ..self.clone() }.open_anchored(path)
    }

    fn open_anchored(&self, path: &Path) -> Result<SuperChunk, FrameError> {
        // Most frames are files, and opening shows whether this is one, so do not query the type first.
        let error = match self.open_file(path) {
            Err(error) if self.offset == 0 && may_be_directory(&error) => error,
            // Only a file can have an offset.
            result => return result,
        };
        match kind(&*self.fs, path)? {
            FileKind::File => Err(error),
            FileKind::Directory => self.open_steadily(path, &path.join(LOCK_NAME), |guard| {
                let files = Sparse::open(self.fs.clone(), path.to_owned(), guard.cloned())?;
                let index = files.open(FrameFile::Main)?;
                Ok((self.open_files(Arc::new(files), Storage::Sparse, false), index))
            }),
            FileKind::Link | FileKind::Other => {
                Err(FrameError::NotRegular { path: path.to_owned(), or_directory: true })
            }
        }
    }

    fn open_file(&self, path: &Path) -> Result<SuperChunk, FrameError> {
        self.open_steadily(path, &beside(path), |guard| {
            let file = open_file(&*self.fs, path, Links::Follow, self.offset)?.guarded(guard);
            Ok((self.open_contiguous(file.clone()), file))
        })
    }

    /// Opens a contiguous frame from anything that supports positioned reads, such as a member of
    /// an archive or an object in a store. `name` appears in errors. Bytes after the frame are
    /// ignored.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use b2_frame::{FrameParams, FrameWriter, SuperChunk};
    ///
    /// let frame = FrameWriter::memory(FrameParams::new(4))?.finish()?.into_bytes();
    /// let archive = bytes::Bytes::from([b"before", &frame[..], b"behind"].concat());
    /// let schunk = SuperChunk::options().offset(6).from_reader(Arc::new(archive), "archive, member 1")?;
    /// assert_eq!(schunk.typesize(), 4);
    /// # Ok::<(), b2_frame::FrameError>(())
    /// ```
    ///
    /// # Errors
    /// As for [`SuperChunk::open`].
    pub fn from_reader(
        &self,
        reader: Arc<dyn ReadAt>,
        name: impl Into<Arc<str>>,
    ) -> Result<SuperChunk, FrameError> {
        self.open_contiguous(OpenFile::new(reader, name, self.offset)?)
    }

    fn open_contiguous(&self, file: OpenFile) -> Result<SuperChunk, FrameError> {
        let open = |file: OpenFile| self.open_files(Arc::new(Contiguous(file)), Storage::Contiguous, false);
        let result = open(file.clone());
        let suspect = match &result {
            Ok(schunk) => schunk.header().frame_len() < file.len(),
            Err(_) => true,
        };
        if suspect && self.offset == 0 {
            // A commit may have been interrupted while it wrote the header.
            let limit = self.dparams.limits.max_metadata;
            let redo = Redo::pending(&**file.storage(), limit).map_err(FrameError::io(file.name()))?;
            if let Some(redo) = redo {
                let repaired = Repaired { file: file.storage().clone(), redo };
                return open(OpenFile::new(Arc::new(repaired), file.name(), 0)?);
            }
        }
        result
    }

    /// Opens the frame, and repeats that if it changed meanwhile. Readers take no lock, so header,
    /// index and trailer could otherwise belong to different states.
    fn open_steadily(
        &self,
        path: &Path,
        lock: &Path,
        open: impl Fn(Option<&Arc<Guard>>) -> Result<(Result<SuperChunk, FrameError>, OpenFile), FrameError>,
    ) -> Result<SuperChunk, FrameError> {
        const TRIES: u32 = 100;
        let mut failed_at = None;
        for _ in 0..TRIES {
            let guard = match self.offset {
                0 => Guard::wait(&self.fs, lock, &self.dparams)?,
                _ => None,
            };
            let (result, file) = open(guard.as_ref())?;
            match result {
                Ok(mut schunk) => {
                    let header = schunk.layout().header.clone();
                    // Read through the same files, so that a repaired header is compared with
                    // itself.
                    let again =
                        schunk.files.open(FrameFile::Main)?.read(&Extent::exactly(FrameFile::Main, header));
                    let same = again.is_ok_and(|header| header == schunk.opened().header_bytes);
                    let compared = schunk.checksums() == Checksums::Ok && self.compare != Compare::Never;
                    let watching = guard.as_ref().filter(|_| !compared);
                    watching.inspect(|guard| guard.watch());
                    // A lock file has appeared meanwhile.
                    let same = same && watching.is_none_or(|guard| guard.is_unchanged());
                    if same {
                        let source = FrameOrigin { guard, ..FrameOrigin::new(self, path) };
                        schunk.source = Some(Arc::new(source));
                        return Ok(schunk);
                    }
                }
                // Lengths are checked before anything is read, so the end has moved: a writer
                // truncated its redo record.
                Err(FrameError::Io { source, .. }) if source.kind() == ErrorKind::UnexpectedEof => {}
                // Changed by a writer that counts its changes in the lock file.
                Err(FrameError::Changed { .. }) => {}
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
    /// As for [`SuperChunk::from_bytes`].
    pub fn from_bytes(&self, frame: impl Into<Bytes>) -> Result<SuperChunk, FrameError> {
        let file = OpenFile::new(Arc::new(frame.into()), "frame in memory", self.offset)?;
        self.open_files(Arc::new(Contiguous(file)), Storage::Contiguous, true)
    }

    /// Opens a frame from custom storage. With `whole`, the main file must end where the frame
    /// ends.
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
        let plan = self.open_plan(len, storage);
        let opened = drive(if whole { plan.whole() } else { plan }, &*files)?;
        Ok(self.opened(opened, files))
    }

    /// Returns the plan that opens a frame of `len` bytes with these options, for drivers other
    /// than [`Driver`](crate::Driver). [`opened`](Self::opened) takes its result.
    pub fn open_plan(&self, len: u64, storage: Storage) -> OpenPlan {
        OpenPlan::new(len, storage, &self.dparams).checksums(self.checksums)
    }

    /// Returns the super-chunk that a finished [`open_plan`](Self::open_plan) has opened.
    pub fn opened(&self, opened: Opened, files: Arc<dyn FrameFiles>) -> SuperChunk {
        let schunk = SuperChunk::new(opened, files, self.dparams.clone());
        schunk.with_compare(self.compare).with_costs(self.costs)
    }

    /// Returns the offset of the frame in its file, in bytes.
    pub fn frame_offset(&self) -> u64 {
        self.offset
    }
}

/// Length of the header compared after a failure, in bytes. If it changed, that may explain the
/// failure.
const PAGE: u64 = 4096;

/// The path and options with which a super-chunk was opened.
#[derive(Debug)]
pub(crate) struct FrameOrigin {
    options: ReadOptions,
    pub(crate) path: PathBuf,
    guard: Option<Arc<Guard>>,
}

impl FrameOrigin {
    pub(crate) fn new(options: &ReadOptions, path: &Path) -> Self {
        Self { options: options.clone(), path: path.to_owned(), guard: None }
    }

    /// Returns the newest state if it differs from that of `schunk`.
    pub(crate) fn newer_than(&self, schunk: &SuperChunk) -> Result<Option<SuperChunk>, FrameError> {
        let ReadOptions { fs, offset, .. } = &self.options;
        let ours = schunk.files.open(FrameFile::Main)?.storage().identity();
        let main = match schunk.storage() {
            Storage::Contiguous => self.path.clone(),
            Storage::Sparse => self.path.join(INDEX_NAME),
        };
        // Failures here are ignored, since opening the frame will report them.
        if let (Ok(Some(ours)), Ok(Some(theirs))) = (ours, fs.identity(&main, Links::Follow))
            && ours == theirs
            && self.guard.as_ref().is_none_or(|guard| guard.is_unchanged())
            && let Ok(file) = open_file(&**fs, &main, Links::Follow, *offset)
            && let header = Extent::exactly(FrameFile::Main, schunk.layout().header.clone())
            && file.read(&header).is_ok_and(|header| header == schunk.opened().header_bytes)
        {
            return Ok(None);
        }
        Ok(Some(self.options.open(&self.path)?))
    }
}

/// The content of a path, as determined by [`sniff`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PathKind {
    /// A file that starts with the magic number of a frame.
    ContiguousFrame,
    /// A directory, which may be a sparse frame.
    SparseFrame,
    /// Any other file, which may be a bare chunk.
    Chunk,
}

/// Determines what a path holds from its content. Bare chunks have no magic number, so any other
/// file counts as one.
///
/// # Errors
/// When the path does not exist, or is a FIFO, device or socket, which are not opened.
pub fn sniff(path: impl AsRef<Path>) -> Result<PathKind, FrameError> {
    let path = path.as_ref();
    match kind(&Disk, path)? {
        FileKind::Directory => Ok(PathKind::SparseFrame),
        FileKind::File => {
            let file = open_file(&Disk, path, Links::Follow, 0)?;
            let start = file.read(&Extent::at_most(FrameFile::Main, 0..MAGIC.len() as u64))?;
            Ok(if *start == MAGIC { PathKind::ContiguousFrame } else { PathKind::Chunk })
        }
        FileKind::Link | FileKind::Other => {
            Err(FrameError::NotRegular { path: path.to_owned(), or_directory: true })
        }
    }
}

/// Returns whether a path that could not be opened as a file may be a directory.
fn may_be_directory(error: &FrameError) -> bool {
    match error {
        FrameError::NotRegular { .. } => true,
        // A web server does not serve a directory under its own name.
        FrameError::Io { source, .. } => source.kind() == ErrorKind::NotFound,
        _ => false,
    }
}

fn kind(fs: &dyn FileSystem, path: &Path) -> Result<FileKind, FrameError> {
    fs.kind(path, Links::Follow).map_err(FrameError::io(path.display().to_string()))
}
