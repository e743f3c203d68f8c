//! Shuffles, indices and clocks.

use std::ffi::c_void;

use b2_chunk::filters::{BitShuffle, Filter, FilterContext, Shuffle};

use crate::abi::{Field, blosc2_schunk, code};
use crate::core::error::{Error, Result, ensure};
use crate::core::nd;
use crate::ffi::{b2nd, bytes, bytes_mut, guard, length, memory, put, schunk, values};

/// # Safety
/// Both buffers have `blocksize` bytes.
unsafe fn filter(
    filter: &dyn Filter,
    typesize: i32,
    (blocksize, src, dest): (i32, *const c_void, *mut c_void),
    forward: bool,
) -> Result<i32> {
    ensure((1..256).contains(&typesize), code::INVALID_PARAM)?;
    let len = length(blocksize)?;
    // SAFETY: guaranteed by the caller.
    let (src, dst) = unsafe { (bytes(src, len)?, bytes_mut(dest, len)?) };
    let cx = FilterContext::new(typesize as usize);
    let done = match forward {
        true => filter.forward(&cx, 0, src, dst),
        false => filter.backward(&cx, 0, src, dst),
    };
    done.map_err(|_| Error(code::FILTER_PIPELINE))?;
    Ok(blocksize)
}

/// Shuffles bytes: all first bytes of the items, then all second bytes, and so on.
///
/// # Safety
/// Both buffers have `blocksize` bytes and do not overlap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_shuffle(
    typesize: i32,
    blocksize: i32,
    src: *const c_void,
    dest: *mut c_void,
) -> i32 {
    // SAFETY: guaranteed by the caller.
    guard(|| unsafe { filter(&Shuffle, typesize, (blocksize, src, dest), true) })
}

/// Undoes [`blosc2_shuffle`].
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_unshuffle(
    typesize: i32,
    blocksize: i32,
    src: *const c_void,
    dest: *mut c_void,
) -> i32 {
    // SAFETY: guaranteed by the caller.
    guard(|| unsafe { filter(&Shuffle, typesize, (blocksize, src, dest), false) })
}

/// Shuffles bits.
///
/// # Safety
/// As [`blosc2_shuffle`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_bitshuffle(
    typesize: i32,
    blocksize: i32,
    src: *const c_void,
    dest: *mut c_void,
) -> i32 {
    // SAFETY: guaranteed by the caller.
    guard(|| unsafe { filter(&BitShuffle, typesize, (blocksize, src, dest), true) })
}

/// Undoes [`blosc2_bitshuffle`].
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_bitunshuffle(
    typesize: i32,
    blocksize: i32,
    src: *const c_void,
    dest: *mut c_void,
) -> i32 {
    // SAFETY: guaranteed by the caller.
    guard(|| unsafe { filter(&BitShuffle, typesize, (blocksize, src, dest), false) })
}

/// Returns the index along each dimension of the i-th item.
///
/// # Safety
/// `shape` and `index` have `ndim` values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_unidim_to_multidim(ndim: u8, shape: *mut i64, i: i64, index: *mut i64) {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        let shape = unsafe { values(shape, usize::from(ndim)) }?;
        for (axis, at) in nd::index_of(shape, i).into_iter().enumerate() {
            // SAFETY: as above.
            unsafe { put(index.wrapping_add(axis), at) };
        }
        Ok(())
    });
}

/// Returns the number of the item at an index.
///
/// # Safety
/// `index` and `strides` have `ndim` values; `i` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_multidim_to_unidim(
    index: *const i64,
    ndim: i8,
    strides: *const i64,
    i: *mut i64,
) {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        let (index, strides) = unsafe { (values(index, length(ndim)?)?, values(strides, length(ndim)?)?) };
        let sum = index
            .iter()
            .zip(strides)
            .fold(0_i64, |sum, (at, stride)| sum.wrapping_add(at.wrapping_mul(*stride)));
        // SAFETY: as above.
        unsafe { put(i, sum) };
        Ok(())
    });
}

/// Returns the chunks that overlap a slice, in memory that the caller frees, and their number.
///
/// # Safety
/// `schunk` is null or a super-chunk; the limits have one value per dimension, or one; `chunks_idx` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_get_slice_nchunks(
    schunk: *mut blosc2_schunk,
    start: *mut i64,
    stop: *mut i64,
    chunks_idx: *mut *mut i64,
) -> i64 {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        let state = unsafe { schunk::state(schunk) }?;
        let shapes = b2nd::shapes_of(state)?;
        let n = shapes.as_ref().map_or(1, |shapes| shapes.ndim());
        // SAFETY: as above.
        let (start, stop) = unsafe { (values(start, n)?, values(stop, n)?) };
        let chunks = match shapes {
            Some(shapes) => {
                ensure(
                    start.iter().zip(stop).all(|(from, to)| *from >= 0 && from <= to),
                    code::INVALID_PARAM,
                )?;
                nd::chunks_of(&shapes, start, stop)
            }
            None if state.c.nchunks.get() == 0 => Vec::new(),
            None => {
                let (size, chunksize) =
                    (i64::from(state.c.typesize.get()), i64::from(state.c.chunksize.get()));
                ensure(chunksize > 0 && size > 0 && start[0] >= 0, code::INVALID_PARAM)?;
                let (from, to) = (start[0].saturating_mul(size), stop[0].saturating_mul(size));
                ensure(from <= to, code::INVALID_PARAM)?;
                if from == to { Vec::new() } else { (from / chunksize..=(to - 1) / chunksize).collect() }
            }
        };
        ensure(!chunks_idx.is_null(), code::NULL_POINTER)?;
        // SAFETY: as above.
        unsafe { put(chunks_idx, memory::copied_values(&chunks)?) };
        Ok(chunks.len() as i64)
    })
}

/// Writes the time.
///
/// # Safety
/// `timestamp` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc_set_timestamp(timestamp: *mut libc::timespec) {
    if !timestamp.is_null() {
        // SAFETY: guaranteed by the caller.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, timestamp) };
    }
}

/// Returns the nanoseconds between two times.
#[unsafe(no_mangle)]
pub extern "C" fn blosc_elapsed_nsecs(start_time: libc::timespec, end_time: libc::timespec) -> f64 {
    let seconds = end_time.tv_sec as f64 - start_time.tv_sec as f64;
    seconds * 1e9 + (end_time.tv_nsec as f64 - start_time.tv_nsec as f64)
}

/// Returns the seconds between two times.
#[unsafe(no_mangle)]
pub extern "C" fn blosc_elapsed_secs(start_time: libc::timespec, end_time: libc::timespec) -> f64 {
    blosc_elapsed_nsecs(start_time, end_time) / 1e9
}

/// Sets the function that runs jobs on threads of the program.
///
/// # Safety
/// `callback` is null or stays valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_set_threads_callback(
    callback: Option<super::threads::Callback>,
    data: *mut c_void,
) {
    super::threads::set(callback, data);
}
