//! The filter of Blosc2, number 32026.

use std::ffi::CStr;

use b2_chunk::{Chunk, CodecId, Plugins};
use b2_core::Limits;
use b2_frame::{FrameParams, FrameWriter, ReadOptions, SuperChunk, WriteOptions};
use b2nd::{ArrayBuilder, Dtype, NdArray};
use bytes::Bytes;

use crate::filter::control;
use crate::parameters::Parameters;
use crate::{Dataset, Error, Filter, Memory, PlainBytes};

/// Revision of the filter.
const REVISION: u32 = 1;
/// Index of the block size in bytes, which the creator of a data set may set; 0 for the default.
const BLOCKSIZE: usize = 1;
/// Index of the number of dimensions, followed by their lengths. One-dimensional data sets have neither.
const NDIM: usize = 7;
/// Maximum number of dimensions of a Blosc2 array.
const MAX_DIMENSIONS: usize = 16;
/// The array metalayer, and its name before C-Blosc2 2.0.
const ARRAY_METALAYERS: [&str; 2] = ["b2nd", "caterva"];
/// Memory limit for metadata, buffers and bookkeeping of a chunk, in addition to what grows with its size.
const MAX_OVERHEAD: u64 = 16 << 20;

/// The Blosc2 filter: each HDF5 chunk is a contiguous frame. It holds an array of the chunk's shape if that has 2 to 16
/// dimensions, so that Blosc2 readers can read parts of it, and a super-chunk otherwise.
#[derive(Clone, Copy, Debug)]
pub struct Blosc2;

impl Filter for Blosc2 {
    const ID: i32 = 32026;
    const NAME: &'static CStr = c"blosc2";

    fn parameters(given: &[u32], dataset: &Dataset<'_>) -> Result<Vec<u32>, Error> {
        let revisions = [REVISION, given.get(BLOCKSIZE).copied().unwrap_or(0)];
        let mut values = Parameters::for_dataset(given, revisions, dataset.base_itemsize, dataset)?;
        if (2..=MAX_DIMENSIONS).contains(&dataset.chunk.len()) {
            Parameters::complete(&mut values);
            // Lengths are below the size of the chunk, which was checked to be below 4 GiB.
            let lengths = dataset.chunk.iter().map(|&length| u32::try_from(length).unwrap_or(u32::MAX));
            values.extend(u32::try_from(dataset.chunk.len()));
            values.extend(lengths);
        }
        Ok(values)
    }

    fn encode(parameters: &[u32], plain: &[u8]) -> Result<Option<Bytes>, Error> {
        let parameters = Parameters::new(parameters)?;
        // Checksums and tables are not worth their cost here: HDF5 has its own checksums.
        let options = FrameWriter::options().checksums(false).block_starts(false);
        let frame = match shape(parameters)? {
            // If an earlier filter has added a checksum, the bytes are not an array.
            Some(shape) if nbytes(&shape, parameters.itemsize()) == plain.len() as u64 => {
                write_array(parameters, shape, plain, options)?
            }
            _ => write_bytes(parameters, plain, &options)?,
        };
        Ok(Some(frame))
    }

    fn decode<M: Memory>(parameters: &[u32], stored: &[u8]) -> Result<PlainBytes<M>, Error> {
        let parameters = Parameters::new(parameters)?;
        let shape = shape(parameters)?;
        let frame = open(&read_options(parameters, shape.as_deref()), stored)?;
        if ARRAY_METALAYERS.iter().all(|name| frame.metalayers().get(name).is_none()) {
            return parameters.decoded(frame.nbytes(), |bytes| Ok(frame.read_bytes_into(0, bytes)?));
        }
        let array = NdArray::from_super_chunk(frame)?;
        if let Some(shape) = shape.filter(|shape| array.shape() != shape) {
            let found = array.shape();
            return Err(Error::Mismatch(format!(
                "an array of shape {found:?} is stored for a chunk {shape:?}"
            )));
        }
        let all = array.all();
        match parameters.decoded_to(array.nbytes(), |bytes| Ok(all.read_to(bytes)?))? {
            Some(plain) => Ok(plain),
            None => parameters.decoded(array.nbytes(), |bytes| Ok(all.read_bytes_into(bytes)?)),
        }
    }
}

/// Returns the shape of a chunk, if the parameters contain it.
fn shape(parameters: Parameters<'_>) -> Result<Option<Vec<u64>>, Error> {
    let Some(ndim) = parameters.get(NDIM) else { return Ok(None) };
    let wrong =
        || Error::Parameters(format!("{ndim} dimensions, expected 1 to {MAX_DIMENSIONS} and their lengths"));
    let ndim =
        usize::try_from(ndim).ok().filter(|ndim| (1..=MAX_DIMENSIONS).contains(ndim)).ok_or_else(wrong)?;
    let lengths = parameters.rest(NDIM.saturating_add(1)).get(..ndim).ok_or_else(wrong)?;
    Ok(Some(lengths.iter().map(|&length| length.into()).collect()))
}

