//! Boxes of items in memory, in C order.

use anyhow::{Context, Result};
use b2kit::base::memory;

use super::product;

/// Items of an array.
#[derive(Clone, Copy, Debug)]
pub(super) struct Region<'a> {
    pub(super) start: &'a [u64],
    pub(super) shape: &'a [u64],
}

/// The coordinates of the n-th position in C order.
pub(super) fn coordinates(n: u64, counts: &[u64]) -> Vec<u64> {
    let mut rest = n;
    let mut coords: Vec<u64> = counts
        .iter()
        .rev()
        .map(|count| {
            let at = rest % (*count).max(1);
            rest /= (*count).max(1);
            at
        })
        .collect();
    coords.reverse();
    coords
}

/// Copies the intersection of two boxes.
pub(super) fn copy_shared(
    from: Region<'_>,
    src: &[u8],
    to: Region<'_>,
    dst: &mut [u8],
    itemsize: usize,
) -> Result<()> {
    rows(from, to, itemsize, |from, to, len| {
        let row = src.get(from..from.checked_add(len)?)?;
        dst.get_mut(to..to.checked_add(len)?)?.copy_from_slice(row);
        Some(())
    })
}

/// Fills the intersection of two boxes with one item.
pub(super) fn fill_shared(from: Region<'_>, to: Region<'_>, item: &[u8], dst: &mut [u8]) -> Result<()> {
    rows(from, to, item.len(), |_, to, len| {
        let row = dst.get_mut(to..to.checked_add(len)?)?;
        row.chunks_exact_mut(item.len()).for_each(|dst| dst.copy_from_slice(item));
        Some(())
    })
}

/// Calls `each` for the rows of the intersection of two boxes, with their offsets in both and their length, in bytes.
fn rows(
    from: Region<'_>,
    to: Region<'_>,
    itemsize: usize,
    mut each: impl FnMut(usize, usize, usize) -> Option<()>,
) -> Result<()> {
    let done = (|| {
        let dims = from.start.len();
        let (mut starts, mut counts) = (memory::list(dims).ok()?, memory::list(dims).ok()?);
        for ((a, an), (b, bn)) in from.start.iter().zip(from.shape).zip(to.start.iter().zip(to.shape)) {
            let (start, end) = ((*a).max(*b), a.checked_add(*an)?.min(b.checked_add(*bn)?));
            if end <= start {
                return Some(());
            }
            starts.push(start);
            counts.push(end - start);
        }
        let length = counts.pop().unwrap_or(1);
        let row = usize::try_from(length).ok()?.checked_mul(itemsize)?;
        let offset = |own: Region<'_>, at: &[u64]| -> Option<usize> {
            let mut offset = 0_u64;
            for ((at, start), length) in at.iter().zip(own.start).zip(own.shape) {
                offset = offset.checked_mul(*length)?.checked_add(at.checked_sub(*start)?)?;
            }
            usize::try_from(offset).ok()?.checked_mul(itemsize)
        };
        for n in 0..product(&counts) {
            let mut at = coordinates(n, &counts);
            at.push(0);
            let at: Vec<u64> = at.iter().zip(&starts).map(|(at, start)| at + start).collect();
            each(offset(from, &at)?, offset(to, &at)?, row)?;
        }
        Some(())
    })();
    done.context("items outside of a chunk")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_are_copied_and_filled() {
        let whole: Vec<u8> = (0..60).collect();
        let from = Region { start: &[10, 20], shape: &[6, 10] };
        let to = Region { start: &[12, 15], shape: &[2, 8] };
        let mut dst = vec![0xFF; 16];
        copy_shared(from, &whole, to, &mut dst, 1).unwrap();
        let row = |first: u8| [&[0xFF; 5][..], &[first, first + 1, first + 2]].concat();
        assert_eq!(dst, [row(20), row(30)].concat());
        fill_shared(from, to, &[7], &mut dst).unwrap();
        assert_eq!(dst[5..8], [7, 7, 7]);
        let none = Region { start: &[], shape: &[] };
        let mut one = [0, 0];
        copy_shared(none, &[1, 2], none, &mut one, 2).unwrap();
        fill_shared(none, none, &[1, 2], &mut one).unwrap();
        assert_eq!(one, [1, 2]);
        let apart = Region { start: &[0, 0], shape: &[2, 2] };
        copy_shared(from, &whole, apart, &mut [0; 4], 1).unwrap();
        copy_shared(from, &whole[..30], to, &mut [0; 16], 1).unwrap_err();
        assert_eq!(coordinates(7, &[2, 1, 4]), [1, 0, 3]);
    }
}
