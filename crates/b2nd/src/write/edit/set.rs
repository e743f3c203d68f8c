//! Changes items.

use b2_chunk::{CParams, Chunk, SpecialKind};
use b2_core::{in_order, memory, workers};
use b2_frame::Entry;

use crate::model::geometry::strides;
use crate::select::copy_plan::{ChunkPart, CopyPlan};
use crate::select::selection::IntoSelections;
use crate::write::edit::chunks::{check_memory, plain, special};
use crate::write::edit::editor::ArrayEditor;
use crate::write::source::{Region, RegionSource, StridedItems, check_amount, failed, read_whole};
use crate::{Dtype, DtypeKind, Element, Geometry, NdArray, NdError, Slice};

impl ArrayEditor {
    /// Sets the selected items to those of a source, in the order in which [`NdArray::slice`] reads
    /// them. If a list repeats a position, the last item remains.
    ///
    /// Fully selected chunks are compressed in parallel; of other chunks, the remaining items are
    /// read first. Fully selected chunks that are set to a constant take the space of at most one
    /// item. Sources outside memory are first read completely into memory.
    ///
    /// ```
    /// # use b2nd::{ArrayBuilder, NdArray, range, source};
    /// let frame = ArrayBuilder::new::<u16>([2, 5]).to_bytes(source::zeros())?;
    /// let mut editor = NdArray::edit_bytes(frame)?;
    /// editor.set((.., range(..).step(2)), source::value(7u16))?;
    /// editor.set((1, 1..3), [1u16, 2])?;
    /// assert_eq!(editor.snapshot()?.all().read::<Vec<u16>>()?, [7, 0, 7, 0, 7, 7, 1, 2, 0, 7]);
    /// # Ok::<(), b2nd::NdError>(())
    /// ```
    ///
    /// # Errors
    /// [`NdError::Slice`] or [`NdError::TooLarge`] when the selection does not fit the array; [`NdError::Element`] when
    /// the source has items of another type, [`NdError::BufferLength`] or [`NdError::Argument`] when it has another
    /// number of them; [`NdError::Source`] when it fails; [`NdError::Frame`], [`NdError::Chunk`] or
    /// [`NdError::ChunkSize`] when reading, compressing or writing fails; [`NdError::Limit`] when a chunk is too large
    /// to be changed; [`NdError::Cancelled`], [`NdError::OutOfMemory`].
    pub fn set(
        &mut self,
        selection: impl IntoSelections,
        mut values: impl RegionSource,
    ) -> Result<(), NdError> {
        check_values(&self.dtype, &values)?;
        let array = self.now()?.clone();
        self.set_view(&array, &array.slice(selection)?, &mut values)
    }

    /// Sets the selected items to stored bytes; see [`set`](Self::set).
    ///
    /// # Errors
    /// As for [`set`](Self::set).
    pub fn set_bytes(&mut self, selection: impl IntoSelections, items: &[u8]) -> Result<(), NdError> {
        let array = self.now()?.clone();
        self.set_view(&array, &array.slice(selection)?, &mut &*items)
    }

    /// Sets one field of the selected items and leaves the others; see [`Slice::field`].
    ///
    /// # Errors
    /// [`NdError::Field`] when the items have no such field, otherwise as for [`set`](Self::set).
    pub fn set_field(
        &mut self,
        selection: impl IntoSelections,
        field: &str,
        mut values: impl RegionSource,
    ) -> Result<(), NdError> {
        let array = self.now()?.clone();
        let slice = array.slice(selection)?.field(field)?;
        check_values(slice.dtype(), &values)?;
        self.set_view(&array, &slice, &mut values)
    }

    /// Sets the items at the given coordinates, or those whose mark is set in a mask of the whole array
    /// ([`Selection::mask_of`](crate::Selection::mask_of)); see [`NdArray::points`]. If a point is repeated, the last
    /// item wins.
    ///
    /// # Errors
    /// As for [`NdArray::points`] and [`set`](Self::set).
    pub fn set_points(
        &mut self,
        selection: impl IntoSelections,
        mut values: impl RegionSource,
    ) -> Result<(), NdError> {
        check_values(&self.dtype, &values)?;
        let array = self.now()?.clone();
        self.set_view(&array, &array.points(selection)?, &mut values)
    }

    fn set_view(
        &mut self,
        array: &NdArray,
        slice: &Slice,
        values: &mut dyn RegionSource,
    ) -> Result<(), NdError> {
        let items = NewValues::of_view(values, slice)?;
        let moves = slice.moves(items.offset, &items.strides)?;
        self.set_moves(array, &*moves, &items.bytes, items.whole(array.geometry(), self.has_blocksize)?)
    }