fn nbytes(shape: &[u64], itemsize: usize) -> u64 {
    shape.iter().fold(itemsize as u64, |size, &length| size.saturating_mul(length))
}

/// Returns a frame with one array, which is one chunk.
fn write_array(
    parameters: Parameters<'_>,
    shape: Vec<u64>,
    plain: &[u8],
    options: WriteOptions,
) -> Result<Bytes, Error> {
    let itemsize = parameters.itemsize();
    let lengths: Result<Vec<u32>, _> = shape.iter().map(|&length| u32::try_from(length)).collect();
    let lengths = lengths.map_err(|_| Error::Parameters(format!("chunks {shape:?}")))?;
    let blocks = match parameters.blocksize(BLOCKSIZE) {
        0 => None,
        blocksize => Some(blocks(&lengths, blocksize.checked_div(itemsize).unwrap_or(0))),
    };
    let mut builder = ArrayBuilder::of_dtype(shape, Dtype::parse(&format!("|V{itemsize}"))?)
        .chunks(lengths)
        .compression(parameters.compression(written(parameters)?)?)
        .control(control())
        .write_options(options);
    if let Some(blocks) = blocks {
        builder = builder.blocks(blocks);
    }
    Ok(builder.to_bytes(plain)?)
}

/// Returns a frame with one chunk.
fn write_bytes(parameters: Parameters<'_>, plain: &[u8], options: &WriteOptions) -> Result<Bytes, Error> {
    let compression = parameters.compression(written(parameters)?)?;
    let cparams = compression.blocksize(parameters.blocksize(BLOCKSIZE).min(plain.len())).build()?;
    let mut writer = options.memory(FrameParams::from_cparams(&cparams).chunksize(plain.len()))?;
    writer.append(Chunk::compress_bytes(plain, &cparams)?)?;
    Ok(writer.finish()?.into_bytes())
}

/// Returns the codec of new chunks: one that all readers support.
fn written(parameters: Parameters<'_>) -> Result<CodecId, Error> {
    const CODECS: [CodecId; 5] =
        [CodecId::BLOSCLZ, CodecId::LZ4, CodecId::LZ4HC, CodecId::ZLIB, CodecId::ZSTD];
    let codec = parameters.codec()?;
    if CODECS.contains(&codec) { Ok(codec) } else { Err(Error::Parameters(format!("codec {codec}"))) }
}

/// Returns a shape of at most `nitems` items, but at least one: it has whole dimensions from the last one on, as far as
/// they fit.
fn blocks(chunk: &[u32], nitems: usize) -> Vec<u32> {
    let mut left = u32::try_from(nitems).unwrap_or(u32::MAX);
    let mut blocks: Vec<u32> = chunk
        .iter()
        .rev()
        .map(|&length| {
            let taken = length.min(left).max(1);
            left = left.checked_div(taken).unwrap_or(0);
            taken
        })
        .collect();
    blocks.reverse();
    blocks
}

/// Returns the read options. They limit the cost of a damaged frame by the size of the chunk.
fn read_options(parameters: Parameters<'_>, shape: Option<&[u64]>) -> ReadOptions {
    // Blocks are padded, and a block may be nearly as long as the chunk.
    let padded = shape.map_or(0, |shape| {
        let lengths: Vec<u64> = shape.iter().map(|length| length.saturating_mul(2)).collect();
        nbytes(&lengths, parameters.itemsize())
    });
    let most = padded.max(parameters.max_chunk_nbytes() as u64);
    let limits = Limits::default();
    let limits = limits
        .clone()
        .max_chunk_nbytes(most.min(limits.max_chunk_nbytes))
        .max_nchunks(most.min(limits.max_nchunks))
        .max_metadata(MAX_OVERHEAD)
        .max_output(most)
        .max_memory(most.saturating_mul(4).saturating_add(MAX_OVERHEAD).min(limits.max_memory));
    SuperChunk::options().limits(limits).control(control())
}

/// Opens a frame, with zfp only if needed: with codecs other than the built-in ones, less is cached between chunks.
fn open(options: &ReadOptions, stored: &[u8]) -> Result<SuperChunk, Error> {
    const ZFP: [CodecId; 3] =
        [CodecId::ZFP_FIXED_ACCURACY, CodecId::ZFP_FIXED_PRECISION, CodecId::ZFP_FIXED_RATE];
    let mut copy = Vec::new();
    copy.try_reserve_exact(stored.len()).map_err(|_| Error::OutOfMemory(stored.len()))?;
    copy.extend_from_slice(stored);
    let stored = Bytes::from(copy);
    let frame = options.from_bytes(stored.clone())?;
    if !ZFP.contains(&frame.header().codec()) {
        return Ok(frame);
    }
    let plugins = Plugins::builtin().with_codecs(b2_zfp::codecs());
    Ok(options.clone().plugins(plugins).from_bytes(stored)?)
}
