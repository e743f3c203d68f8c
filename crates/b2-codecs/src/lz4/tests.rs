#![allow(unsafe_code)]
use super::decode::decode_with;
use super::hc::HcMatcher;
use super::lazy::LazyMatcher;
use super::matcher::Matcher;
use super::output::Output;
use super::raw::RawOutput;
use super::window::MIN_MATCH;
use super::{Lz4, MAX_DICT, dict_in_reach};
use crate::lz77::Isa;
use crate::lz77::raw::RawWindow;
use crate::{Codec, CodecContext, CodecError, CodecId, Encoded};
use proptest::prelude::*;

/// All encoders: codec and clevel.
const ENCODERS: [(&dyn Codec, u8); 18] = {
    let mut all: [(&dyn Codec, u8); 18] = [(&Lz4::Fast, 0); 18];
    let mut k = 0;
    while k < 18 {
        all[k] = (if k < 9 { &Lz4::Fast } else { &Lz4::High }, k as u8 % 9 + 1);
        k += 1;
    }
    all
};

/// A reference decoder, written for clarity: byte by byte, with all rules for the end of a block that C relies on.
/// `Err` names the broken rule.
fn reference(stream: &[u8], dict: &[u8]) -> Result<Vec<u8>, &'static str> {
    fn length(bytes: &mut impl Iterator<Item = u8>, bits: u8) -> Result<usize, &'static str> {
        let mut length = usize::from(bits);
        let mut last = if bits == 15 { 255 } else { 0 };
        while last == 255 {
            last = bytes.next().ok_or("truncated length")?;
            length += usize::from(last);
        }
        Ok(length)
    }
    let mut out = dict.to_vec();
    let mut bytes = stream.iter().copied();
    let mut last_match = None;
    loop {
        let token = bytes.next().ok_or("no token")?;
        let nliterals = length(&mut bytes, token >> 4)?;
        if bytes.len() < nliterals {
            return Err("truncated literals");
        }
        out.extend(bytes.by_ref().take(nliterals));
        if bytes.len() == 0 {
            if last_match.is_some() && nliterals < 5 {
                return Err("fewer than 5 literals at the end");
            }
            if last_match.is_some_and(|start| out.len() - start < 12) {
                return Err("last match starts less than 12 bytes before the end");
            }
            return Ok(out.split_off(dict.len()));
        }
        let (Some(low), Some(high)) = (bytes.next(), bytes.next()) else { return Err("truncated distance") };
        let distance = usize::from(u16::from_le_bytes([low, high]));
        if distance == 0 || distance > out.len() {
            return Err("distance");
        }
        last_match = Some(out.len());
        for _ in 0..length(&mut bytes, token & 15)? + 4 {
            out.push(out[out.len() - distance]);
        }
    }
}

fn encode(codec: &dyn Codec, level: u8, src: &[u8], dict: Option<&[u8]>) -> Vec<u8> {
    let mut encoder = codec.encoder(&CodecContext::new(level).dict(dict)).unwrap();
    encode_with(&mut *encoder, src)
}

fn encode_with(encoder: &mut dyn crate::Encoder, src: &[u8]) -> Vec<u8> {
    let mut stream = vec![0x55; src.len() + src.len() / 200 + 16];
    let Encoded::Len(len) = encoder.encode(src, &mut stream).unwrap() else { panic!("not enough room") };
    stream.truncate(len);
    stream
}

/// Decodes with all instruction sets, which must agree.
fn decode(stream: &[u8], len: usize, dict: Option<&[u8]>) -> Result<Vec<u8>, CodecError> {
    let dict = dict_in_reach(&CodecContext::new(0).dict(dict)).to_vec();
    // Allocated with exactly this size, so that heap checkers notice reads past the end.
    let stream = stream.to_vec().into_boxed_slice();
    let mut answers = Isa::available().into_iter().map(|isa| {
        let mut out = vec![0xAA; len].into_boxed_slice();
        let answer = decode_with::<false>(isa, CodecId::LZ4, &stream, stream.len(), &mut out, len, &dict);
        // Decode again over other bytes: the old content of the output must not matter.
        let mut again = vec![0x33; len].into_boxed_slice();
        assert_eq!(
            decode_with::<false>(isa, CodecId::LZ4, &stream, stream.len(), &mut again, len, &dict),
            answer,
            "{isa:?}"
        );
        assert!(answer.is_err() || out == again, "depends on the old content of the output with {isa:?}");
        (isa, answer.map(|()| out.into_vec()))
    });
    let (_, plain) = answers.next_back().unwrap();
    for (isa, answer) in answers {
        assert!(answer == plain, "{isa:?}: {:?}, plain code: {:?}", answer.err(), plain.err());
    }
    plain
}

