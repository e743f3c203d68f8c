//! The definition: short, slow, and what every kernel is tested against.

/// Gathers the bytes of the same place in all items. `typesize` is at least 1, both slices have the same length.
pub(crate) fn shuffle(typesize: usize, src: &[u8], dst: &mut [u8]) {
    dst.copy_from_slice(src);
    let q = src.len() / typesize;
    for i in 0..q {
        for j in 0..typesize {
            dst[j * q + i] = src[i * typesize + j];
        }
    }
}

/// The inverse of [`shuffle`].
pub(crate) fn unshuffle(typesize: usize, src: &[u8], dst: &mut [u8]) {
    dst.copy_from_slice(src);
    let q = src.len() / typesize;
    for i in 0..q {
        for j in 0..typesize {
            dst[i * typesize + j] = src[j * q + i];
        }
    }
}
