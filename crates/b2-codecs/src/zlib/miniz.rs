//! zlib through `miniz_oxide`: one RFC 1950 stream per Blosc stream, without any unsafe code.

use super::{PROPERTIES, level, malformed, wrong_length};
use crate::{Codec, CodecContext, CodecError, CodecId, CodecProperties, Decoder, Encoded, Encoder};
use miniz_oxide::DataFormat;
use miniz_oxide::deflate::core::{CompressionStrategy, CompressorOxide, TDEFLFlush, TDEFLStatus, compress};
use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::{DecompressorOxide, decompress, inflate_flags};

/// The zlib codec over the `miniz_oxide` crate (feature `miniz_oxide`). The compression level is the clevel.
#[derive(Clone, Copy, Debug, Default)]
pub struct ZlibMiniz;

impl Codec for ZlibMiniz {
    fn id(&self) -> CodecId {
        CodecId::ZLIB
    }
    fn name(&self) -> &str {
        "zlib"
    }
    fn properties(&self) -> CodecProperties {
        PROPERTIES
    }
    fn encoder(&self, cx: &CodecContext<'_>) -> Result<Box<dyn Encoder>, CodecError> {
        crate::codec::may_encode(self.id())?;
        cx.refuse_dict(self.id())?;
        let state =
            CompressorOxide::with_params(DataFormat::Zlib, level(cx), CompressionStrategy::Default, 15);
        Ok(Box::new(MinizEncoder(Box::new(state))))
    }
    fn decoder(&self, cx: &CodecContext<'_>) -> Result<Box<dyn Decoder>, CodecError> {
        cx.refuse_dict(self.id())?;
        Ok(Box::new(MinizDecoder(Box::default())))
    }
}

struct MinizEncoder(Box<CompressorOxide>);

impl Encoder for MinizEncoder {
    fn encode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<Encoded, CodecError> {
        self.0.reset();
        match compress(&mut self.0, src, dst, TDEFLFlush::Finish) {
            (TDEFLStatus::Done, _, written) => Ok(Encoded::Len(written)),
            (TDEFLStatus::Okay, ..) => Ok(Encoded::TooBig),
            (status, ..) => {
                Err(CodecError::Backend { codec: CodecId::ZLIB, message: format!("deflate: {status:?}") })
            }
        }
    }
}

struct MinizDecoder(Box<DecompressorOxide>);

impl Decoder for MinizDecoder {
    fn decode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<(), CodecError> {
        // The header flag includes the check of the Adler-32.
        let flags = inflate_flags::TINFL_FLAG_PARSE_ZLIB_HEADER
            | inflate_flags::TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF;
        self.0.init();
        let (status, read, written) = decompress(&mut self.0, src, dst, 0, flags);
        match status {
            // Bytes after the end of the stream are ignored, as in C.
            TINFLStatus::Done if written == dst.len() => Ok(()),
            TINFLStatus::Done => Err(wrong_length(written, dst)),
            TINFLStatus::HasMoreOutput => Err(wrong_length(written.saturating_add(1), dst)),
            TINFLStatus::FailedCannotMakeProgress => Err(malformed(read, "stream is truncated")),
            TINFLStatus::Adler32Mismatch => Err(malformed(read, "checksum does not match")),
            _ => Err(malformed(read, "not a zlib stream")),
        }
    }
}
