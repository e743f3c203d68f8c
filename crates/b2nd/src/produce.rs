//! From items to compressed chunks, several at once, in bounded memory.

use std::convert::Infallible;
use std::ops::Range;

use b2_chunk::{CParams, Chunk, SpecialKind};

use crate::geometry::{copy_box, for_each_position, product, strides};
use crate::moves::linear;
use crate::source::{ChunkContent, RegionSource};
use crate::{Geometry, NdError};

/// Bytes of items read at once, as far as a single chunk is not larger.
pub(crate) const BATCH: usize = 64 << 20;

/// A chunk on its way into a frame.
pub(crate) enum Produced {
    Special(SpecialKind),
    Chunk(Chunk),
}

/// Which chunks are made.
pub(crate) struct Job<'a> {
    pub(crate) geometry: &'a Geometry,
    pub(crate) cparams: &'a CParams,
    /// A box of places in the grid.
    pub(crate) grid: &'a [Range<u64>],
    /// Places in the box to leave out.
    pub(crate) skip: &'a dyn Fn(&[u64]) -> bool,
}

impl Job<'_> {
    /// Makes the chunks, in the order of their numbers, which `each` gets too.
    pub(crate) fn run(
        &self,
        source: &mut dyn RegionSource,
        mut each: impl FnMut(u64, Produced) -> Result<(), NdError>,
    ) -> Result<(), NdError> {
        let geometry = self.geometry;
        // Chunks that follow each other along `axis` are neighbours in the file too: behind it there is one.
        let axis = self.grid.iter().rposition(|range| range.end - range.start > 1);
        let row = axis.map_or(0..1, |axis| self.grid[axis].clone());
        let mut outer = self.grid.to_vec();
        if let Some(axis) = axis {
            outer[axis] = 0..1;
        }
        let most = ((BATCH / geometry.chunk_nbytes().max(1)).max(1)) as u64;
        let mut region = Vec::new();
        for_each_position(&outer, |at| {
            let coords = |k: u64| {
                let mut coords = at.to_vec();
                if let Some(axis) = axis {
                    coords[axis] = k;
                }
                coords
            };
            let number = |k: u64| linear(&coords(k), geometry.grid());
            let ask =
                |source: &mut dyn RegionSource, k| source.chunk(geometry, number(k)).map_err(NdError::Source);
            let mut k = row.start;
            // An answer that ended a batch.
            let mut asked = None;
            while k < row.end {
                if asked.is_none() && (self.skip)(&coords(k)) {
                    k += 1;
                    continue;
                }
                let content = match asked.take() {
                    Some(content) => content,
                    None => ask(source, k)?,
                };
                match content {
                    ChunkContent::Special(kind) => {
                        each(number(k), Produced::Special(kind))?;
                        k += 1;
                        continue;
                    }
                    ChunkContent::Chunk(chunk) => {
                        check(geometry, &chunk)?;
                        each(number(k), Produced::Chunk(chunk))?;
                        k += 1;
                        continue;
                    }
                    ChunkContent::Items => {}
                }
                let mut count = 1;
                while count < most && k + count < row.end && !(self.skip)(&coords(k + count)) {
                    match ask(source, k + count)? {
                        ChunkContent::Items => count += 1,
                        other => {
                            asked = Some(other);
                            break;
                        }
                    }
                }
                let chunks = self.batch(&coords(k), axis, count, source, &mut region)?;
                for (n, chunk) in (k..).zip(chunks) {
                    each(number(n), Produced::Chunk(chunk?))?;
                }
                k += count;
            }
            Ok(())
        })
    }

    /// Reads the items of `count` chunks along `axis` and compresses them in parallel.
    fn batch(
        &self,
        first: &[u64],
        axis: Option<usize>,
        count: u64,
        source: &mut dyn RegionSource,
        region: &mut Vec<u8>,
    ) -> Result<Vec<Result<Chunk, NdError>>, NdError> {
        let geometry = self.geometry;
        let (start, mut shape) = geometry.chunk_box(first);
        if let Some(axis) = axis {
            let c = u64::from(geometry.chunkshape()[axis]);
            shape[axis] = (count * c).min(geometry.shape()[axis] - start[axis]);
        }
        region.resize(product(shape.iter().copied()) as usize * geometry.itemsize(), 0);
        source.read_region(geometry, &start, &shape, region).map_err(NdError::Source)?;
        let compress = |k: u64| {
            let mut at = vec![0; shape.len()];
            let mut part = shape.clone();
            if let Some(axis) = axis {
                let c = u64::from(geometry.chunkshape()[axis]);
                at[axis] = k * c;
                part[axis] = (shape[axis] - at[axis]).min(c);
            }
            let chunk = to_blocks(geometry, region, &shape, &at, &part);
            Ok(Chunk::compress(&chunk, self.cparams)?)
        };
        Ok(in_parallel(count, compress))
    }
}

/// What C-Blosc2 needs of a chunk that was not compressed for this array.
fn check(geometry: &Geometry, chunk: &Chunk) -> Result<(), NdError> {
    let (have, need) = (chunk.nbytes(), geometry.chunk_nbytes());
    let header = chunk.header();
    if have != need || header.is_vl() || header.blocksize() != geometry.block_nbytes() {
        return Err(NdError::geometry(format!(
            "a chunk of {have} bytes in blocks of {} does not fit an array with chunks of {need} in blocks of {}",
            header.blocksize(),
            geometry.block_nbytes()
        )));
    }
    Ok(())
}

/// Results of `work` for `0..count`, in order.
pub(crate) fn in_parallel<T: Send>(count: u64, work: impl Fn(u64) -> T + Sync) -> Vec<T> {
    #[cfg(feature = "rayon")]
    if count > 1 && rayon::current_num_threads() > 1 {
        use rayon::prelude::*;
        // A batch is a few dozen chunks.
        return (0..count as usize).into_par_iter().with_max_len(1).map(|k| work(k as u64)).collect();
    }
    (0..count).map(work).collect()
}

/// A chunk as it is stored, block after block, padded with zeros: the items `at..at + part` of a region.
pub(crate) fn to_blocks(
    geometry: &Geometry,
    region: &[u8],
    region_shape: &[u64],
    at: &[u64],
    part: &[u64],
) -> Vec<u8> {
    let itemsize = geometry.itemsize();
    let src_strides = strides(region_shape.iter().map(|&n| n as usize), itemsize);
    let dst_strides = strides(geometry.blockshape().iter().map(|&n| n as usize), itemsize);
    let mut chunk = vec![0; geometry.chunk_nbytes()];
    let mut blocks = chunk.chunks_exact_mut(geometry.block_nbytes());
    let ranges: Vec<_> = geometry.blocks().iter().map(|&n| 0..u64::from(n)).collect();
    let mut counts = vec![0; at.len()];
    let done: Result<(), Infallible> = for_each_position(&ranges, |block| {
        let Some(dst) = blocks.next() else { return Ok(()) };
        let mut offset = 0;
        for (dim, &j) in block.iter().enumerate() {
            let b = u64::from(geometry.blockshape()[dim]);
            counts[dim] = part[dim].saturating_sub(j * b).min(b) as usize;
            offset += (at[dim] + j * b) as isize * src_strides[dim];
        }
        copy_box(&counts, itemsize, (region, offset as usize, &src_strides), (dst, 0, &dst_strides));
        Ok(())
    });
    let Ok(()) = done;
    chunk
}
