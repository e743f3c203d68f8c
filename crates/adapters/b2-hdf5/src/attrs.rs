//! Attributes, as the package `b2kit` stores them for xarray (docs/reference/xarray.md): vlmetalayers that each hold one msgpack
//! value.

use b2nd::{Dtype, Value};

/// Limits of C-Blosc2: the number of layers, and the bytes of their names.
const MAX_LAYERS: usize = 16;
const LONGEST: usize = 31;
/// The layer with the attributes that have no separate layer.
const REST: &str = "attrs";
/// The names of the dimensions. Stored as a separate layer, where readers look for it.
pub(crate) const DIMENSIONS: &str = "_ARRAY_DIMENSIONS";
/// Marks single characters, as netCDF stores text: those along the last dimension form a string.
pub(crate) const CHARACTERS: &str = "_ARRAY_CHARACTERS";
/// The names of the values of an enumeration.
pub(crate) const ENUM: &str = "_ENUM";
/// Extension types of python-blosc2.
const COMPLEX: i8 = 44;
const ARRAY: i8 = 46;

/// Distributes attributes over vlmetalayers: names and encoded values.
pub(crate) fn layers(attrs: &[(String, Value)]) -> Vec<(String, Vec<u8>)> {
    let (mut own, mut rest): (Vec<_>, Vec<_>) =
        attrs.iter().partition(|(name, _)| name.len() <= LONGEST && name != REST && !name.is_empty());
    if own.len() > MAX_LAYERS || !rest.is_empty() {
        while own.len() > MAX_LAYERS - 1 {
            match own.iter().rposition(|(name, _)| name != DIMENSIONS) {
                Some(last) => rest.push(own.remove(last)),
                None => break,
            }
        }
    }
    let mut layers: Vec<_> = own.iter().map(|(name, value)| (name.clone(), packed(value))).collect();
    if !rest.is_empty() {
        let map = rest.iter().map(|(name, value)| (name.as_str().into(), value.clone())).collect();
        layers.push((REST.into(), packed(&Value::Map(map))));
    }
    layers
}

/// Collects the attributes of vlmetalayers.
pub(crate) fn of_layers(layers: &[(String, Vec<u8>)]) -> Vec<(String, Value)> {
    let mut out = Vec::new();
    for (name, bytes) in layers {
        match rmpv::decode::read_value(&mut &bytes[..]) {
            Ok(Value::Map(rest)) if name == REST => {
                out.extend(
                    rest.into_iter().filter_map(|(key, value)| Some((key.as_str()?.to_owned(), value))),
                );
            }
            Ok(value) => out.push((name.clone(), value)),
            Err(_) => {}
        }
    }
    out
}

/// Encodes a value as msgpack.
fn packed(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    // Writing to memory does not fail.
    let _ = rmpv::encode::write_value(&mut bytes, value);
    bytes
}

/// Converts items to the value of an attribute. A single item becomes a number or a text, as in xarray, even where NetCDF
/// stores a list of one.
pub(crate) fn value(dtype: &Dtype, shape: &[u64], data: &[u8]) -> Value {
    let single = data.len() == dtype.itemsize() && !data.is_empty();
    if let (true, Some(value)) = (single && shape.len() < 2, scalar(dtype.as_str(), data)) {
        return value;
    }
    if let (Some('S'), true, [_]) = (kind(dtype.as_str()), dtype.itemsize() > 0, shape) {
        let texts = data.chunks_exact(dtype.itemsize().max(1));
        return Value::Array(texts.map(text).collect());
    }
    let kind = Value::Map(vec![("str".into(), dtype.as_str().into())]);
    let shape = shape.iter().map(|&length| Value::from(length)).collect();
    let map = Value::Map(vec![
        ("dtype".into(), kind),
        ("shape".into(), Value::Array(shape)),
        ("data".into(), Value::Binary(data.to_vec())),
    ]);
    Value::Ext(ARRAY, packed(&map))
}

/// Converts texts of variable length to the value of the attribute `name`; `None` for those in several dimensions. NetCDF stores
/// every text that is not ASCII as a list of one.
pub(crate) fn texts(name: &str, shape: &[u64], mut texts: Vec<Value>) -> Option<Value> {
    match shape {
        [] => texts.pop(),
        [1] if name != DIMENSIONS => texts.pop(),
        [_] => Some(Value::Array(texts)),
        _ => None,
    }
}

/// The numbers of a value: one, or those of a list.
pub(crate) fn numbers(value: &Value) -> Vec<Value> {
    match value {
        Value::Integer(_) | Value::F32(_) | Value::F64(_) => vec![value.clone()],
        Value::Ext(ARRAY, _) => array_numbers(value).unwrap_or_default(),
        _ => Vec::new(),
    }
}

/// Returns the numbers of an attribute that [`value`] has converted.
fn array_numbers(value: &Value) -> Option<Vec<Value>> {
    let (dtype, _, data) = array(value)?;
    data.chunks_exact(dtype.itemsize().max(1)).map(|item| scalar(dtype.as_str(), item)).collect()
}

