//! The implementation of the fuzz targets of b2kit (docs/contributing/fuzzing.md). Each target is a function of bytes; the files in
//! `bin/` only name them.

#![deny(unsafe_code)]

mod arrays;
mod checks;
mod chunk;
mod cli;
mod codecs;
mod dice;
mod filters;
mod frame;
mod hdf5;
mod internals;
mod memory;
mod meta;
mod msgpack;
pub mod mutate;
mod roundtrip;
pub mod seeds;
mod server;
mod sparse;
pub mod targets;
mod versus;

pub use libfuzzer_sys;
pub use memory::bounded;

/// Defines the binary of a target: one of [`targets`] and, if it has one, its structured mutator.
#[macro_export]
macro_rules! target {
    ($name:ident) => {
        $crate::libfuzzer_sys::fuzz_target!(init: $crate::targets::init(), |data: &[u8]| {
            $crate::bounded($crate::targets::$name, data)
        });
    };
    ($name:ident, $mutator:ident) => {
        $crate::target!($name);
        $crate::libfuzzer_sys::fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
            $crate::mutate::with($crate::mutate::$mutator, data, size, max_size, seed)
        });
    };
}
