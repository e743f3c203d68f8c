#![doc = include_str!("../README.md")]
// All of the crate but `mmap`, which is off by default.
#![cfg_attr(not(feature = "mmap"), forbid(unsafe_code))]
#![cfg_attr(feature = "mmap", deny(unsafe_code))]

mod blocks;
mod checksums;
mod contiguous;
mod copy;
mod cross;
mod disk;
mod edit;
mod ends;
mod error;
mod fetch;
mod fit;
mod gather;
mod head;
mod header;
mod index;
mod infos;
mod lock;
mod metalayers;
#[cfg(feature = "mmap")]
mod mmap;
mod open;
mod options;
mod output;
mod params;
mod places;
mod plan;
mod pool;
mod read;
mod redo;
mod salvage;
mod sink;
mod sizes;
mod sparse;
mod staging;
mod storage;
mod super_chunk;
mod trailer;
mod writer;

pub use blocks::{BlockBytes, BlockReader, Groups};
pub use checksums::{Checksums, Compare};
pub use cross::CrossCheck;
pub use disk::Disk;
pub use edit::{Committed, FrameEditor, Savepoint};
pub use error::{FrameError, Structure};
pub use fetch::{BlocksPlan, ChunkPlan, StoredBlocks};
pub use header::{FIXED_HEADER_LEN, FrameHeader, MAGIC, MIN_HEADER_LEN, Storage};
pub use index::{Entry, Index, MAX_NCHUNKS};
pub use infos::{ChunkInfo, ChunkInfos};
pub use metalayers::{MAX_METALAYERS, MAX_NAME_LEN, MAX_VLMETALAYERS, Metalayers, VlMetalayers};
#[cfg(feature = "mmap")]
pub use mmap::Mapped;
pub use open::{Layout, OpenPlan, Opened};
pub use options::{Kind, OpenOptions, sniff};
pub use output::Unstored;
pub use params::FrameParams;
pub use plan::{Extent, FrameFile, FrameFiles, OpenFile, Plan, Step, drive};
pub use salvage::{Condition, LostChunks, Salvaged, salvage, salvage_with};
pub use sparse::INDEX_NAME;
pub use staging::Durability;
pub use storage::{FileId, FileKind, FileSystem, Links, LockMode, ReadAt, WriteAt};
pub use super_chunk::{ChunkSource, SuperChunk};
pub use trailer::Trailer;
pub use writer::{FrameWriter, WriteOptions, Written};
