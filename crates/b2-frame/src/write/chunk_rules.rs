//! Converts chunks to a form that C-Blosc2 can read inside a frame
//! (docs/format/frame-contiguous.md, sections 5.3 and 5.4).

use b2_chunk::{
    CParams, Chunk, ChunkError, ChunkHeader, CodecId, Compatibility, Compression, DParams,
    EXTENDED_HEADER_LEN, NAN4, NAN8, SpecialKind,
};
use bytes::BytesMut;

use crate::{FrameError, FrameHeader};

/// Longest value for which a chunk of one repeated value is made, in bytes.
const MAX_VALUE_LEN: usize = 4096;

/// Largest number of runs in a chunk of zeros.
const MAX_RUNS: usize = 256;

/// The properties of a frame that its chunks must match.
#[derive(Debug)]
pub(crate) struct ChunkRules {
    pub(crate) typesize: usize,
    pub(crate) blocksize: usize,
    pub(crate) dparams: DParams,
}

impl ChunkRules {
    /// Returns the rules for chunks of a frame with this header.
    pub(crate) fn of(header: &FrameHeader, dparams: DParams) -> Self {
        let (typesize, blocksize) = (header.itemsize(), header.blocksize());
        // As in new frames: with a block smaller than an item, C-Blosc2 refuses chunks of NaNs.
        Self { typesize, blocksize: if blocksize < typesize { 0 } else { blocksize }, dparams }
    }

    /// Returns the item size for chunk headers.
    fn chunk_typesize(&self) -> usize {
        if self.typesize > 255 { 1 } else { self.typesize }
    }

    pub(crate) fn nan_fits(&self, nbytes: usize) -> bool {
        matches!(self.typesize, 4 | 8) && nbytes.is_multiple_of(self.typesize)
    }

    /// Returns the kind of a special chunk that an index entry could represent.
    pub(crate) fn as_entry(&self, chunk: &Chunk) -> Option<SpecialKind> {
        let header = chunk.header();
        match header.special()? {
            _ if chunk.nbytes() == 0 => None,
            SpecialKind::NaN if header.itemsize() != self.typesize => None,
            SpecialKind::Value => None,
            kind => Some(kind),
        }
    }

    /// Creates a stored chunk with the content of a special one.
    pub(crate) fn special(&self, kind: SpecialKind, nbytes: usize) -> Result<Chunk, ChunkError> {
        let value = match (kind, self.typesize) {
            (SpecialKind::NaN, 4) => NAN4.to_vec(),
            (SpecialKind::NaN, _) => NAN8.to_vec(),
            (_, typesize) if typesize <= MAX_VALUE_LEN => vec![0; typesize],
            _ => Vec::new(),
        };
        if value.is_empty() || !nbytes.is_multiple_of(value.len()) {
            // Each block stores a run, so with tiny blocks a chunk of zeros would be twice its
            // plain size. Larger blocks avoid that.
            let blocksize = match self.blocksize {
                0 => 0,
                blocksize => blocksize.max(nbytes.div_ceil(MAX_RUNS)),
            };
            return Chunk::zero_runs(nbytes, self.typesize, blocksize);
        }
        Chunk::special(SpecialKind::Value, &value, nbytes, self.typesize, self.blocksize)
    }

    /// Returns the chunk unchanged if C-Blosc2 can read it in this frame, otherwise a recompressed
    /// one.
    pub(crate) fn fit(&self, chunk: Chunk) -> Result<Chunk, ChunkError> {
        let header = chunk.header();
        if chunk.nbytes() == 0 {
            return Chunk::compress_bytes(&[], &self.cparams()?);
        }
        if header.is_vl() && header.itemsize() != self.chunk_typesize() {
            let blocks = chunk.blocks(&self.dparams)?;
            let blocks: Vec<&[u8]> = blocks.iter().map(|block| &block[..]).collect();
            return Chunk::compress_vl(&blocks, &self.cparams()?);
        }
        if !self.fits(header) {
            let plain = chunk.decompress_bytes_with(&self.dparams)?;
            let anew = Chunk::compress_bytes(&plain, &self.cparams()?)?;
            return match anew.header().special() {
                Some(SpecialKind::Value) | None => Ok(anew),
                Some(kind) => self.special(kind, plain.len()),
            };
        }
        without_stray_dict(chunk)
    }

    fn fits(&self, header: &ChunkHeader) -> bool {
        let typesize = header.itemsize();
        let plain = header.is_memcpyed() || header.special().is_some() || header.is_vl();
        // C-Blosc2 rounds block sizes down to whole items, regardless of the header.
        let rounded =
            plain || header.blocksize() <= self.typesize || header.blocksize().is_multiple_of(self.typesize);
        header.is_extended()
            && typesize == self.chunk_typesize()
            && rounded
            && match header.special() {
                None => true,
                Some(SpecialKind::Value) => header.cbytes() == EXTENDED_HEADER_LEN + self.typesize,
                Some(_) => false,
            }
    }

    fn cparams(&self) -> Result<CParams, ChunkError> {
        let builder = || {
            Compression::new()
                .itemsize(self.typesize)
                .blocksize(self.blocksize)
                .plugins(self.dparams.plugins.clone())
        };
        // A build without any compressor can still store the data uncompressed.
        builder().build().or_else(|_| builder().codec(CodecId::BLOSCLZ).level(0).build())
    }
}

/// Fails if chunks made with these parameters lack the header that frames need.
pub(crate) fn check_layout(cparams: &CParams) -> Result<(), FrameError> {
    match cparams.compatibility() {
        Compatibility::Blosc2 => Ok(()),
        _ => Err(FrameError::argument("cparams", "frames need chunks of Blosc2")),
    }
}

/// Clears a stray dictionary bit: C-Blosc2 leaves it set in chunks that it stores uncompressed, and
/// then cannot read them.
fn without_stray_dict(chunk: Chunk) -> Result<Chunk, ChunkError> {
    const FLAGS_AT: usize = EXTENDED_HEADER_LEN - 1;
    const DICT: u8 = 1;
    let stray = chunk.as_bytes().get(FLAGS_AT).is_some_and(|flags| flags & DICT != 0);
    if !stray || chunk.header().has_dict() {
        return Ok(chunk);
    }
    let mut bytes = BytesMut::from(chunk.as_bytes());
    if let Some(flags) = bytes.get_mut(FLAGS_AT) {
        *flags &= !DICT;
    }
    Chunk::from_bytes(bytes.freeze())
}
