//! Views: checked selections that read through to the array.

use std::ops::Range;

use b2_chunk::memory::{self, OutOfMemory};

use crate::geometry::{product, strides};
use crate::moves::{BoxMoves, Moves};
use crate::read::{read_moves, read_to_keep};
use crate::select::{Along, OutDim, select};
use crate::uniform::Uniform;
use crate::{Dtype, Element, Field, NdArray, NdError, Select};

/// A checked selection of an array, a lazy view; reading is what costs, and only reads the blocks that hold
/// selected items.
///
/// Views of views are views too: select again, permute dimensions, add and remove those of length 1, take one
/// field of structured items.
///
/// ```
/// use b2nd::{ArrayBuilder, Dtype, NdArray, SliceDim};
///
/// let items: Vec<u8> = (0..60).collect();
/// let frame = ArrayBuilder::new([3, 4, 5], Dtype::parse("|u1")?).to_memory(&mut &items[..])?;
/// let array = NdArray::from_bytes(frame)?;
/// // As a[:, 1::2, :].T[2] in NumPy.
/// let view = array.slice([(..).into(), SliceDim::range(1..).step_by(2)])?.transpose().slice([2])?;
/// assert_eq!(view.shape(), [2, 3]);
/// assert_eq!(view.read()?, [7, 27, 47, 17, 37, 57]);
/// # Ok::<(), b2nd::NdError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Slice<'a> {
    array: &'a NdArray,
    /// Which positions, for each dimension of the array.
    along: Vec<Along>,
    /// Dimensions of the result.
    out: Vec<OutDim>,
    /// Which bytes of an item.
    item: Range<usize>,
    field: Option<&'a Field>,
}

impl<'a> Slice<'a> {
    pub(crate) fn whole(array: &'a NdArray) -> Self {
        Self {
            array,
            along: array.shape().iter().map(|&length| Along::whole(length)).collect(),
            out: (0..array.shape().len()).map(OutDim::Of).collect(),
            item: 0..array.itemsize(),
            field: None,
        }
    }

