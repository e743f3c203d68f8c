//! Chunks through contexts, and fields of their headers.

use std::ffi::{c_char, c_int, c_void};

use b2_chunk::SpecialKind;

use crate::abi::{MIN_HEADER, blosc2_cparams, code};
use crate::core::context::{Context, empty_special, special};
use crate::core::error::{Error, Result, ensure};
use crate::core::header::{self, ChunkHead};
use crate::core::names;
use crate::ffi::contexts::{chunk_at, chunk_in, context};
use crate::ffi::{bytes, bytes_mut, guard, length, memory, put, schunk, shapes, size, values};

/// Compresses a buffer.
///
/// # Safety
/// `context` is a context; the buffers have the sizes given, and do not overlap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_compress_ctx(
    context: *mut c_void,
    src: *const c_void,
    srcsize: i32,
    dest: *mut c_void,
    destsize: i32,
) -> c_int {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        let context = unsafe { self::context(context) }?;
        // SAFETY: as above.
        unsafe { shapes::shape_to_compress(context) }?;
        let srclen = length(srcsize)?;
        // A prefilter needs no source.
        let blank;
        let src = if src.is_null() && context.hooks.has_prefilter() {
            blank = b2_core::memory::zeroed(srclen)?;
            &blank[..]
        } else {
            // SAFETY: as above.
            unsafe { bytes(src, srclen) }?
        };
        // SAFETY: as above.
        let dest = unsafe { bytes_mut(dest, size(destsize, code::MAX_BUFSIZE_EXCEEDED)?) }?;
        Ok(context.compress(src, dest)? as c_int)
    })
}

/// Decompresses a chunk.
///
/// # Safety
/// `context` is a context; the buffers have the sizes given, and do not overlap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_decompress_ctx(
    context: *mut c_void,
    src: *const c_void,
    srcsize: i32,
    dest: *mut c_void,
    destsize: i32,
) -> c_int {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        let context = unsafe { self::context(context) }?;
        // SAFETY: as above.
        let chunk = unsafe { chunk_in(src, srcsize) }?;
        // SAFETY: as above.
        unsafe { shapes::shape_to_decompress(context, chunk) }?;
        // SAFETY: as above.
        let dest = unsafe { bytes_mut(dest, size(destsize, code::WRITE_BUFFER)?) }?;
        if header::is_lazy(chunk) {
            // SAFETY: a context's super-chunk is valid.
            let whole = unsafe { schunk::stored_after(context, chunk) }?;
            return Ok(context.decompress(&whole, dest)? as c_int);
        }
        Ok(context.decompress_for_program(chunk, dest)? as c_int)
    })
}

/// Reads a chunk; of a lazy one, the whole chunk of the context's super-chunk.
///
/// # Safety
/// The context's super-chunk is null or valid.
unsafe fn in_whole<T>(context: &Context, chunk: &[u8], read: impl FnOnce(&[u8]) -> Result<T>) -> Result<T> {
    if header::is_lazy(chunk) {
        // SAFETY: guaranteed by the caller.
        return read(&unsafe { schunk::stored_after(context, chunk) }?);
    }
    read(chunk)
}

/// Compresses blocks of arbitrary lengths into a chunk.
///
/// # Safety
/// `context` is a context; there are `nblocks` buffers with the sizes given.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_vlcompress_ctx(
    context: *mut c_void,
    srcs: *const *const c_void,
    srcsizes: *const i32,
    nblocks: i32,
    dest: *mut c_void,
    destsize: i32,
) -> c_int {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        let context = unsafe { self::context(context) }?;
        // SAFETY: as above.
        unsafe { shapes::shape_to_compress(context) }?;
        let n = length(nblocks)?;
        ensure(n > 0, code::INVALID_PARAM)?;
        // SAFETY: as above.
        let (sources, sizes) = unsafe { (values(srcs, n)?, values(srcsizes, n)?) };
        let mut blocks = Vec::with_capacity(n);
        for (source, size) in sources.iter().zip(sizes) {
            ensure(*size > 0, code::INVALID_PARAM)?;
            // SAFETY: as above.
            blocks.push(unsafe { bytes(*source, length(*size)?) }?);
        }
        let chunk = context.compress_blocks(&blocks)?;
        // SAFETY: as above.
        let dest = unsafe { bytes_mut(dest, length(destsize)?) }?;
        let Some(dest) = dest.get_mut(..chunk.cbytes()) else { return Ok(0) };
        dest.copy_from_slice(chunk.as_bytes());
        Ok(chunk.cbytes() as c_int)
    })
}

