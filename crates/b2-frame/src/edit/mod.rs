//! Frames that change. All changes are staged: they go behind the committed end of the frame (or to new chunk
//! files) and become visible, all at once, with a commit.
//!
//! - `state`: what a frame holds, as a value; there are two, the committed one and the staged one
//! - `ops`, `bytes`, `meta`: operations, which put chunks and change the staged state
//! - `contiguous`, `sparse`: where chunks go, and how a state is committed there
//! - `rewrite`: writing a state as a whole new frame
//! - `savepoint`: going back to an earlier moment
//! - `leftover`: whose bytes are behind the committed end
//! - `open`: opening and creating

mod bytes;
mod contiguous;
mod leftover;
mod memory;
mod meta;
mod open;
mod ops;
mod rewrite;
mod savepoint;
mod sparse;
mod state;

use std::fmt;
use std::sync::Arc;

use ::bytes::Bytes;
use b2_chunk::{CParams, Chunk, Container, DParams, SpecialKind};

pub use self::savepoint::Savepoint;
use crate::checksums::{ChunkSums, Compare, Sums};
use crate::edit::contiguous::ContiguousStore;
pub(crate) use crate::edit::meta::compress_value;
use crate::edit::sparse::SparseStore;
use crate::edit::state::State;
use crate::fit::Fit;
use crate::header::{FrameHeader, MIN_TRAILER_LEN};
use crate::index::Entry;
use crate::options::Source;
use crate::plan::FrameFiles;
use crate::sizes::ChunkSizes;
use crate::{FrameError, Storage, Structure, SuperChunk};

/// A frame, open for changing: a contiguous file, a sparse directory, or a buffer.
///
/// Changes are staged until [`commit`](Self::commit) makes all of them visible in one step: after a crash or a
/// power loss at any moment the frame holds exactly the old or exactly the new state, for this crate and for
/// C-Blosc2. Dropping the editor, or [`rollback`](Self::rollback), forgets what was not committed. An operation
/// that fails changes nothing.
///
/// On disk the editor holds the lock that C-Blosc2 knows too (`<file>.b2lock`), from opening to dropping:
/// other writers wait. Readers need no lock and see committed states only.
///
/// Space of chunks that were replaced or deleted is not used again until [`compact`](Self::compact).
///
/// ```
/// use b2_chunk::CParams;
/// use b2_frame::{FrameEditor, FrameParams, FrameWriter, SuperChunk};
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("log.b2frame");
/// let params = FrameParams::from_cparams(&CParams::builder(2).build()?).chunksize(1000);
/// FrameWriter::contiguous(&path, params)?.finish()?;
///
/// let mut editor = SuperChunk::options().edit(&path)?;
/// for i in 0..1000u16 {
///     editor.append_bytes(&i.to_le_bytes())?; // kept until a chunk is full, or until the commit
/// }
/// editor.set_vlmetalayer("station", b"\xa7north-3")?;
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
pub struct FrameEditor {
    store: Store,
    committed: State,
    /// With all changes since.
    staged: State,
    /// Plain bytes of a short last chunk that is being filled.
    tail: Option<Tail>,
    fit: Fit,
    cparams: Option<CParams>,
    max_vlmetalayers: usize,
    /// Of the chunks, those that are not committed too, if they are known.
    sums: Option<ChunkSums>,
    /// Whether the frame has checksums: as committed, and after the next commit.
    has_sums: (bool, bool),
    /// Whether they are not right as committed: the next commit writes them anew, or drops what is left of them.
    stale_sums: bool,
    source: Option<Arc<Source>>,
    /// Bytes written up to the last commit.
    accounted: u64,
    /// Another one after each commit and rollback.
    epoch: Arc<()>,
}

struct Tail {
    plain: Vec<u8>,
    /// Whether the entry of the last chunk is one with these bytes.
    stored: bool,
}

enum Store {
    Contiguous(ContiguousStore),
    Sparse(SparseStore),
}

/// What a commit has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Committed {
    /// Bytes written for it, all of them: chunks since the last commit, index, trailer, header, lock.
    pub bytes_written: u64,
    /// Number of chunks now.
    pub nchunks: usize,
    /// Uncompressed size now, in bytes.
    pub nbytes: u64,
}

