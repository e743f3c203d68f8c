//! Writing: sources of items, splitting them into chunks and blocks, new arrays, and changes of
//! existing ones. Uses `model`, `select` and `read` (an editor reads what it changes).

pub(crate) mod builder;
pub(crate) mod concat;
#[cfg(feature = "ndarray")]
pub(crate) mod convert;
pub(crate) mod create;
pub(crate) mod cut;
pub(crate) mod edit;
pub(crate) mod produce;
pub(crate) mod source;
