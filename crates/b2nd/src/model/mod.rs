//! Shapes, dtypes, elements and the b2nd metalayer. These are plain values: nothing does I/O. Uses
//! only the crate's errors.

pub(crate) mod attrs;
#[allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    reason = "offsets are inside a dtype, which was checked"
)]
pub(crate) mod byte_order;
#[allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    reason = "takes shapes from the caller, not from a file"
)]
pub(crate) mod default_shapes;
pub(crate) mod dtype;
pub(crate) mod element;
pub(crate) mod geometry;
pub mod literal;
pub(crate) mod meta;
mod numbers;
pub(crate) mod object;
