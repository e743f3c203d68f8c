//! Writing HDF5: arrays become data sets, groups become groups.
//!
//! The form is that of HDF5 1.8 (superblock 2, object headers 2, links and attributes in the headers), with the B-tree of
//! version 1 over chunks, so that every program with HDF5 1.8 or later can read it. The file is written in one pass: items first, then
//! trees, headers and heaps, the superblock last.

mod bytes;
mod chunks;
mod codec;
mod datatypes;
mod header;
mod heap;
mod scales;
mod tree;
mod values;
mod writer;

pub use codec::Codec;
pub use writer::Writer;
