//! Default chunk and block shapes.

use b2_chunk::MAX_CHUNK_NBYTES;

/// Target size of a block in bytes: a quarter of a common L2 cache, so that source, scratch and
/// destination fit in it.
const BLOCK_TARGET: u64 = 256 * 1024;
/// Target size of a chunk in bytes.
const CHUNK_TARGET: u64 = 32 * BLOCK_TARGET;

/// Returns a block shape of about 256 KiB for an array of this `shape`, with items of `itemsize`
/// bytes.
///
/// Dimensions are taken whole, from the last to the first, as long as they fit, as python-blosc2 does. Dimensions
/// without items get the remaining space, since they can grow. The result does not depend on the machine, so the same
/// input gives the same file everywhere.
pub(crate) fn default_blockshape(shape: &[u64], itemsize: usize) -> Vec<u32> {
    let mut blockshape = walk(shape, &vec![1; shape.len()], BLOCK_TARGET / (itemsize as u64).max(1));
    let share = share(shape, &blockshape, BLOCK_TARGET, itemsize);
    for (b, _) in blockshape.iter_mut().zip(shape).filter(|(b, s)| **s == 0 && **b == 0) {
        *b = share;
    }
    blockshape
}

/// Returns a chunk shape of about 8 MiB that holds whole blocks of `blockshape`. A dimension without items has chunks, too,
/// so that it can grow.
///
/// ```
/// assert_eq!(b2nd::default_chunkshape(&[1000, 1000, 1000], &[1, 65, 1000], 4), [2, 1000, 1000]);
/// ```
pub fn default_chunkshape(shape: &[u64], blockshape: &[u32], itemsize: usize) -> Vec<u32> {
    let item = (itemsize as u64).max(1);
    let budget = (CHUNK_TARGET / item).max(1);
    let mut chunkshape = walk(shape, blockshape, budget);
    for ((c, &b), &s) in chunkshape.iter_mut().zip(blockshape).zip(shape) {
        // Round up to whole blocks, but not past the edge of the array.
        let whole = u64::from(*c).next_multiple_of(u64::from(b.max(1)));
        *c = u32::try_from(whole.min(s.max(1))).unwrap_or(*c);
    }
    // Rounding up can exceed the largest chunk size of the format.
    let padded = |chunkshape: &[u32]| -> u64 {
        chunkshape
            .iter()
            .zip(blockshape)
            .map(|(&c, &b)| u64::from(c).next_multiple_of(u64::from(b.max(1))))
            .fold(item, u64::saturating_mul)
    };
    if padded(&chunkshape) > MAX_CHUNK_NBYTES as u64 {
        return growable(shape, blockshape, blockshape, itemsize).0;
    }
    growable(shape, &chunkshape, blockshape, itemsize).0
}

/// Returns chunk and block shapes in which the lengths of 0 along dimensions without items are replaced, so that these
/// can grow. Other lengths stay.
pub(crate) fn growable(
    shape: &[u64],
    chunkshape: &[u32],
    blockshape: &[u32],
    itemsize: usize,
) -> (Vec<u32>, Vec<u32>) {
    let of_chunks = share(shape, chunkshape, CHUNK_TARGET, itemsize);
    let of_blocks = share(shape, blockshape, BLOCK_TARGET, itemsize);
    let lengths = shape.iter().zip(chunkshape.iter().zip(blockshape)).map(|(&s, (&c, &b))| match (s, c, b) {
        (0, 0, 0) => (of_chunks.max(of_blocks), of_blocks),
        // Whole blocks.
        (0, 0, b) => ((of_chunks - of_chunks % b).max(b), b),
        (0, c, 0) => (c, of_blocks.min(c)),
        _ => (c, b),
    });
    lengths.unzip()
}

/// Returns the length for each dimension without items and without a length: a power of two, so that all of them together
/// fill what the other lengths leave of `target` bytes.
fn share(shape: &[u64], lengths: &[u32], target: u64, itemsize: usize) -> u32 {
    let open = shape.iter().zip(lengths).filter(|(s, n)| **s == 0 && **n == 0).count();
    let taken =
        lengths.iter().map(|&n| u64::from(n.max(1))).fold(itemsize.max(1) as u64, u64::saturating_mul);
    let bits = (target / taken).checked_ilog2().unwrap_or(0) as usize;
    1 << bits.checked_div(open).unwrap_or(0)
}

