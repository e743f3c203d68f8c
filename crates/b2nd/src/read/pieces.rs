//! A selection in pieces along its first dimension.

use std::ops::Range;

use crate::select::piece_ranges::{CutDim, PieceRanges};
use crate::select::resolved::{AxisSelection, OutDim};
use crate::{NdError, Slice};

/// A piece of a selection. Returned by [`Slice::pieces`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Piece {
    /// The positions along the first dimension of the selection; `0..1` if it has none.
    pub positions: Range<u64>,
    /// The items at these positions.
    pub slice: Slice,
}

/// The pieces of a selection, in order. Returned by [`Slice::pieces`].
#[derive(Clone, Debug)]
pub struct Pieces {
    slice: Slice,
    ranges: PieceRanges,
}

impl Slice {
    /// Cuts the selection into pieces of about `nbytes` bytes along its first dimension, at least one
    /// position each. Pieces end where chunks end, or else where blocks end, if they are large
    /// enough, so that little is read and decoded twice.
    ///
    /// ```
    /// # use b2nd::{ArrayBuilder, NdArray, source};
    /// let builder = ArrayBuilder::new::<u16>([100, 50]).chunks([10, 50]).blocks([5, 50]);
    /// let array = NdArray::from_bytes(builder.to_bytes(source::by_index(|i| i as u16))?)?;
    /// let mut sum = 0;
    /// for piece in array.slice(7..95)?.pieces(2500) {
    ///     let piece = piece?;
    ///     assert!(piece.positions.end == 88 || (7 + piece.positions.end) % 10 == 0);
    ///     sum += piece.slice.read::<Vec<u16>>()?.iter().map(|&x| u64::from(x)).sum::<u64>();
    /// }
    /// assert_eq!(sum, (350..4750).sum::<u64>());
    /// # Ok::<(), b2nd::NdError>(())
    /// ```
    pub fn pieces(&self, nbytes: u64) -> Pieces {
        let shape = self.own_shape();
        let dims = shape.first().map(|&len| self.first_dim(len)).into_iter().collect();
        let row = self.nbytes().checked_div(shape.first().copied().unwrap_or(1)).unwrap_or(0);
        Pieces { slice: self.clone(), ranges: PieceRanges::new(dims, row, nbytes, nbytes) }
    }

    /// Returns where the first dimension of the result, of length `len`, lies in the array.
    fn first_dim(&self, len: u64) -> CutDim {
        let scattered = CutDim { start: 0, step: 1, len, chunk: 0, block: 0 };
        let Some((AxisSelection::Steps(along), dim)) = self.first_along() else { return scattered };
        let (chunks, blocks) = (self.array().chunkshape(), self.array().blockshape());
        let length = |lens: &[u32]| lens.get(dim).map_or(0, |&n| n.into());
        let step = if len > 1 { along.step } else { 1 };
        CutDim { start: along.start, step, len, chunk: length(chunks), block: length(blocks) }
    }

    /// Returns the positions chosen along the dimension of the array that is the first one of the
    /// result.
    fn first_along(&self) -> Option<(&AxisSelection, usize)> {
        let chosen = self.resolved();
        let Some(&OutDim::Of(dim)) = chosen.out.first() else { return None };
        chosen.along.get(dim).map(|along| (along, dim))
    }
}

impl Iterator for Pieces {
    type Item = Result<Piece, NdError>;

    fn next(&mut self) -> Option<Self::Item> {
        let ranges = self.ranges.next()?;
        let piece = match ranges.first().cloned() {
            None => Ok(Piece { positions: 0..1, slice: self.slice.clone() }),
            Some(positions) => {
                let slice = self.slice.boxed(&[positions.start], &[positions.end - positions.start]);
                slice.map(|slice| Piece { positions, slice })
            }
        };
        Some(piece)
    }
}

#[cfg(test)]
mod tests {
    use crate::{ArrayBuilder, Dtype, NdArray};

    #[test]
    fn pieces_of_fields_and_single_items() {
        let dtype = Dtype::parse("[('id', '<u2'), ('pos', '|i1', (3,))]").unwrap();
        let items: Vec<u8> = (0..50).collect();
        let array = ArrayBuilder::of_dtype([10], dtype).to_bytes(&items[..]).unwrap();
        let array = NdArray::from_bytes(array).unwrap();
        let read = |slice: &crate::Slice, nbytes| -> Vec<u8> {
            slice.pieces(nbytes).flat_map(|piece| piece.unwrap().slice.read_bytes().unwrap()).collect()
        };
        for slice in [array.all(), array.slice(5).unwrap(), array.slice(3..8).unwrap()] {
            for nbytes in [1, 7, 1000] {
                assert_eq!(read(&slice, nbytes), slice.read_bytes().unwrap());
                let field = slice.field("pos").unwrap();
                assert_eq!(read(&field, nbytes), field.read_bytes().unwrap());
            }
        }
        assert_eq!(array.slice(2..2).unwrap().pieces(9).count(), 0);
        // Positions without items.
        let none = ArrayBuilder::new::<u8>([15, 0]).to_bytes(Vec::<u8>::new()).unwrap();
        let pieces = NdArray::from_bytes(none).unwrap().all().pieces(9);
        assert_eq!(pieces.map(|piece| piece.unwrap().positions.end).last(), Some(15));
    }
}
