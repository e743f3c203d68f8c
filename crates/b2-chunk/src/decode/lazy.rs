//! Locates the blocks of a chunk, given only its head.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use crate::model::header::MAX_DICT_LEN;
use crate::model::layout::{Body, Layout, vl_block_nbytes};
use crate::{ChunkError, ChunkHeader, DParams};
use b2_core::memory;

/// A chunk whose head (header, block starts, dictionary) has been read, while its blocks may still be on disk.
///
/// It does no I/O: it says which bytes to fetch, and decodes them. A head is read in steps, since each part determines
/// the length of the next:
///
/// ```
/// use b2_chunk::{Compression, Chunk, DParams, LazyChunk, LazyHead};
///
/// let data: Vec<u8> = (0..40_000u32).flat_map(|i| i.to_le_bytes()).collect();
/// let chunk = Chunk::compress_bytes(&data, &Compression::new().itemsize(4).blocksize(16_384).build()?)?;
/// let stored = chunk.as_bytes(); // in place of a file
///
/// let dparams = DParams::default();
/// let mut have = 32;
/// let lazy = loop {
///     match LazyChunk::parse(&stored[..have], stored.len() as u64, &dparams)? {
///         LazyHead::Need(len) => have = len,
///         LazyHead::Whole => have = stored.len(),
///         LazyHead::Ready(lazy) => break lazy,
///     }
/// };
/// assert_eq!(have, 32 + 4 * lazy.nblocks());
///
/// // Decode block 3 from its own bytes only.
/// let extent = lazy.block_extent(3);
/// let mut block = vec![0; lazy.block_range(3).len()];
/// lazy.decoder(&dparams)?.decode(3, &stored[extent], None, &mut block)?;
/// assert_eq!(block, data[lazy.block_range(3)]);
/// # Ok::<(), b2_chunk::ChunkError>(())
/// ```
#[derive(Clone, Debug)]
pub struct LazyChunk {
    pub(crate) layout: Layout,
    /// Empty if no blocks are stored.
    pub(crate) extents: Extents,
    /// For variable-length blocks: the uncompressed offset of each block, then the end of the last. Empty while only
    /// the head has been read, since each length is stored with its block.
    pub(crate) starts: Arc<Vec<u32>>,
}

/// The result of [`LazyChunk::parse`].
#[derive(Clone, Debug)]
pub enum LazyHead {
    /// More input is needed: this many bytes from the start of the chunk.
    Need(usize),
    /// The whole chunk is needed, because only decoding it reveals the block size (docs/format/chunk.md, section 7.4).
    Whole,
    /// The head is complete.
    Ready(LazyChunk),
}

/// Start and end of each stored block, from the start of the chunk.
pub(crate) type Extents = Arc<Vec<(u32, u32)>>;

impl LazyChunk {
    /// Parses the head of a chunk from the chunk's first bytes.
    ///
    /// `available` is the number of bytes from the start of the chunk to the end of its container. The chunk must
    /// fit into it.
    ///
    /// # Errors
    /// As [`ChunkHeader::parse`]; [`ChunkError::Truncated`] if the chunk does not fit; [`ChunkError::Truncated`],
    /// [`ChunkError::Block`], [`ChunkError::Dictionary`] or [`ChunkError::Field`] if a table is malformed;
    /// [`ChunkError::Limit`] if the chunk is larger than the limits allow, [`ChunkError::OutOfMemory`].
    pub fn parse(head: &[u8], available: u64, dparams: &DParams) -> Result<LazyHead, ChunkError> {
        let header_len = match head {
            [_, _, flags, ..] if flags & 5 == 5 => 32,
            _ => 16,
        };
        if head.len() < header_len && head.len() as u64 <= available && available >= header_len as u64 {
            return Ok(LazyHead::Need(header_len));
        }
        let header = ChunkHeader::parse(head)?;
        if header.cbytes() as u64 > available {
            return Err(ChunkError::Truncated {
                what: "the chunk",
                need: header.cbytes() as u64,
                have: available,
            });
        }
        dparams.limits.check_chunk(header.nbytes() as u64)?;
        let head = head.get(..header.cbytes()).unwrap_or(head);
        let ready = |header, body, extents, starts| {
            Ok(LazyHead::Ready(Self { layout: Layout::new(header, body, &dparams.plugins), extents, starts }))
        };
        let value = || match head.get(32..header.cbytes()) {
            Some(value) => memory::copied(value).map(Bytes::from).map_err(Err),
            None => Err(Ok(header.cbytes())),
        };
        match Layout::special_value(&header, value) {
            Some(Ok(value)) => {
                return ready(header, Body::Fill { value }, Arc::default(), Arc::default());
            }
            Some(Err(need)) => return Ok(LazyHead::Need(need?)),
            None => {}
        }
        if header.is_memcpyed() {
            return ready(header, Body::Stored, Arc::default(), Arc::default());
        }
        if header.is_vl() {
            let nblocks = header.nblocks();
            return match read_tables(head, &header, nblocks)? {
                Tables::Need(len) => Ok(LazyHead::Need(len)),
                Tables::Read(tables) => {
                    let extents = vl_extents(&tables, &header)?;
                    let starts = if head.len() == header.cbytes() {
                        vl_starts(head, &header, &extents)?
                    } else {
                        Arc::default()
                    };
                    ready(header, Body::VlBlocks { dict: tables.kept_dict()? }, extents, starts)
                }
            };
        }
        Self::parse_regular(head, header, dparams)
    }

