use std::fmt;
use std::sync::{Arc, OnceLock};

use b2_codecs::{Codec, CodecId, CodecProperties};
use b2_filters::{Filter, FilterContext, FilterId, FilterProperties, FilterSlot};

use crate::{ChunkError, ChunkHeader};

/// A set of codecs and filters. It is a plain value, there is no global registry. Cloning is cheap.
///
/// ```
/// use b2_chunk::{CodecId, Plugins};
/// let plugins = Plugins::builtin();
/// assert!(plugins.codec(CodecId::LZ4).is_ok());
/// assert!(plugins.codec(CodecId(200)).is_err());
/// ```
#[derive(Clone)]
#[must_use]
pub struct Plugins {
    codecs: Arc<[Arc<dyn Codec>]>,
    filters: Arc<[Arc<dyn Filter>]>,
}

impl Plugins {
    /// Returns all codecs and filters of [`b2_codecs`] and [`b2_filters`] that the enabled features provide.
    pub fn builtin() -> Self {
        Self::of_library().clone()
    }

    fn of_library() -> &'static Self {
        static BUILTIN: OnceLock<Plugins> = OnceLock::new();
        BUILTIN.get_or_init(|| Self {
            codecs: b2_codecs::builtin().into(),
            filters: b2_filters::builtin().into(),
        })
    }

    /// Returns whether one is a clone of the other.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.codecs, &other.codecs) && Arc::ptr_eq(&self.filters, &other.filters)
    }

    /// Returns whether this is [`builtin`](Self::builtin).
    pub(crate) fn is_builtin(&self) -> bool {
        self.is(Self::of_library())
    }

    /// Adds a codec. It replaces any codec with the same id.
    ///
    /// Ids 160 to 255 are for users, 32 to 159 for globally registered plugins.
    pub fn with_codec(self, codec: impl Codec + 'static) -> Self {
        self.with_codecs([Arc::new(codec) as Arc<dyn Codec>])
    }

    /// Adds several codecs, such as those of a crate, as [`with_codec`](Self::with_codec) does.
    pub fn with_codecs(mut self, codecs: impl IntoIterator<Item = Arc<dyn Codec>>) -> Self {
        for codec in codecs {
            let kept = self.codecs.iter().filter(|c| c.id() != codec.id()).cloned();
            self.codecs = kept.chain([codec.clone()]).collect();
        }
        self
    }

    /// Adds a filter. It replaces any filter with the same id.
    pub fn with_filter(self, filter: impl Filter + 'static) -> Self {
        let id = filter.id();
        let kept = self.filters.iter().filter(|f| f.id() != id).cloned();
        let filter: Arc<dyn Filter> = Arc::new(filter);
        Self { filters: kept.chain([filter]).collect(), codecs: self.codecs }
    }

    /// Looks up a codec by its id.
    ///
    /// # Errors
    /// [`ChunkError::UnknownCodec`] if none has this id.
    pub fn codec(&self, id: CodecId) -> Result<&Arc<dyn Codec>, ChunkError> {
        self.codecs.iter().find(|c| c.id() == id).ok_or(ChunkError::UnknownCodec { id, at: None })
    }

    /// Iterates over all codecs, in no particular order.
    pub fn codecs(&self) -> impl Iterator<Item = &dyn Codec> {
        self.codecs.iter().map(|codec| &**codec)
    }

    /// Iterates over all filters, in no particular order.
    pub fn filters(&self) -> impl Iterator<Item = &dyn Filter> {
        self.filters.iter().map(|filter| &**filter)
    }

    /// Looks up a filter by its id.
    ///
    /// # Errors
    /// [`ChunkError::UnknownFilter`] if none has this id.
    pub fn filter(&self, id: FilterId) -> Result<&Arc<dyn Filter>, ChunkError> {
        self.filters.iter().find(|f| f.id() == id).ok_or(ChunkError::UnknownFilter { id, at: None })
    }

    /// Returns the index of a filter in the list of all filters.
    pub(crate) fn filter_index(&self, id: FilterId) -> Option<usize> {
        self.filters.iter().position(|f| f.id() == id)
    }

    /// Returns the filter at an index of the list.
    pub(crate) fn filter_at(&self, index: usize) -> Option<&dyn Filter> {
        self.filters.get(index).map(|filter| &**filter)
    }

    /// Returns the properties of a codec, or [`CodecProperties::UNKNOWN`] if it is not registered.
    pub fn codec_properties(&self, id: CodecId) -> CodecProperties {
        self.codec(id).map_or(CodecProperties::UNKNOWN, |codec| codec.properties())
    }

    /// Returns the properties of a filter and its parameter for items of `itemsize` bytes: [`FilterProperties::COPY`]
    /// for an empty slot, [`FilterProperties::UNKNOWN`] for a filter that is not registered.
    pub fn filter_properties(&self, slot: FilterSlot, itemsize: usize) -> FilterProperties {
        if slot.id == FilterId::NONE {
            return FilterProperties::COPY;
        }
        match self.filters.iter().find(|filter| filter.id() == slot.id) {
            Some(filter) => filter.properties(&FilterContext::new(itemsize), slot.meta),
            None => FilterProperties::UNKNOWN,
        }
    }

    /// Returns filters as headers of chunks and frames store them: with the item size as the parameter of a filter for
    /// which 0 means that. C-Blosc2 does the same.
    #[doc(hidden)]
    pub fn stored_filters(&self, mut filters: [FilterSlot; 6], itemsize: usize) -> [FilterSlot; 6] {
        for slot in &mut filters {
            if slot.meta == 0
                && slot.id != FilterId::NONE
                && let Ok(itemsize) = i8::try_from(itemsize)
                && self.filter_properties(*slot, itemsize.cast_unsigned().into()).zero_is_itemsize
            {
                slot.meta = itemsize.cast_unsigned();
            }
        }
        filters
    }

    /// Estimates how expensive a chunk is to decode per byte, relative to a fast codec (blosclz, lz4).
    #[doc(hidden)]
    pub fn decoding_cost(&self, header: &ChunkHeader) -> u64 {
        if header.special().is_some() || header.is_memcpyed() {
            return 1;
        }
        header.codec().map_or(CodecProperties::UNKNOWN, |id| self.codec_properties(id)).decoding_cost.into()
    }
}

impl Default for Plugins {
    fn default() -> Self {
        Self::builtin()
    }
}

impl fmt::Debug for Plugins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plugins")
            .field("codecs", &self.codecs.iter().map(|c| c.id()).collect::<Vec<_>>())
            .field("filters", &self.filters.iter().map(|x| x.id()).collect::<Vec<_>>())
            .finish()
    }
}
