//! Filters of numcodecs that change numbers: delta, fixedscaleoffset, astype, quantize and bitround.

use anyhow::{Context, Result, bail, ensure};
use b2kit::Dtype;
use b2kit::base::memory;
use b2kit::nd::DtypeKind;
use half::f16;
use serde_json::{Map, Value as Json};

/// A filter for numbers, undone item by item.
#[derive(Clone, Debug)]
pub(super) enum Filter {
    /// Each item is the difference to the one before it.
    Delta { from: Number, to: Number },
    /// Items are multiplied and shifted.
    ScaleOffset { from: Number, to: Number, scale: f64, offset: f64 },
    /// Items are stored as another type.
    Convert { from: Number, to: Number },
}

/// The type of numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Number {
    kind: char,
    size: usize,
    big_endian: bool,
}

#[derive(Clone, Copy, Debug)]
enum Value {
    Int(i128),
    Float(f64),
}

impl Value {
    fn float(self) -> f64 {
        match self {
            #[expect(clippy::cast_precision_loss, reason = "as NumPy converts it")]
            Self::Int(n) => n as f64,
            Self::Float(x) => x,
        }
    }

    fn int(self) -> i128 {
        match self {
            Self::Int(n) => n,
            #[expect(clippy::cast_possible_truncation, reason = "as NumPy converts it")]
            Self::Float(x) => x as i128,
        }
    }
}

impl Number {
    fn of(dtype: &Dtype) -> Option<Self> {
        let DtypeKind::Simple { code, big_endian } = dtype.kind() else { return None };
        let size = dtype.itemsize();
        let fits = match code {
            'i' | 'u' | 'M' | 'm' => matches!(size, 1 | 2 | 4 | 8),
            'b' => size == 1,
            'f' => matches!(size, 2 | 4 | 8),
            _ => false,
        };
        let kind = match code {
            'M' | 'm' => 'i',
            code => *code,
        };
        fits.then_some(Self { kind, size, big_endian: *big_endian })
    }

    /// The type that a filter names.
    fn named(parameters: &Map<String, Json>, name: &str) -> Result<Self> {
        let text =
            parameters.get(name).and_then(Json::as_str).with_context(|| format!("{name} is missing"))?;
        let full = if text.starts_with(|c: char| c.is_ascii_alphabetic()) {
            format!("<{text}")
        } else {
            text.into()
        };
        let dtype = Dtype::parse(text).or_else(|_| Dtype::parse(&full))?;
        Self::of(&dtype).with_context(|| format!("{name}: {text} is not supported"))
    }

    fn read(self, item: &[u8]) -> Option<Value> {
        let mut bytes = [0; 8];
        let ordered = item.iter().take(self.size);
        match self.big_endian {
            true => bytes.iter_mut().zip(ordered.rev()).for_each(|(to, from)| *to = *from),
            false => bytes.iter_mut().zip(ordered).for_each(|(to, from)| *to = *from),
        }
        let bits = u64::from_le_bytes(bytes);
        Some(match (self.kind, self.size) {
            ('b', _) => Value::Int((bits != 0).into()),
            ('u', _) => Value::Int(bits.into()),
            ('i', size) => {
                let unused = u32::try_from(64_usize.checked_sub(size.checked_mul(8)?)?).ok()?;
                Value::Int((bits.checked_shl(unused)?.cast_signed() >> unused).into())
            }
            ('f', 2) => Value::Float(f16::from_bits(u16::try_from(bits).ok()?).into()),
            ('f', 4) => Value::Float(f32::from_bits(u32::try_from(bits).ok()?).into()),
            ('f', 8) => Value::Float(f64::from_bits(bits)),
            _ => return None,
        })
    }

    fn write(self, value: Value, item: &mut [u8]) -> Option<()> {
        #[expect(clippy::cast_possible_truncation, reason = "the nearest number of this size")]
        let bytes: [u8; 8] = match (self.kind, self.size) {
            ('f', 2) => u64::from(f16::from_f64(value.float()).to_bits()).to_le_bytes(),
            ('f', 4) => {
                let float = match value {
                    #[expect(clippy::cast_precision_loss, reason = "rounded once, as NumPy does")]
                    Value::Int(n) => n as f32,
                    Value::Float(x) => x as f32,
                };
                u64::from(float.to_bits()).to_le_bytes()
            }
            ('f', _) => value.float().to_bits().to_le_bytes(),
            ('b', _) => u64::from(value.float() != 0.0).to_le_bytes(),
            _ => *value.int().to_le_bytes().first_chunk()?,
        };
        let ordered = bytes.iter().take(self.size);
        match self.big_endian {
            true => item.iter_mut().zip(ordered.rev()).for_each(|(to, from)| *to = *from),
            false => item.iter_mut().zip(ordered).for_each(|(to, from)| *to = *from),
        }
        Some(())
    }

