//! How chunks are put into the frame.

use b2_chunk::memory::{self, OutOfMemory};
use b2_chunk::{Chunk, SpecialKind};
use b2_frame::{Compare, Entry, MAX_NCHUNKS, SuperChunk};

use crate::copy::copy_box;
use crate::edit::ArrayEditor;
use crate::geometry::{for_each_position, product, strides};
use crate::meta::{METALAYER, OLD_METALAYER};
use crate::produce::Produced;
use crate::{Geometry, NdArray, NdError};

/// A new chunk of a changed array.
pub(super) enum Target {
    /// Chunk of the old array with this number, unchanged.
    Kept(usize),
    /// The next one of those that were appended to the frame.
    Appended,
}

impl ArrayEditor {
    /// A chunk that an entry of the index tells, if C-Blosc2 can read it there.
    pub(super) fn special(&self, kind: SpecialKind) -> Result<Chunk, NdError> {
        let g = &self.geometry;
        let zeros = matches!(kind, SpecialKind::Zeros | SpecialKind::Uninit);
        // C-Blosc2 reads special entries in blocks of the size in the header.
        if zeros && !self.tells_blocks {
            return Ok(Chunk::zero_runs(g.chunk_nbytes(), g.itemsize(), g.block_nbytes())?);
        }
        Ok(Chunk::special(kind, &[], g.chunk_nbytes(), g.itemsize(), g.block_nbytes())?)
    }

    pub(super) fn to_chunk(&self, produced: Produced) -> Result<Chunk, NdError> {
        match produced {
            Produced::Special(kind) => self.special(kind),
            Produced::Chunk(chunk) => Ok(chunk),
        }
    }

    /// Appends chunks of zeros to the frame.
    pub(super) fn append_zeros(&mut self, count: u64) -> Result<(), NdError> {
        if count == 0 {
            return Ok(());
        }
        let chunk = self.special(SpecialKind::Zeros)?;
        for _ in 0..count {
            self.frame.append(chunk.clone())?;
        }
        Ok(())
    }

    /// Removes the last chunks of the frame.
    pub(super) fn truncate(&mut self, nchunks: u64) -> Result<(), NdError> {
        while self.frame.nchunks() as u64 > nchunks {
            self.frame.delete(self.frame.nchunks() - 1)?;
        }
        Ok(())
    }

    /// Puts the chunks in the order of `targets`; those that are left over go. `old`: how many there were
    /// before some were appended.
    pub(super) fn rearrange(&mut self, old: usize, targets: &[Target]) -> Result<(), NdError> {
        let total = self.frame.nchunks();
        let mut used = memory::collect((0..total).map(|_| false))?;
        let mut appended = old;
        let mut order = memory::list(total)?;
        for target in targets {
            let nchunk = match target {
                Target::Kept(nchunk) => *nchunk,
                Target::Appended => {
                    appended += 1;
                    appended - 1
                }
            };
            used[nchunk] = true;
            order.push(nchunk);
        }
        let kept = order.len() as u64;
        order.extend((0..total).filter(|&nchunk| !used[nchunk]));
        self.frame.reorder(&order)?;
        self.truncate(kept)
    }

    /// Checks that an array of another shape is possible.
    pub(super) fn with_shape(&self, shape: &[u64]) -> Result<Geometry, NdError> {
        let g = &self.geometry;
        let new =
            Geometry::new(shape.to_vec(), g.chunkshape().to_vec(), g.blockshape().to_vec(), g.itemsize())?;
        if new.nchunks() > MAX_NCHUNKS as u64 {
            let what = format!("shape {shape:?} needs {} chunks, at most {MAX_NCHUNKS}", new.nchunks());
            return Err(NdError::geometry(what));
        }
        Ok(new)
    }

    /// Writes the shape into the metalayer; all else in it, known or not, stays.
    pub(super) fn set_shape(&mut self, geometry: Geometry) -> Result<(), NdError> {
        let metalayers = self.frame.metalayers()?;
        for name in [METALAYER, OLD_METALAYER] {
            let Some(meta) = metalayers.get(name) else { continue };
            let mut meta = meta.to_vec();
            // Behind three bytes and the marker of the list each length is a marker and 8 bytes.
            for (field, length) in meta[4..].chunks_exact_mut(9).zip(geometry.shape()) {
                field[1..].copy_from_slice(&length.to_be_bytes());
            }
            self.frame.set_metalayer(name, &meta)?;
            break;
        }
        self.geometry = geometry;
        Ok(())
    }
}

/// Whether chunks keep their numbers when they keep their place in the grid, and no others have those numbers.
pub(super) fn same_numbers(old: &Geometry, new: &Geometry) -> bool {
    let common = product(old.grid().iter().zip(new.grid()).map(|(&a, &b)| a.min(b)));
    if common != old.nchunks().min(new.nchunks()) {
        return false;
    }
    let (mut old_step, mut new_step) = (1u64, 1u64);
    for (&a, &b) in old.grid().iter().zip(new.grid()).rev() {
        if a.min(b) > 1 && old_step != new_step {
            return false;
        }
        (old_step, new_step) = (old_step.saturating_mul(a), new_step.saturating_mul(b));
    }
    true
}

/// Fails when a chunk is too large to be changed: it takes memory for its plain bytes, and for what they are compressed to.
pub(super) fn check_memory(array: &NdArray) -> Result<(), NdError> {
    let nbytes = (array.geometry().chunk_nbytes() as u64).saturating_mul(2);
    Ok(array.super_chunk().dparams().limits.check_memory("a chunk to be changed, in bytes", nbytes)?)
}

/// Items of chunk `nchunk`, block after block; `None` if all are zeros.
pub(super) fn plain(array: &NdArray, nchunk: usize) -> Result<Option<Vec<u8>>, NdError> {
    let frame: &SuperChunk = array.super_chunk();
    if let Entry::Special(SpecialKind::Zeros | SpecialKind::Uninit) = frame.entry(nchunk)? {
        return Ok(None);
    }
    check_memory(array)?;
    // It goes into a new chunk, and damage must not get a new checksum.
    let plain = frame.clone().with_compare(Compare::Always).decompress_chunk(nchunk)?;
    array.check_chunk(nchunk, plain.len())?;
    Ok(Some(plain))
}

/// A chunk with zeros outside the box `0..keep`.
pub(super) fn cropped(geometry: &Geometry, chunk: &[u8], keep: &[u64]) -> Result<Vec<u8>, OutOfMemory> {
    let itemsize = geometry.itemsize();
    let block_strides = strides(geometry.blockshape().iter().map(|&n| n as usize), itemsize);
    let mut out = memory::zeroed(chunk.len())?;
    let size = geometry.block_nbytes();
    let mut blocks = out.chunks_exact_mut(size).zip(chunk.chunks_exact(size));
    let ranges: Vec<_> = geometry.blocks().iter().map(|&n| 0..u64::from(n)).collect();
    let mut counts = vec![0; keep.len()];
    let done: Result<(), std::convert::Infallible> = for_each_position(&ranges, |block| {
        let Some((dst, src)) = blocks.next() else { return Ok(()) };
        for (dim, &j) in block.iter().enumerate() {
            let b = u64::from(geometry.blockshape()[dim]);
            counts[dim] = keep[dim].saturating_sub(j * b).min(b) as usize;
        }
        copy_box(&counts, itemsize, (src, 0, &block_strides), (dst, 0, &block_strides));
        Ok(())
    });
    let Ok(()) = done;
    Ok(out)
}
