//! Block shapes that contexts get from super-chunks.

use std::sync::Arc;

use crate::core::context::Context;
use crate::core::error::Result;
use crate::ffi::b2nd::shapes_of;
use crate::ffi::contexts::schunk_of;
use crate::ffi::schunk::{SchunkState, state};

/// Returns the shape of a block, if necessary from the metalayer of the array; empty if this is not an array.
fn block_of(schunk: &SchunkState) -> Result<Arc<[u32]>> {
    let known = schunk.known_blockshape();
    if !known.is_empty() {
        return Ok(known);
    }
    let shapes = shapes_of(schunk)?;
    Ok(shapes.iter().flat_map(|shapes| &shapes.block).map(|len| len.unsigned_abs()).collect())
}

/// Returns whether a codec or one of the filters needs the shape of a block: NDLZ, zfp, NDCELL, NDMEAN.
fn needs_shape(codec: u8, filters: &[u8]) -> bool {
    (32..=35).contains(&codec) || filters.iter().any(|filter| (32..=33).contains(filter))
}

/// Sets the block shape of a context for compressing from the super-chunk of its parameters, if needed.
///
/// # Safety
/// The super-chunk of the context is null or valid.
pub(crate) unsafe fn shape_to_compress(context: &Context) -> Result<()> {
    let cparams = context.cparams();
    // SAFETY: guaranteed by the caller.
    unsafe { shape_from(context, needs_shape(cparams.compcode, &cparams.filters)) }
}

/// Like [`shape_to_compress`], for decompressing a chunk.
///
/// # Safety
/// As there.
pub(crate) unsafe fn shape_to_decompress(context: &Context, chunk: &[u8]) -> Result<()> {
    let needs = chunk.get(16..32).is_some_and(|rest| needs_shape(rest[6], &rest[..6]));
    // SAFETY: guaranteed by the caller.
    unsafe { shape_from(context, needs) }
}

/// # Safety
/// As [`shape_to_compress`].
unsafe fn shape_from(context: &Context, needed: bool) -> Result<()> {
    let schunk = schunk_of(context);
    if needed && !schunk.is_null() {
        // SAFETY: guaranteed by the caller.
        context.set_blockshape(&block_of(unsafe { state(schunk) }?)?);
    }
    Ok(())
}
