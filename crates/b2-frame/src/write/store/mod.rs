//! Stores the chunks of a frame that is written or changed, and commits states.
//!
//! A store takes chunks in any order. [`Store::put`] returns where a chunk is stored; the
//! [`FrameState`] assigns it a position in the frame. So any number of threads can store chunks,
//! and a commit knows what to write.
//!
//! - `contiguous` writes to one file, through an `appender`.
//! - `sparse` writes to a directory.
//! - `memory` keeps frames in memory, in `pieces`.
//! - `trailing_bytes` identifies bytes after the committed end.

#[allow(clippy::cast_possible_truncation, reason = "headers are smaller than 2 GiB")]
mod appender;
mod contiguous;
#[allow(
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    clippy::indexing_slicing,
    reason = "offsets in a frame that is in memory, and ranges made from the lengths of its parts"
)]
pub(crate) mod memory;
#[allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    reason = "offsets in a frame that is in memory, and positions in lists"
)]
mod pieces;
mod sparse;
pub(crate) mod trailing_bytes;

use std::sync::Arc;

use b2_core::{OutOfMemory, ProcessId};
use bytes::Bytes;

pub(crate) use self::contiguous::{ChunkSink, ContiguousStore, CopiedChunks, FrameHome};
pub(crate) use self::memory::MemoryStore;
pub(crate) use self::sparse::SparseStore;
use crate::FrameError;
use crate::format::checksums::ChunkSums;
use crate::format::header::Storage;
use crate::format::starts::ChunkStarts;
use crate::read::open_plan::FrameLayout;
use crate::storage::files::FrameFiles;
use crate::write::state::{FrameState, StoredHeader};

/// The file, directory or buffer of a frame that is written or changed.
///
/// After a fork it does nothing in the child: files on disk belong to the parent.
pub(crate) struct Store {
    place: Backend,
    process: ProcessId,
}

enum Backend {
    Contiguous(ContiguousStore),
    Sparse(SparseStore),
    Memory(MemoryStore),
}

impl From<ContiguousStore> for Store {
    fn from(store: ContiguousStore) -> Self {
        Self { place: Backend::Contiguous(store), process: ProcessId::current() }
    }
}

impl From<SparseStore> for Store {
    fn from(store: SparseStore) -> Self {
        Self { place: Backend::Sparse(store), process: ProcessId::current() }
    }
}

impl From<MemoryStore> for Store {
    fn from(store: MemoryStore) -> Self {
        Self { place: Backend::Memory(store), process: ProcessId::current() }
    }
}

impl Store {
    pub(crate) fn storage(&self) -> Storage {
        match self.place {
            Backend::Contiguous(_) | Backend::Memory(_) => Storage::Contiguous,
            Backend::Sparse(_) => Storage::Sparse,
        }
    }

    /// Returns whether the storage belongs to another process (the parent, after a fork). A buffer
    /// never does.
    fn is_foreign(&self) -> bool {
        !matches!(self.place, Backend::Memory(_)) && !self.process.is_current()
    }

    /// Fails if nothing can be stored or committed any more.
    pub(crate) fn check(&self) -> Result<(), FrameError> {
        if self.is_foreign() {
            let name = match &self.place {
                Backend::Contiguous(store) => store.name().to_owned(),
                Backend::Sparse(store) => store.name(),
                Backend::Memory(_) => String::new(),
            };
            return Err(FrameError::Forked { name });
        }
        match &self.place {
            Backend::Contiguous(store) if store.broken || store.lost => Err(FrameError::Abandoned),
            Backend::Sparse(store) if store.lost => Err(FrameError::Abandoned),
            _ => Ok(()),
        }
    }

    /// Stores a chunk and returns the offset for its index entry.
    pub(crate) fn put(&mut self, chunk: Bytes) -> Result<u64, FrameError> {
        self.check()?;
        match &mut self.place {
            Backend::Contiguous(store) => store.put(&chunk),
            Backend::Sparse(store) => store.put(&chunk),
            Backend::Memory(store) => store.put(chunk),
        }
    }

    /// Commits `change.new`. Returns the stored header, and any error that occurred after the
    /// commit took effect.
    pub(crate) fn commit(
        &mut self,
        change: &CommitChange<'_>,
    ) -> Result<(Arc<StoredHeader>, Result<(), FrameError>), FrameError> {
        self.check()?;
        match &mut self.place {
            Backend::Contiguous(store) => Ok((store.commit(change)?, Ok(()))),
            Backend::Sparse(store) => store.commit(change),
            Backend::Memory(store) => Ok((store.commit(change)?, Ok(()))),
        }
    }

    /// Discards everything stored since the last commit.
    pub(crate) fn rollback(&mut self) {
        if self.is_foreign() {
            return;
        }
        match &mut self.place {
            Backend::Contiguous(store) => store.rollback(),
            Backend::Sparse(store) => store.rollback(),
            Backend::Memory(store) => store.rollback(),
        }
    }

