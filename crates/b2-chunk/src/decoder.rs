//! One block from its streams: codec, then filters backward.

mod part;
mod parts;
mod runs;

use b2_codecs::{CodecContext, CodecFormat, Decoder};
use b2_filters::FilterContext;

pub use self::parts::BlockParts;
use crate::chain::{Active, Chain};
use crate::fill::fill;
use crate::header::{FILTERS_AT, FLAGS_AT, UDCODEC_AT};
use crate::layout::{Body, Layout, vl_block_nbytes};
use crate::lazy::Starts;
use crate::memory::{self, sized};
use crate::params::Destination;
use crate::scratch::{MAX_PLANES, Scratch};
use crate::streams::{Fault, Malformed, Stream, Streams};
use crate::{BlockInfo, ChunkError, ChunkHeader, DParams};

/// Decodes blocks of one chunk: the scratch of one thread. Made by [`LazyChunk::decoder`](crate::LazyChunk::decoder).
///
/// Making one is cheap: it takes over the memory of the last one that ended on its thread.
pub struct BlockDecoder<'a> {
    layout: &'a Layout,
    starts: Starts<'a>,
    dparams: &'a DParams,
    /// In the order of undoing.
    filters: Chain<'a>,
    codec: Option<Box<dyn Decoder>>,
    scratch: Scratch,
    streaming: bool,
}

impl Drop for BlockDecoder<'_> {
    fn drop(&mut self) {
        std::mem::take(&mut self.scratch).keep();
    }
}

impl<'a> BlockDecoder<'a> {
    pub(crate) fn new(
        layout: &'a Layout,
        starts: Starts<'a>,
        dparams: &'a DParams,
    ) -> Result<Self, ChunkError> {
        let header = &layout.header;
        let has_streams = matches!(layout.body, Body::Blocks { .. } | Body::VlBlocks { .. });
        let filters = if has_streams && !header.is_instrumented() {
            let cx = FilterContext::new(header.typesize());
            let chain = Chain::new(&dparams.plugins, header.filters.iter().rev(), |(filter, meta)| {
                filter.backward_is_copy(&cx, meta)
            });
            chain.map_err(|error| in_header(error, header))?
        } else {
            Chain::EMPTY
        };
        let streaming = dparams.destination == Destination::Streaming;
        Ok(Self { layout, starts, dparams, filters, codec: None, scratch: Scratch::take(), streaming })
    }

    /// Says whether to write past the caches, whatever the parameters say.
    pub(crate) fn streaming(mut self, streaming: bool) -> Self {
        self.streaming = streaming;
        self
    }

    /// The codec's state, which serves all decoders of one chunk.
    pub(crate) fn codec_mut(&mut self) -> &mut Option<Box<dyn Decoder>> {
        &mut self.codec
    }

