//! Several parts of one block: its streams are decoded once, and the filter is undone for each part.

use std::ops::Range;

use b2_filters::{FilterContext, FilterError, FilteredBlock, Planes};

use super::{BlockDecoder, Decoded};
use crate::ChunkError;
use crate::block::chain::Active;
use crate::block::scratch::MAX_PLANES;
use crate::model::layout::Body;

/// A block whose streams are decoded, for reading several parts of it. [`BlockDecoder::parts`] makes it.
pub struct BlockParts<'d> {
    nblock: usize,
    len: usize,
    source: PartSource<'d>,
}

#[allow(clippy::large_enum_variant, reason = "one per block, on the stack; a box would be an allocation")]
enum PartSource<'d> {
    /// The uncompressed bytes.
    Plain(&'d [u8]),
    /// The planes from which the filter restores the block.
    Planes { filter: Undo<'d>, planes: [&'d [u8]; MAX_PLANES], count: usize },
    /// The filtered block, which consists of `count` planes.
    FilteredBlock { filter: Undo<'d>, block: &'d [u8], count: usize },
}

struct Undo<'d> {
    filter: Active<'d>,
    cx: FilterContext<'d>,
}

impl Undo<'_> {
    fn part(
        &self,
        src: FilteredBlock<'_>,
        part: Range<usize>,
        dst: &mut [u8],
        streaming: bool,
    ) -> Result<(), FilterError> {
        let Active { filter, meta, .. } = self.filter;
        filter.backward_part(&self.cx.streaming(streaming), meta, src, part, dst)
    }
}

impl<'a> BlockDecoder<'a> {
    /// Returns whether [`parts`](Self::parts) of most blocks can [`gather`](BlockParts::gather) single items of this
    /// size.
    #[doc(hidden)]
    pub fn gathers(&self, itemsize: usize) -> bool {
        let &[filter] = self.filters.as_slice() else { return false };
        let planes = filter.planes_of(itemsize).map_or(0, |planes| planes.count);
        matches!(self.layout.body, Body::Blocks { .. })
            && filter.has_byte_planes()
            && planes == itemsize
            && planes <= MAX_PLANES
    }

    /// Decodes the streams of block `nblock` as far as the uncompressed bytes `hull` require, so that any part of
    /// `hull` can be read from the result.
    ///
    /// Returns `None` where this has no advantage over [`decode_part`](Self::decode_part): several filters, a
    /// postfilter, a block that repeats one item, blocks of variable lengths.
    ///
    /// # Errors
    /// Fails like [`decode_part`](Self::decode_part).
    #[doc(hidden)]
    pub fn parts<'d>(
        &'d mut self,
        nblock: usize,
        stored: &'d [u8],
        hull: Range<usize>,
    ) -> Result<Option<BlockParts<'d>>, ChunkError> {
        let len = self.layout.block_range(nblock).len();
        if hull.start > hull.end || hull.end > len {
            return Err(ChunkError::OutOfRange { what: "bytes", start: hull.start, end: hull.end, len });
        }
        match &self.layout.body {
            _ if self.dparams.has_postfilter() || hull.is_empty() => return Ok(None),
            Body::Stored if stored.len() == len => {
                return Ok(Some(BlockParts { nblock, len, source: PartSource::Plain(stored) }));
            }
            Body::Blocks { .. } if !self.layout.needs_block0() => {}
            _ => return Ok(None),
        }
        let filters = self.filters;
        let &[filter] = filters.as_slice() else { return Ok(None) };
        let Some(Planes { count, .. }) = filter.planes_of(len) else { return Ok(None) };
        let block = self.block(nblock, stored, len)?;
        let planes = block.nstreams == count && count <= MAX_PLANES;
        if !(planes || block.nstreams == 1) || self.repeated(&block).is_some() {
            return Ok(None);
        }
        let mut stored_planes = [None; MAX_PLANES];
        let decoded = self.decode_streams(&block, &filter, &(0..hull.end), &mut stored_planes)?;
        let filter = Undo { filter, cx: self.context(None, false) };
        let source = match decoded {
            Decoded::Planes { start } => {
                PartSource::Planes { filter, planes: self.planes(&stored_planes, count, start), count }
            }
            Decoded::Block(stored) => {
                let block = stored.unwrap_or_else(|| &self.scratch.a[..len]);
                PartSource::FilteredBlock { filter, block, count }
            }
        };
        Ok(Some(BlockParts { nblock, len, source }))
    }
}