    /// Makes the next commit rewrite all pages of the tables, because some in the file may be damaged.
    pub(crate) fn forget_pages(&mut self) {
        match &mut self.place {
            Backend::Contiguous(store) => store.forget_pages(),
            // Every commit rewrites them.
            Backend::Sparse(_) | Backend::Memory(_) => {}
        }
    }

    /// Returns the files and the layout of a snapshot with everything stored so far.
    pub(crate) fn snapshot(&mut self) -> Result<(Arc<dyn FrameFiles>, FrameLayout), FrameError> {
        if self.is_foreign() {
            self.check()?;
        }
        match &mut self.place {
            Backend::Contiguous(store) => {
                store.out.flush()?;
                Ok((store.files()?, store.layout()))
            }
            Backend::Sparse(store) => Ok((store.files()?, store.layout())),
            Backend::Memory(store) => store.staged(),
        }
    }

    /// Returns the files of the committed frame.
    pub(crate) fn committed(&mut self) -> Result<Arc<dyn FrameFiles>, FrameError> {
        match &self.place {
            Backend::Memory(store) => store.files(),
            Backend::Contiguous(_) | Backend::Sparse(_) => Ok(self.snapshot()?.0),
        }
    }

    /// Returns the offset from which on all chunks were put into memory by this store.
    pub(crate) fn trusted_from(&self) -> Option<u64> {
        match &self.place {
            Backend::Memory(store) => Some(store.trusted_from()),
            Backend::Contiguous(_) | Backend::Sparse(_) => None,
        }
    }

    /// Drops data in memory that neither `entries` nor the committed state refers to.
    pub(crate) fn collect_garbage(&mut self, entries: &[i64]) {
        if let Backend::Memory(store) = &mut self.place {
            store.collect_garbage(entries);
        }
    }

    /// Replaces a contiguous frame by a newly written one. `copy` puts its chunks and returns the data of the new
    /// entries. `header_len` is that of the new frame; `checksums` is whether it has checksums.
    pub(crate) fn rewrite(
        &mut self,
        old: &FrameState,
        header_len: u64,
        checksums: bool,
        copy: impl FnOnce(&mut ChunkSink<'_>) -> Result<CopiedChunks, FrameError>,
    ) -> Result<CopiedChunks, FrameError> {
        match &mut self.place {
            Backend::Contiguous(store) => store.rewrite(old, header_len, checksums, copy),
            Backend::Sparse(_) => Err(FrameError::Abandoned),
            Backend::Memory(store) => {
                let mut whole = MemoryStore::create(header_len)?;
                let mut copied = copy(&mut |chunk| whole.put(chunk))?;
                copied.state.head = whole.commit(&CommitChange {
                    old,
                    new: &copied.state,
                    sums: copied.sums.as_ref().filter(|_| checksums),
                    starts: copied.starts.as_ref(),
                    metadata_only: false,
                    trailer_only: false,
                })?;
                store.replace(whole);
                Ok(copied)
            }
        }
    }

    /// Returns the store of a sparse frame, which can remove unused files.
    pub(crate) fn sparse(&mut self) -> Option<&mut SparseStore> {
        match &mut self.place {
            Backend::Contiguous(_) | Backend::Memory(_) => None,
            Backend::Sparse(store) => Some(store),
        }
    }

    /// Returns the number of bytes written so far.
    pub(crate) fn written(&self) -> u64 {
        match &self.place {
            Backend::Contiguous(store) => store.out.written,
            Backend::Sparse(store) => store.written,
            Backend::Memory(store) => store.written,
        }
    }

    /// Takes the committed frame if it is in memory. It is copied only if there are snapshots.
    ///
    /// # Errors
    /// When there is no memory for one contiguous piece.
    pub(crate) fn take_memory(&mut self) -> Result<Option<Bytes>, OutOfMemory> {
        match &mut self.place {
            Backend::Memory(store) => store.take(),
            Backend::Contiguous(_) | Backend::Sparse(_) => Ok(None),
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if self.is_foreign() {
            return;
        }
        match &mut self.place {
            Backend::Contiguous(store) => store.rollback(),
            Backend::Sparse(store) => store.close(),
            Backend::Memory(_) => {}
        }
    }
}

/// The change that a commit makes.
pub(crate) struct CommitChange<'a> {
    /// The committed state; for a new frame the same as `new`.
    pub(crate) old: &'a FrameState,
    pub(crate) new: &'a FrameState,
    /// Sums of the chunks, if the frame is to have checksums.
    pub(crate) sums: Option<&'a ChunkSums>,
    /// Where the blocks of the chunks are, if the frame gets a table of block starts.
    pub(crate) starts: Option<&'a ChunkStarts>,
    /// Whether only values in the header differ, and no checksums cover the header.
    pub(crate) metadata_only: bool,
    /// Whether vlmetalayers differ but no chunks, and the frame has chunks, but no checksums or tables.
    pub(crate) trailer_only: bool,
}
