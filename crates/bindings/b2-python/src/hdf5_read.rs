//! Reads HDF5 and NetCDF files.

use std::sync::Arc;

use b2_hdf5::{Content, DataSet, File, Hdf5Error};
use b2kit::nd::{NdArray, Object};
use b2kit::{ErrorKind, Limits};
use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::array::style_of;
use crate::control::How;
use crate::errors::{EngineError, OrRaise};
use crate::index::{ResolvedIndex, Style, View, refuse_masked};
use crate::reader;

/// A stored chunk: its first item, its place in the file, its bytes, and the filters that were not applied.
type StoredChunk<'py> = (Bound<'py, PyTuple>, u64, u64, u32);

/// Boxes of fewer bytes need not be interruptible.
const SHORT: u64 = 1 << 16;

impl EngineError for Hdf5Error {
    fn kind(&self) -> ErrorKind {
        self.kind()
    }
    fn class(&self) -> Option<&'static str> {
        match self {
            Self::NotHdf5 => Some("NotBloscError"),
            Self::NoSuchPath { .. } => Some("NoSuchKeyError"),
            _ => None,
        }
    }
}

/// An open HDF5 or NetCDF file.
#[pyclass(frozen, module = "b2kit._b2kit")]
pub(crate) struct Hdf5File(File);

#[pymethods]
impl Hdf5File {
    /// Opens the file at a path or an http URL, or of a source that fetches ranges.
    #[new]
    #[pyo3(signature = (path, source = None))]
    fn new(py: Python<'_>, path: String, source: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let (reader, path) = crate::files::file_reader(py, path, source)?;
        let file = How::short(None).run(py, move |_| File::from_reader(reader, path, &Limits::default()))?;
        Ok(Self(file))
    }

    /// Lists a group and its subgroups: path, kind, and reason why it cannot be read, for each entry.
    fn tree(&self, py: Python<'_>, group: &str) -> PyResult<Vec<(String, &'static str, String)>> {
        let entries = self.0.tree_below(group).or_raise(py)?;
        let entries = entries.into_iter().map(|entry| {
            let (kind, why) = match entry.content {
                Content::Group => ("group", String::new()),
                Content::DataSet(data) if data.is_dimension_only() => ("dimension", String::new()),
                Content::DataSet(_) => ("dataset", String::new()),
                Content::Type => ("type", String::new()),
                Content::Link(to) => ("link", to),
                Content::Failed(error) => ("failed", error.to_string()),
                _ => ("unknown", String::new()),
            };
            (entry.path, kind, why)
        });
        Ok(entries.collect())
    }

    /// Returns the attributes of a group.
    fn attrs<'py>(&self, py: Python<'py>, group: &str) -> PyResult<Bound<'py, PyDict>> {
        dict(py, &self.0.group_attrs(group).or_raise(py)?.values)
    }

    /// Opens a data set.
    fn data_set(&self, py: Python<'_>, name: &str) -> PyResult<Hdf5Data> {
        let data = self.0.data_set(name).or_raise(py)?;
        // Texts of variable length are measured here.
        let data = Arc::new(data);
        let measured = data.clone();
        let dtype = How::threads(None).run(py, move |_| measured.dtype().cloned())?;
        let dtype = crate::dtype::to_numpy(py, &dtype)?.unbind();
        Ok(Hdf5Data { data, dtype })
    }
}

fn dict<'py>(py: Python<'py>, values: &[(String, b2kit::nd::Value)]) -> PyResult<Bound<'py, PyDict>> {
    let attrs = PyDict::new(py);
    for (name, value) in values {
        let mut bytes = Vec::new();
        // Writing to memory does not fail.
        let _ = rmpv::encode::write_value(&mut bytes, value);
        let object = Object::decode(name, &bytes, &Limits::default()).or_raise(py)?;
        attrs.set_item(name, crate::attrs::to_object(py, object)?)?;
    }
    Ok(attrs)
}

/// A data set.
#[pyclass(frozen, module = "b2kit._b2kit")]
pub(crate) struct Hdf5Data {
    data: Arc<DataSet>,
    dtype: Py<PyArrayDescr>,
}

