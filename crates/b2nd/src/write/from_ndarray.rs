//! Makes `ndarray` arrays sources of items (feature `ndarray`).

use std::io;

use ndarray::{ArrayBase, Axis, Data, Dimension};

use crate::write::source::{Amount, Region, RegionSource, StridedItems, encode, invalid, lend};
use crate::{Dtype, Element};

/// Reads the items of an `ndarray` array of any memory layout.
///
/// ```
/// use b2nd::NdArray;
/// use ndarray::{Array2, array};
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("a.b2nd");
/// let source = array![[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]];
/// NdArray::write(&path, &source)?;
/// let back: Array2<f32> = NdArray::open(&path)?.all().read()?;
/// assert_eq!(back, source);
/// # Ok::<(), b2nd::NdError>(())
/// ```
impl<T: Element, S: Data<Elem = T>, D: Dimension> RegionSource for &ArrayBase<S, D> {
    fn read_region(&mut self, region: &Region<'_>, dst: &mut [u8]) -> io::Result<()> {
        if !self.shape().iter().map(|&n| n as u64).eq(region.whole().iter().copied()) {
            return invalid(format!(
                "the source has shape {:?}, the array {:?}",
                self.shape(),
                region.whole()
            ));
        }
        let mut part = self.view().into_dyn();
        for (axis, (&start, &len)) in region.start().iter().zip(region.shape()).enumerate() {
            part.slice_axis_inplace(Axis(axis), (start as usize..(start + len) as usize).into());
        }
        encode(part.iter().copied(), region.dtype(), dst).map_err(io::Error::other)
    }

    fn lend_region(&self, region: &Region<'_>) -> Option<StridedItems<'_>> {
        // Only arrays in C order are a slice of values.
        if !self.shape().iter().map(|&n| n as u64).eq(region.whole().iter().copied()) {
            return None;
        }
        lend(self.as_slice()?, region)
    }

    fn amount(&self) -> Amount {
        Amount::Shape(self.shape().iter().map(|&n| n as u64).collect())
    }

    fn item_dtype(&self) -> Option<Dtype> {
        Some(Dtype::of::<T>())
    }
}
