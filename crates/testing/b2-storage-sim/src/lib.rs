#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod campaign;
mod fault;
mod fs;
mod image;
mod kill;
mod log;
mod op;
mod power;
mod program;

pub use campaign::{CrashCounts, CrashPlan, every_crash};
pub use fault::{Call, Calls, Fault, Trouble};
pub use fs::SimFs;
pub use image::Image;
pub use log::{CrashState, Log};
pub use op::Op;
pub use program::program;
