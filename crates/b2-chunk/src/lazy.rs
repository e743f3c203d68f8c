//! Where the blocks of a chunk lie, known from its head alone.

#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::string_slice,
        clippy::unreachable,
        clippy::unwrap_used,
        reason = "reads bytes from outside"
    )
)]

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use crate::header::MAX_DICT_LEN;
use crate::layout::{Body, Layout, vl_block_nbytes};
use crate::{BlockDecoder, ChunkError, ChunkHeader, DParams, memory};

/// A chunk of which the head is known (header, block starts, dictionary) and whose blocks may still be
/// elsewhere, on a disk say. It does no I/O: it tells which bytes to fetch, and decodes what is fetched.
///
/// A head is read in steps, since each part tells the length of the next:
///
/// ```
/// use b2_chunk::{CParams, Chunk, DParams, LazyChunk, LazyHead};
///
/// let data: Vec<u8> = (0..40_000u32).flat_map(|i| i.to_le_bytes()).collect();
/// let chunk = Chunk::compress(&data, &CParams::builder(4).blocksize(16_384).build()?)?;
/// let stored = chunk.as_bytes(); // stands for a file
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
    /// Empty where nothing is stored block by block.
    pub(crate) extents: Extents,
    /// Of variable-length blocks: the first plain byte of each, and the end. Empty as long as only the head was read
    /// (lengths stand in front of the blocks).
    starts: Arc<Vec<u32>>,
}

/// Answer of [`LazyChunk::parse`].
#[derive(Clone, Debug)]
pub enum LazyHead {
    /// This many bytes from the start of the chunk are needed; more than were given.
    Need(usize),
    /// The block size can only be settled by decoding: the whole chunk is needed (docs/format/chunk.md,
    /// section 7.4).
    Whole,
    /// All is known.
    Ready(LazyChunk),
}

/// Stored bytes of each block: start and end, from the start of the chunk.
pub(crate) type Extents = Arc<Vec<(u32, u32)>>;

