//! Contents of metalayers: lossless conversion of msgpack to JSON and back.
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

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use data_encoding::BASE64;
use rmpv::Value;
use serde_json::{Map, Value as Json, json};

#[cfg_attr(not(feature = "hdf5"), allow(unused_imports))]
pub(crate) use self::attribute::{COMPLEX, attribute, attribute_exactly, show_for_people};
use self::items::Item;
pub(crate) use self::show::{show, show_short};
use super::printable_json;

mod attribute;
mod items;
mod show;

const SPECIAL: [&str; 5] = ["$bin", "$float", "$map", "$ext", "$raw"];

/// Maximum number of values to parse into a tree, which then takes a few hundred MiB.
const MAX_VALUES: u64 = 1 << 22;

/// Splits an array into the bytes of its items. `None` if the bytes are not exactly one array.
pub(crate) fn array_items(bytes: &[u8]) -> Option<impl Iterator<Item = &[u8]>> {
    let mut rest = bytes;
    count(bytes)?;
    let Item::Array(len) = items::next(&mut rest)? else { return None };
    // All items are known to be complete.
    Some((0..len).map_while(move |_| {
        let start = rest;
        items::skip(&mut rest)?;
        start.get(..start.len() - rest.len())
    }))
}

/// Parses a value. `None` if the bytes are not exactly one value, or if it contains too many.
pub(crate) fn read_value(bytes: &[u8]) -> Option<Value> {
    if count(bytes)? > MAX_VALUES {
        return None;
    }
    rmpv::decode::read_value(&mut &*bytes).ok()
}

/// Number of values, including nested ones, if the bytes are exactly one value. Allocates nothing, whatever lengths the
/// data contains.
///
/// Also rejects the reserved marker, which the decoder reads as nil.
fn count(bytes: &[u8]) -> Option<u64> {
    let mut rest = bytes;
    items::skip(&mut rest).filter(|_| rest.is_empty())
}

/// An object with the name of a file first. If that is not UTF-8, its bytes follow.
pub(crate) fn of_file(path: &Path, facts: Json) -> Json {
    let mut object = Map::new();
    object.insert("file".into(), path.display().to_string().into());
    if path.to_str().is_none() {
        object.insert("file_bytes".into(), binary(path.as_os_str().as_encoded_bytes()));
    }
    if let Json::Object(facts) = facts {
        object.extend(facts);
    }
    object.into()
}

fn binary(bytes: &[u8]) -> Json {
    json!({"$bin": BASE64.encode(bytes)})
}

/// Passes on metalayers as a map, like one inside msgpack: names that are not UTF-8 are binary. `gaps` are the spaces before the
/// first name, before the others, and before the end.
pub(crate) fn show_layers<'a, T: AsRef<[u8]>>(
    names: impl Iterator<Item = &'a [u8]> + Clone,
    mut content: impl FnMut(&'a [u8]) -> Result<T>,
    gaps: [&str; 3],
    send: &mut dyn FnMut(&str) -> Result<()>,
) -> Result<()> {
    let texts: Option<Vec<&str>> = names.clone().map(|name| std::str::from_utf8(name).ok()).collect();
    let is_object = texts.is_some_and(|texts| !matches!(texts[..], [name] if SPECIAL.contains(&name)));
    let [start, open, colon, close, end] = match is_object {
        true => ["{", "", ": ", "", "}"],
        false => ["{\"$map\": [", "[", ", ", "]", "]}"],
    };
    send(start)?;
    let mut gap = gaps[0].to_owned();
    for name in names.clone() {
        let key = std::str::from_utf8(name).map_or_else(|_| binary(name), Json::from);
        send(&format!("{gap}{open}{}{colon}", printable_json(&key.to_string())))?;
        show(content(name)?.as_ref(), send)?;
        send(close)?;
        gap = format!(",{}", gaps[1]);
    }
    if names.clone().next().is_some() {
        send(gaps[2])?;
    }
    send(end)
}

