//! Datatype messages.

use super::cursor::{Cursor, text_of};

/// Maximum nesting.
const MAX_DEPTH: usize = 16;

/// A type of HDF5, with everything that determines the value of an item.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Type {
    /// An integer of 1, 2, 4 or 8 bytes, all of whose bits are significant.
    #[non_exhaustive]
    Int {
        /// Bytes.
        size: usize,
        /// Whether it is a signed number, in two's complement.
        is_signed: bool,
        /// Whether the most significant byte comes first.
        is_big: bool,
    },
    /// An integer that does not use all bits of its bytes, or has another number of them.
    #[non_exhaustive]
    PartialInt {
        /// Bytes.
        size: usize,
        /// The number of the first bit of the number, counted from the least significant bit.
        first: u16,
        /// Bits of the number.
        bits: u16,
        /// Whether it is a signed number, in two's complement.
        is_signed: bool,
        /// Whether the most significant byte comes first.
        is_big: bool,
    },
    /// A float of NumPy: 2, 4, 8, or 16 bytes (x87).
    #[non_exhaustive]
    Float {
        /// Bytes.
        size: usize,
        /// Whether the most significant byte comes first.
        is_big: bool,
    },
    /// A float of another form.
    OtherFloat(OtherFloat),
    /// Two floats of NumPy.
    #[non_exhaustive]
    Complex {
        /// Bytes of both together.
        size: usize,
        /// Whether the most significant byte of each comes first.
        is_big: bool,
    },
    /// Text of fixed length.
    #[non_exhaustive]
    Text {
        /// Bytes.
        size: usize,
        /// The padding of a shorter text.
        end: End,
        /// Whether it is UTF-8 by declaration, otherwise ASCII.
        is_utf8: bool,
    },
    /// Bytes whose meaning is only named.
    #[non_exhaustive]
    Opaque {
        /// Bytes.
        size: usize,
        /// The name of the meaning.
        tag: String,
    },
    /// A structure.
    #[non_exhaustive]
    Compound {
        /// Bytes.
        size: usize,
        /// The fields, in the order of the file.
        fields: Vec<Member>,
    },
    /// Numbers with names.
    #[non_exhaustive]
    Enum {
        /// The type of the numbers.
        base: Box<Type>,
        /// Names, and the stored bytes of their numbers.
        names: Vec<(String, Vec<u8>)>,
    },
    /// An array as item.
    #[non_exhaustive]
    Array {
        /// The type of its elements.
        base: Box<Type>,
        /// Its shape.
        dims: Vec<u64>,
    },
    /// Text of variable length, in a heap.
    #[non_exhaustive]
    LongText {
        /// Whether it is UTF-8 by declaration, otherwise ASCII.
        is_utf8: bool,
    },
    /// Elements of variable number, in a heap.
    #[non_exhaustive]
    Sequence {
        /// The type of an element.
        base: Box<Type>,
    },
    /// The address of an object, or the place of a description of a region in a heap.
    #[non_exhaustive]
    Reference {
        /// Bytes.
        size: usize,
        /// Whether it refers to a region of a data set.
        is_region: bool,
    },
    /// A reference as HDF5 1.12 introduced it (`H5T_STD_REF`): each item states whether it is to an object, a region of a data
    /// set or an attribute, and whether that is in another file.
    #[non_exhaustive]
    StdReference {
        /// Bytes.
        size: usize,
    },
    /// A type that NumPy does not have: its description.
    #[non_exhaustive]
    Other {
        /// Bytes.
        size: usize,
        /// Its description.
        what: String,
    },
}

/// The form of a float that NumPy does not have.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct OtherFloat {
    /// Bytes.
    pub size: usize,
    /// Whether the most significant byte comes first.
    pub is_big: bool,
    /// Bits of the number.
    pub bits: u16,
    /// The number of the sign's bit, counted from the least significant bit.
    pub sign: u8,
    /// The number of the first bit of the exponent, and how many it has.
    pub exponent: (u8, u8),
    /// The number of the first bit of the mantissa, and how many it has.
    pub mantissa: (u8, u8),
    /// The exponent bias.
    pub bias: u32,
    /// 0 if the mantissa is as stored, 1 if its first bit is always set, 2 if that bit is not stored.
    pub norm: u8,
}

/// A field of a compound.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Where it starts in the compound, in bytes.
    pub offset: usize,
    /// Its type.
    pub kind: Type,
}

/// The padding of a text that is shorter than its field.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum End {
    /// Zeros.
    Zeros,
    /// A zero, followed by arbitrary bytes.
    Zero,
    /// Spaces.
    Spaces,
}

/// Bytes of a reference to a text or a sequence in a heap.
pub(crate) fn reference_size(offset_size: u8) -> usize {
    usize::from(offset_size).saturating_add(8)
}

