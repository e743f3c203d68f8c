//! Appends items. Rows stay in memory until they fill chunks.

use b2_core::{Control, memory};

use crate::model::geometry::dimensions;
use crate::write::edit::chunks::{RewrittenChunks, first_chunk, same_numbers};
use crate::write::edit::editor::{ArrayEditor, Axis};
use crate::write::produce::BATCH;
use crate::write::source::{
    ExpandedSource, Region, RegionSource, SourceExtent, StridedItems, failed, length_along,
};
use crate::{Geometry, NdError};

impl ArrayEditor {
    /// Appends all items of a source along an axis.
    ///
    /// Along the other axes the source must have the lengths of the array. A source without the
    /// axis counts as one position along it. A source without an end needs a
    /// [length](RegionSource::with_length).
    ///
    /// If the append starts at a chunk boundary, chunks that the source has in compressed form
    /// ([`RegionSource::chunk`]) are copied unchanged.
    ///
    /// Less than a chunk's length along the first axis is kept in memory until chunks are full or
    /// until another operation needs them. So each chunk is compressed and written once, however
    /// small the pieces are.
    ///
    /// ```
    /// # use b2nd::{ArrayBuilder, Axis, NdArray, source};
    /// let mut editor = NdArray::edit_bytes(ArrayBuilder::new::<u16>([0, 2]).chunks([8, 2]).to_bytes(source::zeros())?)?;
    /// editor.append(Axis(0), [1u16, 2, 3, 4])?;
    /// assert_eq!(editor.shape(), [2, 2]);
    /// editor.append(Axis(1), [10u16, 20])?;
    /// assert_eq!(editor.snapshot()?.all().read::<Vec<u16>>()?, [1, 2, 10, 3, 4, 20]);
    /// # Ok::<(), b2nd::NdError>(())
    /// ```
    ///
    /// # Errors
    /// [`NdError::Slice`] when the axis does not exist; [`NdError::Argument`] or [`NdError::Element`] when the items do
    /// not fit the array; [`NdError::Geometry`] when the new shape exceeds the limits of the format;
    /// [`NdError::Source`] when the source fails; [`NdError::Frame`], [`NdError::Chunk`] or [`NdError::Limit`] when
    /// reading, compressing or writing fails, as for [`set`](Self::set); [`NdError::Cancelled`],
    /// [`NdError::OutOfMemory`].
    pub fn append(&mut self, axis: impl Into<Axis>, mut source: impl RegionSource) -> Result<(), NdError> {
        let axis = axis.into().0;
        let at = self.length(axis)?;
        self.with_lengths(axis, &mut source, |editor, source, len| {
            let mut shape = editor.shape().to_vec();
            shape[axis] = at.checked_add(len).ok_or_else(|| NdError::too_long(axis))?;
            editor.open_dimensions(&shape)?;
            let new = editor.with_shape(&shape)?;
            shape[axis] = len;
            let rows = new.within(&shape);
            let pending = editor.pending.items.len() as u64;
            if len == 0 {
                return Ok(());
            }
            let few =
                len < new.chunkshape()[0].into() && rows.nbytes().saturating_add(pending) <= BATCH as u64;
            if axis == 0 && few {
                return editor.keep_rows(new, &rows, source);
            }
            editor.flush()?;
            // Chunks that are already in the frame and get new items are rewritten.
            let first = first_chunk(&new, axis, at);
            shape[axis] = new.shape()[axis] - first * u64::from(new.chunkshape()[axis]);
            let control = editor.control.begin(new.within(&shape).nbytes(), new.itemsize() as u64);
            editor.extend(&new, axis, source, &control)
        })
    }

    /// Returns the length of the array along an axis.
    pub(super) fn length(&self, axis: usize) -> Result<u64, NdError> {
        self.shape().get(axis).copied().ok_or_else(|| NdError::Slice {
            dim: axis,
            what: format!("out of range, the array has {}", dimensions(self.shape().len())),
        })
    }

