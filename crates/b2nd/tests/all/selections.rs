//! Selections and views against a plain model.

use crate::common::{Dice, Model};
use b2_chunk::{CodecId, Compression, FilterSlot, Limits};
use b2_frame::SuperChunk;
use b2nd::{ArrayBuilder, Dtype, NdArray, NdError, Selection, range};
use proptest::prelude::*;
use std::mem::MaybeUninit;

fn u64s(shape: &[usize]) -> Vec<u64> {
    shape.iter().map(|&n| n as u64).collect()
}

/// An array of any geometry with the model's items.
fn stored(model: &Model, dice: &mut Dice) -> NdArray {
    let chunks: Vec<u32> = model.shape.iter().map(|&n| 1 + dice.below(n + 2) as u32).collect();
    let blocks: Vec<u32> = chunks.iter().map(|&c| 1 + dice.below(c as usize) as u32).collect();
    let filters: &[FilterSlot] =
        [&[FilterSlot::SHUFFLE][..], &[FilterSlot::DELTA, FilterSlot::SHUFFLE], &[]][dice.below(3)];
    let cparams = Compression::new().itemsize(4).codec(CodecId::LZ4).filters(filters).build().unwrap();
    let frame = ArrayBuilder::of_dtype(u64s(&model.shape), Dtype::parse("<u4").unwrap())
        .chunks(chunks)
        .blocks(blocks)
        .compression(cparams)
        .to_bytes(&model.bytes()[..])
        .unwrap();
    NdArray::from_bytes(frame).unwrap()
}

