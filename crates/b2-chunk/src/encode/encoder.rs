//! Encodes one block: applies the filters, then compresses its streams.

use b2_codecs::{CodecContext, CodecError, Encoded, Encoder};
use b2_core::memory::{self, sized};
use b2_filters::{FilterContext, FilterProperties};

use crate::block::chain::{ActiveFilter, Chain, Shortcut};
use crate::block::fill::{repeated, run_value};
use crate::block::scratch::{CachedEncoder, ScratchGuard};
use crate::{CParams, ChunkError, ChunkHeader};

/// Encodes blocks of one chunk on one thread.
pub(crate) struct BlockEncoder<'a> {
    cparams: &'a CParams,
    header: &'a ChunkHeader,
    filters: Chain<'a>,
    shortcut: Shortcut,
    dict: Option<&'a [u8]>,
    /// Holds the encoder of the codec as well.
    scratch: ScratchGuard<'a>,
}

impl Drop for BlockEncoder<'_> {
    fn drop(&mut self) {
        if !self.scratch.may_keep(self.cparams.plugins()) || self.dict.is_some() {
            self.scratch.encoder = None;
        }
    }
}

impl<'a> BlockEncoder<'a> {
    pub(crate) fn new(
        cparams: &'a CParams,
        header: &'a ChunkHeader,
        dict: Option<&'a [u8]>,
        mut scratch: ScratchGuard<'a>,
    ) -> Result<Self, ChunkError> {
        if let Some(cached) = &scratch.encoder
            && !cached.fits(cparams.plugins(), cparams.codec(), &codec_context(cparams, dict))
        {
            scratch.encoder = None;
        }
        codec(&mut scratch.encoder, cparams, dict)?;
        let (plugins, typesize) = (cparams.plugins(), header.itemsize());
        let known = scratch.header.as_ref().and_then(|cached| cached.filters(plugins, header));
        let (filters, shortcut) = match known {
            Some(known) => known,
            None => {
                let is_copy = |properties: &FilterProperties| properties.forward_is_copy;
                let filters = Chain::new(plugins, header.filters.iter(), typesize, is_copy)?;
                let shortcut = if header.is_extended() { filters.shortcut(typesize) } else { Shortcut::None };
                if let Some(cached) = &mut scratch.header {
                    cached.keep_filters(plugins, header, &filters, shortcut);
                }
                (filters, shortcut)
            }
        };
        Ok(Self { cparams, header, filters, shortcut, dict, scratch })
    }

    fn context<'c>(&self, reference: Option<&'c [u8]>) -> FilterContext<'c>
    where
        'a: 'c,
    {
        FilterContext::new(self.header.itemsize())
            .full_itemsize(Some(self.cparams.itemsize()))
            .chunk_version(self.header.version())
            .blockshape(self.cparams.blockshape())
            .reference(reference)
    }

    /// Takes the buffers for one encoded and one plain block. Return them with [`put_buffers`](Self::put_buffers).
    pub(crate) fn take_buffers(&mut self) -> (Vec<u8>, Vec<u8>) {
        (std::mem::take(&mut self.scratch.block), std::mem::take(&mut self.scratch.plain))
    }

    pub(crate) fn put_buffers(&mut self, block: Vec<u8>, plain: Vec<u8>) {
        (self.scratch.block, self.scratch.plain) = (block, plain);
    }

    /// Applies the filters to one block and writes its streams to the start of `out`, which has room for [`most`]
    /// bytes.
    pub(crate) fn encode(
        &mut self,
        nblock: usize,
        src: &[u8],
        reference: Option<&[u8]>,
        nstreams: usize,
        out: &mut [u8],
    ) -> Result<EncodedLen, ChunkError> {
        let mut out = StreamOutput { bytes: out, len: 0 };
        if let Some(item) = self.known_item(src, nstreams) {
            (0..nstreams).for_each(|j| out.run(item.get(j).copied().unwrap_or(0)));
            return Ok(EncodedLen { len: out.len, all_zero: item.iter().all(|&byte| byte == 0) });
        }
        let (mut a, mut b) = (std::mem::take(&mut self.scratch.a), std::mem::take(&mut self.scratch.b));
        let result = self
            .apply_filters(nblock, src, reference, &mut a, &mut b)
            .and_then(|block| self.encode_streams(nblock, block, nstreams, &mut out));
        (self.scratch.a, self.scratch.b) = (a, b);
        result
    }

    /// Returns the item that the block repeats, if the streams can be derived from it alone.
    fn known_item<'s>(&self, src: &'s [u8], nstreams: usize) -> Option<&'s [u8]> {
        let typesize = self.header.itemsize();
        match self.shortcut {
            Shortcut::None => None,
            Shortcut::Items if nstreams == typesize => repeated(src, typesize),
            _ => (run_value(src) == Some(0)).then_some(&src[..1]),
        }
    }

    /// Applies the filters. The result is in `src` itself or in one of the scratch buffers.
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
        for (i, ActiveFilter { filter, meta, .. }) in self.filters.as_slice().iter().enumerate() {
            let from = if i == 0 { src } else { &front[..len] };
            filter
                .forward(&cx, *meta, from, sized(back, len)?)
                .map_err(|source| ChunkError::Apply { nblock, source })?;
            std::mem::swap(&mut front, &mut back);
        }
        Ok(if self.filters.as_slice().is_empty() { src } else { &front[..len] })
    }

    /// Returns block 0 as a reader will decode it, which delta must use as reference
    /// (docs/format/codecs-and-filters.md, delta).
    pub(crate) fn decodable(&self, block0: &[u8]) -> Result<Vec<u8>, ChunkError> {
        let (mut a, mut b) = (Vec::new(), Vec::new());
        let mut block = self
            .apply_filters(0, block0, None, &mut a, &mut b)
            .and_then(|block| Ok(memory::copied(block)?))?;
        let cx = self.context(None);
        for ActiveFilter { filter, meta, .. } in self.filters.as_slice().iter().rev() {
            let mut plain = memory::zeroed(block.len())?;
            filter
                .backward(&cx, *meta, &block, &mut plain)
                .map_err(|source| ChunkError::Apply { nblock: 0, source })?;
            block = plain;
        }
        Ok(block)
    }

    fn encode_streams(
        &mut self,
        nblock: usize,
        block: &[u8],
        nstreams: usize,
        out: &mut StreamOutput<'_>,
    ) -> Result<EncodedLen, ChunkError> {
        let codec = &mut *codec(&mut self.scratch.encoder, self.cparams, self.dict)?.codec;
        let stream_len = block.len() / nstreams;
        let mut all_zero = true;
        for (nstream, stream) in block.chunks_exact(stream_len).enumerate() {
            let run = run_value(stream).filter(|_| self.header.is_extended());
            all_zero &= run == Some(0);
            match run {
                Some(value) => out.run(value),
                None => out.stream(stream, codec).map_err(|source| ChunkError::Codec {
                    nblock,
                    nstream,
                    source,
                })?,
            }
        }
        Ok(EncodedLen { len: out.len, all_zero })
    }

    /// Compresses a variable-length block. Returns `None` if the block can be stored unchanged.
    pub(crate) fn encode_vl(&mut self, nblock: usize, src: &[u8]) -> Result<Option<Vec<u8>>, ChunkError> {
        let mut out = memory::zeroed(src.len().saturating_sub(1))?;
        let (mut a, mut b) = (std::mem::take(&mut self.scratch.a), std::mem::take(&mut self.scratch.b));
        let result = self.apply_filters(nblock, src, None, &mut a, &mut b).and_then(|block| {
            let codec = &mut codec(&mut self.scratch.encoder, self.cparams, self.dict)?.codec;
            let failed = |source| ChunkError::Codec { nblock, nstream: 0, source };
            let encoded = codec.encode(block, &mut out).map_err(failed)?;
            Ok(match encoded {
                Encoded::Len(len) if len > 0 && len < src.len() => {
                    out.truncate(len);
                    Some(out)
                }
                // It does not shrink and is stored filtered, because readers undo the filters of stored blocks too.
                _ if std::ptr::eq(block.as_ptr(), src.as_ptr()) => None,
                _ => Some(memory::copied(block)?),
            })
        });
        (self.scratch.a, self.scratch.b) = (a, b);
        result
    }
}

