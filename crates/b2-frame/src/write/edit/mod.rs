//! Changes frames in place. All changes are staged: new chunks are written after the committed end of the frame (or to
//! new chunk files), and a commit makes all changes visible atomically.
//!
//! - `chunk_ops`, `byte_ops` and `meta` are the operations, which store chunks and change the staged state.
//! - `savepoint` returns to an earlier staged state.
//! - `prepared` stores chunks for many threads before they are put in place.
//! - `open` opens and creates frames for changing.

mod byte_ops;
mod chunk_ops;
mod meta;
mod open;
mod savepoint;
pub(crate) mod table;

use std::fmt;
use std::sync::Arc;

use b2_chunk::{CParams, Chunk, Container, DParams};
use b2_core::Control;
use bytes::Bytes;

pub use self::chunk_ops::PreparedChunk;
pub use self::meta::EditVlMeta;
pub use self::savepoint::Savepoint;
use crate::format::checksums::{ChunkSum, ChunkSums};
use crate::format::index::Entry;
use crate::format::records::RecordPage;
use crate::format::runs;
use crate::format::start_copy;
use crate::format::starts::{ChunkStarts, StartsPolicy};
use crate::names::FrameFile;
use crate::read::options::FrameOrigin;
use crate::storage::files::Extent;
use crate::write::draft::Draft;
use crate::write::draft::check_layout;
use crate::write::state::{FrameState, Sizes, Sizing};
use crate::write::store::{ChunkSink, CommitChange};
use crate::write::whole_frame::copy_chunks;
use crate::{FrameError, Storage, SuperChunk};

/// A frame that is open for changing: a contiguous file, a sparse directory, or a buffer.
///
/// Changes are staged until [`commit`](Self::commit) makes all of them visible in one step. After a
/// crash or a power loss at any moment, the frame holds exactly the old or exactly the new state,
/// for this crate and for C-Blosc2. Dropping the editor or [`rollback`](Self::rollback) discards
/// uncommitted changes. An operation that fails changes nothing.
///
/// From opening to dropping, an editor of a frame on disk holds the lock that C-Blosc2 also uses
/// (`<file>.b2lock`), so other writers wait. Readers need no lock and see only committed states.
///
/// On disk the space of replaced and deleted chunks is not reused until [`compact`](Self::compact). In memory it is free
/// after the commit, or when the last snapshot that needs it is dropped; only the chunks with which the frame was opened
/// stay until `compact`.
///
/// ```
/// use b2_chunk::Compression;
/// use b2_frame::{FrameParams, FrameWriter, SuperChunk};
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("log.b2frame");
/// let params = FrameParams::from_cparams(&Compression::new().itemsize(2).build()?).chunksize(1000);
/// FrameWriter::create(&path, params)?.finish()?;
///
/// let mut editor = SuperChunk::edit(&path)?;
/// for i in 0..1000u16 {
///     editor.append_bytes(&i.to_le_bytes())?; // kept until a chunk is full, or until the commit
/// }
/// editor.vlmeta().set("station", b"\xa7north-3")?;
/// editor.commit()?;
/// assert_eq!(SuperChunk::open(&path)?.read_items(500..502)?, [244, 1, 245, 1]);
///
/// // Several operations, one commit; nothing happens if one of them fails.
/// editor.transaction(|editor| {
///     editor.write_bytes(0, &[7; 10])?;
///     editor.delete(1)
/// })?;
/// assert_eq!(editor.nbytes(), 1000);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// After a fork the editor belongs to the parent process. In the child it writes, truncates and
/// unlocks nothing, and its calls fail with [`FrameError::Forked`]. A frame in memory belongs to
/// the child as well.
pub struct FrameEditor {
    /// The staged state, with all chunks that were stored.
    draft: Draft,
    committed: FrameState,
    /// The uncompressed bytes of a short last chunk that is being filled.
    tail: Option<Tail>,
    cparams: Option<CParams>,
    /// Whether the frame has checksums: as committed, and after the next commit.
    has_sums: (bool, bool),
    /// Whether the committed checksums are outdated. The next commit rewrites or drops them.
    stale_sums: bool,
    /// Whether the committed frame has a table of block starts.
    had_starts: bool,
    /// The page with the copy of the start of the frame, as opened, until it was compared or replaced.
    opened_copy: Option<Option<RecordPage>>,
    source: Option<Arc<FrameOrigin>>,
    /// Value of the store's byte counter at the last commit.
    accounted: u64,
    /// Replaced by each commit and rollback, so that older savepoints become invalid.
    epoch: Arc<()>,
    /// Runs before each commit that changes items or the shape.
    before_commit: Option<BeforeCommit>,
}

