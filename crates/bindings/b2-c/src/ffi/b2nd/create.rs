//! Creating, opening, saving, copying and freeing arrays.

use b2_frame::{INDEXES, Storage};

use super::*;
use crate::core::frame::to_write;

/// The content of a new array.
pub(super) enum FillSource<'a> {
    Special(c_int),
    Value(&'a [u8]),
    /// All items, in C order.
    Items(&'a [u8]),
    /// A box of another array.
    Of(ArrayHandle<'a>, Vec<i64>),
    Nothing,
}

/// Creates an array.
pub(super) fn create(
    params: &mut ArrayParams,
    shapes: &Shapes,
    fill: FillSource<'_>,
) -> Result<*mut b2nd_array_t> {
    shapes.check()?;
    ensure(params.dtype.1 >= 0, code::FAILURE)?;
    let itemsize = params.cparams.typesize;
    let block = shapes.block_nitems().saturating_mul(i64::from(itemsize));
    ensure(block <= i64::from(MAX_BLOCKSIZE), code::INVALID_PARAM)?;
    params.cparams.blocksize = block as i32;
    let storage = params.storage();
    let meta = nd::serialize(shapes, &params.dtype.0, params.dtype.1);
    let metas: Vec<_> = [(META.to_vec(), meta)].into_iter().chain(params.metas.iter().cloned()).collect();
    // SAFETY: everything it refers to is in `params`.
    let state = unsafe { schunk::new(&storage, &metas) }?;
    state.set_blockshape(&shapes.block)?;
    let dtype = &params.dtype;
    finish(state, |sc, state| {
        let array = wrap(sc, state, shapes, Some(dtype))?;
        // SAFETY: it was just created and is not shared.
        let filled = unsafe { shared(array) }
            .and_then(|c| state.in_transaction(|state| fill_new(c, state, shapes, fill)));
        if let Err(error) = filled {
            // SAFETY: as above.
            unsafe { free_array(array) };
            return Err(error);
        }
        // SAFETY: as above.
        unsafe { shared(array) }?.last_tick.set(state.c.change_tick.get());
        Ok(array)
    })
}

fn fill_new(c: &b2nd_array_t, state: &SchunkState, shapes: &Shapes, fill: FillSource<'_>) -> Result<()> {
    let itemsize = length(state.c.typesize.get())?;
    let stored = shapes.chunk_stored();
    let nbytes = i32::try_from(stored * itemsize as i64).map_err(|_| Error(code::MAX_BUFSIZE_EXCEEDED))?;
    ensure(nbytes <= MAX_BUFFERSIZE, code::MAX_BUFSIZE_EXCEEDED)?;
    let nchunks = shapes.nchunks();
    if nchunks == 0 {
        return Ok(());
    }
    let mut of = match fill {
        FillSource::Nothing => return Ok(()),
        FillSource::Special(kind) => {
            schunk::fill_special(state, nchunks * stored, kind, nbytes)?;
            return Ok(());
        }
        FillSource::Value(value) => {
            let cparams = state.cctx()?.cparams();
            let chunk = special(&cparams, SpecialKind::Value, value, nbytes)?;
            for n in 0..length(nchunks)? {
                state.insert(n, MallocBytes::copy(chunk.as_bytes())?, code::CHUNK_APPEND)?;
            }
            return Ok(());
        }
        other => other,
    };
    let mut plain = b2_core::memory::zeroed(nbytes as usize)?;
    let mut part = Vec::new();
    let (zeros, stop) = (vec![0; shapes.ndim()], shapes.shape.clone());
    for n in 0..nchunks {
        let array = ArrayHandle { c, state, shapes: shapes.clone(), itemsize };
        let (origin, from, to) = array.overlap(n, &zeros, &stop);
        plain.fill(0);
        match &mut of {
            FillSource::Items(items) => {
                array.fill(
                    &mut plain,
                    (&origin, &from, &to),
                    items,
                    BoxPart { shape: &shapes.shape, start: &zeros },
                )?;
            }
            FillSource::Of(source, start) => {
                let lens: Vec<i64> = from.iter().zip(&to).map(|(from, to)| to - from).collect();
                let part =
                    b2_core::memory::sized(&mut part, lens.iter().product::<i64>() as usize * itemsize)?;
                let first: Vec<i64> = from.iter().zip(start.iter()).map(|(at, start)| at + start).collect();
                let last: Vec<i64> = to.iter().zip(start.iter()).map(|(at, start)| at + start).collect();
                source.read(&first, &last, part, &lens)?;
                array.fill(
                    &mut plain,
                    (&origin, &from, &to),
                    part,
                    BoxPart { shape: &lens, start: &from },
                )?;
            }
            _ => {}
        }
        let chunk = state.compressed(n as usize, &plain)?;
        state.insert(n as usize, chunk, code::CHUNK_APPEND)?;
    }
    Ok(())
}

/// Frees the structure of an array, not its super-chunk.
///
/// # Safety
/// `array` is from [`wrap`], and no longer in use.
pub(super) unsafe fn free_array(array: *mut b2nd_array_t) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let array = Box::from_raw(array);
        free(array.dtype.get());
        free(array.chunk_cache.data.get());
    }
}

