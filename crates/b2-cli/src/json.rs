//! Metalayer contents: msgpack shown as JSON, and back, without loss.
//!
//! | msgpack | JSON |
//! |---|---|
//! | nil, booleans, integers, strings, arrays | themselves |
//! | floats | numbers with `.` or exponent; `{"$float": "nan"}`, `"inf"`, `"-inf"` |
//! | maps with string keys | objects |
//! | other maps; maps that could be taken for one of these forms | `{"$map": [[key, value], ...]}` |
//! | binary | `{"$bin": "BASE64"}` |
//! | extension types | `{"$ext": [code, "BASE64"]}` |
//! | bytes that are not exactly one msgpack value | `{"$raw": "BASE64"}` |

use anyhow::{Context, Result, bail, ensure};
use rmpv::Value;
use serde_json::{Map, Number, Value as Json, json};

use crate::base64;

const SPECIAL: [&str; 5] = ["$bin", "$float", "$map", "$ext", "$raw"];

/// The JSON form of the contents of a metalayer.
pub(crate) fn from_msgpack(bytes: &[u8]) -> Json {
    let json = read_value(bytes).as_ref().and_then(to_json);
    json.unwrap_or_else(|| json!({ "$raw": base64::encode(bytes) }))
}

/// The bytes of each item, if these are exactly one array.
pub(crate) fn array_items(bytes: &[u8]) -> Option<impl Iterator<Item = &[u8]>> {
    if !is_one_value(bytes) || !matches!(bytes.first()?, 0x90..=0x9f | 0xdc | 0xdd) {
        return None;
    }
    let mut rest = bytes;
    let len = skip_head(&mut rest)?;
    // All of it is known to be there.
    Some((0..len).map_while(move |_| {
        let start = rest;
        skip_value(&mut rest)?;
        start.get(..start.len() - rest.len())
    }))
}

/// The value that these bytes are, if they are exactly one.
pub(crate) fn read_value(bytes: &[u8]) -> Option<Value> {
    if is_one_value(bytes) { rmpv::decode::read_value(&mut &*bytes).ok() } else { None }
}

/// The bytes of a metalayer for a JSON text.
///
/// # Errors
/// When the text is not JSON, or a number does not fit, or one of the `$` forms is malformed.
pub(crate) fn to_msgpack(text: &str) -> Result<Vec<u8>> {
    let json: Json = serde_json::from_str(text).context("not JSON")?;
    if let Some(("$raw", raw)) = special(&json) {
        return bytes_of(raw).context("$raw");
    }
    let mut out = Vec::new();
    rmpv::encode::write_value(&mut out, &from_json(&json)?)?;
    Ok(out)
}

/// Whether these bytes are exactly one msgpack value. Costs no memory, whatever lengths they announce.
///
/// Also refuses the reserved marker, which the decoder takes for nil.
fn is_one_value(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    skip_value(&mut rest).is_some() && rest.is_empty()
}

/// Skips a value with all that is inside; `None` if it is cut short.
fn skip_value(rest: &mut &[u8]) -> Option<()> {
    let mut pending = 1u64;
    while pending > 0 {
        pending += skip_head(rest)?;
        pending -= 1;
    }
    Some(())
}

/// Skips a marker, its length and its payload. Returns how many values follow as its content.
fn skip_head(rest: &mut &[u8]) -> Option<u64> {
    let mut take = |n: u64| -> Option<&[u8]> { rest.split_off(..usize::try_from(n).ok()?) };
    let marker = *take(1)?.first()?;
    let mut length = |width: u64| Some(take(width)?.iter().fold(0u64, |n, byte| n << 8 | u64::from(*byte)));
    // Bytes of payload, and values inside.
    let (payload, inner) = match marker {
        0x00..=0x7f | 0xc0 | 0xc2 | 0xc3 | 0xe0..=0xff => (0, 0),
        0x80..=0x8f => (0, 2 * u64::from(marker & 15)),
        0x90..=0x9f => (0, u64::from(marker & 15)),
        0xa0..=0xbf => (u64::from(marker & 31), 0),
        0xc1 => return None,
        0xc4 | 0xd9 => (length(1)?, 0),
        0xc5 | 0xda => (length(2)?, 0),
        0xc6 | 0xdb => (length(4)?, 0),
        0xc7 => (length(1)? + 1, 0),
        0xc8 => (length(2)? + 1, 0),
        0xc9 => (length(4)? + 1, 0),
        0xcc | 0xd0 => (1, 0),
        0xcd | 0xd1 => (2, 0),
        0xca | 0xce | 0xd2 => (4, 0),
        0xcb | 0xcf | 0xd3 => (8, 0),
        0xd4..=0xd8 => ((1 << (marker - 0xd4)) + 1, 0),
        0xdc => (0, length(2)?),
        0xdd => (0, length(4)?),
        0xde => (0, 2 * length(2)?),
        0xdf => (0, 2 * length(4)?),
    };
    take(payload)?;
    Some(inner)
}

