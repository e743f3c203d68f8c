//! Replaces some blocks of a chunk and keeps the others as they are stored.

use b2_core::memory;

use crate::block::fill::repeated;
use crate::block::scratch::ScratchGuard;
use crate::encode::compress::{blocks_header, most_encoded, refers_to_block0, write_header};
use crate::encode::encoder::{BlockEncoder, most};
use crate::model::layout::Body;
use crate::{CParams, ChunkError, ChunkHeader, LazyChunk};

/// Returns the bytes of `chunk` with other blocks, or `None` if everything must be recompressed.
pub(crate) fn with_blocks(
    chunk: &[u8],
    lazy: &LazyChunk,
    changed: &[(usize, &[u8])],
    cparams: &CParams,
) -> Result<Option<Vec<u8>>, ChunkError> {
    let header = lazy.header();
    let mut as_made_now = blocks_header(header.nbytes(), cparams)?;
    as_made_now.cbytes = header.cbytes;
    let alike = as_made_now.to_bytes() == header.to_bytes();
    let plain_blocks = matches!(lazy.layout.body, Body::Blocks { dict: None });
    if !alike || !plain_blocks || lazy.blocksize() != header.blocksize() {
        return Ok(None);
    }
    // Each of these makes a block depend on others.
    if refers_to_block0(cparams) || cparams.use_dict() || cparams.prefilter.is_set() {
        return Ok(None);
    }
    let mut encoder = BlockEncoder::new(cparams, header, None, ScratchGuard::of_thread())?;
    let mut encoded = memory::list(changed.len())?;
    for &(nblock, block) in changed {
        let len = lazy.block_range(nblock).len();
        if len == 0 || block.len() != len {
            let what = format!("block {nblock} has {} bytes, expected {len}", block.len());
            return Err(ChunkError::argument("changed", what));
        }
        // The chunk may now repeat one item.
        if repeated(block, cparams.itemsize().min(len)).is_some() {
            return Ok(None);
        }
        let nstreams = if len == header.blocksize() && header.is_split() { header.itemsize() } else { 1 };
        let mut out = memory::zeroed(most(len, nstreams))?;
        let done = encoder.encode(nblock, block, None, nstreams, &mut out)?;
        out.truncate(done.len);
        encoded.push((nblock, out));
    }
    encoded.sort_by_key(|&(nblock, _)| nblock);
    let mut encoded = encoded.into_iter().peekable();
    let head = header.header_len();
    let tables = head + 4 * header.nblocks();
    let most_encoded = most_encoded(cparams, header.nbytes(), head);
    let mut made = memory::list(header.nbytes())?;
    made.resize(tables, 0);
    for nblock in 0..header.nblocks() {
        let new = encoded.next_if(|&(changed, _)| changed == nblock);
        let stored = match &new {
            Some((_, new)) => new,
            None => chunk.get(lazy.block_extent(nblock)).unwrap_or_default(),
        };
        // The chunk may now be one that is stored instead.
        if made.len() + stored.len() > most_encoded {
            return Ok(None);
        }
        let start = made.len() as u32;
        made[head + 4 * nblock..][..4].copy_from_slice(&start.to_le_bytes());
        memory::reserve(&mut made, stored.len())?;
        made.extend_from_slice(stored);
    }
    let header = ChunkHeader { cbytes: made.len() as u32, ..header.clone() };
    write_header(&header, &mut made);
    Ok(Some(made))
}
