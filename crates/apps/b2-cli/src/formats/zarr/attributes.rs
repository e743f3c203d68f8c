//! Attributes: JSON in Zarr, msgpack in Blosc2.

use b2kit::Dtype;
use b2kit::nd::{DtypeKind, Value};
use data_encoding::BASE64;
use serde_json::{Map, Value as Json, json};

use crate::print::json::COMPLEX;

/// Numbers that JSON does not have, as Python writes them.
const NAMES: [&str; 3] = ["NaN", "-Infinity", "Infinity"];

/// Parses JSON as Python writes it, with `NaN`, `Infinity` and `-Infinity` among the numbers.
pub(super) fn parse(text: &str) -> serde_json::Result<Json> {
    serde_json::from_str(text).or_else(|error| {
        if !text.contains("NaN") && !text.contains("Infinity") {
            return Err(error);
        }
        serde_json::from_str(&without_names(text))
    })
}

/// Replaces numbers that JSON does not support by `{"$float": "NaN"}` and similar.
fn without_names(text: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(next) = rest.chars().next() {
        if next == '"' {
            let end = end_of_text(rest);
            out.push_str(rest.get(..end).unwrap_or(rest));
            rest = rest.get(end..).unwrap_or_default();
            continue;
        }
        match NAMES.iter().find(|name| rest.starts_with(**name)) {
            Some(name) => {
                out.push_str(&format!("{{\"$float\":\"{name}\"}}"));
                rest = rest.get(name.len()..).unwrap_or_default();
            }
            None => {
                out.push(next);
                rest = rest.get(next.len_utf8()..).unwrap_or_default();
            }
        }
    }
    out
}

/// JSON as Python writes it: the inverse of [`parse`].
pub(super) fn print(json: &Json) -> serde_json::Result<String> {
    let text = serde_json::to_string_pretty(json)?;
    // Within a text, quotation marks are escaped.
    let mut parts = text.split("\"$float\": \"");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let number = NAMES.iter().find_map(|name| {
            let after = part.strip_prefix(name)?.strip_prefix('"')?.trim_start().strip_prefix('}')?;
            Some((out.trim_end().strip_suffix('{')?.len(), *name, after))
        });
        match number {
            Some((end, name, after)) => {
                out.truncate(end);
                out.extend([name, after]);
            }
            None => out.extend(["\"$float\": \"", part]),
        }
    }
    Ok(out)
}