    /// The number as this type holds it.
    fn rounded(self, value: Value) -> Option<Value> {
        let mut item = [0; 8];
        self.write(value, &mut item)?;
        self.read(&item)
    }
}

impl Filter {
    /// The filter of this name in numcodecs; `None` if it is another kind of codec. `dtype` is that of its input.
    pub(super) fn of(name: &str, parameters: &Map<String, Json>, dtype: &Dtype) -> Result<Option<Self>> {
        let number = |key: &str| {
            parameters.get(key).and_then(Json::as_f64).with_context(|| format!("{key} is missing"))
        };
        let types = || -> Result<(Number, Number)> {
            let to = Number::named(parameters, "dtype")?;
            let from = match parameters.get("astype") {
                None | Some(Json::Null) => to,
                Some(_) => Number::named(parameters, "astype")?,
            };
            Ok((from, to))
        };
        Ok(Some(match name {
            "delta" => {
                let (from, to) = types()?;
                Self::Delta { from, to }
            }
            "fixedscaleoffset" => {
                let (from, to) = types()?;
                let (scale, offset) = (number("scale")?, number("offset")?);
                ensure!(scale != 0.0, "scale is 0");
                Self::ScaleOffset { from, to, scale, offset }
            }
            "quantize" => {
                let (from, to) = types()?;
                Self::Convert { from, to }
            }
            "astype" => Self::Convert {
                from: Number::named(parameters, "encode_dtype")?,
                to: Number::named(parameters, "decode_dtype")?,
            },
            // Lost precision cannot be restored.
            "bitround" => match Number::of(dtype) {
                Some(number) => Self::Convert { from: number, to: number },
                None => bail!("{dtype} is not supported"),
            },
            _ => return Ok(None),
        }))
    }

    /// Bytes of an item before and after the filter was applied.
    pub(super) fn sizes(&self) -> (usize, usize) {
        match self {
            Self::Delta { from, to } | Self::ScaleOffset { from, to, .. } | Self::Convert { from, to } => {
                (to.size, from.size)
            }
        }
    }