#[pymethods]
impl Hdf5Data {
    /// The path from the root of the file.
    #[getter]
    fn name(&self) -> &str {
        self.data.path()
    }

    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.data.shape())
    }

    /// The maximum length of each dimension; `None` for unlimited.
    #[getter]
    fn maxshape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.data.max_shape())
    }

    #[getter]
    fn chunks<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        self.data.chunkshape().map(|chunks| PyTuple::new(py, chunks)).transpose()
    }

    #[getter]
    fn dtype(&self, py: Python<'_>) -> Py<PyArrayDescr> {
        self.dtype.clone_ref(py)
    }

    /// Bytes of the file that hold items.
    #[getter]
    fn cbytes(&self) -> u64 {
        self.data.stored_nbytes()
    }

    /// Returns the stored chunks: the first item of each, its position in the file, its size in bytes, and the filters that were
    /// not applied.
    fn stored_chunks<'py>(&self, py: Python<'py>) -> PyResult<Vec<StoredChunk<'py>>> {
        let data = self.data.clone();
        let found = How::short(None).run(py, move |_| data.stored_chunks())?;
        let chunks = found
            .into_iter()
            .map(|chunk| Ok((PyTuple::new(py, chunk.offset)?, chunk.position, chunk.nbytes, chunk.mask)));
        chunks.collect()
    }

    /// The names of the filters, in order of application.
    #[getter]
    fn filters(&self) -> Vec<String> {
        self.data.filters().iter().map(b2_hdf5::Filter::name).collect()
    }

    #[getter]
    fn attrs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        dict(py, self.data.attrs())
    }

    /// Reads the items that an index selects.
    #[pyo3(signature = (key, style, threads = None, progress = None))]
    fn _get<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        style: &str,
        threads: Option<usize>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = key.py();
        refuse_masked(key)?;
        let chosen = ResolvedIndex::new(key, style_of(Some(style))?, self.data.shape())?;
        let view = chosen.view(py, &self.outline(py)?)?;
        chosen.read(py, view, self.dtype.bind(py), |view, dtype| self.read(view, dtype, threads, progress))
    }

    /// Reads a box, without an outline of the data set, which takes longer than reading a small one.
    #[pyo3(signature = (start, shape, threads = None))]
    fn _box<'py>(
        &self,
        py: Python<'py>,
        start: Vec<u64>,
        shape: Vec<u64>,
        threads: Option<usize>,
    ) -> PyResult<Bound<'py, PyUntypedArray>> {
        let data = self.data.clone();
        let lengths: Vec<usize> = shape.iter().map(|&length| length as usize).collect();
        let nbytes =
            shape.iter().fold(self.dtype.bind(py).itemsize() as u64, |n, &length| n.saturating_mul(length));
        data.check_output(nbytes).or_raise(py)?;
        // Querying the number of processors takes longer than such a small read.
        let how = match nbytes < SHORT {
            true => How::short(Some(1)),
            false => How { threads, ..How::default() },
        };
        reader::filled(&lengths, self.dtype.bind(py), how, move |control, dst| {
            data.read_box_with(&control, &start, &shape, dst)
        })
    }

    /// Reads the items that an index selects into a NumPy array or another buffer.
    #[pyo3(signature = (key, out, threads = None, progress = None))]
    fn _read_into(
        &self,
        key: &Bound<'_, PyAny>,
        out: &Bound<'_, PyAny>,
        threads: Option<usize>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        let py = out.py();
        refuse_masked(key)?;
        let chosen = ResolvedIndex::new(key, Style::Numpy, self.data.shape())?;
        let view = chosen.view(py, &self.outline(py)?)?;
        let shape = view.shape.clone();
        let dtype = match &chosen.field {
            Some(_) => crate::dtype::to_numpy(py, view.slice.dtype())?,
            None => self.dtype.bind(py).clone(),
        };
        let (data, slice) = (self.data.clone(), view.slice);
        let how = How { threads, progress, ..How::default() };
        reader::fill(out, &dtype, &shape, how, move |control, dst| data.read_slice(&slice, &control, dst))
    }
}

impl Hdf5Data {
    pub(crate) fn new(data: Arc<DataSet>, dtype: Py<PyArrayDescr>) -> Self {
        Self { data, dtype }
    }

    /// An array without items, for creating selections.
    fn outline(&self, py: Python<'_>) -> PyResult<NdArray> {
        let data = self.data.clone();
        How::short(None).run(py, move |_| data.outline())
    }

    fn read<'py>(
        &self,
        View { slice, shape }: View,
        dtype: &Bound<'py, PyArrayDescr>,
        threads: Option<usize>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyUntypedArray>> {
        let data = self.data.clone();
        let how = How { threads, progress, ..How::default() };
        reader::filled(&shape, dtype, how, move |control, dst| data.read_slice(&slice, &control, dst))
    }
}
