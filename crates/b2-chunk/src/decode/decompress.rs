//! Decompresses chunks, whole or in part, whose bytes are all in memory.

use std::ops::Range;

use b2_core::memory::{copied, sized, zeroed};
use b2_core::{OutOfMemory, for_each};
use bytes::Bytes;

use crate::block::chain::{Chain, SavedChain};
use crate::block::fill::fill;
use crate::block::pace::{BlockProgress, STEP};
use crate::block::scratch::{CachedLayout, Scratch, ScratchGuard};
use crate::decode::decoder::BlockDecoder;
use crate::decode::lazy::{
    LazyChunk, LazyHead, ParsedTables, Starts, Tables, read_tables, recovery_candidate,
};
use crate::decode::small;
use crate::model::header::EXTENDED_HEADER_LEN;
use crate::model::layout::{Body, Layout};
use crate::{ChunkError, ChunkHeader, Control, DParams};

/// Stored blocks smaller than this are copied in one call: distributing them to threads costs more than the copy.
const SMALL_BLOCK: usize = 4096;

/// A complete chunk in memory, with its parsed header.
#[derive(Clone, Copy)]
pub(crate) struct ParsedChunk<'c> {
    pub(crate) header: &'c ChunkHeader,
    pub(crate) bytes: &'c [u8],
    /// The same bytes as a shared buffer, if they are in one.
    pub(crate) shared: Option<&'c Bytes>,
    pub(crate) nchunk: Option<usize>,
}

impl ParsedChunk<'_> {
    /// Locates the blocks.
    pub(crate) fn lazy(&self, dparams: &DParams) -> Result<LazyChunk, ChunkError> {
        let have = self.bytes.len() as u64;
        match LazyChunk::parse(self.bytes, have, dparams)? {
            LazyHead::Ready(lazy) => Ok(lazy.with_nchunk(self.nchunk)),
            // Unreachable: all bytes of the chunk are present, as its header says.
            LazyHead::Need(need) => Err(ChunkError::Truncated { what: "the chunk", need: need as u64, have }),
            LazyHead::Whole => Err(ChunkError::Truncated { what: "the chunk", need: u64::MAX, have }),
        }
    }

    /// Returns part of the bytes as a shared buffer, copied if necessary.
    fn keep(&self, part: &[u8]) -> Result<Bytes, OutOfMemory> {
        match self.shared {
            Some(bytes) => Ok(bytes.slice_ref(part)),
            None => copied(part).map(Bytes::from),
        }
    }
}

/// Begins a call that produces `nbytes` uncompressed bytes.
pub(crate) fn begin(dparams: &DParams, header: &ChunkHeader, nbytes: usize) -> Control {
    let itemsize = dparams.container.itemsize.unwrap_or(header.itemsize());
    dparams.control.begin(nbytes as u64, itemsize as u64)
}

/// Returns the stored bytes of a block, from all bytes of the chunk. They are empty if the block is not inside.
fn stored_block<'c>(lazy: &LazyChunk, chunk: &'c [u8], nblock: usize) -> &'c [u8] {
    chunk.get(lazy.block_extent(nblock)).unwrap_or_default()
}

/// Copies the bytes `range` of a chunk that is stored uncompressed to `out`, which has the same length.
fn copy_payload(
    header: &ChunkHeader,
    chunk: &[u8],
    range: Range<usize>,
    out: &mut [u8],
) -> Result<(), ChunkError> {
    let payload = chunk.get(header.header_len()..).and_then(|payload| payload.get(range));
    let Some(bytes) = payload.filter(|bytes| bytes.len() == out.len()) else {
        let (need, have) = (header.cbytes() as u64, chunk.len() as u64);
        return Err(ChunkError::Truncated { what: "the payload", need, have });
    };
    out.copy_from_slice(bytes);
    Ok(())
}

/// Chunks that are not longer are decompressed by one thread, in bytes.
const MAX_SERIAL_LEN: usize = 64 << 10;

