//! The codec `b2kit.b2nd`: a Zarr chunk as a Blosc2 array.

use std::borrow::Cow;
use std::num::NonZeroU64;
use std::sync::Arc;

use b2nd::ArrayBuilder;
use bytes::Bytes;
use serde_json::Value;
use zarrs_codec::{
    ArrayBytes, ArrayBytesRaw, ArrayCodecTraits, ArrayPartialDecoderTraits, ArrayToBytesCodecTraits,
    BytesPartialDecoderTraits, BytesRepresentation, Codec, CodecError, CodecMetadataOptions, CodecOptions,
    CodecPluginV3, CodecTraits, CodecTraitsV3, InvalidBytesLengthError, PartialDecoderCapability,
    PartialEncoderCapability, RecommendedConcurrency,
};
#[cfg(feature = "async")]
use zarrs_codec::{AsyncArrayPartialDecoderTraits, AsyncBytesPartialDecoderTraits};
use zarrs_data_type::{DataType, FillValue};
use zarrs_metadata::v3::MetadataV3;
use zarrs_metadata::{ChunkShape, Configuration};
use zarrs_plugin::{ExtensionName, PluginCreateError, ZarrVersion};

use crate::chunk::{ZarrChunk, control};
use crate::options::{B2ND as NAME, Options, failed, name};
use crate::{aliases, partial, setters};

/// The name of the same payload in imagecodecs.
const IMAGECODECS_NAME: &str = "imagecodecs_b2nd";
/// The configuration member specific to this codec, here and in imagecodecs.
const OWN_MEMBER: [&str; 2] = ["blocks", "blockshape"];
/// Assumed block size in bytes if no shape is given.
const ASSUMED_BLOCK_LEN: u64 = 64 << 10;

/// Stores a Zarr chunk as a Blosc2 array (`b2kit.b2nd`), so that a selection fetches and decodes only the blocks that
/// it touches.
///
/// It replaces the codecs `bytes` and `sharding_indexed`. It compresses, so no other codec is needed around it.
///
/// ```
/// use std::sync::Arc;
/// use zarrs::array::{ArrayBuilder, data_type};
/// use zarrs::storage::store::MemoryStore;
/// use zarrs_b2nd::B2ndCodec;
///
/// let codec = B2ndCodec::new().codec("lz4").blocks([25, 25]);
/// let array = ArrayBuilder::new(vec![200, 300], vec![100, 100], data_type::float32(), 0.0f32)
///     .array_to_bytes_codec(Arc::new(codec))
///     .build(Arc::new(MemoryStore::new()), "/field")?;
/// array.store_chunk(&[1, 2], (0..10_000).map(|i| i as f32).collect::<Vec<_>>())?;
///
/// let corner: Vec<f32> = array.retrieve_array_subset(&[100..102, 299..300])?;
/// assert_eq!(corner, [99.0, 199.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct B2ndCodec {
    options: Options,
    blocks: Option<Vec<u32>>,
}

impl B2ndCodec {
    /// Creates the codec with the defaults: zstd level 5 after shuffle, and blocks of a shape chosen by the writer.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    setters!();

    /// Sets the shape of the blocks in items. A block is the smallest unit that is read; 32 KiB to 256 KiB work well.
    /// Lengths are limited to those of the chunk, and 0 counts as 1.
    #[must_use]
    pub fn blocks(mut self, blocks: impl Into<Vec<u32>>) -> Self {
        self.blocks = Some(blocks.into().into_iter().map(|length| length.max(1)).collect());
        self
    }

    /// Parses the blocks of the configuration.
    fn parse_blocks(name: &str, blocks: Value) -> Result<Option<Vec<u32>>, PluginCreateError> {
        let invalid = || {
            PluginCreateError::Other(format!(
                "codec {name}: blocks are {blocks}, expected lengths of at least 1"
            ))
        };
        let lengths = match &blocks {
            Value::Null => return Ok(None),
            Value::Number(_) => std::slice::from_ref(&blocks),
            Value::Array(lengths) => lengths,
            _ => return Err(invalid()),
        };
        let length = |length: &Value| {
            let length = u32::try_from(length.as_u64()?).ok()?;
            (length > 0).then_some(length)
        };
        lengths.iter().map(length).collect::<Option<Vec<_>>>().map(Some).ok_or_else(invalid)
    }

