//! Compares the wide loops with the safe ones: both must return the same bytes or the same error for any stream.

use super::Isa;
use crate::blosclz::decode_with as decode_blosclz;
use crate::lz4::decode_with as decode_lz4;
use crate::{CodecError, CodecId};
use proptest::prelude::*;

#[derive(Clone, Copy, Debug)]
enum Format {
    Lz4,
    BloscLz,
}

/// A run of literals and a match, from which streams of both formats are written.
#[derive(Clone, Debug)]
struct Step {
    nliterals: usize,
    distance: usize,
    len: usize,
}

fn step() -> impl Strategy<Value = Step> {
    let nliterals = prop_oneof![5 => Just(0), 5 => 0..15_usize, 2 => 0..40_usize, 1 => 0..700_usize];
    let distance = prop_oneof![3 => 1..=8_usize, 3 => 1..70_usize, 3 => 1..600_usize, 1 => 1..80_000_usize];
    let len = prop_oneof![6 => 4..19_usize, 3 => 19..70_usize, 1 => 70..900_usize];
    (nliterals, distance, len).prop_map(|(nliterals, distance, len)| Step { nliterals, distance, len })
}

/// Returns the stream, with each distance limited to what `dict` and output allow, and the bytes that it decodes to.
fn write(format: Format, steps: &[Step], last: usize, dict: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let (mut stream, mut out) = (vec![], dict.to_vec());
    let mut state = 1_u64;
    let mut literals = |stream: &mut Vec<u8>, out: &mut Vec<u8>, n: usize| {
        for _ in 0..n {
            state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(99);
            stream.push((state >> 56) as u8);
            out.push((state >> 56) as u8);
        }
    };
    let length = |stream: &mut Vec<u8>, n: usize| {
        stream.extend(vec![255; n / 255]);
        stream.push((n % 255) as u8);
    };
    for (k, step) in steps.iter().enumerate() {
        // A blosclz stream starts with literals, and a match needs earlier bytes to copy.
        let nliterals = step.nliterals.max(usize::from(k == 0));
        let far = out.len() + nliterals;
        match format {
            Format::Lz4 => {
                let distance = 1 + (step.distance - 1) % far.min(65_535);
                stream.push((nliterals.min(15) << 4 | (step.len - 4).min(15)) as u8);
                if nliterals >= 15 {
                    length(&mut stream, nliterals - 15);
                }
                literals(&mut stream, &mut out, nliterals);
                stream.extend((distance as u16).to_le_bytes());
                if step.len >= 19 {
                    length(&mut stream, step.len - 19);
                }
                (0..step.len).for_each(|_| out.push(out[out.len() - distance]));
            }
            Format::BloscLz => {
                let distance = 1 + (step.distance - 1) % far.min(73_727);
                blosclz_literals(&mut stream, nliterals, |stream, n| literals(stream, &mut out, n));
                let near = (distance - 1).min(8191);
                stream.push((step.len - 2).min(7) as u8 * 32 + (near >> 8) as u8);
                if step.len >= 9 {
                    length(&mut stream, step.len - 9);
                }
                stream.push(near as u8);
                if near == 8191 {
                    stream.extend(((distance - 8192) as u16).to_be_bytes());
                }
                (0..step.len).for_each(|_| out.push(out[out.len() - distance]));
            }
        }
    }
    match format {
        Format::Lz4 => {
            stream.push((last.min(15) << 4) as u8);
            if last >= 15 {
                length(&mut stream, last - 15);
            }
            literals(&mut stream, &mut out, last);
        }
        Format::BloscLz => {
            blosclz_literals(&mut stream, last.max(1), |stream, n| literals(stream, &mut out, n));
        }
    }
    (stream, out.split_off(dict.len()))
}

fn blosclz_literals(stream: &mut Vec<u8>, mut n: usize, mut literals: impl FnMut(&mut Vec<u8>, usize)) {
    while n > 0 {
        let run = n.min(32);
        stream.push(run as u8 - 1);
        literals(stream, run);
        n -= run;
    }
}