/// Creates the parameters of new arrays. Without a dtype, items are bytes: `|S` and their size.
///
/// # Safety
/// The pointers are null or valid, with `ndim` and `nmetalayers` values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_create_ctx(
    b2_storage: *const blosc2_storage,
    ndim: i8,
    shape: *const i64,
    chunkshape: *const i32,
    blockshape: *const i32,
    dtype: *const c_char,
    dtype_format: i8,
    metalayers: *const blosc2_metalayer,
    nmetalayers: i32,
) -> *mut c_void {
    guard(|| {
        let n = length(ndim)?;
        ensure(n <= MAX_DIM, code::INVALID_PARAM)?;
        // SAFETY: guaranteed by the caller.
        let (shape, chunk, block) =
            unsafe { (values(shape, n)?, values(chunkshape, n)?, values(blockshape, n)?) };
        // SAFETY: as above.
        let storage = unsafe { b2_storage.as_ref() }.copied().unwrap_or(blosc2_storage::DEFAULT);
        // SAFETY: as above.
        let (cparams, dparams, io, path) = unsafe {
            (
                storage.cparams.as_ref().copied().unwrap_or(blosc2_cparams::DEFAULT),
                storage.dparams.as_ref().copied().unwrap_or(crate::abi::blosc2_dparams::DEFAULT),
                storage.io.as_ref().copied().unwrap_or(crate::ffi::io::DEFAULT),
                if storage.urlpath.is_null() { None } else { Some(text(storage.urlpath)?.to_owned()) },
            )
        };
        let shapes = Shapes::resizable(shape, chunk, block, i64::from(cparams.typesize))?;
        let dtype = match dtype.is_null() {
            true => (format!("|S{}", cparams.typesize).into_bytes(), dtype_format),
            // SAFETY: as above.
            false => (unsafe { text(dtype) }?.to_bytes().to_vec(), dtype_format),
        };
        let mut metas = Vec::new();
        let count = length(nmetalayers)?;
        ensure(count < crate::abi::MAX_METALAYERS, code::INVALID_PARAM)?;
        for n in 0..count {
            // SAFETY: as above.
            let meta = unsafe { copy_at(metalayers.add(n)) }?;
            // SAFETY: as above.
            let (name, value) =
                unsafe { (text(meta.name)?, bytes(meta.content.cast(), length(meta.content_len)?)?) };
            ensure(name.to_bytes().len() <= crate::abi::METALAYER_NAME_MAXLEN, code::INVALID_PARAM)?;
            metas.push((name.to_bytes().to_vec(), value.to_vec()));
        }
        let (shape, chunkshape, blockshape) =
            (fixed(&shapes.shape, 1), fixed(&shapes.chunk, 1), fixed(&shapes.block, 1));
        let params = ArrayParams {
            ndim,
            shape,
            chunkshape,
            blockshape,
            storage,
            cparams,
            dparams,
            io,
            path,
            shapes,
            dtype,
            metas,
        };
        Ok(Box::into_raw(Box::new(params)).cast::<c_void>())
    })
}

