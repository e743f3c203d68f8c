//! Whole chunks and parts of them, from all their bytes.

use std::ops::Range;

use crate::chunk::zeroed;
use crate::lazy::Body;
use crate::parallel::for_each;
use crate::pipeline::fill;
use crate::{ChunkError, DParams, LazyChunk};

/// Stored blocks below this many bytes are copied together: sharing them out costs more than copying.
const SMALL_BLOCK: usize = 4096;

pub(crate) fn decompress(
    lazy: &LazyChunk,
    chunk: &[u8],
    dst: &mut [u8],
    dparams: &DParams,
) -> Result<(), ChunkError> {
    if lazy.nblocks() <= 1 || dst.is_empty() || lazy.blocksize() == 0 {
        // One block, or variable lengths.
        let mut decoder = lazy.decoder(dparams)?;
        for nblock in 0..lazy.nblocks() {
            decoder.decode(
                nblock,
                &chunk[lazy.block_extent(nblock)],
                None,
                &mut dst[lazy.block_range(nblock)],
            )?;
        }
        return Ok(());
    }
    let hooked = dparams.has_postfilter();
    if lazy.block_extent(0).is_empty() && !hooked {
        // A fill, whatever its number of blocks.
        return lazy.decoder(dparams)?.decode(0, &[], None, dst);
    }
    if matches!(lazy.body, Body::Stored) && lazy.blocksize() < SMALL_BLOCK && !hooked {
        let payload = lazy.block_extent(0).start;
        dst.copy_from_slice(&chunk[payload..payload + dst.len()]);
        return Ok(());
    }
    let blocksize = lazy.blocksize();
    if lazy.needs_block0() {
        let (first, rest) = dst.split_at_mut(blocksize);
        let stored = &chunk[lazy.block_extent(0)];
        let mut decoder = lazy.decoder(dparams)?;
        decoder.decode_reference(0, stored, None, first)?;
        let reference;
        let block0 = if hooked {
            reference = first.to_vec();
            decoder.decode(0, stored, None, first)?;
            &reference
        } else {
            &*first
        };
        let work = chunk.len().max(rest.len()) as u64;
        return for_each(
            rest.chunks_mut(blocksize).zip(1..),
            work,
            || lazy.decoder(dparams),
            |decoder, (out, nblock)| {
                decoder.decode(nblock, &chunk[lazy.block_extent(nblock)], Some(block0), out)
            },
        );
    }
    let work = chunk.len().max(dst.len()) as u64;
    for_each(
        dst.chunks_mut(blocksize).zip(0..),
        work,
        || lazy.decoder(dparams),
        |decoder, (out, nblock)| decoder.decode(nblock, &chunk[lazy.block_extent(nblock)], None, out),
    )
}

pub(crate) fn get_bytes(
    lazy: &LazyChunk,
    chunk: &[u8],
    range: Range<usize>,
    out: &mut [u8],
    dparams: &DParams,
) -> Result<(), ChunkError> {
    if range.is_empty() {
        return Ok(());
    }
    match &lazy.body {
        _ if dparams.has_postfilter() => {}
        // Without streams the blocks do not matter, and there may be one for each byte.
        Body::Fill { value } => {
            fill(out, value, range.start);
            return Ok(());
        }
        Body::Stored => {
            let payload = lazy.block_extent(0).start;
            out.copy_from_slice(&chunk[payload + range.start..payload + range.end]);
            return Ok(());
        }
        Body::Blocks { .. } | Body::VlBlocks { .. } => {}
    }
    let mut decoder = lazy.decoder(dparams)?;
    let nblocks = lazy.blocks_of(range.clone());
    let block0 = if lazy.needs_block0() && nblocks.end > 1 {
        let mut block0 = zeroed(lazy.block_range(0).len())?;
        decoder.decode_reference(0, &chunk[lazy.block_extent(0)], None, &mut block0)?;
        Some(block0)
    } else {
        None
    };
    let mut scratch = Vec::new();
    for nblock in nblocks {
        let block = lazy.block_range(nblock);
        let (start, end) = (range.start.max(block.start), range.end.min(block.end));
        let dst = &mut out[start - range.start..end - range.start];
        let stored = &chunk[lazy.block_extent(nblock)];
        if dst.len() == block.len() {
            decoder.decode(nblock, stored, block0.as_deref(), dst)?;
        } else {
            if scratch.len() < block.len() {
                scratch = zeroed(block.len())?;
            }
            let plain = &mut scratch[..block.len()];
            decoder.decode(nblock, stored, block0.as_deref(), plain)?;
            dst.copy_from_slice(&plain[start - block.start..end - block.start]);
        }
    }
    Ok(())
}