fn shape() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(prop_oneof![9 => 1..9usize, 1 => Just(0)], 0..5)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn selections_match_the_model(shape in shape(), seed: u64) {
        let dice = &mut Dice::new(seed);
        let model = Model::new(&shape, |i| i as u32 * 7 + 1);
        let array = stored(&model, dice);
        for _ in 0..5 {
            let selection = dice.selection(&shape, true);
            let wanted = model.select(&selection);
            let slice = array.slice(&selection).unwrap();
            prop_assert_eq!(slice.shape(), u64s(&wanted.shape), "{:?}", selection);
            prop_assert_eq!(slice.read::<Vec<u32>>().unwrap(), wanted.items, "{:?}", selection);
        }
    }

    #[test]
    fn views_of_views_match_the_model(shape in shape(), seed: u64) {
        let dice = &mut Dice::new(seed);
        let mut model = Model::new(&shape, |i| i as u32 * 7 + 1);
        let array = stored(&model, dice);
        let mut view = array.all();
        for _ in 0..6 {
            let nd = model.shape.len();
            match dice.below(5) {
                0 => {
                    let mut axes: Vec<usize> = (0..nd).collect();
                    for k in (1..nd).rev() {
                        axes.swap(k, dice.below(k + 1));
                    }
                    (view, model) = (view.permute(&axes).unwrap(), model.permute(&axes));
                }
                1 => {
                    let axes: Vec<usize> = (0..nd).rev().collect();
                    (view, model) = (view.transpose(), model.permute(&axes));
                }
                2 => {
                    view = view.squeeze();
                    model.shape.retain(|&n| n != 1);
                }
                3 if nd < 8 => {
                    let axis = dice.below(nd + 1);
                    view = view.expand_dims(axis).unwrap();
                    model.shape.insert(axis, 1);
                }
                _ => {
                    // A new axis cannot be repeated.
                    let selection: Vec<Selection> = dice
                        .selection(&model.shape, nd < 8)
                        .into_iter()
                        .map(|select| if let Selection::List(_) = select { Selection::from(..) } else { select })
                        .collect();
                    (view, model) = (view.slice(&selection).unwrap(), model.select(&selection));
                }
            }
            prop_assert_eq!(view.shape(), u64s(&model.shape));
            prop_assert_eq!(view.read::<Vec<u32>>().unwrap(), &model.items[..]);
        }
    }

    #[test]
    fn points_match_the_model(shape in shape(), seed: u64) {
        let dice = &mut Dice::new(seed);
        let model = Model::new(&shape, |i| i as u32 * 7 + 1);
        let array = stored(&model, dice);
        for _ in 0..5 {
            let selection = dice.points(&shape);
            let wanted = model.points(&selection);
            let slice = array.points(&selection).unwrap();
            prop_assert_eq!(slice.shape(), u64s(&wanted.shape), "{:?}", selection);
            prop_assert_eq!(slice.read::<Vec<u32>>().unwrap(), &wanted.items[..], "{:?}", selection);
            // Views of points.
            let (mut view, mut model) = (slice.transpose(), wanted.transpose());
            prop_assert_eq!(view.read::<Vec<u32>>().unwrap(), &model.items[..], "{:?}", selection);
            for _ in 0..2 {
                // A new axis cannot be repeated.
                let then: Vec<Selection> = dice
                    .selection(&model.shape, false)
                    .into_iter()
                    .map(|select| if let Selection::List(_) = select { Selection::ALL } else { select })
                    .collect();
                (view, model) = (view.slice(&then).unwrap(), model.select(&then));
                prop_assert_eq!(view.shape(), u64s(&model.shape), "{:?} {:?}", selection, then);
                prop_assert_eq!(view.read::<Vec<u32>>().unwrap(), &model.items[..], "{:?} {:?}", selection, then);
            }
            let then = dice.points(&model.shape);
            // The dimension of the points must be among those that are named.
            if let Ok(view) = view.points(&then) {
                let model = model.points(&then);
                prop_assert_eq!(view.shape(), u64s(&model.shape), "{:?} {:?}", selection, then);
                prop_assert_eq!(view.read::<Vec<u32>>().unwrap(), model.items, "{:?} {:?}", selection, then);
            }
        }
        let marks: Vec<bool> = model.items.iter().map(|_| dice.below(3) == 0).collect();
        let wanted: Vec<u32> =
            model.items.iter().zip(&marks).filter(|(_, mark)| **mark).map(|(&item, _)| item).collect();
        let marked = array.mask(&marks).unwrap();
        prop_assert_eq!(marked.shape(), [wanted.len() as u64]);
        prop_assert_eq!(marked.read::<Vec<u32>>().unwrap(), &wanted[..]);
        let bytes: Vec<u8> = marks.iter().map(|&mark| u8::from(mark) * 255).collect();
        prop_assert_eq!(array.mask(&bytes).unwrap().read::<Vec<u32>>().unwrap(), wanted);
    }

    #[test]
    fn memory_of_any_layout_is_filled(shape in shape(), seed: u64) {
        let dice = &mut Dice::new(seed);
        let model = Model::new(&shape, |i| i as u32 * 7 + 1);
        let array = stored(&model, dice);
        let points = dice.below(2) == 0;
        let (slice, wanted) = if points {
            let selection = dice.points(&shape);
            (array.points(&selection).unwrap(), model.points(&selection))
        } else {
            let selection = dice.selection(&shape, true);
            (array.slice(&selection).unwrap(), model.select(&selection))
        };
        let mut values = vec![0; wanted.items.len()];
        slice.read_into(&mut values).unwrap();
        prop_assert_eq!(&values, &wanted.items);
        values.push(0);
        prop_assert!(slice.read_into(&mut values).is_err());
        let mut memory = vec![MaybeUninit::uninit(); wanted.items.len() * 4];
        prop_assert_eq!(&*slice.read_to(&mut memory[..]).unwrap(), &wanted.bytes()[..]);
        // Dimensions in any order, forward and backward, with gaps.
        let nd = wanted.shape.len();
        let mut order: Vec<usize> = (0..nd).collect();
        (1..nd).rev().for_each(|k| order.swap(k, dice.below(k + 1)));
        let (mut step, mut first, mut strides) = (4, 0, vec![0isize; nd]);
        for &dim in &order {
            step += dice.below(3);
            strides[dim] = step as isize;
            if dice.below(3) == 0 {
                strides[dim] = -strides[dim];
                first += wanted.shape[dim].saturating_sub(1) * step;
            }
            step *= wanted.shape[dim].max(1);
        }
        let mut memory = vec![9; step + 3];
        let mut expected = memory.clone();
        for (at, item) in Model::walk(&wanted.shape).iter().zip(&wanted.items) {
            let way: isize = at.iter().zip(&strides).map(|(&at, &stride)| at as isize * stride).sum();
            let place = first.wrapping_add_signed(way);
            expected[place..place + 4].copy_from_slice(&item.to_le_bytes());
        }
        slice.read_bytes_strided(&mut memory, &strides).unwrap();
        prop_assert_eq!(memory, expected, "{:?} {:?}", wanted.shape, strides);
    }
}

