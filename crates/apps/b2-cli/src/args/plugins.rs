//! The codecs and filters of this build.

use b2kit::chunk::DParams;
use b2kit::{Compression, Limits, Plugins};

/// Returns the built-in codecs and filters and, with their features, zfp and pcodec.
pub(crate) fn plugins() -> Plugins {
    let plugins = Plugins::builtin();
    #[cfg(feature = "zfp")]
    let plugins = plugins.with_codecs(b2_zfp::codecs());
    #[cfg(feature = "pco")]
    let plugins = plugins.with_codec(b2_pco::Pco);
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
