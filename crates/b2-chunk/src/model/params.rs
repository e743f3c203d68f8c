//! The parameters of encoding and decoding, and the functions of users that transform every block: before the filters when
//! compressing, after them when decompressing. A chunk does not record that it was made with one.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

use b2_codecs::{CodecId, CodecProperties};
use b2_core::Cancelled;
use b2_filters::{FilterId, FilterProperties, FilterSlot};

use crate::{ChunkError, Control, HookError, Limits, Plugins};

/// When full blocks are split into one stream per byte of the item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum SplitMode {
    /// Split all full blocks.
    Always,
    /// Never split.
    Never,
    /// Split when it pays: fast codecs after a byte shuffle of items of up to 16 bytes.
    #[default]
    Auto,
    /// Currently behaves like [`Auto`](Self::Auto). This is the default of C-Blosc2.
    ForwardCompat,
}

impl SplitMode {
    /// Returns the number that frame headers use for this mode, 1 to 4.
    #[doc(hidden)]
    pub fn code(self) -> u8 {
        match self {
            Self::Always => 1,
            Self::Never => 2,
            Self::Auto => 3,
            Self::ForwardCompat => 4,
        }
    }

    /// Returns the mode for a number from a frame header, 1 to 4.
    #[doc(hidden)]
    pub fn from_code(code: u8) -> Option<Self> {
        [Self::Always, Self::Never, Self::Auto, Self::ForwardCompat].into_iter().find(|m| m.code() == code)
    }
}

/// Which libraries can read a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Compatibility {
    /// C-Blosc2 2.0 and later. Frames and arrays need this.
    #[default]
    Blosc2,
    /// C-Blosc 1, such as in the `blosc` codec of Zarr and numcodecs, and C-Blosc2
    /// (docs/format/chunk.md, section 9).
    ///
    /// It has the codecs blosclz, lz4, lz4hc, zlib and zstd, either shuffle or bitshuffle, and items of up to 255
    /// bytes. It lacks special chunks, runs, dictionaries and variable-length blocks.
    Blosc1,
}

/// Validated compression parameters, made by [`Compression::build`](crate::Compression::build), which reports any mistake.
///
/// ```
/// use b2_chunk::{CodecId, Compression, FilterId};
/// let cparams = Compression::new().itemsize(4).codec(CodecId::LZ4).level(9).filter(FilterId::BITSHUFFLE).build()?;
/// assert_eq!((cparams.itemsize(), cparams.filters()[5].id), (4, FilterId::BITSHUFFLE));
/// assert!(Compression::new().itemsize(4).level(10).build().is_err());
/// # Ok::<(), b2_chunk::ChunkError>(())
/// ```
#[derive(Clone, Debug)]
pub struct CParams {
    pub(super) codec: CodecId,
    pub(super) codec_meta: u8,
    pub(super) level: u8,
    pub(super) typesize: usize,
    pub(super) filters: [FilterSlot; 6],
    pub(super) splitmode: SplitMode,
    pub(super) blocksize: usize,
    pub(super) use_dict: bool,
    pub(super) compatibility: Compatibility,
    pub(crate) blockshape: Arc<[u32]>,
    pub(super) plugins: Plugins,
    pub(super) limits: Limits,
    pub(super) control: Control,
    pub(crate) prefilter: Hook,
    /// Index of the chunk in its container, passed to the prefilter.
    pub(crate) nchunk: Option<usize>,
}

impl CParams {
    /// Sets the threads to use and the callback that may stop the call.
    #[must_use]
    pub fn with_control(self, control: Control) -> Self {
        Self { control, ..self }
    }

