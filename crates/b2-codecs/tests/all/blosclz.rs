//! The BloscLZ token format: hand-made streams, and the fast decoder against a slow one.

use crate::common::*;
use b2_codecs::*;
use proptest::prelude::*;

fn decoded(stream: &[u8], len: usize) -> Result<Vec<u8>, CodecError> {
    decode(&mut *codec(CodecId::BLOSCLZ).decoder(&CodecContext::new(5)).unwrap(), stream, len)
}

fn check(stream: &[u8], expected: &[u8]) {
    assert_eq!(decoded(stream, expected.len()).as_deref(), Ok(expected));
}

fn check_malformed(stream: &[u8], len: usize, what: &str) {
    match decoded(stream, len) {
        Err(CodecError::Malformed { what: got, .. }) => assert_eq!(got, what),
        other => panic!("{what} expected, got {other:?}"),
    }
}

fn check_length(stream: &[u8], len: usize) {
    match decoded(stream, len) {
        Err(CodecError::WrongLength { expected, .. }) => assert_eq!(expected, len),
        other => panic!("an error of length expected, got {other:?}"),
    }
}

#[test]
fn literals() {
    check(&[0x00, b'a'], b"a");
    check(&[0x20, b'a'], b"a"); // C's marker in the first control byte
    check(&[0xe0, b'a'], b"a"); // only its low five bits count
    check(&[0x01, b'a', b'b', 0x00, b'c'], b"abc");
    let long: Vec<u8> = (0..64).collect();
    check(&[&[0x3f], &long[..32], &[0x1f], &long[32..]].concat(), &long);
}

#[test]
fn example_of_the_format_description() {
    let text = b"abcdefghijklmnop".repeat(20);
    let stream = [&[0x2f], &text[..16], &[0xe0, 0xff, 0x25, 0x0f, 0x02], b"nop"].concat();
    check(&stream, &text);
}

#[test]
fn match_lengths() {
    check(&[0x20, b'a', 0x20, 0x00, 0x00, b'b'], b"aaaab"); // L = 1: 3 bytes
    check(&[0x20, b'a', 0xc0, 0x00, 0x00, b'b'], b"aaaaaaaaab"); // L = 6: 8 bytes
    check(&[0x20, b'a', 0xe0, 0x00, 0x00, 0x00, b'b'], b"aaaaaaaaaab"); // L = 7 and 0: 9 bytes
    let long = |n: usize| [vec![b'a'; 1 + n], vec![b'b']].concat();
    check(&[0x20, b'a', 0xe0, 0xff, 0x00, 0x00, 0x00, b'b'], &long(9 + 255));
    check(&[0x20, b'a', 0xe0, 0xff, 0xff, 0x01, 0x00, 0x00, b'b'], &long(9 + 255 + 255 + 1));
}

#[test]
fn malformed() {
    check_malformed(&[], 1, "stream is empty");
    check_malformed(&[], 0, "stream is empty");
    check_malformed(&[0x20], 1, "literal run is truncated");
    check_malformed(&[0x21, b'a'], 2, "literal run is truncated");
    check_malformed(&[0x20, b'a', 0x00], 2, "literal run is truncated");
    check_malformed(&[0x20, b'a', 0x20], 4, "match is truncated");
    check_malformed(&[0x20, b'a', 0xe0], 4, "match is truncated");
    check_malformed(&[0x20, b'a', 0xe0, 0xff], 4, "match is truncated");
    check_malformed(&[0x20, b'a', 0xe0, 0x00], 4, "match is truncated");
    check_malformed(&[0x20, b'a', 0x3f, 0xff], 4, "match is truncated");
    check_malformed(&[0x20, b'a', 0x3f, 0xff, 0x00], 4, "match is truncated");
    check_malformed(&[0x20, b'a', 0x20, 0x00], 4, "stream ends with a match");
    check_malformed(&[0x20, b'a', 0x20, 0x01, 0x00, b'b'], 5, "match starts before the output");
    check_malformed(&[0x20, b'a', 0x3f, 0xff, 0x00, 0x00, 0x00, b'b'], 5, "match starts before the output");
}

#[test]
fn wrong_lengths() {
    check_length(&[0x20, b'a'], 0);
    check_length(&[0x20, b'a'], 2);
    check_length(&[0x20, b'a', 0x20, 0x00, 0x00, b'b'], 3);
    check_length(&[0x20, b'a', 0x20, 0x00, 0x00, b'b'], 4);
    check_length(&[0x20, b'a', 0x20, 0x00, 0x00, b'b'], 6);
    // A match of 255 MiB in a stream of 1 MiB.
    let huge = [&[0x20, b'a', 0xe0][..], &vec![0xff; 1 << 20], &[0x00, 0x00, 0x00, b'b']].concat();
    check_length(&huge, 1_000);
}

#[test]
fn dictionaries_are_refused() {
    let cx = CodecContext::new(5).dict(Some(b"abc"));
    assert!(matches!(codec(CodecId::BLOSCLZ).encoder(&cx), Err(CodecError::Unsupported { .. })));
    assert!(matches!(codec(CodecId::BLOSCLZ).decoder(&cx), Err(CodecError::Unsupported { .. })));
}

/// A token of a stream. The stream of `tokens` is what an encoder would write for them.
#[derive(Clone, Debug)]
enum Token {
    Literals(Vec<u8>),
    Match { distance: usize, len: usize },
}

