use std::sync::Arc;

use b2_codecs::CodecId;
use b2_filters::{FilterId, FilterSlot};

use crate::header::MAX_BLOCKSIZE;
use crate::hooks::{BlockInfo, Hook};
use crate::{ChunkError, Limits, Plugins};

/// When full blocks are split into one stream per byte of the item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum SplitMode {
    /// Always.
    Always,
    /// Never.
    Never,
    /// When it pays: fast codecs after a byte shuffle of items up to 16 bytes.
    #[default]
    Auto,
    /// Same as [`Auto`](Self::Auto) today; C-Blosc2's default.
    ForwardCompat,
}

impl SplitMode {
    /// The number in frame headers, 1 to 4.
    pub fn code(self) -> u8 {
        match self {
            Self::Always => 1,
            Self::Never => 2,
            Self::Auto => 3,
            Self::ForwardCompat => 4,
        }
    }

    /// The mode with the number in frame headers, 1 to 4.
    pub fn from_code(code: u8) -> Option<Self> {
        [Self::Always, Self::Never, Self::Auto, Self::ForwardCompat].into_iter().find(|m| m.code() == code)
    }
}

/// How to compress. Made by [`CParams::builder`], where mistakes surface.
///
/// ```
/// use b2_chunk::{CParams, CodecId, FilterSlot};
/// let cparams = CParams::builder(4).codec(CodecId::LZ4).clevel(9).filters([FilterSlot::BITSHUFFLE]).build()?;
/// assert_eq!(cparams.filters()[5], FilterSlot::BITSHUFFLE);
/// assert!(CParams::builder(4).clevel(10).build().is_err());
/// # Ok::<(), b2_chunk::ChunkError>(())
/// ```
#[derive(Clone, Debug)]
pub struct CParams {
    codec: CodecId,
    codec_meta: u8,
    clevel: u8,
    typesize: usize,
    filters: [FilterSlot; 6],
    splitmode: SplitMode,
    blocksize: usize,
    use_dict: bool,
    blockshape: Arc<[u32]>,
    plugins: Plugins,
    pub(crate) prefilter: Hook,
}

impl CParams {
    /// Starts from the defaults: zstd 5 (lz4 in a build without zstd), shuffle, automatic split and block
    /// size, no dictionary. `typesize` is the item size in bytes.
    pub fn builder(typesize: usize) -> CParamsBuilder {
        let plugins = Plugins::builtin();
        let codec = if plugins.codec(CodecId::ZSTD).is_ok() { CodecId::ZSTD } else { CodecId::LZ4 };
        CParamsBuilder {
            params: Self {
                codec,
                codec_meta: 0,
                clevel: 5,
                typesize,
                filters: align_right(&[FilterSlot::SHUFFLE]).expect("one filter fits"),
                splitmode: SplitMode::Auto,
                blocksize: 0,
                use_dict: false,
                blockshape: Arc::default(),
                plugins,
                prefilter: Hook::default(),
            },
            too_many_filters: None,
        }
    }

    /// A builder that starts from these parameters.
    pub fn to_builder(&self) -> CParamsBuilder {
        CParamsBuilder { params: self.clone(), too_many_filters: None }
    }

    /// The codec.
    pub fn codec(&self) -> CodecId {
        self.codec
    }
    /// The codec's parameter byte.
    pub fn codec_meta(&self) -> u8 {
        self.codec_meta
    }
    /// Compression level, 0 (store) to 9.
    pub fn clevel(&self) -> u8 {
        self.clevel
    }
    /// Item size in bytes, also above 255.
    pub fn typesize(&self) -> usize {
        self.typesize
    }
    /// The six filter slots, in order of application.
    pub fn filters(&self) -> [FilterSlot; 6] {
        self.filters
    }
    /// When blocks are split.
    pub fn splitmode(&self) -> SplitMode {
        self.splitmode
    }
    /// Requested block size in bytes; 0 for automatic.
    pub fn blocksize(&self) -> usize {
        self.blocksize
    }
    /// Whether chunks get a dictionary.
    pub fn use_dict(&self) -> bool {
        self.use_dict
    }
    /// Shape of a block in items; empty when the data is no array.
    pub fn blockshape(&self) -> &[u32] {
        &self.blockshape
    }
    /// Where codec and filters are looked up.
    pub fn plugins(&self) -> &Plugins {
        &self.plugins
    }
    pub(crate) fn has_filter(&self, id: FilterId) -> bool {
        self.filters.iter().any(|slot| slot.id == id)
    }
}

