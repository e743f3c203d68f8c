//! Views: checked selections that read from the array on request.

use std::convert::Infallible;
use std::ops::Range;
use std::sync::Arc;

use b2_core::Control;
use b2_core::{OutOfMemory, memory};
use b2_frame::Destination;

use crate::model::byte_order::NativeOrder;
use crate::model::geometry::{coords, dimensions, for_each_position, product, strides};
use crate::read::output::{buffer, check_len};
use crate::read::selected::{SliceRead, begin_read, read_selection, read_to_keep, touched_blocks};
use crate::select::copy_plan::{BoxCopyPlan, CopyPlan, extent};
use crate::select::point_copy_plan::PointCopyPlan;
use crate::select::resolved::{AxisSelection, OutDim, ResolvedSelection, count_set, set_marks};
use crate::select::selection::{IntoSelections, Mark, Selection, selections};
use crate::{Dtype, Element, Field, NdArray, NdError};

/// A checked selection of an array: a lazy view. Reading it reads only the blocks that hold
/// selected items, each once.
///
/// A view can be selected from again, permuted, squeezed, expanded by new axes, and narrowed to one
/// field of structured items. It owns what it needs, so it can be kept or sent to another thread.
///
/// ```
/// use b2nd::{ArrayBuilder, NdArray, range};
///
/// let items: Vec<u8> = (0..60).collect();
/// let frame = ArrayBuilder::new::<u8>([3, 4, 5]).to_bytes(&items[..])?;
/// let array = NdArray::from_bytes(frame)?;
/// // As a[:, 1::2, :].T[2] in NumPy.
/// let view = array.slice((.., range(1..).step(2)))?.transpose().slice(2)?;
/// assert_eq!(view.shape(), [2, 3]);
/// assert_eq!(view.read::<Vec<u8>>()?, [7, 27, 47, 17, 37, 57]);
/// # Ok::<(), b2nd::NdError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Slice {
    array: NdArray,
    chosen: ResolvedSelection,
    /// The range of bytes that is read of each item.
    item: Range<usize>,
    field: Option<Arc<Field>>,
    /// Set if items are converted to the machine's byte order and are stored in the other one.
    native: Option<Arc<NativeOrder>>,
}

impl NdArray {
    /// Selects a part of the array as a lazy view. Missing trailing dimensions are taken whole.
    ///
    /// The selection consists of integers, ranges, lists and masks (see
    /// [`Selection`](crate::Selection)), or is made by the macro `s![]` of the crate `ndarray`
    /// (feature `ndarray`). Each applies to its own dimension: lists select every combination of
    /// their positions, like `oindex` in Zarr or `numpy.ix_` in NumPy. To select single items by
    /// their coordinates, use [`points`](Self::points).
    ///
    /// ```
    /// # use b2nd::{ArrayBuilder, NdArray, range, source};
    /// # let array = NdArray::from_bytes(ArrayBuilder::new::<u8>([8, 9]).to_bytes(source::zeros())?)?;
    /// assert_eq!(array.slice([2..4, 0..5])?.shape(), [2, 5]);
    /// assert_eq!(array.slice((3, range(1..).step(2)))?.shape(), [4]);
    /// assert_eq!(array.slice(([5, 0, 5], [-1]))?.shape(), [3, 1]);
    /// # Ok::<(), b2nd::NdError>(())
    /// ```
    ///
    /// # Errors
    /// [`NdError::Slice`] when there are too many selections, an index is out of range, a step is 0, or a mask does not
    /// have the shape of its dimensions; [`NdError::TooLarge`] when the result would have more than 2^63 bytes.
    pub fn slice(&self, selection: impl IntoSelections) -> Result<Slice, NdError> {
        self.all().slice(selection)
    }

