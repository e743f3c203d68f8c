//! Items of arrays: boxes, single items, and selections.

use super::work::ItemBuffer;
use super::*;

/// A box of an array, the shape of its buffer, and the size of that in bytes.
type BoxArgs<'a> = (&'a [i64], &'a [i64], &'a [i64], usize);

/// Positions along each axis, the shape of their buffer, and its size in bytes.
type PositionArgs<'a> = (Vec<&'a [i64]>, &'a [i64], usize);

/// Copies all items in C order, and zeros the rest of the buffer.
///
/// # Safety
/// `array` is null or an array, `buffer` has `buffersize` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_to_cbuffer(
    array: *const b2nd_array_t,
    buffer: *mut c_void,
    buffersize: i64,
) -> c_int {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        let (mut array, _unchanged) = unsafe { array_to_read(array) }?;
        let need = length(array.shapes.nitems())?.saturating_mul(array.itemsize);
        ensure(buffersize >= need as i64, code::INVALID_PARAM)?;
        if need == 0 {
            return Ok(0);
        }
        // SAFETY: as above.
        let (buffer, rest) = unsafe { bytes_mut(buffer, length(buffersize)?) }?.split_at_mut(need);
        rest.fill(0);
        let (start, stop) = (vec![0; array.shapes.ndim()], array.shapes.shape.clone());
        array.read(&start, &stop, buffer, &stop)?;
        Ok(0)
    })
}

/// Copies single items, given by their number in C order.
///
/// # Safety
/// `array` is null or an array, there are `ncoords` numbers, `buffer` has `buffersize` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_get_sparse_cbuffer(
    array: *const b2nd_array_t,
    ncoords: i64,
    coords: *const i64,
    buffer: *mut c_void,
    buffersize: i64,
) -> c_int {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        let (array, _unchanged) = unsafe { array_to_read(array) }?;
        ensure(ncoords >= 0, code::INVALID_PARAM)?;
        if ncoords == 0 {
            return Ok(0);
        }
        ensure(!coords.is_null() && !buffer.is_null(), code::INVALID_PARAM)?;
        // SAFETY: as above.
        let coords = unsafe { values(coords, length(ncoords)?) }?;
        let size = array.itemsize;
        let need = coords.len().saturating_mul(size);
        ensure(buffersize >= need as i64, code::INVALID_PARAM)?;
        // SAFETY: as above.
        let buffer = unsafe { bytes_mut(buffer, need) }?;
        let nitems = array.shapes.nitems();
        ensure(coords.iter().all(|at| (0..nitems).contains(at)), code::INVALID_PARAM)?;
        let (chunks, stored) = (nd::strides(&array.shapes.grid()), array.shapes.chunk_stored());
        let place = |item: i64| {
            let index = nd::index_of(&array.shapes.shape, item);
            index.iter().enumerate().fold(0, |sum, (axis, at)| {
                let chunk = i64::from(array.shapes.chunk[axis]).max(1);
                sum + at / chunk * chunks[axis] * stored + array.shapes.offset_in_chunk(axis, at % chunk)
            })
        };
        let places = coords.iter().enumerate().map(|(n, item)| (place(*item), n));
        let mut order = b2_core::memory::collect(places)?;
        order.sort_unstable();
        let mut items = order.iter().map(|(place, n)| (*n, *place as usize));
        schunk::gather(array.state, size, stored as usize * size, &mut items, buffer)?;
        Ok(0)
    })
}

/// # Safety
/// The limits and the shape have one value per dimension.
unsafe fn box_at<'a>(
    array: &ArrayHandle<'_>,
    (start, stop, shape): (*const i64, *const i64, *const i64),
    buffersize: i64,
) -> Result<BoxArgs<'a>> {
    let n = array.shapes.ndim();
    // SAFETY: guaranteed by the caller.
    let (start, stop, shape) = unsafe { (values(start, n)?, values(stop, n)?, values(shape, n)?) };
    array.check(start, stop)?;
    let fits = (0..n).all(|axis| stop[axis] - start[axis] <= shape[axis]);
    ensure(fits, code::INVALID_PARAM)?;
    let need = shape.iter().try_fold(array.itemsize as i64, |bytes, len| bytes.checked_mul(*len));
    let need = need.filter(|need| *need <= buffersize).ok_or(Error(code::INVALID_PARAM))?;
    Ok((start, stop, shape, length(need)?))
}

