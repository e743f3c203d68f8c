//! Libraries on Unix, by `dlopen`.

use std::ffi::{CStr, CString, c_int, c_void};
use std::ptr::NonNull;

/// A handle for symbol lookup: a loaded library, or a special handle of the system.
pub(super) struct Library(pub(super) *mut c_void);

/// Loads a library permanently.
///
/// # Safety
/// The caller is responsible for the library's initialization code.
pub(super) unsafe fn load(path: &CStr) -> Option<Library> {
    // SAFETY: it is a C string, and a library that has been loaded already runs no code now.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_LAZY | libc::RTLD_LOCAL) };
    (!handle.is_null()).then_some(Library(handle))
}

/// The handle for global symbols of the process.
pub(super) fn shown_to_all() -> Option<Library> {
    Some(Library(libc::RTLD_DEFAULT))
}

/// The handle of the library that called this one.
pub(super) fn in_caller<T>(look: impl Fn(&Library) -> Option<T>) -> Option<T> {
    let caller = caller()?;
    // SAFETY: the path is that of a loaded library; it is not loaded if it is not loaded already.
    let handle = unsafe { libc::dlopen(caller.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    if handle.is_null() {
        return None;
    }
    let found = look(&Library(handle));
    // SAFETY: the handle is from above. The library is running, so the symbol stays valid.
    unsafe { libc::dlclose(handle) };
    found
}

impl Library {
    pub(super) fn symbol(&self, name: &CStr) -> Option<NonNull<c_void>> {
        // SAFETY: the handle is open, and the name is a C string.
        NonNull::new(unsafe { libc::dlsym(self.0, name.as_ptr()) })
    }
}

// Functions of the unwinder, which every Rust library is linked to.
unsafe extern "C" {
    fn _Unwind_Backtrace(
        visit: extern "C" fn(*mut c_void, *mut c_void) -> c_int,
        argument: *mut c_void,
    ) -> c_int;
    fn _Unwind_GetIP(frame: *mut c_void) -> usize;
}

/// Returns the path of the library that called this one.
fn caller() -> Option<CString> {
    const CONTINUE_SEARCH: c_int = 0; // _URC_NO_REASON
    const STOP_SEARCH: c_int = 4; // _URC_NORMAL_STOP

    /// Visits a stack frame; stops at the first one outside this library.
    extern "C" fn visit(frame: *mut c_void, found: *mut c_void) -> c_int {
        // SAFETY: the unwinder passes a frame, and the argument of `caller`.
        let (address, found) = unsafe { (_Unwind_GetIP(frame), &mut *found.cast::<Option<CString>>()) };
        // The address is the return address, which may be after the end of a function.
        let other = library_of(address.wrapping_sub(1) as *const c_void);
        match (other, library_of(visit as *const c_void)) {
            (Some((base, name)), Some((own, _))) if base != own => {
                *found = Some(name);
                STOP_SEARCH
            }
            _ => CONTINUE_SEARCH,
        }
    }

    let mut found: Option<CString> = None;
    // SAFETY: `visit` gets the argument with its type, and does not panic: it only queries addresses.
    unsafe { _Unwind_Backtrace(visit, (&raw mut found).cast()) };
    found
}

/// Returns the base address and the path of the library with this address.
fn library_of(address: *const c_void) -> Option<(usize, CString)> {
    // SAFETY: a structure of pointers, for which zeros are valid.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: any address may be queried.
    if unsafe { libc::dladdr(address, &raw mut info) } == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: it is the name of the library, a C string that lives as long as the library.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    Some((info.dli_fbase as usize, name.to_owned()))
}
