//! Frames that are not arrays, which stores of python-blosc2 consist of. `b2kit.store` implements their layout.

use std::io;
use std::path::PathBuf;

use b2kit::SuperChunk;
use b2kit::frame::{EditOptions, FrameEditor, FrameError, FrameParams, FrameWriter, ReadAt};
use b2kit::nd::Object;
use bytes::Bytes;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::array::{bytes_of, verdict};
use crate::control::How;
use crate::edit::durability;
use crate::errors::{OrRaise, argument, wrong_type};

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

/// An open frame with any content.
#[pyclass(frozen, module = "b2kit._b2kit")]
pub(crate) struct FrameBase(SuperChunk);

impl FrameBase {
    /// Returns a range of the uncompressed bytes as a file.
    pub(crate) fn part(&self, py: Python<'_>, offset: u64, len: u64) -> PyResult<Part> {
        match offset.checked_add(len) {
            Some(end) if end <= self.0.nbytes() => Ok(Part { frame: self.0.clone(), offset, len }),
            _ => Err(argument(py, format!("bytes {offset} + {len} are outside the frame"))),
        }
    }
}

#[pymethods]
impl FrameBase {
    #[new]
    #[pyo3(signature = (source, *, offset = 0))]
    fn new(py: Python<'_>, source: &Bound<'_, PyAny>, offset: u64) -> PyResult<Self> {
        let options = crate::folder::reading(crate::folder::of(source)?.as_ref()).offset(offset);
        if let Ok(path) = source.extract::<PathBuf>() {
            return How::short(None).run(py, |_| options.open(path)).map(Self);
        }
        match bytes_of(source)? {
            Some(bytes) => How::short(None).run(py, |_| options.from_bytes(bytes)).map(Self),
            None => Err(wrong_type(format!("a frame cannot be opened from {}", source.get_type()))),
        }
    }

    #[getter]
    fn nbytes(&self) -> u64 {
        self.0.nbytes()
    }
    #[getter]
    fn frame_len(&self) -> u64 {
        self.0.header().frame_len()
    }
    #[getter]
    fn metalayers(&self) -> Vec<String> {
        self.0.metalayers().names().map(std::borrow::Cow::into_owned).collect()
    }
    #[getter]
    fn attr_names(&self) -> Vec<String> {
        self.0.vlmetalayers().names().map(std::borrow::Cow::into_owned).collect()
    }

    fn attr<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Option<(Bound<'py, PyAny>,)>> {
        match self.0.vlmetalayers().get(name).or_raise(py)? {
            Some(bytes) => {
                let value = Object::decode(name, &bytes, &self.0.dparams().limits).or_raise(py)?;
                Ok(Some((crate::attrs::to_object(py, value)?,)))
            }
            None => Ok(None),
        }
    }

    /// Reads a range of the uncompressed bytes.
    fn read<'py>(&self, py: Python<'py>, start: u64, stop: u64) -> PyResult<Bound<'py, PyBytes>> {
        let frame = self.0.clone();
        let bytes =
            How::threads(None).run(py, move |control| frame.with_control(control).read_bytes(start..stop))?;
        Ok(PyBytes::new(py, &bytes))
    }

    fn verify(&self, py: Python<'_>) -> PyResult<&'static str> {
        let frame = self.0.clone();
        How::threads(None).run(py, move |control| {
            Ok::<_, FrameError>(verdict(frame.with_control(control).verify()?.checksums))
        })
    }
}

/// A range of the uncompressed bytes of a frame, decoded as they are read.
pub(crate) struct Part {
    frame: SuperChunk,
    offset: u64,
    len: u64,
}

impl ReadAt for Part {
    fn len(&self) -> io::Result<u64> {
        Ok(self.len)
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let end = offset.checked_add(buf.len() as u64);
        if end.is_none_or(|end| end > self.len) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // Does not overflow, because the whole part is inside the frame.
        self.frame.read_bytes_into(self.offset + offset, buf).map_err(io::Error::other)
    }
}

/// Writes a frame without data: its items are bytes, and it has metalayers and attributes.
#[pyfunction]
#[pyo3(signature = (path, chunksize, metalayers, attrs, overwrite = false, sync = true))]
pub(crate) fn write_frame(
    py: Python<'_>,
    path: &Bound<'_, PyAny>,
    chunksize: usize,
    metalayers: &Bound<'_, PyDict>,
    attrs: &Bound<'_, PyDict>,
    overwrite: bool,
    sync: bool,
) -> PyResult<()> {
    let mut params = FrameParams::new(1).chunksize(chunksize);
    for (name, value) in metalayers {
        let value = crate::attrs::packed(&crate::attrs::to_value(&value)?);
        params = params.metalayer(name.extract::<String>()?, value);
    }
    let mut layers = Vec::new();
    for (name, value) in attrs {
        layers.push((name.extract::<String>()?, crate::attrs::packed(&crate::attrs::to_value(&value)?)));
    }
    let mut options = FrameWriter::options().overwrite(overwrite).durability(durability(sync));
    if let Some(inside) = crate::folder::of(path)? {
        options = options.file_system(inside);
    }
    let path: PathBuf = path.extract()?;
    How::short(None).run(py, move |_| {
        let mut writer = options.create(path, params)?;
        for (name, value) in layers {
            writer.set_vlmetalayer(name, &value)?;
        }
        writer.finish().map(drop)
    })
}

/// Changes attributes of a frame in one commit. Returns the names to remove that do not exist.
#[pyfunction]
#[pyo3(signature = (path, changed, removed, sync = true))]
pub(crate) fn edit_frame_attrs(
    py: Python<'_>,
    path: &Bound<'_, PyAny>,
    changed: &Bound<'_, PyDict>,
    removed: Vec<String>,
    sync: bool,
) -> PyResult<Vec<String>> {
    let mut layers = Vec::new();
    for (name, value) in changed {
        layers.push((name.extract::<String>()?, crate::attrs::packed(&crate::attrs::to_value(&value)?)));
    }
    let options = EditOptions::from(crate::folder::reading(crate::folder::of(path)?.as_ref()));
    let path: PathBuf = path.extract()?;
    How::short(None).run(py, move |_| -> Result<Vec<String>, FrameError> {
        let mut editor: FrameEditor = options.durability(durability(sync)).edit(path)?;
        let mut missing = Vec::new();
        for name in removed {
            if !editor.remove_vlmetalayer(&name) {
                missing.push(name);
            }
        }
        for (name, value) in layers {
            editor.set_vlmetalayer(name, &value)?;
        }
        editor.commit()?;
        Ok(missing)
    })
}
