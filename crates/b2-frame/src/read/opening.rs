//! Opens frames, and moves to newer states of them.

use std::borrow::Cow;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::error::max_metadata;
use crate::format::checksums::Checksums;
use crate::format::header::{MAGIC, Storage};
use crate::names::{FrameFile, INDEX_NAME, LOCK_NAME};
use crate::read::open_plan::{FrameLayout, OpenPlan, OpenedFrame, tail_sum};
use crate::read::options::{Compare, FrameOrigin, RetryPolicy, retry_on_change};
use crate::read::plan::drive;
use crate::read::restored::restored;
use crate::storage::absolute_paths::absolute_files;
use crate::storage::files::{Contiguous, Extent, FrameFiles, OpenFile, open_file};
use crate::storage::lock::{HeldLock, LockFileVersion, lock_path};
use crate::storage::redo::{Redo, RepairedFile};
use crate::storage::sparse::Sparse;
use crate::storage::traits::{FileKind, Links, ReadAt, ReadFiles};
use crate::{Disk, FrameError, ReadOptions, SuperChunk};

impl SuperChunk {
    /// Opens a contiguous frame (a file, in which bytes after the frame are ignored) or a sparse
    /// frame (a directory). Uses the built-in plugins and default limits.
    ///
    /// # Errors
    /// [`FrameError::Io`] if the path does not exist or cannot be read, [`FrameError::NotRegular`] if it is neither a
    /// regular file nor a directory. [`FrameError::Unreadable`] if it is not a frame, is damaged, or exceeds a limit,
    /// with one of these as [`detail`](FrameError::detail): [`NotAFrame`](FrameError::NotAFrame),
    /// [`NewerVersion`](FrameError::NewerVersion), [`Truncated`](FrameError::Truncated), [`Field`](FrameError::Field),
    /// [`Msgpack`](FrameError::Msgpack), [`Chunk`](FrameError::Chunk) (of the index),
    /// [`Checksum`](FrameError::Checksum), [`Limit`](FrameError::Limit). [`FrameError::Changed`] if it keeps changing.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, FrameError> {
        Self::options().open(path)
    }

    /// Opens a contiguous frame in memory. The buffer must hold nothing but the frame.
    ///
    /// # Errors
    /// When the buffer is not exactly one valid frame: one of the details that [`open`](Self::open) names, by itself,
    /// such as [`FrameError::NotAFrame`], [`FrameError::Truncated`] or [`FrameError::Field`].
    pub fn from_bytes(frame: impl Into<Bytes>) -> Result<Self, FrameError> {
        Self::options().from_bytes(frame)
    }

    /// Moves to the newest committed state. Returns whether there was a newer one.
    ///
    /// Until then a super-chunk shows the state in which it was opened. For a contiguous frame this
    /// always works; for a sparse frame reading fails with [`FrameError::Changed`] after another
    /// writer has changed it. Frames in memory never change.
    ///
    /// Settings from [`set_container`](Self::set_container) and a postfilter are kept.
    ///
    /// # Errors
    /// As for [`open`](Self::open). After an error this super-chunk is unchanged.
    pub fn refresh(&mut self) -> Result<bool, FrameError> {
        self.move_to_newest(ChangeDetection::Nothing)
    }

    /// Like [`refresh`](Self::refresh), but does not check whether a program changes the frame under a lock. For reads
    /// of chunks, which check that afterwards.
    ///
    /// # Errors
    /// As for [`refresh`](Self::refresh).
    #[doc(hidden)]
    pub fn refresh_to_read(&mut self) -> Result<bool, FrameError> {
        self.move_to_newest(ChangeDetection::CheckedLater)
    }

    /// Like [`refresh`](Self::refresh), while the caller holds a shared lock of the frame's lock file. Other programs that
    /// lock cannot change the frame then, so a file that is still in place is read again without opening it.
    ///
    /// # Errors
    /// As for [`refresh`](Self::refresh).
    #[doc(hidden)]
    pub fn refresh_locked(&mut self) -> Result<bool, FrameError> {
        self.move_to_newest(ChangeDetection::Locked)
    }

    fn move_to_newest(&mut self, known: ChangeDetection) -> Result<bool, FrameError> {
        let Some(source) = self.source.clone() else { return Ok(false) };
        let Some(newest) = source.newer_than(self, known)? else { return Ok(false) };
        let dparams = std::mem::take(&mut self.dparams);
        *self = newest.with_compare(self.compare).with_tuning(self.tuning);
        self.dparams = dparams;
        Ok(true)
    }

    /// Declares that the caller holds a shared lock of the frame's lock file, and that this state was the newest one when
    /// it had the lock. As long as the result lives, reads do not check whether programs that lock have changed the frame.
    #[must_use]
    #[doc(hidden)]
    pub fn hold_lock(&self) -> Option<HeldLock> {
        Some(HeldLock::new(self.source.as_ref()?.guard.clone()?))
    }

    /// Returns the error for bytes that could not be used or are gone: [`FrameError::Changed`] if another program has
    /// changed the frame since it was opened, else the same error with the name of the frame.
    #[must_use]
    #[doc(hidden)]
    pub fn explain(&self, error: FrameError) -> FrameError {
        let changed = if error.may_be_a_change() { self.changed() } else { None };
        changed.unwrap_or_else(|| self.add_name(error))
    }

    /// Adds the name of the frame to an error about its content.
    pub(crate) fn add_name(&self, error: FrameError) -> FrameError {
        match self.name() {
            Some(name) => error.of(&name),
            None => error,
        }
    }

    /// Returns the path or name with which the frame was opened, for errors. Bytes in memory have none.
    #[doc(hidden)]
    pub fn name(&self) -> Option<Cow<'_, str>> {
        match &self.source {
            Some(source) => Some(source.path.display().to_string().into()),
            None => self.name.as_deref().map(Cow::Borrowed),
        }
    }

    /// Sets the name of the frame in errors.
    #[must_use]
    #[doc(hidden)]
    pub fn with_name(self, name: impl Into<Arc<str>>) -> Self {
        Self { name: Some(name.into()), ..self }
    }

    /// Fails with [`FrameError::Changed`] if another program has changed the frame since it was opened.
    #[doc(hidden)]
    pub fn changed(&self) -> Option<FrameError> {
        let name = || self.name().unwrap_or("the frame".into()).into_owned();
        self.has_changed().then(|| FrameError::Changed { name: name() })
    }

    /// Returns whether the frame has its own guard, used by [`check_guard`](Self::check_guard).
    pub(crate) fn has_guard(&self) -> bool {
        self.source.as_ref().is_some_and(|source| source.guard.is_some())
    }

    /// Fails with [`FrameError::Changed`] if another program that locks the frame has begun to change it since it was
    /// opened. Reads of stored chunks check this themselves.
    ///
    /// # Errors
    /// [`FrameError::Changed`].
    #[doc(hidden)]
    pub fn check_guard(&self) -> Result<(), FrameError> {
        let Some(source) = &self.source else { return Ok(()) };
        match &source.guard {
            Some(guard) if !guard.is_unchanged() => {
                Err(FrameError::Changed { name: source.path.display().to_string() })
            }
            _ => Ok(()),
        }
    }

    /// Returns whether header or trailer have changed since opening. C-Blosc2 changes both when it overwrites chunks.
    /// Unreadable parts count as unchanged.
    fn has_changed(&self) -> bool {
        let (layout, trailer) = (self.layout(), self.trailer());
        if layout.trailer.is_empty() {
            // This is a snapshot of an editor, which has no separate header and trailer.
            return false;
        }
        let differs = |newest: &Self| {
            newest.opened.header_bytes != self.opened.header_bytes
                || newest.trailer().fingerprint() != trailer.fingerprint()
                || newest.opened.tail_sum != self.opened.tail_sum
        };
        // Open by name, since the file may have been replaced.
        if let Some(Ok(Some(newest))) =
            self.source.as_ref().map(|source| source.newer_than(self, ChangeDetection::Nothing))
            && differs(&newest)
        {
            return true;
        }
        let ends = [layout.header.clone(), layout.trailer.clone()];
        let ends = ends.map(|range| Extent::at_most(FrameFile::Main, range));
        let Ok(read) = self.driver().read(&ends) else { return false };
        let [header, end] = &read[..] else { return false };
        let fingerprint = [&[trailer.fingerprint_kind][..], &trailer.fingerprint].concat();
        *header != self.opened.header_bytes || !end.ends_with(&fingerprint)
    }

    /// Returns whether index and trailer in `file`, which has the header of this frame, are those of this frame.
    ///
    /// C-Blosc2 changes chunks and vlmetalayers in place. If their sizes stay the same, so does the header.
    fn has_same_tail(&self, file: &OpenFile) -> bool {
        let FrameLayout { index, trailer, .. } = self.layout().clone();
        let read = |range| file.read_unguarded(&Extent::exactly(FrameFile::Main, range)).ok();
        // A snapshot of an editor has neither. C-Blosc2 zeroes the fingerprint with each change.
        if trailer.is_empty() {
            return true;
        }
        if self.trailer().has_fingerprint() {
            let fingerprint = &self.trailer().fingerprint;
            let end = trailer.end.saturating_sub(fingerprint.len() as u64)..trailer.end;
            return read(end).is_some_and(|end| *end == *fingerprint);
        }
        let tail = read(index).zip(read(trailer));
        tail.is_some_and(|(index, trailer)| tail_sum(&index, &trailer) == self.opened.tail_sum)
    }
}

