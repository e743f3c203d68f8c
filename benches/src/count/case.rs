//! The definition of a case.

use std::hint::black_box;

pub(crate) type Error = Box<dyn std::error::Error>;
/// Prepares the data and runs the work.
pub(crate) type Case = Box<dyn Fn() -> Result<(), Error>>;

/// Callgrind collects only inside this function.
#[inline(never)]
pub(crate) fn counted<T>(work: impl FnOnce() -> T) -> T {
    black_box(work())
}
