//! The C interface to HDF5, the only unsafe code. Structures and constants are those of HDF5 1.10 and later.
//!
//! Nothing here is linked to HDF5, since a process may have several copies. Functions are looked up on demand in the
//! copy that called the filter.

use std::env;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::mem::{MaybeUninit, transmute};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{self, NonNull};
use std::slice;

use b2_core::Report;

use crate::Error;
use crate::filter::{Dataset, Filter, Memory, PlainBytes};

#[cfg(unix)]
mod loader_unix;
#[cfg(windows)]
mod loader_windows;
mod lookup;
#[cfg(unix)]
mod memory_unix;
#[cfg(windows)]
mod memory_windows;
#[cfg(all(test, unix))]
mod miri;

use lookup::find;
#[cfg(unix)]
use memory_unix as memory;
#[cfg(windows)]
use memory_windows as memory;

/// `H5PL_TYPE_FILTER`: what `H5PLget_plugin_type` returns for filters.
pub const PLUGIN_IS_FILTER: c_int = 0;
/// `H5Z_CLASS_T_VERS`: the version of [`Description`].
const VERSION: c_int = 1;
/// `H5Z_FLAG_REVERSE`: the filter is to decode.
const REVERSE: c_uint = 0x100;
/// `H5T_ARRAY`: the class of types whose items are arrays.
const ARRAY: c_int = 10;
/// `H5E_DEFAULT`: the error stack of the thread.
const DEFAULT: Id = 0;
/// Maximum number of dimensions in HDF5.
const MAX_DIMENSIONS: u8 = 32;
/// Maximum number of parameters set by the creator of a data set; no filter here has as many.
const MAX_PARAMETERS: usize = 64;

/// `hid_t`.
type Id = i64;
/// `herr_t`: negative for a failure.
type Status = c_int;

/// `H5Z_class2_t`.
#[derive(Debug)]
#[repr(C)]
pub struct Description {
    version: c_int,
    id: c_int,
    encoder: c_uint,
    decoder: c_uint,
    name: *const c_char,
    can_apply: Option<extern "C" fn(Id, Id, Id) -> Status>,
    set_local: Option<extern "C" fn(Id, Id, Id) -> Status>,
    filter: Option<
        unsafe extern "C" fn(c_uint, usize, *const c_uint, usize, *mut usize, *mut *mut c_void) -> usize,
    >,
}

/// Returns the description of a filter, which lives as long as the library.
pub fn description<F: Filter>() -> &'static Description {
    const {
        &Description {
            version: VERSION,
            id: F::ID,
            encoder: 1,
            decoder: 1,
            name: F::NAME.as_ptr(),
            can_apply: None,
            set_local: Some(set_local::<F>),
            filter: Some(filter::<F>),
        }
    }
}

/// Runs `work` and reports errors to HDF5. Panics are caught.
fn guarded<F: Filter, T>(failure: T, work: impl FnOnce() -> Result<T, Error>) -> T {
    // State that a panic left inconsistent is not used again.
    let error = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(done)) => return done,
        Ok(Err(error)) => Some(error),
        Err(_) => None,
    };
    // Reporting allocates memory and must not panic either.
    let _ = catch_unwind(AssertUnwindSafe(|| {
        let what = match &error {
            Some(error) => Report(error).to_string(),
            None => "a fault in the filter itself".into(),
        };
        report(&format!("{}: {what}", F::NAME.to_string_lossy()));
    }));
    failure
}

/// Encodes or decodes a chunk. Returns the number of bytes, or 0 for a failure.
///
/// # Safety
/// As called by HDF5: `count` parameters are at `values`; `*buffer` is memory as in [`AllocatedBytes`], with `*room`
/// bytes, of which the first `nbytes` are the chunk.
unsafe extern "C" fn filter<F: Filter>(
    flags: c_uint,
    count: usize,
    values: *const c_uint,
    nbytes: usize,
    room: *mut usize,
    buffer: *mut *mut c_void,
) -> usize {
    guarded::<F, _>(0, || {
        // SAFETY: the caller guarantees that both are valid and exclusive until this function returns.
        let (room, buffer) = unsafe { (&mut *room, &mut *buffer) };
        // SAFETY: the caller guarantees these numbers of parameters and bytes. They are not changed while borrowed.
        let (values, bytes) = unsafe { (borrowed(values, count), borrowed(buffer.cast::<u8>(), nbytes)) };
        let mut result = if flags & REVERSE == 0 {
            let Some(chunk) = F::encode(values, bytes)? else { return Ok(0) };
            if chunk.len() <= *room {
                // SAFETY: the buffer has `room` bytes, and the chunk is separate memory. `bytes` is not used below.
                unsafe { ptr::copy_nonoverlapping(chunk.as_ptr(), buffer.cast::<u8>(), chunk.len()) };
                return Ok(chunk.len());
            }
            let mut memory = AllocatedBytes::zeroed(chunk.len()).ok_or(Error::OutOfMemory(chunk.len()))?;
            memory.bytes().copy_from_slice(&chunk);
            PlainBytes { memory, nbytes: chunk.len() }
        } else {
            F::decode::<AllocatedBytes>(values, bytes)?
        };
        *room = result.memory.bytes().len();
        let old = std::mem::replace(buffer, result.memory.into_raw());
        // SAFETY: it is memory of HDF5, and no longer in use: `bytes` is not used below.
        unsafe { memory::free(old) };
        Ok(result.nbytes)
    })
}

