//! Decodes one block: the codec decodes its streams, then the filters are undone.

#[allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    reason = "`decode_part`, `copy` and `gather` check that the part is inside the block, all other ranges are parts of these two; `planes_of` returns a count of at least 1"
)]
mod parts;
mod runs;

use std::ops::Range;

use b2_codecs::{CodecContext, CodecFormat};
use b2_core::memory::{self, sized};
use b2_filters::{FilterContext, FilterProperties, FilteredBlock, Planes};

pub use self::parts::BlockParts;
use crate::block::chain::{ActiveFilter, Chain, SavedChain};
use crate::block::fill::fill;
use crate::block::scratch::{CachedDecoder, MAX_PLANES, ROOM, ScratchGuard};
use crate::decode::lazy::{LazyChunk, Starts};
use crate::decode::streams::{MalformedStream, Stream, StreamFault, Streams};
use crate::model::header::{FILTERS_AT, FLAGS_AT, UDCODEC_AT};
use crate::model::layout::{Body, Layout, vl_block_nbytes};
use crate::model::params::Destination;
use crate::{BlockInfo, ChunkError, ChunkHeader, DParams};

/// Decodes blocks of one chunk on one thread. [`LazyChunk::decoder`](crate::LazyChunk::decoder) makes it.
///
/// Creating one is cheap: it reuses the buffers of the last decoder that was dropped on this thread.
pub struct BlockDecoder<'a> {
    layout: &'a Layout,
    starts: Starts<'a>,
    dparams: &'a DParams,
    /// In the order in which they are undone, the reverse of the header's.
    filters: Chain<'a>,
    /// Holds the decoder of the codec as well, once a stream needs it.
    scratch: ScratchGuard<'a>,
    streaming: bool,
}

impl std::fmt::Debug for BlockDecoder<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlockDecoder").field("layout", &self.layout).finish_non_exhaustive()
    }
}

impl Drop for BlockDecoder<'_> {
    fn drop(&mut self) {
        if !self.scratch.may_keep(&self.dparams.plugins) || self.layout.dict().is_some() {
            self.scratch.decoder = None;
        }
    }
}

impl LazyChunk {
    /// Creates a decoder for blocks of this chunk. Each thread needs its own.
    ///
    /// # Errors
    /// [`ChunkError::UnknownFilter`] if a filter of the chunk is not registered.
    pub fn decoder<'a>(&'a self, dparams: &'a DParams) -> Result<BlockDecoder<'a>, ChunkError> {
        let starts = Starts::Lists { extents: &self.extents, plain: &self.starts };
        BlockDecoder::new(&self.layout, starts, dparams, ScratchGuard::of_thread())
    }
}

impl<'a> BlockDecoder<'a> {
    pub(crate) fn new(
        layout: &'a Layout,
        starts: Starts<'a>,
        dparams: &'a DParams,
        scratch: ScratchGuard<'a>,
    ) -> Result<Self, ChunkError> {
        let header = &layout.header;
        let has_streams = matches!(layout.body, Body::Blocks { .. } | Body::VlBlocks { .. });
        let filters = if has_streams && !header.is_instrumented() {
            let slots = header.filters.iter().rev();
            let is_copy = |properties: &FilterProperties| properties.backward_is_copy;
            let chain = Chain::new(&dparams.plugins, slots, header.itemsize(), is_copy);
            chain.map_err(|error| in_header(error, header))?
        } else {
            Chain::EMPTY
        };
        Ok(Self::with_filters(layout, starts, dparams, scratch, filters))
    }

    /// Like [`new`](Self::new), for known filters.
    pub(crate) fn with_filters(
        layout: &'a Layout,
        starts: Starts<'a>,
        dparams: &'a DParams,
        mut scratch: ScratchGuard<'a>,
        filters: Chain<'a>,
    ) -> Self {
        let header = &layout.header;
        let has_streams = matches!(layout.body, Body::Blocks { .. } | Body::VlBlocks { .. });
        let streaming = dparams.destination == Destination::Streaming;
        if let Some(cached) = &scratch.decoder
            && has_streams
            && !header
                .codec()
                .is_some_and(|id| cached.fits(&dparams.plugins, id, &codec_context(layout, dparams)))
        {
            scratch.decoder = None;
        }
        Self { layout, starts, dparams, filters, scratch, streaming }
    }

    /// Returns what further decoders of chunks with this layout may use.
    pub(crate) fn saved_filters(&self) -> Option<SavedChain> {
        self.filters.saved(&self.dparams.plugins)
    }