    /// Selects single positions by their coordinates, one list per dimension, like `a[rows,
    /// columns]` in NumPy or `vindex` in Zarr. All lists have the same length, or one position.
    /// They form one dimension of the result.
    ///
    /// Other selections apply to their own dimensions, as in [`slice`](Self::slice). The dimension
    /// of the points is where NumPy puts it: in place of the lists if these are adjacent, otherwise
    /// first. Indices count as lists if there are lists, and a mask counts as the lists of its set
    /// positions.
    ///
    /// ```
    /// # use b2nd::{ArrayBuilder, NdArray, Selection, source};
    /// # let array = NdArray::from_bytes(ArrayBuilder::new::<u8>([3, 4, 5]).to_bytes(source::by_index(|i| i as u8))?)?;
    /// // The items at [2, 0, 4] and [0, -1, 1].
    /// assert_eq!(array.points(([2, 0], [0, -1], [4, 1]))?.read_bytes()?, [44, 16]);
    /// // As a[:, [0, 3], 1] and a[[0, 1], :, [1, 2]] in NumPy.
    /// assert_eq!(array.points((.., [0, 3], 1))?.shape(), [3, 2]);
    /// assert_eq!(array.points(([0, 1, 2], .., [1, 2, 3]))?.shape(), [3, 4]);
    /// // A mask of the last two dimensions.
    /// let marks: Vec<bool> = (0..20).map(|n| n % 7 == 3).collect();
    /// let marked = array.points((-1, Selection::mask_of([4, 5], marks)))?;
    /// assert_eq!(marked.read_bytes()?, [43, 50, 57]);
    /// # Ok::<(), b2nd::NdError>(())
    /// ```
    ///
    /// # Errors
    /// As for [`slice`](Self::slice); [`NdError::Slice`] also when lists differ in length.
    pub fn points(&self, selection: impl IntoSelections) -> Result<Slice, NdError> {
        self.all().points(selection)
    }

    /// Selects the items whose mark is set: `true`, or a byte other than 0. There must be one mark
    /// per item, in C order. The result has one dimension. To mask single dimensions, use
    /// [`Selection`](crate::Selection).
    ///
    /// ```
    /// # use b2nd::{ArrayBuilder, NdArray, source};
    /// # let array = NdArray::from_bytes(ArrayBuilder::new::<u8>([3, 4, 5]).to_bytes(source::by_index(|i| i as u8))?)?;
    /// let thirteens: Vec<bool> = array.all().read::<Vec<u8>>()?.iter().map(|n| n % 13 == 0).collect();
    /// assert_eq!(array.mask(&thirteens)?.read::<Vec<u8>>()?, [0, 13, 26, 39, 52]);
    /// # Ok::<(), b2nd::NdError>(())
    /// ```
    ///
    /// # Errors
    /// [`NdError::Slice`] when the number of marks differs from the number of items, [`NdError::OutOfMemory`].
    pub fn mask<M: Mark>(&self, marks: impl AsRef<[M]>) -> Result<Slice, NdError> {
        self.all().mask(marks)
    }

    /// Selects the whole array.
    pub fn all(&self) -> Slice {
        Slice::whole(self)
    }
}

impl Slice {
    pub(crate) fn whole(array: &NdArray) -> Self {
        Self {
            chosen: ResolvedSelection::whole(array.shape()),
            item: 0..array.itemsize(),
            field: None,
            native: None,
            array: array.clone(),
        }
    }

    /// Returns the array that the view reads from.
    pub fn array(&self) -> &NdArray {
        &self.array
    }

    /// Returns the shape of the result. Dimensions selected by an index are removed; those of a
    /// field's sub-array come last.
    pub fn shape(&self) -> Vec<u64> {
        let mut shape = self.own_shape();
        shape.extend(self.inner_shape().iter().map(|&n| n as u64));
        shape
    }

    /// Returns the number of dimensions of the result.
    pub fn ndim(&self) -> usize {
        self.chosen.out.len() + self.inner_shape().len()
    }

    /// Returns the dtype of the result.
    pub fn dtype(&self) -> &Dtype {
        match &self.native {
            Some(native) => native.dtype(),
            None => self.stored_dtype(),
        }
    }

    /// Returns the dtype of the items as stored.
    fn stored_dtype(&self) -> &Dtype {
        self.field.as_ref().map_or(self.array.dtype(), |field| &field.dtype)
    }

    /// Returns the number of items.
    pub fn len(&self) -> u64 {
        product(self.shape())
    }

    /// Returns whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the size of the result in bytes.
    pub fn nbytes(&self) -> u64 {
        product(self.own_shape()).saturating_mul(self.item.len() as u64)
    }

