//! Selections and views against a plain model.

mod common;

use b2_chunk::{CParams, CodecId, FilterSlot};
use b2nd::{ArrayBuilder, Dtype, NdArray, NdError, Select, SliceDim};
use common::{Dice, Model};
use proptest::prelude::*;

fn u64s(shape: &[usize]) -> Vec<u64> {
    shape.iter().map(|&n| n as u64).collect()
}

/// An array of any geometry with the model's items.
fn stored(model: &Model, dice: &mut Dice) -> NdArray {
    let chunks: Vec<u32> = model.shape.iter().map(|&n| 1 + dice.below(n + 2) as u32).collect();
    let blocks: Vec<u32> = chunks.iter().map(|&c| 1 + dice.below(c as usize) as u32).collect();
    let filters: &[FilterSlot] =
        [&[FilterSlot::SHUFFLE][..], &[FilterSlot::DELTA, FilterSlot::SHUFFLE], &[]][dice.below(3)];
    let cparams = CParams::builder(4).codec(CodecId::LZ4).filters(filters).build().unwrap();
    let frame = ArrayBuilder::new(u64s(&model.shape), Dtype::parse("<u4").unwrap())
        .chunkshape(chunks)
        .blockshape(blocks)
        .cparams(cparams)
        .to_memory(&mut &model.bytes()[..])
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
        let dice = &mut Dice(seed);
        let model = Model::new(&shape, |i| i as u32 * 7 + 1);
        let array = stored(&model, dice);
        for _ in 0..5 {
            let selection = dice.selection(&shape, true);
            let wanted = model.select(&selection);
            let slice = array.slice(&selection).unwrap();
            prop_assert_eq!(slice.shape(), u64s(&wanted.shape), "{:?}", selection);
            prop_assert_eq!(slice.to_vec::<u32>().unwrap(), wanted.items, "{:?}", selection);
        }
    }

    #[test]
    fn views_of_views_match_the_model(shape in shape(), seed: u64) {
        let dice = &mut Dice(seed);
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
                    let selection: Vec<Select> = dice
                        .selection(&model.shape, nd < 8)
                        .into_iter()
                        .map(|select| if let Select::List(_) = select { Select::from(..) } else { select })
                        .collect();
                    (view, model) = (view.slice(&selection).unwrap(), model.select(&selection));
                }
            }
            prop_assert_eq!(view.shape(), u64s(&model.shape));
            prop_assert_eq!(view.to_vec::<u32>().unwrap(), &model.items[..]);
        }
    }

    #[test]
    fn points_and_masks_match_the_model(shape in shape(), seed: u64) {
        let dice = &mut Dice(seed);
        let model = Model::new(&shape, |i| i as u32 * 7 + 1);
        let array = stored(&model, dice);
        let lead = dice.below(shape.len() + 1);
        let rest = &shape[lead..];
        let n = if shape[..lead].contains(&0) { 0 } else { 1 + dice.below(20) };
        let mut wanted = Vec::new();
        let points: Vec<Vec<i64>> = (0..n)
            .map(|_| {
                let at: Vec<usize> = shape[..lead].iter().map(|&n| dice.below(n)).collect();
                for rest in Model::walk(rest) {
                    wanted.push(model.items[model.place(&[&at[..], &rest].concat())]);
                }
                let sign = |(&i, &n): (&usize, &usize)| i as i64 - if i % 2 == 0 { n as i64 } else { 0 };
                at.iter().zip(&shape).map(sign).collect()
            })
            .collect();
        if n > 0 {
            let points = array.points(&points).unwrap();
            prop_assert_eq!(points.shape(), u64s(&[&[n], rest].concat()));
            prop_assert_eq!(points.to_vec::<u32>().unwrap(), wanted);
        }
        let marks: Vec<bool> = model.items.iter().map(|_| dice.below(3) == 0).collect();
        let wanted: Vec<u32> =
            model.items.iter().zip(&marks).filter(|(_, mark)| **mark).map(|(&item, _)| item).collect();
        let marked = array.mask(&marks).unwrap();
        prop_assert_eq!(marked.shape(), [wanted.len() as u64]);
        prop_assert_eq!(marked.to_vec::<u32>().unwrap(), wanted);
    }
}

