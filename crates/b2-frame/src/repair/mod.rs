//! Detects damage by comparing the parts of a frame, and saves what can be read from a broken one.
//! Uses all other modules; none of them uses this one.

pub(crate) mod cross;
#[allow(
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::indexing_slicing,
    reason = "offsets are inside the file, and sizes within the limits"
)]
pub(crate) mod salvage;
pub(crate) mod verify;