/// Decompresses a chunk of variable-length blocks, each into separate memory that the caller frees.
///
/// # Safety
/// `context` is a context, `src` has `srcsize` bytes, and there is room for `maxblocks` results.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_vldecompress_ctx(
    context: *mut c_void,
    src: *const c_void,
    srcsize: i32,
    dests: *mut *mut c_void,
    destsizes: *mut i32,
    maxblocks: i32,
) -> c_int {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        let (context, chunk) = unsafe { (self::context(context)?, chunk_at(src, srcsize)?) };
        // SAFETY: as above.
        unsafe { shapes::shape_to_decompress(context, chunk) }?;
        // SAFETY: a context's super-chunk is valid.
        let blocks = unsafe { in_whole(context, chunk, |chunk| context.blocks(chunk)) }?;
        ensure(!dests.is_null() && !destsizes.is_null(), code::NULL_POINTER)?;
        ensure(blocks.len() <= length(maxblocks)?, code::INVALID_PARAM)?;
        let copies: Result<Vec<_>> = blocks.iter().map(|block| memory::MallocBytes::copy(block)).collect();
        for (n, copy) in copies?.into_iter().enumerate() {
            // SAFETY: there is room for this many.
            unsafe {
                destsizes.add(n).write(copy.len() as i32);
                dests.add(n).write(copy.release().cast());
            }
        }
        Ok(blocks.len() as c_int)
    })
}

/// Returns the number of variable-length blocks of a chunk.
///
/// # Safety
/// `src` has `srcsize` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_vlchunk_get_nblocks(
    src: *const c_void,
    srcsize: i32,
    nblocks: *mut i32,
) -> c_int {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        let chunk = unsafe { chunk_at(src, srcsize) }?;
        let header = schunk::parsed_header(chunk)?;
        ensure(header.is_vl(), code::INVALID_PARAM)?;
        ensure(!nblocks.is_null(), code::NULL_POINTER)?;
        // SAFETY: as above.
        unsafe { put(nblocks, header.nblocks() as i32) };
        Ok(0)
    })
}

/// Decompresses one variable-length block into memory that the caller frees.
///
/// # Safety
/// `context` is a context, `src` has `srcsize` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_vldecompress_block_ctx(
    context: *mut c_void,
    src: *const c_void,
    srcsize: i32,
    nblock: i32,
    dest: *mut *mut u8,
    destsize: *mut i32,
) -> c_int {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        let (context, chunk) = unsafe { (self::context(context)?, chunk_at(src, srcsize)?) };
        // SAFETY: as above.
        unsafe { shapes::shape_to_decompress(context, chunk) }?;
        ensure(!dest.is_null() && !destsize.is_null(), code::NULL_POINTER)?;
        let nblock = length(nblock)?;
        // SAFETY: a context's super-chunk is valid.
        let block = unsafe { in_whole(context, chunk, |chunk| context.block(chunk, nblock)) }?;
        // SAFETY: as above.
        unsafe {
            put(dest, memory::copied(&block)?);
            put(destsize, block.len() as i32);
        }
        Ok(block.len() as c_int)
    })
}

/// Decompresses `nitems` items from the item `start` on.
///
/// # Safety
/// `context` is a context; the buffers have the sizes given.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_getitem_ctx(
    context: *mut c_void,
    src: *const c_void,
    srcsize: i32,
    start: c_int,
    nitems: c_int,
    dest: *mut c_void,
    destsize: i32,
) -> c_int {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        let (context, chunk) = unsafe { (self::context(context)?, chunk_at(src, srcsize)?) };
        // SAFETY: as above.
        unsafe { shapes::shape_to_decompress(context, chunk) }?;
        // SAFETY: as above.
        let dest = unsafe { bytes_mut(dest, size(destsize, code::WRITE_BUFFER)?) }?;
        // SAFETY: a context's super-chunk is valid.
        let read =
            unsafe { in_whole(context, chunk, |chunk| context.get_items(chunk, start, nitems, dest)) }?;
        Ok(read as c_int)
    })
}

