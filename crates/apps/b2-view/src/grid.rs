//! Which items of a large selection are drawn: one for each pixel, in as few blocks as possible.

use std::ops::Range;

use b2nd::{NdArray, Selection};

use crate::slice::Axis;

/// Minimum number of pixels to which a dimension is thinned to get square pixels.
const MIN_PIXELS: u64 = 64;

/// The positions of pixels along a dimension of which `range` is shown: the middle of every `step` items.
pub fn pixels(range: &Range<u64>, step: u64) -> Vec<u64> {
    let count = (range.end - range.start).div_ceil(step);
    let middle = |k: u64| {
        let start = range.start + k * step;
        start + step.min(range.end - start) / 2
    };
    (0..count).map(middle).collect()
}

/// Pixel distances for at most `most` pixels: equal along both dimensions if that leaves enough of both.
pub fn steps(lengths: [u64; 2], most: [usize; 2]) -> [u64; 2] {
    let least = [0, 1].map(|d| lengths[d].div_ceil((most[d] as u64).max(1)).max(1));
    let square = least[0].max(least[1]);
    [0, 1].map(|d| square.min(lengths[d] / MIN_PIXELS).max(least[d]))
}

/// The chunk and block lengths along a dimension.
#[derive(Clone, Copy, Debug)]
pub struct ChunkedAxis {
    /// Length of chunks, in items.
    pub chunk: u64,
    /// Length of blocks, in items.
    pub block: u64,
}

impl ChunkedAxis {
    /// The chunk and block lengths of an array along a dimension.
    pub fn of(array: &NdArray, dim: usize) -> Self {
        let length = |lens: &[u32]| u64::from(lens.get(dim).copied().unwrap_or(1));
        Self::new(length(array.chunkshape()), length(array.blockshape()))
    }

    /// Creates it from lengths other than 0.
    pub fn new(chunk: u64, block: u64) -> Self {
        let chunk = chunk.max(1);
        Self { chunk, block: block.clamp(1, chunk) }
    }

    fn blocks_per_chunk(self) -> u64 {
        self.chunk.div_ceil(self.block)
    }

    /// The number of the block of a position, along this dimension.
    pub fn block_of(self, position: u64) -> u64 {
        position / self.chunk * self.blocks_per_chunk() + position % self.chunk / self.block
    }

    /// The positions of a block.
    pub fn span(self, block: u64) -> Range<u64> {
        let chunk = block / self.blocks_per_chunk() * self.chunk;
        let start = chunk.saturating_add(block % self.blocks_per_chunk() * self.block);
        start..start.saturating_add(self.block).min(chunk.saturating_add(self.chunk))
    }
}

/// For each pixel, the nearest pixel whose item is read if every n-th block is read.
pub fn snap(blocks: &[u64], every: u64) -> Vec<usize> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for (k, block) in blocks.iter().enumerate() {
        match runs.last_mut() {
            Some(run) if blocks[run.start] == *block => run.end = k + 1,
            _ => runs.push(k..k + 1),
        }
    }
    let every = usize::try_from(every).unwrap_or(usize::MAX);
    let mut out = Vec::with_capacity(blocks.len());
    for group in runs.chunks(every.max(1)) {
        let read = &group[group.len() / 2];
        out.extend((group[0].start..group[group.len() - 1].end).map(|k| k.clamp(read.start, read.end - 1)));
    }
    out
}

/// The number of different blocks in a list of neighbours.
pub fn distinct(blocks: &[u64]) -> u64 {
    (blocks.windows(2).filter(|pair| pair[0] != pair[1]).count() + usize::from(!blocks.is_empty())) as u64
}

/// Maximum size of the items in memory for a picture, in bytes.
const MAX_PICTURE_BYTES: u64 = 48 << 20;
/// Maximum number of pixels of a picture of small items.
const MAX_PIXELS: usize = 1 << 20;

/// Which items are read for a picture of two dimensions.
#[derive(Clone, Debug)]
pub struct PixelGrid {
    /// The positions of the pixels along both dimensions.
    pub at: [Vec<u64>; 2],
    /// Every n-th block is read.
    pub every: u64,
    /// Distance of pixels in items.
    pub steps: [u64; 2],
    /// For each pixel, the pixel whose item it shows.
    shown: [Vec<usize>; 2],
    /// The pixels whose items are read.
    read: [Vec<usize>; 2],
}

