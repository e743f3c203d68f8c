//! Zstandard through `ruzstd`: one frame per Blosc stream, without a C compiler.
//!
//! ```text
//! frame      = magic 28 b5 2f fd, descriptor, [window 1], [dictionary id 0 to 4], [content size 0 to 8], blocks,
//!              [checksum 4]
//! descriptor   bits 0-1 dictionary id: 0, 1, 2, 4 bytes    bit 2 checksum         bit 3 must be 0
//!              bit 5 single segment: no window byte        bits 6-7 content size: 0 (1 if single), 2, 4, 8 bytes
//! ```

use super::PROPERTIES;
use crate::{Codec, CodecContext, CodecError, CodecId, CodecProperties, Decoder, Encoded, Encoder};
use ruzstd::decoding::{BlockDecodingStrategy, Dictionary, FrameDecoder};
use ruzstd::encoding::{CompressionLevel, FrameCompressor};
use std::fmt::Display;
use std::io::{Cursor, Read};

const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const DICT_MAGIC: [u8; 4] = [0x37, 0xa4, 0x30, 0xec];
/// Head that turns raw content into a structured dictionary: id 1, a Huffman table, three FSE tables, offsets 1, 4 and
/// 8. The tables have two symbols each, because frames made with raw content never refer to them.
const RAW_DICT_HEAD: [u8; 28] = [
    0x37, 0xa4, 0x30, 0xec, 1, 0, 0, 0, 0x80, 0x10, 0x10, 0x3f, 0x10, 0x3f, 0x10, 0x3f, 1, 0, 0, 0, 4, 0, 0,
    0, 8, 0, 0, 0,
];

/// The zstd codec in pure Rust, over the `ruzstd` crate (feature `zstd-rs`).
///
/// It decodes every frame, with both kinds of dictionary. At every clevel it compresses about like level 1, several
/// times slower than the C library, and without dictionaries.
#[derive(Clone, Copy, Debug, Default)]
pub struct ZstdRs;

impl Codec for ZstdRs {
    fn id(&self) -> CodecId {
        CodecId::ZSTD
    }
    fn name(&self) -> &str {
        "zstd"
    }
    fn properties(&self) -> CodecProperties {
        PROPERTIES
    }
    /// Ignores a dictionary in `cx`. That is valid: frames need not use the dictionary of the chunk.
    fn encoder(&self, _cx: &CodecContext<'_>) -> Result<Box<dyn Encoder>, CodecError> {
        crate::codec::may_encode(self.id())?;
        Ok(Box::new(RuzstdEncoder::default()))
    }
    fn decoder(&self, cx: &CodecContext<'_>) -> Result<Box<dyn Decoder>, CodecError> {
        let mut state = FrameDecoder::new();
        state.set_max_window_size(u64::MAX); // Frames reach it with the window that fits, see `decode`.
        let mut dict_ids = None;
        if let Some(dict) = cx.dict {
            let structured = dict.len() >= 8 && dict.starts_with(&DICT_MAGIC);
            let parsed = match structured {
                true => Dictionary::decode_dict(dict),
                false => Dictionary::decode_dict(&[&RAW_DICT_HEAD, dict].concat()),
            };
            let parsed = parsed.map_err(backend)?;
            dict_ids = Some(DictIds { used: parsed.id, announced: if structured { parsed.id } else { 0 } });
            state.add_dict(parsed).map_err(backend)?;
        }
        Ok(Box::new(RuzstdDecoder { state, dict_ids }))
    }
    /// Always returns `Ok(None)`, since the encoder cannot use a dictionary.
    fn train_dict(&self, _: &[u8], _: &[usize], _: usize) -> Result<Option<Vec<u8>>, CodecError> {
        Ok(None)
    }
}

/// Buffers that are reused from stream to stream.
#[derive(Default)]
struct RuzstdEncoder {
    source: Vec<u8>,
    drain: Vec<u8>,
}

impl Encoder for RuzstdEncoder {
    fn encode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<Encoded, CodecError> {
        // A reused compressor finds different matches, since the sizes of its tables depend on earlier streams.
        let mut state = FrameCompressor::new(CompressionLevel::Fastest);
        // Move both buffers into the compressor and back, to reuse their memory.
        let (mut source, mut drain) = (std::mem::take(&mut self.source), std::mem::take(&mut self.drain));
        source.clear();
        source.extend_from_slice(src);
        drain.clear();
        state.set_source(Cursor::new(source));
        state.set_drain(drain);
        state.compress();
        self.source = state.take_source().unwrap_or_default().into_inner();
        self.drain = state.take_drain().unwrap_or_default();
        Ok(match dst.get_mut(..self.drain.len()) {
            Some(to) => {
                to.copy_from_slice(&self.drain);
                Encoded::Len(self.drain.len())
            }
            None => Encoded::TooBig,
        })
    }
}

