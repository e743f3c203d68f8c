//! Zarr, versions 2 and 3: reads arrays and groups in a directory or at a URL, and writes version 3.
//!
//! Chunks are decoded completely, those of shards individually. Stores are untrusted: metadata and chunks are
//! checked before their numbers are used, and links in a directory are not followed.
//! This layer handles only the format, not options or the use of the arrays.

mod array;
mod attributes;
mod boxes;
mod codecs;
mod data_type;
mod filters;
mod metadata;
mod tree;
mod write;

pub(crate) use array::ZarrArray;
pub(crate) use tree::{Content, Node, Zarr};
pub(crate) use write::{Compressor, ZarrWriter};

/// The product, or `u64::MAX` if it is larger.
fn product(lengths: &[u64]) -> u64 {
    lengths.iter().fold(1, |n, &length| n.saturating_mul(length))
}
