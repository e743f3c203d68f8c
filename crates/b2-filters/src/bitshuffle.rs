//! Bit shuffle, id 2: bit 0 of byte 0 of all items, then bit 1, and so on, least significant bit first.
//!
//! Only whole groups of 8 items take part; what follows them is copied. The bytes of the items are brought into
//! planes first, tile by tile so that a tile stays in the first-level cache; then the bits of each plane into its
//! 8 rows. Writing long runs of a few rows at a time also matters: rows of large blocks lie a power of two apart
//! and would throw each other out of the cache.

// The slow twin documents the format and checks the kernels; nothing else calls it.
#[cfg(test)]
pub(crate) mod scalar;

use std::ops::Range;

use crate::kernels::{self, Kernels, PIECE, Tile, fill_past_caches, tiles};
use crate::part::{Part, check_part, check_planes};
use crate::shuffle::columns;
use crate::{Filter, FilterContext, FilterError, FilterId, same_length};

/// The bit shuffle filter, id 2. The parameter byte is not used.
///
/// In chunks of format version 2 (Blosc 1) a block whose number of items is not a multiple of 8 is not shuffled.
#[derive(Clone, Copy, Debug, Default)]
pub struct BitShuffle;

impl Filter for BitShuffle {
    fn id(&self) -> FilterId {
        FilterId::BITSHUFFLE
    }
    fn name(&self) -> &str {
        "bitshuffle"
    }
    fn forward(
        &self,
        cx: &FilterContext<'_>,
        _meta: u8,
        src: &[u8],
        dst: &mut [u8],
    ) -> Result<(), FilterError> {
        check(cx.typesize, src, dst)?;
        if is_plain(cx, src.len()) {
            dst.copy_from_slice(src);
            return Ok(());
        }
        bitshuffle(cx.typesize, src, dst)
    }
    fn backward(
        &self,
        cx: &FilterContext<'_>,
        _meta: u8,
        src: &[u8],
        dst: &mut [u8],
    ) -> Result<(), FilterError> {
        check(cx.typesize, src, dst)?;
        if is_plain(cx, src.len()) {
            dst.copy_from_slice(src);
            return Ok(());
        }
        bitunshuffle_with(kernels::best(), cx.typesize, src, dst, cx.streaming);
        Ok(())
    }
    fn planes(&self, cx: &FilterContext<'_>, _meta: u8, nbytes: usize) -> Option<usize> {
        // Items beyond the last group of 8 would not be in the planes.
        let group = cx.typesize.checked_mul(8).filter(|&group| group > 0)?;
        nbytes.is_multiple_of(group).then_some(cx.typesize)
    }
    fn plane_prefix(&self, cx: &FilterContext<'_>, _meta: u8, nbytes: usize, range: Range<usize>) -> usize {
        let group = cx.typesize.saturating_mul(8).max(1);
        if range.is_empty() { 0 } else { 7 * (nbytes / group) + range.end.min(nbytes).div_ceil(group) }
    }
    fn backward_planes(
        &self,
        cx: &FilterContext<'_>,
        _meta: u8,
        planes: &[&[u8]],
        range: Range<usize>,
        dst: &mut [u8],
    ) -> Result<(), FilterError> {
        check_planes(FilterId::BITSHUFFLE, cx.typesize, planes, &range, dst)?;
        if !planes[0].len().is_multiple_of(8) {
            return Err(FilterError::Part {
                filter: FilterId::BITSHUFFLE,
                what: "planes hold whole groups of 8 items",
            });
        }
        bitunshuffle_part(kernels::best(), cx.typesize, |j| planes[j], range, dst, cx.streaming);
        Ok(())
    }
    fn backward_part(
        &self,
        cx: &FilterContext<'_>,
        _meta: u8,
        src: &[u8],
        range: Range<usize>,
        dst: &mut [u8],
    ) -> Result<(), FilterError> {
        let typesize = cx.typesize;
        check(typesize, &[], &[])?;
        check_part(FilterId::BITSHUFFLE, src.len(), &range, dst)?;
        if is_plain(cx, src.len()) {
            dst.copy_from_slice(&src[range]);
            return Ok(());
        }
        let q = (src.len() / typesize) & !7;
        let part = Part::split(q * typesize, src, range, dst);
        part.tail_dst.copy_from_slice(part.tail);
        bitunshuffle_part(
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

/// Whether the block was left alone: the rule of chunk version 2.
fn is_plain(cx: &FilterContext<'_>, nbytes: usize) -> bool {
    cx.chunk_version <= 2 && !(nbytes / cx.typesize).is_multiple_of(8)
}

/// Bit-shuffles items of `typesize` bytes, as many groups of 8 as there are; the bytes after them are copied.
///
/// # Errors
/// When the slices differ in length, or `typesize` is 0.
///
/// ```
/// let mut rows = [0; 8];
/// b2_filters::bitshuffle(1, &[1, 1, 1, 1, 0x80, 0, 0, 0], &mut rows)?;
/// assert_eq!(rows, [0b1111, 0, 0, 0, 0, 0, 0, 0b1_0000]);
/// # Ok::<(), b2_filters::FilterError>(())
/// ```
pub fn bitshuffle(typesize: usize, src: &[u8], dst: &mut [u8]) -> Result<(), FilterError> {
    check(typesize, src, dst)?;
    bitshuffle_with(kernels::best(), typesize, src, dst);
    Ok(())
}

/// Undoes [`bitshuffle`].
///
/// # Errors
/// When the slices differ in length, or `typesize` is 0.
pub fn bitunshuffle(typesize: usize, src: &[u8], dst: &mut [u8]) -> Result<(), FilterError> {
    check(typesize, src, dst)?;
    bitunshuffle_with(kernels::best(), typesize, src, dst, false);
    Ok(())
}

fn check(typesize: usize, src: &[u8], dst: &[u8]) -> Result<(), FilterError> {
    if typesize == 0 {
        return Err(FilterError::ItemSize { filter: FilterId::BITSHUFFLE, typesize });
    }
    same_length(FilterId::BITSHUFFLE, src, dst)
}

pub(crate) fn bitshuffle_with(kernels: &dyn Kernels, typesize: usize, src: &[u8], dst: &mut [u8]) {
    let q = (src.len() / typesize) & !7;
    let (items, tail) = src.split_at(q * typesize);
    let (rows, rest) = dst.split_at_mut(q * typesize);
    rest.copy_from_slice(tail);
    if typesize == 1 {
        for (i, n) in tiles(q / 8, 1024, LEAST / 8) {
            let next = &items[8 * (i + n)..];
            kernels.prefetch(&next[..next.len().min(8 * n)]);
            kernels.gather_bits(&items[8 * i..], Tile::dense(n, 8, q / 8), &mut rows[i..]);
        }
        return;
    }
    let mut scratch = [0; SCRATCH];
    let step = step(typesize);
    for (i, n) in tiles(q, step, LEAST) {
        // While the bits of this tile are at work, memory would have nothing to do: it brings the next tile, a part of
        // it for each plane.
        let mut next = items[(i + n) * typesize..].chunks(n);
        for (j, cols) in columns(typesize) {
            let tile = Tile { n, cols, pitch: typesize, stride: step + GAP };
            kernels.gather(&items[i * typesize + j..], tile, &mut scratch);
            for (k, plane) in scratch.chunks_exact(step + GAP).enumerate().take(cols) {
                kernels.prefetch(next.next().unwrap_or_default());
                let bits = Tile::dense(n / 8, 8, q / 8);
                kernels.gather_bits(&plane[..n], bits, &mut rows[(j + k) * q + i / 8..]);
            }
        }
    }
}

pub(crate) fn bitunshuffle_with(
    kernels: &dyn Kernels,
    typesize: usize,
    src: &[u8],
    dst: &mut [u8],
    streaming: bool,
) {
    let q = (src.len() / typesize) & !7;
    let (planes, tail) = src.split_at(q * typesize);
    let (items, rest) = dst.split_at_mut(q * typesize);
    rest.copy_from_slice(tail);
    scatter(kernels, typesize, q, |j, r| &planes[(8 * j + r) * (q / 8)..][..q / 8], items, streaming);
}

/// The bytes `range` of all items, from planes of 8 rows each, of which only the bits of those items (and of those
/// in the same group of 8) are looked at.
pub(crate) fn bitunshuffle_part<'a>(
    kernels: &dyn Kernels,
    typesize: usize,
    plane: impl Fn(usize) -> &'a [u8],
    range: Range<usize>,
    dst: &mut [u8],
    streaming: bool,
) {
    if range.is_empty() {
        return;
    }
    let group = 8 * typesize;
    let first = range.start.div_ceil(group);
    let last = (range.end / group).max(first);
    let (head, rest) = dst.split_at_mut((first * group).min(range.end) - range.start);
    let (items, tail) = rest.split_at_mut(((last - first) * group).min(rest.len()));
    let row = |j: usize, r: usize| {
        let plane = plane(j);
        &plane[r * (plane.len() / 8)..][..plane.len() / 8]
    };
    few(typesize, row, range.start, head);
    scatter(kernels, typesize, 8 * (last - first), |j, r| &row(j, r)[first..last], items, streaming);
    few(typesize, row, last * group, tail);
}

/// The bytes from `start` on, all in one group of 8 items.
fn few<'a>(typesize: usize, row: impl Fn(usize, usize) -> &'a [u8], start: usize, dst: &mut [u8]) {
    if dst.is_empty() {
        return;
    }
    let group = start / (8 * typesize);
    for j in 0..typesize {
        let bits = u64::from_le_bytes(std::array::from_fn(|r| row(j, r)[group]));
        for (i, byte) in transpose(bits).to_le_bytes().into_iter().enumerate() {
            let at = (8 * group + i) * typesize + j;
            if let Some(out) = at.checked_sub(start).and_then(|at| dst.get_mut(at)) {
                *out = byte;
            }
        }
    }
}

/// Bit `c` of byte `r` becomes bit `r` of byte `c`.
fn transpose(mut x: u64) -> u64 {
    for (shift, low) in [(7, 0x00AA_00AA_00AA_00AA), (14, 0x0000_CCCC_0000_CCCC), (28, 0x0000_0000_F0F0_F0F0)]
    {
        let t = (x ^ (x >> shift)) & low;
        x ^= t ^ (t << shift);
    }
    x
}

/// `n` items, a multiple of 8, from rows of `n / 8` bytes: row `r` of plane `j`.
fn scatter<'a>(
    kernels: &dyn Kernels,
    typesize: usize,
    n: usize,
    row: impl Fn(usize, usize) -> &'a [u8],
    items: &mut [u8],
    streaming: bool,
) {
    if n == 0 {
        return;
    }
    let mut scratch = [0; SCRATCH];
    let step = (PIECE / typesize) & !(LEAST - 1);
    if streaming && step > 0 && n >= step {
        return fill_past_caches(kernels, items, step * typesize, |at, piece| {
            let (first, n) = (at / 8 / typesize, piece.len() / 8 / typesize);
            scatter_cached(kernels, typesize, |j, r| &row(j, r)[first..first + n], piece, &mut scratch);
        });
    }
    scatter_cached(kernels, typesize, row, items, &mut scratch);
}

