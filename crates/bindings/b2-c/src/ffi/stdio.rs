//! The functions of `blosc2-stdio.h`: files through `FILE *`, and mapped into memory. Programs build their own
//! functions on them.

use std::ffi::{CStr, c_char, c_int, c_void};

use crate::abi::{blosc2_io_cb, blosc2_stdio_file, blosc2_stdio_mmap, code};
use crate::core::error::{Error, Result, ensure};
use crate::ffi::memory::{copied_text, copied_value, free};
use crate::ffi::{bytes, copy_at, guard, length, put, text};

/// `BLOSC2_STDIO_MMAP_DEFAULTS`.
pub(crate) const MMAP_DEFAULT: blosc2_stdio_mmap = blosc2_stdio_mmap {
    mode: c"r".as_ptr(),
    initial_mapping_size: 1 << 30,
    needs_free: false,
    addr: std::ptr::null_mut(),
    urlpath: std::ptr::null_mut(),
    file_size: 0,
    mapping_size: 0,
    is_memory_only: false,
    file: std::ptr::null_mut(),
    fd: -1,
    access_flags: -1,
    map_flags: -1,
};

/// A table of functions that C may read.
pub(crate) struct IoTable(blosc2_io_cb);
// SAFETY: it is only read.
unsafe impl Sync for IoTable {}

impl IoTable {
    pub(crate) fn get(&'static self) -> *mut blosc2_io_cb {
        std::ptr::from_ref(&self.0).cast_mut()
    }
}

pub(crate) static FUNCTIONS: IoTable = IoTable(blosc2_io_cb {
    id: 0,
    name: c"filesystem".as_ptr().cast_mut(),
    is_allocation_necessary: true,
    open: Some(blosc2_stdio_open),
    close: Some(blosc2_stdio_close),
    size: Some(blosc2_stdio_size),
    write: Some(blosc2_stdio_write),
    read: Some(blosc2_stdio_read),
    truncate: Some(blosc2_stdio_truncate),
    destroy: Some(blosc2_stdio_destroy),
});

pub(crate) static MMAP_FUNCTIONS: IoTable = IoTable(blosc2_io_cb {
    id: 1,
    name: c"filesystem_mmap".as_ptr().cast_mut(),
    is_allocation_necessary: false,
    open: Some(blosc2_stdio_mmap_open),
    close: Some(blosc2_stdio_mmap_close),
    size: Some(blosc2_stdio_mmap_size),
    write: Some(blosc2_stdio_mmap_write),
    read: Some(blosc2_stdio_mmap_read),
    truncate: Some(blosc2_stdio_mmap_truncate),
    destroy: Some(blosc2_stdio_mmap_destroy),
});

/// Opens a file.
///
/// # Safety
/// `urlpath` and `mode` are null or C strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_stdio_open(
    urlpath: *const c_char,
    mode: *const c_char,
    _params: *mut c_void,
) -> *mut c_void {
    guard(|| {
        ensure(!urlpath.is_null() && !mode.is_null(), code::NULL_POINTER)?;
        // SAFETY: guaranteed by the caller.
        let file = unsafe { libc::fopen(urlpath, mode) };
        ensure(!file.is_null(), code::FILE_OPEN)?;
        Ok(copied_value(blosc2_stdio_file { file })?.cast())
    })
}

/// # Safety
/// `stream` is null or from [`blosc2_stdio_open`].
unsafe fn file(stream: *mut c_void) -> Result<*mut libc::FILE> {
    // SAFETY: guaranteed by the caller.
    let file = unsafe { copy_at(stream.cast::<blosc2_stdio_file>()) }.map_err(|_| Error(code::FAILURE))?.file;
    ensure(!file.is_null(), code::FAILURE)?;
    Ok(file)
}

/// Closes a file.
///
/// # Safety
/// `stream` is null or from [`blosc2_stdio_open`], and no longer in use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_stdio_close(stream: *mut c_void) -> c_int {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        let result = unsafe { libc::fclose(file(stream)?) };
        // SAFETY: as above.
        unsafe { free(stream) };
        Ok(result)
    })
}

/// Returns the size of a file; its position does not change.
///
/// # Safety
/// `stream` is null or from [`blosc2_stdio_open`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_stdio_size(stream: *mut c_void) -> i64 {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let file = file(stream)?;
            let before = libc::ftello(file);
            ensure(libc::fseeko(file, 0, libc::SEEK_END) == 0, code::FAILURE)?;
            let size = libc::ftello(file);
            ensure(size >= 0 && libc::fseeko(file, before, libc::SEEK_SET) == 0, code::FAILURE)?;
            Ok(size)
        }
    })
}

