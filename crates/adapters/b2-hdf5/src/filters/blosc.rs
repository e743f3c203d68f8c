//! Blosc (filter 32001) and Blosc2 (filter 32026).

use std::ops::Range;

use b2_chunk::{BlockDecoder, BlockParts, Chunk, ChunkRef, DParams, LazyChunk, SpecialKind};
use b2_core::{Control, Limits, memory};
use b2_frame::{Entry, SuperChunk};
use b2nd::NdArray;
use bytes::Bytes;

/// Decodes a chunk of Blosc 1.
pub(super) fn decode(src: &[u8], dst: &mut [u8], limits: &Limits, control: &Control) -> Result<(), String> {
    let chunk = ChunkRef::from_slice(src).map_err(|error| error.to_string())?;
    check_len(chunk.nbytes() as u64, dst.len())?;
    let dparams = DParams::default().limits(limits.clone()).control(control.clone());
    chunk.decompress_bytes_into(dst, &dparams).map_err(|error| error.to_string())
}

/// Returns the number of bytes that a chunk of Blosc 1 decodes to.
pub(super) fn decoded_len(src: &[u8]) -> Result<usize, String> {
    ChunkRef::from_slice(src).map(|chunk| chunk.nbytes()).map_err(|error| error.to_string())
}

/// A chunk of Blosc 1 that is decoded block by block.
pub(crate) struct Blocks<'a> {
    chunk: ChunkRef<'a>,
    lazy: LazyChunk,
    dparams: DParams,
}

impl<'a> Blocks<'a> {
    pub(crate) fn open(src: &'a [u8], limits: &Limits) -> Result<Self, String> {
        let chunk = ChunkRef::from_slice(src).map_err(|error| error.to_string())?;
        let dparams = DParams::default().limits(limits.clone());
        let lazy = chunk.lazy(&dparams).map_err(|error| error.to_string())?;
        Ok(Self { chunk, lazy, dparams })
    }

    pub(crate) fn nbytes(&self) -> u64 {
        self.chunk.nbytes() as u64
    }

    /// Whether all blocks but the last have the same size.
    pub(crate) fn is_regular(&self) -> bool {
        !self.lazy.header().is_vl()
    }

    pub(crate) fn nblocks(&self) -> usize {
        self.lazy.nblocks()
    }

    /// Bytes of the largest block, decoded.
    pub(crate) fn largest_block(&self) -> u64 {
        self.lazy.block_range(0).len() as u64
    }

    /// The range of the decoded chunk that a block covers.
    pub(crate) fn block_range(&self, nblock: usize) -> Range<usize> {
        self.lazy.block_range(nblock)
    }

    /// Creates a decoder for the blocks.
    pub(crate) fn decoder(&self) -> Result<Decoder<'_>, String> {
        let decoder = self.lazy.decoder(&self.dparams).map_err(|error| error.to_string())?;
        let mut decoder = Decoder { blocks: self, decoder, first: None };
        if self.lazy.needs_block0() {
            let mut first = memory::zeroed(self.block_range(0).len()).map_err(|error| error.to_string())?;
            decoder.decode(0, &mut first)?;
            decoder.first = Some(first);
        }
        Ok(decoder)
    }
}

/// Decodes blocks of one chunk.
pub(crate) struct Decoder<'a> {
    blocks: &'a Blocks<'a>,
    decoder: BlockDecoder<'a>,
    /// The first block, if other blocks refer to it.
    first: Option<Vec<u8>>,
}

impl<'a> Decoder<'a> {
    fn stored(blocks: &'a Blocks<'a>, nblock: usize) -> &'a [u8] {
        blocks.chunk.as_bytes().get(blocks.lazy.block_extent(nblock)).unwrap_or_default()
    }

    /// Decodes a block, which fills `dst`.
    pub(crate) fn decode(&mut self, nblock: usize, dst: &mut [u8]) -> Result<(), String> {
        let (stored, first) = (Self::stored(self.blocks, nblock), self.first.as_deref());
        self.decoder.decode(nblock, stored, first, dst).map_err(|error| error.to_string())
    }

    /// Undoes the compression of a block, but leaves the unshuffling to the copy; `None` if decoding the whole block is faster.
    pub(crate) fn parts(&mut self, nblock: usize) -> Result<Option<BlockParts<'_>>, String> {
        let (stored, len) = (Self::stored(self.blocks, nblock), self.blocks.block_range(nblock).len());
        self.decoder.parts(nblock, stored, 0..len).map_err(|error| error.to_string())
    }
}

