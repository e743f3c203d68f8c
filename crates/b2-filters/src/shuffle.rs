//! Byte shuffle, id 1: byte 0 of all items, then byte 1 of all items, and so on.
//!
//! ```text
//! items    a0 a1 a2 a3  b0 b1 b2 b3  c0 c1 c2 c3  t t
//! planes   a0 b0 c0  a1 b1 c1  a2 b2 c2  a3 b3 c3  t t      a tail shorter than an item stays behind
//! ```

// The slow twin documents the format and checks the kernels; nothing else calls it.
#[cfg(test)]
pub(crate) mod scalar;

use crate::kernels::{self, Kernels, Tile, tiles};
use crate::{Filter, FilterContext, FilterError, FilterId, same_length};

/// The byte shuffle filter, id 1. A parameter byte other than 0 takes the place of the item size.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shuffle;

impl Filter for Shuffle {
    fn id(&self) -> FilterId {
        FilterId::SHUFFLE
    }
    fn name(&self) -> &str {
        "shuffle"
    }
    fn forward(
        &self,
        cx: &FilterContext<'_>,
        meta: u8,
        src: &[u8],
        dst: &mut [u8],
    ) -> Result<(), FilterError> {
        shuffle(size(cx, meta), src, dst)
    }
    fn backward(
        &self,
        cx: &FilterContext<'_>,
        meta: u8,
        src: &[u8],
        dst: &mut [u8],
    ) -> Result<(), FilterError> {
        check(size(cx, meta), src, dst)?;
        unshuffle_with(kernels::best(), size(cx, meta), src, dst, cx.streaming);
        Ok(())
    }
}

fn size(cx: &FilterContext<'_>, meta: u8) -> usize {
    if meta == 0 { cx.typesize } else { meta.into() }
}

/// Byte-shuffles items of `typesize` bytes; bytes after the last whole item are copied to the end.
///
/// # Errors
/// When the slices differ in length, or `typesize` is 0.
///
/// ```
/// let mut planes = [0; 7];
/// b2_filters::shuffle(3, b"abcABC.", &mut planes)?;
/// assert_eq!(&planes, b"aAbBcC.");
/// # Ok::<(), b2_filters::FilterError>(())
/// ```
pub fn shuffle(typesize: usize, src: &[u8], dst: &mut [u8]) -> Result<(), FilterError> {
    check(typesize, src, dst)?;
    shuffle_with(kernels::best(), typesize, src, dst);
    Ok(())
}

/// Undoes [`shuffle`].
///
/// # Errors
/// When the slices differ in length, or `typesize` is 0.
pub fn unshuffle(typesize: usize, src: &[u8], dst: &mut [u8]) -> Result<(), FilterError> {
    check(typesize, src, dst)?;
    unshuffle_with(kernels::best(), typesize, src, dst, false);
    Ok(())
}

fn check(typesize: usize, src: &[u8], dst: &[u8]) -> Result<(), FilterError> {
    if typesize == 0 {
        return Err(FilterError::ItemSize { filter: FilterId::SHUFFLE, typesize });
    }
    same_length(FilterId::SHUFFLE, src, dst)
}

pub(crate) fn shuffle_with(kernels: &dyn Kernels, typesize: usize, src: &[u8], dst: &mut [u8]) {
    let q = src.len() / typesize;
    if typesize == 1 || q < 2 {
        return dst.copy_from_slice(src);
    }
    let (items, tail) = src.split_at(q * typesize);
    let (planes, rest) = dst.split_at_mut(q * typesize);
    rest.copy_from_slice(tail);
    if typesize <= 16 {
        return kernels.gather(items, Tile::dense(q, typesize, q), planes);
    }
    for (i, n) in tiles(q, step(typesize), LEAST) {
        for j in columns(typesize) {
            let tile = Tile { n, cols: 16, pitch: typesize, stride: q, streaming: false };
            kernels.gather(&items[i * typesize + j..], tile, &mut planes[j * q + i..]);
        }
    }
}

pub(crate) fn unshuffle_with(
    kernels: &dyn Kernels,
    typesize: usize,
    src: &[u8],
    dst: &mut [u8],
    streaming: bool,
) {
    let q = src.len() / typesize;
    if typesize == 1 || q < 2 {
        return dst.copy_from_slice(src);
    }
    let (planes, tail) = src.split_at(q * typesize);
    let (items, rest) = dst.split_at_mut(q * typesize);
    rest.copy_from_slice(tail);
    if typesize <= 16 {
        kernels.scatter(planes, Tile { streaming, ..Tile::dense(q, typesize, q) }, items);
        if streaming {
            kernels.fence();
        }
        return;
    }
    for (i, n) in tiles(q, step(typesize), LEAST) {
        for j in columns(typesize) {
            let tile = Tile { n, cols: 16, pitch: typesize, stride: q, streaming: false };
            kernels.scatter(&planes[j * q + i..], tile, &mut items[i * typesize + j..]);
        }
    }
}

/// First byte of each group of 16 in an item of more; the last group reaches back.
pub(crate) fn columns(typesize: usize) -> impl Iterator<Item = usize> {
    (0..typesize).step_by(16).map(move |j| j.min(typesize.saturating_sub(16)))
}

/// Items above 16 bytes are visited once per 16 bytes: so many at a time that they stay in the first-level cache.
fn step(typesize: usize) -> usize {
    (16384 / typesize).max(LEAST)
}

/// Fewer items than this make the widest kernels fall back to narrower ones.
const LEAST: usize = 64;