/// A hook that runs before a commit that changes chunks or metalayers, and may refuse it. Its argument is whether the
/// size or the metalayers change, as when an array is resized.
pub(crate) type BeforeCommit = Box<dyn Fn(bool) -> Result<(), FrameError> + Send + Sync>;

struct Tail {
    plain: Vec<u8>,
    /// Whether the index entry of the last chunk refers to these bytes.
    stored: bool,
}

/// The result of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommitReport {
    /// Number of bytes written since the last commit: chunks, index, trailer, header and lock.
    pub bytes_written: u64,
    /// Number of chunks after the commit.
    pub nchunks: usize,
    /// Uncompressed size after the commit, in bytes.
    pub nbytes: u64,
}

impl FrameEditor {
    /// Returns the number of chunks.
    pub fn nchunks(&self) -> usize {
        self.draft.state.nchunks()
    }
    /// Returns the uncompressed size of all chunks, in bytes.
    pub fn nbytes(&self) -> u64 {
        self.draft.state.nbytes
    }
    /// Returns the item size in bytes.
    pub fn itemsize(&self) -> usize {
        self.draft.rules.typesize
    }
    /// Returns the uncompressed size of every chunk except possibly the last, in bytes; 0 if chunks
    /// have individual sizes or the size is not defined yet.
    pub fn chunksize(&self) -> usize {
        match self.draft.state.sizes {
            Sizes::Equal { chunksize, .. } => chunksize,
            Sizes::Open | Sizes::Individual(_) => 0,
        }
    }
    /// Returns the uncompressed size of chunk `nchunk`, in bytes.
    ///
    /// # Errors
    /// [`FrameError::OutOfRange`] if the chunk does not exist.
    pub fn chunk_nbytes(&self, nchunk: usize) -> Result<usize, FrameError> {
        self.draft.state.chunk_nbytes(nchunk).ok_or_else(|| self.no_chunk(nchunk))
    }
    /// Returns whether the frame is contiguous or sparse.
    pub fn storage(&self) -> Storage {
        self.draft.store.storage()
    }
    /// Returns the parameters for decoding stored chunks.
    pub fn dparams(&self) -> &DParams {
        &self.draft.rules.dparams
    }

    /// Returns the compression parameters of new chunks: those from
    /// [`set_cparams`](Self::set_cparams), or those in the frame header.
    ///
    /// # Errors
    /// [`FrameError::Chunk`] when the header names an unknown codec or filter, or contradicts itself: as for
    /// [`Compression::build`](b2_chunk::Compression::build).
    pub fn cparams(&self) -> Result<CParams, FrameError> {
        if let Some(cparams) = &self.cparams {
            return Ok(cparams.clone());
        }
        self.committed.head.header.to_cparams(&self.draft.rules.dparams)
    }

    /// Sets the compression parameters of new chunks. The frame header, which gives other writers
    /// their defaults, is not changed.
    ///
    /// # Errors
    /// [`FrameError::Argument`] if the item size differs from the frame's, or the chunks would be for C-Blosc 1.
    pub fn set_cparams(&mut self, cparams: CParams) -> Result<(), FrameError> {
        if cparams.itemsize() != self.itemsize() {
            let what =
                format!("items of {} bytes, but the frame has {}", cparams.itemsize(), self.itemsize());
            return Err(FrameError::argument("cparams", what));
        }
        check_layout(&cparams)?;
        self.cparams = Some(cparams);
        Ok(())
    }

    /// Sets the threads, the progress callback and the cancellation of further calls. A cancelled
    /// call changes nothing.
    ///
    /// Progress counts uncompressed bytes: those that a call compresses, or in
    /// [`compact`](Self::compact) those that it copies.
    pub fn set_control(&mut self, control: Control) {
        self.draft.rules.dparams.control = control;
    }

