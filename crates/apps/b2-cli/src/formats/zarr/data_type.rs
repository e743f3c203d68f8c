//! Data types and fill values of Zarr, and the corresponding NumPy dtypes.

use anyhow::{Context, Result, bail, ensure};
use b2_view::npy::descr;
use b2kit::Dtype;
use b2kit::base::memory;
use b2kit::nd::literal::Literal;
use b2kit::nd::{DtypeKind, Field};
use data_encoding::BASE64;
use half::f16;
use serde_json::{Map, Value as Json, json};

/// The dtype of the `dtype` of version 2: a string, or a list of fields.
pub(super) fn of_version_2(json: &Json) -> Result<Dtype> {
    if let Some(text) = json.as_str() {
        ensure!(
            !text.contains('O'),
            "items of Python objects, such as texts of any length, are not supported"
        );
    }
    let dtype = descr::from_npy(&literal(json)?).with_context(|| format!("dtype {json}"))?;
    ensure!(dtype.itemsize() > 0, "the item size of {dtype} is 0");
    Ok(dtype)
}

/// A list of fields as in the header of an `.npy` file.
fn literal(json: &Json) -> Result<Literal> {
    Ok(match json {
        Json::String(text) => Literal::Str(text.clone()),
        Json::Array(fields) => Literal::List(fields.iter().map(field).collect::<Result<_>>()?),
        _ => bail!("dtype: {json} is neither a text nor a list of fields"),
    })
}

fn field(json: &Json) -> Result<Literal> {
    let parts = json.as_array().map(Vec::as_slice).unwrap_or_default();
    let (name, dtype, shape) = match parts {
        [name, dtype] => (name, dtype, None),
        [name, dtype, shape] => (name, dtype, Some(shape)),
        _ => bail!("dtype: {json} is not a field"),
    };
    let mut field = vec![literal(name)?, literal(dtype)?];
    if let Some(shape) = shape {
        let lengths = shape.as_array().with_context(|| format!("dtype: {shape} is not a shape"))?;
        let lengths = lengths.iter().map(|length| length.as_i64().map(Literal::Int));
        field
            .push(Literal::Tuple(lengths.collect::<Option<_>>().context("dtype: a length is not a number")?));
    }
    Ok(Literal::Tuple(field))
}

/// The dtype of the `data_type` of version 3, whose numbers are stored in one byte order.
pub(super) fn of_version_3(json: &Json, big_endian: bool) -> Result<Dtype> {
    let (name, parameters) = named(json)?;
    let unsupported = || format!("data_type {name} is not supported");
    let length = || -> Result<u64> {
        let length = parameters.get("length_bytes").and_then(Json::as_u64);
        length.filter(|&length| length > 0).with_context(|| format!("data_type {name}: no length_bytes"))
    };
    let order = if big_endian { '>' } else { '<' };
    let text = match name {
        "bool" => "|b1".to_owned(),
        "int8" => "|i1".to_owned(),
        "uint8" => "|u1".to_owned(),
        "int16" | "int32" | "int64" | "uint16" | "uint32" | "uint64" | "float16" | "float32" | "float64"
        | "complex64" | "complex128" => {
            let digits = name.trim_start_matches(|c: char| c.is_ascii_lowercase());
            let bits: u32 = digits.parse().with_context(unsupported)?;
            format!("{order}{}{}", name.chars().next().unwrap_or('i'), bits / 8)
        }
        "null_terminated_bytes" => format!("|S{}", length()?),
        "raw_bytes" => format!("|V{}", length()?),
        "fixed_length_utf32" => format!("{order}U{}", length()?.div_ceil(4)),
        "numpy.datetime64" | "numpy.timedelta64" => {
            let unit = parameters.get("unit").and_then(Json::as_str).unwrap_or("generic");
            let scale = parameters.get("scale_factor").and_then(Json::as_u64).unwrap_or(1);
            let letter = if name == "numpy.datetime64" { 'M' } else { 'm' };
            match (unit, scale) {
                ("generic", _) => format!("{order}{letter}8"),
                (unit, 1) => format!("{order}{letter}8[{unit}]"),
                (unit, scale) => format!("{order}{letter}8[{scale}{unit}]"),
            }
        }
        "struct" | "structured" => {
            let fields = parameters.get("fields").and_then(Json::as_array).with_context(unsupported)?;
            let mut offset = 0_usize;
            let mut made = Vec::new();
            for field in fields {
                let (name, data_type) = match field {
                    Json::Array(pair) => (pair.first(), pair.get(1)),
                    other => (other.get("name"), other.get("data_type")),
                };
                let (Some(name), Some(data_type)) = (name.and_then(Json::as_str), data_type) else {
                    bail!("data_type: {field} is not a field");
                };
                let dtype = of_version_3(data_type, big_endian)?;
                let next = offset.checked_add(dtype.itemsize()).context("data_type: too large")?;
                made.push(Field::new(name, dtype, offset));
                offset = next;
            }
            let dtype = Dtype::structure(made, offset)?;
            ensure!(dtype.itemsize() > 0, "the item size of {dtype} is 0");
            return Ok(dtype);
        }
        _ => match name.strip_prefix('r').and_then(|bits| bits.parse::<u32>().ok()) {
            Some(bits) if bits > 0 && bits % 8 == 0 => format!("|V{}", bits / 8),
            _ => bail!(unsupported()),
        },
    };
    Ok(Dtype::parse(&text)?)
}

