//! Compression options of both codecs, and their names in the metadata.

use std::borrow::Cow;
use std::sync::LazyLock;

use b2_chunk::{CodecId, Compression, FilterId, FilterSlot, Plugins};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use zarrs_codec::CodecError;
use zarrs_plugin::PluginCreateError;

/// The name of the codec for arrays in the metadata.
pub(crate) const B2ND: &str = "b2kit.b2nd";
/// Filters by their imagecodecs names.
const IMAGECODECS_FILTERS: &[(&str, &[&str])] =
    &[("NOFILTER", &[]), ("NOSHUFFLE", &[]), ("SHUFFLE", &["shuffle"]), ("BITSHUFFLE", &["bitshuffle"])];

/// The codecs and filters: the built-in ones, zfp and, with its feature, pcodec.
pub(crate) static PLUGINS: LazyLock<Plugins> = LazyLock::new(|| {
    let plugins = Plugins::builtin().with_codecs(b2_zfp::codecs());
    #[cfg(feature = "pco")]
    let plugins = plugins.with_codec(b2_pco::Pco);
    plugins
});

/// A Blosc2 filter by name, with or without a parameter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum Filter {
    /// A filter without a parameter, such as `shuffle`.
    Name(String),
    /// A filter with a parameter, such as `trunc_prec` with the number of bits.
    With(String, u8),
}

impl From<&str> for Filter {
    fn from(name: &str) -> Self {
        Self::Name(name.to_owned())
    }
}

impl From<(&str, u8)> for Filter {
    fn from((name, parameter): (&str, u8)) -> Self {
        Self::With(name.to_owned(), parameter)
    }
}

/// Codec, level and filters of new chunks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) codec: String,
    pub(crate) level: u8,
    pub(crate) filters: Vec<Filter>,
    /// Whether to use imagecodecs' codec name and configuration members.
    pub(crate) imagecodecs: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { codec: "zstd".to_owned(), level: 5, filters: vec!["shuffle".into()], imagecodecs: false }
    }
}

impl Options {
    /// Parses the configuration of a codec. The member that only one of the codecs has is returned separately.
    pub(crate) fn parse(
        name: &str,
        imagecodecs: bool,
        configuration: Option<&Map<String, Value>>,
        own: [&str; 2],
    ) -> Result<(Self, Value), PluginCreateError> {
        let invalid = |what: String| PluginCreateError::Other(format!("codec {name}: {what}"));
        let mut options = Self { imagecodecs, ..Self::default() };
        let mut special = Value::Null;
        let mut shuffle = None;
        for (key, value) in configuration.into_iter().flatten() {
            let wrong = |expected: &str| invalid(format!("{key} is {value}, expected {expected}"));
            match (imagecodecs, key.as_str()) {
                (false, "codec") => {
                    options.codec = value.as_str().ok_or_else(|| wrong("a name"))?.to_owned();
                }
                (false, "level") => {
                    let level = value.as_u64().filter(|&level| level <= 9).ok_or_else(|| wrong("0 to 9"))?;
                    options.level = level as u8;
                }
                (false, "filters") => {
                    let expected = "names, or pairs of a name and a number below 256";
                    options.filters = Vec::deserialize(value).map_err(|_| wrong(expected))?;
                }
                (true, "compressor") if value.is_null() => {}
                (true, "compressor") => {
                    options.codec = value.as_str().ok_or_else(|| wrong("a name"))?.to_lowercase();
                }
                (true, "level") if value.is_null() => {}
                (true, "level") => {
                    let level = value.as_i64().ok_or_else(|| wrong("a number"))?;
                    options.level = level.clamp(0, 9) as u8;
                }
                (true, "shuffle") => shuffle = value.as_str().map(str::to_uppercase),
                (_, key) if key == own[usize::from(imagecodecs)] => special = value.clone(),
                // imagecodecs has members that do not affect the bytes.
                (true, _) => {}
                (false, _) => return Err(invalid(format!("{key} is not a member of the configuration"))),
            }
        }
        if let Some(shuffle) = shuffle {
            let known = IMAGECODECS_FILTERS.iter().find(|(known, _)| *known == shuffle);
            let (_, filters) = known.ok_or_else(|| invalid(format!("unknown shuffle {shuffle}")))?;
            options.filters = filters.iter().map(|&filter| filter.into()).collect();
        }
        Ok((options, special))
    }

    /// Returns the configuration, without the member that only one of the codecs has.
    pub(crate) fn configuration(&self) -> Map<String, Value> {
        let mut map = Map::new();
        if self.imagecodecs {
            let same = |filters: &[&str]| {
                filters.len() == self.filters.len()
                    && filters.iter().zip(&self.filters).all(|(&name, filter)| *filter == name.into())
            };
            let shuffle = IMAGECODECS_FILTERS.iter().find(|(_, filters)| same(filters));
            map.insert("level".into(), self.level.into());
            map.insert("compressor".into(), self.codec.to_uppercase().into());
            map.insert("shuffle".into(), shuffle.map_or("NOFILTER", |(name, _)| name).into());
        } else {
            map.insert("codec".into(), self.codec.clone().into());
            map.insert("level".into(), self.level.into());
            map.insert("filters".into(), serde_json::to_value(&self.filters).unwrap_or_default());
        }
        map
    }

    /// Returns the settings for new chunks.
    pub(crate) fn compression(&self) -> Result<Compression, CodecError> {
        let codec = CodecId::from_name(&self.codec);
        let codec =
            codec.ok_or_else(|| CodecError::Other(format!("unknown Blosc2 codec {:?}", self.codec)))?;
        let slots = self.filters.iter().map(|filter| {
            let (name, parameter) = match filter {
                Filter::Name(name) => (name, 0),
                Filter::With(name, parameter) => (name, *parameter),
            };
            let id = FilterId::from_name(name);
            let id = id.ok_or_else(|| CodecError::Other(format!("unknown Blosc2 filter {name:?}")))?;
            Ok(FilterSlot::new(id, parameter))
        });
        let slots = slots.collect::<Result<Vec<_>, CodecError>>()?;
        Ok(Compression::new().plugins(PLUGINS.clone()).codec(codec).level(self.level).filters(slots))
    }
}

/// Returns the name by which a codec was created.
pub(crate) fn name(options: &Options, ours: &'static str, imagecodecs: &'static str) -> Cow<'static, str> {
    Cow::Borrowed(if options.imagecodecs { imagecodecs } else { ours })
}

/// Converts an error with its causes to a zarrs error.
pub(crate) fn failed(name: &str, error: &(dyn std::error::Error + 'static)) -> CodecError {
    CodecError::Other(format!("{name}: {}", b2_core::Report(error)))
}
