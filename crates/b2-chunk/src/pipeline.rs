//! One block through codec and filters, backward (decoding) and forward (encoding).

use std::cell::RefCell;
use std::sync::Arc;

use b2_codecs::{CodecContext, Decoder, Encoded, Encoder};
use b2_filters::{Filter, FilterContext, FilterId, FilterSlot};

use crate::chunk::zeroed;
use crate::lazy::{Body, vl_block_nbytes};
use crate::{BlockInfo, CParams, ChunkError, ChunkHeader, DParams, LazyChunk, Plugins};

/// A filter that really does something, with its parameter.
type Active = (Arc<dyn Filter>, u8);

/// Decodes blocks of one chunk: the scratch of one thread. Made by [`LazyChunk::decoder`].
pub struct BlockDecoder<'a> {
    chunk: &'a LazyChunk,
    dparams: &'a DParams,
    /// In the order of undoing.
    filters: Vec<Active>,
    codec: Option<Box<dyn Decoder>>,
    scratch: [Vec<u8>; 2],
}

thread_local! {
    /// Scratch of the last decoder that ended on this thread. Mapping fresh memory page by page takes longer
    /// than decoding a block of it.
    static SCRATCH: RefCell<[Vec<u8>; 2]> = const { RefCell::new([Vec::new(), Vec::new()]) };
}

/// Largest scratch buffer that outlives its decoder, in bytes.
const LARGEST_KEPT: usize = 8 << 20;

impl Drop for BlockDecoder<'_> {
    fn drop(&mut self) {
        let scratch = std::mem::take(&mut self.scratch);
        if scratch.iter().all(|buffer| buffer.len() <= LARGEST_KEPT) {
            // While a thread ends there may be nothing to keep it in any more.
            let _ = SCRATCH.try_with(|kept| kept.replace(scratch));
        }
    }
}

impl<'a> BlockDecoder<'a> {
    pub(crate) fn new(chunk: &'a LazyChunk, dparams: &'a DParams) -> Result<Self, ChunkError> {
        let mut filters = Vec::new();
        if matches!(chunk.body, Body::Blocks { .. } | Body::VlBlocks { .. })
            && !chunk.header.is_instrumented()
        {
            filters = active_filters(&dparams.plugins, &chunk.header.filters(), chunk.header.typesize())?;
            let cx = FilterContext::new(chunk.header.typesize());
            filters.retain(|(filter, meta)| !filter.backward_is_copy(&cx, *meta));
            filters.reverse();
        }
        Ok(Self { chunk, dparams, filters, codec: None, scratch: SCRATCH.take() })
    }

    /// Decodes block `nblock` from its stored bytes (those of [`LazyChunk::block_extent`]) into all of
    /// `dst`.
    ///
    /// `block0` is the decoded block 0 when [`LazyChunk::needs_block0`] says so and `nblock` is not 0.
    ///
    /// # Errors
    /// When the stored bytes are malformed, do not decode to exactly `dst`, or need a codec that is not
    /// registered.
    pub fn decode(
        &mut self,
        nblock: usize,
        stored: &[u8],
        block0: Option<&[u8]>,
        dst: &mut [u8],
    ) -> Result<(), ChunkError> {
        let Some(postfilter) = &self.dparams.postfilter.0 else {
            return self.decode_reference(nblock, stored, block0, dst);
        };
        let mut plain = zeroed(dst.len())?;
        self.decode_reference(nblock, stored, block0, &mut plain)?;
        let (offset, typesize) = (self.chunk.block_range(nblock).start, self.chunk.header.typesize());
        postfilter(&BlockInfo { nblock, offset, typesize }, &plain, dst);
        Ok(())
    }