/// Builds [`CParams`].
#[derive(Clone, Debug)]
pub struct CParamsBuilder {
    params: CParams,
    too_many_filters: Option<usize>,
}

impl CParamsBuilder {
    /// Sets the codec.
    pub fn codec(mut self, codec: CodecId) -> Self {
        self.params.codec = codec;
        self
    }
    /// Sets the codec's parameter byte.
    pub fn codec_meta(mut self, meta: u8) -> Self {
        self.params.codec_meta = meta;
        self
    }
    /// Sets the compression level, 0 (store) to 9.
    pub fn clevel(mut self, clevel: u8) -> Self {
        self.params.clevel = clevel;
        self
    }
    /// Sets the item size in bytes.
    pub fn typesize(mut self, typesize: usize) -> Self {
        self.params.typesize = typesize;
        self
    }
    /// Sets the pipeline: up to six filters in order of application. The last one lands in the last slot,
    /// as C-Blosc2 does.
    pub fn filters(mut self, filters: impl AsRef<[FilterSlot]>) -> Self {
        let filters = filters.as_ref();
        match align_right(filters) {
            Some(slots) => {
                self.params.filters = slots;
                self.too_many_filters = None;
            }
            None => self.too_many_filters = Some(filters.len()),
        }
        self
    }
    /// Sets when blocks are split.
    pub fn splitmode(mut self, splitmode: SplitMode) -> Self {
        self.params.splitmode = splitmode;
        self
    }
    /// Sets the block size in bytes; 0 for automatic. It is rounded down to a multiple of the item size.
    pub fn blocksize(mut self, blocksize: usize) -> Self {
        self.params.blocksize = blocksize;
        self
    }
    /// Whether each chunk gets a dictionary trained on its blocks (zstd, lz4, lz4hc).
    pub fn use_dict(mut self, use_dict: bool) -> Self {
        self.params.use_dict = use_dict;
        self
    }
    /// Sets the shape of a block in items, for N-dimensional filters and codecs.
    pub fn blockshape(mut self, blockshape: impl Into<Arc<[u32]>>) -> Self {
        self.params.blockshape = blockshape.into();
        self
    }
    /// Sets where codec and filters are looked up.
    pub fn plugins(mut self, plugins: Plugins) -> Self {
        self.params.plugins = plugins;
        self
    }

    /// Sets a function that makes each block's bytes from the input's, before filters and codec: to compute data
    /// on the way into a chunk, say. Data that is read back and compressed again passes it again. Chunks with
    /// variable-length blocks are made without it.
    ///
    /// ```
    /// use b2_chunk::{CParams, Chunk};
    /// let doubled = CParams::builder(1).prefilter(|_, src, dst| {
    ///     dst.iter_mut().zip(src).for_each(|(d, s)| *d = s.wrapping_mul(2));
    /// });
    /// let chunk = Chunk::compress(&[21; 1000], &doubled.build()?)?;
    /// assert_eq!(chunk.decompress()?, [42; 1000]);
    /// # Ok::<(), b2_chunk::ChunkError>(())
    /// ```
    pub fn prefilter(
        mut self,
        prefilter: impl Fn(&BlockInfo, &[u8], &mut [u8]) + Send + Sync + 'static,
    ) -> Self {
        self.params.prefilter = Hook::new(prefilter);
        self
    }

    /// Checks the parameters.
    ///
    /// # Errors
    /// When a value is out of range, a codec or filter is not registered, the codec has no dictionaries,
    /// there is more than one delta filter (which C-Blosc2 does not invert), or a filter before zfp.
    pub fn build(self) -> Result<CParams, ChunkError> {
        let p = self.params;
        let fail = |name, what: String| Err(ChunkError::Argument { name, what });
        if let Some(n) = self.too_many_filters {
            return fail("filters", format!("{n} filters, there are 6 slots"));
        }
        if p.clevel > 9 {
            return fail("clevel", format!("{}, expected 0 to 9", p.clevel));
        }
        if p.typesize == 0 || p.typesize > MAX_BLOCKSIZE {
            return fail("typesize", format!("{}, expected 1 to {MAX_BLOCKSIZE}", p.typesize));
        }
        if p.blocksize > MAX_BLOCKSIZE {
            return fail("blocksize", format!("{}, expected at most {MAX_BLOCKSIZE}", p.blocksize));
        }
        p.plugins.codec(p.codec)?;
        for slot in &p.filters {
            if slot.id != FilterId::NONE {
                p.plugins.filter(slot.id)?;
            }
        }
        if p.filters.iter().filter(|slot| slot.id == FilterId::DELTA).count() > 1 {
            return fail("filters", "more than one delta filter".into());
        }
        let zfp = CodecId::ZFP_FIXED_ACCURACY.0..=CodecId::ZFP_FIXED_RATE.0;
        let moves_bytes = |slot: &FilterSlot| !matches!(slot.id, FilterId::NONE | FilterId::TRUNC_PREC);
        if zfp.contains(&p.codec.0) && p.filters.iter().any(moves_bytes) {
            // It would be lossy on bytes that are no floats any more.
            return fail(
                "filters",
                format!("{} takes floats as they are: no filter may come before it", p.codec),
            );
        }
        if p.use_dict && !matches!(p.codec, CodecId::ZSTD | CodecId::LZ4 | CodecId::LZ4HC) && p.codec.0 < 160
        {
            return fail("use_dict", format!("codec {} has no dictionaries", p.codec));
        }
        Ok(p)
    }
}

