//! Parameters of new frames, and options for writing and changing frames.

use std::sync::Arc;

use b2_chunk::{CParams, CodecId, Compression, DParams, FilterSlot, MAX_BLOCKSIZE, Plugins, SplitMode};
use b2_core::Control;

use crate::format::header::{FrameHeader, Storage};
use crate::format::metalayers::{MAX_METALAYERS, MAX_VLMETALAYERS};
use crate::read::options::ReadOptions;
use crate::storage::staging::{Durability, Staging};
use crate::storage::traits::FileSystem;
use crate::{Disk, FrameError, Structure};

/// Options for writing a new frame. Returned by
/// [`FrameWriter::options`](crate::FrameWriter::options).
#[derive(Clone, Debug)]
#[must_use]
pub struct WriteOptions {
    pub(crate) target: Staging,
    pub(crate) storage: Storage,
    pub(crate) control: Control,
    pub(crate) max_vlmetalayers: usize,
    pub(crate) checksums: bool,
    /// `None` means only if there is space for it.
    pub(crate) block_starts: Option<bool>,
    pub(crate) keep_better: bool,
    pub(crate) keep_suspect: bool,
    pub(crate) tables: Tables,
}

impl Default for WriteOptions {
    fn default() -> Self {
        let target = Staging { fs: Arc::new(Disk), overwrite: false, durability: Durability::Sync };
        Self {
            target,
            storage: Storage::Contiguous,
            control: Control::new(),
            max_vlmetalayers: MAX_METALAYERS,
            checksums: true,
            block_starts: None,
            keep_better: false,
            keep_suspect: false,
            tables: Tables::Protected,
        }
    }
}

impl WriteOptions {
    /// Sets whether [`create`](Self::create) makes one file (the default) or a directory with a
    /// file for each chunk.
    pub fn storage(mut self, storage: Storage) -> Self {
        self.storage = storage;
        self
    }

    /// Sets whether an existing frame or other regular file is replaced. A directory is replaced
    /// only if it holds nothing but a sparse frame, and a member of a table of python-blosc2 (`CTable`) only with
    /// [`allow_table_edit`](Self::allow_table_edit).
    pub fn overwrite(mut self, overwrite: bool) -> Self {
        self.target.overwrite = overwrite;
        self
    }

    /// Sets whether [`create`](Self::create) may replace a member of a table of python-blosc2, as
    /// [`EditOptions::allow_table_edit`] does for changes.
    pub fn allow_table_edit(mut self, allow: bool) -> Self {
        self.tables = if allow { Tables::Marked } else { Tables::Protected };
        self
    }

    /// Leaves tables to the caller, as [`EditOptions::ignore_tables`] does.
    #[doc(hidden)]
    pub fn ignore_tables(mut self) -> Self {
        self.tables = Tables::Ignored;
        self
    }

    /// Sets whether [`salvage`](crate::salvage) refuses to replace a frame that holds more intact chunks than were saved
    /// ([`FrameError::HoldsMore`](crate::FrameError::HoldsMore)). Only used with [`overwrite`](Self::overwrite). The
    /// default is to replace it.
    pub fn keep_better(mut self, keep: bool) -> Self {
        self.keep_better = keep;
        self
    }

    /// Sets whether [`salvage`](crate::salvage) keeps a damaged chunk in which all blocks decode. Some of its values are wrong
    /// then, and nothing shows which. The default is to replace the chunk as a lost one.
    pub fn keep_suspect(mut self, keep: bool) -> Self {
        self.keep_suspect = keep;
        self
    }

    /// Sets whether a finished frame must survive a power loss (the default).
    pub fn durability(mut self, durability: Durability) -> Self {
        self.target.durability = durability;
        self
    }

    /// Sets the file system.
    pub fn file_system(mut self, fs: Arc<dyn FileSystem>) -> Self {
        self.target.fs = fs;
        self
    }

    /// Sets the threads and the progress callback of the writer's calls.
    pub fn control(mut self, control: Control) -> Self {
        self.control = control;
        self
    }

