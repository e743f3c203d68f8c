//! The tests of `b2kit` from outside, in one program: a new file needs a line here.

mod common;
mod cross_check;
mod decisions;
mod error_kinds;
mod errors;
mod examples;
mod fixtures;
mod reused_buffers;
mod threads;
