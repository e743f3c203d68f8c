//! The reference implementation: short, slow, and compared with every kernel in tests.

/// Byte-shuffles `src`. `typesize` must be at least 1, and both slices must have the same length.
pub(crate) fn shuffle(typesize: usize, src: &[u8], dst: &mut [u8]) {
    dst.copy_from_slice(src);
    let q = src.len() / typesize;
    for i in 0..q {
        for j in 0..typesize {
            dst[j * q + i] = src[i * typesize + j];
        }
    }
}

/// Reverses [`shuffle`].
pub(crate) fn unshuffle(typesize: usize, src: &[u8], dst: &mut [u8]) {
    dst.copy_from_slice(src);
    let q = src.len() / typesize;
    for i in 0..q {
        for j in 0..typesize {
            dst[i * typesize + j] = src[j * q + i];
        }
    }
}