    fn parse_regular(head: &[u8], header: ChunkHeader, dparams: &DParams) -> Result<LazyHead, ChunkError> {
        let plain = header.blocksize();
        let Some(candidate) = recovery_candidate(&header, dparams) else {
            return Self::with_blocksize(head, header, plain, dparams);
        };
        // The candidate's blocks are smaller than the header's, so its tables are at least as long.
        let passes = match read_tables(head, &header, header.nbytes().div_ceil(candidate.blocksize)) {
            Ok(Tables::Need(len)) => return Ok(LazyHead::Need(len)),
            Ok(Tables::Read(tables)) => tables.starts().min().map(i64::from) == Some(tables.end.into()),
            Err(_) => false,
        };
        if !passes {
            return Self::with_blocksize(head, header, plain, dparams);
        }
        if header.nbytes().div_ceil(plain) != header.nbytes().div_ceil(candidate.blocksize) {
            return Self::with_blocksize(head, header, candidate.blocksize, dparams);
        }
        if head.len() < header.cbytes() {
            return Ok(LazyHead::Whole);
        }
        let (first, second) =
            if candidate.guess { (plain, candidate.blocksize) } else { (candidate.blocksize, plain) };
        if let Ok(LazyHead::Ready(lazy)) = Self::with_blocksize(head, header.clone(), first, dparams)
            && lazy.decodes(head, dparams)
        {
            return Ok(LazyHead::Ready(lazy));
        }
        if let Ok(LazyHead::Ready(lazy)) = Self::with_blocksize(head, header.clone(), second, dparams)
            && lazy.decodes(head, dparams)
        {
            return Ok(LazyHead::Ready(lazy));
        }
        Self::with_blocksize(head, header, plain, dparams)
    }

    fn with_blocksize(
        head: &[u8],
        header: ChunkHeader,
        blocksize: usize,
        dparams: &DParams,
    ) -> Result<LazyHead, ChunkError> {
        let nblocks = header.nbytes().div_ceil(blocksize);
        match read_tables(head, &header, nblocks)? {
            Tables::Need(len) => Ok(LazyHead::Need(len)),
            Tables::Read(tables) => {
                let extents = block_extents(&tables, &header)?;
                let body = Body::Blocks { dict: tables.kept_dict()? };
                let layout = Layout::new(header, body, &dparams.plugins).with_blocksize(blocksize);
                Ok(LazyHead::Ready(Self { layout, extents, starts: Arc::default() }))
            }
        }
    }

    /// Returns whether all blocks of the whole chunk decode with the chosen block size.
    fn decodes(&self, chunk: &[u8], dparams: &DParams) -> bool {
        let Ok(mut decoder) = self.decoder(dparams) else { return false };
        let mut block0 = Vec::new();
        let Ok(mut block) = memory::zeroed(self.blocksize()) else { return false };
        for nblock in 0..self.nblocks() {
            let reference = (nblock > 0 && self.needs_block0()).then_some(&block0[..]);
            let stored = chunk.get(self.block_extent(nblock)).unwrap_or_default();
            let decoded = match block.get_mut(..self.block_range(nblock).len()) {
                Some(dst) => decoder.decode_reference(nblock, stored, reference, dst).map(|()| dst),
                None => return false,
            };
            match decoded {
                Ok(dst) if nblock == 0 && self.needs_block0() => match memory::copied(dst) {
                    Ok(copy) => block0 = copy,
                    Err(_) => return false,
                },
                Ok(_) => {}
                Err(_) => return false,
            }
        }
        true
    }

