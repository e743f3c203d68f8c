//! Attributes as Python objects: msgpack, including the extension types of python-blosc2. Also recognises objects that
//! python-blosc2 stores as empty arrays, with a metalayer that describes the source of their items.

use b2_core::{LimitExceeded, Limits};
use b2_frame::Metalayers;

use crate::model::attrs::decode;
use crate::{Dtype, NdError};

/// The first item that python-blosc2 adds to a list that was a tuple.
const TUPLE: &str = "__tuple__";
/// The extension types of python-blosc2. The last two contain msgpack themselves.
const COMPLEX: i8 = 44;
const SET: i8 = 45;
const ARRAY: i8 = 46;
/// Maximum nesting depth, counting lists, maps and extension types.
const MAX_DEPTH: usize = 128;
/// Upper bound for the memory of a value as a Python object, in addition to its content, in bytes.
const COST: u64 = 256;

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as in Python")]
pub enum Object {
    Nil,
    Bool(bool),
    Int(i64),
    /// A number too large for `Int`.
    Large(u64),
    F32(f32),
    F64(f64),
    Text(String),
    /// Also used for text that is not UTF-8.
    Bytes(Vec<u8>),
    List(Vec<Object>),
    Tuple(Vec<Object>),
    Map(Vec<(Object, Object)>),
    Set(Vec<Object>),
    Complex(f64, f64),
    /// The length of `Bytes` fits the shape and the item type.
    Array {
        dtype: Box<Dtype>,
        shape: Vec<u64>,
        data: Vec<u8>,
    },
    /// An extension type that this crate does not interpret.
    Ext(i8, Vec<u8>),
}

impl Object {
    /// Decodes the value of the attribute `name`. The size of the whole value, including nested ones, is checked
    /// against `max_memory` before it is allocated.
    ///
    /// # Errors
    /// [`NdError::Attribute`] if the value is malformed, [`NdError::Limit`] if it is too large.
    pub fn decode(name: impl AsRef<[u8]>, mut bytes: &[u8], limits: &Limits) -> Result<Self, NdError> {
        let mut decoder = Decoder { limits, asked: 0 };
        let result = decoder.value(&mut bytes, 0).and_then(|object| match bytes {
            [] => Ok(object),
            _ => Err(ObjectFault::Malformed("extra bytes follow the value".into())),
        });
        result.map_err(|fault| match fault {
            ObjectFault::Malformed(what) => {
                NdError::Attribute { name: String::from_utf8_lossy(name.as_ref()).into_owned(), what }
            }
            ObjectFault::Limit(limit) => limit.into(),
        })
    }

    fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    fn items(&self) -> Option<&[Object]> {
        match self {
            Self::List(items) | Self::Tuple(items) => Some(items),
            _ => None,
        }
    }

    fn length(&self) -> Option<u64> {
        match self {
            Self::Int(length) => u64::try_from(*length).ok(),
            Self::Large(length) => Some(*length),
            _ => None,
        }
    }

    /// Removes the value with this key from a map and returns it.
    fn take(&mut self, key: &str) -> Option<Object> {
        let Self::Map(pairs) = self else { return None };
        let (_, value) = pairs.iter_mut().find(|(name, _)| name.text() == Some(key))?;
        Some(std::mem::replace(value, Self::Nil))
    }
}

enum ObjectFault {
    Malformed(String),
    Limit(LimitExceeded),
}

fn malformed<T>(what: impl Into<String>) -> Result<T, ObjectFault> {
    Err(ObjectFault::Malformed(what.into()))
}

struct Decoder<'a> {
    limits: &'a Limits,
    /// Memory of all values so far.
    asked: u64,
}

