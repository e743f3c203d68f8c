//! Compresses a whole chunk: chooses its kind, encodes the blocks, and writes header and tables.

use std::borrow::Cow;
use std::ops::Range;

use b2_codecs::CodecId;
use b2_core::for_each;
use b2_core::memory::{self, sized, zeroed};
use b2_filters::{FilterId, FilterSlot, Reference};
use bytes::Bytes;

use crate::block::pace::BlockProgress;
use crate::block::scratch::{CachedHeader, ScratchGuard};
use crate::encode::blocksize::{blocksize, is_split};
use crate::encode::blosc1;
use crate::encode::dict::{train, train_vl};
use crate::encode::encoder::{BlockEncoder, most};
use crate::encode::join::{JoinedBlocks, Joiner};
use crate::model::header::{
    EXTENDED_HEADER_LEN, MAX_CHUNK_NBYTES, MIN_COMPRESSIBLE, SpecialKind, VERSION, VERSION_BLOSC1,
    VERSION_VL, flags,
};
use crate::model::layout::{NAN4, NAN8};
use crate::{BlockInfo, CParams, ChunkError, ChunkHeader, Compatibility, Compression, Control};

/// Widest item, in bytes, for which an input is tested for repetition.
const MAX_VALUE_LEN: usize = 4096;

/// A finished chunk: its header and all its bytes.
pub(crate) type EncodedChunk = (ChunkHeader, Bytes);

pub(crate) fn compress(src: &[u8], cparams: &CParams) -> Result<EncodedChunk, ChunkError> {
    let mut scratch = ScratchGuard::of_thread();
    let control = &cparams.control().begin(src.len() as u64, cparams.itemsize() as u64);
    let made = prefiltered(src, cparams, control)?;
    let src = made.as_deref().unwrap_or(src);
    match Plan::new(src, cparams, control, &mut scratch)? {
        Plan::Payload(header, payload) => {
            let chunk = from_parts(header, &payload)?;
            control.advance(src.len() as u64)?;
            Ok(chunk)
        }
        Plan::Blocks(header) => {
            // The memory is mapped but not written, so unused pages cost nothing.
            let mut bytes = zeroed(src.len() + EXTENDED_HEADER_LEN)?;
            let header =
                write_blocks(PlainSource::Slice(src), cparams, control, header, &mut bytes, scratch)?;
            bytes.truncate(header.cbytes());
            bytes.shrink_to_fit();
            Ok((header, Bytes::from(bytes)))
        }
    }
}

/// Compresses into the start of `dst`, which is at least 32 bytes longer than `src`.
pub(crate) fn compress_into(
    src: &[u8],
    dst: &mut [u8],
    cparams: &CParams,
    mut scratch: ScratchGuard<'_>,
) -> Result<ChunkHeader, ChunkError> {
    let control = &cparams.control().begin(src.len() as u64, cparams.itemsize() as u64);
    let made = prefiltered(src, cparams, control)?;
    let src = made.as_deref().unwrap_or(src);
    match Plan::new(src, cparams, control, &mut scratch)? {
        Plan::Payload(header, payload) => {
            let header = finish(header, &payload, dst);
            control.advance(src.len() as u64)?;
            Ok(header)
        }
        Plan::Blocks(header) => write_blocks(PlainSource::Slice(src), cparams, control, header, dst, scratch),
    }
}

/// Compresses blocks that are provided one by one into the start of `dst`, which is at least 32 bytes longer than all
/// of them. The chunk is the same as if they were one slice.
pub(crate) fn compress_blocks_into(
    blocks: &dyn PlainBlocks,
    dst: &mut [u8],
    cparams: &CParams,
) -> Result<ChunkHeader, ChunkError> {
    // Only this buffer: the rest of the scratch is for the encoders.
    let mut first = std::mem::take(&mut ScratchGuard::of_thread().first);
    let result = compress_blocks_with(blocks, &mut first, dst, cparams);
    ScratchGuard::of_thread().first = first;
    result
}

