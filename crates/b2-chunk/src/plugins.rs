use std::fmt;
use std::sync::{Arc, OnceLock};

use b2_codecs::{Codec, CodecId};
use b2_filters::{Filter, FilterId};

use crate::ChunkError;

/// The codecs and filters at hand: a plain value, no global registry. Cloning is cheap.
///
/// ```
/// use b2_chunk::{CodecId, Plugins};
/// let plugins = Plugins::builtin();
/// assert!(plugins.codec(CodecId::LZ4).is_ok());
/// assert!(plugins.codec(CodecId(200)).is_err());
/// ```
#[derive(Clone)]
pub struct Plugins {
    codecs: Arc<[Arc<dyn Codec>]>,
    filters: Arc<[Arc<dyn Filter>]>,
}

impl Plugins {
    /// All codecs and filters of [`b2_codecs`] and [`b2_filters`] that the enabled features provide.
    pub fn builtin() -> Self {
        static BUILTIN: OnceLock<Plugins> = OnceLock::new();
        BUILTIN
            .get_or_init(|| Self {
                codecs: b2_codecs::builtin().into(),
                filters: b2_filters::builtin().into(),
            })
            .clone()
    }

    /// Adds a codec; it takes the place of an earlier one with the same id.
    ///
    /// Ids 160 to 255 are for users, 32 to 159 for globally registered plugins.
    pub fn with_codec(self, codec: impl Codec + 'static) -> Self {
        let id = codec.id();
        let kept = self.codecs.iter().filter(|c| c.id() != id).cloned();
        let codec: Arc<dyn Codec> = Arc::new(codec);
        Self { codecs: kept.chain([codec]).collect(), filters: self.filters }
    }

    /// Adds a filter; it takes the place of an earlier one with the same id.
    pub fn with_filter(self, filter: impl Filter + 'static) -> Self {
        let id = filter.id();
        let kept = self.filters.iter().filter(|f| f.id() != id).cloned();
        let filter: Arc<dyn Filter> = Arc::new(filter);
        Self { filters: kept.chain([filter]).collect(), codecs: self.codecs }
    }

    /// Finds a codec.
    ///
    /// # Errors
    /// [`ChunkError::UnknownCodec`], naming the id.
    pub fn codec(&self, id: CodecId) -> Result<&Arc<dyn Codec>, ChunkError> {
        self.codecs.iter().find(|c| c.id() == id).ok_or(ChunkError::UnknownCodec { id, at: None })
    }

    /// Finds a filter.
    ///
    /// # Errors
    /// [`ChunkError::UnknownFilter`], naming the id.
    pub fn filter(&self, id: FilterId) -> Result<&Arc<dyn Filter>, ChunkError> {
        self.filters.iter().find(|f| f.id() == id).ok_or(ChunkError::UnknownFilter { id, at: None })
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