    /// Returns the strides of a result in C order, in bytes: the layout of
    /// [`read_bytes`](Self::read_bytes).
    pub(crate) fn strides(&self) -> Vec<isize> {
        let mut steps = strides(self.own_shape().iter().map(|&n| n as usize), self.item.len());
        steps.extend(strides(self.inner_shape().iter().copied(), self.stored_dtype().itemsize()));
        steps
    }

    /// Returns the same view with other threads, progress callback or cancellation.
    #[must_use]
    pub fn with_control(self, control: Control) -> Self {
        Self { array: self.array.with_control(control), ..self }
    }

    /// Converts the items to the byte order of this machine when they are read as bytes. Values are
    /// always converted.
    #[must_use]
    pub fn native(self) -> Self {
        let native = NativeOrder::of(self.stored_dtype()).map(Arc::new);
        Self { native, ..self }
    }

    /// Selects a part of this view, like [`NdArray::slice`].
    ///
    /// # Errors
    /// As for [`NdArray::slice`].
    pub fn slice(&self, selection: impl IntoSelections) -> Result<Self, NdError> {
        self.choose(self.chosen.select(&selections(selection))?)
    }

    /// Selects single positions of this view, like [`NdArray::points`].
    ///
    /// # Errors
    /// As for [`NdArray::points`]; [`NdError::Slice`] also for a view of points whose dimension is not among the
    /// selected ones.
    pub fn points(&self, selection: impl IntoSelections) -> Result<Self, NdError> {
        self.choose(self.chosen.select_points(&selections(selection))?)
    }

    /// Selects the items of this view whose mark is set, like [`NdArray::mask`].
    ///
    /// # Errors
    /// As for [`NdArray::mask`].
    pub fn mask<M: Mark>(&self, marks: impl AsRef<[M]>) -> Result<Self, NdError> {
        match &self.own_shape()[..] {
            // A mask applies to at least one dimension.
            [] => self.slice(Selection::NewAxis)?.points(Selection::mask(marks)),
            shape => {
                let set = marks.as_ref();
                let count = count_set(set);
                let few = count.saturating_mul(16) < set.len();
                if few && product(shape.iter().copied()) == set.len() as u64 {
                    // If only few marks are set, listing their positions is faster than copying all
                    // marks.
                    let lists = shape.iter().map(|_| memory::list(count));
                    let mut lists = lists.collect::<Result<Vec<Vec<i64>>, _>>()?;
                    for at in set_marks(set) {
                        let at = coords(at, shape);
                        lists.iter_mut().zip(at).for_each(|(list, at)| list.push(at as i64));
                    }
                    return self.points(lists.into_iter().map(Selection::List).collect::<Vec<_>>());
                }
                self.points(Selection::mask_of(shape, marks))
            }
        }
    }

    /// Checks the size of the result, since repeated positions can make it larger than the array.
    fn choose(&self, chosen: ResolvedSelection) -> Result<Self, NdError> {
        let npoints = chosen.points.as_ref().map(|points| points.len as u64);
        let nitems = product(chosen.along.iter().map(AxisSelection::len).chain(npoints));
        let asked = nitems.saturating_mul(self.array.itemsize() as u64);
        if asked > i64::MAX as u64 {
            return Err(NdError::TooLarge { asked });
        }
        Ok(Self {
            array: self.array.clone(),
            chosen,
            item: self.item.clone(),
            field: self.field.clone(),
            native: self.native.clone(),
        })
    }

    /// Selects a box of this view.
    pub(crate) fn boxed(&self, start: &[u64], shape: &[u64]) -> Result<Self, NdError> {
        let dim = |(&start, &len): (&u64, &u64)| match (i64::try_from(start), i64::try_from(start + len)) {
            (Ok(start), Ok(stop)) => Ok(start..stop),
            _ => Err(NdError::argument("a position is beyond 2^63")),
        };
        self.slice(start.iter().zip(shape).map(dim).collect::<Result<Vec<_>, _>>()?)
    }

