//! Round trips of random numbers, and damaged streams.

use b2_codecs::{Codec, CodecContext, Encoded};
use b2_pco::Pco;
use proptest::prelude::*;

fn encode(cx: &CodecContext<'_>, plain: &[u8]) -> Vec<u8> {
    let mut stream = vec![0xAA; plain.len() * 2 + 1000];
    let Encoded::Len(len) = Pco.encoder(cx).unwrap().encode(plain, &mut stream).unwrap() else {
        panic!("there is room")
    };
    stream.truncate(len);
    stream
}

fn decode(stream: &[u8], len: usize) -> Option<Vec<u8>> {
    let mut back = vec![0x55; len];
    Pco.decoder(&CodecContext::new(5)).unwrap().decode(stream, &mut back).ok().map(|()| back)
}

/// Returns `n` numbers of `itemsize` bytes of one of several kinds.
fn numbers(kind: usize, n: usize, itemsize: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let float = |x: f64| if itemsize == 4 { u64::from((x as f32).to_bits()) } else { x.to_bits() };
    (0..n as u64)
        .flat_map(|i| {
            let bits = match kind {
                0 => random(),
                1 => i.wrapping_mul(seed % 1000),
                2 => random() % 1000,
                3 => (random() % 100).wrapping_sub(50),
                4 => float((random() % 10_000) as f64 / 100.0),
                5 => float((i as f64 * 0.01).sin()),
                6 => float([f64::NAN, -0.0, f64::INFINITY, f64::MIN_POSITIVE][(random() % 4) as usize]),
                _ => i / 50 * 1_000_000 + random() % 3,
            };
            let bytes = u128::from(bits).to_le_bytes();
            bytes[..itemsize].to_vec()
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn every_bit_comes_back(
        kind in 0_usize..8, n in 1_usize..3000, itemsize in prop::sample::select(vec![2_usize, 4, 8, 16]),
        level in 1_u8..10, meta in 0_u8..3, seed: u64, part in 0.0..1.0,
    ) {
        let plain = numbers(kind, n, itemsize, seed);
        let cx = CodecContext::new(level).itemsize(itemsize).meta(meta);
        let stream = encode(&cx, &plain);
        prop_assert_eq!(decode(&stream, plain.len()), Some(plain.clone()));
        prop_assert!(stream.len() <= plain.len() + 64);

        // The start, not a whole number of items, and with another length.
        let len = (plain.len() as f64 * part) as usize;
        let mut start = vec![0x55; len];
        Pco.decoder(&cx).unwrap().decode_start(&stream, &mut start, plain.len()).unwrap();
        prop_assert_eq!(&start[..], &plain[..len]);
        prop_assert_eq!(decode(&stream, plain.len() + itemsize), None);
        prop_assert_eq!(decode(&[&stream[..], &[0]].concat(), plain.len()), None);

        // No space, and a little less than is needed.
        for room in [0, 1, stream.len() - 1] {
            let outcome = Pco.encoder(&cx).unwrap().encode(&plain, &mut vec![0; room]).unwrap();
            prop_assert_eq!(outcome, Encoded::TooBig);
        }
    }

    #[test]
    fn damaged_streams_are_errors_or_other_numbers(
        kind in 0_usize..8, n in 1_usize..2000, seed: u64, cut: prop::sample::Index,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>(), any::<u8>()), 1..6),
    ) {
        let itemsize = [2, 4, 8][seed as usize % 3];
        let plain = numbers(kind, n, itemsize, seed);
        let stream = encode(&CodecContext::new(5).itemsize(itemsize), &plain);
        prop_assert_eq!(decode(&stream[..cut.index(stream.len())], plain.len()), None);
        let mut damaged = stream;
        for (at, early, byte) in changes {
            let end = if early { damaged.len().min(20) } else { damaged.len() };
            damaged[at.index(end)] = byte;
        }
        decode(&damaged, plain.len());
    }
}

#[test]
fn items_that_are_no_numbers_are_refused() {
    for itemsize in [1, 3, 5, 6, 7, 9, 12, 24, 255] {
        assert!(Pco.encoder(&CodecContext::new(5).itemsize(itemsize)).is_err());
    }
    assert!(Pco.encoder(&CodecContext::new(5).itemsize(4).meta(3)).is_err());
    // A block that ends within an item is stored.
    let mut encoder = Pco.encoder(&CodecContext::new(5).itemsize(4)).unwrap();
    assert_eq!(encoder.encode(&[0; 4001], &mut [0; 5000]).unwrap(), Encoded::TooBig);
    assert_eq!(encoder.encode(&[], &mut [0; 5000]).unwrap(), Encoded::TooBig);
}

/// The type that compresses better is chosen.
#[test]
fn integers_and_floats_are_told_apart() {
    let ints: Vec<u8> =
        (0..50_000).flat_map(|i: i32| (i.wrapping_mul(i) % 1009 - 500).to_le_bytes()).collect();
    let floats: Vec<u8> =
        (0..50_000).flat_map(|i| ((i * 7919 % 10_007) as f32 / 10.0).to_le_bytes()).collect();
    for (plain, best, other) in [(ints, 1, 2), (floats, 2, 1)] {
        let size = |meta| encode(&CodecContext::new(5).itemsize(4).meta(meta), &plain).len();
        assert_eq!(size(0), size(best));
        assert!(size(best) < size(other), "{} {}", size(best), size(other));
    }
}

/// A few bytes cannot make the library allocate much: dictionaries of 2^25 entries, windows of 2^24.
#[test]
fn memory_is_checked_before_it_is_taken() {
    for meta in [[0xF4, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0], [0x20, 0x17, 0, 0, 0, 0, 0, 0]] {
        let mut stream = vec![0x08, 100, 0, 0, 0, 4, 1];
        stream.extend(meta);
        stream.extend([0; 64]);
        let error = Pco.decoder(&CodecContext::new(5)).unwrap().decode(&stream, &mut [0; 800]).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("dictionary") || text.contains("window"), "{text}");
    }
}
