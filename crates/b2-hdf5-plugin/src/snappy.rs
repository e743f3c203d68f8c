//! Snappy, which only Blosc 1 has.

use b2_chunk::CodecId;
use b2_chunk::codecs::{Codec, CodecContext, CodecError, CodecProperties, Decoder, Encoder};

const ID: CodecId = CodecId::SNAPPY;

/// Reads snappy. Nothing writes it: C-Blosc2 has removed it, and Blosc 1 may be built without it.
#[derive(Debug)]
pub(crate) struct Snappy;

impl Codec for Snappy {
    fn id(&self) -> CodecId {
        ID
    }

    fn name(&self) -> &str {
        "snappy"
    }

    fn properties(&self) -> CodecProperties {
        CodecProperties::BYTES
    }

    fn encoder(&self, _: &CodecContext<'_>) -> Result<Box<dyn Encoder>, CodecError> {
        Err(CodecError::unsupported(ID, "compression"))
    }

    fn decoder(&self, _: &CodecContext<'_>) -> Result<Box<dyn Decoder>, CodecError> {
        Ok(Box::new(SnappyDecoder(snap::raw::Decoder::new())))
    }
}

struct SnappyDecoder(snap::raw::Decoder);

impl Decoder for SnappyDecoder {
    fn decode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<(), CodecError> {
        let failed = |error: snap::Error| CodecError::backend(ID, error.to_string());
        let len = snap::raw::decompress_len(src).map_err(failed)?;
        if len != dst.len() {
            return Err(CodecError::wrong_length(ID, len, dst.len()));
        }
        self.0.decompress(src, dst).map_err(failed)?;
        Ok(())
    }
}
