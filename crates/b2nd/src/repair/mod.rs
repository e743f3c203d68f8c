//! Verifies arrays, and saves what can be read from a damaged one. Uses all other modules; none of them uses this one.

pub(crate) mod salvage;
pub(crate) mod verify;
