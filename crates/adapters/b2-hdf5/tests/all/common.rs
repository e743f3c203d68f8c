//! Code shared by the tests that compare with other libraries.

use b2nd::Dtype;
use serde_json::Value;

/// Text of a dtype, from its form in JSON.
pub(crate) fn spelled(dtype: &Value) -> String {
    let text = |text: &str| format!("'{text}'");
    match dtype {
        Value::String(simple) => simple.clone(),
        Value::Array(fields) => {
            let fields = fields.iter().map(|field| {
                let parts = field.as_array().unwrap();
                let mut all = vec![text(parts[0].as_str().unwrap()), quoted(&parts[1])];
                if let Some(shape) = parts.get(2) {
                    all.push(tuple(shape));
                }
                format!("({})", all.join(", "))
            });
            format!("[{}]", fields.collect::<Vec<_>>().join(", "))
        }
        Value::Object(parts) => {
            let list = |key: &str, item: &dyn Fn(&Value) -> String| {
                let items: Vec<String> = parts[key].as_array().unwrap().iter().map(item).collect();
                format!("'{key}': [{}]", items.join(", "))
            };
            let names = list("names", &|name| text(name.as_str().unwrap()));
            let formats = list("formats", &|format| match format {
                // A sub-array: its type and its shape.
                Value::Array(pair) if pair.len() == 2 && !pair[0].is_array() => {
                    format!("({}, {})", quoted(&pair[0]), tuple(&pair[1]))
                }
                other => quoted(other),
            });
            let offsets = list("offsets", &|offset| offset.to_string());
            format!("{{{names}, {formats}, {offsets}, 'itemsize': {}}}", parts["itemsize"])
        }
        _ => panic!("{dtype}"),
    }
}

fn quoted(dtype: &Value) -> String {
    if dtype.is_string() { format!("'{}'", spelled(dtype)) } else { spelled(dtype) }
}

fn tuple(shape: &Value) -> String {
    let lengths = shape.as_array().unwrap();
    let all: Vec<String> = lengths.iter().map(Value::to_string).collect();
    if all.len() == 1 { format!("({},)", all[0]) } else { format!("({})", all.join(", ")) }
}

/// Whether items are the same in all fields. Bytes between fields are ignored.
fn same(dtype: &Dtype, a: &[u8], b: &[u8]) -> bool {
    let Some(fields) = dtype.fields() else { return a == b };
    fields.iter().all(|field| {
        let size = field.dtype.itemsize();
        let count: usize = field.shape.iter().product();
        (0..count).all(|n| {
            let at = field.offset + n * size;
            same(&field.dtype, &a[at..at + size], &b[at..at + size])
        })
    })
}

pub(crate) fn same_items(dtype: &Dtype, found: &[u8], expected: &[u8]) -> Result<(), String> {
    if found.len() != expected.len() {
        return Err(format!("{} bytes, expected {}", found.len(), expected.len()));
    }
    let size = dtype.itemsize().max(1);
    let differs = found.chunks(size).zip(expected.chunks(size)).position(|(a, b)| !same(dtype, a, b));
    match differs {
        None => Ok(()),
        Some(n) => {
            let item = |bytes: &[u8]| format!("{:?}", &bytes[n * size..(n + 1) * size]);
            Err(format!("item {n}: {}, expected {}", item(found), item(expected)))
        }
    }
}

/// An attribute in JSON; extension types and bytes are not compared.
pub(crate) fn as_json(value: &b2nd::Value) -> Value {
    match value {
        b2nd::Value::Boolean(truth) => (*truth).into(),
        b2nd::Value::Integer(number) => number.as_i64().map_or(number.as_u64().into(), Value::from),
        b2nd::Value::F32(number) => f64::from(*number).into(),
        b2nd::Value::F64(number) => (*number).into(),
        b2nd::Value::String(text) => text.as_str().unwrap().into(),
        b2nd::Value::Array(items) => items.iter().map(as_json).collect(),
        b2nd::Value::Map(pairs) => {
            Value::Object(pairs.iter().map(|(k, v)| (k.as_str().unwrap().to_owned(), as_json(v))).collect())
        }
        other => panic!("{other}"),
    }
}
