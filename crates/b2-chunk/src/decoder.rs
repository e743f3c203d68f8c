//! One block from its streams: codec, then filters backward.

mod parts;

use std::ops::Range;

use b2_codecs::{CodecContext, Decoder};
use b2_filters::{FilterContext, FilterId};

pub use self::parts::BlockParts;
use crate::chain::{Active, Chain};
use crate::fill::fill;
use crate::layout::{Body, Layout, vl_block_nbytes};
use crate::lazy::Starts;
use crate::params::Destination;
use crate::scratch::{MAX_PLANES, Scratch, sized};
use crate::streams::{Malformed, Stream, Streams};
use crate::{BlockInfo, ChunkError, DParams};

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
            Chain::new(&dparams.plugins, header.filters.iter().rev(), |(filter, meta)| {
                filter.backward_is_copy(&cx, meta)
            })?
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
        let mut plain = crate::chunk::zeroed(dst.len())?;
        self.decode_reference(nblock, stored, block0, &mut plain)?;
        let (offset, typesize) = (self.starts.plain(self.layout, nblock), self.layout.header.typesize());
        postfilter(&BlockInfo { nblock, offset, typesize }, &plain, dst);
        Ok(())
    }

    /// Decodes the bytes `part` of block `nblock`, counted from its first one, and no more of its streams than
    /// that takes. So damage in other parts of the block may go unnoticed.
    ///
    /// `block0` is as for [`decode`](Self::decode).
    ///
    /// # Errors
    /// As [`decode`](Self::decode), and when `part` is not inside the block or `dst` of another length.
    pub fn decode_part(
        &mut self,
        nblock: usize,
        stored: &[u8],
        block0: Option<&[u8]>,
        part: Range<usize>,
        dst: &mut [u8],
    ) -> Result<(), ChunkError> {
        let len = match self.layout.body {
            Body::VlBlocks { .. } => vl_block_nbytes(stored, nblock)?,
            _ => self.layout.block_range(nblock).len(),
        };
        if part.start > part.end || part.end > len {
            return Err(ChunkError::OutOfRange { what: "bytes", start: part.start, end: part.end, len });
        }
        if part.len() != dst.len() {
            return Err(ChunkError::argument("dst", format!("{} bytes, expected {}", dst.len(), part.len())));
        }
        if part.len() == len {
            return self.decode(nblock, stored, block0, dst);
        }
        match &self.layout.body {
            _ if part.is_empty() => Ok(()),
            Body::Fill { value } if !self.dparams.has_postfilter() => {
                fill(dst, value, self.layout.block_range(nblock).start + part.start);
                Ok(())
            }
            Body::Stored if stored.len() == len && !self.dparams.has_postfilter() => {
                dst.copy_from_slice(&stored[part]);
                Ok(())
            }
            Body::Blocks { .. } if !self.dparams.has_postfilter() => {
                self.part_of_streams(nblock, stored, block0, len, part, dst)
            }
            _ => self.part_of_whole(nblock, stored, block0, len, part, dst),
        }
    }

    /// How many bytes of the decoded block 0 do for the bytes up to `end` of another block.
    pub(crate) fn needed_of_block0(&self, end: usize) -> usize {
        match undone_in_part(self.filters.as_slice()) {
            Some(_) => words(end).min(self.layout.blocksize),
            None => self.layout.blocksize,
        }
    }

    /// A part of a block that can only be had whole.
    fn part_of_whole(
        &mut self,
        nblock: usize,
        stored: &[u8],
        block0: Option<&[u8]>,
        len: usize,
        part: Range<usize>,
        dst: &mut [u8],
    ) -> Result<(), ChunkError> {
        let mut block = std::mem::take(&mut self.scratch.block);
        let result = self.decode(nblock, stored, block0, sized(&mut block, len));
        if result.is_ok() {
            dst.copy_from_slice(&block[part]);
        }
        self.scratch.block = block;
        result
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
        let wrong_length = |what| Err(ChunkError::Block { nblock, offset: 0, what });
        match &layout.body {
            Body::Fill { value } => {
                fill(dst, value, layout.block_range(nblock).start);
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
                if dst.len() != layout.block_range(nblock).len() {
                    return wrong_length("the destination has another length than the block");
                }
            }
            Body::VlBlocks { .. } => {
                if dst.len() != vl_block_nbytes(stored, nblock)? {
                    return wrong_length("the destination has another length than the block");
                }
            }
        }
        let block = self.block(nblock, stored, dst.len())?;
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
            .undo_first(&block, (*first, *meta), reference, false, sized(&mut from, dst.len()))
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
                planes.prepare(block.nstreams, block.stream_len);
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
        let mut buffer = std::mem::take(&mut self.scratch.a);
        let result = (|| {
            if block.nstreams == 1 {
                let stream = self.next(block, &mut streams)?;
                let out = match stream {
                    Stream::Stored(bytes) => return undo(bytes),
                    _ => sized(&mut buffer, len),
                };
                match stream {
                    Stream::Encoded(bytes) if need < len => {
                        self.decode_codec(block, 0, bytes, &mut out[..need], Some(len))?;
                    }
                    _ => self.materialise(block, 0, stream, out)?,
                }
                return undo(out);
            }
            let out = sized(&mut buffer, len);
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
        let result = between.iter().try_for_each(|(filter, meta)| {
            filter.backward(&cx, *meta, &from[..len], sized(&mut to, len)).map_err(failed)?;
            std::mem::swap(from, &mut to);
            Ok(())
        });
        self.scratch.a = to;
        result?;
        let cx = cx.with_streaming(self.streaming);
        last.0.backward(&cx, last.1, &from[..len], dst).map_err(failed)
    }

    /// A part of a block of a chunk with blocks of equal length.
    fn part_of_streams(
        &mut self,
        nblock: usize,
        stored: &[u8],
        block0: Option<&[u8]>,
        len: usize,
        part: Range<usize>,
        dst: &mut [u8],
    ) -> Result<(), ChunkError> {
        let filters = self.filters;
        let Some((filter, delta)) = undone_in_part(filters.as_slice()) else {
            return self.part_of_whole(nblock, stored, block0, len, part, dst);
        };
        let block = self.block(nblock, stored, len)?;
        let Some((delta, meta)) = delta else { return self.part_before_delta(&block, filter, part, dst) };
        let reference = self.reference(nblock, block0)?;
        // Whole words; in the first block from its start on, since each word refers to the one before.
        let from = if reference.is_some() { part.start & !7 } else { 0 };
        let to = words(part.end).min(len);
        let reference = match reference.map(|block0| block0.get(from..to)) {
            None => None,
            Some(Some(words)) => Some(words),
            Some(None) => {
                return Err(ChunkError::argument("block0", "shorter than the part that is asked for"));
            }
        };
        let mut deltas = std::mem::take(&mut self.scratch.b);
        let mut plain = std::mem::take(&mut self.scratch.block);
        let result =
            self.part_before_delta(&block, filter, from..to, sized(&mut deltas, to - from)).and_then(|()| {
                let plain = sized(&mut plain, to - from);
                delta
                    .backward(&self.context(reference, false), meta, &deltas[..to - from], plain)
                    .map_err(|source| ChunkError::Filter { nblock, source })?;
                dst.copy_from_slice(&plain[part.start - from..part.end - from]);
                Ok(())
            });
        (self.scratch.b, self.scratch.block) = (deltas, plain);
        result
    }

    fn part_before_delta(
        &mut self,
        block: &Block<'_>,
        filter: Option<Active<'_>>,
        part: Range<usize>,
        dst: &mut [u8],
    ) -> Result<(), ChunkError> {
        let Some((filter, meta)) = filter else { return self.part_of_plain_streams(block, part, dst) };
        let cx = self.context(None, false);
        let failed = |source| ChunkError::Filter { nblock: block.nblock, source };
        let len = block.stream_len * block.nstreams;
        let planes = filter.planes(&cx, meta, len);
        if (2..=MAX_PLANES).contains(&block.nstreams) && planes == Some(block.nstreams) {
            return self.part_of_planes(block, (filter, meta), &cx, part, dst);
        }
        let need = match planes {
            // All planes but the last are needed in full when there is one stream.
            Some(count @ 1..) if block.nstreams == 1 => {
                let plane_len = len / count;
                (count - 1) * plane_len + filter.plane_prefix(&cx, meta, len, part.clone()).min(plane_len)
            }
            _ => len,
        };
        self.with_filtered(block, need, |src| filter.backward_part(&cx, meta, src, part, dst).map_err(failed))
    }

    /// A part of a block of which each stream is a plane of the filter.
    fn part_of_planes(
        &mut self,
        block: &Block<'_>,
        (filter, meta): Active<'_>,
        cx: &FilterContext<'_>,
        part: Range<usize>,
        dst: &mut [u8],
    ) -> Result<(), ChunkError> {
        let (count, plane_len) = (block.nstreams, block.stream_len);
        let end = filter.plane_prefix(cx, meta, count * plane_len, part.clone()).min(plane_len);
        // Bytes of a shuffled plane do not depend on their place, so that a window will do.
        let start = if filter.id() == FilterId::SHUFFLE { (part.start / count).min(end) } else { 0 };
        let window = if filter.id() == FilterId::SHUFFLE { start..end } else { 0..plane_len };
        let part = part.start - start * count..part.end - start * count;
        let mut streams = block.streams.clone();
        let mut planes = std::mem::take(&mut self.scratch.planes);
        let result = (|| {
            let mut slices: [Option<&[u8]>; MAX_PLANES] = [None; MAX_PLANES];
            planes.prepare(count, plane_len);
            for (j, slice) in slices.iter_mut().enumerate().take(count) {
                match self.next(block, &mut streams)? {
                    Stream::Run(value) if planes.holds(j, value) => {}
                    Stream::Run(value) if window.len() < plane_len => {
                        planes.plane_mut(j)[window.clone()].fill(value);
                    }
                    Stream::Run(value) => planes.fill(j, value),
                    Stream::Stored(bytes) => *slice = Some(&bytes[window.clone()]),
                    Stream::Encoded(bytes) => {
                        self.decode_codec(block, j, bytes, &mut planes.plane_mut(j)[..end], Some(plane_len))?;
                    }
                }
            }
            let slices: [&[u8]; MAX_PLANES] = std::array::from_fn(|j| match slices[j] {
                Some(bytes) => bytes,
                None if j < count => &planes.plane(j)[window.clone()],
                None => &[],
            });
            filter
                .backward_planes(cx, meta, &slices[..count], part, dst)
                .map_err(|source| ChunkError::Filter { nblock: block.nblock, source })
        })();
        self.scratch.planes = planes;
        result
    }

    /// A part of a block without filters.
    fn part_of_plain_streams(
        &mut self,
        block: &Block<'_>,
        part: Range<usize>,
        dst: &mut [u8],
    ) -> Result<(), ChunkError> {
        let mut streams = block.streams.clone();
        let mut rest = dst;
        for nstream in 0..block.nstreams {
            let first = nstream * block.stream_len;
            if first >= part.end {
                break;
            }
            let stream = self.next(block, &mut streams)?;
            let wanted = part.start.saturating_sub(first).min(block.stream_len)
                ..(part.end - first).min(block.stream_len);
            let out;
            (out, rest) = std::mem::take(&mut rest).split_at_mut(wanted.len());
            match stream {
                _ if wanted.is_empty() => {}
                Stream::Run(value) => out.fill(value),
                Stream::Stored(bytes) => out.copy_from_slice(&bytes[wanted]),
                Stream::Encoded(bytes) if wanted.start == 0 => {
                    self.decode_codec(block, nstream, bytes, out, Some(block.stream_len))?;
                }
                Stream::Encoded(bytes) => {
                    let mut buffer = std::mem::take(&mut self.scratch.a);
                    let start = sized(&mut buffer, wanted.end);
                    let result = self.decode_codec(block, nstream, bytes, start, Some(block.stream_len));
                    out.copy_from_slice(&start[wanted]);
                    self.scratch.a = buffer;
                    result?;
                }
            }
        }
        Ok(())
    }

    /// The streams of a block of `len` plain bytes.
    fn block<'s>(&self, nblock: usize, stored: &'s [u8], len: usize) -> Result<Block<'s>, ChunkError> {
        let header = &self.layout.header;
        if let Body::VlBlocks { .. } = self.layout.body {
            let stream = &stored[4..];
            let stream = if stream.len() == len { Stream::Stored(stream) } else { Stream::Encoded(stream) };
            return Ok(Block { nblock, nstreams: 1, stream_len: len, streams: Streams::Single(stream) });
        }
        let nstreams = if header.is_split() && len == self.layout.blocksize { header.typesize() } else { 1 };
        let stream_len = len / nstreams;
        if stream_len == 0 || stream_len * nstreams != len {
            return Err(self.malformed(nblock, (0, "a split block must be a multiple of typesize")));
        }
        Ok(Block { nblock, nstreams, stream_len, streams: Streams::new(stored, stream_len) })
    }

    fn next<'s>(&self, block: &Block<'_>, streams: &mut Streams<'s>) -> Result<Stream<'s>, ChunkError> {
        streams.next().map_err(|malformed| self.malformed(block.nblock, malformed))
    }

    #[cold]
    fn malformed(&self, nblock: usize, (pos, what): Malformed) -> ChunkError {
        ChunkError::Block { nblock, offset: self.starts.start(nblock) + pos as u64, what }
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
        let failed = |source| ChunkError::Codec { nblock: block.nblock, nstream, source };
        if self.codec.is_none() {
            let header = &self.layout.header;
            let id = header.codec().ok_or(ChunkError::UnknownCodecFormat(header.codec_format().0))?;
            let cx = CodecContext::default()
                .with_meta(header.codec_meta())
                .with_typesize(self.dparams.container.itemsize.unwrap_or(header.typesize()))
                .with_dict(self.layout.dict())
                .with_blockshape(&self.dparams.container.blockshape);
            self.codec = Some(self.dparams.plugins.codec(id)?.decoder(&cx).map_err(failed)?);
        }
        let codec = self.codec.as_mut().expect("made above");
        match len {
            Some(len) if dst.len() < len => codec.decode_start(src, dst, len).map_err(failed),
            _ => codec.decode(src, dst).map_err(failed),
        }
    }
}

/// The filter next to the codec, and delta behind it, if parts of blocks can be had from a pipeline of these.
fn undone_in_part<'f>(filters: &[Active<'f>]) -> Option<(Option<Active<'f>>, Option<Active<'f>>)> {
    let is_delta = |filter: &Active<'_>| filter.0.id() == FilterId::DELTA;
    // Delta is undone word by word, once the words in front are.
    let (delta, front) = match filters.split_last() {
        Some((last, front)) if is_delta(last) => (Some(*last), front),
        _ => (None, filters),
    };
    match *front {
        [] => Some((None, delta)),
        [filter] if !is_delta(&filter) => Some((Some(filter), delta)),
        _ => None,
    }
}

/// Up to the end of a word of delta, which is at most 8 bytes.
fn words(end: usize) -> usize {
    end.checked_next_multiple_of(8).unwrap_or(end)
}

/// A stored block, cut into streams.
struct Block<'s> {
    nblock: usize,
    nstreams: usize,
    /// Plain length of each stream, 1 or more.
    stream_len: usize,
    streams: Streams<'s>,
}
