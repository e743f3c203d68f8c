//! Decodes parts of blocks. One part: each stream only as far as necessary, and the filter only for the bytes requested.
//! Several parts of one block: its streams are decoded once, and the filter is undone for each part.

use std::ops::Range;

use b2_core::memory::sized;
use b2_filters::{FilterContext, FilterError, FilteredBlock, Planes, Reference};

use crate::ChunkError;
use crate::block::chain::ActiveFilter;
use crate::block::fill::fill;
use crate::block::scratch::MAX_PLANES;
use crate::decode::decoder::{Block, BlockDecoder, DecodedStreams, worth};
use crate::decode::streams::Stream;
use crate::model::layout::{Body, vl_block_nbytes};

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
    Planes { filter: PartFilter<'d>, planes: [&'d [u8]; MAX_PLANES], count: usize },
    /// The filtered block, which consists of `count` planes.
    FilteredBlock { filter: PartFilter<'d>, block: &'d [u8], count: usize },
}

struct PartFilter<'d> {
    filter: ActiveFilter<'d>,
    cx: FilterContext<'d>,
}

impl PartFilter<'_> {
    fn part(
        &self,
        src: FilteredBlock<'_>,
        part: Range<usize>,
        dst: &mut [u8],
        streaming: bool,
    ) -> Result<(), FilterError> {
        let ActiveFilter { filter, meta, .. } = self.filter;
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
        let filter = PartFilter { filter, cx: self.context(None, false) };
        let source = match decoded {
            DecodedStreams::Planes { start } => {
                PartSource::Planes { filter, planes: self.planes(&stored_planes, count, start), count }
            }
            DecodedStreams::Block(stored) => {
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

impl<'a> BlockDecoder<'a> {
    /// Decodes the bytes `part` of block `nblock`, counted from the start of the block.
    ///
    /// Streams are decoded only as far as necessary, so damage in other parts of the block may go unnoticed.
    ///
    /// `block0` is the decoded block 0, as for [`decode`](Self::decode).
    ///
    /// # Errors
    /// As [`decode`](Self::decode); [`ChunkError::OutOfRange`] if `part` is not inside the block,
    /// [`ChunkError::Argument`] if `dst` has another length.
    pub fn decode_part(
        &mut self,
        nblock: usize,
        stored: &[u8],
        block0: Option<&[u8]>,
        part: Range<usize>,
        dst: &mut [u8],
    ) -> Result<(), ChunkError> {
        let len = match self.layout.body {
            Body::VlBlocks { .. } => vl_block_nbytes(stored, nblock, self.starts.start(nblock))?,
            _ => self.layout.block_range(nblock).len(),
        };
        if part.start > part.end || part.end > len {
            return Err(ChunkError::OutOfRange { what: "bytes", start: part.start, end: part.end, len });
        }
        if part.len() != dst.len() {
            return Err(ChunkError::argument("dst", format!("{} bytes, expected {}", dst.len(), part.len())));
        }
        if part.len() == len {
            return self.decode(nblock, stored, block0, dst);
        }
        match &self.layout.body {
            _ if part.is_empty() => Ok(()),
            Body::Fill { value } if !self.dparams.has_postfilter() => {
                fill(dst, value, self.layout.block_range(nblock).start + part.start);
                Ok(())
            }
            Body::Stored if stored.len() == len && !self.dparams.has_postfilter() => {
                dst.copy_from_slice(&stored[part]);
                Ok(())
            }
            Body::Blocks { .. } if !self.dparams.has_postfilter() => {
                self.part_of_streams(nblock, stored, block0, len, part, dst)
            }
            _ => self.part_of_whole(nblock, stored, block0, len, part, dst),
        }
    }

    /// Returns how many bytes of the decoded block 0 are needed to decode the bytes up to `end` of another block.
    pub(crate) fn needed_of_block0(&self, end: usize) -> usize {
        match self.undone_in_part(self.layout.blocksize) {
            Some(_) => words(end).min(self.layout.blocksize),
            None => self.layout.blocksize,
        }
    }

    /// Returns the filters to undo if the pipeline allows parts of blocks of `len` bytes to be decoded: the filter next
    /// to the codec, and a delta filter after it.
    fn undone_in_part(&self, len: usize) -> Option<(Option<ActiveFilter<'a>>, Option<ActiveFilter<'a>>)> {
        let refers = |filter: &ActiveFilter<'_>, to| filter.reference == to;
        // Other filters undo the whole block, in a separate buffer that the limits do not count.
        let in_parts = |filter: &ActiveFilter<'_>| filter.in_parts || filter.planes_of(len).is_some();
        // Delta works word by word, on the output of the filter before it.
        let (delta, front) = match self.filters.as_slice().split_last() {
            Some((last, front)) if refers(last, Reference::Words) => (Some(*last), front),
            _ => (None, self.filters.as_slice()),
        };
        match *front {
            [] => Some((None, delta)),
            [filter] if refers(&filter, Reference::None) && in_parts(&filter) => Some((Some(filter), delta)),
            _ => None,
        }
    }

    /// Decodes a whole block to get a part of it, for filters that require it.
    fn part_of_whole(
        &mut self,
        nblock: usize,
        stored: &[u8],
        block0: Option<&[u8]>,
        len: usize,
        part: Range<usize>,
        dst: &mut [u8],
    ) -> Result<(), ChunkError> {
        let need = self.layout.block_memory(len).saturating_add(len as u64);
        self.dparams.limits.check_memory("buffers for a block, in bytes", need)?;
        let mut block = std::mem::take(&mut self.scratch.block);
        let result = self.decode(nblock, stored, block0, sized(&mut block, len)?);
        if result.is_ok() {
            dst.copy_from_slice(&block[part]);
        }
        self.scratch.block = block;
        result
    }

    /// Decodes part of a block in a chunk with blocks of equal length.
    fn part_of_streams(
        &mut self,
        nblock: usize,
        stored: &[u8],
        block0: Option<&[u8]>,
        len: usize,
        part: Range<usize>,
        dst: &mut [u8],
    ) -> Result<(), ChunkError> {
        let block = self.block(nblock, stored, len)?;
        if let Some(repeated) = self.repeated(&block) {
            fill(dst, repeated.bytes(), part.start);
            return Ok(());
        }
        let Some((filter, delta)) = self.undone_in_part(len) else {
            return self.part_of_whole(nblock, stored, block0, len, part, dst);
        };
        let Some(ActiveFilter { filter: delta, meta, .. }) = delta else {
            return self.part_before_delta(&block, filter, part, dst);
        };
        let reference = self.reference(nblock, block0)?;
        // Delta works on whole words. In block 0 each word refers to the one before it, so decoding starts at the
        // first.
        let from = if reference.is_some() { part.start & !7 } else { 0 };
        let to = words(part.end).min(len);
        let reference = match reference.map(|block0| block0.get(from..to)) {
            None => None,
            Some(Some(words)) => Some(words),
            Some(None) => {
                return Err(ChunkError::argument("block0", "shorter than the requested part"));
            }
        };
        let need = self.layout.block_memory(len).saturating_add(2 * (to - from) as u64);
        self.dparams.limits.check_memory("buffers for a block, in bytes", need)?;
        let mut deltas = std::mem::take(&mut self.scratch.b);
        let mut plain = std::mem::take(&mut self.scratch.block);
        let result =
            self.part_before_delta(&block, filter, from..to, sized(&mut deltas, to - from)?).and_then(|()| {
                let plain = sized(&mut plain, to - from)?;
                delta
                    .backward(&self.context(reference, false), meta, &deltas[..to - from], plain)
                    .map_err(|source| ChunkError::Filter { nblock, source })?;
                dst.copy_from_slice(&plain[part.start - from..part.end - from]);
                Ok(())
            });
        (self.scratch.b, self.scratch.block) = (deltas, plain);
        result
    }

    fn part_before_delta(
        &mut self,
        block: &Block<'_>,
        filter: Option<ActiveFilter<'_>>,
        part: Range<usize>,
        dst: &mut [u8],
    ) -> Result<(), ChunkError> {
        match filter {
            Some(filter) => self.undo_first(block, &filter, &self.context(None, false), part, dst),
            None => self.part_of_plain_streams(block, part, dst),
        }
    }

    /// Decodes part of a block without filters.
    fn part_of_plain_streams(
        &mut self,
        block: &Block<'_>,
        part: Range<usize>,
        dst: &mut [u8],
    ) -> Result<(), ChunkError> {
        let mut streams = block.streams.clone();
        let mut rest = dst;
        for nstream in 0..block.nstreams {
            let first = nstream * block.stream_len;
            if first >= part.end {
                break;
            }
            let stream = self.next(block, &mut streams)?;
            let wanted = part.start.saturating_sub(first).min(block.stream_len)
                ..(part.end - first).min(block.stream_len);
            let out;
            (out, rest) = std::mem::take(&mut rest).split_at_mut(wanted.len());
            match stream {
                _ if wanted.is_empty() => {}
                Stream::Run(value) => out.fill(value),
                Stream::Stored(bytes) => out.copy_from_slice(&bytes[wanted]),
                Stream::Encoded(bytes) if wanted.start == 0 => {
                    self.decode_codec(block, nstream, bytes, bytes, out, Some(block.stream_len))?;
                }
                Stream::Encoded(bytes) => {
                    let mut buffer = std::mem::take(&mut self.scratch.a);
                    // `worth` avoids a second buffer of this size in codecs that cannot stop early.
                    let start = sized(&mut buffer, worth(wanted.end, block.stream_len))?;
                    let result =
                        self.decode_codec(block, nstream, bytes, bytes, start, Some(block.stream_len));
                    out.copy_from_slice(&start[wanted]);
                    self.scratch.a = buffer;
                    result?;
                }
            }
        }
        Ok(())
    }
}

/// Rounds up to a whole word of delta. Words have at most 8 bytes.
fn words(end: usize) -> usize {
    end.checked_next_multiple_of(8).unwrap_or(end)
}
