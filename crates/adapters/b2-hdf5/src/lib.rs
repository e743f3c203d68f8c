#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::string_slice,
        clippy::unreachable,
        clippy::unwrap_used,
        reason = "files may hold any bytes, and none of them may cause a panic"
    )
)]

mod attrs;
mod boxes;
mod checksum;
mod data_set;
mod error;
mod file;
mod filters;
mod hdf5;
mod netcdf3;
mod parts;
mod scale;
mod write;

pub use data_set::DataSet;
pub use error::Hdf5Error;
pub use file::{Content, Entry, File, GroupAttrs};
pub use filters::Filter;
pub use hdf5::{
    Description, End, ExternalPart, Member, ObjectKind, Objects, OtherFloat, RawAttribute, StoredChunk,
    StoredLayout, Target, Type,
};
pub use scale::Scale;
pub use write::{Codec, Writer};

/// Access for fuzz targets.
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing {
    /// Returns the checksum of metadata.
    pub fn lookup3(bytes: &[u8]) -> u32 {
        crate::checksum::lookup3(bytes)
    }
}

/// Returns the vlmetalayers that hold attributes: names and encoded values. C-Blosc2 reads no more than 16, so the others
/// share one layer.
pub fn attribute_layers(attrs: &[(String, b2nd::Value)]) -> Vec<(String, Vec<u8>)> {
    attrs::layers(attrs)
}

/// Returns the attributes in vlmetalayers that [`attribute_layers`] has written, including those that share one.
/// Layers that are not msgpack are ignored.
pub fn attributes_of(layers: &[(String, Vec<u8>)]) -> Vec<(String, b2nd::Value)> {
    attrs::of_layers(layers)
}