    /// Moves items from a buffer into chunks. `whole` replaces chunks that are fully selected and
    /// not clipped by the edge of the array.
    fn set_moves(
        &mut self,
        array: &NdArray,
        moves: &dyn CopyPlan,
        items: &[u8],
        whole: Option<Chunk>,
    ) -> Result<(), NdError> {
        self.usable()?;
        if moves.nparts() == 0 {
            return Ok(());
        }
        let control = self.control.begin(moves.nbytes(), array.itemsize() as u64);
        let quiet = array.clone().with_control(control.quiet());
        let setting = ItemUpdate { array: &quiet, moves, items, whole, cparams: self.cparams(&control)? };
        self.guarded(|editor| {
            let nbytes = moves.nparts().saturating_mul(array.geometry().chunk_nbytes() as u64);
            let make = |k| {
                let part = moves.part(k)?;
                let chunk = setting.chunk(&part)?;
                control.advance(setting.share(k))?;
                Ok::<_, NdError>((part.nchunk, chunk))
            };
            let put = |(nchunk, chunk)| Ok(editor.frame.update(nchunk, chunk)?);
            in_order(&control, usize::MAX, nbytes, 2 * workers(&control), 0..moves.nparts(), make, put)
        })
    }
}

/// Values for selected items, in memory.
pub(super) struct NewValues<'a> {
    pub(super) bytes: std::borrow::Cow<'a, [u8]>,
    pub(super) offset: usize,
    /// The strides of the values along each dimension of the selection, in bytes.
    pub(super) strides: Vec<isize>,
    /// Whether the values are one item, which is repeated.
    constant: bool,
}

impl<'a> NewValues<'a> {
    /// Reads or borrows the values for a view.
    pub(super) fn of_view(values: &'a mut dyn RegionSource, slice: &Slice) -> Result<Self, NdError> {
        let (shape, nd) = (slice.shape(), slice.own_shape().len());
        if shape.len() == nd
            && let Some(item) = values.constant(slice.dtype().itemsize())
        {
            let bytes = item.map_err(failed)?.into();
            return Ok(Self { bytes, offset: 0, strides: vec![0; nd], constant: true });
        }
        let packed = strides(shape.iter().map(|&n| n as usize), slice.dtype().itemsize());
        // The sub-array of a field is one item, so its part must be contiguous.
        Self::laid_out(values, &shape, slice.dtype(), |strides| strides[nd..] == packed[nd..])
    }

    fn laid_out(
        values: &'a mut dyn RegionSource,
        shape: &[u64],
        dtype: &Dtype,
        fits: impl Fn(&[isize]) -> bool,
    ) -> Result<Self, NdError> {
        check_amount(&values.amount(), shape, dtype.itemsize())?;
        let start = vec![0; shape.len()];
        let region = Region { whole: shape, dtype, start: &start, shape };
        if values.lend_region(&region).is_some_and(|lent| fits(lent.strides())) {
            let values: &'a dyn RegionSource = values;
            let lent = values.lend_region(&region);
            let lent = lent.ok_or_else(|| NdError::argument("a lent region is missing"))?;
            let (offset, strides) = (lent.offset(), lent.strides().to_vec());
            return Ok(Self { bytes: lent.bytes().into(), offset, strides, constant: false });
        }
        let read = read_whole(values, &region)?;
        let strides = StridedItems::packed(&read, shape, dtype.itemsize())?.strides().to_vec();
        Ok(Self { bytes: read.into(), offset: 0, strides, constant: false })
    }

    /// Returns the chunk that results from setting a whole chunk to a constant, if the values are
    /// one.
    pub(super) fn whole(&self, g: &Geometry, has_blocksize: bool) -> Result<Option<Chunk>, NdError> {
        let item = &self.bytes;
        if !self.constant || item.len() != g.itemsize() {
            return Ok(None);
        }
        if item.iter().all(|&b| b == 0) {
            return Ok(Some(special(g, SpecialKind::Zeros, has_blocksize)?));
        }
        // The chunk header has one byte for the width of a value.
        let (nbytes, size) = (g.chunk_nbytes(), g.block_nbytes());
        let chunk = || Chunk::special(SpecialKind::Value, item, nbytes, item.len(), size);
        Ok(if item.len() > 255 { None } else { Some(chunk()?) })
    }
}

/// Selected items with their new values.
pub(super) struct ItemUpdate<'a> {
    /// The array before the change.
    pub(super) array: &'a NdArray,
    pub(super) moves: &'a dyn CopyPlan,
    pub(super) items: &'a [u8],
    /// Replaces chunks that are fully selected and not clipped by the edge of the array.
    pub(super) whole: Option<Chunk>,
    pub(super) cparams: CParams,
}