    /// Decodes block `nblock` from its stored bytes (those of [`LazyChunk::block_extent`]) into all of
    /// `dst`.
    ///
    /// `block0` is the decoded block 0 when [`LazyChunk::needs_block0`] says so and `nblock` is not 0.
    ///
    /// [`LazyChunk::block_extent`]: crate::LazyChunk::block_extent
    /// [`LazyChunk::needs_block0`]: crate::LazyChunk::needs_block0
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
        let mut plain = memory::zeroed(dst.len())?;
        self.decode_reference(nblock, stored, block0, &mut plain)?;
        let (offset, typesize) = (self.starts.plain(self.layout, nblock), self.layout.header.typesize());
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
        let layout = self.layout;
        let wrong_length = |what: &str, have: usize, need: usize| {
            Err(ChunkError::argument("block", format!("{nblock}: {what} has {have} bytes, expected {need}")))
        };
        match &layout.body {
            Body::Fill { value } => {
                fill(dst, value, layout.block_range(nblock).start);
                return Ok(());
            }
            Body::Stored => {
                if stored.len() != dst.len() {
                    return wrong_length("the stored block", stored.len(), dst.len());
                }
                dst.copy_from_slice(stored);
                return Ok(());
            }
            Body::Blocks { .. } => {
                let len = layout.block_range(nblock).len();
                if dst.len() != len {
                    return wrong_length("the destination", dst.len(), len);
                }
            }
            Body::VlBlocks { .. } => {
                let len = vl_block_nbytes(stored, nblock, self.starts.start(nblock))?;
                if dst.len() != len {
                    return wrong_length("the destination", dst.len(), len);
                }
            }
        }
        let block = self.block(nblock, stored, dst.len())?;
        if let Some(repeated) = self.repeated(&block) {
            fill(dst, repeated.bytes(), 0);
            return Ok(());
        }
        let filters = self.filters;
        let Some(((first, meta), rest)) = filters.as_slice().split_first() else {
            let mut streams = block.streams.clone();
            for (nstream, out) in dst.chunks_exact_mut(block.stream_len).enumerate() {
                let stream = self.next(&block, &mut streams)?;
                self.materialise(&block, nstream, stream, out)?;
            }
            return Ok(());
        };
        let reference = self.reference(nblock, block0)?;
        let Some((last, between)) = rest.split_last() else {
            return self.undo_first(&block, (*first, *meta), reference, self.streaming, dst);
        };
        let mut from = std::mem::take(&mut self.scratch.b);
        let result = self
            .undo_first(&block, (*first, *meta), reference, false, sized(&mut from, dst.len())?)
            .and_then(|()| self.undo_rest(nblock, reference, between, *last, &mut from, dst));
        self.scratch.b = from;
        result
    }

    /// The reference that delta needs in this block.
    fn reference<'r>(&self, nblock: usize, block0: Option<&'r [u8]>) -> Result<Option<&'r [u8]>, ChunkError> {
        if nblock == 0 || !self.layout.needs_block0() {
            return Ok(None);
        }
        match block0 {
            Some(_) => Ok(block0),
            None => Err(ChunkError::argument("block0", "the decoded block 0 is needed to undo delta")),
        }
    }

    fn context<'c>(&self, reference: Option<&'c [u8]>, streaming: bool) -> FilterContext<'c>
    where
        'a: 'c,
    {
        let header = &self.layout.header;
        FilterContext::new(header.typesize())
            .with_itemsize(self.dparams.container.itemsize.or(Some(header.typesize()).filter(|&t| t > 1)))
            .with_chunk_version(header.version())
            .with_blockshape(&self.dparams.container.blockshape)
            .with_reference(reference)
            .with_streaming(streaming)
    }

    /// Undoes the filter that stands next to the codec. Streams that are stored are read where they lie.
    fn undo_first(
        &mut self,
        block: &Block<'_>,
        (filter, meta): Active<'_>,
        reference: Option<&[u8]>,
        streaming: bool,
        dst: &mut [u8],
    ) -> Result<(), ChunkError> {
        let cx = self.context(reference, streaming);
        let failed = |source| ChunkError::Filter { nblock: block.nblock, source };
        let len = dst.len();
        let mut streams = block.streams.clone();
        if (2..=MAX_PLANES).contains(&block.nstreams) && filter.planes(&cx, meta, len) == Some(block.nstreams)
        {
            let mut planes = std::mem::take(&mut self.scratch.planes);
            let result = (|| {
                let mut slices: [Option<&[u8]>; MAX_PLANES] = [None; MAX_PLANES];
                planes.prepare(block.nstreams, block.stream_len)?;
                for (j, slice) in slices.iter_mut().enumerate().take(block.nstreams) {
                    match self.next(block, &mut streams)? {
                        Stream::Run(value) => planes.fill(j, value),
                        Stream::Stored(bytes) => *slice = Some(bytes),
                        Stream::Encoded(bytes) => {
                            self.decode_codec(block, j, bytes, planes.plane_mut(j), None)?
                        }
                    }
                }
                let slices: [&[u8]; MAX_PLANES] = std::array::from_fn(|j| match slices[j] {
                    Some(bytes) => bytes,
                    None if j < block.nstreams => planes.plane(j),
                    None => &[],
                });
                filter.backward_planes(&cx, meta, &slices[..block.nstreams], 0..len, dst).map_err(failed)
            })();
            self.scratch.planes = planes;
            return result;
        }
        self.with_filtered(block, len, |src| filter.backward(&cx, meta, src, dst).map_err(failed))
    }

    /// Hands over the filtered block in one piece, of which the first `need` bytes are decoded.
    fn with_filtered(
        &mut self,
        block: &Block<'_>,
        need: usize,
        undo: impl FnOnce(&[u8]) -> Result<(), ChunkError>,
    ) -> Result<(), ChunkError> {
        let mut streams = block.streams.clone();
        let len = block.stream_len * block.nstreams;
        let need = worth(need, len);
        let mut buffer = std::mem::take(&mut self.scratch.a);
        let result = (|| {
            if block.nstreams == 1 {
                let stream = self.next(block, &mut streams)?;
                let out = match stream {
                    Stream::Stored(bytes) => return undo(bytes),
                    _ => sized(&mut buffer, len)?,
                };
                match stream {
                    Stream::Encoded(bytes) if need < len => {
                        self.decode_codec(block, 0, bytes, &mut out[..need], Some(len))?;
                    }
                    _ => self.materialise(block, 0, stream, out)?,
                }
                return undo(out);
            }
            let out = sized(&mut buffer, len)?;
            for (nstream, out) in out.chunks_exact_mut(block.stream_len).enumerate() {
                let stream = self.next(block, &mut streams)?;
                self.materialise(block, nstream, stream, out)?;
            }
            undo(out)
        })();
        self.scratch.a = buffer;
        result
    }

    /// Undoes the other filters, from `from` into `dst`.
    fn undo_rest(
        &mut self,
        nblock: usize,
        reference: Option<&[u8]>,
        between: &[Active<'_>],
        last: Active<'_>,
        from: &mut Vec<u8>,
        dst: &mut [u8],
    ) -> Result<(), ChunkError> {
        let failed = |source| ChunkError::Filter { nblock, source };
        let mut to = std::mem::take(&mut self.scratch.a);
        let len = dst.len();
        let cx = self.context(reference, false);
        let result: Result<(), ChunkError> = between.iter().try_for_each(|(filter, meta)| {
            filter.backward(&cx, *meta, &from[..len], sized(&mut to, len)?).map_err(failed)?;
            std::mem::swap(from, &mut to);
            Ok(())
        });
        self.scratch.a = to;
        result?;
        let cx = cx.with_streaming(self.streaming);
        last.0.backward(&cx, last.1, &from[..len], dst).map_err(failed)
    }

    /// The streams of a block of `len` plain bytes.
    fn block<'s>(&self, nblock: usize, stored: &'s [u8], len: usize) -> Result<Block<'s>, ChunkError> {
        let header = &self.layout.header;
        let limits = &self.dparams.limits;
        limits.check_memory("buffers for a block, in bytes", self.layout.block_memory(len))?;
        if let Body::VlBlocks { .. } = self.layout.body {
            let stream = &stored[4..];
            let stream = if stream.len() == len { Stream::Stored(stream) } else { Stream::Encoded(stream) };
            return Ok(Block {
                nblock,
                stored,
                nstreams: 1,
                stream_len: len,
                streams: Streams::Single(stream),
            });
        }
        let nstreams = if header.is_split() && len == self.layout.blocksize { header.typesize() } else { 1 };
        let stream_len = len / nstreams;
        if stream_len == 0 || stream_len * nstreams != len {
            return Err(self.malformed(nblock, Malformed { pos: 0, fault: Fault::Split, value: len as i64 }));
        }
        Ok(Block { nblock, stored, nstreams, stream_len, streams: Streams::new(stored, stream_len) })
    }

    fn next<'s>(&self, block: &Block<'_>, streams: &mut Streams<'s>) -> Result<Stream<'s>, ChunkError> {
        streams.next().map_err(|malformed| self.malformed(block.nblock, malformed))
    }

    #[cold]
    fn malformed(&self, nblock: usize, Malformed { pos, fault, value }: Malformed) -> ChunkError {
        let (field, expected) = fault.words();
        let offset = self.starts.start(nblock).saturating_add(pos as u64);
        ChunkError::Block { nblock, field, offset, value, expected }
    }

    /// Writes the plain bytes of a stream to all of `out`.
    fn materialise(
        &mut self,
        block: &Block<'_>,
        nstream: usize,
        stream: Stream<'_>,
        out: &mut [u8],
    ) -> Result<(), ChunkError> {
        match stream {
            Stream::Run(value) => out.fill(value),
            Stream::Stored(bytes) => out.copy_from_slice(bytes),
            Stream::Encoded(bytes) => self.decode_codec(block, nstream, bytes, out, None)?,
        }
        Ok(())
    }

    /// Decodes a stream, or the start of one of `len` bytes.
    fn decode_codec(
        &mut self,
        block: &Block<'_>,
        nstream: usize,
        src: &[u8],
        dst: &mut [u8],
        len: Option<usize>,
    ) -> Result<(), ChunkError> {
        // Only on failure: where the stream lies in the block.
        let starts = self.starts;
        let failed = |source| {
            let pos = src.as_ptr().addr().saturating_sub(block.stored.as_ptr().addr());
            let offset = starts.start(block.nblock).saturating_add(pos as u64);
            ChunkError::Stream { nblock: block.nblock, nstream, offset, source }
        };
        if self.codec.is_none() {
            let header = &self.layout.header;
            let id = header.codec().ok_or(ChunkError::UnknownCodecFormat(header.codec_format().0))?;
            let cx = CodecContext::default()
                .with_meta(header.codec_meta())
                .with_typesize(self.dparams.container.itemsize.unwrap_or(header.typesize()))
                .with_dict(self.layout.dict())
                .with_blockshape(&self.dparams.container.blockshape);
            let codec = self.dparams.plugins.codec(id).map_err(|error| in_header(error, header))?;
            self.codec = Some(codec.decoder(&cx).map_err(failed)?);
        }
        let Some(codec) = self.codec.as_mut() else {
            return Err(ChunkError::UnknownCodecFormat(self.layout.header.codec_format().0));
        };
        match len {
            Some(len) if dst.len() < len => codec.decode_start(src, dst, len).map_err(failed),
            _ => codec.decode(src, dst).map_err(failed),
        }
    }
}

