//! Converts item types between NumPy and the library, field by field. No text from a file reaches NumPy's parser,
//! except type strings built here from a letter, a size and a time unit.

use b2kit::nd::DtypeKind;
use b2kit::nd::{Dtype, Field};
use numpy::{PyArrayDescr, PyArrayDescrMethods};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::errors::{OrRaise, argument, wrong_type};

/// Type numbers of NumPy's own types are below this.
const FIRST_USER_TYPE: i32 = 256;

/// Returns the library's type for a NumPy type.
pub(crate) fn from_numpy(descr: &Bound<'_, PyArrayDescr>) -> PyResult<Dtype> {
    let py = descr.py();
    if descr.has_object() || descr.num() >= FIRST_USER_TYPE {
        return Err(wrong_type(format!("items of dtype {descr} cannot be stored")));
    }
    if descr.has_subarray() {
        return Err(wrong_type(format!("dtype {descr} is a sub-array: add its shape to that of the array")));
    }
    if let Some(names) = descr.names() {
        let mut fields = Vec::with_capacity(names.len());
        for name in names {
            let (inner, offset) = descr.get_field(&name)?;
            let (base, shape) = match inner.has_subarray() {
                true => (inner.base(), inner.shape()),
                false => (inner, Vec::new()),
            };
            fields.push(Field::new(name, from_numpy(&base)?, offset).array(shape));
        }
        return Dtype::structure(fields, descr.itemsize()).or_raise(py);
    }
    if !b"biufcSUVMm".contains(&descr.kind()) {
        return Err(wrong_type(format!("items of dtype {descr} cannot be stored")));
    }
    let text: String = descr.getattr(intern!(py, "str"))?.extract()?;
    if descr.itemsize() == 0 {
        return Err(argument(py, format!("items of dtype {text} have no bytes")));
    }
    Dtype::parse(&text).or_raise(py)
}

/// Returns the NumPy type for one of the library. Types that NumPy does not have become opaque bytes.
pub(crate) fn to_numpy<'py>(py: Python<'py>, dtype: &Dtype) -> PyResult<Bound<'py, PyArrayDescr>> {
    match dtype.kind() {
        DtypeKind::Simple { code, big_endian } => {
            let size = if *code == 'U' { dtype.itemsize() / 4 } else { dtype.itemsize() };
            let order = if *big_endian { '>' } else { '<' };
            let unit = match code {
                // The library's grammar allows only letters, digits and a slash in the unit.
                'M' | 'm' => dtype.as_str().find('[').and_then(|at| dtype.as_str().get(at..)).unwrap_or(""),
                _ => "",
            };
            let text = format!("{order}{code}{size}{unit}");
            match PyArrayDescr::new(py, text) {
                Ok(descr) if descr.itemsize() == dtype.itemsize() => Ok(descr),
                _ => opaque(py, dtype.itemsize()),
            }
        }
        DtypeKind::Struct(fields) => {
            let (names, formats, offsets) = (PyList::empty(py), PyList::empty(py), PyList::empty(py));
            for field in fields {
                let inner = to_numpy(py, &field.dtype)?;
                names.append(&field.name)?;
                offsets.append(field.offset)?;
                match &field.shape[..] {
                    [] => formats.append(inner)?,
                    shape => formats.append((inner, pyo3::types::PyTuple::new(py, shape)?))?,
                }
            }
            let described = PyDict::new(py);
            described.set_item("names", names)?;
            described.set_item("formats", formats)?;
            described.set_item("offsets", offsets)?;
            described.set_item("itemsize", dtype.itemsize())?;
            match PyArrayDescr::new(py, described) {
                Ok(descr) if descr.itemsize() == dtype.itemsize() => Ok(descr),
                _ => opaque(py, dtype.itemsize()),
            }
        }
        _ => opaque(py, dtype.itemsize()),
    }
}

fn opaque(py: Python<'_>, itemsize: usize) -> PyResult<Bound<'_, PyArrayDescr>> {
    PyArrayDescr::new(py, format!("V{itemsize}"))
}