    /// Returns the shape of the blocks in a chunk, if specified.
    fn blocks_in(&self, shape: &[u64]) -> Result<Option<Vec<u32>>, CodecError> {
        let Some(blocks) = &self.blocks else { return Ok(None) };
        if blocks.len() != shape.len() {
            let what = format!("{NAME}: blocks {blocks:?} for an array of {} dimensions", shape.len());
            return Err(CodecError::Other(what));
        }
        let within = |(&block, &length): (&u32, &u64)| block.min(u32::try_from(length).unwrap_or(u32::MAX));
        Ok(Some(blocks.iter().zip(shape).map(within).collect()))
    }
}

aliases!(B2ndCodec, NAME, IMAGECODECS_NAME);

inventory::submit! {
    CodecPluginV3::new::<B2ndCodec>()
}

impl CodecTraitsV3 for B2ndCodec {
    fn create(metadata: &MetadataV3) -> Result<Codec, PluginCreateError> {
        let configuration = metadata.configuration().map(|configuration| configuration.clone().into());
        let imagecodecs = metadata.name() == IMAGECODECS_NAME;
        let (options, blocks) =
            Options::parse(metadata.name(), imagecodecs, configuration.as_ref(), OWN_MEMBER)?;
        let blocks = Self::parse_blocks(metadata.name(), blocks)?;
        Ok(Codec::ArrayToBytes(Arc::new(Self { options, blocks })))
    }
}

impl ExtensionName for B2ndCodec {
    fn name(&self, version: ZarrVersion) -> Option<Cow<'static, str>> {
        (version == ZarrVersion::V3).then(|| name(&self.options, NAME, IMAGECODECS_NAME))
    }
}

impl CodecTraits for B2ndCodec {
    fn as_any(&self) -> &dyn std::any::Any {
        self
    }

    fn configuration(&self, version: ZarrVersion, _: &CodecMetadataOptions) -> Option<Configuration> {
        if version != ZarrVersion::V3 {
            return None;
        }
        let mut configuration = self.options.configuration();
        if let Some(blocks) = &self.blocks {
            configuration
                .insert(OWN_MEMBER[usize::from(self.options.imagecodecs)].into(), blocks.clone().into());
        }
        Some(configuration.into())
    }

    fn partial_decoder_capability(&self) -> PartialDecoderCapability {
        PartialDecoderCapability { partial_read: true, partial_decode: true }
    }

    fn partial_encoder_capability(&self) -> PartialEncoderCapability {
        PartialEncoderCapability { partial_encode: false }
    }
}

impl ArrayCodecTraits for B2ndCodec {
    fn recommended_concurrency(
        &self,
        shape: &[NonZeroU64],
        data_type: &DataType,
    ) -> Result<RecommendedConcurrency, CodecError> {
        let chunk = ZarrChunk::new(shape, data_type, &FillValue::new(Vec::new()))?;
        // Threads share the work block by block.
        let nblocks = match self.blocks_in(&chunk.shape)? {
            Some(blocks) => {
                let along =
                    chunk.shape.iter().zip(&blocks).map(|(length, &block)| length.div_ceil(block.into()));
                along.fold(1, |n: u64, along| n.saturating_mul(along))
            }
            None => chunk.nbytes.div_ceil(ASSUMED_BLOCK_LEN),
        };
        Ok(RecommendedConcurrency::new_maximum(usize::try_from(nblocks).unwrap_or(usize::MAX)))
    }

