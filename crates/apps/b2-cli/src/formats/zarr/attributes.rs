//! Attributes: JSON in Zarr, msgpack in Blosc2.

use b2kit::Dtype;
use b2kit::nd::{DtypeKind, Value};
use data_encoding::BASE64;
use serde_json::{Map, Value as Json, json};

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

/// Decodes the value that marks missing items: xarray encodes floats in attributes of version 3.
pub(super) fn decoded_missing(value: &Value) -> Option<Value> {
    let bytes = BASE64.decode(value.as_str()?.as_bytes()).ok()?;
    Some(Value::F64(f64::from_le_bytes(bytes.try_into().ok()?)))
}

/// Encodes this value for an array that is written. xarray expects the form that belongs to the type of the items.
pub(super) fn encoded_missing(value: &Value, dtype: &Dtype) -> Option<Json> {
    let DtypeKind::Simple { code, .. } = dtype.kind() else { return None };
    let x = match value {
        Value::F64(x) => *x,
        Value::F32(x) => f64::from(*x),
        Value::Integer(n) => n.as_f64()?,
        _ => return None,
    };
    match code {
        'f' => Some(json!(BASE64.encode(&x.to_le_bytes()))),
        // Integers remain what they are.
        'i' | 'u' if x.fract() == 0.0 && !value.is_i64() && !value.is_u64() => {
            format!("{x:.0}").parse().ok().map(Json::Number)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        for (missing, decoded) in [(Value::F32(-9.5), -9.5), (Value::from(-9), -9.0)] {
            let encoded = encoded_missing(&missing, &float).unwrap();
            assert_eq!(decoded_missing(&value(&encoded)), Some(Value::F64(decoded)));
        }
        assert_eq!(encoded_missing(&Value::F64(-9.0), &int), Some(json!(-9)));
        for missing in [Value::from(7), Value::F32(-9.5), Value::F64(f64::NAN), "x".into()] {
            assert_eq!(encoded_missing(&missing, &int), None);
        }
        assert_eq!(decoded_missing(&"x".into()), None);
    }
}
