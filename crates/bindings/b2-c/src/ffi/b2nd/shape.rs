//! Changing shapes: resizing, inserting, joining, views.

use super::create::{self, b2nd_free};
use super::*;

/// Creates a view of an array without the axes of length 1 selected by `index`.
///
/// # Safety
/// `array` is null or an array, `view` null or valid for writing, `index` has one value per dimension.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_squeeze_index(
    array: *mut b2nd_array_t,
    view: *mut *mut b2nd_array_t,
    index: *const bool,
) -> c_int {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        let mut array = unsafe { array_at(array) }?;
        // SAFETY: as above.
        let index = unsafe { values(index, array.shapes.ndim()) }?;
        let wrong = index.iter().zip(&array.shapes.shape).any(|(drop, len)| *drop && *len != 1);
        ensure(!wrong, code::INVALID_INDEX)?;
        let axes: Vec<Option<usize>> = (0..index.len()).filter(|axis| !index[*axis]).map(Some).collect();
        // SAFETY: as above.
        unsafe { make_view(&mut array, view, &axes) }
    })
}

/// Creates a view of an array without its axes of length 1.
///
/// # Safety
/// As [`b2nd_squeeze_index`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_squeeze(array: *mut b2nd_array_t, view: *mut *mut b2nd_array_t) -> c_int {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        let mut array = unsafe { array_at(array) }?;
        let n = array.shapes.ndim();
        let axes: Vec<Option<usize>> =
            (0..n).filter(|axis| array.shapes.shape[*axis] != 1).map(Some).collect();
        // SAFETY: as above.
        unsafe { make_view(&mut array, view, &axes) }
    })
}

/// Creates a view of an array with new axes of length 1 where `axis` is set.
///
/// # Safety
/// `array` is null or an array, `view` null or valid for writing, `axis` has `final_dims` values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_expand_dims(
    array: *const b2nd_array_t,
    view: *mut *mut b2nd_array_t,
    axis: *const bool,
    final_dims: u8,
) -> c_int {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        let mut array = unsafe { array_at(array) }?;
        let n = usize::from(final_dims);
        ensure(n <= MAX_DIM, code::INVALID_PARAM)?;
        // SAFETY: as above.
        let new = unsafe { values(axis, n) }?;
        let mut old = 0..array.shapes.ndim();
        let axes: Vec<Option<usize>> = new.iter().map(|new| if *new { None } else { old.next() }).collect();
        let added = new.iter().filter(|new| **new).count();
        ensure(added + array.shapes.ndim() == n, code::INVALID_PARAM)?;
        // SAFETY: as above.
        unsafe { make_view(&mut array, view, &axes) }
    })
}

/// # Safety
/// `view` is null or valid for writing.
unsafe fn make_view(
    array: &mut ArrayHandle<'_>,
    view: *mut *mut b2nd_array_t,
    axes: &[Option<usize>],
) -> Result<c_int> {
    ensure(!view.is_null(), code::NULL_POINTER)?;
    let of = &array.shapes;
    let shapes = Shapes {
        shape: axes.iter().map(|axis| axis.map_or(1, |axis| of.shape[axis])).collect(),
        chunk: axes.iter().map(|axis| axis.map_or(1, |axis| of.chunk[axis])).collect(),
        block: axes.iter().map(|axis| axis.map_or(1, |axis| of.block[axis])).collect(),
    };
    let dtype = match array.c.dtype.get().is_null() {
        true => None,
        false => {
            // SAFETY: a C string that belongs to the array.
            Some((unsafe { text(array.c.dtype.get()) }?.to_bytes().to_vec(), array.c.dtype_format.get()))
        }
    };
    let state = schunk::view_of(array.state)?;
    let new = finish(state, |sc, state| wrap(sc, state, &shapes, dtype.as_ref()))?;
    // SAFETY: guaranteed by the caller.
    unsafe { put(view, new) };
    Ok(0)
}

