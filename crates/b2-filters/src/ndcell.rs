//! Cells (id 32): stores an N-dimensional block cell by cell, so that neighbours in space are neighbours in the stream.

use crate::cells::Cells;
use crate::error::Result;
use crate::filter::same_length;
use crate::{Filter, FilterContext, FilterError, FilterId, FilterProperties};

/// The cell filter (id 32), for blocks of b2nd arrays. The parameter byte is the side of the cells in items.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NdCell;

impl Filter for NdCell {
    fn id(&self) -> FilterId {
        FilterId::NDCELL
    }
    fn name(&self) -> &str {
        "ndcell"
    }
    fn properties(&self, _cx: &FilterContext<'_>, _meta: u8) -> FilterProperties {
        FilterProperties::UNKNOWN.lossless(true)
    }
    fn forward(&self, cx: &FilterContext<'_>, meta: u8, src: &[u8], dst: &mut [u8]) -> Result<()> {
        crate::filter::may_apply(self.id())?;
        cells(cx, meta, src, dst)?.to_cells(src, dst);
        Ok(())
    }
    fn backward(&self, cx: &FilterContext<'_>, meta: u8, src: &[u8], dst: &mut [u8]) -> Result<()> {
        cells(cx, meta, src, dst)?.to_block(src, dst);
        Ok(())
    }
}

fn cells(cx: &FilterContext<'_>, meta: u8, src: &[u8], dst: &[u8]) -> Result<Cells> {
    let wrong = |what| FilterError::Meta { filter: FilterId::NDCELL, meta, what };
    same_length(FilterId::NDCELL, src, dst)?;
    if meta == 0 {
        return Err(wrong("give the side of a cell, 1 to 255 items"));
    }
    let cells = Cells::new(FilterId::NDCELL, cx, src.len(), |_| meta.into())?;
    // `Cells` has checked that there are at most 8 dimensions.
    let volume = usize::from(meta).checked_pow(cx.blockshape.len() as u32);
    if volume.is_none_or(|volume| volume > cells.nitems()) {
        return Err(wrong("a cell has more items than the block"));
    }
    Ok(cells)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context<'a>(itemsize: usize, blockshape: &'a [u32]) -> FilterContext<'a> {
        FilterContext::new(itemsize).full_itemsize(Some(itemsize)).blockshape(blockshape)
    }

    fn check(itemsize: usize, blockshape: &[u32], side: u8, plain: &[u8], stored: &[u8]) {
        let cx = context(itemsize, blockshape);
        let (mut out, mut back) = (vec![0xEE; plain.len()], vec![0x55; plain.len()]);
        NdCell.forward(&cx, side, plain, &mut out).unwrap();
        assert_eq!(out, stored, "forward");
        NdCell.backward(&cx, side, stored, &mut back).unwrap();
        assert_eq!(back, plain, "backward");
    }

    #[test]
    fn by_hand() {
        check(1, &[5], 2, &[0, 1, 2, 3, 4], &[0, 1, 2, 3, 4]);
        // 3 x 5 items, side 2: cells of 2x2, 2x2, 2x1, then 1x2, 1x2, 1x1.
        check(
            1,
            &[3, 5],
            2,
            &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14],
            &[0, 1, 5, 6, 2, 3, 7, 8, 4, 9, 10, 11, 12, 13, 14],
        );
        check(2, &[2, 2], 1, &[1, 2, 3, 4, 5, 6, 7, 8], &[1, 2, 3, 4, 5, 6, 7, 8]);
        check(3, &[2, 3], 2, b"aaabbbcccdddeeefff", b"aaabbbdddeeecccfff");
        // A dimension shorter than the side of a cell.
        check(1, &[1, 4], 2, &[0, 1, 2, 3], &[0, 1, 2, 3]);
        check(1, &[2, 2, 2], 2, &[0, 1, 2, 3, 4, 5, 6, 7], &[0, 1, 2, 3, 4, 5, 6, 7]);
        check(
            1,
            &[2, 3, 2],
            2,
            &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11],
            &[0, 1, 2, 3, 6, 7, 8, 9, 4, 5, 10, 11],
        );
    }

    #[test]
    fn odd_shapes_come_back() {
        for (itemsize, shape, side) in [
            (4, &[7, 9, 5][..], 3),
            (8, &[13, 17], 4),
            (1, &[1, 1, 100], 2),
            (2, &[3, 3, 3, 3], 2),
            (1, &[2, 3, 2, 3, 2, 3, 2, 3], 2),
            (5, &[255], 255),
            (16, &[31, 33], 4),
            (300, &[3, 4], 2),
        ] {
            let n = shape.iter().product::<u32>() as usize * itemsize;
            let plain: Vec<u8> = (0..n).map(|k| (k ^ (k >> 8)) as u8).collect();
            let (mut out, mut back) = (vec![0; n], vec![1; n]);
            NdCell.forward(&context(itemsize, shape), side, &plain, &mut out).unwrap();
            NdCell.backward(&context(itemsize, shape), side, &out, &mut back).unwrap();
            assert_eq!(back, plain, "{shape:?}");
        }
    }

    #[test]
    fn hostile_parameters_are_errors() {
        let err = |cx: FilterContext<'_>, meta, n: usize| {
            NdCell.backward(&cx, meta, &vec![0; n], &mut vec![0; n]).unwrap_err()
        };
        let meta = |e: FilterError| matches!(e, FilterError::Meta { .. });
        let container = |e: FilterError| matches!(e, FilterError::Container { .. });
        assert!(meta(err(context(1, &[4, 4]), 0, 16)));
        // A cell has more items than the block: 5^2 > 16, and 255^8.
        assert!(meta(err(context(1, &[4, 4]), 5, 16)));
        assert!(meta(err(context(1, &[2; 8]), 255, 256)));
        assert!(container(err(context(1, &[]), 1, 16)));
        assert!(container(err(context(1, &[1; 9]), 1, 1)));
        assert!(container(err(context(1, &[4, 4]), 2, 15)));
        assert!(container(err(context(2, &[4, 4]), 2, 16)));
        assert!(container(err(context(0, &[4, 4]), 2, 0)));
        assert!(container(err(context(4, &[0, 4]), 2, 0)));
        // The product is 2^64 or more, and must not wrap to the real length.
        assert!(container(err(context(1, &[u32::MAX; 8]), 2, 1)));
        assert!(container(err(context(16, &[1 << 30, 1 << 30]), 2, 0)));
    }
}
