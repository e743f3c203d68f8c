//! The commands, one file for each.

pub(crate) mod append;
pub(crate) mod batch;
pub(crate) mod bench;
pub(crate) mod cat;
pub(crate) mod checksum;
pub(crate) mod chunk;
pub(crate) mod compact;
pub(crate) mod completions;
#[cfg(feature = "hdf5")]
pub(crate) mod convert;
pub(crate) mod copy;
pub(crate) mod delete;
pub(crate) mod diff;
pub(crate) mod info;
pub(crate) mod insert;
pub(crate) mod items;
pub(crate) mod ls;
pub(crate) mod man;
pub(crate) mod pack;
pub(crate) mod resize;
pub(crate) mod salvage;
pub(crate) mod set;
pub(crate) mod show;
pub(crate) mod unpack;
pub(crate) mod verify;
pub(crate) mod vlmeta;
