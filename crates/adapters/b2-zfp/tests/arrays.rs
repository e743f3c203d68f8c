//! Round trips, error bounds, and rejected parameters.

use b2_codecs::{Codec, CodecContext, CodecError, Encoded};
use b2_zfp::{FixedAccuracy, FixedPrecision, FixedRate};
use proptest::prelude::*;

fn field(shape: &[u32]) -> Vec<f64> {
    let n: u32 = shape.iter().product();
    (0..n).map(|i| (f64::from(i) * 0.01).sin() * 100.0 + f64::from(i % 7) * 0.01).collect()
}

fn bytes(items: &[f64], typesize: usize) -> Vec<u8> {
    match typesize {
        4 => items.iter().flat_map(|x| (*x as f32).to_le_bytes()).collect(),
        _ => items.iter().flat_map(|x| x.to_le_bytes()).collect(),
    }
}

fn items(bytes: &[u8], typesize: usize) -> Vec<f64> {
    match typesize {
        4 => bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b).into()).collect(),
        _ => bytes.as_chunks().0.iter().map(|b| f64::from_le_bytes(*b)).collect(),
    }
}

fn round_trip(codec: &dyn Codec, cx: &CodecContext<'_>, plain: &[u8]) -> (usize, Vec<u8>) {
    let mut stream = vec![0xAA; plain.len() * 2 + 1000];
    let Encoded::Len(len) = codec.encoder(cx).unwrap().encode(plain, &mut stream).unwrap() else {
        panic!("there is room")
    };
    let mut back = vec![0x55; plain.len()];
    codec.decoder(cx).unwrap().decode(&stream[..len], &mut back).unwrap();
    (len, back)
}

#[test]
fn accuracy_keeps_its_tolerance() {
    for shape in [&[100][..], &[13, 9], &[5, 6, 7], &[4, 5, 6, 4]] {
        for typesize in [4, 8] {
            let plain = bytes(&field(shape), typesize);
            for meta in [-3i8, -1, 0] {
                let cx = CodecContext::new(5).itemsize(typesize).blockshape(shape).meta(meta.cast_unsigned());
                let (_, back) = round_trip(&FixedAccuracy, &cx, &plain);
                let worst = items(&plain, typesize)
                    .iter()
                    .zip(items(&back, typesize))
                    .map(|(a, b)| (a - b).abs())
                    .fold(0.0, f64::max);
                assert!(worst <= 10f64.powi(meta.into()), "{shape:?} {typesize} {meta}: {worst}");
            }
        }
    }
}

#[test]
fn rate_keeps_its_size() {
    let shape = [16, 16];
    let plain = bytes(&field(&shape), 4);
    let cx = CodecContext::new(5).itemsize(4).blockshape(&shape).meta(25);
    assert_eq!(round_trip(&FixedRate, &cx, &plain).0, plain.len() / 4);
}

#[test]
fn full_precision_is_nearly_lossless() {
    let shape = [8, 8, 8];
    let plain = bytes(&field(&shape), 4);
    let cx = CodecContext::new(5).itemsize(4).blockshape(&shape).meta(60);
    let (_, back) = round_trip(&FixedPrecision, &cx, &plain);
    for (a, b) in items(&plain, 4).iter().zip(items(&back, 4)) {
        assert!((a - b).abs() <= 1e-4);
    }
}

#[test]
fn what_zfp_cannot_do_is_refused() {
    let cx = |typesize, shape: &'static [u32]| CodecContext::new(5).itemsize(typesize).blockshape(shape);
    for cx in [cx(2, &[8, 8]), cx(4, &[]), cx(4, &[8, 3]), cx(4, &[4; 5])] {
        assert!(matches!(FixedAccuracy.decoder(&cx).err(), Some(CodecError::Unsupported { .. })));
    }
    let mut out = [0; 100];
    // A huge block shape with a small destination.
    let mut decoder = FixedAccuracy.decoder(&cx(8, &[u32::MAX; 4])).unwrap();
    assert!(matches!(decoder.decode(&[0; 8], &mut out), Err(CodecError::WrongLength { .. })));
    // An incomplete block is stored uncompressed.
    let mut encoder = FixedAccuracy.encoder(&cx(4, &[8, 8])).unwrap();
    assert_eq!(encoder.encode(&[0; 100], &mut out).unwrap(), Encoded::TooBig);
}

proptest! {
    #[test]
    fn any_stream_is_survived(stream in prop::collection::vec(any::<u8>(), 0..300), meta: u8, double: bool) {
        let typesize = if double { 8 } else { 4 };
        let cx = CodecContext::new(5).itemsize(typesize).blockshape(&[5, 8]).meta(meta);
        for codec in [&FixedAccuracy as &dyn Codec, &FixedPrecision, &FixedRate] {
            let Ok(mut decoder) = codec.decoder(&cx) else { continue };
            let (mut a, mut b) = (vec![0; 40 * typesize], vec![0xFF; 40 * typesize]);
            let (ok, again) = (decoder.decode(&stream, &mut a), decoder.decode(&stream, &mut b));
            prop_assert_eq!(&ok, &again);
            if ok.is_ok() {
                prop_assert_eq!(a, b);
            }
        }
    }
}