impl FrameEditor {
    /// Number of chunks.
    pub fn nchunks(&self) -> usize {
        self.staged.nchunks()
    }
    /// Uncompressed size of all chunks, in bytes.
    pub fn nbytes(&self) -> u64 {
        self.staged.nbytes
    }
    /// Item size in bytes.
    pub fn typesize(&self) -> usize {
        self.fit.typesize
    }
    /// Uncompressed size of every chunk but possibly the last, in bytes; 0 when chunks have individual sizes
    /// or there are none and none is prescribed.
    pub fn chunksize(&self) -> usize {
        match self.staged.sizes {
            state::Sizes::Equal { chunksize, .. } => chunksize,
            state::Sizes::Open | state::Sizes::Individual(_) => 0,
        }
    }
    /// Uncompressed size of chunk `nchunk`, in bytes.
    ///
    /// # Errors
    /// When there is no such chunk.
    pub fn chunk_nbytes(&self, nchunk: usize) -> Result<usize, FrameError> {
        self.staged.chunk_nbytes(nchunk).ok_or_else(|| self.no_chunk(nchunk))
    }
    /// Contiguous or sparse.
    pub fn storage(&self) -> Storage {
        match self.store {
            Store::Contiguous(_) => Storage::Contiguous,
            Store::Sparse(_) => Storage::Sparse,
        }
    }
    /// How stored chunks are decoded.
    pub fn dparams(&self) -> &DParams {
        &self.fit.dparams
    }

    /// How new chunks are compressed: what [`set_cparams`](Self::set_cparams) set, or what the frame's header
    /// says.
    ///
    /// # Errors
    /// When the header names a codec or filter that is not there, or values that do not fit each other.
    pub fn cparams(&self) -> Result<CParams, FrameError> {
        if let Some(cparams) = &self.cparams {
            return Ok(cparams.clone());
        }
        FrameHeader::parse(&self.committed.header)?.to_cparams(&self.fit.dparams)
    }

    /// Sets how new chunks are compressed. The header, which others go by, stays as it is.
    ///
    /// # Errors
    /// When the item size is not the frame's.
    pub fn set_cparams(&mut self, cparams: CParams) -> Result<(), FrameError> {
        if cparams.typesize() != self.typesize() {
            let what = format!("items of {} bytes, the frame has {}", cparams.typesize(), self.typesize());
            return Err(FrameError::argument("cparams", what));
        }
        self.cparams = Some(cparams);
        Ok(())
    }

    /// Changes what is known about the chunks beyond the frame header: the shape of a block, say.
    pub fn set_container(&mut self, container: Container) {
        self.fit.dparams.container = container;
    }

    /// The frame with all changes, committed or not, for reading. Later changes do not show in it.
    ///
    /// Writes what is buffered to storage. A snapshot with uncommitted changes is of no use after a
    /// [`rollback`](Self::rollback), or after the editor is dropped without a commit: reading then fails.
    ///
    /// # Errors
    /// When something buffered cannot be written.
    pub fn snapshot(&mut self) -> Result<SuperChunk, FrameError> {
        self.settle()?;
        let (files, layout): (Arc<dyn FrameFiles>, _) = match &mut self.store {
            Store::Contiguous(store) => {
                store.flush()?;
                (store.files()?, store.layout())
            }
            Store::Sparse(store) => (store.files()?, store.layout()),
        };
        // There is no trailer yet; the shortest one makes the length a valid one.
        let frame_len = layout.trailer.end + MIN_TRAILER_LEN as u64;
        let header = self.staged.encode_header(layout.data.end - layout.data.start, frame_len);
        let dparams = self.fit.dparams.clone();
        let sums = self.sums.as_ref().map(|sums| Sums::Known(sums.old().clone()));
        let opened = self.staged.opened(&header, layout, sums, &dparams)?;
        let mut schunk = SuperChunk::new(opened, files, dparams.clone());
        schunk.set_container(dparams.container);
        schunk.source = self.source.clone();
        if let state::Sizes::Individual(sizes) = &self.staged.sizes {
            // They are known already.
            let _ = schunk.sizes.set(ChunkSizes::of(sizes));
        }
        Ok(schunk)
    }

    /// A snapshot to read what goes into new chunks: damage must not get a new checksum.
    pub(crate) fn careful_snapshot(&mut self) -> Result<SuperChunk, FrameError> {
        Ok(self.snapshot()?.with_compare(Compare::Always))
    }

