//! The C interface. Each exported function checks its pointers, creates slices from them, calls safe code through
//! [`guard`], and returns memory from `malloc`. Pointers that are neither null nor valid are the caller's fault, as in
//! any C library.
//!
//! Several threads may use the same object concurrently: those of callbacks, and those of programs that go beyond what
//! the README allows. No function here creates a `&mut` to an object that C has a pointer to (a context, super-chunk,
//! array, or array parameters), so no two can overlap. All go through [`shared`]. Fields visible to C are atomics
//! ([`Field`](crate::abi::Field)); the rest is behind locks that are not held while callbacks run, or in a
//! [`TryLock`](try_lock::TryLock), which never waits. Programs must not free objects in use, must not use
//! `schunk->data` while another thread changes the super-chunk, and must not change borrowed buffers.

mod b2nd;
pub(crate) mod callbacks;
mod chunk;
mod contexts;
mod global;
pub(crate) mod io;
pub(crate) mod memory;
#[cfg(test)]
mod miri;
mod paths;
#[cfg(test)]
mod rust_comparison;
mod schunk;
mod shapes;
mod stdio;
pub(crate) mod threads;
pub(crate) mod try_lock;
mod utilities;

use std::ffi::{CStr, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::abi::code;
use crate::core::error::{Error, Result, ensure};

/// The failure value of a C function that does not return an error code.
pub(crate) trait FailureValue {
    fn failure(error: Error) -> Self;
}

impl FailureValue for i32 {
    fn failure(error: Error) -> Self {
        error.0
    }
}

impl FailureValue for i64 {
    fn failure(error: Error) -> Self {
        i64::from(error.0)
    }
}

impl<T> FailureValue for *mut T {
    fn failure(_: Error) -> Self {
        std::ptr::null_mut()
    }
}

impl FailureValue for () {
    fn failure(_: Error) -> Self {}
}

/// Runs the body of an exported function: an error becomes its code, and a panic (a bug) becomes `BLOSC2_ERROR_FAILURE`
/// instead of unwinding into C.
#[inline]
pub(crate) fn guard<T: FailureValue>(body: impl FnOnce() -> Result<T>) -> T {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(value)) => value,
        Ok(Err(error)) => T::failure(error),
        Err(_) => T::failure(Error(code::FAILURE)),
    }
}

/// Returns a length from C.
pub(crate) fn length(len: impl TryInto<usize>) -> Result<usize> {
    len.try_into().map_err(|_| Error(code::INVALID_PARAM))
}

/// Returns the size of a buffer. A negative one is the error `code`.
pub(crate) fn size(len: i32, code: i32) -> Result<usize> {
    len.try_into().map_err(|_| Error(code))
}

/// Returns the bytes at a pointer.
///
/// # Safety
/// `data` is null or points to `len` bytes that do not change during `'a`.
pub(crate) unsafe fn bytes<'a>(data: *const c_void, len: usize) -> Result<&'a [u8]> {
    match len {
        0 => Ok(&[]),
        _ if data.is_null() => Err(Error(code::NULL_POINTER)),
        // SAFETY: guaranteed by the caller.
        _ => Ok(unsafe { std::slice::from_raw_parts(data.cast(), len) }),
    }
}

/// Returns the bytes to write at a pointer.
///
/// # Safety
/// `data` is null or points to `len` bytes that are not used elsewhere during `'a`.
pub(crate) unsafe fn bytes_mut<'a>(data: *mut c_void, len: usize) -> Result<&'a mut [u8]> {
    match len {
        0 => Ok(&mut []),
        _ if data.is_null() => Err(Error(code::NULL_POINTER)),
        // SAFETY: guaranteed by the caller. Possibly uninitialised bytes are only written here.
        _ => Ok(unsafe { std::slice::from_raw_parts_mut(data.cast(), len) }),
    }
}

/// Returns a slice of values at a pointer.
///
/// # Safety
/// `data` is null or points to `len` values that do not change during `'a`.
pub(crate) unsafe fn values<'a, T: Copy>(data: *const T, len: usize) -> Result<&'a [T]> {
    match len {
        0 => Ok(&[]),
        _ if data.is_null() => Err(Error(code::NULL_POINTER)),
        // SAFETY: guaranteed by the caller.
        _ => Ok(unsafe { std::slice::from_raw_parts(data, len) }),
    }
}

/// Returns the object at a pointer, which any number of calls may use concurrently: several threads, and callbacks
/// during a call. Mutable state is in atomics and locks, so there is no `&mut` to it.
///
/// # Safety
/// `pointer` is null, or valid and not freed during `'a`; its mutable state is in atomics, cells or locks.
pub(crate) unsafe fn shared<'a, T>(pointer: *const T) -> Result<&'a T> {
    // SAFETY: guaranteed by the caller.
    unsafe { pointer.as_ref() }.ok_or(Error(code::NULL_POINTER))
}

/// Returns a copy of the value at a pointer.
///
/// # Safety
/// `pointer` is null, or valid and unchanged during this call.
pub(crate) unsafe fn copy_at<T: Copy>(pointer: *const T) -> Result<T> {
    ensure(!pointer.is_null(), code::NULL_POINTER)?;
    // SAFETY: guaranteed by the caller.
    Ok(unsafe { pointer.read() })
}

/// Locks a mutex, even if a panic (a bug) has poisoned it.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes a result to the caller's memory.
///
/// # Safety
/// `place` is null or valid for writing.
pub(crate) unsafe fn put<T>(place: *mut T, value: T) {
    if !place.is_null() {
        // SAFETY: guaranteed by the caller.
        unsafe { place.write(value) };
    }
}

/// Returns a C string as bytes.
///
/// # Safety
/// `text` is null or a C string that does not change during `'a`.
pub(crate) unsafe fn text<'a>(text: *const c_char) -> Result<&'a CStr> {
    if text.is_null() {
        return Err(Error(code::NULL_POINTER));
    }
    // SAFETY: guaranteed by the caller.
    Ok(unsafe { CStr::from_ptr(text) })
}
