//! Inserts and removes along an axis.

use std::ops::Range;

use crate::model::geometry::product;
use crate::select::copy_plan::linear;
use crate::write::edit::chunks::{RewrittenChunks, first_chunk, same_numbers};
use crate::write::edit::editor::{ArrayEditor, Axis};
use crate::write::source::RegionSource;
use crate::{Geometry, NdError};

impl ArrayEditor {
    /// Inserts all items of a source along an axis, before position `at`. See [`append`](Self::append) for the number
    /// of positions of a source.
    ///
    /// Chunks that only change their position are not rewritten. If the shift is not a multiple of
    /// the chunk length, all chunks after `at` are rewritten, in bounded memory.
    ///
    /// # Errors
    /// As for [`append`](Self::append); [`NdError::Slice`] also when `at` is beyond the end.
    pub fn insert(
        &mut self,
        axis: impl Into<Axis>,
        at: u64,
        source: impl RegionSource,
    ) -> Result<(), NdError> {
        self.splice(axis, at..at, source)
    }

    /// Removes the positions `range` along an axis; see [`insert`](Self::insert) for the cost.
    ///
    /// # Errors
    /// [`NdError::Slice`] when the axis does not exist or the range is out of bounds; [`NdError::Frame`],
    /// [`NdError::Chunk`] or [`NdError::Limit`] when reading, compressing or writing fails, as for [`set`](Self::set);
    /// [`NdError::Cancelled`], [`NdError::OutOfMemory`].
    pub fn delete(&mut self, axis: impl Into<Axis>, range: Range<u64>) -> Result<(), NdError> {
        self.splice(axis, range, [0u8; 0])
    }

    /// Replaces the positions `range` along an axis by all items of a source.
    ///
    /// # Errors
    /// As for [`insert`](Self::insert) and [`delete`](Self::delete).
    pub fn splice(
        &mut self,
        axis: impl Into<Axis>,
        range: Range<u64>,
        mut source: impl RegionSource,
    ) -> Result<(), NdError> {
        let axis = axis.into().0;
        let length = self.length(axis)?;
        self.with_lengths(axis, &mut source, |editor, source, len| {
            if range.start > range.end || range.end > length {
                let what = format!("range {}..{} is out of bounds, length {length}", range.start, range.end);
                return Err(NdError::Slice { dim: axis, what });
            }
            let left = length - (range.end - range.start);
            let mut shape = editor.shape().to_vec();
            shape[axis] = left.checked_add(len).ok_or_else(|| NdError::too_long(axis))?;
            editor.open_dimensions(&shape)?;
            let new = editor.with_shape(&shape)?;
            editor.flush()?;
            if range.is_empty() && len == 0 {
                return Ok(());
            }
            let (old, shift) = (editor.geometry.clone(), AxisShift { axis, range: range.clone(), len });
            let control = editor.control.begin(shift.rewritten_nbytes(&old, &new), new.itemsize() as u64);
            let renewed = RewrittenChunks {
                first: first_chunk(&new, axis, range.start),
                in_place: same_numbers(&old, &new) && !shift.any_moves(&old, &new),
                kept: |at: &[u64]| shift.unchanged_chunk(&old, &new, at),
            };
            editor.replace(&new, axis, range, source, &control, renewed)
        })
    }
}

/// The shift of positions along the axis.
struct AxisShift {
    axis: usize,
    range: Range<u64>,
    len: u64,
}

impl AxisShift {
    /// Returns the size in bytes of all items in chunks that are rewritten.
    fn rewritten_nbytes(&self, old: &Geometry, new: &Geometry) -> u64 {
        let mut coords = vec![0; new.ndim()];
        let along = (first_chunk(new, self.axis, self.range.start)..new.grid()[self.axis]).map(|k| {
            coords[self.axis] = k;
            if self.unchanged_chunk(old, new, &coords).is_some() {
                0
            } else {
                new.chunk_box(&coords).1[self.axis]
            }
        });
        let along = along.sum();
        let mut lengths = new.shape().to_vec();
        lengths[self.axis] = along;
        product(lengths).saturating_mul(new.itemsize() as u64)
    }

    /// Returns the old chunk that becomes the new chunk at `at` without changes, if there is one.
    fn unchanged_chunk(&self, old: &Geometry, new: &Geometry, at: &[u64]) -> Option<usize> {
        let (start, len) = new.chunk_box(at);
        let (start, len) = (start[self.axis], len[self.axis]);
        let c = u64::from(new.chunkshape()[self.axis]);
        let from = if start + len <= self.range.start {
            start
        } else if start >= self.range.start + self.len {
            start - self.len - self.range.start + self.range.end
        } else {
            return None;
        };
        // The old chunk must also be clipped in the same way at the edge, since clipped values must be
        // cleared.
        let whole = from.is_multiple_of(c) && len == c.min(old.shape()[self.axis] - from);
        if !whole {
            return None;
        }
        let mut coords = at.to_vec();
        coords[self.axis] = from / c;
        Some(linear(&coords, old.grid()) as usize)
    }

    /// Returns whether any unchanged chunk changes its position along the axis.
    fn any_moves(&self, old: &Geometry, new: &Geometry) -> bool {
        let c = u64::from(old.chunkshape()[self.axis]);
        let tail = old.shape()[self.axis] - self.range.end;
        let shift = self.len.abs_diff(self.range.end - self.range.start);
        // The first chunk boundary in the shifted tail.
        let first = (self.range.start + self.len).next_multiple_of(c.max(1));
        shift > 0 && tail > 0 && shift.is_multiple_of(c.max(1)) && first < new.shape()[self.axis]
    }
}