    /// Reorders the dimensions: dimension `k` of the result is dimension `axes[k]` of this view.
    /// The dimensions of a field's sub-array stay last.
    ///
    /// # Errors
    /// [`NdError::Slice`] if `axes` is not a permutation of all dimensions.
    pub fn permute(&self, axes: &[usize]) -> Result<Self, NdError> {
        let mut seen = vec![false; self.chosen.out.len()];
        for (dim, &axis) in axes.iter().enumerate() {
            match seen.get_mut(axis) {
                Some(seen) if !*seen => *seen = true,
                _ => {
                    let what = format!("axis {axis} is repeated or out of range");
                    return Err(NdError::Slice { dim, what });
                }
            }
        }
        if axes.len() != self.chosen.out.len() {
            let what = format!("{} axes for {}", axes.len(), dimensions(self.chosen.out.len()));
            return Err(NdError::Slice { dim: axes.len(), what });
        }
        let mut view = self.clone();
        view.chosen.out = axes.iter().map(|&axis| self.chosen.out[axis]).collect();
        Ok(view)
    }

    /// Reverses the order of the dimensions.
    #[must_use]
    pub fn transpose(&self) -> Self {
        let mut view = self.clone();
        view.chosen.out.reverse();
        view
    }

    /// Removes all dimensions of length 1. To remove one of them, [select](Self::slice) its position 0.
    #[must_use]
    pub fn squeeze(&self) -> Self {
        let mut view = self.clone();
        view.chosen.out.retain(|&dim| self.chosen.length(dim) != 1);
        view
    }

    /// Inserts a dimension of length 1 before dimension `axis`, or after the last one.
    ///
    /// # Errors
    /// [`NdError::Slice`] if `axis` is greater than the number of dimensions, or the result would have too many.
    pub fn expand_dims(&self, axis: usize) -> Result<Self, NdError> {
        if axis > self.chosen.out.len() {
            let what = format!("out of range, the view has {}", dimensions(self.chosen.out.len()));
            return Err(NdError::Slice { dim: axis, what });
        }
        let mut selection = vec![Selection::ALL; axis];
        selection.push(Selection::NewAxis);
        self.slice(selection)
    }

    /// Selects one field of structured items. To select a field of a field, call it twice. The
    /// dimensions of a field that is a sub-array come after those of the view.
    ///
    /// ```
    /// # use b2nd::{ArrayBuilder, Dtype, NdArray};
    /// let dtype = Dtype::parse("[('id', '<u2'), ('pos', '|i1', (3,))]")?;
    /// let frame = ArrayBuilder::of_dtype([2], dtype).to_bytes([7u8, 0, 1, 2, 3, 8, 0, 4, 5, 6])?;
    /// let array = NdArray::from_bytes(frame)?;
    /// assert_eq!(array.all().field("id")?.read::<Vec<u16>>()?, [7, 8]);
    /// let positions = array.all().field("pos")?;
    /// assert_eq!(positions.shape(), [2, 3]);
    /// assert_eq!(positions.read::<Vec<i8>>()?, [1, 2, 3, 4, 5, 6]);
    /// # Ok::<(), b2nd::NdError>(())
    /// ```
    ///
    /// # Errors
    /// [`NdError::Field`] if the items have no such field, or this view is of a field that is a sub-array.
    pub fn field(&self, name: &str) -> Result<Self, NdError> {
        let found =
            self.stored_dtype().fields().and_then(|fields| fields.iter().find(|field| field.name == name));
        let (Some(field), true) = (found, self.inner_shape().is_empty()) else {
            return Err(NdError::Field { dtype: self.dtype().to_string(), name: name.to_owned() });
        };
        let start = self.item.start + field.offset;
        let len = field.dtype.itemsize() * field.shape.iter().product::<usize>();
        // `Dtype` guarantees that fields lie inside the item.
        let item = start..(start + len).min(self.item.end).max(start);
        let native = self.native.is_some();
        let view = Self { item, field: Some(Arc::new(field.clone())), ..self.clone() };
        Ok(if native { view.native() } else { view })
    }

