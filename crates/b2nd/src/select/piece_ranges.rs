//! Cuts selections into pieces that follow each other in C order, at the edges of chunks or blocks.

use std::ops::Range;

/// A dimension of the selection to cut: `len` positions, `start`, `start + step` and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutDim {
    /// First position.
    pub start: u64,
    /// Distance between positions. May be negative, but not 0.
    pub step: i64,
    /// Number of positions.
    pub len: u64,
    /// Length of a chunk along the dimension; 0 if there are no chunks.
    pub chunk: u64,
    /// Length of a block along the dimension; 0 if there are no blocks. Blocks start again in each chunk.
    pub block: u64,
}

/// The grid that cuts are aligned to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Grid {
    Chunks,
    Blocks,
    Items,
}

impl CutDim {
    fn position(&self, k: u64) -> u64 {
        // The position is inside the dimension, whose length fits 63 bits.
        self.start.wrapping_add_signed((k as i64).wrapping_mul(self.step))
    }

    /// Returns the length of a cell of a grid; `None` if the grid does not exist.
    fn cell(&self, grid: Grid) -> Option<u64> {
        match grid {
            Grid::Chunks => Some(self.chunk).filter(|n| *n > 0),
            Grid::Blocks => Some(self.block).filter(|n| *n > 0),
            Grid::Items => Some(1),
        }
    }

    /// Returns the end of a piece that begins at index `from`. It holds at most `most` indices and ends at the last
    /// edge of the grid that fits, but reaches at least to the next edge.
    fn until(&self, from: u64, grid: Grid, most: u64) -> u64 {
        if self.len - from <= most {
            return self.len;
        }
        let (at, step) = (self.position(from), self.step.unsigned_abs());
        let (len, reach) = (self.cell(grid).unwrap_or(1), most.saturating_mul(step));
        // Chunks are counted from 0, blocks from the start of their chunk.
        let (base, end) = match grid {
            Grid::Blocks if self.chunk > 0 => {
                let base = at / self.chunk * self.chunk;
                (base, base.saturating_add(self.chunk))
            }
            _ => (0, u64::MAX),
        };
        let cell = (at - base) / len;
        if self.step > 0 {
            let cells = ((at - base).saturating_add(reach) / len).max(cell + 1);
            let edge = base.saturating_add(cells.saturating_mul(len)).min(end);
            (edge - self.start).div_ceil(step).min(self.len)
        } else {
            let cells = (at - base + 1).saturating_sub(reach).div_ceil(len).min(cell);
            let edge = base + cells * len;
            ((self.start - edge) / step + 1).min(self.len)
        }
    }
}

/// The pieces of a selection: a range of indices along each of its dimensions.
///
/// Cuts are aligned to chunks if whole rows of chunks are small enough, otherwise to blocks, so that as little as
/// possible is decoded twice.
#[derive(Clone, Debug)]
pub struct PieceRanges {
    dims: Vec<CutDim>,
    /// The dimension that is cut. Those before it are visited index by index.
    cut: usize,
    grid: Grid,
    /// Number of indices in a piece, unless it must be larger to reach an edge of the grid.
    most: u64,
    /// Where the next piece starts, along the dimensions up to `cut`; `None` at the end.
    at: Option<Vec<u64>>,
}

impl PieceRanges {
    /// Makes pieces of about `target` bytes, and of at most `max` unless one item is larger.
    pub fn new(dims: Vec<CutDim>, itemsize: u64, target: u64, max: u64) -> Self {
        let empty = dims.iter().any(|dim| dim.len == 0);
        // Size in bytes of the items below one index of each dimension. Saturated values are far above any limit.
        let mut inner = vec![itemsize; dims.len()];
        for k in (1..dims.len()).rev() {
            inner[k - 1] = inner[k].saturating_mul(dims[k].len);
        }
        let mut this = Self { dims, cut: 0, grid: Grid::Items, most: 1, at: None };
        for (k, dim) in this.dims.iter().enumerate() {
            let step = dim.step.unsigned_abs().max(1);
            let nbytes = |cell: u64| cell.div_ceil(step).min(dim.len).saturating_mul(inner[k]);
            let fits = |grid: &Grid| dim.cell(*grid).is_some_and(|cell| nbytes(cell) <= max);
            this.cut = k;
            this.grid = [Grid::Chunks, Grid::Blocks].into_iter().find(fits).unwrap_or(Grid::Items);
            // If single rows are still too large, cut along the next dimension.
            if fits(&this.grid) || k + 1 == this.dims.len() {
                // Each piece smaller than a block decodes that block again, so make such pieces as large as possible.
                let aim = if this.grid == Grid::Items && dim.block > 1 { max } else { target };
                this.most = (aim / inner[k].max(1)).max(1);
                break;
            }
        }
        this.at = (!empty).then(|| vec![0; (this.cut + 1).min(this.dims.len())]);
        this
    }
}

impl Iterator for PieceRanges {
    type Item = Vec<Range<u64>>;

