//! Only features of dependencies: see Cargo.toml.
#![forbid(unsafe_code)]
