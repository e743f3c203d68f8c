//! The public chunk types, which are made from values or from stored bytes, and the search for good parameters. May use
//! all other modules.

#[allow(
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    clippy::indexing_slicing,
    reason = "works on a sample in memory, at ranges made from its length"
)]
mod auto;
mod bytes;
mod contexts;
mod make;
#[allow(
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    clippy::indexing_slicing,
    reason = "a chunk is smaller than 2 GiB, and block starts are written into a table made for them"
)]
mod patch;
mod read;
mod reader;

pub use auto::{Goal, sample_ranges};
pub use bytes::{Chunk, ChunkRef};
pub use contexts::{Compressor, Decompressor};
pub use reader::ChunkReader;