fn scatter_cached<'a>(
    kernels: &dyn Kernels,
    typesize: usize,
    row: impl Fn(usize, usize) -> &'a [u8],
    items: &mut [u8],
    scratch: &mut [u8; SCRATCH],
) {
    let n = items.len() / typesize;
    if typesize == 1 {
        let rows: [&[u8]; 8] = std::array::from_fn(|r| row(0, r));
        return kernels.scatter_bits(&rows, Tile::dense(n / 8, 8, n / 8), items);
    }
    let step = step(typesize);
    for (i, m) in tiles(n, step, LEAST) {
        for (j, cols) in columns(typesize) {
            for (k, plane) in scratch.chunks_exact_mut(step + GAP).enumerate().take(cols) {
                let rows: [&[u8]; 8] = std::array::from_fn(|r| &row(j + k, r)[i / 8..][..m / 8]);
                kernels.scatter_bits(&rows, Tile::dense(m / 8, 8, m / 8), &mut plane[..m]);
            }
            let tile = Tile { n: m, cols, pitch: typesize, stride: step + GAP };
            let mut planes: [&[u8]; 16] = [&[]; 16];
            for (plane, bytes) in planes.iter_mut().zip(scratch.chunks_exact(step + GAP)).take(cols) {
                *plane = bytes;
            }
            kernels.scatter(&planes[..cols], tile, &mut items[i * typesize + j..]);
        }
    }
}

/// Items per tile: planes of 16 KiB in all.
fn step(typesize: usize) -> usize {
    (16384 / typesize.min(16)) & !(LEAST - 1)
}

/// Fewer items than this make the widest kernels fall back to narrower ones (64 groups of 8).
const LEAST: usize = 512;
/// Keeps the planes of a tile from lying a power of two apart.
const GAP: usize = 64;
/// Up to 16 planes with their gaps.
const SCRATCH: usize = 16384 + 16 * GAP;
