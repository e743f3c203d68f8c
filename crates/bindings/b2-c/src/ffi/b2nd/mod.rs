//! Arrays of N dimensions: `b2nd.h`.

mod create;
mod items;
mod meta;
mod shape;
mod work;

use std::ffi::{CString, c_char, c_int, c_void};
use std::ops::Range;

use b2_chunk::SpecialKind;

use crate::abi::{
    Field, MAX_BLOCKSIZE, MAX_BUFFERSIZE, MAX_DIM, b2nd_array_t, blosc2_cparams, blosc2_metalayer,
    blosc2_schunk, blosc2_storage, code, values_of,
};
use crate::core::context::special;
use crate::core::error::{Error, Result, ensure};
use crate::core::frame::SharedLock;
use crate::core::nd::{self, BoxPart, DtypeText, Shapes};
use crate::ffi::memory::{MallocBytes, copied, copied_text, free};
use crate::ffi::schunk::{self, SchunkState, state};
use crate::ffi::{bytes, bytes_mut, copy_at, guard, length, paths, put, shared, text, values};

/// Maximum number of chunks of an array, so that lists of them fit into memory.
pub(super) const MAX_NCHUNKS: i64 = 1 << 26;

pub(super) const META: &[u8] = b"b2nd";

pub(super) const OLD_META: &[u8] = b"caterva";

/// The target of a `b2nd_context_t *`. The first fields match C-Blosc2, since its tests read them.
#[repr(C)]
#[derive(Clone)]
pub(crate) struct ArrayParams {
    ndim: i8,
    shape: [i64; MAX_DIM],
    chunkshape: [i32; MAX_DIM],
    blockshape: [i32; MAX_DIM],
    storage: blosc2_storage,
    cparams: blosc2_cparams,
    dparams: crate::abi::blosc2_dparams,
    io: crate::abi::blosc2_io,
    path: Option<CString>,
    shapes: Shapes,
    dtype: DtypeText,
    metas: Vec<(Vec<u8>, Vec<u8>)>,
}

impl ArrayParams {
    /// Returns the storage. Its pointers are valid as long as the parameters exist and are not moved.
    fn storage(&mut self) -> blosc2_storage {
        let urlpath = self.path.as_ref().map_or(std::ptr::null_mut(), |path| path.as_ptr().cast_mut());
        blosc2_storage {
            contiguous: self.storage.contiguous,
            urlpath,
            cparams: &mut self.cparams,
            dparams: &mut self.dparams,
            io: &mut self.io,
        }
    }
}

/// # Safety
/// `ctx` is null or from [`b2nd_create_ctx`], and not freed during the call.
pub(super) unsafe fn params(ctx: *mut c_void) -> Result<ArrayParams> {
    // SAFETY: guaranteed by the caller; parameters never change after creation, since each call copies them.
    unsafe { shared::<ArrayParams>(ctx.cast_const().cast()) }.cloned()
}

/// # Safety
/// `array` is null or from this library, and not freed for `'a`.
pub(super) unsafe fn array_at<'a>(array: *const b2nd_array_t) -> Result<ArrayHandle<'a>> {
    // SAFETY: guaranteed by the caller.
    let mut array = unsafe { handle(array) }?;
    array.look()?;
    Ok(array)
}

/// Returns an array for a read. With locking on, its frame cannot change as long as the lock lives.
///
/// # Safety
/// As [`array_at`].
pub(super) unsafe fn array_to_read<'a>(
    array: *const b2nd_array_t,
) -> Result<(ArrayHandle<'a>, Option<SharedLock>)> {
    // SAFETY: guaranteed by the caller.
    let mut array = unsafe { handle(array) }?;
    let shared = array.state.lock_to_decode(false)?;
    array.reload()?;
    Ok((array, shared))
}

/// # Safety
/// As [`array_at`].
unsafe fn handle<'a>(array: *const b2nd_array_t) -> Result<ArrayHandle<'a>> {
    // SAFETY: guaranteed by the caller.
    let c = unsafe { shared(array) }?;
    // SAFETY: an array has its super-chunk.
    let state = unsafe { state(c.sc.get()) }?;
    let array = ArrayHandle { shapes: shapes_in(c)?, itemsize: length(state.c.typesize.get())?, c, state };
    // Views keep the chunks of their array, even if they need smaller ones.
    let fits = state.c.nchunks.get() == 0 || state.c.chunksize.get() as usize == array.chunk_nbytes()?;
    ensure(fits, code::DATA)?;
    Ok(array)
}

/// An array during a call.
pub(super) struct ArrayHandle<'a> {
    c: &'a b2nd_array_t,
    state: &'a SchunkState,
    shapes: Shapes,
    itemsize: usize,
}

/// Reads the shapes from the C structure.
pub(super) fn shapes_in(c: &b2nd_array_t) -> Result<Shapes> {
    let n = length(c.ndim.get())?;
    ensure(n <= MAX_DIM, code::INVALID_PARAM)?;
    Ok(Shapes {
        shape: values_of(&c.shape)[..n].to_vec(),
        chunk: values_of(&c.chunkshape)[..n].to_vec(),
        block: values_of(&c.blockshape)[..n].to_vec(),
    })
}

/// Reads the metalayer of an array.
pub(super) fn meta_of(state: &SchunkState) -> Result<Option<(Shapes, Option<DtypeText>)>> {
    let metas = state.store().metas()?;
    let find = |name: &[u8]| metas.iter().find(|meta| meta.0 == name);
    let Some((_, meta)) = find(META).or_else(|| find(OLD_META)) else { return Ok(None) };
    let (shapes, dtype, _) = nd::deserialize(meta)?;
    Ok(Some((shapes, dtype)))
}

