//! What tests, fuzz targets and xtask share: random numbers that a seed repeats, and damage to files.
//!
//! For development only: no crate that users get depends on it, and it knows nothing of the library under test.
#![forbid(unsafe_code)]

pub mod hostile;
mod rng;

pub use rng::Rng;