impl Type {
    /// Returns the bytes of an item in a file whose addresses have `offset_size` bytes; `None` if they do not fit into memory.
    pub fn size(&self, offset_size: u8) -> Option<usize> {
        Some(match self {
            Self::Int { size, .. }
            | Self::PartialInt { size, .. }
            | Self::OtherFloat(OtherFloat { size, .. })
            | Self::Reference { size, .. }
            | Self::StdReference { size }
            | Self::Float { size, .. }
            | Self::Complex { size, .. }
            | Self::Text { size, .. }
            | Self::Opaque { size, .. }
            | Self::Compound { size, .. }
            | Self::Other { size, .. } => *size,
            Self::Enum { base, .. } => base.size(offset_size)?,
            Self::Array { base, dims } => {
                let items = dims.iter().try_fold(1_u64, |n, &length| n.checked_mul(length))?;
                usize::try_from(items).ok()?.checked_mul(base.size(offset_size)?)?
            }
            Self::LongText { .. } | Self::Sequence { .. } => reference_size(offset_size),
        })
    }
}

impl Type {
    /// Whether items, or parts of them, are in a heap.
    pub(crate) fn is_in_heap(&self) -> bool {
        match self {
            Self::LongText { .. } | Self::Sequence { .. } => true,
            Self::Compound { fields, .. } => fields.iter().any(|field| field.kind.is_in_heap()),
            Self::Array { base, .. } => base.is_in_heap(),
            _ => false,
        }
    }

    /// Returns the address of the object of the same file to which an item refers.
    pub(super) fn object(&self, item: &[u8], offset_size: u8) -> Option<u64> {
        let address = match self {
            Self::Reference { is_region: false, .. } => item,
            // An object, without flags, and the bytes of its address.
            Self::StdReference { .. } => item.strip_prefix(&[2, 0, offset_size])?,
            _ => return None,
        };
        Cursor::new(address).address(offset_size)
    }
}

/// Parses a datatype. `None` if it is malformed.
pub(crate) fn parse(bytes: &[u8]) -> Option<Type> {
    parse_at(&mut Cursor::new(bytes), 0)
}

fn parse_at(cursor: &mut Cursor<'_>, depth: usize) -> Option<Type> {
    if depth > MAX_DEPTH {
        return None;
    }
    let head = cursor.u32()?;
    let size = usize::try_from(cursor.u32()?).ok()?;
    let (class, version, flags) = (head & 0xF, head >> 4 & 0xF, head >> 8);
    let is_big = flags & 1 != 0;
    Some(match class {
        0 | 4 => {
            let (first, bits) = (cursor.u16()?, cursor.u16()?);
            let whole =
                matches!(size, 1 | 2 | 4 | 8) && first == 0 && usize::from(bits) == size.checked_mul(8)?;
            let is_signed = class == 0 && flags & 8 != 0;
            match whole {
                true => Type::Int { size, is_signed, is_big },
                false => Type::PartialInt { size, first, bits, is_signed, is_big },
            }
        }
        1 => float(cursor, size, flags)?,
        2 => {
            cursor.skip(2)?;
            Type::Other { size, what: "times of HDF5's own type".into() }
        }
        // Other padding and encoding numbers are reserved.
        3 if flags & 0xF > 2 || flags >> 4 & 0xF > 1 => {
            Type::Other { size, what: "texts in an unknown encoding".into() }
        }
        3 => {
            let end = match flags & 0xF {
                0 => End::Zero,
                2 => End::Spaces,
                _ => End::Zeros,
            };
            Type::Text { size, end, is_utf8: flags >> 4 & 0xF == 1 }
        }
        5 => {
            let tag = cursor.bytes(usize::try_from(flags & 0xFF).ok()?)?;
            Type::Opaque { size, tag: text_of(tag) }
        }
        6 => compound(cursor, size, flags & 0xFFFF, version, depth)?,
        7 => match (flags & 0xF, flags >> 4 & 0xF) {
            (is_region @ (0 | 1), _) => Type::Reference { size, is_region: is_region == 1 },
            // The second number is the version of the encoding.
            (2..=4, 1) => Type::StdReference { size },
            _ => Type::Other { size, what: "references of an unknown kind".into() },
        },
        8 => {
            let base = parse_at(cursor, depth.checked_add(1)?)?;
            let count = usize::try_from(flags & 0xFFFF).ok()?;
            let mut names = Vec::new();
            for _ in 0..count {
                names.push(name(cursor, version)?);
            }
            let width = base.size(8)?;
            let values = names.into_iter().map(|name| Some((name, cursor.bytes(width)?.to_vec())));
            Type::Enum { names: values.collect::<Option<_>>()?, base: Box::new(base) }
        }
        9 => {
            let base = Box::new(parse_at(cursor, depth.checked_add(1)?)?);
            match flags & 0xF {
                1 if flags >> 8 & 0xF > 1 => {
                    Type::Other { size, what: "texts in an unknown encoding".into() }
                }
                1 => Type::LongText { is_utf8: flags >> 8 & 0xF == 1 },
                _ => Type::Sequence { base },
            }
        }
        10 => {
            let rank = cursor.u8()?;
            if version < 3 {
                cursor.skip(3)?;
            }
            let dims = (0..rank).map(|_| cursor.u32().map(u64::from)).collect::<Option<Vec<_>>>()?;
            if version < 3 {
                cursor.skip(usize::from(rank).checked_mul(4)?)?;
            }
            let base = parse_at(cursor, depth.checked_add(1)?)?;
            Type::Array { base: Box::new(base), dims }
        }
        11 => match parse_at(cursor, depth.checked_add(1)?)? {
            Type::Float { size: part, is_big } if part.checked_mul(2)? == size => {
                Type::Complex { size, is_big }
            }
            _ => Type::Other { size, what: "complex numbers of other parts than floats".into() },
        },
        _ => Type::Other { size, what: format!("items of class {class}") },
    })
}

