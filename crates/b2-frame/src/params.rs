use b2_chunk::{CParams, CodecId, DParams, FilterSlot, MAX_BLOCKSIZE, Plugins, SplitMode};

use crate::header::FrameHeader;
use crate::{FrameError, Structure};

/// What a new frame's header says: item size, chunk size, metalayers, and the defaults for compressing chunks
/// that are added later.
///
/// ```
/// use b2_frame::{FrameParams, FrameWriter, SuperChunk};
/// let params = FrameParams::new(8).chunksize(80_000).metalayer("unit", b"\xa1K");
/// let frame = FrameWriter::memory(params)?.finish()?.into_bytes();
/// let schunk = SuperChunk::from_bytes(frame)?;
/// assert_eq!((schunk.typesize(), schunk.chunksize()), (8, 80_000));
/// assert_eq!(schunk.metalayers().get("unit"), Some(&b"\xa1K"[..]));
/// # Ok::<(), b2_frame::FrameError>(())
/// ```
#[derive(Clone, Debug)]
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
    /// How the header says that new chunks are to be compressed. `dparams` tells plugins and the shape of a
    /// block.
    ///
    /// # Errors
    /// When it names a codec or filter that is not there, or values that do not fit each other.
    pub fn to_cparams(&self, dparams: &DParams) -> Result<CParams, FrameError> {
        let cparams = CParams::builder(self.typesize())
            .codec(self.codec())
            .codec_meta(self.codec_meta())
            // More fits the header, but is no level.
            .clevel(self.clevel().min(9))
            .filters(self.filters())
            .splitmode(self.splitmode())
            .use_dict(self.use_dict())
            .blocksize(self.blocksize().min(MAX_BLOCKSIZE))
            .blockshape(dparams.container.blockshape.clone())
            .plugins(dparams.plugins.clone());
        cparams.build().map_err(FrameError::chunk(Structure::Header))
    }
}

impl FrameParams {
    /// Items of `typesize` bytes, and zstd 5 after a byte shuffle as defaults.
    pub fn new(typesize: usize) -> Self {
        Self {
            typesize,
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

    /// Item size, block size and defaults of these parameters.
    pub fn from_cparams(cparams: &CParams) -> Self {
        Self {
            codec: cparams.codec(),
            codec_meta: cparams.codec_meta(),
            clevel: cparams.clevel(),
            filters: cparams.filters(),
            splitmode: cparams.splitmode(),
            use_dict: cparams.use_dict(),
            blocksize: cparams.blocksize(),
            plugins: cparams.plugins().clone(),
            ..Self::new(cparams.typesize())
        }
    }

    /// Item size, block size, chunk size and defaults of another frame, also those that this build could not
    /// compress with. Metalayers are not taken over.
    pub fn like(header: &FrameHeader) -> Self {
        Self {
            codec: header.codec(),
            codec_meta: header.codec_meta(),
            clevel: header.clevel(),
            filters: header.filters(),
            splitmode: header.splitmode(),
            use_dict: header.use_dict(),
            blocksize: header.blocksize(),
            chunksize: usize::try_from(header.stored_chunksize()).ok(),
            ..Self::new(header.typesize())
        }
    }

    /// Sets the uncompressed size of every chunk but possibly the last, in bytes; 0 for chunks of individual
    /// sizes. Without it the first chunk decides.
    pub fn chunksize(mut self, chunksize: usize) -> Self {
        self.chunksize = Some(chunksize);
        self
    }

    /// Sets the block size in bytes; 0 for automatic. Arrays need it: all their chunks have blocks of this
    /// size.
    pub fn blocksize(mut self, blocksize: usize) -> Self {
        self.blocksize = blocksize;
        self
    }

    /// Adds a metalayer. By convention the value is msgpack.
    pub fn metalayer(mut self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Self {
        self.metalayers.push((name.as_ref().to_vec(), value.as_ref().to_vec()));
        self
    }

    /// Sets where codecs and filters are looked up when a chunk has to be compressed anew.
    pub fn plugins(mut self, plugins: Plugins) -> Self {
        self.plugins = plugins;
        self
    }
}