    /// Sets whether more than 16 vlmetalayers may be written. C-Blosc2 opens such a frame, but
    /// destroys it when it changes it.
    pub fn many_vlmetalayers(mut self, many: bool) -> Self {
        self.max_vlmetalayers = if many { MAX_VLMETALAYERS } else { MAX_METALAYERS };
        self
    }

    /// Sets whether the frame gets checksums (the default). Reads then detect damage and name the
    /// damaged chunk.
    ///
    /// C-Blosc2 reads such frames; if it changes them, the checksums are lost. They take 8 bytes
    /// per chunk.
    pub fn checksums(mut self, checksums: bool) -> Self {
        self.checksums = checksums;
        self
    }

    /// Sets whether the frame gets a table of block starts, with which remote readers fetch parts of chunks in one
    /// round of requests and with fewer bytes. By default it gets one if the table and the checksums together take at
    /// most 0.05 % of the frame and 300 bytes.
    ///
    /// C-Blosc2 reads such frames; if it changes their chunks, the table is lost. It takes 2 bytes per block, and is
    /// omitted if it would exceed 1 MiB in total (docs/format/block-starts.md). Changes with this crate keep it.
    pub fn block_starts(mut self, block_starts: bool) -> Self {
        self.block_starts = Some(block_starts);
        self
    }

    /// Returns options for changing a frame that was written with these options.
    pub(crate) fn to_edit(&self, params: &FrameParams) -> EditOptions {
        let read = ReadOptions {
            dparams: DParams::default().plugins(params.plugins.clone()).control(self.control.clone()),
            fs: self.target.fs.clone(),
            checksums: self.checksums,
            ..ReadOptions::default()
        };
        EditOptions {
            read,
            fs: Some(self.target.fs.clone()),
            durability: self.target.durability,
            max_vlmetalayers: self.max_vlmetalayers,
            ..EditOptions::default()
        }
    }
}

/// Options for opening a frame for changing. Returned by
/// [`FrameEditor::options`](crate::FrameEditor::options). Plugins, limits, threads, file system and whether checksums
/// are compared come from [`ReadOptions`], by `EditOptions::from`.
///
/// ```no_run
/// use b2_frame::FrameEditor;
///
/// let mut editor = FrameEditor::options().many_vlmetalayers(true).edit("log.b2frame")?;
/// editor.append_bytes(b"one more")?;
/// editor.commit()?;
/// # Ok::<(), b2_frame::FrameError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct EditOptions {
    pub(crate) read: ReadOptions,
    /// `None` if the files of `read` cannot be changed.
    pub(crate) fs: Option<Arc<dyn FileSystem>>,
    pub(crate) durability: Durability,
    pub(crate) lock: bool,
    pub(crate) max_vlmetalayers: usize,
    pub(crate) force: bool,
    pub(crate) tables: Tables,
}

/// The treatment of changes of members of python-blosc2 tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tables {
    /// They mark the indexes of the table as outdated; those after which it could not be read fail.
    Protected,
    /// They mark the indexes of the table as outdated.
    Marked,
    /// Nothing: the caller maintains the table.
    Ignored,
}

impl Default for EditOptions {
    fn default() -> Self {
        ReadOptions::default().into()
    }
}

impl From<ReadOptions> for EditOptions {
    /// Creates options for changing from options for reading. Their `compare` setting is ignored:
    /// chunks that are changed are always compared. Changes go to what [`ReadFiles::writable`](crate::ReadFiles::writable) returns.
    fn from(read: ReadOptions) -> Self {
        Self {
            fs: read.fs.clone().writable(),
            read,
            durability: Durability::Sync,
            lock: true,
            max_vlmetalayers: MAX_METALAYERS,
            force: false,
            tables: Tables::Protected,
        }
    }
}

impl EditOptions {
    /// Sets whether commits must survive a power loss (the default).
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Sets whether the editor holds the lock next to the frame (the default). The lock excludes other writers,
    /// including C-Blosc2 if its locking is on. Reading needs no lock.
    pub fn lock(mut self, lock: bool) -> Self {
        self.lock = lock;
        self
    }

