//! Rust types that can be items of an array.

use crate::{Dtype, DtypeKind, NdError};

/// A Rust type that stands for a NumPy dtype.
///
/// Implemented for `bool`, the integers of 8 to 64 bits, `f32` and `f64`; with features also for
/// `half::f16` and `num_complex::Complex<f32>`, `Complex<f64>`. Big-endian items are converted.
pub trait Element: Copy + Send + Sync + 'static {
    /// The little-endian dtype string.
    const DTYPE: &'static str;
    /// Name for messages.
    const NAME: &'static str;
    /// Bytes of one machine number in an item: what byte order applies to.
    const WORD: usize;
    /// Bytes of an item.
    const ITEMSIZE: usize;

    /// The value of a little-endian item; `bytes` has the dtype's item size.
    fn read_le(bytes: &[u8]) -> Self;
    /// Writes the little-endian item.
    fn write_le(self, bytes: &mut [u8]);
}

macro_rules! numbers {
    ($($type:ident $dtype:literal)*) => {$(
        impl Element for $type {
            const DTYPE: &'static str = $dtype;
            const NAME: &'static str = stringify!($type);
            const WORD: usize = size_of::<Self>();
            const ITEMSIZE: usize = size_of::<Self>();
            #[inline]
            fn read_le(bytes: &[u8]) -> Self {
                bytes.first_chunk().map_or_else(Self::default, |b| Self::from_le_bytes(*b))
            }
            #[inline]
            fn write_le(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_le_bytes());
            }
        }
    )*};
}
numbers! {
    i8 "|i1" i16 "<i2" i32 "<i4" i64 "<i8" u8 "|u1" u16 "<u2" u32 "<u4" u64 "<u8" f32 "<f4" f64 "<f8"
}

impl Element for bool {
    const DTYPE: &'static str = "|b1";
    const NAME: &'static str = "bool";
    const WORD: usize = 1;
    const ITEMSIZE: usize = 1;
    #[inline]
    fn read_le(bytes: &[u8]) -> Self {
        bytes.first().is_some_and(|&b| b != 0)
    }
    #[inline]
    fn write_le(self, bytes: &mut [u8]) {
        bytes.fill(u8::from(self));
    }
}

#[cfg(feature = "half")]
impl Element for half::f16 {
    const DTYPE: &'static str = "<f2";
    const NAME: &'static str = "f16";
    const WORD: usize = 2;
    const ITEMSIZE: usize = 2;
    #[inline]
    fn read_le(bytes: &[u8]) -> Self {
        Self::from_bits(u16::read_le(bytes))
    }
    #[inline]
    fn write_le(self, bytes: &mut [u8]) {
        self.to_bits().write_le(bytes);
    }
}

#[cfg(feature = "num-complex")]
macro_rules! complex {
    ($($part:ident $dtype:literal)*) => {$(
        impl Element for num_complex::Complex<$part> {
            const DTYPE: &'static str = $dtype;
            const NAME: &'static str = concat!("Complex<", stringify!($part), ">");
            const WORD: usize = size_of::<$part>();
            const ITEMSIZE: usize = 2 * size_of::<$part>();
            #[inline]
            fn read_le(bytes: &[u8]) -> Self {
                let (re, im) = bytes.split_at(size_of::<$part>().min(bytes.len()));
                Self::new(Element::read_le(re), Element::read_le(im))
            }
            #[inline]
            fn write_le(self, bytes: &mut [u8]) {
                let (re, im) = bytes.split_at_mut(size_of::<$part>());
                Element::write_le(self.re, re);
                Element::write_le(self.im, im);
            }
        }
    )*};
}
#[cfg(feature = "num-complex")]
complex! { f32 "<c8" f64 "<c16" }

/// Whether items of `dtype` are `T`, and if so whether they are big-endian.
pub(crate) fn byte_order<T: Element>(dtype: &Dtype) -> Result<bool, NdError> {
    let kind = |dtype: &Dtype| match dtype.kind() {
        DtypeKind::Simple { code, big_endian } => Some((*code, *big_endian)),
        _ => None,
    };
    let own = Dtype::parse(T::DTYPE)?;
    match (kind(dtype), kind(&own)) {
        (Some((code, big_endian)), Some((own_code, _)))
            if code == own_code && dtype.itemsize() == own.itemsize() =>
        {
            Ok(big_endian && T::WORD > 1)
        }
        _ => Err(NdError::Element { dtype: dtype.to_string(), asked: T::NAME }),
    }
}

/// Items from their bytes.
pub(crate) fn decode<T: Element>(bytes: &mut [u8], itemsize: usize, big_endian: bool) -> Vec<T> {
    if big_endian {
        bytes.chunks_exact_mut(T::WORD).for_each(<[u8]>::reverse);
    }
    bytes.chunks_exact(itemsize).map(T::read_le).collect()
}

/// Bytes of items, little-endian.
pub(crate) fn encode<T: Element>(items: impl Iterator<Item = T>, itemsize: usize, dst: &mut [u8]) {
    for (item, out) in items.zip(dst.chunks_exact_mut(itemsize)) {
        item.write_le(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check<T: Element + PartialEq + std::fmt::Debug>(value: T, le: &[u8]) {
        let mut bytes = vec![0xAA; le.len()];
        value.write_le(&mut bytes);
        assert_eq!(bytes, le);
        assert_eq!(T::read_le(le), value);
        let mut be: Vec<u8> = le.chunks(T::WORD).flat_map(|w| w.iter().rev().copied()).collect();
        assert_eq!(decode::<T>(&mut be, le.len(), true), [value]);
        assert_eq!((Dtype::parse(T::DTYPE).unwrap().itemsize(), T::ITEMSIZE), (le.len(), le.len()));
    }

    #[test]
    fn elements_have_their_bytes() {
        check(-2i16, &[0xFE, 0xFF]);
        check(1.0f32, &[0, 0, 0x80, 0x3F]);
        check(true, &[1]);
        check(0x0102_0304_0506_0708u64, &[8, 7, 6, 5, 4, 3, 2, 1]);
        #[cfg(feature = "half")]
        check(half::f16::from_f32(1.0), &[0, 0x3C]);
        #[cfg(feature = "num-complex")]
        check(num_complex::Complex::new(1.0f32, 2.0), &[0, 0, 0x80, 0x3F, 0, 0, 0, 0x40]);
    }

    #[test]
    fn only_the_right_dtype_is_taken() {
        assert!(!byte_order::<f32>(&Dtype::parse("<f4").unwrap()).unwrap());
        assert!(byte_order::<f32>(&Dtype::parse(">f4").unwrap()).unwrap());
        assert!(byte_order::<i32>(&Dtype::parse("<f4").unwrap()).is_err());
        assert!(byte_order::<f64>(&Dtype::parse("<f4").unwrap()).is_err());
        assert!(byte_order::<u8>(&Dtype::parse("|V1").unwrap()).is_err());
    }
}
