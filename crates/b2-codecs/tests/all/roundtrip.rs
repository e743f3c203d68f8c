//! Every decoder of a codec reads the streams of every encoder.

use crate::common::*;
use b2_codecs::*;
use proptest::prelude::*;

/// Encodes with `codec` and decodes with every backend of its id. Returns the length of the stream.
fn check(codec: &dyn Codec, cx: &CodecContext<'_>, raw: &[u8]) -> Option<usize> {
    let mut encoder = codec.encoder(cx).unwrap();
    // Space for noise encoded by zlib and zstd, so that their stored blocks are decoded too.
    let stream = encode(&mut *encoder, raw, raw.len() + raw.len() / 8 + 64)?;
    for reader in codecs_of(codec.id()) {
        let mut decoder = reader.decoder(cx).unwrap();
        let back = decode(&mut *decoder, &stream, raw.len()).unwrap();
        assert!(back == raw, "{codec:?} at {cx:?}, read by {reader:?}, {} bytes", raw.len());
    }
    Some(stream.len())
}

#[test]
fn all_levels_and_kinds() {
    for codec in encoding_codecs() {
        for clevel in 0..=9 {
            for kind in KINDS {
                let raw = data(kind, 30_000, 1);
                let len = check(&*codec, &CodecContext::new(clevel), &raw);
                if matches!(kind, Kind::Runs | Kind::Text) {
                    assert!(len.is_some_and(|len| len < 20_000), "{codec:?} {clevel} {kind:?}: {len:?}");
                }
            }
        }
    }
}

#[test]
fn small_lengths() {
    for codec in encoding_codecs() {
        for len in 0..100 {
            for kind in KINDS {
                check(&*codec, &CodecContext::new(5), &data(kind, len, len as u64));
            }
        }
    }
}

#[test]
fn longer_than_any_window() {
    for codec in encoding_codecs() {
        for kind in KINDS {
            check(&*codec, &CodecContext::new(5), &data(kind, 700_001, 3));
        }
    }
}

/// A stream must not depend on earlier streams of its encoder, or else chunks would depend on the thread count.
#[test]
fn encoders_have_no_memory() {
    for codec in encoding_codecs() {
        for clevel in [1, 3, 5, 7, 9] {
            let cx = CodecContext::new(clevel);
            let mut used = codec.encoder(&cx).unwrap();
            // Long streams before short ones, too: a large reused table finds different matches.
            let lens = [9_000, 150_000, 300, 40_000, 2_500, 72_000, 1_100, 16_000, 4_500, 60];
            for (seed, (kind, len)) in KINDS.into_iter().chain(KINDS).zip(lens).enumerate() {
                let raw = data(kind, len, seed as u64);
                let room = raw.len() + 4_000;
                let mut fresh = codec.encoder(&cx).unwrap();
                assert_eq!(
                    encode(&mut *used, &raw, room),
                    encode(&mut *fresh, &raw, room),
                    "{codec:?} {clevel}"
                );
                // Fails for lack of room, which must not affect the next stream either.
                encode(&mut *used, &raw, (100 + 100 * seed).min(len));
            }
        }
    }
}

#[test]
fn too_little_room_is_told() {
    for codec in encoding_codecs() {
        let raw = data(Kind::Text, 3_000, 5);
        let mut encoder = codec.encoder(&CodecContext::new(5)).unwrap();
        let mut decoder = codec.decoder(&CodecContext::new(5)).unwrap();
        let full = encode(&mut *encoder, &raw, 4_000).unwrap();
        for room in 0..full.len() + 20 {
            if let Some(stream) = encode(&mut *encoder, &raw, room) {
                assert_eq!(decode(&mut *decoder, &stream, raw.len()).as_ref(), Ok(&raw), "{codec:?} {room}");
            } else {
                assert!(room < full.len() + 16, "{codec:?} gives up at {room}, needs {}", full.len());
            }
        }
    }
}

/// Sizes of shuffled floats and text at the default level, to detect a worse encoder.
#[test]
fn ratios() {
    let sizes = |kind| {
        let raw = data(kind, 65_536, 11);
        let mut encoder = codec(CodecId::BLOSCLZ).encoder(&CodecContext::new(5)).unwrap();
        encode(&mut *encoder, &raw, raw.len()).map_or(raw.len(), |stream| stream.len())
    };
    assert!(sizes(Kind::ShuffledFloats) < 55_000, "{}", sizes(Kind::ShuffledFloats));
    assert!(sizes(Kind::Text) < 24_000, "{}", sizes(Kind::Text));
    assert_eq!(sizes(Kind::Noise), 65_536);
}

