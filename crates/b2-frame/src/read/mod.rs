//! Reading: plans that request bytes, reads that decode what they requested, the drivers that fetch it,
//! and `SuperChunk` on top. Also compares checksums. Uses `format` and `storage`.

#[allow(clippy::arithmetic_side_effects, reason = "offsets and sizes were checked when the frame was opened")]
pub(crate) mod blocks;
pub(crate) mod compare;
pub(crate) mod compared;
pub(crate) mod costs;
#[allow(clippy::arithmetic_side_effects, reason = "places are inside the buffer, which is checked")]
pub(crate) mod disjoint;
#[allow(clippy::arithmetic_side_effects, reason = "counts threads and requests that exist")]
pub(crate) mod far;
#[allow(clippy::arithmetic_side_effects, reason = "offsets and sizes were checked when the frame was opened")]
pub(crate) mod fetch;
pub(crate) mod head;
#[allow(clippy::arithmetic_side_effects, reason = "offsets and sizes were checked when the frame was opened")]
pub(crate) mod infos;
#[allow(
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    reason = "offsets and sizes were checked when the frame was opened"
)]
pub(crate) mod items;
#[allow(clippy::arithmetic_side_effects, reason = "counts bytes that exist")]
pub(crate) mod local;
pub(crate) mod locate;
pub(crate) mod numbered;
pub(crate) mod open;
pub(crate) mod options;
#[allow(clippy::arithmetic_side_effects, reason = "offsets and sizes were checked when the frame was opened")]
pub(crate) mod output;
#[allow(clippy::arithmetic_side_effects, reason = "counts bytes that exist")]
pub(crate) mod part;
#[allow(
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    reason = "pieces are inside the data and the destination, which is checked"
)]
pub(crate) mod pieces;
pub(crate) mod places;
#[allow(clippy::arithmetic_side_effects, reason = "offsets and sizes were checked when the frame was opened")]
pub(crate) mod plan;
#[allow(clippy::arithmetic_side_effects, reason = "counts requests that exist")]
pub(crate) mod requests;
#[allow(clippy::arithmetic_side_effects, reason = "offsets and sizes were checked when the frame was opened")]
pub(crate) mod sizes;
pub(crate) mod sums;
#[allow(clippy::arithmetic_side_effects, reason = "offsets and sizes were checked when the frame was opened")]
pub(crate) mod super_chunk;
mod tables;
#[allow(clippy::arithmetic_side_effects, reason = "documented: places out of bounds panic")]
pub(crate) mod target;
