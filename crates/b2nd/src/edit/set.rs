//! Changing items.

use b2_chunk::{CParams, Chunk, SpecialKind, memory};

use crate::edit::ArrayEditor;
use crate::edit::chunks::{check_memory, plain};
use crate::element::{byte_order, encode};
use crate::moves::{Moves, Part};
use crate::points::Places;
use crate::produce::{BATCH, in_parallel};
use crate::view::check_len;
use crate::{Dtype, Element, NdArray, NdError, Select};

impl ArrayEditor {
    /// Sets the selected items to `items`: their bytes as stored, in the order in which
    /// [`NdArray::slice`] reads them. Where a list repeats a position, the last item counts.
    ///
    /// Chunks that are selected whole are compressed in parallel; of others the rest is read first.
    ///
    /// # Errors
    /// When the selection does not fit the array, `items` has another length, or reading or writing fails.
    pub fn set_slice<D: Clone + Into<Select>>(
        &mut self,
        selection: impl AsRef<[D]>,
        items: &[u8],
    ) -> Result<(), NdError> {
        self.usable()?;
        let array = self.now()?.clone();
        let slice = array.slice(selection)?;
        check_len(items.len(), slice.nbytes())?;
        self.set_moves(&array, &slice.moves(0, &slice.strides())?, items, None)
    }

    /// Sets the selected items to Rust values. Those of a big-endian array are converted.
    ///
    /// # Errors
    /// [`NdError::Element`] when the array has another dtype, else as [`set_slice`](Self::set_slice).
    pub fn set_items<D: Clone + Into<Select>, T: Element>(
        &mut self,
        selection: impl AsRef<[D]>,
        items: &[T],
    ) -> Result<(), NdError> {
        let items = to_bytes(&self.dtype, items)?;
        self.set_slice(selection, &items)
    }

    /// Sets all selected items to one value, the bytes of an item as stored. Whole chunks of it take no space,
    /// or that of one item.
    ///
    /// ```
    /// # use b2nd::{ArrayBuilder, Fill, NdArray, SliceDim};
    /// let frame = ArrayBuilder::of::<u8>([2, 5]).to_memory(&mut Fill::zeros())?;
    /// let mut editor = NdArray::edit_bytes(frame)?;
    /// editor.fill_slice([(..).into(), SliceDim::ALL.step_by(2)], &[7])?;
    /// assert_eq!(editor.snapshot()?.all().read()?, [7, 0, 7, 0, 7].repeat(2));
    /// # Ok::<(), b2nd::NdError>(())
    /// ```
    ///
    /// # Errors
    /// When the selection does not fit the array, `item` has not the size of an item, or reading or writing
    /// fails.
    pub fn fill_slice<D: Clone + Into<Select>>(
        &mut self,
        selection: impl AsRef<[D]>,
        item: &[u8],
    ) -> Result<(), NdError> {
        self.usable()?;
        check_len(item.len(), self.geometry.itemsize() as u64)?;
        let array = self.now()?.clone();
        let slice = array.slice(selection)?;
        let whole = match item.iter().all(|&b| b == 0) {
            true => Some(self.special(SpecialKind::Zeros)?),
            // Chunk headers have one byte for the width of a value.
            false if item.len() > 255 => None,
            false => {
                let g = &self.geometry;
                let (nbytes, size) = (g.chunk_nbytes(), g.block_nbytes());
                Some(Chunk::special(SpecialKind::Value, item, nbytes, item.len(), size)?)
            }
        };
        let still = vec![0; slice.shape().len()];
        self.set_moves(&array, &slice.moves(0, &still)?, item, whole)
    }

    /// Sets one field of the selected items; see [`Slice::field`](crate::Slice::field). The others stay.
    ///
    /// # Errors
    /// As [`set_slice`](Self::set_slice), and when items have no such field.
    pub fn set_field<D: Clone + Into<Select>>(
        &mut self,
        selection: impl AsRef<[D]>,
        field: &str,
        items: &[u8],
    ) -> Result<(), NdError> {
        self.usable()?;
        let array = self.now()?.clone();
        let slice = array.slice(selection)?.field(field)?;
        check_len(items.len(), slice.nbytes())?;
        self.set_moves(&array, &slice.moves(0, &slice.strides())?, items, None)
    }

