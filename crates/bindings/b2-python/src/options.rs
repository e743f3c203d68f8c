//! The options of the library as the package sets them, and their names.

use std::sync::OnceLock;

use b2kit::chunk::{Compression, FilterSlot};
use b2kit::frame::{Checksums, Durability, ReadOptions};
use b2kit::{CodecId, FilterId, Plugins, SuperChunk};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};

use crate::errors::{argument, wrong_type};

/// Returns the codecs and filters: the built-in ones, zfp and pcodec.
pub(crate) fn plugins() -> Plugins {
    static ALL: OnceLock<Plugins> = OnceLock::new();
    let all = || Plugins::builtin().with_codecs(b2_zfp::codecs()).with_codec(b2_pco::Pco);
    ALL.get_or_init(all).clone()
}

pub(crate) fn read_options() -> ReadOptions {
    SuperChunk::options().plugins(plugins())
}

pub(crate) fn durability(sync: bool) -> Durability {
    if sync { Durability::Sync } else { Durability::None }
}

/// Builds compression settings from names of codec and filters; a filter with a parameter is a pair.
pub(crate) fn compression(
    py: Python<'_>,
    codec: &str,
    level: u8,
    filters: &Bound<'_, PyList>,
) -> PyResult<Compression> {
    let id = codec_id(py, codec, None)?;
    Ok(Compression::new().plugins(plugins()).codec(id).level(level).filters(slots(filters)?))
}

/// Returns the codec with a name. Refuses zfp, whose parameter cannot be given here, unless it is the codec of the array that
/// is copied.
pub(crate) fn codec_id(py: Python<'_>, codec: &str, copied: Option<CodecId>) -> PyResult<CodecId> {
    let id = CodecId::from_name(codec).ok_or_else(|| argument(py, format!("unknown codec {codec:?}")))?;
    if copied != Some(id) && b2_zfp::codecs().iter().any(|zfp| zfp.id() == id) {
        let what = format!("{codec} needs a parameter for the loss, which only the command b2kit takes");
        return Err(argument(py, what));
    }
    Ok(id)
}

pub(crate) fn slots(filters: &Bound<'_, PyList>) -> PyResult<Vec<FilterSlot>> {
    let py = filters.py();
    filters
        .iter()
        .map(|filter| {
            let (name, meta) = match filter.cast::<PyString>() {
                Ok(name) => (name.to_string(), 0),
                Err(_) => filter.extract::<(String, u8)>().map_err(|_| {
                    wrong_type("a filter is a name, or a pair of a name and a number below 256")
                })?,
            };
            match FilterId::from_name(&name) {
                Some(id) => Ok(FilterSlot::new(id, meta)),
                None => Err(argument(py, format!("unknown filter {name:?}"))),
            }
        })
        .collect()
}

/// Returns the name for the state of the checksums of a verified frame.
pub(crate) fn verdict(checksums: Checksums) -> &'static str {
    match checksums {
        Checksums::Changed => "changed",
        Checksums::None => "none",
        _ => "ok",
    }
}
