//! Streams written by the C library, unchanged, truncated and damaged.

use crate::common::*;
use b2_codecs::*;
use b2_testkit::hostile::flipped;

#[test]
fn decode_to_what_c_compressed() {
    for c in C_STREAMS {
        for codec in codecs_of(c.codec) {
            let mut decoder = codec.decoder(&c.context()).unwrap();
            let raw = decode(&mut *decoder, c.stream, c.raw.len());
            assert_eq!(raw.as_deref(), Ok(c.raw), "{} with {codec:?}", c.name);
        }
    }
}

#[test]
fn every_prefix_is_an_error() {
    for c in C_STREAMS {
        for codec in codecs_of(c.codec) {
            let mut decoder = codec.decoder(&c.context()).unwrap();
            let mut dst = vec![0; c.raw.len()];
            for len in 0..c.stream.len() {
                let result = decoder.decode(&c.stream[..len], &mut dst);
                assert!(result.is_err(), "{} cut to {len} bytes, with {codec:?}", c.name);
            }
            assert_eq!(decoder.decode(c.stream, &mut dst), Ok(()), "{} after errors", c.name);
            assert_eq!(dst, c.raw);
        }
    }
}

#[test]
fn every_other_output_length_is_an_error() {
    for c in C_STREAMS {
        for codec in codecs_of(c.codec) {
            let mut decoder = codec.decoder(&c.context()).unwrap();
            for len in [0, 1, c.raw.len() - 1, c.raw.len() + 1, 2 * c.raw.len(), 1 << 20] {
                let result = decoder.decode(c.stream, &mut vec![0; len]);
                assert!(result.is_err(), "{} to {len} bytes, with {codec:?}", c.name);
            }
        }
    }
}

#[test]
fn damaged_streams_decode_alike_or_err() {
    for c in C_STREAMS {
        for codec in codecs_of(c.codec) {
            let mut decoder = codec.decoder(&c.context()).unwrap();
            let mut random = b2_testkit::Rng::new(7);
            let step = (c.stream.len() / 200).max(1);
            for pos in (0..c.stream.len()).step_by(step) {
                let mut stream = flipped(c.stream, 8 * pos + random.below(8));
                let _ = decode(&mut *decoder, &stream, c.raw.len());
                stream[pos] = random.next() as u8;
                let _ = decode(&mut *decoder, &stream, c.raw.len());
            }
        }
    }
}

#[test]
fn a_dictionary_is_needed() {
    for c in C_STREAMS.iter().filter(|c| c.dict.is_some()) {
        for codec in codecs_of(c.codec) {
            let mut decoder = codec.decoder(&CodecContext::new(5)).unwrap();
            assert!(decoder.decode(c.stream, &mut vec![0; c.raw.len()]).is_err(), "{} {codec:?}", c.name);
        }
    }
}

#[test]
fn streams_without_dictionary_decode_with_one() {
    let dict = C_STREAMS.iter().find_map(|c| c.dict).unwrap();
    for c in C_STREAMS.iter().filter(|c| c.codec == CodecId::ZSTD && c.dict.is_none()) {
        for codec in codecs_of(c.codec) {
            let mut decoder = codec.decoder(&c.context().dict(Some(dict))).unwrap();
            let raw = decode(&mut *decoder, c.stream, c.raw.len());
            assert_eq!(raw.as_deref(), Ok(c.raw), "{} with {codec:?}", c.name);
        }
    }
}

/// Bytes after a zlib stream are ignored, as in C; a zstd stream must be exactly one frame.
#[test]
fn trailing_bytes() {
    for c in C_STREAMS {
        for codec in codecs_of(c.codec) {
            let mut decoder = codec.decoder(&c.context()).unwrap();
            let longer = [c.stream, &[0, 0, 0]].concat();
            let result = decoder.decode(&longer, &mut vec![0; c.raw.len()]);
            let ignored = c.codec == CodecId::ZLIB || c.codec == CodecId::NDLZ;
            assert_eq!(result.is_ok(), ignored, "{} with {codec:?}: {result:?}", c.name);
        }
    }
}

/// At the highest level our streams are at most 3 % larger than those of C.
#[test]
fn blosclz_is_as_small_as_c() {
    for c in C_STREAMS.iter().filter(|c| c.codec == CodecId::BLOSCLZ) {
        let mut encoder = codec(CodecId::BLOSCLZ).encoder(&CodecContext::new(9)).unwrap();
        let ours = encode(&mut *encoder, c.raw, c.raw.len()).unwrap().len();
        assert!(ours * 100 <= c.stream.len() * 103, "{}: {ours} bytes, C {}", c.name, c.stream.len());
    }
}
