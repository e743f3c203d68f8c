//! Whole chunks from plain bytes.

use bytes::Bytes;

use b2_filters::{FilterId, FilterSlot};

use crate::blocksize::{blocksize, is_split};
use crate::header::{
    EXTENDED_HEADER_LEN, MAX_CHUNK_NBYTES, MAX_DICT_LEN, MIN_COMPRESSIBLE, SpecialKind, VERSION, VERSION_VL,
    flags,
};
use crate::parallel::for_each;
use crate::pipeline::BlockEncoder;
use crate::{BlockInfo, CParams, Chunk, ChunkError, ChunkHeader};

impl Chunk {
    /// Compresses `src`. Blocks are compressed in parallel on the current rayon pool (feature `rayon`); the
    /// result is the same for any number of threads.
    ///
    /// Input that does not shrink is stored as it is, 32 bytes longer than `src`. All-zero input becomes a
    /// special chunk of 32 bytes.
    ///
    /// The delta filter is left out of chunks whose length is not a multiple of its word, since C-Blosc2
    /// would lose the last bytes of such chunks.
    ///
    /// # Errors
    /// When `src` is above 2^31 - 33 bytes, or codec or filter cannot work with these parameters.
    pub fn compress(src: &[u8], cparams: &CParams) -> Result<Self, ChunkError> {
        match prefiltered(src, cparams)? {
            Some(src) => Self::compress_plain(&src, cparams),
            None => Self::compress_plain(src, cparams),
        }
    }

    fn compress_plain(src: &[u8], cparams: &CParams) -> Result<Self, ChunkError> {
        let mut header = new_header(src.len(), cparams)?;
        if src.is_empty() {
            header.flags |= flags::MEMCPYED;
            header.blocksize = 1;
            return Ok(Self::from_parts(header, &[]));
        }
        if cparams.clevel() == 0 || src.len() < MIN_COMPRESSIBLE {
            header.flags = flags::EXTENDED | flags::MEMCPYED;
            return Ok(Self::from_parts(header, src));
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
        let nstreams = |block: &[u8]| match block.len() == blocksize && split {
            true => header.typesize(),
            false => 1,
        };

        // Blocks this small cannot pay for their table entries, and lists of them take much more memory than
        // the data: each costs a start and at least one stream length.
        if 8 * header.nblocks() >= src.len() {
            if !cparams.use_dict() && src.iter().all(|byte| *byte == 0) {
                header.special = Some(SpecialKind::Zeros);
                return Ok(Self::from_parts(header, &[]));
            }
            header.flags |= flags::MEMCPYED;
            return Ok(Self::from_parts(header, src));
        }

        let block0 = reference_block(src, cparams, &header)?;
        let dict =
            if cparams.use_dict() { train(src, cparams, &header, block0.as_deref(), split)? } else { None };
        let mut encoded: Vec<EncodedBlock> = Vec::new();
        encoded.resize_with(header.nblocks(), EncodedBlock::default);
        for_each(
            src.chunks(blocksize).zip(&mut encoded).enumerate(),
            src.len() as u64,
            || BlockEncoder::new(cparams, &header, dict.as_deref()),
            |encoder, (nblock, (block, out))| {
                let reference = block0.as_deref().filter(|_| nblock > 0);
                out.all_zero = encoder.encode(nblock, block, reference, nstreams(block), &mut out.streams)?;
                // The streams of all blocks are held at once.
                out.streams.shrink_to_fit();
                Ok(())
            },
        )?;

        if dict.is_none() && encoded.iter().all(|block| block.all_zero) {
            header.special = Some(SpecialKind::Zeros);
            return Ok(Self::from_parts(header, &[]));
        }
        let tables = EXTENDED_HEADER_LEN + 4 * encoded.len() + dict.as_ref().map_or(0, |d| 4 + d.len());
        let total = tables + encoded.iter().map(|block| block.streams.len()).sum::<usize>();
        if total >= src.len() + EXTENDED_HEADER_LEN {
            header.flags |= flags::MEMCPYED;
            return Ok(Self::from_parts(header, src));
        }
        header.dict = dict.is_some();
        let mut payload = Vec::with_capacity(total - EXTENDED_HEADER_LEN);
        let mut at = tables;
        for block in &encoded {
            // Below 2^31: smaller than the stored form.
            payload.extend_from_slice(&(at as u32).to_le_bytes());
            at += block.streams.len();
        }
        if let Some(dict) = &dict {
            payload.extend_from_slice(&(dict.len() as u32).to_le_bytes());
            payload.extend_from_slice(dict);
        }
        for block in &encoded {
            payload.extend_from_slice(&block.streams);
        }
        Ok(Self::from_parts(header, &payload))
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
        Ok(Self::from_parts(header, value))
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
            return Ok(Self::from_parts(header, &vec![0; nbytes]));
        }
        let nblocks = header.nblocks();
        let tables = EXTENDED_HEADER_LEN + 4 * nblocks;
        let mut payload: Vec<u8> =
            (0..nblocks).flat_map(|nblock| ((tables + 4 * nblock) as u32).to_le_bytes()).collect();
        payload.resize(payload.len() + 4 * nblocks, 0);
        Ok(Self::from_parts(header, &payload))
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
        let mut encoded: Vec<Option<Vec<u8>>> = vec![None; blocks.len()];
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
        let mut payload = Vec::new();
        let stored = |nblock: usize| encoded[nblock].as_deref().unwrap_or(blocks[nblock]);
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
        Ok(Self::from_parts(header, &payload))
    }

