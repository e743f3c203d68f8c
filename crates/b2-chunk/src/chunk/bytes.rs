//! A chunk as stored: validated header and bytes.

use std::fmt;

use bytes::Bytes;

use crate::decode::decompress::ParsedChunk;
use crate::{ChunkError, ChunkHeader};

/// A whole chunk in memory: its validated header and all its bytes. Cloning is cheap.
///
/// # Writing
/// [`compress`](ChunkRef::compress) takes values, [`compress_bytes`](ChunkRef::compress_bytes) bytes. [`Compression`](crate::Compression) has
/// the parameters, and [`Compressor`](crate::Compressor) keeps its state for many chunks.
///
/// ```
/// use b2_chunk::{Chunk, Compression};
/// let values: Vec<u32> = (0..10_000).collect();
/// let chunk = Chunk::compress(&values, &Compression::lz4())?;
/// assert!(chunk.cbytes() < chunk.nbytes() / 4);
/// let stored = chunk.into_bytes(); // to be kept anywhere
/// assert_eq!(Chunk::from_bytes(stored)?.nbytes(), 40_000);
/// # Ok::<(), b2_chunk::ChunkError>(())
/// ```
///
/// # Reading
/// The whole chunk, or some items of it: only the blocks that hold them are decoded. Chunks of unknown origin are safe to
/// read: their claims are compared with [`Limits`](crate::Limits) before memory is allocated.
///
/// ```
/// # use b2_chunk::{Chunk, Compression, DParams, Limits};
/// # let values: Vec<u32> = (0..10_000).collect();
/// # let chunk = Chunk::compress(&values, &Compression::lz4())?;
/// assert_eq!(chunk.decompress::<u32>()?, values);
/// let dparams = DParams::default().limits(Limits::default().max_chunk_nbytes(1 << 20));
/// assert_eq!(chunk.get_items::<u32>(1000..1010, &dparams)?, values[1000..1010]);
/// # Ok::<(), b2_chunk::ChunkError>(())
/// ```
///
/// # Changing
/// A chunk is never changed. [`with_blocks`](ChunkRef::with_blocks) returns another with new content in some blocks, and keeps
/// the others as they are stored; it returns `None` if everything has to be compressed again.
///
/// ```
/// # use b2_chunk::{Chunk, Compression, DParams};
/// # let values: Vec<u32> = (0..10_000).collect();
/// let cparams = Compression::lz4().itemsize(4).blocksize(8000).build()?;
/// let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
/// let chunk = Chunk::compress_bytes(&bytes, &cparams)?;
/// let block: Vec<u8> = (0..2000u32).rev().flat_map(|value| value.to_le_bytes()).collect();
/// let changed = chunk.with_blocks(&[(1, &block)], &cparams, &DParams::default())?.expect("independent blocks");
/// assert_eq!(changed.get_items::<u32>(1999..2001, &DParams::default())?, [1999, 1999]);
/// assert_eq!(changed.get_items::<u32>(4000..4002, &DParams::default())?, [4000, 4001]);
/// # Ok::<(), b2_chunk::ChunkError>(())
/// ```
///
/// # Parallel
/// Blocks are compressed and decompressed on several threads, as set by the [`Control`](crate::Control) of the parameters.
/// The bytes of a chunk do not depend on it.
///
/// ```
/// # use b2_chunk::{Chunk, Compression};
/// use b2_chunk::Control;
/// # let values: Vec<u32> = (0..10_000).collect();
/// let alone = Compression::lz4().control(Control::new().threads(1));
/// assert_eq!(Chunk::compress(&values, &alone)?.as_bytes(), Chunk::compress(&values, &Compression::lz4())?.as_bytes());
/// # Ok::<(), b2_chunk::ChunkError>(())
/// ```
///
/// # Remote chunks
/// [`LazyChunk`](crate::LazyChunk) is a chunk of which only the head is in memory. It locates each block, so that a
/// reader fetches only what it needs.
///
/// ```
/// # use b2_chunk::{Chunk, Compression, DParams};
/// use b2_chunk::{LazyChunk, LazyHead};
/// # let values: Vec<u32> = (0..10_000).collect();
/// # let chunk = Chunk::compress(&values, &Compression::lz4().blocksize(8000))?;
/// let (stored, dparams) = (chunk.as_bytes(), DParams::default()); // stored remotely
/// let mut have = 32;
/// let lazy = loop {
///     match LazyChunk::parse(&stored[..have], stored.len() as u64, &dparams)? {
///         LazyHead::Ready(lazy) => break lazy,
///         LazyHead::Need(len) => have = len,
///         LazyHead::Whole => have = stored.len(),
///     }
/// };
/// let mut block = [0; 8000];
/// lazy.decoder(&dparams)?.decode(1, &stored[lazy.block_extent(1)], None, &mut block)?;
/// assert_eq!(block[..4], 2000u32.to_le_bytes());
/// # Ok::<(), b2_chunk::ChunkError>(())
/// ```
pub type Chunk = ChunkRef<'static>;

