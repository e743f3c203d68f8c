//! Attributes as plain JSON, as other programs show them: arrays as arrays, and numbers as numbers.

use b2kit::Dtype;
use b2kit::nd::DtypeKind;
use data_encoding::BASE64;
use half::f16;
use rmpv::Value;
use serde_json::{Map, Number, Value as Json, json};

use super::{read_value, show_short};

/// Extension types of python-blosc2.
pub(crate) const COMPLEX: i8 = 44;
const ARRAY: i8 = 46;

/// The form of numbers that JSON does not have, given their names: `NaN`, `Infinity` and `-Infinity`.
type NonFinite = fn(&'static str) -> Json;

/// The value of an attribute. Values without a JSON form become text: `"NaN"`, `"Infinity"`, and bytes in Base64.
pub(crate) fn attribute(value: &Value) -> Json {
    attribute_with(value, |name| name.into())
}

/// The value of an attribute as [`attribute`] returns it, but with `{"$float": "NaN"}` and similar in place of text.
pub(crate) fn attribute_exactly(value: &Value) -> Json {
    attribute_with(value, |name| json!({"$float": name}))
}

fn attribute_with(value: &Value, other: NonFinite) -> Json {
    match value {
        Value::Nil => Json::Null,
        Value::Boolean(b) => Json::Bool(*b),
        Value::Integer(n) => match (n.as_i64(), n.as_u64()) {
            (Some(n), _) => n.into(),
            (_, Some(n)) => n.into(),
            _ => Json::Null,
        },
        Value::F32(x) => short_float(*x, other),
        Value::F64(x) => float(*x, other),
        Value::String(text) => match text.as_str() {
            Some(text) => text.into(),
            None => String::from_utf8_lossy(text.as_bytes()).into(),
        },
        Value::Binary(bytes) => BASE64.encode(bytes).into(),
        Value::Array(items) => Json::Array(items.iter().map(|item| attribute_with(item, other)).collect()),
        Value::Map(pairs) => {
            let key = |key: &Value| key.as_str().map_or_else(|| key.to_string(), str::to_owned);
            Json::Object(
                pairs
                    .iter()
                    .map(|(name, inner)| (key(name), attribute_with(inner, other)))
                    .collect::<Map<_, _>>(),
            )
        }
        Value::Ext(code, bytes) => {
            let shown = match *code {
                ARRAY => {
                    rmpv::decode::read_value(&mut &bytes[..]).ok().and_then(|inner| array(&inner, other))
                }
                COMPLEX => complex(bytes, other),
                _ => None,
            };
            shown.unwrap_or_else(|| BASE64.encode(bytes).into())
        }
    }
}

/// A complex number: its parts.
fn complex(bytes: &[u8], other: NonFinite) -> Option<Json> {
    let (parts, rest) = bytes.as_chunks::<8>();
    match (parts, rest) {
        ([real, imaginary], []) => {
            Some(Json::Array([real, imaginary].map(|part| float(f64::from_be_bytes(*part), other)).to_vec()))
        }
        _ => None,
    }
}

/// The contents of a metalayer in readable form, at most `most` characters and dots: arrays and complex numbers as in
/// [`attribute`], anything else without loss.
pub(crate) fn show_for_people(content: &[u8], most: usize) -> String {
    let Some(value @ Value::Ext(ARRAY | COMPLEX, _)) = read_value(content) else {
        return show_short(content, most);
    };
    let text = attribute(&value).to_string();
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or(&text)),
        None => text,
    }
}

fn float(x: f64, other: NonFinite) -> Json {
    Number::from_f64(x).map_or_else(|| other(name_of(x)), Json::Number)
}

/// A number in its own precision: 0.1, not 0.10000000149011612.
fn short_float(x: f32, other: NonFinite) -> Json {
    match x.to_string().parse() {
        Ok(short) if x.is_finite() => float(short, other),
        _ => float(x.into(), other),
    }
}

fn name_of(x: f64) -> &'static str {
    match x {
        x if x.is_nan() => "NaN",
        x if x > 0.0 => "Infinity",
        _ => "-Infinity",
    }
}

/// An array of NumPy.
fn array(map: &Value, other: NonFinite) -> Option<Json> {
    let part = |name: &str| {
        let pairs = map.as_map()?;
        pairs.iter().find(|(key, _)| key.as_str() == Some(name)).map(|(_, value)| value)
    };
    let (_, dtype) = part("dtype")?.as_map()?.first()?;
    let dtype = Dtype::parse(dtype.as_str()?).ok()?;
    let lengths = part("shape")?.as_array()?.iter().map(|length| usize::try_from(length.as_u64()?).ok());
    let shape = lengths.collect::<Option<Vec<usize>>>()?;
    let data = part("data")?.as_slice()?;
    let count = shape.iter().try_fold(1_usize, |n, length| n.checked_mul(*length))?;
    if dtype.itemsize() == 0 || Some(data.len()) != count.checked_mul(dtype.itemsize()) {
        return None;
    }
    let mut items = data
        .chunks_exact(dtype.itemsize())
        .map(|item| scalar(&dtype, item, other))
        .collect::<Option<Vec<_>>>()?;
    for length in shape.iter().skip(1).rev() {
        if *length == 0 {
            return Some(Json::Array(Vec::new()));
        }
        items = items.chunks(*length).map(|row| Json::Array(row.to_vec())).collect();
    }
    if shape.is_empty() { items.pop() } else { Some(Json::Array(items)) }
}

