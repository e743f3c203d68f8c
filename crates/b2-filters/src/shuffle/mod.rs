//! Byte shuffle (id 1): byte 0 of all items, then byte 1 of all items, and so on.
//!
//! ```text
//! items    a0 a1 a2 a3  b0 b1 b2 b3  c0 c1 c2 c3  t t
//! planes   a0 b0 c0  a1 b1 c1  a2 b2 c2  a3 b3 c3  t t      a tail shorter than an item stays after
//! ```

// The slow reference documents the format and checks the kernels. Only tests call it.
#[cfg(test)]
pub(crate) mod scalar;

use std::ops::Range;

use crate::error::Result;
use crate::filter::{SplitPart, check_part, check_planes, same_length};
use crate::kernels::{self, Kernels, MAX_PIECE_LEN, Tile, fill_past_caches, tiles};
use crate::{Effect, Filter, FilterContext, FilterError, FilterId, FilterProperties, FilteredBlock, Planes};

/// The byte shuffle filter (id 1). A parameter byte other than 0 overrides the item size.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shuffle;

impl Filter for Shuffle {
    fn id(&self) -> FilterId {
        FilterId::SHUFFLE
    }
    fn name(&self) -> &str {
        "shuffle"
    }
    fn properties(&self, cx: &FilterContext<'_>, meta: u8) -> FilterProperties {
        let typesize = size(cx, meta);
        FilterProperties::UNKNOWN
            .lossless(true)
            .shapeless(true)
            .effect(Effect::Reorders)
            .forward_is_copy(typesize == 1)
            .backward_is_copy(typesize == 1)
            .in_parts(true)
            .planes(Some(Planes::new(typesize, 1)))
    }
    fn forward(&self, cx: &FilterContext<'_>, meta: u8, src: &[u8], dst: &mut [u8]) -> Result<()> {
        crate::filter::may_apply(self.id())?;
        shuffle(size(cx, meta), src, dst)
    }
    fn backward(&self, cx: &FilterContext<'_>, meta: u8, src: &[u8], dst: &mut [u8]) -> Result<()> {
        check(size(cx, meta), src, dst)?;
        unshuffle_with(kernels::best(), size(cx, meta), src, dst, cx.streaming);
        Ok(())
    }
    fn backward_part(
        &self,
        cx: &FilterContext<'_>,
        meta: u8,
        src: FilteredBlock<'_>,
        range: Range<usize>,
        dst: &mut [u8],
    ) -> Result<()> {
        let typesize = size(cx, meta);
        let src = match src {
            FilteredBlock::Planes(planes) => {
                check_planes(FilterId::SHUFFLE, typesize, planes, &range, dst)?;
                let n = planes.first().map_or(0, |plane| plane.len());
                if dst.len() == n * typesize && (2..=16).contains(&typesize) && n > 0 && !cx.streaming {
                    // A whole block, which may be so small that dividing it into parts takes longer than the kernel.
                    kernels::best().scatter(planes, Tile::dense(n, typesize, n), dst);
                    return Ok(());
                }
                unshuffle_part(kernels::best(), typesize, |j| planes[j], range, dst, cx.streaming);
                return Ok(());
            }
            FilteredBlock::Block(src) => src,
        };
        check(typesize, &[], &[])?;
        check_part(FilterId::SHUFFLE, src.len(), &range, dst)?;
        let q = src.len() / typesize;
        let part = SplitPart::split(q * typesize, src, range, dst);
        part.tail_dst.copy_from_slice(part.tail);
        unshuffle_part(
            kernels::best(),
            typesize,
            |j| &part.whole[j * q..][..q],
            part.range,
            part.dst,
            cx.streaming,
        );
        Ok(())
    }
}

fn size(cx: &FilterContext<'_>, meta: u8) -> usize {
    if meta == 0 { cx.itemsize } else { meta.into() }
}

/// Byte-shuffles items of `typesize` bytes; bytes after the last whole item are copied to the end.
///
/// # Errors
/// [`FilterError::Length`] if the slices differ in length, [`FilterError::ItemSize`] if `itemsize` is 0.
///
/// ```
/// let mut planes = [0; 7];
/// b2_filters::shuffle(3, b"abcABC.", &mut planes)?;
/// assert_eq!(&planes, b"aAbBcC.");
/// # Ok::<(), b2_filters::FilterError>(())
/// ```
pub fn shuffle(itemsize: usize, src: &[u8], dst: &mut [u8]) -> Result<()> {
    check(itemsize, src, dst)?;
    shuffle_with(kernels::best(), itemsize, src, dst);
    Ok(())
}