/// Decompresses the whole chunk into `dst`, which has its length. `scratch` is used if this thread does all the work.
pub(crate) fn decompress_whole(
    chunk: ParsedChunk<'_>,
    dst: &mut [u8],
    dparams: &DParams,
    mut scratch: ScratchGuard<'_>,
) -> Result<(), ChunkError> {
    if dst.len() <= MAX_SERIAL_LEN {
        if small::like_last(chunk.bytes, dst, dparams, &mut scratch).is_some() {
            return Ok(());
        }
        if let Some(result) = like_last(&chunk, dst, dparams, &mut scratch) {
            return result;
        }
        return get_bytes(chunk, 0..dst.len(), dst, dparams, scratch);
    }
    drop(scratch);
    decompress(&chunk.lazy(dparams)?, chunk.bytes, dst, dparams)
}

/// Decompresses a chunk of one block, with the header of the chunk before it, at the lowest fixed cost. Returns `None`
/// for other chunks, and where a table is malformed.
fn like_last(
    chunk: &ParsedChunk<'_>,
    dst: &mut [u8],
    dparams: &DParams,
    scratch: &mut ScratchGuard<'_>,
) -> Option<Result<(), ChunkError>> {
    let ParsedChunk { header, bytes, .. } = *chunk;
    let last = scratch.layout.as_ref().filter(|last| last.layout.nblocks == 1)?;
    // If the plugins are others, this is a wrong chain, and `adapt` returns `None`.
    let filters = Chain::restored(&dparams.plugins, last.chain.as_ref()?)?;
    if dparams.control.is_watched()
        || dparams.has_postfilter()
        || recovery_candidate(header, dparams).is_some()
    {
        return None;
    }
    let cached = scratch.layout.take()?.adapt(&dparams.plugins, header)?;
    if let Err(error) = dparams.limits.check_chunk(header.nbytes() as u64) {
        return Some(Err(error.into()));
    }
    let (table, _) = bytes.get(header.header_len()..)?.split_first_chunk::<4>()?;
    let first = header.header_len().saturating_add(table.len());
    let start = u32::from_le_bytes(*table) as usize;
    if start < first || start > bytes.len().checked_sub(4)? {
        return None;
    }
    let starts = Starts::Table(std::slice::from_ref(table));
    let stored = bytes.get(start..)?;
    let mut decoder = BlockDecoder::with_filters(&cached.layout, starts, dparams, scratch.lend(), filters);
    let result = decoder.decode_reference(0, stored, None, dst);
    drop(decoder);
    scratch.layout = Some(cached);
    Some(result)
}