    /// Sets the index of this chunk in its container, which is passed to the postfilter.
    #[must_use]
    #[doc(hidden)]
    pub fn with_nchunk(mut self, nchunk: Option<usize>) -> Self {
        self.layout.nchunk = nchunk;
        self
    }

    /// Returns the parsed header. Its block size may differ from that of [`block_range`](Self::block_range), which
    /// follows the recovery rule.
    pub fn header(&self) -> &ChunkHeader {
        &self.layout.header
    }

    /// Returns the number of blocks.
    pub fn nblocks(&self) -> usize {
        self.layout.nblocks
    }

    /// Returns the uncompressed size of every block except possibly the last, in bytes; 0 if blocks have variable
    /// lengths.
    pub fn blocksize(&self) -> usize {
        self.layout.blocksize
    }

    /// Returns the range of uncompressed bytes that a block holds, counted from the start of the chunk. It is empty
    /// past the last block, and for variable-length blocks while only the head has been read.
    pub fn block_range(&self, nblock: usize) -> Range<usize> {
        if let Body::VlBlocks { .. } = self.layout.body {
            return match (self.starts.get(nblock), self.starts.get(nblock.saturating_add(1))) {
                (Some(&start), Some(&end)) => start as usize..end as usize,
                _ => 0..0,
            };
        }
        self.layout.block_range(nblock)
    }

    /// Returns the blocks that hold the uncompressed bytes `range`.
    pub fn blocks_of(&self, range: Range<usize>) -> Range<usize> {
        if let (Body::VlBlocks { .. }, false) = (&self.layout.body, range.is_empty()) {
            let block = |byte: usize| self.starts.partition_point(|&s| s as usize <= byte).saturating_sub(1);
            let last = block(range.end.saturating_sub(1));
            return block(range.start)..last.saturating_add(1).min(self.nblocks());
        }
        self.layout.blocks_of(&range)
    }

    /// Returns the range of a block's stored bytes, counted from the start of the chunk. It is empty if nothing is
    /// stored for the block.
    pub fn block_extent(&self, nblock: usize) -> Range<usize> {
        match &self.layout.body {
            Body::Fill { .. } => 0..0,
            Body::Stored => {
                let (plain, header_len) = (self.block_range(nblock), self.header().header_len());
                header_len.saturating_add(plain.start)..header_len.saturating_add(plain.end)
            }
            Body::Blocks { .. } | Body::VlBlocks { .. } => {
                self.extents.get(nblock).map_or(0..0, |&(start, end)| start as usize..end as usize)
            }
        }
    }

    /// Returns the length of everything before the blocks, in bytes: header, block starts and dictionary.
    pub fn head_len(&self) -> usize {
        let header = self.header().header_len();
        match &self.layout.body {
            Body::Fill { .. } | Body::Stored => header,
            Body::Blocks { dict } | Body::VlBlocks { dict } => {
                let dict = dict.as_ref().map_or(0, |dict| dict.len().saturating_add(4));
                header.saturating_add(self.nblocks().saturating_mul(4)).saturating_add(dict)
            }
        }
    }

    /// Returns whether decoding any other block requires the decoded block 0, as the delta filter does.
    pub fn needs_block0(&self) -> bool {
        self.layout.needs_block0()
    }

    /// Returns the most memory that a thread needs to decode a block in addition to the result, in bytes. It is 0 for
    /// blocks of variable lengths, which are decoded one at a time.
    #[doc(hidden)]
    pub fn block_memory(&self) -> u64 {
        match self.layout.body {
            Body::Blocks { .. } => self.layout.block_memory(self.blocksize()),
            Body::VlBlocks { .. } | Body::Fill { .. } | Body::Stored => 0,
        }
    }

    /// Returns the most memory that a thread needs to decode part of a block ([`BlockDecoder::decode_part`](crate::BlockDecoder::decode_part)), in bytes.
    #[doc(hidden)]
    pub fn part_memory(&self) -> u64 {
        match self.layout.body {
            Body::Blocks { .. } => self.layout.part_memory(self.blocksize()),
            Body::VlBlocks { .. } | Body::Fill { .. } | Body::Stored => 0,
        }
    }
}

/// Offsets of the blocks of a chunk.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Starts<'a> {
    /// The lists of a [`LazyChunk`].
    Lists { extents: &'a [(u32, u32)], plain: &'a [u32] },
    /// The table as stored in the chunk, for blocks of equal length.
    Table(&'a [[u8; 4]]),
}