fn align_right(filters: &[FilterSlot]) -> Option<[FilterSlot; 6]> {
    let mut slots = [FilterSlot::EMPTY; 6];
    let start = slots.len().checked_sub(filters.len())?;
    slots[start..].copy_from_slice(filters);
    Some(slots)
}

/// How to decompress: what is at hand and what may be spent.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct DParams {
    /// Where codecs and filters are looked up.
    pub plugins: Plugins,
    /// What the input may cost.
    pub limits: Limits,
    /// What the chunk's container knows about it.
    pub container: Container,
    /// What becomes of decompressed bytes.
    pub destination: Destination,
    pub(crate) postfilter: Hook,
}

/// What becomes of decompressed bytes: whether they are best written past the caches. The bytes are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Destination {
    /// By the size of the destination of a call: larger than the caches usually are, or not.
    #[default]
    Auto,
    /// They are read soon: they stay in the caches.
    Cached,
    /// They are part of something larger than the caches, and not read soon.
    Streaming,
}

impl Destination {
    /// Whether a call that fills `nbytes` is to write past the caches.
    pub fn is_streaming(self, nbytes: usize) -> bool {
        match self {
            Self::Auto => nbytes >= LARGER_THAN_CACHES,
            Self::Cached => false,
            Self::Streaming => true,
        }
    }
}

/// Third-level caches of today's machines have 8 to 32 MiB for one program; in bytes.
const LARGER_THAN_CACHES: usize = 16 << 20;

impl DParams {
    /// Sets where codecs and filters are looked up.
    pub fn with_plugins(self, plugins: Plugins) -> Self {
        Self { plugins, ..self }
    }
    /// Sets what the input may cost.
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }
    /// Sets what becomes of decompressed bytes.
    pub fn with_destination(self, destination: Destination) -> Self {
        Self { destination, ..self }
    }
    /// Sets what the container knows.
    pub fn with_container(self, container: Container) -> Self {
        Self { container, ..self }
    }
    /// Sets a function that every block passes after codec and filters, in whole and partial reads alike. Its
    /// result is what the reader gets; the stored bytes stay.
    ///
    /// ```
    /// use b2_chunk::{CParams, Chunk, DParams};
    /// let chunk = Chunk::compress(&[7; 1000], &CParams::builder(1).build()?)?;
    /// let negated = DParams::default().with_postfilter(|_, src, dst| {
    ///     dst.iter_mut().zip(src).for_each(|(d, s)| *d = !s);
    /// });
    /// assert_eq!(chunk.get_bytes(10..12, &negated)?, [!7, !7]);
    /// # Ok::<(), b2_chunk::ChunkError>(())
    /// ```
    pub fn with_postfilter(
        self,
        postfilter: impl Fn(&BlockInfo, &[u8], &mut [u8]) + Send + Sync + 'static,
    ) -> Self {
        Self { postfilter: Hook::new(postfilter), ..self }
    }
    /// Whether there is a postfilter.
    pub fn has_postfilter(&self) -> bool {
        self.postfilter.0.is_some()
    }
}

/// What only the container of a chunk (frame, array) knows; some chunks do not decode without it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Container {
    /// Real item size in bytes, also above 255 where the chunk header says 1.
    pub itemsize: Option<usize>,
    /// Block size in the frame header, in bytes; 0 for none.
    pub frame_blocksize: usize,
    /// Shape of a block in items; empty when the data is no array.
    pub blockshape: Arc<[u32]>,
}
