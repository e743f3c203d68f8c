//! Packed numbers and the values that they represent: the attributes `scale_factor`, `add_offset`, `_FillValue`, `missing_value` and
//! `_Unsigned`, by the conventions of NetCDF and CF as xarray applies them.

use b2nd::{Dtype, DtypeKind, Value};

use crate::{DataSet, Hdf5Error, attrs};

/// The attributes that are applied.
const APPLIED: [&str; 5] = ["scale_factor", "add_offset", "_FillValue", "missing_value", "_Unsigned"];

/// Unpacks numbers by the attributes of a data set.
///
/// A number that is `_FillValue` or one of `missing_value` becomes NaN; any other is multiplied by `scale_factor`, then
/// `add_offset` is added. The result is float32 or float64, as in xarray: the type of the two attributes if they agree (float64
/// for integers of 4 bytes); float64 if there is only an offset; the type of a factor without an offset; without either, float32
/// for integers of up to 2 bytes and float64 for others.
#[derive(Clone, Debug)]
pub struct Scale {
    packed: Number,
    is_double: bool,
    factor: Option<f64>,
    offset: Option<f64>,
    missing: Vec<Value>,
}

/// The form of a packed number.
#[derive(Clone, Copy, Debug)]
struct Number {
    /// `i`, `u` or `f`.
    code: char,
    size: usize,
    is_big: bool,
}

impl Scale {
    /// Reads the attributes of a data set; `None` if there is nothing to apply.
    ///
    /// # Errors
    /// Fails if a factor or offset is not a number, or if the items are half floats or long doubles.
    pub fn of(data: &DataSet) -> Result<Option<Self>, Hdf5Error> {
        // Not every data set without these attributes has a dtype.
        match data.attrs().iter().any(|(name, _)| APPLIED.contains(&&**name)) {
            true => Self::of_attributes(data.path(), data.dtype()?, data.attrs()),
            false => Ok(None),
        }
    }

