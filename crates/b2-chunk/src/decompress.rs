//! Whole chunks and parts of them, from all their bytes.

use std::ops::Range;

use crate::decoder::BlockDecoder;
use crate::fill::fill;
use crate::header::{EXTENDED_HEADER_LEN, MAX_DICT_LEN};
use crate::layout::{Body, Layout};
use crate::lazy::{LazyChunk, Starts, recovery_candidate};
use crate::memory::{copied, sized, zeroed};
use crate::parallel::for_each_on;
use crate::{Chunk, ChunkError, DParams};

/// Stored blocks below this many bytes are copied together: sharing them out costs more than copying.
const SMALL_BLOCK: usize = 4096;

pub(crate) fn decompress(
    lazy: &LazyChunk,
    chunk: &[u8],
    dst: &mut [u8],
    dparams: &DParams,
) -> Result<(), ChunkError> {
    let streaming = dparams.destination.is_streaming(dst.len());
    let decoder = || lazy.decoder(dparams).map(|decoder| decoder.streaming(streaming));
    if lazy.nblocks() <= 1 || dst.is_empty() || lazy.blocksize() == 0 {
        // One block, or variable lengths.
        let mut decoder = decoder()?;
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
        return decoder()?.decode(0, &[], None, dst);
    }
    if matches!(lazy.layout.body, Body::Stored) && lazy.blocksize() < SMALL_BLOCK && !hooked {
        let payload = lazy.block_extent(0).start;
        dst.copy_from_slice(&chunk[payload..payload + dst.len()]);
        return Ok(());
    }
    let blocksize = lazy.blocksize();
    let threads = dparams.limits.threads(lazy.block_memory());
    let work = chunk.len().max(dst.len()) as u64 * lazy.header().decoding_cost();
    if lazy.needs_block0() {
        let (first, rest) = dst.split_at_mut(blocksize);
        let stored = &chunk[lazy.block_extent(0)];
        // The other blocks read it.
        let mut first_decoder = lazy.decoder(dparams)?.streaming(false);
        first_decoder.decode_reference(0, stored, None, first)?;
        let reference;
        let block0 = if hooked {
            reference = copied(first)?;
            first_decoder.decode(0, stored, None, first)?;
            &reference
        } else {
            &*first
        };
        drop(first_decoder);
        return for_each_on(
            threads,
            rest.chunks_mut(blocksize).zip(1..),
            work,
            decoder,
            |decoder, (out, nblock)| {
                decoder.decode(nblock, &chunk[lazy.block_extent(nblock)], Some(block0), out)
            },
        );
    }
    for_each_on(threads, dst.chunks_mut(blocksize).zip(0..), work, decoder, |decoder, (out, nblock)| {
        decoder.decode(nblock, &chunk[lazy.block_extent(nblock)], None, out)
    })
}

/// Decodes all blocks and keeps none of them; `decoded` grows by the plain bytes that were made.
pub(crate) fn check(
    lazy: &LazyChunk,
    chunk: &[u8],
    dparams: &DParams,
    decoded: &mut u64,
) -> Result<(), ChunkError> {
    if !matches!(lazy.layout.body, Body::Blocks { .. } | Body::VlBlocks { .. }) {
        return Ok(());
    }
    let mut decoder = lazy.decoder(dparams)?.streaming(false);
    let (mut block0, mut plain) = (None, Vec::new());
    for nblock in 0..lazy.nblocks() {
        let (stored, len) = (&chunk[lazy.block_extent(nblock)], lazy.block_range(nblock).len());
        let reference = block0.as_deref().filter(|_| nblock > 0);
        let keep = nblock == 0 && lazy.needs_block0() && lazy.nblocks() > 1;
        if !keep && decoder.is_repeated(nblock, stored, len)? {
            continue;
        }
        // Above the limit a block is taken by pieces, each of which decodes all that is in front of it.
        let memory = lazy.layout.block_memory(len).saturating_add(len as u64);
        let most = dparams.limits.max_memory;
        let piece =
            if keep || memory <= most { len } else { usize::try_from(most / 3).unwrap_or(len) }.max(1);
        for start in (0..len).step_by(piece) {
            let part = start..start.saturating_add(piece).min(len);
            let out = sized(&mut plain, part.len())?;
            if part.len() == len {
                decoder.decode_reference(nblock, stored, reference, out)?;
            } else {
                decoder.decode_part(nblock, stored, reference, part.clone(), out)?;
            }
            *decoded = decoded.saturating_add(part.len() as u64);
        }
        if keep {
            block0 = Some(std::mem::take(&mut plain));
        }
    }
    Ok(())
}

