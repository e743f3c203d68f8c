//! Zstandard: the codec `zstd`, over the C library or over `ruzstd`.

#[cfg(feature = "zstd-c")]
mod c;
#[cfg(feature = "zstd-c")]
mod dict;
#[cfg(feature = "zstd-rs")]
mod rs;

#[cfg(feature = "zstd-c")]
pub(crate) use self::c::Zstd;
#[cfg(feature = "zstd-rs")]
pub use self::rs::ZstdRs;

use crate::CodecProperties;
use crate::Trial;

const PROPERTIES: CodecProperties = CodecProperties {
    dictionaries: true,
    long_windows: true,
    // The same as in C-Blosc2.
    splits_up_to: 5,
    decoding_cost: 3,
    encoding_cost: [30, 8, 8, 30, 30, 30, 30, 30, 30, 30],
    trials: &[
        Trial::new(1, 1.2, 0.5),
        Trial::new(3, 4.0, 0.55),
        Trial::new(5, 7.0, 0.6).smallest(true),
        Trial::new(7, 40.0, 0.6).smallest(true),
        Trial::new(9, 200.0, 0.6).smallest(true),
    ],
    ..CodecProperties::BYTES
};