    /// Calls `work` with the number of positions that a source has along an axis.
    pub(super) fn with_lengths(
        &mut self,
        axis: usize,
        source: &mut dyn RegionSource,
        work: impl FnOnce(&mut Self, &mut dyn RegionSource, u64) -> Result<(), NdError>,
    ) -> Result<(), NdError> {
        self.usable()?;
        match length_along(&source.amount(), self.shape(), axis, self.geometry.itemsize())? {
            SourceExtent::Axis(len) => work(self, source, len),
            SourceExtent::NoAxis => work(self, &mut ExpandedSource::new(source, axis), 1),
        }
    }

    /// Puts the positions that `new` has more along an axis into chunks, when no rows are pending.
    fn extend(
        &mut self,
        new: &Geometry,
        axis: usize,
        source: &mut dyn RegionSource,
        control: &Control,
    ) -> Result<(), NdError> {
        let end = self.geometry.shape()[axis];
        let in_place = same_numbers(&self.geometry, new);
        let renewed =
            RewrittenChunks { first: first_chunk(new, axis, end), in_place, kept: |_: &[u64]| None };
        self.replace(new, axis, end..end, source, control, renewed)
    }

    /// Reads appended rows into memory, and puts all pending rows that complete chunks into the frame.
    fn keep_rows(
        &mut self,
        new: Geometry,
        rows: &Geometry,
        source: &mut dyn RegionSource,
    ) -> Result<(), NdError> {
        let control = self.control.begin(rows.nbytes(), rows.itemsize() as u64);
        let (before, nbytes) = (self.pending.items.len(), rows.nbytes() as usize);
        memory::reserve(&mut self.pending.items, nbytes)?;
        self.pending.items.resize(before + nbytes, 0);
        let start = vec![0; rows.ndim()];
        let region = Region { whole: rows.shape(), dtype: &self.dtype, start: &start, shape: rows.shape() };
        let items = &mut self.pending.items[before..];
        let read = if items.is_empty() { Ok(()) } else { source.read_region(&region, items).map_err(failed) };
        let length = new.shape()[0];
        let old = self.pending.geometry.replace(new);
        let taken = read.and_then(|()| Ok(control.advance(rows.nbytes())?)).and_then(|()| {
            self.current = None;
            let full = length - length % u64::from(rows.chunkshape()[0]);
            self.flush_to(full, &control.quiet())
        });
        if taken.is_err() {
            self.pending.items.truncate(before);
            self.pending.geometry = old;
        }
        taken
    }

    /// Puts all pending rows into chunks.
    pub(super) fn flush(&mut self) -> Result<(), NdError> {
        let control = self.control.begin(self.pending.items.len() as u64, self.geometry.itemsize() as u64);
        self.flush_to(self.shape().first().copied().unwrap_or(0), &control)
    }

    /// Puts the first pending rows into chunks, until the frame holds `length` rows. After an error all of them are
    /// still pending.
    fn flush_to(&mut self, length: u64, control: &Control) -> Result<(), NdError> {
        let stored = self.geometry.shape().first().copied().unwrap_or(0);
        if length <= stored {
            return Ok(());
        }
        let mut pending = std::mem::take(&mut self.pending);
        let Some(all) = &pending.geometry else { return Ok(()) };
        let of_length = |length| {
            let mut shape = all.shape().to_vec();
            shape[0] = length;
            all.within(&shape)
        };
        let (new, rows) = (of_length(length), of_length(length - stored));
        let nbytes = rows.nbytes() as usize;
        let result = StridedItems::packed(&pending.items[..nbytes], rows.shape(), rows.itemsize())
            .and_then(|mut items| self.extend(&new, 0, &mut items, control));
        if result.is_ok() {
            pending.items.drain(..nbytes);
            pending.geometry.take_if(|all| all.shape()[0] == length);
        }
        self.pending = pending;
        result
    }
}
