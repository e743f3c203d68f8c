//! Reads items as Rust values.

use b2_core::OutOfMemory;

use crate::model::element::decode;
use crate::read::view::{buffer, check_len};
use crate::{Element, NdError, Slice};

/// A collection of values that [`Slice::read`] can return.
///
/// Implemented for `Vec<T>` and `Box<[T]>` where `T` is an [`Element`], and with feature `ndarray`
/// for its owned arrays.
pub trait FromItems: Sized {
    /// Reads the items of a selection.
    ///
    /// # Errors
    /// As for [`Slice::read`].
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
        read_into(slice, &mut items)?;
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
            let what = format!("the selection has {ndim} dimensions, but an array of {asked} was requested");
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

/// Reads the items of a selection into existing values.
pub(crate) fn read_into<T: Element>(slice: &Slice, dst: &mut [T]) -> Result<(), NdError> {
    let other_order = slice.byte_order::<T>()?;
    check_len(dst.len().saturating_mul(T::ITEMSIZE), slice.nbytes())?;
    if let Some(bytes) = T::as_le_bytes_mut(dst) {
        slice.read_stored(bytes)?;
        if other_order {
            bytes.chunks_exact_mut(T::WORD).for_each(<[u8]>::reverse);
        }
        return Ok(());
    }
    let mut bytes = stored(slice)?;
    dst.copy_from_slice(&decode(&mut bytes, T::ITEMSIZE, other_order)?);
    Ok(())
}

/// Reads the items of a selection as stored bytes.
fn stored(slice: &Slice) -> Result<Vec<u8>, NdError> {
    let mut bytes = buffer(slice.nbytes())?;
    slice.read_stored(&mut bytes)?;
    Ok(bytes)
}
