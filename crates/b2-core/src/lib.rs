#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod buffer;
mod control;
mod element;
mod error;
mod ids;
mod kept;
mod limits;
#[doc(hidden)]
pub mod memory;
mod ordered;
mod pool;
mod process;
mod run;
mod setters;

#[doc(hidden)]
pub use buffer::Buffer;
pub use control::{Control, Progress};
pub use element::Element;
pub use error::{Cancelled, ErrorKind, LimitExceeded, Report};
#[doc(hidden)]
pub use kept::Kept;
pub use limits::Limits;
pub use memory::OutOfMemory;
#[doc(hidden)]
pub use ordered::in_order;
pub use pool::Pool;
#[doc(hidden)]
pub use process::{PerProcess, ProcessId};
#[doc(hidden)]
pub use run::{for_each, workers};
