//! Whole chunks from plain bytes.

use std::borrow::Cow;

use bytes::Bytes;

use b2_codecs::CodecId;
use b2_filters::{FilterId, FilterSlot};

use crate::blocksize::{blocksize, is_split};
use crate::dict::{train, train_vl};
use crate::encoder::{BlockEncoder, most};
use crate::header::{
    EXTENDED_HEADER_LEN, MAX_CHUNK_NBYTES, MIN_COMPRESSIBLE, SpecialKind, VERSION, VERSION_VL, flags,
};
use crate::join::{Joined, Joiner};
use crate::layout::{NAN4, NAN8};
use crate::memory::{self, zeroed};
use crate::parallel::for_each;
use crate::{BlockInfo, CParams, Chunk, ChunkError, ChunkHeader};

/// Repeated items wider than this are not looked for, in bytes.
const MAX_VALUE_LEN: usize = 4096;
/// The first codec id that is not one of the format's own.
const FIRST_PLUGIN: u8 = 32;

impl Chunk {
    /// Compresses `src`. Blocks are compressed in parallel on the current rayon pool (feature `rayon`); the
    /// result is the same for any number of threads.
    ///
    /// Input that does not shrink is stored as it is, 32 bytes longer than `src`. Input that repeats one item becomes a
    /// special chunk of 32 bytes (zeros, NaN), or 32 and the item.
    ///
    /// The delta filter is left out of chunks whose length is not a multiple of its word, since C-Blosc2
    /// would lose the last bytes of such chunks.
    ///
    /// # Errors
    /// When `src` is above 2^31 - 33 bytes, or codec or filter cannot work with these parameters.
    pub fn compress(src: &[u8], cparams: &CParams) -> Result<Self, ChunkError> {
        let made = prefiltered(src, cparams)?;
        let src = made.as_deref().unwrap_or(src);
        match Plan::new(src, cparams)? {
            Plan::Payload(header, payload) => Self::from_parts(header, &payload),
            Plan::Blocks(header) => {
                // Mapped, not written: pages that stay unused cost nothing.
                let mut bytes = zeroed(src.len() + EXTENDED_HEADER_LEN)?;
                let header = write_blocks(src, cparams, header, &mut bytes)?;
                bytes.truncate(header.cbytes());
                bytes.shrink_to_fit();
                Ok(Self { header, bytes: Bytes::from(bytes) })
            }
        }
    }

    /// Compresses `src` as [`compress`](Self::compress) does, to the start of `dst`, which must have at least 32 bytes
    /// more than `src`. Returns the chunk's length. What `dst` holds behind it is unspecified.
    ///
    /// ```
    /// use b2_chunk::{CParams, Chunk};
    /// let cparams = CParams::builder(1).build()?;
    /// let mut buffer = vec![0; 1032];
    /// let len = Chunk::compress_into(&[1; 1000], &mut buffer, &cparams)?;
    /// assert_eq!(buffer[..len], Chunk::compress(&[1; 1000], &cparams)?.as_bytes()[..]);
    /// # Ok::<(), b2_chunk::ChunkError>(())
    /// ```
    ///
    /// # Errors
    /// As [`compress`](Self::compress), and when `dst` is too short.
    pub fn compress_into(src: &[u8], dst: &mut [u8], cparams: &CParams) -> Result<usize, ChunkError> {
        let need = src.len().saturating_add(EXTENDED_HEADER_LEN);
        if dst.len() < need {
            return Err(ChunkError::argument("dst", format!("{} bytes, needed are {need}", dst.len())));
        }
        let made = prefiltered(src, cparams)?;
        let src = made.as_deref().unwrap_or(src);
        let header = match Plan::new(src, cparams)? {
            Plan::Payload(header, payload) => finish(header, &payload, dst),
            Plan::Blocks(header) => write_blocks(src, cparams, header, dst)?,
        };
        Ok(header.cbytes())
    }

