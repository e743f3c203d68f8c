//! Compressing and decompressing many chunks with one set of buffers.

use std::fmt;

use super::bytes::checked_header;
use super::make::check_room;
use crate::block::scratch::{Scratch, ScratchGuard};
use crate::decode::decompress::{ParsedChunk, decompress_whole};
use crate::decode::small::starts_like_last;
use crate::encode::compress::compress_into;
use crate::{CParams, ChunkError, DParams};

/// Compresses many chunks with the same parameters. It keeps the encoder and the buffers from chunk to chunk.
///
/// The functions of [`Chunk`](crate::Chunk) reuse state per thread, which is nearly as fast for the codecs and filters
/// of this library. A `Compressor` keeps those of other plugins as well, and holds its memory until it is dropped: at
/// most 8 MiB for each of a few buffers, and what the encoder takes. Chunks above 64 KiB use the memory of threads.
///
/// ```
/// use b2_chunk::{CParams, Compression, Compressor, Decompressor, DParams};
/// let mut compressor = Compressor::new(Compression::new().itemsize(2).build()?);
/// let mut decompressor = Decompressor::new(DParams::default());
/// let (mut chunk, mut plain) = (vec![0; 1032], vec![0; 1000]);
/// for row in 0..100u16 {
///     let values: Vec<u8> = (row..row + 500).flat_map(u16::to_le_bytes).collect();
///     let len = compressor.compress_into(&values, &mut chunk)?;
///     assert_eq!(decompressor.decompress_into(&chunk[..len], &mut plain)?, 1000);
///     assert_eq!(plain, values);
/// }
/// # Ok::<(), b2_chunk::ChunkError>(())
/// ```
pub struct Compressor {
    cparams: CParams,
    scratch: Scratch,
}

impl Compressor {
    /// Creates a compressor. Its memory is allocated when it is used.
    pub fn new(cparams: CParams) -> Self {
        Self { cparams, scratch: Scratch::default() }
    }

    /// Returns the parameters.
    pub fn cparams(&self) -> &CParams {
        &self.cparams
    }

    /// Compresses `src` into the start of `dst` and returns the length of the chunk, which is the same as that of
    /// [`Chunk::compress_bytes_into`](crate::Chunk::compress_bytes_into). `dst` must be at least 32 bytes longer than
    /// `src`; its bytes after the chunk, and all of them after an error, are unspecified.
    ///
    /// # Errors
    /// Fails like [`Chunk::compress_bytes_into`](crate::Chunk::compress_bytes_into).
    pub fn compress_into(&mut self, src: &[u8], dst: &mut [u8]) -> Result<usize, ChunkError> {
        check_room(src.len(), dst)?;
        let header = compress_into(src, dst, &self.cparams, ScratchGuard::Held(&mut self.scratch))?;
        Ok(header.cbytes())
    }
}

/// Decompresses many chunks. It keeps the decoder and the buffers from chunk to chunk, as a [`Compressor`] does.
pub struct Decompressor {
    dparams: DParams,
    scratch: Scratch,
}

impl Decompressor {
    /// Creates a decompressor. Its memory is allocated when it is used.
    pub fn new(dparams: DParams) -> Self {
        Self { dparams, scratch: Scratch::default() }
    }

    /// Returns the parameters.
    pub fn dparams(&self) -> &DParams {
        &self.dparams
    }

    /// Decompresses the chunk at the start of `chunk` into the start of `dst` and returns the number of bytes. The rest
    /// of `dst` is not changed; after an error, its content is unspecified.
    ///
    /// # Errors
    /// [`ChunkError::Argument`] if `dst` is too short, otherwise as
    /// [`ChunkRef::from_slice`](crate::ChunkRef::from_slice) and
    /// [`ChunkRef::decompress_bytes_into`](crate::ChunkRef::decompress_bytes_into).
    pub fn decompress_into(&mut self, chunk: &[u8], dst: &mut [u8]) -> Result<usize, ChunkError> {
        if let Some(nbytes) = starts_like_last(chunk, dst, &self.dparams, &mut self.scratch) {
            return Ok(nbytes);
        }
        let header = &checked_header(chunk)?;
        let bytes = chunk.get(..header.cbytes()).unwrap_or(chunk);
        let (nbytes, have) = (header.nbytes(), dst.len());
        let Some(dst) = dst.get_mut(..nbytes) else {
            return Err(ChunkError::argument("dst", format!("{have} bytes, expected at least {nbytes}")));
        };
        let chunk = ParsedChunk { header, bytes, shared: None, nchunk: None };
        decompress_whole(chunk, dst, &self.dparams, ScratchGuard::Held(&mut self.scratch))?;
        Ok(nbytes)
    }
}

impl fmt::Debug for Compressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compressor").field("cparams", &self.cparams).finish_non_exhaustive()
    }
}

impl fmt::Debug for Decompressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decompressor").field("dparams", &self.dparams).finish_non_exhaustive()
    }
}
