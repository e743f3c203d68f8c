//! Scale-offset (filter 6): the differences of numbers from the smallest one of the chunk, in as few bits as they need.
//!
//! ```text
//! stream      = bits of a difference 32, bytes of the smallest number 8, the smallest number 128, differences
//! parameters  = kind of scale, scale, number of items, class, size, sign, order, whether there is a fill value,
//!               the fill value, little-endian in words; 20 in all
//! ```
//!
//! Integers in the stream are little-endian. A difference of all ones represents the fill value, if there is one. Floats
//! are rounded to decimal places: differences are integers, divided by a power of ten. Where all bits would be needed,
//! the numbers are stored unchanged, and without the header if the scale of integers requests it.

use super::bits::Bits;

/// The kind of scale of floats by a power of ten.
const DECIMAL: u32 = 0;
/// The kind of scale of floats by a power of two, which no version of HDF5 implements.
pub(super) const BINARY: u32 = 1;
/// The kind of scale of integers.
const INTEGER: u32 = 2;
/// Number of parameters.
const PARAMS: usize = 20;
/// Bytes before the differences.
const HEADER: usize = 21;

/// Decodes a chunk into `dst`. Returns `None` for data or parameters that do not fit.
pub(super) fn decode(params: &[u32], src: &[u8], dst: &mut [u8]) -> Option<()> {
    let &[kind, scale, _, class, size, _, order, has_fill, low, high, ..] = params else { return None };
    if params.len() != PARAMS || decoded_len(params, src.len())? != dst.len() || order > 1 {
        return None;
    }
    if is_plain(params) {
        dst.copy_from_slice(src);
        return Some(());
    }
    let size = usize::try_from(size).ok()?;
    let sizes: &[usize] = if class == 0 { &[1, 2, 4, 8] } else { &[4, 8] };
    if !sizes.contains(&size) || (kind, class) != (INTEGER, 0) && (kind, class) != (DECIMAL, 1) {
        return None;
    }
    let (header, coded) = src.split_first_chunk::<HEADER>()?;
    let (width, header) = header.split_first_chunk::<4>()?;
    let width = u32::from_le_bytes(*width);
    let (&least_len, least) = header.split_first()?;
    let mut padded = [0; 8];
    for (to, from) in padded.iter_mut().zip(least.get(..least_len.into())?) {
        *to = *from;
    }
    let least = u64::from_le_bytes(padded);
    let fill = (has_fill == 1).then_some(u64::from(high) << 32 | u64::from(low));
    let whole = u32::try_from(size.checked_mul(8)?).ok()?;
    let numbers = dst.chunks_exact_mut(size);
    if width == whole {
        let mut stored = coded.chunks_exact(size);
        for place in numbers {
            place.copy_from_slice(stored.next()?);
            if order == 1 {
                place.reverse();
            }
        }
        return Some(());
    }
    if width > whole {
        return None;
    }
    let ones = (1_u64 << width).checked_sub(1)?;
    let digits = scale.cast_signed();
    let number = |difference: u64| match (fill, kind) {
        (Some(fill), _) if difference == ones => fill,
        (_, INTEGER) => least.wrapping_add(difference),
        _ if size == 4 => decimal32(least, difference, digits),
        _ => decimal64(least, difference, digits),
    };
    let mut bits = Bits::new(coded);
    for place in numbers {
        let bytes = number(bits.take_long(width)?).to_le_bytes();
        place.copy_from_slice(bytes.get(..size)?);
        if order == 1 {
            place.reverse();
        }
    }
    Some(())
}

/// Whether integers keep all their bits, so that the filter does nothing.
fn is_plain(params: &[u32]) -> bool {
    matches!(params, &[INTEGER, bits, _, _, size, ..] if size.checked_mul(8) == Some(bits))
}

/// Returns the bytes that a chunk of `stored` bytes has by its parameters.
pub(super) fn decoded_len(params: &[u32], stored: usize) -> Option<usize> {
    let number = |n: usize| params.get(n).and_then(|&value| usize::try_from(value).ok());
    if is_plain(params) {
        return Some(stored);
    }
    number(2)?.checked_mul(number(4)?)
}