pub(crate) fn decompress(
    lazy: &LazyChunk,
    chunk: &[u8],
    dst: &mut [u8],
    dparams: &DParams,
) -> Result<(), ChunkError> {
    let streaming = dparams.destination.is_streaming(dst.len());
    let decoder = || lazy.decoder(dparams).map(|decoder| decoder.streaming(streaming));
    let control = &begin(dparams, lazy.header(), dst.len());
    let stored = |nblock| stored_block(lazy, chunk, nblock);
    if lazy.nblocks() <= 1 || dst.is_empty() || lazy.blocksize() == 0 {
        // There is only one block, or blocks have variable lengths.
        let mut decoder = decoder()?;
        for nblock in 0..lazy.nblocks() {
            let range = lazy.block_range(nblock);
            let nbytes = range.len() as u64;
            decoder.decode(nblock, stored(nblock), None, dst.get_mut(range).unwrap_or_default())?;
            control.advance(nbytes)?;
        }
        return Ok(());
    }
    let hooked = dparams.has_postfilter();
    if lazy.block_extent(0).is_empty() && !hooked {
        // All blocks repeat one value.
        decoder()?.decode(0, &[], None, dst)?;
        return Ok(control.advance(dst.len() as u64)?);
    }
    if matches!(lazy.layout.body, Body::Stored) && lazy.blocksize() < SMALL_BLOCK && !hooked {
        copy_payload(lazy.header(), chunk, 0..dst.len(), dst)?;
        return Ok(control.advance(dst.len() as u64)?);
    }
    let blocksize = lazy.blocksize();
    let pace = BlockProgress::new(control, dst.len(), blocksize);
    let threads = dparams.limits.threads(lazy.block_memory());
    let work =
        (chunk.len().max(dst.len()) as u64).saturating_mul(dparams.plugins.decoding_cost(lazy.header()));
    if lazy.needs_block0() {
        let (first, rest) = dst.split_at_mut(blocksize);
        // The other blocks use block 0 as reference, so it should stay in the caches.
        let mut first_decoder = lazy.decoder(dparams)?.streaming(false);
        first_decoder.decode_reference(0, stored(0), None, first)?;
        let reference;
        let block0 = if hooked {
            reference = copied(first)?;
            first_decoder.decode(0, stored(0), None, first)?;
            &reference
        } else {
            &*first
        };
        drop(first_decoder);
        pace.done(0)?;
        return for_each(
            control,
            threads,
            rest.chunks_mut(blocksize).zip(1..),
            work,
            decoder,
            |decoder, (out, nblock)| {
                decoder.decode(nblock, stored(nblock), Some(block0), out)?;
                pace.done(nblock)
            },
        );
    }
    let blocks = dst.chunks_mut(blocksize).zip(0..);
    for_each(control, threads, blocks, work, decoder, |decoder, (out, nblock)| {
        decoder.decode(nblock, stored(nblock), None, out)?;
        pace.done(nblock)
    })
}

/// Decodes all blocks and discards the result. Adds the number of uncompressed bytes produced to `decoded`.
pub(crate) fn check(
    lazy: &LazyChunk,
    chunk: &[u8],
    dparams: &DParams,
    decoded: &mut u64,
) -> Result<(), ChunkError> {
    let control = begin(dparams, lazy.header(), lazy.header().nbytes());
    if !matches!(lazy.layout.body, Body::Blocks { .. } | Body::VlBlocks { .. }) {
        return Ok(control.advance(lazy.header().nbytes() as u64)?);
    }
    let mut decoder = lazy.decoder(dparams)?.streaming(false);
    let (mut block0, mut plain) = (None, Vec::new());
    for nblock in 0..lazy.nblocks() {
        let (stored, len) = (stored_block(lazy, chunk, nblock), lazy.block_range(nblock).len());
        let reference = block0.as_deref().filter(|_| nblock > 0);
        let keep = nblock == 0 && lazy.needs_block0() && lazy.nblocks() > 1;
        if !keep && decoder.is_repeated(nblock, stored, len)? {
            control.advance(len as u64)?;
            continue;
        }
        // A block above the memory limit is decoded in pieces; each piece decodes everything before it again.
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
            control.advance(part.len() as u64)?;
        }
        if keep {
            block0 = Some(std::mem::take(&mut plain));
        }
    }
    Ok(())
}