fn compress_blocks_with(
    blocks: &dyn PlainBlocks,
    buffer: &mut Vec<u8>,
    dst: &mut [u8],
    cparams: &CParams,
) -> Result<ChunkHeader, ChunkError> {
    let nbytes = blocks.nbytes();
    if let Some(header) = streamed_header(nbytes, cparams)? {
        // If the chunk repeats one item, it becomes a special chunk. Its first block then repeats the item too.
        let first = blocks.block(0..header.blocksize(), buffer)?;
        let repeats = |width: usize| first.len() <= width || first[width..] == first[..first.len() - width];
        if !repeats(1) && !repeats(cparams.itemsize()) {
            let control = &cparams.control().begin(nbytes as u64, cparams.itemsize() as u64);
            let blocks = WithFirst { blocks, first };
            let scratch = ScratchGuard::of_thread();
            return write_blocks(PlainSource::Blocks(&blocks), cparams, control, header, dst, scratch);
        }
    }
    let plain = sized(buffer, nbytes)?;
    copy_blocks(blocks, new_header(nbytes, cparams)?.blocksize().max(1), plain)?;
    compress_into(plain, dst, cparams, ScratchGuard::of_thread())
}

/// Returns the header of a chunk whose blocks can be encoded one by one, without seeing the others.
fn streamed_header(nbytes: usize, cparams: &CParams) -> Result<Option<ChunkHeader>, ChunkError> {
    if cparams.level() == 0 || nbytes < MIN_COMPRESSIBLE || cparams.prefilter.is_set() || cparams.use_dict() {
        return Ok(None);
    }
    let header = blocks_header(nbytes, cparams)?;
    Ok((!has_tiny_blocks(&header) && header.nblocks() >= 2).then_some(header))
}

/// Blocks of which the first has already been read.
struct WithFirst<'a> {
    blocks: &'a dyn PlainBlocks,
    first: &'a [u8],
}

impl PlainBlocks for WithFirst<'_> {
    fn nbytes(&self) -> usize {
        self.blocks.nbytes()
    }

    fn block<'b>(&'b self, range: Range<usize>, buffer: &'b mut Vec<u8>) -> Result<&'b [u8], ChunkError> {
        if range == (0..self.first.len()) { Ok(self.first) } else { self.blocks.block(range, buffer) }
    }
}

fn copy_blocks(blocks: &dyn PlainBlocks, blocksize: usize, dst: &mut [u8]) -> Result<(), ChunkError> {
    let mut buffer = Vec::new();
    for (nblock, dst) in dst.chunks_mut(blocksize).enumerate() {
        let start = nblock * blocksize;
        dst.copy_from_slice(blocks.block(start..start + dst.len(), &mut buffer)?);
    }
    Ok(())
}

/// The uncompressed bytes of a chunk, provided block by block. Each block is read or collected by the thread that
/// compresses it, right before it does, so the chunk is never completely in memory.
pub trait PlainBlocks: Sync {
    /// Returns the size of all blocks in bytes.
    fn nbytes(&self) -> usize;

    /// Returns the bytes `range` of the chunk, which is one block. They may be written to `buffer`, whose content and
    /// length are arbitrary. A block may be requested several times and by several threads.
    ///
    /// # Errors
    /// When the bytes cannot be read: [`ChunkError::Source`].
    fn block<'b>(&'b self, range: Range<usize>, buffer: &'b mut Vec<u8>) -> Result<&'b [u8], ChunkError>;
}

/// The uncompressed bytes of a chunk.
#[derive(Clone, Copy)]
enum PlainSource<'s> {
    Slice(&'s [u8]),
    Blocks(&'s dyn PlainBlocks),
}

impl<'s> PlainSource<'s> {
    fn len(self) -> usize {
        match self {
            Self::Slice(bytes) => bytes.len(),
            Self::Blocks(blocks) => blocks.nbytes(),
        }
    }

    /// Returns whether each thread needs a buffer for a block.
    fn needs_buffer(self) -> bool {
        matches!(self, Self::Blocks(_))
    }

    fn block<'b>(self, range: Range<usize>, buffer: &'b mut Vec<u8>) -> Result<&'b [u8], ChunkError>
    where
        's: 'b,
    {
        match self {
            Self::Slice(bytes) => Ok(&bytes[range]),
            Self::Blocks(blocks) => blocks.block(range, buffer),
        }
    }
}