impl Decoder<'_> {
    fn charge(&mut self, more: u64) -> Result<(), ObjectFault> {
        self.asked = self.asked.saturating_add(more);
        self.limits.check_memory("attribute, in bytes", self.asked).map_err(ObjectFault::Limit)
    }

    fn value(&mut self, bytes: &mut &[u8], depth: usize) -> Result<Object, ObjectFault> {
        if depth > MAX_DEPTH {
            return malformed(format!("the value is nested deeper than {MAX_DEPTH} levels"));
        }
        self.charge(COST)?;
        let [marker] = fixed(bytes)?;
        let len = length(bytes, marker)?;
        Ok(match marker {
            0x00..=0x7F => Object::Int(marker.into()),
            0x80..=0x8F | 0xDE | 0xDF => self.map(bytes, len, depth)?,
            0x90..=0x9F | 0xDC | 0xDD => self.list(bytes, len, depth)?,
            0xA0..=0xBF | 0xD9..=0xDB => self.text(bytes, len)?,
            0xC0 => Object::Nil,
            0xC1 => return malformed("byte C1 is not valid msgpack"),
            0xC2 | 0xC3 => Object::Bool(marker == 0xC3),
            0xC4..=0xC6 => self.content(bytes, len).map(Object::Bytes)?,
            0xC7..=0xC9 | 0xD4..=0xD8 => self.ext(bytes, len, depth)?,
            0xCA => Object::F32(f32::from_be_bytes(fixed(bytes)?)),
            0xCB => Object::F64(f64::from_be_bytes(fixed(bytes)?)),
            0xCC => Object::Int(u8::from_be_bytes(fixed(bytes)?).into()),
            0xCD => Object::Int(u16::from_be_bytes(fixed(bytes)?).into()),
            0xCE => Object::Int(u32::from_be_bytes(fixed(bytes)?).into()),
            0xCF => {
                let number = u64::from_be_bytes(fixed(bytes)?);
                i64::try_from(number).map_or(Object::Large(number), Object::Int)
            }
            0xD0 => Object::Int(i8::from_be_bytes(fixed(bytes)?).into()),
            0xD1 => Object::Int(i16::from_be_bytes(fixed(bytes)?).into()),
            0xD2 => Object::Int(i32::from_be_bytes(fixed(bytes)?).into()),
            0xD3 => Object::Int(i64::from_be_bytes(fixed(bytes)?)),
            0xE0..=0xFF => Object::Int(i8::from_be_bytes([marker]).into()),
        })
    }

    fn list(&mut self, bytes: &mut &[u8], len: u32, depth: usize) -> Result<Object, ObjectFault> {
        let mut items = Vec::new();
        let mut tuple = false;
        // Reserve nothing, since the items may be missing.
        for n in 0..len {
            let item = self.value(bytes, depth.saturating_add(1))?;
            if n == 0 && item.text() == Some(TUPLE) {
                tuple = true;
            } else {
                items.push(item);
            }
        }
        Ok(if tuple { Object::Tuple(items) } else { Object::List(items) })
    }

    fn map(&mut self, bytes: &mut &[u8], len: u32, depth: usize) -> Result<Object, ObjectFault> {
        let mut pairs = Vec::new();
        for _ in 0..len {
            let key = self.value(bytes, depth.saturating_add(1))?;
            pairs.push((key, self.value(bytes, depth.saturating_add(1))?));
        }
        Ok(Object::Map(pairs))
    }

    fn text(&mut self, bytes: &mut &[u8], len: u32) -> Result<Object, ObjectFault> {
        match String::from_utf8(self.content(bytes, len)?) {
            Ok(text) => Ok(Object::Text(text)),
            Err(error) => Ok(Object::Bytes(error.into_bytes())),
        }
    }

    fn content(&mut self, bytes: &mut &[u8], len: u32) -> Result<Vec<u8>, ObjectFault> {
        let content = part(bytes, len)?;
        // Count the content both here and as a Python object, where text may take four bytes per character.
        self.charge((content.len() as u64).saturating_mul(5))?;
        Ok(content.to_vec())
    }

    /// Decodes the content of an extension type in place, one level deeper.
    fn ext(&mut self, bytes: &mut &[u8], len: u32, depth: usize) -> Result<Object, ObjectFault> {
        let code = i8::from_be_bytes(fixed(bytes)?);
        match code {
            COMPLEX => {
                let mut content = part(bytes, len)?;
                let (real, imaginary) = (fixed(&mut content), fixed(&mut content));
                match (real, imaginary, content) {
                    (Ok(real), Ok(imaginary), []) => {
                        Ok(Object::Complex(f64::from_be_bytes(real), f64::from_be_bytes(imaginary)))
                    }
                    _ => malformed("a complex number has 16 bytes"),
                }
            }
            SET => match self.nested(bytes, len, depth)? {
                Object::List(items) | Object::Tuple(items) => Ok(Object::Set(items)),
                _ => malformed("a set is not a list"),
            },
            ARRAY => array(self.nested(bytes, len, depth)?),
            _ => Ok(Object::Ext(code, self.content(bytes, len)?)),
        }
    }

    fn nested(&mut self, bytes: &mut &[u8], len: u32, depth: usize) -> Result<Object, ObjectFault> {
        let mut content = part(bytes, len)?;
        let object = self.value(&mut content, depth.saturating_add(1))?;
        match content {
            [] => Ok(object),
            _ => malformed("extra bytes follow a nested value"),
        }
    }
}

