//! The open files of a frame, those of a contiguous frame, and requests for ranges of their bytes.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use b2_core::memory;
use bytes::Bytes;

use crate::names::FrameFile;
use crate::storage::lock::{GuardedFile, LockFileVersion};
use crate::storage::request_stats::RequestStats;
use crate::storage::traits::{FileKind, Links, ReadAt, ReadFiles};
use crate::{FrameError, Structure};

/// A range of bytes that a plan needs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Extent {
    /// The file.
    pub file: FrameFile,
    /// The bytes of the file, counted from the start of the frame.
    pub range: Range<u64>,
    /// Whether a shorter result is acceptable if the file ends inside or before the range.
    pub or_less: bool,
}

impl Extent {
    /// Requests exactly these bytes.
    pub fn exactly(file: FrameFile, range: Range<u64>) -> Self {
        Self { file, range, or_less: false }
    }

    /// Requests these bytes, or as many of them as the file has.
    pub fn at_most(file: FrameFile, range: Range<u64>) -> Self {
        Self { file, range, or_less: true }
    }

    /// Returns the part of the range that is inside a file of `len` bytes.
    ///
    /// # Errors
    /// [`FrameError::Truncated`] if that is not all of it, and a shorter result is not acceptable.
    pub fn within(&self, len: u64) -> Result<Range<u64>, FrameError> {
        let Range { start, end } = self.range;
        if end > len && !self.or_less {
            let structure = match self.file {
                FrameFile::Main => Structure::Frame,
                FrameFile::Chunk(id) => Structure::ChunkFile(id),
            };
            let (need, have) = (end.saturating_sub(start), len.saturating_sub(start));
            return Err(FrameError::Truncated { structure, offset: start, need, have });
        }
        Ok(start..end.min(len).max(start))
    }
}

/// Opens the files of one frame.
pub trait FrameFiles: Send + Sync {
    /// Opens a file for reading.
    ///
    /// # Errors
    /// [`FrameError::Io`] or [`FrameError::Member`] with the name of the file.
    fn open(&self, file: FrameFile) -> Result<OpenFile, FrameError>;

    /// Returns how many reads should be in flight, see [`ReadAt::in_flight`].
    fn in_flight(&self) -> usize {
        1
    }

    /// Returns what requests have cost so far, see [`ReadAt::request_stats`].
    fn request_stats(&self) -> Option<&RequestStats> {
        None
    }

    /// Reads extents together, and returns their bytes in the given order. The default opens each file and reads from
    /// it, with [`in_flight`](Self::in_flight) concurrent reads.
    ///
    /// # Errors
    /// The first error in the given order.
    fn read_all(&self, extents: &[Extent]) -> Result<Vec<Bytes>, FrameError> {
        run_concurrently(extents.iter(), self.in_flight(), |extent| self.open(extent.file)?.read(extent))
    }
}

