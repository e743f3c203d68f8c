//! Zarr, versions 2 and 3: reads arrays and groups in a directory or at a URL, and writes version 3.
//!
//! Chunks are decoded whole, those of shards one by one. Stores are untrusted: metadata and chunks are
//! checked before their numbers are used, and links in a directory are not followed.
//! It deals with the format only, not with options or with what is made of the arrays.

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