/// The bits of a float: the smallest one, whose bits are given, and a difference that is scaled. HDF5 rounds in the same
/// places.
fn decimal32(least: u64, difference: u64, digits: i32) -> u64 {
    let least = f32::from_bits(least as u32);
    let power = 10_f64.powf(digits.into()) as f32;
    u64::from((difference as f32 / power + least).to_bits())
}

/// Like [`decimal32`], for floats of 8 bytes.
fn decimal64(least: u64, difference: u64, digits: i32) -> u64 {
    (difference as f64 / 10_f64.powf(digits.into()) + f64::from_bits(least)).to_bits()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(start: &[u32]) -> Vec<u32> {
        let mut params = start.to_vec();
        params.resize(PARAMS, 0);
        params
    }

    fn stream(width: u32, least: u64, coded: &[u8]) -> Vec<u8> {
        [&width.to_le_bytes()[..], &[8], &least.to_le_bytes(), &[0; 8], coded].concat()
    }

    #[test]
    fn integers_are_differences_or_the_fill_value() {
        let mut dst = [0; 8];
        let src = stream(4, (-3_i64) as u64, &[0x05, 0xF1]);
        decode(&params(&[INTEGER, 0, 4, 0, 2, 1, 0, 0]), &src, &mut dst).unwrap();
        assert_eq!(dst, [0xFD, 0xFF, 2, 0, 12, 0, 0xFE, 0xFF]);
        decode(&params(&[INTEGER, 0, 4, 0, 2, 1, 1, 1, 0x1234]), &src, &mut dst).unwrap();
        assert_eq!(dst, [0xFF, 0xFD, 0, 2, 0x12, 0x34, 0xFF, 0xFE]);
        // As they are.
        let src = stream(16, 0, &[1, 2, 3, 4, 5, 6, 7, 8]);
        decode(&params(&[INTEGER, 0, 4, 0, 2, 1, 1, 1, 0x1234]), &src, &mut dst).unwrap();
        assert_eq!(dst, [2, 1, 4, 3, 6, 5, 8, 7]);
        decode(&params(&[INTEGER, 16, 4, 0, 2, 1, 1, 0]), &[1, 2, 3, 4, 5, 6, 7, 8], &mut dst).unwrap();
        assert_eq!(dst, [1, 2, 3, 4, 5, 6, 7, 8]);
        // All equal: no bits.
        decode(&params(&[INTEGER, 0, 4, 0, 2, 1, 0, 0]), &stream(0, 7, &[]), &mut dst).unwrap();
        assert_eq!(dst, [7, 0, 7, 0, 7, 0, 7, 0]);
    }

    #[test]
    fn floats_are_scaled_differences() {
        let mut dst = [0; 4];
        let src = stream(8, 1.5_f32.to_bits().into(), &[125]);
        decode(&params(&[DECIMAL, 2, 1, 1, 4, 0, 0, 0]), &src, &mut dst).unwrap();
        assert_eq!(f32::from_le_bytes(dst), 2.75);
        decode(&params(&[DECIMAL, (-1_i32) as u32, 1, 1, 4, 0, 0, 0]), &src, &mut dst).unwrap();
        assert_eq!(f32::from_le_bytes(dst), 1251.5);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let good = [INTEGER, 0, 4, 0, 2, 1, 0, 0];
        let src = stream(4, 0, &[0, 0]);
        let mut dst = [0; 8];
        assert_eq!(decode(&params(&good), &src, &mut dst), Some(()));
        for (at, value) in [(0, DECIMAL), (0, BINARY), (2, 3), (3, 1), (4, 3), (4, 0), (6, 2)] {
            let mut bad = params(&good);
            bad[at] = value;
            assert_eq!(decode(&bad, &src, &mut dst), None, "{at} {value}");
        }
        assert_eq!(decode(&good, &src, &mut dst), None);
        assert_eq!(decode(&params(&good), &src[..22], &mut dst), None);
        assert_eq!(decode(&params(&good), &src[..20], &mut dst), None);
        assert_eq!(decode(&params(&good), &stream(17, 0, &[0; 64]), &mut dst), None);
        let mut long = src.clone();
        long[4] = 17;
        assert_eq!(decode(&params(&good), &long, &mut dst), None);
    }
}
