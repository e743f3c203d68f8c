//! Reading: the open array, views of it, and the code that decodes blocks into their places in the
//! result. Uses `model` and `select`.

pub(crate) mod array;
pub(crate) mod attrs;
#[allow(
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    clippy::indexing_slicing,
    reason = "the views fit in memory, and parts are numbers that were counted here"
)]
pub(crate) mod batch;
#[allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    reason = "positions are inside the geometry of an array, which was checked"
)]
pub(crate) mod block_copier;
pub(crate) mod futures;
#[allow(clippy::cast_possible_truncation, reason = "the items fit in memory")]
pub(crate) mod items;
#[allow(clippy::arithmetic_side_effects, reason = "divides by numbers of at least 1")]
mod lone_chunk;
pub(crate) mod output;
#[allow(clippy::arithmetic_side_effects, reason = "positions are inside a selection, which was checked")]
pub(crate) mod pieces;
pub(crate) mod ranges;
#[allow(
    clippy::arithmetic_side_effects,
    reason = "positions are inside the geometry of an array, which was checked"
)]
pub(crate) mod selected;
#[allow(
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::indexing_slicing,
    reason = "positions are inside a selection, which was checked"
)]
pub(crate) mod slice;
