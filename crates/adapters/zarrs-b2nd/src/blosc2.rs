//! The codec `b2kit.blosc2`: bytes as a Blosc2 chunk.

use std::borrow::Cow;
use std::sync::Arc;

use b2_chunk::{Chunk, DParams};
use b2_core::{Limits, memory};
use bytes::Bytes;
use serde_json::Value;
use zarrs_codec::{
    ArrayBytesRaw, BytesRepresentation, BytesToBytesCodecTraits, Codec, CodecError, CodecMetadataOptions,
    CodecOptions, CodecPluginV3, CodecTraits, CodecTraitsV3, InvalidBytesLengthError,
    PartialDecoderCapability, PartialEncoderCapability, RecommendedConcurrency,
};
use zarrs_metadata::Configuration;
use zarrs_metadata::v3::MetadataV3;
use zarrs_plugin::{ExtensionName, PluginCreateError, ZarrVersion};

use crate::chunk::control;
use crate::options::{Options, PLUGINS, failed, name};
use crate::{aliases, setters};

/// The name of the codec in the metadata.
const NAME: &str = "b2kit.blosc2";
/// The name of the same payload in imagecodecs.
const IMAGECODECS_NAME: &str = "imagecodecs_blosc2";
/// The configuration member specific to this codec, here and in imagecodecs.
const OWN_MEMBER: [&str; 2] = ["typesize", "typesize"];
/// Maximum excess of a chunk over its items: its header, before items that do not compress.
const HEADER_LEN: u64 = 32;

/// Compresses bytes into a Blosc2 chunk (`b2kit.blosc2`), after another codec.
///
/// Such chunks are always read whole; for partial reads, use [`B2ndCodec`](crate::B2ndCodec). They have no checksums.
///
/// ```
/// use std::sync::Arc;
/// use zarrs::array::{ArrayBuilder, data_type};
/// use zarrs::storage::store::MemoryStore;
/// use zarrs_b2nd::Blosc2Codec;
///
/// let array = ArrayBuilder::new(vec![1000], vec![100], data_type::uint16(), 0u16)
///     .bytes_to_bytes_codecs(vec![Arc::new(Blosc2Codec::new().typesize(2))])
///     .build(Arc::new(MemoryStore::new()), "/line")?;
/// array.store_chunk(&[3], (0..100u16).collect::<Vec<_>>())?;
/// assert_eq!(array.retrieve_array_subset::<Vec<u16>>(&[298..302])?, [0, 0, 0, 1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blosc2Codec {
    options: Options,
    typesize: Option<u8>,
}

impl Blosc2Codec {
    /// Creates the codec with the defaults: zstd level 5 after shuffle.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    setters!();

    /// Sets the size of an item in bytes, for filters such as shuffle; 0 counts as 1. zarrs does not pass the item type
    /// to this codec, so by default items are bytes, and shuffle does nothing.
    #[must_use]
    pub fn typesize(mut self, typesize: u8) -> Self {
        self.typesize = Some(typesize.max(1));
        self
    }
}

aliases!(Blosc2Codec, NAME, IMAGECODECS_NAME);

inventory::submit! {
    CodecPluginV3::new::<Blosc2Codec>()
}

impl CodecTraitsV3 for Blosc2Codec {
    fn create(metadata: &MetadataV3) -> Result<Codec, PluginCreateError> {
        let configuration = metadata.configuration().map(|configuration| configuration.clone().into());
        let imagecodecs = metadata.name() == IMAGECODECS_NAME;
        let (options, typesize) =
            Options::parse(metadata.name(), imagecodecs, configuration.as_ref(), OWN_MEMBER)?;
        let typesize = match typesize {
            Value::Null => None,
            typesize => {
                let size =
                    typesize.as_u64().and_then(|size| u8::try_from(size).ok()).filter(|&size| size > 0);
                Some(size.ok_or_else(|| {
                    PluginCreateError::Other(format!("codec {NAME}: typesize {typesize}, expected 1 to 255"))
                })?)
            }
        };
        Ok(Codec::BytesToBytes(Arc::new(Self { options, typesize })))
    }
}

