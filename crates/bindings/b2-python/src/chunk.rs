//! Chunks: compressed buffers without a file.

use std::mem::MaybeUninit;
use std::{ptr, slice};

use b2_core::for_each;
use b2kit::chunk::{ChunkError, Compatibility, DParams};
use b2kit::{Chunk, Control, Limits};
use numpy::{PyArrayDescrMethods, PyReadwriteArray1, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::control::How;
use crate::errors::{OrRaise, argument, wrong_type};
use crate::options::{compression, plugins};
use crate::source::{Items, bytes_of};

/// Chunks of up to this many bytes stay in the cache.
const MAX_CACHED_CHUNK: usize = 64 << 10;

/// Compresses the items of a contiguous array. A block size of 0 is automatic.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "keyword arguments in Python")]
pub(crate) fn compress<'py>(
    items: &Bound<'py, PyUntypedArray>,
    typesize: usize,
    codec: &str,
    level: u8,
    filters: &Bound<'_, PyList>,
    blocksize: usize,
    blosc1: bool,
    threads: Option<usize>,
) -> PyResult<Bound<'py, PyBytes>> {
    let py = items.py();
    if !items.is_c_contiguous() {
        return Err(argument(py, "the buffer has gaps"));
    }
    let compatibility = if blosc1 { Compatibility::Blosc1 } else { Compatibility::Blosc2 };
    let compression = compression(py, codec, level, filters)?
        .compatibility(compatibility)
        .blocksize(blocksize)
        .itemsize(typesize);
    // Plain bytes have no known item size.
    if typesize > 1
        && items.dtype().itemsize() == typesize
        && let Ok(dtype) = crate::dtype::from_numpy(&items.dtype())
    {
        dtype.check_compression(&compression.clone().build().or_raise(py)?).or_raise(py)?;
    }
    let items = Items::new(items);
    let chunk = How::threads(threads).run(py, move |control| {
        let cparams = compression.control(control).build()?;
        Chunk::compress_bytes(items.bytes(), &cparams)
    })?;
    Ok(PyBytes::new(py, chunk.as_bytes()))
}

/// Returns the uncompressed bytes of a chunk.
#[pyfunction]
pub(crate) fn decompress<'py>(
    py: Python<'py>,
    chunk: &Bound<'py, PyAny>,
    threads: Option<usize>,
) -> PyResult<Bound<'py, PyBytes>> {
    let chunk = parsed(chunk)?;
    let limits = Limits::default();
    let fits = limits.check_output(chunk.nbytes() as u64, chunk.stored());
    fits.map_err(ChunkError::from).or_raise(py)?;
    let nbytes = chunk.nbytes();
    let length = nbytes.try_into().unwrap_or(isize::MAX);
    // SAFETY: without bytes to copy, this creates an object of this length, or raises an exception.
    let made = unsafe {
        Bound::from_owned_ptr_or_err(py, ffi::PyBytes_FromStringAndSize(ptr::null(), length))?
            .cast_into_unchecked::<PyBytes>()
    };
    // SAFETY: the object is new, so nobody else uses its bytes, and it outlives the call.
    let dst = unsafe { slice::from_raw_parts_mut(ffi::PyBytes_AsString(made.as_ptr()).cast(), nbytes) };
    How::threads(threads).run(py, move |control| {
        let dparams = DParams::default().plugins(plugins()).limits(limits).control(control.clone());
        decompress_new(&chunk, dst, &dparams, &control)
    })?;
    Ok(made)
}

/// Decompresses a chunk into new memory. Each block, instead of the whole memory, is zeroed just before it is decoded, so that
/// it is still in the cache then.
fn decompress_new(
    chunk: &Chunk,
    dst: &mut [MaybeUninit<u8>],
    dparams: &DParams,
    control: &Control,
) -> Result<(), ChunkError> {
    if dst.len() <= MAX_CACHED_CHUNK {
        return chunk.decompress_bytes_into(zeroed(dst), dparams);
    }
    let (bytes, lazy) = (chunk.as_bytes(), chunk.lazy(dparams)?);
    if lazy.nblocks() <= 1 || lazy.blocksize() == 0 || lazy.needs_block0() || lazy.header().is_vl() {
        return chunk.decompress_bytes_into(zeroed(dst), dparams);
    }
    let work = dst.len().max(bytes.len()) as u64;
    let blocks = dst.chunks_mut(lazy.blocksize()).enumerate();
    for_each(
        control,
        usize::MAX,
        blocks,
        work,
        || lazy.decoder(dparams),
        |decoder, (nblock, block)| {
            let stored = bytes.get(lazy.block_extent(nblock)).unwrap_or_default();
            decoder.decode(nblock, stored, None, zeroed(block))?;
            Ok(control.advance(block.len() as u64)?)
        },
    )
}

fn zeroed(memory: &mut [MaybeUninit<u8>]) -> &mut [u8] {
    memory.fill(MaybeUninit::new(0));
    // SAFETY: all bytes are initialised now, and nobody writes others through the exclusive borrow.
    unsafe { slice::from_raw_parts_mut(memory.as_mut_ptr().cast(), memory.len()) }
}

/// Decompresses a chunk into the start of `out`, and returns the number of bytes.
#[pyfunction]
pub(crate) fn decompress_into(
    py: Python<'_>,
    chunk: &Bound<'_, PyAny>,
    mut out: PyReadwriteArray1<'_, u8>,
    threads: Option<usize>,
) -> PyResult<usize> {
    let chunk = parsed(chunk)?;
    let (nbytes, have) = (chunk.nbytes(), out.len());
    let fitting = out.as_slice_mut().ok().and_then(|out| out.get_mut(..nbytes));
    let Some(dst) = fitting else {
        return Err(argument(py, format!("out has {have} bytes, but the chunk {nbytes}")));
    };
    How::threads(threads).run(py, move |control| {
        let dparams = DParams::default().plugins(plugins()).control(control);
        chunk.decompress_bytes_into(dst, &dparams)
    })?;
    Ok(nbytes)
}

/// Returns the uncompressed size, the compressed size and the item size of a chunk.
#[pyfunction]
pub(crate) fn chunk_sizes(chunk: &Bound<'_, PyAny>) -> PyResult<(usize, usize, usize)> {
    let chunk = parsed(chunk)?;
    Ok((chunk.nbytes(), chunk.cbytes(), chunk.header().itemsize()))
}

fn parsed(chunk: &Bound<'_, PyAny>) -> PyResult<Chunk> {
    match bytes_of(chunk)? {
        Some(bytes) => Chunk::from_bytes(bytes).or_raise(chunk.py()),
        None => Err(wrong_type(format!("{} is not a buffer", chunk.get_type()))),
    }
}
