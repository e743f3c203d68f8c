//! Chunks of an instrumented codec, for tuning parameters: instead of each stream they contain a record of its
//! compression ratio and speed. Decompressing such a chunk returns the records.

use std::time::Instant;

use b2_chunk::codecs::{CodecContext, Encoded, Encoder};
use b2_chunk::filters::FilterContext;
use b2_chunk::{CParams, Chunk, ChunkHeader, FilterId};

use crate::abi::{EXTENDED_HEADER, MAX_BUFFERSIZE, code};
use crate::core::error::{Error, Result, ensure};

/// Length of a record: three floats and four bytes, of which the first says whether the stream repeats a byte.
const RECORD_LEN: usize = 16;

/// The flag in header byte 31 of such chunks.
const INSTRUMENTED: u8 = 0x80;

/// Compresses block by block like the engine, and writes records to `dst`. Returns the size of the chunk, 0 if `dst` is
/// too small, and `None` if chunks with these parameters have no streams.
pub(crate) fn compress(params: &CParams, src: &[u8], dst: &mut [u8]) -> Result<Option<usize>> {
    let Some(header) = header_of(params, src.len())? else { return Ok(None) };
    let blocksize = header.blocksize();
    let streams_in =
        |len: usize| if header.is_split() && len == blocksize { header.itemsize().min(len) } else { 1 };
    let nblocks = src.len().div_ceil(blocksize);
    let nstreams: usize = src.chunks(blocksize).map(|block| streams_in(block.len())).sum();
    let first = EXTENDED_HEADER + 4 * nblocks;
    let (nbytes, cbytes) = (nstreams * RECORD_LEN, first + nstreams * (4 + RECORD_LEN));
    ensure(cbytes <= MAX_BUFFERSIZE as usize, code::MAX_BUFSIZE_EXCEEDED)?;
    let Some(chunk) = dst.get_mut(..cbytes) else { return Ok(Some(0)) };
    let (head, rest) = chunk.split_at_mut(EXTENDED_HEADER);
    let (table, streams) = rest.split_at_mut(4 * nblocks);
    head.copy_from_slice(&header.to_bytes());
    // Blocks of records, split like those of the data.
    let size = streams_in(src.len().min(blocksize)) * RECORD_LEN;
    for (place, value) in [(4, nbytes), (8, size), (12, cbytes)] {
        head[place..place + 4].copy_from_slice(&(value as u32).to_le_bytes());
    }
    head[31] = INSTRUMENTED;
    let mut meter = BlockMeter::new(params, &header, &src[..blocksize.min(src.len())])?;
    let (mut start, mut streams) = (first, streams.chunks_exact_mut(4 + RECORD_LEN));
    for (block, place) in src.chunks(blocksize).zip(table.chunks_exact_mut(4)) {
        place.copy_from_slice(&(start as u32).to_le_bytes());
        let nstreams = streams_in(block.len());
        let records = meter.measure(block, nstreams)?;
        for (record, to) in records.into_iter().zip(&mut streams) {
            to[..4].copy_from_slice(&(RECORD_LEN as u32).to_le_bytes());
            to[4..].copy_from_slice(&record);
        }
        start += nstreams * (4 + RECORD_LEN);
    }
    Ok(Some(cbytes))
}

/// Returns the header of a compressible chunk: block size and split do not depend on the data. `None` if none of this
/// size is compressible.
fn header_of(params: &CParams, nbytes: usize) -> Result<Option<ChunkHeader>> {
    if params.level() == 0 || nbytes == 0 {
        return Ok(None);
    }
    let mut steps = b2_core::memory::zeroed(nbytes)?;
    let step = nbytes.div_ceil(4);
    steps.chunks_mut(step).zip(1..).for_each(|(part, value)| part.fill(value));
    let header = ChunkHeader::parse(Chunk::compress_bytes(&steps, params)?.as_bytes())?;
    let has_streams = header.special().is_none() && !header.is_memcpyed() && header.is_extended();
    Ok(Some(header).filter(|_| has_streams))
}

/// Measures blocks one by one.
struct BlockMeter<'a> {
    params: &'a CParams,
    header: &'a ChunkHeader,
    /// The first block, which others may reference.
    first: &'a [u8],
    codec: Box<dyn Encoder>,
    front: Vec<u8>,
    back: Vec<u8>,
    stream: Vec<u8>,
}

impl<'a> BlockMeter<'a> {
    fn new(params: &'a CParams, header: &'a ChunkHeader, first: &'a [u8]) -> Result<Self> {
        let cx = CodecContext::new(params.level())
            .meta(params.codec_meta())
            .itemsize(params.itemsize())
            .blockshape(params.blockshape());
        let codec = params.plugins().codec(params.codec())?.encoder(&cx);
        let codec = codec.map_err(|_| Error(code::CODEC_SUPPORT))?;
        let room = || b2_core::memory::zeroed(first.len());
        Ok(Self { params, header, first, codec, front: room()?, back: room()?, stream: room()? })
    }

    /// Returns the records of the streams of a block.
    fn measure(&mut self, block: &[u8], nstreams: usize) -> Result<Vec<[u8; RECORD_LEN]>> {
        let started = Instant::now();
        self.filter(block)?;
        let filter_speed = speed(block.len(), started);
        let len = block.len() / nstreams;
        let mut records = Vec::with_capacity(nstreams);
        for stream in self.front[..len * nstreams].chunks_exact(len) {
            let started = Instant::now();
            let run = stream.iter().all(|byte| *byte == stream[0]);
            let stored = match (run, stream[0]) {
                (true, 0) => 0,
                (true, _) => 1,
                (false, _) => match self.codec.encode(stream, &mut self.stream[..len - 1]) {
                    Ok(Encoded::Len(stored)) if stored > 0 => stored,
                    Ok(_) => len,
                    Err(_) => return Err(Error(code::CODEC_SUPPORT)),
                },
            };
            let cspeed = speed(len, started);
            let ratio = len as f32 / (4 + stored) as f32;
            let mut record = [0; RECORD_LEN];
            for (to, value) in record.chunks_exact_mut(4).zip([ratio, cspeed, filter_speed]) {
                to.copy_from_slice(&value.to_le_bytes());
            }
            record[12] = u8::from(run);
            records.push(record);
        }
        Ok(records)
    }

    /// Writes the filtered block to `front`.
    fn filter(&mut self, block: &[u8]) -> Result<()> {
        let reference = Some(self.first).filter(|first| !std::ptr::eq(first.as_ptr(), block.as_ptr()));
        let cx = FilterContext::new(self.header.itemsize())
            .full_itemsize(Some(self.params.itemsize()))
            .chunk_version(self.header.version())
            .blockshape(self.params.blockshape())
            .reference(reference);
        self.front[..block.len()].copy_from_slice(block);
        for slot in self.header.filters().iter().filter(|slot| slot.id != FilterId::NONE) {
            let (from, to) = (&self.front[..block.len()], &mut self.back[..block.len()]);
            let filter = self.params.plugins().filter(slot.id)?;
            filter.forward(&cx, slot.meta, from, to).map_err(|_| Error(code::FILTER_PIPELINE))?;
            std::mem::swap(&mut self.front, &mut self.back);
        }
        Ok(())
    }
}

/// Bytes per second.
fn speed(len: usize, started: Instant) -> f32 {
    (len as f64 / started.elapsed().as_secs_f64().max(1e-9)) as f32
}
