//! The objects of HDF5 files as they are stored, for `b2kit.h5py`.

use std::sync::Arc;

use b2_hdf5::{
    Description, End, File, Hdf5Error, ObjectKind, Objects, OtherFloat, StoredLayout, Target, Type,
};
use b2kit::Limits;
use b2kit::frame::ReadAt;
use numpy::{PyArrayDescr, PyArrayDescrMethods};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};

use crate::control::How;
use crate::errors::{OrRaise, argument};
use crate::hdf5_read::Hdf5Data;
use crate::source::PyFile;

/// The objects of an open HDF5 file, by their addresses.
#[pyclass(frozen, module = "b2kit._b2kit")]
pub(crate) struct Hdf5Objects(Arc<File>);

/// A link: its name, and an address, a path, or another file and a path in it.
type NamedLink<'py> = (Bound<'py, PyString>, Bound<'py, PyAny>);

/// A name as the library has it. In Python it is text in which bytes that are not UTF-8 are surrogates, as in h5py; the
/// library has `\xHH` in their place.
struct Name(String);

impl<'py> FromPyObject<'_, 'py> for Name {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(text) = object.extract::<String>() {
            return Ok(Self(text));
        }
        let bytes = object.call_method1(intern!(object.py(), "encode"), ("utf-8", "surrogateescape"))?;
        Ok(Self(escaped(bytes.cast::<PyBytes>()?.as_bytes())))
    }
}

impl std::ops::Deref for Name {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

/// Returns bytes as text, in which those that are not UTF-8 are `\xHH`.
fn escaped(bytes: &[u8]) -> String {
    let mut text = String::new();
    for part in bytes.utf8_chunks() {
        text.push_str(part.valid());
        part.invalid().iter().for_each(|byte| text.push_str(&format!("\\x{byte:02x}")));
    }
    text
}

/// Returns a name of the library for Python.
fn python_name<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyString>> {
    if !name.contains("\\x") {
        return Ok(PyString::new(py, name));
    }
    let mut bytes = Vec::new();
    let mut rest = name;
    while let Some((before, after)) = rest.split_once("\\x") {
        bytes.extend_from_slice(before.as_bytes());
        match after.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte @ 0x80..) => {
                bytes.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            _ => {
                bytes.extend_from_slice(b"\\x");
                rest = after;
            }
        }
    }
    bytes.extend_from_slice(rest.as_bytes());
    // Otherwise the name has these characters by itself.
    match escaped(&bytes) == name {
        true => {
            PyString::from_encoded_object(&PyBytes::new(py, &bytes), Some(c"utf-8"), Some(c"surrogateescape"))
        }
        false => Ok(PyString::new(py, name)),
    }
}

impl Hdf5Objects {
    /// Runs `work` on the objects, without the interpreter's lock.
    fn run<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(Objects<'_>) -> Result<T, Hdf5Error> + Send,
    ) -> PyResult<T> {
        let objects = self.objects(py)?;
        How::short(None).run(py, move |_| work(objects))
    }

    fn objects(&self, py: Python<'_>) -> PyResult<Objects<'_>> {
        self.0.objects().ok_or_else(|| argument(py, "a NetCDF 3 file has no objects of HDF5"))
    }
}

#[pymethods]
impl Hdf5Objects {
    /// Opens the file at a path or an http URL, of a source that fetches ranges, or of a Python file.
    #[new]
    #[pyo3(signature = (path, source = None, file = None))]
    fn new(
        py: Python<'_>,
        path: String,
        source: Option<&Bound<'_, PyAny>>,
        file: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let (reader, path) = match file {
            Some(file) => (Arc::new(PyFile::new(file)?) as Arc<dyn ReadAt>, path),
            None => crate::files::file_reader(py, path, source)?,
        };
        let opened = move |_| {
            let file = File::from_reader(reader, path, &Limits::default())?;
            match file.is_netcdf3() {
                true => Err(Hdf5Error::NotHdf5),
                false => Ok(file),
            }
        };
        Ok(Self(Arc::new(How::short(None).run(py, opened)?)))
    }

    /// The address of the root group.
    #[getter]
    fn root(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.objects(py)?.root())
    }

