//! The reference implementation, bit by bit: short, slow, and compared with every kernel in tests.

/// Bit-shuffles `src`. `typesize` must be at least 1, and both slices must have the same length.
pub(crate) fn bitshuffle(typesize: usize, src: &[u8], dst: &mut [u8]) {
    dst.copy_from_slice(src);
    let q = (src.len() / typesize) & !7;
    dst[..q * typesize].fill(0);
    for i in 0..q {
        for k in 0..8 * typesize {
            let bit = (src[i * typesize + k / 8] >> (k % 8)) & 1;
            dst[k * (q / 8) + i / 8] |= bit << (i % 8);
        }
    }
}

/// Reverses [`bitshuffle`].
pub(crate) fn bitunshuffle(typesize: usize, src: &[u8], dst: &mut [u8]) {
    dst.copy_from_slice(src);
    let q = (src.len() / typesize) & !7;
    dst[..q * typesize].fill(0);
    for i in 0..q {
        for k in 0..8 * typesize {
            let bit = (src[k * (q / 8) + i / 8] >> (i % 8)) & 1;
            dst[i * typesize + k / 8] |= bit << (k % 8);
        }
    }
}