/// Concatenates two arrays along an axis: into a new array or, without `copy`, into the first.
///
/// # Safety
/// `ctx` is null or valid, the sources are null or arrays, `array` is null or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_concatenate(
    ctx: *mut c_void,
    src1: *const b2nd_array_t,
    src2: *const b2nd_array_t,
    axis: i8,
    copy: bool,
    array: *mut *mut b2nd_array_t,
) -> c_int {
    guard(|| {
        ensure(!array.is_null(), code::NULL_POINTER)?;
        // SAFETY: guaranteed by the caller.
        let (mut params, (mut first, first_lock)) = unsafe { (params(ctx)?, array_to_read(src1)?) };
        // SAFETY: as above.
        let (second, second_lock) = unsafe { array_to_read(src2) }?;
        // Nothing is held while the lock of an existing array is waited for: another program may do the reverse.
        let keeps = copy && !schunk::calls_program(&params.cparams, &params.io);
        let _unchanged = keeps.then_some((first_lock, second_lock));
        ensure(second.shapes.nchunks() == second.state.c.nchunks.get(), code::DATA)?;
        let second_shapes = second.shapes;
        let axis = length(axis)?;
        let n = first.shapes.ndim();
        ensure(axis < n && second_shapes.ndim() == n, code::INVALID_PARAM)?;
        let other = |at: usize| at != axis && first.shapes.shape[at] != second_shapes.shape[at];
        ensure(!(0..n).any(other), code::INVALID_PARAM)?;
        // SAFETY: as above.
        ensure(unsafe { array_at(src2) }?.itemsize == first.itemsize, code::INVALID_PARAM)?;
        let offset = first.shapes.shape[axis];
        let result = if copy {
            params.shapes.shape.clone_from(&first.shapes.shape);
            ensure(params.shapes.ndim() == n, code::INVALID_PARAM)?;
            create::copy(&mut params, &mut first)?
        } else {
            src1.cast_mut()
        };
        drop(first);
        let join = || -> Result<()> {
            // SAFETY: as above, or just made.
            let mut to = unsafe { array_at(result) }?;
            let mut shape = to.shapes.shape.clone();
            shape[axis] += second_shapes.shape[axis];
            // SAFETY: as above.
            let from = unsafe { array_at(src2) }?;
            if can_move_chunks(&to, &from, axis, offset)? {
                // SAFETY: as above.
                return unsafe {
                    in_transaction(result, |to| {
                        to.resize(&shape, None)?;
                        move_chunks(to, &from, axis, offset)
                    })
                };
            }
            drop(from);
            to.resize(&shape, None)?;
            let zeros = vec![0; n];
            // Chunk by chunk of the second array, to limit memory.
            for nchunk in nd::chunks_of(&second_shapes, &zeros, &second_shapes.shape) {
                // SAFETY: as above.
                let mut from = unsafe { array_at(src2) }?;
                let (_, start, stop) = from.overlap(nchunk, &zeros, &second_shapes.shape);
                let lens: Vec<i64> = start.iter().zip(&stop).map(|(start, stop)| stop - start).collect();
                let mut part =
                    b2_core::memory::zeroed(lens.iter().product::<i64>() as usize * from.itemsize)?;
                from.read(&start, &stop, &mut part, &lens)?;
                let (mut start, mut stop) = (start, stop);
                start[axis] += offset;
                stop[axis] += offset;
                to.write(&start, &stop, &part, &lens)?;
            }
            Ok(())
        };
        if let Err(error) = join() {
            if copy {
                // SAFETY: it is not shared.
                unsafe { b2nd_free(result) };
            }
            return Err(error);
        }
        // SAFETY: as above.
        unsafe { put(array, result) };
        Ok(0)
    })
}

/// Returns whether the chunks of an array can be moved to another one, from `offset` on along an axis.
fn can_move_chunks(to: &ArrayHandle<'_>, from: &ArrayHandle<'_>, axis: usize, offset: i64) -> Result<bool> {
    let alike = to.shapes.chunk == from.shapes.chunk && to.shapes.block == from.shapes.block;
    let aligned = offset.checked_rem(i64::from(to.shapes.chunk[axis])) == Some(0);
    let hooked = to.state.cctx()?.cparams().prefilter.is_some() || from.state.dctx()?.hooks.has_postfilter();
    Ok(alike && aligned && !hooked && !to.state.has_chunks_of(from.state))
}

fn move_chunks(to: &ArrayHandle<'_>, from: &ArrayHandle<'_>, axis: usize, offset: i64) -> Result<()> {
    let strides = nd::strides(&to.shapes.grid());
    for nchunk in 0..from.shapes.nchunks() {
        let mut index = nd::index_of(&from.shapes.grid(), nchunk);
        index[axis] += offset / i64::from(to.shapes.chunk[axis]);
        let place: i64 = index.iter().zip(&strides).map(|(at, stride)| at * stride).sum();
        let chunk = MallocBytes::copy(&from.state.chunk(length(nchunk)?)?)?;
        to.state.update(length(place)?, chunk)?;
    }
    Ok(())
}