impl ExtensionName for Blosc2Codec {
    fn name(&self, version: ZarrVersion) -> Option<Cow<'static, str>> {
        (version == ZarrVersion::V3).then(|| name(&self.options, NAME, IMAGECODECS_NAME))
    }
}

impl CodecTraits for Blosc2Codec {
    fn as_any(&self) -> &dyn std::any::Any {
        self
    }

    fn configuration(&self, version: ZarrVersion, _: &CodecMetadataOptions) -> Option<Configuration> {
        if version != ZarrVersion::V3 {
            return None;
        }
        let mut configuration = self.options.configuration();
        if let Some(typesize) = self.typesize {
            configuration.insert(OWN_MEMBER[0].into(), typesize.into());
        }
        Some(configuration.into())
    }

    fn partial_decoder_capability(&self) -> PartialDecoderCapability {
        PartialDecoderCapability { partial_read: false, partial_decode: false }
    }

    fn partial_encoder_capability(&self) -> PartialEncoderCapability {
        PartialEncoderCapability { partial_encode: false }
    }
}

#[cfg_attr(all(feature = "async", target_arch = "wasm32"), async_trait::async_trait(?Send))]
#[cfg_attr(all(feature = "async", not(target_arch = "wasm32")), async_trait::async_trait)]
impl BytesToBytesCodecTraits for Blosc2Codec {
    fn into_dyn(self: Arc<Self>) -> Arc<dyn BytesToBytesCodecTraits> {
        self
    }

    fn recommended_concurrency(&self, _: &BytesRepresentation) -> Result<RecommendedConcurrency, CodecError> {
        Ok(RecommendedConcurrency::new_minimum(1))
    }

    fn encoded_representation(&self, decoded: &BytesRepresentation) -> BytesRepresentation {
        match decoded.size() {
            Some(size) => BytesRepresentation::BoundedSize(size.saturating_add(HEADER_LEN)),
            None => BytesRepresentation::UnboundedSize,
        }
    }

    fn encode<'a>(
        &self,
        decoded: ArrayBytesRaw<'a>,
        options: &CodecOptions,
    ) -> Result<ArrayBytesRaw<'a>, CodecError> {
        let compression = self.options.compression()?.itemsize(self.typesize.unwrap_or(1).into());
        let cparams = compression.control(control(options)).build().map_err(|error| failed(NAME, &error))?;
        let chunk = Chunk::compress_bytes(&decoded, &cparams).map_err(|error| failed(NAME, &error))?;
        Ok(Cow::Owned(chunk.into_bytes().into()))
    }

    fn decode<'a>(
        &self,
        encoded: ArrayBytesRaw<'a>,
        decoded: &BytesRepresentation,
        options: &CodecOptions,
    ) -> Result<ArrayBytesRaw<'a>, CodecError> {
        let chunk =
            Chunk::from_bytes(Bytes::from(encoded.into_owned())).map_err(|error| failed(NAME, &error))?;
        let nbytes = chunk.nbytes();
        let mut limits = Limits::default();
        // Check the claimed size before allocating.
        match decoded {
            BytesRepresentation::FixedSize(size) if nbytes as u64 != *size => {
                let expected = usize::try_from(*size).unwrap_or(usize::MAX);
                return Err(InvalidBytesLengthError::new(nbytes, expected).into());
            }
            BytesRepresentation::BoundedSize(size) if nbytes as u64 > *size => {
                let expected = usize::try_from(*size).unwrap_or(usize::MAX);
                return Err(InvalidBytesLengthError::new(nbytes, expected).into());
            }
            _ => {
                let fits = limits.check_output(nbytes as u64, chunk.cbytes() as u64);
                fits.map_err(|error| failed(NAME, &error))?;
            }
        }
        limits = limits.max_memory((nbytes as u64).saturating_mul(4).saturating_add(16 << 20));
        let dparams = DParams::default().plugins(PLUGINS.clone()).limits(limits).control(control(options));
        let mut plain = memory::zeroed(nbytes).map_err(|error| failed(NAME, &error))?;
        chunk.decompress_bytes_into(&mut plain, &dparams).map_err(|error| failed(NAME, &error))?;
        Ok(Cow::Owned(plain))
    }
}
