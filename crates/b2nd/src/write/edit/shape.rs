//! Grows and shrinks arrays.

use std::ops::Range;

use b2_chunk::Chunk;
use b2_core::{Control, in_order, workers};

use crate::model::geometry::{for_each_position, product};
use crate::select::copy_plan::linear;
use crate::write::edit::chunks::{ChunkOrigin, cropped, plain, same_numbers};
use crate::write::edit::editor::ArrayEditor;
use crate::write::produce::BATCH;
use crate::{Geometry, NdError};

impl ArrayEditor {
    /// Changes the lengths of the dimensions. New items are zeros, whatever the file holds in their
    /// place. Items outside the new shape are removed.
    ///
    /// ```
    /// # use b2nd::{ArrayBuilder, NdArray, source};
    /// let frame = ArrayBuilder::new::<u8>([2, 3]).to_bytes(source::arange(1u8, 1))?;
    /// let mut editor = NdArray::edit_bytes(frame)?;
    /// editor.resize(&[3, 2])?;
    /// editor.resize(&[2, 4])?;
    /// assert_eq!(editor.snapshot()?.all().read_bytes()?, [1, 2, 0, 0, 4, 5, 0, 0]);
    /// # Ok::<(), b2nd::NdError>(())
    /// ```
    ///
    /// # Errors
    /// [`NdError::Geometry`] when the number of dimensions differs, or the shape exceeds the limits of the format;
    /// [`NdError::Frame`], [`NdError::Chunk`] or [`NdError::ChunkSize`] when reading, compressing or writing fails; [`NdError::Limit`] when a chunk is too large
    /// to be changed; [`NdError::Cancelled`], [`NdError::OutOfMemory`].
    pub fn resize(&mut self, shape: &[u64]) -> Result<(), NdError> {
        self.usable()?;
        self.open_dimensions(shape)?;
        let new = self.with_shape(shape)?;
        if new == *self.geometry() {
            return Ok(());
        }
        self.flush()?;
        self.guarded(|editor| {
            editor.clear_edges(&new)?;
            editor.change_grid(&new)?;
            editor.set_shape(new)
        })
    }

    /// Clears everything in edge chunks outside the common part of the old and new shape. These
    /// values, cut off now or earlier, would otherwise reappear when the array grows, here or in
    /// C-Blosc2.
    fn clear_edges(&mut self, new: &Geometry) -> Result<(), NdError> {
        let old = self.geometry.clone();
        let common: Vec<u64> = old.shape().iter().zip(new.shape()).map(|(&a, &b)| a.min(b)).collect();
        if common.contains(&0) {
            return Ok(());
        }
        let chunk = |dim: usize| u64::from(old.chunkshape()[dim]);
        // For each changed dimension, the chunk position with the last common items, if they do not
        // fill the chunk.
        let cut: Vec<Option<u64>> = (0..old.ndim())
            .map(|dim| {
                let changed = old.shape()[dim] != new.shape()[dim];
                (changed && !common[dim].is_multiple_of(chunk(dim))).then(|| common[dim] / chunk(dim))
            })
            .collect();
        let grid: Vec<u64> = (0..old.ndim()).map(|dim| common[dim].div_ceil(chunk(dim))).collect();
        let inner = grid.iter().zip(&cut).map(|(&n, edge)| n - u64::from(edge.is_some()));
        let nchunks = product(grid.iter().copied()) - product(inner);
        let nbytes = nchunks.saturating_mul(old.chunk_nbytes() as u64);
        let control = self.control.begin(nbytes, old.itemsize() as u64);
        let mut at_once = Vec::new();
        let most = (BATCH / old.chunk_nbytes()).max(1);
        for (dim, edge) in cut.iter().enumerate() {
            let Some(edge) = *edge else { continue };
            let ranges: Vec<Range<u64>> = (0..old.ndim())
                .map(|other| if other == dim { edge..edge + 1 } else { 0..grid[other] })
                .collect();
            for_each_position(&ranges, |at| {
                // A chunk in a corner was already handled by an earlier dimension.
                if at.iter().zip(&cut[..dim]).any(|(at, edge)| Some(*at) == *edge) {
                    return Ok(());
                }
                let keep = at.iter().enumerate().map(|(d, &g)| (common[d] - g * chunk(d)).min(chunk(d)));
                at_once.push((linear(at, old.grid()) as usize, keep.collect::<Vec<_>>()));
                if at_once.len() >= most {
                    self.clear(&std::mem::take(&mut at_once), &control)
                } else {
                    Ok(())
                }
            })?;
        }
        self.clear(&at_once, &control)
    }

    /// Clears each of these chunks outside the box given with it.
    fn clear(&mut self, chunks: &[(usize, Vec<u64>)], control: &Control) -> Result<(), NdError> {
        if chunks.is_empty() {
            return Ok(());
        }
        let cparams = self.cparams.is_some().then(|| self.cparams(control)).transpose()?;
        let array = self.now()?.clone().with_control(control.quiet());
        let clear = |(nchunk, keep): &(usize, Vec<u64>)| -> Result<Option<(usize, Chunk)>, NdError> {
            control.advance(array.geometry().chunk_nbytes() as u64)?;
            let Some(plain) = plain(&array, *nchunk)? else { return Ok(None) };
            let clean = cropped(array.geometry(), &plain, keep)?;
            if clean == plain {
                return Ok(None);
            }
            let cparams = cparams.clone().map_or_else(|| array.cparams(), Ok)?;
            Ok(Some((*nchunk, Chunk::compress_bytes(&clean, &cparams.for_chunk(*nchunk))?)))
        };
        let put = |cleared: Option<(usize, Chunk)>| {
            if let Some((nchunk, chunk)) = cleared {
                self.frame.update(nchunk, chunk)?;
                self.current = None;
            }
            Ok(())
        };
        let nbytes = (chunks.len() as u64).saturating_mul(array.geometry().chunk_nbytes() as u64);
        in_order(control, usize::MAX, nbytes, 2 * workers(control), chunks.iter(), clear, put)
    }

    /// Adds chunks of zeros for new places in the grid, and removes those outside the new grid.
    fn change_grid(&mut self, new: &Geometry) -> Result<(), NdError> {
        let old = self.geometry.clone();
        if same_numbers(&old, new) {
            self.append_zeros(new.nchunks().saturating_sub(old.nchunks()))?;
            return self.truncate(new.nchunks());
        }
        let mut origins = Vec::new();
        let mut appended = 0;
        let ranges: Vec<Range<u64>> = new.grid().iter().map(|&n| 0..n).collect();
        for_each_position(&ranges, |at| -> Result<(), NdError> {
            if at.iter().zip(old.grid()).all(|(at, n)| at < n) {
                origins.push(ChunkOrigin::Kept(linear(at, old.grid()) as usize));
            } else {
                origins.push(ChunkOrigin::Appended);
                appended += 1;
            }
            Ok(())
        })?;
        let before = self.frame.nchunks();
        self.append_zeros(appended)?;
        self.rearrange(before, &origins)
    }
}
