//! Selections of every kind, and the mapping from selected items to chunks and blocks. Everything
//! here is computed from a geometry, without I/O. Uses `model`.

pub(crate) mod chosen;
pub(crate) mod chunk_moves;
pub(crate) mod copy;
pub(crate) mod piece_ranges;
pub(crate) mod point_moves;
pub(crate) mod selection;