impl std::fmt::Debug for BlockParts<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlockParts").field("nblock", &self.nblock).finish_non_exhaustive()
    }
}

impl BlockParts<'_> {
    /// Returns the uncompressed bytes, if no filter has to be undone.
    pub fn plain(&self) -> Option<&[u8]> {
        match self.source {
            PartSource::Plain(plain) => Some(plain),
            _ => None,
        }
    }

    /// Copies the uncompressed bytes `part` of the block to `dst`, which must have the same length. `part` must be
    /// inside the hull. If `streaming`, the bytes are written past the caches.
    ///
    /// # Errors
    /// Fails if the part is not inside the block, or `dst` has another length.
    pub fn copy(&self, part: Range<usize>, dst: &mut [u8], streaming: bool) -> Result<(), ChunkError> {
        if part.start > part.end || part.end > self.len || dst.len() != part.len() {
            let (start, end) = (part.start, part.end);
            return Err(ChunkError::OutOfRange { what: "bytes", start, end, len: self.len });
        }
        let failed = |source| ChunkError::Filter { nblock: self.nblock, source };
        match &self.source {
            PartSource::Plain(plain) => {
                dst.copy_from_slice(&plain[part]);
                Ok(())
            }
            PartSource::Planes { filter, planes, count } => {
                filter.part(FilteredBlock::Planes(&planes[..*count]), part, dst, streaming).map_err(failed)
            }
            PartSource::FilteredBlock { filter, block, .. } => {
                filter.part(FilteredBlock::Block(block), part, dst, streaming).map_err(failed)
            }
        }
    }

    /// Gathers items at equal distances into `dst`: the first at byte `first`, the others each `step` bytes further.
    ///
    /// Returns false, without a result, unless items can be assembled one at a time from the byte planes of a shuffle.
    /// The items must be inside the hull.
    pub fn gather(&self, first: usize, step: usize, itemsize: usize, dst: &mut [u8]) -> bool {
        let planes: [&[u8]; MAX_PLANES];
        let (planes, count) = match &self.source {
            PartSource::Planes { filter, planes, count } if filter.filter.has_byte_planes() => {
                (planes, *count)
            }
            PartSource::FilteredBlock { filter, block, count } if filter.filter.has_byte_planes() => {
                let plane_len = self.len / count;
                if *count > MAX_PLANES {
                    return false;
                }
                planes =
                    std::array::from_fn(|j| block.get(j * plane_len..(j + 1) * plane_len).unwrap_or(&[]));
                (&planes, *count)
            }
            _ => return false,
        };
        let items = dst.len() / itemsize.max(1);
        let whole = itemsize == count && dst.len() == items * count && self.len.is_multiple_of(count);
        let last = first.checked_add(items.saturating_sub(1).saturating_mul(step));
        let inside = last.and_then(|last| last.checked_add(count)).is_some_and(|end| end <= self.len);
        if !whole || !inside || step == 0 || !first.is_multiple_of(count) || !step.is_multiple_of(count) {
            return false;
        }
        let (first, step) = (first / count, step / count);
        match count {
            2 => gather::<2>(planes, first, step, dst),
            4 => gather::<4>(planes, first, step, dst),
            8 => gather::<8>(planes, first, step, dst),
            16 => gather::<16>(planes, first, step, dst),
            _ => {
                for (j, plane) in planes[..count].iter().enumerate() {
                    let bytes = plane[first..].iter().step_by(step);
                    dst[j..].iter_mut().step_by(count).zip(bytes).for_each(|(to, from)| *to = *from);
                }
            }
        }
        true
    }
}

fn gather<const N: usize>(planes: &[&[u8]; MAX_PLANES], first: usize, step: usize, dst: &mut [u8]) {
    let items = dst.as_chunks_mut::<N>().0;
    // With windows of equal length, the compiler checks bounds once for all planes.
    let span = items.len().saturating_sub(1) * step + 1;
    let windows: [&[u8]; N] = std::array::from_fn(|j| &planes[j][first..first + span]);
    for (k, item) in items.iter_mut().enumerate() {
        *item = std::array::from_fn(|j| windows[j][k * step]);
    }
}
