use std::error::Error;
use std::sync::Arc;

use b2_codecs::CodecId;
use b2_filters::{FilterId, FilterSlot, Reference};

use crate::model::blosc1;
use crate::model::header::MAX_BLOCKSIZE;
use crate::model::params::{BlockInfo, Hook};
use crate::{CParams, ChunkError, Compatibility, Control, Limits, Plugins, SplitMode};

/// Builder for compression parameters: codec, level, filters, and whatever else differs from the defaults.
///
/// The item size comes from the type of the values ([`Chunk::compress`](crate::Chunk::compress)) or of the array.
/// When plain bytes are compressed, set it with [`itemsize`](Self::itemsize). [`build`](Self::build) checks all
/// parameters together.
///
/// ```
/// use b2_chunk::filters::{ByteDelta, Shuffle};
/// use b2_chunk::{Chunk, Compression};
///
/// let ramp: Vec<u32> = (0..100_000).collect();
/// let chunk = Chunk::compress(&ramp, &Compression::zstd(9).filter(Shuffle).filter(ByteDelta))?;
/// assert!(chunk.cbytes() < 2000);
/// # Ok::<(), b2_chunk::ChunkError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Compression {
    /// Everything except the filters. `typesize` is 0 until it is set.
    params: CParams,
    /// `None` for the default pipeline.
    filters: Option<Vec<FilterSlot>>,
}

impl Compression {
    /// Returns the defaults: zstd at level 5 (LZ4 in a build without zstd), shuffle, automatic split mode and block
    /// size, no dictionary.
    pub fn new() -> Self {
        let plugins = Plugins::builtin();
        let codec = if plugins.codec(CodecId::ZSTD).is_ok() { CodecId::ZSTD } else { CodecId::LZ4 };
        let params = CParams {
            codec,
            codec_meta: 0,
            level: 5,
            typesize: 0,
            filters: [FilterSlot::EMPTY; 6],
            splitmode: SplitMode::Auto,
            blocksize: 0,
            use_dict: false,
            compatibility: Compatibility::Blosc2,
            blockshape: Arc::default(),
            plugins,
            limits: Limits::default(),
            control: Control::new(),
            prefilter: Hook::default(),
            nchunk: None,
        };
        Self { params, filters: None }
    }

