//! Decoding the start of a stream only.

use crate::common::*;
use b2_codecs::*;
use proptest::prelude::*;

/// Decodes the first `part` bytes of a stream of `len`, twice: the result must not depend on the buffer's old content.
fn start(decoder: &mut dyn Decoder, src: &[u8], part: usize, len: usize) -> Result<Vec<u8>, CodecError> {
    let mut first = vec![0x00; part];
    let mut second = vec![0xa5; part];
    let result = decoder.decode_start(src, &mut first, len);
    assert_eq!(
        result.is_ok(),
        decoder.decode_start(src, &mut second, len).is_ok(),
        "first answer {result:?}"
    );
    result?;
    assert!(first == second, "the answer depends on what the buffer held before");
    Ok(first)
}

/// Every length near the ends, and some between.
fn parts(len: usize) -> impl Iterator<Item = usize> {
    let middle = (100..len.saturating_sub(100)).step_by(len / 37 + 1);
    (0..len.min(100)).chain(middle).chain(len.saturating_sub(100).max(100)..=len)
}

#[test]
fn streams_of_c() {
    for c in C_STREAMS {
        for codec in codecs_of(c.codec) {
            let mut decoder = codec.decoder(&c.context()).unwrap();
            for part in parts(c.raw.len()) {
                let got = start(&mut *decoder, c.stream, part, c.raw.len());
                assert_eq!(got.as_deref(), Ok(&c.raw[..part]), "{} with {codec:?}: {part}", c.name);
            }
            assert_eq!(
                decode(&mut *decoder, c.stream, c.raw.len()).as_deref(),
                Ok(c.raw),
                "{} after",
                c.name
            );
        }
    }
}

#[test]
fn all_codecs_and_kinds() {
    let dict = data(Kind::Text, 3_000, 5);
    for codec in encoding_codecs() {
        let with_dict = CodecContext::new(5).dict(Some(&dict));
        for cx in [CodecContext::new(1), CodecContext::new(9), with_dict] {
            let Ok(mut encoder) = codec.encoder(&cx) else { continue };
            for kind in KINDS {
                for len in [1, 300, 4_000, 70_000] {
                    let raw = data(kind, len, 1);
                    let Some(stream) = encode(&mut *encoder, &raw, 2 * len + 1_000) else { continue };
                    let mut decoder = codec.decoder(&cx).unwrap();
                    for part in parts(len).filter(|part| len < 10_000 || part % 7 == 0) {
                        let got = start(&mut *decoder, &stream, part, len).unwrap();
                        assert!(got == raw[..part], "{codec:?} {kind:?} {len}: {part}");
                    }
                }
            }
        }
    }
}

/// An output longer than the stream is an error, as for `decode`.
#[test]
fn too_long_outputs() {
    for c in C_STREAMS {
        for codec in codecs_of(c.codec) {
            let mut decoder = codec.decoder(&c.context()).unwrap();
            for more in [1, 2, 20, 300] {
                let part = c.raw.len() + more;
                for len in [c.raw.len(), part, part + 1, part + 1000] {
                    assert!(
                        start(&mut *decoder, c.stream, part, len).is_err(),
                        "{} {codec:?} {more}",
                        c.name
                    );
                }
            }
        }
    }
}

/// A truncated stream decodes to a prefix of its bytes, or fails.
#[test]
fn cut_streams() {
    for c in C_STREAMS {
        for codec in codecs_of(c.codec) {
            let mut decoder = codec.decoder(&c.context()).unwrap();
            for cut in (0..c.stream.len()).step_by(c.stream.len() / 100 + 1) {
                for part in [1, 2, 50, c.raw.len() / 2, c.raw.len() - 1, c.raw.len()] {
                    if let Ok(got) = start(&mut *decoder, &c.stream[..cut], part, c.raw.len()) {
                        assert!(got == c.raw[..part], "{} {codec:?} {cut} {part}", c.name);
                    }
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// If the whole stream decodes, its start decodes to the same bytes.
    #[test]
    fn damaged_streams(
        kind in 0..KINDS.len(),
        seed: u64,
        len in 20..4_000_usize,
        part in 0.0..1.0_f64,
        damages in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
    ) {
        let raw = data(KINDS[kind], len, seed);
        let part = (len as f64 * part) as usize;
        for codec in encoding_codecs() {
            let cx = CodecContext::new(5);
            let Some(mut stream) = encode(&mut *codec.encoder(&cx).unwrap(), &raw, 2 * len + 1_000) else { continue };
            for (index, byte) in &damages {
                let at = index.index(stream.len());
                stream[at] = *byte;
            }
            let mut decoder = codec.decoder(&cx).unwrap();
            let got = start(&mut *decoder, &stream, part, len);
            if let Ok(whole) = decode(&mut *decoder, &stream, len) {
                prop_assert!(got.as_deref() == Ok(&whole[..part]), "{codec:?}");
            }
        }
    }
}