/// Decodes a frame: an array of the shape of the chunk, or a super-chunk with its bytes.
pub(super) fn decode_frame(
    src: Bytes,
    (shape, itemsize): (&[u64], usize),
    dst: &mut [u8],
    limits: &Limits,
    control: &Control,
) -> Result<(), String> {
    let frame = open(src, limits, control)?;
    if !is_array(&frame) {
        check_len(frame.nbytes(), dst.len())?;
        return frame.read_bytes_into(0, dst).map_err(|error| error.to_string());
    }
    let array = array(frame, shape, itemsize)?;
    check_len(array.nbytes(), dst.len())?;
    array.all().read_bytes_into(dst).map_err(|error| error.to_string())
}

/// Returns the number of bytes that a frame decodes to.
pub(super) fn frame_len(src: Bytes, limits: &Limits) -> Result<usize, String> {
    usize::try_from(open(src, limits, &Control::new().threads(1))?.nbytes())
        .map_err(|error| error.to_string())
}

fn open(src: Bytes, limits: &Limits, control: &Control) -> Result<SuperChunk, String> {
    let options = SuperChunk::options().limits(limits.clone()).control(control.clone());
    options.from_bytes(src).map_err(|error| error.to_string())
}

fn is_array(frame: &SuperChunk) -> bool {
    frame.metalayers().get(b2nd::METALAYER).is_some()
}

/// Opens the array in a frame, which has the shape of the chunk.
fn array(frame: SuperChunk, shape: &[u64], itemsize: usize) -> Result<NdArray, String> {
    let array = NdArray::from_super_chunk(frame).map_err(|error| error.to_string())?;
    if array.shape() != shape || array.itemsize() != itemsize {
        return Err(format!(
            "an array {:?} of items of {} bytes, expected {shape:?} of {itemsize}",
            array.shape(),
            array.itemsize()
        ));
    }
    Ok(array)
}

fn check_len(have: u64, need: usize) -> Result<(), String> {
    if have != need as u64 {
        return Err(format!("{have} bytes in a chunk, expected {need}"));
    }
    Ok(())
}

/// A Blosc2 chunk that can be moved into an array unchanged.
#[derive(Clone, Debug)]
pub(crate) enum MovableChunk {
    Special(SpecialKind),
    Chunk(Chunk),
}

/// Opens the array in a chunk of HDF5, if it is one.
///
/// # Errors
/// Describes the problem with the frame.
pub(crate) fn chunk_array(
    frame: Bytes,
    shape: &[u64],
    itemsize: usize,
    limits: &Limits,
    control: &Control,
) -> Result<Option<NdArray>, String> {
    let frame = open(frame, limits, control)?;
    match is_array(&frame) {
        true => array(frame, shape, itemsize).map(Some),
        false => Ok(None),
    }
}

/// Returns the only chunk of an array, if it has one chunk in blocks of this shape.
///
/// # Errors
/// Describes the problem with the chunk.
pub(crate) fn only_chunk(array: &NdArray, blockshape: &[u32]) -> Result<Option<MovableChunk>, String> {
    let whole: Vec<u64> = array.chunkshape().iter().map(|&length| length.into()).collect();
    let frame = array.super_chunk();
    if whole != array.shape() || array.blockshape() != blockshape || frame.nchunks() != 1 {
        return Ok(None);
    }
    let chunk = frame.chunk(0);
    Ok(Some(match chunk.entry().map_err(|error| error.to_string())? {
        Entry::Special(kind) => MovableChunk::Special(kind),
        _ => MovableChunk::Chunk(chunk.read().map_err(|error| error.to_string())?),
    }))
}
