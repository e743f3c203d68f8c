//! Looks up the functions of HDF5.

use std::ffi::{CStr, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

#[cfg(unix)]
use super::loader_unix::{self as loader, Library};
#[cfg(windows)]
use super::loader_windows::{self as loader, Library};

/// The library named by hdf5plugin, which is linked to HDF5. It is never closed.
static LIBRARY_NAMES: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// Loads the library named by hdf5plugin. Returns `None` if it cannot be loaded.
///
/// # Safety
/// The caller is responsible for the library's initialization code.
pub(super) unsafe fn name(path: &CStr) -> Option<()> {
    // SAFETY: guaranteed by the caller.
    let library = unsafe { loader::load(path) }?;
    LIBRARY_NAMES.store(library.0, Ordering::Release);
    Some(())
}

/// Looks up a symbol in the calling library, then in the one named by hdf5plugin, then among the global symbols.
///
/// Several copies of HDF5 may be loaded, such as those of h5py and PyTables, often with local symbols. An id of one
/// copy means something else in another, so the caller's copy comes first.
pub(super) fn find<T>(look: impl Fn(&Library) -> Option<T>) -> Option<T> {
    if let Some(found) = loader::in_caller(&look) {
        return Some(found);
    }
    let named = LIBRARY_NAMES.load(Ordering::Acquire);
    let named = (!named.is_null()).then(|| look(&Library(named))).flatten();
    named.or_else(|| look(&loader::shown_to_all()?))
}