/// An item of an array.
fn scalar(dtype: &Dtype, item: &[u8], other: NonFinite) -> Option<Json> {
    let DtypeKind::Simple { code, big_endian } = dtype.kind() else { return None };
    let mut bytes = item.to_vec();
    if *big_endian {
        let part = match code {
            'c' => bytes.len() / 2,
            'U' => 4,
            _ => bytes.len(),
        };
        bytes.chunks_mut(part.max(1)).for_each(<[u8]>::reverse);
    }
    let of = |bytes: &[u8]| -> Option<Json> {
        Some(match bytes.len() {
            2 => short_float(f16::from_le_bytes(bytes.try_into().ok()?).into(), other),
            4 => short_float(f32::from_le_bytes(bytes.try_into().ok()?), other),
            8 => float(f64::from_le_bytes(bytes.try_into().ok()?), other),
            _ => return None,
        })
    };
    Some(match (code, bytes.len()) {
        ('b', 1) => Json::Bool(bytes != [0]),
        ('u', ..=8) => {
            bytes.resize(8, 0);
            u64::from_le_bytes(bytes.try_into().ok()?).into()
        }
        ('i' | 'M' | 'm', ..=8) => {
            let sign = if bytes.last()? & 0x80 == 0 { 0 } else { 0xFF };
            bytes.resize(8, sign);
            i64::from_le_bytes(bytes.try_into().ok()?).into()
        }
        ('f', _) => of(&bytes)?,
        ('c', len) => Json::Array(vec![of(bytes.get(..len / 2)?)?, of(bytes.get(len / 2..)?)?]),
        ('S', _) => {
            let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
            String::from_utf8_lossy(bytes.get(..end)?).into()
        }
        ('U', _) => {
            let (letters, _) = bytes.as_chunks::<4>();
            let text: Option<String> =
                letters.iter().map(|letter| char::from_u32(u32::from_le_bytes(*letter))).collect();
            text?.trim_end_matches('\0').into()
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array_of(dtype: &str, shape: &[u64], data: &[u8]) -> Value {
        let map = Value::Map(vec![
            ("dtype".into(), Value::Map(vec![("str".into(), dtype.into())])),
            ("shape".into(), Value::Array(shape.iter().map(|&n| n.into()).collect())),
            ("data".into(), Value::Binary(data.to_vec())),
        ]);
        let mut bytes = Vec::new();
        rmpv::encode::write_value(&mut bytes, &map).unwrap();
        Value::Ext(ARRAY, bytes)
    }

    #[test]
    fn attributes_are_plain_json() {
        let floats = [0.1_f32, f32::NAN].map(f32::to_be_bytes).concat();
        for (value, expected) in [
            (Value::F32(0.1), json!(0.1)),
            (Value::F64(f64::NEG_INFINITY), json!("-Infinity")),
            (Value::from(u64::MAX), json!(u64::MAX)),
            (Value::Array(vec!["a".into(), Value::Nil]), json!(["a", null])),
            (Value::Map(vec![("k".into(), 1.into())]), json!({"k": 1})),
            (Value::Binary(b"ab".to_vec()), json!("YWI=")),
            (array_of("<i2", &[2, 2], &[1, 0, 2, 0, 3, 0, 255, 255]), json!([[1, 2], [3, -1]])),
            (array_of(">f4", &[2], &floats), json!([0.1, "NaN"])),
            (array_of("|S2", &[2], b"ab\0\0"), json!(["ab", ""])),
            (array_of("<i2", &[], &[5, 0]), json!(5)),
            (array_of("<i2", &[0, 3], &[]), json!([])),
            (
                Value::Ext(COMPLEX, [1.5_f64.to_be_bytes(), (-2.0_f64).to_be_bytes()].concat()),
                json!([1.5, -2.0]),
            ),
            // Damaged values are shown as bytes.
            (Value::Ext(ARRAY, b"x".to_vec()), json!("eA==")),
        ] {
            assert_eq!(attribute(&value), expected);
        }
        assert!(attribute(&array_of("<i2", &[3], &[0])).is_string());
        let numbers =
            Value::Array(vec![Value::F32(f32::INFINITY), array_of(">f4", &[2], &floats), "NaN".into()]);
        let expected = json!([{"$float": "Infinity"}, [0.1, {"$float": "NaN"}], "NaN"]);
        assert_eq!(attribute_exactly(&numbers), expected);
    }
}