/// A cheap generator of reproducible noise.
fn noise(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    move || {
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        (state >> 33) ^ (state >> 7)
    }
}

/// Returns data of many kinds, selected by the low bits of `kind`.
fn sample(kind: u8, len: usize, seed: u64) -> Vec<u8> {
    let mut next = noise(seed);
    let mut data = Vec::with_capacity(len + 512);
    match kind % 8 {
        0 => data.extend((0..len).map(|_| next() as u8)),
        1 => {
            // Runs of single bytes, of all lengths.
            while data.len() < len {
                let (byte, n) = (next() % 5, next() % (1 << (next() % 10)));
                data.extend((0..n).map(|_| byte as u8 * 40));
            }
        }
        2 => {
            let words = ["block", "chunk", "stream", "frame", " ", " ", ", ", "0", "metalayer", "\n"];
            while data.len() < len {
                data.extend_from_slice(words[next() as usize % words.len()].as_bytes());
            }
        }
        3 => data = shuffled_floats(len, &mut next),
        4 => {
            // Periods of 1 to 20 bytes, with occasional breaks.
            while data.len() < len {
                let period: Vec<u8> = (0..1 + next() % 20).map(|_| next() as u8).collect();
                let n = next() as usize % 400;
                data.extend(period.iter().cycle().take(n));
            }
        }
        5 => {
            // Repeats around the largest distance.
            let part: Vec<u8> = (0..65_533 + next() % 6).map(|_| next() as u8).collect();
            while data.len() < len {
                data.extend_from_slice(&part);
            }
        }
        6 => {
            // Copies of earlier parts, exact and at all distances and lengths.
            data.extend((0..40).map(|_| next() as u8));
            while data.len() < len {
                let from = next() as usize % data.len();
                let n = 1 + next() as usize % (1 << (next() % 9));
                for k in 0..n {
                    data.push(data[from + k]);
                }
                data.extend((0..next() % 3).map(|_| next() as u8));
            }
        }
        _ => data.resize(len, seed as u8),
    }
    data.truncate(len);
    data
}

/// Returns a smooth field with missing values, as shuffled float32.
fn shuffled_floats(len: usize, next: &mut impl FnMut() -> u64) -> Vec<u8> {
    let n = len / 4;
    let mut planes = vec![0; len];
    for k in 0..n {
        let value = if k / 97 % 5 == 0 {
            -1e34_f32
        } else {
            (k as f32 * 0.01).sin() * 20.0 + (next() % 8) as f32 * 0.125
        };
        for (plane, byte) in value.to_le_bytes().into_iter().enumerate() {
            planes[plane * n + k] = byte;
        }
    }
    planes
}

fn check_round_trip(codec: &dyn Codec, level: u8, src: &[u8], dict: Option<&[u8]>) {
    let mut encoder = codec.encoder(&CodecContext::new(level).dict(dict)).unwrap();
    // Encode twice: the second time, the encoder has state from the first.
    for _ in 0..2 {
        let stream = encode_with(&mut *encoder, src);
        let reach = dict.unwrap_or_default();
        assert!(
            reference(&stream, reach).expect("rules of the format") == src,
            "reference decodes other data"
        );
        assert!(decode(&stream, src.len(), dict).unwrap() == src, "decodes to other data");
    }
}

