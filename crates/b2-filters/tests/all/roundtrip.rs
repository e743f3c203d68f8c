//! Round trips and hostile parameters, through the public interface.

use b2_filters::{Filter, FilterContext, FilterError, FilterId, FilteredBlock, builtin};
use proptest::prelude::*;

fn filter(id: FilterId) -> std::sync::Arc<dyn Filter> {
    builtin().into_iter().find(|f| f.id() == id).expect("a built-in filter")
}

/// Forward, then backward, into buffers that already hold something.
fn check(id: FilterId, cx: &FilterContext<'_>, meta: u8, plain: &[u8]) -> Result<(), TestCaseError> {
    let filter = filter(id);
    let (mut stored, mut back) = (vec![0xAA; plain.len()], vec![0x55; plain.len()]);
    filter.forward(cx, meta, plain, &mut stored).unwrap();
    filter.backward(cx, meta, &stored, &mut back).unwrap();
    prop_assert!(back == plain, "{id}, parameter {meta}, {cx:?}");
    Ok(())
}

proptest! {
    #[test]
    fn lossless_filters_come_back(
        plain in prop::collection::vec(any::<u8>(), 0..5000),
        typesize in prop_oneof![1_usize..=32, 1_usize..=255],
        meta in any::<u8>(),
        version in prop_oneof![Just(2_u8), Just(5)],
        first in any::<bool>(),
        streaming in any::<bool>(),
    ) {
        let reference: Vec<u8> = plain.iter().rev().map(|b| b ^ 0x5A).collect();
        let cx = FilterContext::new(typesize).full_itemsize(Some(typesize)).chunk_version(version).reference((!first).then_some(reference.as_slice())).streaming(streaming);
        for id in [FilterId::SHUFFLE, FilterId::BITSHUFFLE, FilterId::DELTA, FilterId::BYTEDELTA] {
            check(id, &cx, meta, &plain)?;
        }
    }

    #[test]
    fn cells_come_back(
        shape in prop::collection::vec(1_u32..7, 1..=5),
        itemsize in 1_usize..=9,
        side in 1_u8..7,
        seed in any::<u8>(),
    ) {
        let nitems: u32 = shape.iter().product();
        prop_assume!(u32::from(side).pow(shape.len() as u32) <= nitems);
        let plain: Vec<u8> = (0..nitems as usize * itemsize).map(|k| ((k * 31) >> 2) as u8 ^ seed).collect();
        let cx = FilterContext::new(itemsize).full_itemsize(Some(itemsize)).blockshape(&shape);
        check(FilterId::NDCELL, &cx, side, &plain)?;
    }

    #[test]
    fn lossy_filters_settle(
        plain in prop::collection::vec(any::<u8>(), 0..200),
        typesize in prop_oneof![Just(4_usize), Just(8)],
        keep in 1_u8..23,
    ) {
        for id in [FilterId::TRUNC_PREC, FilterId::INT_TRUNC] {
            let (filter, cx) = (filter(id), FilterContext::new(typesize));
            let mut once = vec![0xAA; plain.len()];
            filter.forward(&cx, keep, &plain, &mut once).unwrap();
            prop_assert!(once.iter().zip(&plain).all(|(new, old)| new & !old == 0), "bits only go away");
            let mut twice = vec![0x55; plain.len()];
            filter.forward(&cx, keep, &once, &mut twice).unwrap();
            prop_assert_eq!(&twice, &once);
            prop_assert!(filter.properties(&cx, keep).backward_is_copy);
            filter.backward(&cx, keep, &once, &mut twice).unwrap();
            prop_assert_eq!(&twice, &once);
        }
    }

    /// For any parameters, a filter returns bytes or an error, and does not panic.
    #[test]
    fn hostile_parameters_do_not_panic(
        src in prop::collection::vec(any::<u8>(), 0..300),
        typesize in prop_oneof![0_usize..300, any::<usize>()],
        itemsize in prop::option::of(prop_oneof![0_usize..300, any::<usize>()]),
        meta in any::<u8>(),
        version in any::<u8>(),
        shape in prop::collection::vec(prop_oneof![0_u32..5, any::<u32>()], 0..10),
        reference in prop::option::of(prop::collection::vec(any::<u8>(), 0..300)),
        short in 0_usize..3,
        part in prop_oneof![(0_usize..300, 0_usize..310), any::<(usize, usize)>()],
    ) {
        let cx = FilterContext::new(typesize).full_itemsize(itemsize).chunk_version(version).blockshape(&shape).reference(reference.as_deref());
        for filter in builtin() {
            let mut dst = vec![0; src.len() + short];
            let results = [filter.forward(&cx, meta, &src, &mut dst), filter.backward(&cx, meta, &src, &mut dst)];
            prop_assert!(short == 0 || results.iter().all(Result::is_err), "{filter:?}");
            let range = part.0..part.1;
            let mut dst = vec![0; range.len().min(1000) + short];
            let part = filter.backward_part(&cx, meta, FilteredBlock::Block(&src), range.clone(), &mut dst);
            prop_assert!(short == 0 || part.is_err(), "{filter:?}");
            let properties = filter.properties(&cx, meta);
            prop_assert!(properties.chunk_multiple > 0);
            let _ = properties.planes.map(|planes| planes.prefix(src.len(), range.end));
            let _ = properties.planes_of(src.len());
            let planes: Vec<&[u8]> = src.chunks(typesize.clamp(1, 300)).collect();
            let _ = filter.backward_part(&cx, meta, FilteredBlock::Planes(&planes), range, &mut dst);
        }
    }
}

