//! The codecs and filters of this build.

use b2kit::chunk::DParams;
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
    DParams::default().plugins(plugins()).limits(limits)
}

/// Default parameters for compressing items of `typesize` bytes.
pub(crate) fn cparams(typesize: usize) -> Compression {
    Compression::new().itemsize(typesize).plugins(plugins())
}
