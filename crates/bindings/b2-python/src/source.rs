//! Sources of items and bytes: NumPy arrays, Python functions and Python files.

use std::io;
use std::slice;
use std::sync::Mutex;

use b2kit::frame::ReadAt;
use b2kit::nd::{Amount, NdError, Region, RegionSource, StridedItems};
use bytes::Bytes;
use numpy::{PyArrayDescr, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyByteArray, PyBytes, PyMemoryView, PyTuple};

/// Items of a NumPy array, read in place without a copy.
pub(crate) struct Items {
    /// Keeps the memory alive.
    _array: Py<PyUntypedArray>,
    start: *const u8,
    len: usize,
    shape: Vec<u64>,
    itemsize: usize,
    offset: usize,
    strides: Vec<isize>,
}

// SAFETY: The memory belongs to an array that this value keeps alive, and is only read. As usual with NumPy, nobody may
// change the items while they are read.
unsafe impl Send for Items {}

impl Items {
    pub(crate) fn new(array: &Bound<'_, PyUntypedArray>) -> Self {
        let shape: Vec<u64> = array.shape().iter().map(|&n| n as u64).collect();
        let itemsize = numpy::PyArrayDescrMethods::itemsize(&array.dtype());
        let strides = array.strides().to_vec();
        // Number of bytes below and above the address of the first item.
        let (mut below, mut above) = (0usize, itemsize);
        for (&length, &stride) in shape.iter().zip(&strides) {
            let way = (length.max(1) - 1) as usize * stride.unsigned_abs();
            if stride < 0 { below += way } else { above += way }
        }
        // SAFETY: The array is alive, and so are the items that its shape and strides describe.
        let first: *const u8 = unsafe { (*array.as_array_ptr()).fields.data.cast_const().cast() };
        let (start, len) = match shape.contains(&0) {
            true => (std::ptr::dangling(), 0),
            false => (first.wrapping_sub(below), below + above),
        };
        let offset = if len == 0 { 0 } else { below };
        Self { _array: array.clone().unbind(), start, len, shape, itemsize, offset, strides }
    }

    /// Returns all bytes from the lowest item to the highest.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: As in `strided`.
        unsafe { slice::from_raw_parts(self.start, self.len) }
    }

    pub(crate) fn strided(&self) -> Result<StridedItems<'_>, NdError> {
        // SAFETY: The memory belongs to the array that this value keeps alive. Bytes that a program has not written
        // have no known value, but they are memory that NumPy has made available to all.
        let bytes = unsafe { slice::from_raw_parts(self.start, self.len) };
        StridedItems::new(bytes, &self.shape[..], self.itemsize, self.offset, &self.strides[..])
    }
}

/// Items that a Python function returns for a region, given its start and shape.
pub(crate) struct CallbackSource {
    function: Py<PyAny>,
    dtype: Py<PyArrayDescr>,
    shape: Vec<u64>,
}

impl CallbackSource {
    pub(crate) fn new(function: Py<PyAny>, dtype: Py<PyArrayDescr>, shape: Vec<u64>) -> Self {
        Self { function, dtype, shape }
    }

    fn fill(&self, py: Python<'_>, region: &Region<'_>, dst: &mut [u8]) -> PyResult<()> {
        let start = PyTuple::new(py, region.start())?;
        let shape = PyTuple::new(py, region.shape())?;
        let items = self.function.bind(py).call1((start, &shape))?;
        let numpy = crate::index::numpy(py)?;
        let items = numpy.call_method1(intern!(py, "asarray"), (items, self.dtype.bind(py)))?;
        let items = items.call_method1(intern!(py, "copy"), (intern!(py, "C"),))?;
        let items = items.cast_into::<PyUntypedArray>()?;
        let has: Vec<u64> = items.shape().iter().map(|&n| n as u64).collect();
        if has != region.shape() {
            let what = format!("the source has {has:?} items where {:?} are", region.shape());
            return Err(crate::errors::argument(py, what));
        }
        let items = Items::new(&items);
        if items.len != dst.len() {
            return Err(crate::errors::argument(py, format!("{} bytes for {}", items.len, dst.len())));
        }
        // SAFETY: The memory is our own copy in C order, which `items` keeps alive.
        dst.copy_from_slice(unsafe { slice::from_raw_parts(items.start, items.len) });
        Ok(())
    }
}

impl RegionSource for CallbackSource {
    fn read_region(&mut self, region: &Region<'_>, dst: &mut [u8]) -> io::Result<()> {
        let done = Python::try_attach(|py| self.fill(py, region, dst));
        done.unwrap_or(Ok(())).map_err(io::Error::other)
    }