    /// Returns the control of the calls.
    pub fn control(&self) -> &Control {
        self.draft.control()
    }

    /// Sets what is known about the chunks beyond the frame header, such as the shape of a block.
    #[doc(hidden)]
    pub fn set_container(&mut self, container: Container) {
        self.draft.rules.dparams.container = container;
    }

    /// Returns the frame with all changes, committed or not, for reading. Later changes do not
    /// affect it.
    ///
    /// This writes buffered data to storage. On disk a snapshot with uncommitted changes is invalid after a
    /// [`rollback`](Self::rollback), or after the editor is dropped without a commit: reading then
    /// fails. In memory it stays valid.
    ///
    /// # Errors
    /// [`FrameError::Io`] if buffered data cannot be written, [`FrameError::Chunk`] if they cannot be compressed,
    /// [`FrameError::Abandoned`] after a sync that failed.
    pub fn snapshot(&mut self) -> Result<SuperChunk, FrameError> {
        self.flush_tail()?;
        let mut schunk = self.draft.snapshot()?;
        // Without staged changes it is what opening gives, so that `refresh` does not take it for outdated.
        let head = &self.committed.head;
        if self.has_committed_tail()
            && head.bytes == self.draft.state.head.bytes
            && let Some(opened) = Arc::get_mut(&mut schunk.opened)
        {
            (opened.header, opened.header_bytes) = (head.header.clone(), head.bytes.clone());
        }
        schunk.source = self.source.clone();
        Ok(schunk)
    }

    /// Returns whether the bytes after the chunks are unchanged since the commit.
    fn has_committed_tail(&self) -> bool {
        let (old, new) = (&self.committed, &self.draft.state);
        Arc::ptr_eq(&old.entries, &new.entries)
            && Arc::ptr_eq(&old.vlmetalayers, &new.vlmetalayers)
            && self.has_sums.0 == self.has_sums.1
            && !self.stale_sums
            && self.had_starts == self.draft.starts.is_some()
    }

    /// Returns a snapshot for data that go into new chunks. It always compares checksums, since
    /// damaged data must not get a valid one.
    pub(crate) fn careful_snapshot(&mut self) -> Result<SuperChunk, FrameError> {
        Ok(self.snapshot()?.for_rewrite())
    }

    /// Makes all changes visible atomically. On disk they then survive a power loss, unless durability is switched off.
    ///
    /// If chunks or metalayers have changed, this marks the indexes of python-blosc2 (the vlmetalayer `blosc2_indexes`)
    /// as outdated, unless that vlmetalayer was set after the last change.
    ///
    /// # Errors
    /// [`FrameError::Io`] or [`FrameError::Lock`] when something cannot be written, [`FrameError::Chunk`] when a
    /// buffered last chunk cannot be compressed, [`FrameError::Argument`] when all chunks are empty,
    /// [`FrameError::HardLinks`] when the file has other names; as for [`ChunkRef::read`](crate::ChunkRef::read) when
    /// the frame is rewritten (see [`add_metalayer`](Self::add_metalayer)) and a chunk cannot be read. The frame is
    /// unchanged, the changes are still staged, and the commit can be tried again.
    ///
    /// Three errors have a special meaning. After a failed sync only [`rollback`](Self::rollback)
    /// remains ([`FrameError::Abandoned`]), because the system may have dropped data that it could
    /// not write. [`FrameError::NotSynced`] means that the change is visible, but may not survive a
    /// power loss. [`FrameError::Changed`] means that another writer ignored the lock.
    pub fn commit(&mut self) -> Result<CommitReport, FrameError> {
        self.draft.store.check()?;
        self.epoch = Arc::default();
        self.flush_tail()?;
        self.prepare_items()?;
        let same_tail = self.has_committed_tail();
        if !(same_tail && self.committed.head.bytes == self.draft.state.head.bytes) {
            self.draft.state.check()?;
            // The checksums cover the header, so they change with it.
            let metadata_only = same_tail && !(self.has_sums.1 && self.draft.sums.is_some());
            let whole = self.storage() == Storage::Contiguous && self.must_be_whole(metadata_only);
            let source = if whole { Some(self.snapshot()?) } else { None };
            let late = match source {
                Some(source) => {
                    self.settle_sums();
                    self.rewrite(source, &Control::new())?;
                    Ok(())
                }
                None => {
                    self.settle_sums();
                    let Draft { store, state, sums, starts, .. } = &mut self.draft;
                    let starts = starts.as_ref();
                    let sums = sums.as_ref().filter(|_| self.has_sums.1);
                    let tables = self.has_sums != (false, false) || self.had_starts || starts.is_some();
                    let same_index = Arc::ptr_eq(&self.committed.entries, &state.entries);
                    let (head, late) = store.commit(&CommitChange {
                        old: &self.committed,
                        new: state,
                        sums,
                        starts,
                        metadata_only,
                        trailer_only: same_index && !same_tail && !tables && state.nchunks() > 0,
                    })?;
                    state.head = head;
                    late
                }
            };
            self.committed = self.draft.state.clone();
            self.has_sums.0 = self.has_sums.1;
            self.stale_sums = false;
            self.had_starts = self.draft.starts.is_some();
            self.opened_copy = None;
            late?;
        }
        let written = self.draft.store.written();
        let bytes_written = written - std::mem::replace(&mut self.accounted, written);
        Ok(CommitReport { bytes_written, nchunks: self.nchunks(), nbytes: self.nbytes() })
    }

