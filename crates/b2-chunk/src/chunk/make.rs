//! Constructors of [`Chunk`].

use super::Chunk;
use super::bytes::ChunkBytes;
use super::patch;
use crate::block::scratch::ScratchGuard;
use crate::encode::compress::{self, EncodedChunk, PlainBlocks};
use crate::model::header::EXTENDED_HEADER_LEN;
use crate::{CParams, ChunkError, Compression, DParams, Element, SpecialKind};
use b2_core::memory::zeroed;

/// Fails if `dst` cannot hold every chunk of `nbytes` bytes.
pub(super) fn check_room(nbytes: usize, dst: &[u8]) -> Result<(), ChunkError> {
    let need = nbytes.saturating_add(EXTENDED_HEADER_LEN);
    if dst.len() < need {
        return Err(ChunkError::argument("dst", format!("{} bytes, expected at least {need}", dst.len())));
    }
    Ok(())
}

impl Chunk {
    /// Compresses values. The item size is the size of `T`.
    ///
    /// # Errors
    /// Fails like [`compress_bytes`](Self::compress_bytes) and [`Compression::build`].
    pub fn compress<T: Element>(values: &[T], compression: &Compression) -> Result<Self, ChunkError> {
        let cparams = compression.clone().itemsize(T::ITEMSIZE).build()?;
        if let Some(bytes) = T::as_le_bytes(values) {
            return Self::compress_bytes(bytes, &cparams);
        }
        let mut bytes = zeroed(values.len().saturating_mul(T::ITEMSIZE))?;
        let items = bytes.chunks_exact_mut(T::ITEMSIZE);
        values.iter().zip(items).for_each(|(value, item)| value.write_le(item));
        Self::compress_bytes(&bytes, &cparams)
    }

    /// Compresses the bytes `src`. Blocks are compressed in parallel (feature `rayon`); the result does not depend on
    /// the number of threads.
    ///
    /// Input that does not shrink (with blosclz up to level 6: by a twentieth) is stored, which takes 32 bytes more than
    /// `src`. Input that repeats one item becomes a special chunk of 32 bytes (zeros, NaN), or of 32 bytes plus the item.
    ///
    /// The delta filter is not applied to chunks whose length is not a multiple of its word, since C-Blosc2 would lose
    /// the last bytes of such chunks.
    ///
    /// # Errors
    /// [`ChunkError::Argument`] if `src` is longer than 2^31 - 33 bytes, [`ChunkError::Codec`] or [`ChunkError::Apply`] if a
    /// codec or filter does not accept the parameters, [`ChunkError::Hook`] if the prefilter fails, [`ChunkError::Limit`] if a
    /// block exceeds the memory limit, [`ChunkError::Cancelled`], [`ChunkError::OutOfMemory`].
    pub fn compress_bytes(src: &[u8], cparams: &CParams) -> Result<Self, ChunkError> {
        compress::compress(src, cparams).map(Self::from_encoded)
    }

    /// Compresses `src` into the start of `dst` and returns the length of the chunk.
    ///
    /// `dst` must be at least 32 bytes longer than `src`. Its bytes after the chunk, and all of them after an error,
    /// are unspecified.
    ///
    /// ```
    /// use b2_chunk::{Chunk, Compression};
    /// let cparams = Compression::new().itemsize(1).build()?;
    /// let mut buffer = vec![0; 1032];
    /// let len = Chunk::compress_bytes_into(&[1; 1000], &mut buffer, &cparams)?;
    /// assert_eq!(&buffer[..len], Chunk::compress_bytes(&[1; 1000], &cparams)?.as_bytes());
    /// # Ok::<(), b2_chunk::ChunkError>(())
    /// ```
    ///
    /// # Errors
    /// As [`compress_bytes`](Self::compress_bytes); [`ChunkError::Argument`] also if `dst` is too short.
    pub fn compress_bytes_into(src: &[u8], dst: &mut [u8], cparams: &CParams) -> Result<usize, ChunkError> {
        check_room(src.len(), dst)?;
        compress::compress_into(src, dst, cparams, ScratchGuard::of_thread()).map(|header| header.cbytes())
    }