    /// Returns the codec.
    pub fn codec(&self) -> CodecId {
        self.codec
    }
    /// Returns the codec's parameter byte.
    pub fn codec_meta(&self) -> u8 {
        self.codec_meta
    }
    /// Returns the compression level, 0 (store) to 9.
    pub fn level(&self) -> u8 {
        self.level
    }
    /// Returns the item size in bytes. Unlike the size in chunk headers, it may be above 255.
    pub fn itemsize(&self) -> usize {
        self.typesize
    }
    /// Returns the six filter slots, in the order in which compression applies them.
    pub fn filters(&self) -> [FilterSlot; 6] {
        self.filters
    }
    /// Returns when blocks are split.
    pub fn splitmode(&self) -> SplitMode {
        self.splitmode
    }
    /// Returns the requested block size in bytes, or 0 for automatic.
    pub fn blocksize(&self) -> usize {
        self.blocksize
    }
    /// Returns whether chunks get a dictionary.
    pub fn use_dict(&self) -> bool {
        self.use_dict
    }
    /// Returns which libraries can read the chunks.
    pub fn compatibility(&self) -> Compatibility {
        self.compatibility
    }
    /// Returns the shape of a block in items. It is empty if the data is not an array.
    pub fn blockshape(&self) -> &[u32] {
        &self.blockshape
    }
    /// Returns the plugins that provide the codec and the filters.
    pub fn plugins(&self) -> &Plugins {
        &self.plugins
    }
    /// Returns the limits that compression obeys.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }
    /// Returns the threads to use and the callback that may stop the call.
    pub fn control(&self) -> &Control {
        &self.control
    }
    pub(crate) fn codec_properties(&self) -> CodecProperties {
        self.plugins.codec_properties(self.codec)
    }
    /// Returns whether `kind` holds for any filter in use.
    pub(crate) fn has_filter(&self, kind: impl Fn(FilterProperties) -> bool) -> bool {
        // Filters work with the item size of the chunk header, which is 1 for items above 255 bytes.
        let typesize = u8::try_from(self.typesize).unwrap_or(1).into();
        let mut used = self.filters.iter().filter(|slot| slot.id != FilterId::NONE);
        used.any(|slot| kind(self.plugins.filter_properties(*slot, typesize)))
    }
    /// Returns parameters for chunk `nchunk` of a container, so that the prefilter sees the index.
    #[doc(hidden)]
    pub fn for_chunk(&self, nchunk: usize) -> Cow<'_, Self> {
        match self.prefilter.is_set() {
            true => Cow::Owned(Self { nchunk: Some(nchunk), ..self.clone() }),
            false => Cow::Borrowed(self),
        }
    }
}

/// Decompression parameters: plugins, limits, and what the caller knows about the chunk.
///
/// ```
/// use b2_chunk::{DParams, Limits};
/// let limits = Limits::default().max_chunk_nbytes(1 << 20);
/// let dparams = DParams::default().limits(limits);
/// # let _ = dparams;
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
#[must_use]
pub struct DParams {
    /// The plugins that provide codecs and filters.
    pub plugins: Plugins,
    /// Limits on what decoding the input may cost.
    pub limits: Limits,
    /// Facts about the chunk that only its container has.
    pub container: Container,
    /// How decompressed bytes will be used.
    pub destination: Destination,
    /// The threads to use and the callback that may stop the call.
    pub control: Control,
    /// The function that [`postfilter`](Self::postfilter()) sets.
    pub(crate) postfilter: Hook,
}

/// How decompressed bytes will be used, which decides whether stores bypass the caches. The result does not depend on
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Destination {
    /// Bypass the caches if the destination of the call is larger than caches usually are.
    #[default]
    Auto,
    /// The bytes are read soon: keep them in the caches.
    Cached,
    /// The bytes are part of something larger than the caches and not read soon: bypass the caches.
    Streaming,
}

impl Destination {
    /// Returns whether a call that fills `nbytes` bytes should bypass the caches.
    #[doc(hidden)]
    pub fn is_streaming(self, nbytes: usize) -> bool {
        match self {
            Self::Auto => nbytes >= LARGER_THAN_CACHES,
            Self::Cached => false,
            Self::Streaming => true,
        }
    }
}

/// Threshold in bytes. Third-level caches of today's machines have 8 to 32 MiB for one program.
const LARGER_THAN_CACHES: usize = 16 << 20;

