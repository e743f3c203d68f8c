//! The engine of the browser viewer: reads ranges of Blosc2 files and draws parts of them. It has no browser bindings:
//! the page calls [`abi`], serves requests for bytes, and draws.
#![deny(unsafe_code)]
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::string_slice,
    reason = "reads untrusted bytes"
)]
#![cfg_attr(test, allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod abi;
pub mod engine;
pub mod file;
pub mod frame;
pub mod host;
pub mod look;
pub mod npy;
mod others;
pub mod source;
pub mod store;
