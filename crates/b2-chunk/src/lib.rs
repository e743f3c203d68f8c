#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod auto;
mod blocksize;
mod chain;
mod chunk;
mod compress;
mod decoder;
mod decompress;
mod dict;
mod encoder;
mod error;
mod fill;
mod header;
mod hooks;
mod join;
mod layout;
mod lazy;
mod limits;
pub mod parallel;
mod params;
mod plugins;
mod reader;
mod scratch;
mod streams;

pub use auto::{Goal, sample_ranges};
pub use chunk::Chunk;
pub use decoder::{BlockDecoder, BlockParts};
pub use error::ChunkError;
pub use fill::fill;
pub use header::{
    ChunkHeader, EXTENDED_HEADER_LEN, MAX_BLOCKSIZE, MAX_CHUNK_NBYTES, MAX_DICT_LEN, MIN_HEADER_LEN,
    SpecialKind,
};
pub use hooks::BlockInfo;
pub use lazy::{LazyChunk, LazyHead};
pub use limits::Limits;
pub use params::{CParams, CParamsBuilder, Container, DParams, Destination, SplitMode};
pub use plugins::Plugins;
pub use reader::ChunkReader;

pub use b2_codecs::{self as codecs, CodecFormat, CodecId, memory};
pub use b2_filters::{self as filters, FilterId, FilterSlot};
