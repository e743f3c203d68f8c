use std::path::Path;
use std::sync::Arc;

use b2_chunk::{Chunk, Container, DParams, MAX_BLOCKSIZE, MAX_CHUNK_NBYTES, SpecialKind};
use b2_core::Control;
use bytes::Bytes;

use crate::format::checksums::ChunkSums;
use crate::format::header::{FrameHeader, Storage};
use crate::format::metalayers::Metalayers;
use crate::format::starts::{ChunkStarts, StartsPolicy};
use crate::write::draft::ChunkRules;
use crate::write::draft::{Draft, FittedChunk};
use crate::write::edit::table::Table;
use crate::write::options::WriteOptions;
use crate::write::state::{FrameState, Sizes, StoredHeader};
use crate::write::store::{CommitChange, ContiguousStore, MemoryStore, SparseStore, Store};
use crate::{FrameError, FrameParams, SuperChunk};

/// Writes a new frame chunk by chunk. Only the index stays in memory.
///
/// On disk the frame is written to a temporary file or directory, which [`FrameWriter::finish`] renames. Until then,
/// and after an error, the target is unchanged, and dropping the writer removes the written data. C-Blosc2 can open,
/// read, append to and resize the result.
///
/// Chunks of zeros, NaNs and uninitialised items take only an index entry if C-Blosc2 can read
/// that; otherwise they are stored in a form that it can read.
///
/// ```
/// use b2_chunk::{Compression, Chunk};
/// use b2_frame::{FrameParams, FrameWriter, SuperChunk};
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("log.b2frame");
/// let cparams = Compression::new().itemsize(2).build()?;
/// let mut writer = FrameWriter::create(&path, FrameParams::from_cparams(&cparams))?;
/// writer.append(Chunk::compress_bytes(&[1, 0, 2, 0, 3, 0], &cparams)?)?;
/// writer.append(Chunk::compress_bytes(&[4, 0], &cparams)?)?; // the last one may be shorter
/// writer.set_vlmetalayer("station", b"\xa7north-3")?;
/// let written = writer.finish()?;
/// assert_eq!((written.nchunks, written.nbytes), (2, 8));
///
/// let schunk = SuperChunk::open(&path)?;
/// assert_eq!(schunk.read_items(2..4)?, [3, 0, 4, 0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// After a fork the writer belongs to the parent process. In the child it writes and removes
/// nothing, and its calls fail with [`FrameError::Forked`].
pub struct FrameWriter {
    draft: Draft,
    abandoned: bool,
}

/// The result of [`FrameWriter::finish`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WrittenFrame {
    /// Number of chunks.
    pub nchunks: usize,
    /// Uncompressed size in bytes.
    pub nbytes: u64,
    /// Compressed size in bytes, as stored in the header.
    pub cbytes: u64,
    /// Size of the frame, or of the index file of a sparse frame, in bytes.
    pub frame_len: u64,
    bytes: Bytes,
}

impl WrittenFrame {
    /// Returns the frame if it was written to memory, otherwise an empty buffer.
    pub fn into_bytes(self) -> Bytes {
        self.bytes
    }
}

impl WriteOptions {
    /// Creates a frame at `path`: a file, or with [`Storage::Sparse`] a directory.
    ///
    /// # Errors
    /// [`FrameError::Argument`] if the parameters are out of range or contradict each other, [`FrameError::Exists`] if
    /// the target exists and may not be replaced, [`FrameError::NotRegular`] or [`FrameError::NotASparseFrame`] if it
    /// is nothing that is ever replaced, [`FrameError::Io`] if it cannot be created.
    pub fn create(&self, path: impl AsRef<Path>, params: FrameParams) -> Result<FrameWriter, FrameError> {
        let (path, target) = (path.as_ref(), self.target.clone());
        Table::before_replacement(path, self)?;
        FrameWriter::new(params, self.storage, self, |header_len| match self.storage {
            Storage::Contiguous => Ok(ContiguousStore::create(target, path, header_len)?.into()),
            Storage::Sparse => Ok(SparseStore::create(target, path, header_len)?.into()),
        })
    }

    /// Creates a contiguous frame in memory, whatever [`storage`](Self::storage) is set.
    ///
    /// # Errors
    /// [`FrameError::Argument`] if the parameters are out of range or contradict each other.
    pub fn memory(&self, params: FrameParams) -> Result<FrameWriter, FrameError> {
        FrameWriter::new(params, Storage::Contiguous, self, |header_len| {
            Ok(MemoryStore::create(header_len)?.into())
        })
    }
}

impl std::fmt::Debug for FrameWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FrameWriter").finish_non_exhaustive()
    }
}

impl FrameWriter {
    /// Creates a contiguous frame in a file that must not exist yet. Use [`options`](Self::options)
    /// for other cases.
    ///
    /// # Errors
    /// [`FrameError::Exists`] if the file exists, otherwise as for [`WriteOptions::create`].
    pub fn create(path: impl AsRef<Path>, params: FrameParams) -> Result<Self, FrameError> {
        Self::options().create(path, params)
    }