    /// Exchanges the state of the codec, which further decoders of the same chunk may reuse.
    pub(crate) fn swap_codec(&mut self, codec: &mut Option<CachedDecoder>) {
        std::mem::swap(&mut self.scratch.decoder, codec);
    }

    /// Sets whether to write past the caches, overriding the parameters.
    pub(crate) fn streaming(mut self, streaming: bool) -> Self {
        self.streaming = streaming;
        self
    }

    /// Decodes block `nblock` from its stored bytes (at [`LazyChunk::block_extent`]) into `dst`, which must have the
    /// length of the block.
    ///
    /// `block0` is the decoded block 0. It is required if [`LazyChunk::needs_block0`] is true and `nblock` is not 0.
    ///
    /// [`LazyChunk::block_extent`]: crate::LazyChunk::block_extent
    /// [`LazyChunk::needs_block0`]: crate::LazyChunk::needs_block0
    ///
    /// # Errors
    /// [`ChunkError::Block`], [`ChunkError::Stream`] or [`ChunkError::Filter`] if the stored bytes are malformed or do
    /// not decode to exactly `dst.len()` bytes; [`ChunkError::UnknownCodec`] or [`ChunkError::UnknownCodecFormat`] if
    /// there is no codec for them; [`ChunkError::Argument`] if `dst` has another length than the block, or `block0` is
    /// missing; [`ChunkError::Hook`] if the postfilter fails; [`ChunkError::Limit`], [`ChunkError::OutOfMemory`].
    pub fn decode(
        &mut self,
        nblock: usize,
        stored: &[u8],
        block0: Option<&[u8]>,
        dst: &mut [u8],
    ) -> Result<(), ChunkError> {
        if !self.dparams.has_postfilter() {
            return self.decode_reference(nblock, stored, block0, dst);
        }
        let mut plain = memory::zeroed(dst.len())?;
        self.decode_reference(nblock, stored, block0, &mut plain)?;
        let Layout { header, nchunk, .. } = self.layout;
        let itemsize = self.dparams.container.itemsize.unwrap_or(header.itemsize());
        let offset = self.starts.plain(self.layout, nblock);
        self.dparams.postfilter.call(&BlockInfo { nchunk: *nchunk, nblock, offset, itemsize }, &plain, dst)
    }