/// Decompresses `nbytes` bytes from the byte `start` on, whole items.
///
/// # Safety
/// `context` is a context; the buffers have the sizes given.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_getitem_bytes_ctx(
    context: *mut c_void,
    src: *const c_void,
    srcsize: i32,
    start: i32,
    nbytes: i32,
    dest: *mut c_void,
    destsize: i32,
) -> c_int {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        let (context, chunk) = unsafe { (self::context(context)?, chunk_at(src, srcsize)?) };
        // SAFETY: as above.
        unsafe { shapes::shape_to_decompress(context, chunk) }?;
        // SAFETY: as above.
        let dest = unsafe { bytes_mut(dest, size(destsize, code::WRITE_BUFFER)?) }?;
        // SAFETY: a context's super-chunk is valid.
        let read =
            unsafe { in_whole(context, chunk, |chunk| context.get_item_bytes(chunk, start, nbytes, dest)) }?;
        Ok(read as c_int)
    })
}

/// Writes a special chunk.
///
/// # Safety
/// `dest` has `destsize` bytes.
unsafe fn put_special(
    cparams: &blosc2_cparams,
    kind: SpecialKind,
    value: &[u8],
    nbytes: i32,
    dest: *mut c_void,
    destsize: i32,
) -> Result<c_int> {
    // SAFETY: guaranteed by the caller.
    let dest = unsafe { bytes_mut(dest, size(destsize, code::DATA)?) }?;
    let chunk = match nbytes {
        0 => empty_special(cparams, kind, value)?,
        _ => special(cparams, kind, value, nbytes)?.as_bytes().to_vec(),
    };
    dest.get_mut(..chunk.len()).ok_or(Error(code::DATA))?.copy_from_slice(&chunk);
    Ok(chunk.len() as c_int)
}

/// Writes a chunk of zeros.
///
/// # Safety
/// `dest` has `destsize` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_chunk_zeros(
    cparams: blosc2_cparams,
    nbytes: i32,
    dest: *mut c_void,
    destsize: i32,
) -> c_int {
    // SAFETY: guaranteed by the caller.
    guard(|| unsafe { put_special(&cparams, SpecialKind::Zeros, &[], nbytes, dest, destsize) })
}

/// Writes a chunk of NaNs, of items of 4 or 8 bytes.
///
/// # Safety
/// `dest` has `destsize` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_chunk_nans(
    cparams: blosc2_cparams,
    nbytes: i32,
    dest: *mut c_void,
    destsize: i32,
) -> c_int {
    // SAFETY: guaranteed by the caller.
    guard(|| unsafe { put_special(&cparams, SpecialKind::NaN, &[], nbytes, dest, destsize) })
}

/// Writes a chunk of one repeated item.
///
/// # Safety
/// `dest` has `destsize` bytes, `repeatval` an item.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_chunk_repeatval(
    cparams: blosc2_cparams,
    nbytes: i32,
    dest: *mut c_void,
    destsize: i32,
    repeatval: *const c_void,
) -> c_int {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        let value = unsafe { bytes(repeatval, length(cparams.typesize)?) }?;
        // SAFETY: as above.
        unsafe { put_special(&cparams, SpecialKind::Value, value, nbytes, dest, destsize) }
    })
}

/// Writes a chunk of uninitialised items.
///
/// # Safety
/// `dest` has `destsize` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_chunk_uninit(
    cparams: blosc2_cparams,
    nbytes: i32,
    dest: *mut c_void,
    destsize: i32,
) -> c_int {
    // SAFETY: guaranteed by the caller.
    guard(|| unsafe { put_special(&cparams, SpecialKind::Uninit, &[], nbytes, dest, destsize) })
}

