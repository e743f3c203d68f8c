//! Lazy chunks: chunks of frames without their blocks.

use b2_chunk::LazyChunk;

use super::*;
use crate::core::store::whole_chunk;

/// Returns the whole chunk of a lazy one, from the context's super-chunk.
///
/// # Safety
/// The context's super-chunk is null or valid.
pub(crate) unsafe fn stored_after(context: &Context, lazy: &[u8]) -> Result<Bytes> {
    // SAFETY: guaranteed by the caller.
    let state = unsafe { state(schunk_of(context)) }?;
    let nchunk = lazy_nchunk(lazy)?;
    let chunk = match state.store().chunk(nchunk)? {
        ChunkBytes::Read(bytes) => bytes,
        ChunkBytes::Listed(bytes) => Bytes::from(b2_core::memory::copied(&bytes)?),
    };
    // The chunk may have been replaced since.
    ensure(chunk.get(4..8) == lazy.get(4..8), code::READ_BUFFER)?;
    Ok(chunk)
}

/// Returns the chunk number of a lazy chunk.
fn lazy_nchunk(lazy: &[u8]) -> Result<usize> {
    let int = |at: usize| {
        let bytes = lazy.get(at..at.checked_add(4)?)?;
        Some(i32::from_le_bytes(bytes.try_into().ok()?))
    };
    let find = || {
        let (nbytes, blocksize) = (length(int(4)?).ok()?, length(int(8)?).ok()?);
        let nblocks = nbytes.div_ceil(blocksize.max(1));
        let starts = if lazy.get(2)? & 2 != 0 { 0 } else { nblocks };
        length(int(EXTENDED_HEADER + 4 * starts)?).ok()
    };
    find().ok_or(Error(code::INVALID_HEADER))
}

/// Returns a chunk of a frame as a lazy chunk.
pub(super) fn lazy_chunk(store: &mut ChunkStore, nchunk: usize) -> Result<ChunkBytes> {
    let ChunkStore::Frame(frame) = store else { return store.chunk(nchunk) };
    frame.reading(|reader| {
        ensure(nchunk < reader.nchunks(), code::INVALID_PARAM)?;
        let chunk = reader.chunk(nchunk);
        if let Entry::Stored(offset) = chunk.entry()? {
            let head = chunk.head()?;
            let header = head.header();
            if header.special().is_none() && !header.is_vl() && header.nbytes() > 0 {
                return Ok(ChunkBytes::Read(without_blocks(&head, nchunk, offset).into()));
            }
        }
        whole_chunk(reader, nchunk)
    })
}

fn without_blocks(head: &LazyChunk, nchunk: usize, offset: u64) -> Vec<u8> {
    let header = head.header();
    let mut lazy = Vec::with_capacity(EXTENDED_HEADER + 12 + 8 * head.nblocks());
    lazy.extend_from_slice(&header.to_bytes());
    lazy[31] |= 8;
    let extents = || (0..head.nblocks()).map(|nblock| head.block_extent(nblock));
    if !header.is_memcpyed() {
        extents().for_each(|extent| lazy.extend_from_slice(&(extent.start as i32).to_le_bytes()));
    }
    lazy.extend_from_slice(&(nchunk as i32).to_le_bytes());
    lazy.extend_from_slice(&(offset as i64).to_le_bytes());
    extents().for_each(|extent| lazy.extend_from_slice(&(extent.len() as i32).to_le_bytes()));
    lazy
}