    /// A chunk of `nbytes` that stands for special values (docs/format/chunk.md, section 4).
    ///
    /// `value` is the repeated value for [`SpecialKind::Value`], and empty for the others. `typesize` is the
    /// item size and `blocksize` the granularity of partial reads, in bytes (0: automatic).
    ///
    /// # Errors
    /// When `nbytes` is not a multiple of the value's width (for NaN 4 or 8), or a parameter is out of range.
    pub fn special(
        kind: SpecialKind,
        value: &[u8],
        nbytes: usize,
        typesize: usize,
        blocksize: usize,
    ) -> Result<Self, ChunkError> {
        special_header(kind, value, nbytes, typesize, blocksize)
            .and_then(|header| Self::from_parts(header, value))
    }

    /// A chunk of `nbytes` zeros made of runs, for places where a special chunk may not stand (frames with
    /// chunks of different sizes). `blocksize` 0 is automatic.
    ///
    /// # Errors
    /// When a parameter is out of range.
    pub fn zero_runs(nbytes: usize, typesize: usize, blocksize: usize) -> Result<Self, ChunkError> {
        let cparams = CParams::builder(typesize).filters([]).blocksize(blocksize).build()?;
        let mut header = new_header(nbytes, &cparams)?;
        header.flags = flags::EXTENDED | flags::NOT_SPLIT;
        header.udcodec = 0;
        if nbytes < MIN_COMPRESSIBLE {
            header.flags = flags::EXTENDED | flags::MEMCPYED;
            return Self::from_parts(header, &[0; MIN_COMPRESSIBLE][..nbytes]);
        }
        let nblocks = header.nblocks();
        let tables = EXTENDED_HEADER_LEN + 4 * nblocks;
        let mut payload = zeroed(8 * nblocks)?;
        for (nblock, start) in payload.as_chunks_mut::<4>().0.iter_mut().enumerate().take(nblocks) {
            *start = ((tables + 4 * nblock) as u32).to_le_bytes();
        }
        Self::from_parts(header, &payload)
    }

    /// Compresses blocks of individual lengths into one chunk (docs/format/chunk.md, section 8).
    ///
    /// # Errors
    /// When a block is empty or there is none, delta is in the pipeline (C-Blosc2 decodes it differently
    /// from call to call), or the chunk gets too large.
    pub fn compress_vl(blocks: &[&[u8]], cparams: &CParams) -> Result<Self, ChunkError> {
        let nbytes = blocks.iter().map(|block| block.len()).sum();
        let mut header = new_header(nbytes, cparams)?;
        if blocks.is_empty() || blocks.iter().any(|block| block.is_empty()) {
            return Err(ChunkError::argument("blocks", "one block or more, none of them empty"));
        }
        if cparams.has_filter(FilterId::DELTA) {
            return Err(ChunkError::argument("filters", "delta cannot be used with variable-length blocks"));
        }
        header.version = VERSION_VL;
        header.flags = regular_flags(cparams, &header) | flags::NOT_SPLIT;
        header.flags2 = 1;
        header.blocksize = blocks.len() as u32;
        let dict =
            if cparams.use_dict() && blocks.len() >= 8 { train_vl(blocks, cparams, &header)? } else { None };
        let mut encoded: Vec<Option<Vec<u8>>> = memory::collect(blocks.iter().map(|_| None))?;
        for_each(
            blocks.iter().zip(&mut encoded).enumerate(),
            nbytes as u64,
            || BlockEncoder::new(cparams, &header, dict.as_deref()),
            |encoder, (nblock, (block, out))| {
                *out = encoder.encode_vl(nblock, block)?;
                Ok(())
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
                i32::try_from(at).map_err(|_| ChunkError::argument("blocks", "the chunk gets too large"))?;
            payload.extend_from_slice(&start.to_le_bytes());
            at += 4 + stored(nblock).len();
        }
        if i32::try_from(at).is_err() {
            return Err(ChunkError::argument("blocks", "the chunk gets too large"));
        }
        if let Some(dict) = &dict {
            payload.extend_from_slice(&(dict.len() as u32).to_le_bytes());
            payload.extend_from_slice(dict);
        }
        for (nblock, block) in blocks.iter().enumerate() {
            payload.extend_from_slice(&(block.len() as u32).to_le_bytes());
            payload.extend_from_slice(stored(nblock));
        }
        Self::from_parts(header, &payload)
    }

    /// Sets `cbytes` and joins header and payload.
    fn from_parts(mut header: ChunkHeader, payload: &[u8]) -> Result<Self, ChunkError> {
        header.cbytes = (EXTENDED_HEADER_LEN + payload.len()) as u32;
        let mut bytes = memory::list(EXTENDED_HEADER_LEN + payload.len())?;
        bytes.extend_from_slice(&header.to_bytes());
        bytes.extend_from_slice(payload);
        Ok(Self { header, bytes: Bytes::from(bytes) })
    }
}

/// What becomes of an input.
enum Plan<'s> {
    /// This payload behind the header.
    Payload(ChunkHeader, Cow<'s, [u8]>),
    /// Blocks of streams, if that is shorter than the input.
    Blocks(ChunkHeader),
}

impl<'s> Plan<'s> {
    fn new(src: &'s [u8], cparams: &CParams) -> Result<Self, ChunkError> {
        let mut header = new_header(src.len(), cparams)?;
        if src.is_empty() {
            header.flags |= flags::MEMCPYED;
            header.blocksize = 1;
            return Ok(Self::Payload(header, Cow::Borrowed(&[])));
        }
        if cparams.clevel() == 0 || src.len() < MIN_COMPRESSIBLE {
            header.flags = flags::EXTENDED | flags::MEMCPYED;
            return Ok(Self::Payload(header, src.into()));
        }
        if !src.len().is_multiple_of(delta_word(header.typesize())) {
            for slot in &mut header.filters {
                if slot.id == FilterId::DELTA {
                    *slot = FilterSlot::EMPTY;
                }
            }
        }
        header.flags = regular_flags(cparams, &header);
        let blocksize = header.blocksize();
        let split =
            is_split(cparams, header.typesize(), blocksize) && blocksize.is_multiple_of(header.typesize());
        if !split {
            header.flags |= flags::NOT_SPLIT;
        }
        if let Some(chunk) = Self::special(src, &header, cparams)? {
            return Ok(chunk);
        }
        // Blocks this small cannot pay for their table entries.
        if 8 * header.nblocks() >= src.len() {
            header.flags |= flags::MEMCPYED;
            return Ok(Self::Payload(header, src.into()));
        }
        Ok(Self::Blocks(header))
    }

