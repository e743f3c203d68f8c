//! LZ4 through the safe variant of `lz4_flex`.

use super::{PROPERTIES, dict_in_reach, first_samples};
use crate::{Codec, CodecContext, CodecError, CodecId, CodecProperties, Decoder, Encoded, Encoder};
use b2_core::memory;
use lz4_flex::block::{
    CompressTable, DecompressError, compress_into_with_dict, compress_into_with_table, decompress_into,
    decompress_into_with_dict, get_maximum_output_size,
};

/// The lz4 codec through the safe code of the `lz4_flex` crate (feature `lz4_flex`).
///
/// It reads and writes the same format as the built-in codec, which is faster. It has only one level and ignores
/// the clevel.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lz4Flex;

impl Codec for Lz4Flex {
    fn id(&self) -> CodecId {
        CodecId::LZ4
    }
    fn name(&self) -> &str {
        "lz4"
    }
    fn properties(&self) -> CodecProperties {
        PROPERTIES
    }
    fn encoder(&self, cx: &CodecContext<'_>) -> Result<Box<dyn Encoder>, CodecError> {
        // The crate finds no match in fewer than four bytes, and rejects such a dictionary.
        let dict = Some(dict_in_reach(cx)).filter(|dict| dict.len() >= 4).map(<[u8]>::to_vec);
        Ok(Box::new(FlexEncoder {
            dict,
            tables: [CompressTable::small(), CompressTable::large()],
            scratch: Vec::new(),
        }))
    }
    fn decoder(&self, cx: &CodecContext<'_>) -> Result<Box<dyn Decoder>, CodecError> {
        Ok(Box::new(FlexDecoder { dict: memory::copied(dict_in_reach(cx))? }))
    }
    fn train_dict(
        &self,
        samples: &[u8],
        sample_lens: &[usize],
        max_len: usize,
    ) -> Result<Option<Vec<u8>>, CodecError> {
        Ok(first_samples(samples, sample_lens, max_len)?)
    }
}

struct FlexEncoder {
    dict: Option<Vec<u8>>,
    /// For streams below 64 KiB, and for others. With the table of an earlier stream, which may be large, short streams
    /// would depend on it.
    tables: [CompressTable; 2],
    scratch: Vec<u8>,
}

impl Encoder for FlexEncoder {
    fn encode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<Encoded, CodecError> {
        // The crate requires an output buffer for the worst case.
        let room = get_maximum_output_size(src.len());
        let direct = dst.len() >= room;
        let out = if direct { &mut *dst } else { memory::sized(&mut self.scratch, room)? };
        let written = match &self.dict {
            Some(dict) => compress_into_with_dict(src, out, dict),
            None => {
                let [small, large] = &mut self.tables;
                let table = if src.len() < usize::from(u16::MAX) { small } else { large };
                compress_into_with_table(src, out, table)
            }
        };
        let written = written
            .map_err(|error| CodecError::Backend { codec: CodecId::LZ4, message: error.to_string() })?;
        if !direct {
            let Some(dst) = dst.get_mut(..written) else { return Ok(Encoded::TooBig) };
            dst.copy_from_slice(&self.scratch[..written]);
        }
        Ok(Encoded::Len(written))
    }
}

struct FlexDecoder {
    dict: Vec<u8>,
}

impl Decoder for FlexDecoder {
    fn decode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<(), CodecError> {
        let got = if self.dict.is_empty() {
            decompress_into(src, dst)
        } else {
            decompress_into_with_dict(src, dst, &self.dict)
        };
        let expected = dst.len();
        match got {
            Ok(got) if got == expected => Ok(()),
            Ok(got) | Err(DecompressError::OutputTooSmall { expected: got, .. }) => {
                Err(CodecError::WrongLength { codec: CodecId::LZ4, got, expected })
            }
            Err(error) => Err(CodecError::Backend { codec: CodecId::LZ4, message: error.to_string() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lz4::Lz4;

    fn text(len: usize) -> Vec<u8> {
        (0..len).map(|k| b"it was the best of times, it was the worst of times"[k * k % 1009 % 51]).collect()
    }

    fn encode(codec: &dyn Codec, cx: &CodecContext<'_>, src: &[u8]) -> Vec<u8> {
        let mut stream = vec![0; src.len() + 100];
        let Encoded::Len(len) = codec.encoder(cx).unwrap().encode(src, &mut stream).unwrap() else {
            panic!("not enough room");
        };
        stream.truncate(len);
        stream
    }

    fn decode(
        codec: &dyn Codec,
        cx: &CodecContext<'_>,
        stream: &[u8],
        len: usize,
    ) -> Result<Vec<u8>, CodecError> {
        let mut out = vec![0xAA; len];
        codec.decoder(cx).unwrap().decode(stream, &mut out).map(|()| out)
    }

    #[test]
    fn round_trips_and_is_the_format_of_lz4() {
        let dict = text(5000);
        for dict in [None, Some(&dict[..3]), Some(&dict[..100]), Some(&dict[..])] {
            let cx = CodecContext::new(5).dict(dict);
            for len in [0, 1, 5, 12, 13, 100, 3000, 70_000] {
                let src = text(len);
                let stream = encode(&Lz4Flex, &cx, &src);
                assert_eq!(decode(&Lz4Flex, &cx, &stream, len).unwrap(), src);
                assert_eq!(decode(&Lz4::Fast, &cx, &stream, len).unwrap(), src);
                assert_eq!(decode(&Lz4Flex, &cx, &encode(&Lz4::Fast, &cx, &src), len).unwrap(), src);
            }
        }
    }

    #[test]
    fn the_dictionary_is_used() {
        let dict = text(2000);
        let cx = CodecContext::new(5).dict(Some(&dict));
        assert!(encode(&Lz4Flex, &cx, &dict[500..1500]).len() < 50);
    }

    #[test]
    fn too_small_outputs_are_reported() {
        let src = text(2000);
        let cx = CodecContext::new(5);
        let stream = encode(&Lz4Flex, &cx, &src);
        let mut encoder = Lz4Flex.encoder(&cx).unwrap();
        for len in 0..stream.len() {
            assert_eq!(encoder.encode(&src, &mut vec![0; len]).unwrap(), Encoded::TooBig);
        }
        let mut exact = vec![0; stream.len()];
        assert_eq!(encoder.encode(&src, &mut exact).unwrap(), Encoded::Len(stream.len()));
        assert_eq!(exact, stream);
    }

    #[test]
    fn prefixes_and_other_lengths_are_refused() {
        let src = text(500);
        let cx = CodecContext::new(5);
        let stream = encode(&Lz4Flex, &cx, &src);
        for len in 0..stream.len() {
            assert!(decode(&Lz4Flex, &cx, &stream[..len], src.len()).is_err());
        }
        for len in (0..600).filter(|len| *len != src.len()) {
            assert!(matches!(decode(&Lz4Flex, &cx, &stream, len), Err(CodecError::WrongLength { .. })));
        }
    }
}
