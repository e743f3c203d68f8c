//! The metalayer of arrays, and copies between buffers.

use super::*;

/// Prints the metalayer of an array.
///
/// # Safety
/// `array` is null or an array.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_print_meta(array: *const b2nd_array_t) -> c_int {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        let array = unsafe { array_at(array) }?;
        let list = |lens: &[i64]| lens.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
        let shapes = &array.shapes;
        println!("b2nd metalayer parameters:");
        println!(" Ndim:       {}", shapes.ndim());
        println!(" shape:      {}", list(&shapes.shape));
        println!(" chunkshape: {}", list(&shapes.chunk64()));
        if !array.c.dtype.get().is_null() {
            // SAFETY: a C string that belongs to the array.
            println!(" dtype:      {}", unsafe { text(array.c.dtype.get()) }?.to_string_lossy());
        }
        println!(" blockshape: {}", list(&shapes.block64()));
        Ok(0)
    })
}

/// Encodes the metalayer of an array, into memory that the caller frees. Returns its length.
///
/// # Safety
/// The pointers are null or valid, with a value for each dimension.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_serialize_meta(
    ndim: i8,
    shape: *const i64,
    chunkshape: *const i32,
    blockshape: *const i32,
    dtype: *const c_char,
    dtype_format: i8,
    smeta: *mut *mut u8,
) -> c_int {
    guard(|| {
        let n = length(ndim)?;
        ensure(n <= MAX_DIM, code::INVALID_PARAM)?;
        ensure(dtype_format >= 0, code::FAILURE)?;
        // SAFETY: guaranteed by the caller.
        let (shape, chunk, block) =
            unsafe { (values(shape, n)?, values(chunkshape, n)?, values(blockshape, n)?) };
        // SAFETY: as above.
        let dtype = if dtype.is_null() { b"|u1" } else { unsafe { text(dtype) }?.to_bytes() };
        let shapes = Shapes { shape: shape.to_vec(), chunk: chunk.to_vec(), block: block.to_vec() };
        let meta = nd::serialize(&shapes, dtype, dtype_format);
        ensure(!smeta.is_null(), code::NULL_POINTER)?;
        // SAFETY: as above.
        unsafe { put(smeta, copied(&meta)?) };
        Ok(meta.len() as c_int)
    })
}

/// Decodes the metalayer of an array. Returns its length; the caller frees the dtype.
///
/// # Safety
/// `smeta` has `smeta_len` bytes; the shapes have room for 16 lengths; `dtype` and `dtype_format` may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_deserialize_meta(
    smeta: *const u8,
    smeta_len: i32,
    ndim: *mut i8,
    shape: *mut i64,
    chunkshape: *mut i32,
    blockshape: *mut i32,
    dtype: *mut *mut c_char,
    dtype_format: *mut i8,
) -> c_int {
    guard(|| {
        let nulls = smeta.is_null()
            || ndim.is_null()
            || shape.is_null()
            || chunkshape.is_null()
            || blockshape.is_null();
        ensure(!nulls, code::NULL_POINTER)?;
        // SAFETY: guaranteed by the caller.
        unsafe {
            put(dtype, std::ptr::null_mut());
            put(dtype_format, 0);
        }
        ensure(smeta_len > 0, code::FAILURE)?;
        // SAFETY: as above.
        let meta = unsafe { bytes(smeta.cast(), length(smeta_len)?) }?;
        let (shapes, text, len) = nd::deserialize(meta)?;
        let bare = meta.len() - text.as_ref().map_or(0, |(text, _)| 6 + text.len()) - (meta.len() - len);
        // SAFETY: as above.
        unsafe {
            put(ndim, shapes.ndim() as i8);
            for axis in 0..shapes.ndim() {
                put(shape.add(axis), shapes.shape[axis]);
                put(chunkshape.add(axis), shapes.chunk[axis]);
                put(blockshape.add(axis), shapes.block[axis]);
            }
            if dtype.is_null() || dtype_format.is_null() {
                return Ok(bare as c_int);
            }
            if let Some((text, format)) = text {
                let text: Vec<u8> = text.into_iter().chain([0]).collect();
                put(dtype, copied(&text)?.cast());
                put(dtype_format, format);
            }
        }
        Ok(len as c_int)
    })
}

/// As [`b2nd_copy_buffer2`], for items of up to 255 bytes.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_copy_buffer(
    ndim: i8,
    itemsize: u8,
    src: *const c_void,
    src_pad_shape: *const i64,
    src_start: *const i64,
    src_stop: *const i64,
    dst: *mut c_void,
    dst_pad_shape: *const i64,
    dst_start: *const i64,
) -> c_int {
    // SAFETY: guaranteed by the caller.
    unsafe {
        b2nd_copy_buffer2(
            ndim,
            i32::from(itemsize),
            src,
            src_pad_shape,
            src_start,
            src_stop,
            dst,
            dst_pad_shape,
            dst_start,
        )
    }
}

/// Copies a box of one buffer into another.
///
/// # Safety
/// The buffers have the shapes given, and do not overlap; shapes and limits have `ndim` values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_copy_buffer2(
    ndim: i8,
    itemsize: i32,
    src: *const c_void,
    src_pad_shape: *const i64,
    src_start: *const i64,
    src_stop: *const i64,
    dst: *mut c_void,
    dst_pad_shape: *const i64,
    dst_start: *const i64,
) -> c_int {
    guard(|| {
        let (n, size) = (length(ndim)?, length(itemsize)?);
        ensure(n <= MAX_DIM && size > 0, code::INVALID_PARAM)?;
        // SAFETY: guaranteed by the caller.
        let (from_shape, start, stop) =
            unsafe { (values(src_pad_shape, n)?, values(src_start, n)?, values(src_stop, n)?) };
        // SAFETY: as above.
        let (to_shape, to_start) = unsafe { (values(dst_pad_shape, n)?, values(dst_start, n)?) };
        ensure(start.iter().zip(stop).all(|(start, stop)| start <= stop), code::INVALID_PARAM)?;
        let lens: Vec<i64> = start.iter().zip(stop).map(|(start, stop)| stop - start).collect();
        let size_of =
            |shape: &[i64]| shape.iter().try_fold(size as i64, |bytes, len| bytes.checked_mul(*len));
        let (from_len, to_len) = (size_of(from_shape), size_of(to_shape));
        let (Some(from_len), Some(to_len)) = (from_len, to_len) else {
            return Err(Error(code::INVALID_PARAM));
        };
        // SAFETY: as above.
        let (from, to) = unsafe { (bytes(src, length(from_len)?)?, bytes_mut(dst, length(to_len)?)?) };
        let from_part = BoxPart { shape: from_shape, start };
        nd::copy(&lens, size, from, from_part, to, BoxPart { shape: to_shape, start: to_start })?;
        Ok(0)
    })
}