impl DParams {
    /// Sets the plugins.
    pub fn plugins(self, plugins: Plugins) -> Self {
        Self { plugins, ..self }
    }
    /// Sets the limits.
    pub fn limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }
    /// Sets what the container of the chunk knows about it.
    pub fn container(self, container: Container) -> Self {
        Self { container, ..self }
    }
    /// Sets how the decompressed bytes will be used.
    pub fn destination(self, destination: Destination) -> Self {
        Self { destination, ..self }
    }
    /// Sets the threads to use and the callback that may stop the call.
    pub fn control(self, control: Control) -> Self {
        Self { control, ..self }
    }
    /// Sets a function that transforms every block after the codec and the filters, in whole and partial reads.
    ///
    /// The reader gets its result; the stored bytes do not change. If it fails, the call fails with
    /// [`ChunkError::Hook`](crate::ChunkError::Hook).
    ///
    /// ```
    /// use b2_chunk::{Chunk, Compression, DParams};
    /// let chunk = Chunk::compress(&[7u8; 1000], &Compression::lz4())?;
    /// let negated = DParams::default().postfilter(|_, src, dst| {
    ///     dst.iter_mut().zip(src).for_each(|(d, s)| *d = !s);
    ///     Ok(())
    /// });
    /// assert_eq!(chunk.get_bytes(10..12, &negated)?, [!7, !7]);
    /// # Ok::<(), b2_chunk::ChunkError>(())
    /// ```
    pub fn postfilter(
        self,
        postfilter: impl Fn(&BlockInfo, &[u8], &mut [u8]) -> Result<(), Box<dyn Error + Send + Sync>>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        Self { postfilter: Hook::new(postfilter), ..self }
    }
    /// Returns whether there is a postfilter.
    #[doc(hidden)]
    pub fn has_postfilter(&self) -> bool {
        self.postfilter.is_set()
    }
}

/// Facts about a chunk that only its container (frame, array) has. Some chunks cannot be decoded without them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub struct Container {
    /// Real item size in bytes. Chunk headers say 1 if it is above 255.
    pub itemsize: Option<usize>,
    /// Block size in the frame header, in bytes; 0 if there is none.
    pub frame_blocksize: usize,
    /// Shape of a block in items; empty if the data is not an array.
    pub blockshape: Arc<[u32]>,
}

impl Container {
    /// Sets the real item size in bytes.
    pub fn itemsize(self, itemsize: Option<usize>) -> Self {
        Self { itemsize, ..self }
    }
    /// Sets the block size in the frame header, in bytes.
    pub fn frame_blocksize(self, frame_blocksize: usize) -> Self {
        Self { frame_blocksize, ..self }
    }
    /// Sets the shape of a block in items.
    pub fn blockshape(self, blockshape: impl Into<Arc<[u32]>>) -> Self {
        Self { blockshape: blockshape.into(), ..self }
    }
}

/// Identifies the block that a prefilter or postfilter is called for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockInfo {
    /// Index of the chunk in its frame or array; `None` for a chunk outside of any container.
    pub nchunk: Option<usize>,
    /// Index of the block in its chunk.
    pub nblock: usize,
    /// Offset of the block in the uncompressed chunk, in bytes.
    pub offset: usize,
    /// Item size in bytes.
    pub itemsize: usize,
}

/// The result of a hook.
type Outcome = Result<(), Box<dyn Error + Send + Sync>>;

type BlockFn = dyn Fn(&BlockInfo, &[u8], &mut [u8]) -> Outcome + Send + Sync;

/// A function that writes a block of the same length; `None` copies the block.
#[derive(Clone, Default)]
pub(crate) struct Hook(Option<Arc<BlockFn>>);

impl Hook {
    pub(crate) fn new(
        hook: impl Fn(&BlockInfo, &[u8], &mut [u8]) -> Outcome + Send + Sync + 'static,
    ) -> Self {
        Self(Some(Arc::new(hook)))
    }

    /// Returns whether there is a function.
    pub(crate) fn is_set(&self) -> bool {
        self.0.is_some()
    }

    /// Computes `dst` from `src`.
    pub(crate) fn call(&self, info: &BlockInfo, src: &[u8], dst: &mut [u8]) -> Result<(), ChunkError> {
        let Some(hook) = &self.0 else {
            dst.copy_from_slice(src);
            return Ok(());
        };
        hook(info, src, dst).map_err(|error| match error.downcast::<Cancelled>() {
            Ok(cancelled) => (*cancelled).into(),
            Err(error) => ChunkError::Hook { nblock: info.nblock, source: HookError::new(error) },
        })
    }
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_set() { "Hook(..)" } else { "Hook(none)" })
    }
}