/// Decompresses the uncompressed bytes `range`, which is inside the chunk and as long as `out`.
pub(crate) fn get_bytes(
    chunk: ParsedChunk<'_>,
    range: Range<usize>,
    out: &mut [u8],
    dparams: &DParams,
    mut scratch: ScratchGuard<'_>,
) -> Result<(), ChunkError> {
    let header = chunk.header;
    dparams.limits.check_chunk(header.nbytes() as u64)?;
    let control = &begin(dparams, header, out.len());
    if header.is_memcpyed() && !header.is_vl() && !dparams.has_postfilter() {
        copy_payload(header, chunk.bytes, range, out)?;
        return Ok(control.advance(out.len() as u64)?);
    }
    let stored_value = || match chunk.bytes.get(EXTENDED_HEADER_LEN..) {
        Some(value) => chunk.keep(value).map_err(Some),
        None => Err(None),
    };
    match Layout::special_value(header, stored_value) {
        Some(Ok(value)) if !dparams.has_postfilter() => {
            fill(out, &value, range.start);
            return Ok(control.advance(out.len() as u64)?);
        }
        Some(Err(Some(out_of_memory))) => return Err(out_of_memory.into()),
        _ => {}
    }
    if let Some(mut glance) = BlockLookup::new(chunk, dparams, &mut scratch)?
        && glance.finds(&range)
    {
        let result = glance.get_bytes(&range, out, control, dparams, scratch.lend());
        if glance.layout.layout.dict().is_none() && scratch.may_keep(&dparams.plugins) {
            scratch.layout = Some(glance.layout);
        }
        return result;
    }
    drop(scratch);
    let lazy = chunk.lazy(dparams)?;
    let mut decoder = lazy.decoder(dparams)?;
    let stored = |nblock| stored_block(&lazy, chunk.bytes, nblock);
    let nblocks = lazy.blocks_of(range.clone());
    let block0 = if lazy.needs_block0() && nblocks.end > 1 {
        let mut block0 = zeroed(lazy.block_range(0).len())?;
        decoder.decode_reference(0, stored(0), None, &mut block0)?;
        Some(block0)
    } else {
        None
    };
    for_parts(
        control,
        range,
        nblocks,
        |nblock| lazy.block_range(nblock),
        out,
        |nblock, part, dst| decoder.decode_part(nblock, stored(nblock), block0.as_deref(), part, dst),
    )
}

/// Calls `work` for each block that `range` touches, with the block's part of `range` and its place in `out`.
pub(crate) fn for_parts(
    control: &Control,
    range: Range<usize>,
    nblocks: Range<usize>,
    block_range: impl Fn(usize) -> Range<usize>,
    out: &mut [u8],
    mut work: impl FnMut(usize, Range<usize>, &mut [u8]) -> Result<(), ChunkError>,
) -> Result<(), ChunkError> {
    let mut reported = range.start;
    for nblock in nblocks {
        let block = block_range(nblock);
        let (start, end) = (range.start.max(block.start), range.end.min(block.end));
        let within = |base: usize| start.saturating_sub(base)..end.saturating_sub(base);
        work(nblock, within(block.start), out.get_mut(within(range.start)).unwrap_or_default())?;
        let done = end.saturating_sub(reported);
        if end == range.end || done >= STEP {
            control.advance(done as u64)?;
            reported = end;
        }
    }
    Ok(())
}

/// A chunk with blocks of equal length, without a list of all block extents: it reads only the block starts it needs,
/// which makes small reads of large chunks faster.
struct BlockLookup<'c> {
    layout: Box<CachedLayout>,
    bytes: &'c [u8],
    bstarts: &'c [[u8; 4]],
    /// End of block starts and dictionary, in bytes.
    tables_end: usize,
}

impl<'c> BlockLookup<'c> {
    /// Returns `None` if the chunk is of another kind or malformed; [`ParsedChunk::lazy`] then reports the error.
    fn new(
        chunk: ParsedChunk<'c>,
        dparams: &DParams,
        scratch: &mut Scratch,
    ) -> Result<Option<Self>, OutOfMemory> {
        let ParsedChunk { header, bytes, .. } = chunk;
        if header.is_vl() || dparams.has_postfilter() || recovery_candidate(header, dparams).is_some() {
            return Ok(None);
        }
        let cached = scratch.layout.take().and_then(|cached| cached.adapt(&dparams.plugins, header));
        let nblocks = cached.as_ref().map_or_else(|| header.nblocks(), |cached| cached.layout.nblocks);
        let Ok(Tables::Read(ParsedTables { bstarts, dict, end })) = read_tables(bytes, header, nblocks)
        else {
            return Ok(None);
        };
        let layout = match cached {
            Some(cached) => cached,
            None => {
                let body = Body::Blocks { dict: dict.map(|dict| chunk.keep(dict)).transpose()? };
                let layout = Layout::new(header.clone(), body, &dparams.plugins);
                Box::new(CachedLayout::new(&dparams.plugins, layout))
            }
        };
        Ok(Some(Self { layout, bytes, bstarts, tables_end: end as usize }))
    }

