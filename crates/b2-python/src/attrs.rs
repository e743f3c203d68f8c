//! Attributes: msgpack values as python-blosc2 writes and reads them, as objects of Python.

use b2kit::nd::Value;
use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyComplex, PyDict, PyFloat, PyFrozenSet, PyInt, PyList, PySet, PyString,
    PyTuple,
};

use crate::errors::{argument, exception, wrong_type};
use crate::index::numpy;

/// What python-blosc2 puts first into a list that was a tuple.
const TUPLE: &str = "__tuple__";
/// Its extension types.
const COMPLEX: i8 = 44;
const SET: i8 = 45;
const ARRAY: i8 = 46;
/// Values nest at most this deep.
const MAX_DEPTH: usize = 100;

/// An object as a msgpack value.
pub(crate) fn to_value(object: &Bound<'_, PyAny>) -> PyResult<Value> {
    value_of(object, 0)
}

fn value_of(object: &Bound<'_, PyAny>, depth: usize) -> PyResult<Value> {
    let py = object.py();
    if depth > MAX_DEPTH {
        return Err(argument(py, "the value nests too deep"));
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
        // Times with units that Python does not have stay what they are.
        if item.is_instance(&numpy(py)?.getattr(intern!(py, "generic"))?)? {
            return Err(wrong_type(format!("{object} cannot be an attribute")));
        }
        value_of(&item, depth + 1)
    } else {
        Err(wrong_type(format!("a value of type {} cannot be an attribute", object.get_type())))
    }
}

fn array_value(array: &Bound<'_, PyUntypedArray>, depth: usize) -> PyResult<Value> {
    let py = array.py();
    let dtype = array.dtype();
    // For its errors: what cannot be stored as items cannot be stored here.
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

/// The bytes of a value.
pub(crate) fn packed(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    // A vector takes all that is written.
    let _ = rmpv::encode::write_value(&mut bytes, value);
    bytes
}

/// The value in bytes.
pub(crate) fn unpacked(py: Python<'_>, mut bytes: &[u8]) -> PyResult<Value> {
    let fail = |what: String| exception(py, "DamagedError", &what);
    let value = rmpv::decode::read_value_with_max_depth(&mut bytes, MAX_DEPTH)
        .map_err(|error| fail(error.to_string()))?;
    match bytes {
        [] => Ok(value),
        _ => Err(fail("there are bytes behind the value".into())),
    }
}

/// A msgpack value as an object.
pub(crate) fn to_object<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Nil => py.None().into_bound(py),
        Value::Boolean(truth) => PyBool::new(py, *truth).to_owned().into_any(),
        Value::Integer(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => number.into_pyobject(py)?.into_any(),
            (None, number) => number.unwrap_or_default().into_pyobject(py)?.into_any(),
        },
        // As it was set: nobody else writes numbers of this size.
        Value::F32(number) => numpy(py)?.call_method1(intern!(py, "float32"), (*number,))?,
        Value::F64(number) => PyFloat::new(py, *number).into_any(),
        Value::String(text) => match text.as_str() {
            Some(text) => PyString::new(py, text).into_any(),
            None => PyBytes::new(py, text.as_bytes()).into_any(),
        },
        Value::Binary(bytes) => PyBytes::new(py, bytes).into_any(),
        Value::Array(items) => match &items[..] {
            [Value::String(first), items @ ..] if first.as_str() == Some(TUPLE) => {
                let items: Vec<_> = items.iter().map(|item| to_object(py, item)).collect::<PyResult<_>>()?;
                PyTuple::new(py, items)?.into_any()
            }
            items => {
                let items: Vec<_> = items.iter().map(|item| to_object(py, item)).collect::<PyResult<_>>()?;
                PyList::new(py, items)?.into_any()
            }
        },
        Value::Map(pairs) => {
            let map = PyDict::new(py);
            for (key, value) in pairs {
                let (key, value) = (to_object(py, key)?, to_object(py, value)?);
                // A list, say.
                map.set_item(key, value)
                    .map_err(|error| exception(py, "DamagedError", &error.to_string()))?;
            }
            map.into_any()
        }
        Value::Ext(COMPLEX, bytes) => {
            let (Some(real), Some(imag)) =
                (bytes.first_chunk(), bytes.get(8..).and_then(<[u8]>::first_chunk))
            else {
                return Err(exception(py, "DamagedError", "a complex number has 16 bytes"));
            };
            PyComplex::from_doubles(py, f64::from_be_bytes(*real), f64::from_be_bytes(*imag)).into_any()
        }
        Value::Ext(SET, bytes) => {
            let items = to_object(py, &unpacked(py, bytes)?)?;
            let set = py.get_type::<PySet>().call1((items,));
            set.map_err(|error| exception(py, "DamagedError", &error.to_string()))?
        }
        Value::Ext(ARRAY, bytes) => array_object(py, &unpacked(py, bytes)?)?,
        Value::Ext(code, bytes) => {
            // Nothing is opened or run that an attribute names.
            let module = PyModule::import(py, "b2kit.attrs")?;
            module.getattr(intern!(py, "Ext"))?.call1((*code, PyBytes::new(py, bytes)))?
        }
    })
}

