//! Chunks: compressed buffers without a file.

use b2kit::chunk::{ChunkError, Compatibility, DParams};
use b2kit::{Chunk, Limits};
use numpy::{PyReadwriteArray1, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::control::How;
use crate::errors::{OrRaise, argument, wrong_type};
use crate::options::{compression, plugins};
use crate::source::{Items, bytes_of};

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
    PyBytes::new_with(py, chunk.nbytes(), |dst| {
        How::threads(threads).run(py, move |control| {
            let dparams = DParams::default().plugins(plugins()).limits(limits).control(control);
            chunk.decompress_bytes_into(dst, &dparams)
        })
    })
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