pub(crate) fn special(
    kind: SpecialKind,
    value: &[u8],
    nbytes: usize,
    typesize: usize,
    blocksize: usize,
) -> Result<EncodedChunk, ChunkError> {
    special_header(kind, value, nbytes, typesize, blocksize).and_then(|header| from_parts(header, value))
}

pub(crate) fn zero_runs(
    nbytes: usize,
    typesize: usize,
    blocksize: usize,
) -> Result<EncodedChunk, ChunkError> {
    let cparams = Compression::new().itemsize(typesize).no_filters().blocksize(blocksize).build()?;
    let mut header = new_header(nbytes, &cparams)?;
    header.flags = flags::EXTENDED | flags::NOT_SPLIT;
    header.udcodec = 0;
    if nbytes < MIN_COMPRESSIBLE {
        header.flags = flags::EXTENDED | flags::MEMCPYED;
        return from_parts(header, &[0; MIN_COMPRESSIBLE][..nbytes]);
    }
    let nblocks = header.nblocks();
    let tables = EXTENDED_HEADER_LEN + 4 * nblocks;
    let mut payload = zeroed(8 * nblocks)?;
    for (nblock, start) in payload.as_chunks_mut::<4>().0.iter_mut().enumerate().take(nblocks) {
        *start = ((tables + 4 * nblock) as u32).to_le_bytes();
    }
    from_parts(header, &payload)
}

pub(crate) fn compress_vl(blocks: &[&[u8]], cparams: &CParams) -> Result<EncodedChunk, ChunkError> {
    let nbytes = blocks.iter().map(|block| block.len()).sum();
    let mut header = new_header(nbytes, cparams)?;
    let control = &cparams.control().begin(nbytes as u64, cparams.itemsize() as u64);
    if blocks.is_empty() || blocks.iter().any(|block| block.is_empty()) {
        return Err(ChunkError::argument("blocks", "there must be at least one, and none may be empty"));
    }
    if refers_to_block0(cparams) {
        return Err(ChunkError::argument("filters", "delta cannot be used with variable-length blocks"));
    }
    if cparams.compatibility() == Compatibility::Blosc1 {
        return Err(ChunkError::argument("compatibility", "Blosc1 has no variable-length blocks"));
    }
    header.version = VERSION_VL;
    header.flags = regular_flags(cparams, &header) | flags::NOT_SPLIT;
    header.flags2 = 1;
    header.blocksize = blocks.len() as u32;
    let dict =
        if cparams.use_dict() && blocks.len() >= 8 { train_vl(blocks, cparams, &header)? } else { None };
    let longest = blocks.iter().map(|block| block.len()).max().unwrap_or(0);
    // The encoded blocks stay in memory until their offsets are known.
    let threads = threads(cparams, longest, nbytes as u64, false)?;
    let mut encoded: Vec<Option<Vec<u8>>> = memory::collect(blocks.iter().map(|_| None))?;
    for_each(
        control,
        threads,
        blocks.iter().zip(&mut encoded).enumerate(),
        nbytes as u64,
        || BlockEncoder::new(cparams, &header, dict.as_deref(), ScratchGuard::of_thread()),
        |encoder, (nblock, (block, out))| {
            *out = encoder.encode_vl(nblock, block)?;
            Ok(control.advance(block.len() as u64)?)
        },
    )?;
    header.dict = dict.is_some();
    let dict_len = dict.as_ref().map_or(0, |d| 4 + d.len());
    let mut at = EXTENDED_HEADER_LEN + 4 * blocks.len() + dict_len;
    let stored = |nblock: usize| encoded[nblock].as_deref().unwrap_or(blocks[nblock]);
    let total: usize = (0..blocks.len()).map(|nblock| 8 + stored(nblock).len()).sum();
    let mut payload = memory::list(total + dict_len)?;
    for nblock in 0..blocks.len() {
        let start =
            i32::try_from(at).map_err(|_| ChunkError::argument("blocks", "the chunk would be too large"))?;
        payload.extend_from_slice(&start.to_le_bytes());
        at += 4 + stored(nblock).len();
    }
    if i32::try_from(at).is_err() {
        return Err(ChunkError::argument("blocks", "the chunk would be too large"));
    }
    if let Some(dict) = &dict {
        payload.extend_from_slice(&(dict.len() as u32).to_le_bytes());
        payload.extend_from_slice(dict);
    }
    for (nblock, block) in blocks.iter().enumerate() {
        payload.extend_from_slice(&(block.len() as u32).to_le_bytes());
        payload.extend_from_slice(stored(nblock));
    }
    from_parts(header, &payload)
}

