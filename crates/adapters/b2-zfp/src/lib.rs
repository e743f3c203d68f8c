#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

use std::sync::Arc;

use b2_codecs::{Codec, CodecContext, CodecError, CodecId, CodecProperties, Decoder, Encoded, Encoder};
use zfp_rs::{
    ZfpBitStream, ZfpConfig, ZfpDimensionality, ZfpField, ZfpFieldMut, ZfpHeaderMask, ZfpScalar,
    ZfpScalarType, ZfpStreamAlignment,
};

/// The zfp codec with an absolute error bound (codec 33).
#[derive(Clone, Copy, Debug, Default)]
pub struct FixedAccuracy;
/// The zfp codec with a fixed number of bits of precision (codec 34).
#[derive(Clone, Copy, Debug, Default)]
pub struct FixedPrecision;
/// The zfp codec with a fixed number of bits per item (codec 35).
#[derive(Clone, Copy, Debug, Default)]
pub struct FixedRate;

/// Returns all codecs, for `Plugins::with_codecs`.
pub fn codecs() -> [Arc<dyn Codec>; 3] {
    [Arc::new(FixedAccuracy), Arc::new(FixedPrecision), Arc::new(FixedRate)]
}

macro_rules! codec {
    ($type:ident, $id:expr, $name:literal) => {
        impl Codec for $type {
            fn id(&self) -> CodecId {
                $id
            }
            fn name(&self) -> &str {
                $name
            }
            fn properties(&self) -> CodecProperties {
                CodecProperties::UNKNOWN.takes_floats(true)
            }
            fn encoder(&self, cx: &CodecContext<'_>) -> Result<Box<dyn Encoder>, CodecError> {
                Ok(Box::new(StreamLayout::new($id, cx)?))
            }
            fn decoder(&self, cx: &CodecContext<'_>) -> Result<Box<dyn Decoder>, CodecError> {
                Ok(Box::new(StreamLayout::new($id, cx)?))
            }
        }
    };
}
codec!(FixedAccuracy, CodecId::ZFP_FIXED_ACCURACY, "zfp_acc");
codec!(FixedPrecision, CodecId::ZFP_FIXED_PRECISION, "zfp_prec");
codec!(FixedRate, CodecId::ZFP_FIXED_RATE, "zfp_rate");

/// The layout of a stream: one block without a zfp header; x is the last axis (docs/format/codecs-and-filters.md,
/// section 7.2).
struct StreamLayout {
    id: CodecId,
    config: ZfpConfig,
    scalar: ZfpScalarType,
    /// Length along each axis, from x on; 0 for unused axes.
    dims: [usize; 4],
    nbytes: u64,
}

impl StreamLayout {
    fn new(id: CodecId, cx: &CodecContext<'_>) -> Result<Self, CodecError> {
        let unsupported = |what| CodecError::unsupported(id, what);
        let scalar = match cx.itemsize {
            4 => ZfpScalarType::F32,
            8 => ZfpScalarType::F64,
            _ => return Err(unsupported("items other than floats of 4 or 8 bytes")),
        };
        let (dimensionality, guard_bits) = match cx.blockshape.len() {
            1 => (ZfpDimensionality::D1, 5),
            2 => (ZfpDimensionality::D2, 7),
            3 => (ZfpDimensionality::D3, 9),
            4 => (ZfpDimensionality::D4, 11),
            _ => return Err(unsupported("blocks with other than 1 to 4 dimensions")),
        };
        if cx.blockshape.iter().any(|&n| n < 4) {
            return Err(unsupported("blocks of fewer than 4 items along a dimension"));
        }
        let mut dims = [0; 4];
        for (dim, &n) in dims.iter_mut().zip(cx.blockshape.iter().rev()) {
            *dim = n as usize;
        }
        let nbytes = cx.blockshape.iter().fold(cx.itemsize as u64, |n, &b| n.saturating_mul(b.into()));
        let config = match id {
            CodecId::ZFP_FIXED_ACCURACY => {
                ZfpConfig::fixed_accuracy(10f64.powi(i32::from(cx.meta.cast_signed())))
            }
            CodecId::ZFP_FIXED_PRECISION => ZfpConfig::fixed_precision(u32::from(cx.meta) + guard_bits),
            _ => {
                let rate = f64::from(cx.meta) / 100.0 * 8.0 * cx.itemsize as f64;
                ZfpConfig::fixed_rate(rate, scalar, dimensionality, ZfpStreamAlignment::Unaligned)
                    .map_err(|e| CodecError::backend(id, e.to_string()))?
            }
        };
        Ok(Self { id, config, scalar, dims, nbytes })
    }