    /// Prepares the commit of changed items or another shape.
    fn prepare_items(&mut self) -> Result<(), FrameError> {
        if !self.draft.state.items_changed {
            return Ok(());
        }
        if let Some(run) = &self.before_commit {
            let (old, new) = (&self.committed, &self.draft.state);
            let resized = old.nbytes != new.nbytes
                || old.nchunks() != new.nchunks()
                || old.head.metalayers != new.head.metalayers;
            run(resized)?;
        }
        self.outdate_indexes()?;
        self.draft.state.items_changed = false;
        Ok(())
    }

    /// Returns whether the next commit of a contiguous frame has to write all of it.
    fn must_be_whole(&self, metadata_only: bool) -> bool {
        let (old, new) = (&self.committed, &self.draft.state);
        // The chunks follow the header. C-Blosc2 expects the trailer of an empty frame directly after its header.
        old.head.len() != new.head.len() || new.nbytes == 0 && !metadata_only
    }

    /// Discards all changes since the last commit.
    pub fn rollback(&mut self) {
        self.epoch = Arc::default();
        self.tail = None;
        self.draft.state = self.committed.clone();
        self.draft.settle_rules();
        self.has_sums.1 = self.has_sums.0;
        self.draft.store.rollback();
    }

    fn settle_sums(&mut self) {
        if let Some(sums) = &mut self.draft.sums {
            sums.merge_new(&self.draft.state.entries);
        }
        if let Some(starts) = &mut self.draft.starts {
            starts.merge_new(&self.draft.state.entries);
        }
    }

    /// Returns whether the frame will have checksums after the next commit.
    pub fn has_checksums(&self) -> bool {
        self.has_sums.1
    }

    /// Sets whether the frame has checksums from the next commit on. Adding them reads all chunks
    /// that lack one, or sums of their blocks, but does not decode them.
    ///
    /// # Errors
    /// As for [`snapshot`](Self::snapshot), and as for [`ChunkRef::read`](crate::ChunkRef::read) when a chunk cannot be
    /// read; [`FrameError::Cancelled`], [`FrameError::OutOfMemory`].
    pub fn set_checksums(&mut self, checksums: bool) -> Result<(), FrameError> {
        if checksums {
            let (sums, added) = self.during(self.nbytes(), |editor, control| editor.all_sums(control))?;
            self.draft.sums = Some(sums);
            if added || !self.copy_is_sound()? {
                // The table in the file is incomplete or damaged.
                self.stale_sums = true;
                self.draft.store.forget_pages();
            }
        }
        self.has_sums.1 = checksums;
        Ok(())
    }

    /// Returns whether the copy of the start of the frame is there and matches its sum: files of earlier versions have
    /// none.
    fn copy_is_sound(&mut self) -> Result<bool, FrameError> {
        let (Some(copy), true) = (self.opened_copy.take(), self.has_sums.0 && self.committed.nchunks() > 0)
        else {
            return Ok(true);
        };
        let Some((page, range)) = copy.and_then(|page| Some((page, page.range()?))) else { return Ok(false) };
        let main = self.draft.store.committed()?.open(FrameFile::Main)?;
        let bytes = main.read(&Extent::at_most(FrameFile::Main, range))?;
        Ok(start_copy::in_page(&page, &bytes).is_some())
    }