    /// As [`decode`](Self::decode), but without the postfilter: block 0 as the other blocks refer to it.
    ///
    /// # Errors
    /// As [`decode`](Self::decode).
    pub fn decode_reference(
        &mut self,
        nblock: usize,
        stored: &[u8],
        block0: Option<&[u8]>,
        dst: &mut [u8],
    ) -> Result<(), ChunkError> {
        let chunk = self.chunk;
        let wrong_length = |what| Err(ChunkError::Block { nblock, offset: 0, what });
        match &chunk.body {
            Body::Fill { value } => {
                fill(dst, value, chunk.block_range(nblock).start);
                return Ok(());
            }
            Body::Stored => {
                if stored.len() != dst.len() {
                    return wrong_length("the stored block has another length than the plain one");
                }
                dst.copy_from_slice(stored);
                return Ok(());
            }
            Body::Blocks { .. } => {
                if dst.len() != chunk.block_range(nblock).len() {
                    return wrong_length("the destination has another length than the block");
                }
            }
            Body::VlBlocks { .. } => {
                if dst.len() != vl_block_nbytes(stored, nblock)? {
                    return wrong_length("the destination has another length than the block");
                }
            }
        }
        if self.filters.is_empty() {
            return self.decode_streams(nblock, stored, dst);
        }
        let reference = if nblock == 0 || !chunk.needs_block0() {
            None
        } else if block0.is_some() {
            block0
        } else {
            return Err(ChunkError::argument("block0", "the decoded block 0 is needed to undo delta"));
        };
        let [mut from, mut to] = std::mem::take(&mut self.scratch);
        resize(&mut from, dst.len());
        let result = self
            .decode_streams(nblock, stored, &mut from[..dst.len()])
            .and_then(|()| self.undo_filters(nblock, reference, &mut from, &mut to, dst));
        self.scratch = [from, to];
        result
    }

    fn undo_filters(
        &self,
        nblock: usize,
        reference: Option<&[u8]>,
        from: &mut Vec<u8>,
        to: &mut Vec<u8>,
        dst: &mut [u8],
    ) -> Result<(), ChunkError> {
        let header = &self.chunk.header;
        let cx = FilterContext::new(header.typesize())
            .with_itemsize(self.dparams.container.itemsize.or(Some(header.typesize()).filter(|&t| t > 1)))
            .with_chunk_version(header.version())
            .with_blockshape(&self.dparams.container.blockshape)
            .with_reference(reference);
        let len = dst.len();
        let (last, first) = self.filters.split_last().expect("there is a filter");
        for (filter, meta) in first {
            resize(to, len);
            filter
                .backward(&cx, *meta, &from[..len], &mut to[..len])
                .map_err(|source| ChunkError::Filter { nblock, source })?;
            std::mem::swap(from, to);
        }
        last.0
            .backward(&cx, last.1, &from[..len], dst)
            .map_err(|source| ChunkError::Filter { nblock, source })
    }

    fn decode_streams(&mut self, nblock: usize, stored: &[u8], dst: &mut [u8]) -> Result<(), ChunkError> {
        let base = self.chunk.block_extent(nblock).start as u64;
        let fail = |pos: usize, what| Err(ChunkError::Block { nblock, offset: base + pos as u64, what });
        if let Body::VlBlocks { .. } = self.chunk.body {
            let data = &stored[4..];
            if data.len() == dst.len() {
                dst.copy_from_slice(data);
                return Ok(());
            }
            return self.decode_codec(nblock, 0, data, dst);
        }
        let nstreams = match self.chunk.header.typesize() {
            typesize if self.chunk.header.is_split() && dst.len() == self.chunk.blocksize() => typesize,
            _ => 1,
        };
        let stream_len = dst.len() / nstreams;
        if stream_len == 0 || stream_len * nstreams != dst.len() {
            return fail(0, "a split block must be a multiple of typesize");
        }
        let mut pos = 0;
        for (nstream, out) in dst.chunks_exact_mut(stream_len).enumerate() {
            let Some(csize) = stored.get(pos..).and_then(|rest| rest.first_chunk::<4>()) else {
                return fail(pos, "the block ends before the length of a stream");
            };
            let csize = i32::from_le_bytes(*csize);
            pos += 4;
            match csize {
                0 => out.fill(0),
                i32::MIN..=-1 => {
                    let Some(&token) = stored.get(pos) else {
                        return fail(pos, "the block ends before the token of a run");
                    };
                    match u8::try_from(csize.unsigned_abs()) {
                        Ok(value) if token & 1 == 1 => out.fill(value),
                        _ => return fail(pos, "unknown kind of run"),
                    }
                    pos += 1;
                }
                1.. => {
                    let csize = csize.unsigned_abs() as usize;
                    let Some(data) = stored.get(pos..).and_then(|rest| rest.get(..csize)) else {
                        return fail(pos, "the stream is longer than its block");
                    };
                    if csize == stream_len {
                        out.copy_from_slice(data);
                    } else {
                        self.decode_codec(nblock, nstream, data, out)?;
                    }
                    pos += csize;
                }
            }
        }
        Ok(())
    }

