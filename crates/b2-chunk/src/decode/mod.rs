//! Decoding: whole chunks, single blocks, and parts of blocks. Uses `model` and `block`.

pub(crate) mod decoder;
pub(crate) mod decompress;
pub(crate) mod lazy;
pub(crate) mod small;
pub(crate) mod streams;