/// Reads the length of a value with this marker: its items or bytes, or 0 if it has none.
fn length(bytes: &mut &[u8], marker: u8) -> Result<u32, ObjectFault> {
    Ok(match marker {
        0x80..=0x9F => (marker & 0x0F).into(),
        0xA0..=0xBF => (marker & 0x1F).into(),
        0xC4 | 0xC7 | 0xD9 => u8::from_be_bytes(fixed(bytes)?).into(),
        0xC5 | 0xC8 | 0xDA | 0xDC | 0xDE => u16::from_be_bytes(fixed(bytes)?).into(),
        0xC6 | 0xC9 | 0xDB | 0xDD | 0xDF => u32::from_be_bytes(fixed(bytes)?),
        0xD4..=0xD8 => 1 << (marker & 0x0F).saturating_sub(4),
        _ => 0,
    })
}

fn fixed<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], ObjectFault> {
    match bytes.split_first_chunk() {
        Some((first, rest)) => {
            *bytes = rest;
            Ok(*first)
        }
        None => malformed("the value is truncated"),
    }
}

fn part<'a>(bytes: &mut &'a [u8], len: u32) -> Result<&'a [u8], ObjectFault> {
    let split = usize::try_from(len).ok().and_then(|len| bytes.split_at_checked(len));
    match split {
        Some((part, rest)) => {
            *bytes = rest;
            Ok(part)
        }
        None => malformed("the value is truncated"),
    }
}

/// Converts an array as python-blosc2 stores it: a map of dtype, shape and bytes.
fn array(mut map: Object) -> Result<Object, ObjectFault> {
    let mut dtype = map.take("dtype").unwrap_or(Object::Nil);
    let text = match (dtype.take("str"), dtype.take("descr")) {
        (Some(text), _) => text.text().map(str::to_owned),
        (None, Some(descr)) => described(&descr),
        (None, None) => None,
    };
    let Some(text) = text else { return malformed("the dtype of an array is missing or malformed") };
    let dtype = Dtype::parse(&text).or_else(|error| malformed(error.to_string()))?;
    let shape = map.take("shape");
    let shape: Option<Vec<u64>> = shape.and_then(|shape| shape.items()?.iter().map(Object::length).collect());
    let (Some(shape), Some(Object::Bytes(data))) = (shape, map.take("data")) else {
        return malformed("an array has no shape or no items");
    };
    let nitems = shape.iter().try_fold(1u64, |n, &length| n.checked_mul(length));
    let nbytes = nitems.and_then(|n| n.checked_mul(dtype.itemsize() as u64));
    match nbytes == Some(data.len() as u64) {
        true => Ok(Object::Array { dtype: Box::new(dtype), shape, data }),
        false => malformed("an array has another number of items than its shape says"),
    }
}

/// Returns the text of a structured dtype that NumPy described as a list. It nests no deeper than the value.
fn described(descr: &Object) -> Option<String> {
    let quoted = |text: &str| format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"));
    let mut fields = Vec::new();
    for field in descr.items()? {
        let field = field.items()?;
        let name = field.first()?.text()?;
        let format = match field.get(1)? {
            Object::Text(text) => quoted(text),
            nested => described(nested)?,
        };
        let shape = match field.get(2) {
            None => String::new(),
            Some(shape) => {
                let lengths: Option<Vec<String>> =
                    shape.items()?.iter().map(|length| Some(length.length()?.to_string())).collect();
                format!(", ({},)", lengths?.join(","))
            }
        };
        fields.push(format!("({}, {format}{shape})", quoted(name)));
    }
    Some(format!("[{}]", fields.join(", ")))
}

/// The names of such metalayers: for objects of all kinds, caches of other arrays, and both in the form of older
/// versions.
const MARKERS: [&str; 4] = ["b2o", "proxy-source", "proxy", "LazyArray"];

/// Fails if the items are not in the frame, because they would read as zeros.
///
/// # Errors
/// [`NdError::NoItems`].
pub(crate) fn check_items(metalayers: &Metalayers, limits: &Limits) -> Result<(), NdError> {
    let note = MARKERS.into_iter().find_map(|marker| Some((marker, metalayers.get(marker)?)));
    let Some((marker, note)) = note else { return Ok(()) };
    let what = match marker {
        "b2o" => match kind(note, limits).as_deref() {
            Some("lazyexpr") => "a lazy expression (LazyExpr)",
            Some("lazyudf") => "a lazy function (LazyUDF)",
            Some("c2array") => "a reference to an array on a server (C2Array)",
            Some("remote_array") => "a reference to an array elsewhere (RemoteArray)",
            _ => "an object of an unknown kind",
        },
        "LazyArray" => "a lazy array (LazyArray)",
        _ => "a cache of another array (Proxy)",
    };
    Err(NdError::NoItems { marker, what })
}