/// A name with an optional configuration: `"x"`, or `{"name": "x", "configuration": {}}`.
pub(super) fn named(json: &Json) -> Result<(&str, &Map<String, Json>)> {
    static NONE: std::sync::LazyLock<Map<String, Json>> = std::sync::LazyLock::new(Map::new);
    let name = json.as_str().or_else(|| json.get("name")?.as_str());
    let name = name.with_context(|| format!("{json}: a name was expected"))?;
    let parameters = json.get("configuration").and_then(Json::as_object);
    Ok((name, parameters.unwrap_or(&NONE)))
}

/// The `data_type`, the fill value, and whether numbers are big-endian, of an array that is written.
pub(super) fn to_version_3(dtype: &Dtype) -> Result<(Json, Json, bool)> {
    let unsupported = || format!("Zarr has no data type for {dtype}");
    let text = dtype.as_str().trim_start_matches(['<', '>', '=', '|']);
    let size = dtype.itemsize();
    let bytes = |name: &str| json!({"name": name, "configuration": {"length_bytes": size}});
    Ok(match dtype.kind() {
        DtypeKind::Simple { code, big_endian } => {
            let (data_type, fill) = match (code, size) {
                ('b', 1) => (json!("bool"), json!(false)),
                ('i' | 'u', 1 | 2 | 4 | 8) => {
                    let name = if *code == 'i' { "int" } else { "uint" };
                    (json!(format!("{name}{}", size * 8)), json!(0))
                }
                ('f', 2 | 4 | 8) => (json!(format!("float{}", size * 8)), json!(0.0)),
                ('c', 8 | 16) => (json!(format!("complex{}", size * 8)), json!([0.0, 0.0])),
                ('S', 1..) => (bytes("null_terminated_bytes"), json!("")),
                ('U', 1..) => (bytes("fixed_length_utf32"), json!("")),
                ('V', 1..) => (bytes("raw_bytes"), json!(BASE64.encode(&vec![0; size]))),
                ('M' | 'm', 8) => {
                    let name = if *code == 'M' { "numpy.datetime64" } else { "numpy.timedelta64" };
                    let unit = text.split_once('[').map_or("generic", |(_, unit)| unit.trim_end_matches(']'));
                    let letters = unit.trim_start_matches(|c: char| c.is_ascii_digit());
                    let scale = unit.strip_suffix(letters).unwrap_or_default();
                    let scale: u32 =
                        if scale.is_empty() { 1 } else { scale.parse().with_context(unsupported)? };
                    let unit = json!({"unit": letters, "scale_factor": scale});
                    (json!({"name": name, "configuration": unit}), json!(0))
                }
                _ => bail!(unsupported()),
            };
            (data_type, fill, *big_endian)
        }
        DtypeKind::Struct(fields) => {
            let (mut list, mut fill, mut end, mut orders) = (Vec::new(), Map::new(), 0, Vec::new());
            for field in fields {
                ensure!(
                    field.shape.is_empty() && field.offset == end,
                    "{} (fields with gaps or shapes)",
                    unsupported()
                );
                let (data_type, value, big_endian) = to_version_3(&field.dtype)?;
                if has_order(&field.dtype) {
                    orders.push(big_endian);
                }
                list.push(json!({"name": field.name, "data_type": data_type}));
                fill.insert(field.name.clone(), value);
                end = field.offset.saturating_add(field.dtype.itemsize());
            }
            ensure!(end == size, "{} (fields with gaps or shapes)", unsupported());
            let big_endian = orders.first().copied().unwrap_or(false);
            ensure!(orders.iter().all(|own| *own == big_endian), "{} (two byte orders)", unsupported());
            (json!({"name": "struct", "configuration": {"fields": list}}), Json::Object(fill), big_endian)
        }
        _ => bail!(unsupported()),
    })
}