/// The end of the quoted text at the start.
fn end_of_text(text: &str) -> usize {
    let mut escaped = false;
    for (at, next) in text.char_indices().skip(1) {
        match next {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// The value of an attribute.
pub(super) fn value(json: &Json) -> Value {
    match json {
        Json::Null => Value::Nil,
        Json::Bool(b) => Value::Boolean(*b),
        Json::Number(n) => match (n.as_i64(), n.as_u64()) {
            (Some(n), _) => n.into(),
            (_, Some(n)) => n.into(),
            _ => Value::F64(n.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(text) => text.as_str().into(),
        Json::Array(items) => Value::Array(items.iter().map(value).collect()),
        Json::Object(object) => match object.get("$float").and_then(Json::as_str) {
            Some(name) if object.len() == 1 => Value::F64(name.parse().unwrap_or(f64::NAN)),
            _ => Value::Map(object.iter().map(|(key, inner)| (key.as_str().into(), value(inner))).collect()),
        },
    }
}

/// The attributes of a group or an array.
pub(super) fn values(json: Option<&Json>) -> Vec<(String, Value)> {
    let none = Map::new();
    let all = json.and_then(Json::as_object).unwrap_or(&none);
    all.iter().map(|(name, inner)| (name.clone(), value(inner))).collect()
}

/// Decodes the value that marks missing items of this type, in version 3. xarray encodes floats in attributes, and the two
/// parts of complex numbers.
pub(super) fn decoded_missing(value: &Value, dtype: &Dtype) -> Option<Value> {
    let float = |value: &Value| -> Option<f64> {
        let bytes = BASE64.decode(value.as_str()?.as_bytes()).ok()?;
        Some(f64::from_le_bytes(bytes.try_into().ok()?))
    };
    match (code(dtype)?, value) {
        ('f', value) => Some(Value::F64(float(value)?)),
        ('c', Value::Array(parts)) => match &parts[..] {
            [re, im] => Some(Value::Ext(COMPLEX, [float(re)?, float(im)?].map(f64::to_be_bytes).concat())),
            _ => None,
        },
        _ => None,
    }
}

/// Encodes this value for an array that is written. xarray expects the form that belongs to the type of the items.
/// `shown` is the value in JSON.
pub(super) fn encoded_missing(value: &Value, shown: &Json, dtype: &Dtype) -> Option<Json> {
    let number = |json: &Json| match json.get("$float").and_then(Json::as_str) {
        Some(name) => name.parse().ok(),
        None => json.as_f64(),
    };
    let numbers: Vec<f64> = match (value, shown) {
        (Value::F32(x), _) => vec![f64::from(*x)],
        (_, Json::Array(items)) => items.iter().map(number).collect::<Option<_>>()?,
        (_, json) => vec![number(json)?],
    };
    let float = |x: f64| json!(BASE64.encode(&x.to_le_bytes()));
    match (code(dtype)?, &numbers[..]) {
        ('f', [x]) => Some(float(*x)),
        ('c', [re]) => Some(json!([float(*re), float(0.0)])),
        ('c', [re, im]) => Some(json!([float(*re), float(*im)])),
        // Integers remain what they are.
        ('i' | 'u', [x]) if x.fract() == 0.0 && !value.is_i64() && !value.is_u64() => {
            format!("{x:.0}").parse().ok().map(Json::Number)
        }
        _ => None,
    }
}

fn code(dtype: &Dtype) -> Option<char> {
    match dtype.kind() {
        DtypeKind::Simple { code, .. } => Some(*code),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::print::json::attribute_exactly;

    #[test]
    fn numbers_without_a_json_form() {
        let json =
            parse(r#"{"a": NaN, "b": [-Infinity, "NaN \" Infinity"], "c": 18446744073709551615}"#).unwrap();
        let values = values(Some(&json));
        assert!(matches!(values[0].1, Value::F64(x) if x.is_nan()));
        assert_eq!(values[1].1, Value::Array(vec![Value::F64(f64::NEG_INFINITY), "NaN \" Infinity".into()]));
        assert_eq!(values[2].1, Value::from(u64::MAX));
        for text in ["{\"a\": NaN", "\"NaN", "NaNNaN", "", "{\"a\": nan}"] {
            parse(text).unwrap_err();
        }
        let json = json!({
            "a": {"$float": "NaN"},
            "b": [{"$float": "-Infinity"}, "{\n\"$float\": \"NaN\"\n}", {"$float": "x"}, {"k": 1, "$float": "NaN"}],
        });
        let text = print(&json).unwrap();
        assert!(text.contains("\"a\": NaN,") && text.contains("    -Infinity,"), "{text}");
        assert_eq!(parse(&text).unwrap(), json);
    }

    #[test]
    fn missing_values_are_those_of_xarray() {
        let [float, int] = ["<f4", "<i2"].map(|dtype| Dtype::parse(dtype).unwrap());
        let encoded = |value: &Value, dtype| encoded_missing(value, &attribute_exactly(value), dtype);
        for (missing, decoded) in [(Value::F32(-9.5), -9.5), (Value::from(-9), -9.0)] {
            let encoded = encoded(&missing, &float).unwrap();
            assert_eq!(decoded_missing(&value(&encoded), &float), Some(Value::F64(decoded)));
        }
        assert_eq!(encoded(&Value::F64(-9.0), &int), Some(json!(-9)));
        // Arrays of one half float, as HDF5 has them, and complex numbers.
        let half = encoded_missing(&Value::Nil, &json!([{"$float": "NaN"}]), &Dtype::parse("<f2").unwrap());
        assert_eq!(half, Some(json!("AAAAAAAA+H8=")));
        let complex = Dtype::parse("<c8").unwrap();
        let number = Value::Ext(COMPLEX, [1.0, -2.5].map(f64::to_be_bytes).concat());
        let parts = encoded_missing(&number, &json!([1.0, -2.5]), &complex).unwrap();
        assert_eq!(parts, json!(["AAAAAAAA8D8=", "AAAAAAAABMA="]));
        assert_eq!(decoded_missing(&value(&parts), &complex), Some(number));
        assert_eq!(decoded_missing(&value(&json!([1, 2])), &complex), None);
        for missing in [Value::from(7), Value::F32(-9.5), Value::F64(f64::NAN), "x".into()] {
            assert_eq!(encoded(&missing, &int), None);
        }
        assert_eq!(decoded_missing(&"x".into(), &float), None);
    }
}
