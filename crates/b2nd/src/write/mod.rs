//! Writing: sources of items, splitting them into chunks and blocks, new arrays, and changes of
//! existing ones. Uses `model`, `select` and `read` (an editor reads what it changes).

pub(crate) mod builder;
pub(crate) mod chunk_blocks;
pub mod computed;
pub(crate) mod concat;
pub(crate) mod edit;
#[cfg(feature = "ndarray")]
pub(crate) mod from_ndarray;
pub(crate) mod produce;
pub(crate) mod selected_source;
pub(crate) mod source;