    /// Bytes before the HDF5 data.
    #[getter]
    fn user_block(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.objects(py)?.user_block())
    }

    /// Bytes of an address in the file.
    #[getter]
    fn address_size(&self, py: Python<'_>) -> PyResult<u8> {
        Ok(self.objects(py)?.address_size())
    }

    /// Returns the kind of an object.
    fn kind(&self, py: Python<'_>, address: u64, name: Name) -> PyResult<&'static str> {
        Ok(match self.run(py, |objects| objects.kind(address, &name))? {
            ObjectKind::DataSet => "dataset",
            ObjectKind::Type => "type",
            _ => "group",
        })
    }

    /// Returns the links of a group, and whether they are in the order of creation.
    fn links<'py>(&self, py: Python<'py>, address: u64, name: Name) -> PyResult<(Vec<NamedLink<'py>>, bool)> {
        let (links, is_ordered) = self.run(py, |objects| objects.links(address, &name))?;
        let links = links.into_iter().map(|(name, to)| Ok((python_name(py, &name)?, target(py, to)?)));
        Ok((links.collect::<PyResult<_>>()?, is_ordered))
    }

    /// Returns the target of a name in a group.
    fn link<'py>(
        &self,
        py: Python<'py>,
        address: u64,
        link: Name,
        name: Name,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let found = self.run(py, |objects| objects.link(address, &link, &name))?;
        found.map(|to| target(py, to)).transpose()
    }

    /// Returns the attributes of an object: names, types, shapes and stored bytes.
    fn attributes<'py>(
        &self,
        py: Python<'py>,
        address: u64,
        name: Name,
    ) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let attrs = self.run(py, |objects| objects.attributes(address, &name))?;
        let listed = attrs.into_iter().map(|attr| {
            let shape = attr.shape.map(|shape| PyTuple::new(py, shape)).transpose()?;
            (python_name(py, &attr.name)?, kind(py, &attr.kind)?, shape, PyBytes::new(py, &attr.data))
                .into_pyobject(py)
        });
        listed.collect()
    }

    /// Returns a named type.
    fn named_type<'py>(&self, py: Python<'py>, address: u64, name: Name) -> PyResult<Bound<'py, PyTuple>> {
        kind(py, &self.run(py, |objects| objects.named_type(address, &name))?)
    }

    /// Returns the address of the named type of a data set, if it has one.
    fn type_address(&self, py: Python<'_>, address: u64, name: Name) -> PyResult<Option<u64>> {
        self.run(py, |objects| objects.type_address(address, &name))
    }

    /// Returns the description of a data set.
    fn description<'py>(&self, py: Python<'py>, address: u64, name: Name) -> PyResult<Bound<'py, PyDict>> {
        let Description { kind: items, shape, max_shape, layout, filters, fill, .. } =
            self.run(py, |objects| objects.description(address, &name))?;
        let listed = PyDict::new(py);
        listed.set_item("type", kind(py, &items)?)?;
        listed.set_item("shape", shape.map(|shape| PyTuple::new(py, shape)).transpose()?)?;
        listed.set_item("maxshape", PyTuple::new(py, max_shape)?)?;
        listed.set_item("fill", fill.map(|fill| PyBytes::new(py, &fill)))?;
        let names = filters.iter().map(b2_hdf5::Filter::hdf5_name);
        listed.set_item("filter_names", PyTuple::new(py, names.collect::<Vec<_>>())?)?;
        let filters = filters.into_iter().map(|filter| (filter.id, filter.params));
        listed.set_item("filters", filters.collect::<Vec<_>>())?;
        let name = match layout {
            StoredLayout::Compact => "compact",
            StoredLayout::Contiguous(position) => {
                listed.set_item("position", position)?;
                "contiguous"
            }
            StoredLayout::Chunked(shape) => {
                listed.set_item("chunks", PyTuple::new(py, shape)?)?;
                "chunked"
            }
            StoredLayout::Virtual(bytes) => {
                listed.set_item("virtual", PyBytes::new(py, &bytes))?;
                "virtual"
            }
            StoredLayout::External(parts) => {
                let parts = parts.into_iter().map(|part| (part.file, part.offset, part.nbytes));
                listed.set_item("external", parts.collect::<Vec<_>>())?;
                "external"
            }
            _ => "unknown",
        };
        listed.set_item("layout", name)?;
        Ok(listed)
    }

    /// Opens a data set, whose items are bytes as they are stored.
    fn data_set(&self, py: Python<'_>, address: u64, name: Name) -> PyResult<Hdf5Data> {
        let data = self.run(py, |objects| objects.data_set(address, &name))?;
        let size = data.dtype().or_raise(py)?.itemsize();
        let dtype = PyArrayDescr::new(py, format!("V{size}"))?.unbind();
        Ok(Hdf5Data::new(Arc::new(data), dtype))
    }

    /// Returns the objects that references of sequences and texts refer to; an element has `size` bytes.
    fn sequences<'py>(
        &self,
        py: Python<'py>,
        references: &[u8],
        size: usize,
        name: Name,
    ) -> PyResult<Bound<'py, PyList>> {
        let found = self.run(py, |objects| objects.sequences(references, size, &name))?;
        PyList::new(py, found.iter().map(|bytes| PyBytes::new(py, bytes)))
    }

    /// Returns arrays of the elements of sequences. The dtype has no Python objects.
    fn arrays<'py>(
        &self,
        py: Python<'py>,
        references: &[u8],
        dtype: &Bound<'py, PyArrayDescr>,
        name: Name,
    ) -> PyResult<Bound<'py, PyList>> {
        let size = dtype.itemsize();
        let found = self.run(py, |objects| objects.sequences(references, size, &name))?;
        let arrays = found.iter().map(|bytes| crate::reader::array_of(dtype, bytes));
        PyList::new(py, arrays.collect::<PyResult<Vec<_>>>()?)
    }

    /// Returns the texts that references refer to, up to the first zero of each.
    fn texts<'py>(&self, py: Python<'py>, references: &[u8], name: Name) -> PyResult<Bound<'py, PyList>> {
        let found = self.run(py, |objects| objects.sequences(references, 1, &name))?;
        let text = |bytes: &[u8]| PyBytes::new(py, bytes.split(|&byte| byte == 0).next().unwrap_or_default());
        PyList::new(py, found.iter().map(|bytes| text(bytes)))
    }

    /// Returns an object of a heap.
    fn heap_object<'py>(
        &self,
        py: Python<'py>,
        address: u64,
        index: u32,
        name: Name,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.run(py, |objects| objects.heap_object(address, index, &name))?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Reads bytes of the file.
    fn read<'py>(
        &self,
        py: Python<'py>,
        position: u64,
        nbytes: u64,
        name: Name,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.run(py, |objects| objects.bytes(position, nbytes, &name))?;
        Ok(PyBytes::new(py, &bytes))
    }
}