/// Checks sizes and returns the number of bytes.
fn extent(size: i64, nitems: i64, position: i64) -> Result<usize> {
    ensure(size >= 0 && nitems >= 0 && position >= 0, code::INVALID_PARAM)?;
    let len = size.checked_mul(nitems).ok_or(Error(code::INVALID_PARAM))?;
    position.checked_add(len).ok_or(Error(code::INVALID_PARAM))?;
    length(len)
}

/// Programs expect a number of items, not error codes.
fn items(result: Result<i64>) -> Result<i64> {
    Ok(result.unwrap_or(0))
}

/// Writes items at a position. Returns the number written.
///
/// # Safety
/// `stream` is null or from [`blosc2_stdio_open`], `ptr` has that many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_stdio_write(
    ptr: *const c_void,
    size: i64,
    nitems: i64,
    position: i64,
    stream: *mut c_void,
) -> i64 {
    let write = || {
        extent(size, nitems, position)?;
        ensure(!ptr.is_null(), code::NULL_POINTER)?;
        // SAFETY: guaranteed by the caller.
        unsafe {
            let file = file(stream)?;
            ensure(libc::fseeko(file, position, libc::SEEK_SET) == 0, code::FILE_WRITE)?;
            Ok(libc::fwrite(ptr, size as usize, nitems as usize, file) as i64)
        }
    };
    guard(|| items(write()))
}

/// Reads items at a position into the memory at `*ptr`. Returns the number read.
///
/// # Safety
/// `stream` is null or from [`blosc2_stdio_open`], `*ptr` has room for them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_stdio_read(
    ptr: *mut *mut c_void,
    size: i64,
    nitems: i64,
    position: i64,
    stream: *mut c_void,
) -> i64 {
    let read = || {
        extent(size, nitems, position)?;
        // SAFETY: guaranteed by the caller.
        unsafe {
            let to = copy_at(ptr)?;
            ensure(!to.is_null(), code::NULL_POINTER)?;
            let file = file(stream)?;
            ensure(libc::fseeko(file, position, libc::SEEK_SET) == 0, code::FILE_READ)?;
            Ok(libc::fread(to, size as usize, nitems as usize, file) as i64)
        }
    };
    guard(|| items(read()))
}

/// Sets the size of a file.
///
/// # Safety
/// `stream` is null or from [`blosc2_stdio_open`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_stdio_truncate(stream: *mut c_void, size: i64) -> c_int {
    guard(|| {
        ensure(size >= 0, code::FAILURE)?;
        // SAFETY: guaranteed by the caller.
        unsafe {
            let file = file(stream)?;
            libc::fflush(file);
            Ok(libc::ftruncate(libc::fileno(file), size))
        }
    })
}

/// Does nothing: parameters need no cleanup.
///
/// # Safety
/// None.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_stdio_destroy(_params: *mut c_void) -> c_int {
    0
}

/// Maps a file in the mode of `params`: `r` to read, `r+` to change, `w+` to create, `c` for private changes. `params`
/// is also the stream, and stays mapped until [`blosc2_stdio_mmap_destroy`].
///
/// # Safety
/// `urlpath` is null or a C string, `params` null or a `blosc2_stdio_mmap` that is not moved.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_stdio_mmap_open(
    urlpath: *const c_char,
    _mode: *const c_char,
    params: *mut c_void,
) -> *mut c_void {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        let (mut map, path) = unsafe { (copy_at(params.cast::<blosc2_stdio_mmap>())?, text(urlpath)?) };
        if !map.addr.is_null() {
            // SAFETY: it was set below.
            let same = unsafe { text(map.urlpath) }.is_ok_and(|mapped| mapped == path);
            ensure(same, code::FILE_OPEN)?;
            return Ok(params);
        }
        // SAFETY: the mode is null or a C string.
        let mode = unsafe { text(map.mode) }?;
        let (how, access, flags) = mapping(mode).ok_or(Error(code::INVALID_PARAM))?;
        // SAFETY: both are C strings.
        let file = unsafe { libc::fopen(path.as_ptr(), how.as_ptr()) };
        ensure(!file.is_null(), code::FILE_OPEN)?;
        (map.file, map.access_flags, map.map_flags) = (file, i64::from(access), i64::from(flags));
        map.is_memory_only = mode == c"c";
        // SAFETY: the file is open.
        map.fd = unsafe { libc::fileno(file) };
        let opened = map_file(&mut map).and_then(|()| {
            map.urlpath = copied_text(path)?;
            Ok(())
        });
        if let Err(error) = opened {
            // SAFETY: as above.
            unsafe { libc::fclose(file) };
            return Err(error);
        }
        if std::env::var_os("BLOSC_INFO").is_some() {
            let (path, mode, size) = (path.to_string_lossy(), mode.to_string_lossy(), map.mapping_size);
            eprintln!(
                "[info] - Opened memory-mapped file {path} in mode {mode} with an mapping size of {size} bytes."
            );
        }
        // SAFETY: as above.
        unsafe { put(params.cast(), map) };
        Ok(params)
    })
}