/// Decodes with one instruction set into memory of exactly this size, whose old content must not matter.
fn decode_with(
    isa: Isa,
    format: Format,
    start: bool,
    stream: &[u8],
    len: usize,
    dict: &[u8],
) -> Result<Vec<u8>, CodecError> {
    let end = stream.len();
    // `after` are bytes after the stream, which must not matter either.
    let decode = |old, room, after: &[u8]| {
        let stream = [stream, after].concat().into_boxed_slice();
        let mut out = vec![old; len + room].into_boxed_slice();
        let answer = match (format, start) {
            (Format::Lz4, false) => decode_lz4::<false>(isa, CodecId::LZ4, &stream, end, &mut out, len, dict),
            (Format::Lz4, true) => decode_lz4::<true>(isa, CodecId::LZ4, &stream, end, &mut out, len, dict),
            (Format::BloscLz, false) => decode_blosclz::<false>(isa, &stream, end, &mut out, len),
            (Format::BloscLz, true) => decode_blosclz::<true>(isa, &stream, end, &mut out, len),
        };
        answer.map(|()| out[..len].to_vec())
    };
    let (first, second) = (decode(0xAA, 0, &[]), decode(0x33, 0, &[]));
    assert!(first == second, "{isa:?} {format:?}: the old content of the output shows");
    for room in if start { [].as_slice() } else { &[1, 33, 192] } {
        for after in [&[][..], &[0x11; 30], &[0xFF; 100], stream] {
            // The length in an error may differ, since more was decoded.
            let roomy = decode(0x33, *room, after);
            assert!(
                roomy.as_ref().ok() == first.as_ref().ok(),
                "{isa:?} {format:?}: {room} bytes of room show, or {} bytes of input",
                after.len()
            );
        }
    }
    first
}

/// Decodes with all instruction sets, which must agree, and returns the result.
fn decode(
    format: Format,
    start: bool,
    stream: &[u8],
    len: usize,
    dict: &[u8],
) -> Result<Vec<u8>, CodecError> {
    let mut answers =
        Isa::available().into_iter().map(|isa| (isa, decode_with(isa, format, start, stream, len, dict)));
    let (_, plain) = answers.next_back().unwrap();
    for (isa, answer) in answers {
        assert!(answer == plain, "{isa:?} {format:?}: {:?}, plain code: {:?}", answer.err(), plain.err());
    }
    plain
}

