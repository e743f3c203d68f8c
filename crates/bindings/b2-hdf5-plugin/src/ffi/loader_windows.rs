//! Libraries on Windows, by their handles.

use std::ffi::{CStr, c_void};
use std::ptr::{self, NonNull};

use windows_sys::Win32::Foundation::HMODULE;
use windows_sys::Win32::System::Diagnostics::Debug::RtlCaptureStackBackTrace;
use windows_sys::Win32::System::LibraryLoader::{
    GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS, GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT, GetModuleHandleExA,
    GetProcAddress, LoadLibraryA,
};

/// A handle for symbol lookup: a loaded library, or a special handle of the system.
pub(super) struct Library(pub(super) *mut c_void);

/// Maximum number of stack frames to examine.
const MAX_STACK_FRAMES: usize = 62;

/// Loads a library permanently.
///
/// # Safety
/// The caller is responsible for the library's initialization code.
pub(super) unsafe fn load(path: &CStr) -> Option<Library> {
    // SAFETY: it is a C string.
    let handle = unsafe { LoadLibraryA(path.as_ptr().cast()) };
    (!handle.is_null()).then_some(Library(handle))
}

/// The HDF5 library with the usual name, if loaded.
pub(super) fn shown_to_all() -> Option<Library> {
    let mut handle: HMODULE = ptr::null_mut();
    // SAFETY: the name is a C string, and `handle` is valid for the result.
    let found = unsafe {
        GetModuleHandleExA(
            GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT,
            c"hdf5.dll".as_ptr().cast(),
            &raw mut handle,
        )
    };
    (found != 0).then_some(Library(handle))
}

/// The handle of the library that called this one: the first other library on the stack.
pub(super) fn in_caller<T>(look: impl Fn(&Library) -> Option<T>) -> Option<T> {
    let own = library_of(shown_to_all as *const c_void)?;
    let mut frames = [ptr::null_mut(); MAX_STACK_FRAMES];
    // SAFETY: there is room for this many addresses.
    let count =
        unsafe { RtlCaptureStackBackTrace(0, MAX_STACK_FRAMES as u32, frames.as_mut_ptr(), ptr::null_mut()) };
    let callers = frames.iter().take(count.into()).filter_map(|&address| library_of(address));
    let mut others = callers.filter(|caller| *caller != own);
    look(&Library(others.next()?))
}

/// Returns the library with this address.
fn library_of(address: *const c_void) -> Option<HMODULE> {
    const FLAGS: u32 = GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT;
    let mut handle: HMODULE = ptr::null_mut();
    // SAFETY: any address may be queried, and `handle` is valid for the result.
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
