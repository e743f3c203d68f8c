//! Code shared by `b2kit view` and the browser viewer: choosing which items of a large selection are drawn, and
//! converting items to numbers, text and colours.
//!
//! It does no I/O. It is not a public API and changes with these two programs.
#![forbid(unsafe_code)]

#[doc(hidden)]
pub mod colours;
#[doc(hidden)]
pub mod edges;
#[doc(hidden)]
pub mod formats;
#[doc(hidden)]
pub mod grid;
#[doc(hidden)]
pub mod items;
#[doc(hidden)]
pub mod labels;
#[doc(hidden)]
pub mod limits;
#[doc(hidden)]
pub mod npy;
#[doc(hidden)]
pub mod numbers;
#[doc(hidden)]
pub mod slice;
#[doc(hidden)]
pub mod text;
#[doc(hidden)]
pub mod ticks;

mod cf_time;
mod date;
mod extended;
mod float;
