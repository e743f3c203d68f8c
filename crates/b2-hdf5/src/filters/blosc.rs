//! Blosc (filter 32001) and Blosc2 (filter 32026).

use b2_chunk::{Chunk, ChunkReader, ChunkRef, DParams, SpecialKind};
use b2_core::Limits;
use b2_frame::{Entry, SuperChunk};
use b2nd::NdArray;
use bytes::Bytes;

/// Decodes a chunk of Blosc 1.
pub(super) fn decode(src: &[u8], dst: &mut [u8], limits: &Limits) -> Result<(), String> {
    let chunk = ChunkRef::from_slice(src).map_err(|error| error.to_string())?;
    check_len(chunk.nbytes() as u64, dst.len())?;
    let dparams = DParams::default().limits(limits.clone());
    chunk.decompress_bytes_into(dst, &dparams).map_err(|error| error.to_string())
}

/// A chunk of Blosc 1 that is decoded block by block.
pub(crate) struct Blocks(ChunkReader);

impl Blocks {
    pub(crate) fn open(src: Bytes, limits: &Limits) -> Result<Self, String> {
        let chunk = Chunk::from_bytes(src).map_err(|error| error.to_string())?;
        let dparams = DParams::default().limits(limits.clone());
        ChunkReader::new(chunk, dparams).map(Self).map_err(|error| error.to_string())
    }

    pub(crate) fn nbytes(&self) -> u64 {
        self.0.chunk().nbytes() as u64
    }

    /// Bytes of a block, decoded.
    pub(crate) fn block_nbytes(&self) -> u64 {
        self.0.chunk().header().blocksize() as u64
    }

    /// Decodes the bytes from `at` on, which fill `dst`.
    pub(crate) fn read(&mut self, at: u64, dst: &mut [u8]) -> Result<(), String> {
        let at = usize::try_from(at).map_err(|error| error.to_string())?;
        self.0.read(at, dst).map_err(|error| error.to_string())
    }
}

/// Decodes a frame: an array of the shape of the chunk, or a super-chunk with its bytes.
pub(super) fn decode_frame(
    src: Bytes,
    shape: &[u64],
    itemsize: usize,
    dst: &mut [u8],
    limits: &Limits,
) -> Result<(), String> {
    let frame = open(src, limits)?;
    if !is_array(&frame) {
        check_len(frame.nbytes(), dst.len())?;
        return frame.read_bytes_into(0, dst).map_err(|error| error.to_string());
    }
    let array = array(frame, shape, itemsize)?;
    check_len(array.nbytes(), dst.len())?;
    array.all().read_bytes_into(dst).map_err(|error| error.to_string())
}

fn open(src: Bytes, limits: &Limits) -> Result<SuperChunk, String> {
    SuperChunk::options().limits(limits.clone()).from_bytes(src).map_err(|error| error.to_string())
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

/// A chunk of Blosc2 that an array can take as it is.
#[derive(Clone, Debug)]
pub(crate) enum Ready {
    Special(SpecialKind),
    Chunk(Chunk),
}

/// Opens the array in a chunk of HDF5, if it is one.
///
/// # Errors
/// With what is wrong with the frame.
pub(crate) fn chunk_array(
    frame: Bytes,
    shape: &[u64],
    itemsize: usize,
    limits: &Limits,
) -> Result<Option<NdArray>, String> {
    let frame = open(frame, limits)?;
    match is_array(&frame) {
        true => array(frame, shape, itemsize).map(Some),
        false => Ok(None),
    }
}

/// Returns the only chunk of an array, if it has one chunk in blocks of this shape.
///
/// # Errors
/// With what is wrong with the chunk.
pub(crate) fn only_chunk(array: &NdArray, blockshape: &[u32]) -> Result<Option<Ready>, String> {
    let whole: Vec<u64> = array.chunkshape().iter().map(|&length| length.into()).collect();
    let frame = array.super_chunk();
    if whole != array.shape() || array.blockshape() != blockshape || frame.nchunks() != 1 {
        return Ok(None);
    }
    let chunk = frame.chunk(0);
    Ok(Some(match chunk.entry().map_err(|error| error.to_string())? {
        Entry::Special(kind) => Ready::Special(kind),
        _ => Ready::Chunk(chunk.read().map_err(|error| error.to_string())?),
    }))
}