mod dictionaries {
    use super::*;

    /// Records that share much among each other but little within themselves.
    fn records() -> (Vec<u8>, Vec<usize>) {
        let mut random = b2_testkit::Rng::new(2);
        let records: Vec<Vec<u8>> = (0..200)
            .map(|i| {
                let value = random.below(1_000);
                format!(
                    "{{\"station\": {i}, \"quantity\": \"pressure\", \"unit\": \"hPa\", \"value\": {value}}}"
                )
                .into_bytes()
            })
            .collect();
        (records.concat(), records.iter().map(Vec::len).collect())
    }

    #[test]
    fn train_encode_decode() {
        let (samples, lens) = records();
        for codec in encoding_codecs() {
            let dict = match codec.train_dict(&samples, &lens, 4_096) {
                Ok(dict) => dict,
                Err(error) => {
                    assert!(matches!(error, CodecError::Unsupported { .. }), "{error:?}");
                    let cx = CodecContext::new(5).dict(Some(b"abc"));
                    assert!(codec.encoder(&cx).is_err() && codec.decoder(&cx).is_err(), "{codec:?}");
                    continue;
                }
            };
            // A codec that cannot use a dictionary in its encoder trains none.
            let Some(dict) = dict else { continue };
            assert!(dict.len() <= 4_096 && !dict.is_empty());
            let record = &samples[..lens[0]];
            for clevel in 1..=9 {
                let cx = CodecContext::new(clevel);
                let with = check(&*codec, &cx.dict(Some(&dict)), record).unwrap();
                let without = check(&*codec, &cx, record).unwrap_or(record.len());
                assert!(with < without, "{codec:?} {clevel}: {with} bytes with, {without} without");
            }
        }
    }

    #[test]
    fn raw_content() {
        let (samples, lens) = records();
        for codec in codecs_of(CodecId::ZSTD) {
            for dict in [&samples[..3], &samples[..500], &samples[..5_000]] {
                for clevel in [1, 5, 9] {
                    let cx = CodecContext::new(clevel).dict(Some(dict));
                    check(&*codec, &cx, &samples[samples.len() - lens[199]..]);
                }
            }
        }
    }

    #[test]
    fn training_from_too_little_is_no_error() {
        for codec in codecs_of(CodecId::ZSTD) {
            assert_eq!(codec.train_dict(b"", &[], 1_000), Ok(None));
            assert_eq!(codec.train_dict(b"abcdef", &[1; 6], 1_000), Ok(None));
            assert_eq!(codec.train_dict(b"abcdefghijklmnop", &[2; 8], 0), Ok(None));
        }
    }

    #[test]
    fn damaged_dictionaries_are_no_panic() {
        let dict = C_STREAMS.iter().find_map(|c| c.dict).unwrap();
        let c = C_STREAMS.iter().find(|c| c.dict.is_some()).unwrap();
        let mut random = b2_testkit::Rng::new(9);
        for codec in codecs_of(CodecId::ZSTD) {
            for round in 0..300 {
                let mut dict = dict.to_vec();
                // Byte 8 is where the entropy tables start.
                let head = 160.min(dict.len() - 8);
                b2_testkit::hostile::overwrite(&mut dict[8..8 + head], 1, &mut random);
                if round % 3 == 0 {
                    dict.truncate(random.below(400));
                }
                if let Ok(mut decoder) = codec.decoder(&CodecContext::new(5).dict(Some(&dict))) {
                    let _ = decode(&mut *decoder, c.stream, c.raw.len());
                }
                let _ = codec.encoder(&CodecContext::new(5).dict(Some(&dict)));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_length(
        kind in prop::sample::select(KINDS.to_vec()),
        len in 0_usize..200_000,
        seed in any::<u64>(),
        clevel in 0_u8..=9,
    ) {
        for codec in encoding_codecs() {
            // The highest zstd level is slow.
            let len = if clevel == 9 && codec.id() == CodecId::ZSTD { len / 8 } else { len };
            check(&*codec, &CodecContext::new(clevel), &data(kind, len, seed));
        }
    }

    #[test]
    fn any_bytes(raw in prop::collection::vec(0_u8..4, 0..3_000), clevel in 1_u8..=9) {
        for codec in encoding_codecs() {
            check(&*codec, &CodecContext::new(clevel), &raw);
        }
    }
}