fn mapping(mode: &CStr) -> Option<(&'static CStr, c_int, c_int)> {
    let change = libc::PROT_READ | libc::PROT_WRITE;
    match mode.to_bytes() {
        b"r" => Some((c"rb", libc::PROT_READ, libc::MAP_SHARED)),
        b"r+" => Some((c"rb+", change, libc::MAP_SHARED)),
        b"w+" => Some((c"wb+", change, libc::MAP_SHARED)),
        b"c" => Some((c"rb", change, libc::MAP_PRIVATE)),
        _ => None,
    }
}

fn map_file(map: &mut blosc2_stdio_mmap) -> Result<()> {
    // SAFETY: a structure of the system, for which zeros are valid.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the file is open.
    ensure(unsafe { libc::fstat(map.fd, &mut stat) } == 0, code::FILE_READ)?;
    map.file_size = length(stat.st_size)?;
    let changes = map.access_flags as c_int & libc::PROT_WRITE != 0;
    map.mapping_size =
        if changes { map.file_size.max(map.initial_mapping_size) } else { map.file_size }.max(1);
    if changes && !map.is_memory_only && map.file_size == 0 {
        map.mapping_size = map.initial_mapping_size.max(1);
    }
    // SAFETY: a new mapping at an address chosen by the system. Pages beyond the end of the file are not touched before
    // the file has grown (see `grow`).
    let addr = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            map.mapping_size,
            map.access_flags as c_int,
            map.map_flags as c_int,
            map.fd,
            0,
        )
    };
    ensure(addr != libc::MAP_FAILED, code::MEMORY_ALLOC)?;
    map.addr = addr.cast();
    Ok(())
}

/// Ensures room for `size` bytes.
fn grow(map: &mut blosc2_stdio_mmap, size: usize) -> Result<()> {
    if size <= map.file_size {
        return Ok(());
    }
    if map.is_memory_only {
        return grow_memory(map, size);
    }
    // SAFETY: the file is open.
    ensure(unsafe { libc::ftruncate(map.fd, size as libc::off_t) } == 0, code::FILE_WRITE)?;
    if size > map.mapping_size {
        let more = size.max(map.mapping_size.saturating_mul(2));
        // SAFETY: the old mapping ends, a new and larger one begins.
        let addr = unsafe { libc::mremap(map.addr.cast(), map.mapping_size, more, libc::MREMAP_MAYMOVE) };
        ensure(addr != libc::MAP_FAILED, code::MEMORY_ALLOC)?;
        (map.addr, map.mapping_size) = (addr.cast(), more);
    }
    map.file_size = size;
    Ok(())
}

/// Like [`grow`], for private mappings: uses anonymous memory, since there is no file beyond its end.
fn grow_memory(map: &mut blosc2_stdio_mmap, size: usize) -> Result<()> {
    let more = size.max(map.file_size.saturating_mul(2)).max(map.initial_mapping_size.min(1 << 20));
    let anonymous = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    if map.fd < 0 && size <= map.mapping_size {
        map.file_size = size;
        return Ok(());
    }
    // SAFETY: a new mapping of memory.
    let addr = unsafe {
        libc::mmap(std::ptr::null_mut(), more, libc::PROT_READ | libc::PROT_WRITE, anonymous, -1, 0)
    };
    ensure(addr != libc::MAP_FAILED, code::MEMORY_ALLOC)?;
    // SAFETY: the old mapping has `file_size` valid bytes and the new one is larger; the old one is unmapped.
    unsafe {
        std::ptr::copy_nonoverlapping(map.addr.cast::<u8>(), addr.cast::<u8>(), map.file_size);
        libc::munmap(map.addr.cast(), map.mapping_size);
    }
    // From now on `fd` states that everything is in memory; `file` is closed at the end.
    (map.addr, map.mapping_size, map.file_size, map.fd) = (addr.cast(), more, size, -1);
    Ok(())
}

/// # Safety
/// `stream` is null or from [`blosc2_stdio_mmap_open`].
unsafe fn mapped(stream: *mut c_void) -> Result<blosc2_stdio_mmap> {
    // SAFETY: guaranteed by the caller.
    let map = unsafe { copy_at(stream.cast::<blosc2_stdio_mmap>()) }?;
    ensure(!map.addr.is_null(), code::NULL_POINTER)?;
    Ok(map)
}

/// Does nothing: the mapping stays.
///
/// # Safety
/// None.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_stdio_mmap_close(_stream: *mut c_void) -> c_int {
    0
}