    /// Makes all changes visible at once. On disk they survive a power loss from then on, unless durability
    /// was switched off.
    ///
    /// # Errors
    /// When something cannot be written: the frame is as it was, and so are the staged changes; one may try
    /// again. After a sync that failed that would not help, as systems forget what they could not write: there is
    /// only [`rollback`](Self::rollback) then ([`FrameError::Abandoned`]). [`FrameError::NotSynced`] alone says that the change was made. [`FrameError::Changed`] if somebody
    /// else, who ignored the lock, changed the frame.
    pub fn commit(&mut self) -> Result<Committed, FrameError> {
        self.usable()?;
        self.epoch = Arc::default();
        self.settle()?;
        let old = &self.committed;
        let same_tail = Arc::ptr_eq(&old.entries, &self.staged.entries)
            && Arc::ptr_eq(&old.vlmetalayers, &self.staged.vlmetalayers)
            && self.has_sums.0 == self.has_sums.1
            && !self.stale_sums;
        if !(same_tail && old.header == self.staged.header) {
            self.staged.check()?;
            // C-Blosc2 finds the trailer of an empty frame right behind its header only.
            let contiguous = matches!(self.store, Store::Contiguous(_));
            let whole = contiguous && self.staged.nbytes == 0 && !same_tail;
            let mut late = Ok(());
            let source = if whole { Some(self.snapshot()?) } else { None };
            if let Some(sums) = &mut self.sums {
                sums.settle(&self.staged.entries);
            }
            let sums = self.sums.as_ref().filter(|_| self.has_sums.1);
            let header = match (&mut self.store, source) {
                (Store::Contiguous(store), Some(source)) => {
                    store
                        .rewrite(&self.committed, &self.staged, &source, self.sums.as_ref(), self.has_sums.1)?
                        .0
                }
                (Store::Contiguous(store), None) => {
                    // The checksums are of the header, too.
                    store.commit(&self.committed, &self.staged, same_tail && sums.is_none(), sums)?
                }
                (Store::Sparse(store), _) => {
                    let (header, result) = store.commit(&self.committed, &self.staged, sums)?;
                    late = result;
                    header
                }
            };
            self.staged.header = header;
            self.committed = self.staged.clone();
            self.has_sums.0 = self.has_sums.1;
            self.stale_sums = false;
            late?;
        }
        let written = self.written();
        let bytes_written = written - std::mem::replace(&mut self.accounted, written);
        Ok(Committed { bytes_written, nchunks: self.nchunks(), nbytes: self.nbytes() })
    }

    /// Forgets all changes since the last commit.
    pub fn rollback(&mut self) {
        self.epoch = Arc::default();
        self.tail = None;
        self.staged = self.committed.clone();
        self.has_sums.1 = self.has_sums.0;
        match &mut self.store {
            Store::Contiguous(store) => store.rollback(),
            Store::Sparse(store) => store.rollback(),
        }
    }

    /// Whether the frame will have checksums after the next commit.
    pub fn has_checksums(&self) -> bool {
        self.has_sums.1
    }

    /// Whether the frame is to have checksums from the next commit on. To give it some, all chunks are read; whether
    /// they decode is not looked at.
    ///
    /// # Errors
    /// When a chunk cannot be read.
    pub fn set_checksums(&mut self, checksums: bool) -> Result<(), FrameError> {
        if checksums && self.sums.is_none() {
            let snapshot = self.snapshot()?;
            let mut sums = ChunkSums::default();
            for (nchunk, raw) in self.staged.entries.iter().enumerate() {
                if let Some(Entry::Stored(_)) = Entry::from_raw(*raw) {
                    sums.put(*raw, snapshot.chunk(nchunk)?.as_bytes())?;
                }
            }
            self.sums = Some(sums);
        }
        self.has_sums.1 = checksums;
        Ok(())
    }

    /// Runs operations and commits them; if one fails, or the commit, all changes since the last commit are
    /// forgotten.
    ///
    /// # Errors
    /// What the operations or the commit answer.
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

    /// Bytes in the frame that nothing refers to: old chunks, indices and trailers (contiguous), files of no
    /// committed chunk (sparse). As committed.
    ///
    /// # Errors
    /// When the sizes of the chunks cannot be read.
    pub fn dead_bytes(&mut self) -> Result<u64, FrameError> {
        match &self.store {
            Store::Sparse(store) => store.dead_bytes(),
            Store::Contiguous(store) => {
                // The layout of the committed frame, which a snapshot of the staged one does not have.
                let files = store.files()?;
                let plan = crate::OpenPlan::new(store.committed(), Storage::Contiguous, &self.fit.dparams);
                let opened = crate::drive(plan, &*files)?;
                SuperChunk::new(opened, files, self.fit.dparams.clone()).dead_bytes()
            }
        }
    }