/// The id of the dictionary inside the decoder, and the one that frames may carry (besides none).
#[derive(Clone, Copy)]
struct DictIds {
    used: u32,
    announced: u32,
}

struct RuzstdDecoder {
    state: FrameDecoder,
    dict_ids: Option<DictIds>,
}

impl Decoder for RuzstdDecoder {
    fn decode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<(), CodecError> {
        let head = FrameHead::parse(src)?;
        if head.content_size.is_some_and(|size| size != dst.len() as u64) {
            let got = head.content_size.and_then(|size| usize::try_from(size).ok()).unwrap_or(usize::MAX);
            return Err(wrong_length(got, dst));
        }
        if head.dict_id != 0 && self.dict_ids.is_none_or(|ids| ids.announced != head.dict_id) {
            return Err(malformed(4, "frame needs another dictionary"));
        }
        // The decoder allocates a window of the size that a frame announces. So it gets a substitute header that
        // announces one segment of the known size, without a dictionary id.
        let mut header = [0xe0 | if head.checksum { 4 } else { 0 }; 13];
        header[..4].copy_from_slice(&MAGIC);
        header[5..].copy_from_slice(&(dst.len() as u64).to_le_bytes());
        let state = &mut self.state;
        state.reset(&header[..]).map_err(backend)?;
        if let Some(ids) = self.dict_ids {
            state.force_dict(ids.used).map_err(backend)?;
        }
        // Decode block by block, at most 128 KiB each, and collect the output after each block, so that a frame which decodes
        // to too many bytes is noticed early.
        let mut blocks = &src[head.len..];
        while !state.is_finished() {
            state.decode_blocks(&mut blocks, BlockDecodingStrategy::UptoBlocks(1)).map_err(backend)?;
            if !state.is_finished() && state.can_collect() > 0 {
                return Err(wrong_length(dst.len().saturating_add(1), dst));
            }
        }
        let got = state.can_collect();
        if got != dst.len() {
            return Err(wrong_length(got, dst));
        }
        if !blocks.is_empty() {
            return Err(malformed(src.len() - blocks.len(), "extra bytes after the frame"));
        }
        state.read_exact(dst).map_err(backend)?;
        if head.checksum && state.get_checksum_from_data() != state.get_calculated_checksum() {
            return Err(malformed(src.len() - 4, "checksum does not match"));
        }
        Ok(())
    }
}

/// The relevant fields of a frame header.
struct FrameHead {
    len: usize,
    checksum: bool,
    /// 0 if there is none.
    dict_id: u32,
    content_size: Option<u64>,
}

impl FrameHead {
    fn parse(src: &[u8]) -> Result<Self, CodecError> {
        let truncated = || malformed(src.len(), "frame header is truncated");
        let rest = src.strip_prefix(&MAGIC).ok_or_else(|| malformed(0, "not a zstd frame"))?;
        let (&descriptor, rest) = rest.split_first().ok_or_else(truncated)?;
        if descriptor & 8 != 0 {
            return Err(malformed(4, "reserved bit is set"));
        }
        let single_segment = descriptor & 0x20 != 0;
        let window_len = usize::from(!single_segment);
        let (_, rest) = rest.split_at_checked(window_len).ok_or_else(truncated)?;
        let dict_id_len = [0, 1, 2, 4][usize::from(descriptor & 3)];
        let (dict_id, rest) = rest.split_at_checked(dict_id_len).ok_or_else(truncated)?;
        let size_len = match descriptor >> 6 {
            0 => usize::from(single_segment),
            n => 1 << n,
        };
        let (size, _) = rest.split_at_checked(size_len).ok_or_else(truncated)?;
        Ok(Self {
            len: 5 + window_len + dict_id_len + size_len,
            checksum: descriptor & 4 != 0,
            // It has at most 4 bytes.
            dict_id: u32::try_from(little_endian(dict_id)).unwrap_or(u32::MAX),
            content_size: match size_len {
                0 => None,
                2 => Some(little_endian(size) + 256),
                _ => Some(little_endian(size)),
            },
        })
    }
}

/// Reads up to 8 bytes as a little-endian number.
fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

#[cold]
fn malformed(offset: usize, what: &'static str) -> CodecError {
    CodecError::Malformed { codec: CodecId::ZSTD, offset, what }
}

#[cold]
fn wrong_length(got: usize, dst: &[u8]) -> CodecError {
    CodecError::WrongLength { codec: CodecId::ZSTD, got, expected: dst.len() }
}

#[cold]
fn backend(error: impl Display) -> CodecError {
    CodecError::Backend { codec: CodecId::ZSTD, message: error.to_string() }
}
