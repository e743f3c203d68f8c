//! Writing: new frames, staged changes of existing ones, commits and copies. Uses `format`,
//! `storage` and `read` (an editor reads what it changes).

#[allow(clippy::cast_possible_truncation, reason = "chunks are smaller than 2 GiB")]
pub(crate) mod copy;
pub(crate) mod draft;
#[allow(clippy::cast_possible_truncation, reason = "chunks are smaller than 2 GiB")]
pub(crate) mod edit;
pub(crate) mod encode;
pub(crate) mod options;
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "writes numbers that are within the limits of the format"
)]
pub(crate) mod state;
pub(crate) mod store;
pub(crate) mod whole_frame;
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "writes numbers that are within the limits of the format"
)]
pub(crate) mod writer;
