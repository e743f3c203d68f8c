//! Chunks: compressed buffers without a file.

use b2kit::chunk::{ChunkError, DParams};
use b2kit::{Chunk, Limits};
use bytes::Bytes;
use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::control::{How, plugins};
use crate::errors::{OrRaise, argument, wrong_type};
use crate::source::Items;
use crate::write::compression;

/// Compresses the items of a contiguous array.
#[pyfunction]
pub(crate) fn compress<'py>(
    items: &Bound<'py, PyUntypedArray>,
    typesize: usize,
    codec: &str,
    level: u8,
    filters: &Bound<'_, PyList>,
    threads: Option<usize>,
) -> PyResult<Bound<'py, PyBytes>> {
    let py = items.py();
    if !items.is_c_contiguous() {
        return Err(argument(py, "the buffer has gaps"));
    }
    let compression = compression(py, codec, level, filters)?.typesize(typesize);
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
    let bytes: Bytes = match crate::array::bytes_of(chunk)? {
        Some(bytes) => bytes,
        None => return Err(wrong_type(format!("{} is no buffer", chunk.get_type()))),
    };
    let chunk = Chunk::from_bytes(bytes).or_raise(py)?;
    let limits = Limits::default();
    let fits = limits.check_output(chunk.nbytes() as u64, chunk.stored());
    fits.map_err(ChunkError::from).or_raise(py)?;
    PyBytes::new_with(py, chunk.nbytes(), |dst| {
        How::threads(threads).run(py, move |control| {
            let dparams =
                DParams::default().with_plugins(plugins()).with_limits(limits).with_control(control);
            chunk.decompress_bytes_into(dst, &dparams)
        })
    })
}

/// Returns the uncompressed size, the compressed size and the item size of a chunk.
#[pyfunction]
pub(crate) fn chunk_sizes(py: Python<'_>, chunk: &Bound<'_, PyAny>) -> PyResult<(usize, usize, usize)> {
    let Some(bytes) = crate::array::bytes_of(chunk)? else {
        return Err(wrong_type(format!("{} is no buffer", chunk.get_type())));
    };
    let chunk = Chunk::from_bytes(bytes).or_raise(py)?;
    Ok((chunk.nbytes(), chunk.cbytes(), chunk.header().typesize()))
}