/// Returns the parameters of the codec.
fn codec_context<'a>(cparams: &'a CParams, dict: Option<&'a [u8]>) -> CodecContext<'a> {
    CodecContext::new(cparams.level())
        .meta(cparams.codec_meta())
        .itemsize(cparams.itemsize())
        .dict(dict)
        .blockshape(cparams.blockshape())
}

/// Returns the encoder in `cached`, creating it if necessary.
fn codec<'k>(
    cached: &'k mut Option<CachedEncoder>,
    cparams: &CParams,
    dict: Option<&[u8]>,
) -> Result<&'k mut CachedEncoder, ChunkError> {
    match cached {
        Some(cached) => Ok(cached),
        none => {
            let (plugins, id, cx) = (cparams.plugins(), cparams.codec(), codec_context(cparams, dict));
            let codec = plugins.codec(id)?.encoder(&cx);
            let codec = codec.map_err(|source| ChunkError::Codec { nblock: 0, nstream: 0, source })?;
            Ok(none.insert(CachedEncoder::new(plugins, id, &cx, &cparams.blockshape, codec)))
        }
    }
}

/// The encoded length of a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EncodedLen {
    pub(crate) len: usize,
    /// Whether all streams are runs of zeros.
    pub(crate) all_zero: bool,
}

/// Returns the greatest encoded length of a block of `len` bytes.
pub(crate) fn most(len: usize, nstreams: usize) -> usize {
    // A run takes 5 bytes, even if the stream is a single byte.
    len + 5 * nstreams
}

/// Output buffer for the streams of a block.
struct StreamOutput<'o> {
    bytes: &'o mut [u8],
    len: usize,
}

impl StreamOutput<'_> {
    fn run(&mut self, value: u8) {
        let token = (-i32::from(value)).to_le_bytes();
        let [a, b, c, d] = token;
        let stored: &[u8] = if value == 0 { &token } else { &[a, b, c, d, 1] };
        self.bytes[self.len..][..stored.len()].copy_from_slice(stored);
        self.len += stored.len();
    }

    /// Compresses a stream, or stores it if that is not longer.
    fn stream(&mut self, stream: &[u8], codec: &mut dyn Encoder) -> Result<(), CodecError> {
        let (csize, place) = self.bytes[self.len..].split_at_mut(4);
        let len = match codec.encode(stream, &mut place[..stream.len() - 1])? {
            Encoded::Len(len) if len > 0 && len < stream.len() => len,
            _ => {
                place[..stream.len()].copy_from_slice(stream);
                stream.len()
            }
        };
        csize.copy_from_slice(&(len as i32).to_le_bytes());
        self.len += 4 + len;
        Ok(())
    }
}
