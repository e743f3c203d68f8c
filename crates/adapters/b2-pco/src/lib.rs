#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

use std::ops::Range;

use b2_codecs::{Codec, CodecContext, CodecError, CodecId, CodecProperties, Decoder, Encoded, Encoder};
use pco::data_types::Number;
use pco::wrapped::{FileCompressor, FileDecompressor};
use pco::{ChunkConfig, FULL_BATCH_N, PagingSpec};

const ID: CodecId = CodecId::PCO;

/// The codec `pco` (id 217), lossless, for items of 2, 4, 8 and 16 bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pco;

impl Codec for Pco {
    fn id(&self) -> CodecId {
        ID
    }

    fn name(&self) -> &str {
        "pco"
    }

    fn properties(&self) -> CodecProperties {
        CodecProperties::BYTES.takes_numbers(true).long_windows(true)
    }

    fn encoder(&self, cx: &CodecContext<'_>) -> Result<Box<dyn Encoder>, CodecError> {
        let candidates = Type::candidates(cx.itemsize, cx.meta)?;
        Ok(Box::new(PcoEncoder { candidates, level: usize::from(cx.level) + 3 }))
    }

    fn decoder(&self, _: &CodecContext<'_>) -> Result<Box<dyn Decoder>, CodecError> {
        Ok(Box::new(PcoDecoder))
    }
}

/// How many bytes precede pcodec's own: the type, and the count of the numbers as u32
/// (docs/format/codecs-and-filters.md, section 7.4).
const HEADER_LEN: usize = 5;

/// How the bytes of a block are interpreted. It is the first byte of the stream.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Type {
    I16 = 0x02,
    I32 = 0x04,
    I64 = 0x08,
    F32 = 0x14,
    F64 = 0x18,
}

impl Type {
    /// Returns the types to choose from for items of a size. `meta` is the codec's parameter: 0 for any, 1 for integers, 2
    /// for floats.
    fn candidates(itemsize: usize, meta: u8) -> Result<&'static [Self], CodecError> {
        let both: &[Self] = match itemsize {
            2 => return Ok(&[Self::I16]),
            4 => &[Self::I32, Self::F32],
            // Complex numbers are pairs of floats.
            8 | 16 => &[Self::I64, Self::F64],
            _ => return Err(CodecError::unsupported(ID, "items of other than 2, 4, 8 or 16 bytes")),
        };
        match meta {
            0 => Ok(both),
            1 => Ok(&both[..1]),
            2 => Ok(&both[1..]),
            _ => Err(CodecError::unsupported(ID, "a parameter above 2")),
        }
    }

    fn from_byte(byte: u8) -> Option<Self> {
        [Self::I16, Self::I32, Self::I64, Self::F32, Self::F64].into_iter().find(|t| *t as u8 == byte)
    }

    /// Bytes per number.
    fn width(self) -> usize {
        usize::from(self as u8 & 0x0F)
    }

    fn encode(self, src: &[u8], level: usize, dst: &mut [u8]) -> Result<Encoded, CodecError> {
        match self {
            Self::I16 => encode(self, src, i16::from_le_bytes, level, dst),
            Self::I32 => encode(self, src, i32::from_le_bytes, level, dst),
            Self::I64 => encode(self, src, i64::from_le_bytes, level, dst),
            Self::F32 => encode(self, src, f32::from_le_bytes, level, dst),
            Self::F64 => encode(self, src, f64::from_le_bytes, level, dst),
        }
    }

    fn decode(self, stream: &[u8], dst: &mut [u8], len: usize) -> Result<(), CodecError> {
        match self {
            Self::I16 => decode(self, stream, i16::to_le_bytes, dst, len),
            Self::I32 => decode(self, stream, i32::to_le_bytes, dst, len),
            Self::I64 => decode(self, stream, i64::to_le_bytes, dst, len),
            Self::F32 => decode(self, stream, f32::to_le_bytes, dst, len),
            Self::F64 => decode(self, stream, f64::to_le_bytes, dst, len),
        }
    }
}

struct PcoEncoder {
    /// The types to choose from; at least one.
    candidates: &'static [Type],
    /// pcodec's level.
    level: usize,
}

struct PcoDecoder;

/// Length of the sample by which a type is chosen, in bytes.
const SAMPLE_LEN: usize = 16 << 10;

impl Encoder for PcoEncoder {
    fn encode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<Encoded, CodecError> {
        let Some(&first) =
            self.candidates.first().filter(|t| !src.is_empty() && src.len().is_multiple_of(t.width()))
        else {
            return Ok(Encoded::TooBig);
        };
        let mut best = (first, usize::MAX);
        if self.candidates.len() > 1 {
            let sample = sample(src.len(), first.width());
            let mut scratch = vec![0; sample.len() + 1024];
            for &candidate in self.candidates {
                if let Encoded::Len(len) = candidate.encode(&src[sample.clone()], self.level, &mut scratch)?
                    && len < best.1
                {
                    best = (candidate, len);
                }
            }
        }
        best.0.encode(src, self.level, dst)
    }
}

impl Decoder for PcoDecoder {
    fn decode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<(), CodecError> {
        let len = dst.len();
        self.decode_start(src, dst, len)
    }