/// Frees the parameters.
///
/// # Safety
/// `ctx` is null or from [`b2nd_create_ctx`], and no longer in use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_free_ctx(ctx: *mut c_void) -> c_int {
    if ctx.is_null() {
        return code::NULL_POINTER;
    }
    guard(|| {
        // SAFETY: it came from a box, and the caller returns it.
        drop(unsafe { Box::from_raw(ctx.cast::<ArrayParams>()) });
        Ok(0)
    })
}

/// # Safety
/// `ctx` is null or valid, `array` null or valid for writing.
unsafe fn made(ctx: *mut c_void, array: *mut *mut b2nd_array_t, fill: FillSource<'_>) -> Result<c_int> {
    ensure(!array.is_null(), code::NULL_POINTER)?;
    // SAFETY: guaranteed by the caller.
    let mut params = unsafe { params(ctx) }?;
    let shapes = params.shapes.clone();
    let new = create(&mut params, &shapes, fill)?;
    // SAFETY: as above.
    unsafe { put(array, new) };
    Ok(0)
}

/// Creates an array of uninitialised items.
///
/// # Safety
/// `ctx` is null or valid, `array` null or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_uninit(ctx: *mut c_void, array: *mut *mut b2nd_array_t) -> c_int {
    // SAFETY: guaranteed by the caller.
    guard(|| unsafe { made(ctx, array, FillSource::Special(4)) })
}

/// Creates an array of zeros.
///
/// # Safety
/// As [`b2nd_uninit`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_empty(ctx: *mut c_void, array: *mut *mut b2nd_array_t) -> c_int {
    // SAFETY: guaranteed by the caller.
    guard(|| unsafe { made(ctx, array, FillSource::Special(1)) })
}

/// Creates an array of zeros.
///
/// # Safety
/// As [`b2nd_uninit`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_zeros(ctx: *mut c_void, array: *mut *mut b2nd_array_t) -> c_int {
    // SAFETY: guaranteed by the caller.
    guard(|| unsafe { made(ctx, array, FillSource::Special(1)) })
}

/// Creates an array of NaNs, of items of 4 or 8 bytes.
///
/// # Safety
/// As [`b2nd_uninit`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_nans(ctx: *mut c_void, array: *mut *mut b2nd_array_t) -> c_int {
    // SAFETY: guaranteed by the caller.
    guard(|| unsafe { made(ctx, array, FillSource::Special(2)) })
}

/// Creates an array of one repeated item.
///
/// # Safety
/// As [`b2nd_uninit`]; `fill_value` is an item.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_full(
    ctx: *mut c_void,
    array: *mut *mut b2nd_array_t,
    fill_value: *const c_void,
) -> c_int {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        let value = unsafe { bytes(fill_value, length(params(ctx)?.cparams.typesize)?) }?;
        // SAFETY: as above.
        unsafe { made(ctx, array, FillSource::Value(value)) }
    })
}

/// Frees an array and its super-chunk.
///
/// # Safety
/// `array` is null or an array that is no longer in use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_free(array: *mut b2nd_array_t) -> c_int {
    if array.is_null() {
        return 0;
    }
    guard(|| {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let sc = shared(array)?.sc.get();
            free_array(array);
            schunk::blosc2_schunk_free(sc);
        }
        Ok(0)
    })
}

/// Creates an array from a super-chunk and takes ownership of it.
///
/// # Safety
/// `schunk` is null or a super-chunk, `array` null or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_from_schunk(
    schunk: *mut blosc2_schunk,
    array: *mut *mut b2nd_array_t,
) -> c_int {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        let state = unsafe { state(schunk) }?;
        ensure(!array.is_null(), code::NULL_POINTER)?;
        let new = of_schunk(schunk, state)?;
        // SAFETY: as above.
        unsafe { put(array, new) };
        Ok(0)
    })
}