    /// Decodes a block without the postfilter. The other blocks refer to block 0 in this form.
    ///
    /// # Errors
    /// Fails like [`decode`](Self::decode).
    #[doc(hidden)]
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
        let whole = 0..dst.len();
        match *self.filters.as_slice() {
            [] => return self.decode_into(&block, dst),
            [only] => {
                let reference = self.reference(nblock, block0)?;
                let cx = self.context(reference, self.streaming);
                return self.undo_first(&block, &only, &cx, whole, dst);
            }
            _ => {}
        }
        let filters = self.filters;
        let [first, between @ .., last] = filters.as_slice() else { return Ok(()) };
        let reference = self.reference(nblock, block0)?;
        let mut from = std::mem::take(&mut self.scratch.b);
        let cx = self.context(reference, false);
        let result = sized(&mut from, dst.len())
            .map_err(ChunkError::from)
            .and_then(|from| self.undo_first(&block, first, &cx, whole, from))
            .and_then(|()| self.undo_rest(nblock, reference, between, last, &mut from, dst));
        self.scratch.b = from;
        result
    }

    /// Returns the block that delta uses as reference for block `nblock`, if any.
    fn reference<'r>(&self, nblock: usize, block0: Option<&'r [u8]>) -> Result<Option<&'r [u8]>, ChunkError> {
        if nblock == 0 || !self.layout.needs_block0() {
            return Ok(None);
        }
        match block0 {
            Some(_) => Ok(block0),
            None => Err(ChunkError::argument("block0", "missing, but delta cannot be undone without it")),
        }
    }

    fn context<'c>(&self, reference: Option<&'c [u8]>, streaming: bool) -> FilterContext<'c>
    where
        'a: 'c,
    {
        let header = &self.layout.header;
        FilterContext::new(header.itemsize())
            .full_itemsize(self.dparams.container.itemsize.or(Some(header.itemsize()).filter(|&t| t > 1)))
            .chunk_version(header.version())
            .blockshape(&self.dparams.container.blockshape)
            .reference(reference)
            .streaming(streaming)
    }

    /// Undoes the last filter that the encoder applied, for the uncompressed bytes `part` of the block.
    #[allow(
        clippy::arithmetic_side_effects,
        clippy::indexing_slicing,
        reason = "`start` is at most the plane offset of `part.start`, there are at most MAX_PLANES planes, and \
                  `decode_streams` has left a whole block in `scratch.a`"
    )]
    fn undo_first(
        &mut self,
        block: &Block<'_>,
        active: &ActiveFilter<'_>,
        cx: &FilterContext<'_>,
        part: Range<usize>,
        dst: &mut [u8],
    ) -> Result<(), ChunkError> {
        let ActiveFilter { filter, meta, .. } = active;
        let mut stored = [None; MAX_PLANES];
        let result = match self.decode_streams(block, active, &part, &mut stored)? {
            DecodedStreams::Planes { start } => {
                let planes = self.planes(&stored, block.nstreams, start);
                let skipped = start * block.nstreams;
                let part = part.start - skipped..part.end - skipped;
                filter.backward_part(cx, *meta, FilteredBlock::Planes(&planes[..block.nstreams]), part, dst)
            }
            DecodedStreams::Block(stored) => match stored.unwrap_or_else(|| &self.scratch.a[..block.len()]) {
                src if part.len() == src.len() => filter.backward(cx, *meta, src, dst),
                src => filter.backward_part(cx, *meta, FilteredBlock::Block(src), part, dst),
            },
        };
        result.map_err(|source| ChunkError::Filter { nblock: block.nblock, source })
    }

    /// Decodes as much of the streams as `filter` needs to restore the uncompressed bytes `part`.
    ///
    /// If each stream is one plane of the filter, they stay separate, and streams that are stored uncompressed are not
    /// copied: they are returned in `stored`. Otherwise they form one block.
    #[allow(
        clippy::arithmetic_side_effects,
        reason = "there is at least one plane, and all planes have `len` bytes"
    )]
    fn decode_streams<'s>(
        &mut self,
        block: &Block<'s>,
        filter: &ActiveFilter<'_>,
        part: &Range<usize>,
        stored: &mut [Option<&'s [u8]>; MAX_PLANES],
    ) -> Result<DecodedStreams<'s>, ChunkError> {
        let len = block.len();
        let planes = filter.planes_of(len);
        let prefix = |planes: &Planes| match part.end == len {
            true => len / planes.count,
            false => planes.prefix(len, part.end).min(len / planes.count),
        };
        if let Some(planes) = planes
            && planes.count == block.nstreams
            && (2..=MAX_PLANES).contains(&planes.count)
        {
            let end = if part.end == len { block.stream_len } else { prefix(&planes) };
            // Byte planes can be undone from any position, so the bytes before the part are not needed.
            let from_start = planes.rows > 1 || part.start == 0;
            let start = if from_start { 0 } else { (part.start / planes.count).min(end) };
            self.decode_planes(block, start..end, stored)?;
            return Ok(DecodedStreams::Planes { start });
        }
        let need = match planes {
            // One stream holds all planes in order: all but the last are needed in full.
            Some(planes) if block.nstreams == 1 => {
                (planes.count - 1) * (len / planes.count) + prefix(&planes)
            }
            _ => len,
        };
        Ok(DecodedStreams::Block(self.decode_block(block, need)?))
    }

    /// Decodes the range `window` of each stream. Streams that are stored uncompressed are returned in `stored`; the
    /// others are decoded into `scratch.planes`.
    #[allow(
        clippy::indexing_slicing,
        reason = "`window` is inside a plane, and `worth` returns at most `len`"
    )]
    fn decode_planes<'s>(
        &mut self,
        block: &Block<'s>,
        window: Range<usize>,
        stored: &mut [Option<&'s [u8]>; MAX_PLANES],
    ) -> Result<(), ChunkError> {
        let len = block.stream_len;
        let reach = worth(window.end, len);
        let mut streams = block.streams.clone();
        let mut planes = std::mem::take(&mut self.scratch.planes);
        let result = planes.prepare(block.nstreams, len).map_err(ChunkError::from).and_then(|()| {
            for (j, stored) in stored.iter_mut().enumerate().take(block.nstreams) {
                match self.next(block, &mut streams)? {
                    Stream::Run(value) if window.start == 0 => planes.fill(j, value),
                    Stream::Run(value) if planes.holds(j, value) => {}
                    Stream::Run(value) => planes.plane_mut(j)[window.clone()].fill(value),
                    Stream::Stored(bytes) => *stored = Some(bytes),
                    Stream::Encoded(bytes) => {
                        let plane = match reach == len {
                            true => planes.plane_with_room(j),
                            false => &mut planes.plane_mut(j)[..reach],
                        };
                        self.decode_codec(block, j, bytes, streams.from(bytes), plane, Some(len))?;
                    }
                }
            }
            Ok(())
        });
        self.scratch.planes = planes;
        result
    }

    /// Returns the planes that [`decode_planes`](Self::decode_planes) decoded, starting at byte `start` of each.
    #[allow(
        clippy::indexing_slicing,
        reason = "all streams have the length of a plane, and `start` is inside of it"
    )]
    fn planes<'d>(
        &'d self,
        stored: &[Option<&'d [u8]>; MAX_PLANES],
        count: usize,
        start: usize,
    ) -> [&'d [u8]; MAX_PLANES] {
        let buffers = &self.scratch.planes;
        let mut planes: [&[u8]; MAX_PLANES] = [&[]; MAX_PLANES];
        for (j, (plane, stored)) in planes.iter_mut().zip(stored).enumerate().take(count) {
            *plane = match stored {
                Some(bytes) => &bytes[start..],
                None => &buffers.plane(j)[start..],
            };
        }
        planes
    }

    /// Decodes at least the first `need` bytes of the filtered block. Returns the block if it is stored uncompressed in
    /// one piece; otherwise it is in `scratch.a`.
    #[allow(clippy::indexing_slicing, reason = "`out` has `len` bytes, and `need` is smaller")]
    fn decode_block<'s>(&mut self, block: &Block<'s>, need: usize) -> Result<Option<&'s [u8]>, ChunkError> {
        let len = block.len();
        let need = worth(need, len);
        let mut streams = block.streams.clone();
        let only = match block.nstreams {
            1 => Some(self.next(block, &mut streams)?),
            _ => None,
        };
        if let Some(Stream::Stored(bytes)) = only {
            return Ok(Some(bytes));
        }
        let mut buffer = std::mem::take(&mut self.scratch.a);
        let room = len.saturating_add(ROOM);
        let result = sized(&mut buffer, room).map_err(ChunkError::from).and_then(|out| match only {
            Some(Stream::Encoded(bytes)) => {
                let out = if need < len { &mut out[..need] } else { out };
                self.decode_codec(block, 0, bytes, streams.from(bytes), out, Some(len))
            }
            _ => self.decode_into(block, &mut out[..len]),
        });
        self.scratch.a = buffer;
        result.map(|()| None)
    }

    /// Decodes all streams into `dst`, one after the other.
    fn decode_into(&mut self, block: &Block<'_>, dst: &mut [u8]) -> Result<(), ChunkError> {
        let mut streams = block.streams.clone();
        for (nstream, out) in dst.chunks_exact_mut(block.stream_len).enumerate() {
            match self.next(block, &mut streams)? {
                Stream::Run(value) => out.fill(value),
                Stream::Stored(bytes) => out.copy_from_slice(bytes),
                Stream::Encoded(bytes) => self.decode_codec(block, nstream, bytes, bytes, out, None)?,
            }
        }
        Ok(())
    }

    /// Undoes the remaining filters, from `from` into `dst`.
    #[allow(clippy::indexing_slicing, reason = "`from` and `to` have been made long enough by `sized`")]
    fn undo_rest(
        &mut self,
        nblock: usize,
        reference: Option<&[u8]>,
        between: &[ActiveFilter<'_>],
        last: &ActiveFilter<'_>,
        from: &mut Vec<u8>,
        dst: &mut [u8],
    ) -> Result<(), ChunkError> {
        let failed = |source| ChunkError::Filter { nblock, source };
        let mut to = std::mem::take(&mut self.scratch.a);
        let len = dst.len();
        let cx = self.context(reference, false);
        let result: Result<(), ChunkError> =
            between.iter().try_for_each(|ActiveFilter { filter, meta, .. }| {
                filter.backward(&cx, *meta, &from[..len], sized(&mut to, len)?).map_err(failed)?;
                std::mem::swap(from, &mut to);
                Ok(())
            });
        self.scratch.a = to;
        result?;
        let cx = cx.streaming(self.streaming);
        last.filter.backward(&cx, last.meta, &from[..len], dst).map_err(failed)
    }

    /// Splits the stored bytes of a block into streams. `len` is its uncompressed length.
    fn block<'s>(&self, nblock: usize, stored: &'s [u8], len: usize) -> Result<Block<'s>, ChunkError> {
        let header = &self.layout.header;
        let limits = &self.dparams.limits;
        limits.check_memory("buffers for a block, in bytes", self.layout.block_memory(len))?;
        if let Body::VlBlocks { .. } = self.layout.body {
            let stream = stored.get(4..).unwrap_or_default();
            let stream = if stream.len() == len { Stream::Stored(stream) } else { Stream::Encoded(stream) };
            return Ok(Block {
                nblock,
                stored,
                nstreams: 1,
                stream_len: len,
                streams: Streams::Single(stream),
            });
        }
        let nstreams = if header.is_split() && len == self.layout.blocksize { header.itemsize() } else { 1 };
        let stream_len = len.checked_div(nstreams).unwrap_or(0);
        if stream_len == 0 || stream_len.checked_mul(nstreams) != Some(len) {
            let value = i64::try_from(len).unwrap_or(i64::MAX);
            return Err(self.malformed(nblock, MalformedStream { pos: 0, fault: StreamFault::Split, value }));
        }
        Ok(Block { nblock, stored, nstreams, stream_len, streams: Streams::new(stored, stream_len) })
    }

    #[inline(always)]
    fn next<'s>(&self, block: &Block<'_>, streams: &mut Streams<'s>) -> Result<Stream<'s>, ChunkError> {
        streams.next().map_err(|malformed| self.malformed(block.nblock, malformed))
    }

    #[cold]
    fn malformed(&self, nblock: usize, MalformedStream { pos, fault, value }: MalformedStream) -> ChunkError {
        let (field, expected) = fault.words();
        let offset = self.starts.start(nblock).saturating_add(pos as u64);
        ChunkError::Block { nblock, field, offset, value, expected }
    }

    /// Decodes the stream `src` of `len` bytes: its first part if `dst` is shorter. If `dst` is longer, the bytes after the
    /// stream may be overwritten. `with_more` starts with `src`; any bytes may follow.
    fn decode_codec(
        &mut self,
        block: &Block<'_>,
        nstream: usize,
        src: &[u8],
        with_more: &[u8],
        dst: &mut [u8],
        len: Option<usize>,
    ) -> Result<(), ChunkError> {
        // Computes the position of the stream; called only on failure.
        let starts = self.starts;
        let failed = |source| {
            let pos = src.as_ptr().addr().saturating_sub(block.stored.as_ptr().addr());
            let offset = starts.start(block.nblock).saturating_add(pos as u64);
            ChunkError::Stream { nblock: block.nblock, nstream, offset, source }
        };
        let (layout, dparams) = (self.layout, self.dparams);
        let cached = match &mut self.scratch.decoder {
            Some(cached) => cached,
            none => {
                let header = &layout.header;
                let id = header.codec().ok_or(ChunkError::UnknownCodecFormat(header.codec_format().0))?;
                let cx = codec_context(layout, dparams);
                let codec = dparams.plugins.codec(id).map_err(|error| in_header(error, header))?;
                let codec = codec.decoder(&cx).map_err(failed)?;
                none.insert(CachedDecoder::new(
                    &dparams.plugins,
                    id,
                    &cx,
                    &dparams.container.blockshape,
                    codec,
                ))
            }
        };
        let codec = &mut cached.codec;
        match len {
            Some(len) if dst.len() < len => codec.decode_start(src, dst, len).map_err(failed),
            Some(len) if dst.len() > len => {
                codec.decode_with_room(with_more, src.len(), dst, len).map_err(failed)
            }
            _ => codec.decode(src, dst).map_err(failed),
        }
    }
}