impl LazyChunk {
    /// Reads a chunk's head from the first bytes of the chunk.
    ///
    /// `available` is the number of bytes from the chunk's start to the end of its container: the chunk must
    /// fit into it.
    ///
    /// # Errors
    /// When the header or a table is malformed, or the chunk does not fit.
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
            Ok(LazyHead::Ready(Self { layout: Layout::new(header, body), extents, starts }))
        };
        let value = || match head.get(32..header.cbytes()) {
            Some(value) => memory::copied(value).map(Bytes::from).map_err(Err),
            None => Err(Ok(header.cbytes())),
        };
        match Layout::fill_value(&header, value) {
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
                    ready(header, Body::VlBlocks { dict: tables.dict }, extents, starts)
                }
            };
        }
        Self::parse_regular(head, header, dparams)
    }

    fn parse_regular(head: &[u8], header: ChunkHeader, dparams: &DParams) -> Result<LazyHead, ChunkError> {
        let plain = header.blocksize();
        let Some(candidate) = recovery_candidate(&header, dparams) else {
            return Self::with_blocksize(head, header, plain);
        };
        // The candidate is smaller than `plain`, so its tables are at least as long.
        let passes = match read_tables(head, &header, header.nbytes().div_ceil(candidate.blocksize)) {
            Ok(Tables::Need(len)) => return Ok(LazyHead::Need(len)),
            Ok(Tables::Read(tables)) => tables.starts().min().map(i64::from) == Some(tables.end.into()),
            Err(_) => false,
        };
        if !passes {
            return Self::with_blocksize(head, header, plain);
        }
        if header.nbytes().div_ceil(plain) != header.nbytes().div_ceil(candidate.blocksize) {
            return Self::with_blocksize(head, header, candidate.blocksize);
        }
        if head.len() < header.cbytes() {
            return Ok(LazyHead::Whole);
        }
        let (first, second) =
            if candidate.guess { (plain, candidate.blocksize) } else { (candidate.blocksize, plain) };
        if let Ok(LazyHead::Ready(lazy)) = Self::with_blocksize(head, header.clone(), first)
            && lazy.decodes(head, dparams)
        {
            return Ok(LazyHead::Ready(lazy));
        }
        if let Ok(LazyHead::Ready(lazy)) = Self::with_blocksize(head, header.clone(), second)
            && lazy.decodes(head, dparams)
        {
            return Ok(LazyHead::Ready(lazy));
        }
        Self::with_blocksize(head, header, plain)
    }

    fn with_blocksize(head: &[u8], header: ChunkHeader, blocksize: usize) -> Result<LazyHead, ChunkError> {
        let nblocks = header.nbytes().div_ceil(blocksize);
        match read_tables(head, &header, nblocks)? {
            Tables::Need(len) => Ok(LazyHead::Need(len)),
            Tables::Read(tables) => {
                let extents = block_extents(&tables, &header)?;
                let layout = Layout { header, body: Body::Blocks { dict: tables.dict }, blocksize, nblocks };
                Ok(LazyHead::Ready(Self { layout, extents, starts: Arc::default() }))
            }
        }
    }

    /// Whether all blocks decode with the block size chosen, from the bytes of the whole chunk.
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

    /// The parsed header. Its block size may differ from [`block_range`](Self::block_range)'s, which follows
    /// the recovery rule.
    pub fn header(&self) -> &ChunkHeader {
        &self.layout.header
    }

    /// Number of blocks.
    pub fn nblocks(&self) -> usize {
        self.layout.nblocks
    }

    /// Uncompressed size of every block but possibly the last, in bytes; 0 when blocks have variable
    /// lengths.
    pub fn blocksize(&self) -> usize {
        self.layout.blocksize
    }

    /// The plain bytes, from the chunk's first one, that a block holds. Empty past the last block, and for
    /// variable-length blocks as long as only the head is known.
    pub fn block_range(&self, nblock: usize) -> Range<usize> {
        if let Body::VlBlocks { .. } = self.layout.body {
            return match (self.starts.get(nblock), self.starts.get(nblock.saturating_add(1))) {
                (Some(&start), Some(&end)) => start as usize..end as usize,
                _ => 0..0,
            };
        }
        self.layout.block_range(nblock)
    }

    /// The blocks that hold the plain bytes `range`.
    pub fn blocks_of(&self, range: Range<usize>) -> Range<usize> {
        if let (Body::VlBlocks { .. }, false) = (&self.layout.body, range.is_empty()) {
            let block = |byte: usize| self.starts.partition_point(|&s| s as usize <= byte).saturating_sub(1);
            let last = block(range.end.saturating_sub(1));
            return block(range.start)..last.saturating_add(1).min(self.nblocks());
        }
        self.layout.blocks_of(&range)
    }

    /// The stored bytes of a block, from the start of the chunk; empty when nothing is stored for it.
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

    /// Whether the decoded block 0 is needed to decode the others (the delta filter).
    pub fn needs_block0(&self) -> bool {
        self.layout.needs_block0()
    }

    /// The most memory that a thread takes to decode a block, beside the result, in bytes. Not told for blocks of
    /// variable lengths (0), which are decoded one after the other.
    pub fn block_memory(&self) -> u64 {
        match self.layout.body {
            Body::Blocks { .. } => self.layout.block_memory(self.blocksize()),
            Body::VlBlocks { .. } | Body::Fill { .. } | Body::Stored => 0,
        }
    }

    /// As [`block_memory`](Self::block_memory), for a part of a block ([`BlockDecoder::decode_part`]).
    pub fn part_memory(&self) -> u64 {
        match self.layout.body {
            Body::Blocks { .. } => self.layout.part_memory(self.blocksize()),
            Body::VlBlocks { .. } | Body::Fill { .. } | Body::Stored => 0,
        }
    }

    /// State for one thread that decodes blocks of this chunk.
    ///
    /// # Errors
    /// When the pipeline needs a filter that is not registered.
    pub fn decoder<'a>(&'a self, dparams: &'a DParams) -> Result<BlockDecoder<'a>, ChunkError> {
        BlockDecoder::new(
            &self.layout,
            Starts::Lists { extents: &self.extents, plain: &self.starts },
            dparams,
        )
    }
}

