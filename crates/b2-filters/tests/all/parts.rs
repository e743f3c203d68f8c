//! Parts of blocks and planes, through the trait methods that readers of a few items use.

use b2_filters::{Effect, FilterContext, FilterError, FilteredBlock, Planes, builtin};
use proptest::prelude::*;

fn any_case() -> impl Strategy<Value = (usize, Vec<u8>, usize, usize)> {
    (1_usize..40, prop::collection::vec(any::<u8>(), 1..3000)).prop_flat_map(|(typesize, block)| {
        let len = block.len();
        (Just(typesize), Just(block), 0..=len, 0..=len)
    })
}

proptest! {
    /// A part equals that part of the whole, and planes need no more than `plane_prefix` of their bytes.
    #[test]
    fn parts_agree_with_the_whole((typesize, filtered, a, b) in any_case(), version in 2_u8..6, streaming: bool) {
        let range = a.min(b)..a.max(b);
        let cx = FilterContext::new(typesize).full_itemsize(Some(typesize)).chunk_version(version).streaming(streaming);
        for filter in builtin() {
            let mut whole = vec![0xAA; filtered.len()];
            let result = filter.backward(&cx, 0, &filtered, &mut whole);
            let mut part = vec![0x55; range.len()];
            let block = FilteredBlock::Block(&filtered);
            prop_assert_eq!(&filter.backward_part(&cx, 0, block, range.clone(), &mut part), &result);
            if result.is_err() {
                continue;
            }
            prop_assert!(part == whole[range.clone()], "{filter:?}");
            let properties = filter.properties(&cx, 0);
            prop_assert!(!properties.backward_is_copy || whole == filtered, "{filter:?}");
            if properties.effect >= Effect::KeepsZeros {
                let zeros = vec![0; filtered.len()];
                let mut out = vec![0xAA; filtered.len()];
                filter.backward(&cx, 0, &zeros, &mut out).unwrap();
                prop_assert!(out == zeros, "{filter:?}");
            }
            if properties.effect == Effect::Reorders {
                let ones = |bytes: &[u8]| bytes.iter().map(|byte| byte.count_ones()).sum::<u32>();
                prop_assert_eq!(ones(&whole), ones(&filtered), "{:?}", filter);
            }

            let Some(planes) = properties.planes_of(filtered.len()) else { continue };
            let prefix = planes.prefix(filtered.len(), range.end);
            let mut planes: Vec<Vec<u8>> = filtered.chunks(filtered.len() / planes.count).map(<[u8]>::to_vec).collect();
            for plane in &mut planes {
                plane[prefix..].fill(0x77);
            }
            let planes: Vec<&[u8]> = planes.iter().map(Vec::as_slice).collect();
            part.fill(0x33);
            filter.backward_part(&cx, 0, FilteredBlock::Planes(&planes), range.clone(), &mut part).unwrap();
            prop_assert!(part == whole[range.clone()], "{filter:?} from planes");
        }
    }
}

#[test]
fn shuffle_of_single_bytes_is_a_copy() {
    for filter in builtin() {
        for (typesize, meta) in [(1, 0), (1, 1), (4, 1)] {
            let cx = FilterContext::new(typesize);
            assert_eq!(
                filter.properties(&cx, meta).forward_is_copy,
                filter.name() == "shuffle",
                "{filter:?}"
            );
        }
        assert!(!filter.properties(&FilterContext::new(1), 4).forward_is_copy || filter.name() != "shuffle");
        assert!(
            !filter.properties(&FilterContext::new(4), 0).backward_is_copy
                || filter.name().ends_with("trunc_prec")
                || filter.name() == "int_trunc"
        );
    }
}

#[test]
fn planes_and_ranges_that_do_not_fit_are_refused() {
    let cx = FilterContext::new(4);
    let plane: &[u8] = &[1; 16];
    for filter in builtin().into_iter().filter(|filter| filter.name().ends_with("shuffle")) {
        let mut dst = [0; 8];
        let properties = filter.properties(&cx, 0);
        assert!(matches!(properties.planes_of(64), Some(Planes { count: 4, .. })));
        assert_eq!(properties.planes_of(65), None);
        assert_eq!(filter.backward_part(&cx, 0, FilteredBlock::Planes(&[plane; 4]), 3..11, &mut dst), Ok(()));
        let refused = |planes: &[&[u8]], range, len: usize| {
            let result =
                filter.backward_part(&cx, 0, FilteredBlock::Planes(planes), range, &mut [0; 8][..len]);
            assert!(
                matches!(result, Err(FilterError::Part { .. } | FilterError::Length { .. })),
                "{result:?}"
            );
        };
        refused(&[], 0..0, 0);
        refused(&[plane; 3], 0..8, 8);
        refused(&[plane; 5], 0..8, 8);
        refused(&[plane, plane, &plane[1..], plane], 0..8, 8);
        refused(&[plane; 4], 60..68, 8);
        refused(&[plane; 4], 0..8, 7);
        #[expect(clippy::reversed_empty_ranges)]
        refused(&[plane; 4], 8..0, 8);
    }
    let delta = builtin().into_iter().find(|filter| filter.name() == "delta").unwrap();
    assert_eq!(delta.properties(&cx, 0).planes, None);
    assert!(delta.backward_part(&cx, 0, FilteredBlock::Planes(&[plane; 4]), 0..8, &mut [0; 8]).is_err());
}
