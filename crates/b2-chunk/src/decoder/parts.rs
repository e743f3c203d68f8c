//! Any number of parts of one block: its streams are decoded once, the filter is undone for each part.

use std::ops::Range;

use b2_filters::{Filter, FilterContext, FilterId};

use super::{BlockDecoder, worth};
use crate::ChunkError;
use crate::layout::Body;
use crate::memory::sized;
use crate::scratch::MAX_PLANES;
use crate::streams::Stream;

/// A block of which any parts can be had. Made by [`BlockDecoder::parts`].
pub struct BlockParts<'d> {
    nblock: usize,
    len: usize,
    source: Source<'d>,
}

#[allow(clippy::large_enum_variant, reason = "one on the stack for each block; a box would be an allocation")]
enum Source<'d> {
    /// The plain bytes themselves.
    Plain(&'d [u8]),
    /// The planes that the filter makes one block of.
    Planes { filter: Undo<'d>, planes: [&'d [u8]; MAX_PLANES], count: usize },
    /// The filtered block, of which the filter undoes parts; it has that many planes.
    Filtered { filter: Undo<'d>, block: &'d [u8], count: usize },
}

struct Undo<'d> {
    filter: &'d dyn Filter,
    meta: u8,
    cx: FilterContext<'d>,
}

impl<'a> BlockDecoder<'a> {
    /// Decodes the streams of block `nblock` as far as its plain bytes `hull` take, so that parts inside them can be
    /// had. `None` where that is no better than [`decode_part`](Self::decode_part): several filters, a postfilter, a block that repeats one item,
    /// blocks of variable lengths.
    ///
    /// # Errors
    /// As [`decode_part`](Self::decode_part).
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
                return Ok(Some(BlockParts { nblock, len, source: Source::Plain(stored) }));
            }
            Body::Blocks { .. } if !self.layout.needs_block0() => {}
            _ => return Ok(None),
        }
        let filters = self.filters;
        let &[(filter, meta)] = filters.as_slice() else { return Ok(None) };
        let cx = self.context(None, false);
        let Some(count) = filter.planes(&cx, meta, len).filter(|&count| count > 0) else { return Ok(None) };
        let block = self.block(nblock, stored, len)?;
        if self.repeated(&block).is_some() {
            return Ok(None);
        }
        let plane_len = len / count;
        let prefix = filter.plane_prefix(&cx, meta, len, hull).min(plane_len);
        let undo = Undo { filter, meta, cx };
        let mut streams = block.streams.clone();
        if block.nstreams == 1 {
            let stream = self.next(&block, &mut streams)?;
            if let Stream::Stored(block) = stream {
                return Ok(Some(BlockParts {
                    nblock,
                    len,
                    source: Source::Filtered { filter: undo, block, count },
                }));
            }
            let mut buffer = std::mem::take(&mut self.scratch.a);
            let out = sized(&mut buffer, len)?;
            // All planes but the last are needed in full.
            let need = worth((count - 1) * plane_len + prefix, len);
            let result = match stream {
                Stream::Encoded(bytes) if need < len => {
                    self.decode_codec(&block, 0, bytes, &mut out[..need], Some(len))
                }
                _ => self.materialise(&block, 0, stream, out),
            };
            self.scratch.a = buffer;
            result?;
            let block = &self.scratch.a[..len];
            return Ok(Some(BlockParts {
                nblock,
                len,
                source: Source::Filtered { filter: undo, block, count },
            }));
        }
        if block.nstreams != count || count > MAX_PLANES {
            return Ok(None);
        }
        let mut stored_planes: [Option<&'d [u8]>; MAX_PLANES] = [None; MAX_PLANES];
        let mut planes = std::mem::take(&mut self.scratch.planes);
        planes.prepare(count, plane_len)?;
        let result: Result<(), ChunkError> =
            stored_planes.iter_mut().enumerate().take(count).try_for_each(|(j, stored)| {
                match self.next(&block, &mut streams)? {
                    Stream::Run(value) => planes.fill(j, value),
                    Stream::Stored(bytes) => *stored = Some(bytes),
                    Stream::Encoded(bytes) => {
                        self.decode_codec(
                            &block,
                            j,
                            bytes,
                            &mut planes.plane_mut(j)[..worth(prefix, plane_len)],
                            Some(plane_len),
                        )?;
                    }
                }
                Ok(())
            });
        self.scratch.planes = planes;
        result?;
        let decoded = &self.scratch.planes;
        let planes = std::array::from_fn(|j| match stored_planes[j] {
            Some(bytes) => bytes,
            None if j < count => decoded.plane(j),
            None => &[],
        });
        Ok(Some(BlockParts { nblock, len, source: Source::Planes { filter: undo, planes, count } }))
    }
}

impl BlockParts<'_> {
    /// The plain bytes, if they are at hand without any work.
    pub fn plain(&self) -> Option<&[u8]> {
        match self.source {
            Source::Plain(plain) => Some(plain),
            _ => None,
        }
    }

    /// Writes the plain bytes `part` of the block, which must be inside the hull, to `dst`, which has their length;
    /// past the caches if `streaming`.
    ///
    /// # Errors
    /// When the part is not inside the block, or `dst` has another length.
    pub fn copy(&self, part: Range<usize>, dst: &mut [u8], streaming: bool) -> Result<(), ChunkError> {
        if part.start > part.end || part.end > self.len || dst.len() != part.len() {
            let (start, end) = (part.start, part.end);
            return Err(ChunkError::OutOfRange { what: "bytes", start, end, len: self.len });
        }
        let failed = |source| ChunkError::Filter { nblock: self.nblock, source };
        match &self.source {
            Source::Plain(plain) => {
                dst.copy_from_slice(&plain[part]);
                Ok(())
            }
            Source::Planes { filter: Undo { filter, meta, cx }, planes, count } => filter
                .backward_planes(&cx.with_streaming(streaming), *meta, &planes[..*count], part, dst)
                .map_err(failed),
            Source::Filtered { filter: Undo { filter, meta, cx }, block, .. } => {
                filter.backward_part(&cx.with_streaming(streaming), *meta, block, part, dst).map_err(failed)
            }
        }
    }

    /// Items at equal distances, one after the other to `dst`: the first starts at byte `first`, the others each
    /// `step` bytes further on. Only where items can be put together one by one, by the bytes of a shuffle; tells
    /// whether they were. They must be inside the hull.
    pub fn gather(&self, first: usize, step: usize, itemsize: usize, dst: &mut [u8]) -> bool {
        let planes: [&[u8]; MAX_PLANES];
        let (planes, count) = match &self.source {
            Source::Planes { filter, planes, count } if filter.filter.id() == FilterId::SHUFFLE => {
                (planes, *count)
            }
            Source::Filtered { filter, block, count } if filter.filter.id() == FilterId::SHUFFLE => {
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
    // All of the same length, so that one check of bounds does for all.
    let span = items.len().saturating_sub(1) * step + 1;
    let windows: [&[u8]; N] = std::array::from_fn(|j| &planes[j][first..first + span]);
    for (k, item) in items.iter_mut().enumerate() {
        *item = std::array::from_fn(|j| windows[j][k * step]);
    }
}