/// Whether the items have a byte order.
pub(super) fn has_order(dtype: &Dtype) -> bool {
    match dtype.kind() {
        DtypeKind::Simple { code: 'b' | 'S' | 'V', .. } => false,
        DtypeKind::Simple { code: 'i' | 'u', .. } => dtype.itemsize() > 1,
        DtypeKind::Simple { .. } => true,
        DtypeKind::Struct(fields) => fields.iter().any(|field| has_order(&field.dtype)),
        _ => false,
    }
}

/// The fill value as the bytes of an item; without one, zeros, or NaT for times.
pub(super) fn fill(json: &Json, dtype: &Dtype) -> Result<Vec<u8>> {
    let size = dtype.itemsize();
    let wrong = || format!("fill_value {json} does not fit {dtype}");
    let is_zero = json.as_f64() == Some(0.0) && !json.to_string().starts_with('-');
    let is_time = matches!(dtype.kind(), DtypeKind::Simple { code: 'M' | 'm', .. });
    if is_zero || json.is_null() && !is_time {
        return zeros(size);
    }
    let of_bytes = |text: &str| -> Result<Vec<u8>> {
        let bytes = BASE64.decode(text.as_bytes()).ok().filter(|bytes| bytes.len() <= size);
        padded(&bytes.with_context(wrong)?, size)
    };
    match dtype.kind() {
        DtypeKind::Struct(fields) => match json {
            Json::String(text) => of_bytes(text),
            Json::Object(values) => {
                let mut item = zeros(size)?;
                for field in fields {
                    let value = values.get(&field.name).unwrap_or(&Json::Null);
                    let bytes = fill(value, &field.dtype)?;
                    let end = field.offset.saturating_add(bytes.len());
                    item.get_mut(field.offset..end).with_context(wrong)?.copy_from_slice(&bytes);
                }
                Ok(item)
            }
            _ => bail!(wrong()),
        },
        DtypeKind::Simple { code, big_endian } => match (code, json) {
            ('S' | 'V', Json::String(text)) => of_bytes(text),
            // The fill value of raw bits in version 3 is a list of bytes.
            ('S' | 'V', Json::Array(bytes)) => {
                let bytes = bytes.iter().map(|byte| u8::try_from(byte.as_u64()?).ok());
                let bytes = bytes.collect::<Option<Vec<u8>>>().filter(|bytes| bytes.len() == size);
                bytes.with_context(wrong)
            }
            ('U', Json::String(text)) => {
                let order = |c: char| {
                    if *big_endian { u32::from(c).to_be_bytes() } else { u32::from(c).to_le_bytes() }
                };
                let bytes: Vec<u8> = text.chars().flat_map(order).collect();
                ensure!(bytes.len() <= size, wrong());
                padded(&bytes, size)
            }
            _ => {
                let mut bytes = number(*code, size, json).with_context(wrong)?;
                ensure!(bytes.len() == size, wrong());
                if *big_endian {
                    let part = if *code == 'c' { size / 2 } else { size };
                    bytes.chunks_mut(part.max(1)).for_each(<[u8]>::reverse);
                }
                Ok(bytes)
            }
        },
        _ => bail!(wrong()),
    }
}