impl PixelGrid {
    /// Chooses the items. `windows` are the positions shown, `most` the maximum numbers of pixels. `position` converts
    /// a position along a dimension to one in the file, whose chunks and blocks are `cuts`. Blocks have `nbytes` bytes,
    /// and at most `decoded` bytes are decoded.
    pub fn new(
        windows: &[Range<u64>; 2],
        most: [usize; 2],
        itemsize: usize,
        position: impl Fn(usize, u64) -> u64,
        cuts: [ChunkedAxis; 2],
        nbytes: u64,
        decoded: u64,
    ) -> Self {
        // Large records mean fewer pixels.
        let side = |most: usize| {
            let fit = (MAX_PICTURE_BYTES / itemsize.max(1) as u64) as f64 / (MAX_PIXELS as f64);
            ((most as f64 * fit.sqrt().min(1.0)) as usize).max(1)
        };
        let most = most.map(side);
        let lengths = [0, 1].map(|d| windows[d].end - windows[d].start);
        let steps = steps(lengths, most);
        let at = [0, 1].map(|d| pixels(&windows[d], steps[d]));
        let blocks =
            [0, 1].map(|d| at[d].iter().map(|k| cuts[d].block_of(position(d, *k))).collect::<Vec<_>>());
        let count = [0, 1].map(|d| distinct(&blocks[d]));
        let total = |every: u64| {
            count[0].div_ceil(every).saturating_mul(count[1].div_ceil(every)).saturating_mul(nbytes)
        };
        let mut every = 1;
        while total(every) > decoded && every < count[0].max(count[1]) {
            every += 1;
        }
        let shown = [0, 1].map(|d| snap(&blocks[d], every));
        let read = [0, 1].map(|d| {
            let mut read = shown[d].clone();
            read.dedup();
            read
        });
        Self { at, every, steps, shown, read }
    }

    /// The positions along a dimension whose items are read.
    pub fn places(&self, d: usize) -> impl Iterator<Item = u64> {
        self.read[d].iter().map(move |k| self.at[d][*k])
    }

    /// Expands the values read to one per pixel, row by row.
    pub fn spread<T: Copy>(&self, found: Vec<T>) -> Vec<T> {
        if self.every == 1 {
            return found;
        }
        let place = [0, 1].map(|d| {
            let mut at = 0;
            let shown = self.shown[d].iter().map(|k| {
                while self.read[d][at] < *k {
                    at += 1;
                }
                at
            });
            shown.collect::<Vec<_>>()
        });
        let wide = self.read[1].len();
        let row = |y: &usize| place[1].iter().map(|x| found[y * wide + x]).collect::<Vec<_>>();
        place[0].iter().flat_map(row).collect()
    }
}

/// The selection of all pairs of these positions in two dimensions, and of a single item in the others.
///
/// # Errors
/// When a position exceeds what selections can express.
pub fn pairs(
    axes: &[Axis],
    dims: [usize; 2],
    positions: &[Vec<u64>; 2],
) -> Result<Vec<Selection>, std::num::TryFromIntError> {
    let single = |axis: &Axis| i64::try_from(axis.start).map(Selection::Index);
    let mut selections = axes.iter().map(single).collect::<Result<Vec<_>, std::num::TryFromIntError>>()?;
    for (dim, positions) in dims.iter().zip(positions) {
        if let Some(selection) = selections.get_mut(*dim) {
            *selection = list(positions)?;
        }
    }
    Ok(selections)
}

/// These positions as a selection: a range if they are evenly spaced, which is faster to read.
///
/// # Errors
/// When a position exceeds what selections can express.
pub fn list(positions: &[u64]) -> Result<Selection, std::num::TryFromIntError> {
    let all = positions.iter().map(|k| i64::try_from(*k)).collect::<Result<Vec<_>, _>>()?;
    Ok(match all[..] {
        [first, second, ..]
            if second > first && all.windows(2).all(|pair| pair[1] - pair[0] == second - first) =>
        {
            let last = all.last().copied().unwrap_or(first);
            Selection::Range { start: Some(first), stop: Some(last.saturating_add(1)), step: second - first }
        }
        _ => Selection::List(all),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pixels_are_the_middle_of_what_they_stand_for() {
        assert_eq!(pixels(&(0..5), 1), [0, 1, 2, 3, 4]);
        assert_eq!(pixels(&(10..17), 3), [11, 14, 16]);
        assert_eq!(pixels(&(3..3), 2), [0; 0]);
        assert_eq!(steps([1000, 2000], [540, 720]), [3, 3]);
        assert_eq!(steps([10, 1_000_000], [540, 720]), [1, 1389]);
        assert_eq!(steps([1000, 1_000_000], [540, 720]), [15, 1389]);
        assert_eq!(steps([0, 0], [540, 720]), [1, 1]);
    }

    #[test]
    fn skipped_blocks_show_the_nearest_items() {
        let blocks = [0, 0, 1, 1, 2, 2, 3, 3, 4];
        assert_eq!(snap(&blocks, 1), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(snap(&blocks, 3), [2, 2, 2, 3, 3, 3, 8, 8, 8]);
        assert_eq!(snap(&blocks, 100), [4, 4, 4, 4, 4, 5, 5, 5, 5]);
        assert_eq!((distinct(&blocks), distinct(&[])), (5, 0));
        let cut = ChunkedAxis { chunk: 10, block: 4 };
        let ids: Vec<u64> = (0..22).map(|k| cut.block_of(k)).collect();
        assert_eq!(ids, [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 6, 6]);
        for (position, id) in ids.iter().enumerate() {
            assert!(cut.span(*id).contains(&(position as u64)), "{position}");
        }
    }
}
