#![doc = include_str!("../README.md")]

mod bitshuffle;
mod bytedelta;
mod cells;
mod delta;
mod error;
mod id;
mod int_trunc;
mod kernels;
mod ndcell;
mod ndmean;
mod shuffle;
mod trunc_prec;

pub use bitshuffle::{BitShuffle, bitshuffle, bitunshuffle};
pub use bytedelta::{ByteDelta, HistoricByteDelta};
pub use delta::Delta;
pub use error::FilterError;
pub use id::{FilterId, FilterSlot};
pub use int_trunc::IntTrunc;
pub use ndcell::NdCell;
pub use ndmean::NdMean;
pub use shuffle::{Shuffle, shuffle, unshuffle};
pub use trunc_prec::TruncPrec;

use std::fmt::Debug;
use std::sync::Arc;

/// One of each filter of this crate, in order of id.
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

/// Name of the instruction set that byte and bit shuffle use on this CPU: `avx512`, `avx2` or `generic`.
pub fn kernels() -> &'static str {
    kernels::best().name()
}

/// What a filter may know about the block it is applied to.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct FilterContext<'a> {
    /// Item size in the chunk header: 1 when the real one is above 255.
    pub typesize: usize,
    /// Real item size in bytes, from the container; equals `typesize` for bare chunks up to 255.
    pub itemsize: Option<usize>,
    /// Chunk format version (bitshuffle differs in version 2).
    pub chunk_version: u8,
    /// Shape of a block in items, for N-dimensional filters. Empty if not an array.
    pub blockshape: &'a [u32],
    /// For delta: the decoded block 0 of the chunk, or `None` if this *is* block 0.
    pub reference: Option<&'a [u8]>,
    /// Whether the destination of `backward` is part of something larger than the caches and not read at once.
    /// Shuffle and bitshuffle then write past the caches where they can; the bytes are the same.
    pub streaming: bool,
}

impl<'a> FilterContext<'a> {
    /// Context of block 0 of a bare chunk in the current format version.
    pub fn new(typesize: usize) -> Self {
        Self {
            typesize,
            itemsize: None,
            chunk_version: 5,
            blockshape: &[],
            reference: None,
            streaming: false,
        }
    }
    /// Sets the container's item size in bytes.
    pub fn with_itemsize(self, itemsize: Option<usize>) -> Self {
        Self { itemsize, ..self }
    }
    /// Sets the chunk format version.
    pub fn with_chunk_version(self, chunk_version: u8) -> Self {
        Self { chunk_version, ..self }
    }
    /// Sets the block shape in items.
    pub fn with_blockshape(self, blockshape: &'a [u32]) -> Self {
        Self { blockshape, ..self }
    }
    /// Sets the reference block for delta (`None`: this is block 0).
    pub fn with_reference(self, reference: Option<&'a [u8]>) -> Self {
        Self { reference, ..self }
    }
    /// Sets whether `backward` may write past the caches.
    pub fn with_streaming(self, streaming: bool) -> Self {
        Self { streaming, ..self }
    }
}

/// A length-preserving transform of one block, found by the id in the chunk header.
///
/// The methods are named as in C-Blosc2. `src` and `dst` have the same length and do not overlap; all of
/// `dst` is written, whatever it held before.
pub trait Filter: Debug + Send + Sync {
    /// The id that chunk and frame headers carry.
    fn id(&self) -> FilterId;
    /// Name as users write it, for example `shuffle`.
    fn name(&self) -> &str;
    /// Applied before compression. `meta` is the slot's parameter byte.
    ///
    /// # Errors
    /// When the filter cannot be applied with these parameters.
    fn forward(
        &self,
        cx: &FilterContext<'_>,
        meta: u8,
        src: &[u8],
        dst: &mut [u8],
    ) -> Result<(), FilterError>;
    /// Applied after decompression.
    ///
    /// # Errors
    /// When the filter cannot be undone with these parameters.
    fn backward(
        &self,
        cx: &FilterContext<'_>,
        meta: u8,
        src: &[u8],
        dst: &mut [u8],
    ) -> Result<(), FilterError>;
    /// Whether undoing the filter is a plain copy (trunc_prec, int_trunc), so that callers may skip it.
    fn backward_is_copy(&self) -> bool {
        false
    }
}

/// The first check of every filter.
fn same_length(filter: FilterId, src: &[u8], dst: &[u8]) -> Result<(), FilterError> {
    if src.len() != dst.len() {
        return Err(FilterError::Length { filter, src: src.len(), dst: dst.len() });
    }
    Ok(())
}
