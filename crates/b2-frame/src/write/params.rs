use b2_chunk::{CParams, CodecId, Compression, DParams, FilterSlot, MAX_BLOCKSIZE, Plugins, SplitMode};

use crate::format::header::{FrameHeader, Storage};
use crate::{FrameError, Structure};

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
            filters: self.filters,
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
