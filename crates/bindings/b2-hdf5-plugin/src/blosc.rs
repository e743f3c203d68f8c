//! The filter of Blosc 1, number 32001.

use std::ffi::CStr;

use b2_chunk::{ChunkRef, CodecId, Compatibility, DParams};
use bytes::Bytes;

use crate::filter::control;
use crate::parameters::Parameters;
use crate::{Dataset, Error, Filter, Memory, PlainBytes};

/// Revision of the filter, and version of the format of its chunks.
const REVISIONS: [u32; 2] = [2, 2];
/// Maximum item size of Blosc 1, in bytes.
const MAX_ITEMSIZE: usize = 255;

/// The Blosc 1 filter: each HDF5 chunk is one Blosc chunk.
#[derive(Clone, Copy, Debug)]
pub struct Blosc;

impl Filter for Blosc {
    const ID: i32 = 32001;
    const NAME: &'static CStr = c"blosc";

    fn parameters(given: &[u32], dataset: &Dataset<'_>) -> Result<Vec<u32>, Error> {
        // The bytes of larger items are not shuffled.
        let itemsize = Some(dataset.base_itemsize).filter(|&size| size <= MAX_ITEMSIZE).unwrap_or(1);
        Parameters::for_dataset(given, REVISIONS, itemsize, dataset)
    }

    fn encode(parameters: &[u32], plain: &[u8]) -> Result<Option<Bytes>, Error> {
        let parameters = Parameters::new(parameters)?;
        // Every Blosc reader supports LZ4, and each chunk states its codec.
        let codec =
            Some(parameters.codec()?).filter(|&codec| codec != CodecId::SNAPPY).unwrap_or(CodecId::LZ4);
        let compression = parameters.compression(codec)?.compatibility(Compatibility::Blosc1);
        let itemsize = Some(parameters.itemsize()).filter(|&size| size <= MAX_ITEMSIZE).unwrap_or(1);
        let chunk = ChunkRef::compress_bytes(plain, &compression.itemsize(itemsize).build()?)?.into_bytes();
        Ok(Some(chunk).filter(|chunk| chunk.len() <= plain.len()))
    }

    fn decode<M: Memory>(parameters: &[u32], stored: &[u8]) -> Result<PlainBytes<M>, Error> {
        let parameters = Parameters::new(parameters)?;
        let chunk = ChunkRef::from_slice(stored)?;
        let dparams = DParams::default().control(control());
        parameters.decoded(chunk.nbytes() as u64, |bytes| Ok(chunk.decompress_bytes_into(bytes, &dparams)?))
    }
}
