//! How a chunk is laid out: what its header says, settled.

#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::string_slice,
        clippy::unreachable,
        clippy::unwrap_used,
        reason = "reads bytes from outside"
    )
)]

use std::ops::Range;

use bytes::Bytes;

use b2_filters::FilterId;

use crate::header::SpecialKind;
use crate::{ChunkError, ChunkHeader};

/// What is known of a chunk without its table of block starts.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) header: ChunkHeader,
    pub(crate) body: Body,
    /// May differ from the header's, see the recovery rule (docs/format/chunk.md, section 7.4).
    pub(crate) blocksize: usize,
    pub(crate) nblocks: usize,
}

#[derive(Clone, Debug)]
pub(crate) enum Body {
    /// No stored blocks; `value` is the repeated pattern.
    Fill { value: Bytes },
    /// The payload is the plain data.
    Stored,
    /// Blocks of equal length, each with its streams.
    Blocks { dict: Option<Bytes> },
    /// Blocks with lengths of their own.
    VlBlocks { dict: Option<Bytes> },
}

impl Layout {
    pub(crate) fn new(header: ChunkHeader, body: Body) -> Self {
        let (blocksize, nblocks) = (header.blocksize(), header.nblocks());
        Self { header, body, blocksize, nblocks }
    }

    /// The value of a chunk in which nothing else is stored; `None` for other chunks. `value` gives the bytes from 32
    /// to the chunk's end.
    pub(crate) fn fill_value<T>(
        header: &ChunkHeader,
        value: impl FnOnce() -> Result<Bytes, T>,
    ) -> Option<Result<Bytes, T>> {
        let constant = |bytes: &'static [u8]| Some(Ok(Bytes::from_static(bytes)));
        match header.special() {
            Some(SpecialKind::Zeros | SpecialKind::Uninit) => constant(&[0]),
            Some(SpecialKind::NaN) if header.typesize() == 4 => constant(&NAN4),
            Some(SpecialKind::NaN) => constant(&NAN8),
            Some(SpecialKind::Value) => Some(value()),
            None if header.nbytes() == 0 && !header.is_vl() => constant(&[0]),
            None => None,
        }
    }

    /// The plain bytes of a block of a chunk without variable-length blocks.
    pub(crate) fn block_range(&self, nblock: usize) -> Range<usize> {
        let nbytes = self.header.nbytes();
        nblock.saturating_mul(self.blocksize).min(nbytes)
            ..nblock.saturating_add(1).saturating_mul(self.blocksize).min(nbytes)
    }

    /// The blocks that hold the plain bytes `range`; not for variable-length blocks.
    pub(crate) fn blocks_of(&self, range: &Range<usize>) -> Range<usize> {
        if range.is_empty() {
            return 0..0;
        }
        // Never 0 here; blocks of variable lengths are the caller's to find.
        let blocksize = self.blocksize.max(1);
        let first = range.start.checked_div(blocksize).unwrap_or(0);
        first..range.end.div_ceil(blocksize).min(self.nblocks)
    }

    /// Whether the decoded block 0 is needed to decode the others (the delta filter).
    pub(crate) fn needs_block0(&self) -> bool {
        matches!(self.body, Body::Blocks { .. })
            && !self.header.is_instrumented()
            && self.header.filters().iter().any(|slot| slot.id == FilterId::DELTA)
    }

    /// The most memory that decoding a block of `len` bytes takes beside the result, in bytes: the filtered block,
    /// what several filters hand on to each other, and block 0 if the others refer to it.
    pub(crate) fn block_memory(&self, len: usize) -> u64 {
        let filters = self.header.filters().iter().filter(|slot| slot.id != FilterId::NONE).count();
        let block0 = if self.needs_block0() { self.blocksize } else { 0 };
        (len as u64).saturating_mul(filters.clamp(1, 2) as u64).saturating_add(block0 as u64)
    }

    /// The same for a part of a block: most filters undo all of it.
    pub(crate) fn part_memory(&self, len: usize) -> u64 {
        let slots = self.header.filters();
        let mut filters = slots.iter().filter(|slot| slot.id != FilterId::NONE);
        let in_parts = |id| matches!(id, FilterId::SHUFFLE | FilterId::BITSHUFFLE);
        let whole = filters.next().is_some_and(|first| !in_parts(first.id)) || filters.next().is_some();
        // Delta has the words before it, as they are stored and as they are.
        let more = if self.needs_block0() { 2 } else { u64::from(whole) };
        self.block_memory(len).saturating_add(more.saturating_mul(len as u64))
    }

    pub(crate) fn dict(&self) -> Option<&[u8]> {
        match &self.body {
            Body::Blocks { dict, .. } | Body::VlBlocks { dict, .. } => dict.as_deref(),
            Body::Fill { .. } | Body::Stored => None,
        }
    }
}

/// What C-Blosc2 writes for NaN, in items of 4 bytes.
pub(crate) const NAN4: [u8; 4] = 0x7FC0_0000_u32.to_le_bytes();
/// The same in items of 8 bytes.
pub(crate) const NAN8: [u8; 8] = 0x7FF8_0000_0000_0000_u64.to_le_bytes();

/// Plain length of a variable-length block, from its stored bytes, which are at byte `offset` of the chunk.
pub(crate) fn vl_block_nbytes(stored: &[u8], nblock: usize, offset: u64) -> Result<usize, ChunkError> {
    let size = stored.first_chunk::<4>().map_or(0, |b| i32::from_le_bytes(*b));
    if size <= 0 {
        let (field, expected) = ("block length", "1 or more");
        return Err(ChunkError::Block { nblock, field, offset, value: size.into(), expected });
    }
    Ok(size.unsigned_abs() as usize)
}