impl Starts<'_> {
    /// Returns the offset of a block's first stored byte, or 0 if it is unknown.
    pub(crate) fn start(&self, nblock: usize) -> u64 {
        match self {
            Self::Lists { extents, .. } => extents.get(nblock).map_or(0, |&(start, _)| start.into()),
            Self::Table(table) => table.get(nblock).map_or(0, |b| u32::from_le_bytes(*b).into()),
        }
    }
    /// Returns the offset of a block's first uncompressed byte, or 0 if it is unknown.
    pub(crate) fn plain(&self, layout: &Layout, nblock: usize) -> usize {
        match self {
            Self::Lists { plain, .. } if layout.header.is_vl() => {
                plain.get(nblock).map_or(0, |&at| at as usize)
            }
            _ => layout.block_range(nblock).start,
        }
    }
}

pub(crate) struct Candidate {
    blocksize: usize,
    guess: bool,
}

/// Returns another block size with which the chunk may have been encoded (docs/format/chunk.md, section 7.4).
pub(crate) fn recovery_candidate(header: &ChunkHeader, dparams: &DParams) -> Option<Candidate> {
    let plain = header.blocksize();
    let unit = match (header.itemsize(), dparams.container.itemsize) {
        (1, Some(itemsize)) if itemsize > 255 => itemsize,
        (typesize, _) => typesize,
    };
    let ragged = plain.checked_rem(unit).unwrap_or(0);
    if plain > unit && ragged > 0 {
        return Some(Candidate { blocksize: plain.saturating_sub(ragged), guess: false });
    }
    let frame_blocksize = dparams.container.frame_blocksize;
    (unit == 1 && frame_blocksize > 255 && frame_blocksize < plain)
        .then_some(Candidate { blocksize: frame_blocksize, guess: true })
}

pub(crate) struct ParsedTables<'h> {
    /// The table as stored. It is not copied: it may be as large as the chunk.
    pub(crate) bstarts: &'h [[u8; 4]],
    pub(crate) dict: Option<&'h [u8]>,
    /// End of block starts and dictionary, from the start of the chunk. It is inside the chunk.
    pub(crate) end: u32,
}

impl ParsedTables<'_> {
    fn starts(&self) -> impl DoubleEndedIterator<Item = i32> + ExactSizeIterator + Clone {
        self.bstarts.iter().map(|start| i32::from_le_bytes(*start))
    }

    fn kept_dict(&self) -> Result<Option<Bytes>, ChunkError> {
        Ok(self.dict.map(memory::copied).transpose()?.map(Bytes::from))
    }
}

pub(crate) enum Tables<'h> {
    Need(usize),
    Read(ParsedTables<'h>),
}

/// Bytes per block in the table of block starts.
const ENTRY: u64 = 4;

/// Parses the table of block starts and the dictionary, or says how many bytes of the chunk that takes.
pub(crate) fn read_tables<'h>(
    head: &'h [u8],
    header: &ChunkHeader,
    nblocks: usize,
) -> Result<Tables<'h>, ChunkError> {
    let start = header.header_len();
    let cbytes = header.cbytes() as u64;
    // Offsets up to `cbytes` fit a u32, because `cbytes` is an i32 in the header.
    let inside = |what, end: Option<u64>| match end.filter(|end| *end <= cbytes).map(u32::try_from) {
        Some(Ok(end)) => Ok(end),
        _ => Err(ChunkError::Truncated { what, need: end.unwrap_or(u64::MAX), have: cbytes }),
    };
    let table_end = ENTRY.checked_mul(nblocks as u64).and_then(|len| len.checked_add(start as u64));
    let mut end = inside("the table of block starts", table_end)?;
    let Some(table) = head.get(start..end as usize) else { return Ok(Tables::Need(end as usize)) };
    let mut dict = None;
    if header.has_dict() {
        let size_at = end;
        let dict_at = inside("the dictionary size", u64::from(size_at).checked_add(4))?;
        let Some(size) = head.get(size_at as usize..).and_then(|rest| rest.first_chunk::<4>()) else {
            return Ok(Tables::Need(dict_at as usize));
        };
        let size = i32::from_le_bytes(*size);
        let len = usize::try_from(size).ok().filter(|len| (1..=MAX_DICT_LEN).contains(len));
        let Some(len) = len else {
            return Err(ChunkError::Dictionary {
                offset: size_at.into(),
                value: size.into(),
                expected: "1 to 32768",
            });
        };
        end = inside("the dictionary", u64::from(dict_at).checked_add(len as u64))?;
        match head.get(dict_at as usize..end as usize) {
            Some(bytes) => dict = Some(bytes),
            None => return Ok(Tables::Need(end as usize)),
        }
    }
    Ok(Tables::Read(ParsedTables { bstarts: table.as_chunks().0, dict, end }))
}