    /// Creates a contiguous frame in memory. [`WrittenFrame::into_bytes`] returns it.
    ///
    /// # Errors
    /// As for [`WriteOptions::memory`].
    pub fn memory(params: FrameParams) -> Result<Self, FrameError> {
        Self::options().memory(params)
    }

    /// Returns default options for new frames: storage, replacing, durability, file system.
    pub fn options() -> WriteOptions {
        WriteOptions::default()
    }

    fn new(
        params: FrameParams,
        storage: Storage,
        options: &WriteOptions,
        store: impl FnOnce(u64) -> Result<Store, FrameError>,
    ) -> Result<Self, FrameError> {
        let FrameParams { typesize, chunksize, blocksize, .. } = params;
        if typesize == 0 || typesize > MAX_BLOCKSIZE {
            return Err(FrameError::argument(
                "typesize",
                format!("{typesize}, expected 1 to {MAX_BLOCKSIZE}"),
            ));
        }
        if blocksize > MAX_BLOCKSIZE {
            return Err(FrameError::argument("blocksize", format!("{blocksize}, at most {MAX_BLOCKSIZE}")));
        }
        if chunksize.is_some_and(|size| size > MAX_CHUNK_NBYTES) {
            return Err(FrameError::argument("chunksize", format!("at most {MAX_CHUNK_NBYTES} bytes")));
        }
        if params.clevel > 15 {
            return Err(FrameError::argument("clevel", format!("{}, at most 15", params.clevel)));
        }
        // With a block smaller than an item, C-Blosc2 refuses chunks of NaNs.
        let blocksize = if blocksize < typesize { 0 } else { blocksize };
        let sizes = match chunksize {
            None => Sizes::Open,
            Some(0) => Sizes::Individual(Arc::default()),
            Some(chunksize) => Sizes::Equal { chunksize, last: chunksize },
        };
        let individual = matches!(sizes, Sizes::Individual(_));
        let header = FrameHeader { blocksize: blocksize as i32, ..params.header(storage, individual) };
        let metalayers = Metalayers::new(params.metalayers)?;
        let state = FrameState {
            head: Arc::new(StoredHeader::new(header, metalayers)),
            vlmetalayers: Arc::default(),
            entries: Arc::default(),
            sizes,
            nbytes: 0,
            vl_blocks: false,
            all_stored: individual,
            items_changed: false,
        };
        let container = Container::default().itemsize(Some(typesize)).frame_blocksize(blocksize);
        let dparams = DParams::default().plugins(params.plugins).control(options.control.clone());
        let draft = Draft {
            store: store(state.head.len())?,
            state,
            rules: ChunkRules { typesize, blocksize, dparams: dparams.container(container) },
            sums: options.checksums.then(ChunkSums::default),
            starts: match options.block_starts {
                Some(asked) => asked.then(|| ChunkStarts::new(StartsPolicy::Always)),
                None => options.checksums.then(|| ChunkStarts::new(StartsPolicy::IfSmall)),
            },
            max_vlmetalayers: options.max_vlmetalayers,
        };
        Ok(Self { draft, abandoned: false })
    }

    /// Returns the number of chunks so far.
    pub fn nchunks(&self) -> usize {
        self.draft.nchunks()
    }

    /// Returns the uncompressed size so far, in bytes.
    pub fn nbytes(&self) -> u64 {
        self.draft.state.nbytes
    }

    /// Sets the threads, the progress callback and the cancellation of further calls. After a call
    /// is cancelled while it writes, the writer cannot be finished; the target is unchanged.
    pub fn set_control(&mut self, control: Control) {
        self.draft.rules.dparams.control = control;
    }

    /// Returns the control of the calls.
    pub fn control(&self) -> &Control {
        self.draft.control()
    }

    /// Appends a chunk and returns its number.
    ///
    /// The chunk is stored unchanged unless C-Blosc2 could not read it in a frame (another item
    /// size than the frame's, or the 16-byte header of Blosc1). In that case it is recompressed
    /// with default parameters. A chunk that is larger than the others, or that follows a smaller
    /// one, gives the frame individual chunk sizes.
    ///
    /// # Errors
    /// [`FrameError::Argument`] if only one of the frame and the chunk has variable-length blocks, or there are too
    /// many chunks; [`FrameError::Chunk`] if the chunk must be recompressed and cannot be decoded; [`FrameError::Io`]
    /// if it cannot be written; [`FrameError::Abandoned`] after an earlier call that failed; [`FrameError::Cancelled`],
    /// [`FrameError::OutOfMemory`].
    pub fn append(&mut self, chunk: Chunk) -> Result<usize, FrameError> {
        let nchunk = self.nchunks();
        self.draft.check_chunk(nchunk, chunk.header().is_vl())?;
        let chunk = self.draft.fit(nchunk, chunk)?;
        self.append_fitted(chunk)
    }