/// Returns the first 16 bytes of a chunk.
///
/// # Safety
/// `cbuffer` is null or has them.
unsafe fn head(cbuffer: *const c_void) -> Result<ChunkHead> {
    // SAFETY: guaranteed by the caller.
    ChunkHead::parse(unsafe { bytes(cbuffer, MIN_HEADER) }?)
}

/// Returns the sizes in the header of a chunk; zeros for an invalid one.
///
/// # Safety
/// `cbuffer` has at least 16 bytes; the other pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_cbuffer_sizes(
    cbuffer: *const c_void,
    nbytes: *mut i32,
    cbytes: *mut i32,
    blocksize: *mut i32,
) -> c_int {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        let result = unsafe { head(cbuffer) };
        let head = result.unwrap_or_default();
        // SAFETY: as above.
        unsafe {
            put(nbytes, head.nbytes);
            put(cbytes, head.cbytes);
            put(blocksize, head.blocksize);
        }
        result.map(|_| 0)
    })
}

/// As [`blosc2_cbuffer_sizes`], with the types of Blosc 1.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc1_cbuffer_sizes(
    cbuffer: *const c_void,
    nbytes: *mut usize,
    cbytes: *mut usize,
    blocksize: *mut usize,
) {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        let head = unsafe { head(cbuffer) }.unwrap_or_default();
        // SAFETY: as above.
        unsafe {
            put(nbytes, head.nbytes as usize);
            put(cbytes, head.cbytes as usize);
            put(blocksize, head.blocksize as usize);
        }
        Ok(())
    });
}

/// Checks that a buffer of `cbytes` bytes has the header of a chunk of this size.
///
/// # Safety
/// `cbuffer` has `cbytes` bytes; `nbytes` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc1_cbuffer_validate(
    cbuffer: *const c_void,
    cbytes: usize,
    nbytes: *mut usize,
) -> c_int {
    guard(|| {
        let check = || {
            ensure(cbytes >= MIN_HEADER, code::WRITE_BUFFER)?;
            // SAFETY: guaranteed by the caller.
            let head = unsafe { head(cbuffer) }?;
            ensure(head.cbytes as usize == cbytes, code::INVALID_HEADER)?;
            ensure(head.nbytes <= crate::abi::MAX_BUFFERSIZE, code::MEMORY_ALLOC)?;
            Ok(head.nbytes)
        };
        let result: Result<i32> = check();
        // SAFETY: as above.
        unsafe { put(nbytes, result.unwrap_or(0) as usize) };
        result.map(|_| 0)
    })
}

/// Returns the item size and the flags of a chunk.
///
/// # Safety
/// `cbuffer` has at least 16 bytes; the other pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc1_cbuffer_metainfo(
    cbuffer: *const c_void,
    typesize: *mut usize,
    flags: *mut c_int,
) {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        let head = unsafe { head(cbuffer) }.unwrap_or_default();
        // SAFETY: as above.
        unsafe {
            put(typesize, usize::from(head.typesize));
            put(flags, c_int::from(head.flags));
        }
        Ok(())
    });
}

/// Returns the versions of the format of a chunk and of its codec.
///
/// # Safety
/// As [`blosc1_cbuffer_metainfo`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_cbuffer_versions(
    cbuffer: *const c_void,
    version: *mut c_int,
    versionlz: *mut c_int,
) {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        let head = unsafe { head(cbuffer) }.unwrap_or_default();
        // SAFETY: as above.
        unsafe {
            put(version, c_int::from(head.version));
            put(versionlz, c_int::from(head.versionlz));
        }
        Ok(())
    });
}

/// Returns the library name of a chunk's codec, or null.
///
/// # Safety
/// `cbuffer` has at least 16 bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_cbuffer_complib(cbuffer: *const c_void) -> *const c_char {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        let head = unsafe { head(cbuffer) }?;
        let name = names::library(i32::from(head.flags >> 5)).ok_or(Error(code::CODEC_SUPPORT))?;
        Ok(name.as_ptr().cast_mut())
    })
}