/// Where the blocks of a chunk begin.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Starts<'a> {
    /// As in [`LazyChunk`].
    Lists { extents: &'a [(u32, u32)], plain: &'a [u32] },
    /// As in the chunk; its blocks have equal lengths.
    Table(&'a [u8]),
}

impl Starts<'_> {
    /// First stored byte of a block; 0 when it is not known.
    pub(crate) fn start(&self, nblock: usize) -> u64 {
        match self {
            Self::Lists { extents, .. } => extents.get(nblock).map_or(0, |&(start, _)| start.into()),
            Self::Table(table) => {
                table.as_chunks::<4>().0.get(nblock).map_or(0, |b| u32::from_le_bytes(*b).into())
            }
        }
    }
    /// First plain byte of a block; 0 when it is not known.
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

/// Another block size that the chunk may have been encoded with (docs/format/chunk.md, section 7.4).
pub(crate) fn recovery_candidate(header: &ChunkHeader, dparams: &DParams) -> Option<Candidate> {
    let plain = header.blocksize();
    let unit = match (header.typesize(), dparams.container.itemsize) {
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

struct ParsedTables<'h> {
    /// As in the chunk: there may be as many as it has bytes, by 4.
    bstarts: &'h [[u8; 4]],
    dict: Option<Bytes>,
    /// End of block starts and dictionary, from the start of the chunk; inside it.
    end: u32,
}

impl ParsedTables<'_> {
    fn starts(&self) -> impl DoubleEndedIterator<Item = i32> + ExactSizeIterator + Clone {
        self.bstarts.iter().map(|start| i32::from_le_bytes(*start))
    }
}

enum Tables<'h> {
    Need(usize),
    Read(ParsedTables<'h>),
}

/// Bytes of the table entry of one block.
const ENTRY: u64 = 4;

fn read_tables<'h>(head: &'h [u8], header: &ChunkHeader, nblocks: usize) -> Result<Tables<'h>, ChunkError> {
    let start = header.header_len();
    let cbytes = header.cbytes() as u64;
    // An end that is inside the chunk, whose size is an i32; else the error.
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
            Some(bytes) => dict = Some(Bytes::from(memory::copied(bytes)?)),
            None => return Ok(Tables::Need(end as usize)),
        }
    }
    Ok(Tables::Read(ParsedTables { bstarts: table.as_chunks().0, dict, end }))
}

/// The table entry of a block is not what it must be.
#[cold]
fn bad_start(header: &ChunkHeader, nblock: usize, value: i64, expected: &'static str) -> ChunkError {
    let offset = ENTRY.saturating_mul(nblock as u64).saturating_add(header.header_len() as u64);
    ChunkError::Block { nblock, field: "block start", offset, value, expected }
}

/// Blocks may be stored in any order: a block ends where the next larger start is.
fn block_extents(tables: &ParsedTables<'_>, header: &ChunkHeader) -> Result<Extents, ChunkError> {
    let cbytes = header.stored_len();
    let last = cbytes.saturating_sub(4);
    // Start and number of each block first, then end and number, then start and end: one list, whatever the order.
    let mut list = memory::list(tables.bstarts.len())?;
    for (nblock, bstart) in tables.starts().enumerate() {
        match (u32::try_from(bstart), u32::try_from(nblock)) {
            (Ok(bstart), Ok(nblock)) if (tables.end..=last).contains(&bstart) => list.push((bstart, nblock)),
            _ => {
                let expected = "an offset behind the tables and in the chunk";
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
        // Equal starts share their end.
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

/// Moves each item to the place that `place` tells for it. The places are those of the list, each once.
fn put_in_place<T>(list: &mut [T], place: impl Fn(&T) -> usize) {
    for at in 0..list.len() {
        // Each swap brings an item to where it stays.
        while let Some(to) = list.get(at).map(&place)
            && to != at
            && to < list.len()
        {
            list.swap(at, to);
        }
    }
}

/// Variable-length blocks are stored in order, without gaps.
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
                let expected = "behind the tables, rising by more than 4, in the chunk";
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
