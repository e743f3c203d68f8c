//! Appending in small pieces: rows wait in memory until they fill chunks.

use crate::NdError;
use crate::edit::ArrayEditor;
use crate::produce::BATCH;
use crate::source::RegionSource;
use crate::view::buffer;

/// Items appended along the first axis that are not in chunks yet.
#[derive(Debug, Default)]
pub(super) struct Pending {
    rows: u64,
    items: Vec<u8>,
}

impl ArrayEditor {
    /// Appends items along an axis: `len` of them, and as many in the other dimensions as the array has.
    ///
    /// The source is one of an array with that shape. Where it starts at a chunk's edge, chunks that
    /// it has in compressed form ([`RegionSource::chunk`]) are taken as they are.
    ///
    /// Less than a chunk's length along the first axis is kept in memory until chunks are full, or until
    /// something else is done, so that each chunk is compressed and written only once however small the pieces.
    ///
    /// # Errors
    /// When there is no such axis, the new shape is beyond the format's limits, or reading or writing fails.
    pub fn append(&mut self, axis: usize, len: u64, source: &mut dyn RegionSource) -> Result<(), NdError> {
        self.usable()?;
        let at = self.length(axis)?;
        let mut shape = self.shape().to_vec();
        shape[axis] = at.checked_add(len).ok_or(NdError::TooLarge { asked: u64::MAX })?;
        let new = self.with_shape(&shape)?;
        shape[axis] = len;
        let data = self.with_shape(&shape)?;
        let c = self.geometry.chunkshape()[axis];
        if axis > 0 || len >= u64::from(c) || data.nbytes() + self.pending.items.len() as u64 > BATCH as u64 {
            return self.splice(axis, at..at, len, source);
        }
        let mut items = buffer(data.nbytes())?;
        if !items.is_empty() {
            let start = vec![0; shape.len()];
            source.read_region(&data, &start, &shape, &mut items).map_err(NdError::Source)?;
        }
        let (rows, nbytes) = (self.pending.rows, self.pending.items.len());
        let old = std::mem::replace(&mut self.geometry, new);
        self.pending.items.extend_from_slice(&items);
        self.pending.rows += len;
        self.current = None;
        // Rows that fill chunks.
        let length = at + len;
        let stored = length - self.pending.rows;
        let full = (length - length % u64::from(c)).saturating_sub(stored);
        let flushed = self.flush_rows(full);
        if flushed.is_err() {
            self.geometry = old;
            self.pending.items.truncate(nbytes);
            self.pending.rows = rows;
        }
        flushed
    }

    /// Puts all rows into chunks.
    pub(super) fn flush(&mut self) -> Result<(), NdError> {
        self.flush_rows(self.pending.rows)
    }

    /// Puts the first rows into chunks. After an error all of them still wait.
    fn flush_rows(&mut self, rows: u64) -> Result<(), NdError> {
        if rows == 0 {
            return Ok(());
        }
        let mut pending = std::mem::take(&mut self.pending);
        let mut shape = self.shape().to_vec();
        shape[0] -= pending.rows;
        let at = shape[0];
        let stored = self.with_shape(&shape)?;
        let all = std::mem::replace(&mut self.geometry, stored);
        let nbytes = pending.items.len() / pending.rows as usize * rows as usize;
        let result = self.splice_stored(0, at..at, rows, &mut &pending.items[..nbytes]);
        if result.is_ok() {
            pending.items.drain(..nbytes);
            pending.rows -= rows;
        }
        self.pending = pending;
        self.geometry = all;
        result
    }

    /// Forgets the rows that wait.
    pub(super) fn forget_pending(&mut self) {
        self.pending = Pending::default();
    }
}
