//! What can be saved of a damaged array. Uses all other rooms; none of them uses this one.

pub(crate) mod salvage;
pub(crate) mod verify;
