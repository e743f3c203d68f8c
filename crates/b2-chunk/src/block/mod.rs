//! Shared by encoding and decoding of blocks: the chain of active filters, repeated items, per-thread buffers, and
//! progress. Uses `model`.

pub(crate) mod chain;
pub(crate) mod fill;
pub(crate) mod pace;
pub(crate) mod scratch;
