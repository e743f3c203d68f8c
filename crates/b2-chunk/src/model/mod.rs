//! Types shared by reading and writing: the checked header, parameters, plugins, hooks, and the layout of blocks in a
//! chunk. Uses only the crate's error types.

pub(crate) mod blosc1;
pub(crate) mod compression;
pub(crate) mod header;
pub(crate) mod layout;
pub(crate) mod params;
pub(crate) mod plugins;
