#![doc = include_str!("../README.md")]

mod bitshuffle;
mod bytedelta;
mod cells;
mod delta;
mod error;
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
pub use id::{FilterId, FilterSlot};
pub use int_trunc::IntTrunc;
pub use ndcell::NdCell;
pub use ndmean::NdMean;
pub use shuffle::{Shuffle, shuffle, unshuffle};
pub use trunc_prec::TruncPrec;

use std::fmt::Debug;
use std::ops::Range;
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

/// Name of the instruction set in use: the best that this CPU has kernels for, see [`available_kernels`].
///
/// The environment variable `B2KIT_SIMD`, read once, forces another: one of the names below. A name that is unknown or
/// not available here is ignored. The bytes are the same whatever the choice.
///
/// | name | what the CPU has |
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

/// Names of all instruction sets that this CPU has kernels for, best first; `generic` is always the last.
pub fn available_kernels() -> Vec<&'static str> {
    kernels::available().into_iter().map(kernels::Kernels::name).collect()
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
    /// Whether applying the filter is a plain copy (shuffle of single bytes), so that callers may skip it.
    fn forward_is_copy(&self, cx: &FilterContext<'_>, meta: u8) -> bool {
        let _ = (cx, meta);
        false
    }
    /// Whether undoing the filter is a plain copy (trunc_prec, int_trunc), so that callers may skip it.
    fn backward_is_copy(&self, cx: &FilterContext<'_>, meta: u8) -> bool {
        let _ = (cx, meta);
        false
    }
    /// Of how many planes of equal length a filtered block of `nbytes` consists, if the filter has a
    /// [`backward_planes`](Self::backward_planes) for them.
    fn planes(&self, cx: &FilterContext<'_>, meta: u8, nbytes: usize) -> Option<usize> {
        let _ = (cx, meta, nbytes);
        None
    }
    /// How many bytes from the start of each plane `backward_planes` looks at when asked for the bytes `range` of
    /// the plain block: a caller need not decode more. Only for blocks that have [`planes`](Self::planes).
    fn plane_prefix(&self, cx: &FilterContext<'_>, meta: u8, nbytes: usize, range: Range<usize>) -> usize {
        let _ = range;
        self.planes(cx, meta, nbytes).map_or(nbytes, |count| nbytes / count.max(1))
    }
    /// As [`backward_part`](Self::backward_part), from the planes of the filtered block, each wherever it lies. They
    /// are given in full length, but what is in them after [`plane_prefix`](Self::plane_prefix) does not matter.
    ///
    /// # Errors
    /// When there are no [`planes`](Self::planes), or they, `range` and `dst` do not fit each other.
    fn backward_planes(
        &self,
        cx: &FilterContext<'_>,
        meta: u8,
        planes: &[&[u8]],
        range: Range<usize>,
        dst: &mut [u8],
    ) -> Result<(), FilterError> {
        let _ = (cx, meta, planes, range, dst);
        Err(FilterError::Part { filter: self.id(), what: "the filter does not work on planes" })
    }
    /// The bytes `range` of what [`backward`](Self::backward) makes of the whole filtered block `src`. `dst` is as
    /// long as `range`. Filters that do not bring their own undo the whole block.
    ///
    /// # Errors
    /// As [`backward`](Self::backward), when `range` is not inside the block, or there is no memory for all of it.
    fn backward_part(
        &self,
        cx: &FilterContext<'_>,
        meta: u8,
        src: &[u8],
        range: Range<usize>,
        dst: &mut [u8],
    ) -> Result<(), FilterError> {
        part::check_part(self.id(), src.len(), &range, dst)?;
        let mut block = Vec::new();
        let out_of_memory = |_| FilterError::OutOfMemory { filter: self.id(), bytes: src.len() };
        block.try_reserve_exact(src.len()).map_err(out_of_memory)?;
        block.resize(src.len(), 0);
        self.backward(cx, meta, src, &mut block)?;
        dst.copy_from_slice(&block[range]);
        Ok(())
    }
}

/// The first check of every filter.
fn same_length(filter: FilterId, src: &[u8], dst: &[u8]) -> Result<(), FilterError> {
    if src.len() != dst.len() {
        return Err(FilterError::Length { filter, src: src.len(), dst: dst.len() });
    }
    Ok(())
}