impl ReadOptions {
    /// Opens a contiguous frame (a file) or a sparse frame (a directory).
    ///
    /// # Errors
    /// As for [`SuperChunk::open`]; [`FrameError::OutOfRange`] if the offset is beyond the end of the file.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<SuperChunk, FrameError> {
        let path = path.as_ref();
        let fs = absolute_files(&self.fs, path)?;
        let opened = Self { fs, ..self.clone() }.open_absolute(path);
        opened.map_err(|error| error.of(&path.display().to_string()))
    }

    fn open_absolute(&self, path: &Path) -> Result<SuperChunk, FrameError> {
        // Most frames are files, and opening shows whether this is one, so do not query the type first.
        let error = match self.open_file(path) {
            Err(error) if self.offset == 0 && may_be_directory(&error) => error,
            // Only a file can have an offset.
            result => return result,
        };
        match kind(&*self.fs, path)? {
            FileKind::File => Err(error),
            FileKind::Directory => self.open_directory(path),
            FileKind::Link | FileKind::Other => {
                Err(FrameError::NotRegular { path: path.to_owned(), or_directory: true })
            }
        }
    }

    /// Opens a sparse frame.
    pub(crate) fn open_directory(&self, path: &Path) -> Result<SuperChunk, FrameError> {
        self.open_steadily(path, &path.join(LOCK_NAME), |guard| {
            let files = Sparse::open(self.fs.clone(), path.to_owned(), guard.cloned())?;
            let index = files.open(FrameFile::Main)?;
            let open = |files| self.open_files(Arc::new(files), Storage::Sparse, false);
            let open_again = |index| {
                let files = Sparse::open(self.fs.clone(), path.to_owned(), guard.cloned())?;
                open(files.with_index(index))
            };
            let opened = open(files).or_else(|error| self.open_restored(&index, error, open_again));
            Ok((opened, index))
        })
    }

    fn open_file(&self, path: &Path) -> Result<SuperChunk, FrameError> {
        self.open_steadily(path, &lock_path(path), |guard| {
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
    /// let archive = bytes::Bytes::from([b"before", &frame[..], b"after"].concat());
    /// let schunk = SuperChunk::options().offset(6).from_reader(Arc::new(archive), "archive, member 1")?;
    /// assert_eq!(schunk.itemsize(), 4);
    /// # Ok::<(), b2_frame::FrameError>(())
    /// ```
    ///
    /// # Errors
    /// As for [`SuperChunk::open`]; [`FrameError::OutOfRange`] if the offset is beyond the end of the storage.
    pub fn from_reader(
        &self,
        reader: Arc<dyn ReadAt>,
        name: impl Into<Arc<str>>,
    ) -> Result<SuperChunk, FrameError> {
        let name = name.into();
        match self.open_contiguous(OpenFile::new(reader, name.clone(), self.offset)?) {
            Ok(schunk) => Ok(schunk.with_name(name)),
            Err(error) => Err(error.of(&name)),
        }
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
                let repaired = RepairedFile::by(redo, file.storage().clone());
                return open(OpenFile::new(Arc::new(repaired), file.name(), 0)?);
            }
        }
        result.or_else(|error| self.open_restored(&file, error, open))
    }

    /// Opens a frame that could not be opened with the copy of its header, if that is damaged: `open` gets the file with
    /// the copy. All checksums must match then; otherwise returns `error`. The header of a file that has grown since it was
    /// opened is not damaged, but newer.
    fn open_restored(
        &self,
        file: &OpenFile,
        error: FrameError,
        open: impl FnOnce(OpenFile) -> Result<SuperChunk, FrameError>,
    ) -> Result<SuperChunk, FrameError> {
        let copied =
            if self.can_compare(file) { restored(file, max_metadata(&self.dparams).1) } else { None };
        match copied.map(open) {
            Some(Ok(schunk))
                if schunk.checksums() == Checksums::Ok
                    && file.storage().len().is_ok_and(|len| len == file.len()) =>
            {
                Ok(SuperChunk { restored: true, ..schunk })
            }
            _ => Err(error),
        }
    }

    fn can_compare(&self, file: &OpenFile) -> bool {
        self.checksums && file.is_whole()
    }

    /// Returns whether the header of a file is damaged and there is a copy of it.
    pub(crate) fn can_restore(&self, file: &OpenFile) -> bool {
        self.can_compare(file) && restored(file, max_metadata(&self.dparams).1).is_some()
    }

    /// Opens the frame, and retries if it changed in the meantime. Readers take no lock, so header, index and trailer
    /// could otherwise belong to different states.
    fn open_steadily(
        &self,
        path: &Path,
        lock: &Path,
        open: impl Fn(
            Option<&Arc<LockFileVersion>>,
        ) -> Result<(Result<SuperChunk, FrameError>, OpenFile), FrameError>,
    ) -> Result<SuperChunk, FrameError> {
        // There is no pause between attempts: callers that retry reads retry opening as well, with pauses.
        let policy = RetryPolicy::default().min_retries(99).timeout(Duration::ZERO);
        let mut failed_at = None;
        let attempt = |_: &mut Option<Bytes>| self.open_attempt(path, lock, &open);
        let recover = |failed_at: &mut Option<Bytes>, failure: &OpenAttemptError, _| {
            let retries = match failure {
                OpenAttemptError::Changed => true,
                // If the same bytes fail again, no writer has changed them.
                OpenAttemptError::Failed { page, .. } => {
                    page.is_some() && std::mem::replace(failed_at, page.clone()) != *page
                }
            };
            if retries {
                std::thread::yield_now();
            }
            Ok(retries)
        };
        let opened = retry_on_change(policy, &mut failed_at, attempt, recover);
        opened.map_err(|failure| match failure {
            OpenAttemptError::Failed { error, page } if page.is_none() || page == failed_at => *error,
            _ => FrameError::Changed { name: path.display().to_string() },
        })
    }

    fn open_attempt(
        &self,
        path: &Path,
        lock: &Path,
        open: impl Fn(
            Option<&Arc<LockFileVersion>>,
        ) -> Result<(Result<SuperChunk, FrameError>, OpenFile), FrameError>,
    ) -> Result<SuperChunk, OpenAttemptError> {
        let guard = match self.offset {
            0 => LockFileVersion::wait(&self.fs, lock, &self.dparams)?,
            _ => None,
        };
        let (result, file) = open(guard.as_ref())?;
        match result {
            Ok(schunk) => self.unchanged(schunk, path, guard)?.ok_or(OpenAttemptError::Changed),
            // Lengths are checked before anything is read, so the end has moved: a writer
            // truncated its redo record. A server that sends too few bytes will do so again.
            Err(FrameError::Io { source, .. })
                if source.kind() == ErrorKind::UnexpectedEof && self.fs.is_local() =>
            {
                Err(OpenAttemptError::Changed)
            }
            // Changed by a writer that counts its changes in the lock file.
            Err(FrameError::Changed { .. }) => Err(OpenAttemptError::Changed),
            Err(error) => {
                let page = file.read(&Extent::at_most(FrameFile::Main, 0..PAGE_LEN)).ok();
                Err(OpenAttemptError::Failed { error: Box::new(error), page })
            }
        }
    }

    /// Returns a frame that was just opened, with its origin, unless it changed in the meantime.
    fn unchanged(
        &self,
        mut schunk: SuperChunk,
        path: &Path,
        guard: Option<Arc<LockFileVersion>>,
    ) -> Result<Option<SuperChunk>, FrameError> {
        let header = schunk.layout().header.clone();
        // Read through the same files, so that a repaired header is compared with itself.
        let again = schunk.files.open(FrameFile::Main)?.read(&Extent::exactly(FrameFile::Main, header));
        let same = again.is_ok_and(|header| header == schunk.opened().header_bytes);
        let compared = schunk.checksums() == Checksums::Ok && self.compare != Compare::Never;
        let watching = guard.as_ref().filter(|_| !compared);
        watching.inspect(|guard| guard.watch());
        // A lock file has appeared in the meantime.
        let same = same && watching.is_none_or(|guard| guard.is_unchanged());
        if !same {
            return Ok(None);
        }
        schunk.source = Some(Arc::new(FrameOrigin { guard, ..FrameOrigin::new(self, path) }));
        Ok(Some(schunk))
    }

    /// Opens a contiguous frame in memory.
    ///
    /// # Errors
    /// As for [`SuperChunk::from_bytes`]; [`FrameError::OutOfRange`] if the offset is beyond the end of the buffer.
    pub fn from_bytes(&self, frame: impl Into<Bytes>) -> Result<SuperChunk, FrameError> {
        let file = OpenFile::new(Arc::new(frame.into()), "frame in memory", self.offset)?;
        let open = |file| self.open_files(Arc::new(Contiguous(file)), Storage::Contiguous, true);
        open(file.clone()).or_else(|error| self.open_restored(&file, error, open))
    }

    /// Opens a frame from custom storage. With `whole`, the main file must end where the frame
    /// ends.
    ///
    /// # Errors
    /// When the files cannot be read or are not a frame.
    #[doc(hidden)]
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
    /// than [`drive`](crate::drive). [`opened`](Self::opened) takes its result.
    #[doc(hidden)]
    pub fn open_plan(&self, len: u64, storage: Storage) -> OpenPlan {
        OpenPlan::new(len, storage, &self.dparams).checksums(self.checksums)
    }

    /// Returns the super-chunk that a finished [`open_plan`](Self::open_plan) has opened.
    #[doc(hidden)]
    pub fn opened(&self, opened: OpenedFrame, files: Arc<dyn FrameFiles>) -> SuperChunk {
        let schunk = SuperChunk::new(opened, files, self.dparams.clone());
        schunk.with_compare(self.compare).with_tuning(self.tuning)
    }
}

