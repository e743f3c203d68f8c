#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::string_slice,
        clippy::unreachable,
        clippy::unwrap_used,
        reason = "reads bytes from outside"
    )
)]

use std::ops::Range;

use bytes::Bytes;

use crate::layout::Body;
use crate::memory::{self, zeroed};
use crate::{ChunkError, ChunkHeader, DParams, LazyChunk, LazyHead};

/// A whole chunk: checked header and all bytes. Cloning is cheap.
///
/// ```
/// use b2_chunk::{CParams, Chunk};
/// let raw: Vec<u8> = (0..10_000u32).flat_map(|i| i.to_le_bytes()).collect();
/// let chunk = Chunk::compress(&raw, &CParams::builder(4).build()?)?;
/// assert!(chunk.cbytes() < raw.len() / 4);
/// assert_eq!(chunk.decompress()?, raw);
/// assert_eq!(chunk.get_items(1000..1010)?, raw[4000..4040]);
/// # Ok::<(), b2_chunk::ChunkError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    pub(crate) header: ChunkHeader,
    pub(crate) bytes: Bytes,
}

impl Chunk {
    /// Takes bytes that start with a chunk; what follows the chunk is cut off.
    ///
    /// Only the header is checked here; tables and streams are when they are read.
    ///
    /// # Errors
    /// When the header is malformed, or there are fewer bytes than it says.
    pub fn parse(bytes: Bytes) -> Result<Self, ChunkError> {
        let header = ChunkHeader::parse(&bytes)?;
        if bytes.len() < header.cbytes() {
            return Err(ChunkError::Truncated {
                what: "the chunk",
                need: header.cbytes() as u64,
                have: bytes.len() as u64,
            });
        }
        let bytes = bytes.slice(..header.cbytes());
        Ok(Self { header, bytes })
    }

    /// The parsed header.
    pub fn header(&self) -> &ChunkHeader {
        &self.header
    }
    /// Uncompressed size in bytes.
    pub fn nbytes(&self) -> usize {
        self.header.nbytes()
    }
    /// Compressed size in bytes, header included.
    pub fn cbytes(&self) -> usize {
        self.bytes.len()
    }
    /// Bytes that stand for data, header and tables included: 0 in special chunks, which say what the data are. To be
    /// compared with [`Limits`](crate::Limits).
    pub fn stored(&self) -> u64 {
        if self.header.special().is_some() { 0 } else { self.cbytes() as u64 }
    }
    /// The chunk as stored.
    pub fn as_bytes(&self) -> &Bytes {
        &self.bytes
    }
    /// The chunk as stored.
    pub fn into_bytes(self) -> Bytes {
        self.bytes
    }

    /// Where the blocks of this chunk lie.
    ///
    /// # Errors
    /// When a table is malformed, or the chunk is above a limit.
    pub fn lazy(&self, dparams: &DParams) -> Result<LazyChunk, ChunkError> {
        match LazyChunk::parse(&self.bytes, self.bytes.len() as u64, dparams)? {
            LazyHead::Ready(lazy) => Ok(lazy),
            // Not reached: all bytes of the chunk were given, and its header says so.
            need => Err(ChunkError::Truncated {
                what: "the chunk",
                need: if let LazyHead::Need(need) = need { need as u64 } else { u64::MAX },
                have: self.bytes.len() as u64,
            }),
        }
    }

    /// Decompresses with the built-in plugins and the default limits.
    ///
    /// # Errors
    /// As [`decompress_with`](Self::decompress_with).
    pub fn decompress(&self) -> Result<Vec<u8>, ChunkError> {
        self.decompress_with(&DParams::default())
    }

    /// Decompresses. Blocks are decoded in parallel on the current rayon pool (feature `rayon`).
    ///
    /// # Errors
    /// When the chunk is malformed, needs a plugin that is not registered, or is above a limit.
    pub fn decompress_with(&self, dparams: &DParams) -> Result<Vec<u8>, ChunkError> {
        dparams.limits.check_output(self.nbytes() as u64, self.stored())?;
        // What is wrong with the tables shows before there is a result to fill.
        let lazy = self.lazy(dparams)?;
        let mut out = zeroed(self.nbytes())?;
        crate::decompress::decompress(&lazy, &self.bytes, &mut out, dparams)?;
        Ok(out)
    }

