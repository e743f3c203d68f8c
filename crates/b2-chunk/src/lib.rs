#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
// Input bytes must never panic or overflow. Modules that are exempt say why at their declaration.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::string_slice,
        clippy::unreachable,
        clippy::unwrap_used
    )
)]

#[allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    reason = "works on buffers and counts that the callers have sized"
)]
mod block;
mod chunk;
mod decode;
#[allow(
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::indexing_slicing,
    reason = "works on the caller's data, whose length `new_header` limits to below 2^31"
)]
mod encode;
mod error;
mod model;

pub use chunk::{Chunk, ChunkReader, ChunkRef, Compressor, Decompressor, Goal, sample_ranges};
pub use decode::decoder::BlockDecoder;
pub use decode::lazy::{LazyChunk, LazyHead};
pub use encode::compress::PlainBlocks;
pub use error::{ChunkError, HookError};
pub use model::compression::Compression;
pub use model::header::{ChunkHeader, MAX_BLOCKSIZE, MAX_CHUNK_NBYTES, SpecialKind};
pub use model::params::BlockInfo;
pub use model::params::{CParams, Compatibility, Container, DParams, Destination, SplitMode};
pub use model::plugins::Plugins;

// For our other crates.
#[doc(hidden)]
pub use {
    block::fill::fill,
    decode::decoder::BlockParts,
    model::header::{EXTENDED_HEADER_LEN, MIN_HEADER_LEN},
    model::layout::{NAN4, NAN8},
};

pub use b2_codecs::{self as codecs, CodecFormat, CodecId};
pub use b2_core::{self as base, Control, Element, ErrorKind, Limits, Pool, Progress};
pub use b2_filters::{self as filters, FilterId, FilterSlot};
