//! NumPy's `.npy` files: header, dtypes, and reading boxes out of them.

pub(crate) mod descr;
pub(crate) mod header;
pub(crate) mod source;
mod transpose;

pub(crate) use header::{MAGIC, NpyHeader, header_bytes, nbytes};
pub(crate) use source::RawSource;

use b2kit::{Dtype, NdArray};

/// The dtype to show an array with. Texts that mean a dtype without being NumPy's own way of writing it are
/// understood, too.
pub(crate) fn shown_dtype(array: &NdArray) -> Dtype {
    match Dtype::parse(array.dtype().as_str()) {
        Ok(dtype) if dtype.itemsize() == array.itemsize() => dtype,
        _ => array.dtype().clone(),
    }
}
