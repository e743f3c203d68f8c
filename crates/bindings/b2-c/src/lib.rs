#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

mod abi;
mod core;
#[allow(unsafe_code, reason = "the border to C: pointers, its memory and its callbacks")]
mod ffi;
