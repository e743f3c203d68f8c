//! Chunks of an array as HDF5 stores them.

use std::sync::{Mutex, PoisonError};

use b2_chunk::{Chunk, SpecialKind};
use b2_codecs::{CodecContext, CodecId, Encoder};
use b2_filters::{Filter as _, FilterContext, Shuffle};
use b2_frame::{Entry, FrameWriter};
use b2nd::{ArrayBuilder, ChunkContent, Dtype, Geometry, NdArray, NdError, Region, RegionSource};
use bytes::Bytes;

use super::codec::Codec;
use crate::filters::codecs::codec;

/// Revision of filter 32026 whose parameters these are.
const REVISION: u32 = 1;

/// How chunks of an array are encoded.
pub(super) struct Encoding<'a> {
    array: &'a NdArray,
    codec: Codec,
    /// Whether stored chunks are copied unchanged.
    moves: bool,
    /// Idle encoders, at most one for each thread.
    encoders: Mutex<Vec<Box<dyn Encoder>>>,
}

impl std::fmt::Debug for Encoding<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Encoding").field("codec", &self.codec).finish_non_exhaustive()
    }
}

/// A chunk as it is in the file.
pub(super) struct StoredChunk {
    pub(super) bytes: Vec<u8>,
    /// The filters that were not applied, one bit each (section IV.A.1 of the HDF5 format: the filter mask).
    pub(super) skipped: u32,
}

fn text(error: impl std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}

impl<'a> Encoding<'a> {
    pub(super) fn new(array: &'a NdArray, codec: Codec) -> Result<Self, String> {
        // In one dimension HDF5's filter expects the bytes of the chunk without padding.
        let blocks = array.chunkshape().iter().zip(array.blockshape());
        let is_padded = { blocks }.any(|(&chunk, &block)| !chunk.is_multiple_of(block.max(1)));
        let moves = array.ndim() > 1 || !is_padded;
        if let (Codec::Blosc2, false, Ok(cparams)) = (codec, moves, array.cparams()) {
            array.dtype().check_compression(&cparams).map_err(text)?;
        }
        Ok(Self { array, codec, moves, encoders: Mutex::default() })
    }

    /// The filters of the data set, with their parameters.
    pub(super) fn filters(&self) -> Vec<(u16, &'static str, Vec<u32>)> {
        let itemsize = self.array.itemsize() as u32;
        match self.codec {
            Codec::None => Vec::new(),
            Codec::Gzip(level) => {
                let shuffle = (itemsize > 1).then(|| (2, "shuffle", vec![itemsize]));
                shuffle.into_iter().chain([(1, "deflate", vec![level.into()])]).collect()
            }
            Codec::Blosc2 => {
                let chunk: u32 = self.array.chunkshape().iter().product();
                let (level, filter, codec) = match self.array.cparams() {
                    Ok(cparams) => {
                        let filter = cparams.filters().iter().map(|slot| slot.id.0).rfind(|&id| id != 0);
                        (cparams.level(), filter.unwrap_or(0), cparams.codec().0)
                    }
                    Err(_) => (5, 1, 0),
                };
                let mut params = vec![REVISION, 0, itemsize, chunk.saturating_mul(itemsize)];
                params.extend([u32::from(level), u32::from(filter), u32::from(codec)]);
                if self.array.ndim() > 1 {
                    params.push(self.array.ndim() as u32);
                    params.extend(self.array.chunkshape());
                }
                vec![(32026, "blosc2", params)]
            }
        }
    }

    /// A chunk as stored; `None` if it is all zeros, which HDF5 need not store.
    pub(super) fn chunk(&self, n: u64) -> Result<Option<StoredChunk>, String> {
        let frame = self.array.super_chunk();
        let number = usize::try_from(n).map_err(text)?;
        let stored = frame.chunk(number);
        if let Entry::Special(SpecialKind::Zeros | SpecialKind::Uninit) = stored.entry().map_err(text)? {
            return Ok(None);
        }
        if let (Codec::Blosc2, true) = (self.codec, self.moves) {
            let ready = match stored.entry().map_err(text)? {
                Entry::Special(kind) => ChunkContent::Special(kind),
                _ => ChunkContent::Chunk(stored.read().map_err(text)?),
            };
            return self.frame(SingleChunk { ready: Some(ready), plain: &[] }).map(Some);
        }
        let plain = self.plain(n)?;
        match self.codec {
            Codec::None => Ok(Some(StoredChunk { bytes: plain, skipped: 0 })),
            Codec::Blosc2 => self.frame(SingleChunk { ready: None, plain: &plain }).map(Some),
            Codec::Gzip(level) => {
                let itemsize = self.array.itemsize();
                let shuffled = match itemsize {
                    0 | 1 => plain,
                    _ => shuffle(&plain, itemsize)?,
                };
                let pool = || self.encoders.lock().unwrap_or_else(PoisonError::into_inner);
                let found = pool().pop();
                let mut encoder = match found {
                    Some(encoder) => encoder,
                    None => {
                        let zlib = codec(CodecId::ZLIB).ok_or("this build has no zlib")?;
                        zlib.encoder(&CodecContext::new(level).itemsize(itemsize)).map_err(text)?
                    }
                };
                let deflated = deflate(&mut *encoder, &shuffled)?;
                pool().push(encoder);
                Ok(Some(match deflated {
                    Some(bytes) => StoredChunk { bytes, skipped: 0 },
                    None => StoredChunk { bytes: shuffled, skipped: if itemsize > 1 { 0b10 } else { 1 } },
                }))
            }
        }
    }