/// Sets `cbytes` and concatenates header and payload.
fn from_parts(mut header: ChunkHeader, payload: &[u8]) -> Result<EncodedChunk, ChunkError> {
    let head = header.header_len();
    header.cbytes = (head + payload.len()) as u32;
    let mut bytes = memory::list(head + payload.len())?;
    bytes.extend_from_slice(&header.to_bytes()[..head]);
    bytes.extend_from_slice(payload);
    Ok((header, Bytes::from(bytes)))
}

/// Returns whether a filter uses block 0 as reference, as delta does.
pub(crate) fn refers_to_block0(cparams: &CParams) -> bool {
    cparams.has_filter(|filter| filter.reference != Reference::None)
}

/// Returns how many threads the memory limit allows for blocks of up to `blocksize` bytes. Each thread needs buffers
/// for the filtered block and for its streams, and one for the plain block if `buffered`; `shared` bytes are needed
/// once.
fn threads(cparams: &CParams, blocksize: usize, shared: u64, buffered: bool) -> Result<usize, ChunkError> {
    let filters = cparams.filters().iter().filter(|slot| slot.id != FilterId::NONE).count().min(2);
    let each = (blocksize as u64).saturating_mul(filters as u64 + 1 + u64::from(buffered));
    let limits = cparams.limits();
    limits.check_memory("buffers for compressing, in bytes", shared.saturating_add(each))?;
    let rest = limits.clone().max_memory(limits.max_memory.saturating_sub(shared));
    Ok(rest.threads(each))
}

/// What to write for an input.
enum Plan<'s> {
    /// A header followed by this payload.
    Payload(ChunkHeader, Cow<'s, [u8]>),
    /// A header and blocks of streams. If that is not shorter than the input, the input is stored.
    Blocks(ChunkHeader),
}

impl<'s> Plan<'s> {
    fn new(
        src: &'s [u8],
        cparams: &CParams,
        control: &Control,
        scratch: &mut ScratchGuard<'_>,
    ) -> Result<Self, ChunkError> {
        if src.is_empty() {
            let mut header = new_header(src.len(), cparams)?;
            header.flags |= flags::MEMCPYED;
            header.blocksize = 1;
            return Ok(Self::Payload(header, Cow::Borrowed(&[])));
        }
        if cparams.level() == 0 || src.len() < MIN_COMPRESSIBLE {
            let mut header = new_header(src.len(), cparams)?;
            header.flags = header.flags & flags::EXTENDED | flags::MEMCPYED;
            return Ok(Self::Payload(header, src.into()));
        }
        let cached = scratch.header.as_ref().and_then(|cached| cached.get(cparams, src.len()));
        let mut header = match cached {
            Some(header) => header.clone(),
            None => {
                let header = blocks_header(src.len(), cparams)?;
                scratch.header =
                    scratch.may_keep(cparams.plugins()).then(|| CachedHeader::new(cparams, header.clone()));
                header
            }
        };
        if cparams.compatibility() == Compatibility::Blosc2
            && let Some(chunk) = Self::special(src, &header, cparams, control)?
        {
            return Ok(chunk);
        }
        if has_tiny_blocks(&header) {
            header.flags |= flags::MEMCPYED;
            return Ok(Self::Payload(header, src.into()));
        }
        Ok(Self::Blocks(header))
    }