#[test]
fn selections_that_do_not_fit_are_errors() {
    let model = Model::new(&[4, 5], |i| i as u32);
    let array = stored(&model, &mut Dice::new(1));
    assert!(array.points(([4], [0])).is_err());
    assert!(array.points(([0], [0], [0])).is_err());
    assert!(array.points(([0, 0], [0, 0, 0])).is_err());
    let none: [i64; 0] = [];
    assert!(array.points((none, 5)).is_err());
    assert!(array.points((none, 4)).is_ok());
    assert!(array.mask([true; 19]).is_err());
    assert!(array.mask([1u8; 21]).is_err());
    assert!(array.slice((Selection::mask_of([4, 5], [true; 20]), 0)).is_err());
    // Points of points that leave their dimension out would be two dimensions of points.
    let points = array.slice((Selection::NewAxis, ..)).unwrap().points((.., .., [0, 1])).unwrap();
    assert!(points.points(([0, 0], [0, 1])).is_err());
    let all = array.all();
    let mut bytes = [0; 80];
    assert!(all.read_bytes_strided(&mut bytes, &[20]).is_err());
    assert!(all.read_bytes_strided(&mut bytes, &[20, 0]).is_err());
    assert!(all.read_bytes_strided(&mut bytes, &[4, 4]).is_err());
    assert!(all.read_bytes_strided(&mut bytes, &[isize::MIN, 4]).is_err());
    assert!(all.read_bytes_strided(&mut bytes[..79], &[20, 4]).is_err());
    assert!(all.read_bytes_strided(&mut bytes, &[20, 4]).is_ok());
    assert!(all.read_bytes_into(&mut bytes[..79]).is_err());
    assert!(all.read_into(&mut [0u32; 19]).is_err());
    assert!(all.read_into(&mut [0f32; 20]).is_err());
    assert!(all.read_to(&mut [MaybeUninit::uninit(); 79][..]).is_err());
    assert!(array.slice(&[vec![0], vec![0], vec![0]]).is_err());
    assert!(array.slice(&[vec![-5]]).is_err());
    assert!(array.all().permute(&[0]).is_err());
    assert!(array.all().permute(&[0, 0]).is_err());
    assert!(array.all().expand_dims(3).is_err());
    assert!(array.slice([Selection::NewAxis]).unwrap().slice([vec![0, 0]]).is_err());
    assert!(matches!(array.all().field("a"), Err(NdError::Field { .. })));
    assert_eq!(array.points((none, none)).unwrap().shape(), [0]);
}