    /// Selects zstd at a level from 1 (fastest) to 9 (smallest).
    pub fn zstd(level: u8) -> Self {
        Self::new().codec(CodecId::ZSTD).level(level)
    }
    /// Selects LZ4 at level 5: fast compression and decompression.
    pub fn lz4() -> Self {
        Self::new().codec(CodecId::LZ4)
    }
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
    pub fn level(mut self, level: u8) -> Self {
        self.params.level = level;
        self
    }
    /// Sets the item size in bytes.
    pub fn itemsize(mut self, itemsize: usize) -> Self {
        self.params.typesize = itemsize;
        self
    }
    /// Appends a filter to the pipeline, which has six slots. The first call replaces the default shuffle.
    ///
    /// ```
    /// use b2_chunk::filters::Shuffle;
    /// use b2_chunk::{Compression, FilterId, FilterSlot};
    /// let cut = FilterSlot::new(FilterId::TRUNC_PREC, 10);
    /// let cparams = Compression::lz4().filter(cut).filter(Shuffle).itemsize(4).build()?;
    /// assert_eq!(cparams.filters()[4..], [cut, FilterSlot::SHUFFLE]);
    /// # Ok::<(), b2_chunk::ChunkError>(())
    /// ```
    pub fn filter(mut self, filter: impl Into<FilterSlot>) -> Self {
        self.filters.get_or_insert_default().push(filter.into());
        self
    }
    /// Replaces all filters. They are listed in the order in which compression applies them.
    pub fn filters(mut self, filters: impl IntoIterator<Item: Into<FilterSlot>>) -> Self {
        self.filters = Some(filters.into_iter().map(Into::into).collect());
        self
    }
    /// Removes all filters, including the default shuffle.
    pub fn no_filters(mut self) -> Self {
        self.filters = Some(Vec::new());
        self
    }
    /// Sets when blocks are split into one stream per byte of the item.
    pub fn splitmode(mut self, splitmode: SplitMode) -> Self {
        self.params.splitmode = splitmode;
        self
    }
    /// Sets the block size in bytes; 0 for automatic. It is rounded down to a multiple of the item size.
    pub fn blocksize(mut self, blocksize: usize) -> Self {
        self.params.blocksize = blocksize;
        self
    }
    /// Sets whether each chunk gets a dictionary trained on its blocks (zstd, lz4, lz4hc, and plugins that support it).
    pub fn use_dict(mut self, use_dict: bool) -> Self {
        self.params.use_dict = use_dict;
        self
    }
    /// Sets which libraries can read the chunks.
    ///
    /// ```
    /// use b2_chunk::{Chunk, Compatibility, Compression};
    /// let compression = Compression::lz4().compatibility(Compatibility::Blosc1);
    /// let chunk = Chunk::compress(&[1.5f64; 1000], &compression)?;
    /// assert_eq!(chunk.as_bytes()[0], 2);     // the version that C-Blosc 1 reads
    /// # Ok::<(), b2_chunk::ChunkError>(())
    /// ```
    pub fn compatibility(mut self, compatibility: Compatibility) -> Self {
        self.params.compatibility = compatibility;
        self
    }
    /// Sets the shape of a block in items, for N-dimensional filters and codecs.
    pub fn blockshape(mut self, blockshape: impl Into<Arc<[u32]>>) -> Self {
        self.params.blockshape = blockshape.into();
        self
    }
    /// Sets the plugins that provide the codec and the filters.
    pub fn plugins(mut self, plugins: Plugins) -> Self {
        self.params.plugins = plugins;
        self
    }
    /// Sets the limits. Compression obeys `max_memory` only.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.params.limits = limits;
        self
    }
    /// Sets the threads to use, and the callback that reports progress and may stop the call.
    pub fn control(mut self, control: Control) -> Self {
        self.params.control = control;
        self
    }

    /// Sets a function that computes each block from the input, before the filters and the codec run.
    ///
    /// It runs again when data is read back and recompressed. Chunks with variable-length blocks ignore it. If it
    /// fails, the call fails with [`ChunkError::Hook`](crate::ChunkError::Hook).
    ///
    /// ```
    /// use b2_chunk::{Chunk, Compression};
    /// let doubled = Compression::lz4().prefilter(|_, src, dst| {
    ///     dst.iter_mut().zip(src).for_each(|(d, s)| *d = s.wrapping_mul(2));
    ///     Ok(())
    /// });
    /// let chunk = Chunk::compress(&[21u8; 1000], &doubled)?;
    /// assert_eq!(chunk.decompress::<u8>()?, [42; 1000]);
    /// # Ok::<(), b2_chunk::ChunkError>(())
    /// ```
    pub fn prefilter(
        mut self,
        prefilter: impl Fn(&BlockInfo, &[u8], &mut [u8]) -> Result<(), Box<dyn Error + Send + Sync>>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        self.params.prefilter = Hook::new(prefilter);
        self
    }

    /// Checks the parameters against each other.
    ///
    /// # Errors
    /// [`ChunkError::UnknownCodec`] or [`ChunkError::UnknownFilter`] if a codec or filter is not registered;
    /// [`ChunkError::Argument`] if a value is out of range, the codec does not support dictionaries, there is more than
    /// one delta filter (C-Blosc2 cannot invert that), a filter precedes zfp, or the chunks are for C-Blosc 1, which
    /// lacks a requested feature.
    pub fn build(self) -> Result<CParams, ChunkError> {
        let Self { params: mut p, filters } = self;
        let fail = |name, what: String| Err(ChunkError::Argument { name, what });
        let filters = filters.as_deref().unwrap_or(&[FilterSlot::SHUFFLE]);
        // Like C-Blosc2: the last filter goes into the last slot.
        p.filters = [FilterSlot::EMPTY; 6];
        if filters.len() > p.filters.len() {
            return fail("filters", format!("{} filters do not fit into 6 slots", filters.len()));
        }
        p.filters.iter_mut().rev().zip(filters.iter().rev()).for_each(|(slot, filter)| *slot = *filter);
        for slot in p.filters.iter_mut().filter(|slot| slot.id == FilterId::BYTEDELTA && slot.meta == 0) {
            slot.meta = bytedelta_planes(p.typesize);
        }
        if p.level > 9 {
            return fail("level", format!("{}, expected 0 to 9", p.level));
        }
        if p.typesize == 0 || p.typesize > MAX_BLOCKSIZE {
            return fail(
                "itemsize",
                format!("{}, expected the size of an item, 1 to {MAX_BLOCKSIZE} bytes", p.typesize),
            );
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
        let refers = |slot: &&FilterSlot| {
            slot.id != FilterId::NONE
                && p.plugins.filter_properties(**slot, p.typesize).reference != Reference::None
        };
        if p.filters.iter().filter(refers).count() > 1 {
            return fail("filters", "more than one delta filter".into());
        }
        let codec = p.codec_properties();
        if (codec.takes_floats || codec.takes_numbers) && p.has_filter(|filter| !filter.keeps_floats) {
            // A lossy codec needs floats, which filtered bytes are not; other codecs for numbers would find no structure.
            let items = if codec.takes_floats { "floats" } else { "numbers" };
            return fail(
                "filters",
                format!("{} compresses unfiltered {items}: no filter may come before it", p.codec),
            );
        }
        if p.use_dict && !codec.dictionaries {
            return fail("use_dict", format!("codec {} does not support dictionaries", p.codec));
        }
        if p.compatibility == Compatibility::Blosc1 {
            blosc1::check(&p)?;
        }
        Ok(p)
    }
}

/// Returns the parameter of bytedelta for items of this size. It is 0, which means the item size, up to 127: then headers
/// store the item size, and python-blosc2 opens the frame. Larger items get the largest
/// divisor of their size up to 127. A plane is then several bytes of the items, which compresses as well.
fn bytedelta_planes(itemsize: usize) -> u8 {
    const MAX_PLANES: u8 = i8::MAX.cast_unsigned();
    if itemsize <= MAX_PLANES.into() {
        return 0;
    }
    (1..=MAX_PLANES).rev().find(|&planes| itemsize.is_multiple_of(planes.into())).unwrap_or(1)
}

impl CParams {
    /// Returns a builder that starts from these parameters.
    pub fn to_builder(&self) -> Compression {
        Compression::from(self)
    }
}

impl Default for Compression {
    fn default() -> Self {
        Self::new()
    }
}

impl From<&CParams> for Compression {
    fn from(params: &CParams) -> Self {
        params.clone().into()
    }
}

impl From<CParams> for Compression {
    fn from(params: CParams) -> Self {
        let filters = params.filters.into_iter().skip_while(|slot| *slot == FilterSlot::EMPTY);
        Self { filters: Some(filters.collect()), params }
    }
}