/// Returns the parameters of the codec of a chunk.
pub(crate) fn codec_context<'a>(layout: &'a Layout, dparams: &'a DParams) -> CodecContext<'a> {
    let header = &layout.header;
    CodecContext::default()
        .meta(header.codec_meta())
        .itemsize(dparams.container.itemsize.unwrap_or(header.itemsize()))
        .dict(layout.dict())
        .blockshape(&dparams.container.blockshape)
}

/// Returns how many bytes of a stream of `len` bytes to decode when the first `need` are requested.
///
/// The buffer has room for `len` bytes. A codec that cannot stop early would allocate a second buffer of that size for
/// a shorter prefix, so long streams are decoded in full.
fn worth(need: usize, len: usize) -> usize {
    if need > len / 2 && len > LONG { len } else { need }
}

/// Longer streams count as long, in bytes.
const LONG: usize = 8 << 20;

/// A stored block with its streams.
struct Block<'s> {
    nblock: usize,
    stored: &'s [u8],
    nstreams: usize,
    /// Uncompressed length of each stream, 1 or more.
    stream_len: usize,
    streams: Streams<'s>,
}

impl Block<'_> {
    /// Returns the uncompressed length of the block.
    fn len(&self) -> usize {
        self.nstreams.saturating_mul(self.stream_len)
    }
}

/// The location of the decoded streams of a block.
enum DecodedStreams<'s> {
    /// Each stream is one plane, decoded from its byte `start` on.
    Planes { start: usize },
    /// The block is in one piece: this slice, or `scratch.a` if it is `None`.
    Block(Option<&'s [u8]>),
}

/// Adds to the error the header offset that names the missing plugin.
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