    /// Sets `cbytes` and joins header and payload.
    fn from_parts(mut header: ChunkHeader, payload: &[u8]) -> Self {
        header.cbytes = (EXTENDED_HEADER_LEN + payload.len()) as u32;
        let mut bytes = Vec::with_capacity(EXTENDED_HEADER_LEN + payload.len());
        bytes.extend_from_slice(&header.to_bytes());
        bytes.extend_from_slice(payload);
        Self { header, bytes: Bytes::from(bytes) }
    }
}

#[derive(Default)]
struct EncodedBlock {
    streams: Vec<u8>,
    all_zero: bool,
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
    let mut made = crate::chunk::zeroed(src.len())?;
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

/// A dictionary for the chunk (docs/format/writer-choices.md, section 6); `None` when it is too small for one.
fn train(
    src: &[u8],
    cparams: &CParams,
    header: &ChunkHeader,
    block0: Option<&[u8]>,
    split: bool,
) -> Result<Option<Vec<u8>>, ChunkError> {
    let max_len = MAX_DICT_LEN.min(src.len() / 20);
    let nsamples = (header.nblocks() * if split { header.typesize() } else { 1 }).max(8);
    let sample_len = src.len() / nsamples / 16;
    if max_len < 256 || sample_len == 0 {
        return Ok(None);
    }
    let encoder = BlockEncoder::new(cparams, header, None)?;
    let mut samples = Vec::with_capacity(src.len());
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for (nblock, block) in src.chunks(header.blocksize()).enumerate() {
        let reference = block0.filter(|_| nblock > 0);
        samples.extend_from_slice(encoder.apply_filters(nblock, block, reference, &mut a, &mut b)?);
    }
    train_with(cparams, &samples, &vec![sample_len; nsamples], max_len)
}

fn train_vl(
    blocks: &[&[u8]],
    cparams: &CParams,
    header: &ChunkHeader,
) -> Result<Option<Vec<u8>>, ChunkError> {
    let max_len = MAX_DICT_LEN.min(header.nbytes() / 20);
    if max_len < 256 {
        return Ok(None);
    }
    let encoder = BlockEncoder::new(cparams, header, None)?;
    let (mut a, mut b) = (Vec::new(), Vec::new());
    let mut samples = Vec::with_capacity(header.nbytes());
    for (nblock, block) in blocks.iter().enumerate() {
        samples.extend_from_slice(encoder.apply_filters(nblock, block, None, &mut a, &mut b)?);
    }
    let lens: Vec<usize> = blocks.iter().map(|block| block.len()).collect();
    train_with(cparams, &samples, &lens, max_len)
}

fn train_with(
    cparams: &CParams,
    samples: &[u8],
    lens: &[usize],
    max_len: usize,
) -> Result<Option<Vec<u8>>, ChunkError> {
    let dict = cparams
        .plugins()
        .codec(cparams.codec())?
        .train_dict(samples, lens, max_len)
        .map_err(|source| ChunkError::Codec { nblock: 0, nstream: 0, source })?;
    Ok(dict.filter(|dict| !dict.is_empty() && dict.len() <= MAX_DICT_LEN))
}
