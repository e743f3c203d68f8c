//! The tests of `b2kit` from outside, in one program: a new file needs a line here.

mod common;
mod cross_check;
mod decisions;
mod dirty;
mod errors;
mod examples;
mod fixtures;
mod kinds;
mod threads;
