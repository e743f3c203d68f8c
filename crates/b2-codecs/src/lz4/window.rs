//! What all encoders share: the limits of the format, unaligned reads, lengths of matches.
//!
//! Encoders see a window: the dictionary, if there is one, with the stream right behind it.

/// Shortest match.
pub(super) const MIN_MATCH: usize = 4;
/// The last bytes of a block are literals, this many or more. Decoders in C rely on it.
pub(super) const LAST_LITERALS: usize = 5;
/// The last match starts at least this far from the end of the block. Decoders in C rely on it.
pub(super) const LAST_START: usize = 12;
/// Distances are less than this.
pub(super) const FAR: u32 = 1 << 16;

#[inline(always)]
pub(super) fn read_u32(window: &[u8], pos: usize) -> u32 {
    let mut bytes = [0; 4];
    bytes.copy_from_slice(&window[pos..][..4]);
    u32::from_le_bytes(bytes)
}

#[inline(always)]
pub(super) fn read_u64(window: &[u8], pos: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&window[pos..][..8]);
    u64::from_le_bytes(bytes)
}

/// How many bytes `a` and `b` have in common at their start.
#[inline(always)]
pub(super) fn common_len(a: &[u8], b: &[u8]) -> usize {
    let mut len = 0;
    for (x, y) in a.as_chunks::<8>().0.iter().zip(b.as_chunks::<8>().0) {
        let differs = u64::from_le_bytes(*x) ^ u64::from_le_bytes(*y);
        if differs != 0 {
            return len + (differs.trailing_zeros() / 8) as usize;
        }
        len += 8;
    }
    len + a[len..].iter().zip(&b[len..]).take_while(|(x, y)| x == y).count()
}

/// Where the first four of `bytes`, which are at `pos`, occurred `distance` before, if they did.
///
/// Distances of `FAR` and more come from entries of earlier streams. Which entries these are is as good as
/// random, so there is one branch only, on the result.
#[inline(always)]
pub(super) fn candidate(window: &[u8], pos: usize, bytes: u64, distance: u32) -> Option<usize> {
    let far = distance / FAR;
    // All ones if `far` is zero, else zero; `pos` is then compared with itself.
    let near = ((far as i32 - 1) >> 31) as u32;
    let cand = pos - (distance & near) as usize;
    let differs = (read_u32(window, cand) ^ bytes as u32) | far;
    (differs == 0).then_some(cand)
}

/// An array on the heap, all zeros.
pub(super) fn zeroed<T: Clone + Default, const N: usize>() -> Box<[T; N]> {
    // Not from an array, which would be on the stack first.
    match vec![T::default(); N].try_into() {
        Ok(array) => array,
        Err(_) => unreachable!("the vector has N elements"),
    }
}
