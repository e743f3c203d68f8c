//! Features that C-Blosc 1 lacks (docs/format/writer-choices.md, section 11).

use b2_codecs::CodecId;
use b2_filters::{FilterId, FilterSlot};

use crate::{CParams, ChunkError};

/// Fails if the parameters request a feature that C-Blosc 1 lacks.
pub(crate) fn check(cparams: &CParams) -> Result<(), ChunkError> {
    const CODECS: [CodecId; 5] =
        [CodecId::BLOSCLZ, CodecId::LZ4, CodecId::LZ4HC, CodecId::ZLIB, CodecId::ZSTD];
    let fail = |name, what: String| Err(ChunkError::Argument { name, what });
    if !CODECS.contains(&cparams.codec()) {
        return fail("codec", format!("{} does not exist in Blosc1", cparams.codec()));
    }
    if cparams.use_dict() {
        return fail("use_dict", "Blosc1 has no dictionaries".into());
    }
    if cparams.itemsize() > 255 {
        return fail("itemsize", format!("{}, but Blosc1 has items of 1 to 255 bytes", cparams.itemsize()));
    }
    let [unused @ .., last] = cparams.filters();
    let plain = [FilterSlot::EMPTY, FilterSlot::SHUFFLE, FilterSlot::BITSHUFFLE].contains(&last);
    if !plain || unused.iter().any(|slot| slot.id != FilterId::NONE) {
        return fail("filters", "Blosc1 has one filter at most, shuffle or bitshuffle".into());
    }
    Ok(())
}