    /// Returns a special chunk if the input repeats one item.
    fn special(
        src: &'s [u8],
        header: &ChunkHeader,
        cparams: &CParams,
        control: &Control,
    ) -> Result<Option<Self>, ChunkError> {
        if src.starts_with(&[0; MIN_COMPRESSIBLE]) {
            let special = Some(SpecialKind::Zeros);
            let zeros = repeats(src, 1, control).then(|| ChunkHeader { special, ..header.clone() });
            return Ok(zeros.map(|header| Self::Payload(header, Cow::Borrowed(&[]))));
        }
        // Not for lossy filters and codecs, which may change the item, nor for those that check the block shape.
        let width = cparams.itemsize();
        let codec = cparams.codec_properties();
        if width > MAX_VALUE_LEN
            || !(codec.lossless && codec.shapeless)
            || cparams.has_filter(|filter| !(filter.lossless && filter.shapeless))
            || !src.len().is_multiple_of(width)
            || src.len() < 2 * width
            || src[..width] != src[width..2 * width]
            || !repeats(src, width, control)
        {
            return Ok(None);
        }
        let item = &src[..width];
        let (kind, value) = match item == NAN4 || item == NAN8 {
            true => (SpecialKind::NaN, &item[..0]),
            false => (SpecialKind::Value, item),
        };
        let header = special_header(kind, value, src.len(), width, header.blocksize())?;
        Ok(Some(Self::Payload(header, value.into())))
    }
}

/// Returns the header of a chunk that is divided into blocks.
pub(crate) fn blocks_header(nbytes: usize, cparams: &CParams) -> Result<ChunkHeader, ChunkError> {
    let mut header = new_header(nbytes, cparams)?;
    for slot in header.filters.iter_mut().filter(|slot| slot.id != FilterId::NONE) {
        let properties = cparams.plugins().filter_properties(*slot, header.typesize.into());
        if !nbytes.is_multiple_of(properties.chunk_multiple) {
            *slot = FilterSlot::EMPTY;
        }
    }
    let blosc1 = cparams.compatibility() == Compatibility::Blosc1;
    if blosc1 {
        blosc1::fit(&mut header);
    }
    header.flags = regular_flags(cparams, &header);
    let blocksize = header.blocksize();
    let split = is_split(cparams, header.itemsize(), blocksize)
        && blocksize.is_multiple_of(header.itemsize())
        && !(blosc1 && blosc1::never_split(&header));
    if !split {
        header.flags |= flags::NOT_SPLIT;
    }
    Ok(header)
}

/// Returns whether blocks are so small that they cannot save as much as their table entries cost.
fn has_tiny_blocks(header: &ChunkHeader) -> bool {
    8 * header.nblocks() >= header.nbytes()
}

/// Returns whether `src` is nothing but repetitions of its first `width` bytes.
fn repeats(src: &[u8], width: usize, control: &Control) -> bool {
    const COMPARE_LEN: usize = 256 << 10;
    // Compare the last byte first: it exposes most inputs that only begin with repetitions.
    if src.last() != src.get(width - 1) {
        return false;
    }
    let piece = COMPARE_LEN.next_multiple_of(width);
    let differs = for_each(
        control,
        usize::MAX,
        (0..src.len()).step_by(piece),
        src.len() as u64,
        || Ok(()),
        |(), start| {
            let end = (start + piece + width).min(src.len());
            if src[start..end - width] == src[start + width..end] { Ok(()) } else { Err(ItemsDiffer) }
        },
    );
    differs.is_ok()
}

/// Two items differ, or the call was cancelled. After a cancellation, the next step of the call fails.
struct ItemsDiffer;

impl From<b2_core::Cancelled> for ItemsDiffer {
    fn from(_: b2_core::Cancelled) -> Self {
        Self
    }
}

/// Writes a chunk that stores the bytes uncompressed.
fn finish_stored(
    mut header: ChunkHeader,
    src: PlainSource<'_>,
    dst: &mut [u8],
) -> Result<ChunkHeader, ChunkError> {
    header.flags |= flags::MEMCPYED;
    match src {
        PlainSource::Slice(src) => Ok(finish(header, src, dst)),
        PlainSource::Blocks(blocks) => {
            let nbytes = blocks.nbytes();
            let head = header.header_len();
            header.cbytes = (head + nbytes) as u32;
            write_header(&header, dst);
            copy_blocks(blocks, header.blocksize(), &mut dst[head..][..nbytes])?;
            Ok(header)
        }
    }
}

/// Writes a header to the start of `dst`, which has enough room.
pub(crate) fn write_header(header: &ChunkHeader, dst: &mut [u8]) {
    let len = header.header_len();
    dst[..len].copy_from_slice(&header.to_bytes()[..len]);
}

