//! Decodes parts of blocks: each stream only as far as necessary, and the filter only for the bytes requested.

use std::ops::Range;

use b2_filters::Reference;

use super::{Block, BlockDecoder, worth};
use crate::ChunkError;
use crate::block::chain::Active;
use crate::block::fill::fill;
use crate::decode::streams::Stream;
use crate::model::layout::{Body, vl_block_nbytes};
use b2_core::memory::sized;

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
    fn undone_in_part(&self, len: usize) -> Option<(Option<Active<'a>>, Option<Active<'a>>)> {
        let refers = |filter: &Active<'_>, to| filter.reference == to;
        // Other filters undo the whole block, in a separate buffer that the limits do not count.
        let in_parts = |filter: &Active<'_>| filter.in_parts || filter.planes_of(len).is_some();
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
        let Some(Active { filter: delta, meta, .. }) = delta else {
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
        filter: Option<Active<'_>>,
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