/// Why an attempt to open a frame failed.
enum OpenAttemptError {
    /// It changed in the meantime.
    Changed,
    /// The first page of the file after the failure; `None` if another attempt cannot succeed.
    Failed { error: Box<FrameError>, page: Option<Bytes> },
}

impl From<FrameError> for OpenAttemptError {
    fn from(error: FrameError) -> Self {
        Self::Failed { error: Box::new(error), page: None }
    }
}

/// Length of the header compared after a failure, in bytes. If it changed, that may explain the
/// failure.
const PAGE_LEN: u64 = 4096;

/// How the caller of [`FrameOrigin::newer_than`] handles programs that change the frame under its lock.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChangeDetection {
    Nothing,
    /// The caller holds a shared lock, so they cannot.
    Locked,
    /// The caller checks for them after it has read.
    CheckedLater,
}

impl FrameOrigin {
    /// Returns the newest state if it differs from that of `schunk`.
    pub(crate) fn newer_than(
        &self,
        schunk: &SuperChunk,
        known: ChangeDetection,
    ) -> Result<Option<SuperChunk>, FrameError> {
        let ReadOptions { fs, offset, .. } = &self.options;
        let file = schunk.files.open(FrameFile::Main)?;
        let ours = file.storage().identity();
        let main = match schunk.storage() {
            Storage::Contiguous => Cow::from(&self.path),
            Storage::Sparse => self.path.join(INDEX_NAME).into(),
        };
        // Failures here are ignored, since opening the frame will report them.
        let theirs = fs.identity(&main, Links::Follow);
        let in_place = matches!((ours, theirs), (Ok(Some(ours)), Ok(Some(theirs))) if ours == theirs);
        if in_place
            && let Ok(file) = if file.is_live() {
                Ok(file.clone())
            } else {
                open_file(&**fs, &main, Links::Follow, *offset)
            }
            && let header = Extent::exactly(FrameFile::Main, schunk.layout().header.clone())
            && file.read_unguarded(&header).is_ok_and(|header| header == schunk.opened().header_bytes)
            && (known == ChangeDetection::CheckedLater
                || self.guard.as_ref().is_none_or(|guard| guard.is_unchanged()))
            && (known != ChangeDetection::Nothing || schunk.has_same_tail(&file))
        {
            return Ok(None);
        }
        if known == ChangeDetection::Locked
            && file.is_live()
            && !schunk.restored
            && let Some(newest) = self.read_again(schunk, (!in_place).then_some(&main))
        {
            return Ok(Some(newest));
        }
        let newest = self.options.open_absolute(&self.path);
        let newest = newest.map_err(|error| error.of(&self.path.display().to_string()))?;
        // A restored header never equals that of the file.
        let same = schunk.restored
            && newest.restored
            && newest.opened.header_bytes == schunk.opened.header_bytes
            && newest.trailer().fingerprint() == schunk.trailer().fingerprint();
        Ok((!same).then_some(newest))
    }

