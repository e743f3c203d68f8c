//! Views: checked selections that read from the array on request.

use std::convert::Infallible;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::Arc;

use b2_core::Control;
use b2_core::memory::{self, OutOfMemory};
use b2_frame::Destination;

use crate::model::geometry::{coords, for_each_position, product, strides};
use crate::model::swap::Native;
use crate::read::items::FromItems;
use crate::read::selected::{read_selection, read_to_keep};
use crate::select::along::{Along, Chosen, OutDim, count_set, set_marks};
use crate::select::moves::{BoxMoves, Moves, extent};
use crate::select::points::PointMoves;
use crate::select::slice::{IntoSelections, Mark, Selection};
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
    chosen: Chosen,
    /// The range of bytes that is read of each item.
    item: Range<usize>,
    field: Option<Arc<Field>>,
    /// Set if items are converted to the machine's byte order and are stored in the other one.
    native: Option<Arc<Native>>,
}

impl Slice {
    pub(crate) fn whole(array: &NdArray) -> Self {
        Self {
            chosen: Chosen::whole(array.shape()),
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

    /// Returns the shape of the result. Dimensions selected by an index are gone; those of a
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
        let native = Native::of(self.stored_dtype()).map(Arc::new);
        Self { native, ..self }
    }

    /// Selects a part of this view, like [`NdArray::slice`].
    ///
    /// # Errors
    /// As for [`NdArray::slice`].
    pub fn slice(&self, selection: impl IntoSelections) -> Result<Self, NdError> {
        self.choose(self.chosen.select(&selection.into_selections())?)
    }

    /// Selects single positions of this view, like [`NdArray::points`].
    ///
    /// # Errors
    /// As for [`NdArray::points`], and for a view of points whose dimension is not among the
    /// selected ones.
    pub fn points(&self, selection: impl IntoSelections) -> Result<Self, NdError> {
        self.choose(self.chosen.select_points(&selection.into_selections())?)
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
    fn choose(&self, chosen: Chosen) -> Result<Self, NdError> {
        let npoints = chosen.points.as_ref().map(|points| points.len as u64);
        let nitems = product(chosen.along.iter().map(Along::len).chain(npoints));
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
    /// When `axes` is not a permutation of all dimensions.
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
            let what = format!("{} axes for {} dimensions", axes.len(), self.chosen.out.len());
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

    /// Removes all dimensions of length 1.
    #[must_use]
    pub fn squeeze(&self) -> Self {
        let mut view = self.clone();
        view.chosen.out.retain(|&dim| self.chosen.length(dim) != 1);
        view
    }

    /// Removes dimension `axis`, which must have length 1.
    ///
    /// # Errors
    /// When the dimension does not exist, or its length is not 1.
    pub fn squeeze_axis(&self, axis: usize) -> Result<Self, NdError> {
        let fail = |what: String| Err(NdError::Slice { dim: axis, what });
        match self.chosen.out.get(axis).map(|&dim| self.chosen.length(dim)) {
            None => fail(format!("out of range, the view has {} dimensions", self.chosen.out.len())),
            Some(1) => {
                let mut view = self.clone();
                view.chosen.out.remove(axis);
                Ok(view)
            }
            Some(length) => fail(format!("cannot be removed, its length is {length}")),
        }
    }

    /// Inserts a dimension of length 1 before dimension `axis`, or after the last one.
    ///
    /// # Errors
    /// When `axis` is greater than the number of dimensions, or the result would have too many.
    pub fn expand_dims(&self, axis: usize) -> Result<Self, NdError> {
        if axis > self.chosen.out.len() {
            let what = format!("out of range, the view has {} dimensions", self.chosen.out.len());
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
    /// let frame = ArrayBuilder::with_dtype([2], dtype).to_bytes([7u8, 0, 1, 2, 3, 8, 0, 4, 5, 6])?;
    /// let array = NdArray::from_bytes(frame)?;
    /// assert_eq!(array.all().field("id")?.read::<Vec<u16>>()?, [7, 8]);
    /// let positions = array.all().field("pos")?;
    /// assert_eq!(positions.shape(), [2, 3]);
    /// assert_eq!(positions.read::<Vec<i8>>()?, [1, 2, 3, 4, 5, 6]);
    /// # Ok::<(), b2nd::NdError>(())
    /// ```
    ///
    /// # Errors
    /// When the items have no such field, or this view is of a field that is a sub-array.
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

    /// Reads the items in C order as Rust values: into a `Vec<T>`, a boxed slice, or with feature
    /// `ndarray` an array of fixed or dynamic dimension. Big-endian items are converted.
    ///
    /// ```
    /// # use b2nd::{ArrayBuilder, ByIndex, NdArray};
    /// # let array = NdArray::from_bytes(ArrayBuilder::new::<f32>([4, 3]).to_bytes(ByIndex(|i| i as f32))?)?;
    /// let row: Vec<f32> = array.slice(1)?.read()?;
    /// assert_eq!(row, [3.0, 4.0, 5.0]);
    /// # Ok::<(), b2nd::NdError>(())
    /// ```
    ///
    /// # Errors
    /// When the items have another dtype ([`NdError::Element`]), when the result has another number
    /// of dimensions than requested ([`NdError::Argument`]), when reading or decoding fails, or
    /// when there is not enough memory.
    pub fn read<R: FromItems>(&self) -> Result<R, NdError> {
        R::from_items(self)
    }

    /// Reads the items in C order as Rust values into `dst`, which must have exactly
    /// [`len`](Self::len) items.
    ///
    /// # Errors
    /// As for [`read`](Self::read), and when `dst` has another length. After an error the content
    /// of `dst` is unspecified.
    pub fn read_into<T: Element>(&self, dst: &mut [T]) -> Result<(), NdError> {
        crate::read::items::read_into(self, dst)
    }

    /// Reads the bytes of the items in C order: as stored, or in the machine's byte order after
    /// [`native`](Self::native).
    ///
    /// # Errors
    /// When reading or decoding fails, or there is not enough memory.
    pub fn read_bytes(&self) -> Result<Vec<u8>, NdError> {
        self.array.check_result(self.nbytes())?;
        let mut out = buffer(self.nbytes())?;
        self.read_bytes_into(&mut out)?;
        Ok(out)
    }

    /// Reads the bytes of the items in C order into `dst`, which must have exactly [`nbytes`](Self::nbytes) bytes.
    ///
    /// # Errors
    /// As for [`read_bytes`](Self::read_bytes), and when `dst` has another length. After an error
    /// the content of `dst` is unspecified.
    pub fn read_bytes_into(&self, dst: &mut [u8]) -> Result<(), NdError> {
        self.read_stored(dst)?;
        self.to_native(dst);
        Ok(())
    }

    /// Swaps the byte order of items in C order if the view converts them.
    pub(crate) fn to_native(&self, dst: &mut [u8]) {
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
    /// # use b2nd::{ArrayBuilder, ByIndex, NdArray};
    /// # let array = NdArray::from_bytes(ArrayBuilder::new::<u8>([2, 3]).to_bytes(ByIndex(|i| i as u8))?)?;
    /// // Columns first, each from bottom to top.
    /// let mut dst = [9; 8];
    /// array.all().read_bytes_strided(&mut dst, &[-1, 3])?;
    /// assert_eq!(dst, [3, 0, 9, 4, 1, 9, 5, 2]);
    /// # Ok::<(), b2nd::NdError>(())
    /// ```
    ///
    /// # Errors
    /// When items would overlap, `dst` is too short, or the items of a field's sub-array would not
    /// be contiguous; otherwise as for [`read_bytes`](Self::read_bytes). After an error the content
    /// of `dst` is unspecified.
    pub fn read_bytes_strided(&self, dst: &mut [u8], strides: &[isize]) -> Result<(), NdError> {
        let shape = self.shape();
        if strides.len() != shape.len() {
            let what = format!("{} strides for {} dimensions", strides.len(), shape.len());
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

    /// Reads the bytes of the items in C order into possibly uninitialised memory, and returns that
    /// memory as an initialised slice. `dst` must have exactly [`nbytes`](Self::nbytes) bytes.
    ///
    /// ```
    /// # use b2nd::{ArrayBuilder, ByIndex, NdArray};
    /// # let array = NdArray::from_bytes(ArrayBuilder::new::<u8>([2, 3]).to_bytes(ByIndex(|i| i as u8))?)?;
    /// let mut memory = Box::new_uninit_slice(6);
    /// assert_eq!(array.all().read_uninit(&mut memory)?, [0, 1, 2, 3, 4, 5]);
    /// # Ok::<(), b2nd::NdError>(())
    /// ```
    ///
    /// # Errors
    /// As for [`read_bytes`](Self::read_bytes), and when `dst` has another length. After an error
    /// `dst` may be uninitialised.
    pub fn read_uninit<'d>(&self, dst: &'d mut [MaybeUninit<u8>]) -> Result<&'d mut [u8], NdError> {
        self.read_to(dst)
    }

    /// Like [`read_uninit`](Self::read_uninit), for memory that need not be borrowed.
    ///
    /// # Errors
    /// As for [`read_uninit`](Self::read_uninit).
    #[doc(hidden)]
    pub fn read_to<'d>(&self, destination: impl Into<Destination<'d>>) -> Result<&'d mut [u8], NdError> {
        let destination = destination.into();
        check_len(destination.len(), self.nbytes())?;
        let dst = read_selection(&self.array, self.moves(0, &self.strides())?, destination)?;
        if let Some(native) = &self.native {
            native.swap(dst);
        }
        Ok(dst)
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
    pub(crate) fn moves(&self, offset: usize, out_strides: &[isize]) -> Result<Box<dyn Moves>, OutOfMemory> {
        let Chosen { along, points, out } = &self.chosen;
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
            None => Box::new(BoxMoves::new(geometry, along.clone(), item, (offset, of_array))?),
            Some(points) => {
                Box::new(PointMoves::new(&geometry, along, points, item, (offset, of_points, of_array))?)
            }
        })
    }

    /// Returns the positions chosen along each dimension of the array, and the dimensions of the
    /// result. Returns `None` for points, and for items that are converted to the machine's byte
    /// order.
    pub(crate) fn dims(&self) -> Option<(&[Along], &[OutDim])> {
        match &self.chosen {
            Chosen { along, points: None, out } if self.native.is_none() => Some((along, out)),
            _ => None,
        }
    }

    /// Returns the chosen positions.
    pub(crate) fn chosen(&self) -> &Chosen {
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

/// Allocates a zeroed buffer. Running out of memory is an error, not an abort.
pub(crate) fn buffer(nbytes: u64) -> Result<Vec<u8>, NdError> {
    let too_large = || NdError::TooLarge { asked: nbytes };
    let len = usize::try_from(nbytes).map_err(|_| too_large())?;
    memory::zeroed(len).map_err(|_| too_large())
}

pub(crate) fn check_len(have: usize, need: u64) -> Result<(), NdError> {
    match have as u64 == need {
        true => Ok(()),
        false => Err(NdError::BufferLength { have, need: usize::try_from(need).unwrap_or(usize::MAX) }),
    }
}
