#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
// What only our other crates use is private without the feature for it, and then some of it is not used at all.
#![cfg_attr(
    not(feature = "__internal"),
    allow(dead_code, private_bounds, private_interfaces, unreachable_pub, unused_imports)
)]

mod buffer;
mod control;
mod element;
mod error;
mod ids;
mod internal;
mod kept;
mod limits;
#[cfg(not(feature = "__internal"))]
mod memory;
#[cfg(feature = "__internal")]
#[doc(hidden)]
pub mod memory;
mod ordered;
mod pool;
mod process;
mod run;
mod setters;

pub use control::{Control, Progress};
pub use element::Element;
pub use error::{Cancelled, ErrorKind, LimitExceeded, Report};
pub use limits::Limits;
pub use memory::OutOfMemory;
pub use pool::Pool;

// For our other crates.
#[cfg(not(feature = "__internal"))]
pub(crate) use {
    buffer::Buffer,
    control::Executor,
    error::what_failed,
    kept::Kept,
    ordered::in_order,
    process::{PerProcess, ProcessId},
    run::{for_each, workers},
};
#[cfg(feature = "__internal")]
#[doc(hidden)]
pub use {
    buffer::Buffer,
    control::Executor,
    error::what_failed,
    kept::Kept,
    ordered::in_order,
    process::{PerProcess, ProcessId},
    run::{for_each, workers},
};