/// Runs work that mostly waits on up to `most` threads, and returns the results in order.
///
/// # Errors
/// The first error in the order of the items. Items after a failed one may not have been started.
pub(crate) fn run_concurrently<T: Send, R: Send>(
    items: impl ExactSizeIterator<Item = T> + Send,
    most: usize,
    work: impl Fn(T) -> Result<R, FrameError> + Sync,
) -> Result<Vec<R>, FrameError> {
    let helpers = most.min(items.len()).saturating_sub(1);
    let mut results = memory::list(items.len())?;
    let queue = Mutex::new(Some(items.enumerate()));
    let lock = || queue.lock().unwrap_or_else(PoisonError::into_inner);
    let next = || lock().as_mut().and_then(Iterator::next);
    let run = || {
        let mut mine = Vec::new();
        while let Some((at, item)) = next() {
            let result = work(item);
            if result.is_err() {
                // Do not start the remaining items.
                *lock() = None;
            }
            mine.push((at, result));
        }
        mine
    };
    std::thread::scope(|scope| {
        let helpers: Vec<_> =
            (0..helpers).map_while(|_| std::thread::Builder::new().spawn_scoped(scope, run).ok()).collect();
        results.extend(run());
        for helper in helpers {
            match helper.join() {
                Ok(mine) => results.extend(mine),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    results.sort_unstable_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}

/// A file of a frame, open for reading.
#[derive(Clone)]
pub struct OpenFile {
    file: Arc<dyn ReadAt>,
    /// The same file without a guard, if `file` has one.
    bare: Option<Arc<dyn ReadAt>>,
    /// Whether reads return what is in the file now: nothing is replaced on the fly or cached.
    live: bool,
    name: Arc<str>,
    base: u64,
    len: u64,
}

impl std::fmt::Debug for OpenFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenFile")
            .field("name", &self.name)
            .field("base", &self.base)
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

impl OpenFile {
    /// Creates the file from what `file` holds from byte `base` on. Its length is read now; `name`
    /// appears in errors.
    ///
    /// # Errors
    /// [`FrameError::Io`] if the length cannot be read, [`FrameError::OutOfRange`] if `base` is
    /// beyond the end.
    pub fn new(file: Arc<dyn ReadAt>, name: impl Into<Arc<str>>, base: u64) -> Result<Self, FrameError> {
        let name = name.into();
        let len = file.len().map_err(FrameError::io(&*name))?;
        Self::with_len(file, name, base, len)
    }

    /// Creates the file from what `file`, which has `len` bytes, holds from byte `base` on.
    pub(crate) fn with_len(
        file: Arc<dyn ReadAt>,
        name: Arc<str>,
        base: u64,
        len: u64,
    ) -> Result<Self, FrameError> {
        let Some(len) = len.checked_sub(base) else {
            return Err(FrameError::OutOfRange { what: "file bytes", start: base, end: base, len });
        };
        Ok(Self { file, bare: None, live: false, name, base, len })
    }

    /// Returns the file with a guard, which ensures that all bytes belong to one state of the frame.
    pub(crate) fn guarded(self, guard: Option<&Arc<LockFileVersion>>) -> Self {
        let Some(guard) = guard else { return self };
        let bare = Some(self.file.clone());
        Self { file: Arc::new(GuardedFile { file: self.file, guard: guard.clone() }), bare, ..self }
    }

    /// Returns the same open file with its present length and another guard.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub(crate) fn renewed(&self, guard: &Arc<LockFileVersion>) -> Result<Self, FrameError> {
        let file = self.bare.as_ref().unwrap_or(&self.file);
        let renewed = Self::new(file.clone(), self.name.clone(), self.base)?;
        Ok(Self { live: self.live, ..renewed.guarded(Some(guard)) })
    }

    /// Declares that reads return what is in the file now.
    pub(crate) fn live(self) -> Self {
        Self { live: true, ..self }
    }

    /// Returns whether reads return what is in the file now.
    pub(crate) fn is_live(&self) -> bool {
        self.live
    }

    /// Returns the number of bytes from the start of the frame to the end of the file.
    #[allow(clippy::len_without_is_empty, reason = "a length to compare with, not a collection")]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns how many reads should be in flight, see [`ReadAt::in_flight`].
    pub fn in_flight(&self) -> usize {
        self.file.in_flight()
    }

    /// Returns the underlying storage, in which the frame may have an offset.
    pub(crate) fn storage(&self) -> &Arc<dyn ReadAt> {
        &self.file
    }

    /// Returns whether the frame starts where the file does.
    pub(crate) fn is_whole(&self) -> bool {
        self.base == 0
    }

    /// Returns the name of the file for errors.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reads the bytes of an extent.
    ///
    /// # Errors
    /// [`FrameError::Truncated`] if the file is too short, [`FrameError::Io`] if it cannot be read.
    pub fn read(&self, extent: &Extent) -> Result<Bytes, FrameError> {
        self.read_from(&self.file, extent)
    }

    /// Like [`read`](Self::read), without checking the guard, which costs a system call: the caller checks it once,
    /// after all its reads.
    pub(crate) fn read_unguarded(&self, extent: &Extent) -> Result<Bytes, FrameError> {
        self.read_from(self.bare.as_ref().unwrap_or(&self.file), extent)
    }

    fn read_from(&self, file: &Arc<dyn ReadAt>, extent: &Extent) -> Result<Bytes, FrameError> {
        let Range { start, end } = extent.within(self.len)?;
        if start >= end {
            return Ok(Bytes::new());
        }
        // The range is inside the file, whose length is at least `base` + `end`.
        let range = self.base + start..self.base + end;
        let bytes = if extent.or_less { file.read_at_most(range) } else { file.read_at(range) };
        bytes.map_err(FrameError::io(&*self.name))
    }
}

/// The only file of a contiguous frame.
pub(crate) struct Contiguous(pub(crate) OpenFile);

impl FrameFiles for Contiguous {
    fn open(&self, file: FrameFile) -> Result<OpenFile, FrameError> {
        match file {
            FrameFile::Main => Ok(self.0.clone()),
            FrameFile::Chunk(_) => {
                Err(FrameError::argument("extent", "contiguous frames have no chunk files"))
            }
        }
    }

    fn in_flight(&self) -> usize {
        self.0.in_flight()
    }

    fn request_stats(&self) -> Option<&RequestStats> {
        self.0.storage().request_stats()
    }
}

/// Opens a regular file. Anything else is refused without being opened.
pub(crate) fn open_file(
    fs: &dyn ReadFiles,
    path: &Path,
    links: Links,
    base: u64,
) -> Result<OpenFile, FrameError> {
    let name: Arc<str> = path.to_string_lossy().into();
    let (file, len) = fs.open_with_len(path, links).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidInput if fs.kind(path, links).is_ok_and(|kind| kind != FileKind::File) => {
            match links {
                Links::Follow => FrameError::NotRegular { path: path.to_owned(), or_directory: false },
                // Only names inside a sparse frame are not followed.
                Links::Refuse => FrameError::Member { path: path.to_owned() },
            }
        }
        _ => FrameError::io(&*name)(error),
    })?;
    let file = OpenFile::with_len(file, name, base, len)?;
    Ok(if fs.is_local() { file.live() } else { file })
}
