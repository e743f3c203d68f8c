//! What is known about a chunk before it is read, and the limits for reading it.

use std::num::NonZeroU64;

use b2_core::{Control, Limits};
use b2_frame::{ReadOptions, SuperChunk};
use b2nd::{Dtype, NdArray};
use bytes::Bytes;
use zarrs_codec::{ArrayBytes, CodecError, CodecOptions};
use zarrs_data_type::{DataType, FillValue};

use crate::dtype;
use crate::options::{B2ND as NAME, PLUGINS, failed};

/// Maximum size of a Blosc2 chunk in bytes.
const MAX_CHUNK_LEN: u64 = i32::MAX as u64 - 32;
/// Memory for metadata, buffers and bookkeeping of a chunk, in addition to what grows with its size.
const MAX_OVERHEAD: u64 = 16 << 20;

/// A Zarr chunk, as described by its metadata.
#[derive(Clone, Debug)]
pub(crate) struct ZarrChunk {
    pub(crate) shape: Vec<u64>,
    pub(crate) data_type: DataType,
    pub(crate) fill_value: FillValue,
    pub(crate) dtype: Dtype,
    /// Size of its items in bytes.
    pub(crate) nbytes: u64,
}

impl ZarrChunk {
    pub(crate) fn new(
        shape: &[NonZeroU64],
        data_type: &DataType,
        fill_value: &FillValue,
    ) -> Result<Self, CodecError> {
        let dtype = dtype::stored_dtype(data_type, NAME)?;
        let shape: Vec<u64> = shape.iter().map(|length| length.get()).collect();
        let nbytes = shape.iter().try_fold(dtype.itemsize() as u64, |size, &length| size.checked_mul(length));
        let nbytes = nbytes.filter(|&nbytes| nbytes <= MAX_CHUNK_LEN).ok_or_else(|| {
            CodecError::Other(format!(
                "{NAME}: chunks {shape:?} of {dtype} have more than {MAX_CHUNK_LEN} bytes"
            ))
        })?;
        Ok(Self { shape, data_type: data_type.clone(), fill_value: fill_value.clone(), dtype, nbytes })
    }

    /// Returns the maximum size of the chunk with its dimensions padded to multiples of the blocks.
    fn padded(&self) -> u64 {
        let double = |length: u64| length.saturating_mul(2).saturating_sub(1);
        self.shape
            .iter()
            .fold(self.dtype.itemsize() as u64, |size, &length| size.saturating_mul(double(length)))
    }

    /// Returns the maximum size of the frame of such a chunk. Nothing beyond it is requested.
    pub(crate) fn max_frame(&self) -> u64 {
        self.padded().saturating_mul(4).saturating_add(MAX_OVERHEAD)
    }

    /// Returns the read options. They limit the cost of a damaged chunk by the size of the chunk.
    pub(crate) fn read_options(&self, options: &CodecOptions) -> ReadOptions {
        let most = self.padded();
        let limits = Limits::default();
        let limits = limits
            .clone()
            .max_chunk_nbytes(most.min(limits.max_chunk_nbytes))
            .max_nchunks(self.shape.iter().fold(1, |n: u64, &length| n.saturating_mul(length)))
            .max_metadata(MAX_OVERHEAD)
            .max_output(most)
            .max_memory(most.saturating_mul(4).saturating_add(MAX_OVERHEAD).min(limits.max_memory));
        SuperChunk::options()
            .plugins(PLUGINS.clone())
            .limits(limits)
            .control(control(options))
            .checksums(options.validate_checksums())
    }

    /// Fails if an array does not have the shape and the type of this chunk.
    pub(crate) fn check(&self, array: &NdArray) -> Result<(), CodecError> {
        if array.shape() != self.shape {
            let (found, expected) = (array.shape(), &self.shape);
            let what = format!("{NAME}: the chunk has shape {found:?}, the metadata says {expected:?}");
            return Err(CodecError::Other(what));
        }
        if !dtype::is_same(array.dtype(), &self.dtype) {
            let (found, expected) = (array.dtype(), &self.dtype);
            return Err(CodecError::Other(format!(
                "{NAME}: the chunk has dtype {found}, expected {expected}"
            )));
        }
        Ok(())
    }

    /// Decodes all items of a chunk in memory.
    pub(crate) fn decode(&self, frame: Bytes, options: &CodecOptions) -> Result<Vec<u8>, CodecError> {
        let opened = self.read_options(options).from_bytes(frame).map_err(|error| failed(NAME, &error))?;
        let array = NdArray::from_super_chunk(opened).map_err(|error| failed(NAME, &error))?;
        self.check(&array)?;
        let mut items = self.zeroed(self.nbytes)?;
        let read = array.all().native().read_bytes_into(&mut items);
        read.map_err(|error| failed(NAME, &error))?;
        Ok(items)
    }

    /// Allocates zeroed items.
    pub(crate) fn zeroed(&self, nbytes: u64) -> Result<Vec<u8>, CodecError> {
        let len = usize::try_from(nbytes).unwrap_or(usize::MAX);
        b2_core::memory::zeroed(len).map_err(|error| failed(NAME, &error))
    }

    /// Returns the items of a missing chunk.
    pub(crate) fn fill_values(&self, nitems: u64) -> Result<ArrayBytes<'static>, CodecError> {
        Ok(ArrayBytes::new_fill_value(&self.data_type, nitems, &self.fill_value)?)
    }
}

/// Returns the number of threads for a call.
pub(crate) fn control(options: &CodecOptions) -> Control {
    Control::new().threads(options.concurrent_target())
}