    /// Compresses blocks that `blocks` provides one by one. The result is the same as that of
    /// [`compress_bytes_into`](Self::compress_bytes_into). The blocks have the size that `cparams` asks for.
    ///
    /// # Errors
    /// As [`compress_bytes_into`](Self::compress_bytes_into); [`ChunkError::Source`] if a block cannot be read.
    pub fn compress_blocks_into(
        blocks: &dyn PlainBlocks,
        dst: &mut [u8],
        cparams: &CParams,
    ) -> Result<usize, ChunkError> {
        check_room(blocks.nbytes(), dst)?;
        compress::compress_blocks_into(blocks, dst, cparams).map(|header| header.cbytes())
    }

    /// Returns a chunk with new content in some blocks, given by number. All other blocks are kept as stored and not
    /// decoded, so this takes as long as compressing the changed blocks. If this chunk was made with the same
    /// parameters, the result equals compressing everything with `cparams`.
    ///
    /// Returns `None` if everything has to be recompressed: the chunk was made with other parameters, blocks depend on
    /// each other (delta, dictionaries), or the chunk is not divided into blocks (special or stored), before or after
    /// the change.
    ///
    /// # Errors
    /// As [`lazy`](Self::lazy) if the chunk is malformed; [`ChunkError::Argument`] if a block does not have the length
    /// of the one that it replaces; otherwise as [`compress_bytes`](Self::compress_bytes).
    pub fn with_blocks(
        &self,
        changed: &[(usize, &[u8])],
        cparams: &CParams,
        dparams: &DParams,
    ) -> Result<Option<Self>, ChunkError> {
        let lazy = self.lazy(dparams)?;
        let made = patch::with_blocks(self.as_bytes(), &lazy, changed, cparams)?;
        made.map(Self::from_bytes).transpose()
    }

    /// Compresses blocks of different lengths into one chunk (docs/format/chunk.md, section 8).
    ///
    /// # Errors
    /// [`ChunkError::Argument`] if there is no block, a block is empty, the pipeline contains delta (C-Blosc2 decodes
    /// it differently from call to call), the chunks are for C-Blosc 1, or the chunk would be too large; otherwise as
    /// [`compress_bytes`](Self::compress_bytes).
    pub fn compress_vl(blocks: &[&[u8]], cparams: &CParams) -> Result<Self, ChunkError> {
        compress::compress_vl(blocks, cparams).map(Self::from_encoded)
    }

    /// Makes a special chunk, which represents `nbytes` bytes by one value (docs/format/chunk.md, section 4).
    ///
    /// `value` is the repeated value for [`SpecialKind::Value`], and empty for the other kinds. `typesize` is the item
    /// size and `blocksize` the granularity of partial reads, in bytes (0 for automatic).
    ///
    /// # Errors
    /// [`ChunkError::Argument`] if `nbytes` is not a multiple of the value's width (for NaN 4 or 8), or a parameter is
    /// out of range.
    pub fn special(
        kind: SpecialKind,
        value: &[u8],
        nbytes: usize,
        typesize: usize,
        blocksize: usize,
    ) -> Result<Self, ChunkError> {
        compress::special(kind, value, nbytes, typesize, blocksize).map(Self::from_encoded)
    }

    /// Makes a chunk of `nbytes` zeros that consists of runs. Frames with chunks of different sizes cannot contain
    /// special chunks and use this instead. A `blocksize` of 0 is automatic.
    ///
    /// # Errors
    /// Fails if a parameter is out of range.
    #[doc(hidden)]
    pub fn zero_runs(nbytes: usize, typesize: usize, blocksize: usize) -> Result<Self, ChunkError> {
        compress::zero_runs(nbytes, typesize, blocksize).map(Self::from_encoded)
    }

    fn from_encoded((header, bytes): EncodedChunk) -> Self {
        Self { header, stored: ChunkBytes::Shared(bytes), nchunk: None }
    }
}