/// Returns the size of a mapped file.
///
/// # Safety
/// `stream` is null or from [`blosc2_stdio_mmap_open`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_stdio_mmap_size(stream: *mut c_void) -> i64 {
    // SAFETY: guaranteed by the caller.
    guard(|| Ok(unsafe { mapped(stream) }?.file_size as i64))
}

/// Writes items at a position. Returns the number written.
///
/// # Safety
/// `stream` is null or from [`blosc2_stdio_mmap_open`], `ptr` has that many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_stdio_mmap_write(
    ptr: *const c_void,
    size: i64,
    nitems: i64,
    position: i64,
    stream: *mut c_void,
) -> i64 {
    let write = || {
        let len = extent(size, nitems, position)?;
        // SAFETY: guaranteed by the caller.
        let (mut map, from) = unsafe { (mapped(stream)?, bytes(ptr, len)?) };
        ensure(map.access_flags as c_int & libc::PROT_WRITE != 0, code::FILE_WRITE)?;
        let end = (position as usize).checked_add(len).ok_or(Error(code::INVALID_PARAM))?;
        let grown = grow(&mut map, end);
        // SAFETY: as above.
        unsafe { put(stream.cast(), map) };
        grown?;
        // SAFETY: the mapping has `file_size` bytes, which is not less than `end`.
        unsafe {
            let to = map.addr.cast::<u8>().add(position as usize);
            std::ptr::copy(from.as_ptr(), to, len);
        }
        Ok(nitems)
    };
    guard(|| items(write()))
}

/// Returns the number of items at a position, and writes their address to `*ptr`.
///
/// # Safety
/// `stream` is null or from [`blosc2_stdio_mmap_open`], `ptr` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_stdio_mmap_read(
    ptr: *mut *mut c_void,
    size: i64,
    nitems: i64,
    position: i64,
    stream: *mut c_void,
) -> i64 {
    let read = || {
        // SAFETY: guaranteed by the caller.
        unsafe { put(ptr, std::ptr::null_mut()) };
        ensure(!ptr.is_null(), code::NULL_POINTER)?;
        let len = extent(size, nitems, position)?;
        // SAFETY: as above.
        let map = unsafe { mapped(stream) }?;
        let end = (position as usize).checked_add(len).ok_or(Error(code::INVALID_PARAM))?;
        if end > map.file_size {
            return Ok(0);
        }
        // SAFETY: inside the mapping, and as above.
        unsafe { put(ptr, map.addr.add(position as usize).cast()) };
        Ok(nitems)
    };
    guard(|| items(read()))
}

/// Sets the size of a mapped file.
///
/// # Safety
/// `stream` is null or from [`blosc2_stdio_mmap_open`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_stdio_mmap_truncate(stream: *mut c_void, size: i64) -> c_int {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        let mut map = unsafe { mapped(stream) }?;
        let size = length(size)?;
        ensure(map.access_flags as c_int & libc::PROT_WRITE != 0, code::FILE_TRUNCATE)?;
        let result = if size > map.file_size {
            grow(&mut map, size)
        } else {
            // SAFETY: the file is open.
            let cut = map.is_memory_only || unsafe { libc::ftruncate(map.fd, size as libc::off_t) } == 0;
            if cut {
                map.file_size = size;
            }
            ensure(cut, code::FILE_TRUNCATE)
        };
        // SAFETY: as above.
        unsafe { put(stream.cast(), map) };
        result.map(|()| 0)
    })
}

/// Removes a mapping.
///
/// # Safety
/// `params` is null or a `blosc2_stdio_mmap` whose bytes are no longer in use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_stdio_mmap_destroy(params: *mut c_void) -> c_int {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        let map = unsafe { copy_at(params.cast::<blosc2_stdio_mmap>()) }.map_err(|_| Error(code::FAILURE))?;
        let mut result = if map.addr.is_null() { code::FAILURE } else { 0 };
        if !map.addr.is_null() {
            // SAFETY: the mapping has this length and is removed here; the file is open.
            unsafe {
                if map.access_flags as c_int & libc::PROT_WRITE != 0 && !map.is_memory_only {
                    result |= libc::msync(map.addr.cast(), map.file_size, libc::MS_ASYNC);
                }
                result |= libc::munmap(map.addr.cast(), map.mapping_size);
                if !map.file.is_null() {
                    result |= libc::fclose(map.file);
                }
                free(map.urlpath);
            }
            let (mode, initial, needs_free) = (map.mode, map.initial_mapping_size, map.needs_free);
            let ended = blosc2_stdio_mmap { mode, initial_mapping_size: initial, needs_free, ..MMAP_DEFAULT };
            // SAFETY: as above.
            unsafe { put(params.cast(), ended) };
        }
        if map.needs_free {
            // SAFETY: the program says that it is from `malloc`, and ownership is passed.
            unsafe { free(params) };
        }
        Ok(if result == 0 { 0 } else { code::FAILURE })
    })
}
