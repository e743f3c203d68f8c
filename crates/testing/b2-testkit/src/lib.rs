//! Shared by tests, fuzz targets and xtask: reproducible random numbers, damage to files, and a web server.
//!
//! For development only: no published crate depends on it, and it knows nothing about the library under test.
#![forbid(unsafe_code)]

pub mod hdf5;
pub mod hostile;
mod rng;
pub mod web;

pub use rng::Rng;
