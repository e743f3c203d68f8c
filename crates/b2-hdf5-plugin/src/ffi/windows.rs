//! What the filters need of Windows: memory of HDF5, and libraries by their handles.
//!
//! A process may have several C libraries with a heap each. HDF5 frees with its own, so memory comes from the functions that
//! HDF5 has for this (`H5allocate_memory`, `H5free_memory`).

use std::ffi::{CStr, c_void};
use std::mem::transmute;
use std::ptr::{self, NonNull};

use windows_sys::Win32::Foundation::HMODULE;
use windows_sys::Win32::System::Diagnostics::Debug::RtlCaptureStackBackTrace;
use windows_sys::Win32::System::LibraryLoader::{
    GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS, GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT, GetModuleHandleExA,
    GetProcAddress, LoadLibraryA,
};

use super::{Library, find};

/// Frames of the stack that are looked at.
const FRAMES: usize = 62;

// The types of the functions in the headers of HDF5.
type Allocate = unsafe extern "C" fn(usize, bool) -> *mut c_void;
type Free = unsafe extern "C" fn(*mut c_void) -> i32;

/// Allocates zeros. Returns `None` if there is not enough memory, or no HDF5 to free it.
pub(super) fn zeroed(len: usize) -> Option<NonNull<c_void>> {
    allocated(len, true)
}

/// Allocates memory that is not initialised. Returns `None` as [`zeroed`] does.
pub(super) fn uninitialized(len: usize) -> Option<NonNull<c_void>> {
    allocated(len, false)
}

fn allocated(len: usize, clear: bool) -> Option<NonNull<c_void>> {
    find(|library| {
        let allocate = library.symbol(c"H5allocate_memory")?;
        // SAFETY: the function has this type, and any size may be asked for.
        NonNull::new(unsafe { transmute::<NonNull<c_void>, Allocate>(allocate)(len, clear) })
    })
}

/// Frees memory.
///
/// # Safety
/// It is from here or from the HDF5 that has called, and nobody has it any more.
pub(super) unsafe fn free(start: *mut c_void) {
    find(|library| {
        let free = library.symbol(c"H5free_memory")?;
        // SAFETY: the function has this type, and the memory is from the same HDF5.
        Some(unsafe { transmute::<NonNull<c_void>, Free>(free)(start) })
    });
}

/// Loads a library, which stays loaded.
///
/// # Safety
/// What the library does when it is loaded is the caller's concern.
pub(super) unsafe fn load(path: &CStr) -> Option<Library> {
    // SAFETY: it is a C string.
    let handle = unsafe { LoadLibraryA(path.as_ptr().cast()) };
    (!handle.is_null()).then_some(Library(handle))
}

/// The HDF5 that goes by its usual name, if it is loaded.
pub(super) fn shown_to_all() -> Option<Library> {
    let mut handle: HMODULE = ptr::null_mut();
    // SAFETY: the name is a C string, and `handle` is a place for the result.
    let found = unsafe {
        GetModuleHandleExA(
            GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT,
            c"hdf5.dll".as_ptr().cast(),
            &raw mut handle,
        )
    };
    (found != 0).then_some(Library(handle))
}

/// Looks up in the library that has called this one: the first on the stack that is another.
pub(super) fn in_caller<T>(look: impl Fn(&Library) -> Option<T>) -> Option<T> {
    let own = library_of(shown_to_all as *const c_void)?;
    let mut frames = [ptr::null_mut(); FRAMES];
    // SAFETY: there is room for so many addresses.
    let count = unsafe { RtlCaptureStackBackTrace(0, FRAMES as u32, frames.as_mut_ptr(), ptr::null_mut()) };
    let callers = frames.iter().take(count.into()).filter_map(|&address| library_of(address));
    let mut others = callers.filter(|caller| *caller != own);
    look(&Library(others.next()?))
}

/// Returns the library with this address.
fn library_of(address: *const c_void) -> Option<HMODULE> {
    const FLAGS: u32 = GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT;
    let mut handle: HMODULE = ptr::null_mut();
    // SAFETY: any address may be asked for, and `handle` is a place for the result.
    let found = unsafe { GetModuleHandleExA(FLAGS, address.cast(), &raw mut handle) };
    (found != 0).then_some(handle)
}

impl Library {
    pub(super) fn symbol(&self, name: &CStr) -> Option<NonNull<c_void>> {
        // SAFETY: the library is loaded, and the name is a C string.
        let address = unsafe { GetProcAddress(self.0, name.as_ptr().cast()) }?;
        NonNull::new(address as *mut c_void)
    }
}