/// Takes dimensions from the last to the first until the budget (in items) is used up.
fn walk(shape: &[u64], least: &[u32], mut budget: u64) -> Vec<u32> {
    let mut out = vec![0; shape.len()];
    // Product of the minimum lengths of the dimensions not yet visited.
    let mut reserved: u64 = least.iter().map(|&n| u64::from(n.max(1))).product();
    for dim in (0..shape.len()).rev() {
        let (length, least) = (shape[dim], u64::from(least[dim].max(1)));
        reserved /= least;
        let available = (budget / reserved.max(1)).max(least).max(1);
        let take = if length <= available { length } else { nearby_divisor(length, available) };
        // A length of 2^31 or more never fits the budget.
        out[dim] = u32::try_from(take).unwrap_or(i32::MAX as u32);
        budget = (budget / take.max(1)).max(1);
    }
    out
}

/// Returns a divisor of `length` between half of `at_most` and `at_most`, so that no ragged edge is
/// left; `at_most` if there is none.
fn nearby_divisor(length: u64, at_most: u64) -> u64 {
    (at_most.div_ceil(2)..=at_most).rev().find(|&n| length.is_multiple_of(n)).unwrap_or(at_most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Geometry;

    #[test]
    fn defaults_always_make_a_valid_geometry() {
        let shapes: [&[u64]; 12] = [
            &[],
            &[0],
            &[1],
            &[10],
            &[0, 5],
            &[5, 0, 7],
            &[1_000_000_007],
            &[3, 1 << 40],
            &[100; 6],
            &[2; 16],
            &[1, 1, 1],
            &[u32::MAX as u64 + 5],
        ];
        for shape in shapes {
            for itemsize in [1, 2, 3, 8, 12, 300, 100_000, 20_000_000, 300_000_000] {
                let blocks = default_blockshape(shape, itemsize);
                let chunks = default_chunkshape(shape, &blocks, itemsize);
                let Ok(g) = Geometry::new(shape.to_vec(), chunks.clone(), blocks.clone(), itemsize) else {
                    // Fails only if the array itself exceeds the format's limits.
                    let nitems: u128 = shape.iter().map(|&n| u128::from(n)).product();
                    assert!(
                        nitems * itemsize as u128 > 1 << 62,
                        "{shape:?} {itemsize}: {chunks:?} {blocks:?}"
                    );
                    continue;
                };
                assert!(g.block_nbytes() as u64 <= BLOCK_TARGET.max(itemsize as u64));
                assert!(g.chunk_nbytes() as u64 <= 2 * CHUNK_TARGET.max(itemsize as u64));
                assert!(g.block_nbytes() > 0, "{shape:?} {itemsize}");
            }
        }
    }

    #[test]
    fn dimensions_without_items_can_grow() {
        type Case = (&'static [u64], usize, &'static [u32], &'static [u32]);
        let cases: [Case; 7] = [
            (&[0], 8, &[1 << 20], &[1 << 15]),
            (&[0, 5], 4, &[1 << 18, 5], &[1 << 13, 5]),
            (&[5, 0, 7], 4, &[5, 1 << 15, 7], &[5, 1 << 10, 7]),
            (&[0, 0], 4, &[1 << 10, 1 << 10], &[1 << 8, 1 << 8]),
            (&[0, 1000, 1000], 4, &[2, 1000, 1000], &[1, 50, 1000]),
            (&[1000, 1000, 0], 4, &[1000, 1000, 2], &[50, 1000, 1]),
            (&[0, 3], 100_000_000, &[1, 1], &[1, 1]),
        ];
        for (shape, itemsize, chunks, blocks) in cases {
            let found = default_blockshape(shape, itemsize);
            assert_eq!(found, blocks, "{shape:?}");
            assert_eq!(default_chunkshape(shape, &found, itemsize), chunks, "{shape:?}");
        }
        let filled = |chunks: &[u32], blocks: &[u32]| growable(&[0, 5], chunks, blocks, 4);
        assert_eq!(filled(&[0, 5], &[0, 5]), (vec![1 << 18, 5], vec![1 << 13, 5]));
        assert_eq!(filled(&[0, 5], &[3, 5]), (vec![(1 << 18) - 1, 5], vec![3, 5]));
        assert_eq!(filled(&[7, 5], &[0, 2]), (vec![7, 5], vec![7, 2]));
        assert_eq!(filled(&[7, 0], &[7, 0]), (vec![7, 0], vec![7, 0]));
    }
}
