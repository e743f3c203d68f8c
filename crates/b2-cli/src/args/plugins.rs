//! The codecs and filters of this build.

use b2kit::chunk::{CParams, DParams};
use b2kit::{Compression, Limits, Plugins};

/// The built-in codecs and filters and, with feature `zfp`, the three zfp codecs.
pub(crate) fn plugins() -> Plugins {
    let plugins = Plugins::builtin();
    #[cfg(feature = "zfp")]
    let plugins = plugins
        .with_codec(b2_zfp::FixedAccuracy)
        .with_codec(b2_zfp::FixedPrecision)
        .with_codec(b2_zfp::FixedRate);
    plugins
}

/// Parameters for decoding bare chunks.
pub(crate) fn dparams(limits: Limits) -> DParams {
    DParams { plugins: plugins(), limits, ..DParams::default() }
}

/// Default parameters for compressing items of `typesize` bytes.
pub(crate) fn cparams(typesize: usize) -> Compression {
    CParams::builder(typesize).plugins(plugins())
}
