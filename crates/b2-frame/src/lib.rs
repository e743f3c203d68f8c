#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
// Only `read::disjoint` and its callers, `storage::writeback` (one system call) and `storage::mmap` (off by default)
// have unsafe code, and allow it by name.
#![deny(unsafe_code)]
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
        clippy::unwrap_used,
        reason = "files may hold any bytes, and none of them may cause a panic or a wrong number"
    )
)]

mod error;
mod format;
mod names;
mod read;
mod repair;
#[allow(clippy::arithmetic_side_effects, reason = "offsets are inside files, whose lengths were checked")]
mod storage;
#[allow(
    clippy::arithmetic_side_effects,
    reason = "counts and sizes are within the limits of the format, which are checked"
)]
mod write;

pub use error::{FrameError, Structure};
pub use format::checksums::Checksums;
pub use format::header::{FrameHeader, MAGIC, Storage};
pub use format::index::{Entry, MAX_NCHUNKS};
pub use format::metalayers::{Metalayers, VlMetalayers};
pub use names::{FrameFile, INDEX_NAME};
pub use read::chunk::ChunkRef;
pub use read::chunk_infos::ChunkInfo;
pub use read::opening::{PathKind, sniff};
pub use read::options::Compare;
pub use read::options::ReadOptions;
pub use read::options::ReadTuning;
pub use read::options::{RetryPolicy, retry_on_change};
pub use read::requests::{Job, Read, Request, RequestBudget};
pub use read::super_chunk::SuperChunk;
pub use read::unstored::UnstoredBytes;
pub use repair::cross::CrossCheck;
pub use repair::salvage::{Condition, LostBlocks, LostChunks, SalvageReport, salvage};
pub use repair::verify::VerifyReport;
pub use storage::disk::Disk;
pub use storage::files::Extent;
pub use storage::lock::is_locked;
#[cfg(feature = "mmap")]
pub use storage::mmap::MappedDisk;
pub use storage::remote::{OpenFiles, OpenResponse, RangeResponse, RemoteFile, RemoteSource, Version};
pub use storage::request_stats::{RequestStats, RequestTimer};
pub use storage::staging::Durability;
pub use storage::traits::{FileId, FileKind, FileSystem, Links, ReadAt, ReadFiles, WriteAt};
pub use write::edit::{CommitReport, EditVlMeta, FrameEditor, Savepoint};
pub use write::options::FrameParams;
pub use write::options::{EditOptions, WriteOptions};
pub use write::writer::{FrameWriter, WrittenFrame};

// For our other crates.
#[doc(hidden)]
pub use {
    format::indexes::{INDEXES, OutdatedIndexes, outdate_catalog, outdate_indexes},
    names::redact::redact,
    read::disjoint::Destination,
    read::local::read_places,
    read::open_plan::{FrameLayout, OpenPlan, OpenedFrame},
    read::plan::{Plan, Step, drive},
    read::read_ahead::ReadAhead,
    read::scatter_plan::{ResolvedPart, ScatterPlan},
    read::scatter_plan::{RowCopy, Target},
    repair::salvage::{ChunkUse, KnownHeader, salvage_with},
    storage::disk::refuse_device,
    storage::files::{FrameFiles, OpenFile},
    storage::lock::HeldLock,
    storage::rooted_dir::RootedDir,
    write::edit::PreparedChunk,
    write::edit::table::{Table, count, is_table},
};
