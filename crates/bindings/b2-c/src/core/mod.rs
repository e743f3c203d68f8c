//! What the functions of C do, without unsafe code: parameters, contexts, stores of chunks, shapes.

pub(crate) mod context;
pub(crate) mod environment;
pub(crate) mod error;
pub(crate) mod frame;
pub(crate) mod header;
pub(crate) mod instrument;
pub(crate) mod names;
pub(crate) mod nd;
pub(crate) mod offset_files;
pub(crate) mod params;
pub(crate) mod store;