    /// A special chunk, when the input repeats one item.
    fn special(src: &'s [u8], header: &ChunkHeader, cparams: &CParams) -> Result<Option<Self>, ChunkError> {
        if src.starts_with(&[0; MIN_COMPRESSIBLE]) {
            let special = Some(SpecialKind::Zeros);
            let zeros = repeats(src, 1).then(|| ChunkHeader { special, ..header.clone() });
            return Ok(zeros.map(|header| Self::Payload(header, Cow::Borrowed(&[]))));
        }
        // What lossy filters and plug-ins would make of the item is theirs to say.
        let width = cparams.typesize();
        let lossless = |slot: &FilterSlot| {
            [FilterId::NONE, FilterId::SHUFFLE, FilterId::BITSHUFFLE, FilterId::DELTA, FilterId::BYTEDELTA]
                .contains(&slot.id)
        };
        if width > MAX_VALUE_LEN
            || !cparams.filters().iter().all(lossless)
            || cparams.codec().0 >= FIRST_PLUGIN
            || !src.len().is_multiple_of(width)
            || src.len() < 2 * width
            || src[..width] != src[width..2 * width]
            || !repeats(src, width)
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

/// Whether `src` is one item of `width` bytes over and over; some of it at least.
fn repeats(src: &[u8], width: usize) -> bool {
    const PIECE: usize = 256 << 10;
    // The last byte first: what only begins so is found out soon, most of the time.
    if src.last() != src.get(width - 1) {
        return false;
    }
    let piece = PIECE.next_multiple_of(width);
    let differs = for_each(
        (0..src.len()).step_by(piece),
        src.len() as u64,
        || Ok(()),
        |(), start| {
            let end = (start + piece + width).min(src.len());
            if src[start..end - width] == src[start + width..end] { Ok(()) } else { Err(()) }
        },
    );
    differs.is_ok()
}

/// Puts header and payload to the start of `dst`, where there is room for them.
fn finish(mut header: ChunkHeader, payload: &[u8], dst: &mut [u8]) -> ChunkHeader {
    header.cbytes = (EXTENDED_HEADER_LEN + payload.len()) as u32;
    dst[..EXTENDED_HEADER_LEN].copy_from_slice(&header.to_bytes());
    dst[EXTENDED_HEADER_LEN..][..payload.len()].copy_from_slice(payload);
    header
}

/// Writes the chunk to the start of `dst`, which has 32 bytes more than `src` or still more. Returns its header.
fn write_blocks(
    src: &[u8],
    cparams: &CParams,
    mut header: ChunkHeader,
    dst: &mut [u8],
) -> Result<ChunkHeader, ChunkError> {
    let (blocksize, split) = (header.blocksize(), header.is_split());
    let nstreams = |block: &[u8]| match block.len() == blocksize && split {
        true => header.typesize(),
        false => 1,
    };
    let block0 = reference_block(src, cparams, &header)?;
    let dict =
        if cparams.use_dict() { train(src, cparams, &header, block0.as_deref(), split)? } else { None };
    let tables = EXTENDED_HEADER_LEN + 4 * header.nblocks() + dict.as_ref().map_or(0, |d| 4 + d.len());
    // Chunks as long as the stored form are stored.
    let Some((head, room)) = dst[..src.len() + EXTENDED_HEADER_LEN - 1].split_at_mut_checked(tables) else {
        header.flags |= flags::MEMCPYED;
        return Ok(finish(header, src, dst));
    };
    let joiner = Joiner::new(room, header.nblocks())?;
    for_each(
        src.chunks(blocksize).enumerate(),
        src.len() as u64 * encoding_cost(cparams),
        || BlockEncoder::new(cparams, &header, dict.as_deref()),
        |encoder, (nblock, block)| {
            let nstreams = nstreams(block);
            let mut buffer = encoder.take_buffer();
            let most = most(block.len(), nstreams);
            let result = joiner.write(nblock, most, &mut buffer, |out| {
                encoder.encode(nblock, block, block0.as_deref().filter(|_| nblock > 0), nstreams, out)
            });
            encoder.put_buffer(buffer);
            result
        },
    )?;
    let Some(Joined { ends, all_zero }) = joiner.finish() else {
        header.flags |= flags::MEMCPYED;
        return Ok(finish(header, src, dst));
    };
    if dict.is_none() && all_zero {
        header.special = Some(SpecialKind::Zeros);
        return Ok(finish(header, &[], dst));
    }
    header.dict = dict.is_some();
    header.cbytes = (tables + ends.last().copied().unwrap_or(0)) as u32;
    let (fixed, rest) = head.split_at_mut(EXTENDED_HEADER_LEN);
    fixed.copy_from_slice(&header.to_bytes());
    let (starts, section) = rest.split_at_mut(4 * ends.len());
    for (place, start) in starts.as_chunks_mut::<4>().0.iter_mut().zip([0].iter().chain(&ends)) {
        // Below 2^31: smaller than the stored form.
        *place = ((tables + start) as u32).to_le_bytes();
    }
    if let Some(dict) = &dict {
        let (len, bytes) = section.split_at_mut(4);
        len.copy_from_slice(&(dict.len() as u32).to_le_bytes());
        bytes.copy_from_slice(dict);
    }
    Ok(header)
}

/// How many times as long as decoding a byte it takes to encode it, roughly and at least.
fn encoding_cost(cparams: &CParams) -> u64 {
    match (cparams.codec(), cparams.clevel()) {
        (CodecId::BLOSCLZ | CodecId::LZ4, _) => 3,
        (CodecId::ZSTD, 1..=2) => 8,
        _ => 30,
    }
}

/// The header of [`Chunk::special`].
fn special_header(
    kind: SpecialKind,
    value: &[u8],
    nbytes: usize,
    typesize: usize,
    blocksize: usize,
) -> Result<ChunkHeader, ChunkError> {
    let cparams = CParams::builder(typesize).filters([]).blocksize(blocksize).build()?;
    let mut header = new_header(nbytes, &cparams)?;
    (header.udcodec, header.special) = (0, Some(kind));
    if nbytes == 0 && kind != SpecialKind::Zeros {
        return Err(ChunkError::argument("nbytes", "0 bytes have no value"));
    }
    let width = match kind {
        SpecialKind::Zeros => 1,
        SpecialKind::NaN if !matches!(typesize, 4 | 8) => {
            return Err(ChunkError::argument("typesize", "NaN needs items of 4 or 8 bytes"));
        }
        SpecialKind::NaN | SpecialKind::Uninit => header.typesize(),
        SpecialKind::Value => value.len(),
    };
    if width == 0 || !nbytes.is_multiple_of(width) {
        return Err(ChunkError::argument("nbytes", format!("{nbytes} is not a multiple of {width}")));
    }
    if (kind == SpecialKind::Value) == value.is_empty() {
        return Err(ChunkError::argument("value", "needed for repeated values, and only there"));
    }
    // C fills block by block: the block must hold whole values.
    let blocksize = (header.blocksize as usize).max(width);
    header.blocksize = (blocksize - blocksize % width) as u32;
    Ok(header)
}

/// A header without flags, special kind and compressed size.
fn new_header(nbytes: usize, cparams: &CParams) -> Result<ChunkHeader, ChunkError> {
    if nbytes > MAX_CHUNK_NBYTES {
        return Err(ChunkError::argument(
            "src",
            format!("{nbytes} bytes, a chunk has at most {MAX_CHUNK_NBYTES}"),
        ));
    }
    let mut filters = cparams.filters();
    for slot in &mut filters {
        // With 0 a bare chunk could not be decoded: the stream count would be in the container only.
        // Above 127 python-blosc2 could not open the file.
        if let (FilterId::BYTEDELTA, 0, Ok(itemsize)) = (slot.id, slot.meta, i8::try_from(cparams.typesize()))
        {
            slot.meta = itemsize.cast_unsigned();
        }
    }
    Ok(ChunkHeader {
        version: VERSION,
        flags: flags::EXTENDED,
        typesize: u8::try_from(cparams.typesize()).unwrap_or(1),
        nbytes: nbytes as u32,
        blocksize: blocksize(cparams, nbytes) as u32,
        cbytes: 0,
        filters,
        udcodec: cparams.codec().0,
        codec_meta: cparams.codec_meta(),
        flags2: 0,
        special: None,
        dict: false,
        instrumented: false,
    })
}

/// What the prefilter makes of the input; `None` without one.
fn prefiltered(src: &[u8], cparams: &CParams) -> Result<Option<Vec<u8>>, ChunkError> {
    let (Some(prefilter), false) = (&cparams.prefilter.0, src.is_empty()) else { return Ok(None) };
    let header = new_header(src.len(), cparams)?;
    let (blocksize, typesize) = (header.blocksize(), header.typesize());
    let mut made = zeroed(src.len())?;
    for_each(
        src.chunks(blocksize).zip(made.chunks_mut(blocksize)).enumerate(),
        src.len() as u64,
        || Ok::<(), ChunkError>(()),
        |(), (nblock, (src, dst))| {
            prefilter(&BlockInfo { nblock, offset: nblock * blocksize, typesize }, src, dst);
            Ok(())
        },
    )?;
    Ok(Some(made))
}

fn regular_flags(cparams: &CParams, header: &ChunkHeader) -> u8 {
    let delta = header.filters.iter().any(|slot| slot.id == FilterId::DELTA);
    flags::EXTENDED | (u8::from(delta) * flags::DELTA) | (cparams.codec().format().0 << 5)
}

/// Bytes that delta handles at once (docs/format/codecs-and-filters.md, delta).
fn delta_word(typesize: usize) -> usize {
    match typesize {
        1 | 2 | 4 | 8 => typesize,
        _ if typesize.is_multiple_of(8) => 8,
        _ => 1,
    }
}

/// What delta refers to: block 0 as a reader will decode it.
fn reference_block(
    src: &[u8],
    cparams: &CParams,
    header: &ChunkHeader,
) -> Result<Option<Vec<u8>>, ChunkError> {
    if !header.filters.iter().any(|slot| slot.id == FilterId::DELTA) || header.nblocks() < 2 {
        return Ok(None);
    }
    let encoder = BlockEncoder::new(cparams, header, None)?;
    encoder.decodable(&src[..header.blocksize()]).map(Some)
}