#[test]
fn results_beyond_all_memory_are_errors() {
    // Zeros cost nothing to store: 2^42 bytes of them.
    let params = b2_frame::FrameParams::new(1).chunksize(1 << 30).blocksize(1 << 20);
    let meta = b2nd::ArrayMeta {
        shape: vec![1 << 42],
        chunkshape: vec![1 << 30],
        blockshape: vec![1 << 20],
        dtype_format: 0,
        dtype: Some(b"|u1".to_vec()),
    };
    let params = params.metalayer(b2nd::METALAYER, meta.to_bytes());
    let mut writer = b2_frame::FrameWriter::memory(params).unwrap();
    for _ in 0..1 << 12 {
        writer.append_special(b2_chunk::SpecialKind::Zeros, 1 << 30).unwrap();
    }
    let frame = writer.finish().unwrap().into_bytes();
    let array = NdArray::from_bytes(frame.clone()).unwrap();
    assert_eq!(array.slice([range(..).step(1 << 40)]).unwrap().read_bytes().unwrap(), [0; 4]);
    assert_eq!(array.slice([vec![0, -1, 1i64 << 41]]).unwrap().read_bytes().unwrap(), [0; 3]);
    assert_eq!(array.points([[1i64 << 41, -1]]).unwrap().read_bytes().unwrap(), [0; 2]);
    // Nothing is stored, so the result exceeds the default limit on output.
    let limited = |result: Result<Vec<u8>, NdError>| {
        result.is_err_and(|error| matches!(error, NdError::Limit(limit) if limit.name == "max_output"))
    };
    assert!(limited(array.all().read_bytes()));
    assert!(limited(array.check_output().map(|()| Vec::new())));
    let limits = Limits::default().max_output(u64::MAX);
    let open =
        |limits| NdArray::from_super_chunk(SuperChunk::options().limits(limits).from_bytes(frame.clone())?);
    let array = open(limits.clone()).unwrap();
    assert!(matches!(array.all().read_bytes(), Err(NdError::TooLarge { .. })));
    let error = open(limits.max_dimensions(0)).unwrap_err();
    let named = |error: &NdError| matches!(error, NdError::Limit(limit) if limit.name == "max_dimensions");
    assert!(named(&error), "{error}");
}

#[test]
fn fields_read_through() {
    let dtype =
        Dtype::parse("[('a', '<i4'), ('p', [('x', '>f4'), ('y', '<u2')]), ('v', '<i2', (2, 2))]").unwrap();
    let raw: Vec<u8> = (0..35i32)
        .flat_map(|i| {
            let mut item = i.to_le_bytes().to_vec();
            item.extend((i as f32 / 2.0).to_be_bytes());
            item.extend((i as u16 * 3).to_le_bytes());
            (0..4).for_each(|k| item.extend((i as i16 * 10 + k).to_le_bytes()));
            item
        })
        .collect();
    let frame =
        ArrayBuilder::of_dtype([5, 7], dtype).chunks([2, 3]).blocks([2, 2]).to_bytes(&raw[..]).unwrap();
    let array = NdArray::from_bytes(frame).unwrap();
    assert_eq!(array.all().field("a").unwrap().read::<Vec<i32>>().unwrap(), (0..35).collect::<Vec<_>>());
    let y = array.all().field("p").unwrap().field("y").unwrap();
    assert_eq!(
        y.slice([Selection::Index(1), range(..).step(-3)]).unwrap().read::<Vec<u16>>().unwrap(),
        [39, 30, 21]
    );
    let x = array.all().field("p").unwrap().field("x").unwrap();
    assert_eq!(x.transpose().slice([6]).unwrap().read::<Vec<f32>>().unwrap(), [3.0, 6.5, 10.0, 13.5, 17.0]);
    let v = array.slice([4, 6]).unwrap().field("v").unwrap();
    assert_eq!((v.shape(), v.len(), v.nbytes()), (vec![2, 2], 4, 8));
    assert_eq!(v.read::<Vec<i16>>().unwrap(), [340, 341, 342, 343]);
    assert!(v.field("a").is_err());
    assert!(array.all().field("p").unwrap().field("z").is_err());
}