/// Builds the error for an invalid entry in the table of block starts.
#[cold]
fn bad_start(header: &ChunkHeader, nblock: usize, value: i64, expected: &'static str) -> ChunkError {
    let offset = ENTRY.saturating_mul(nblock as u64).saturating_add(header.header_len() as u64);
    ChunkError::Block { nblock, field: "block start", offset, value, expected }
}

/// Computes where each block is stored. Blocks may be in any order: each ends at the next larger start.
fn block_extents(tables: &ParsedTables<'_>, header: &ChunkHeader) -> Result<Extents, ChunkError> {
    let cbytes = header.stored_len();
    let last = cbytes.saturating_sub(4);
    // One allocation serves three steps: (start, block), then (end, block), then (start, end).
    let mut list = memory::list(tables.bstarts.len())?;
    for (nblock, bstart) in tables.starts().enumerate() {
        match (u32::try_from(bstart), u32::try_from(nblock)) {
            (Ok(bstart), Ok(nblock)) if (tables.end..=last).contains(&bstart) => list.push((bstart, nblock)),
            _ => {
                let expected = "an offset after the tables and inside the chunk";
                return Err(bad_start(header, nblock, bstart.into(), expected));
            }
        }
    }
    let sorted = list.is_sorted_by_key(|&(bstart, _)| bstart);
    if !sorted {
        list.sort_unstable();
    }
    let mut end = cbytes;
    let mut previous = cbytes;
    for (bstart, _) in list.iter_mut().rev() {
        if *bstart < previous {
            end = previous;
            previous = *bstart;
        }
        // Blocks with equal starts share their end.
        *bstart = end;
    }
    if !sorted {
        put_in_place(&mut list, |&(_, nblock)| nblock as usize);
    }
    for (extent, bstart) in list.iter_mut().zip(tables.starts()) {
        *extent = (bstart.unsigned_abs(), extent.0);
    }
    Ok(Arc::new(list))
}

/// Permutes `list` in place. `place` returns the final index of an item; the indices must be a permutation.
fn put_in_place<T>(list: &mut [T], place: impl Fn(&T) -> usize) {
    for at in 0..list.len() {
        // Each swap moves one item to its final index.
        while let Some(to) = list.get(at).map(&place)
            && to != at
            && to < list.len()
        {
            list.swap(at, to);
        }
    }
}

/// Computes where each variable-length block is stored. They are in order, without gaps.
fn vl_extents(tables: &ParsedTables<'_>, header: &ChunkHeader) -> Result<Extents, ChunkError> {
    let mut extents = memory::list(tables.bstarts.len())?;
    let cbytes = i64::from(header.stored_len());
    let mut least = i64::from(tables.end);
    let starts = tables.starts().map(i64::from);
    let ends = starts.clone().skip(1).chain([cbytes]);
    for (nblock, (bstart, end)) in starts.zip(ends).enumerate() {
        match (u32::try_from(bstart), u32::try_from(end)) {
            (Ok(start), Ok(stop)) if bstart >= least && stop > start.saturating_add(4) && end <= cbytes => {
                extents.push((start, stop));
            }
            _ => {
                let expected = "rising by more than 4, after the tables and inside the chunk";
                return Err(bad_start(header, nblock, bstart, expected));
            }
        }
        least = end;
    }
    Ok(Arc::new(extents))
}

fn vl_starts(chunk: &[u8], header: &ChunkHeader, extents: &Extents) -> Result<Arc<Vec<u32>>, ChunkError> {
    let mut starts = memory::list(extents.len().saturating_add(1))?;
    starts.push(0);
    let mut total = 0u64;
    for (nblock, &(start, end)) in extents.iter().enumerate() {
        let stored = chunk.get(start as usize..end as usize).unwrap_or_default();
        let size = vl_block_nbytes(stored, nblock, start.into())?;
        total = total.saturating_add(size as u64);
        match u32::try_from(total) {
            Ok(total) if total as usize <= header.nbytes() => starts.push(total),
            _ => break,
        }
    }
    if total != header.nbytes() as u64 {
        return Err(ChunkError::Field {
            field: "nbytes",
            offset: 4,
            value: header.nbytes.into(),
            expected: "the sum of the block lengths",
        });
    }
    Ok(Arc::new(starts))
}
