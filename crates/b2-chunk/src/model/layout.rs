//! The layout of a chunk, derived from its header.

use std::ops::Range;

use bytes::Bytes;

use b2_filters::{FilterId, Reference};

use crate::model::header::SpecialKind;
use crate::{ChunkError, ChunkHeader, Plugins};

/// Everything known about a chunk before its table of block starts is read.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) header: ChunkHeader,
    pub(crate) body: Body,
    /// Block size in bytes. The recovery rule may change it from the header's (docs/format/chunk.md, section 7.4).
    pub(crate) blocksize: usize,
    pub(crate) nblocks: usize,
    pub(crate) pipeline: Pipeline,
    /// Index of the chunk in its container, if known.
    pub(crate) nchunk: Option<usize>,
}

/// What undoing the filters of a chunk requires.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pipeline {
    nfilters: usize,
    /// Whether the pipeline is a single filter that can be undone in parts.
    in_parts: bool,
    /// Whether a filter uses block 0 as reference for the other blocks.
    refers: bool,
}

impl Pipeline {
    fn of(header: &ChunkHeader, plugins: &Plugins) -> Self {
        let mut pipeline = Self { nfilters: 0, in_parts: true, refers: false };
        for slot in header.filters().iter().filter(|slot| slot.id != FilterId::NONE) {
            let properties = plugins.filter_properties(*slot, header.itemsize());
            pipeline.in_parts = properties.in_parts && pipeline.nfilters == 0;
            pipeline.refers |= properties.reference != Reference::None;
            pipeline.nfilters = pipeline.nfilters.saturating_add(1);
        }
        pipeline
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Body {
    /// No stored blocks; the data repeats `value`.
    Fill { value: Bytes },
    /// The payload is the uncompressed data.
    Stored,
    /// Blocks of equal length, each with its streams.
    Blocks { dict: Option<Bytes> },
    /// Blocks of variable length.
    VlBlocks { dict: Option<Bytes> },
}

impl Layout {
    pub(crate) fn new(header: ChunkHeader, body: Body, plugins: &Plugins) -> Self {
        let (blocksize, nblocks) = (header.blocksize(), header.nblocks());
        Self { pipeline: Pipeline::of(&header, plugins), header, body, blocksize, nblocks, nchunk: None }
    }

    /// Returns the layout with a block size other than the header's.
    pub(crate) fn with_blocksize(self, blocksize: usize) -> Self {
        Self { nblocks: self.header.nbytes().div_ceil(blocksize), blocksize, ..self }
    }

    /// Returns the pattern of a chunk that stores nothing else, or `None` for other chunks. `value` is called for the
    /// bytes from 32 to the end of the chunk.
    pub(crate) fn special_value<T>(
        header: &ChunkHeader,
        value: impl FnOnce() -> Result<Bytes, T>,
    ) -> Option<Result<Bytes, T>> {
        let constant = |bytes: &'static [u8]| Some(Ok(Bytes::from_static(bytes)));
        match header.special() {
            Some(SpecialKind::Zeros | SpecialKind::Uninit) => constant(&[0]),
            Some(SpecialKind::NaN) if header.itemsize() == 4 => constant(&NAN4),
            Some(SpecialKind::NaN) => constant(&NAN8),
            Some(SpecialKind::Value) => Some(value()),
            None if header.nbytes() == 0 && !header.is_vl() => constant(&[0]),
            None => None,
        }
    }

    /// Returns the uncompressed byte range of a block, in chunks without variable-length blocks.
    pub(crate) fn block_range(&self, nblock: usize) -> Range<usize> {
        let nbytes = self.header.nbytes();
        nblock.saturating_mul(self.blocksize).min(nbytes)
            ..nblock.saturating_add(1).saturating_mul(self.blocksize).min(nbytes)
    }

    /// Returns the blocks that cover the uncompressed byte range `range`, in chunks without variable-length blocks.
    pub(crate) fn blocks_of(&self, range: &Range<usize>) -> Range<usize> {
        if range.is_empty() {
            return 0..0;
        }
        if self.nblocks == 1 {
            return 0..1;
        }
        // Only chunks with variable-length blocks have a block size of 0; `max` rules out a division by zero.
        let blocksize = self.blocksize.max(1);
        let first = range.start.checked_div(blocksize).unwrap_or(0);
        first..range.end.div_ceil(blocksize).min(self.nblocks)
    }

    /// Returns whether decoding the other blocks requires the decoded block 0, as delta does.
    pub(crate) fn needs_block0(&self) -> bool {
        matches!(self.body, Body::Blocks { .. }) && !self.header.is_instrumented() && self.pipeline.refers
    }

    /// Returns the most memory that decoding a block of `len` bytes takes in addition to the result, in bytes: the
    /// filtered block, the buffers between filters, and block 0 if other blocks refer to it.
    pub(crate) fn block_memory(&self, len: usize) -> u64 {
        let block0 = if self.needs_block0() { self.blocksize } else { 0 };
        (len as u64).saturating_mul(self.pipeline.nfilters.clamp(1, 2) as u64).saturating_add(block0 as u64)
    }

    /// Returns the most memory that decoding part of a block takes. Most filters have to undo the whole block for it.
    pub(crate) fn part_memory(&self, len: usize) -> u64 {
        // Delta needs the words before the part, filtered and decoded.
        let more = if self.needs_block0() { 2 } else { u64::from(!self.pipeline.in_parts) };
        self.block_memory(len).saturating_add(more.saturating_mul(len as u64))
    }

    pub(crate) fn dict(&self) -> Option<&[u8]> {
        match &self.body {
            Body::Blocks { dict, .. } | Body::VlBlocks { dict, .. } => dict.as_deref(),
            Body::Fill { .. } | Body::Stored => None,
        }
    }
}

/// The NaN that C-Blosc2 writes for items of 4 bytes.
pub const NAN4: [u8; 4] = 0x7FC0_0000_u32.to_le_bytes();
/// The NaN that C-Blosc2 writes for items of 8 bytes.
pub const NAN8: [u8; 8] = 0x7FF8_0000_0000_0000_u64.to_le_bytes();

/// Reads the uncompressed length of a variable-length block from its stored bytes, which start at byte `offset` of
/// the chunk.
pub(crate) fn vl_block_nbytes(stored: &[u8], nblock: usize, offset: u64) -> Result<usize, ChunkError> {
    let size = stored.first_chunk::<4>().map_or(0, |b| i32::from_le_bytes(*b));
    if size <= 0 {
        let (field, expected) = ("block length", "1 or more");
        return Err(ChunkError::Block { nblock, field, offset, value: size.into(), expected });
    }
    Ok(size.unsigned_abs() as usize)
}
