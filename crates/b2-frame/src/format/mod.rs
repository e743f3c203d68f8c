//! Parses and serializes the structures of a frame: header, metalayers, index, trailer, checksums,
//! tables of what is known of the blocks.
//! There is no I/O, and no chunk but the index is decoded. Uses only the crate's errors and file
//! names.

pub(crate) mod checksums;
pub(crate) mod header;
pub(crate) mod index;
pub(crate) mod metalayers;
pub(crate) mod records;
pub(crate) mod runs;
pub(crate) mod starts;
pub(crate) mod trailer;