fn zeros(size: usize) -> Result<Vec<u8>> {
    Ok(memory::zeroed(size)?)
}

fn padded(bytes: &[u8], size: usize) -> Result<Vec<u8>> {
    let mut out = zeros(size)?;
    out.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    Ok(out)
}

/// The bytes of a number, little-endian; `None` if it does not fit.
fn number(code: char, size: usize, json: &Json) -> Option<Vec<u8>> {
    #[expect(clippy::cast_possible_truncation, reason = "a whole number, and compared with what fits")]
    let whole = |x: f64| (x.fract() == 0.0).then_some(x as i128);
    let int = |json: &Json| {
        let exact = json.as_i64().map(i128::from).or_else(|| json.as_u64().map(i128::from));
        exact.or_else(|| whole(json.as_f64()?))
    };
    let signed = |n: i128| {
        let bits = u32::try_from(size * 8).ok()?;
        let half = 1_i128.checked_shl(bits.checked_sub(1)?)?;
        (n >= -half && n < half).then(|| n.to_le_bytes().get(..size).map(<[u8]>::to_vec))?
    };
    Some(match code {
        'b' => vec![u8::from(json.as_bool()?)],
        'i' => int(json).and_then(signed)?,
        'u' => {
            let n = int(json)?;
            let most = 1_i128.checked_shl(u32::try_from(size * 8).ok()?)?;
            (n >= 0 && n < most).then(|| n.to_le_bytes().get(..size).map(<[u8]>::to_vec))??
        }
        'M' | 'm' => match json.as_str() {
            // NaT even without a fill value, as in zarr-python.
            Some("NaT") => i64::MIN.to_le_bytes().to_vec(),
            None if json.is_null() => i64::MIN.to_le_bytes().to_vec(),
            _ => int(json).and_then(signed)?,
        },
        'f' => float(size, json)?,
        'c' => {
            let parts = json.as_array().filter(|parts| parts.len() == 2)?;
            let parts = parts.iter().map(|part| float(size / 2, part)).collect::<Option<Vec<_>>>()?;
            parts.concat()
        }
        _ => return None,
    })
}

/// The float with this name in JSON.
pub(super) fn named_float(json: &Json) -> Option<f64> {
    match json.as_str().or_else(|| json.get("$float")?.as_str())? {
        "NaN" => Some(f64::NAN),
        "Infinity" => Some(f64::INFINITY),
        "-Infinity" => Some(f64::NEG_INFINITY),
        _ => None,
    }
}

