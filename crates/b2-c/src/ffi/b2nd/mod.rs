//! Arrays of N dimensions: `b2nd.h`.

mod create;
mod items;
mod meta;
mod shape;
mod work;

use create::{b2nd_free, copy};
use work::Selected;

use std::ffi::{CString, c_char, c_int, c_void};
use std::ops::Range;

use b2_chunk::SpecialKind;

use crate::abi::{
    MAX_BUFFERSIZE, MAX_DIM, b2nd_array_t, blosc2_cparams, blosc2_metalayer, blosc2_schunk, blosc2_storage,
    chunk_cache_s, code,
};
use crate::core::context::special;
use crate::core::error::{Error, Result, ensure};
use crate::core::nd::{self, Dtype, Part, Shapes};
use crate::ffi::memory::{Malloced, copied, copied_text, free};
use crate::ffi::schunk::{self, Full, full};
use crate::ffi::{at, bytes, bytes_mut, guard, length, paths, put, text, values};

/// The most chunks of an array, so that lists of them fit into memory.
pub(super) const MAX_NCHUNKS: i64 = 1 << 26;

pub(super) const META: &[u8] = b"b2nd";

pub(super) const META_BEFORE: &[u8] = b"caterva";

/// What is behind a `b2nd_context_t *`. The first fields are where C-Blosc2 has them, since its own tests read them.
#[repr(C)]
pub(crate) struct Params {
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
    dtype: Dtype,
    metas: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Params {
    /// Returns the storage, whose pointers are valid while the parameters are.
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
/// `ctx` is null or from [`b2nd_create_ctx`].
pub(super) unsafe fn params<'a>(ctx: *mut c_void) -> Result<&'a mut Params> {
    // SAFETY: the caller promises so.
    unsafe { at(ctx.cast()) }
}

/// # Safety
/// `array` is null or from this library, and nobody else uses it for `'a`.
pub(super) unsafe fn array_at<'a>(array: *const b2nd_array_t) -> Result<Array<'a>> {
    // SAFETY: the caller promises so.
    let c = unsafe { at(array.cast_mut()) }?;
    // SAFETY: an array has its super-chunk.
    let full = unsafe { full(c.sc) }?;
    let mut array = Array { shapes: shapes_in(c)?, itemsize: length(full.c.typesize)?, c, full };
    array.look()?;
    Ok(array)
}

/// An array, as functions work on it.
pub(super) struct Array<'a> {
    c: &'a mut b2nd_array_t,
    full: &'a mut Full,
    shapes: Shapes,
    itemsize: usize,
}

/// Takes the shapes from what C sees.
pub(super) fn shapes_in(c: &b2nd_array_t) -> Result<Shapes> {
    let n = length(c.ndim)?;
    ensure(n <= MAX_DIM, code::INVALID_PARAM)?;
    Ok(Shapes {
        shape: c.shape[..n].to_vec(),
        chunk: c.chunkshape[..n].to_vec(),
        block: c.blockshape[..n].to_vec(),
    })
}

/// Reads the metalayer of an array.
pub(super) fn meta_of(full: &mut Full) -> Result<Option<(Shapes, Option<Dtype>)>> {
    let metas = full.store().metas()?;
    let find = |name: &[u8]| metas.iter().find(|meta| meta.0 == name);
    let Some((_, meta)) = find(META).or_else(|| find(META_BEFORE)) else { return Ok(None) };
    let (shapes, dtype, _) = nd::deserialize(meta)?;
    Ok(Some((shapes, dtype)))
}

/// Returns the shapes of a super-chunk that holds an array.
pub(crate) fn shapes_of(full: &mut Full) -> Result<Option<Shapes>> {
    Ok(meta_of(full)?.map(|(shapes, _)| shapes))
}

pub(super) fn fixed<T: Copy>(list: &[T], rest: T) -> [T; MAX_DIM] {
    let mut all = [rest; MAX_DIM];
    all.iter_mut().zip(list).for_each(|(to, from)| *to = *from);
    all
}

/// Shows C the shapes of an array, and all that follows from them.
pub(super) fn show(c: &mut b2nd_array_t, shapes: &Shapes) {
    let (ext, ext_chunk) = (shapes.ext(), shapes.ext_chunk());
    c.ndim = shapes.ndim() as i8;
    c.shape = fixed(&shapes.shape, 1);
    c.chunkshape = fixed(&shapes.chunk, 1);
    c.blockshape = fixed(&shapes.block, 1);
    c.extshape = fixed(&ext, 1);
    c.extchunkshape = fixed(&ext_chunk, 1);
    c.nitems = shapes.nitems();
    c.chunknitems = shapes.chunk64().iter().product::<i64>() as i32;
    c.extnitems = ext.iter().product();
    c.blocknitems = shapes.block_nitems() as i32;
    c.extchunknitems = shapes.chunk_stored();
    c.item_array_strides = fixed(&nd::strides(&shapes.shape), 0);
    c.item_chunk_strides = fixed(&nd::strides(&shapes.chunk64()), 0);
    c.item_extchunk_strides = fixed(&nd::strides(&ext_chunk), 0);
    c.item_block_strides = fixed(&nd::strides(&shapes.block64()), 0);
    c.block_chunk_strides = fixed(&nd::strides(&shapes.blocks()), 0);
    c.chunk_array_strides = fixed(&nd::strides(&shapes.grid()), 0);
    c.chunk_cache.nchunk = -1;
}

/// Makes the structure of an array over a super-chunk.
pub(super) fn wrap(
    sc: *mut blosc2_schunk,
    full: &mut Full,
    shapes: &Shapes,
    dtype: Option<&Dtype>,
) -> Result<*mut b2nd_array_t> {
    let text = match dtype {
        Some((text, _)) => copied_text(&CString::new(text.clone()).map_err(|_| Error(code::FAILURE))?)?,
        None => std::ptr::null_mut(),
    };
    let mut array = Box::new(b2nd_array_t {
        sc,
        shape: [1; MAX_DIM],
        chunkshape: [1; MAX_DIM],
        extshape: [1; MAX_DIM],
        blockshape: [1; MAX_DIM],
        extchunkshape: [1; MAX_DIM],
        nitems: 0,
        chunknitems: 0,
        extnitems: 0,
        blocknitems: 0,
        extchunknitems: 0,
        ndim: 0,
        chunk_cache: chunk_cache_s { data: std::ptr::null_mut(), nchunk: -1 },
        item_array_strides: [0; MAX_DIM],
        item_chunk_strides: [0; MAX_DIM],
        item_extchunk_strides: [0; MAX_DIM],
        item_block_strides: [0; MAX_DIM],
        block_chunk_strides: [0; MAX_DIM],
        chunk_array_strides: [0; MAX_DIM],
        dtype: text,
        dtype_format: dtype.map_or(0, |dtype| dtype.1),
        last_tick: full.c.change_tick,
    });
    show(&mut array, shapes);
    full.set_blockshape(&shapes.block)?;
    Ok(Box::into_raw(array))
}

/// Makes an array over a super-chunk that has the metalayer.
pub(super) fn of_schunk(sc: *mut blosc2_schunk, full: &mut Full) -> Result<*mut b2nd_array_t> {
    let (shapes, dtype) = meta_of(full)?.ok_or(Error(code::METALAYER_NOT_FOUND))?;
    let itemsize = i64::from(full.c.typesize);
    let shapes = Shapes::new(&shapes.shape, &shapes.chunk, &shapes.block, itemsize)?;
    wrap(sc, full, &shapes, dtype.as_ref())
}

/// Finishes a super-chunk as an array.
pub(super) fn finish(
    full: Box<Full>,
    array: impl FnOnce(*mut blosc2_schunk, &mut Full) -> Result<*mut b2nd_array_t>,
) -> Result<*mut b2nd_array_t> {
    let sc: *mut blosc2_schunk = Box::into_raw(full).cast();
    // SAFETY: it was just made.
    let result = unsafe { self::full(sc) }.and_then(|full| array(sc, full));
    if result.is_err() {
        // SAFETY: nobody else knows it.
        unsafe { schunk::blosc2_schunk_free(sc) };
    }
    result
}

/// Makes all that `work` changes one commit.
///
/// # Safety
/// `array` is null or an array, and nobody else uses it.
pub(super) unsafe fn together<T>(
    array: *mut b2nd_array_t,
    work: impl FnOnce(&mut Array<'_>) -> Result<T>,
) -> Result<T> {
    // SAFETY: the caller promises so.
    let sc = unsafe { at(array) }?.sc;
    // SAFETY: an array has its super-chunk.
    let full = unsafe { full(sc) }?;
    full.refresh()?;
    let result = full.together(|_| {
        // SAFETY: as above.
        let mut array = unsafe { array_at(array) }?;
        work(&mut array)
    });
    // SAFETY: as above; after an error this takes the old shape again.
    drop(unsafe { array_at(array) });
    result
}
