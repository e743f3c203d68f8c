//! Code shared by the tests of this crate.

use b2_codecs::*;
use std::sync::Arc;

/// Every codec type of the enabled features: the built-in ones and the backends that are not the default.
pub(crate) fn all_codecs() -> Vec<Arc<dyn Codec>> {
    #[allow(unused_mut, reason = "depends on the features")]
    let mut codecs = builtin();
    #[cfg(feature = "lz4_flex")]
    codecs.push(Arc::new(Lz4Flex));
    #[cfg(all(feature = "zlib-rs", feature = "miniz_oxide"))]
    codecs.push(Arc::new(ZlibMiniz));
    #[cfg(all(feature = "zstd-c", feature = "zstd-rs"))]
    codecs.push(Arc::new(ZstdRs));
    codecs
}

/// The built-in codec with this id.
pub(crate) fn codec(id: CodecId) -> Arc<dyn Codec> {
    builtin().into_iter().find(|codec| codec.id() == id).unwrap()
}

pub(crate) fn codecs_of(id: CodecId) -> Vec<Arc<dyn Codec>> {
    all_codecs().into_iter().filter(|codec| codec.id() == id).collect()
}

/// The codecs that encode.
pub(crate) fn encoding_codecs() -> Vec<Arc<dyn Codec>> {
    all_codecs().into_iter().filter(|codec| ![CodecId::NDLZ, CodecId::SNAPPY].contains(&codec.id())).collect()
}

/// A stream written by the C library and what it decodes to.
pub(crate) struct CStream {
    pub(crate) name: &'static str,
    pub(crate) codec: CodecId,
    pub(crate) meta: u8,
    pub(crate) dict: Option<&'static [u8]>,
    pub(crate) stream: &'static [u8],
    pub(crate) raw: &'static [u8],
}

impl CStream {
    pub(crate) fn context(&self) -> CodecContext<'static> {
        CodecContext::new(5).meta(self.meta).dict(self.dict)
    }
}

macro_rules! file {
    ($name:literal) => {
        include_bytes!(concat!("../../data/", $name))
    };
}

/// `$stream`, its codec and parameter byte, the file it decodes to, its dictionary.
macro_rules! c_stream {
    ($stream:literal, $codec:ident $meta:literal, $raw:literal, $dict:expr) => {
        CStream {
            name: $stream,
            codec: CodecId::$codec,
            meta: $meta,
            dict: $dict,
            stream: file!($stream),
            raw: file!($raw),
        }
    };
}

pub(crate) const C_STREAMS: [CStream; 16] = [
    c_stream!("blosclz_text.stream", BLOSCLZ 0, "text.raw", None),
    c_stream!("blosclz_floats.stream", BLOSCLZ 0, "floats.raw", None),
    c_stream!("blosclz_far.stream", BLOSCLZ 0, "far.raw", None),
    c_stream!("zlib_text.stream", ZLIB 0, "text.raw", None),
    c_stream!("zlib_floats.stream", ZLIB 0, "floats.raw", None),
    c_stream!("zlib_far.stream", ZLIB 0, "far.raw", None),
    c_stream!("zstd_text.stream", ZSTD 0, "text.raw", None),
    c_stream!("zstd_floats.stream", ZSTD 0, "floats.raw", None),
    c_stream!("zstd_far.stream", ZSTD 0, "far.raw", None),
    c_stream!("zstd_checksum.stream", ZSTD 0, "text.raw", None),
    c_stream!("zstd_dict.stream", ZSTD 0, "zstd_dict.raw", Some(file!("zstd_dict.dict"))),
    c_stream!("zstd_raw_dict.stream", ZSTD 0, "zstd_raw_dict.raw", Some(file!("zstd_raw_dict.dict"))),
    c_stream!("ndlz4.stream", NDLZ 4, "ndlz4.raw", None),
    c_stream!("ndlz4_edges.stream", NDLZ 4, "ndlz4_edges.raw", None),
    c_stream!("ndlz8.stream", NDLZ 8, "ndlz8.raw", None),
    c_stream!("ndlz8_edges.stream", NDLZ 8, "ndlz8_edges.raw", None),
];

/// Decodes into buffers with different old contents; the results must not differ.
pub(crate) fn decode(decoder: &mut dyn Decoder, src: &[u8], len: usize) -> Result<Vec<u8>, CodecError> {
    let mut first = vec![0x00; len];
    let mut second = vec![0xa5; len];
    let result = decoder.decode(src, &mut first);
    // The errors may differ: the C library checks in a different order while a dictionary is new.
    assert_eq!(result.is_ok(), decoder.decode(src, &mut second).is_ok(), "first answer {result:?}");
    result?;
    assert_eq!(first, second, "the answer depends on what the buffer held before");
    Ok(first)
}

pub(crate) fn encode(encoder: &mut dyn Encoder, src: &[u8], room: usize) -> Option<Vec<u8>> {
    let mut dst = vec![0x5a; room];
    match encoder.encode(src, &mut dst).unwrap() {
        Encoded::Len(len) => {
            dst.truncate(len);
            Some(dst)
        }
        Encoded::TooBig => None,
    }
}

/// Kinds of test data.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Noise,
    Runs,
    Text,
    /// Byte planes of slowly changing float32 values.
    ShuffledFloats,
    /// Pieces of the output so far, at any distance, between a few new bytes.
    Repeats,
}

pub(crate) const KINDS: [Kind; 5] =
    [Kind::Noise, Kind::Runs, Kind::Text, Kind::ShuffledFloats, Kind::Repeats];

pub(crate) fn data(kind: Kind, len: usize, seed: u64) -> Vec<u8> {
    let mut random = b2_testkit::Rng::new(seed);
    let mut out = Vec::with_capacity(len + 64);
    match kind {
        Kind::Noise => out.extend((0..len).map(|_| random.next() as u8)),
        Kind::Runs => {
            while out.len() < len {
                let run = 1 + random.below(600);
                let byte = random.below(4) as u8;
                out.resize(out.len() + run, byte);
            }
        }
        Kind::Text => {
            const WORDS: [&str; 8] =
                ["chunk ", "block ", "stream ", "frame ", "of ", "the ", "metalayer ", "super-chunk, "];
            while out.len() < len {
                out.extend_from_slice(WORDS[random.below(8)].as_bytes());
            }
        }
        Kind::ShuffledFloats => {
            let items: Vec<[u8; 4]> = (0..len.div_ceil(4))
                .map(|i| ((i as f32 * 0.01).sin() * 20.0 + random.below(100) as f32 * 0.001).to_le_bytes())
                .collect();
            out.extend((0..4).flat_map(|byte| items.iter().map(move |item| item[byte])));
        }
        Kind::Repeats => {
            while out.len() < len {
                out.extend((0..random.below(9) + 1).map(|_| random.next() as u8));
                let distance = 1 + random.below(out.len().min(100_000));
                let start = out.len() - distance;
                for i in 0..random.below(70) {
                    out.push(out[start + i]);
                }
            }
        }
    }
    out.truncate(len);
    out
}
