//! Integer truncation (id 36): clears low bits of integers. Lossy, so undoing it is a copy.

use crate::trunc_prec::{bits_to_clear, clear_low_bits};
use crate::{Effect, Filter, FilterContext, FilterError, FilterId, FilterProperties, same_length};

/// The filter that clears low bits of integers (id 36), for items of 1, 2, 4 or 8 bytes.
///
/// The parameter byte is signed: bits to keep if positive, bits to clear if negative.
#[derive(Clone, Copy, Debug, Default)]
pub struct IntTrunc;

impl Filter for IntTrunc {
    fn id(&self) -> FilterId {
        FilterId::INT_TRUNC
    }
    fn name(&self) -> &str {
        "int_trunc"
    }
    fn properties(&self, _cx: &FilterContext<'_>, _meta: u8) -> FilterProperties {
        FilterProperties {
            shapeless: true,
            effect: Effect::KeepsZeros,
            backward_is_copy: true,
            ..FilterProperties::UNKNOWN
        }
    }
    fn forward(
        &self,
        cx: &FilterContext<'_>,
        meta: u8,
        src: &[u8],
        dst: &mut [u8],
    ) -> Result<(), FilterError> {
        same_length(self.id(), src, dst)?;
        let bits = match cx.typesize {
            1 => 8,
            2 => 16,
            4 => 32,
            8 => 64,
            typesize => return Err(FilterError::ItemSize { filter: self.id(), typesize }),
        };
        let Some(zeroed) = bits_to_clear(meta, bits) else {
            let what = "must keep at least one bit and no more than there are";
            return Err(FilterError::Meta { filter: self.id(), meta, what });
        };
        clear_low_bits(cx.typesize, zeroed, src, dst);
        Ok(())
    }
    fn backward(
        &self,
        _cx: &FilterContext<'_>,
        _meta: u8,
        src: &[u8],
        dst: &mut [u8],
    ) -> Result<(), FilterError> {
        same_length(self.id(), src, dst)?;
        dst.copy_from_slice(src);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forward(typesize: usize, meta: i8, src: &[u8]) -> Result<Vec<u8>, FilterError> {
        let mut dst = vec![0xEE; src.len()];
        IntTrunc.forward(&FilterContext::new(typesize), meta as u8, src, &mut dst).map(|()| dst)
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
        for (typesize, meta) in [(1, 0), (1, 9), (1, -8), (2, 17), (4, -32), (8, 65), (8, -64), (8, -128)] {
            assert!(matches!(forward(typesize, meta, &[0; 8]), Err(FilterError::Meta { .. })), "{meta}");
        }
        for typesize in [0, 3, 16] {
            assert!(matches!(forward(typesize, 4, &[0; 8]), Err(FilterError::ItemSize { .. })), "{typesize}");
        }
    }
}
