//! zlib through `zlib-rs`: one RFC 1950 stream per Blosc stream, state reused.

use crate::zlib_common::{level, malformed, refuse_dict, wrong_length};
use crate::{Codec, CodecContext, CodecError, CodecId, Decoder, Encoded, Encoder};
use zlib_rs::{Deflate, DeflateFlush, Inflate, InflateFlush, Status};

/// Window of 32 KiB, the largest and what C uses.
const WINDOW_BITS: u8 = 15;

/// The zlib codec over the `zlib-rs` crate (feature `zlib-rs`). The level is the clevel.
#[derive(Clone, Copy, Debug, Default)]
pub struct Zlib;

impl Codec for Zlib {
    fn id(&self) -> CodecId {
        CodecId::ZLIB
    }
    fn name(&self) -> &str {
        "zlib"
    }
    fn encoder(&self, cx: &CodecContext<'_>) -> Result<Box<dyn Encoder>, CodecError> {
        refuse_dict(cx)?;
        Ok(Box::new(ZlibEncoder(Deflate::new(i32::from(level(cx)), true, WINDOW_BITS))))
    }
    fn decoder(&self, cx: &CodecContext<'_>) -> Result<Box<dyn Decoder>, CodecError> {
        refuse_dict(cx)?;
        Ok(Box::new(ZlibDecoder(Inflate::new(true, WINDOW_BITS))))
    }
}

struct ZlibEncoder(Deflate);

impl Encoder for ZlibEncoder {
    fn encode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<Encoded, CodecError> {
        let state = &mut self.0;
        state.reset();
        match state.compress(src, dst, DeflateFlush::Finish) {
            // The library takes at most 4 GiB in one call.
            Ok(Status::StreamEnd) if state.total_in() == src.len() as u64 => {
                Ok(Encoded::Len(state.total_out() as usize))
            }
            Ok(_) => Ok(Encoded::TooBig),
            Err(error) => {
                Err(CodecError::Backend { codec: CodecId::ZLIB, message: format!("deflate: {error:?}") })
            }
        }
    }
}

struct ZlibDecoder(Inflate);

impl Decoder for ZlibDecoder {
    fn decode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<(), CodecError> {
        let state = &mut self.0;
        state.reset(true);
        let status = state.decompress(src, dst, InflateFlush::Finish);
        let (read, written) = (state.total_in() as usize, state.total_out() as usize);
        match status {
            // The end of the stream comes with a checked Adler-32. Bytes behind it are ignored, as in C.
            Ok(Status::StreamEnd) if written == dst.len() => Ok(()),
            Ok(Status::StreamEnd) => Err(wrong_length(written, dst)),
            Ok(_) if read < src.len() => Err(wrong_length(written.saturating_add(1), dst)),
            Ok(_) => Err(malformed(read, "stream is cut off")),
            Err(_) => Err(malformed(read, state.error_message().unwrap_or("not a zlib stream"))),
        }
    }
}