/// A whole chunk in memory, borrowed or shared. [`Chunk`] is the form that owns its memory.
///
/// Methods without a suffix use the built-in plugins and the default limits; those that end in `_with` or `_into`, and
/// those that read a part, take [`DParams`](crate::DParams) last.
///
/// ```
/// use b2_chunk::{Chunk, ChunkRef, Compression};
/// let stored = Chunk::compress(&[1.5f64; 100], &Compression::new())?.into_bytes().to_vec();
/// let chunk = ChunkRef::from_slice(&stored)?;
/// assert_eq!(chunk.decompress::<f64>()?, [1.5; 100]);
/// # Ok::<(), b2_chunk::ChunkError>(())
/// ```
#[derive(Clone)]
pub struct ChunkRef<'a> {
    pub(super) header: ChunkHeader,
    /// Exactly as long as the header says.
    pub(super) stored: ChunkBytes<'a>,
    pub(super) nchunk: Option<usize>,
}

#[derive(Clone)]
pub(super) enum ChunkBytes<'a> {
    Shared(Bytes),
    Borrowed(&'a [u8]),
}

impl Chunk {
    /// Takes bytes that start with a chunk, and drops any that follow it.
    ///
    /// Only the header is checked. Tables and streams are checked when they are read.
    ///
    /// # Errors
    /// [`ChunkError::Field`] if the header is malformed, [`ChunkError::NewerVersion`] if it is of a newer version of the
    /// format, [`ChunkError::Truncated`] if there are fewer bytes than it says.
    pub fn from_bytes(bytes: impl Into<Bytes>) -> Result<Self, ChunkError> {
        let bytes = bytes.into();
        let header = checked_header(&bytes)?;
        let bytes = bytes.slice(..header.cbytes());
        Ok(Self { header, stored: ChunkBytes::Shared(bytes), nchunk: None })
    }

    /// Returns the stored bytes, without copying where possible.
    pub fn to_bytes(&self) -> Bytes {
        self.clone().into_bytes()
    }
    /// Converts the chunk into its stored bytes.
    pub fn into_bytes(self) -> Bytes {
        match self.stored {
            ChunkBytes::Shared(bytes) => bytes,
            ChunkBytes::Borrowed(bytes) => Bytes::from_static(bytes),
        }
    }
}

impl<'a> ChunkRef<'a> {
    /// Borrows bytes that start with a chunk, and ignores any that follow it. Only the header is checked.
    ///
    /// # Errors
    /// Fails like [`Chunk::from_bytes`].
    pub fn from_slice(bytes: &'a [u8]) -> Result<Self, ChunkError> {
        let header = checked_header(bytes)?;
        let bytes = bytes.get(..header.cbytes()).unwrap_or(bytes);
        Ok(Self { header, stored: ChunkBytes::Borrowed(bytes), nchunk: None })
    }
}

impl ChunkRef<'_> {
    /// Sets the index of this chunk in its container, which is passed to the postfilter.
    #[must_use]
    #[doc(hidden)]
    pub fn with_nchunk(self, nchunk: Option<usize>) -> Self {
        Self { nchunk, ..self }
    }

    /// Returns the parsed header.
    pub fn header(&self) -> &ChunkHeader {
        &self.header
    }
    /// Returns the uncompressed size in bytes.
    pub fn nbytes(&self) -> usize {
        self.header.nbytes()
    }
    /// Returns the compressed size in bytes, including the header.
    pub fn cbytes(&self) -> usize {
        self.as_bytes().len()
    }
    /// Returns how many bytes were stored to represent the data, to be compared with [`Limits`](crate::Limits). It
    /// includes header and tables, and is 0 for special chunks.
    #[doc(hidden)]
    pub fn stored(&self) -> u64 {
        if self.header.special().is_some() { 0 } else { self.cbytes() as u64 }
    }
    /// Returns the stored bytes.
    pub fn as_bytes(&self) -> &[u8] {
        match &self.stored {
            ChunkBytes::Shared(bytes) => bytes,
            ChunkBytes::Borrowed(bytes) => bytes,
        }
    }

    pub(super) fn whole(&self) -> ParsedChunk<'_> {
        let shared = match &self.stored {
            ChunkBytes::Shared(bytes) => Some(bytes),
            ChunkBytes::Borrowed(_) => None,
        };
        ParsedChunk { header: &self.header, bytes: self.as_bytes(), shared, nchunk: self.nchunk }
    }
}

/// Parses the header of a chunk and checks that the chunk is complete.
pub(super) fn checked_header(bytes: &[u8]) -> Result<ChunkHeader, ChunkError> {
    let header = ChunkHeader::parse(bytes)?;
    if bytes.len() < header.cbytes() {
        let (need, have) = (header.cbytes() as u64, bytes.len() as u64);
        return Err(ChunkError::Truncated { what: "the chunk", need, have });
    }
    Ok(header)
}

/// Two chunks are equal if their bytes are equal.
impl PartialEq<ChunkRef<'_>> for ChunkRef<'_> {
    fn eq(&self, other: &ChunkRef<'_>) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for ChunkRef<'_> {}

impl fmt::Debug for ChunkRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chunk").field("header", &self.header).finish_non_exhaustive()
    }
}