fn float(cursor: &mut Cursor<'_>, size: usize, flags: u32) -> Option<Type> {
    let (first, bits) = (cursor.u16()?, cursor.u16()?);
    let (exponent, exponent_bits, mantissa, mantissa_bits) =
        (cursor.u8()?, cursor.u8()?, cursor.u8()?, cursor.u8()?);
    let bias = cursor.u32()?;
    let (order, norm, sign) = (flags & 0x41, flags >> 4 & 3, flags >> 8 & 0xFF);
    let found = (size, first, bits, exponent, exponent_bits, mantissa, mantissa_bits, bias, norm, sign);
    // IEEE 754, where the first bit of the mantissa is implied, and the 80 bits of x87, where it is stored.
    let known = [
        (2, 0, 16, 10, 5, 0, 10, 15, 2, 15),
        (4, 0, 32, 23, 8, 0, 23, 127, 2, 31),
        (8, 0, 64, 52, 11, 0, 52, 1023, 2, 63),
        (16, 0, 80, 64, 15, 0, 64, 16383, 1, 79),
        (16, 0, 80, 64, 15, 0, 64, 16383, 0, 79),
    ];
    Some(match known.contains(&found) && order < 2 && (size < 16 || order == 0) {
        true => Type::Float { size, is_big: order == 1 },
        // The middle-endian order of VAX.
        false if order > 1 => Type::Other { size, what: "floats in the order of VAX".into() },
        false => Type::OtherFloat(OtherFloat {
            size,
            is_big: order == 1,
            bits,
            sign: sign as u8,
            exponent: (exponent, exponent_bits),
            mantissa: (mantissa, mantissa_bits),
            bias,
            norm: norm as u8,
        }),
    })
}

/// A name in a list, which older versions pad to a multiple of 8 bytes.
fn name(cursor: &mut Cursor<'_>, version: u32) -> Option<String> {
    let text = cursor.text()?;
    if version < 3 {
        cursor.skip(text.len().checked_add(1)?.wrapping_neg() % 8)?;
    }
    Some(text_of(text))
}

fn compound(cursor: &mut Cursor<'_>, size: usize, count: u32, version: u32, depth: usize) -> Option<Type> {
    let width = match size {
        0..=0xFF => 1,
        0x100..=0xFFFF => 2,
        0x1_0000..=0xFF_FFFF => 3,
        _ => 4,
    };
    let mut fields = Vec::new();
    for _ in 0..count {
        let name = name(cursor, version)?;
        let offset = cursor.uint(if version < 3 { 4 } else { width })?;
        let mut dims = Vec::new();
        if version == 1 {
            let rank = cursor.u8()?;
            cursor.skip(11)?;
            let all = [cursor.u32()?, cursor.u32()?, cursor.u32()?, cursor.u32()?];
            dims = all.get(..usize::from(rank))?.iter().map(|&length| length.into()).collect();
        }
        let mut kind = parse_at(cursor, depth.checked_add(1)?)?;
        if !dims.is_empty() {
            kind = Type::Array { base: Box::new(kind), dims };
        }
        fields.push(Member { name, offset: usize::try_from(offset).ok()?, kind });
    }
    Some(Type::Compound { size, fields })
}

/// The stored bytes of netCDF's default fill value. `None` for zeros.
pub(super) fn default_fill(kind: &Type) -> Option<Vec<u8>> {
    let (number, size, is_big) = match *kind {
        Type::Int { size, is_signed, is_big } => {
            let bits = u32::try_from(size.checked_mul(8)?).ok()?;
            let most = u64::MAX.checked_shr(64_u32.checked_sub(bits)?)?;
            let number = match (is_signed, size) {
                (true, 8) => (i64::MIN + 2) as u64,
                (true, _) => (most >> 1).wrapping_neg(),
                (false, 8) => most - 1,
                (false, _) => most,
            };
            (number, size, is_big)
        }
        Type::Float { size: 4, is_big } => (9.969_21e36_f32.to_bits().into(), 4, is_big),
        Type::Float { size: 8, is_big } => (9.969_209_968_386_869e36_f64.to_bits(), 8, is_big),
        _ => return None,
    };
    let mut bytes = number.to_le_bytes().get(..size)?.to_vec();
    if is_big {
        bytes.reverse();
    }
    Some(bytes)
}