#[test]
fn version_2_leaves_odd_numbers_of_items_alone() {
    let bitshuffle = filter(FilterId::BITSHUFFLE);
    // Bytes, typesize, whether chunk version 2 transposes.
    for (nbytes, typesize, transposed) in [
        (108, 13, true),
        (64, 8, true),
        (72, 8, false),
        (65, 8, true),
        (7, 1, false),
        (12, 13, true),
        (0, 4, true),
    ] {
        let plain: Vec<u8> = (0..nbytes).map(|k| k as u8 ^ 0x35).collect();
        let mut now = vec![0xAA; nbytes];
        b2_filters::bitshuffle(typesize, &plain, &mut now).unwrap();
        let cx = FilterContext::new(typesize).chunk_version(2);
        let mut old = vec![0x55; nbytes];
        bitshuffle.forward(&cx, 0, &plain, &mut old).unwrap();
        assert_eq!(
            old,
            if transposed { &now } else { &plain }.as_slice(),
            "{nbytes} bytes, typesize {typesize}"
        );
        let mut back = vec![0xAA; nbytes];
        bitshuffle.backward(&cx, 0, &old, &mut back).unwrap();
        assert_eq!(back, plain);
    }
}

#[test]
fn a_shuffle_parameter_replaces_the_item_size() {
    let shuffle = filter(FilterId::SHUFFLE);
    let mut dst = [0; 6];
    shuffle.forward(&FilterContext::new(4), 2, b"aAbBcC", &mut dst).unwrap();
    assert_eq!(&dst, b"abcABC");
    // An item size of 0 is rejected, unless the parameter overrides it.
    let err = shuffle.forward(&FilterContext::new(0), 0, b"aAbBcC", &mut dst).unwrap_err();
    assert_eq!(err, FilterError::item_size(FilterId::SHUFFLE, 0));
    shuffle.backward(&FilterContext::new(0), 2, b"abcABC", &mut dst).unwrap();
    assert_eq!(&dst, b"aAbBcC");
}

#[test]
fn ids_and_names_agree() {
    let ids: Vec<u8> = builtin().iter().map(|f| f.id().0).collect();
    assert_eq!(ids, [1, 2, 3, 4, 32, 33, 34, 35, 36]);
    for filter in builtin() {
        assert_eq!(FilterId::from_name(filter.name()), Some(filter.id()));
        assert_eq!(filter.id().to_string(), filter.name());
    }
}
