//! Datatype and dataspace messages.

use b2nd::{Dtype, DtypeKind, Field};

use super::bytes::Bytes;

/// Classes of datatypes.
const FIXED: u8 = 0;
const FLOAT: u8 = 1;
const TEXT: u8 = 3;
const OPAQUE: u8 = 5;
const COMPOUND: u8 = 6;
const REFERENCE: u8 = 7;
const ENUM: u8 = 8;
const VARIABLE: u8 = 9;
const ARRAY: u8 = 10;

/// Version 3 of the message, which supports compounds without padding, arrays and enumerations.
const VERSION: u8 = 3;

fn head(class: u8, bits: u32, size: usize) -> Bytes {
    let mut out = Bytes::default();
    let [low, middle, high, _] = bits.to_le_bytes();
    out.u8(VERSION << 4 | class).u8(low).u8(middle).u8(high);
    out.u32(u32::try_from(size).unwrap_or(u32::MAX));
    out
}

/// An integer.
pub(super) fn integer(size: usize, is_signed: bool, is_big: bool) -> Vec<u8> {
    let mut out = head(FIXED, u32::from(is_big) | u32::from(is_signed) << 3, size);
    out.u16(0).u16((size * 8) as u16);
    out.0
}

/// A float of IEEE 754; `None` for other sizes.
pub(super) fn float(size: usize, is_big: bool) -> Option<Vec<u8>> {
    let (exponent, mantissa, bias) = match size {
        2 => (5, 10, 15),
        4 => (8, 23, 127),
        8 => (11, 52, 1023),
        _ => return None,
    };
    // The leading 1 bit is not stored; the sign is the highest bit.
    let sign = (size * 8 - 1) as u32;
    let mut out = head(FLOAT, u32::from(is_big) | 2 << 4 | sign << 8, size);
    out.u16(0).u16((size * 8) as u16).u8(mantissa).u8(exponent).u8(0).u8(mantissa).u32(bias);
    Some(out.0)
}

/// A text of fixed length, padded by zeros. With `ends` the last byte is always zero.
pub(super) fn text(size: usize, ends: bool, is_utf8: bool) -> Vec<u8> {
    head(TEXT, u32::from(!ends) | u32::from(is_utf8) << 4, size).0
}

/// Texts of variable length in UTF-8.
pub(super) fn long_text() -> Vec<u8> {
    let mut out = head(VARIABLE, 1 | 1 << 8, 16);
    out.put(&integer(1, false, false));
    out.0
}

/// An address of an object.
pub(super) fn reference() -> Vec<u8> {
    head(REFERENCE, 0, 8).0
}

/// Lists of references of any length, for `DIMENSION_LIST`.
pub(super) fn references() -> Vec<u8> {
    let mut out = head(VARIABLE, 0, 16);
    out.put(&reference());
    out.0
}

/// The items of `REFERENCE_LIST`: an object, and one of its dimensions.
pub(super) fn referrer() -> Vec<u8> {
    let members = [("dataset", 0, reference()), ("dimension", 8, integer(4, true, false))];
    compound(16, members.into_iter().map(|(name, at, kind)| (name.to_owned(), at, kind)))
}

/// Booleans as h5py stores them.
pub(super) fn truth() -> Vec<u8> {
    enumeration(1, integer(1, true, false), &[("FALSE".into(), vec![0]), ("TRUE".into(), vec![1])])
}

/// An enumeration: names and their values, encoded like the items.
pub(super) fn enumeration(size: usize, base: Vec<u8>, members: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut out = head(ENUM, members.len() as u32, size);
    out.put(&base);
    members.iter().for_each(|(name, _)| {
        out.put(name.as_bytes()).u8(0);
    });
    members.iter().for_each(|(_, value)| {
        out.put(value);
    });
    out.0
}

/// A complex number as h5py stores it.
pub(super) fn complex(size: usize, is_big: bool) -> Option<Vec<u8>> {
    let part = float(size / 2, is_big)?;
    Some(compound(size, [("r".to_owned(), 0, part.clone()), ("i".to_owned(), size / 2, part)].into_iter()))
}

fn compound(size: usize, members: impl ExactSizeIterator<Item = (String, usize, Vec<u8>)>) -> Vec<u8> {
    let mut out = head(COMPOUND, members.len() as u32, size);
    // Offsets have as many bytes as the size of the compound requires.
    let width = (usize::BITS - size.leading_zeros()).div_ceil(8).max(1) as usize;
    for (name, at, kind) in members {
        out.put(name.as_bytes()).u8(0);
        out.put(at.to_le_bytes().get(..width).unwrap_or_default()).put(&kind);
    }
    out.0
}

fn array(shape: &[usize], itemsize: usize, kind: &[u8]) -> Vec<u8> {
    let mut out = head(ARRAY, 0, shape.iter().product::<usize>() * itemsize);
    out.u8(shape.len() as u8);
    shape.iter().for_each(|&length| {
        out.u32(u32::try_from(length).unwrap_or(u32::MAX));
    });
    out.put(kind);
    out.0
}

/// The datatype that stores the items of a dtype unchanged.
///
/// # Errors
/// Names a dtype that HDF5 does not have.
pub(super) fn of(dtype: &Dtype) -> Result<Vec<u8>, String> {
    let size = dtype.itemsize();
    let unknown = || format!("HDF5 has no type for items {dtype}");
    Ok(match dtype.kind() {
        DtypeKind::Struct(fields) => {
            let members: Result<Vec<_>, String> = fields.iter().map(member).collect();
            compound(size, members?.into_iter())
        }
        DtypeKind::Opaque => opaque(size),
        DtypeKind::Simple { code, big_endian } => match code {
            'b' => truth(),
            'i' | 'u' => integer(size, *code == 'i', *big_endian),
            'f' => float(size, *big_endian).ok_or_else(unknown)?,
            'c' => complex(size, *big_endian).ok_or_else(unknown)?,
            'S' if size > 0 => text(size, false, false),
            'V' if size > 0 => opaque(size),
            _ => return Err(unknown()),
        },
        _ => return Err(unknown()),
    })
}

fn opaque(size: usize) -> Vec<u8> {
    // A tag without text.
    head(OPAQUE, 0, size).0
}

fn member(field: &Field) -> Result<(String, usize, Vec<u8>), String> {
    if field.name.is_empty() || field.name.contains('\0') {
        return Err(format!("HDF5 has no field called {:?}", field.name));
    }
    let kind = of(&field.dtype)?;
    let kind = match &field.shape[..] {
        [] => kind,
        shape => array(shape, field.dtype.itemsize(), &kind),
    };
    Ok((field.name.clone(), field.offset, kind))
}

/// A dataspace: lengths and their maxima.
pub(super) fn space(shape: &[u64], most: Option<&[u64]>) -> Vec<u8> {
    let mut out = Bytes::default();
    out.u8(2).u8(shape.len() as u8).u8(u8::from(most.is_some())).u8(u8::from(!shape.is_empty()));
    shape.iter().chain(most.unwrap_or_default()).for_each(|&length| {
        out.u64(length);
    });
    out.0
}
