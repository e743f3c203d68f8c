//! The checks behind the fuzz targets of b2kit (docs/fuzzing.md). Each target is a function of bytes; the files in
//! `fuzz_targets/` only name them.

mod arrays;
mod checks;
mod chunk;
#[cfg(feature = "cli")]
mod cli;
mod codecs;
mod dice;
mod filters;
mod frame;
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
use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATED: PeakAlloc = PeakAlloc;

/// Maximum memory that an input may use, in bytes: what the command allows for small files.
const MOST: usize = 768 << 20;

/// Runs a target on an input, and checks how much memory it uses.
pub fn bounded(target: fn(&[u8]), data: &[u8]) {
    within(MOST, &format!("an input of {} bytes", data.len()), || target(data));
}

/// Panics if `run` uses more than `most` bytes of memory.
pub(crate) fn within(most: usize, what: &str, run: impl FnOnce()) {
    ALLOCATED.reset_peak_usage();
    let before = ALLOCATED.current_usage();
    run();
    let taken = ALLOCATED.peak_usage().saturating_sub(before);
    assert!(taken <= most, "{what}: {} MiB of memory", taken >> 20);
}

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