    /// The array it reads from.
    pub fn array(&self) -> &'a NdArray {
        self.array
    }

    /// Shape of the result: dimensions selected by an index are gone, those of a field's sub-array come last.
    pub fn shape(&self) -> Vec<u64> {
        let mut shape = self.own_shape();
        shape.extend(self.inner_shape().iter().map(|&n| n as u64));
        shape
    }

    /// Type of the items of the result.
    pub fn dtype(&self) -> &'a Dtype {
        self.field.map_or(self.array.dtype(), |field| &field.dtype)
    }

    /// Number of items.
    pub fn nitems(&self) -> u64 {
        product(self.shape())
    }

    /// Size of the result in bytes.
    pub fn nbytes(&self) -> u64 {
        product(self.own_shape()).saturating_mul(self.item.len() as u64)
    }

    /// Selects a part of this view, as [`NdArray::slice`].
    ///
    /// # Errors
    /// As [`NdArray::slice`].
    pub fn slice<D: Clone + Into<Select>>(&self, selection: impl AsRef<[D]>) -> Result<Self, NdError> {
        let selection: Vec<Select> = selection.as_ref().iter().cloned().map(Into::into).collect();
        let mut view = self.clone();
        view.out = select(&mut view.along, &self.out, &selection)?;
        view.check_size()?;
        Ok(view)
    }

    /// Selects a box of this view.
    pub(crate) fn boxed(&self, start: &[u64], shape: &[u64]) -> Result<Self, NdError> {
        let dim = |(&start, &len): (&u64, &u64)| match (i64::try_from(start), i64::try_from(start + len)) {
            (Ok(start), Ok(stop)) => Ok(start..stop),
            _ => Err(NdError::geometry("a position is beyond 2^63")),
        };
        self.slice(start.iter().zip(shape).map(dim).collect::<Result<Vec<_>, _>>()?)
    }

    /// Puts the dimensions in another order: dimension `k` of the result is dimension `axes[k]` of this view.
    /// The dimensions of a field's sub-array stay last.
    ///
    /// # Errors
    /// When `axes` does not name each dimension once.
    pub fn permute(&self, axes: &[usize]) -> Result<Self, NdError> {
        let mut seen = vec![false; self.out.len()];
        for (dim, &axis) in axes.iter().enumerate() {
            match seen.get_mut(axis) {
                Some(seen) if !*seen => *seen = true,
                _ => return Err(NdError::Slice { dim, what: format!("no dimension {axis}, or it twice") }),
            }
        }
        if axes.len() != self.out.len() {
            let what = format!("{} axes for {} dimensions", axes.len(), self.out.len());
            return Err(NdError::Slice { dim: axes.len(), what });
        }
        let out = axes.iter().map(|&axis| self.out[axis]).collect();
        Ok(Self { out, ..self.clone() })
    }

    /// Reverses the order of the dimensions.
    pub fn transpose(&self) -> Self {
        let mut view = self.clone();
        view.out.reverse();
        view
    }

    /// Removes all dimensions of length 1.
    pub fn squeeze(&self) -> Self {
        let mut view = self.clone();
        view.out.retain(|&dim| self.length(dim) != 1);
        view
    }

    /// Removes dimension `axis`, which must have length 1.
    ///
    /// # Errors
    /// When there is no such dimension, or its length is not 1.
    pub fn squeeze_axis(&self, axis: usize) -> Result<Self, NdError> {
        let fail = |what: String| Err(NdError::Slice { dim: axis, what });
        match self.out.get(axis) {
            None => fail(format!("there are {} dimensions", self.out.len())),
            Some(&dim) if self.length(dim) != 1 => fail(format!("has length {}", self.length(dim))),
            Some(_) => {
                let mut view = self.clone();
                view.out.remove(axis);
                Ok(view)
            }
        }
    }

    /// Adds a dimension of length 1 before dimension `axis`, or behind the last one.
    ///
    /// # Errors
    /// When `axis` is beyond that, or there would be too many dimensions.
    pub fn expand_dims(&self, axis: usize) -> Result<Self, NdError> {
        if axis > self.out.len() {
            let what = format!("there are {} dimensions", self.out.len());
            return Err(NdError::Slice { dim: axis, what });
        }
        let mut selection = vec![Select::from(..); axis];
        selection.push(Select::NewAxis);
        self.slice(selection)
    }

    /// Takes one field of structured items. For a field of a field call it twice. The shape of a field that
    /// is a sub-array comes behind the dimensions of the view.
    ///
    /// ```
    /// # use b2nd::{ArrayBuilder, Dtype, NdArray};
    /// let dtype = Dtype::parse("[('id', '<u2'), ('pos', '|i1', (3,))]")?;
    /// let frame = ArrayBuilder::new([2], dtype).to_memory(&mut &[7, 0, 1, 2, 3, 8, 0, 4, 5, 6][..])?;
    /// let array = NdArray::from_bytes(frame)?;
    /// assert_eq!(array.all().field("id")?.to_vec::<u16>()?, [7, 8]);
    /// let positions = array.all().field("pos")?;
    /// assert_eq!(positions.shape(), [2, 3]);
    /// assert_eq!(positions.to_vec::<i8>()?, [1, 2, 3, 4, 5, 6]);
    /// # Ok::<(), b2nd::NdError>(())
    /// ```
    ///
    /// # Errors
    /// When items have no such field, or this view is of a field that is a sub-array.
    pub fn field(&self, name: &str) -> Result<Self, NdError> {
        let found = self.dtype().fields().and_then(|fields| fields.iter().find(|field| field.name == name));
        let (Some(field), true) = (found, self.inner_shape().is_empty()) else {
            return Err(NdError::Field { dtype: self.dtype().to_string(), name: name.to_owned() });
        };
        let start = self.item.start + field.offset;
        let len = field.dtype.itemsize() * field.shape.iter().product::<usize>();
        // The dtype was checked to hold its fields, and its size to be the item's.
        let item = start..(start + len).min(self.item.end).max(start);
        Ok(Self { item, field: Some(field), ..self.clone() })
    }

    /// Reads the items, as stored, in C order.
    ///
    /// # Errors
    /// When reading or decoding fails, or there is not enough memory.
    pub fn read(&self) -> Result<Vec<u8>, NdError> {
        self.array.check_result(self.nbytes())?;
        let mut out = buffer(self.nbytes())?;
        self.read_into(&mut out)?;
        Ok(out)
    }

    /// Reads the items into `dst`, which must have exactly [`nbytes`](Self::nbytes) bytes. Chunks are
    /// decoded in parallel on the current rayon pool (feature `rayon`).
    ///
    /// # Errors
    /// As [`read`](Self::read). The content of `dst` is unspecified then.
    pub fn read_into(&self, dst: &mut [u8]) -> Result<(), NdError> {
        self.read_by(dst, read_moves)
    }

    /// The same for items that will be stored again.
    pub(crate) fn read_to_keep(&self, dst: &mut [u8]) -> Result<(), NdError> {
        self.read_by(dst, read_to_keep)
    }

    fn read_by(
        &self,
        dst: &mut [u8],
        read: fn(&NdArray, &dyn Moves, &mut [u8]) -> Result<(), NdError>,
    ) -> Result<(), NdError> {
        check_len(dst.len(), self.nbytes())?;
        if let Some(item) = Uniform::of_all(self.array)? {
            item.fill(&self.item, dst);
            return Ok(());
        }
        read(self.array, &self.moves(0, &self.strides())?, dst)
    }

    /// Reads the items as Rust values, in C order.
    ///
    /// # Errors
    /// [`NdError::Element`] when the items have another dtype, else as [`read`](Self::read).
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>, NdError> {
        let big_endian = crate::element::byte_order::<T>(self.dtype())?;
        let mut bytes = self.read()?;
        Ok(crate::element::decode(&mut bytes, self.dtype().itemsize(), big_endian))
    }

    /// Size of an item in bytes, sub-array included.
    pub(crate) fn itemsize(&self) -> usize {
        self.item.len()
    }

    /// Distance between neighbours in C order along each dimension of the result, in bytes. A sub-array is
    /// part of the item.
    pub(crate) fn strides(&self) -> Vec<isize> {
        strides(self.own_shape().iter().map(|&n| n as usize), self.item.len())
    }

    /// How the items move to and from a buffer. `strides` are for the dimensions of the result.
    ///
    /// # Errors
    /// When there is not enough memory.
    pub(crate) fn moves(&self, offset: usize, out_strides: &[isize]) -> Result<BoxMoves<'_>, OutOfMemory> {
        let mut of_array = vec![0; self.along.len()];
        for (dim, &stride) in self.out.iter().zip(out_strides) {
            if let OutDim::Of(of) = dim {
                of_array[*of] = stride;
            }
        }
        let empty = self.out.contains(&OutDim::New(0));
        let item = if empty { 0..0 } else { self.item.clone() };
        BoxMoves::new(self.array.geometry(), &self.along, item, (offset, of_array))
    }

    /// What is chosen along the dimensions of the array, and where they are in the result.
    pub(crate) fn dims(&self) -> (&[Along], &[OutDim]) {
        (&self.along, &self.out)
    }

    /// Shape without that of a field's sub-array.
    pub(crate) fn own_shape(&self) -> Vec<u64> {
        self.out.iter().map(|&dim| self.length(dim)).collect()
    }

    fn inner_shape(&self) -> &[usize] {
        self.field.map_or(&[], |field| &field.shape)
    }

    fn length(&self, dim: OutDim) -> u64 {
        match dim {
            OutDim::Of(of) => self.along[of].len(),
            OutDim::New(length) => length,
        }
    }

    /// Repeated positions can make a result larger than its array.
    fn check_size(&self) -> Result<(), NdError> {
        let nitems = product(self.along.iter().map(Along::len));
        let nbytes = nitems.saturating_mul(self.array.itemsize() as u64);
        if nbytes > i64::MAX as u64 { Err(NdError::TooLarge { asked: nbytes }) } else { Ok(()) }
    }
}

/// A zeroed buffer; running out of memory is an error, not an abort.
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
