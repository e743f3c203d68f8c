#![doc = include_str!("../README.md")]

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
mod int_trunc;
mod kernels;
mod ndcell;
mod ndmean;
mod part;
mod shuffle;
mod trunc_prec;

pub use bitshuffle::{BitShuffle, bitshuffle, bitunshuffle};
pub use bytedelta::{ByteDelta, HistoricByteDelta};
pub use delta::Delta;
pub use error::FilterError;
pub use filter::{Effect, Filter, FilterContext, FilterProperties, Filtered, Planes, Reference};
pub use id::{FilterId, FilterSlot};
pub use int_trunc::IntTrunc;
pub use ndcell::NdCell;
pub use ndmean::NdMean;
pub use shuffle::{Shuffle, shuffle, unshuffle};
pub use trunc_prec::TruncPrec;

use std::sync::Arc;

/// Returns all filters of this crate, in order of id.
pub fn builtin() -> Vec<Arc<dyn Filter>> {
    vec![
        Arc::new(Shuffle),
        Arc::new(BitShuffle),
        Arc::new(Delta),
        Arc::new(TruncPrec),
        Arc::new(NdCell),
        Arc::new(NdMean),
        Arc::new(HistoricByteDelta),
        Arc::new(ByteDelta),
        Arc::new(IntTrunc),
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

/// Checks that source and destination have the same length, which every filter requires.
fn same_length(filter: FilterId, src: &[u8], dst: &[u8]) -> Result<(), FilterError> {
    if src.len() != dst.len() {
        return Err(FilterError::Length { filter, src: src.len(), dst: dst.len() });
    }
    Ok(())
}
