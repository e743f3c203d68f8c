#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::expect_used,
        clippy::panic,
        clippy::string_slice,
        clippy::unreachable,
        clippy::unwrap_used,
        reason = "stores may hold any bytes, and none of them may cause a panic"
    )
)]

mod b2nd;
mod blosc2;
mod chunk;
mod dtype;
mod options;
mod partial;

pub use crate::b2nd::B2ndCodec;
pub use blosc2::Blosc2Codec;
pub use options::Filter;

/// Registers the names by which zarrs finds a codec: ours, and the name in imagecodecs for the same payload.
macro_rules! aliases {
    ($codec:ty, $ours:expr, $imagecodecs:expr) => {
        impl zarrs_plugin::ExtensionAliases<zarrs_plugin::ZarrVersion3> for $codec {
            fn aliases() -> std::sync::RwLockReadGuard<'static, zarrs_plugin::ExtensionAliasesConfig> {
                ALIASES.read().unwrap_or_else(std::sync::PoisonError::into_inner)
            }

            fn aliases_mut() -> std::sync::RwLockWriteGuard<'static, zarrs_plugin::ExtensionAliasesConfig> {
                ALIASES.write().unwrap_or_else(std::sync::PoisonError::into_inner)
            }
        }

        static ALIASES: std::sync::LazyLock<std::sync::RwLock<zarrs_plugin::ExtensionAliasesConfig>> =
            std::sync::LazyLock::new(|| {
                let imagecodecs = vec![std::borrow::Cow::Borrowed($imagecodecs)];
                std::sync::RwLock::new(zarrs_plugin::ExtensionAliasesConfig::new(
                    $ours,
                    imagecodecs,
                    Vec::new(),
                ))
            });
    };
}
use aliases;

/// The setters for new chunks that both codecs share.
macro_rules! setters {
    () => {
        /// Sets the Blosc2 codec for new chunks by its name: `blosclz`, `lz4`, `lz4hc`, `zlib`, `zstd`, and for
        /// `b2kit.b2nd` also those of zfp and, with the feature `pco`, `pco`.
        #[must_use]
        pub fn codec(mut self, codec: impl Into<String>) -> Self {
            self.options.codec = codec.into();
            self
        }

        /// Sets the compression level for new chunks, 0 to 9; larger ones count as 9.
        #[must_use]
        pub fn level(mut self, level: u8) -> Self {
            self.options.level = level.min(9);
            self
        }

        /// Sets the Blosc2 filters for new chunks: at most 6, in the order of application.
        #[must_use]
        pub fn filters<F: Into<crate::Filter>>(mut self, filters: impl IntoIterator<Item = F>) -> Self {
            self.options.filters = filters.into_iter().map(Into::into).collect();
            self
        }
    };
}
use setters;
