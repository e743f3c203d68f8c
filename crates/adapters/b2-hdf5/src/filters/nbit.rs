//! N-bit (filter 5): the significant bits of numbers, without the padding around them.
//!
//! The parameters are their number, a flag that data are not packed, the number of items, and a description of the item:
//!
//! ```text
//! number    = 1, size, order (0 little-endian, 1 big-endian), precision, offset
//! array     = 2, size, description of its items
//! compound  = 3, size, number of fields, then for each its offset and description
//! other     = 4, size
//! ```
//!
//! Bits follow each other without gaps, from the most significant bit of a number down. Bytes of other types are stored
//! unchanged. Padding is 0.

use super::bits::Bits;

/// Maximum nesting, more than datatypes may have.
const MAX_DEPTH: usize = 32;

/// Decodes a chunk into `dst`. Returns `None` for data or parameters that do not fit.
pub(super) fn decode(params: &[u32], src: &[u8], dst: &mut [u8]) -> Option<()> {
    let &[own, is_plain, _, ref rest @ ..] = params else { return None };
    if usize::try_from(own).ok()? != params.len() || decoded_len(params, src.len())? != dst.len() {
        return None;
    }
    if is_plain != 0 {
        dst.copy_from_slice(src);
        return Some(());
    }
    let item = Item::parse(&mut rest.iter().copied(), 0)?;
    dst.fill(0);
    let mut bits = Bits::new(src);
    dst.chunks_exact_mut(item.size()).try_for_each(|place| item.decode(&mut bits, place))
}

/// Returns the bytes that a chunk of `stored` bytes has by its parameters. If nothing was packed, they may end before the
/// item.
pub(super) fn decoded_len(params: &[u32], stored: usize) -> Option<usize> {
    let number = |n: usize| params.get(n).and_then(|&value| usize::try_from(value).ok());
    if number(1)? != 0 {
        return Some(stored);
    }
    number(2)?.checked_mul(number(4)?)
}

/// The parts of an item. No size is 0.
enum Item {
    Number { size: usize, is_big: bool, precision: usize, offset: usize },
    Array { size: usize, of: Box<Self> },
    Compound { size: usize, fields: Vec<(usize, Self)> },
    Other { size: usize },
}

impl Item {
    fn size(&self) -> usize {
        match self {
            Self::Number { size, .. }
            | Self::Array { size, .. }
            | Self::Compound { size, .. }
            | Self::Other { size } => *size,
        }
    }

    fn parse(params: &mut impl Iterator<Item = u32>, depth: usize) -> Option<Self> {
        if depth > MAX_DEPTH {
            return None;
        }
        let mut number = || usize::try_from(params.next()?).ok();
        let (class, size) = (number()?, number()?);
        if size == 0 {
            return None;
        }
        match class {
            1 => {
                let (order, precision, offset) = (number()?, number()?, number()?);
                let fits = precision > 0 && precision.checked_add(offset)? <= size.checked_mul(8)?;
                (fits && order <= 1).then_some(Self::Number { size, is_big: order == 1, precision, offset })
            }
            2 => {
                let of = Box::new(Self::parse(params, depth.checked_add(1)?)?);
                size.is_multiple_of(of.size()).then_some(Self::Array { size, of })
            }
            3 => {
                let (count, mut fields) = (number()?, Vec::new());
                // Fields must not overlap, so that the work for an item is bounded by its size.
                let mut left = size;
                for _ in 0..count {
                    let offset = usize::try_from(params.next()?).ok()?;
                    let field = Self::parse(params, depth.checked_add(1)?)?;
                    left = left.checked_sub(field.size())?;
                    if offset.checked_add(field.size())? > size {
                        return None;
                    }
                    fields.push((offset, field));
                }
                Some(Self::Compound { size, fields })
            }
            4 => Some(Self::Other { size }),
            _ => None,
        }
    }

