//! Reading: plans that request bytes, reads that decode what they requested, the drivers that fetch it,
//! and `SuperChunk` on top. Also compares checksums. Uses `format` and `storage`.

#[allow(
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    reason = "offsets and sizes were checked when the frame was opened"
)]
pub(crate) mod byte_reads;
pub(crate) mod chunk;
pub(crate) mod chunk_head;
#[allow(clippy::arithmetic_side_effects, reason = "offsets and sizes were checked when the frame was opened")]
pub(crate) mod chunk_infos;
pub(crate) mod chunk_plan;
#[allow(clippy::arithmetic_side_effects, reason = "places are inside the buffer, which is checked")]
pub(crate) mod disjoint;
#[allow(clippy::arithmetic_side_effects, reason = "offsets and sizes were checked when the frame was opened")]
pub(crate) mod headers;
#[allow(clippy::arithmetic_side_effects, reason = "counts bytes that exist")]
pub(crate) mod local;
mod lone_chunk;
pub(crate) mod numbered;
pub(crate) mod open_plan;
pub(crate) mod opening;
pub(crate) mod options;
#[allow(clippy::arithmetic_side_effects, reason = "counts bytes that exist")]
pub(crate) mod part_plan;
#[allow(
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    reason = "pieces are inside the data and the destination, which is checked"
)]
pub(crate) mod pieces;
#[allow(clippy::arithmetic_side_effects, reason = "offsets and sizes were checked when the frame was opened")]
pub(crate) mod plan;
#[allow(clippy::arithmetic_side_effects, reason = "counts chunks that exist")]
pub(crate) mod read_ahead;
#[allow(clippy::arithmetic_side_effects, reason = "counts threads and requests that exist")]
pub(crate) mod remote;
#[allow(clippy::arithmetic_side_effects, reason = "counts requests that exist")]
pub(crate) mod requests;
pub(crate) mod restored;
pub(crate) mod scatter_plan;
#[allow(clippy::arithmetic_side_effects, reason = "offsets and sizes were checked when the frame was opened")]
pub(crate) mod sizes;
pub(crate) mod sums;
#[allow(clippy::arithmetic_side_effects, reason = "offsets and sizes were checked when the frame was opened")]
pub(crate) mod super_chunk;
mod tables;
#[allow(clippy::arithmetic_side_effects, reason = "offsets and sizes were checked when the frame was opened")]
pub(crate) mod unstored;
#[allow(clippy::arithmetic_side_effects, reason = "offsets and sizes were checked when the frame was opened")]
pub(crate) mod whole_chunk_plan;