/// The plain bytes `range`, which is inside the chunk and as long as `out`.
pub(crate) fn get_bytes(
    chunk: &Chunk,
    range: Range<usize>,
    out: &mut [u8],
    dparams: &DParams,
) -> Result<(), ChunkError> {
    let header = &chunk.header;
    dparams.limits.check_chunk(header.nbytes() as u64)?;
    if header.is_memcpyed() && !header.is_vl() && !dparams.has_postfilter() {
        let payload = header.header_len();
        out.copy_from_slice(&chunk.bytes[payload + range.start..payload + range.end]);
        return Ok(());
    }
    let no_value = || Err(());
    let stored_value =
        || chunk.bytes.get(EXTENDED_HEADER_LEN..).map_or_else(no_value, |v| Ok(chunk.bytes.slice_ref(v)));
    if let (Some(Ok(value)), false) = (Layout::fill_value(header, stored_value), dparams.has_postfilter()) {
        fill(out, &value, range.start);
        return Ok(());
    }
    if let Some(glance) = Glance::new(chunk, dparams)
        && let Some(result) = glance.get_bytes(&range, out, dparams)
    {
        return result;
    }
    let lazy = chunk.lazy(dparams)?;
    let mut decoder = lazy.decoder(dparams)?;
    let stored = |nblock| &chunk.bytes[lazy.block_extent(nblock)];
    let nblocks = lazy.blocks_of(range.clone());
    let block0 = if lazy.needs_block0() && nblocks.end > 1 {
        let mut block0 = zeroed(lazy.block_range(0).len())?;
        decoder.decode_reference(0, stored(0), None, &mut block0)?;
        Some(block0)
    } else {
        None
    };
    for_parts(
        range,
        nblocks,
        |nblock| lazy.block_range(nblock),
        out,
        |nblock, part, dst| decoder.decode_part(nblock, stored(nblock), block0.as_deref(), part, dst),
    )
}

/// Calls `work` for each block with the part of it that is in `range`, and the part's place in `out`.
pub(crate) fn for_parts(
    range: Range<usize>,
    nblocks: Range<usize>,
    block_range: impl Fn(usize) -> Range<usize>,
    out: &mut [u8],
    mut work: impl FnMut(usize, Range<usize>, &mut [u8]) -> Result<(), ChunkError>,
) -> Result<(), ChunkError> {
    for nblock in nblocks {
        let block = block_range(nblock);
        let (start, end) = (range.start.max(block.start), range.end.min(block.end));
        let part = start - block.start..end - block.start;
        work(nblock, part, &mut out[start - range.start..end - range.start])?;
    }
    Ok(())
}

/// A chunk of blocks of equal length, of whose tables only the entries are read that are asked for.
struct Glance<'c> {
    layout: Layout,
    bytes: &'c [u8],
    table: &'c [u8],
    /// End of block starts and dictionary.
    tables_end: usize,
}

impl<'c> Glance<'c> {
    /// `None` when this is not the kind of chunk, or not as it should be: the other way tells what is wrong.
    fn new(chunk: &'c Chunk, dparams: &DParams) -> Option<Self> {
        let header = &chunk.header;
        if header.is_vl() || dparams.has_postfilter() || recovery_candidate(header, dparams).is_some() {
            return None;
        }
        let bytes = &chunk.bytes[..];
        let start = header.header_len();
        let mut tables_end = start.checked_add(4 * header.nblocks())?;
        let table = bytes.get(start..tables_end)?;
        let mut dict = None;
        if header.has_dict() {
            let len = u32::from_le_bytes(*bytes.get(tables_end..)?.first_chunk()?) as usize;
            let at = tables_end + 4;
            let dict_bytes = bytes.get(at..at.checked_add(len)?)?;
            if !(1..=MAX_DICT_LEN).contains(&len) {
                return None;
            }
            tables_end = at + len;
            dict = Some(chunk.bytes.slice_ref(dict_bytes));
        }
        Some(Self { layout: Layout::new(header.clone(), Body::Blocks { dict }), bytes, table, tables_end })
    }

    /// The stored bytes of a block: up to the next larger start. Where blocks are not in order, that takes a look at all
    /// starts; `None` unless `search`.
    fn stored(&self, nblock: usize, search: bool) -> Option<&'c [u8]> {
        let starts = self.table.as_chunks::<4>().0;
        let start_of = |nblock: usize| starts.get(nblock).map(|b| u32::from_le_bytes(*b) as usize);
        let start = start_of(nblock)?;
        let end = match start_of(nblock + 1) {
            Some(next) if next > start => next,
            None if nblock > 0 && start_of(nblock - 1)? < start => self.bytes.len(),
            // Not in order, as it seems.
            _ if !search => return None,
            _ => (0..starts.len())
                .filter_map(start_of)
                .filter(|&s| s > start)
                .min()
                .unwrap_or(self.bytes.len()),
        };
        (start >= self.tables_end && self.bytes.len().checked_sub(4).is_some_and(|last| start <= last))
            .then(|| self.bytes.get(start..end))?
    }

    /// `None` when a block is not where it should be.
    fn get_bytes(
        &self,
        range: &Range<usize>,
        out: &mut [u8],
        dparams: &DParams,
    ) -> Option<Result<(), ChunkError>> {
        let layout = &self.layout;
        let nblocks = layout.blocks_of(range);
        // For many blocks it is cheaper to put all in order once.
        let search = nblocks.len() <= 4;
        if nblocks.clone().any(|nblock| self.stored(nblock, search).is_none()) {
            return None;
        }
        let stored = |nblock| self.stored(nblock, search).unwrap_or_default();
        Some((|| {
            let mut decoder = BlockDecoder::new(layout, Starts::Table(self.table), dparams)?;
            let mut block0 = None;
            if layout.needs_block0() && nblocks.end > 1 {
                let end = match nblocks.len() {
                    1 => range.end - layout.block_range(nblocks.start).start,
                    _ => layout.blocksize,
                };
                let len = decoder.needed_of_block0(end);
                let start = block0.insert(zeroed(len)?);
                decoder.decode_part(0, stored(0), None, 0..len, start)?;
            }
            for_parts(
                range.clone(),
                nblocks,
                |nblock| layout.block_range(nblock),
                out,
                |nblock, part, dst| decoder.decode_part(nblock, stored(nblock), block0.as_deref(), part, dst),
            )
        })())
    }
}