    /// Reads the attributes of an array with this name and dtype; `None` if there is nothing to apply.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub fn of_attributes(
        name: &str,
        dtype: &Dtype,
        attrs: &[(String, Value)],
    ) -> Result<Option<Self>, Hdf5Error> {
        let path = name;
        let of = |name: &str| attrs.iter().find(|(own, _)| own == name).map(|(_, value)| value);
        let (factor, offset) = (of("scale_factor"), of("add_offset"));
        let fills = ["_FillValue", "missing_value"].into_iter().filter_map(of);
        let mut missing: Vec<Value> = fills.flat_map(attrs::numbers).collect();
        missing.retain(|value| !value.as_f64().is_some_and(f64::is_nan));
        if factor.is_none() && offset.is_none() && missing.is_empty() {
            return Ok(None);
        }
        let unsupported = |what: String| Hdf5Error::unsupported(path, what);
        let DtypeKind::Simple { code: mut code @ ('i' | 'u' | 'f'), .. } = *dtype.kind() else {
            return match factor.or(offset) {
                Some(_) => Err(unsupported(format!("scale_factor and add_offset of items {dtype}"))),
                // Texts are not converted, even if some mark missing ones.
                None => Ok(None),
            };
        };
        let size = dtype.itemsize();
        if code == 'f' && size != 4 && size != 8 {
            return Err(unsupported(format!("scale_factor, add_offset and missing values of items {dtype}")));
        }
        match (code, of("_Unsigned").and_then(Value::as_str)) {
            ('i', Some("true")) => {
                code = 'u';
                missing.iter_mut().for_each(|value| unsign(value, size));
            }
            ('u', Some("false")) => {
                code = 'i';
                missing.iter_mut().for_each(|value| sign(value, size));
            }
            _ => {}
        }
        let number = |name: &str, value: Option<&Value>| match value.map(|value| (value.as_f64(), value)) {
            None => Ok(None),
            Some((Some(number), _)) => Ok(Some(number)),
            Some((None, value)) => Err(unsupported(format!("{name} is {value}, not a number"))),
        };
        let is_double = match (factor, offset) {
            (Some(Value::F32(_)), Some(Value::F32(_))) => code != 'f' && size == 4,
            (_, Some(_)) => true,
            (Some(value), None) => !matches!(value, Value::F32(_)),
            (None, None) => size > if code == 'f' { 4 } else { 2 },
        };
        Ok(Some(Self {
            packed: Number { code, size, is_big: dtype.as_str().starts_with('>') },
            is_double,
            factor: number("scale_factor", factor)?,
            offset: number("add_offset", offset)?,
            missing,
        }))
    }

    /// Returns the dtype of the result: `<f4` or `<f8`.
    ///
    /// # Errors
    /// Never fails for these two dtypes.
    pub fn dtype(&self) -> Result<Dtype, Hdf5Error> {
        let text = if self.is_double { "<f8" } else { "<f4" };
        Dtype::parse(text).map_err(|error| Hdf5Error::damaged("", error.to_string()))
    }

    /// Returns the attributes that the result keeps.
    pub fn keeps(name: &str) -> bool {
        !APPLIED.contains(&name)
    }

    /// Returns the size of the packed numbers for a result of this size, both in bytes.
    pub fn packed_nbytes(&self, nbytes: usize) -> usize {
        let size = if self.is_double { 8 } else { 4 };
        (nbytes / size).saturating_mul(self.packed.size)
    }

    /// Unpacks numbers to the [`dtype`](Self::dtype) of the result.
    pub fn apply(&self, packed: &[u8], dst: &mut [u8]) {
        let size = self.packed.size.max(1);
        // Integers of 8 bytes are compared exactly, not as floats.
        let missing: Vec<i128> = self.missing.iter().filter_map(whole).collect();
        let inexact: Vec<f64> =
            self.missing.iter().filter(|value| whole(value).is_none()).filter_map(Value::as_f64).collect();
        let all: Vec<f64> = self.missing.iter().filter_map(Value::as_f64).collect();
        let is_missing = |item: Item| match item {
            Item::Whole(number) => missing.contains(&number) || inexact.contains(&(number as f64)),
            Item::Real(number) => all.contains(&number),
        };
        let items = packed.chunks_exact(size).map(|item| self.packed.read(item));
        if self.is_double {
            let (factor, offset) = (self.factor, self.offset);
            for (item, dst) in items.zip(dst.chunks_exact_mut(8)) {
                let mut number = if is_missing(item) { f64::NAN } else { item.as_f64() };
                number = factor.map_or(number, |factor| number * factor);
                number = offset.map_or(number, |offset| number + offset);
                dst.copy_from_slice(&number.to_le_bytes());
            }
        } else {
            let (factor, offset) = (self.factor.map(|x| x as f32), self.offset.map(|x| x as f32));
            for (item, dst) in items.zip(dst.chunks_exact_mut(4)) {
                let mut number = if is_missing(item) { f32::NAN } else { item.as_f32() };
                number = factor.map_or(number, |factor| number * factor);
                number = offset.map_or(number, |offset| number + offset);
                dst.copy_from_slice(&number.to_le_bytes());
            }
        }
    }
}

/// A packed number.
#[derive(Clone, Copy)]
enum Item {
    Whole(i128),
    Real(f64),
}

impl Item {
    fn as_f64(self) -> f64 {
        match self {
            Self::Whole(number) => number as f64,
            Self::Real(number) => number,
        }
    }

    fn as_f32(self) -> f32 {
        match self {
            Self::Whole(number) => number as f32,
            Self::Real(number) => number as f32,
        }
    }
}

impl Number {
    fn read(self, item: &[u8]) -> Item {
        let mut bytes = [0; 8];
        for (to, from) in bytes.iter_mut().zip(item) {
            *to = *from;
        }
        if self.is_big
            && let Some(used) = bytes.get_mut(..item.len())
        {
            used.reverse();
        }
        let number = u64::from_le_bytes(bytes);
        match (self.code, self.size) {
            ('f', 4) => Item::Real(f32::from_bits(number as u32).into()),
            ('f', _) => Item::Real(f64::from_bits(number)),
            ('i', 1) => Item::Whole((number as i8).into()),
            ('i', 2) => Item::Whole((number as i16).into()),
            ('i', 4) => Item::Whole((number as i32).into()),
            ('i', _) => Item::Whole((number as i64).into()),
            _ => Item::Whole(number.into()),
        }
    }
}

/// The value as an integer, if it is one.
fn whole(value: &Value) -> Option<i128> {
    match value {
        Value::Integer(number) => number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from)),
        _ => None,
    }
}