    /// Returns the sums of all chunks and their runs, and whether sums of runs were added: files of earlier versions
    /// lack them, and their page may be damaged.
    fn all_sums(&mut self, control: &Control) -> Result<(ChunkSums, bool), FrameError> {
        // Reading through the snapshot compares the data with the known sums.
        let snapshot = self.snapshot()?;
        let mut sums = self.draft.sums.clone().unwrap_or_default();
        let mut added = false;
        for (nchunk, raw) in self.draft.state.entries.iter().enumerate() {
            let known = sums.get(*raw).is_some_and(|sum| !sum.runs.is_empty());
            if let Some(Entry::Stored(_)) = Entry::from_raw(*raw).filter(|_| !known) {
                let chunk = snapshot.chunk(nchunk).read()?;
                let head = runs::parse(chunk.as_bytes(), snapshot.dparams());
                let sum = ChunkSum::of(chunk.as_bytes(), head.as_ref());
                if sums.get(*raw) != Some(&sum) {
                    added |= sum.runs[..] != runs::NO_RUNS;
                    sums.put(*raw, sum)?;
                }
            }
            control.advance(self.chunk_nbytes(nchunk)? as u64)?;
        }
        Ok((sums, added))
    }

    /// Returns whether the frame will have a table of block starts after the next commit, if it is
    /// not too large for one.
    pub fn has_block_starts(&self) -> bool {
        self.draft.starts.is_some()
    }

    /// Sets whether the frame has a table of block starts from the next commit on, with which remote readers need
    /// fewer requests and bytes. Adding it reads all chunks, but does not decode them. A rollback does not undo this.
    ///
    /// # Errors
    /// As for [`snapshot`](Self::snapshot), and as for [`ChunkRef::read`](crate::ChunkRef::read) when a chunk cannot be
    /// read; [`FrameError::Cancelled`].
    pub fn set_block_starts(&mut self, block_starts: bool) -> Result<(), FrameError> {
        if !block_starts {
            self.draft.starts = None;
        } else if let Some(starts) = &mut self.draft.starts {
            starts.wanted = StartsPolicy::Always;
        } else {
            self.draft.starts = Some(self.during(self.nbytes(), |editor, control| {
                let snapshot = editor.snapshot()?;
                let mut starts = ChunkStarts::new(StartsPolicy::Always);
                for (nchunk, raw) in editor.draft.state.entries.iter().enumerate() {
                    if let Some(Entry::Stored(_)) = Entry::from_raw(*raw) {
                        let chunk = snapshot.chunk(nchunk).read()?;
                        starts.put(*raw, runs::parse(chunk.as_bytes(), snapshot.dparams()).as_ref());
                    }
                    control.advance(editor.chunk_nbytes(nchunk)? as u64)?;
                }
                Ok(starts)
            })?);
        }
        Ok(())
    }

