//! Selections of every kind, and the mapping from selected items to chunks and blocks. Everything
//! here is computed from a geometry, without I/O. Uses `model`.

pub(crate) mod copy;
pub(crate) mod copy_plan;
pub(crate) mod piece_ranges;
pub(crate) mod point_copy_plan;
pub(crate) mod resolved;
pub(crate) mod selection;