/// Returns the array as a contiguous frame, in memory that the caller frees.
///
/// # Safety
/// `array` is null or an array, the others are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_to_cframe(
    array: *const b2nd_array_t,
    cframe: *mut *mut u8,
    cframe_len: *mut i64,
    needs_free: *mut bool,
) -> c_int {
    guard(|| {
        ensure(!cframe.is_null() && !cframe_len.is_null() && !needs_free.is_null(), code::NULL_POINTER)?;
        // SAFETY: guaranteed by the caller.
        let (mut array, _unchanged) = unsafe { array_to_read(array) }?;
        let mut answer = |state: &SchunkState| {
            let frame = schunk::to_frame(state)?;
            // SAFETY: as above.
            unsafe {
                put(cframe, copied(&frame)?);
                put(cframe_len, frame.len() as i64);
                put(needs_free, true);
            }
            Ok(0)
        };
        if array.state.c.view.get() { with_copy(&mut array, &mut answer) } else { answer(array.state) }
    })
}

/// Calls `work` with an in-memory copy that has the shape of a view, since the metalayer of the chunks has another
/// shape.
fn with_copy(
    array: &mut ArrayHandle<'_>,
    work: &mut dyn FnMut(&SchunkState) -> Result<c_int>,
) -> Result<c_int> {
    let cparams = blosc2_cparams { prefilter: None, tuner_id: 0, ..array.state.cctx()?.cparams() };
    let dtype = match array.c.dtype.get().is_null() {
        true => (b"|u1".to_vec(), 0),
        // SAFETY: a C string that belongs to the array.
        false => (unsafe { text(array.c.dtype.get()) }?.to_bytes().to_vec(), array.c.dtype_format.get()),
    };
    let mut params = ArrayParams {
        ndim: array.shapes.ndim() as i8,
        shape: fixed(&array.shapes.shape, 1),
        chunkshape: fixed(&array.shapes.chunk, 1),
        blockshape: fixed(&array.shapes.block, 1),
        storage: blosc2_storage { contiguous: true, ..blosc2_storage::DEFAULT },
        cparams,
        dparams: crate::abi::blosc2_dparams::DEFAULT,
        io: crate::ffi::io::DEFAULT,
        path: None,
        shapes: array.shapes.clone(),
        dtype,
        metas: Vec::new(),
    };
    let shapes = array.shapes.clone();
    let copy = create(&mut params, &shapes, FillSource::Nothing)?;
    let mut copied = || {
        // SAFETY: it was just created and is not shared.
        let state = unsafe { state(shared(copy)?.sc.get()) }?;
        for n in 0..length(array.state.c.nchunks.get())? {
            let chunk = MallocBytes::copy(&array.state.chunk(n)?)?;
            state.insert(n, chunk, code::CHUNK_APPEND)?;
        }
        work(state)
    };
    let result = copied();
    // SAFETY: as above.
    unsafe { b2nd_free(copy) };
    result
}

/// Opens an array in memory.
///
/// # Safety
/// `cframe` has `cframe_len` bytes; without `copy` they must stay valid until the array is freed, which frees them only
/// if `blosc2_schunk_avoid_cframe_free` was called with false.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_from_cframe(
    cframe: *mut u8,
    cframe_len: i64,
    copy: bool,
    array: *mut *mut b2nd_array_t,
) -> c_int {
    guard(|| {
        ensure(!array.is_null(), code::NULL_POINTER)?;
        // SAFETY: guaranteed by the caller.
        let state = unsafe { schunk::from_buffer(cframe, cframe_len, copy) }?;
        let new = finish(state, of_schunk)?;
        // SAFETY: as above.
        unsafe { put(array, new) };
        Ok(0)
    })
}

/// Opens an array in a file or directory.
///
/// # Safety
/// `urlpath` is null or a C string, `array` null or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_open(urlpath: *const c_char, array: *mut *mut b2nd_array_t) -> c_int {
    // SAFETY: guaranteed by the caller.
    unsafe { b2nd_open_offset(urlpath, array, 0) }
}