    fn amount(&self) -> Amount {
        Amount::Shape(self.shape.clone())
    }
}

/// A Python file: any object with `seek` and `read`.
pub(crate) struct PyFile {
    file: Py<PyAny>,
    len: u64,
    /// Held from a seek to its read, which must not be interleaved with others. Locked only without the interpreter's
    /// lock.
    turn: Mutex<()>,
}

impl PyFile {
    pub(crate) fn new(file: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = file.py();
        let len = file.call_method1(intern!(py, "seek"), (0, 2))?;
        // Not every `seek` returns the position.
        let len = match len.is_none() {
            true => file.call_method0(intern!(py, "tell"))?.extract()?,
            false => len.extract()?,
        };
        Ok(Self { file: file.clone().unbind(), len, turn: Mutex::new(()) })
    }

    fn read(&self, py: Python<'_>, offset: u64, mut buf: &mut [u8]) -> PyResult<bool> {
        let file = self.file.bind(py);
        file.call_method1(intern!(py, "seek"), (offset,))?;
        while !buf.is_empty() {
            let read = file.call_method1(intern!(py, "read"), (buf.len(),))?;
            // obstore returns its own bytes type.
            let read = match read.cast_into::<PyBytes>() {
                Ok(bytes) => bytes,
                Err(other) => {
                    py.get_type::<PyBytes>().call1((other.into_inner(),))?.cast_into::<PyBytes>()?
                }
            };
            let read = read.as_bytes();
            let n = read.len().min(buf.len());
            if n == 0 {
                return Ok(false);
            }
            let (now, rest) = buf.split_at_mut(n);
            now.copy_from_slice(&read[..n]);
            buf = rest;
        }
        Ok(true)
    }
}

impl ReadAt for PyFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.len)
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let _turn = self.turn.lock().map_err(|_| io::Error::other("a read has failed"))?;
        match Python::try_attach(|py| self.read(py, offset, buf)) {
            Some(Ok(true)) => Ok(()),
            Some(Ok(false)) => Err(io::ErrorKind::UnexpectedEof.into()),
            Some(Err(error)) => Err(io::Error::other(error)),
            None => Err(io::Error::other("the interpreter has ended")),
        }
    }
}

/// A frame in memory.
#[pyclass(frozen, module = "b2kit._b2kit")]
pub(crate) struct Frame(pub(crate) Bytes);

#[pymethods]
impl Frame {
    fn __bytes__<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0)
    }
    fn __len__(&self) -> usize {
        self.0.len()
    }
}

/// Returns the bytes of a buffer. Those of a `bytes` object, and of a view of all of it, are not copied.
pub(crate) fn bytes_of(source: &Bound<'_, PyAny>) -> PyResult<Option<Bytes>> {
    if let Ok(frame) = source.cast::<Frame>() {
        return Ok(Some(frame.get().0.clone()));
    }
    if source.is_instance_of::<PyBytes>() || source.is_instance_of::<PyByteArray>() {
        return Ok(Some(Bytes::from_owner(source.extract::<PyBackedBytes>()?)));
    }
    if source.hasattr(intern!(source.py(), "__fspath__"))? || source.hasattr(intern!(source.py(), "read"))? {
        return Ok(None);
    }
    match PyMemoryView::from(source) {
        Ok(view) => {
            let bytes: PyBackedBytes = match viewed(&view)? {
                Some(bytes) => bytes.into(),
                None => view.call_method0(intern!(source.py(), "tobytes"))?.extract()?,
            };
            Ok(Some(Bytes::from_owner(bytes)))
        }
        Err(_) => Ok(None),
    }
}

/// Returns the `bytes` object whose bytes a view shows all, in their order. They never change.
fn viewed<'py>(view: &Bound<'py, PyMemoryView>) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let py = view.py();
    let mut owner = view.getattr(intern!(py, "obj"))?;
    let bytes = loop {
        owner = match owner.cast_into_exact::<PyBytes>() {
            Ok(bytes) => break bytes,
            Err(other) => {
                let other = other.into_inner();
                match other.is_instance_of::<PyMemoryView>() {
                    true => other.getattr(intern!(py, "obj"))?,
                    false if other.is_instance_of::<PyUntypedArray>() => {
                        other.getattr(intern!(py, "base"))?
                    }
                    false => return Ok(None),
                }
            }
        };
    };
    let nbytes: usize = view.getattr(intern!(py, "nbytes"))?.extract()?;
    let dense: bool = view.getattr(intern!(py, "c_contiguous"))?.extract()?;
    Ok((dense && nbytes == bytes.as_bytes().len()).then_some(bytes))
}
