//! Checks of the arguments of filters, and the division of a block for filters that can undo part of it.

use std::ops::Range;

use crate::error::Result;
use crate::{FilterError, FilterId};

/// A request for part of a block, divided into the items that the filter moves and the trailing bytes that it copies.
pub(crate) struct SplitPart<'s, 'd> {
    /// The filtered items.
    pub(crate) whole: &'s [u8],
    /// The requested range of their bytes.
    pub(crate) range: Range<usize>,
    /// Destination of those bytes.
    pub(crate) dst: &'d mut [u8],
    /// The requested part of the trailing bytes.
    pub(crate) tail: &'s [u8],
    /// Destination of the trailing bytes.
    pub(crate) tail_dst: &'d mut [u8],
}

impl<'s, 'd> SplitPart<'s, 'd> {
    /// Splits a request at byte `at`. `range` must be inside `src` and as long as `dst`.
    pub(crate) fn split(at: usize, src: &'s [u8], range: Range<usize>, dst: &'d mut [u8]) -> Self {
        let moved = range.start.min(at)..range.end.min(at);
        let tail = &src[range.start.max(at)..range.end.max(at)];
        let (dst, tail_dst) = dst.split_at_mut(moved.len());
        Self { whole: &src[..at], range: moved, dst, tail, tail_dst }
    }
}

/// Checks that `range` is inside a block of `nbytes` and as long as `dst`.
pub(crate) fn check_part(filter: FilterId, nbytes: usize, range: &Range<usize>, dst: &[u8]) -> Result<()> {
    if range.start > range.end || range.end > nbytes {
        return Err(FilterError::Part { filter, what: "the requested range is not inside the block" });
    }
    if range.len() != dst.len() {
        return Err(FilterError::Length { filter, src: range.len(), dst: dst.len() });
    }
    Ok(())
}

/// Checks that there are `count` planes of equal length, and that `range` is inside their block.
pub(crate) fn check_planes(
    filter: FilterId,
    count: usize,
    planes: &[&[u8]],
    range: &Range<usize>,
    dst: &[u8],
) -> Result<()> {
    let Some(first) = planes.first().filter(|_| planes.len() == count) else {
        return Err(FilterError::Part { filter, what: "there must be one plane for each byte of an item" });
    };
    if planes.iter().any(|plane| plane.len() != first.len()) {
        return Err(FilterError::Part { filter, what: "planes must have equal lengths" });
    }
    check_part(filter, first.len() * count, range, dst)
}

/// Checks that source and destination have the same length, which every filter requires.
pub(crate) fn same_length(filter: FilterId, src: &[u8], dst: &[u8]) -> Result<()> {
    if src.len() != dst.len() {
        return Err(FilterError::Length { filter, src: src.len(), dst: dst.len() });
    }
    Ok(())
}