    fn decode_start(&mut self, src: &[u8], dst: &mut [u8], len: usize) -> Result<(), CodecError> {
        let (&[byte, ref n @ ..], stream) =
            src.split_first_chunk::<HEADER_LEN>().ok_or(CodecError::malformed(ID, 0, "truncated header"))?;
        let number = Type::from_byte(byte).ok_or(CodecError::malformed(ID, 0, "unknown type of numbers"))?;
        let encoded_len = (u32::from_le_bytes(*n) as usize).saturating_mul(number.width());
        if encoded_len != len || dst.len() > len {
            return Err(CodecError::wrong_length(ID, encoded_len, len.max(dst.len())));
        }
        number.decode(stream, dst, len)
    }
}

/// Returns the range of the sample in the middle of `len` bytes.
fn sample(len: usize, width: usize) -> Range<usize> {
    let start = len.saturating_sub(SAMPLE_LEN) / 2 / width * width;
    start..(start + SAMPLE_LEN).min(len)
}

fn backend(error: pco::errors::PcoError) -> CodecError {
    CodecError::backend(ID, error.to_string())
}

fn encode<T: Number, const N: usize>(
    number: Type,
    src: &[u8],
    from_le: impl Fn([u8; N]) -> T,
    level: usize,
    dst: &mut [u8],
) -> Result<Encoded, CodecError> {
    let items: Vec<T> = src.as_chunks::<N>().0.iter().map(|item| from_le(*item)).collect();
    let config = ChunkConfig::default()
        .with_compression_level(level)
        .with_paging_spec(PagingSpec::Exact(vec![items.len()]));
    let file = FileCompressor::default();
    let mut chunk = file.chunk_compressor(&items, &config).map_err(backend)?;
    let room = dst.len();
    let Some((header, rest)) = dst.split_first_chunk_mut::<HEADER_LEN>() else { return Ok(Encoded::TooBig) };
    let Ok(n) = u32::try_from(items.len()) else { return Ok(Encoded::TooBig) };
    header[0] = number as u8;
    header[1..].copy_from_slice(&n.to_le_bytes());
    let written = file
        .write_header(rest)
        .and_then(|rest| chunk.write_meta(rest))
        .and_then(|rest| chunk.write_page(0, rest));
    match written {
        Ok(rest) => Ok(Encoded::Len(room - rest.len())),
        // Writing to a slice fails only for lack of space.
        Err(error) if matches!(error.kind, pco::errors::ErrorKind::Io(_)) => Ok(Encoded::TooBig),
        Err(error) => Err(backend(error)),
    }
}

/// How many numbers are decoded together: a few of pcodec's batches.
const BATCH_LEN: usize = 4 * FULL_BATCH_N;

/// Decodes the first `dst.len()` of `len` bytes.
fn decode<T: Number + Default, const N: usize>(
    number: Type,
    stream: &[u8],
    to_le: impl Fn(T) -> [u8; N],
    dst: &mut [u8],
    len: usize,
) -> Result<(), CodecError> {
    let n = len / N;
    let (file, stream) = FileDecompressor::new(stream).map_err(backend)?;
    if file.format_version().major != 4 {
        return Err(CodecError::unsupported(ID, "streams of pcodec before 1.0"));
    }
    check_memory(number, stream, n)?;
    let (mut chunk, stream) = file.chunk_decompressor::<T, _>(stream).map_err(backend)?;
    let mut page = chunk.page_decompressor(stream, n).map_err(backend)?;
    let mut items = [T::default(); BATCH_LEN];
    for part in dst.chunks_mut(BATCH_LEN * N) {
        // A batch is decoded whole, also at the end.
        let progress = page.read(&mut items).map_err(backend)?;
        if progress.n_processed * N < part.len() {
            return Err(CodecError::malformed(ID, HEADER_LEN, "too few numbers"));
        }
        let (whole, rest) = part.as_chunks_mut::<N>();
        for (to, item) in whole.iter_mut().zip(&items) {
            *to = to_le(*item);
        }
        if let Some(item) = items.get(whole.len()) {
            rest.copy_from_slice(&to_le(*item)[..rest.len()]);
        }
    }
    // All of the stream was decoded: nothing may follow.
    match page.into_src() {
        rest if dst.len() == len && !rest.is_empty() => {
            Err(CodecError::malformed(ID, HEADER_LEN, "bytes after the stream"))
        }
        _ => Ok(()),
    }
}

/// Largest window of a stream of few numbers, in numbers: the encoder's smallest.
const MIN_WINDOW_LEN: usize = 16;

/// Rejects streams for which the library would allocate more than `n` numbers need: those with a dictionary, which the
/// encoder does not write, and those with a window longer than the data. Only the first bits of the metadata say so.
fn check_memory(number: Type, meta: &[u8], n: usize) -> Result<(), CodecError> {
    let bits = |at: usize, count: usize| {
        (at..at + count).rev().fold(0, |value, bit| {
            value << 1 | usize::from(meta.get(bit / 8).copied().unwrap_or(0) >> (bit % 8) & 1)
        })
    };
    let mode_len = match bits(0, 4) {
        0 => 4,
        1 | 2 => 4 + 8 * number.width(),
        3 => 4 + 8,
        _ => return Err(CodecError::unsupported(ID, "streams with a dictionary or an unknown mode")),
    };
    const LOOKBACK: usize = 2;
    if bits(mode_len, 4) == LOOKBACK
        && 1_usize << (1 + bits(mode_len + 4, 5)).min(63) > (2 * n).max(MIN_WINDOW_LEN)
    {
        return Err(CodecError::malformed(ID, HEADER_LEN, "the window is longer than the data"));
    }
    Ok(())
}
