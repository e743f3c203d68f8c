//! Attributes: conversion of msgpack values to HDF5.

use b2nd::{Dtype, Value};

use super::datatypes;
use crate::attrs::array;

/// The content of an attribute.
#[derive(Clone, Debug)]
pub(super) enum Content {
    /// Unchanged items.
    Bytes(Vec<u8>),
    /// Texts of variable length.
    Texts(Vec<String>),
    /// Lists of objects, by their numbers.
    Objects(Vec<Vec<usize>>),
    /// Objects and dimensions.
    Referrers(Vec<(usize, u32)>),
}

/// An attribute.
#[derive(Clone, Debug)]
pub(super) struct Attribute {
    pub(super) name: String,
    pub(super) datatype: Vec<u8>,
    pub(super) space: Vec<u8>,
    pub(super) content: Content,
}

impl Attribute {
    fn new(name: &str, datatype: Vec<u8>, shape: &[u64], content: Content) -> Self {
        Self { name: name.to_owned(), datatype, space: datatypes::space(shape, None), content }
    }

    /// A text of fixed length, as the dimension scales library requires.
    pub(super) fn fixed(name: &str, text: &str) -> Self {
        let bytes = [text.as_bytes(), &[0]].concat();
        Self::new(name, datatypes::text(bytes.len(), true, !text.is_ascii()), &[], Content::Bytes(bytes))
    }

    /// Converts a text of variable length to fixed length, as netCDF stores its type `char`.
    pub(super) fn with_fixed_text(self) -> Self {
        match &self.content {
            Content::Texts(texts) if self.space == datatypes::space(&[], None) => match &texts[..] {
                [text] if !text.is_empty() => {
                    let datatype = datatypes::text(text.len(), false, !text.is_ascii());
                    Self::new(&self.name, datatype, &[], Content::Bytes(text.as_bytes().to_vec()))
                }
                _ => self,
            },
            _ => self,
        }
    }

    /// The lists of scales, one for each dimension.
    pub(super) fn dimension_list(scales: Vec<Vec<usize>>) -> Self {
        let shape = [scales.len() as u64];
        Self::new("DIMENSION_LIST", datatypes::references(), &shape, Content::Objects(scales))
    }

    /// The data sets and dimensions that this scale is attached to.
    pub(super) fn reference_list(referrers: Vec<(usize, u32)>) -> Self {
        let shape = [referrers.len() as u64];
        Self::new("REFERENCE_LIST", datatypes::referrer(), &shape, Content::Referrers(referrers))
    }

    /// Bytes of the content in the header.
    pub(super) fn len(&self) -> usize {
        match &self.content {
            Content::Bytes(bytes) => bytes.len(),
            Content::Texts(texts) => texts.len() * 16,
            Content::Objects(lists) => lists.len() * 16,
            Content::Referrers(all) => all.len() * 16,
        }
    }

    /// Converts a value. An attribute that holds an item value, such as `_FillValue`, gets the `dtype` of the items if that
    /// can represent it.
    ///
    /// # Errors
    /// Describes the value if HDF5 has no such type.
    pub(super) fn of(name: &str, value: &Value, dtype: Option<&Dtype>) -> Result<Self, String> {
        if name.is_empty() || name.contains('\0') {
            return Err("a name that HDF5 cannot have".into());
        }
        let is_item =
            ["_FillValue", "missing_value", "valid_min", "valid_max", "valid_range"].contains(&name);
        if let Some(dtype) = dtype.filter(|_| is_item)
            && let Some(item) = number(value, dtype)
            && let Ok(datatype) = datatypes::of(dtype)
        {
            return Ok(Self::new(name, datatype, &[], Content::Bytes(item)));
        }
        let one = |datatype, bytes: &[u8]| Ok(Self::new(name, datatype, &[], Content::Bytes(bytes.to_vec())));
        let float = |size| datatypes::float(size, false).unwrap_or_default();
        match value {
            Value::Boolean(truth) => one(datatypes::truth(), &[u8::from(*truth)]),
            Value::Integer(number) => match (number.as_i64(), number.as_u64()) {
                (Some(number), _) => one(datatypes::integer(8, true, false), &number.to_le_bytes()),
                (None, Some(number)) => one(datatypes::integer(8, false, false), &number.to_le_bytes()),
                (None, None) => Err("an integer of more than 8 bytes".into()),
            },
            Value::F32(number) => one(float(4), &number.to_le_bytes()),
            Value::F64(number) => one(float(8), &number.to_le_bytes()),
            Value::String(text) => match text.as_str() {
                Some(text) => {
                    let content = Content::Texts(vec![text.to_owned()]);
                    Ok(Self::new(name, datatypes::long_text(), &[], content))
                }
                None => Err("a text that is not UTF-8".into()),
            },
            Value::Array(items) => Self::list(name, items),
            Value::Ext(44, bytes) if bytes.len() == 16 => {
                // Two big-endian floats.
                one(datatypes::complex(16, true).unwrap_or_default(), bytes)
            }
            Value::Ext(..) => {
                let (dtype, shape, data) = array(value).ok_or("an extension type")?;
                let nitems = shape.iter().try_fold(1_u64, |n, &length| n.checked_mul(length));
                let nbytes = nitems.and_then(|n| n.checked_mul(dtype.itemsize() as u64));
                if nbytes != Some(data.len() as u64) {
                    return Err("an array of another size than it says".into());
                }
                if shape.len() > 1 {
                    let ndim = shape.len();
                    return Err(format!("an array of {ndim} dimensions, with which netCDF opens no file"));
                }
                Ok(Self::new(name, datatypes::of(&dtype)?, &shape, Content::Bytes(data)))
            }
            Value::Binary(bytes) if !bytes.is_empty() => {
                one(datatypes::text(bytes.len(), false, false), bytes)
            }
            Value::Binary(_) => Err("bytes of length zero".into()),
            Value::Map(_) => Err("a map".into()),
            Value::Nil => Err("nothing (nil)".into()),
        }
    }

