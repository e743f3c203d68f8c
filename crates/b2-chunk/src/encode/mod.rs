//! Encoding: block size, filters, codec, dictionary, and concatenation of the blocks. Uses `model` and `block`.

pub(crate) mod blocksize;
pub(crate) mod blosc1;
pub(crate) mod compress;
pub(crate) mod dict;
pub(crate) mod encoder;
pub(crate) mod join;