    /// Commits, and gives the space back that nothing refers to. A contiguous frame is written anew beside the
    /// old one and takes its name; of a sparse frame files are removed that belong to no chunk.
    ///
    /// # Errors
    /// When a chunk cannot be read, something cannot be written, or the file has several names
    /// ([`FrameError::HardLinks`]). The frame then is as it was.
    pub fn compact(&mut self) -> Result<Committed, FrameError> {
        self.usable()?;
        self.epoch = Arc::default();
        if let Store::Sparse(_) = self.store {
            let committed = self.commit()?;
            if let Store::Sparse(store) = &mut self.store {
                store.clean()?;
            }
            return Ok(committed);
        }
        self.staged.check()?;
        let source = self.snapshot()?;
        if let Store::Contiguous(store) = &mut self.store {
            let (header, entries, sums) =
                store.rewrite(&self.committed, &self.staged, &source, self.sums.as_ref(), self.has_sums.1)?;
            drop(source);
            self.sums = sums;
            self.has_sums.0 = self.has_sums.1;
            self.stale_sums = false;
            self.staged.header = header;
            self.staged.entries = Arc::new(entries);
            self.committed = self.staged.clone();
        }
        self.commit()
    }

    /// The frame as last committed, if it is one in memory; not copied unless there are snapshots.
    pub fn into_bytes(mut self) -> Option<Bytes> {
        self.rollback();
        let Store::Contiguous(store) = &mut self.store else { return None };
        let memory = store.memory()?.clone();
        let shared = Arc::strong_count(&memory) > 3;
        Some(if shared { memory.copy() } else { memory.take() }.into())
    }

    /// Runs several operations; if one fails, none of them has changed anything.
    fn atomically(
        &mut self,
        operations: impl FnOnce(&mut Self) -> Result<(), FrameError>,
    ) -> Result<(), FrameError> {
        self.settle()?;
        let (staged, tail) = (self.staged.clone(), self.tail.take());
        let result = operations(self);
        if result.is_err() {
            self.staged = staged;
            self.tail = tail;
        }
        result
    }

    fn written(&self) -> u64 {
        match &self.store {
            Store::Contiguous(store) => store.written,
            Store::Sparse(store) => store.written,
        }
    }

    fn usable(&self) -> Result<(), FrameError> {
        match &self.store {
            Store::Contiguous(store) if store.broken || store.lost => Err(FrameError::Abandoned),
            Store::Sparse(store) if store.lost => Err(FrameError::Abandoned),
            _ => Ok(()),
        }
    }

    fn no_chunk(&self, nchunk: usize) -> FrameError {
        let (start, len) = (nchunk as u64, self.nchunks() as u64);
        FrameError::OutOfRange { what: "chunks", start, end: start + 1, len }
    }

    /// Stores a chunk in a form that C-Blosc2 reads at this place, and returns its entry. `individual`:
    /// whether chunks will have sizes of their own.
    fn put(&mut self, nchunk: usize, chunk: Chunk, individual: bool) -> Result<i64, FrameError> {
        self.usable()?;
        let nbytes = chunk.nbytes();
        let error = || FrameError::chunk(Structure::Chunk(nchunk));
        let chunk = match self.fit.as_entry(&chunk) {
            Some(kind) if !individual && nbytes.is_multiple_of(self.fit.typesize) => {
                return Ok(Entry::Special(kind).to_raw());
            }
            Some(kind) => self.fit.special(kind, nbytes).map_err(error())?,
            None => self.fit.fit(chunk).map_err(error())?,
        };
        self.put_stored(&chunk)
    }

    fn put_special(&mut self, nchunk: usize, kind: SpecialKind, nbytes: usize) -> Result<i64, FrameError> {
        let chunk = self.fit.special(kind, nbytes).map_err(FrameError::chunk(Structure::Chunk(nchunk)))?;
        self.put_stored(&chunk)
    }

    fn put_stored(&mut self, chunk: &Chunk) -> Result<i64, FrameError> {
        let offset = match &mut self.store {
            Store::Contiguous(store) => store.put(chunk.as_bytes())?,
            Store::Sparse(store) => store.put(chunk.as_bytes())?,
        };
        let raw = Entry::Stored(offset).to_raw();
        if let Some(sums) = &mut self.sums {
            sums.put(raw, chunk.as_bytes())?;
        }
        Ok(raw)
    }
}

impl Drop for FrameEditor {
    fn drop(&mut self) {
        match &mut self.store {
            Store::Contiguous(store) => store.rollback(),
            Store::Sparse(store) => store.close(),
        }
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
