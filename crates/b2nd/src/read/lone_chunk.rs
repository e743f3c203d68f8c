//! Single chunks that are stored outside of a frame, as arrays. Zarr stores such chunks.

use std::sync::Arc;

use b2_chunk::{Container, MAX_BLOCKSIZE};
use b2_frame::{FrameFiles, ReadOptions};

use crate::{Dtype, Geometry, NdArray, NdError};

/// The items are divided into about this many blocks at most.
const MAX_BLOCKS: u64 = 1 << 16;

impl NdArray {
    /// Returns a chunk outside of a frame, which starts the main file of `files`, as an array that consists of this chunk.
    /// `blocks` is the shape of its blocks; `None` if its items are in C order across all blocks, whose size is
    /// `blocksize` bytes. That size is an estimate: a chunk with another one is also read.
    ///
    /// # Errors
    /// [`NdError::Geometry`] when the shapes contradict each other or are too large for a chunk.
    #[doc(hidden)]
    pub fn lone_chunk(
        options: &ReadOptions,
        shape: &[u64],
        dtype: Dtype,
        blocks: Option<Vec<u32>>,
        blocksize: usize,
        files: Arc<dyn FrameFiles>,
    ) -> Result<Self, NdError> {
        let itemsize = dtype.itemsize();
        let chunks = shape.iter().map(|&length| u32::try_from(length).unwrap_or(u32::MAX)).collect();
        let (container, blockshape) = match blocks {
            Some(blocks) => {
                (Container::default().itemsize(Some(itemsize)).blockshape(blocks.as_slice()), blocks)
            }
            None => {
                let nbytes = shape.iter().fold(itemsize as u64, |n, &length| n.saturating_mul(length));
                // A false header may claim a huge number of blocks.
                let size =
                    usize::try_from(nbytes / MAX_BLOCKS).map_or(blocksize, |least| blocksize.max(least));
                (Container::default(), c_order_blocks(shape, itemsize, size))
            }
        };
        let geometry = Geometry::new(shape.to_vec(), chunks, blockshape, itemsize)?;
        // The geometry has checked that a chunk may be so large.
        let size = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let sizes = (size(geometry.chunk_nbytes()), size(itemsize), size(blocksize));
        let mut frame = options.lone_chunk(sizes, files);
        frame.set_container(container);
        Ok(Self::of(frame, geometry, dtype))
    }

    /// Returns whether a chunk with other blocks has its items in another order, which nothing describes: if it is outside
    /// of a frame, and has the blocks of an array.
    pub(crate) fn requires_blocks(&self) -> bool {
        let frame = self.super_chunk();
        frame.metalayers().iter().len() == 0 && !frame.dparams().container.blockshape.is_empty()
    }
}

/// Returns the shape of blocks of about `size` bytes that divide a chunk evenly, and whose items one after the other are in
/// C order: they have the full length along the inner dimensions and 1 along the outer ones.
fn c_order_blocks(shape: &[u64], itemsize: usize, size: usize) -> Vec<u32> {
    let mut blocks = vec![1; shape.len()];
    let size = size.min(MAX_BLOCKSIZE);
    let mut nbytes = itemsize.max(1) as u64;
    for (block, &length) in blocks.iter_mut().zip(shape).rev() {
        let most = (size as u64 / nbytes).max(1);
        let whole = length <= most;
        let length =
            if whole { length } else { nearest_divisor(length, most, MAX_BLOCKSIZE as u64 / nbytes) };
        *block = u32::try_from(length).unwrap_or(u32::MAX);
        nbytes = nbytes.saturating_mul(length.max(1));
        if !whole {
            break;
        }
    }
    blocks
}

/// Returns the divisor of `length` of up to `max` whose ratio to `wanted`, or the inverse, is smallest.
fn nearest_divisor(length: u64, wanted: u64, max: u64) -> u64 {
    let divisors = (1..=length.isqrt()).filter(|n| length.is_multiple_of(*n)).flat_map(|n| [n, length / n]);
    let ratio = |n: &u64| (*n).max(wanted) / (*n).min(wanted).max(1);
    divisors.filter(|&n| n <= max).min_by_key(ratio).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_a_chunk_in_c_order() {
        assert_eq!(c_order_blocks(&[128, 128, 128], 4, 256 << 10), [4, 128, 128]);
        assert_eq!(c_order_blocks(&[128, 100, 3], 4, 1000), [1, 100, 3]);
        assert_eq!(c_order_blocks(&[8, 1 << 20], 8, 4096), [1, 512]);
        assert_eq!(c_order_blocks(&[10], 4, 4096), [10]);
        assert_eq!(c_order_blocks(&[], 4, 4096), [0; 0]);
        // A prime number, and items longer than the blocks.
        assert_eq!(c_order_blocks(&[1_000_003], 4, 64 << 10), [1_000_003]);
        assert_eq!(c_order_blocks(&[7, 5], 5000, 4096), [1, 1]);
    }
}