impl ItemUpdate<'_> {
    /// Returns the new chunk for a part.
    pub(super) fn chunk(&self, part: &ChunkPart) -> Result<Chunk, NdError> {
        match &self.whole {
            Some(chunk) if part.whole && !is_cut(self.array, part.nchunk) => Ok(chunk.clone()),
            _ => self.changed(part),
        }
    }

    /// Returns a part's share of the bytes to move, for progress.
    pub(super) fn share(&self, npart: u64) -> u64 {
        let (nbytes, nparts) = (u128::from(self.moves.nbytes()), u128::from(self.moves.nparts()));
        let until = |n: u64| (nbytes * u128::from(n) / nparts) as u64;
        until(npart + 1) - until(npart)
    }

    /// Returns a chunk with some or all of its items changed.
    fn changed(&self, part: &ChunkPart) -> Result<Chunk, NdError> {
        let array = self.array;
        check_memory(array)?;
        let geometry = array.geometry();
        let cparams = &self.cparams.for_chunk(part.nchunk);
        if let Some(chunk) = self.with_changed_blocks(part, cparams)? {
            return Ok(chunk);
        }
        let old = if part.whole { None } else { plain(array, part.nchunk)? };
        let mut chunk = match old {
            Some(old) => old,
            None => memory::zeroed(geometry.chunk_nbytes())?,
        };
        let size = geometry.block_nbytes();
        for &nblock in &part.nblocks {
            self.set_items(part, nblock, &mut chunk[nblock * size..(nblock + 1) * size]);
        }
        Ok(Chunk::compress_bytes(&chunk, cparams)?)
    }

    /// Copies the new items of a block.
    fn set_items(&self, part: &ChunkPart, nblock: usize, block: &mut [u8]) {
        self.moves.visit(part, nblock, &mut |step| {
            if let Some(loops) = step.to_block() {
                loops.copy(self.items, block);
            }
        });
    }

    /// Returns a chunk of which only the blocks with changed items are compressed, if that is possible.
    fn with_changed_blocks(&self, part: &ChunkPart, cparams: &CParams) -> Result<Option<Chunk>, NdError> {
        let array = self.array;
        let size = array.geometry().block_nbytes();
        let frame = array.super_chunk();
        let few = 2 * part.nblocks.len() * size <= array.geometry().chunk_nbytes();
        if part.whole || !few || !matches!(frame.chunk(part.nchunk).entry()?, Entry::Stored(_)) {
            return Ok(None);
        }
        // The other blocks are reused without decoding, so they must be known to be undamaged, because they get a new
        // checksum.
        let frame = frame.for_rewrite();
        let chunk = frame.chunk(part.nchunk).read()?;
        array.check_chunk(part.nchunk, chunk.nbytes())?;
        let lazy = chunk.lazy(frame.dparams())?;
        if !frame.is_verified(part.nchunk) || lazy.blocksize() != size || lazy.needs_block0() {
            return Ok(None);
        }
        let mut decoder = lazy.decoder(frame.dparams())?;
        let mut blocks = memory::list(part.nblocks.len())?;
        for &nblock in &part.nblocks {
            let mut block = memory::zeroed(size)?;
            let stored = chunk.as_bytes().get(lazy.block_extent(nblock)).unwrap_or_default();
            decoder.decode(nblock, stored, None, &mut block)?;
            self.set_items(part, nblock, &mut block);
            blocks.push((nblock, block));
        }
        let blocks: Vec<(usize, &[u8])> =
            blocks.iter().map(|(nblock, block)| (*nblock, &block[..])).collect();
        Ok(chunk.with_blocks(&blocks, cparams, frame.dparams())?)
    }
}

/// Returns whether the array's edge clips a chunk. Items beyond the edge must stay zero.
fn is_cut(array: &NdArray, nchunk: usize) -> bool {
    let g = array.geometry();
    let (_, len) = g.chunk_box(&g.chunk_coords(nchunk as u64));
    len.iter().zip(g.chunkshape()).any(|(&len, &c)| len != u64::from(c))
}

/// Fails if the values are bytes but the array holds numbers of more than one byte.
pub(super) fn check_values(dtype: &Dtype, values: &(impl RegionSource + ?Sized)) -> Result<(), NdError> {
    match values.item_dtype() {
        Some(own)
            if own == Dtype::of::<u8>()
                && dtype.itemsize() != 1
                && matches!(dtype.kind(), DtypeKind::Simple { code: 'i' | 'u' | 'f' | 'c', .. }) =>
        {
            Err(NdError::Element { dtype: dtype.to_string(), asked: u8::NAME })
        }
        _ => Ok(()),
    }
}
