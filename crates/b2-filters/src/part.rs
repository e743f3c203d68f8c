//! What the filters that can undo a part of a block have in common.

use std::ops::Range;

use crate::{FilterError, FilterId};

/// A filtered block, the part of the plain one that is asked, and its destination, cut where the items that are
/// moved end and the bytes that stay in place begin.
pub(crate) struct Part<'s, 'd> {
    /// The items, filtered.
    pub(crate) whole: &'s [u8],
    /// Which of their bytes are asked.
    pub(crate) range: Range<usize>,
    /// Where these go.
    pub(crate) dst: &'d mut [u8],
    /// The bytes asked of those that stay in place.
    pub(crate) tail: &'s [u8],
    /// Where these go.
    pub(crate) tail_dst: &'d mut [u8],
}

impl<'s, 'd> Part<'s, 'd> {
    /// Cuts at byte `at`. `range` is inside `src` and as long as `dst`.
    pub(crate) fn split(at: usize, src: &'s [u8], range: Range<usize>, dst: &'d mut [u8]) -> Self {
        let moved = range.start.min(at)..range.end.min(at);
        let tail = &src[range.start.max(at)..range.end.max(at)];
        let (dst, tail_dst) = dst.split_at_mut(moved.len());
        Self { whole: &src[..at], range: moved, dst, tail, tail_dst }
    }
}

/// Whether `range` is inside a block of `nbytes` and as long as `dst`.
pub(crate) fn check_part(
    filter: FilterId,
    nbytes: usize,
    range: &Range<usize>,
    dst: &[u8],
) -> Result<(), FilterError> {
    if range.start > range.end || range.end > nbytes {
        return Err(FilterError::Part { filter, what: "the range asked is not inside the block" });
    }
    if range.len() != dst.len() {
        return Err(FilterError::Length { filter, src: range.len(), dst: dst.len() });
    }
    Ok(())
}

/// Whether there are `count` planes, all of one length, and `range` is inside the block that they make up.
pub(crate) fn check_planes(
    filter: FilterId,
    count: usize,
    planes: &[&[u8]],
    range: &Range<usize>,
    dst: &[u8],
) -> Result<(), FilterError> {
    let Some(first) = planes.first().filter(|_| planes.len() == count) else {
        return Err(FilterError::Part { filter, what: "there is one plane for each byte of an item" });
    };
    if planes.iter().any(|plane| plane.len() != first.len()) {
        return Err(FilterError::Part { filter, what: "planes have one length" });
    }
    check_part(filter, first.len() * count, range, dst)
}
