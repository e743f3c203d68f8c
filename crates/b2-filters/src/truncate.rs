//! Truncation of floats (id 4) and of integers (id 36): clears low bits. Lossy, so undoing it is a copy.

use crate::error::Result;
use crate::filter::same_length;
use crate::{Effect, Filter, FilterContext, FilterError, FilterId, FilterProperties};

/// The filters that clear low bits of items. The parameter byte is signed: bits to keep if positive, bits to clear if
/// negative.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Truncate {
    /// Mantissa bits of floats of 4 or 8 bytes.
    Floats,
    /// Bits of integers of 1, 2, 4 or 8 bytes.
    Integers,
}

impl Filter for Truncate {
    fn id(&self) -> FilterId {
        match self {
            Self::Floats => FilterId::TRUNC_PREC,
            Self::Integers => FilterId::INT_TRUNC,
        }
    }
    fn name(&self) -> &str {
        match self {
            Self::Floats => "trunc_prec",
            Self::Integers => "int_trunc",
        }
    }
    fn properties(&self, _cx: &FilterContext<'_>, _meta: u8) -> FilterProperties {
        FilterProperties::UNKNOWN
            .shapeless(true)
            .effect(Effect::KeepsZeros)
            .keeps_floats(matches!(self, Self::Floats))
            .backward_is_copy(true)
    }
    fn forward(&self, cx: &FilterContext<'_>, meta: u8, src: &[u8], dst: &mut [u8]) -> Result<()> {
        crate::filter::may_apply(self.id())?;
        same_length(self.id(), src, dst)?;
        let bits = match (self, cx.itemsize) {
            (Self::Floats, 4) => 23,
            (Self::Floats, 8) => 52,
            (Self::Integers, typesize @ (1 | 2 | 4 | 8)) => 8 * typesize as u32,
            (_, typesize) => return Err(FilterError::ItemSize { filter: self.id(), itemsize: typesize }),
        };
        let Some(zeroed) = bits_to_clear(meta, bits) else {
            let what = match self {
                Self::Floats => {
                    "give the number of mantissa bits to keep, up to 23 for items of 4 bytes and 52 for 8 bytes, or minus the number \
                     to clear"
                }
                Self::Integers => {
                    "give the number of bits to keep, at most those of an item, or minus the number to clear"
                }
            };
            return Err(FilterError::Meta { filter: self.id(), meta, what });
        };
        clear_low_bits(cx.itemsize, zeroed, src, dst);
        Ok(())
    }
    fn backward(&self, _cx: &FilterContext<'_>, _meta: u8, src: &[u8], dst: &mut [u8]) -> Result<()> {
        same_length(self.id(), src, dst)?;
        dst.copy_from_slice(src);
        Ok(())
    }
}

/// Returns how many of `bits` low bits the signed parameter clears, or `None` if it would clear all.
fn bits_to_clear(meta: u8, bits: u32) -> Option<u32> {
    let precision = i32::from(meta as i8);
    let keep = precision.unsigned_abs();
    let zeroed = if precision >= 0 { bits.checked_sub(keep)? } else { keep };
    (zeroed < bits).then_some(zeroed)
}