/// Reverses [`shuffle`].
///
/// # Errors
/// [`FilterError::Length`] if the slices differ in length, [`FilterError::ItemSize`] if `itemsize` is 0.
pub fn unshuffle(itemsize: usize, src: &[u8], dst: &mut [u8]) -> Result<()> {
    check(itemsize, src, dst)?;
    unshuffle_with(kernels::best(), itemsize, src, dst, false);
    Ok(())
}

fn check(itemsize: usize, src: &[u8], dst: &[u8]) -> Result<()> {
    if itemsize == 0 {
        return Err(FilterError::ItemSize { filter: FilterId::SHUFFLE, itemsize });
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
    for (i, n) in tiles(q, step(typesize), MIN_VECTOR_ITEMS) {
        for (j, cols) in columns(typesize) {
            let tile = Tile { n, cols, pitch: typesize, stride: q };
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
    let (planes, tail) = src.split_at(q * typesize);
    let (items, rest) = dst.split_at_mut(q * typesize);
    rest.copy_from_slice(tail);
    scatter(kernels, typesize, q, |j| &planes[j * q..][..q], items, streaming);
}

/// Restores the bytes `range` of all items from planes. Only the bytes of those items are read.
pub(crate) fn unshuffle_part<'a>(
    kernels: &dyn Kernels,
    typesize: usize,
    plane: impl Fn(usize) -> &'a [u8],
    range: Range<usize>,
    dst: &mut [u8],
    streaming: bool,
) {
    let first = range.start.div_ceil(typesize);
    let last = (range.end / typesize).max(first);
    let (head, rest) = dst.split_at_mut((first * typesize).min(range.end) - range.start);
    let (items, tail) = rest.split_at_mut(((last - first) * typesize).min(rest.len()));
    let byte = |at: usize| plane(at % typesize)[at / typesize];
    for (at, out) in (range.start..).zip(head) {
        *out = byte(at);
    }
    scatter(kernels, typesize, last - first, |j| &plane(j)[first..last], items, streaming);
    for (at, out) in (last * typesize..).zip(tail) {
        *out = byte(at);
    }
}

/// Restores `n` items from planes of `n` bytes.
fn scatter<'a>(
    kernels: &dyn Kernels,
    typesize: usize,
    n: usize,
    plane: impl Fn(usize) -> &'a [u8],
    items: &mut [u8],
    streaming: bool,
) {
    // Pieces of whole groups. The widest kernels process 64 items at a time.
    let step = match MAX_PIECE_LEN / typesize {
        fit @ MIN_VECTOR_ITEMS.. => fit & !(MIN_VECTOR_ITEMS - 1),
        32.. => 32,
        _ => 0,
    };
    if streaming && typesize > 1 && step > 0 && n >= step {
        return fill_past_caches(kernels, items, step * typesize, |at, piece| {
            let first = at / typesize;
            let n = piece.len() / typesize;
            scatter_cached(kernels, typesize, n, |j| &plane(j)[first..first + n], piece);
        });
    }
    scatter_cached(kernels, typesize, n, plane, items);
}

fn scatter_cached<'a>(
    kernels: &dyn Kernels,
    typesize: usize,
    n: usize,
    plane: impl Fn(usize) -> &'a [u8],
    items: &mut [u8],
) {
    if n == 0 {
        return;
    }
    if typesize == 1 {
        return items.copy_from_slice(plane(0));
    }
    for (i, n) in tiles(n, step(typesize), MIN_VECTOR_ITEMS) {
        for (j, cols) in columns(typesize) {
            let tile = Tile { n, cols, pitch: typesize, stride: n };
            let mut planes: [&[u8]; 16] = [&[]; 16];
            for (k, slot) in planes.iter_mut().enumerate().take(cols) {
                *slot = &plane(j + k)[i..i + n];
            }
            kernels.scatter(&planes[..cols], tile, &mut items[i * typesize + j..]);
        }
    }
}

/// Divides items into ranges of columns that kernels process together: the first byte and the count. Items above 16
/// bytes are divided into ranges of 16 or 8, of which the last may overlap the previous one.
pub(crate) fn columns(typesize: usize) -> impl Iterator<Item = (usize, usize)> {
    let rest = match typesize % 16 {
        _ if typesize <= 16 => Some((0, typesize)),
        0 => None,
        1..=8 => Some((typesize - 8, 8)),
        _ => Some((typesize - 16, 16)),
    };
    (0..if typesize > 16 { typesize / 16 } else { 0 }).map(|k| (16 * k, 16)).chain(rest)
}

/// Returns how many items to process at a time. Items above 16 bytes are visited several times, so few enough are taken
/// to stay in the first-level cache.
fn step(typesize: usize) -> usize {
    if typesize <= 16 { usize::MAX } else { (16384 / typesize).max(MIN_VECTOR_ITEMS) }
}

/// With fewer items, the widest kernels fall back to narrower ones.
const MIN_VECTOR_ITEMS: usize = 64;