    /// Undoes the filter.
    pub(super) fn decode(&self, src: &[u8]) -> Result<Vec<u8>> {
        let (decoded, encoded) = self.sizes();
        let count = src.len() / encoded.max(1);
        let mut dst = memory::zeroed(count.saturating_mul(decoded))?;
        let items = src.chunks_exact(encoded.max(1)).zip(dst.chunks_exact_mut(decoded.max(1)));
        let done = match *self {
            Self::Convert { from, to } => {
                if from == to {
                    dst.copy_from_slice(src);
                    return Ok(dst);
                }
                items.map(|(src, dst)| to.write(from.read(src)?, dst)).collect::<Option<()>>()
            }
            Self::ScaleOffset { from, to, scale, offset } => {
                // Like NumPy, which computes with floats of their own size, and with doubles otherwise.
                let rounded = |x| match from.kind {
                    'f' => from.rounded(Value::Float(x)).map(Value::float),
                    _ => Some(x),
                };
                let (scale, offset) = (rounded(scale).unwrap_or(scale), rounded(offset).unwrap_or(offset));
                items
                    .map(|(src, dst)| {
                        let scaled = rounded(from.read(src)?.float() / scale)?;
                        to.write(Value::Float(rounded(scaled + offset)?), dst)
                    })
                    .collect()
            }
            Self::Delta { from, to } => {
                // Like NumPy, which adds in the wider of two types of floats.
                let wide = if (from.kind, to.kind) == ('f', 'f') && from.size > to.size { from } else { to };
                let mut sum = if to.kind == 'f' { Value::Float(0.0) } else { Value::Int(0) };
                items
                    .enumerate()
                    .map(|(n, (src, dst))| {
                        let next = wide.rounded(from.read(src)?)?;
                        sum = match (n, sum, next) {
                            (0, ..) => next,
                            (_, Value::Int(a), Value::Int(b)) => {
                                wide.rounded(Value::Int(a.wrapping_add(b)))?
                            }
                            (_, a, b) => wide.rounded(Value::Float(a.float() + b.float()))?,
                        };
                        to.write(sum, dst)
                    })
                    .collect()
            }
        };
        done.context("a type of numbers that is not supported")?;
        Ok(dst)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn filter(name: &str, parameters: &Json) -> Filter {
        let dtype = Dtype::parse("<f4").unwrap();
        Filter::of(name, parameters.as_object().unwrap(), &dtype).unwrap().unwrap()
    }

    #[test]
    fn numbers_are_restored() {
        let delta = filter("delta", &json!({"dtype": "<i4", "astype": "|i1"}));
        assert_eq!(delta.sizes(), (4, 1));
        assert_eq!(delta.decode(&[5, 255, 250]).unwrap(), [5_i32, 4, -2].map(i32::to_le_bytes).concat());
        // Sums wrap as in NumPy.
        let bytes = filter("delta", &json!({"dtype": "|u1"}));
        assert_eq!(bytes.decode(&[200, 100, 1]).unwrap(), [200, 44, 45]);
        let big = filter("delta", &json!({"dtype": ">f8"}));
        let src = [1.5_f64, -0.5, 4.0].map(f64::to_be_bytes).concat();
        assert_eq!(big.decode(&src).unwrap(), [1.5_f64, 1.0, 5.0].map(f64::to_be_bytes).concat());
        let scale =
            filter("fixedscaleoffset", &json!({"dtype": "<f4", "astype": "u1", "scale": 10, "offset": 1000}));
        assert_eq!(scale.decode(&[0, 5]).unwrap(), [1000.0_f32, 1000.5].map(f32::to_le_bytes).concat());
        // Floats are scaled as floats of their size.
        let floats = filter("fixedscaleoffset", &json!({"dtype": "<f4", "scale": 7.7, "offset": 10}));
        let decoded = floats.decode(&(-84.0_f32).to_le_bytes()).unwrap();
        assert_eq!(decoded, (-84.0_f32 / 7.7 + 10.0).to_le_bytes());
        assert_ne!(decoded, ((-84.0_f64 / 7.7 + 10.0) as f32).to_le_bytes());
        let wide = filter("delta", &json!({"dtype": "<f2", "astype": "<f8"}));
        let src = [1.0_f64, 1e-4, 1e-4, 1e-3].map(f64::to_le_bytes).concat();
        let sums = [1.0, 1.0001, 1.0002, 1.0012].map(|sum| f16::from_f64(sum).to_le_bytes());
        assert_eq!(wide.decode(&src).unwrap(), sums.concat());
        let bools = filter("astype", &json!({"encode_dtype": "<f4", "decode_dtype": "|b1"}));
        assert_eq!(bools.decode(&[0.0_f32, 0.5, 256.0].map(f32::to_le_bytes).concat()).unwrap(), [0, 1, 1]);
        let convert = filter("astype", &json!({"encode_dtype": "<i2", "decode_dtype": "<f4"}));
        assert_eq!(convert.decode(&[255, 255]).unwrap(), (-1.0_f32).to_le_bytes());
        let large = filter("astype", &json!({"encode_dtype": "<i8", "decode_dtype": "<f4"}));
        let n = (1_i64 << 60) + (1 << 36) + 1;
        assert_eq!(large.decode(&n.to_le_bytes()).unwrap(), ((1_u64 << 60) as f32).next_up().to_le_bytes());
        assert_eq!(filter("bitround", &json!({"keepbits": 3})).decode(&[1, 2, 3, 4]).unwrap(), [1, 2, 3, 4]);
    }

    #[test]
    fn what_makes_no_sense_is_an_error() {
        let dtype = Dtype::parse("|S3").unwrap();
        let of = |name: &str, json: Json| Filter::of(name, json.as_object().unwrap(), &dtype);
        of("delta", json!({})).unwrap_err();
        of("delta", json!({"dtype": "<c8"})).unwrap_err();
        of("fixedscaleoffset", json!({"dtype": "<f4", "scale": 0, "offset": 0})).unwrap_err();
        of("bitround", json!({"keepbits": 3})).unwrap_err();
        assert!(of("zlib", json!({})).unwrap().is_none());
    }
}