    /// Decodes into `place`, which has the size of the item and is zero.
    fn decode(&self, bits: &mut Bits<'_>, place: &mut [u8]) -> Option<()> {
        match self {
            &Self::Number { size, is_big, precision, offset } => {
                let mut end = offset.checked_add(precision)?;
                while end > offset {
                    // The part of the number that is in one byte.
                    let byte = end.checked_sub(1)? / 8;
                    let start = offset.max(byte.checked_mul(8)?);
                    let part = bits.take(u32::try_from(end.checked_sub(start)?).ok()?)?;
                    let at = if is_big { size.checked_sub(byte)?.checked_sub(1)? } else { byte };
                    *place.get_mut(at)? = u8::try_from(part << (start % 8)).ok()?;
                    end = start;
                }
                Some(())
            }
            Self::Array { of, .. } => {
                place.chunks_exact_mut(of.size()).try_for_each(|place| of.decode(bits, place))
            }
            Self::Compound { fields, .. } => fields.iter().try_for_each(|(offset, field)| {
                field.decode(bits, place.get_mut(*offset..offset.checked_add(field.size())?)?)
            }),
            Self::Other { .. } => place.iter_mut().try_for_each(|byte| {
                *byte = u8::try_from(bits.take(8)?).ok()?;
                Some(())
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_unpacked() {
        // 12 bits from bit 2 on, of 2 bytes.
        let mut dst = [0; 4];
        let params = |order: u32| [8, 0, 2, 1, 2, order, 12, 2];
        decode(&params(0), &[0xAB, 0xC1, 0x23], &mut dst).unwrap();
        assert_eq!(dst, [0xF0, 0x2A, 0x8C, 0x04]);
        decode(&params(1), &[0xAB, 0xC1, 0x23], &mut dst).unwrap();
        assert_eq!(dst, [0x2A, 0xF0, 0x04, 0x8C]);
        assert_eq!(decode(&params(0), &[0xAB, 0xC1], &mut dst), None);
    }

    #[test]
    fn compounds_are_unpacked_field_by_field() {
        // A number of 4 bits, two bytes as they are, an array of two numbers of 6 bits; a byte of padding.
        let item = [3, 6, 3, 0, 1, 1, 0, 4, 0, 2, 4, 2, 4, 2, 2, 1, 1, 0, 6, 1];
        let params: Vec<u32> = [23, 0, 1].into_iter().chain(item).collect();
        let mut dst = [9; 6];
        decode(&params, &[0xF1, 0x22, 0x3F, 0xFF], &mut dst).unwrap();
        assert_eq!(dst, [0x0F, 0, 0x12, 0x23, 0x7E, 0x7E]);
    }

    #[test]
    fn bytes_that_were_not_packed_are_copied() {
        let mut dst = [0; 4];
        assert_eq!(decode(&[3, 1, 2], &[1, 2, 3, 4], &mut dst), Some(()));
        assert_eq!(dst, [1, 2, 3, 4]);
        assert_eq!(decode(&[3, 1, 2], &[1, 2, 3], &mut dst), None);
    }

    #[test]
    fn parameters_that_do_not_fit_are_refused() {
        let mut dst = [0; 4];
        let src = [0; 64];
        for params in [
            &[][..],
            &[8, 0, 2],
            &[7, 0, 2, 1, 2, 0, 12, 2],
            &[8, 0, 3, 1, 2, 0, 12, 2],
            &[8, 0, 2, 1, 2, 0, 12, 5],
            &[8, 0, 2, 1, 2, 0, 0, 5],
            &[8, 0, 2, 1, 2, 2, 12, 2],
            &[8, 0, 2, 5, 2, 0, 12, 2],
            &[5, 0, 2, 4, 0],
            // Fields that share a byte, or reach over the end.
            &[12, 0, 1, 3, 4, 2, 0, 4, 3, 1, 4, 3],
            &[9, 0, 1, 3, 4, 1, 2, 4, 3],
            // An array whose items do not fill it.
            &[7, 0, 1, 2, 4, 4, 3],
        ] {
            assert_eq!(decode(params, &src, &mut dst), None, "{params:?}");
        }
        let deep: Vec<u32> = [0, 0, 1].into_iter().chain([2, 4].repeat(40)).chain([4, 4]).collect();
        let deep: Vec<u32> = std::iter::once(deep.len() as u32).chain(deep.into_iter().skip(1)).collect();
        assert_eq!(decode(&deep, &src, &mut dst), None);
    }
}
