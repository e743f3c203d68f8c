#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod control;
mod element;
mod error;
mod ids;
mod limits;
#[doc(hidden)]
pub mod memory;
mod ordered;
mod pool;
mod pooled;
mod process;
mod run;
mod setters;

pub use control::{Control, Progress};
pub use element::Element;
pub use error::{Cancelled, ErrorKind, LimitExceeded, OutOfMemory, Report};
pub use limits::Limits;
pub use pool::Pool;

// For our other crates.
#[doc(hidden)]
pub use {
    control::Executor,
    error::what_failed,
    ordered::in_order,
    pooled::Buffer,
    pooled::Pooled,
    process::{PerProcess, ProcessId},
    run::{for_each, workers},
};