/// Opens an array inside a file.
///
/// # Safety
/// As [`b2nd_open`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_open_offset(
    urlpath: *const c_char,
    array: *mut *mut b2nd_array_t,
    offset: i64,
) -> c_int {
    guard(|| {
        ensure(!array.is_null(), code::NULL_POINTER)?;
        // SAFETY: guaranteed by the caller.
        let state = unsafe { schunk::open(urlpath, offset, std::ptr::null()) }?;
        let new = finish(state, of_schunk)?;
        // SAFETY: as above.
        unsafe { put(array, new) };
        Ok(0)
    })
}

/// Writes an array to a new file or, if it is not contiguous, to a new directory. Nothing is replaced: it fails if the
/// path exists.
///
/// # Safety
/// `array` is null or an array, `urlpath` null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_save(array: *const b2nd_array_t, urlpath: *mut c_char) -> c_int {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        let ((mut array, _unchanged), path) = unsafe { (array_to_read(array)?, text(urlpath)?) };
        let path = paths::without_scheme(path);
        let (path, storage) = match array.state.is_contiguous()? {
            true => (paths::of_file(path, code::FAILURE)?, Storage::Contiguous),
            false => (paths::trimmed(path), Storage::Sparse),
        };
        let mut save = |state: &SchunkState| {
            let params = state.frame_params()?;
            let saved = state.store().save(path, params, to_write().storage(storage));
            saved.map(|_| 0).map_err(|_| Error(code::FAILURE))
        };
        if array.state.c.view.get() { with_copy(&mut array, &mut save) } else { save(array.state) }
    })
}

/// Appends an array as a contiguous frame to a file, which is created if it does not exist. Returns its offset.
///
/// # Safety
/// As [`b2nd_save`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_save_append(array: *const b2nd_array_t, urlpath: *const c_char) -> i64 {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        let array = unsafe { array_at(array) }?;
        // SAFETY: as above.
        Ok(unsafe { schunk::blosc2_schunk_append_file(array.c.sc.get(), urlpath) })
    })
}

/// Creates an array of items in C order.
///
/// # Safety
/// `ctx` is null or valid, `array` null or valid for writing, `buffer` has `buffersize` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_from_cbuffer(
    ctx: *mut c_void,
    array: *mut *mut b2nd_array_t,
    buffer: *const c_void,
    buffersize: i64,
) -> c_int {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        let params = unsafe { params(ctx) }?;
        let need = params.shapes.nitems().saturating_mul(i64::from(params.cparams.typesize));
        ensure(buffersize >= need, code::INVALID_PARAM)?;
        // SAFETY: as above.
        let items = unsafe { bytes(buffer, length(need)?) }?;
        // SAFETY: as above.
        unsafe { made(ctx, array, FillSource::Items(items)) }
    })
}

/// Creates an array from a box of another one.
///
/// # Safety
/// `ctx` is null or valid, `array` null or valid for writing, `src` null or an array; the limits have a value for each
/// dimension.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_get_slice(
    ctx: *mut c_void,
    array: *mut *mut b2nd_array_t,
    src: *const b2nd_array_t,
    start: *const i64,
    stop: *const i64,
) -> c_int {
    guard(|| {
        ensure(!array.is_null(), code::NULL_POINTER)?;
        // SAFETY: guaranteed by the caller.
        let (mut params, (mut source, unchanged)) = unsafe { (params(ctx)?, array_to_read(src)?) };
        let _unchanged = unchanged.filter(|_| !schunk::calls_program(&params.cparams, &params.io));
        let n = source.shapes.ndim();
        // SAFETY: as above.
        let (start, stop) = unsafe { (values(start, n)?, values(stop, n)?) };
        let new = slice(&mut params, &mut source, start, stop)?;
        // SAFETY: as above.
        unsafe { put(array, new) };
        Ok(0)
    })
}

pub(super) fn slice(
    params: &mut ArrayParams,
    source: &mut ArrayHandle<'_>,
    start: &[i64],
    stop: &[i64],
) -> Result<*mut b2nd_array_t> {
    source.check(start, stop)?;
    let shape: Vec<i64> = start.iter().zip(stop).map(|(start, stop)| stop - start).collect();
    ensure(params.shapes.ndim() == shape.len(), code::INVALID_PARAM)?;
    let shapes = Shapes::new(&shape, &params.shapes.chunk, &params.shapes.block, source.itemsize as i64)?;
    params.shapes = shapes.clone();
    params.cparams.typesize = source.itemsize as i32;
    let again = ArrayHandle { shapes: source.shapes.clone(), ..*source };
    create(params, &shapes, FillSource::Of(again, start.to_vec()))
}

