//! Shared by tests, fuzz targets and xtask: reproducible random numbers, damage to files, a web server, and an S3 server.
//!
//! For development only: no published crate depends on it, and it knows nothing about the library under test.
#![forbid(unsafe_code)]

pub mod hdf5;
pub mod hostile;
pub mod moto;
mod rng;
pub mod web;

pub use rng::Rng;