/// Clears the low bits of little-endian items of 1, 2, 4 or 8 bytes; a tail shorter than an item is copied.
fn clear_low_bits(typesize: usize, zeroed: u32, src: &[u8], dst: &mut [u8]) {
    let item = (u64::MAX << zeroed).to_le_bytes();
    // The mask for eight bytes, whatever the item size.
    let mask: [u8; 8] = std::array::from_fn(|k| item[k % typesize]);
    let body = src.len() - src.len() % typesize;
    let (words, _) = src[..body].as_chunks::<8>();
    let (outs, _) = dst[..body].as_chunks_mut::<8>();
    for (s, d) in words.iter().zip(outs) {
        *d = (u64::from_le_bytes(*s) & u64::from_le_bytes(mask)).to_le_bytes();
    }
    for at in words.len() * 8..body {
        dst[at] = src[at] & mask[at % 8];
    }
    dst[body..].copy_from_slice(&src[body..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forward(filter: Truncate, typesize: usize, meta: i8, src: &[u8]) -> Result<Vec<u8>> {
        let mut dst = vec![0xEE; src.len()];
        filter.forward(&FilterContext::new(typesize), meta as u8, src, &mut dst).map(|()| dst)
    }

    mod floats {
        use super::*;

        fn forward(typesize: usize, meta: i8, src: &[u8]) -> Result<Vec<u8>> {
            super::forward(Truncate::Floats, typesize, meta, src)
        }

        #[test]
        fn by_hand() {
            // Keeping 7 of 23 bits clears 16.
            assert_eq!(forward(4, 7, &[0xFF; 9]).unwrap(), [0, 0, 255, 255, 0, 0, 255, 255, 255]);
            assert_eq!(forward(4, -16, &[0xFF; 9]).unwrap(), [0, 0, 255, 255, 0, 0, 255, 255, 255]);
            // A cleared half byte, three items.
            assert_eq!(forward(4, -4, &[0xFF; 12]).unwrap(), [240, 255, 255, 255].repeat(3));
            assert_eq!(forward(4, 23, &[0xFF; 4]).unwrap(), [0xFF; 4]);
            let pi = std::f64::consts::PI;
            let bits = pi.to_bits() & !((1 << 42) - 1);
            assert_eq!(forward(8, 10, &pi.to_le_bytes()).unwrap(), bits.to_le_bytes());
            assert_eq!(forward(8, -51, &[0xFF; 8]).unwrap(), [0, 0, 0, 0, 0, 0, 0xF8, 0xFF]);
            assert_eq!(forward(8, 1, &[0xFF; 3]).unwrap(), [0xFF; 3]);
        }

        #[test]
        fn parameters_are_checked() {
            for (typesize, meta) in
                [(4, 0), (4, 24), (4, -23), (4, -128), (8, 0), (8, 53), (8, -52), (8, 127)]
            {
                assert!(matches!(forward(typesize, meta, &[0; 8]), Err(FilterError::Meta { .. })), "{meta}");
            }
            for typesize in [0, 1, 2, 3, 16] {
                assert!(
                    matches!(forward(typesize, 4, &[0; 8]), Err(FilterError::ItemSize { .. })),
                    "{typesize}"
                );
            }
        }

        #[test]
        fn backward_copies_whatever_the_parameters() {
            let mut dst = [9; 3];
            Truncate::Floats.backward(&FilterContext::new(0), 0, &[1, 2, 3], &mut dst).unwrap();
            assert_eq!(dst, [1, 2, 3]);
        }
    }

    mod integers {
        use super::*;

        fn forward(typesize: usize, meta: i8, src: &[u8]) -> Result<Vec<u8>> {
            super::forward(Truncate::Integers, typesize, meta, src)
        }

        #[test]
        fn by_hand() {
            assert_eq!(forward(1, 3, &[0xFF; 11]).unwrap(), [0xE0; 11]);
            assert_eq!(forward(1, -3, &[0xFF; 2]).unwrap(), [0xF8; 2]);
            assert_eq!(forward(1, 8, &[0xA5]).unwrap(), [0xA5]);
            assert_eq!(forward(2, -9, &[0xFF; 5]).unwrap(), [0, 0xFE, 0, 0xFE, 0xFF]);
            assert_eq!(forward(4, 1, &[0xFF; 8]).unwrap(), [0, 0, 0, 0x80, 0, 0, 0, 0x80]);
            assert_eq!(forward(8, -63, &[0xFF; 8]).unwrap(), [0, 0, 0, 0, 0, 0, 0, 0x80]);
            assert_eq!(forward(8, -1, &[0xFF; 8]).unwrap(), [0xFE, 255, 255, 255, 255, 255, 255, 255]);
        }

        #[test]
        fn parameters_are_checked() {
            for (typesize, meta) in [(1, 0), (1, 9), (1, -8), (2, 17), (4, -32), (8, 65), (8, -64), (8, -128)]
            {
                assert!(matches!(forward(typesize, meta, &[0; 8]), Err(FilterError::Meta { .. })), "{meta}");
            }
            for typesize in [0, 3, 16] {
                assert!(
                    matches!(forward(typesize, 4, &[0; 8]), Err(FilterError::ItemSize { .. })),
                    "{typesize}"
                );
            }
        }
    }
}
