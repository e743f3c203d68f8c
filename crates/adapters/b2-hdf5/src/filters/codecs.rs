//! The codecs of Blosc2 that filters use.

use std::sync::{Arc, LazyLock};

use b2_chunk::Plugins;
use b2_codecs::{Codec, CodecId};

/// The codec of Blosc2 for streams of this kind.
pub(crate) fn codec(id: CodecId) -> Option<Arc<dyn Codec>> {
    static PLUGINS: LazyLock<Plugins> = LazyLock::new(Plugins::builtin);
    PLUGINS.codec(id).ok().cloned()
}
