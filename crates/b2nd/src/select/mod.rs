//! Selections of every kind, and the mapping from selected items to chunks and blocks. Everything
//! here is computed from a geometry, without I/O. Uses `model`.

pub(crate) mod along;
pub(crate) mod copy;
pub(crate) mod moves;
pub(crate) mod pieces;
pub(crate) mod points;
pub(crate) mod slice;
