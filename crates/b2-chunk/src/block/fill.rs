//! Writing and detecting repeated values.

/// Bytes of the repeated pattern that are built before it is copied. They fit the first-level cache.
const PATTERN: usize = 16 << 10;

/// Fills `dst` with repetitions of `value`, starting `offset` bytes into the pattern. An empty value fills zeros.
///
/// ```
/// let mut dst = [0; 7];
/// b2_chunk::fill(&mut dst, b"abc", 1);
/// assert_eq!(&dst, b"bcabcab");
/// ```
pub fn fill(dst: &mut [u8], value: &[u8], offset: usize) {
    let (Some(&first), false) = (value.first(), dst.is_empty()) else { return dst.fill(0) };
    if value.iter().all(|&byte| byte == first) {
        return dst.fill(first);
    }
    let phase = offset % value.len();
    let head = dst.len().min(value.len());
    for (byte, from) in dst[..head].iter_mut().zip(value[phase..].iter().chain(value)) {
        *byte = *from;
    }
    // Double the number of whole values each time.
    let mut done = head;
    while done < PATTERN && done < dst.len() {
        let n = done.min(dst.len() - done);
        dst.copy_within(..n, done);
        done += n;
    }
    let (pattern, rest) = dst.split_at_mut(done);
    for piece in rest.chunks_mut(pattern.len()) {
        piece.copy_from_slice(&pattern[..piece.len()]);
    }
}

/// Returns the item of `width` bytes that `bytes` repeats at least twice, or `None`.
pub(crate) fn repeated(bytes: &[u8], width: usize) -> Option<&[u8]> {
    let (item, rest) = bytes.split_at_checked(width)?;
    let period = bytes.get(..rest.len())?;
    (width > 0 && rest.len() >= width && bytes.len().is_multiple_of(width) && period == rest).then_some(item)
}

/// Returns the byte that all of `bytes` are equal to, or `None`.
pub(crate) fn run_value(bytes: &[u8]) -> Option<u8> {
    match bytes {
        [] => None,
        [only] => Some(*only),
        [first, rest @ ..] => (bytes[..rest.len()] == *rest).then_some(*first),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fill_goes_on_from_any_offset() {
        for width in [1, 2, 3, 5, 8, 100, 4000, 20_000] {
            let value: Vec<u8> = (0..width).map(|i| (i * 7 + 1) as u8).collect();
            let all: Vec<u8> = value.iter().copied().cycle().take(100_000).collect();
            for (offset, len) in [(0, 0), (0, 1), (1, 7), (3, 100), (17, 70_000), (19_999, 50_001)] {
                let mut dst = vec![0xEE; len];
                fill(&mut dst, &value, offset);
                assert!(dst == all[offset..offset + len], "width {width}, offset {offset}, {len} bytes");
            }
        }
    }

    #[test]
    fn repetition() {
        assert_eq!(repeated(b"abcabcabc", 3), Some(&b"abc"[..]));
        assert_eq!(repeated(b"abcabcab", 3), None);
        assert_eq!(repeated(b"abcabcabd", 3), None);
        assert_eq!(repeated(b"abc", 3), None);
        assert_eq!(repeated(b"abcd", 3), None);
        assert_eq!(repeated(b"", 3), None);
        assert_eq!(repeated(b"aa", 0), None);
        assert_eq!(run_value(b""), None);
        assert_eq!(run_value(b"x"), Some(b'x'));
        assert_eq!(run_value(&[5; 100]), Some(5));
        for at in 0..100 {
            let mut bytes = [5; 100];
            bytes[at] = 4;
            assert_eq!(run_value(&bytes), None);
        }
    }
}