/// The stream of `tokens`, and what it decodes to byte by byte.
fn write(tokens: &[Token]) -> (Vec<u8>, Vec<u8>) {
    let mut stream = Vec::new();
    let mut out: Vec<u8> = Vec::new();
    for token in tokens {
        match token {
            Token::Literals(bytes) => {
                stream.push(bytes.len() as u8 - 1);
                stream.extend_from_slice(bytes);
                out.extend_from_slice(bytes);
            }
            &Token::Match { distance, len } => {
                let high = if distance < 8192 { (distance - 1) >> 8 } else { 31 } as u8;
                if len < 9 {
                    stream.push(((len - 2) as u8) << 5 | high);
                } else {
                    stream.push(7 << 5 | high);
                    stream.extend(std::iter::repeat_n(255, (len - 9) / 255));
                    stream.push(((len - 9) % 255) as u8);
                }
                if distance < 8192 {
                    stream.push((distance - 1) as u8);
                } else {
                    stream.push(255);
                    stream.extend_from_slice(&((distance - 8192) as u16).to_be_bytes());
                }
                for _ in 0..len {
                    out.push(out[out.len() - distance]);
                }
            }
        }
    }
    (stream, out)
}

#[test]
fn every_short_distance_and_length() {
    let start: Vec<u8> = (1..=32).collect();
    for distance in 1..=64 {
        for len in (3..150).chain([255, 264, 265, 600]) {
            // With and without output after the match, which the decoder may overwrite temporarily.
            for tail in [1, 32, 31] {
                let mut tokens = vec![Token::Literals(start.clone()), Token::Literals(start.clone())];
                tokens.push(Token::Match { distance, len });
                tokens.push(Token::Literals(vec![0xee; tail]));
                let (stream, out) = write(&tokens);
                assert!(decoded(&stream, out.len()).as_ref() == Ok(&out), "{distance} {len} {tail}");
            }
        }
    }
}

#[test]
fn far_distances() {
    let pieces: Vec<Vec<u8>> = data(Kind::Noise, 74_000, 4).chunks(32).map(<[u8]>::to_vec).collect();
    let mut tokens: Vec<Token> = pieces.into_iter().map(Token::Literals).collect();
    for distance in [8_190, 8_191, 8_192, 8_193, 8_447, 8_448, 40_000, 73_726, 73_727] {
        tokens.push(Token::Match { distance, len: 20 });
        tokens.push(Token::Literals(vec![1]));
    }
    let (stream, out) = write(&tokens);
    check(&stream, &out);
}

/// The only repeats are `distance` bytes apart, at the limits of the near and far forms, so that matches must use it.
#[test]
fn the_encoder_reaches_every_distance() {
    for distance in [1, 2, 3, 8_190, 8_191, 8_192, 8_193, 73_726, 73_727, 73_728, 80_000] {
        let unit = data(Kind::Noise, distance, 8);
        let raw: Vec<u8> = unit.iter().copied().cycle().take(4 * distance + 100).collect();
        for clevel in 1..=9 {
            let mut encoder = codec(CodecId::BLOSCLZ).encoder(&CodecContext::new(clevel)).unwrap();
            match encode(&mut *encoder, &raw, raw.len()) {
                Some(stream) => {
                    assert!(distance <= 73_727, "{distance}");
                    // Four repeats; low levels skip much of the noise and see one late.
                    assert!(stream.len() < raw.len() * 3 / 4, "{distance} {clevel}: {}", stream.len());
                    check(&stream, &raw);
                }
                None => assert!(distance > 73_727, "{distance} {clevel}"),
            }
        }
    }
}

/// C requires literals at the end of a stream, and its marker at the start.
#[test]
fn streams_end_with_literals() {
    for kind in KINDS {
        for len in (16..400).chain([9_000, 70_000]) {
            for clevel in [1, 9] {
                let raw = data(kind, len, 6);
                let mut encoder = codec(CodecId::BLOSCLZ).encoder(&CodecContext::new(clevel)).unwrap();
                let Some(stream) = encode(&mut *encoder, &raw, len) else { continue };
                assert_eq!(stream[0] & 0xe0, 0x20);
                // Removing the last byte must truncate literals; a truncated match would be reported as one.
                check_malformed(&stream[..stream.len() - 1], len, "literal run is truncated");
            }
        }
    }
}

fn token() -> impl Strategy<Value = (u8, usize, usize)> {
    (any::<u8>(), 0_usize..100_000, prop_oneof![3 => 3_usize..40, 1 => 40_usize..1_000])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_tokens(choices in prop::collection::vec(token(), 1..400), seed in any::<u64>()) {
        let mut random = b2_testkit::Rng::new(seed);
        let mut literals = |len: usize| Token::Literals((0..len).map(|_| random.next() as u8).collect());
        let mut tokens = vec![literals(1 + choices.len() % 32)];
        let mut produced = 1 + choices.len() % 32;
        for (kind, distance, len) in choices {
            tokens.push(if kind < 80 {
                produced += 1 + len % 32;
                literals(1 + len % 32)
            } else {
                // Most distances are short in real streams.
                let distance = if kind < 200 { distance % 40 } else { distance };
                let distance = 1 + distance % produced.min(73_727);
                produced += len;
                Token::Match { distance, len }
            });
        }
        tokens.push(literals(1));
        let (stream, out) = write(&tokens);
        let result = decoded(&stream, out.len());
        prop_assert!(result.as_ref() == Ok(&out), "{:?}", result.err());
        prop_assert!(decoded(&stream, out.len() + 1).is_err());
        prop_assert!(decoded(&stream, out.len() - 1).is_err());
    }
}
