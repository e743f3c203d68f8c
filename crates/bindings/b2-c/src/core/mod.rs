//! The implementation of the C functions in safe code: parameters, contexts, chunk stores, shapes.

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
