//! Memory of HDF5 on Unix, which comes from `malloc`.

use std::ffi::c_void;
use std::ptr::NonNull;

/// Allocates zeros. Returns `None` if there is not enough memory. HDF5 frees it with `free`.
pub(super) fn zeroed(len: usize) -> Option<NonNull<c_void>> {
    // SAFETY: any size may be requested.
    NonNull::new(unsafe { libc::calloc(len, 1) })
}

/// Allocates uninitialised memory. Returns `None` if there is not enough.
pub(super) fn uninitialized(len: usize) -> Option<NonNull<c_void>> {
    // SAFETY: any size may be requested.
    NonNull::new(unsafe { libc::malloc(len) })
}

/// Frees memory.
///
/// # Safety
/// The memory is from here or from HDF5, and no longer in use.
pub(super) unsafe fn free(start: *mut c_void) {
    // SAFETY: HDF5 uses `malloc`, as this module does.
    unsafe { libc::free(start) };
}
