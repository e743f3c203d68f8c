//! Converts msgpack to JSON text, which is streamed.

use std::collections::HashSet;

use anyhow::Result;
use data_encoding::BASE64;
use rmpv::Value;
use serde_json::{Number, Value as Json, json};

use super::SPECIAL;
use super::items::{Item, next};
use crate::print::table::printable_json;

/// Receives the text.
pub(crate) type Sink<'s> = dyn FnMut(&str) -> Result<()> + 's;

/// Maximum nesting of containers; data that is nested deeper is shown as bytes.
const MAX_DEPTH: usize = 1024;
/// Maximum number of keys to remember for detecting duplicates. Larger maps are shown as pairs.
const MAX_KEYS: usize = 1 << 20;
/// Number of bytes to convert and pass on at a time.
const BASE64_LEN: usize = 48 << 10;

/// Writes the JSON form of the contents of a metalayer.
pub(crate) fn show(bytes: &[u8], out: &mut Sink<'_>) -> Result<()> {
    let mut text = Text { buffer: String::new(), out };
    match survey(bytes) {
        Some(objects) => write(bytes, objects, &mut text)?,
        None => text.base64("{\"$raw\":\"", bytes, "\"}")?,
    }
    text.flush()
}

/// The JSON form, truncated to `most` characters with dots at the end.
pub(crate) fn show_short(bytes: &[u8], most: usize) -> String {
    let mut shown = String::new();
    let ended = show(bytes, &mut |text| {
        shown.push_str(text);
        anyhow::ensure!(shown.chars().count() <= most);
        Ok(())
    });
    if ended.is_err() {
        shown = shown.chars().take(most).chain("...".chars()).collect();
    }
    shown
}

/// A container whose content is being checked.
struct OpenContainer<'a> {
    /// Number of values that remain.
    left: u64,
    map: Option<MapKeys<'a>>,
}

struct MapKeys<'a> {
    /// Index of the map.
    nmap: usize,
    /// Keys so far; `None` if the map cannot be a JSON object.
    seen: Option<HashSet<&'a [u8]>>,
    /// The last key: if there is only one, it must not be that of a `$` form.
    only: Option<&'a [u8]>,
}