    fn list(name: &str, items: &[Value]) -> Result<Self, String> {
        let shape = [items.len() as u64];
        let texts: Option<Vec<String>> = items.iter().map(|item| item.as_str().map(str::to_owned)).collect();
        if let (Some(texts), false) = (texts, items.is_empty()) {
            return Ok(Self::new(name, datatypes::long_text(), &shape, Content::Texts(texts)));
        }
        let whole: Option<Vec<i64>> = items.iter().map(Value::as_i64).collect();
        if let Some(numbers) = whole {
            let bytes = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
            return Ok(Self::new(name, datatypes::integer(8, true, false), &shape, Content::Bytes(bytes)));
        }
        let large: Option<Vec<u64>> = items.iter().map(Value::as_u64).collect();
        if let Some(numbers) = large {
            let bytes = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
            return Ok(Self::new(name, datatypes::integer(8, false, false), &shape, Content::Bytes(bytes)));
        }
        let floats: Option<Vec<f64>> = items.iter().map(Value::as_f64).collect();
        let numbers = floats.ok_or("a list of neither numbers nor texts")?;
        let most = 1 << f64::MANTISSA_DIGITS;
        let is_exact = |item: &Value| match (item.as_i64(), item.as_u64()) {
            (Some(number), _) => number.unsigned_abs() <= most,
            (None, number) => number.is_none_or(|number| number <= most),
        };
        if !items.iter().all(is_exact) {
            return Err("a list of integers that no type of HDF5 holds together".into());
        }
        let bytes = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        let datatype = datatypes::float(8, false).unwrap_or_default();
        Ok(Self::new(name, datatype, &shape, Content::Bytes(bytes)))
    }
}

/// A number as an item of a dtype, if that can represent it exactly.
fn number(value: &Value, dtype: &Dtype) -> Option<Vec<u8>> {
    let b2nd::DtypeKind::Simple { code, big_endian } = dtype.kind() else { return None };
    let size = dtype.itemsize();
    let mut bytes = match (code, size) {
        ('i', 1..=8) => {
            let number = value.as_i64()?;
            let shift = 64_u32.checked_sub(u32::try_from(size).ok()?.checked_mul(8)?)?;
            if number << shift >> shift != number {
                return None;
            }
            number.to_le_bytes().get(..size)?.to_vec()
        }
        ('u', 1..=8) => {
            let number = value.as_u64()?;
            let shift = 64_u32.checked_sub(u32::try_from(size).ok()?.checked_mul(8)?)?;
            if number << shift >> shift != number {
                return None;
            }
            number.to_le_bytes().get(..size)?.to_vec()
        }
        ('f', 4) => match value {
            Value::F32(number) => number.to_le_bytes().to_vec(),
            other => {
                let number = other.as_f64()?;
                if f64::from(number as f32) != number && !number.is_nan() {
                    return None;
                }
                (number as f32).to_le_bytes().to_vec()
            }
        },
        ('f', 8) => value.as_f64()?.to_le_bytes().to_vec(),
        _ => return None,
    };
    if *big_endian {
        bytes.reverse();
    }
    Some(bytes)
}

/// The names and values of an enumeration whose items have this dtype, if all of them fit.
pub(super) fn members(pairs: &[(Value, Value)], dtype: &Dtype) -> Option<Vec<(String, Vec<u8>)>> {
    let member = |(name, value): &(Value, Value)| {
        let name = name.as_str().filter(|name| !name.is_empty() && !name.contains('\0'))?;
        Some((name.to_owned(), number(value, dtype)?))
    };
    let members: Option<Vec<_>> = pairs.iter().map(member).collect();
    members.filter(|members| (1..1 << 16).contains(&members.len()))
}