    fn decode_codec(
        &mut self,
        nblock: usize,
        nstream: usize,
        src: &[u8],
        dst: &mut [u8],
    ) -> Result<(), ChunkError> {
        let failed = |source| ChunkError::Codec { nblock, nstream, source };
        if self.codec.is_none() {
            let header = &self.chunk.header;
            let id = header.codec().ok_or(ChunkError::UnknownCodecFormat(header.codec_format().0))?;
            let dict = match &self.chunk.body {
                Body::Blocks { dict, .. } | Body::VlBlocks { dict, .. } => dict.as_deref(),
                _ => None,
            };
            let cx = CodecContext::default()
                .with_meta(header.codec_meta())
                .with_typesize(self.dparams.container.itemsize.unwrap_or(header.typesize()))
                .with_dict(dict)
                .with_blockshape(&self.dparams.container.blockshape);
            self.codec = Some(self.dparams.plugins.codec(id)?.decoder(&cx).map_err(failed)?);
        }
        let codec = self.codec.as_mut().expect("made above");
        codec.decode(src, dst).map_err(failed)
    }
}

/// Encodes blocks of one chunk: the scratch of one thread.
pub(crate) struct BlockEncoder<'a> {
    cparams: &'a CParams,
    header: &'a ChunkHeader,
    filters: Vec<Active>,
    codec: Box<dyn Encoder>,
    scratch: [Vec<u8>; 2],
}

impl<'a> BlockEncoder<'a> {
    pub(crate) fn new(
        cparams: &'a CParams,
        header: &'a ChunkHeader,
        dict: Option<&[u8]>,
    ) -> Result<Self, ChunkError> {
        let cx = CodecContext::new(cparams.clevel())
            .with_meta(cparams.codec_meta())
            .with_typesize(cparams.typesize())
            .with_dict(dict)
            .with_blockshape(cparams.blockshape());
        let codec = cparams
            .plugins()
            .codec(cparams.codec())?
            .encoder(&cx)
            .map_err(|source| ChunkError::Codec { nblock: 0, nstream: 0, source })?;
        let filters = active_filters(cparams.plugins(), &header.filters(), header.typesize())?;
        Ok(Self { cparams, header, filters, codec, scratch: [Vec::new(), Vec::new()] })
    }

