//! Cell means (id 33): orders items like id 32 and replaces each by the mean of its cell. Lossy: undoing it only
//! restores the order.

use crate::cells::Cells;
use crate::error::Result;
use crate::filter::same_length;
use crate::{Filter, FilterContext, FilterError, FilterId};

/// The cell mean filter (id 33), for blocks of `f32` or `f64` arrays.
///
/// The parameter byte, 1 to 127, is the side of the cells in items, clipped to the block shape.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NdMean;

impl Filter for NdMean {
    fn id(&self) -> FilterId {
        FilterId::NDMEAN
    }
    fn name(&self) -> &str {
        "ndmean"
    }
    fn forward(&self, cx: &FilterContext<'_>, meta: u8, src: &[u8], dst: &mut [u8]) -> Result<()> {
        crate::filter::may_apply(self.id())?;
        let cells = cells(cx, meta, src, dst)?;
        // C-Blosc2 computes positions from the side in the first dimension alone, so it could not read such a block.
        let side = |dim: u32| dim.min(meta.into());
        if cx.blockshape.windows(2).any(|pair| side(pair[0]) != side(pair[1])) {
            let what = "the cell side would differ between dimensions";
            return Err(FilterError::Meta { filter: self.id(), meta, what });
        }
        cells.to_cells(src, dst);
        let mut from = 0;
        cells.lengths(|len| {
            let cell = &mut dst[from..from + len];
            if cells.itemsize == 4 {
                fill_with_mean_f32(cell);
            } else {
                fill_with_mean_f64(cell);
            }
            from += len;
        });
        Ok(())
    }
    fn backward(&self, cx: &FilterContext<'_>, meta: u8, src: &[u8], dst: &mut [u8]) -> Result<()> {
        cells(cx, meta, src, dst)?.to_block(src, dst);
        Ok(())
    }
}

fn cells(cx: &FilterContext<'_>, meta: u8, src: &[u8], dst: &[u8]) -> Result<Cells> {
    same_length(FilterId::NDMEAN, src, dst)?;
    if !(1..=127).contains(&meta) {
        let what = "give the side of a cell, 1 to 127 items";
        return Err(FilterError::Meta { filter: FilterId::NDMEAN, meta, what });
    }
    let cells = Cells::new(FilterId::NDMEAN, cx, src.len(), |dim| dim.min(meta.into()))?;
    if cells.itemsize != 4 && cells.itemsize != 8 {
        return Err(FilterError::ItemSize { filter: FilterId::NDMEAN, itemsize: cells.itemsize });
    }
    Ok(cells)
}

/// The sum is computed in the precision and order of the items, as the format requires: do not use a higher precision.
fn fill_with_mean_f32(cell: &mut [u8]) {
    let (items, _) = cell.as_chunks_mut::<4>();
    let sum = items.iter().fold(0.0, |sum, item| sum + f32::from_le_bytes(*item));
    let mean = sum / items.len() as f32;
    items.fill(mean.to_le_bytes());
}

fn fill_with_mean_f64(cell: &mut [u8]) {
    let (items, _) = cell.as_chunks_mut::<8>();
    let sum = items.iter().fold(0.0, |sum, item| sum + f64::from_le_bytes(*item));
    let mean = sum / items.len() as f64;
    items.fill(mean.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes4(items: &[f32]) -> Vec<u8> {
        items.iter().flat_map(|x| x.to_le_bytes()).collect()
    }

    fn context<'a>(itemsize: usize, blockshape: &'a [u32]) -> FilterContext<'a> {
        FilterContext::new(itemsize).full_itemsize(Some(itemsize)).blockshape(blockshape)
    }

    #[test]
    fn by_hand() {
        // 2 x 3, side 2: one full cell, one of a single column.
        let cx = context(4, &[2, 3]);
        let (mut out, mut back) = ([0xEE; 24], [0x55; 24]);
        NdMean.forward(&cx, 2, &bytes4(&[1.0, 2.0, 10.0, 3.0, 6.0, 20.0]), &mut out).unwrap();
        assert_eq!(out.as_slice(), bytes4(&[3.0, 3.0, 3.0, 3.0, 15.0, 15.0]));
        NdMean.backward(&cx, 2, &out, &mut back).unwrap();
        assert_eq!(back.as_slice(), bytes4(&[3.0, 3.0, 15.0, 3.0, 3.0, 15.0]));
    }

    #[test]
    fn f64_sides_cut_to_the_shape() {
        let cx = context(8, &[3]);
        let src: Vec<u8> = [1.0_f64, 2.0, 6.0].iter().flat_map(|x| x.to_le_bytes()).collect();
        let mut out = [0xEE; 24];
        NdMean.forward(&cx, 127, &src, &mut out).unwrap();
        assert_eq!(out.as_slice(), [3.0_f64; 3].map(f64::to_le_bytes).concat());
    }

    #[test]
    fn reading_allows_sides_that_writing_refuses() {
        let cx = context(4, &[1, 4]);
        let items = bytes4(&[0.0, 1.0, 2.0, 3.0]);
        let mut out = [0xEE; 16];
        assert!(matches!(NdMean.forward(&cx, 2, &items, &mut out), Err(FilterError::Meta { .. })));
        NdMean.backward(&cx, 2, &items, &mut out).unwrap();
        assert_eq!(out.as_slice(), items);
    }

    #[test]
    fn hostile_parameters_are_errors() {
        let err = |cx: FilterContext<'_>, meta, n: usize| {
            NdMean.backward(&cx, meta, &vec![0; n], &mut vec![0; n]).unwrap_err()
        };
        assert!(matches!(err(context(4, &[4]), 0, 16), FilterError::Meta { .. }));
        assert!(matches!(err(context(4, &[4]), 128, 16), FilterError::Meta { .. }));
        assert!(matches!(err(context(2, &[4]), 2, 8), FilterError::ItemSize { .. }));
        assert!(matches!(err(context(4, &[4]), 2, 12), FilterError::Container { .. }));
        assert!(matches!(err(context(4, &[]), 2, 4), FilterError::Container { .. }));
        assert!(matches!(err(context(8, &[u32::MAX; 8]), 2, 8), FilterError::Container { .. }));
    }
}