    /// Runs operations and commits them. If an operation or the commit fails, all changes since the
    /// last commit are rolled back.
    ///
    /// # Errors
    /// Those of `operations`, and as for [`commit`](Self::commit).
    pub fn transaction<T, E: From<FrameError>>(
        &mut self,
        operations: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<T, E> {
        let result = operations(self).and_then(|output| match self.commit() {
            Ok(_) => Ok(output),
            Err(error) => Err(error.into()),
        });
        if result.is_err() {
            self.rollback();
        }
        result
    }

    /// Returns the number of dead bytes of the committed frame: old chunks, indices and trailers
    /// (contiguous), or files of no committed chunk (sparse).
    ///
    /// # Errors
    /// [`FrameError::Io`] when the directory of a sparse frame cannot be listed. For a contiguous frame, which is read
    /// again, as for [`SuperChunk::from_bytes`] and [`ChunkRef::read`](crate::ChunkRef::read).
    pub fn dead_bytes(&mut self) -> Result<u64, FrameError> {
        if let Some(store) = self.draft.store.sparse() {
            return store.dead_bytes();
        }
        // A snapshot of the staged state does not have the layout of the committed frame.
        let files = self.draft.store.committed()?;
        let frame_len = self.committed.head.header.frame_len();
        let plan = crate::OpenPlan::new(frame_len, Storage::Contiguous, &self.draft.rules.dparams);
        let opened = crate::drive(plan, &*files)?;
        SuperChunk::new(opened, files, self.draft.rules.dparams.clone()).dead_bytes()
    }

    /// Commits, and reclaims dead space. A contiguous frame is rewritten next to the old one and renamed; of a sparse
    /// frame, files that belong to no chunk are removed.
    ///
    /// # Errors
    /// As for [`commit`](Self::commit) (such as [`FrameError::HardLinks`]), and as for
    /// [`ChunkRef::read`](crate::ChunkRef::read) when a chunk cannot be read; [`FrameError::Cancelled`]. The frame is
    /// unchanged then, unless only unused files of a sparse frame could not be removed ([`FrameError::Io`]).
    pub fn compact(&mut self) -> Result<CommitReport, FrameError> {
        self.draft.store.check()?;
        self.epoch = Arc::default();
        if self.storage() == Storage::Sparse {
            let committed = self.commit()?;
            if let Some(store) = self.draft.store.sparse() {
                store.clean()?;
            }
            return Ok(committed);
        }
        self.draft.state.check()?;
        self.flush_tail()?;
        self.prepare_items()?;
        self.during(self.nbytes(), |editor, control| {
            let source = editor.snapshot()?;
            editor.rewrite(source, control)
        })?;
        self.has_sums.0 = self.has_sums.1;
        self.stale_sums = false;
        self.had_starts = self.draft.starts.is_some();
        self.committed = self.draft.state.clone();
        self.commit()
    }

    /// Writes the staged state as a new contiguous frame. `source` is a snapshot of it.
    fn rewrite(&mut self, source: SuperChunk, control: &Control) -> Result<(), FrameError> {
        let Draft { store, state, sums, starts, .. } = &mut self.draft;
        let (known, sums_of, wanted) = (&*state, sums.as_ref(), starts.as_ref().map(|starts| starts.wanted));
        // Closes the snapshot when everything is copied: Windows does not rename a file over one that is open.
        let copy = move |put: &mut ChunkSink<'_>| copy_chunks(known, &source, sums_of, wanted, control, put);
        let copied = store.rewrite(&self.committed, state.head.len(), self.has_sums.1, copy)?;
        (*state, *sums, *starts) = (copied.state, copied.sums, copied.starts);
        Ok(())
    }

    /// Returns the frame as last committed if it is in memory and there is memory to put it into one piece, otherwise
    /// `None`. The part that was opened is copied only if there are snapshots.
    pub fn into_bytes(mut self) -> Option<Bytes> {
        self.rollback();
        self.draft.store.take_memory().ok().flatten()
    }

    /// Runs several operations. If one fails, none of them has changed anything.
    fn atomically(
        &mut self,
        operations: impl FnOnce(&mut Self) -> Result<(), FrameError>,
    ) -> Result<(), FrameError> {
        self.flush_tail()?;
        let (staged, tail) = (self.draft.state.clone(), self.tail.take());
        // Keep everything that the old state refers to.
        let _held = self.epoch.clone();
        let result = operations(self);
        if result.is_err() {
            self.draft.state = staged;
            self.tail = tail;
        }
        result
    }

    fn no_chunk(&self, nchunk: usize) -> FrameError {
        let (start, len) = (nchunk as u64, self.nchunks() as u64);
        FrameError::OutOfRange { what: "chunks", start, end: start + 1, len }
    }

    /// Stores a chunk in a form that C-Blosc2 can read at this position, and returns its entry.
    fn put(&mut self, nchunk: usize, chunk: Chunk, sizing: Sizing) -> Result<i64, FrameError> {
        let fitted = self.draft.fit(nchunk, chunk)?;
        self.draft.put(nchunk, fitted, sizing)
    }
}

impl fmt::Debug for FrameEditor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrameEditor")
            .field("storage", &self.storage())
            .field("nchunks", &self.nchunks())
            .field("nbytes", &self.nbytes())
            .finish_non_exhaustive()
    }
}