/// Copies a box of an array into a buffer. The rest of the buffer is zeroed.
///
/// # Safety
/// `array` is null or an array, `buffer` has `buffersize` bytes; the limits and the shape have one value per dimension.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_get_slice_cbuffer(
    array: *const b2nd_array_t,
    start: *const i64,
    stop: *const i64,
    buffer: *mut c_void,
    buffershape: *const i64,
    buffersize: i64,
) -> c_int {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        let (mut array, _unchanged) = unsafe { array_to_read(array) }?;
        // SAFETY: as above.
        let (start, stop, shape, need) = unsafe { box_at(&array, (start, stop, buffershape), buffersize) }?;
        // SAFETY: as above.
        let (buffer, rest) = unsafe { bytes_mut(buffer, length(buffersize)?) }?.split_at_mut(need);
        rest.fill(0);
        let filled = start.iter().zip(stop).zip(shape).all(|((start, stop), room)| stop - start == *room);
        if !filled {
            buffer.fill(0);
        }
        array.read(start, stop, buffer, shape)?;
        Ok(0)
    })
}

/// Replaces a box of an array with a buffer.
///
/// # Safety
/// As [`b2nd_get_slice_cbuffer`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_set_slice_cbuffer(
    buffer: *const c_void,
    buffershape: *const i64,
    buffersize: i64,
    start: *const i64,
    stop: *const i64,
    array: *mut b2nd_array_t,
) -> c_int {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        unsafe {
            in_transaction(array, |array| {
                let (start, stop, shape, need) = box_at(array, (start, stop, buffershape), buffersize)?;
                array.write(start, stop, bytes(buffer, need)?, shape)
            })?;
        }
        Ok(0)
    })
}

/// # Safety
/// The pointers have one value per dimension, and the lists the lengths given.
unsafe fn selection_at<'a>(
    array: &ArrayHandle<'_>,
    selection: *mut *mut i64,
    selection_size: *mut i64,
    buffershape: *mut i64,
    buffersize: i64,
) -> Result<PositionArgs<'a>> {
    let n = array.shapes.ndim();
    // SAFETY: guaranteed by the caller.
    let (lists, sizes, shape) =
        unsafe { (values(selection, n)?, values(selection_size, n)?, values(buffershape, n)?) };
    let mut selected = Vec::new();
    for ((list, size), len) in lists.iter().zip(sizes).zip(shape) {
        ensure(size <= len, code::INVALID_PARAM)?;
        // SAFETY: as above.
        selected.push(unsafe { values(*list, length(*size)?) }?);
    }
    let need = shape.iter().try_fold(array.itemsize as i64, |bytes, len| bytes.checked_mul(*len));
    let need = need.filter(|need| (0..=buffersize).contains(need)).ok_or(Error(code::INVALID_PARAM))?;
    Ok((selected, shape, length(need)?))
}

/// Copies the items at all combinations of positions along each axis into a buffer.
///
/// # Safety
/// `array` is null or an array; the others have the lengths given by dimensions and sizes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_get_orthogonal_selection(
    array: *const b2nd_array_t,
    selection: *mut *mut i64,
    selection_size: *mut i64,
    buffer: *mut c_void,
    buffershape: *mut i64,
    buffersize: i64,
) -> c_int {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        let (mut array, _unchanged) = unsafe { array_to_read(array) }?;
        // SAFETY: as above.
        let (selected, shape, need) =
            unsafe { selection_at(&array, selection, selection_size, buffershape, buffersize) }?;
        // SAFETY: as above.
        array.orthogonal(&selected, shape, ItemBuffer::Get(unsafe { bytes_mut(buffer, need) }?))?;
        Ok(0)
    })
}

/// Replaces the items at all combinations of positions along each axis.
///
/// # Safety
/// As [`b2nd_get_orthogonal_selection`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_set_orthogonal_selection(
    array: *mut b2nd_array_t,
    selection: *mut *mut i64,
    selection_size: *mut i64,
    buffer: *const c_void,
    buffershape: *mut i64,
    buffersize: i64,
) -> c_int {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        unsafe {
            in_transaction(array, |array| {
                let (selected, shape, need) =
                    selection_at(array, selection, selection_size, buffershape, buffersize)?;
                array.orthogonal(&selected, shape, ItemBuffer::Set(bytes(buffer, need)?))
            })?;
        }
        Ok(0)
    })
}
