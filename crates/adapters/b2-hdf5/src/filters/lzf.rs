//! LZF (filter 32000), which is part of h5py.

/// Decodes a stream. Returns the length of the result, or `None` if it does not fit into `dst`.
///
/// A control byte below 32 is followed by that many bytes and one more. Any other holds the upper bits of a distance and, in
/// its upper three bits, a length, which the next byte extends if it is 7.
pub(super) fn decode(src: &[u8], dst: &mut [u8]) -> Option<usize> {
    let (mut src, mut at) = (src, 0_usize);
    while let Some((&control, rest)) = src.split_first() {
        if control < 32 {
            let (literal, rest) = rest.split_at_checked(usize::from(control) + 1)?;
            let end = at.checked_add(literal.len())?;
            dst.get_mut(at..end)?.copy_from_slice(literal);
            (src, at) = (rest, end);
            continue;
        }
        let mut rest = rest;
        let mut length = usize::from(control >> 5);
        if length == 7 {
            let (&more, after) = rest.split_first()?;
            length = length.checked_add(usize::from(more))?;
            rest = after;
        }
        let (&low, after) = rest.split_first()?;
        let distance = (usize::from(control & 0x1F) << 8 | usize::from(low)).checked_add(1)?;
        let length = length.checked_add(2)?;
        let (from, end) = (at.checked_sub(distance)?, at.checked_add(length)?);
        if end > dst.len() {
            return None;
        }
        if distance >= length {
            dst.copy_within(from..from.checked_add(length)?, at);
        } else {
            // Source and destination may overlap: a pattern of `distance` bytes is repeated.
            for n in 0..length {
                let byte = *dst.get(from.checked_add(n)?)?;
                *dst.get_mut(at.checked_add(n)?)? = byte;
            }
        }
        (src, at) = (after, end);
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_repeated() {
        // Literal `ab`, then 5 bytes from a distance of 2, then 20 from a distance of 1.
        let stream = [1, b'a', b'b', 3 << 5, 1, 7 << 5, 11, 0];
        let mut dst = [0; 27];
        assert_eq!(decode(&stream, &mut dst), Some(27));
        assert_eq!(&dst[..7], b"abababa");
        assert_eq!(&dst[7..], [b'a'; 20]);
        assert_eq!(decode(&stream, &mut [0; 26]), None);
        assert_eq!(decode(&stream, &mut [0; 28]), Some(27));
        assert_eq!(decode(&[3 << 5, 0], &mut [0; 5]), None);
        for len in 1..stream.len() {
            assert_ne!(decode(&stream[..len], &mut [0; 27]), Some(27));
        }
    }
}