    /// The items of a chunk in C order, with zeros beyond the edge of the array.
    fn plain(&self, n: u64) -> Result<Vec<u8>, String> {
        let geometry = self.array.geometry();
        let (start, shape) = geometry.chunk_box(&geometry.chunk_coords(n));
        let whole: Vec<u64> = geometry.chunkshape().iter().map(|&length| length.into()).collect();
        let items = read(self.array, &start, &shape).map_err(text)?;
        if shape == whole {
            return Ok(items);
        }
        let itemsize = geometry.itemsize();
        let nbytes = whole.iter().fold(itemsize as u64, |n, &length| n.saturating_mul(length));
        let mut out = b2_core::memory::zeroed(usize::try_from(nbytes).map_err(text)?).map_err(text)?;
        let zeros = vec![0; whole.len()];
        let (from, to) = (
            crate::boxes::BoxBounds { start: &zeros, shape: &shape },
            crate::boxes::BoxBounds { start: &zeros, shape: &whole },
        );
        crate::boxes::copy_shared(from, &items, to, &mut out, itemsize).ok_or("a chunk of another size")?;
        Ok(out)
    }

    /// The frame of filter 32026 that holds one chunk.
    fn frame(&self, source: SingleChunk<'_>) -> Result<StoredChunk, String> {
        let array = self.array;
        // HDF5 has its own checksums.
        let options = FrameWriter::options().checksums(false).block_starts(false);
        let itemsize = array.itemsize();
        let chunk: Vec<u64> = array.chunkshape().iter().map(|&length| length.into()).collect();
        let cparams = array.cparams().map_err(text)?;
        if array.ndim() < 2 {
            let ready = match source.ready {
                Some(ChunkContent::Chunk(chunk)) => Some(chunk),
                _ => None,
            };
            let nbytes = chunk.iter().fold(itemsize as u64, |n, &length| n.saturating_mul(length));
            let frame = super_chunk(ready, source.plain, nbytes, itemsize, &cparams, options)?;
            return Ok(StoredChunk { bytes: frame.to_vec(), skipped: 0 });
        }
        let dtype = Dtype::parse(&format!("|V{itemsize}")).map_err(text)?;
        let builder = ArrayBuilder::of_dtype(chunk, dtype)
            .chunks(array.chunkshape())
            .blocks(array.blockshape())
            .compression(cparams)
            .write_options(options);
        let frame = builder.to_bytes(source).map_err(text)?;
        Ok(StoredChunk { bytes: frame.to_vec(), skipped: 0 })
    }
}

/// Reads a box of items.
pub(super) fn read(array: &NdArray, start: &[u64], shape: &[u64]) -> Result<Vec<u8>, NdError> {
    let ranges = start.iter().zip(shape).map(|(&start, &length)| b2nd::Selection::Range {
        start: i64::try_from(start).ok(),
        stop: i64::try_from(start.saturating_add(length)).ok(),
        step: 1,
    });
    array.slice(ranges.collect::<Vec<_>>())?.read_bytes()
}

/// One chunk, either encoded or as items.
struct SingleChunk<'a> {
    ready: Option<ChunkContent>,
    plain: &'a [u8],
}

impl RegionSource for SingleChunk<'_> {
    fn read_region(&mut self, _: &Region<'_>, dst: &mut [u8]) -> std::io::Result<()> {
        if dst.len() != self.plain.len() {
            return Err(std::io::Error::other("a chunk of another size"));
        }
        dst.copy_from_slice(self.plain);
        Ok(())
    }

    fn chunk(&mut self, _: &Geometry, _: u64) -> std::io::Result<ChunkContent> {
        Ok(self.ready.take().unwrap_or(ChunkContent::Items))
    }
}

/// A super-chunk of one chunk, for data sets of one dimension or none.
fn super_chunk(
    ready: Option<Chunk>,
    plain: &[u8],
    nbytes: u64,
    itemsize: usize,
    cparams: &b2_chunk::CParams,
    options: b2_frame::WriteOptions,
) -> Result<Bytes, String> {
    let chunk = match ready {
        Some(chunk) if chunk.nbytes() as u64 == nbytes => chunk,
        Some(_) => return Err("a chunk of another size".into()),
        None => Chunk::compress_bytes(plain, cparams).map_err(text)?,
    };
    let nbytes = usize::try_from(nbytes).map_err(text)?;
    let params = b2_frame::FrameParams::from_cparams(cparams).chunksize(nbytes);
    debug_assert_eq!(cparams.itemsize(), itemsize);
    let mut writer = options.memory(params).map_err(text)?;
    writer.append(chunk).map_err(text)?;
    Ok(writer.finish().map_err(text)?.into_bytes())
}

fn shuffle(plain: &[u8], itemsize: usize) -> Result<Vec<u8>, String> {
    let mut out = b2_core::memory::zeroed(plain.len()).map_err(text)?;
    Shuffle.forward(&FilterContext::new(itemsize), 0, plain, &mut out).map_err(text)?;
    Ok(out)
}

/// Compresses bytes; `None` if the encoder sees no gain.
fn deflate(encoder: &mut dyn Encoder, plain: &[u8]) -> Result<Option<Vec<u8>>, String> {
    // Bytes that do not compress become slightly longer.
    let most = plain.len().saturating_add(plain.len() / 64).saturating_add(1024);
    let mut out = b2_core::memory::zeroed(most).map_err(text)?;
    Ok(match encoder.encode(plain, &mut out).map_err(text)? {
        b2_codecs::Encoded::Len(len) => {
            out.truncate(len);
            Some(out)
        }
        b2_codecs::Encoded::TooBig => None,
    })
}