    /// Sets whether there may be more than 16 vlmetalayers. C-Blosc2 opens such a frame, but
    /// destroys it when it changes it.
    pub fn many_vlmetalayers(mut self, many: bool) -> Self {
        self.max_vlmetalayers = if many { MAX_VLMETALAYERS } else { MAX_METALAYERS };
        self
    }

    /// Sets whether the editor may overwrite bytes after the frame that are not part of it, and change a file that has
    /// several hard links. The file must not be changed under its other names at the same time, because each name has
    /// its own lock. Commits that replace the file leave the old content under the other names.
    pub fn force(mut self, force: bool) -> Self {
        self.force = force;
        self
    }

    /// Sets whether changes are allowed after which python-blosc2 cannot read a table (`CTable`) any more or reads other rows:
    /// another length of one column, and changes of `_valid_rows`. In any case, each commit of changed items marks the
    /// indexes of the table as outdated first.
    pub fn allow_table_edit(mut self, allow: bool) -> Self {
        self.tables = if allow { Tables::Marked } else { Tables::Protected };
        self
    }

    /// Leaves tables to the caller: nothing is refused, and no index is marked.
    #[doc(hidden)]
    pub fn ignore_tables(mut self) -> Self {
        self.tables = Tables::Ignored;
        self
    }
}

/// The parameters of a new frame's header: item size, chunk size, metalayers, and defaults for
/// compressing chunks that are added later.
///
/// ```
/// use b2_frame::{FrameParams, FrameWriter, SuperChunk};
/// let params = FrameParams::new(8).chunksize(80_000).metalayer("unit", b"\xa1K");
/// let frame = FrameWriter::memory(params)?.finish()?.into_bytes();
/// let schunk = SuperChunk::from_bytes(frame)?;
/// assert_eq!((schunk.itemsize(), schunk.chunksize()), (8, 80_000));
/// assert_eq!(schunk.metalayers().get("unit"), Some(&b"\xa1K"[..]));
/// # Ok::<(), b2_frame::FrameError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct FrameParams {
    pub(crate) typesize: usize,
    pub(crate) codec: CodecId,
    pub(crate) codec_meta: u8,
    pub(crate) clevel: u8,
    pub(crate) filters: [FilterSlot; 6],
    pub(crate) splitmode: SplitMode,
    pub(crate) use_dict: bool,
    pub(crate) blocksize: usize,
    pub(crate) chunksize: Option<usize>,
    pub(crate) metalayers: Vec<(Vec<u8>, Vec<u8>)>,
    pub(crate) plugins: Plugins,
}

impl FrameHeader {
    /// Returns the compression parameters that the header names for new chunks (docs/format/frame-contiguous.md, section 1): codec,
    /// level, filters, split mode, block size, dictionary, item size. Nothing is checked before they are built.
    ///
    /// ```
    /// use b2_chunk::{Chunk, CodecId, Compression};
    /// use b2_frame::{FrameParams, FrameWriter, SuperChunk};
    /// let first = Compression::lz4().level(9).itemsize(8).build()?;
    /// let frame = FrameWriter::memory(FrameParams::from_cparams(&first))?.finish()?.into_bytes();
    /// let header = SuperChunk::from_bytes(frame)?.header().clone();
    /// let same = header.compression().build()?;
    /// assert_eq!((same.codec(), same.level(), same.itemsize()), (CodecId::LZ4, 9, 8));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn compression(&self) -> Compression {
        Compression::new()
            .itemsize(self.itemsize())
            .codec(self.codec())
            .codec_meta(self.codec_meta())
            // The header can hold larger numbers, which are not valid levels.
            .level(self.level().min(9))
            .filters(self.filters())
            .splitmode(self.splitmode())
            .use_dict(self.use_dict())
            .blocksize(self.blocksize().min(MAX_BLOCKSIZE))
    }

    /// Like [`compression`](Self::compression), with the plugins and the shape of a block of `dparams`.
    pub(crate) fn to_cparams(&self, dparams: &DParams) -> Result<CParams, FrameError> {
        let builder = self.compression().blockshape(dparams.container.blockshape.clone());
        builder.plugins(dparams.plugins.clone()).build().map_err(FrameError::chunk(Structure::Header))
    }
}