/// Copies an array, with other parameters, dtype, chunks or blocks.
///
/// # Safety
/// `ctx` is null or valid, `src` null or an array, `array` null or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_copy(
    ctx: *mut c_void,
    src: *const b2nd_array_t,
    array: *mut *mut b2nd_array_t,
) -> c_int {
    guard(|| {
        ensure(!array.is_null(), code::NULL_POINTER)?;
        // SAFETY: guaranteed by the caller.
        let (mut params, (mut source, unchanged)) = unsafe { (params(ctx)?, array_to_read(src)?) };
        let _unchanged = unchanged.filter(|_| !schunk::calls_program(&params.cparams, &params.io));
        let new = copy(&mut params, &mut source)?;
        // SAFETY: as above.
        unsafe { put(array, new) };
        Ok(0)
    })
}

pub(super) fn copy(params: &mut ArrayParams, source: &mut ArrayHandle<'_>) -> Result<*mut b2nd_array_t> {
    let metas = source.state.store().metas()?;
    for (name, value) in metas {
        let known = name == META || name == OLD_META || params.metas.iter().any(|meta| meta.0 == name);
        if !known {
            params.metas.push((name, value));
        }
    }
    // The item size does not change, so a requested dtype of another size is ignored.
    if params.cparams.typesize != source.itemsize as i32 && !source.c.dtype.get().is_null() {
        // SAFETY: a C string that belongs to the array.
        params.dtype =
            (unsafe { text(source.c.dtype.get()) }?.to_bytes().to_vec(), source.c.dtype_format.get());
    }
    let own = source.state.cctx()?.cparams();
    let wanted = params.cparams;
    let key = |c: &blosc2_cparams| {
        (
            c.compcode,
            c.compcode_meta,
            c.clevel,
            c.typesize,
            c.use_dict != 0,
            c.splitmode,
            c.filters,
            c.filters_meta,
        )
    };
    let hooked =
        own.prefilter.is_some() || wanted.prefilter.is_some() || source.state.dctx()?.hooks.has_postfilter();
    let same = params.shapes.chunk == source.shapes.chunk && params.shapes.block == source.shapes.block;
    let (start, stop) = (vec![0; source.shapes.ndim()], source.shapes.shape.clone());
    let new = if same && key(&own) == key(&wanted) && !hooked {
        let shapes = source.shapes.clone();
        params.shapes = shapes.clone();
        let new = create(params, &shapes, FillSource::Nothing)?;
        let fill = || {
            // SAFETY: it was just created.
            let state = unsafe { state(shared(new)?.sc.get()) }?;
            state.in_transaction(|state| {
                for n in 0..length(source.state.c.nchunks.get())? {
                    let chunk = MallocBytes::copy(&source.state.chunk(n)?)?;
                    state.insert(n, chunk, code::CHUNK_APPEND)?;
                }
                Ok(())
            })
        };
        if let Err(error) = fill() {
            // SAFETY: it is not shared.
            unsafe { b2nd_free(new) };
            return Err(error);
        }
        new
    } else {
        slice(params, source, &start, &stop)?
    };
    // SAFETY: it was just created.
    let state = unsafe { state(shared(new)?.sc.get()) }?;
    // The files of the indexes of python-blosc2 are not copied.
    let layers = source.state.store().vlmetas()?;
    for (name, chunk) in layers.into_iter().filter(|meta| meta.0 != INDEXES.as_bytes()) {
        // A damaged one is an error.
        b2_chunk::Chunk::from_bytes(chunk.clone())?.decompress_bytes()?;
        state.store().set_vlmeta(&name, chunk, None)?;
    }
    state.mirror_metas()?;
    // SAFETY: as above.
    unsafe { shared(new)? }.last_tick.set(state.c.change_tick.get());
    Ok(new)
}
