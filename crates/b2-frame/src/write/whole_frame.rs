//! Writes a state as a complete new frame: for frames that are or become empty, to reclaim dead
//! space, and to append a frame to a file.

use std::path::Path;
use std::sync::Arc;

use b2_core::{Control, memory};
use bytes::Bytes;

use crate::format::checksums::{ChunkSum, ChunkSums};
use crate::format::header::MAGIC;
use crate::format::index::Entry;
use crate::format::runs;
use crate::format::starts::{ChunkStarts, StartsPolicy};
use crate::read::read_ahead::ReadAhead;
use crate::storage::lock::FrameLock;
use crate::storage::staging::{self, Staging};
use crate::storage::traits::{FileKind, Links};
use crate::write::state::FrameState;
use crate::write::store::{ChunkSink, CommitChange, ContiguousStore, CopiedChunks, MemoryStore, Store};
use crate::{FrameError, SuperChunk, WriteOptions};

/// Copies the chunks of `state` to another store, in order. Entries that share a chunk get one copy each. `starts` is
/// whether the new frame has a table of block starts.
///
/// `source` is a snapshot of the state. `sums` are the known sums of the chunks; they are copied instead of
/// recomputed, so that damage on the way is detected.
pub(crate) fn copy_chunks(
    state: &FrameState,
    source: &SuperChunk,
    sums: Option<&ChunkSums>,
    starts: Option<StartsPolicy>,
    control: &Control,
    put: &mut ChunkSink<'_>,
) -> Result<CopiedChunks, FrameError> {
    let mut entries = memory::list(state.nchunks())?;
    let mut new_sums = sums.map(|_| ChunkSums::default());
    let mut new_starts = starts.map(ChunkStarts::new);
    let mut reader = ReadAhead::new(source);
    for (nchunk, raw) in state.entries.iter().enumerate() {
        entries.push(match Entry::from_raw(*raw) {
            Some(Entry::Stored(_)) => {
                let chunk = reader.read(nchunk)?;
                let new = Entry::Stored(put(chunk.to_bytes())?).to_raw();
                let head = runs::parse(chunk.as_bytes(), source.dparams());
                if let Some(starts) = &mut new_starts {
                    starts.put(new, head.as_ref());
                }
                if let (Some(new_sums), Some(sum)) = (&mut new_sums, sums.and_then(|sums| sums.get(*raw))) {
                    // The chunk has been compared.
                    let runs = runs::record(chunk.as_bytes(), head.as_ref());
                    new_sums.put(new, ChunkSum { whole: sum.whole, runs })?;
                }
                new
            }
            _ => *raw,
        });
        control.advance(state.chunk_nbytes(nchunk).unwrap_or(0) as u64)?;
    }
    let state = FrameState { entries: Arc::new(entries), ..state.clone() };
    Ok(CopiedChunks { state, sums: new_sums, starts: new_starts })
}

impl SuperChunk {
    /// Returns the super-chunk as a contiguous frame in memory, without dead space.
    ///
    /// # Errors
    /// As for [`ChunkRef::read`](crate::ChunkRef::read) if a chunk cannot be read; [`FrameError::OutOfMemory`] if there
    /// is not enough memory, [`FrameError::Cancelled`].
    pub fn to_frame(&self) -> Result<Bytes, FrameError> {
        let mut store = self.write_whole(|header_len| Ok(MemoryStore::create(header_len)?.into()))?;
        // The store is in memory, so it has content.
        Ok(store.take_memory()?.unwrap_or_default())
    }

    /// Appends the super-chunk as a contiguous frame to an existing file, and returns its offset
    /// for [`ReadOptions::offset`](crate::ReadOptions::offset).
    ///
    /// The content of the file does not change. If it is a frame, it can no longer be changed
    /// without [`force`](crate::EditOptions::force). The appended frame is read-only.
    ///
    /// The start of the header is written last, so that after a crash there is a complete frame or
    /// none at that offset. Only the options for durability and file system are used.
    ///
    /// # Errors
    /// [`FrameError::Io`] if the file does not exist or cannot be written, [`FrameError::Lock`] if it is a frame whose
    /// lock file cannot be used, [`FrameError::Cancelled`]; as for [`ChunkRef::read`](crate::ChunkRef::read) if a chunk
    /// cannot be read. The file is unchanged then.
    pub fn append_to_file(&self, path: impl AsRef<Path>, options: &WriteOptions) -> Result<u64, FrameError> {
        let path = path.as_ref();
        let Staging { fs, durability, .. } = &options.target;
        let mut real = path.to_owned();
        if staging::io(path, fs.kind(path, Links::Refuse))? == FileKind::Link {
            real = staging::io(path, fs.resolve(path))?;
        }
        let file = staging::io(&real, fs.open_write(&real, Links::Refuse))?;
        // An editor of an existing frame in the file must not write to the same place.
        let is_frame = file.read_at(0..MAGIC.len() as u64).is_ok_and(|start| *start == MAGIC);
        let _lock = if is_frame { Some(FrameLock::file(&**fs, path, &real)?) } else { None };
        let base = staging::io(&real, file.len())?;
        let name = real.display().to_string();
        let result = self.write_whole(|header_len| {
            Ok(ContiguousStore::appending_to(file.clone(), &name, *durability, base, header_len)?.into())
        });
        if result.is_err() {
            let _ = file.set_len(base);
        }
        result.map(|_| base)
    }

    fn write_whole(&self, store: impl FnOnce(u64) -> Result<Store, FrameError>) -> Result<Store, FrameError> {
        let mut state = FrameState::of(self)?;
        state.head = Arc::new(state.head.contiguous());
        let sums = self.chunk_sums()?;
        let control = self.dparams().control.begin(self.nbytes(), self.itemsize() as u64);
        let mut store = store(state.head.len())?;
        let starts = self.opened().starts.as_ref().map(|table| self.wanted_starts(table));
        let copied =
            copy_chunks(&state, self, sums.as_ref(), starts, &control, &mut |chunk| store.put(chunk))?;
        let (state, sums, starts) = (&copied.state, copied.sums.as_ref(), copied.starts.as_ref());
        let (metadata_only, trailer_only) = (false, false);
        let change = CommitChange { old: state, new: state, sums, starts, metadata_only, trailer_only };
        store.commit(&change)?.1?;
        Ok(store)
    }
}
