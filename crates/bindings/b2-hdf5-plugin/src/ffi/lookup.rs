//! Where the functions of HDF5 are looked up.

use std::ffi::{CStr, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

#[cfg(unix)]
use super::loader_unix::{self as loader, Library};
#[cfg(windows)]
use super::loader_windows::{self as loader, Library};

/// The library that hdf5plugin has named, which is linked to HDF5. It is never closed.
static LIBRARY_NAMES: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// Loads the library that hdf5plugin names. Returns `None` if it cannot be loaded.
///
/// # Safety
/// What the library does when it is loaded is the caller's concern.
pub(super) unsafe fn name(path: &CStr) -> Option<()> {
    // SAFETY: the caller promises so.
    let library = unsafe { loader::load(path) }?;
    LIBRARY_NAMES.store(library.0, Ordering::Release);
    Some(())
}

/// Looks up in the library that has called this one, then in the one that hdf5plugin has named, then in what the process
/// shows to all.
///
/// Several copies of HDF5 may be loaded, such as those of h5py and PyTables, often where symbols are not shown to all. An
/// id of one means something else to another, so the caller is asked first.
pub(super) fn find<T>(look: impl Fn(&Library) -> Option<T>) -> Option<T> {
    if let Some(found) = loader::in_caller(&look) {
        return Some(found);
    }
    let named = LIBRARY_NAMES.load(Ordering::Acquire);
    let named = (!named.is_null()).then(|| look(&Library(named))).flatten();
    named.or_else(|| look(&loader::shown_to_all()?))
}
