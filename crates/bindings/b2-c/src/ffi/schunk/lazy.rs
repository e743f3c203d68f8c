//! Lazy chunks: chunks of frames without their blocks.

use b2_chunk::LazyChunk;

use super::*;
use crate::core::header::is_lazy;
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

/// Parses the header of a chunk, which may be lazy.
pub(crate) fn parsed_header(chunk: &[u8]) -> Result<ChunkHeader> {
    let Some(mut header) = chunk.first_chunk::<EXTENDED_HEADER>().copied().filter(|_| is_lazy(chunk)) else {
        return Ok(ChunkHeader::parse(chunk)?);
    };
    header[EXTENDED_HEADER - 1] &= !8;
    Ok(ChunkHeader::parse(&header)?)
}

/// Returns the chunk number of a lazy chunk, after checking that the sizes of its blocks are there and possible.
fn lazy_nchunk(lazy: &[u8]) -> Result<usize> {
    let int = |at: usize| {
        let bytes = lazy.get(at..at.checked_add(4)?)?;
        Some(i32::from_le_bytes(bytes.try_into().ok()?))
    };
    let header = parsed_header(lazy)?;
    // The chunk number follows the starts of the blocks, then come an offset and the sizes of the blocks.
    let nblocks = header.nblocks();
    let trailer = EXTENDED_HEADER + if header.is_memcpyed() { 0 } else { nblocks.saturating_mul(4) };
    let mut sizes =
        (0..nblocks).map(|nblock| int(trailer.checked_add(12)?.checked_add(nblock.checked_mul(4)?)?));
    // A block of variable length starts with its length.
    let least = if header.is_vl() { 4 } else { 0 };
    let possible = sizes.all(|size| size.is_some_and(|size| size >= least));
    let nchunk = int(trailer).filter(|_| possible).and_then(|nchunk| length(nchunk).ok());
    nchunk.ok_or(Error(code::INVALID_HEADER))
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
            if header.special().is_none() && header.nbytes() > 0 && head.nblocks() == header.nblocks() {
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
