//! Reading: plans that request bytes, the driver that fetches them, and `SuperChunk` on top. Also
//! compares checksums and gathers items. Uses `format` and `storage`.

#[allow(clippy::arithmetic_side_effects, reason = "offsets and sizes were checked when the frame was opened")]
pub(crate) mod blocks;
pub(crate) mod compare;
pub(crate) mod compared;
pub(crate) mod costs;
#[allow(clippy::arithmetic_side_effects, reason = "offsets and sizes were checked when the frame was opened")]
pub(crate) mod fetch;
#[allow(
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    reason = "item numbers were checked"
)]
pub(crate) mod gather;
pub(crate) mod head;
#[allow(clippy::arithmetic_side_effects, reason = "offsets and sizes were checked when the frame was opened")]
pub(crate) mod infos;
#[allow(clippy::arithmetic_side_effects, reason = "offsets and sizes were checked when the frame was opened")]
pub(crate) mod items;
pub(crate) mod open;
pub(crate) mod options;
#[allow(clippy::arithmetic_side_effects, reason = "offsets and sizes were checked when the frame was opened")]
pub(crate) mod output;
pub(crate) mod places;
#[allow(clippy::arithmetic_side_effects, reason = "offsets and sizes were checked when the frame was opened")]
pub(crate) mod plan;
#[allow(clippy::arithmetic_side_effects, reason = "offsets and sizes were checked when the frame was opened")]
pub(crate) mod sizes;
pub(crate) mod sums;
#[allow(clippy::arithmetic_side_effects, reason = "offsets and sizes were checked when the frame was opened")]
pub(crate) mod super_chunk;
mod tables;
