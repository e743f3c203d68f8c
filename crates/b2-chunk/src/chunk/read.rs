//! Reading methods of chunks in memory.

use std::ops::Range;

use super::ChunkRef;
use crate::block::scratch::ScratchGuard;
use crate::decode::decompress::{check, decompress, decompress_whole, get_bytes};
use crate::{ChunkError, DParams, Element, LazyChunk};
use b2_core::memory::{self, zeroed};

impl ChunkRef<'_> {
    /// Decompresses all values.
    ///
    /// # Errors
    /// Fails like [`decompress_with`](Self::decompress_with).
    pub fn decompress<T: Element>(&self) -> Result<Vec<T>, ChunkError> {
        self.decompress_with(&DParams::default())
    }

    /// Decompresses all values, with parameters. Blocks are decoded in parallel (feature `rayon`).
    ///
    /// # Errors
    /// [`ChunkError::Argument`] if the size of `T` is not the item size (items of 1 byte convert to any type);
    /// [`ChunkError::Truncated`], [`ChunkError::Field`], [`ChunkError::Block`], [`ChunkError::Dictionary`],
    /// [`ChunkError::Stream`] or [`ChunkError::Filter`] if the chunk is malformed; [`ChunkError::UnknownCodec`],
    /// [`ChunkError::UnknownCodecFormat`] or [`ChunkError::UnknownFilter`] if a plugin is not registered;
    /// [`ChunkError::Hook`] if the postfilter fails; [`ChunkError::Limit`], [`ChunkError::Cancelled`],
    /// [`ChunkError::OutOfMemory`].
    pub fn decompress_with<T: Element>(&self, dparams: &DParams) -> Result<Vec<T>, ChunkError> {
        self.check_items::<T>()?;
        self.check_output(self.nbytes(), dparams)?;
        let lazy = self.lazy(dparams)?;
        values(self.nbytes(), |dst| decompress(&lazy, self.as_bytes(), dst, dparams))
    }

    /// Decompresses all bytes.
    ///
    /// # Errors
    /// Fails like [`decompress_with`](Self::decompress_with).
    pub fn decompress_bytes(&self) -> Result<Vec<u8>, ChunkError> {
        self.decompress_bytes_with(&DParams::default())
    }

    /// Decompresses all bytes, with parameters.
    ///
    /// # Errors
    /// Fails like [`decompress_with`](Self::decompress_with).
    pub fn decompress_bytes_with(&self, dparams: &DParams) -> Result<Vec<u8>, ChunkError> {
        self.check_output(self.nbytes(), dparams)?;
        // Parse the tables first: errors in them surface before the result is allocated.
        let lazy = self.lazy(dparams)?;
        let mut out = zeroed(self.nbytes())?;
        decompress(&lazy, self.as_bytes(), &mut out, dparams)?;
        Ok(out)
    }

    /// Decompresses into `dst`, which must have exactly [`nbytes`](Self::nbytes) bytes. After an error its content is
    /// unspecified.
    ///
    /// # Errors
    /// [`ChunkError::Argument`] if `dst` has another length, otherwise as [`decompress_with`](Self::decompress_with).
    pub fn decompress_bytes_into(&self, dst: &mut [u8], dparams: &DParams) -> Result<(), ChunkError> {
        if dst.len() != self.nbytes() {
            let what = format!("{} bytes, expected {}", dst.len(), self.nbytes());
            return Err(ChunkError::argument("dst", what));
        }
        decompress_whole(self.whole(), dst, dparams, ScratchGuard::of_thread())
    }

    /// Decompresses the values `items`. Only the blocks that contain them are decoded.
    ///
    /// # Errors
    /// [`ChunkError::OutOfRange`] if the range is not inside the chunk, otherwise as
    /// [`decompress_with`](Self::decompress_with).
    pub fn get_items<T: Element>(
        &self,
        items: Range<usize>,
        dparams: &DParams,
    ) -> Result<Vec<T>, ChunkError> {
        self.check_items::<T>()?;
        let len = self.nbytes().checked_div(T::ITEMSIZE).unwrap_or(0);
        let Range { start, end } = items;
        if start > end || end > len {
            return Err(ChunkError::OutOfRange { what: "items", start, end, len });
        }
        // The products are at most `nbytes`, so they do not saturate.
        let [start, end] = [start, end].map(|item| item.saturating_mul(T::ITEMSIZE));
        self.check_part(start..end, dparams)?;
        values(end.saturating_sub(start), |dst| {
            get_bytes(self.whole(), start..end, dst, dparams, ScratchGuard::of_thread())
        })
    }

    /// Decompresses the uncompressed bytes `range`. Only the blocks that contain them are decoded, and block 0 if delta
    /// refers to it.
    ///
    /// # Errors
    /// [`ChunkError::OutOfRange`] if the range is not inside the chunk, otherwise as
    /// [`decompress_with`](Self::decompress_with).
    pub fn get_bytes(&self, range: Range<usize>, dparams: &DParams) -> Result<Vec<u8>, ChunkError> {
        self.check_part(range.clone(), dparams)?;
        let mut out = zeroed(range.len())?;
        get_bytes(self.whole(), range, &mut out, dparams, ScratchGuard::of_thread())?;
        Ok(out)
    }

    /// Fills `dst` with uncompressed bytes, from the offset `start` on.
    ///
    /// Streams are decoded only as far as necessary, so damage in other parts of the chunk may go unnoticed. Use
    /// [`ChunkReader`](crate::ChunkReader) for many reads of one chunk.
    ///
    /// # Errors
    /// Fails like [`get_bytes`](Self::get_bytes). After an error the content of `dst` is unspecified.
    pub fn get_bytes_into(&self, start: usize, dst: &mut [u8], dparams: &DParams) -> Result<(), ChunkError> {
        let range = start..start.saturating_add(dst.len());
        if range.end > self.nbytes() {
            return Err(self.out_of_range(&range));
        }
        get_bytes(self.whole(), range, dst, dparams, ScratchGuard::of_thread())
    }

    /// Decompresses the chunk and returns its blocks. This is how chunks with variable-length blocks are read, but it
    /// works for any chunk.
    ///
    /// # Errors
    /// Fails like [`decompress_with`](Self::decompress_with).
    pub fn blocks(&self, dparams: &DParams) -> Result<Vec<Vec<u8>>, ChunkError> {
        let lazy = self.lazy(dparams)?;
        let plain = self.decompress_bytes_with(dparams)?;
        let mut blocks = memory::list(lazy.nblocks())?;
        for nblock in 0..lazy.nblocks() {
            blocks.push(memory::copied(plain.get(lazy.block_range(nblock)).unwrap_or_default())?);
        }
        Ok(blocks)
    }

    /// Checks whether [`decompress_with`](Self::decompress_with) would succeed, using the memory of one block only.
    ///
    /// Blocks are decoded one after the other and discarded. Special values and runs are not expanded, and the
    /// postfilter is not called. Also returns how many uncompressed bytes were produced, as a measure of the cost.
    ///
    /// # Errors
    /// Fails like [`decompress_with`](Self::decompress_with), but ignores `max_output`.
    pub fn check(&self, dparams: &DParams) -> (Result<(), ChunkError>, u64) {
        let mut decoded = 0;
        let lazy = self.lazy(dparams);
        let result = lazy.and_then(|lazy| check(&lazy, self.as_bytes(), dparams, &mut decoded));
        (result, decoded)
    }

    /// Locates the blocks of this chunk.
    ///
    /// # Errors
    /// [`ChunkError::Truncated`], [`ChunkError::Block`], [`ChunkError::Dictionary`] or [`ChunkError::Field`] if a table
    /// is malformed, [`ChunkError::Limit`] if the chunk exceeds a limit, [`ChunkError::OutOfMemory`].
    pub fn lazy(&self, dparams: &DParams) -> Result<LazyChunk, ChunkError> {
        self.whole().lazy(dparams)
    }

    fn check_output(&self, nbytes: usize, dparams: &DParams) -> Result<(), ChunkError> {
        Ok(dparams.limits.check_output(nbytes as u64, self.stored())?)
    }

    /// Checks that `range` is inside the chunk and may be allocated.
    fn check_part(&self, range: Range<usize>, dparams: &DParams) -> Result<(), ChunkError> {
        if range.start > range.end || range.end > self.nbytes() {
            return Err(self.out_of_range(&range));
        }
        self.check_output(range.len(), dparams)?;
        if self.header().is_vl() {
            // Check the lengths of the blocks before the result is allocated.
            self.lazy(dparams)?;
        }
        Ok(())
    }

    /// Checks that the items can be read as values of `T`.
    fn check_items<T: Element>(&self) -> Result<(), ChunkError> {
        let typesize = self.header().itemsize();
        if (typesize == T::ITEMSIZE || typesize == 1) && self.nbytes().is_multiple_of(T::ITEMSIZE) {
            return Ok(());
        }
        let what = format!(
            "values of {} bytes; the chunk has {} bytes, in items of {typesize}",
            T::ITEMSIZE,
            self.nbytes()
        );
        Err(ChunkError::argument("T", what))
    }

    #[cold]
    fn out_of_range(&self, range: &Range<usize>) -> ChunkError {
        ChunkError::OutOfRange { what: "bytes", start: range.start, end: range.end, len: self.nbytes() }
    }
}

/// Returns values of which `read` writes the little-endian bytes: in place if the memory layout allows it.
fn values<T: Element>(
    nbytes: usize,
    read: impl FnOnce(&mut [u8]) -> Result<(), ChunkError>,
) -> Result<Vec<T>, ChunkError> {
    let mut values = T::zeroed(nbytes.checked_div(T::ITEMSIZE).unwrap_or(0))?;
    match T::as_le_bytes_mut(&mut values) {
        Some(bytes) => read(bytes)?,
        None => {
            let mut bytes = zeroed(nbytes)?;
            read(&mut bytes)?;
            let items = bytes.chunks_exact(T::ITEMSIZE);
            values.iter_mut().zip(items).for_each(|(value, item)| *value = T::read_le(item));
        }
    }
    Ok(values)
}