impl FrameParams {
    /// Creates parameters for items of `itemsize` bytes. The defaults for chunks are zstd at level
    /// 5 after a byte shuffle.
    pub fn new(itemsize: usize) -> Self {
        Self {
            typesize: itemsize,
            codec: CodecId::ZSTD,
            codec_meta: 0,
            clevel: 5,
            filters: [
                FilterSlot::EMPTY,
                FilterSlot::EMPTY,
                FilterSlot::EMPTY,
                FilterSlot::EMPTY,
                FilterSlot::EMPTY,
                FilterSlot::SHUFFLE,
            ],
            splitmode: SplitMode::Auto,
            use_dict: false,
            blocksize: 0,
            chunksize: None,
            metalayers: Vec::new(),
            plugins: Plugins::builtin(),
        }
    }

    /// Creates parameters with the item size, block size and defaults of `cparams`.
    pub fn from_cparams(cparams: &CParams) -> Self {
        Self {
            codec: cparams.codec(),
            codec_meta: cparams.codec_meta(),
            clevel: cparams.level(),
            filters: cparams.filters(),
            splitmode: cparams.splitmode(),
            use_dict: cparams.use_dict(),
            blocksize: cparams.blocksize(),
            plugins: cparams.plugins().clone(),
            ..Self::new(cparams.itemsize())
        }
    }

    /// Creates parameters with the item size, block size, chunk size and defaults of another frame,
    /// even if this build cannot compress with them. Metalayers are not copied.
    pub fn like(header: &FrameHeader) -> Self {
        Self {
            codec: header.codec(),
            codec_meta: header.codec_meta(),
            clevel: header.level(),
            filters: header.filters(),
            splitmode: header.splitmode(),
            use_dict: header.use_dict(),
            blocksize: header.blocksize(),
            chunksize: usize::try_from(header.stored_chunksize()).ok(),
            ..Self::new(header.itemsize())
        }
    }

    /// Returns the header of an empty frame with these parameters, which were checked.
    pub(crate) fn header(&self, storage: Storage, individual: bool) -> FrameHeader {
        let version = if individual { 3 } else { 2 };
        FrameHeader {
            header_len: 0,
            frame_len: 0,
            general_flags: 0x10 | version | u8::from(individual) << 6,
            storage,
            clevel: self.clevel,
            splitmode: self.splitmode,
            nbytes: 0,
            cbytes: 0,
            typesize: u32::try_from(self.typesize).unwrap_or(u32::MAX),
            blocksize: i32::try_from(self.blocksize).unwrap_or(0),
            chunksize: -1,
            // Not the numbers really used, so that the same data give the same frame on every
            // machine.
            nthreads: (1, 1),
            has_vlmetalayers: false,
            // C-Blosc2 replaces 0 when it changes a metalayer, and the header would not match its sum.
            filters: self.plugins.stored_filters(self.filters, self.typesize),
            codec: self.codec,
            codec_meta: self.codec_meta,
            use_dict: self.use_dict,
        }
    }

    /// Sets the uncompressed size of every chunk except possibly the last, in bytes; 0 for
    /// individual sizes. By default the first chunk decides.
    pub fn chunksize(mut self, chunksize: usize) -> Self {
        self.chunksize = Some(chunksize);
        self
    }

    /// Sets the block size in bytes; 0 means automatic. Arrays need it, since all their chunks have
    /// blocks of this size.
    pub fn blocksize(mut self, blocksize: usize) -> Self {
        self.blocksize = blocksize;
        self
    }

    /// Adds a metalayer. By convention the value is msgpack.
    pub fn metalayer(mut self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Self {
        self.metalayers.push((name.as_ref().to_vec(), value.as_ref().to_vec()));
        self
    }

    /// Sets the codecs and filters that are available for recompressing chunks.
    pub fn plugins(mut self, plugins: Plugins) -> Self {
        self.plugins = plugins;
        self
    }
}
