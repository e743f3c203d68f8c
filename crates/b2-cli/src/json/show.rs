//! From msgpack to the text of its JSON form, written as it is made.

use std::collections::HashSet;

use anyhow::Result;
use data_encoding::BASE64;
use rmpv::Value;
use serde_json::{Number, Value as Json, json};

use super::SPECIAL;
use super::items::{Item, next};

/// Where the text goes.
pub(crate) type Sink<'s> = dyn FnMut(&str) -> Result<()> + 's;

/// Deepest nesting of containers; deeper contents are shown as bytes.
const MAX_DEPTH: usize = 1024;
/// Most keys that are remembered in order to find duplicates. Larger maps are shown as pairs.
const MAX_KEYS: usize = 1 << 20;
/// Bytes that are converted and passed on at once.
const AT_ONCE: usize = 48 << 10;

/// Writes the JSON form of the contents of a metalayer.
///
/// # Errors
/// Those of `out`.
pub(crate) fn show(bytes: &[u8], out: &mut Sink<'_>) -> Result<()> {
    let mut text = Text { buffer: String::new(), out };
    match survey(bytes) {
        Some(objects) => write(bytes, objects, &mut text)?,
        None => text.base64("{\"$raw\":\"", bytes, "\"}")?,
    }
    text.flush()
}

/// The JSON form, cut after `most` characters with dots at the end.
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

/// A container whose content is being looked at.
struct Open<'a> {
    /// Values to come.
    left: u64,
    map: Option<Keys<'a>>,
}

struct Keys<'a> {
    /// Which map it is.
    nmap: usize,
    /// Keys so far, as long as an object could hold them.
    seen: Option<HashSet<&'a [u8]>>,
    /// The only one.
    only: Option<&'a [u8]>,
}

/// Checks that these bytes are exactly one value that has a JSON form, else `None`.
///
/// Tells for each map whether a JSON object can stand for it: all keys are strings, none comes twice, and it cannot be
/// mistaken for one of the `$` forms.
fn survey(bytes: &[u8]) -> Option<Vec<bool>> {
    let mut rest = bytes;
    let mut objects = Vec::new();
    let mut open: Vec<Open<'_>> = Vec::new();
    // The number of keys remembered in all open maps.
    let mut keys = 0;
    loop {
        let item = next(&mut rest)?;
        if let Item::Str(text) = item {
            std::str::from_utf8(text).ok()?;
        }
        if let Some(Open { left, map: Some(map) }) = open.last_mut()
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
            Some(Keys { nmap, seen: Some(HashSet::new()), only: None })
        } else {
            None
        };
        if item.inner() > 0 {
            if open.len() >= MAX_DEPTH {
                return None;
            }
            open.push(Open { left: item.inner(), map });
            continue;
        }
        loop {
            let Some(top) = open.last_mut() else { return rest.is_empty().then_some(objects) };
            top.left -= 1;
            if top.left > 0 {
                break;
            }
            if let Some(Open { map: Some(Keys { nmap, seen: Some(seen), only }), .. }) = open.pop() {
                keys -= seen.len();
                let special = || only.is_some_and(|only| SPECIAL.iter().any(|name| name.as_bytes() == only));
                objects[nmap] = seen.len() != 1 || !special();
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Form {
    Array,
    Object,
    /// A map as a list of pairs.
    Pairs,
}

/// Writes one value, which [`survey`] has checked.
fn write(bytes: &[u8], objects: Vec<bool>, text: &mut Text<'_, '_>) -> Result<()> {
    let mut rest = bytes;
    let mut objects = objects.into_iter();
    // What is open, how many values are to come, and how many there were.
    let mut open: Vec<(Form, u64, u64)> = Vec::new();
    while let Some(item) = next(&mut rest) {
        if let Some((form, left, done)) = open.last_mut() {
            let is_key = left.is_multiple_of(2);
            text.push(match (*form, *done) {
                (Form::Pairs, 0) => "[",
                (Form::Pairs, _) if is_key => ",[",
                (Form::Object, _) if !is_key => ":",
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
                open.push((Form::Array, n, 0));
                continue;
            }
            Item::Map(n) => match (objects.next() == Some(true), n) {
                (_, 0) => text.push("{}")?,
                (true, _) => {
                    text.push("{")?;
                    open.push((Form::Object, 2 * n, 0));
                    continue;
                }
                (false, _) => {
                    text.push("{\"$map\":[")?;
                    open.push((Form::Pairs, 2 * n, 0));
                    continue;
                }
            },
        }
        // This value is complete, and with it perhaps those around it.
        loop {
            let Some((form, left, _)) = open.last_mut() else { return Ok(()) };
            *left -= 1;
            if *form == Form::Pairs && left.is_multiple_of(2) {
                text.push("]")?;
            }
            if *left > 0 {
                break;
            }
            text.push(match form {
                Form::Array => "]",
                Form::Object => "}",
                Form::Pairs => "]}",
            })?;
            open.pop();
        }
    }
    Ok(())
}

/// Text on its way.
struct Text<'t, 's> {
    buffer: String,
    out: &'t mut Sink<'s>,
}

impl Text<'_, '_> {
    fn push(&mut self, text: &str) -> Result<()> {
        self.buffer.push_str(text);
        if self.buffer.len() >= AT_ONCE { self.flush() } else { Ok(()) }
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
        // It was found to be UTF-8; pieces are cut between characters.
        let mut rest = std::str::from_utf8(bytes)?;
        while !rest.is_empty() {
            let fits = |end: &usize| rest.is_char_boundary(*end);
            let (piece, others) = rest.split_at((0..=rest.len().min(AT_ONCE)).rev().find(fits).unwrap_or(0));
            let quoted = serde_json::to_string(piece)?;
            self.push(quoted.get(1..quoted.len() - 1).unwrap_or_default())?;
            rest = others;
        }
        self.push("\"")
    }

    fn base64(&mut self, before: &str, bytes: &[u8], behind: &str) -> Result<()> {
        self.push(before)?;
        // A multiple of 3 bytes has no padding.
        for piece in bytes.chunks(AT_ONCE) {
            self.push(&BASE64.encode(piece))?;
        }
        self.push(behind)
    }
}

const _: () = assert!(AT_ONCE.is_multiple_of(3));

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
