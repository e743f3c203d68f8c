//! Bit shuffle (id 2): bit 0 of byte 0 of all items, then bit 1, and so on, least significant bit first.
//!
//! Only whole groups of 8 items are shuffled; later bytes are copied. The bytes of the items are first gathered into
//! planes, in tiles that fit the first-level cache, and then the bits of each plane into its 8 rows. Writing long runs
//! to a few rows at a time avoids cache conflicts: rows of large blocks are a power of two apart and compete for the
//! same cache sets.

// The slow reference documents the format and checks the kernels. Only tests call it.
#[cfg(test)]
pub(crate) mod scalar;

use std::cell::RefCell;
use std::ops::Range;

use b2_core::Pooled;
use b2_core::memory::zeroed_array;

use crate::error::Result;
use crate::filter::{SplitPart, check_part, check_planes, same_length};
use crate::kernels::{self, Kernels, MAX_PIECE_LEN, Tile, fill_past_caches, tiles};
use crate::shuffle::columns;
use crate::{Effect, Filter, FilterContext, FilterError, FilterId, FilterProperties, FilteredBlock, Planes};

/// The bit shuffle filter (id 2). The parameter byte is unused.
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
    fn properties(&self, cx: &FilterContext<'_>, _meta: u8) -> FilterProperties {
        FilterProperties {
            lossless: true,
            shapeless: true,
            effect: Effect::Reorders,
            in_parts: true,
            // Items after the last group of 8 would not be in the planes.
            planes: Some(Planes::new(cx.itemsize, 8)),
            ..FilterProperties::UNKNOWN
        }
    }
    fn forward(&self, cx: &FilterContext<'_>, _meta: u8, src: &[u8], dst: &mut [u8]) -> Result<()> {
        crate::filter::may_apply(self.id())?;
        check(cx.itemsize, src, dst)?;
        if is_plain(cx, src.len()) {
            dst.copy_from_slice(src);
            return Ok(());
        }
        bitshuffle(cx.itemsize, src, dst)
    }
    fn backward(&self, cx: &FilterContext<'_>, _meta: u8, src: &[u8], dst: &mut [u8]) -> Result<()> {
        check(cx.itemsize, src, dst)?;
        if is_plain(cx, src.len()) {
            dst.copy_from_slice(src);
            return Ok(());
        }
        bitunshuffle_with(kernels::best(), cx.itemsize, src, dst, cx.streaming);
        Ok(())
    }
    fn backward_part(
        &self,
        cx: &FilterContext<'_>,
        _meta: u8,
        src: FilteredBlock<'_>,
        range: Range<usize>,
        dst: &mut [u8],
    ) -> Result<()> {
        let typesize = cx.itemsize;
        let src = match src {
            FilteredBlock::Planes(planes) => {
                check_planes(FilterId::BITSHUFFLE, typesize, planes, &range, dst)?;
                if !planes[0].len().is_multiple_of(8) {
                    let what = "planes hold whole groups of 8 items";
                    return Err(FilterError::Part { filter: FilterId::BITSHUFFLE, what });
                }
                bitunshuffle_part(kernels::best(), typesize, |j| planes[j], range, dst, cx.streaming);
                return Ok(());
            }
            FilteredBlock::Block(src) => src,
        };
        check(typesize, &[], &[])?;
        check_part(FilterId::BITSHUFFLE, src.len(), &range, dst)?;
        if is_plain(cx, src.len()) {
            dst.copy_from_slice(&src[range]);
            return Ok(());
        }
        let q = (src.len() / typesize) & !7;
        let part = SplitPart::split(q * typesize, src, range, dst);
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

/// Returns whether the block is left unshuffled, by the rule of chunk version 2.
fn is_plain(cx: &FilterContext<'_>, nbytes: usize) -> bool {
    cx.chunk_version <= 2 && !(nbytes / cx.itemsize).is_multiple_of(8)
}

/// Bit-shuffles items of `typesize` bytes in groups of 8. Bytes after the last whole group are copied.
///
/// # Errors
/// [`FilterError::Length`] if the slices differ in length, [`FilterError::ItemSize`] if `itemsize` is 0.
///
/// ```
/// let mut rows = [0; 8];
/// b2_filters::bitshuffle(1, &[1, 1, 1, 1, 0x80, 0, 0, 0], &mut rows)?;
/// assert_eq!(rows, [0b1111, 0, 0, 0, 0, 0, 0, 0b1_0000]);
/// # Ok::<(), b2_filters::FilterError>(())
/// ```
pub fn bitshuffle(itemsize: usize, src: &[u8], dst: &mut [u8]) -> Result<()> {
    check(itemsize, src, dst)?;
    bitshuffle_with(kernels::best(), itemsize, src, dst);
    Ok(())
}

/// Reverses [`bitshuffle`].
///
/// # Errors
/// [`FilterError::Length`] if the slices differ in length, [`FilterError::ItemSize`] if `itemsize` is 0.
pub fn bitunshuffle(itemsize: usize, src: &[u8], dst: &mut [u8]) -> Result<()> {
    check(itemsize, src, dst)?;
    bitunshuffle_with(kernels::best(), itemsize, src, dst, false);
    Ok(())
}

fn check(itemsize: usize, src: &[u8], dst: &[u8]) -> Result<()> {
    if itemsize == 0 {
        return Err(FilterError::ItemSize { filter: FilterId::BITSHUFFLE, itemsize });
    }
    same_length(FilterId::BITSHUFFLE, src, dst)
}

pub(crate) fn bitshuffle_with(kernels: &dyn Kernels, typesize: usize, src: &[u8], dst: &mut [u8]) {
    let q = (src.len() / typesize) & !7;
    let (items, tail) = src.split_at(q * typesize);
    let (rows, rest) = dst.split_at_mut(q * typesize);
    rest.copy_from_slice(tail);
    if typesize == 1 {
        for (i, n) in tiles(q / 8, 1024, MIN_VECTOR_ITEMS / 8) {
            let next = &items[8 * (i + n)..];
            kernels.prefetch(&next[..next.len().min(8 * n)]);
            kernels.gather_bits(&items[8 * i..], Tile::dense(n, 8, q / 8), &mut rows[i..]);
        }
        return;
    }
    with_scratch(|scratch| gather(kernels, typesize, items, rows, scratch));
}

/// Writes the rows of whole groups of items above one byte.
fn gather(
    kernels: &dyn Kernels,
    typesize: usize,
    items: &[u8],
    rows: &mut [u8],
    scratch: &mut [u8; SCRATCH_LEN],
) {
    let q = items.len() / typesize;
    let step = step(typesize);
    for (i, n) in tiles(q, step, MIN_VECTOR_ITEMS) {
        // Transposing the bits of this tile leaves memory idle, so prefetch part of the next tile for each plane.
        let mut next = items[(i + n) * typesize..].chunks(n);
        for (j, cols) in columns(typesize) {
            let tile = Tile { n, cols, pitch: typesize, stride: step + PLANE_PADDING };
            kernels.gather(&items[i * typesize + j..], tile, scratch);
            for (k, plane) in scratch.chunks_exact(step + PLANE_PADDING).enumerate().take(cols) {
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

/// Restores the bytes `range` of all items from planes of 8 rows each. Only the bits of their groups of 8 items are
/// read.
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

/// Restores the bytes from `start` on, all in one group of 8 items.
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

/// Transposes an 8 x 8 bit matrix: bit `c` of byte `r` becomes bit `r` of byte `c`.
fn transpose(mut x: u64) -> u64 {
    for (shift, low) in [(7, 0x00AA_00AA_00AA_00AA), (14, 0x0000_CCCC_0000_CCCC), (28, 0x0000_0000_F0F0_F0F0)]
    {
        let t = (x ^ (x >> shift)) & low;
        x ^= t ^ (t << shift);
    }
    x
}

/// Restores `n` items, a multiple of 8, from rows of `n / 8` bytes. `row` returns row `r` of plane `j`.
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
    let step = (MAX_PIECE_LEN / typesize) & !(MIN_VECTOR_ITEMS - 1);
    if streaming && step > 0 && n >= step {
        return with_scratch(|scratch| {
            fill_past_caches(kernels, items, step * typesize, |at, piece| {
                let (first, n) = (at / 8 / typesize, piece.len() / 8 / typesize);
                scatter_cached(kernels, typesize, |j, r| &row(j, r)[first..first + n], piece, scratch);
            });
        });
    }
    with_scratch(|scratch| scatter_cached(kernels, typesize, row, items, scratch));
}

fn scatter_cached<'a>(
    kernels: &dyn Kernels,
    typesize: usize,
    row: impl Fn(usize, usize) -> &'a [u8],
    items: &mut [u8],
    scratch: &mut [u8; SCRATCH_LEN],
) {
    let n = items.len() / typesize;
    if typesize == 1 {
        let rows: [&[u8]; 8] = std::array::from_fn(|r| row(0, r));
        return kernels.scatter_bits(&rows, Tile::dense(n / 8, 8, n / 8), items);
    }
    let step = step(typesize);
    for (i, m) in tiles(n, step, MIN_VECTOR_ITEMS) {
        for (j, cols) in columns(typesize) {
            for (k, plane) in scratch.chunks_exact_mut(step + PLANE_PADDING).enumerate().take(cols) {
                let rows: [&[u8]; 8] = std::array::from_fn(|r| &row(j + k, r)[i / 8..][..m / 8]);
                kernels.scatter_bits(&rows, Tile::dense(m / 8, 8, m / 8), &mut plane[..m]);
            }
            let tile = Tile { n: m, cols, pitch: typesize, stride: step + PLANE_PADDING };
            let mut planes: [&[u8]; 16] = [&[]; 16];
            for (plane, bytes) in planes.iter_mut().zip(scratch.chunks_exact(step + PLANE_PADDING)).take(cols)
            {
                *plane = bytes;
            }
            kernels.scatter(&planes[..cols], tile, &mut items[i * typesize + j..]);
        }
    }
}

/// Items per tile, so that its planes take 16 KiB.
fn step(typesize: usize) -> usize {
    (16384 / typesize.min(16)) & !(MIN_VECTOR_ITEMS - 1)
}

/// With fewer items, the widest kernels fall back to narrower ones (64 groups of 8).
const MIN_VECTOR_ITEMS: usize = 512;
/// Padding that keeps the planes of a tile from being a power of two apart.
const PLANE_PADDING: usize = 64;
/// Space for up to 16 planes with their padding.
const SCRATCH_LEN: usize = 16384 + 16 * PLANE_PADDING;

thread_local! {
    /// Cached, because clearing it takes as long as all other work on a block of 1 KiB.
    static SCRATCHES: RefCell<Vec<Box<[u8; SCRATCH_LEN]>>> = const { RefCell::new(Vec::new()) };
}

/// Calls `work` with a buffer for the planes of a tile, whose content is unspecified.
fn with_scratch(work: impl FnOnce(&mut [u8; SCRATCH_LEN])) {
    match Pooled::take(&SCRATCHES, |_| true, zeroed_array) {
        Ok(mut cached) => work(&mut cached),
        Err(_) => work(&mut [0; SCRATCH_LEN]),
    }
}
