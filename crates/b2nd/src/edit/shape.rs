//! Growing and shrinking.

use std::ops::Range;

use b2_chunk::Chunk;

use crate::edit::ArrayEditor;
use crate::edit::chunks::{Target, cropped, plain, same_numbers};
use crate::geometry::for_each_position;
use crate::moves::linear;
use crate::produce::{BATCH, in_parallel};
use crate::{Geometry, NdError};

impl ArrayEditor {
    /// Changes the lengths of the dimensions. New items are zeros, whatever the file holds there; items
    /// outside the new shape are gone.
    ///
    /// ```
    /// # use b2nd::{Arange, ArrayBuilder, NdArray};
    /// let frame = ArrayBuilder::of::<u8>([2, 3]).to_memory(&mut Arange { start: 1u8, step: 1 })?;
    /// let mut editor = NdArray::edit_bytes(frame)?;
    /// editor.resize(&[3, 2])?;
    /// editor.resize(&[2, 4])?;
    /// assert_eq!(editor.snapshot()?.all().read()?, [1, 2, 0, 0, 4, 5, 0, 0]);
    /// # Ok::<(), b2nd::NdError>(())
    /// ```
    ///
    /// # Errors
    /// When the number of dimensions differs, the shape is beyond the format's limits, a dimension with chunks
    /// of length 0 would get items, or reading or writing fails.
    pub fn resize(&mut self, shape: &[u64]) -> Result<(), NdError> {
        let new = self.with_shape(shape)?;
        if new == self.geometry {
            return self.usable();
        }
        self.usable()?;
        self.flush()?;
        self.guarded(|editor| {
            editor.clear_edges(&new)?;
            editor.change_grid(&new)?;
            editor.set_shape(new)
        })
    }

    /// Clears all that edge chunks hold outside the old and the new shape: values that were cut off earlier,
    /// or are now, and would show when the array grows, here or in the hands of C-Blosc2.
    fn clear_edges(&mut self, new: &Geometry) -> Result<(), NdError> {
        let old = self.geometry.clone();
        let common: Vec<u64> = old.shape().iter().zip(new.shape()).map(|(&a, &b)| a.min(b)).collect();
        if common.contains(&0) {
            return Ok(());
        }
        let chunk = |dim: usize| u64::from(old.chunkshape()[dim]);
        // The chunks with the last common items of a dimension, if those do not fill them.
        let cut: Vec<Option<u64>> = (0..old.ndim())
            .map(|dim| {
                let changed = old.shape()[dim] != new.shape()[dim];
                (changed && !common[dim].is_multiple_of(chunk(dim))).then(|| common[dim] / chunk(dim))
            })
            .collect();
        let mut at_once = Vec::new();
        let most = (BATCH / old.chunk_nbytes()).max(1);
        for (dim, edge) in cut.iter().enumerate() {
            let Some(edge) = *edge else { continue };
            let ranges: Vec<Range<u64>> = (0..old.ndim())
                .map(
                    |other| {
                        if other == dim { edge..edge + 1 } else { 0..common[other].div_ceil(chunk(other)) }
                    },
                )
                .collect();
            for_each_position(&ranges, |at| {
                // In a corner: an earlier dimension had it.
                if at.iter().zip(&cut[..dim]).any(|(at, edge)| Some(*at) == *edge) {
                    return Ok(());
                }
                let keep = at.iter().enumerate().map(|(d, &g)| (common[d] - g * chunk(d)).min(chunk(d)));
                at_once.push((linear(at, old.grid()) as usize, keep.collect::<Vec<_>>()));
                if at_once.len() >= most { self.clear(&std::mem::take(&mut at_once)) } else { Ok(()) }
            })?;
        }
        self.clear(&at_once)
    }

    /// Clears chunks outside the boxes named.
    fn clear(&mut self, chunks: &[(usize, Vec<u64>)]) -> Result<(), NdError> {
        if chunks.is_empty() {
            return Ok(());
        }
        let cparams = self.cparams.clone();
        let array = self.now()?.clone();
        let cleared = in_parallel(chunks.len() as u64, |k| -> Result<Option<Chunk>, NdError> {
            let (nchunk, keep) = &chunks[k as usize];
            let Some(plain) = plain(&array, *nchunk)? else { return Ok(None) };
            let clean = cropped(array.geometry(), &plain, keep)?;
            if clean == plain {
                return Ok(None);
            }
            let cparams = cparams.clone().map_or_else(|| array.cparams(), Ok)?;
            Ok(Some(Chunk::compress(&clean, &cparams)?))
        });
        drop(array);
        for ((nchunk, _), chunk) in chunks.iter().zip(cleared) {
            if let Some(chunk) = chunk? {
                self.frame.update(*nchunk, chunk)?;
                self.current = None;
            }
        }
        Ok(())
    }

    /// Adds chunks of zeros where the new grid has more places, and removes those that are outside.
    fn change_grid(&mut self, new: &Geometry) -> Result<(), NdError> {
        let old = self.geometry.clone();
        if same_numbers(&old, new) {
            self.append_zeros(new.nchunks().saturating_sub(old.nchunks()))?;
            return self.truncate(new.nchunks());
        }
        let mut targets = Vec::new();
        let mut appended = 0;
        let ranges: Vec<Range<u64>> = new.grid().iter().map(|&n| 0..n).collect();
        for_each_position(&ranges, |at| -> Result<(), NdError> {
            if at.iter().zip(old.grid()).all(|(at, n)| at < n) {
                targets.push(Target::Kept(linear(at, old.grid()) as usize));
            } else {
                targets.push(Target::Appended);
                appended += 1;
            }
            Ok(())
        })?;
        let before = self.frame.nchunks();
        self.append_zeros(appended)?;
        self.rearrange(before, &targets)
    }
}
