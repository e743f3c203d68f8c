//! The codecs, used through zarrs: both interfaces, sharding, damaged chunks, and what other programs write.

mod damage;
mod interop;
mod metadata;
mod random;
mod requests;
mod store;