fn array_object<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    let damaged = |what: &str| exception(py, "DamagedError", what);
    let get = |map: &Value, name: &str| -> Option<Value> {
        map.as_map()?.iter().find(|(key, _)| key.as_str() == Some(name)).map(|(_, value)| value.clone())
    };
    let dtype = get(value, "dtype").ok_or_else(|| damaged("an array in an attribute has no dtype"))?;
    let text = match (get(&dtype, "str"), get(&dtype, "descr")) {
        (Some(text), _) => text.as_str().map(str::to_owned),
        (None, Some(descr)) => described(&descr, 0),
        (None, None) => None,
    };
    let text = text.ok_or_else(|| damaged("the dtype of an array in an attribute is malformed"))?;
    let dtype = crate::errors::OrRaise::or_raise(b2kit::Dtype::parse(&text), py)?;
    let shape: Option<Vec<u64>> =
        get(value, "shape").and_then(|shape| shape.as_array()?.iter().map(Value::as_u64).collect());
    let (Some(shape), Some(Value::Binary(data))) = (shape, get(value, "data")) else {
        return Err(damaged("an array in an attribute has no shape or no items"));
    };
    let nitems = shape.iter().try_fold(1u64, |n, &length| n.checked_mul(length));
    let nbytes = nitems.and_then(|n| n.checked_mul(dtype.itemsize() as u64));
    if nbytes != Some(data.len() as u64) {
        return Err(damaged("an array in an attribute has another number of items than its shape says"));
    }
    let dtype = crate::dtype::to_numpy(py, &dtype)?;
    if data.is_empty() {
        return numpy(py)?.call_method1(intern!(py, "zeros"), (PyTuple::new(py, shape)?, dtype));
    }
    let flat = numpy(py)?.call_method1(intern!(py, "frombuffer"), (PyBytes::new(py, &data), dtype))?;
    flat.call_method1(intern!(py, "reshape"), (PyTuple::new(py, shape)?,))
}

/// The text of a structured dtype that NumPy described as a list.
fn described(descr: &Value, depth: usize) -> Option<String> {
    if depth > MAX_DEPTH {
        return None;
    }
    // Tuples come as lists, those of python-blosc2 with a mark.
    let items = |value: &Value| -> Option<Vec<Value>> {
        let items = value.as_array()?;
        let marked = items.first().and_then(Value::as_str) == Some(TUPLE);
        Some(items[usize::from(marked)..].to_vec())
    };
    let quoted = |text: &str| format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"));
    let mut fields = Vec::new();
    for field in items(descr)? {
        let field = items(&field)?;
        let name = field.first()?.as_str()?;
        let format = match field.get(1)? {
            Value::String(text) => quoted(text.as_str()?),
            nested => described(nested, depth + 1)?,
        };
        let shape = match field.get(2) {
            None => String::new(),
            Some(shape) => {
                let lengths: Option<Vec<String>> =
                    items(shape)?.iter().map(|length| Some(length.as_u64()?.to_string())).collect();
                format!(", ({},)", lengths?.join(","))
            }
        };
        fields.push(format!("({}, {format}{shape})", quoted(name)));
    }
    Some(format!("[{}]", fields.join(", ")))
}