/// Borrows `len` items; may be 0.
///
/// # Safety
/// `start` is null, or points to `len` items that do not change while borrowed.
unsafe fn borrowed<'a, T>(start: *const T, len: usize) -> &'a [T] {
    // SAFETY: guaranteed by the caller.
    if start.is_null() { &[] } else { unsafe { slice::from_raw_parts(start, len) } }
}

/// Sets the parameters of a new data set.
extern "C" fn set_local<F: Filter>(properties: Id, item_type: Id, _space: Id) -> Status {
    guarded::<F, _>(-1, || {
        let hdf5 = Hdf5::find().ok_or(Error::Hdf5(
            "the functions of HDF5 were not found, so data sets cannot be created (reading works)",
        ))?;
        let (flags, given) = hdf5.parameters(properties, F::ID)?;
        let chunk = hdf5.chunk(properties)?;
        let (itemsize, base_itemsize) = hdf5.itemsizes(item_type)?;
        let values = F::parameters(&given, &Dataset { itemsize, base_itemsize, chunk: &chunk })?;
        hdf5.set_parameters(properties, F::ID, flags, &values)?;
        Ok(0)
    })
}

/// Memory for results, which HDF5 frees.
struct AllocatedBytes {
    start: NonNull<u8>,
    len: usize,
}

impl AllocatedBytes {
    /// Passes the memory to the caller.
    fn into_raw(self) -> *mut c_void {
        let start = self.start.as_ptr().cast();
        std::mem::forget(self);
        start
    }
}

impl Memory for AllocatedBytes {
    fn zeroed(len: usize) -> Option<Self> {
        let start = memory::zeroed(len.max(1))?.cast();
        Some(Self { start, len })
    }