/// The bytes of a float: a number, `NaN` or `Infinity`, or its bits in hexadecimal.
fn float(size: usize, json: &Json) -> Option<Vec<u8>> {
    let text = json.as_str().or_else(|| json.get("$float")?.as_str());
    if let Some(hex) = text.and_then(|text| text.strip_prefix("0x")) {
        let bits = u64::from_str_radix(hex, 16).ok()?;
        let is_short = size < 8 && bits >> (size * 8) != 0;
        return if is_short { None } else { bits.to_le_bytes().get(..size).map(<[u8]>::to_vec) };
    }
    let x = if text.is_some() { named_float(json)? } else { json.as_f64()? };
    Some(match size {
        2 => f16::from_f64(x).to_le_bytes().to_vec(),
        #[expect(clippy::cast_possible_truncation, reason = "the nearest number of this size")]
        4 => (x as f32).to_le_bytes().to_vec(),
        8 => x.to_le_bytes().to_vec(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_both_versions() {
        for (json, text) in [
            (json!("<i4"), "<i4"),
            (json!("|S5"), "|S5"),
            (json!("<M8[ns]"), "<M8[ns]"),
            (json!([["a", "<i4"], ["b", ">f8", [2, 3]]]), "[('a', '<i4'), ('b', '>f8', (2, 3))]"),
        ] {
            assert_eq!(of_version_2(&json).unwrap().as_str(), text);
        }
        for json in
            [json!("|O"), json!(4), json!([["a"]]), json!([["a", "<i4", "x"]]), json!("|S0"), json!("<i3")]
        {
            of_version_2(&json).unwrap_err();
        }
        for text in
            ["<i4", ">f8", "|u1", "|S5", "<U3", "|V7", "<M8[25s]", "<c16", "[('a', '<i4'), ('b', '<f8')]"]
        {
            let dtype = Dtype::parse(text).unwrap();
            let (json, value, big_endian) = to_version_3(&dtype).unwrap();
            let back = of_version_3(&json, big_endian).unwrap();
            assert_eq!((back.as_str(), back.itemsize()), (text, dtype.itemsize()), "{json}");
            assert_eq!(fill(&value, &dtype).unwrap(), vec![0; dtype.itemsize()], "{text}");
        }
        for json in [json!("r12"), json!("string"), json!("int24"), json!({"name": "raw_bytes"}), json!([1])]
        {
            of_version_3(&json, false).unwrap_err();
        }
        assert_eq!(of_version_3(&json!("r16"), false).unwrap().as_str(), "|V2");
        for text in ["<f16", "[('a', '<i4', (2,))]", "{'names': ['a'], 'formats': ['<i4'], 'itemsize': 8}"] {
            if let Ok(dtype) = Dtype::parse(text) {
                to_version_3(&dtype).unwrap_err();
            }
        }
    }

    #[test]
    fn fill_values() {
        let of = |json: Json, text: &str| fill(&json, &Dtype::parse(text).unwrap());
        assert_eq!(of(json!(-2), ">i4").unwrap(), [255, 255, 255, 254]);
        assert_eq!(of(json!("NaN"), "<f4").unwrap(), f32::NAN.to_le_bytes());
        assert_eq!(of(json!("0x7fc00001"), "<f4").unwrap(), 0x7fc0_0001_u32.to_le_bytes());
        assert_eq!(of(json!(["NaN", -1.0]), ">c8").unwrap()[4..], (-1.0_f32).to_be_bytes());
        assert_eq!(of(json!("YWI="), "|S3").unwrap(), b"ab\0");
        assert_eq!(of(json!("ab"), "<U3").unwrap(), b"a\0\0\0b\0\0\0\0\0\0\0");
        assert_eq!(of(json!("NaT"), "<M8[s]").unwrap(), i64::MIN.to_le_bytes());
        assert_eq!(of(json!(null), ">m8[s]").unwrap(), i64::MIN.to_be_bytes());
        assert_eq!(of(json!(u64::MAX), "<u8").unwrap(), [255; 8]);
        assert_eq!(of(json!(true), "|b1").unwrap(), [1]);
        assert_eq!(of(json!(-0.0), "<f8").unwrap(), (-0.0_f64).to_le_bytes());
        assert_eq!(of(json!({"b": 1.0}), "[('a', '<i2'), ('b', '<f4')]").unwrap(), [0, 0, 0, 0, 128, 63]);
        for (json, text) in [
            (json!(300), "|u1"),
            (json!(-1), "<u2"),
            (json!("x"), "<i4"),
            (json!("YWJj"), "|S2"),
            (json!([1]), "<c8"),
        ] {
            of(json, text).unwrap_err();
        }
    }
}
