//! The codecs, used through zarrs: both interfaces, sharding, damaged chunks, and files of other programs.

mod damage;
mod interop;
mod metadata;
mod random;
mod requests;
mod store;