/// A subset that is fast enough for Miri: each matcher, with and without a dictionary, and with too little room.
#[test]
fn small_round_trips() {
    let data = sample(6, 500, 3);
    let (dict, src) = data.split_at(100);
    for (codec, level) in [ENCODERS[0], ENCODERS[4], ENCODERS[8], ENCODERS[9], ENCODERS[13], ENCODERS[17]] {
        check_round_trip(codec, level, src, None);
        check_round_trip(codec, level, src, Some(dict));
        let stream = encode(codec, level, src, None);
        let mut encoder = codec.encoder(&CodecContext::new(level)).unwrap();
        for room in [0, 1, stream.len() / 2, stream.len() - 1] {
            assert!(encoder.encode(src, &mut vec![0; room]).unwrap() == Encoded::TooBig, "{room}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn round_trips(
        which in 0..ENCODERS.len(),
        kind: u8,
        seed: u64,
        len in prop_oneof![0..40usize, 0..3000usize, 0..200_000usize],
    ) {
        let (codec, level) = ENCODERS[which];
        check_round_trip(codec, level, &sample(kind, len, seed), None);
    }

    #[test]
    fn round_trips_with_dictionary(
        which in 0..ENCODERS.len(),
        kind: u8,
        seed: u64,
        len in prop_oneof![0..40usize, 0..3000usize, 0..100_000usize],
        dict_len in prop_oneof![1..20usize, 1..3000usize, 1..100_000usize],
    ) {
        let (codec, level) = ENCODERS[which];
        let data = sample(kind, len + dict_len, seed);
        let (dict, src) = data.split_at(dict_len);
        check_round_trip(codec, level, src, Some(dict));
    }

    #[test]
    fn streams_are_independent(which in 0..ENCODERS.len(), kinds: [u8; 4], seed: u64, dict_len in 0..2000usize) {
        let (codec, level) = ENCODERS[which];
        let dict = sample(kinds[3], dict_len, seed);
        let cx = CodecContext::new(level).dict(Some(&dict));
        let mut reused = codec.encoder(&cx).unwrap();
        for (k, kind) in kinds.into_iter().enumerate() {
            let src = sample(kind, 1 + seed as usize % 30_000, seed + k as u64);
            let stream = encode_with(&mut *reused, &src);
            prop_assert!(stream == encode(codec, level, &src, Some(&dict)), "depends on earlier streams");
            // A failure in between must not change the result either.
            reused.encode(&src, &mut vec![0; stream.len() / 2]).unwrap();
        }
    }

    #[test]
    fn garbage_gives_an_error_or_what_the_reference_says(
        stream in proptest::collection::vec(prop_oneof![any::<u8>(), Just(0xFF), Just(0x0F), Just(1), Just(0)], 0..300),
        len in 0..3000usize,
        dict_len in 0..400usize,
    ) {
        let dict = sample(2, dict_len, 1);
        check_hostile(&stream, len, &dict);
        if let Ok(out) = reference(&stream, &dict) {
            check_hostile(&stream, out.len(), &dict);
        }
    }

    #[test]
    fn damaged_streams_give_an_error_or_what_the_reference_says(
        which in 0..ENCODERS.len(),
        kind: u8,
        seed: u64,
        len in 20..4000usize,
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let (codec, level) = ENCODERS[which];
        let mut stream = encode(codec, level, &sample(kind, len, seed), None);
        for (at, byte) in damage {
            let at = at.index(stream.len());
            stream[at] = byte;
        }
        check_hostile(&stream, len, &[]);
    }

    #[test]
    fn lz4_flex_reads_ours_and_we_read_its(which in 0..ENCODERS.len(), kind: u8, seed: u64, len in 0..60_000usize, dict_len in 4..5000usize) {
        let (codec, level) = ENCODERS[which];
        let data = sample(kind, len + dict_len, seed);
        let (dict, src) = data.split_at(dict_len);
        let ours = encode(codec, level, src, None);
        prop_assert!(lz4_flex::block::decompress(&ours, src.len()).unwrap() == src);
        let ours = encode(codec, level, src, Some(dict));
        prop_assert!(lz4_flex::block::decompress_with_dict(&ours, src.len(), dict).unwrap() == src);
        prop_assert!(decode(&lz4_flex::block::compress(src), src.len(), None).unwrap() == src);
        let theirs = lz4_flex::block::compress_with_dict(src, dict);
        prop_assert!(decode(&theirs, src.len(), Some(dict)).unwrap() == src);
    }
}

/// Decodes bytes that may not be a valid LZ4 block, and compares with the reference, which is stricter at the end.
fn check_hostile(stream: &[u8], len: usize, dict: &[u8]) {
    let ours = decode(stream, len, Some(dict));
    match (reference(stream, dict), &ours) {
        (Ok(expected), Ok(out)) => assert!(*out == expected),
        (Ok(expected), Err(_)) => assert_ne!(expected.len(), len, "refused"),
        (Err(rule), Ok(_)) => assert!(rule.contains("the end"), "accepted: {rule}"),
        (Err(_), Err(_)) => {}
    }
}

#[test]
fn every_prefix_is_refused() {
    for (codec, level) in ENCODERS {
        for kind in 0..8 {
            let src = sample(kind, 700, 3);
            let stream = encode(codec, level, &src, None);
            for len in 0..stream.len() {
                assert!(decode(&stream[..len], src.len(), None).is_err(), "{codec:?} kind {kind}: {len}");
            }
        }
    }
}

#[test]
fn other_lengths_are_refused() {
    for (codec, level) in ENCODERS {
        let src = sample(4, 1000, 3);
        let stream = encode(codec, level, &src, None);
        for len in (0..1100).filter(|len| *len != src.len()) {
            let error = decode(&stream, len, None).unwrap_err();
            assert!(
                matches!(error, CodecError::WrongLength { got, expected, .. } if expected == len && got != len),
                "{error}"
            );
        }
    }
}

#[test]
fn too_small_outputs_are_reported_and_not_overrun() {
    for (codec, level) in ENCODERS {
        for (kind, dict) in
            (0..8).flat_map(|kind| [(kind, None), (kind, Some(&b"a dictionary of its own"[..]))])
        {
            let src = sample(kind, 1500, 9);
            let stream = encode(codec, level, &src, dict);
            let mut encoder = codec.encoder(&CodecContext::new(level).dict(dict)).unwrap();
            for len in 0..stream.len() {
                let mut dst = vec![0; len];
                assert_eq!(
                    encoder.encode(&src, &mut dst).unwrap(),
                    Encoded::TooBig,
                    "{codec:?} {level}: {len}"
                );
            }
            let mut dst = vec![0; stream.len()];
            assert_eq!(encoder.encode(&src, &mut dst).unwrap(), Encoded::Len(stream.len()));
            assert!(dst == stream, "exact room gives another stream");
        }
    }
}

/// Encodes streams until the base of the positions overflows.
fn check_base<M: Matcher>(mut old: M, new: impl Fn() -> M, set_base: impl Fn(&mut M, u32)) {
    set_base(&mut old, u32::MAX - 300_000);
    for k in 0..6 {
        let src = sample(k, 40_000, 8);
        let compress = |matcher: &mut M| {
            let mut stream = vec![0; 50_000];
            let len = matcher.compress(&src, 0, &mut stream).unwrap();
            stream.truncate(len);
            stream
        };
        assert!(compress(&mut old) == compress(&mut new()), "kind {k}");
    }
}

#[test]
fn the_base_of_positions_may_wrap() {
    check_base(LazyMatcher::new().unwrap(), || LazyMatcher::new().unwrap(), |m, base| m.tables.base = base);
    check_base(HcMatcher::new(5).unwrap(), || HcMatcher::new(5).unwrap(), |m, base| m.chains.base = base);
}

#[test]
fn blocks_written_by_hand() {
    let check = |stream: &[u8], dict: &[u8], expected: &[u8]| {
        assert_eq!(decode(stream, expected.len(), Some(dict)).unwrap(), expected);
    };
    check(&[0x00], b"", b"");
    check(&[0x30, b'a', b'b', b'c'], b"", b"abc");
    check(
        &[0x20, b'a', b'b', 2, 0, 0x10, b'c'],
        b"",
        b"ababababab"[..6].iter().chain(b"c").copied().collect::<Vec<_>>().as_slice(),
    );
    // Lengths of 15 and 15 + 255 are followed by a byte 0.
    check(&[[0xF0, 0].as_slice(), &[7; 15]].concat(), b"", &[7; 15]);
    check(&[[0xF0, 255, 0].as_slice(), &[7; 270]].concat(), b"", &[7; 270]);
    check(&[0x1F, b'x', 1, 0, 255, 1, 0x10, b'y'], b"", &[vec![b'x'; 1 + 4 + 15 + 256], vec![b'y']].concat());
    // The dictionary directly precedes the output, and a match may run from it into the output.
    check(&[0x02, 5, 0, 0x10, b'!'], b"..hello", b"helloh!");
    check(&[0x11, b'>', 3, 0, 0x10, b'!'], b"..hi", b">hi>hi!");
}

#[test]
fn errors_say_what_is_wrong() {
    let error = |stream: &[u8], len: usize, dict: &[u8]| decode(stream, len, Some(dict)).unwrap_err();
    let malformed = |offset, what| CodecError::Malformed { codec: CodecId::LZ4, offset, what };
    let wrong = |got, expected| CodecError::WrongLength { codec: CodecId::LZ4, got, expected };
    let cut = "input ends inside a sequence";
    assert_eq!(error(&[], 0, b""), malformed(0, cut));
    assert_eq!(error(&[0xF0, 255], 500, b""), malformed(2, cut));
    assert_eq!(error(&[0x20, b'a'], 2, b""), malformed(2, cut));
    assert_eq!(error(&[0x10, b'a', 1], 9, b""), malformed(3, cut));
    assert_eq!(error(&[0x10, b'a', 1, 0], 5, b""), malformed(4, cut));
    assert_eq!(error(&[0x1F, b'a', 1, 0, 255], 900, b""), malformed(5, cut));
    assert_eq!(error(&[0x10, b'a', 0, 0, 0], 9, b""), malformed(2, "distance of zero"));
    let beyond = "distance beyond the start of the output";
    assert_eq!(error(&[0x10, b'a', 2, 0, 0], 5, b""), malformed(2, beyond));
    assert_eq!(error(&[0x10, b'a', 4, 0, 0], 5, b"xy"), malformed(2, beyond));
    assert_eq!(error(&[0x20, b'a', b'b'], 1, b""), wrong(2, 1));
    assert_eq!(error(&[0x20, b'a', b'b'], 3, b""), wrong(2, 3));
    assert_eq!(error(&[0x12, b'a', 1, 0, 0], 6, b""), wrong(7, 6));
    assert_eq!(
        Lz4::High.decoder(&CodecContext::new(1)).unwrap().decode(&[], &mut []).unwrap_err(),
        CodecError::Malformed { codec: CodecId::LZ4HC, offset: 0, what: cut }
    );
}

#[test]
fn levels_and_dictionaries_pay() {
    let src = [sample(3, 60_000, 1), sample(2, 30_000, 5), sample(1, 30_000, 6)].concat();
    let sizes = ENCODERS.map(|(codec, level)| encode(codec, level, &src, None).len());
    let (fast, hc) = sizes.split_at(9);
    assert!(fast[8] < fast[0] && hc[0] < fast[8], "{sizes:?}");
    assert!(hc.is_sorted_by(|a, b| a >= b), "not smaller from level to level: {sizes:?}");
    for (codec, level) in ENCODERS {
        let (dict, src) = src[..40_000].split_at(20_000);
        let (with, without) = (encode(codec, level, src, Some(dict)), encode(codec, level, src, None));
        assert!(with.len() < without.len(), "{codec:?} {level}: {} {}", with.len(), without.len());
        let copy = encode(codec, level, &dict[..5000], Some(dict));
        assert!(copy.len() < 200, "{codec:?} {level}: {}", copy.len());
    }
}

#[test]
fn a_run_of_a_rare_byte_after_very_many_runs() {
    // The second run of 255 is followed by the same bytes as a run whose number differs by the size of the list.
    let run = |k: usize| [(k % 251) as u8; 4];
    let mut src = vec![255; 4];
    src.extend((0..20_000).flat_map(run));
    src.extend([255; 4]);
    src.extend((16_384..16_400).flat_map(run));
    for (codec, level) in ENCODERS {
        check_round_trip(codec, level, &src, None);
    }
}

#[test]
fn long_repeats_take_linear_time() {
    // With quadratic cost these would take hours.
    for (codec, level) in
        [(&Lz4::Fast as &dyn Codec, 1), (&Lz4::Fast, 9), (&Lz4::High, 1), (&Lz4::High, 3), (&Lz4::High, 9)]
    {
        for period in [1, 2, 3, 7, 40] {
            let src: Vec<u8> = (0..8_000_000usize).map(|k| (k % period) as u8).collect();
            let stream = encode(codec, level, &src, None);
            assert!(stream.len() < src.len() / 240, "{codec:?} {level} {period}: {}", stream.len());
            assert!(decode(&stream, src.len(), None).unwrap() == src);
        }
        // Runs that differ only in length, so that each is compared with many others.
        let runs = |k: usize| [vec![0; 200 + k * 7 % 100], vec![1; 1 + k % 3]].concat();
        let src: Vec<u8> = (0..10_000).flat_map(runs).collect();
        assert!(decode(&encode(codec, level, &src, None), src.len(), None).unwrap() == src);
    }
}

#[test]
fn dictionaries_are_the_first_samples() {
    for codec in [&Lz4::Fast as &dyn Codec, &Lz4::High] {
        let train = |lens: &[usize], max| codec.train_dict(b"0123456789", lens, max).unwrap();
        assert_eq!(train(&[2, 3], 100).unwrap(), b"01234");
        assert_eq!(train(&[2, 3], 4).unwrap(), b"0123");
        assert_eq!(train(&[20], 100).unwrap(), b"0123456789");
        assert_eq!(train(&[usize::MAX, 1], 100).unwrap(), b"0123456789");
        assert_eq!(train(&[], 100), None);
        assert_eq!(train(&[5], 0), None);
    }
}

#[test]
fn only_the_end_of_a_long_dictionary_is_in_reach() {
    let dict = sample(0, MAX_DICT + 10, 4);
    // A match at distance 65 535, which reaches the first byte that is in range.
    let stream = [0x00, 0xFF, 0xFF, 0x50, 1, 2, 3, 4, 5];
    let expected = [&dict[10..14], &[1, 2, 3, 4, 5]].concat();
    assert_eq!(decode(&stream, 9, Some(&dict)).unwrap(), expected);
    assert_eq!(decode(&stream, 9, Some(&dict[10..])).unwrap(), expected);
    assert!(decode(&stream, 9, Some(&dict[11..])).is_err());
}

proptest! {
    #[test]
    fn raw_lengths_are_those_of_checked_code(kind: u8, seed: u64, len in 2..400usize, at: (u16, u16), most: u16) {
        let data = sample(kind, len, seed);
        let (a, b) = (usize::from(at.0) % len, usize::from(at.1) % len);
        let (a, b) = (a.min(b), a.max(b));
        prop_assume!(a < b);
        let window = RawWindow::new(&data);
        let limit = b + usize::from(most) % (len - b + 1);
        // SAFETY: `a < b <= limit <= len`.
        let ahead = unsafe { window.match_len(a, b, limit) };
        let expected = (b..limit).take_while(|n| data[n - b + a] == data[*n]).count();
        prop_assert_eq!(ahead, expected);
        let most = usize::from(most) % (a + 1);
        // SAFETY: `a < b < len` and `most <= a`.
        let back = unsafe { window.back_len(a, b, most) };
        let expected = (0..most).take_while(|n| data[a - 1 - n] == data[b - 1 - n]).count();
        prop_assert_eq!(back, expected);
    }

    #[test]
    fn raw_output_is_that_of_checked_code(
        sequences in proptest::collection::vec((0..300usize, 1..0x1_0000usize, 4..2000usize), 0..20),
        room in 0..8000usize,
    ) {
        let window: Vec<u8> = (0..10_000).map(|k| (k % 251) as u8).collect();
        let (mut checked, mut raw) = (vec![0; room], vec![0; room]);
        let (mut out, mut raw_out) = (Output::resume(&mut checked, 0), RawOutput::new(&mut raw));
        let mut anchor = 0;
        let mut done = Some(());
        for (nliterals, distance, len) in sequences {
            let pos = anchor + nliterals;
            let bytes = (distance as u16).to_le_bytes();
            done = out.sequence(&window[anchor..pos], bytes, len - MIN_MATCH);
            // SAFETY: there are at most 20 times 300 literals, of 10 000 bytes.
            let raw_done = unsafe { raw_out.sequence(RawWindow::new(&window), anchor, pos, distance, len) };
            prop_assert_eq!(done, raw_done);
            anchor = pos;
            if done.is_none() {
                break;
            }
        }
        if done.is_some() {
            let tail = &window[anchor..anchor + 100];
            let (len, raw_len) = (out.last_literals(tail), raw_out.finish().last_literals(tail));
            prop_assert_eq!(len, raw_len);
            prop_assert_eq!(&checked[..len.unwrap_or(0)], &raw[..len.unwrap_or(0)]);
        }
    }
}

/// The end of the block is far after the first sequence that breaks a rule.
#[test]
fn faults_in_the_middle_are_found() {
    let rest = encode(&Lz4::Fast, 5, &sample(4, 1500, 7), None);
    for token in [0x00_u8, 0x30, 0xF0, 0x0F, 0x3F, 0xFF] {
        for distance in [0_u16, 1, 40, 41, 59, 60, 61, 0xFFFF] {
            let mut stream = vec![0xF0, 25];
            stream.extend((0..40).collect::<Vec<u8>>());
            stream.extend([10, 0]);
            stream.push(token);
            if token >> 4 == 15 {
                stream.push(0);
            }
            stream.extend([7; 15].iter().take(usize::from(token >> 4)));
            stream.extend(distance.to_le_bytes());
            if token & 15 == 15 {
                stream.extend([255, 255, 3]);
            }
            stream.extend_from_slice(&rest);
            for dict_len in [0, 3, 100] {
                check_hostile(&stream, 3000, &sample(0, dict_len, 3));
                if let Ok(out) = reference(&stream, &sample(0, dict_len, 3)) {
                    check_hostile(&stream, out.len(), &sample(0, dict_len, 3));
                }
            }
        }
    }
}
