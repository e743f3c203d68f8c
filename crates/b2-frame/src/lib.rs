#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod contiguous;
mod disk;
mod edit;
mod error;
mod fetch;
mod fit;
mod header;
mod index;
mod infos;
mod lock;
mod metalayers;
mod open;
mod options;
mod params;
mod places;
mod plan;
mod pool;
mod read;
mod redo;
mod sink;
mod sizes;
mod sparse;
mod staging;
mod storage;
mod super_chunk;
mod trailer;
mod writer;

pub use disk::Disk;
pub use edit::{Committed, FrameEditor};
pub use error::{FrameError, Structure};
pub use fetch::{BlocksPlan, ChunkPlan, StoredBlocks};
pub use header::{FIXED_HEADER_LEN, FrameHeader, MAGIC, MIN_HEADER_LEN, Storage};
pub use index::{Entry, Index, MAX_NCHUNKS};
pub use infos::{ChunkInfo, ChunkInfos};
pub use metalayers::{MAX_METALAYERS, MAX_NAME_LEN, MAX_VLMETALAYERS, Metalayers, VlMetalayers};
pub use open::{Layout, OpenPlan, Opened};
pub use options::{Kind, OpenOptions, sniff};
pub use params::FrameParams;
pub use plan::{Extent, FrameFile, FrameFiles, OpenFile, Plan, Step, drive};
pub use sparse::INDEX_NAME;
pub use staging::Durability;
pub use storage::{FileId, FileKind, FileSystem, Links, LockMode, ReadAt, WriteAt};
pub use super_chunk::{ChunkSource, SuperChunk};
pub use trailer::Trailer;
pub use writer::{FrameWriter, WriteOptions, Written};
