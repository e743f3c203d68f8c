//! Repeated reads of one chunk.

use b2_core::memory;

use crate::block::scratch::CachedDecoder;
use crate::decode::decompress::{begin, for_parts};
use crate::model::layout::Body;
use crate::{Chunk, ChunkError, DParams, LazyChunk};

/// Reads parts of one chunk repeatedly.
///
/// It keeps whatever several reads have in common: tables, dictionary, and block 0 if delta refers to it. The first
/// read in a block decodes only as much as necessary; a second read in the same block decodes all of it and keeps it.
///
/// ```
/// use b2_chunk::{Chunk, ChunkReader, Compression, DParams};
/// let ramp: Vec<u32> = (0..100_000).collect();
/// let chunk = Chunk::compress(&ramp, &Compression::new())?;
/// let mut reader = ChunkReader::new(chunk, DParams::default())?;
/// let mut item = [0; 4];
/// for i in (0..100_000u32).step_by(7) {
///     reader.read(4 * i as usize, &mut item)?;
///     assert_eq!(u32::from_le_bytes(item), i);
/// }
/// # Ok::<(), b2_chunk::ChunkError>(())
/// ```
pub struct ChunkReader {
    chunk: Chunk,
    dparams: DParams,
    lazy: LazyChunk,
    codec: Option<CachedDecoder>,
    /// Decoded block 0, if other blocks refer to it.
    block0: Option<Vec<u8>>,
    last: Option<usize>,
    /// Index of the block in `block`, if one has been decoded in full.
    cached: Option<usize>,
    block: Vec<u8>,
}

impl std::fmt::Debug for ChunkReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChunkReader").field("chunk", &self.chunk).finish_non_exhaustive()
    }
}

impl ChunkReader {
    /// Creates a reader and parses the tables of `chunk`.
    ///
    /// # Errors
    /// As [`ChunkRef::lazy`](crate::ChunkRef::lazy): [`ChunkError::Truncated`], [`ChunkError::Block`],
    /// [`ChunkError::Dictionary`] or [`ChunkError::Field`] if a table is malformed, [`ChunkError::Limit`] if the chunk
    /// exceeds a limit.
    pub fn new(chunk: Chunk, dparams: DParams) -> Result<Self, ChunkError> {
        let lazy = chunk.lazy(&dparams)?;
        Ok(Self {
            chunk,
            dparams,
            lazy,
            codec: None,
            block0: None,
            last: None,
            cached: None,
            block: Vec::new(),
        })
    }

    /// Returns the chunk.
    pub fn chunk(&self) -> &Chunk {
        &self.chunk
    }

    /// Fills `dst` with uncompressed bytes, from the offset `start` on.
    ///
    /// # Errors
    /// [`ChunkError::OutOfRange`] if the range is not inside the chunk; otherwise as
    /// [`ChunkRef::decompress_with`](crate::ChunkRef::decompress_with), for the blocks that are read.
    pub fn read(&mut self, start: usize, dst: &mut [u8]) -> Result<(), ChunkError> {
        let end = start.saturating_add(dst.len());
        if end > self.chunk.nbytes() {
            let len = self.chunk.nbytes();
            return Err(ChunkError::OutOfRange { what: "bytes", start, end, len });
        }
        let nblocks = match self.lazy.layout.body {
            Body::Blocks { .. } | Body::VlBlocks { .. } => self.lazy.blocks_of(start..end),
            _ => return self.chunk.get_bytes_into(start, dst, &self.dparams),
        };
        let Self { chunk, dparams, lazy, codec, block0, last, cached, block } = self;
        let stored = |nblock| chunk.as_bytes().get(lazy.block_extent(nblock)).unwrap_or_default();
        let control = begin(dparams, lazy.header(), dst.len());
        let mut decoder = lazy.decoder(dparams)?;
        decoder.swap_codec(codec);
        if block0.is_none() && lazy.needs_block0() && nblocks.end > 1 {
            let mut first = memory::zeroed(lazy.block_range(0).len())?;
            decoder.decode_reference(0, stored(0), None, &mut first)?;
            *block0 = Some(first);
        }
        let block_range = |nblock| lazy.block_range(nblock);
        for_parts(&control, start..end, nblocks, block_range, dst, |nblock, part, dst| {
            let (stored, len) = (stored(nblock), block_range(nblock).len());
            if *last == Some(nblock) && *cached != Some(nblock) && part.len() < len {
                *cached = None;
                let block = memory::sized(block, len)?;
                decoder.decode(nblock, stored, block0.as_deref(), block)?;
                *cached = Some(nblock);
            }
            *last = Some(nblock);
            if *cached == Some(nblock) {
                #[allow(clippy::indexing_slicing, reason = "`for_parts` only passes parts inside the block")]
                dst.copy_from_slice(&block[part]);
                return Ok(());
            }
            decoder.decode_part(nblock, stored, block0.as_deref(), part, dst)
        })?;
        decoder.swap_codec(codec);
        Ok(())
    }
}
