//! Parses and serializes the structures of a frame: header, metalayers, index, trailer, checksums, and tables that
//! describe the blocks of chunks.
//! There is no I/O, and the index is the only chunk that is decoded. Uses only the crate's errors and file names.

pub(crate) mod checksums;
pub(crate) mod digest;
pub(crate) mod header;
pub(crate) mod index;
pub(crate) mod indexes;
pub(crate) mod metalayers;
pub(crate) mod records;
pub(crate) mod runs;
pub(crate) mod start_copy;
pub(crate) mod starts;
pub(crate) mod trailer;
