//! Memory passed to and from C, all from `malloc`.

use std::ffi::{CStr, c_char};
use std::ops::Deref;
use std::ptr::NonNull;

use crate::abi::code;
use crate::core::error::{Error, Result};

/// Bytes from `malloc`, which are freed with `free`.
pub(crate) struct MallocBytes {
    data: NonNull<u8>,
    len: usize,
}

// SAFETY: it owns its bytes, which are not shared with other threads.
unsafe impl Send for MallocBytes {}
// SAFETY: as above; shared references only read them.
unsafe impl Sync for MallocBytes {}

impl MallocBytes {
    /// Copies bytes.
    pub(crate) fn copy(bytes: &[u8]) -> Result<Self> {
        // SAFETY: `malloc` may be called with any size.
        let data = unsafe { libc::malloc(bytes.len().max(1)) };
        let data = NonNull::new(data.cast::<u8>()).ok_or(Error(code::MEMORY_ALLOC))?;
        // SAFETY: both have `bytes.len()` bytes, and the new ones are not shared.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), data.as_ptr(), bytes.len()) };
        Ok(Self { data, len: bytes.len() })
    }

    /// Takes ownership of bytes of the caller.
    ///
    /// # Safety
    /// `data` points to at least `len` bytes from `malloc` that are not freed or used elsewhere.
    pub(crate) unsafe fn adopt(data: *mut u8, len: usize) -> Result<Self> {
        let data = NonNull::new(data).ok_or(Error(code::NULL_POINTER))?;
        Ok(Self { data, len })
    }

    pub(crate) fn as_ptr(&self) -> *mut u8 {
        self.data.as_ptr()
    }

    /// Passes the bytes to the caller, who frees them.
    pub(crate) fn release(self) -> *mut u8 {
        std::mem::ManuallyDrop::new(self).data.as_ptr()
    }
}

impl Deref for MallocBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: it owns these bytes, which were initialised or adopted.
        unsafe { std::slice::from_raw_parts(self.data.as_ptr(), self.len) }
    }
}

impl Drop for MallocBytes {
    fn drop(&mut self) {
        // SAFETY: the bytes are from `malloc`, and owned only here.
        unsafe { libc::free(self.data.as_ptr().cast()) };
    }
}

/// Copies bytes for the caller, who frees them.
pub(crate) fn copied(bytes: &[u8]) -> Result<*mut u8> {
    MallocBytes::copy(bytes).map(MallocBytes::release)
}

/// Copies values for the caller, who frees them.
pub(crate) fn copied_values(values: &[i64]) -> Result<*mut i64> {
    // SAFETY: the bytes of numbers, which have no padding.
    let bytes = unsafe { std::slice::from_raw_parts(values.as_ptr().cast::<u8>(), size_of_val(values)) };
    Ok(copied(bytes)?.cast())
}

/// Copies a text for the caller, who frees it.
pub(crate) fn copied_text(text: &CStr) -> Result<*mut c_char> {
    Ok(copied(text.to_bytes_with_nul())?.cast())
}

/// Copies a value for the caller, who frees it.
pub(crate) fn copied_value<T: Copy>(value: T) -> Result<*mut T> {
    // SAFETY: `malloc` may be called with any size, and aligns for any type of C.
    let place = unsafe { libc::malloc(size_of::<T>()) }.cast::<T>();
    if place.is_null() {
        return Err(Error(code::MEMORY_ALLOC));
    }
    // SAFETY: there is room for it, and the memory is not shared.
    unsafe { place.write(value) };
    Ok(place)
}

/// Frees memory of `malloc`.
///
/// # Safety
/// `memory` is null or from `malloc`, and no longer in use.
pub(crate) unsafe fn free<T>(memory: *mut T) {
    // SAFETY: guaranteed by the caller.
    unsafe { libc::free(memory.cast()) };
}