/// The dtype, shape and items of an attribute that is an array.
pub(crate) fn array(value: &Value) -> Option<(Dtype, Vec<u64>, Vec<u8>)> {
    let Value::Ext(ARRAY, bytes) = value else { return None };
    let Value::Map(parts) = rmpv::decode::read_value(&mut &bytes[..]).ok()? else { return None };
    let part = |name: &str| parts.iter().find(|(key, _)| key.as_str() == Some(name)).map(|(_, value)| value);
    let Value::Map(kind) = part("dtype")? else { return None };
    let (_, Value::String(dtype)) = kind.first()? else { return None };
    let Value::Array(shape) = part("shape")? else { return None };
    let Value::Binary(data) = part("data")? else { return None };
    let shape = shape.iter().map(Value::as_u64).collect::<Option<Vec<_>>>()?;
    Some((Dtype::parse(dtype.as_str()?).ok()?, shape, data.clone()))
}

fn kind(dtype: &str) -> Option<char> {
    dtype.trim_start_matches(['<', '>', '|']).chars().next()
}

/// Converts one item of a simple dtype.
fn scalar(dtype: &str, data: &[u8]) -> Option<Value> {
    let mut bytes = data.to_vec();
    if dtype.starts_with('>') {
        let parts = if kind(dtype) == Some('c') { 2 } else { 1 };
        bytes.chunks_mut((data.len() / parts).max(1)).for_each(<[u8]>::reverse);
    }
    Some(match (kind(dtype)?, bytes.len()) {
        ('b', 1) => Value::Boolean(bytes != [0]),
        ('u', ..=8) => {
            bytes.resize(8, 0);
            u64::from_le_bytes(bytes.try_into().ok()?).into()
        }
        ('i', ..=8) => {
            let sign = if bytes.last()? & 0x80 == 0 { 0 } else { 0xFF };
            bytes.resize(8, sign);
            i64::from_le_bytes(bytes.try_into().ok()?).into()
        }
        ('f', 2) => Value::F32(half::f16::from_le_bytes(bytes.try_into().ok()?).to_f32()),
        ('f', 4) => Value::F32(f32::from_le_bytes(bytes.try_into().ok()?)),
        ('f', 8) => Value::F64(f64::from_le_bytes(bytes.try_into().ok()?)),
        ('c', 8) => {
            let part =
                |at: usize| Some(f32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?));
            complex(part(0)?.into(), part(4)?.into())
        }
        ('c', 16) => {
            let part =
                |at: usize| Some(f64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?));
            complex(part(0)?, part(8)?)
        }
        ('S', _) => text(data),
        _ => return None,
    })
}

fn complex(real: f64, imaginary: f64) -> Value {
    Value::Ext(COMPLEX, [real.to_be_bytes(), imaginary.to_be_bytes()].concat())
}

/// Converts bytes without the trailing zeros: to text if they are UTF-8.
pub(crate) fn text(bytes: &[u8]) -> Value {
    let end = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last.saturating_add(1));
    let bytes = bytes.get(..end).unwrap_or(bytes);
    match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => Value::Binary(bytes.to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_as_many_as_c_reads() {
        let named = |n: usize| -> Vec<(String, Value)> {
            (0..n).map(|n| (format!("a{n}"), n.into())).chain([(DIMENSIONS.into(), 0.into())]).collect()
        };
        assert_eq!(layers(&named(15)).len(), 16);
        let many = layers(&named(40));
        assert_eq!(many.len(), 16);
        assert!(many.iter().any(|(name, _)| name == DIMENSIONS) && many.iter().any(|(name, _)| name == REST));
        let long = "x".repeat(40);
        let both = layers(&[(long.clone(), 1.into()), ("y".into(), 2.into())]);
        assert_eq!(both[0], ("y".to_owned(), vec![2]));
        assert_eq!(both[1].1, [&[0x81, 0xD9, 40][..], long.as_bytes(), &[1]].concat());
    }

    #[test]
    fn single_items_are_no_lists() {
        let of = |dtype: &str, shape: &[u64], data: &[u8]| value(&Dtype::parse(dtype).unwrap(), shape, data);
        assert_eq!(of(">i2", &[], &[0xFF, 0xFE]), (-2).into());
        assert_eq!(of("<u2", &[1], &[0xFF, 0xFE]), 0xFEFF.into());
        assert_eq!(of(">f4", &[], &0.5_f32.to_be_bytes()), Value::F32(0.5));
        assert_eq!(of("|S4", &[], b"ab\0\0"), "ab".into());
        assert_eq!(of("|S2", &[2], b"ab\xFF\0"), Value::Array(vec!["ab".into(), Value::Binary(vec![0xFF])]));
        assert!(matches!(of("<i4", &[2], &[0; 8]), Value::Ext(ARRAY, _)));
        assert!(matches!(of("<i4", &[0], &[]), Value::Ext(ARRAY, _)));
        let of = |name: &str, shape: &[u64], found: &[&str]| {
            texts(name, shape, found.iter().map(|&text| text.into()).collect())
        };
        assert_eq!(of("units", &[1], &["°C"]), Some("°C".into()));
        assert_eq!(of("units", &[], &["°C"]), Some("°C".into()));
        assert_eq!(of("a", &[2], &["b", "c"]), Some(Value::Array(vec!["b".into(), "c".into()])));
        assert_eq!(of(DIMENSIONS, &[1], &["x"]), Some(Value::Array(vec!["x".into()])));
        assert_eq!(of("a", &[1, 1], &["b"]), None);
    }
}
