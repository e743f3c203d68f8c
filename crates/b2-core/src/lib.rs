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

#[cfg(feature = "__internal")]
#[doc(hidden)]
pub use buffer::Buffer;
#[cfg(not(feature = "__internal"))]
pub(crate) use buffer::Buffer;
pub use control::{Control, Progress};
pub use element::Element;
pub use error::{Cancelled, ErrorKind, LimitExceeded, Report};
#[cfg(feature = "__internal")]
#[doc(hidden)]
pub use kept::Kept;
#[cfg(not(feature = "__internal"))]
pub(crate) use kept::Kept;
pub use limits::Limits;
pub use memory::OutOfMemory;
#[cfg(feature = "__internal")]
#[doc(hidden)]
pub use ordered::in_order;
#[cfg(not(feature = "__internal"))]
pub(crate) use ordered::in_order;
pub use pool::Pool;
#[cfg(feature = "__internal")]
#[doc(hidden)]
pub use process::{PerProcess, ProcessId};
#[cfg(not(feature = "__internal"))]
pub(crate) use process::{PerProcess, ProcessId};
#[cfg(feature = "__internal")]
#[doc(hidden)]
pub use run::{for_each, workers};
#[cfg(not(feature = "__internal"))]
pub(crate) use run::{for_each, workers};
