//! Stores that misbehave, and files that change.

use b2_async::{AsyncNdArray, AsyncOptions, AsyncSuperChunk, Version};
use b2_chunk::{CodecId, Compression};
use b2_core::ErrorKind;
use b2_frame::{Compare, FrameError};
use b2nd::{ArrayBuilder, NdError, source};

use crate::rounds::mix;
use crate::store::{Misbehavior, Store};

fn store() -> Store {
    let cparams = Compression::new().itemsize(4).codec(CodecId::LZ4).build().unwrap();
    let item = |i: u64| mix(i) >> 12;
    let builder =
        ArrayBuilder::new::<u32>([500, 500]).chunks([100, 100]).blocks([20, 20]).compression(cparams);
    Store::new(builder.to_bytes(source::by_index(item)).unwrap())
}

#[test]
fn wrong_answers_are_errors() {
    for wrong in [
        Misbehavior::Short,
        Misbehavior::Long,
        Misbehavior::Error,
        Misbehavior::Etag,
        Misbehavior::Length,
        Misbehavior::Moved,
    ] {
        for good in [0, 1, 7] {
            let store = store();
            let options = AsyncOptions::new().compare(Compare::Always);
            let array = store.in_rounds(AsyncNdArray::open_with(store.clone(), &options)).unwrap();
            store.spoil(wrong, good);
            let error = store.in_rounds(array.all().read_bytes()).map(drop).unwrap_err();
            let kind = match wrong {
                Misbehavior::Short | Misbehavior::Long | Misbehavior::Error => ErrorKind::Io,
                Misbehavior::Etag | Misbehavior::Length => ErrorKind::Changed,
                _ => ErrorKind::Damaged,
            };
            assert_eq!(error.kind(), kind, "{wrong:?}: {error}");
            // Nothing remains in flight, and a correct response afterwards is accepted.
            assert_eq!(store.flying(), 0);
            store.spoil(Misbehavior::Nothing, 0);
            assert!(wrong == Misbehavior::Length || store.in_rounds(array.all().read_bytes()).is_ok());
        }
    }
}

#[test]
fn changes_are_noticed_by_time_and_length_too() {
    let mut store = store();
    store.version = Version::default().last_modified(Some("now".to_owned()));
    let array = store.in_rounds(AsyncNdArray::open(store.clone())).unwrap();
    assert!(array.is_guarded());
    store.spoil(Misbehavior::Modified, 3);
    let error = store.in_rounds(array.all().read_bytes()).unwrap_err();
    assert!(matches!(error, NdError::Frame(FrameError::Changed { .. })), "{error}");
    // Changes cannot be detected here, and the array reports that.
    store.version = Version::default();
    let array = store.in_rounds(AsyncNdArray::open(store.clone())).unwrap();
    assert!(!array.is_guarded());
}

#[test]
fn dropping_cancels() {
    let store = store();
    let array = store.in_rounds(AsyncNdArray::open(store.clone())).unwrap();
    let frame = array.super_chunk();
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    {
        let all = array.all();
        let mut reading = std::pin::pin!(all.read_bytes());
        assert!(reading.as_mut().poll(&mut context).is_pending());
        assert_eq!(store.flying(), 16);
    }
    assert_eq!(store.flying(), 0);
    {
        let mut reading = std::pin::pin!(frame.read_bytes(0..frame.nbytes()));
        assert!(reading.as_mut().poll(&mut context).is_pending());
        assert_eq!(store.flying(), 16);
    }
    assert_eq!(store.flying(), 0);
}

#[test]
fn what_is_no_frame_is_told() {
    for bytes in [&b""[..], b"short", &[0; 100_000]] {
        let store = Store::new(bytes);
        assert!(store.in_rounds(AsyncSuperChunk::open(store.clone())).is_err());
    }
    // Every truncation of a frame.
    let builder = ArrayBuilder::new::<u8>([300]).chunks([100]);
    let frame = builder.to_bytes(source::by_index(|i| i as u8)).unwrap();
    for len in 0..frame.len() {
        let store = Store::new(frame[..len].to_vec());
        assert!(store.in_rounds(AsyncNdArray::open(store.clone())).is_err());
    }
}

#[test]
fn callers_may_stop_a_read() {
    use std::ops::ControlFlow;
    let store = store();
    let array = store.in_rounds(AsyncNdArray::open(store.clone())).unwrap();
    let stop = b2_core::Control::new().progress(|_| ControlFlow::Break(()));
    let error = store.in_rounds(array.with_control(stop).all().read_bytes()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
}

/// Damaged frames on misbehaving stores: nothing panics, and what is read from an intact frame is right.
#[test]
fn hostile_stores_never_give_wrong_items() {
    let dice = &mut b2_testkit::Rng::new(21);
    let good = store();
    let intact = good.in_rounds(AsyncNdArray::open(good.clone())).unwrap();
    let items = good.in_rounds(intact.all().read_bytes()).unwrap();
    let frame = good.bytes();
    let wrongs = [
        Misbehavior::Short,
        Misbehavior::Long,
        Misbehavior::Error,
        Misbehavior::Etag,
        Misbehavior::Modified,
        Misbehavior::Moved,
    ];
    let (mut refused, mut read) = (0, 0);
    for case in 0..150 {
        let mut bytes = frame.to_vec();
        let damaged = case % 3 > 0;
        for _ in 0..if damaged { 1 + dice.below(4) } else { 0 } {
            // Both ends hold the metadata.
            let at = match dice.below(3) {
                0 => dice.below(400),
                1 => bytes.len() - 1 - dice.below(3000),
                _ => dice.below(bytes.len()),
            };
            bytes[at] = dice.next() as u8;
        }
        if dice.one_in(10) {
            bytes.truncate(dice.below(frame.len()));
        }
        let whole = bytes == frame;
        let store = Store::new(bytes);
        store.spoil(*dice.pick(&wrongs), dice.below(250));
        let options = AsyncOptions::new().compare(Compare::Always);
        let found = match store.in_any_order(dice, AsyncNdArray::open_with(store.clone(), &options)) {
            Ok(array) => {
                let frame = array.super_chunk();
                let _ = store.in_any_order(dice, frame.gather(&[0, 1, 70_000, 3]));
                let _ = store.in_any_order(dice, frame.verify_checksums());
                store.in_any_order(dice, array.all().read_bytes())
            }
            Err(error) => Err(error),
        };
        match found {
            Ok(found) => {
                assert!(!whole || found == items);
                read += 1;
            }
            Err(_) => refused += 1,
        }
        assert_eq!(store.flying(), 0);
    }
    assert!(refused > 30 && read > 10, "{refused} {read}");
}
