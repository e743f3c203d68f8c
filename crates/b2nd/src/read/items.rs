//! Reads items as Rust values.

use b2_core::OutOfMemory;

use crate::model::element::decode;
use crate::read::output::{buffer, check_len};
use crate::{Element, NdError, Slice};

impl Slice {
    /// Reads the items in C order as Rust values: into a `Vec<T>`, a boxed slice, or with feature
    /// `ndarray` an array of fixed or dynamic dimension. Big-endian items are converted.
    ///
    /// ```
    /// # use b2nd::{ArrayBuilder, NdArray, source};
    /// # let array = NdArray::from_bytes(ArrayBuilder::new::<f32>([4, 3]).to_bytes(source::by_index(|i| i as f32))?)?;
    /// let row: Vec<f32> = array.slice(1)?.read()?;
    /// assert_eq!(row, [3.0, 4.0, 5.0]);
    /// # Ok::<(), b2nd::NdError>(())
    /// ```
    ///
    /// # Errors
    /// [`NdError::Element`] when the items have another dtype, [`NdError::Argument`] when the result has another number
    /// of dimensions than requested, otherwise as for [`read_bytes`](Self::read_bytes).
    pub fn read<R: FromItems>(&self) -> Result<R, NdError> {
        R::from_items(self)
    }

    /// Reads the items in C order as Rust values into `dst`, which must have exactly
    /// [`len`](Self::len) items.
    ///
    /// # Errors
    /// [`NdError::BufferLength`] when `dst` has another length, otherwise as for [`read`](Self::read). After an error
    /// the content of `dst` is unspecified.
    pub fn read_into<T: Element>(&self, dst: &mut [T]) -> Result<(), NdError> {
        let other_order = self.byte_order::<T>()?;
        check_len(dst.len().saturating_mul(T::ITEMSIZE), self.nbytes())?;
        if let Some(bytes) = T::as_le_bytes_mut(dst) {
            self.read_stored(bytes)?;
            if other_order {
                bytes.chunks_exact_mut(T::WORD).for_each(<[u8]>::reverse);
            }
            return Ok(());
        }
        let mut bytes = stored(self)?;
        dst.copy_from_slice(&decode(&mut bytes, T::ITEMSIZE, other_order)?);
        Ok(())
    }
}

/// A collection of values that [`Slice::read`] can return.
///
/// Implemented for `Vec<T>` and `Box<[T]>` where `T` is an [`Element`], and with feature `ndarray`
/// for its owned arrays.
pub trait FromItems: Sized {
    /// Reads the items of a selection.
    ///
    /// # Errors
    /// As for [`Slice::read`]; [`NdError::Argument`] when the items do not fit the collection.
    fn from_items(slice: &Slice) -> Result<Self, NdError>;
}

impl<T: Element> FromItems for Vec<T> {
    fn from_items(slice: &Slice) -> Result<Self, NdError> {
        let other_order = slice.byte_order::<T>()?;
        let nbytes = slice.nbytes();
        slice.array().check_result(nbytes)?;
        let too_large = |_: OutOfMemory| NdError::TooLarge { asked: nbytes };
        if T::as_le_bytes_mut(&mut []).is_none() {
            let mut bytes = stored(slice)?;
            return decode(&mut bytes, T::ITEMSIZE, other_order).map_err(too_large);
        }
        let len = usize::try_from(slice.len()).unwrap_or(usize::MAX);
        let mut items = T::zeroed(len).map_err(too_large)?;
        slice.read_into(&mut items)?;
        Ok(items)
    }
}

impl<T: Element> FromItems for Box<[T]> {
    fn from_items(slice: &Slice) -> Result<Self, NdError> {
        Vec::from_items(slice).map(Vec::into_boxed_slice)
    }
}

#[cfg(feature = "ndarray")]
impl<T: Element, D: ndarray::Dimension> FromItems for ndarray::Array<T, D> {
    fn from_items(slice: &Slice) -> Result<Self, NdError> {
        let ndim = slice.ndim();
        if let Some(asked) = D::NDIM.filter(|asked| *asked != ndim) {
            let what = format!(
                "the selection has {}, but an array of {asked} was requested",
                crate::model::geometry::dimensions(ndim)
            );
            return Err(NdError::argument(what));
        }
        let items = Vec::from_items(slice)?;
        // The items fit in memory, so every length fits `usize`.
        let shape: Vec<usize> = slice.shape().iter().map(|&n| n as usize).collect();
        ndarray::ArrayD::from_shape_vec(shape, items)
            .and_then(ndarray::ArrayBase::into_dimensionality)
            .map_err(|error| NdError::argument(error.to_string()))
    }
}

/// Reads the items of a selection as stored bytes.
fn stored(slice: &Slice) -> Result<Vec<u8>, NdError> {
    let mut bytes = buffer(slice.nbytes())?;
    slice.read_stored(&mut bytes)?;
    Ok(bytes)
}
