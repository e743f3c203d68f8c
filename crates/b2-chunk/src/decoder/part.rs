//! Parts of blocks: each stream is decoded as far as it takes, and the filter undone for what is asked.

use std::ops::Range;

use b2_filters::{FilterContext, FilterId};

use super::{Block, BlockDecoder, worth};
use crate::ChunkError;
use crate::chain::Active;
use crate::fill::fill;
use crate::layout::{Body, vl_block_nbytes};
use crate::memory::sized;
use crate::scratch::MAX_PLANES;
use crate::streams::Stream;

impl<'a> BlockDecoder<'a> {
    /// Decodes the bytes `part` of block `nblock`, counted from its first one, and no more of its streams than
    /// that takes. So damage in other parts of the block may go unnoticed.
    ///
    /// `block0` is as for [`decode`](Self::decode).
    ///
    /// # Errors
    /// As [`decode`](Self::decode), and when `part` is not inside the block or `dst` of another length.
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

    /// How many bytes of the decoded block 0 do for the bytes up to `end` of another block.
    pub(crate) fn needed_of_block0(&self, end: usize) -> usize {
        match self.undone_in_part(self.layout.blocksize) {
            Some(_) => words(end).min(self.layout.blocksize),
            None => self.layout.blocksize,
        }
    }

    /// The filter next to the codec, and delta behind it, if parts of blocks of `len` bytes can be had from a pipeline of
    /// these.
    fn undone_in_part(&self, len: usize) -> Option<(Option<Active<'a>>, Option<Active<'a>>)> {
        let is_delta = |filter: &Active<'_>| filter.0.id() == FilterId::DELTA;
        // The others undo the whole block, in memory of their own that is not counted.
        let in_parts = |(filter, meta): Active<'_>| {
            matches!(filter.id(), FilterId::SHUFFLE | FilterId::BITSHUFFLE)
                || filter.planes(&self.context(None, false), meta, len).is_some()
        };
        // Delta is undone word by word, once the words in front are.
        let (delta, front) = match self.filters.as_slice().split_last() {
            Some((last, front)) if is_delta(last) => (Some(*last), front),
            _ => (None, self.filters.as_slice()),
        };
        match *front {
            [] => Some((None, delta)),
            [filter] if !is_delta(&filter) && in_parts(filter) => Some((Some(filter), delta)),
            _ => None,
        }
    }

    /// A part of a block that can only be had whole.
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

    /// A part of a block of a chunk with blocks of equal length.
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
        let Some((delta, meta)) = delta else { return self.part_before_delta(&block, filter, part, dst) };
        let reference = self.reference(nblock, block0)?;
        // Whole words; in the first block from its start on, since each word refers to the one before.
        let from = if reference.is_some() { part.start & !7 } else { 0 };
        let to = words(part.end).min(len);
        let reference = match reference.map(|block0| block0.get(from..to)) {
            None => None,
            Some(Some(words)) => Some(words),
            Some(None) => {
                return Err(ChunkError::argument("block0", "shorter than the part that is asked for"));
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
        filter: Option<Active<'_>>,
        part: Range<usize>,
        dst: &mut [u8],
    ) -> Result<(), ChunkError> {
        let Some((filter, meta)) = filter else { return self.part_of_plain_streams(block, part, dst) };
        let cx = self.context(None, false);
        let failed = |source| ChunkError::Filter { nblock: block.nblock, source };
        let len = block.stream_len * block.nstreams;
        let planes = filter.planes(&cx, meta, len);
        if (2..=MAX_PLANES).contains(&block.nstreams) && planes == Some(block.nstreams) {
            return self.part_of_planes(block, (filter, meta), &cx, part, dst);
        }
        let need = match planes {
            // All planes but the last are needed in full when there is one stream.
            Some(count @ 1..) if block.nstreams == 1 => {
                let plane_len = len / count;
                (count - 1) * plane_len + filter.plane_prefix(&cx, meta, len, part.clone()).min(plane_len)
            }
            _ => len,
        };
        self.with_filtered(block, need, |src| filter.backward_part(&cx, meta, src, part, dst).map_err(failed))
    }

    /// A part of a block of which each stream is a plane of the filter.
    fn part_of_planes(
        &mut self,
        block: &Block<'_>,
        (filter, meta): Active<'_>,
        cx: &FilterContext<'_>,
        part: Range<usize>,
        dst: &mut [u8],
    ) -> Result<(), ChunkError> {
        let (count, plane_len) = (block.nstreams, block.stream_len);
        let end = filter.plane_prefix(cx, meta, count * plane_len, part.clone()).min(plane_len);
        // Bytes of a shuffled plane do not depend on their place, so that a window will do.
        let start = if filter.id() == FilterId::SHUFFLE { (part.start / count).min(end) } else { 0 };
        let window = if filter.id() == FilterId::SHUFFLE { start..end } else { 0..plane_len };
        let part = part.start - start * count..part.end - start * count;
        let mut streams = block.streams.clone();
        let mut planes = std::mem::take(&mut self.scratch.planes);
        let result = (|| {
            let mut slices: [Option<&[u8]>; MAX_PLANES] = [None; MAX_PLANES];
            planes.prepare(count, plane_len)?;
            for (j, slice) in slices.iter_mut().enumerate().take(count) {
                match self.next(block, &mut streams)? {
                    Stream::Run(value) if planes.holds(j, value) => {}
                    Stream::Run(value) if window.len() < plane_len => {
                        planes.plane_mut(j)[window.clone()].fill(value);
                    }
                    Stream::Run(value) => planes.fill(j, value),
                    Stream::Stored(bytes) => *slice = Some(&bytes[window.clone()]),
                    Stream::Encoded(bytes) => {
                        let reach = worth(end, plane_len);
                        self.decode_codec(
                            block,
                            j,
                            bytes,
                            &mut planes.plane_mut(j)[..reach],
                            Some(plane_len),
                        )?;
                    }
                }
            }
            let slices: [&[u8]; MAX_PLANES] = std::array::from_fn(|j| match slices[j] {
                Some(bytes) => bytes,
                None if j < count => &planes.plane(j)[window.clone()],
                None => &[],
            });
            filter
                .backward_planes(cx, meta, &slices[..count], part, dst)
                .map_err(|source| ChunkError::Filter { nblock: block.nblock, source })
        })();
        self.scratch.planes = planes;
        result
    }

    /// A part of a block without filters.
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
                    self.decode_codec(block, nstream, bytes, out, Some(block.stream_len))?;
                }
                Stream::Encoded(bytes) => {
                    let mut buffer = std::mem::take(&mut self.scratch.a);
                    // Codecs that cannot stop early would take as much again.
                    let start = sized(&mut buffer, worth(wanted.end, block.stream_len))?;
                    let result = self.decode_codec(block, nstream, bytes, start, Some(block.stream_len));
                    out.copy_from_slice(&start[wanted]);
                    self.scratch.a = buffer;
                    result?;
                }
            }
        }
        Ok(())
    }
}

/// Up to the end of a word of delta, which is at most 8 bytes.
fn words(end: usize) -> usize {
    end.checked_next_multiple_of(8).unwrap_or(end)
}