/// How much of a stream of `len` bytes is decoded into room for all of it when the first `need` are wanted: all of a
/// long one, where codecs that cannot stop early would take as much room again.
fn worth(need: usize, len: usize) -> usize {
    if need > len / 2 && len > LONG { len } else { need }
}

/// Streams of more bytes are long.
const LONG: usize = 8 << 20;

/// A stored block, cut into streams.
struct Block<'s> {
    nblock: usize,
    stored: &'s [u8],
    nstreams: usize,
    /// Plain length of each stream, 1 or more.
    stream_len: usize,
    streams: Streams<'s>,
}

/// Adds the place in the header that asks for a plugin which is not there.
#[cold]
fn in_header(error: ChunkError, header: &ChunkHeader) -> ChunkError {
    match error {
        ChunkError::UnknownFilter { id, .. } => {
            let slot = header.filters.iter().position(|slot| slot.id == id);
            ChunkError::UnknownFilter { id, at: slot.and_then(|slot| slot.checked_add(FILTERS_AT)) }
        }
        ChunkError::UnknownCodec { id, .. } => {
            let in_full = header.codec_format() == CodecFormat::USER_DEFINED;
            ChunkError::UnknownCodec { id, at: Some(if in_full { UDCODEC_AT } else { FLAGS_AT }) }
        }
        other => other,
    }
}