/// `None` when the value cannot be told in JSON: strings that are not UTF-8.
fn to_json(value: &Value) -> Option<Json> {
    Some(match value {
        Value::Nil => Json::Null,
        Value::Boolean(b) => Json::Bool(*b),
        Value::Integer(n) => match (n.as_u64(), n.as_i64()) {
            (Some(n), _) => n.into(),
            (None, n) => n?.into(),
        },
        Value::F32(x) => float(f64::from(*x)),
        Value::F64(x) => float(*x),
        Value::String(s) => s.as_str()?.into(),
        Value::Binary(bytes) => json!({ "$bin": base64::encode(bytes) }),
        Value::Array(items) => Json::Array(items.iter().map(to_json).collect::<Option<_>>()?),
        Value::Ext(code, bytes) => json!({ "$ext": [code, base64::encode(bytes)] }),
        Value::Map(items) => match object(items) {
            Some(object) => {
                Json::Object(object.into_iter().map(|(k, v)| Some((k, to_json(v)?))).collect::<Option<_>>()?)
            }
            None => {
                let pairs = items.iter().map(|(k, v)| Some(json!([to_json(k)?, to_json(v)?])));
                json!({ "$map": pairs.collect::<Option<Vec<_>>>()? })
            }
        },
    })
}

/// The items of a map if a JSON object says the same: string keys, no key twice, and no look of a `$` form.
fn object(items: &[(Value, Value)]) -> Option<Vec<(String, &Value)>> {
    let mut seen = std::collections::HashSet::new();
    let mut out = Vec::with_capacity(items.len());
    for (key, value) in items {
        let key = key.as_str()?;
        if !seen.insert(key) {
            return None;
        }
        out.push((key.to_owned(), value));
    }
    match out.as_slice() {
        [(only, _)] if SPECIAL.contains(&only.as_str()) => None,
        _ => Some(out),
    }
}

fn float(x: f64) -> Json {
    match Number::from_f64(x) {
        Some(number) => Json::Number(number),
        None if x.is_nan() => json!({ "$float": "nan" }),
        None => json!({ "$float": if x > 0.0 { "inf" } else { "-inf" } }),
    }
}

fn special(json: &Json) -> Option<(&str, &Json)> {
    let object = json.as_object().filter(|object| object.len() == 1)?;
    let (key, value) = object.iter().next()?;
    SPECIAL.contains(&key.as_str()).then_some((key.as_str(), value))
}

fn from_json(json: &Json) -> Result<Value> {
    if let Some((key, value)) = special(json) {
        return from_special(key, value).context(key.to_owned());
    }
    Ok(match json {
        Json::Null => Value::Nil,
        Json::Bool(b) => Value::Boolean(*b),
        Json::Number(n) => from_number(n.as_str())?,
        Json::String(s) => s.as_str().into(),
        Json::Array(items) => Value::Array(items.iter().map(from_json).collect::<Result<_>>()?),
        Json::Object(object) => Value::Map(from_object(object)?),
    })
}

fn from_object(object: &Map<String, Json>) -> Result<Vec<(Value, Value)>> {
    object.iter().map(|(key, value)| Ok((key.as_str().into(), from_json(value)?))).collect()
}

fn from_number(text: &str) -> Result<Value> {
    if text.contains(['.', 'e', 'E']) {
        let x: f64 = text.parse()?;
        ensure!(x.is_finite(), "{text} is too large for a 64-bit float");
        return Ok(Value::F64(x));
    }
    if let Ok(n) = text.parse::<u64>() {
        return Ok(n.into());
    }
    let n: i64 = text.parse().ok().with_context(|| format!("{text} is too large for a 64-bit integer"))?;
    Ok(n.into())
}

