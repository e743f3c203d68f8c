//! What tests, fuzz targets and xtask share: random numbers that a seed repeats, damage to files, and a web server.
//!
//! For development only: no crate that users get depends on it, and it knows nothing of the library under test.
#![forbid(unsafe_code)]

pub mod hostile;
mod rng;
pub mod web;

pub use rng::Rng;
