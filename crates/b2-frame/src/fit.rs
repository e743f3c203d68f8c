//! Chunks in the form that C-Blosc2 can read inside a frame (docs/format/frame-contiguous.md, sections 5.3 and 5.4).

use b2_chunk::{CParams, Chunk, ChunkError, ChunkHeader, CodecId, DParams, EXTENDED_HEADER_LEN, SpecialKind};
use bytes::BytesMut;

/// Bytes of a NaN item of 4 bytes.
pub(crate) const NAN4: [u8; 4] = [0, 0, 0xC0, 0x7F];
/// Bytes of a NaN item of 8 bytes.
pub(crate) const NAN8: [u8; 8] = [0, 0, 0, 0, 0, 0, 0xF8, 0x7F];

/// Repeated values wider than this are not worth a chunk that holds one.
const MAX_VALUE_LEN: usize = 4096;

/// Most runs that a chunk of zeros is made of.
const MAX_RUNS: usize = 256;

/// What a chunk has to fit: the frame's item and block size.
#[derive(Debug)]
pub(crate) struct Fit {
    pub(crate) typesize: usize,
    pub(crate) blocksize: usize,
    pub(crate) dparams: DParams,
}

impl Fit {
    /// Item size in chunk headers.
    fn chunk_typesize(&self) -> usize {
        if self.typesize > 255 { 1 } else { self.typesize }
    }

    pub(crate) fn nan_fits(&self, nbytes: usize) -> bool {
        matches!(self.typesize, 4 | 8) && nbytes.is_multiple_of(self.typesize)
    }

    /// The kind of a chunk whose content an index entry could tell.
    pub(crate) fn as_entry(&self, chunk: &Chunk) -> Option<SpecialKind> {
        let header = chunk.header();
        match header.special()? {
            _ if chunk.nbytes() == 0 => None,
            SpecialKind::NaN if header.typesize() != self.typesize => None,
            SpecialKind::Value => None,
            kind => Some(kind),
        }
    }

    /// A stored chunk with the content of a special one.
    pub(crate) fn special(&self, kind: SpecialKind, nbytes: usize) -> Result<Chunk, ChunkError> {
        let value = match (kind, self.typesize) {
            (SpecialKind::NaN, 4) => NAN4.to_vec(),
            (SpecialKind::NaN, _) => NAN8.to_vec(),
            (_, typesize) if typesize <= MAX_VALUE_LEN => vec![0; typesize],
            _ => Vec::new(),
        };
        if value.is_empty() || !nbytes.is_multiple_of(value.len()) {
            // A run is stored for each block, so a frame of tiny blocks would cost twice its size; zeros need no small ones.
            let blocksize = match self.blocksize {
                0 => 0,
                blocksize => blocksize.max(nbytes.div_ceil(MAX_RUNS)),
            };
            return Chunk::zero_runs(nbytes, self.typesize, blocksize);
        }
        Chunk::special(SpecialKind::Value, &value, nbytes, self.typesize, self.blocksize)
    }

    /// The chunk itself if C-Blosc2 can read it in this frame, else the same data in another.
    pub(crate) fn fit(&self, chunk: Chunk) -> Result<Chunk, ChunkError> {
        let header = chunk.header();
        if chunk.nbytes() == 0 {
            return Chunk::compress(&[], &self.cparams()?);
        }
        if header.is_vl() && header.typesize() != self.chunk_typesize() {
            let blocks = chunk.blocks(&self.dparams)?;
            let blocks: Vec<&[u8]> = blocks.iter().map(|block| &block[..]).collect();
            return Chunk::compress_vl(&blocks, &self.cparams()?);
        }
        if !self.fits(header) {
            let plain = chunk.decompress_with(&self.dparams)?;
            let anew = Chunk::compress(&plain, &self.cparams()?)?;
            return match anew.header().special() {
                Some(SpecialKind::Value) | None => Ok(anew),
                Some(kind) => self.special(kind, plain.len()),
            };
        }
        without_stray_dict(chunk)
    }

    fn fits(&self, header: &ChunkHeader) -> bool {
        let typesize = header.typesize();
        let plain = header.is_memcpyed() || header.special().is_some() || header.is_vl();
        // C-Blosc2 rounds block sizes down to whole items, whatever the header says.
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
            CParams::builder(self.typesize).blocksize(self.blocksize).plugins(self.dparams.plugins.clone())
        };
        // A build without any compressor can still store.
        builder().build().or_else(|_| builder().codec(CodecId::BLOSCLZ).clevel(0).build())
    }
}

/// C-Blosc2 leaves the dictionary bit set in chunks that it stores uncompressed, and cannot read them then.
fn without_stray_dict(chunk: Chunk) -> Result<Chunk, ChunkError> {
    const FLAGS_AT: usize = EXTENDED_HEADER_LEN - 1;
    const DICT: u8 = 1;
    let stray = chunk.as_bytes().get(FLAGS_AT).is_some_and(|flags| flags & DICT != 0);
    if !stray || chunk.header().has_dict() {
        return Ok(chunk);
    }
    let mut bytes = BytesMut::from(&chunk.as_bytes()[..]);
    if let Some(flags) = bytes.get_mut(FLAGS_AT) {
        *flags &= !DICT;
    }
    Chunk::parse(bytes.freeze())
}