/// Reinterprets a negative integer of `size` bytes as unsigned.
fn unsign(value: &mut Value, size: usize) {
    if let Some(number) = value.as_i64().filter(|number| *number < 0) {
        let bits = u32::try_from(size.saturating_mul(8)).unwrap_or(64).min(64);
        *value = (number as u64 & u64::MAX.checked_shr(64_u32.saturating_sub(bits)).unwrap_or(0)).into();
    }
}

/// Reinterprets an unsigned integer of `size` bytes as signed.
fn sign(value: &mut Value, size: usize) {
    if let Some(number) = value.as_u64() {
        let unused = 64_u32.saturating_sub(u32::try_from(size.saturating_mul(8)).unwrap_or(64));
        let top = number.checked_shl(unused).unwrap_or(0).cast_signed();
        *value = top.checked_shr(unused).unwrap_or(0).into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(dtype: &str, attrs: &[(&str, Value)]) -> Result<Option<Scale>, Hdf5Error> {
        let attrs: Vec<_> = attrs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        Scale::of_attributes("v", &Dtype::parse(dtype).unwrap(), &attrs)
    }

    #[test]
    fn unsigned_integers_may_stand_for_signed_ones() {
        let attrs =
            [("_Unsigned", "false".into()), ("_FillValue", 255.into()), ("scale_factor", Value::F32(0.5))];
        let mut found = [0; 8];
        of("|u1", &attrs).unwrap().unwrap().apply(&[255, 254], &mut found);
        assert!(f32::from_le_bytes(found[..4].try_into().unwrap()).is_nan());
        assert_eq!(f32::from_le_bytes(found[4..].try_into().unwrap()), -1.0);
    }

    #[test]
    fn missing_half_floats_are_not_overlooked() {
        let half = |bits: u16| {
            attrs::value(&Dtype::parse("<f2").unwrap(), &[2], &[bits, bits].map(u16::to_le_bytes).concat())
        };
        assert!(of("<f2", &[("_FillValue", half(0x7E00))]).unwrap().is_none(), "NaN");
        of("<f2", &[("missing_value", half(0x3C00))]).unwrap_err();
        let one = attrs::value(&Dtype::parse(">f2").unwrap(), &[1], &0x3C00_u16.to_be_bytes());
        assert_eq!(one, Value::F32(1.0), "a number, as of other types");
        let numbers = |bits| attrs::numbers(&half(bits))[0].as_f64().unwrap();
        assert_eq!(
            [0x3C00, 0xC000, 0x0001, 0x7BFF, 0xFC00].map(numbers),
            [1.0, -2.0, 2_f64.powi(-24), 65504.0, f64::NEG_INFINITY]
        );
    }

    fn scale(code: char, size: usize, is_double: bool, missing: &[Value]) -> Scale {
        let packed = Number { code, size, is_big: false };
        Scale { packed, is_double, factor: Some(0.5), offset: None, missing: missing.to_vec() }
    }

    #[test]
    fn missing_numbers_are_compared_exactly() {
        let large = i64::MAX;
        let scale = scale('i', 8, true, &[large.into()]);
        let packed = [large.to_le_bytes(), (large - 1).to_le_bytes(), (-3_i64).to_le_bytes()].concat();
        let mut found = [0; 24];
        assert_eq!(scale.packed_nbytes(24), 24);
        scale.apply(&packed, &mut found);
        let numbers: Vec<f64> = found.chunks(8).map(|b| f64::from_le_bytes(b.try_into().unwrap())).collect();
        assert!(numbers[0].is_nan());
        assert_eq!(numbers[1..], [(large - 1) as f64 / 2.0, -1.5]);
    }

    #[test]
    fn bits_are_taken_without_a_sign() {
        let mut value = Value::from(-1);
        unsign(&mut value, 1);
        assert_eq!(value, 255.into());
        let mut value = Value::from(-2);
        unsign(&mut value, 8);
        assert_eq!(value, (u64::MAX - 1).into());
        let mut bytes = scale('u', 1, false, &[255.into()]);
        bytes.packed.is_big = true;
        let mut found = [0; 8];
        bytes.apply(&[255, 254], &mut found);
        assert!(f32::from_le_bytes(found[..4].try_into().unwrap()).is_nan());
        assert_eq!(f32::from_le_bytes(found[4..].try_into().unwrap()), 127.0);
    }
}
