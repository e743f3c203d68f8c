//! Formats other than Blosc2: NumPy's `.npy` and `.npz`, NIfTI, and Zarr. HDF5 is in `b2-hdf5`.
//! Code belongs here if it parses or writes a format; what options do with its arrays is for commands.
//! All of it reads untrusted bytes.

#![cfg_attr(
    not(test),
    deny(
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::string_slice,
        clippy::unreachable,
        clippy::unwrap_used,
        reason = "reads untrusted bytes"
    )
)]

#[cfg(feature = "hdf5")]
#[cfg_attr(not(test), deny(clippy::arithmetic_side_effects, reason = "reads untrusted bytes"))]
pub(crate) mod nifti;
pub(crate) mod npy;
#[cfg(feature = "hdf5")]
pub(crate) mod npz;
#[cfg(feature = "hdf5")]
pub(crate) mod zarr;