    /// Opens the frame again through the open file of `schunk`, or through the file at `replaced`, and the open lock file,
    /// which the caller has locked. Returns `None` for any problem, which opening the path will report.
    fn read_again(&self, schunk: &SuperChunk, replaced: Option<&Path>) -> Option<SuperChunk> {
        let guard = self.guard.as_ref()?.renewed()?;
        let links = match schunk.storage() {
            Storage::Contiguous => Links::Follow,
            Storage::Sparse => Links::Refuse,
        };
        let file = match replaced {
            Some(path) => open_file(&*self.options.fs, path, links, 0).ok()?.guarded(Some(&guard)),
            None => schunk.files.open(FrameFile::Main).ok()?.renewed(&guard).ok()?,
        };
        let held = HeldLock::new(guard.clone());
        let opened = match schunk.storage() {
            Storage::Contiguous => self.options.open_contiguous(file),
            Storage::Sparse => {
                let (fs, dir) = (self.options.fs.clone(), self.path.clone());
                let files = Sparse::new(fs, dir, file, Some(guard.clone())).ok()?;
                self.options.open_files(Arc::new(files), Storage::Sparse, false)
            }
        };
        let newest = self.options.unchanged(opened.ok()?, &self.path, Some(guard));
        drop(held);
        newest.ok()?.filter(|newest| !newest.restored)
    }
}