/// Returns the kind of object that the metalayer names.
fn kind(note: &[u8], limits: &Limits) -> Option<String> {
    let value = decode(b"b2o", note, limits).ok()?;
    let found = value.as_map()?.iter().find(|(key, _)| key.as_str() == Some("kind"))?;
    found.1.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use rmpv::Value;

    use super::*;
    use crate::model::attrs::encode;
    use crate::{ArrayBuilder, NdArray, source};

    fn decode(bytes: &[u8]) -> Result<Object, NdError> {
        Object::decode("a", bytes, &Limits::default())
    }

    fn nested(code: i8, depth: usize) -> Vec<u8> {
        let mut bytes = vec![0x90];
        for _ in 0..depth {
            bytes = encode(&Value::Array(vec![Value::Ext(code, bytes)]));
        }
        bytes
    }

    #[test]
    fn all_types_are_taken_apart() {
        let array = Value::Map(vec![
            ("dtype".into(), Value::Map(vec![("str".into(), "<i2".into())])),
            ("shape".into(), Value::Array(vec![1.into(), 2.into()])),
            ("data".into(), Value::Binary(vec![1, 0, 2, 0])),
        ]);
        let value = Value::Array(vec![
            (-1).into(),
            u64::MAX.into(),
            "K".into(),
            Value::Array(vec![TUPLE.into(), Value::Nil]),
            Value::Ext(SET, encode(&Value::Array(vec![1.into()]))),
            Value::Ext(COMPLEX, [1f64.to_be_bytes(), 2f64.to_be_bytes()].concat()),
            Value::Ext(ARRAY, encode(&array)),
            Value::Ext(5, vec![7; 300]),
            Value::Map(vec![(1.5.into(), Value::F32(2.5))]),
        ]);
        let expected = Object::List(vec![
            Object::Int(-1),
            Object::Large(u64::MAX),
            Object::Text("K".into()),
            Object::Tuple(vec![Object::Nil]),
            Object::Set(vec![Object::Int(1)]),
            Object::Complex(1.0, 2.0),
            Object::Array {
                dtype: Box::new(Dtype::parse("<i2").unwrap()),
                shape: vec![1, 2],
                data: vec![1, 0, 2, 0],
            },
            Object::Ext(5, vec![7; 300]),
            Object::Map(vec![(Object::F64(1.5), Object::F32(2.5))]),
        ]);
        let bytes = encode(&value);
        assert_eq!(decode(&bytes).unwrap(), expected);
        for len in 0..bytes.len() {
            assert!(matches!(decode(&bytes[..len]), Err(NdError::Attribute { .. })));
        }
    }

    #[test]
    fn a_value_costs_what_is_counted() {
        // Twice, because a growing list doubles its capacity.
        assert!(2 * size_of::<Object>() as u64 <= COST / 2);
    }

    #[test]
    fn extension_types_count_for_depth_and_memory() {
        for code in [SET, ARRAY] {
            for depth in [100, 5000] {
                let error = decode(&nested(code, depth)).unwrap_err();
                assert!(matches!(error, NdError::Attribute { .. }), "{error}");
            }
        }
        assert!(decode(&nested(SET, 60)).is_ok());
        // Many small values inside one extension.
        let limits = Limits::default().max_memory(100_000);
        let many = encode(&Value::Ext(SET, encode(&Value::Array(vec![Value::Nil; 1000]))));
        assert!(matches!(Object::decode("a", &many, &limits), Err(NdError::Limit(_))));
        assert!(matches!(decode(&[0xDD, 0xFF, 0xFF, 0xFF, 0xFF]), Err(NdError::Attribute { .. })));
    }

    #[test]
    fn what_holds_no_items_is_refused_by_name() {
        let open = |name: &str, note: Vec<u8>| {
            let builder = ArrayBuilder::new::<u8>([3]).metalayer(name, note);
            NdArray::from_bytes(builder.to_bytes(source::zeros()).unwrap())
        };
        let note = |kind: &str| {
            let map = Value::Map(vec![("kind".into(), kind.into()), ("version".into(), 1.into())]);
            crate::model::attrs::encode(&map)
        };
        for (kind, named) in [
            ("lazyexpr", "LazyExpr"),
            ("lazyudf", "LazyUDF"),
            ("c2array", "C2Array"),
            ("remote_array", "RemoteArray"),
            ("new", "unknown"),
        ] {
            let error = open("b2o", note(kind)).unwrap_err();
            assert_eq!(error.kind(), b2_core::ErrorKind::Unsupported);
            assert!(error.to_string().contains(named), "{error}");
        }
        for bytes in [vec![], vec![0xC1], vec![0x91; 1000]] {
            assert!(matches!(open("b2o", bytes), Err(NdError::NoItems { marker: "b2o", .. })));
        }
        for marker in ["proxy-source", "proxy", "LazyArray"] {
            let error = open(marker, vec![0xC0]).unwrap_err();
            assert_eq!(error.kind(), b2_core::ErrorKind::Unsupported);
            assert!(error.to_string().contains(marker), "{error}");
        }
        assert!(open("b2other", note("lazyexpr")).is_ok());
    }
}