/// Returns the target of a link: an address, a path, or another file and a path in it; `None` if it is unknown.
fn target(py: Python<'_>, target: Target) -> PyResult<Bound<'_, PyAny>> {
    Ok(match target {
        Target::Object(address) => address.into_pyobject(py)?.into_any(),
        Target::Soft(path) => python_name(py, &path)?.into_any(),
        Target::External { file, path, .. } => {
            (python_name(py, &file)?, python_name(py, &path)?).into_pyobject(py)?.into_any()
        }
        _ => py.None().into_bound(py),
    })
}

/// Describes a type as tuples that start with its class.
fn kind<'py>(py: Python<'py>, of: &Type) -> PyResult<Bound<'py, PyTuple>> {
    match of {
        Type::Int { size, is_signed, is_big, .. } => ("int", size, is_signed, is_big).into_pyobject(py),
        Type::PartialInt { size, first, bits, is_signed, is_big, .. } => {
            ("bits", size, is_signed, is_big, first, bits).into_pyobject(py)
        }
        Type::Float { size, is_big, .. } => ("float", size, is_big).into_pyobject(py),
        Type::OtherFloat(OtherFloat { size, is_big, bits, sign, exponent, mantissa, bias, norm, .. }) => {
            ("floats", size, is_big, bits, sign, exponent, mantissa, bias, norm).into_pyobject(py)
        }
        Type::Complex { size, is_big, .. } => ("complex", size, is_big).into_pyobject(py),
        Type::Text { size, end, is_utf8, .. } => {
            let end = match end {
                End::Zero => "nullterm",
                End::Spaces => "spacepad",
                _ => "nullpad",
            };
            ("text", size, end, is_utf8).into_pyobject(py)
        }
        Type::Opaque { size, tag, .. } => ("opaque", size, tag).into_pyobject(py),
        Type::Compound { size, fields, .. } => {
            let fields = fields
                .iter()
                .map(|field| Ok((python_name(py, &field.name)?, field.offset, kind(py, &field.kind)?)));
            ("compound", size, fields.collect::<PyResult<Vec<_>>>()?).into_pyobject(py)
        }
        Type::Enum { base, names, .. } => {
            let names: Vec<_> = names
                .iter()
                .map(|(name, value)| Ok((python_name(py, name)?, PyBytes::new(py, value))))
                .collect::<PyResult<_>>()?;
            ("enum", kind(py, base)?, names).into_pyobject(py)
        }
        Type::Array { base, dims, .. } => {
            ("array", kind(py, base)?, PyTuple::new(py, dims)?).into_pyobject(py)
        }
        Type::LongText { is_utf8, .. } => ("vlen text", is_utf8).into_pyobject(py),
        Type::Sequence { base, .. } => ("vlen", kind(py, base)?).into_pyobject(py),
        Type::Reference { size, is_region, .. } => ("reference", size, is_region).into_pyobject(py),
        Type::StdReference { size, .. } => ("std reference", size).into_pyobject(py),
        Type::Other { size, what, .. } => ("other", size, what).into_pyobject(py),
        _ => ("other", 0, "an unknown type").into_pyobject(py),
    }
}