    fn itemsize(&self) -> u64 {
        match self.scalar {
            ZfpScalarType::I32 | ZfpScalarType::F32 => 4,
            ZfpScalarType::I64 | ZfpScalarType::F64 => 8,
        }
    }

    fn check_len(&self, len: usize) -> Result<(), CodecError> {
        if len as u64 != self.nbytes {
            let expected = usize::try_from(self.nbytes).unwrap_or(usize::MAX);
            return Err(CodecError::wrong_length(self.id, len, expected));
        }
        Ok(())
    }

    fn backend(&self, error: impl std::fmt::Display) -> CodecError {
        CodecError::backend(self.id, error.to_string())
    }

    fn decode_items<T: ZfpScalar + Default + Copy, const N: usize>(
        &self,
        src: &[u8],
        dst: &mut [u8],
        to_le: impl Fn(T) -> [u8; N],
    ) -> Result<usize, CodecError> {
        let mut items = Vec::new();
        items.try_reserve_exact(dst.len() / N).map_err(|e| self.backend(e))?;
        items.resize(dst.len() / N, T::default());
        let mut field = ZfpFieldMut::new(&mut items, self.dims).map_err(|e| self.backend(e))?;
        let mut stream = ZfpBitStream::from_words(words(src).map_err(|e| self.backend(e))?);
        let read = stream.decompress(&self.config, &mut field).map_err(|e| self.backend(e))?;
        for (out, item) in dst.as_chunks_mut::<N>().0.iter_mut().zip(items) {
            *out = to_le(item);
        }
        Ok(read)
    }

    /// Decodes a stream, and returns how many bytes of it were read.
    fn decode_stream(&self, src: &[u8], dst: &mut [u8]) -> Result<usize, CodecError> {
        self.check_len(dst.len())?;
        match self.scalar {
            ZfpScalarType::I32 => self.decode_items(src, dst, i32::to_le_bytes),
            ZfpScalarType::I64 => self.decode_items(src, dst, i64::to_le_bytes),
            ZfpScalarType::F32 => self.decode_items(src, dst, f32::to_le_bytes),
            ZfpScalarType::F64 => self.decode_items(src, dst, f64::to_le_bytes),
        }
    }

    fn encode_items<T: ZfpScalar, const N: usize>(
        &self,
        src: &[u8],
        dst: &mut [u8],
        from_le: impl Fn([u8; N]) -> T,
    ) -> Result<Encoded, CodecError> {
        let items: Vec<T> = src.as_chunks::<N>().0.iter().map(|item| from_le(*item)).collect();
        let field = ZfpField::new(&items, self.dims).map_err(|e| self.backend(e))?;
        let capacity = self.config.maximum_size(self.scalar, self.dims);
        let capacity = capacity.ok_or_else(|| self.backend("the block is too large"))?;
        let mut stream = ZfpBitStream::new(capacity).map_err(|e| self.backend(e))?;
        let len = stream.compress(&self.config, &field).map_err(|e| self.backend(e))?;
        let words = stream.as_words();
        let Some(out) = dst.get_mut(..len).filter(|out| out.len().div_ceil(WORD_LEN) <= words.len()) else {
            return Ok(Encoded::TooBig);
        };
        for (out, word) in out.chunks_mut(WORD_LEN).zip(words) {
            out.copy_from_slice(&word.to_le_bytes()[..out.len()]);
        }
        Ok(Encoded::Len(len))
    }
}