/// The content of a path, as determined by [`sniff`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
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
/// [`FrameError::Io`] if the path does not exist or cannot be read, [`FrameError::NotRegular`] if it is a FIFO, device or
/// socket, which are not opened.
pub fn sniff(path: impl AsRef<Path>) -> Result<PathKind, FrameError> {
    let path = path.as_ref();
    match kind(&Disk, path)? {
        FileKind::Directory => Ok(PathKind::SparseFrame),
        FileKind::File => {
            let file = open_file(&Disk, path, Links::Follow, 0)?;
            let start = file.read(&Extent::at_most(FrameFile::Main, 0..MAGIC.len() as u64))?;
            let is_frame = *start == MAGIC || SuperChunk::options().can_restore(&file);
            Ok(if is_frame { PathKind::ContiguousFrame } else { PathKind::Chunk })
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

fn kind(fs: &dyn ReadFiles, path: &Path) -> Result<FileKind, FrameError> {
    fs.kind(path, Links::Follow).map_err(FrameError::io(path.display().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FrameParams, FrameWriter};

    /// Refreshing used to make the path absolute again, in the working directory of that time.
    #[test]
    fn a_relative_path_is_anchored_once() {
        let home = tempfile::tempdir_in(".").unwrap();
        let path = Path::new(home.path().file_name().unwrap()).join("frame");
        let params = || FrameParams::new(4);
        FrameWriter::options().create(&path, params()).unwrap().finish().unwrap();
        let mut schunk = SuperChunk::open(&path).unwrap();
        for locked in [false, true, false] {
            let mut editor = crate::EditOptions::default().edit(&path).unwrap();
            editor.vlmeta().set("name", &[u8::from(locked); 5]).unwrap();
            editor.commit().unwrap();
            drop(editor);
            assert!(if locked { schunk.refresh_locked() } else { schunk.refresh() }.unwrap());
            let files = format!("{:?}", schunk.source.as_ref().unwrap().options.fs);
            assert_eq!(files.matches("AbsolutePaths").count(), 1, "{files}");
        }
    }
}