    /// Decompresses into `dst`, which must have exactly [`nbytes`](Self::nbytes) bytes. After an error its
    /// content is unspecified.
    ///
    /// # Errors
    /// As [`decompress_with`](Self::decompress_with), and when `dst` has another length.
    pub fn decompress_into(&self, dst: &mut [u8], dparams: &DParams) -> Result<(), ChunkError> {
        if dst.len() != self.nbytes() {
            return Err(ChunkError::argument(
                "dst",
                format!("{} bytes, the chunk has {}", dst.len(), self.nbytes()),
            ));
        }
        let lazy = self.lazy(dparams)?;
        crate::decompress::decompress(&lazy, &self.bytes, dst, dparams)
    }

    /// Decompresses the items `range` (units of the header's typesize), reading only the blocks they are in.
    ///
    /// # Errors
    /// As [`decompress_with`](Self::decompress_with), and when the range is not inside the chunk.
    pub fn get_items(&self, range: Range<usize>) -> Result<Vec<u8>, ChunkError> {
        let typesize = self.header.typesize();
        let nitems = self.nbytes().checked_div(typesize).unwrap_or(0);
        let bytes = (range.start.checked_mul(typesize), range.end.checked_mul(typesize));
        match bytes {
            (Some(start), Some(end)) if start <= end && range.end <= nitems => {
                self.get_bytes(start..end, &DParams::default())
            }
            _ => {
                Err(ChunkError::OutOfRange { what: "items", start: range.start, end: range.end, len: nitems })
            }
        }
    }

    /// Decompresses the plain bytes `range`, reading only the blocks they are in (and block 0 where delta
    /// needs it).
    ///
    /// # Errors
    /// As [`decompress_with`](Self::decompress_with), and when the range is not inside the chunk.
    pub fn get_bytes(&self, range: Range<usize>, dparams: &DParams) -> Result<Vec<u8>, ChunkError> {
        if range.start > range.end || range.end > self.nbytes() {
            return Err(self.out_of_range(&range));
        }
        dparams.limits.check_output(range.len() as u64, self.stored())?;
        if self.header.is_vl() {
            // Lengths that do not add up show before there is a result to fill.
            self.lazy(dparams)?;
        }
        let mut out = zeroed(range.len())?;
        crate::decompress::get_bytes(self, range, &mut out, dparams)?;
        Ok(out)
    }

    /// As [`get_bytes`](Self::get_bytes), into `dst`: the plain bytes from `start` on.
    ///
    /// Each stream is decoded only as far as it takes, so that damage in other parts of the chunk may go unnoticed.
    /// For many reads of one chunk there is [`ChunkReader`](crate::ChunkReader).
    ///
    /// # Errors
    /// As [`get_bytes`](Self::get_bytes).
    pub fn get_bytes_into(&self, start: usize, dst: &mut [u8], dparams: &DParams) -> Result<(), ChunkError> {
        let range = start..start.saturating_add(dst.len());
        if range.end > self.nbytes() {
            return Err(self.out_of_range(&range));
        }
        crate::decompress::get_bytes(self, range, dst, dparams)
    }

    /// Decodes all blocks, one after the other, and keeps none: whether [`decompress_with`](Self::decompress_with)
    /// would succeed, in the memory of one block. What is told by a few bytes (special values, runs) is not expanded.
    /// What a postfilter would make of it does not matter. `decoded` grows by the plain bytes that were made, also when
    /// there is an error.
    ///
    /// # Errors
    /// As [`decompress_with`](Self::decompress_with); `max_output` is not looked at.
    pub fn check(&self, dparams: &DParams, decoded: &mut u64) -> Result<(), ChunkError> {
        crate::decompress::check(&self.lazy(dparams)?, &self.bytes, dparams, decoded)
    }

    #[cold]
    fn out_of_range(&self, range: &Range<usize>) -> ChunkError {
        ChunkError::OutOfRange { what: "bytes", start: range.start, end: range.end, len: self.nbytes() }
    }

    /// Decompresses the blocks of a chunk with variable-length blocks; other chunks give their blocks too.
    ///
    /// # Errors
    /// As [`decompress_with`](Self::decompress_with).
    pub fn blocks(&self, dparams: &DParams) -> Result<Vec<Vec<u8>>, ChunkError> {
        let lazy = self.lazy(dparams)?;
        let plain = self.decompress_with(dparams)?;
        let mut blocks = memory::list(lazy.nblocks())?;
        for nblock in 0..lazy.nblocks() {
            blocks.push(memory::copied(plain.get(lazy.block_range(nblock)).unwrap_or_default())?);
        }
        Ok(blocks)
    }

    /// Whether all content follows from the header (special values, or nothing at all).
    pub fn is_fill(&self, dparams: &DParams) -> Result<bool, ChunkError> {
        Ok(matches!(self.lazy(dparams)?.layout.body, Body::Fill { .. }))
    }
}
