//! Attributes: conversion between Python objects and msgpack values as python-blosc2 writes and reads them.

use b2kit::Limits;
use b2kit::nd::{NdError, Object, Value};
use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyComplex, PyDict, PyFloat, PyFrozenSet, PyInt, PyList, PySet, PyString,
    PyTuple,
};

use crate::errors::{OrRaise, argument, exception, ours, wrong_type};
use crate::index::numpy;

/// First item of a list that python-blosc2 wrote for a tuple.
const TUPLE: &str = "__tuple__";
/// Extension types of python-blosc2.
const COMPLEX: i8 = 44;
const SET: i8 = 45;
const ARRAY: i8 = 46;
/// Maximum nesting depth of written values, so that every reader accepts them.
const MAX_DEPTH: usize = 60;

/// Converts a Python object to a msgpack value.
pub(crate) fn to_value(object: &Bound<'_, PyAny>) -> PyResult<Value> {
    value_of(object, 0).map_err(|error| ours(object.py(), error))
}

fn value_of(object: &Bound<'_, PyAny>, depth: usize) -> PyResult<Value> {
    let py = object.py();
    if depth > MAX_DEPTH {
        return Err(argument(py, "the value is nested too deeply"));
    }
    let list = |items: Bound<'_, PyAny>| -> PyResult<Vec<Value>> {
        items.try_iter()?.map(|item| value_of(&item?, depth + 1)).collect()
    };
    if object.is_none() {
        Ok(Value::Nil)
    } else if let Ok(truth) = object.cast::<PyBool>() {
        Ok(truth.is_true().into())
    } else if object.is_instance_of::<PyInt>() {
        match object.extract::<i64>() {
            Ok(number) => Ok(number.into()),
            Err(_) => match object.extract::<u64>() {
                Ok(number) => Ok(number.into()),
                Err(_) => Err(argument(py, format!("{object} does not fit in 64 bits"))),
            },
        }
    } else if object.is_instance_of::<PyFloat>() {
        Ok(object.extract::<f64>()?.into())
    } else if let Ok(text) = object.cast::<PyString>() {
        Ok(text.to_cow()?.into_owned().into())
    } else if let Ok(bytes) = object.cast::<PyBytes>() {
        Ok(Value::Binary(bytes.as_bytes().to_vec()))
    } else if let Ok(bytes) = object.cast::<PyByteArray>() {
        Ok(Value::Binary(bytes.to_vec()))
    } else if object.is_instance(&ext_type(py)?)? {
        // An extension value that was read before is written back unchanged.
        let (code, data): (i8, Vec<u8>) = object.extract()?;
        Ok(Value::Ext(code, data))
    } else if object.is_instance_of::<PyTuple>() {
        let mut items = vec![TUPLE.into()];
        items.extend(list(object.clone())?);
        Ok(Value::Array(items))
    } else if object.is_instance_of::<PyList>() {
        Ok(Value::Array(list(object.clone())?))
    } else if let Ok(map) = object.cast::<PyDict>() {
        let pairs =
            map.iter().map(|(key, value)| Ok((value_of(&key, depth + 1)?, value_of(&value, depth + 1)?)));
        Ok(Value::Map(pairs.collect::<PyResult<_>>()?))
    } else if object.is_instance_of::<PySet>() || object.is_instance_of::<PyFrozenSet>() {
        Ok(Value::Ext(SET, packed(&Value::Array(list(object.clone())?))))
    } else if let Ok(complex) = object.cast::<PyComplex>() {
        let part = |name| -> PyResult<f64> { complex.getattr(name)?.extract() };
        let (real, imag) = (part(intern!(py, "real"))?, part(intern!(py, "imag"))?);
        Ok(Value::Ext(COMPLEX, [real.to_be_bytes(), imag.to_be_bytes()].concat()))
    } else if let Ok(array) = object.cast::<PyUntypedArray>() {
        array_value(array, depth)
    } else if object.is_instance(&numpy(py)?.getattr(intern!(py, "generic"))?)? {
        if object.is_instance(&numpy(py)?.getattr(intern!(py, "float32"))?)? {
            return Ok(Value::F32(object.extract()?));
        }
        let item = object.call_method0(intern!(py, "item"))?;
        // `item()` leaves some NumPy scalars unchanged, such as times with units that Python does not have.
        if item.is_instance(&numpy(py)?.getattr(intern!(py, "generic"))?)? {
            return Err(wrong_type(format!("{object} cannot be an attribute")));
        }
        value_of(&item, depth + 1)
    } else {
        Err(wrong_type(format!("a value of type {} cannot be an attribute", object.get_type())))
    }
}

/// Returns the class for extension values whose type only their writer knows.
fn ext_type(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    class(py, "Ext")
}

/// Returns a class of `b2kit.attrs`.
fn class<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    PyModule::import(py, "b2kit.attrs")?.getattr(name)
}