/// Resizes an array at the end of each axis or at `start`. New items are zeros.
///
/// # Safety
/// `array` is null or an array, `new_shape` has one value per dimension, and so has `start`, unless it is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_resize(
    array: *mut b2nd_array_t,
    new_shape: *const i64,
    start: *const i64,
) -> c_int {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        unsafe {
            in_transaction(array, |array| {
                let n = array.shapes.ndim();
                let start = if start.is_null() { None } else { Some(values(start, n)?) };
                let shape = values(new_shape, n)?;
                array.clear_padding(shape, start)?;
                array.resize(shape, start)
            })?;
        }
        Ok(0)
    })
}

/// Reloads the shape if another handle changed it in the file. Returns 1 if it did.
///
/// # Safety
/// `array` is null or an array.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_refresh(array: *mut b2nd_array_t) -> c_int {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        let before = values_of(&unsafe { shared(array) }?.shape);
        // SAFETY: as above.
        let array = unsafe { array_at(array) }?;
        Ok(c_int::from(values_of(&array.c.shape) != before))
    })
}

/// # Safety
/// `buffer` has `buffersize` bytes.
unsafe fn insert(
    array: &mut ArrayHandle<'_>,
    buffer: *const c_void,
    buffersize: i64,
    axis: i8,
    at: i64,
) -> Result<()> {
    let axis = length(axis)?;
    let n = array.shapes.ndim();
    ensure(axis < n && (0..=array.shapes.shape[axis]).contains(&at), code::INVALID_PARAM)?;
    let others = (0..n).filter(|other| *other != axis).map(|other| array.shapes.shape[other]);
    let row = others.product::<i64>().saturating_mul(array.itemsize as i64);
    ensure(row > 0 && buffersize >= 0 && buffersize % row == 0, code::INVALID_PARAM)?;
    // SAFETY: guaranteed by the caller.
    let items = unsafe { bytes(buffer, length(buffersize)?) }?;
    let mut shape = array.shapes.shape.clone();
    let count = buffersize / row;
    shape[axis] += count;
    let mut start = vec![0; n];
    start[axis] = at;
    array.resize(&shape, Some(&start))?;
    let (mut stop, mut lens) = (shape.clone(), shape);
    stop[axis] = at + count;
    lens[axis] = count;
    array.write(&start, &stop, items, &lens)
}

/// Inserts items along an axis.
///
/// # Safety
/// `array` is null or an array, `buffer` has `buffersize` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_insert(
    array: *mut b2nd_array_t,
    buffer: *const c_void,
    buffersize: i64,
    axis: i8,
    insert_start: i64,
) -> c_int {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        unsafe { in_transaction(array, |array| insert(array, buffer, buffersize, axis, insert_start)) }?;
        Ok(0)
    })
}

/// Appends items along an axis.
///
/// # Safety
/// As [`b2nd_insert`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_append(
    array: *mut b2nd_array_t,
    buffer: *const c_void,
    buffersize: i64,
    axis: i8,
) -> c_int {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        unsafe {
            in_transaction(array, |array| {
                let end = *array.shapes.shape.get(length(axis)?).ok_or(Error(code::INVALID_PARAM))?;
                insert(array, buffer, buffersize, axis, end)
            })?;
        }
        Ok(0)
    })
}

fn delete(array: &mut ArrayHandle<'_>, axis: i8, delete_start: i64, delete_len: i64) -> Result<()> {
    let axis = length(axis)?;
    ensure(axis < array.shapes.ndim() && delete_start >= 0 && delete_len >= 0, code::INVALID_PARAM)?;
    let mut shape = array.shapes.shape.clone();
    shape[axis] =
        shape[axis].checked_sub(delete_len).filter(|len| *len >= 0).ok_or(Error(code::INVALID_PARAM))?;
    let mut start = vec![0; shape.len()];
    start[axis] = delete_start;
    array.resize(&shape, Some(&start))
}

/// Removes items along an axis.
///
/// # Safety
/// `array` is null or an array.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_delete(
    array: *mut b2nd_array_t,
    axis: i8,
    delete_start: i64,
    delete_len: i64,
) -> c_int {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        unsafe { in_transaction(array, |array| delete(array, axis, delete_start, delete_len)) }?;
        Ok(0)
    })
}