/// Writes header and payload to the start of `dst`, which has enough room.
fn finish(mut header: ChunkHeader, payload: &[u8], dst: &mut [u8]) -> ChunkHeader {
    let head = header.header_len();
    header.cbytes = (head + payload.len()) as u32;
    write_header(&header, dst);
    dst[head..][..payload.len()].copy_from_slice(payload);
    header
}

/// Longer inputs may be compressed by several threads, in bytes.
const MAX_SERIAL_LEN: usize = 64 << 10;

/// Writes the chunk to the start of `dst`, which is at least 32 bytes longer than `src`. Returns its header. `scratch`
/// is used if this thread compresses all blocks.
fn write_blocks(
    src: PlainSource<'_>,
    cparams: &CParams,
    control: &Control,
    mut header: ChunkHeader,
    dst: &mut [u8],
    scratch: ScratchGuard<'_>,
) -> Result<ChunkHeader, ChunkError> {
    let (nbytes, blocksize, split) = (src.len(), header.blocksize(), header.is_split());
    if let PlainSource::Slice(src) = src
        && nbytes <= MAX_SERIAL_LEN
        && !cparams.use_dict()
        && !(header.nblocks() > 1 && refers_to_block0(cparams))
    {
        return write_few(src, cparams, control, header, dst, scratch);
    }
    drop(scratch);
    let nstreams = |block: &[u8]| nstreams(&header, block);
    let bytes_if = |yes: bool, nbytes: usize| if yes { nbytes as u64 } else { 0 };
    // Memory shared by all threads: output of the prefilter, samples for a dictionary, the reference of delta.
    let shared = bytes_if(cparams.prefilter.is_set(), nbytes)
        + bytes_if(cparams.use_dict(), nbytes)
        + bytes_if(refers_to_block0(cparams), blocksize);
    let threads = threads(cparams, blocksize, shared, src.needs_buffer())?;
    let block0 = reference_block(src, cparams, &header)?;
    let dict = match src {
        PlainSource::Slice(src) if cparams.use_dict() => {
            train(src, cparams, &header, block0.as_deref(), split)?
        }
        _ => None,
    };
    let header_len = header.header_len();
    let tables = header_len + 4 * header.nblocks() + dict.as_ref().map_or(0, |d| 4 + d.len());
    let Some((head, room)) = dst[..most_encoded(cparams, nbytes, header_len)].split_at_mut_checked(tables)
    else {
        return finish_stored(header, src, dst);
    };
    let joiner = Joiner::new(room, header.nblocks())?;
    let pace = BlockProgress::new(control, nbytes, blocksize);
    for_each(
        control,
        threads,
        0..header.nblocks(),
        nbytes as u64 * encoding_cost(cparams),
        || BlockEncoder::new(cparams, &header, dict.as_deref(), ScratchGuard::of_thread()),
        |encoder, nblock| {
            let start = nblock * blocksize;
            let (mut buffer, mut plain) = encoder.take_buffers();
            let result = src.block(start..nbytes.min(start + blocksize), &mut plain).and_then(|block| {
                let nstreams = nstreams(block);
                let most = most(block.len(), nstreams);
                joiner.write(nblock, most, &mut buffer, |out| {
                    encoder.encode(nblock, block, block0.as_deref().filter(|_| nblock > 0), nstreams, out)
                })
            });
            encoder.put_buffers(buffer, plain);
            result?;
            pace.done(nblock)
        },
    )?;
    let Some(JoinedBlocks { ends, all_zero }) = joiner.finish() else {
        return finish_stored(header, src, dst);
    };
    if dict.is_none() && all_zero && header.is_extended() {
        header.special = Some(SpecialKind::Zeros);
        return Ok(finish(header, &[], dst));
    }
    header.dict = dict.is_some();
    header.cbytes = (tables + ends.last().copied().unwrap_or(0)) as u32;
    write_header(&header, head);
    let rest = &mut head[header_len..];
    let (starts, section) = rest.split_at_mut(4 * ends.len());
    for (place, start) in starts.as_chunks_mut::<4>().0.iter_mut().zip([0].iter().chain(&ends)) {
        // The chunk is smaller than its stored form, so offsets are below 2^31.
        *place = ((tables + start) as u32).to_le_bytes();
    }
    if let Some(dict) = &dict {
        let (len, bytes) = section.split_at_mut(4);
        len.copy_from_slice(&(dict.len() as u32).to_le_bytes());
        bytes.copy_from_slice(dict);
    }
    Ok(header)
}