#[test]
fn selections_that_do_not_fit_are_errors() {
    let model = Model::new(&[4, 5], |i| i as u32);
    let array = stored(&model, &mut Dice(1));
    assert!(array.points(&[[4, 0]]).is_err());
    assert!(array.points(&[[0, 0, 0]]).is_err());
    assert!(array.points(&[vec![0, 0], vec![0]]).is_err());
    assert!(array.mask(&[true; 19]).is_err());
    assert!(array.oindex(&[vec![0], vec![0], vec![0]]).is_err());
    assert!(array.oindex(&[vec![-5]]).is_err());
    assert!(array.all().permute(&[0]).is_err());
    assert!(array.all().permute(&[0, 0]).is_err());
    assert!(array.all().squeeze_axis(0).is_err());
    assert!(array.all().expand_dims(3).is_err());
    assert!(array.slice([Select::NewAxis]).unwrap().slice([vec![0, 0]]).is_err());
    assert!(matches!(array.all().field("a"), Err(NdError::Field { .. })));
    // No points, as many dimensions as there are.
    let empty: [[i64; 2]; 0] = [];
    assert_eq!(array.points(&empty).unwrap().shape(), [0]);
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
    assert_eq!(array.slice([SliceDim::ALL.step_by(1 << 40)]).unwrap().read().unwrap(), [0; 4]);
    assert_eq!(array.slice([vec![0, -1, 1 << 41]]).unwrap().read().unwrap(), [0; 3]);
    assert_eq!(array.points(&[[1 << 41], [-1]]).unwrap().read().unwrap(), [0; 2]);
    // Nothing is stored: that is too much to be made without being asked for.
    let limited = |result: Result<Vec<u8>, NdError>| {
        matches!(result, Err(NdError::Frame(b2_frame::FrameError::LimitExceeded { name: "max_output", .. })))
    };
    assert!(limited(array.all().read()));
    assert!(limited(array.check_output().map(|()| Vec::new())));
    let limits = b2_chunk::Limits::default().with_max_output(u64::MAX);
    let array = NdArray::options().limits(limits.clone()).from_bytes(frame.clone()).unwrap();
    assert!(matches!(array.all().read(), Err(NdError::TooLarge { .. })));
    let error = NdArray::options().limits(limits.with_max_dimensions(0)).from_bytes(frame).unwrap_err();
    let named = |error: &b2_chunk::ChunkError| {
        matches!(error, b2_chunk::ChunkError::LimitExceeded { name: "max_dimensions", asked: 1, .. })
    };
    assert!(matches!(&error, NdError::Chunk(error) if named(error)), "{error}");
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
    let frame = ArrayBuilder::new([5, 7], dtype)
        .chunkshape([2, 3])
        .blockshape([2, 2])
        .to_memory(&mut &raw[..])
        .unwrap();
    let array = NdArray::from_bytes(frame).unwrap();
    assert_eq!(array.all().field("a").unwrap().to_vec::<i32>().unwrap(), (0..35).collect::<Vec<_>>());
    let y = array.all().field("p").unwrap().field("y").unwrap();
    assert_eq!(
        y.slice([SliceDim::Index(1), SliceDim::ALL.step_by(-3)]).unwrap().to_vec::<u16>().unwrap(),
        [39, 30, 21]
    );
    let x = array.all().field("p").unwrap().field("x").unwrap();
    assert_eq!(x.transpose().slice([6]).unwrap().to_vec::<f32>().unwrap(), [3.0, 6.5, 10.0, 13.5, 17.0]);
    let v = array.slice([4, 6]).unwrap().field("v").unwrap();
    assert_eq!((v.shape(), v.nitems(), v.nbytes()), (vec![2, 2], 4, 8));
    assert_eq!(v.to_vec::<i16>().unwrap(), [340, 341, 342, 343]);
    assert!(v.field("a").is_err());
    assert!(array.all().field("p").unwrap().field("z").is_err());
}
