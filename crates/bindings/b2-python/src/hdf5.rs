//! The filters of HDF5, for the copies of HDF5 in this process.

use std::ptr::from_ref;

use b2_hdf5_plugin::ffi::description;
use b2_hdf5_plugin::{Blosc, Blosc2};
use pyo3::prelude::*;

/// Returns the addresses of the descriptions (`H5Z_class2_t`) of the filters 32001 and 32026, which stay valid.
#[pyfunction]
pub(crate) fn hdf5_filters() -> [usize; 2] {
    [
        from_ref(description::<Blosc>()).expose_provenance(),
        from_ref(description::<Blosc2>()).expose_provenance(),
    ]
}