fn from_special(key: &str, value: &Json) -> Result<Value> {
    match key {
        "$bin" => Ok(Value::Binary(bytes_of(value)?)),
        "$float" => match value.as_str() {
            Some("nan") => Ok(Value::F64(f64::NAN)),
            Some("inf") => Ok(Value::F64(f64::INFINITY)),
            Some("-inf") => Ok(Value::F64(f64::NEG_INFINITY)),
            _ => bail!("expected \"nan\", \"inf\" or \"-inf\""),
        },
        "$map" => {
            let pairs = value.as_array().context("expected an array of pairs")?.iter().map(|pair| match pair
                .as_array()
                .map(Vec::as_slice)
            {
                Some([key, value]) => Ok((from_json(key)?, from_json(value)?)),
                _ => bail!("expected an array of pairs"),
            });
            Ok(Value::Map(pairs.collect::<Result<_>>()?))
        }
        "$ext" => match value.as_array().map(Vec::as_slice) {
            Some([code, bytes]) => {
                let code = code.as_i64().and_then(|code| i8::try_from(code).ok());
                Ok(Value::Ext(code.context("expected a code from -128 to 127")?, bytes_of(bytes)?))
            }
            _ => bail!("expected [code, \"BASE64\"]"),
        },
        _ => bail!("only allowed as the whole content"),
    }
}

