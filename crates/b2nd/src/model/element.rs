//! Conversion between items of an array and Rust types.

use b2_core::{OutOfMemory, memory};

use crate::{Dtype, DtypeKind, NdError};

pub use b2_core::Element;

impl Dtype {
    /// Returns the little-endian dtype of a Rust type.
    pub fn of<T: Element>() -> Self {
        Self::parse(T::DTYPE).unwrap_or_else(|_| Self::opaque(T::DTYPE, T::ITEMSIZE))
    }
}

/// Checks that items of `dtype` are of type `T`, and returns whether they are big-endian.
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

/// Decodes items from their stored bytes. Big-endian bytes are swapped in place first.
pub(crate) fn decode<T: Element>(
    bytes: &mut [u8],
    itemsize: usize,
    big_endian: bool,
) -> Result<Vec<T>, OutOfMemory> {
    if big_endian {
        bytes.chunks_exact_mut(T::WORD).for_each(<[u8]>::reverse);
    }
    memory::collect(bytes.chunks_exact(itemsize).map(T::read_le))
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
        assert_eq!(decode::<T>(&mut be, le.len(), true).unwrap(), [value]);
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