    /// Sets the items at the given coordinates; see [`NdArray::points`]. Where a point comes repeatedly, the
    /// last item counts.
    ///
    /// # Errors
    /// As [`NdArray::points`], when `items` has another length, or reading or writing fails.
    pub fn set_points<P: AsRef<[i64]>>(&mut self, points: &[P], items: &[u8]) -> Result<(), NdError> {
        let places = Places::new(&self.geometry, points)?;
        self.set_places(&places, items)
    }

    /// Sets the items that are marked; see [`NdArray::mask`].
    ///
    /// # Errors
    /// As [`NdArray::mask`], when `items` has another length, or reading or writing fails.
    pub fn set_mask(&mut self, marks: &[bool], items: &[u8]) -> Result<(), NdError> {
        let places = Places::marked(&self.geometry, marks)?;
        self.set_places(&places, items)
    }

    fn set_places(&mut self, places: &Places, items: &[u8]) -> Result<(), NdError> {
        self.usable()?;
        check_len(items.len(), places.nbytes())?;
        let array = self.now()?.clone();
        self.set_moves(&array, places, items, None)
    }

    /// Moves items from a buffer into chunks. `whole`: what a chunk becomes that is selected whole and not cut
    /// by the array's edge.
    fn set_moves(
        &mut self,
        array: &NdArray,
        moves: &dyn Moves,
        items: &[u8],
        whole: Option<Chunk>,
    ) -> Result<(), NdError> {
        if moves.nparts() == 0 {
            return Ok(());
        }
        let cparams = self.cparams()?;
        self.guarded(|editor| {
            let most = (BATCH / array.geometry().chunk_nbytes()).max(1) as u64;
            let mut first = 0;
            while first < moves.nparts() {
                let count = most.min(moves.nparts() - first);
                let chunks = in_parallel(count, |k| {
                    let part = moves.part(first + k)?;
                    let chunk = match &whole {
                        Some(chunk) if part.whole && !is_cut(array, part.nchunk) => Ok(chunk.clone()),
                        _ => changed(array, &part, items, &cparams),
                    };
                    chunk.map(|chunk| (part.nchunk, chunk))
                });
                for chunk in chunks {
                    let (nchunk, chunk) = chunk?;
                    editor.frame.update(nchunk, chunk)?;
                }
                first += count;
            }
            Ok(())
        })
    }
}

/// A chunk with some or all of its items changed.
pub(super) fn changed(
    array: &NdArray,
    part: &Part<'_>,
    items: &[u8],
    cparams: &CParams,
) -> Result<Chunk, NdError> {
    check_memory(array)?;
    let geometry = array.geometry();
    let old = if part.whole { None } else { plain(array, part.nchunk)? };
    let mut chunk = match old {
        Some(old) => old,
        None => memory::zeroed(geometry.chunk_nbytes())?,
    };
    let size = geometry.block_nbytes();
    for &nblock in &part.nblocks {
        let block = &mut chunk[nblock * size..(nblock + 1) * size];
        (part.moves)(nblock, &mut |step| {
            if let Some(loops) = step.to_block() {
                loops.copy(items, block);
            }
        });
    }
    Ok(Chunk::compress(&chunk, cparams)?)
}

/// Whether the array's edge cuts a chunk; what is behind it must stay zero.
fn is_cut(array: &NdArray, nchunk: usize) -> bool {
    let g = array.geometry();
    let (_, len) = g.chunk_box(&g.chunk_coords(nchunk as u64));
    len.iter().zip(g.chunkshape()).any(|(&len, &c)| len != u64::from(c))
}

/// Bytes of items as an array of `dtype` stores them.
pub(super) fn to_bytes<T: Element>(dtype: &Dtype, items: &[T]) -> Result<Vec<u8>, NdError> {
    let big_endian = byte_order::<T>(dtype)?;
    let mut bytes = memory::zeroed(items.len().saturating_mul(dtype.itemsize()))?;
    encode(items.iter().copied(), dtype.itemsize(), &mut bytes);
    if big_endian {
        bytes.chunks_exact_mut(T::WORD).for_each(<[u8]>::reverse);
    }
    Ok(bytes)
}