    /// Returns the stored bytes of a block, up to the next larger block start. If blocks are out of order, finding that
    /// takes a scan of all starts, which is only done if `search` is set; otherwise the result is `None`.
    fn stored(&self, nblock: usize, search: bool) -> Option<&'c [u8]> {
        let starts = self.bstarts;
        let start_of = |nblock: usize| starts.get(nblock).map(|b| u32::from_le_bytes(*b) as usize);
        let start = start_of(nblock)?;
        let end = match start_of(nblock.saturating_add(1)) {
            Some(next) if next > start => next,
            None if nblock.checked_sub(1).and_then(start_of).is_some_and(|previous| previous < start) => {
                self.bytes.len()
            }
            // The blocks seem to be out of order.
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

    /// Returns whether all blocks of `range` are searched for. For many blocks it is cheaper to sort all extents once.
    fn searches(nblocks: &Range<usize>) -> bool {
        nblocks.len() <= 4
    }

    /// Returns whether block 0 is needed to decode the blocks `nblocks`.
    fn refers(&self, nblocks: &Range<usize>) -> bool {
        nblocks.end > 1 && self.layout.layout.needs_block0()
    }

    /// Returns whether the extents of all blocks that `range` needs can be determined.
    fn finds(&self, range: &Range<usize>) -> bool {
        let nblocks = self.layout.layout.blocks_of(range);
        let search = Self::searches(&nblocks);
        nblocks.clone().all(|nblock| self.stored(nblock, search).is_some())
            && (!self.refers(&nblocks) || self.stored(0, true).is_some())
    }

    /// Decompresses `range`, for which [`finds`](Self::finds) is true, into `out`.
    fn get_bytes(
        &mut self,
        range: &Range<usize>,
        out: &mut [u8],
        control: &Control,
        dparams: &DParams,
        scratch: ScratchGuard<'_>,
    ) -> Result<(), ChunkError> {
        let chain = self.decode(range, out, control, dparams, scratch)?;
        if self.layout.chain.is_none() {
            self.layout.chain = chain;
            let CachedLayout { layout, chain, plan, .. } = &mut *self.layout;
            *plan = chain.as_ref().and_then(|chain| small::plan(self.bytes, layout, chain, dparams));
        }
        Ok(())
    }

    /// Does the work of [`get_bytes`](Self::get_bytes). Returns the filters for further chunks, unless they are known.
    fn decode(
        &self,
        range: &Range<usize>,
        out: &mut [u8],
        control: &Control,
        dparams: &DParams,
        scratch: ScratchGuard<'_>,
    ) -> Result<Option<SavedChain>, ChunkError> {
        let layout = &self.layout.layout;
        let nblocks = layout.blocks_of(range);
        let search = Self::searches(&nblocks);
        let stored = |nblock| self.stored(nblock, search).unwrap_or_default();
        let mut decoder = BlockDecoder::new(layout, Starts::Table(self.bstarts), dparams, scratch)?;
        let mut block0 = None;
        if self.refers(&nblocks) {
            // It may be stored out of order although the blocks of the range are not.
            let stored = self.stored(0, true).unwrap_or_default();
            let end = match nblocks.len() {
                1 => range.end.saturating_sub(layout.block_range(nblocks.start).start),
                _ => layout.blocksize,
            };
            let len = decoder.needed_of_block0(end);
            let start = block0.insert(zeroed(len)?);
            decoder.decode_part(0, stored, None, 0..len, start)?;
        }
        for_parts(
            control,
            range.clone(),
            nblocks,
            |nblock| layout.block_range(nblock),
            out,
            |nblock, part, dst| decoder.decode_part(nblock, stored(nblock), block0.as_deref(), part, dst),
        )?;
        Ok(self.layout.chain.is_none().then(|| decoder.saved_filters()).flatten())
    }
}