/// Returns the shapes of a super-chunk that holds an array.
pub(crate) fn shapes_of(state: &SchunkState) -> Result<Option<Shapes>> {
    Ok(meta_of(state)?.map(|(shapes, _)| shapes))
}

pub(super) fn fixed<T: Copy>(list: &[T], rest: T) -> [T; MAX_DIM] {
    let mut all = [rest; MAX_DIM];
    all.iter_mut().zip(list).for_each(|(to, from)| *to = *from);
    all
}

/// Sets the shapes of an array and derived fields in the C structure.
pub(super) fn show(c: &b2nd_array_t, shapes: &Shapes) {
    let (ext, ext_chunk) = (shapes.ext(), shapes.ext_chunk());
    set_all(&c.shape, &shapes.shape, 1);
    set_all(&c.chunkshape, &shapes.chunk, 1);
    set_all(&c.blockshape, &shapes.block, 1);
    set_all(&c.extshape, &ext, 1);
    set_all(&c.extchunkshape, &ext_chunk, 1);
    c.ndim.set(shapes.ndim() as i8);
    c.nitems.set(shapes.nitems());
    c.chunknitems.set(shapes.chunk64().iter().product::<i64>() as i32);
    c.extnitems.set(ext.iter().product());
    c.blocknitems.set(shapes.block_nitems() as i32);
    c.extchunknitems.set(shapes.chunk_stored());
    set_all(&c.item_array_strides, &nd::strides(&shapes.shape), 0);
    set_all(&c.item_chunk_strides, &nd::strides(&shapes.chunk64()), 0);
    set_all(&c.item_extchunk_strides, &nd::strides(&ext_chunk), 0);
    set_all(&c.item_block_strides, &nd::strides(&shapes.block64()), 0);
    set_all(&c.block_chunk_strides, &nd::strides(&shapes.blocks()), 0);
    set_all(&c.chunk_array_strides, &nd::strides(&shapes.grid()), 0);
    c.chunk_cache.nchunk.set(-1);
}

/// Sets consecutive fields to the values of a list, and the rest to a default.
fn set_all<T: Copy, F: Field<T>>(fields: &[F; MAX_DIM], list: &[T], rest: T) {
    let values = list.iter().copied().chain(std::iter::repeat(rest));
    fields.iter().zip(values).for_each(|(field, value)| field.set(value));
}

/// Creates the structure of an array for a super-chunk.
pub(super) fn wrap(
    sc: *mut blosc2_schunk,
    state: &SchunkState,
    shapes: &Shapes,
    dtype: Option<&DtypeText>,
) -> Result<*mut b2nd_array_t> {
    let text = match dtype {
        Some((text, _)) => copied_text(&CString::new(text.clone()).map_err(|_| Error(code::FAILURE))?)?,
        None => std::ptr::null_mut(),
    };
    // SAFETY: all fields are numbers and pointers, for which zeros are valid.
    let array: Box<b2nd_array_t> = Box::new(unsafe { std::mem::zeroed() });
    array.sc.set(sc);
    array.dtype.set(text);
    array.dtype_format.set(dtype.map_or(0, |dtype| dtype.1));
    array.last_tick.set(state.c.change_tick.get());
    show(&array, shapes);
    state.set_blockshape(&shapes.block)?;
    Ok(Box::into_raw(array))
}

/// Creates an array over a super-chunk that has the metalayer.
pub(super) fn of_schunk(sc: *mut blosc2_schunk, state: &SchunkState) -> Result<*mut b2nd_array_t> {
    let (shapes, dtype) = meta_of(state)?.ok_or(Error(code::METALAYER_NOT_FOUND))?;
    let itemsize = i64::from(state.c.typesize.get());
    let shapes = Shapes::new(&shapes.shape, &shapes.chunk, &shapes.block, itemsize)?;
    wrap(sc, state, &shapes, dtype.as_ref())
}

/// Finishes a super-chunk as an array.
pub(super) fn finish(
    state: Box<SchunkState>,
    array: impl FnOnce(*mut blosc2_schunk, &SchunkState) -> Result<*mut b2nd_array_t>,
) -> Result<*mut b2nd_array_t> {
    let sc: *mut blosc2_schunk = Box::into_raw(state).cast();
    // SAFETY: it was just created.
    let result = unsafe { self::state(sc) }.and_then(|state| array(sc, state));
    if result.is_err() {
        // SAFETY: it is not shared.
        unsafe { schunk::blosc2_schunk_free(sc) };
    }
    result
}

/// Runs `work` in a transaction.
///
/// # Safety
/// `array` is null or an array, and not in use elsewhere.
pub(super) unsafe fn in_transaction<T>(
    array: *mut b2nd_array_t,
    work: impl FnOnce(&mut ArrayHandle<'_>) -> Result<T>,
) -> Result<T> {
    // SAFETY: guaranteed by the caller.
    let sc = unsafe { shared(array) }?.sc.get();
    // SAFETY: an array has its super-chunk.
    let state = unsafe { state(sc) }?;
    let result = state.in_transaction(|_| {
        // SAFETY: as above.
        let mut array = unsafe { array_at(array) }?;
        work(&mut array)
    });
    // SAFETY: as above; after an error this restores the old shape.
    drop(unsafe { array_at(array) });
    result
}