/// Bytes per word. Streams consist of words stored as little-endian; the Rust zfp library, like zfp in C, holds them in
/// the machine's byte order.
const WORD_LEN: usize = 8;

/// Reads the words of a stream, padding the last one with zeros.
fn words(src: &[u8]) -> Result<Vec<u64>, std::collections::TryReserveError> {
    let mut words = Vec::new();
    words.try_reserve_exact(src.len().div_ceil(WORD_LEN))?;
    words.extend(src.chunks(WORD_LEN).map(|bytes| {
        let mut word = [0; WORD_LEN];
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(word)
    }));
    Ok(words)
}

impl Encoder for StreamLayout {
    fn encode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<Encoded, CodecError> {
        if src.len() as u64 != self.nbytes {
            // The block is incomplete: the caller stores it uncompressed.
            return Ok(Encoded::TooBig);
        }
        match self.scalar {
            ZfpScalarType::F64 => self.encode_items(src, dst, f64::from_le_bytes),
            _ => self.encode_items(src, dst, f32::from_le_bytes),
        }
    }
}

impl Decoder for StreamLayout {
    fn decode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<(), CodecError> {
        self.decode_stream(src, dst).map(|_| ())
    }
}

/// zfp's header: the type and the shape of the items, and the mode. HDF5's filter 32013 stores it apart from the streams.
pub struct Header(StreamLayout);

impl std::fmt::Debug for Header {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Header")
            .field("config", &self.0.config)
            .field("dims", &self.0.dims)
            .finish_non_exhaustive()
    }
}

impl Header {
    /// Parses a header. `None` if it is malformed or of another version of the format than 5.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let found = ZfpBitStream::from_words(words(bytes).ok()?).read_header(ZfpHeaderMask::FULL).ok()?;
        if found.bits_read > bytes.len().checked_mul(8)? {
            return None;
        }
        let (items, config) = (found.metadata?, found.config?);
        // The errors of streams, which have it, are not returned.
        let id = CodecId::ZFP_FIXED_PRECISION;
        let mut layout = StreamLayout { id, config, scalar: items.scalar_type, dims: items.dims, nbytes: 0 };
        let used = items.dims.iter().filter(|&&length| length > 0);
        layout.nbytes = used.fold(layout.itemsize(), |n, &length| n.saturating_mul(length as u64));
        Some(Self(layout))
    }

    /// Returns the size of an item, in bytes.
    pub fn itemsize(&self) -> usize {
        self.0.itemsize() as usize
    }

    /// Returns the size of the decoded items, in bytes.
    pub fn nbytes(&self) -> u64 {
        self.0.nbytes
    }

    /// Returns the maximum size of a stream, in bytes; `None` if it does not fit into memory.
    pub fn maximum_size(&self) -> Option<usize> {
        self.0.config.maximum_size(self.0.scalar, self.0.dims)
    }

    /// Decodes a stream to little-endian items, which fill `dst`. `None` if it is shorter or longer than the items need, in words of
    /// 8 bytes, or if `dst` has another size than [`nbytes`](Self::nbytes).
    pub fn decode(&self, src: &[u8], dst: &mut [u8]) -> Option<()> {
        let read = self.0.decode_stream(src, dst).ok()?;
        (read.div_ceil(WORD_LEN) == src.len().div_ceil(WORD_LEN)).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks only the words, on any machine. Testing whole streams in big-endian order needs such a machine.
    #[test]
    fn words_are_little_endian() {
        assert_eq!(words(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]).unwrap(), [0x0807_0605_0403_0201, 0x0A09]);
        assert_eq!(words(&[]).unwrap(), [0; 0]);
    }
}