    /// Reads the bytes of the items in C order: as stored, or in the machine's byte order after
    /// [`native`](Self::native).
    ///
    /// # Errors
    /// [`NdError::Frame`] if the array cannot be read or does not decode, [`NdError::TooLarge`] if there is not enough
    /// memory, [`NdError::Cancelled`]. As [`detail`](NdError::detail) of [`NdError::Unreadable`] if the array has a name:
    /// [`Damaged`](NdError::Damaged) if a checksum shows which items are damaged, [`ChunkSize`](NdError::ChunkSize),
    /// [`Chunk`](NdError::Chunk), [`Limit`](NdError::Limit).
    pub fn read_bytes(&self) -> Result<Vec<u8>, NdError> {
        self.array.check_result(self.nbytes())?;
        let mut out = buffer(self.nbytes())?;
        self.read_bytes_into(&mut out)?;
        Ok(out)
    }

    /// Reads the bytes of the items in C order into `dst`, which must have exactly [`nbytes`](Self::nbytes) bytes.
    ///
    /// # Errors
    /// [`NdError::BufferLength`] when `dst` has another length, otherwise as for [`read_bytes`](Self::read_bytes).
    /// After an error the content of `dst` is unspecified.
    pub fn read_bytes_into(&self, dst: &mut [u8]) -> Result<(), NdError> {
        self.read_stored(dst)?;
        self.to_native(dst);
        Ok(())
    }

    /// Swaps the byte order of items in C order if the view converts them.
    #[doc(hidden)]
    pub fn to_native(&self, dst: &mut [u8]) {
        if let Some(native) = &self.native {
            native.swap(dst);
        }
    }

    /// Reads the bytes of the items to memory with arbitrary strides.
    ///
    /// `strides` are in bytes, one for each dimension of [`shape`](Self::shape), and may be
    /// negative. `dst` must start at the lowest byte of an item and reach at least to the highest.
    /// Bytes between items are left unchanged.
    ///
    /// ```
    /// # use b2nd::{ArrayBuilder, NdArray, source};
    /// # let array = NdArray::from_bytes(ArrayBuilder::new::<u8>([2, 3]).to_bytes(source::by_index(|i| i as u8))?)?;
    /// // Columns first, each from bottom to top.
    /// let mut dst = [9; 8];
    /// array.all().read_bytes_strided(&mut dst, &[-1, 3])?;
    /// assert_eq!(dst, [3, 0, 9, 4, 1, 9, 5, 2]);
    /// # Ok::<(), b2nd::NdError>(())
    /// ```
    ///
    /// # Errors
    /// [`NdError::Argument`] when items would overlap, when there is not one stride per dimension, or when the items of
    /// a field's sub-array would not be contiguous; [`NdError::BufferLength`] when `dst` is too short; otherwise as for
    /// [`read_bytes`](Self::read_bytes). After an error the content of `dst` is unspecified.
    pub fn read_bytes_strided(&self, dst: &mut [u8], strides: &[isize]) -> Result<(), NdError> {
        let shape = self.shape();
        if strides.len() != shape.len() {
            let what = format!("{} strides for {}", strides.len(), dimensions(shape.len()));
            return Err(NdError::argument(what));
        }
        let (own, inner) = strides.split_at(self.chosen.out.len());
        if self.inner_shape().contains(&0) {
            return Ok(());
        }
        let packed = self.strides();
        let stays = |(&len, (have, need)): (&usize, (&isize, &isize))| len <= 1 || have == need;
        if !self.inner_shape().iter().zip(inner.iter().zip(&packed[own.len()..])).all(stays) {
            return Err(NdError::argument("the items of a field's sub-array must be contiguous"));
        }
        let shape = self.own_shape();
        let (offset, need) = extent(&shape, own, self.item.len()).ok_or_else(|| {
            NdError::argument(format!("strides {strides:?} with shape {shape:?} exceed the address space"))
        })?;
        if dst.len() < need {
            return Err(NdError::BufferLength { have: dst.len(), need });
        }
        let moves = self.moves(offset, own)?;
        if !moves.disjoint() {
            return Err(NdError::argument(format!(
                "items overlap with strides {strides:?} and shape {shape:?}"
            )));
        }
        let dst = &mut dst[..need];
        read_selection(&self.array, moves, &mut *dst)?;
        self.swap_at(dst, offset, own);
        Ok(())
    }

