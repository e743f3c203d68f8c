//! Memory of HDF5 on Unix, where it is that of `malloc`.

use std::ffi::c_void;
use std::ptr::NonNull;

/// Allocates zeros. Returns `None` if there is not enough memory. HDF5 frees what it gets with `free`.
pub(super) fn zeroed(len: usize) -> Option<NonNull<c_void>> {
    // SAFETY: any size may be asked for.
    NonNull::new(unsafe { libc::calloc(len, 1) })
}

/// Allocates memory that is not initialised. Returns `None` if there is not enough.
pub(super) fn uninitialized(len: usize) -> Option<NonNull<c_void>> {
    // SAFETY: any size may be asked for.
    NonNull::new(unsafe { libc::malloc(len) })
}

/// Frees memory.
///
/// # Safety
/// It is from here or from HDF5, and nobody has it any more.
pub(super) unsafe fn free(start: *mut c_void) {
    // SAFETY: HDF5 uses `malloc`, as this module does.
    unsafe { libc::free(start) };
}
