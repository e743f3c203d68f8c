//! Converts Fortran order to C order in memory.

/// Side length of the tiles for transposing the first and the last axis: two tiles fit in the L1 cache.
const TILE: usize = 32;

/// Copies a box from Fortran order to C order. `shape` is in items; both slices have the size of the box.
pub(crate) fn reverse_axes(src: &[u8], dst: &mut [u8], shape: &[u64], itemsize: usize) {
    if shape.iter().filter(|len| **len > 1).count() < 2 {
        // Both orders are the same.
        return dst.copy_from_slice(src);
    }
    match itemsize {
        1 => typed::<1>(src, dst, shape),
        2 => typed::<2>(src, dst, shape),
        4 => typed::<4>(src, dst, shape),
        8 => typed::<8>(src, dst, shape),
        16 => typed::<16>(src, dst, shape),
        n => for_each_pair(shape, |from, to| {
            dst[to * n..(to + 1) * n].copy_from_slice(&src[from * n..(from + 1) * n]);
        }),
    }
}

fn typed<const N: usize>(src: &[u8], dst: &mut [u8], shape: &[u64]) {
    let (src, _) = src.as_chunks::<N>();
    let (dst, _) = dst.as_chunks_mut::<N>();
    for_each_pair(shape, |from, to| dst[to] = src[from]);
}

/// Calls `copy` with the position of each item in Fortran order and in C order, tile by tile. There must be at least
/// two axes.
#[inline]
fn for_each_pair(shape: &[u64], mut copy: impl FnMut(usize, usize)) {
    let shape: Vec<usize> = shape.iter().map(|n| *n as usize).collect();
    let [rows, middle @ .., cols] = shape.as_slice() else { return };
    let planes: usize = middle.iter().product();
    let (from_col, to_row) = (rows * planes, planes * cols);
    for plane in 0..planes {
        // Position of the plane along the middle axes, in both orders.
        let (mut rest, mut from, mut to) = (plane, 0, 0);
        let (mut from_stride, mut to_stride) = (*rows, to_row);
        for len in middle {
            to_stride /= len;
            from += rest % len * from_stride;
            to += rest % len * to_stride;
            rest /= len;
            from_stride *= len;
        }
        for row0 in (0..*rows).step_by(TILE) {
            for col0 in (0..*cols).step_by(TILE) {
                for row in row0..(row0 + TILE).min(*rows) {
                    for col in col0..(col0 + TILE).min(*cols) {
                        copy(from + row + col * from_col, to + row * to_row + col);
                    }
                }
            }
        }
    }
}