    fn filled<E>(
        len: usize,
        fill: impl for<'a> FnOnce(&'a mut [MaybeUninit<u8>]) -> Result<&'a mut [u8], E>,
    ) -> Option<Result<Self, E>> {
        let memory = Self { start: memory::uninitialized(len.max(1))?.cast(), len };
        // SAFETY: this many bytes were allocated, possibly uninitialised, and are not shared.
        let bytes = unsafe { slice::from_raw_parts_mut(memory.start.as_ptr().cast(), len) };
        let filled = match fill(bytes) {
            Ok(filled) => ptr::addr_eq(filled.as_ptr(), memory.start.as_ptr()) && filled.len() == len,
            Err(error) => return Some(Err(error)),
        };
        // All bytes are in the slice that was returned, so they are initialised.
        filled.then_some(Ok(memory))
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: this many bytes were allocated and initialised; they are borrowed as long as `self`.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for AllocatedBytes {
    fn drop(&mut self) {
        // SAFETY: it was allocated by the same allocator, and `into_raw` forgets it.
        unsafe { memory::free(self.start.as_ptr().cast()) };
    }
}

// The types of the functions in the headers of HDF5 1.10 to 2.0.
type GetFilter = unsafe extern "C" fn(
    Id,
    c_int,
    *mut c_uint,
    *mut usize,
    *mut c_uint,
    usize,
    *mut c_char,
    *mut c_uint,
) -> Status;
type ModifyFilter = unsafe extern "C" fn(Id, c_int, c_uint, usize, *const c_uint) -> Status;
type GetChunk = unsafe extern "C" fn(Id, c_int, *mut u64) -> c_int;
type GetSize = unsafe extern "C" fn(Id) -> usize;
type GetClass = unsafe extern "C" fn(Id) -> c_int;
type GetSuper = unsafe extern "C" fn(Id) -> Id;
type Close = unsafe extern "C" fn(Id) -> Status;
type Push =
    unsafe extern "C" fn(Id, *const c_char, *const c_char, c_uint, Id, Id, Id, *const c_char, ...) -> Status;

/// The functions of HDF5 that set up a data set.
struct Hdf5 {
    get_filter: GetFilter,
    modify_filter: ModifyFilter,
    get_chunk: GetChunk,
    get_size: GetSize,
    get_class: GetClass,
    get_super: GetSuper,
    close: Close,
}

impl Hdf5 {
    /// Looks up the functions in the calling copy of HDF5.
    fn find() -> Option<Self> {
        find(|library| {
            // SAFETY: the functions have these types.
            unsafe {
                Some(Self {
                    get_filter: transmute::<NonNull<c_void>, GetFilter>(
                        library.symbol(c"H5Pget_filter_by_id2")?,
                    ),
                    modify_filter: transmute::<NonNull<c_void>, ModifyFilter>(
                        library.symbol(c"H5Pmodify_filter")?,
                    ),
                    get_chunk: transmute::<NonNull<c_void>, GetChunk>(library.symbol(c"H5Pget_chunk")?),
                    get_size: transmute::<NonNull<c_void>, GetSize>(library.symbol(c"H5Tget_size")?),
                    get_class: transmute::<NonNull<c_void>, GetClass>(library.symbol(c"H5Tget_class")?),
                    get_super: transmute::<NonNull<c_void>, GetSuper>(library.symbol(c"H5Tget_super")?),
                    close: transmute::<NonNull<c_void>, Close>(library.symbol(c"H5Tclose")?),
                })
            }
        })
    }

    /// Returns the flags of a filter and the parameters set by the creator of the data set.
    fn parameters(&self, properties: Id, filter: c_int) -> Result<(c_uint, Vec<c_uint>), Error> {
        let (mut flags, mut count, mut values) = (0, MAX_PARAMETERS, [0; MAX_PARAMETERS]);
        // SAFETY: there is room for `count` parameters; name and configuration are not requested.
        let status = unsafe {
            (self.get_filter)(
                properties,
                filter,
                &raw mut flags,
                &raw mut count,
                values.as_mut_ptr(),
                0,
                ptr::null_mut(),
                ptr::null_mut(),
            )
        };
        if status < 0 {
            return Err(Error::Hdf5("the parameters of the filter cannot be read"));
        }
        Ok((flags, values.iter().copied().take(count).collect()))
    }

    /// Stores the parameters of a filter.
    fn set_parameters(
        &self,
        properties: Id,
        filter: c_int,
        flags: c_uint,
        values: &[c_uint],
    ) -> Result<(), Error> {
        // SAFETY: this many parameters exist.
        let status =
            unsafe { (self.modify_filter)(properties, filter, flags, values.len(), values.as_ptr()) };
        if status < 0 { Err(Error::Hdf5("the parameters of the filter cannot be stored")) } else { Ok(()) }
    }

    /// Returns the shape of a chunk.
    fn chunk(&self, properties: Id) -> Result<Vec<u64>, Error> {
        let mut lengths = [0; MAX_DIMENSIONS as usize];
        // SAFETY: there is room for this many lengths.
        let ndim = unsafe { (self.get_chunk)(properties, MAX_DIMENSIONS.into(), lengths.as_mut_ptr()) };
        let lengths = usize::try_from(ndim).ok().and_then(|ndim| lengths.get(..ndim));
        lengths.map(<[u64]>::to_vec).ok_or(Error::Hdf5("the shape of the chunks cannot be read"))
    }

    /// Returns the item size, and the size of its elements if it is an array.
    fn itemsizes(&self, item_type: Id) -> Result<(usize, usize), Error> {
        // SAFETY: HDF5 checks the id.
        let (size, class) = unsafe { ((self.get_size)(item_type), (self.get_class)(item_type)) };
        if class != ARRAY {
            return Ok((size, size));
        }
        // SAFETY: HDF5 checks the id.
        let base = unsafe { (self.get_super)(item_type) };
        if base < 0 {
            return Err(Error::Hdf5("the type of the items cannot be read"));
        }
        // SAFETY: this id is open, and is not used after it is closed.
        let base_size = unsafe {
            let size = (self.get_size)(base);
            (self.close)(base);
            size
        };
        Ok((size, base_size))
    }
}

/// Pushes a message onto the error stack of HDF5, where h5py and others find it. Does nothing if that is not available.
fn report(what: &str) {
    // HDF5 2.0 discards messages of filters.
    if env::var_os("BLOSC_TRACE").is_some() {
        eprintln!("{what}");
    }
    // Cut the message at a zero byte.
    let Ok(what) = CString::new(what.split('\0').next().unwrap_or_default()) else { return };
    find(|library| {
        let id = |name| {
            let variable = library.symbol(name)?.cast::<Id>();
            // SAFETY: it is a variable of HDF5 of this type, which is set when HDF5 starts.
            Some(unsafe { variable.read() })
        };
        let (class, major, minor) = (id(c"H5E_ERR_CLS_g")?, id(c"H5E_PLINE_g")?, id(c"H5E_CANTFILTER_g")?);
        let push = library.symbol(c"H5Epush2")?;
        // SAFETY: the function has this type.
        let push = unsafe { transmute::<NonNull<c_void>, Push>(push) };
        let (file, function) = (c"h5b2kit".as_ptr(), c"filter".as_ptr());
        // SAFETY: the strings end with a zero, and the format `%s` takes one of them.
        unsafe { push(DEFAULT, file, function, 0, class, major, minor, c"%s".as_ptr(), what.as_ptr()) };
        Some(())
    });
}

/// Receives the path of a library that is linked to HDF5. Returns a negative number if it cannot be loaded.
///
/// # Safety
/// `path` is null or a C string.
pub unsafe fn use_library(path: *const c_char) -> Status {
    if path.is_null() {
        return -1;
    }
    // SAFETY: it is a C string.
    match unsafe { lookup::name(CStr::from_ptr(path)) } {
        Some(()) => 0,
        None => -1,
    }
}
