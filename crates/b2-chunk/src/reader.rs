//! Many reads of one chunk.

use b2_codecs::Decoder;

use crate::decompress::for_parts;
use crate::layout::Body;
use crate::memory;
use crate::{Chunk, ChunkError, DParams, LazyChunk};

/// Reads parts of one chunk, again and again: it keeps what the reads have in common (tables, dictionary, block 0 of
/// chunks with delta), and the last block when reads come back to it.
///
/// The first read in a block decodes no more than it takes; when the next one is in the same block, that is decoded
/// whole and kept.
///
/// ```
/// use b2_chunk::{CParams, Chunk, ChunkReader, DParams};
/// let raw: Vec<u8> = (0..100_000u32).flat_map(|i| i.to_le_bytes()).collect();
/// let chunk = Chunk::compress(&raw, &CParams::builder(4).build()?)?;
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
    codec: Option<Box<dyn Decoder>>,
    /// Decoded block 0, when the others refer to it.
    block0: Option<Vec<u8>>,
    last: Option<usize>,
    /// The bytes of the last block, if it was decoded whole.
    kept: Option<usize>,
    block: Vec<u8>,
}

impl ChunkReader {
    /// Reads the tables of `chunk`.
    ///
    /// # Errors
    /// When one is malformed, or the chunk is above a limit.
    pub fn new(chunk: Chunk, dparams: DParams) -> Result<Self, ChunkError> {
        let lazy = chunk.lazy(&dparams)?;
        Ok(Self {
            chunk,
            dparams,
            lazy,
            codec: None,
            block0: None,
            last: None,
            kept: None,
            block: Vec::new(),
        })
    }

    /// The chunk.
    pub fn chunk(&self) -> &Chunk {
        &self.chunk
    }

    /// Reads the plain bytes from `start` on.
    ///
    /// # Errors
    /// When they are not inside the chunk, or it is malformed where they are.
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
        let Self { chunk, dparams, lazy, codec, block0, last, kept, block } = self;
        let stored = chunk.as_bytes();
        let mut decoder = lazy.decoder(dparams)?;
        *decoder.codec_mut() = codec.take();
        if block0.is_none() && lazy.needs_block0() && nblocks.end > 1 {
            let mut first = memory::zeroed(lazy.block_range(0).len())?;
            decoder.decode_reference(0, &stored[lazy.block_extent(0)], None, &mut first)?;
            *block0 = Some(first);
        }
        let block_range = |nblock| lazy.block_range(nblock);
        for_parts(start..end, nblocks, block_range, dst, |nblock, part, dst| {
            let (stored, len) = (&stored[lazy.block_extent(nblock)], block_range(nblock).len());
            if *last == Some(nblock) && *kept != Some(nblock) && part.len() < len {
                *kept = None;
                let block = memory::sized(block, len)?;
                decoder.decode(nblock, stored, block0.as_deref(), block)?;
                *kept = Some(nblock);
            }
            *last = Some(nblock);
            if *kept == Some(nblock) {
                dst.copy_from_slice(&block[part]);
                return Ok(());
            }
            decoder.decode_part(nblock, stored, block0.as_deref(), part, dst)
        })?;
        *codec = decoder.codec_mut().take();
        Ok(())
    }
}