    /// Appends a chunk of `nbytes` zeros, NaNs or uninitialised items, and returns its number.
    ///
    /// # Errors
    /// [`FrameError::Argument`] for repeated values (use [`append`](Self::append) with a chunk), when there are no
    /// bytes or more than a chunk can have, and when NaNs do not match the item size; otherwise as for
    /// [`append`](Self::append).
    pub fn append_special(&mut self, kind: SpecialKind, nbytes: usize) -> Result<usize, FrameError> {
        if kind == SpecialKind::Value {
            return Err(FrameError::argument("kind", "repeated values need a stored chunk: use `append`"));
        }
        if nbytes == 0 || nbytes > MAX_CHUNK_NBYTES {
            return Err(FrameError::argument(
                "nbytes",
                format!("{nbytes}, expected 1 to {MAX_CHUNK_NBYTES}"),
            ));
        }
        if kind == SpecialKind::NaN && !self.draft.rules.nan_fits(nbytes) {
            return Err(FrameError::argument("nbytes", "NaN needs whole items of 4 or 8 bytes"));
        }
        self.draft.check_chunk(self.nchunks(), false)?;
        self.append_fitted(FittedChunk::special(kind, nbytes))
    }

    /// Appends a chunk. If that fails half-way, the frame cannot be finished.
    fn append_fitted(&mut self, chunk: FittedChunk) -> Result<usize, FrameError> {
        if self.abandoned {
            return Err(FrameError::Abandoned);
        }
        let nchunk = self.nchunks();
        let result = self.draft.insert(nchunk, chunk);
        self.abandoned = result.is_err();
        result.map(|()| nchunk)
    }

    /// Marks the frame as impossible to finish.
    pub(crate) fn abandon(&mut self) {
        self.abandoned = true;
    }

    /// Compresses and sets a vlmetalayer. By convention the value is msgpack. The last value set
    /// for a name counts.
    ///
    /// # Errors
    /// [`FrameError::Argument`] when the name does not have 1 to 31 bytes, or there are more than 16 (see
    /// [`WriteOptions::many_vlmetalayers`]); [`FrameError::Chunk`] when the value is too long for a chunk.
    pub fn set_vlmetalayer(&mut self, name: impl AsRef<[u8]>, value: &[u8]) -> Result<(), FrameError> {
        self.draft.set_vlmetalayer(name.as_ref(), value)
    }

    /// Sets a vlmetalayer to a compressed value.
    ///
    /// # Errors
    /// As for [`set_vlmetalayer`](Self::set_vlmetalayer).
    pub fn set_vlmetalayer_chunk(&mut self, name: impl AsRef<[u8]>, value: Chunk) -> Result<(), FrameError> {
        self.draft.set_vlmetalayer_chunk(name.as_ref(), value)
    }

    /// Returns the data written so far for reading, so that a frame can be examined before [`finish`](Self::finish)
    /// publishes it. The snapshot is not readable after that, or after the writer is dropped.
    ///
    /// # Errors
    /// [`FrameError::Io`] when buffered data cannot be written, [`FrameError::Abandoned`] after an earlier call that
    /// failed.
    pub fn snapshot(&mut self) -> Result<SuperChunk, FrameError> {
        if self.abandoned {
            return Err(FrameError::Abandoned);
        }
        self.draft.snapshot()
    }

    /// Writes index, trailer and header, and on disk renames the frame to its target.
    ///
    /// # Errors
    /// [`FrameError::Io`] when something cannot be written; [`FrameError::Exists`], [`FrameError::NotRegular`] or
    /// [`FrameError::NotASparseFrame`] when the target must not be replaced; [`FrameError::Abandoned`] after an earlier
    /// call that failed; [`FrameError::Argument`] when all chunks are empty (which a frame cannot distinguish from no
    /// chunks); [`FrameError::SetAside`] when the old target was renamed. Only after [`FrameError::NotSynced`] does the
    /// frame exist.
    pub fn finish(mut self) -> Result<WrittenFrame, FrameError> {
        if self.abandoned {
            return Err(FrameError::Abandoned);
        }
        let Draft { store, state, sums, starts, .. } = &mut self.draft;
        state.check()?;
        let (head, late) = store.commit(&CommitChange {
            old: state,
            new: state,
            sums: sums.as_ref(),
            starts: starts.as_ref(),
            metadata_only: false,
            trailer_only: false,
        })?;
        late?;
        Ok(WrittenFrame {
            nchunks: state.nchunks(),
            nbytes: state.nbytes,
            cbytes: head.header.cbytes(),
            frame_len: head.header.frame_len(),
            bytes: store.take_memory()?.unwrap_or_default(),
        })
    }
}