    fn partial_decode_granularity(&self, shape: &[NonZeroU64]) -> ChunkShape {
        match &self.blocks {
            Some(blocks) if blocks.len() == shape.len() => {
                let within = |(&length, &block): (&NonZeroU64, &u32)| {
                    NonZeroU64::new(block.into()).map_or(length, |b| b.min(length))
                };
                shape.iter().zip(blocks).map(within).collect()
            }
            _ => shape.to_vec(),
        }
    }
}

#[cfg_attr(all(feature = "async", target_arch = "wasm32"), async_trait::async_trait(?Send))]
#[cfg_attr(all(feature = "async", not(target_arch = "wasm32")), async_trait::async_trait)]
impl ArrayToBytesCodecTraits for B2ndCodec {
    fn into_dyn(self: Arc<Self>) -> Arc<dyn ArrayToBytesCodecTraits> {
        self
    }

    fn encoded_representation(
        &self,
        shape: &[NonZeroU64],
        data_type: &DataType,
        fill_value: &FillValue,
    ) -> Result<BytesRepresentation, CodecError> {
        let chunk = ZarrChunk::new(shape, data_type, fill_value)?;
        self.blocks_in(&chunk.shape)?;
        Ok(BytesRepresentation::UnboundedSize)
    }

    fn encode<'a>(
        &self,
        bytes: ArrayBytes<'a>,
        shape: &[NonZeroU64],
        data_type: &DataType,
        fill_value: &FillValue,
        options: &CodecOptions,
    ) -> Result<ArrayBytesRaw<'a>, CodecError> {
        let chunk = ZarrChunk::new(shape, data_type, fill_value)?;
        let items = bytes.into_fixed()?;
        let expected = usize::try_from(chunk.nbytes).unwrap_or(usize::MAX);
        if items.len() != expected {
            return Err(InvalidBytesLengthError::new(items.len(), expected).into());
        }
        // Lengths are below the maximum chunk size, so below 2^31.
        let lengths: Vec<u32> = chunk.shape.iter().map(|&length| length as u32).collect();
        let mut builder = ArrayBuilder::of_dtype(chunk.shape.clone(), chunk.dtype.clone())
            .chunks(lengths)
            .compression(self.options.compression()?)
            .control(control(options));
        if let Some(blocks) = self.blocks_in(&chunk.shape)? {
            builder = builder.blocks(blocks);
        }
        let frame = builder.to_bytes(&items[..]).map_err(|error| failed(NAME, &error))?;
        Ok(Cow::Owned(frame.into()))
    }

    fn decode<'a>(
        &self,
        bytes: ArrayBytesRaw<'a>,
        shape: &[NonZeroU64],
        data_type: &DataType,
        fill_value: &FillValue,
        options: &CodecOptions,
    ) -> Result<ArrayBytes<'a>, CodecError> {
        let chunk = ZarrChunk::new(shape, data_type, fill_value)?;
        Ok(ArrayBytes::new_flen(chunk.decode(Bytes::from(bytes.into_owned()), options)?))
    }

    fn partial_decoder(
        self: Arc<Self>,
        input_handle: Arc<dyn BytesPartialDecoderTraits>,
        shape: &[NonZeroU64],
        data_type: &DataType,
        fill_value: &FillValue,
        _: &CodecOptions,
    ) -> Result<Arc<dyn ArrayPartialDecoderTraits>, CodecError> {
        let chunk = ZarrChunk::new(shape, data_type, fill_value)?;
        Ok(partial::blocking(input_handle, chunk, self.blocks.as_deref()))
    }

    #[cfg(feature = "async")]
    async fn async_partial_decoder(
        self: Arc<Self>,
        input_handle: Arc<dyn AsyncBytesPartialDecoderTraits>,
        shape: &[NonZeroU64],
        data_type: &DataType,
        fill_value: &FillValue,
        _: &CodecOptions,
    ) -> Result<Arc<dyn AsyncArrayPartialDecoderTraits>, CodecError> {
        let chunk = ZarrChunk::new(shape, data_type, fill_value)?;
        Ok(partial::asynchronous(input_handle, chunk, self.blocks.as_deref()))
    }
}
