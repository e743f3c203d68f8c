#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod error;
mod read;
mod write;

pub use error::{Error, Item};
pub use read::Reader;
pub use write::{Fixed, Slot, Writer};