    fn context<'c>(&self, reference: Option<&'c [u8]>) -> FilterContext<'c>
    where
        'a: 'c,
    {
        FilterContext::new(self.header.typesize())
            .with_itemsize(Some(self.cparams.typesize()))
            .with_chunk_version(self.header.version())
            .with_blockshape(self.cparams.blockshape())
            .with_reference(reference)
    }

    /// Applies the filters to one block and appends its streams to `out`. Returns whether all streams are
    /// runs of zeros.
    pub(crate) fn encode(
        &mut self,
        nblock: usize,
        src: &[u8],
        reference: Option<&[u8]>,
        nstreams: usize,
        out: &mut Vec<u8>,
    ) -> Result<bool, ChunkError> {
        let [mut front, mut back] = std::mem::take(&mut self.scratch);
        let filtered = self.apply_filters(nblock, src, reference, &mut front, &mut back);
        let result = filtered.and_then(|block| self.encode_streams(nblock, block, nstreams, out));
        self.scratch = [front, back];
        result
    }

    /// Applies the filters; the result is `src` itself or one of the scratch buffers.
    pub(crate) fn apply_filters<'s>(
        &self,
        nblock: usize,
        src: &'s [u8],
        reference: Option<&[u8]>,
        mut front: &'s mut Vec<u8>,
        mut back: &'s mut Vec<u8>,
    ) -> Result<&'s [u8], ChunkError> {
        let cx = self.context(reference);
        let len = src.len();
        for (i, (filter, meta)) in self.filters.iter().enumerate() {
            resize(back, len);
            let from = if i == 0 { src } else { &front[..len] };
            filter
                .forward(&cx, *meta, from, &mut back[..len])
                .map_err(|source| ChunkError::Filter { nblock, source })?;
            std::mem::swap(&mut front, &mut back);
        }
        Ok(if self.filters.is_empty() { src } else { &front[..len] })
    }

    /// Block 0 as a reader will see it: what delta must use as reference (docs/format/codecs-and-filters.md, delta).
    pub(crate) fn decodable(&self, block0: &[u8]) -> Result<Vec<u8>, ChunkError> {
        let (mut a, mut b) = (Vec::new(), Vec::new());
        let mut block = self.apply_filters(0, block0, None, &mut a, &mut b)?.to_vec();
        let cx = self.context(None);
        for (filter, meta) in self.filters.iter().rev() {
            let mut plain = vec![0; block.len()];
            filter
                .backward(&cx, *meta, &block, &mut plain)
                .map_err(|source| ChunkError::Filter { nblock: 0, source })?;
            block = plain;
        }
        Ok(block)
    }

    fn encode_streams(
        &mut self,
        nblock: usize,
        block: &[u8],
        nstreams: usize,
        out: &mut Vec<u8>,
    ) -> Result<bool, ChunkError> {
        let stream_len = block.len() / nstreams;
        let mut all_zero = true;
        for (nstream, stream) in block.chunks_exact(stream_len).enumerate() {
            if let Some(value) = run_value(stream) {
                all_zero &= value == 0;
                out.extend_from_slice(&(-i32::from(value)).to_le_bytes());
                if value != 0 {
                    out.push(1);
                }
                continue;
            }
            all_zero = false;
            let at = out.len();
            out.resize(at + 4 + stream_len, 0);
            let encoded = self
                .codec
                .encode(stream, &mut out[at + 4..at + 3 + stream_len])
                .map_err(|source| ChunkError::Codec { nblock, nstream, source })?;
            let csize = match encoded {
                Encoded::Len(len) if len > 0 && len < stream_len => len,
                _ => {
                    out[at + 4..].copy_from_slice(stream);
                    stream_len
                }
            };
            out[at..at + 4].copy_from_slice(&(csize as i32).to_le_bytes());
            out.truncate(at + 4 + csize);
        }
        Ok(all_zero)
    }

    /// Compresses one stream of a variable-length block; `None` when it does not shrink.
    pub(crate) fn encode_vl(&mut self, nblock: usize, src: &[u8]) -> Result<Option<Vec<u8>>, ChunkError> {
        let mut out = vec![0; src.len().saturating_sub(1)];
        let [mut front, mut back] = std::mem::take(&mut self.scratch);
        let result = self.apply_filters(nblock, src, None, &mut front, &mut back).and_then(|block| {
            let encoded = self.codec.encode(block, &mut out).map_err(|source| ChunkError::Codec {
                nblock,
                nstream: 0,
                source,
            })?;
            Ok(match encoded {
                Encoded::Len(len) if len > 0 && len < src.len() => {
                    out.truncate(len);
                    Some(out)
                }
                // Stored as is, which means filtered: readers undo the filters of raw blocks too.
                _ if std::ptr::eq(block.as_ptr(), src.as_ptr()) => None,
                _ => Some(block.to_vec()),
            })
        });
        self.scratch = [front, back];
        result
    }
}

/// The filters of the used slots. A shuffle by 1 changes nothing and is left out.
fn active_filters(
    plugins: &Plugins,
    slots: &[FilterSlot; 6],
    typesize: usize,
) -> Result<Vec<Active>, ChunkError> {
    let identity = |slot: &FilterSlot| {
        slot.id == FilterId::SHUFFLE && (slot.meta == 1 || slot.meta == 0 && typesize == 1)
    };
    slots
        .iter()
        .filter(|slot| slot.id != FilterId::NONE && !identity(slot))
        .map(|slot| Ok((plugins.filter(slot.id)?.clone(), slot.meta)))
        .collect()
}

/// The byte that all of a stream consists of.
fn run_value(stream: &[u8]) -> Option<u8> {
    let &first = stream.first()?;
    // By pieces that are compared without branches; streams that are no runs differ in the first one.
    stream.chunks(64).all(|piece| piece.iter().fold(0, |diff, b| diff | (b ^ first)) == 0).then_some(first)
}

/// Repeats `value` over `dst`, which starts `offset` bytes into the repetition.
pub(crate) fn fill(dst: &mut [u8], value: &[u8], offset: usize) {
    if let [byte] = value {
        return dst.fill(*byte);
    }
    if value.is_empty() {
        return dst.fill(0);
    }
    let phase = offset % value.len();
    let first = dst.len().min(value.len());
    for (i, byte) in dst[..first].iter_mut().enumerate() {
        *byte = value[(phase + i) % value.len()];
    }
    let mut done = first;
    while done < dst.len() {
        let n = done.min(dst.len() - done);
        // `done` is a multiple of the width as long as more follows.
        dst.copy_within(..n, done);
        done += n;
    }
}

fn resize(buffer: &mut Vec<u8>, len: usize) {
    if buffer.len() < len {
        buffer.resize(len, 0);
    }
}
