#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::unreachable,
        clippy::unwrap_used,
        reason = "files may hold any bytes, and a panic would end in the caller's program"
    )
)]

#[cfg(not(any(unix, windows)))]
compile_error!("the functions of HDF5 are looked up as on Unix and Windows; other systems are not supported");

mod blosc;
mod blosc2;
mod error;
#[allow(unsafe_code)]
#[doc(hidden)]
pub mod ffi;
mod filter;
mod parameters;
#[cfg(test)]
mod tests;

pub use blosc::Blosc;
pub use blosc2::Blosc2;
pub use error::Error;
pub use filter::{Dataset, Filter, Memory, PlainBytes};

/// Exports the symbols that HDF5 and hdf5plugin look up in a filter library.
#[macro_export]
macro_rules! plugin {
    ($filter:ty) => {
        // SAFETY: HDF5 looks up the function by this name and type; nothing else in the library has the name.
        #[unsafe(no_mangle)]
        /// States that the library contains a filter.
        pub extern "C" fn H5PLget_plugin_type() -> ::std::ffi::c_int {
            $crate::ffi::PLUGIN_IS_FILTER
        }

        // SAFETY: as above.
        #[unsafe(no_mangle)]
        /// Returns the description of the filter.
        pub extern "C" fn H5PLget_plugin_info() -> *const ::std::ffi::c_void {
            ::std::ptr::from_ref($crate::ffi::description::<$filter>()).cast()
        }

        /// Takes the path of a library that is linked to HDF5, as hdf5plugin passes it. Returns a negative number if it cannot
        /// be loaded.
        ///
        /// # Safety
        /// `path` is null or a C string.
        // SAFETY: as above, for hdf5plugin.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn init_filter(path: *const ::std::ffi::c_char) -> ::std::ffi::c_int {
            // SAFETY: guaranteed by the caller.
            unsafe { $crate::ffi::use_library(path) }
        }
    };
}
