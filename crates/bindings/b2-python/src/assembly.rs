//! One array assembled from arrays that each hold some of its chunks. Several writers can compress parts in parallel,
//! and assembling them compresses nothing again.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;

use b2kit::frame::Entry;
use b2kit::nd::{Amount, ChunkContent, Geometry, NdError, Region, RegionSource};
use b2kit::{Dtype, NdArray};

use crate::options::read_options;

/// Maximum number of open parts.
const MAX_OPEN: usize = 32;

/// Arrays in files that together cover a grid.
pub(crate) struct GridFiles {
    shape: Vec<u64>,
    dtype: Dtype,
    /// Where the parts begin along each dimension, in ascending order.
    starts: Vec<Vec<u64>>,
    /// Paths of the parts, in C order.
    paths: Vec<PathBuf>,
    open: HashMap<usize, NdArray>,
}

fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

impl GridFiles {
    /// Returns `None` if the parts do not cover the grid.
    pub(crate) fn new(
        shape: Vec<u64>,
        dtype: Dtype,
        starts: Vec<Vec<u64>>,
        paths: Vec<PathBuf>,
    ) -> Option<Self> {
        let nparts = starts.iter().try_fold(1usize, |n, starts| n.checked_mul(starts.len()))?;
        let ascending = |starts: &Vec<u64>| starts.first() == Some(&0) && starts.is_sorted_by(|a, b| a < b);
        let fits = nparts == paths.len() && starts.len() == shape.len() && starts.iter().all(ascending);
        fits.then(|| Self { shape, dtype, starts, paths, open: HashMap::new() })
    }

    /// Returns the part that contains the item at `at`, and the position where that part begins.
    fn part(&mut self, at: &[u64]) -> io::Result<(NdArray, Vec<u64>)> {
        let (mut npart, mut start, mut shape) = (0, Vec::new(), Vec::new());
        for ((starts, &at), &length) in self.starts.iter().zip(at).zip(&self.shape) {
            let n = starts.partition_point(|&start| start <= at).saturating_sub(1);
            npart = npart * starts.len() + n;
            start.push(starts[n]);
            shape.push(starts.get(n + 1).copied().unwrap_or(length).saturating_sub(starts[n]));
        }
        if !self.open.contains_key(&npart) {
            if self.open.len() >= MAX_OPEN {
                self.open.clear();
            }
            let array = NdArray::open_with(&self.paths[npart], &read_options()).map_err(io::Error::other)?;
            if array.shape() != shape || array.dtype() != &self.dtype {
                let what = format!(
                    "{}: shape {:?} of {}, expected {shape:?} of {}",
                    self.paths[npart].display(),
                    array.shape(),
                    array.dtype(),
                    self.dtype
                );
                return Err(invalid(what));
            }
            self.open.insert(npart, array);
        }
        Ok((self.open[&npart].clone(), start))
    }

    fn stored(array: &NdArray, nchunk: usize) -> Result<ChunkContent, NdError> {
        let frame = array.super_chunk();
        if let Entry::Special(kind) = frame.chunk(nchunk).entry()? {
            return Ok(ChunkContent::Special(kind));
        }
        Ok(ChunkContent::Chunk(frame.chunk(nchunk).read()?))
    }
}

impl RegionSource for GridFiles {
    fn read_region(&mut self, region: &Region<'_>, dst: &mut [u8]) -> io::Result<()> {
        let (array, start) = self.part(region.start())?;
        let ranges: Vec<_> = (region.start().iter().zip(&start).zip(region.shape()))
            .map(|((&at, &start), &length)| at - start..at - start + length)
            .collect();
        let slice = array.slice(ranges).map_err(io::Error::other)?;
        slice.read_bytes_into(dst).map_err(io::Error::other)
    }

    fn amount(&self) -> Amount {
        Amount::Shape(self.shape.clone())
    }

    fn item_dtype(&self) -> Option<Dtype> {
        Some(self.dtype.clone())
    }

    fn chunk(&mut self, geometry: &Geometry, nchunk: u64) -> io::Result<ChunkContent> {
        let (mut rest, mut at) = (nchunk, vec![0; self.shape.len()]);
        for (axis, chunks) in geometry.grid().iter().enumerate().rev() {
            at[axis] = rest % chunks * u64::from(geometry.chunkshape()[axis]);
            rest /= chunks;
        }
        let (array, start) = self.part(&at)?;
        let own = array.geometry();
        if own.chunkshape() != geometry.chunkshape() || own.blockshape() != geometry.blockshape() {
            return Ok(ChunkContent::Items);
        }
        let mut local = 0;
        for (axis, (&at, &start)) in at.iter().zip(&start).enumerate() {
            let (from, chunk) = (at - start, u64::from(own.chunkshape()[axis]));
            if !from.is_multiple_of(chunk) {
                return Ok(ChunkContent::Items);
            }
            local = local * own.grid()[axis] + from / chunk;
        }
        Self::stored(&array, local as usize).map_err(io::Error::other)
    }
}