fn bytes_of(json: &Json) -> Result<Vec<u8>> {
    json.as_str().and_then(base64::decode).context("expected a string of Base64")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// These bytes are shown as this JSON, which gives the same bytes.
    fn check(bytes: &[u8], json: &str) {
        assert_eq!(from_msgpack(bytes).to_string(), json);
        assert_eq!(to_msgpack(json).unwrap(), bytes, "{json}");
    }

    #[test]
    fn both_ways() {
        check(b"\xc0", "null");
        check(b"\xc3", "true");
        check(b"\x7f", "127");
        check(b"\xcc\x80", "128");
        check(b"\xe0", "-32");
        check(b"\xd0\xdf", "-33");
        check(b"\xcd\xff\xff", "65535");
        check(b"\xcf\x00\x20\x00\x00\x00\x00\x00\x01", "9007199254740993");
        check(b"\xcf\xff\xff\xff\xff\xff\xff\xff\xff", "18446744073709551615");
        check(b"\xd3\x80\x00\x00\x00\x00\x00\x00\x00", "-9223372036854775808");
        check(b"\xcb\x3f\xf8\x00\x00\x00\x00\x00\x00", "1.5");
        check(b"\xcb\x3f\xf0\x00\x00\x00\x00\x00\x00", "1.0");
        check(b"\xcb\x80\x00\x00\x00\x00\x00\x00\x00", "-0.0");
        check(b"\xcb\x7f\xef\xff\xff\xff\xff\xff\xff", "1.7976931348623157e+308");
        check(b"\xcb\x00\x00\x00\x00\x00\x00\x00\x01", "5e-324");
        check(b"\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00", r#"{"$float":"nan"}"#);
        check(b"\xcb\x7f\xf0\x00\x00\x00\x00\x00\x00", r#"{"$float":"inf"}"#);
        check(b"\xcb\xff\xf0\x00\x00\x00\x00\x00\x00", r#"{"$float":"-inf"}"#);
        check(b"\xa3\xe2\x82\xac", "\"€\"");
        check(b"\xc4\x02\x00\xff", r#"{"$bin":"AP8="}"#);
        check(b"\x93\x01\xa1x\x90", r#"[1,"x",[]]"#);
        check(b"\x82\xa1b\x01\xa1a\xc0", r#"{"b":1,"a":null}"#);
        check(b"\x80", "{}");
        check(b"\x81\x01\x02", r#"{"$map":[[1,2]]}"#);
        check(b"\x82\x01\x02\xa1x\xc2", r#"{"$map":[[1,2],["x",false]]}"#);
        check(b"\xd4\x2a\x07", r#"{"$ext":[42,"Bw=="]}"#);
        check(b"\xd6\xff\x00\x00\x00\x01", r#"{"$ext":[-1,"AAAAAQ=="]}"#);
        check(b"\xc7\x03\x80\x01\x02\x03", r#"{"$ext":[-128,"AQID"]}"#);
        check(b"\x92\xa9__tuple__\x01", r#"["__tuple__",1]"#);
    }

    #[test]
    fn objects_that_would_be_mistaken_are_maps() {
        check(b"\x81\xa4$bin\x01", r#"{"$map":[["$bin",1]]}"#);
        check(b"\x81\xa4$raw\xa0", r#"{"$map":[["$raw",""]]}"#);
        check(b"\x82\xa4$bin\x01\xa1x\x02", r#"{"$bin":1,"x":2}"#);
        check(b"\x82\xa1x\x01\xa1x\x02", r#"{"$map":[["x",1],["x",2]]}"#);
        check(b"\x81\xa4$any\x01", r#"{"$any":1}"#);
    }

    #[test]
    fn what_is_not_one_value_is_raw() {
        check(b"", r#"{"$raw":""}"#);
        check(b"\x01\x02", r#"{"$raw":"AQI="}"#);
        check(b"\x92\x01", r#"{"$raw":"kgE="}"#);
        check(b"\xc1", r#"{"$raw":"wQ=="}"#);
        check(b"\x92\x01\xc1", r#"{"$raw":"kgHB"}"#);
        check(b"\xa1\xff", r#"{"$raw":"of8="}"#);
        check(b"\x92\x01\xa1\xff", r#"{"$raw":"kgGh/w=="}"#);
        let deep = [0x91; 5000];
        assert!(from_msgpack(&deep)["$raw"].is_string());
        assert_eq!(from_msgpack(b"\xdf\xff\xff\xff\xff\x01"), json!({"$raw": "3/////8B"}));
    }

    #[test]
    fn every_marker_is_skipped_as_it_is_read() {
        // A marker, then bytes that make a small value of any kind that has lengths of its own.
        for marker in 0..=255u8 {
            let mut bytes = vec![marker];
            bytes.extend([0; 40]);
            let mut rest = bytes.as_slice();
            rmpv::decode::read_value(&mut rest).unwrap();
            let len = bytes.len() - rest.len();
            assert_eq!(is_one_value(&bytes[..len]), marker != 0xc1, "{marker:#x}");
            assert!(!is_one_value(&bytes[..len - 1]) && !is_one_value(&bytes[..=len]), "{marker:#x}");
        }
        for bytes in [
            &b"\xc4\x01x"[..],
            b"\xc5\x00\x01x",
            b"\xc6\x00\x00\x00\x01x",
            b"\xd9\x01x",
            b"\xda\x00\x01x",
            b"\xdb\x00\x00\x00\x01x",
            b"\xc7\x01\x05x",
            b"\xc8\x00\x01\x05x",
            b"\xc9\x00\x00\x00\x01\x05x",
            b"\xdc\x00\x02\xc0\x91\x01",
            b"\xdd\x00\x00\x00\x01\xa2xy",
            b"\xde\x00\x01\xa1k\x80",
            b"\xdf\x00\x00\x00\x01\x01\x02",
        ] {
            assert!(is_one_value(bytes), "{bytes:x?}");
        }
    }

    #[test]
    fn other_encodings_show_the_same() {
        assert_eq!(from_msgpack(b"\xd3\x00\x00\x00\x00\x00\x00\x00\x05").to_string(), "5");
        assert_eq!(from_msgpack(b"\xca\x3d\xcc\xcc\xcd").to_string(), "0.10000000149011612");
        assert_eq!(to_msgpack("1e2").unwrap(), b"\xcb\x40\x59\x00\x00\x00\x00\x00\x00");
        assert_eq!(to_msgpack(" -0 ").unwrap(), b"\x00");
        assert_eq!(to_msgpack("[1 , 2]").unwrap(), b"\x92\x01\x02");
    }

    #[test]
    fn refuses_what_msgpack_cannot_hold() {
        for text in [
            "",
            "x",
            "1 2",
            "[1,]",
            "18446744073709551616",
            "-9223372036854775809",
            "1e999",
            r#"{"$bin":1}"#,
            r#"{"$bin":"A"}"#,
            r#"{"$float":"x"}"#,
            r#"{"$map":[[1]]}"#,
            r#"{"$map":1}"#,
            r#"{"$ext":[200,""]}"#,
            r#"{"$ext":[1]}"#,
            r#"[{"$raw":""}]"#,
            r#"{"$raw":3}"#,
        ] {
            assert!(to_msgpack(text).is_err(), "{text}");
        }
    }
}