#[test]
fn bytes_come_in_the_order_of_this_machine() {
    let (own, other) = if cfg!(target_endian = "big") { ('>', '<') } else { ('<', '>') };
    let dtype =
        Dtype::parse(&format!("[('a', '{other}i4'), ('v', '{other}u2', (2,)), ('n', '{own}i2')]")).unwrap();
    let raw: Vec<u8> = (0..60).collect();
    let frame = ArrayBuilder::of_dtype([3, 2], dtype).chunks([2, 2]).to_bytes(&raw[..]).unwrap();
    let array = NdArray::from_bytes(frame).unwrap();
    let all = array.all().native();
    let own_dtype = format!("[('a', '{own}i4'), ('v', '{own}u2', (2,)), ('n', '{own}i2')]");
    assert_eq!(all.dtype().as_str(), own_dtype);
    let swap = |item: &[u8]| [3, 2, 1, 0, 5, 4, 7, 6, 8, 9].map(|at| item[at]);
    let swapped: Vec<u8> = raw.chunks(10).flat_map(swap).collect();
    assert_eq!(all.read_bytes().unwrap(), swapped);
    let mut memory = [MaybeUninit::uninit(); 60];
    assert_eq!(all.read_to(&mut memory[..]).unwrap(), swapped);
    let mut rows = [0; 64];
    all.read_bytes_strided(&mut rows, &[-22, 10]).unwrap();
    assert_eq!((&rows[..20], &rows[22..42], &rows[44..]), (&swapped[40..], &swapped[20..40], &swapped[..20]));
    let v = all.slice((1, ..)).unwrap().field("v").unwrap();
    assert_eq!(v.dtype().as_str(), format!("{own}u2"));
    assert_eq!(v.read_bytes().unwrap(), [25, 24, 27, 26, 35, 34, 37, 36]);
    assert!(v.read_bytes_strided(&mut [0; 64], &[4, 3]).is_err());
    // A copy of such a view.
    let copy = ArrayBuilder::of_dtype([3, 2], all.dtype().clone()).to_bytes(all.clone()).unwrap();
    assert_eq!(NdArray::from_bytes(copy).unwrap().all().read_bytes().unwrap(), swapped);
    let twice = b2nd::Concat::new([all.clone(), all], 0).unwrap();
    let twice = NdArray::from_bytes(twice.builder().to_bytes(twice).unwrap()).unwrap();
    assert_eq!(twice.all().read_bytes().unwrap(), swapped.repeat(2));
}

#[cfg(feature = "ndarray")]
#[test]
fn slices_of_ndarray_mean_what_they_mean_there() {
    use ndarray::{Array, Array2, Array3, ArrayD, Ix3, SliceInfo, SliceInfoElem, s};

    let model = Array3::from_shape_fn((6, 5, 4), |(i, j, k)| (i * 20 + j * 4 + k) as u32);
    let frame =
        ArrayBuilder::new::<u32>([6, 5, 4]).chunks([4, 2, 3]).blocks([2, 2, 2]).to_bytes(&model).unwrap();
    let array = NdArray::from_bytes(frame).unwrap();
    let read: Array2<u32> = array.slice(s![1..5;-2, .., 3]).unwrap().read().unwrap();
    assert_eq!(read, model.slice(s![1..5;-2, .., 3]));
    // The same range in our own syntax walks down from its start, as in NumPy.
    let walked: Array<u32, Ix3> =
        array.slice(Selection::Range { start: Some(4), stop: Some(1), step: -2 }).unwrap().read().unwrap();
    assert_eq!(walked.shape(), [2, 5, 4]);
    assert_eq!(array.slice(range(1..5).step(-2)).unwrap().shape(), [0, 5, 4]);
    assert_eq!(array.slice(s![1..5;-2, .., ..]).unwrap().shape(), [2, 5, 4]);
    assert!(array.slice(s![0..7, .., ..]).is_err());
    assert!(array.all().read::<Array2<u32>>().is_err());
    let dice = &mut Dice::new(5);
    for _ in 0..2000 {
        let mut elems: Vec<SliceInfoElem> = Vec::new();
        for n in [6isize, 5, 4] {
            let edge = |dice: &mut Dice| dice.below(2 * n as usize + 3) as isize - n - 1;
            elems.push(match dice.below(6) {
                0 => SliceInfoElem::Index(edge(dice)),
                _ => SliceInfoElem::Slice {
                    start: edge(dice),
                    end: (dice.below(3) > 0).then(|| edge(dice)),
                    step: [1, 2, 3, -1, -2, -3][dice.below(6)],
                },
            });
            if dice.below(6) == 0 {
                elems.push(SliceInfoElem::NewAxis);
            }
        }
        let got = array.slice(&elems).and_then(|slice| slice.read::<ArrayD<u32>>());
        let info: SliceInfo<_, Ix3, ndarray::IxDyn> = elems.clone().try_into().unwrap();
        let expected = std::panic::catch_unwind(|| model.slice(info).to_owned());
        assert_eq!(got.ok(), expected.ok(), "{elems:?}");
    }
}