fn array_value(array: &Bound<'_, PyUntypedArray>, depth: usize) -> PyResult<Value> {
    let py = array.py();
    let dtype = array.dtype();
    // The conversion rejects types that cannot be stored as items, because they cannot be stored here either.
    let own = crate::dtype::from_numpy(&dtype)?;
    let described = match own.fields() {
        None => ("str", Value::from(own.as_str())),
        Some(_) => ("descr", value_of(&dtype.getattr(intern!(py, "descr"))?, depth + 1)?),
    };
    let shape = array.shape().iter().map(|&length| Value::from(length as u64)).collect();
    let data: Vec<u8> = array.call_method0(intern!(py, "tobytes"))?.extract()?;
    let map = Value::Map(vec![
        ("dtype".into(), Value::Map(vec![(described.0.into(), described.1)])),
        ("shape".into(), Value::Array(shape)),
        ("data".into(), Value::Binary(data)),
    ]);
    Ok(Value::Ext(ARRAY, packed(&map)))
}

/// Returns the bytes of the layer that holds a value: those of `Raw` unchanged, others as msgpack.
pub(crate) fn layer(value: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    match value.is_instance(&class(value.py(), "Raw")?)? {
        true => value.extract(),
        false => Ok(packed(&to_value(value)?)),
    }
}

/// Returns the value of a layer, in a tuple since it may be `None`; `Raw` if it is not msgpack.
pub(crate) fn of_layer<'py>(
    py: Python<'py>,
    name: &str,
    bytes: Option<Vec<u8>>,
    limits: &Limits,
) -> PyResult<Option<(Bound<'py, PyAny>,)>> {
    let Some(bytes) = bytes else { return Ok(None) };
    // Well-formed msgpack whose extensions are malformed is damage.
    let is_msgpack = || {
        let mut rest = &bytes[..];
        rmpv::decode::read_value_ref(&mut rest).is_ok() && rest.is_empty()
    };
    match Object::decode(name, &bytes, limits) {
        Err(NdError::Attribute { .. }) if !is_msgpack() => {
            Ok(Some((class(py, "Raw")?.call1((PyBytes::new(py, &bytes),))?,)))
        }
        value => Ok(Some((to_object(py, value.or_raise(py)?)?,))),
    }
}

/// Returns the encoded bytes of a value.
pub(crate) fn packed(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    // Writing to a vector cannot fail.
    let _ = rmpv::encode::write_value(&mut bytes, value);
    bytes
}

/// Converts a decoded attribute to a Python object. Values that NumPy or Python reject are reported as damage.
pub(crate) fn to_object<'py>(py: Python<'py>, object: Object) -> PyResult<Bound<'py, PyAny>> {
    let damaged = |error: PyErr| exception(py, "DamagedError", &error.to_string());
    let list = |items: Vec<Object>| -> PyResult<Vec<Bound<'py, PyAny>>> {
        items.into_iter().map(|item| to_object(py, item)).collect()
    };
    Ok(match object {
        Object::Nil => py.None().into_bound(py),
        Object::Bool(truth) => PyBool::new(py, truth).to_owned().into_any(),
        Object::Int(number) => number.into_pyobject(py)?.into_any(),
        Object::Large(number) => number.into_pyobject(py)?.into_any(),
        // Restores the NumPy type that was set: no other program writes numbers of this size.
        Object::F32(number) => numpy(py)?.call_method1(intern!(py, "float32"), (number,))?,
        Object::F64(number) => PyFloat::new(py, number).into_any(),
        Object::Text(text) => PyString::new(py, &text).into_any(),
        Object::Bytes(bytes) => PyBytes::new(py, &bytes).into_any(),
        Object::List(items) => PyList::new(py, list(items)?)?.into_any(),
        Object::Tuple(items) => PyTuple::new(py, list(items)?)?.into_any(),
        Object::Map(pairs) => {
            let map = PyDict::new(py);
            for (key, value) in pairs {
                // Fails for keys that are not hashable, such as lists.
                map.set_item(to_object(py, key)?, to_object(py, value)?).map_err(damaged)?;
            }
            map.into_any()
        }
        Object::Set(items) => {
            let set = PySet::empty(py)?;
            for item in list(items)? {
                set.add(item).map_err(damaged)?;
            }
            set.into_any()
        }
        Object::Complex(real, imaginary) => PyComplex::from_doubles(py, real, imaginary).into_any(),
        Object::Array { dtype, shape, data } => {
            let dtype = crate::dtype::to_numpy(py, &dtype)?;
            // A damaged shape may have huge lengths besides one of 0, so zeros of that shape are not allocated.
            let flat = match data.is_empty() {
                true => numpy(py)?.call_method1(intern!(py, "zeros"), (0, dtype)),
                false => numpy(py)?.call_method1(intern!(py, "frombuffer"), (PyBytes::new(py, &data), dtype)),
            };
            let shape = PyTuple::new(py, shape)?;
            flat.and_then(|flat| flat.call_method1(intern!(py, "reshape"), (shape,))).map_err(damaged)?
        }
        Object::Ext(code, bytes) => {
            // Nothing that an attribute refers to is opened or run.
            ext_type(py)?.call1((code, PyBytes::new(py, &bytes)))?
        }
    })
}