/// Converts a JSON text to the bytes of a metalayer.
///
/// # Errors
/// Fails if the text is not JSON, if a number is out of range, or if one of the `$` forms is malformed.
pub(crate) fn to_msgpack(text: &str) -> Result<Vec<u8>> {
    let json: Json = serde_json::from_str(text).context("not JSON")?;
    if let Some(("$raw", raw)) = special(&json) {
        return bytes_of(raw).context("$raw");
    }
    let mut out = Vec::new();
    rmpv::encode::write_value(&mut out, &from_json(&json)?)?;
    Ok(out)
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
    // The decoder would accept several padded texts in a row.
    let text = json.as_str().filter(|text| !text.trim_end_matches('=').contains('='));
    let bytes = text.and_then(|text| BASE64.decode(text.as_bytes()).ok());
    bytes.context("expected a string of Base64")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(bytes: &[u8]) -> String {
        let mut text = String::new();
        show(bytes, &mut |part| {
            text.push_str(part);
            Ok(())
        })
        .unwrap();
        text
    }

    fn is_one_value(bytes: &[u8]) -> bool {
        count(bytes).is_some()
    }

    /// Checks that these bytes are shown as this JSON, which converts back to the same bytes.
    fn check(bytes: &[u8], json: &str) {
        assert_eq!(shown(bytes), json);
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
        assert_eq!(shown(b"\xdf\xff\xff\xff\xff\x01"), r#"{"$raw":"3/////8B"}"#);
    }

    #[test]
    fn depth_is_no_danger() {
        for (depth, printed) in [(1000, true), (1025, false), (100_000, false), (1_000_000, false)] {
            let (arrays, maps) = (vec![0x91; depth], [0x81, 0xa0].repeat(depth));
            for open in [arrays, maps] {
                let text = shown(&[&open[..], &[0xc0]].concat());
                assert_eq!(text.contains("null"), printed, "{depth} deep");
                assert_eq!(text.starts_with("{\"$raw\":"), !printed, "{depth} deep");
                assert!(shown(&open).starts_with("{\"$raw\":"));
            }
            let text = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
            assert!(depth <= 100 || to_msgpack(&text).is_err(), "{depth} deep");
            assert!(to_msgpack(&"{\"a\":".repeat(depth)).is_err());
        }
    }

    #[test]
    fn large_contents_are_passed_on_in_pieces() {
        let mut sizes = Vec::new();
        let mut check = |bytes: &[u8], expected: &str| {
            let mut text = String::new();
            show(bytes, &mut |part| {
                sizes.push(part.len());
                text.push_str(part);
                Ok(())
            })
            .unwrap();
            assert!(text == expected);
        };
        let long = |head: u8, body: &[u8]| [&[head][..], &(body.len() as u32).to_be_bytes(), body].concat();
        let text = "€\u{1}".repeat(100_000);
        check(&long(0xdb, text.as_bytes()), &serde_json::to_string(&text).unwrap());
        let bytes = vec![7; 1_000_001];
        check(&long(0xc6, &bytes), &format!("{{\"$bin\":\"{}\"}}", BASE64.encode(&bytes)));
        let nils = [&[0xdd, 0, 0x10, 0, 0][..], &vec![0xc0; 1 << 20]].concat();
        check(&nils, &format!("[{}]", vec!["null"; 1 << 20].join(",")));
        assert!(sizes.iter().all(|size| *size < 512 << 10), "{:?}", sizes.iter().max());
        assert_eq!(show_short(&nils, 20), "[null,null,null,null...");
        assert_eq!(show_short(b"\x91\xc0", 20), "[null]");
        assert!(read_value(&[&[0xdd, 0, 0x60, 0, 0][..], &vec![0xc0; 0x60_0000]].concat()).is_none());
    }

    #[test]
    fn only_strict_base64_is_read() {
        let read = |text: &str| to_msgpack(&format!("{{\"$raw\":\"{text}\"}}")).ok();
        for (text, plain) in [("", ""), ("Zg==", "f"), ("Zm8=", "fo"), ("Zm9vYmFy", "foobar")] {
            assert_eq!(read(text).unwrap(), plain.as_bytes());
        }
        for text in ["Z", "Zg", "Zg=", "Zg===", "Zh==", "Zm9=", "====", "Zg==Zg==", "Zm 9", "_-8="] {
            assert!(read(text).is_none(), "{text}");
        }
    }

    #[test]
    fn maps_of_all_kinds_inside_others() {
        check(
            b"\x82\xa1a\x81\x01\x02\xa1b\x92\x80\x81\xa1x\x90",
            r#"{"a":{"$map":[[1,2]]},"b":[{},{"x":[]}]}"#,
        );
        check(b"\x82\x81\x01\x02\xc0\x90\x80", r#"{"$map":[[{"$map":[[1,2]]},null],[[],{}]]}"#);
        check(b"\x82\xa1a\x81\xa1a\x01\xa1b\x81\xa1a\x01", r#"{"a":{"a":1},"b":{"a":1}}"#);
    }

    #[test]
    fn every_marker_is_skipped_as_it_is_read() {
        // A marker followed by zeros, which are a valid length and content for values of any kind.
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
        assert_eq!(shown(b"\xd3\x00\x00\x00\x00\x00\x00\x00\x05"), "5");
        assert_eq!(shown(b"\xca\x3d\xcc\xcc\xcd"), "0.10000000149011612");
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