/// Widely spaced points in a block are taken from the planes of a shuffle one by one.
#[test]
fn points_far_apart_are_the_items_there() {
    let dice = &mut Dice::new(11);
    let filters: [&[FilterSlot]; 4] =
        [&[FilterSlot::SHUFFLE], &[FilterSlot::BITSHUFFLE], &[], &[FilterSlot::DELTA, FilterSlot::SHUFFLE]];
    for dtype in ["|u1", "<u2", "<u4", "<u8", "<c16", "|V3", "|V40"] {
        let dtype = Dtype::parse(dtype).unwrap();
        let size = dtype.itemsize();
        // Streams that can be compressed, those that are stored, and blocks that repeat one item.
        let items: Vec<u8> = (0..60 * 70 * size)
            .map(|at| match at / size / (20 * 70) {
                0 => (at / size / 9 * (at % size + 1)) as u8,
                1 => dice.below(256) as u8,
                _ => (at % size) as u8,
            })
            .collect();
        for filters in filters {
            let cparams =
                Compression::new().itemsize(size).codec(CodecId::LZ4).filters(filters).build().unwrap();
            let frame = ArrayBuilder::of_dtype([60, 70], dtype.clone())
                .chunks([40, 70])
                .blocks([20, 70])
                .compression(cparams)
                .to_bytes(&items[..])
                .unwrap();
            let array = NdArray::from_bytes(frame).unwrap();
            for count in [1, 2, 5, 12, 400] {
                let points: [Vec<i64>; 2] =
                    [60, 70].map(|n| (0..count).map(|_| dice.below(n) as i64).collect());
                let at = |k: usize| (points[0][k] * 70 + points[1][k]) as usize * size;
                let expected: Vec<u8> =
                    (0..count).flat_map(|k| &items[at(k)..at(k) + size]).copied().collect();
                let selected = points.clone().map(Selection::List).to_vec();
                let found = array.points(selected).unwrap().read_bytes().unwrap();
                assert!(found == expected, "{dtype}, {filters:?}, {points:?}");
            }
        }
    }
}

/// A subset that is fast enough for Miri: selections that fill their result, and those with gaps and repetitions.
#[test]
fn small_selections() {
    for (seed, shape) in [(1, &[5, 3][..]), (2, &[7]), (3, &[2, 3, 2])] {
        let dice = &mut Dice::new(seed);
        let model = Model::new(shape, |i| i as u32 * 7 + 1);
        let array = stored(&model, dice);
        assert_eq!(array.all().read::<Vec<u32>>().unwrap(), model.items);
        for _ in 0..3 {
            let selection = dice.selection(shape, true);
            let wanted = model.select(&selection);
            assert_eq!(array.slice(&selection).unwrap().read::<Vec<u32>>().unwrap(), wanted.items);
        }
    }
}
