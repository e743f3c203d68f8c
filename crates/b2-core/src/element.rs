use zerocopy::{FromBytes, FromZeros, IntoBytes};

use crate::{OutOfMemory, memory};

/// A Rust type that corresponds to a NumPy dtype.
///
/// Implemented for `bool`, the integers of 8 to 64 bits, `f32` and `f64`, and with features for `half::f16`,
/// `num_complex::Complex<f32>` and `Complex<f64>`. Big-endian items are converted.
pub trait Element: Copy + Send + Sync + 'static {
    /// The dtype string, little-endian.
    const DTYPE: &'static str;
    /// The name of the type in messages.
    const NAME: &'static str;
    /// Size in bytes of one number in an item, the unit of byte order: half of the item for complex numbers.
    const WORD: usize;
    /// Bytes of one item.
    const ITEMSIZE: usize;

    /// Decodes a little-endian item. `bytes` must have [`ITEMSIZE`](Self::ITEMSIZE) bytes.
    fn read_le(bytes: &[u8]) -> Self;
    /// Encodes a little-endian item into `bytes`.
    fn write_le(self, bytes: &mut [u8]);

    /// Views values as little-endian items, if the memory layout is the same.
    #[doc(hidden)]
    fn as_le_bytes(_items: &[Self]) -> Option<&[u8]> {
        None
    }
    /// Views values as little-endian items for writing, if the memory layout is the same.
    #[doc(hidden)]
    fn as_le_bytes_mut(_items: &mut [Self]) -> Option<&mut [u8]> {
        None
    }
    /// Views little-endian items as values for writing, if the memory layout is the same.
    #[doc(hidden)]
    fn as_values_mut(_bytes: &mut [u8]) -> Option<&mut [Self]> {
        None
    }
    /// Allocates a list of zeros.
    ///
    /// # Errors
    /// [`OutOfMemory`] if there is not enough memory.
    #[doc(hidden)]
    fn zeroed(len: usize) -> Result<Vec<Self>, OutOfMemory> {
        // No item is longer than 64 bytes.
        let zero = [0; 64].get(..Self::ITEMSIZE).map_or_else(|| Self::read_le(&[]), Self::read_le);
        let mut items = memory::list(len)?;
        items.resize(len, zero);
        Ok(items)
    }
}

/// Whether numbers have the same layout in memory as in storage, which is little-endian.
const IS_LITTLE_ENDIAN: bool = cfg!(target_endian = "little");

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
            fn as_le_bytes(items: &[Self]) -> Option<&[u8]> {
                (IS_LITTLE_ENDIAN || Self::WORD == 1).then(|| items.as_bytes())
            }
            fn as_le_bytes_mut(items: &mut [Self]) -> Option<&mut [u8]> {
                (IS_LITTLE_ENDIAN || Self::WORD == 1).then(|| items.as_mut_bytes())
            }
            fn as_values_mut(bytes: &mut [u8]) -> Option<&mut [Self]> {
                if IS_LITTLE_ENDIAN || Self::WORD == 1 { FromBytes::mut_from_bytes(bytes).ok() } else { None }
            }
            fn zeroed(len: usize) -> Result<Vec<Self>, OutOfMemory> {
                let bytes = (len as u64).saturating_mul(size_of::<Self>() as u64);
                Self::new_vec_zeroed(len).map_err(|_| OutOfMemory { bytes })
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
    fn as_le_bytes(items: &[Self]) -> Option<&[u8]> {
        Some(items.as_bytes())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check<T: Element + PartialEq + std::fmt::Debug>(value: T, le: &[u8]) {
        let mut bytes = vec![0xAA; le.len()];
        value.write_le(&mut bytes);
        assert_eq!((&bytes[..], T::read_le(le), T::ITEMSIZE), (le, value, le.len()));
        assert!(T::as_le_bytes(&[value]).is_none_or(|bytes| bytes == le));
        let mut items = T::zeroed(3).unwrap();
        assert_eq!(items, [T::read_le(&vec![0; le.len()]); 3]);
        if let Some(bytes) = T::as_le_bytes_mut(&mut items[1..2]) {
            bytes.copy_from_slice(le);
            assert_eq!(items[1], value);
        }
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
}
