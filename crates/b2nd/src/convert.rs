//! To and from `ndarray` (feature `ndarray`).

use ndarray::{ArrayBase, ArrayD, Data, Dimension, IxDyn};

use crate::element::encode;
use crate::write::ArrayBuilder;
use crate::{Dtype, Element, Geometry, NdError, RegionSource, Slice};

impl Slice<'_> {
    /// Reads the items into an `ndarray` array.
    ///
    /// ```
    /// use b2nd::{ArrayBuilder, NdArray};
    /// use ndarray::array;
    ///
    /// let source = array![[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]];
    /// let frame = ArrayBuilder::for_ndarray(&source)?.to_memory(&mut b2nd::FromNdarray::new(&source))?;
    /// let array = NdArray::from_bytes(frame)?;
    /// assert_eq!(array.all().to_ndarray::<f32>()?, source.into_dyn());
    /// # Ok::<(), b2nd::NdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`to_vec`](Self::to_vec).
    pub fn to_ndarray<T: Element>(&self) -> Result<ArrayD<T>, NdError> {
        let items = self.to_vec()?;
        // The items fit in memory, so lengths fit a usize.
        let shape: Vec<usize> = self.shape().iter().map(|&n| n as usize).collect();
        ArrayD::from_shape_vec(IxDyn(&shape), items).map_err(|e| NdError::Geometry { what: e.to_string() })
    }
}

impl ArrayBuilder {
    /// A new array with the shape and element type of an `ndarray` array.
    ///
    /// # Errors
    /// None today; the element's dtype string is checked.
    pub fn for_ndarray<T: Element, S: Data<Elem = T>, D: Dimension>(
        array: &ArrayBase<S, D>,
    ) -> Result<Self, NdError> {
        let shape: Vec<u64> = array.shape().iter().map(|&n| n as u64).collect();
        Ok(Self::new(shape, Dtype::parse(T::DTYPE)?))
    }
}

/// Items of an `ndarray` array of any memory layout, as the source of a new one.
#[derive(Debug)]
pub struct FromNdarray<'a, T> {
    view: ndarray::ArrayViewD<'a, T>,
}

impl<'a, T: Element> FromNdarray<'a, T> {
    /// Takes the items of `array`.
    pub fn new<S: Data<Elem = T>, D: Dimension>(array: &'a ArrayBase<S, D>) -> Self {
        Self { view: array.view().into_dyn() }
    }
}

impl<T: Element> RegionSource for FromNdarray<'_, T> {
    fn read_region(
        &mut self,
        geometry: &Geometry,
        start: &[u64],
        shape: &[u64],
        dst: &mut [u8],
    ) -> std::io::Result<()> {
        let same = self.view.shape().iter().map(|&n| n as u64).eq(geometry.shape().iter().copied());
        if !same {
            return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, "the arrays differ in shape"));
        }
        let part = self.view.slice_each_axis(|axis| {
            let dim = axis.axis.index();
            ndarray::Slice::from(start[dim] as usize..(start[dim] + shape[dim]) as usize)
        });
        encode(part.iter().copied(), geometry.itemsize(), dst);
        Ok(())
    }
}
