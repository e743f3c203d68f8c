//! Memory of HDF5 on Windows.
//!
//! A process may have several C libraries with a heap each. HDF5 uses its own, so memory comes from HDF5's functions
//! (`H5allocate_memory`, `H5free_memory`).

use std::ffi::c_void;
use std::mem::transmute;
use std::ptr::NonNull;

use super::lookup::find;

// The types of the functions in the headers of HDF5.
type Allocate = unsafe extern "C" fn(usize, bool) -> *mut c_void;
type Free = unsafe extern "C" fn(*mut c_void) -> i32;

/// Allocates zeros. Returns `None` if there is not enough memory, or no HDF5 to free it.
pub(super) fn zeroed(len: usize) -> Option<NonNull<c_void>> {
    allocated(len, true)
}

/// Allocates uninitialised memory. Returns `None` as [`zeroed`] does.
pub(super) fn uninitialized(len: usize) -> Option<NonNull<c_void>> {
    allocated(len, false)
}

fn allocated(len: usize, clear: bool) -> Option<NonNull<c_void>> {
    find(|library| {
        let allocate = library.symbol(c"H5allocate_memory")?;
        // SAFETY: the function has this type, and any size may be requested.
        NonNull::new(unsafe { transmute::<NonNull<c_void>, Allocate>(allocate)(len, clear) })
    })
}

/// Frees memory.
///
/// # Safety
/// The memory is from here or from the calling HDF5, and no longer in use.
pub(super) unsafe fn free(start: *mut c_void) {
    find(|library| {
        let free = library.symbol(c"H5free_memory")?;
        // SAFETY: the function has this type, and the memory is from the same HDF5.
        Some(unsafe { transmute::<NonNull<c_void>, Free>(free)(start) })
    });
}