/// Like [`write_blocks`], for a few independent blocks, which this thread compresses in turn.
fn write_few(
    src: &[u8],
    cparams: &CParams,
    control: &Control,
    mut header: ChunkHeader,
    dst: &mut [u8],
    scratch: ScratchGuard<'_>,
) -> Result<ChunkHeader, ChunkError> {
    let blocksize = header.blocksize();
    threads(cparams, blocksize, 0, false)?;
    let head = header.header_len();
    let tables = head + 4 * header.nblocks();
    let room = most_encoded(cparams, src.len(), head);
    let mut encoder = BlockEncoder::new(cparams, &header, None, scratch)?;
    let (mut buffer, plain) = encoder.take_buffers();
    let (mut end, mut all_zero) = (Some(tables).filter(|tables| *tables <= room), true);
    let mut encode = || {
        for (nblock, block) in src.chunks(blocksize).enumerate() {
            let Some(start) = end else { break };
            control.check()?;
            let nstreams = nstreams(&header, block);
            let encoded = sized(&mut buffer, most(block.len(), nstreams))?;
            let done = encoder.encode(nblock, block, None, nstreams, encoded)?;
            all_zero &= done.all_zero;
            end = Some(start + done.len).filter(|end| *end <= room);
            if let Some(end) = end {
                dst[start..end].copy_from_slice(&encoded[..done.len]);
                dst[head + 4 * nblock..][..4].copy_from_slice(&(start as u32).to_le_bytes());
            }
        }
        Ok::<(), ChunkError>(())
    };
    let result = encode();
    encoder.put_buffers(buffer, plain);
    drop(encoder);
    result?;
    control.advance(src.len() as u64)?;
    let Some(end) = end else { return finish_stored(header, PlainSource::Slice(src), dst) };
    if all_zero && header.is_extended() {
        header.special = Some(SpecialKind::Zeros);
        return Ok(finish(header, &[], dst));
    }
    header.cbytes = end as u32;
    write_header(&header, dst);
    Ok(header)
}

/// Returns the maximum length of a chunk that is not stored.
///
/// Reading a stored chunk is one copy, without filters. Up to level 6 of blosclz, that is worth 1/20: decoding takes as long
/// as storage of 0.4 to 0.9 GB/s takes for so much.
pub(crate) fn most_encoded(cparams: &CParams, nbytes: usize, header_len: usize) -> usize {
    let worth = if cparams.codec() == CodecId::BLOSCLZ && cparams.level() <= 6 { nbytes / 20 } else { 0 };
    nbytes + header_len - worth.max(1)
}

/// Returns the number of streams of a block.
fn nstreams(header: &ChunkHeader, block: &[u8]) -> usize {
    if header.is_split() && block.len() == header.blocksize() { header.itemsize() } else { 1 }
}

/// Estimates how expensive it is to encode a byte, relative to decoding one with a fast codec. Errs on the low side.
fn encoding_cost(cparams: &CParams) -> u64 {
    let costs = cparams.codec_properties().encoding_cost;
    costs.get(usize::from(cparams.level())).copied().unwrap_or(1).into()
}

/// Returns the header of a special chunk.
fn special_header(
    kind: SpecialKind,
    value: &[u8],
    nbytes: usize,
    typesize: usize,
    blocksize: usize,
) -> Result<ChunkHeader, ChunkError> {
    let cparams = Compression::new().itemsize(typesize).no_filters().blocksize(blocksize).build()?;
    let mut header = new_header(nbytes, &cparams)?;
    (header.udcodec, header.special) = (0, Some(kind));
    if nbytes == 0 && kind != SpecialKind::Zeros {
        return Err(ChunkError::argument("nbytes", "0, but only a chunk of zeros may be empty"));
    }
    let width = match kind {
        SpecialKind::Zeros => 1,
        SpecialKind::NaN if !matches!(typesize, 4 | 8) => {
            return Err(ChunkError::argument("typesize", "NaN needs items of 4 or 8 bytes"));
        }
        SpecialKind::NaN | SpecialKind::Uninit => header.itemsize(),
        SpecialKind::Value => value.len(),
    };
    if width == 0 || !nbytes.is_multiple_of(width) {
        return Err(ChunkError::argument("nbytes", format!("{nbytes} is not a multiple of {width}")));
    }
    if (kind == SpecialKind::Value) == value.is_empty() {
        return Err(ChunkError::argument("value", "required for repeated values, and not allowed otherwise"));
    }
    // C-Blosc2 fills block by block, so a block must hold whole values.
    let blocksize = (header.blocksize as usize).max(width);
    header.blocksize = (blocksize - blocksize % width) as u32;
    Ok(header)
}

