#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod bitshuffle;
mod bytedelta;
mod cells;
mod delta;
mod error;
mod filter;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
mod id;
mod kernels;
mod ndcell;
mod ndmean;
mod shuffle;
mod truncate;

pub use bitshuffle::{BitShuffle, bitshuffle, bitunshuffle};
pub use bytedelta::ByteDelta;
pub use delta::Delta;
pub use error::FilterError;
pub use filter::{Effect, Filter, FilterContext, FilterProperties, FilteredBlock, Planes, Reference};
pub use id::{FilterId, FilterSlot};
pub use shuffle::{Shuffle, shuffle, unshuffle};

use std::sync::Arc;

use bytedelta::HistoricByteDelta;
use ndcell::NdCell;
use ndmean::NdMean;
use truncate::Truncate;

/// Returns all filters of this crate, in order of id.
pub fn builtin() -> Vec<Arc<dyn Filter>> {
    vec![
        Arc::new(Shuffle),
        Arc::new(BitShuffle),
        Arc::new(Delta),
        Arc::new(Truncate::Floats),
        Arc::new(NdCell),
        Arc::new(NdMean),
        Arc::new(HistoricByteDelta),
        Arc::new(ByteDelta),
        Arc::new(Truncate::Integers),
    ]
}

/// Returns the name of the instruction set in use: the best that this CPU supports, see [`available_kernels`].
///
/// The environment variable `B2KIT_SIMD`, which is read once, selects another of the names below. A name that is
/// unknown or not supported is ignored. Results do not depend on the choice.
///
/// | name | required CPU features |
/// | --- | --- |
/// | `avx512` | x86-64 with AVX-512 F, BW, VBMI and GFNI |
/// | `gfni` | x86-64 with AVX2 and GFNI |
/// | `avx2` | x86-64 with AVX2 |
/// | `neon` | 64-bit ARM |
/// | `sse2` | any x86-64 |
/// | `generic` | anything |
pub fn kernels() -> &'static str {
    kernels::best().name()
}

/// Returns the names of all instruction sets that this CPU supports, best first. The last one is always `generic`.
pub fn available_kernels() -> Vec<&'static str> {
    kernels::available().into_iter().map(kernels::Kernels::name).collect()
}