    fn next(&mut self) -> Option<Vec<Range<u64>>> {
        let mut at = self.at.take()?;
        let mut piece: Vec<Range<u64>> = self.dims.iter().map(|dim| 0..dim.len).collect();
        // Without dimensions there is one item.
        let Some(dim) = self.dims.get(self.cut) else { return Some(piece) };
        for (range, &i) in piece.iter_mut().zip(&at).take(self.cut) {
            *range = i..i + 1;
        }
        let from = at[self.cut];
        let to = dim.until(from, self.grid, self.most);
        piece[self.cut] = from..to;
        at[self.cut] = to;
        for k in (0..=self.cut).rev() {
            if at[k] < self.dims[k].len {
                self.at = Some(at);
                break;
            }
            at[k] = 0;
            if let Some(before) = k.checked_sub(1) {
                at[before] += 1;
            }
        }
        Some(piece)
    }
}

#[cfg(test)]
mod tests {
    use b2_testkit::Rng;

    use super::*;

    fn whole(len: u64, chunk: u64, block: u64) -> CutDim {
        CutDim { start: 0, step: 1, len, chunk, block }
    }

    /// Returns the C-order numbers of the items of a piece.
    fn numbers(piece: &[Range<u64>], dims: &[CutDim]) -> Vec<u64> {
        let mut all = vec![0];
        for (range, dim) in piece.iter().zip(dims) {
            all = all.iter().flat_map(|base| range.clone().map(move |k| base * dim.len + k)).collect();
        }
        all
    }

    #[test]
    fn pieces_follow_each_other() {
        let mut dice = Rng::new(4);
        for _ in 0..2000 {
            let mut dim = || {
                let (len, step) = (dice.below(20) as u64, 1 + dice.below(3) as i64);
                let (chunk, block) = (dice.below(9) as u64, dice.below(5) as u64);
                let down = dice.below(3) == 0;
                let start = if down { 60 + dice.below(9) as u64 } else { dice.below(9) as u64 };
                CutDim { start, step: if down { -step } else { step }, len, chunk, block }
            };
            let dims: Vec<CutDim> = (0..3).map(|_| dim()).collect();
            let dims = &dims[..dice.below(4)];
            let max = 1 + dice.below(5000) as u64;
            let target = 1 + dice.below(max as usize) as u64;
            let pieces: Vec<_> = PieceRanges::new(dims.to_vec(), 4, target, max).collect();
            let joined: Vec<u64> = pieces.iter().flat_map(|piece| numbers(piece, dims)).collect();
            let count: u64 = dims.iter().map(|dim| dim.len).product();
            assert_eq!(joined, (0..count).collect::<Vec<_>>(), "{dims:?}");
            for piece in &pieces {
                let nbytes = 4 * piece.iter().map(|range| range.end - range.start).product::<u64>();
                assert!(nbytes > 0 && nbytes <= max.max(4), "{dims:?}, {max}: {nbytes}");
            }
        }
    }

    #[test]
    fn cuts_lie_on_chunks_then_blocks() {
        let cuts = |dims: &[CutDim], target, max| -> Vec<u64> {
            PieceRanges::new(dims.to_vec(), 1, target, max).map(|piece| piece[0].start).collect()
        };
        let dims = [whole(100, 32, 8), whole(10, 10, 10)];
        assert_eq!(cuts(&dims, 1000, 1000), [0], "all fits");
        assert_eq!(cuts(&dims, 999, 1000), [0, 96], "three rows of chunks make 960 bytes");
        assert_eq!(cuts(&dims, 1, 1000), [0, 32, 64, 96], "one row of chunks at least");
        assert_eq!(
            cuts(&dims, 200, 319),
            [0, 16, 32, 48, 64, 80],
            "a row of chunks is too large, two of blocks fit"
        );
        assert_eq!(cuts(&dims, 10, 10).len(), 100, "row by row");
        // The last block of a chunk of 30 has 6 rows.
        assert_eq!(cuts(&[whole(60, 30, 8), whole(10, 10, 10)], 80, 80), [0, 8, 16, 24, 30, 38, 46, 54]);
        let down = [CutDim { start: 99, step: -1, ..dims[0] }, dims[1]];
        assert_eq!(cuts(&down, 1, 1000), [0, 4, 36, 68], "from the last row of chunks down");
    }

    #[test]
    fn special_shapes() {
        let count = |dims: &[CutDim]| PieceRanges::new(dims.to_vec(), 8, 1 << 20, 1 << 20).count();
        assert_eq!((count(&[]), count(&[whole(5, 5, 5), whole(0, 1, 1)])), (1, 0));
        let huge = vec![whole(u64::MAX >> 1, 1 << 31, 1 << 20), whole(3, 3, 3)];
        let first = PieceRanges::new(huge, 255, 32 << 20, 256 << 20).next().unwrap();
        assert_eq!(first[0], 0..(256 << 20) / 765, "blocks are too large: as much as is allowed");
    }
}
