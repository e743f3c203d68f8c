//! Buffers small appends: rows stay in memory until they fill chunks.

use b2_core::{Control, memory};

use crate::model::geometry::product;
use crate::write::edit::{ArrayEditor, Axis};
use crate::write::produce::BATCH;
use crate::write::source::{Lifted, Region, RegionSource, Strided, failed, length_along};
use crate::{Geometry, NdError};

/// Rows appended along the first axis that are not in chunks yet.
#[derive(Debug, Default)]
pub(super) struct Pending {
    rows: u64,
    items: Vec<u8>,
}

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
    /// # use b2nd::{ArrayBuilder, Axis, Fill, NdArray};
    /// let mut editor = NdArray::edit_bytes(ArrayBuilder::new::<u16>([0, 2]).chunks([8, 2]).to_bytes(Fill::zeros())?)?;
    /// editor.append(Axis(0), [1u16, 2, 3, 4])?;
    /// assert_eq!(editor.shape(), [2, 2]);
    /// editor.append(Axis(1), [10u16, 20])?;
    /// assert_eq!(editor.snapshot()?.all().read::<Vec<u16>>()?, [1, 2, 10, 3, 4, 20]);
    /// # Ok::<(), b2nd::NdError>(())
    /// ```
    ///
    /// # Errors
    /// When the axis does not exist, the items do not fit the array, the new shape exceeds the
    /// limits of the format, or reading or writing fails.
    pub fn append(&mut self, axis: impl Into<Axis>, mut source: impl RegionSource) -> Result<(), NdError> {
        let axis = axis.into().0;
        let at = self.length(axis)?;
        self.with_lengths(axis, &mut source, |editor, source, len| editor.append_some(axis, at, len, source))
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
            (len, false) => work(self, source, len),
            (len, true) => work(self, &mut Lifted::new(source, axis), len),
        }
    }

    fn append_some(
        &mut self,
        axis: usize,
        at: u64,
        len: u64,
        source: &mut dyn RegionSource,
    ) -> Result<(), NdError> {
        let mut shape = self.shape().to_vec();
        shape[axis] = at.checked_add(len).ok_or(NdError::TooLarge { asked: u64::MAX })?;
        let new = self.with_shape(&shape)?;
        shape[axis] = len;
        let itemsize = self.geometry.itemsize();
        let nbytes = product(shape.iter().copied()).saturating_mul(itemsize as u64);
        let c = u64::from(self.geometry.chunkshape()[axis]);
        let before = self.pending.items.len();
        if axis > 0 || len >= c || nbytes.saturating_add(before as u64) > BATCH as u64 {
            return self.splice_to(new, axis, at..at, len, source);
        }
        let control = self.control.begin(nbytes, itemsize as u64);
        let all = before + nbytes as usize;
        memory::reserve(&mut self.pending.items, nbytes as usize)?;
        self.pending.items.resize(all, 0);
        let start = vec![0; shape.len()];
        let region = Region { whole: &shape, dtype: &self.dtype, start: &start, shape: &shape };
        let items = &mut self.pending.items[before..];
        let read = if items.is_empty() { Ok(()) } else { source.read_region(&region, items).map_err(failed) };
        let taken = read.and_then(|()| Ok(control.advance(nbytes)?)).and_then(|()| {
            let old = std::mem::replace(&mut self.geometry, new);
            self.pending.rows += len;
            self.current = None;
            // Flush the rows that complete chunks.
            let length = at + len;
            let stored = length - self.pending.rows;
            let full = (length - length % c).saturating_sub(stored);
            self.flush_rows(full, &control.quiet()).inspect_err(|_| {
                self.geometry = old;
                self.pending.rows -= len;
            })
        });
        if taken.is_err() {
            self.pending.items.truncate(before);
        }
        taken
    }

    /// Puts all pending rows into chunks.
    pub(super) fn flush(&mut self) -> Result<(), NdError> {
        let control = self.control.begin(self.pending.items.len() as u64, self.geometry.itemsize() as u64);
        self.flush_rows(self.pending.rows, &control)
    }

    /// Puts the first pending rows into chunks. After an error all of them are still pending.
    fn flush_rows(&mut self, rows: u64, control: &Control) -> Result<(), NdError> {
        if rows == 0 {
            return Ok(());
        }
        let mut pending = std::mem::take(&mut self.pending);
        let all = self.geometry.clone();
        let mut shape = all.shape().to_vec();
        let length = shape[0];
        let mut of_length = |length| -> Geometry {
            shape[0] = length;
            all.within(&shape)
        };
        let at = length - pending.rows;
        let (stored, new) = (of_length(at), of_length(at + rows));
        let data = of_length(rows);
        self.geometry = stored;
        let nbytes = pending.items.len() / pending.rows as usize * rows as usize;
        let result = Strided::packed(&pending.items[..nbytes], data.shape(), data.itemsize())
            .and_then(|mut items| self.splice_stored(new, 0, at..at, rows, &mut items, control));
        if result.is_ok() {
            pending.items.drain(..nbytes);
            pending.rows -= rows;
        }
        self.pending = pending;
        self.geometry = all;
        result
    }

    /// Discards the pending rows.
    pub(super) fn forget_pending(&mut self) {
        self.pending = Pending::default();
    }
}