fn format() -> impl Strategy<Value = Format> {
    prop_oneof![Just(Format::Lz4), Just(Format::BloscLz)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn valid_streams(
        format in format(),
        steps in prop::collection::vec(step(), 1..300),
        last in prop_oneof![0..20_usize, 0..200_usize],
        dict_len in prop_oneof![Just(0_usize), 1..1000_usize],
        part in 0.0..1.0_f64,
    ) {
        let dict = match format {
            Format::Lz4 => (0..dict_len).map(|k| (k * k % 251) as u8).collect(),
            Format::BloscLz => vec![],
        };
        let (stream, out) = write(format, &steps, last, &dict);
        prop_assert!(decode(format, false, &stream, out.len(), &dict).as_ref() == Ok(&out));
        let part = (out.len() as f64 * part) as usize;
        prop_assert!(decode(format, true, &stream, part, &dict).as_deref() == Ok(&out[..part]));
        // Wrong lengths and truncated streams.
        prop_assert!(decode(format, false, &stream, out.len() - 1, &dict).is_err());
        prop_assert!(decode(format, false, &stream, out.len() + 1, &dict).is_err());
        prop_assert!(decode(format, false, &stream, part, &dict).is_err());
        let cut = stream.len() * part / out.len();
        prop_assert!(decode(format, false, &stream[..cut], out.len(), &dict).is_err());
    }

    #[test]
    fn damaged_streams(
        format in format(),
        steps in prop::collection::vec(step(), 1..60),
        last in 0..200_usize,
        dict_len in prop_oneof![3 => Just(0_usize), 1 => 1..300_usize],
        damages in prop::collection::vec((any::<prop::sample::Index>(), prop_oneof![any::<u8>(), Just(0), Just(255)]), 1..5),
        more in prop_oneof![Just(0_usize), 0..500_usize],
    ) {
        let dict = vec![77; dict_len];
        let (mut stream, out) = write(format, &steps, last, &dict[..if matches!(format, Format::Lz4) { dict_len } else { 0 }]);
        for (at, byte) in damages {
            let at = at.index(stream.len());
            stream[at] = byte;
        }
        for start in [false, true] {
            let _ = decode(format, start, &stream, out.len() + more, &dict);
            let _ = decode(format, start, &stream, out.len() - out.len().min(more), &dict);
        }
    }

    #[test]
    fn garbage(
        format in format(),
        stream in prop::collection::vec(prop_oneof![any::<u8>(), 0..40_u8, Just(255)], 0..600),
        len in 0..4000_usize,
    ) {
        for start in [false, true] {
            let _ = decode(format, start, &stream, len, &[]);
        }
    }
}

/// A subset that is fast enough for Miri: overlapping, distant and long matches, and streams truncated at every length.
#[test]
fn small_streams() {
    let steps = [(40, 1, 9), (0, 3, 30), (2, 17, 5), (20, 33, 70)].map(|(nliterals, distance, len)| Step {
        nliterals,
        distance,
        len,
    });
    for format in [Format::Lz4, Format::BloscLz] {
        let (stream, out) = write(format, &steps, 12, &[]);
        assert!(decode(format, false, &stream, out.len(), &[]).as_ref() == Ok(&out), "{format:?}");
        for cut in [0, 1, stream.len() / 2, stream.len() - 1] {
            assert!(decode(format, false, &stream[..cut], out.len(), &[]).is_err(), "{format:?} {cut}");
        }
        for at in (0..stream.len()).step_by(7) {
            let mut damaged = stream.clone();
            damaged[at] ^= 0xFF;
            let _ = decode(format, true, &damaged, out.len(), &[]);
        }
    }
}

/// Copies write past their end where there is room. So try every distance from the end, after other matches so that the
/// wide loops are in use.
#[test]
fn every_distance_and_length_near_the_ends() {
    for format in [Format::Lz4, Format::BloscLz] {
        for len in (4..36).chain([47, 48, 49, 63, 64, 65, 95, 96, 97, 128, 129, 200, 264, 273, 274, 275, 530])
        {
            for distance in (1..=70).chain([127, 128, 129]) {
                let step = if len < 20 || distance < 4 { 5 } else { 17 };
                for last in (distance % step..150).step_by(step) {
                    let steps = [
                        Step { nliterals: 64 + distance, distance: 20, len: 5 },
                        Step { nliterals: last % 40, distance, len },
                    ];
                    let (stream, out) = write(format, &steps, last, &[]);
                    let got = decode(format, false, &stream, out.len(), &[]);
                    assert!(got.as_ref() == Ok(&out), "{format:?} {distance} {len} {last}: {:?}", got.err());
                }
            }
        }
        // Literal runs of all lengths.
        for nliterals in (1..150).chain([269, 270, 271, 511, 512, 513]) {
            for last in 0..150 {
                let (stream, out) = write(format, &[Step { nliterals, distance: 1, len: 4 }], last, &[]);
                assert!(decode(format, false, &stream, out.len(), &[]).as_ref() == Ok(&out));
            }
        }
    }
}

/// An LZ4 block ends with literals. One that ends with a match is refused, even if its length is right.
#[test]
fn a_match_at_the_end_is_refused() {
    for len in [4, 18, 19, 20, 273, 274, 275, 529, 530, 6000] {
        for before in [1, 3, 40] {
            let steps = vec![Step { nliterals: 30, distance: 20, len: 7 }; before];
            let steps = [&steps[..], &[Step { nliterals: 2, distance: 9, len }]].concat();
            let (stream, out) = write(Format::Lz4, &steps, 0, &[]);
            assert!(decode(Format::Lz4, false, &stream, out.len(), &[]).as_ref() == Ok(&out));
            let (_, cut) = stream.split_last().unwrap();
            assert!(decode(Format::Lz4, false, cut, out.len(), &[]).is_err(), "{len} {before}");
        }
    }
}

/// Lengths of several megabytes, and lengths that do not end.
#[test]
fn endless_lengths() {
    for (format, first) in [(Format::Lz4, [0x1F, 9, 1, 0].as_slice()), (Format::BloscLz, &[0x20, 9, 0xE0])] {
        for tail in [&[7, 0, 0, 1, 2, 3, 4, 5][..], &[]] {
            let stream = [first, &[255; 20_000], tail].concat();
            for len in [3000, 5_100_000, 5_200_000] {
                assert!(decode(format, false, &stream, len, &[]).is_err());
            }
            assert!(
                tail.is_empty() || decode(format, true, &stream, 5_000_000, &[]) == Ok(vec![9; 5_000_000])
            );
        }
    }
}

#[test]
fn the_variable_chooses() {
    let available = Isa::available();
    assert_eq!(available.last().map(|isa| isa.name()), Some("generic"));
    for isa in &available {
        assert_eq!(Isa::choose(Some(isa.name())), *isa);
    }
    for unknown in [None, Some(""), Some("AVX2"), Some("neon")] {
        assert_eq!(Isa::choose(unknown), available[0]);
    }
    assert!(available.contains(&Isa::best()));
}