/// Returns a header without flags, special kind and compressed size.
fn new_header(nbytes: usize, cparams: &CParams) -> Result<ChunkHeader, ChunkError> {
    if nbytes > MAX_CHUNK_NBYTES {
        return Err(ChunkError::argument(
            "src",
            format!("{nbytes} bytes, but a chunk has at most {MAX_CHUNK_NBYTES}"),
        ));
    }
    let filters = cparams.plugins().stored_filters(cparams.filters(), cparams.itemsize());
    let (version, flags, udcodec) = match cparams.compatibility() {
        Compatibility::Blosc2 => (VERSION, flags::EXTENDED, cparams.codec().0),
        Compatibility::Blosc1 => (VERSION_BLOSC1, blosc1::filter_flags(&filters), 0),
    };
    Ok(ChunkHeader {
        version,
        flags,
        typesize: u8::try_from(cparams.itemsize()).unwrap_or(1),
        nbytes: nbytes as u32,
        blocksize: blocksize(cparams, nbytes) as u32,
        cbytes: 0,
        filters,
        udcodec,
        codec_meta: cparams.codec_meta(),
        flags2: 0,
        special: None,
        dict: false,
        instrumented: false,
    })
}

/// Runs the prefilter over the input. Returns `None` if there is no prefilter.
fn prefiltered(src: &[u8], cparams: &CParams, control: &Control) -> Result<Option<Vec<u8>>, ChunkError> {
    if !cparams.prefilter.is_set() || src.is_empty() {
        return Ok(None);
    }
    let header = new_header(src.len(), cparams)?;
    let (blocksize, itemsize) = (header.blocksize(), cparams.itemsize());
    cparams.limits().check_memory("the output of a prefilter, in bytes", src.len() as u64)?;
    let mut made = zeroed(src.len())?;
    // Progress is counted when bytes are compressed. The quiet control only lets the call be cancelled here as well.
    let control = control.quiet();
    let pace = BlockProgress::new(&control, src.len(), blocksize);
    for_each(
        &control,
        usize::MAX,
        src.chunks(blocksize).zip(made.chunks_mut(blocksize)).enumerate(),
        src.len() as u64,
        || Ok::<(), ChunkError>(()),
        |(), (nblock, (src, dst))| {
            let info = BlockInfo { nchunk: cparams.nchunk, nblock, offset: nblock * blocksize, itemsize };
            cparams.prefilter.call(&info, src, dst)?;
            pace.done(nblock)
        },
    )?;
    Ok(Some(made))
}

fn regular_flags(cparams: &CParams, header: &ChunkHeader) -> u8 {
    let delta = header.filters.iter().any(|slot| slot.id == FilterId::DELTA);
    let layout = match cparams.compatibility() {
        Compatibility::Blosc2 => flags::EXTENDED | (u8::from(delta) * flags::DELTA),
        Compatibility::Blosc1 => blosc1::filter_flags(&header.filters),
    };
    layout | (cparams.codec().format().0 << 5)
}

/// Returns the reference block for delta: block 0 as a reader will decode it.
fn reference_block(
    src: PlainSource<'_>,
    cparams: &CParams,
    header: &ChunkHeader,
) -> Result<Option<Vec<u8>>, ChunkError> {
    let refers = |slot: &FilterSlot| {
        slot.id != FilterId::NONE
            && cparams.plugins().filter_properties(*slot, header.itemsize()).reference != Reference::None
    };
    if header.nblocks() < 2 || !header.filters.iter().any(refers) {
        return Ok(None);
    }
    let encoder = BlockEncoder::new(cparams, header, None, ScratchGuard::of_thread())?;
    encoder.decodable(src.block(0..header.blocksize(), &mut Vec::new())?).map(Some)
}