/// Checks that the bytes are exactly one value that has a JSON form; otherwise returns `None`.
///
/// Returns for each map whether it can be shown as a JSON object: all keys are strings, there are no duplicates, and it
/// cannot be mistaken for one of the `$` forms.
fn survey(bytes: &[u8]) -> Option<Vec<bool>> {
    let mut rest = bytes;
    let mut objects = Vec::new();
    let mut open: Vec<OpenContainer<'_>> = Vec::new();
    // Number of keys remembered in all open maps.
    let mut keys = 0;
    loop {
        let item = next(&mut rest)?;
        if let Item::Str(text) = item {
            std::str::from_utf8(text).ok()?;
        }
        if let Some(OpenContainer { left, map: Some(map) }) = open.last_mut()
            && left.is_multiple_of(2)
        {
            map.only = if let Item::Str(key) = item { Some(key) } else { None };
            let is_new = match (map.only, &mut map.seen) {
                (Some(key), Some(seen)) if keys < MAX_KEYS => seen.insert(key),
                _ => false,
            };
            if is_new {
                keys += 1;
            } else {
                keys -= map.seen.take().map_or(0, |seen| seen.len());
            }
        }
        let map = if let Item::Map(n) = item {
            let nmap = objects.len();
            objects.push(n == 0);
            Some(MapKeys { nmap, seen: Some(HashSet::new()), only: None })
        } else {
            None
        };
        if item.inner() > 0 {
            if open.len() >= MAX_DEPTH {
                return None;
            }
            open.push(OpenContainer { left: item.inner(), map });
            continue;
        }
        loop {
            let Some(top) = open.last_mut() else { return rest.is_empty().then_some(objects) };
            top.left -= 1;
            if top.left > 0 {
                break;
            }
            if let Some(OpenContainer { map: Some(MapKeys { nmap, seen: Some(seen), only }), .. }) =
                open.pop()
            {
                keys -= seen.len();
                let special = || only.is_some_and(|only| SPECIAL.iter().any(|name| name.as_bytes() == only));
                objects[nmap] = seen.len() != 1 || !special();
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum JsonForm {
    Array,
    Object,
    /// A map as a list of pairs.
    Pairs,
}

/// Writes one value, which [`survey`] must have accepted.
fn write(bytes: &[u8], objects: Vec<bool>, text: &mut Text<'_, '_>) -> Result<()> {
    let mut rest = bytes;
    let mut objects = objects.into_iter();
    // The open containers, each with the number of values that remain and that are done.
    let mut open: Vec<(JsonForm, u64, u64)> = Vec::new();
    while let Some(item) = next(&mut rest) {
        if let Some((form, left, done)) = open.last_mut() {
            let is_key = left.is_multiple_of(2);
            text.push(match (*form, *done) {
                (JsonForm::Pairs, 0) => "[",
                (JsonForm::Pairs, _) if is_key => ",[",
                (JsonForm::Object, _) if !is_key => ":",
                (_, 0) => "",
                _ => ",",
            })?;
            *done = 1;
        }
        match item {
            Item::Scalar(bytes) => text.scalar(bytes)?,
            Item::Str(bytes) => text.string(bytes)?,
            Item::Bin(bytes) => text.base64("{\"$bin\":\"", bytes, "\"}")?,
            Item::Ext(code, bytes) => text.base64(&format!("{{\"$ext\":[{code},\""), bytes, "\"]}")?,
            Item::Array(0) => text.push("[]")?,
            Item::Array(n) => {
                text.push("[")?;
                open.push((JsonForm::Array, n, 0));
                continue;
            }
            Item::Map(n) => match (objects.next() == Some(true), n) {
                (_, 0) => text.push("{}")?,
                (true, _) => {
                    text.push("{")?;
                    open.push((JsonForm::Object, 2 * n, 0));
                    continue;
                }
                (false, _) => {
                    text.push("{\"$map\":[")?;
                    open.push((JsonForm::Pairs, 2 * n, 0));
                    continue;
                }
            },
        }
        // This value is complete, and so may be the containers around it.
        loop {
            let Some((form, left, _)) = open.last_mut() else { return Ok(()) };
            *left -= 1;
            if *form == JsonForm::Pairs && left.is_multiple_of(2) {
                text.push("]")?;
            }
            if *left > 0 {
                break;
            }
            text.push(match form {
                JsonForm::Array => "]",
                JsonForm::Object => "}",
                JsonForm::Pairs => "]}",
            })?;
            open.pop();
        }
    }
    Ok(())
}

/// Buffers text for a sink.
struct Text<'t, 's> {
    buffer: String,
    out: &'t mut Sink<'s>,
}

impl Text<'_, '_> {
    fn push(&mut self, text: &str) -> Result<()> {
        self.buffer.push_str(text);
        if self.buffer.len() >= BASE64_LEN { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        (self.out)(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }

    fn scalar(&mut self, bytes: &[u8]) -> Result<()> {
        match bytes {
            [0xc0] => self.push("null"),
            [0xc2] => self.push("false"),
            [0xc3] => self.push("true"),
            mut bytes => self.push(&number(&rmpv::decode::read_value(&mut bytes)?).to_string()),
        }
    }

    fn string(&mut self, bytes: &[u8]) -> Result<()> {
        self.push("\"")?;
        // The text is known to be UTF-8. Split it between characters.
        let mut rest = std::str::from_utf8(bytes)?;
        while !rest.is_empty() {
            let fits = |end: &usize| rest.is_char_boundary(*end);
            let (piece, others) =
                rest.split_at((0..=rest.len().min(BASE64_LEN)).rev().find(fits).unwrap_or(0));
            let quoted = printable_json(&serde_json::to_string(piece)?);
            self.push(quoted.get(1..quoted.len() - 1).unwrap_or_default())?;
            rest = others;
        }
        self.push("\"")
    }

    fn base64(&mut self, before: &str, bytes: &[u8], after: &str) -> Result<()> {
        self.push(before)?;
        // Pieces of a multiple of 3 bytes have no padding.
        for piece in bytes.chunks(BASE64_LEN) {
            self.push(&BASE64.encode(piece))?;
        }
        self.push(after)
    }
}

const _: () = assert!(BASE64_LEN.is_multiple_of(3));

fn number(value: &Value) -> Json {
    match value {
        Value::Integer(n) => match (n.as_u64(), n.as_i64()) {
            (Some(n), _) => n.into(),
            (None, n) => n.into(),
        },
        Value::F32(x) => float(f64::from(*x)),
        Value::F64(x) => float(*x),
        _ => Json::Null,
    }
}

fn float(x: f64) -> Json {
    match Number::from_f64(x) {
        Some(number) => Json::Number(number),
        None if x.is_nan() => json!({ "$float": "nan" }),
        None => json!({ "$float": if x > 0.0 { "inf" } else { "-inf" } }),
    }
}