    /// Swaps the byte order of items that were read to memory of any layout.
    fn swap_at(&self, dst: &mut [u8], offset: usize, strides: &[isize]) {
        let Some(native) = &self.native else { return };
        let all: Vec<Range<u64>> = self.own_shape().into_iter().map(|n| 0..n).collect();
        let done: Result<(), Infallible> = for_each_position(&all, |at| {
            let way: isize = at.iter().zip(strides).map(|(&at, &stride)| at as isize * stride).sum();
            let place = offset.wrapping_add_signed(way);
            native.swap(&mut dst[place..place + self.item.len()]);
            Ok(())
        });
        let Ok(()) = done;
    }

    /// Reads the bytes of the items in C order into possibly uninitialised memory, which need not be borrowed, and
    /// returns it as an initialised slice. It must have exactly [`nbytes`](Self::nbytes) bytes.
    ///
    /// ```
    /// # use b2nd::{ArrayBuilder, NdArray, source};
    /// # let array = NdArray::from_bytes(ArrayBuilder::new::<u8>([2, 3]).to_bytes(source::by_index(|i| i as u8))?)?;
    /// let mut memory = Box::new_uninit_slice(6);
    /// assert_eq!(array.all().read_to(&mut memory[..])?, [0, 1, 2, 3, 4, 5]);
    /// # Ok::<(), b2nd::NdError>(())
    /// ```
    ///
    /// # Errors
    /// [`NdError::BufferLength`] when the memory has another length, otherwise as for [`read_bytes`](Self::read_bytes).
    /// After an error it may be uninitialised.
    pub fn read_to<'d>(&self, destination: impl Into<Destination<'d>>) -> Result<&'d mut [u8], NdError> {
        let destination = destination.into();
        check_len(destination.len(), self.nbytes())?;
        let dst = read_selection(&self.array, self.moves(0, &self.strides())?, destination)?;
        if let Some(native) = &self.native {
            native.swap(dst);
        }
        Ok(dst)
    }

    /// Begins to read the stored items in C order into a destination, which must have exactly
    /// [`nbytes`](Self::nbytes) bytes, for a driver of your own that fetches the bytes that the read needs
    /// (docs/explanation/reading.md). Returns `None` if nothing has to be read; the destination is filled then.
    ///
    /// ```
    /// # use b2nd::{ArrayBuilder, NdArray, source};
    /// let file = ArrayBuilder::new::<u8>([20, 30]).to_bytes(source::by_index(|i| i as u8))?;
    /// let array = NdArray::from_bytes(file.clone())?;
    /// let mut items = vec![0; 6];
    /// if let Some(mut read) = array.slice([3..5, 7..10])?.begin(&mut items[..])? {
    ///     while let Some(request) = read.need()? {
    ///         // Requests may also be collected first, and answered in any order.
    ///         let range = request.extent.range.start as usize..request.extent.range.end as usize;
    ///         read.put(request.id, file.slice(range.start..range.end.min(file.len())))?;
    ///     }
    ///     while let Some(job) = read.job() {
    ///         job.run()?; // on any thread
    ///     }
    ///     read.finish()?;
    /// }
    /// assert_eq!(items, [97, 98, 99, 127, 128, 129]);
    /// # Ok::<(), b2nd::NdError>(())
    /// ```
    ///
    /// # Errors
    /// [`NdError::BufferLength`] when the destination has another length, [`NdError::Frame`] when the index is damaged,
    /// [`NdError::Cancelled`], [`NdError::OutOfMemory`].
    pub fn begin<'d>(
        &self,
        destination: impl Into<Destination<'d>>,
    ) -> Result<Option<SliceRead<'d>>, NdError> {
        let destination = destination.into();
        check_len(destination.len(), self.nbytes())?;
        begin_read(&self.array, self.moves(0, &self.strides())?, destination)
    }

    /// Returns which part of the blocks of the first chunk with selected items hold any of them, if it has blocks of
    /// `blocksize` bytes.
    ///
    /// # Errors
    /// [`NdError::Memory`].
    #[doc(hidden)]
    pub fn touched_part(&self, blocksize: usize) -> Result<f64, NdError> {
        let moves = self.moves(0, &self.strides())?;
        if moves.nparts() == 0 {
            return Ok(0.0);
        }
        let geometry = self.array.geometry();
        let nblocks = geometry.chunk_nbytes().div_ceil(blocksize.max(1));
        let blocks =
            |bytes: Range<usize>| bytes.start / blocksize.max(1)..bytes.end.div_ceil(blocksize.max(1));
        let touched = touched_blocks((&*moves, &moves.part(0)?), geometry.block_nbytes(), nblocks, blocks)?;
        Ok(touched.len() as f64 / nblocks.max(1) as f64)
    }

    /// Reads the bytes of all items in C order, as stored.
    pub(crate) fn read_stored(&self, dst: &mut [u8]) -> Result<(), NdError> {
        check_len(dst.len(), self.nbytes())?;
        read_selection(&self.array, self.moves(0, &self.strides())?, dst).map(drop)
    }

    /// Like [`read_bytes_into`](Self::read_bytes_into), for items that will be stored again: always
    /// compares checksums.
    pub(crate) fn read_to_keep(&self, dst: &mut [u8]) -> Result<(), NdError> {
        check_len(dst.len(), self.nbytes())?;
        self.keep_at(dst, 0, &self.strides())
    }

    /// Like [`read_to_keep`](Self::read_to_keep), to memory of any layout. The places must lie
    /// inside `dst`; `strides` are those of the dimensions of the result.
    pub(crate) fn keep_at(&self, dst: &mut [u8], offset: usize, strides: &[isize]) -> Result<(), NdError> {
        read_to_keep(&self.array, self.moves(offset, strides)?, dst)?;
        self.swap_at(dst, offset, strides);
        Ok(())
    }

    /// Returns whether both views are of the same open array, and read the same bytes of each item in the same way.
    pub(crate) fn has_same_items(&self, other: &Self) -> bool {
        let native = self.native.is_some() == other.native.is_some();
        self.array.is_same(&other.array) && self.item == other.item && self.field == other.field && native
    }

    /// Returns whether values of type `T` are stored in the other byte order.
    pub(crate) fn byte_order<T: Element>(&self) -> Result<bool, NdError> {
        crate::model::element::byte_order::<T>(self.stored_dtype())
    }

    /// Returns the size of an item in bytes, including a field's sub-array.
    pub(crate) fn itemsize(&self) -> usize {
        self.item.len()
    }

    /// Returns how the items move to and from a buffer. `strides` are those of the dimensions of
    /// the result.
    ///
    /// # Errors
    /// When there is not enough memory.
    pub(crate) fn moves(
        &self,
        offset: usize,
        out_strides: &[isize],
    ) -> Result<Box<dyn CopyPlan>, OutOfMemory> {
        let ResolvedSelection { along, points, out } = &self.chosen;
        let mut of_array = vec![0; along.len()];
        let mut of_points = 0;
        for (dim, &stride) in out.iter().zip(out_strides) {
            match dim {
                OutDim::Of(of) => of_array[*of] = stride,
                OutDim::Points => of_points = stride,
                OutDim::New(_) => {}
            }
        }
        let empty = out.contains(&OutDim::New(0));
        let item = if empty { 0..0 } else { self.item.clone() };
        let geometry = self.array.shared_geometry();
        Ok(match points {
            None => Box::new(BoxCopyPlan::new(geometry, along.clone(), item, (offset, of_array))?),
            Some(points) => {
                Box::new(PointCopyPlan::new(&geometry, along, points, item, (offset, of_points, of_array))?)
            }
        })
    }

    /// Returns the positions chosen along each dimension of the array, and the dimensions of the
    /// result. Returns `None` for points, and for items that are converted to the machine's byte
    /// order.
    pub(crate) fn dims(&self) -> Option<(&[AxisSelection], &[OutDim])> {
        match &self.chosen {
            ResolvedSelection { along, points: None, out } if self.native.is_none() => Some((along, out)),
            _ => None,
        }
    }

    /// Returns the chosen positions.
    pub(crate) fn resolved(&self) -> &ResolvedSelection {
        &self.chosen
    }

    /// Returns the shape without that of a field's sub-array.
    pub(crate) fn own_shape(&self) -> Vec<u64> {
        self.chosen.shape()
    }

    fn inner_shape(&self) -> &[usize] {
        self.field.as_ref().map_or(&[], |field| &field.shape)
    }
}
