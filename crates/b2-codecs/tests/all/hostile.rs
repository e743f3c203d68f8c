//! Malicious streams: they cause errors at worst, no panics, and no allocations beyond the requested size.

use crate::common::*;
use b2_codecs::*;
use proptest::prelude::*;

fn contexts(id: CodecId) -> Vec<CodecContext<'static>> {
    match id {
        CodecId::NDLZ => vec![CodecContext::new(5).meta(4), CodecContext::new(5).meta(8)],
        _ => vec![CodecContext::new(5)],
    }
}

fn decode_anywhere(stream: &[u8], len: usize) {
    for codec in all_codecs() {
        for cx in contexts(codec.id()) {
            let _ = decode(&mut *codec.decoder(&cx).unwrap(), stream, len);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn garbage(stream in prop::collection::vec(any::<u8>(), 0..300), len in 0_usize..2_000) {
        decode_anywhere(&stream, len);
    }

    #[test]
    fn garbage_with_a_good_start(
        tail in prop::collection::vec(any::<u8>(), 0..200),
        which in 0..C_STREAMS.len(),
        keep in 0.0..1.0_f64,
    ) {
        let c = &C_STREAMS[which];
        let keep = (c.stream.len() as f64 * keep) as usize;
        let stream = [&c.stream[..keep], &tail].concat();
        for codec in codecs_of(c.codec) {
            let mut decoder = codec.decoder(&c.context()).unwrap();
            let _ = decode(&mut *decoder, &stream, c.raw.len());
        }
    }

    #[test]
    fn several_damages(
        which in 0..C_STREAMS.len(),
        damages in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let c = &C_STREAMS[which];
        let mut stream = c.stream.to_vec();
        for (index, byte) in damages {
            let at = index.index(stream.len());
            stream[at] = byte;
        }
        for codec in codecs_of(c.codec) {
            let mut decoder = codec.decoder(&c.context()).unwrap();
            let _ = decode(&mut *decoder, &stream, c.raw.len());
        }
    }
}

#[test]
fn nothing_is_not_a_stream() {
    for codec in all_codecs() {
        for cx in contexts(codec.id()) {
            for len in [0, 1, 100] {
                // LZ4 and other codecs differ on whether an empty stream is valid for zero bytes.
                if len > 0 {
                    assert!(decode(&mut *codec.decoder(&cx).unwrap(), &[], len).is_err(), "{codec:?} {len}");
                }
            }
        }
    }
}

mod zstd {
    use super::*;

    const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

    fn errs(stream: &[u8], len: usize) -> Vec<CodecError> {
        codecs_of(CodecId::ZSTD)
            .into_iter()
            .map(|codec| {
                let mut decoder = codec.decoder(&CodecContext::new(5)).unwrap();
                decode(&mut *decoder, stream, len).err().unwrap_or_else(|| panic!("{codec:?} decodes it"))
            })
            .collect()
    }

    /// Blocks that each repeat one byte 131,072 times, stored in 4 bytes.
    fn rle_blocks(count: usize, last: bool) -> Vec<u8> {
        let header = |last: bool| ((131_072_u32 << 3) | 2 | u32::from(last)).to_le_bytes();
        (0..count)
            .flat_map(|i| {
                let [a, b, c, _] = header(last && i + 1 == count);
                [a, b, c, 0x77]
            })
            .collect()
    }

    #[test]
    fn a_window_of_terabytes_is_not_allocated() {
        // No content size; window descriptor of the largest window, 3.75 TiB. The frame itself is fine.
        let stream = [&MAGIC[..], &[0x00, 0xff], &rle_blocks(1, true)].concat();
        for codec in codecs_of(CodecId::ZSTD) {
            let mut decoder = codec.decoder(&CodecContext::new(5)).unwrap();
            match decode(&mut *decoder, &stream, 131_072) {
                Ok(raw) => assert!(raw.iter().all(|&byte| byte == 0x77)),
                Err(error) => assert!(matches!(error, CodecError::Backend { .. }), "{error:?}"),
            }
        }
    }

    #[test]
    fn a_frame_that_grows_beyond_the_output() {
        // 40 KB that decode to 1.2 GiB.
        let stream = [&MAGIC[..], &[0x00, 0x88], &rle_blocks(10_000, true)].concat();
        for error in errs(&stream, 200_000) {
            assert!(matches!(error, CodecError::WrongLength { expected: 200_000, .. }), "{error:?}");
        }
    }

    #[test]
    fn a_lie_about_the_content_size() {
        for size in [0_u64, 131_071, 131_073, 1 << 40] {
            let stream = [&MAGIC[..], &[0xe0], &size.to_le_bytes(), &rle_blocks(1, true)].concat();
            errs(&stream, 131_072);
            errs(&stream, 1_000);
        }
    }

    #[test]
    fn more_than_one_frame() {
        let c = C_STREAMS.iter().find(|c| c.name == "zstd_text.stream").unwrap();
        let skippable = [0x50, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 1, 2];
        errs(&[c.stream, c.stream].concat(), 2 * c.raw.len());
        errs(&[&skippable, c.stream].concat(), c.raw.len());
        errs(&[c.stream, &skippable].concat(), c.raw.len());
        errs(&skippable, 0);
    }

    #[test]
    fn a_wrong_checksum() {
        let c = C_STREAMS.iter().find(|c| c.name == "zstd_checksum.stream").unwrap();
        let mut stream = c.stream.to_vec();
        *stream.last_mut().unwrap() ^= 1;
        errs(&stream, c.raw.len());
    }

    #[test]
    fn a_reserved_bit() {
        let c = C_STREAMS.iter().find(|c| c.name == "zstd_text.stream").unwrap();
        let mut stream = c.stream.to_vec();
        stream[4] |= 8;
        errs(&stream, c.raw.len());
    }
}

mod zlib {
    use super::*;

    #[test]
    fn a_wrong_checksum() {
        for c in C_STREAMS.iter().filter(|c| c.codec == CodecId::ZLIB) {
            let mut stream = c.stream.to_vec();
            *stream.last_mut().unwrap() ^= 1;
            for codec in codecs_of(CodecId::ZLIB) {
                let mut decoder = codec.decoder(&CodecContext::new(5)).unwrap();
                assert!(decode(&mut *decoder, &stream, c.raw.len()).is_err(), "{} {codec:?}", c.name);
            }
        }
    }

    /// A gzip wrapper or bare deflate data is not a zlib stream.
    #[test]
    fn other_wrappers() {
        let c = C_STREAMS.iter().find(|c| c.name == "zlib_text.stream").unwrap();
        let gzip = [&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3], &c.stream[2..]].concat();
        for codec in codecs_of(CodecId::ZLIB) {
            let mut decoder = codec.decoder(&CodecContext::new(5)).unwrap();
            assert!(decode(&mut *decoder, &gzip, c.raw.len()).is_err(), "{codec:?}");
            assert!(decode(&mut *decoder, &c.stream[2..], c.raw.len()).is_err(), "{codec:?}");
        }
    }

    /// A match before the start of the stream, after the decoder has seen another stream.
    #[test]
    fn no_bytes_of_the_stream_before() {
        // Fixed Huffman codes: literal 'a', then length 3 at distance 1 or 2, end of block; Adler-32 of "aaaa".
        let good = [0x78, 0x9c, 0x4b, 0x04, 0x02, 0x00, 0x03, 0xce, 0x01, 0x85];
        let hostile = [0x78, 0x9c, 0x4b, 0x04, 0x42, 0x00, 0x03, 0xce, 0x01, 0x85];
        let c = C_STREAMS.iter().find(|c| c.name == "zlib_text.stream").unwrap();
        for codec in codecs_of(CodecId::ZLIB) {
            let mut decoder = codec.decoder(&CodecContext::new(5)).unwrap();
            decoder.decode(c.stream, &mut vec![0; c.raw.len()]).unwrap();
            assert!(decode(&mut *decoder, &hostile, 4).is_err(), "{codec:?}");
            assert_eq!(decode(&mut *decoder, &good, 4).as_deref(), Ok(&b"aaaa"[..]), "{codec:?}");
        }
    }
}
