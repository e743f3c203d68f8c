//! Sources of new arrays: constants, functions, iterators, other arrays, joined arrays.

use crate::common::{Dice, Model};
use b2_chunk::{CodecId, Compatibility, Compression, FilterId, FilterSlot, SpecialKind};
use b2_frame::Entry;
use b2nd::{ArrayBuilder, Concat, Dtype, NdArray, NdError, RegionSource, Selection, range, source};
use proptest::prelude::*;

fn u64s(shape: &[usize]) -> Vec<u64> {
    shape.iter().map(|&n| n as u64).collect()
}

fn u32s(shape: &[usize]) -> Vec<u32> {
    shape.iter().map(|&n| n as u32).collect()
}

fn memory(builder: &ArrayBuilder, source: impl RegionSource) -> NdArray {
    NdArray::from_bytes(builder.to_bytes(source).unwrap()).unwrap()
}

fn chunk_bytes(array: &NdArray, nchunk: usize) -> Vec<u8> {
    array.super_chunk().chunk(nchunk).read().unwrap().as_bytes().to_vec()
}

#[test]
fn arrays_need_chunks_of_blosc2() {
    let blosc1 = Compression::new().compatibility(Compatibility::Blosc1);
    let error = ArrayBuilder::new::<u32>([10]).compression(blosc1).to_bytes(source::zeros()).unwrap_err();
    assert!(error.to_string().contains("Blosc2"), "{error}");
}

#[test]
fn constants_take_no_space() {
    for (mut fill, kind) in [
        (source::zeros(), SpecialKind::Zeros),
        (source::uninit(), SpecialKind::Uninit),
        (source::value(0u32), SpecialKind::Zeros),
    ] {
        let array = memory(&ArrayBuilder::new::<u32>([100, 70]).chunks([30, 30]), &mut fill);
        assert_eq!(array.super_chunk().nchunks(), 12);
        assert_eq!(array.super_chunk().chunk(11).entry().unwrap(), Entry::Special(kind));
        assert_eq!(array.all().read::<Vec<u32>>().unwrap(), [0; 7000]);
    }
    let dtype = Dtype::parse("<f8").unwrap();
    let array = memory(&ArrayBuilder::of_dtype([100], dtype.clone()), source::nans(&dtype).unwrap());
    assert_eq!(array.super_chunk().chunk(0).entry().unwrap(), Entry::Special(SpecialKind::NaN));
    assert!(array.all().read::<Vec<f64>>().unwrap().iter().all(|x| x.is_nan()));
    // A NaN in the index means a little-endian float; others are repeated values.
    let dtype = Dtype::parse(">f4").unwrap();
    let array = memory(&ArrayBuilder::of_dtype([100], dtype.clone()), source::nans(&dtype).unwrap());
    assert!(array.all().read::<Vec<f32>>().unwrap().iter().all(|x| x.is_nan()));
    let dtype = Dtype::parse("<c8").unwrap();
    let array = memory(&ArrayBuilder::of_dtype([3], dtype.clone()), source::nans(&dtype).unwrap());
    assert_eq!(array.all().read_bytes().unwrap(), [0, 0, 0xC0, 0x7F].repeat(6));
    assert!(source::nans(&Dtype::parse("<i4").unwrap()).is_err());

    let array = memory(&ArrayBuilder::new::<i16>([100, 70]).chunks([30, 30]), source::value(-5i16));
    assert_eq!(array.super_chunk().chunk(3).read().unwrap().cbytes(), 34);
    assert_eq!(array.all().read::<Vec<i16>>().unwrap(), [-5; 7000]);
    // Too wide for chunk headers.
    let item: Vec<u8> = (0..=255).chain(0..=44).collect();
    let array =
        memory(&ArrayBuilder::of_dtype([20], Dtype::parse("|V301").unwrap()), source::item(&item[..]));
    assert_eq!(array.all().read_bytes().unwrap(), item.repeat(20));
    // No value of 4 bytes for items of 8.
    let wrong = source::value(1u32);
    assert!(matches!(ArrayBuilder::new::<u64>([3]).to_bytes(wrong), Err(NdError::Argument { .. })));
}

#[test]
fn constants_beyond_all_memory() {
    let array =
        memory(&ArrayBuilder::new::<u8>([1 << 20, 1 << 20]).chunks([1 << 15, 1 << 15]), source::zeros());
    assert_eq!((array.nbytes(), array.super_chunk().nchunks()), (1 << 40, 1 << 10));
    assert_eq!(array.slice([-1, -1]).unwrap().read_bytes().unwrap(), [0]);
}

#[test]
fn arrays_without_items() {
    for shape in [vec![0], vec![0, 5], vec![5, 0, 2]] {
        for mut source in [source::zeros(), source::value(7u8)] {
            let array = memory(&ArrayBuilder::new::<u8>(&shape[..]), &mut source);
            assert_eq!((array.shape(), array.all().read_bytes().unwrap()), (&shape[..], vec![]));
        }
    }
    let scalar = memory(&ArrayBuilder::new::<f64>([]), source::value(2.5));
    assert_eq!(scalar.all().read::<Vec<f64>>().unwrap(), [2.5]);
    // Ready to grow: C-Blosc2 stores the chunk size of empty arrays too.
    let empty = memory(&ArrayBuilder::new::<u32>([0, 5]).chunks([2, 5]), source::zeros());
    assert_eq!(empty.super_chunk().chunksize(), 40);
}

#[test]
fn iterators_must_have_enough_items() {
    let builder = ArrayBuilder::new::<u8>([5, 3]);
    assert!(matches!(builder.to_bytes(source::items(0..14u8)), Err(NdError::Argument { .. })));
    assert!(matches!(builder.to_bytes(source::items(0..99u32)), Err(NdError::Element { .. })));
    assert_eq!(
        memory(&builder, source::items(0..99u8)).all().read_bytes().unwrap(),
        (0..15).collect::<Vec<_>>()
    );
}

#[test]
fn counting_is_exact() {
    let array = memory(&ArrayBuilder::new::<f64>([3, 1000]).chunks([2, 300]), source::linspace(-1.0, 0.7));
    let items = array.all().read::<Vec<f64>>().unwrap();
    assert_eq!((items[0], items[2999]), (-1.0, 0.7));
    assert!(items.windows(2).all(|w| w[0] < w[1]));
    let array = memory(&ArrayBuilder::new::<i64>([7]), source::arange(i64::MAX - 2, 1));
    assert_eq!(
        array.all().read::<Vec<i64>>().unwrap()[..4],
        [i64::MAX - 2, i64::MAX - 1, i64::MAX, i64::MIN]
    );
    let array = memory(&ArrayBuilder::new::<f32>([4]), source::arange(1.0f32, -0.25));
    assert_eq!(array.all().read::<Vec<f32>>().unwrap(), [1.0, 0.75, 0.5, 0.25]);
}

#[test]
fn aligned_chunks_are_copied_as_they_are() {
    let make = |rows: u64, seed: u64| {
        let cparams = Compression::new().itemsize(4).codec(CodecId::ZSTD).level(9).build().unwrap();
        let builder = ArrayBuilder::new::<u32>([rows, 50]).chunks([10, 20]).blocks([5, 10]);
        memory(&builder.compression(cparams), source::by_index(move |i| (i * seed) as u32))
    };
    let (a, b, c) = (make(20, 7), make(30, 11), make(7, 13));
    let zeros = memory(&ArrayBuilder::like(&a), source::zeros());
    let mut joined = Concat::new([a.all(), zeros.all(), b.all(), c.all()], 0).unwrap();
    // Parameters that differ from those of the sources show which chunks were rewritten.
    let other = Compression::new().itemsize(4).codec(CodecId::LZ4).build().unwrap();
    let builder = joined.builder().compression(other);
    let array = memory(&builder, &mut joined);
    assert_eq!(array.shape(), [77, 50]);
    assert_eq!(array.super_chunk().chunk(6).entry().unwrap(), Entry::Special(SpecialKind::Zeros));
    let sources = (0..6)
        .map(|n| (&a, n, n))
        .chain((0..9).map(|n| (&b, n, n + 12)))
        .chain((0..3).map(|n| (&c, n, n + 21)));
    for (source, from, to) in sources {
        assert_eq!(chunk_bytes(source, from), chunk_bytes(&array, to), "chunk {to}");
    }
    let items: Vec<Vec<u32>> = [&a, &zeros, &b, &c].map(|x| x.all().read().unwrap()).to_vec();
    assert_eq!(array.all().read::<Vec<u32>>().unwrap(), items.concat());
    // Nothing is aligned after a part that ends inside a chunk.
    let mut joined = Concat::new([c.all(), a.all()], 0).unwrap();
    let array = memory(&joined.builder(), &mut joined);
    assert_eq!(array.all().read::<Vec<u32>>().unwrap(), [&items[3][..], &items[0]].concat());
    // Pieces of arrays that begin and end at the edges of chunks are copied, too.
    let columns = (.., range(20..));
    let piece = b.slice((10..20, 20..)).unwrap();
    let mut joined = Concat::new([piece.clone(), a.slice(columns.clone()).unwrap()], 0).unwrap();
    let array = memory(&joined.builder(), &mut joined);
    let wanted = [piece.read::<Vec<u32>>().unwrap(), a.slice(columns).unwrap().read().unwrap()].concat();
    assert_eq!(array.all().read::<Vec<u32>>().unwrap(), wanted);
    for (source, from, to) in [(&b, 4, 0), (&b, 5, 1), (&a, 1, 2), (&a, 2, 3), (&a, 4, 4), (&a, 5, 5)] {
        assert_eq!(chunk_bytes(source, from), chunk_bytes(&array, to), "chunk {to}");
    }
    // Stacked, chunks keep their bytes too.
    let mut stacked = Concat::stack([a.all(), zeros.all()], 1).unwrap();
    let array = memory(&stacked.builder(), &mut stacked);
    assert_eq!((array.shape(), array.chunkshape()), (&[20, 2, 50][..], &[10, 1, 20][..]));
    assert_eq!(chunk_bytes(&a, 3), chunk_bytes(&array, 6));
    assert_eq!(
        array.slice([(..).into(), Selection::Index(0)]).unwrap().read::<Vec<u32>>().unwrap(),
        items[0]
    );
    assert!(Concat::new([a.all(), a.slice([(..).into(), Selection::Index(0)]).unwrap()], 0).is_err());
    assert!(Concat::new([a.all(), b.all()], 1).is_err());
    assert!(Concat::new(Vec::new(), 0).is_err());
}

#[test]
fn cells_are_compressed_anew_in_blocks_of_another_shape() {
    let filters = [FilterSlot::new(FilterId::NDCELL, 4), FilterSlot::SHUFFLE];
    let cparams = Compression::new().itemsize(4).filters(filters).build().unwrap();
    let builder = ArrayBuilder::new::<u32>([40, 30]).chunks([20, 15]).blocks([10, 7]).compression(cparams);
    let a = memory(&builder, source::by_index(|i| (i % 77) as u32));
    let mut stacked = Concat::stack([a.all(), a.all()], 0).unwrap();
    let array = memory(&stacked.builder(), &mut stacked);
    let items = a.all().read::<Vec<u32>>().unwrap();
    assert_eq!(array.all().read::<Vec<u32>>().unwrap(), [&items[..], &items].concat());
}

#[test]
fn copies_keep_their_layers() {
    let builder = ArrayBuilder::new::<u8>([9]).metalayer("unit", *b"\xa1K").vlmetalayer("note", *b"\xa2hi");
    let array = memory(&builder, source::by_index(|i| i as u8));
    let copy = memory(&ArrayBuilder::like(&array).layers_of(&array).unwrap(), &array);
    assert_eq!(copy.super_chunk().metalayers().get("unit"), Some(&b"\xa1K"[..]));
    assert_eq!(copy.super_chunk().vlmetalayers().get("note").unwrap().unwrap(), b"\xa2hi");
    assert_eq!(copy.super_chunk().metalayers().iter().count(), 2);
}

#[test]
fn a_field_becomes_an_array() {
    let dtype = Dtype::parse("[('a', '|u1'), ('v', '<u2', (2, 3))]").unwrap();
    let raw: Vec<u8> = (0..13 * 30).map(|i| i as u8).collect();
    let array = memory(&ArrayBuilder::of_dtype([5, 6], dtype).chunks([2, 4]), &raw[..]);
    let mut field = array.all().field("v").unwrap();
    let builder = ArrayBuilder::new::<u16>(field.shape()).chunks([3, 2, 1, 2]).blocks([2, 2, 1, 1]);
    let copy = memory(&builder, &mut field);
    assert_eq!(copy.shape(), [5, 6, 2, 3]);
    assert_eq!(copy.all().read_bytes().unwrap(), field.read_bytes().unwrap());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn sources_match_the_model(shape in prop::collection::vec(0..9usize, 0..4), seed: u64) {
        let dice = &mut Dice::new(seed);
        let model = Model::new(&shape, |i| i as u32 * 3 + 5);
        let chunks: Vec<usize> = shape.iter().map(|&n| 1 + dice.below(n + 2)).collect();
        let blocks: Vec<usize> = chunks.iter().map(|&c| 1 + dice.below(c)).collect();
        let builder = ArrayBuilder::new::<u32>(u64s(&shape)).chunks(u32s(&chunks)).blocks(u32s(&blocks));
        let place = |at: &[u64]| at.iter().zip(&shape).fold(0, |n, (&i, &len)| n * len as u64 + i);
        let sources: [Box<dyn RegionSource>; 6] = [
            Box::new(model.bytes()),
            Box::new(model.items.clone()),
            Box::new(source::arange(5u32, 3)),
            Box::new(source::by_index(|i| i as u32 * 3 + 5)),
            Box::new(source::by_position(|at: &[u64]| place(at) as u32 * 3 + 5)),
            Box::new(source::items(model.items.clone())),
        ];
        for source in sources {
            let array = memory(&builder, source);
            prop_assert_eq!(array.all().read::<Vec<u32>>().unwrap(), &model.items[..]);
        }
        // Copies into other chunks, of views too.
        let array = memory(&builder, &model.bytes()[..]);
        let axes: Vec<usize> = (0..shape.len()).rev().collect();
        let turned = model.permute(&axes);
        let chunks: Vec<usize> = turned.shape.iter().map(|&n| 1 + dice.below(n + 2)).collect();
        let copy = ArrayBuilder::like(&array).shape(u64s(&turned.shape)).chunks(u32s(&chunks));
        let copy = memory(&copy, &mut array.all().transpose());
        prop_assert_eq!(copy.all().read::<Vec<u32>>().unwrap(), turned.items);
    }

    #[test]
    fn joined_arrays_match_the_model(
        shape in prop::collection::vec(1..7usize, 1..4),
        lens in prop::collection::vec(0..7usize, 1..5),
        seed: u64,
    ) {
        let dice = &mut Dice::new(seed);
        let axis = dice.below(shape.len());
        let mut wanted: Option<Model> = None;
        // Alike most of the time, so that chunks are copied.
        let chunks: Vec<usize> = shape.iter().map(|&n| 1 + dice.below(n)).collect();
        let mut arrays = Vec::new();
        for (k, &len) in lens.iter().enumerate() {
            let mut shape = shape.clone();
            shape[axis] = len * if dice.below(2) == 0 { chunks[axis] } else { 1 };
            let model = Model::new(&shape, |i| (i * 5 + k * 1000) as u32);
            let mut chunks = chunks.clone();
            if dice.below(4) == 0 {
                let dim = dice.below(chunks.len());
                chunks[dim] += 1;
            }
            let builder = ArrayBuilder::new::<u32>(u64s(&shape)).chunks(u32s(&chunks));
            arrays.push(memory(&builder.blocks(vec![1; shape.len()]), &model.bytes()[..]));
            wanted = Some(match wanted {
                None => model,
                Some(wanted) => wanted.insert(axis, wanted.shape[axis], &model),
            });
        }
        let wanted = wanted.unwrap();
        let mut joined = Concat::new(arrays.iter().map(NdArray::all).collect::<Vec<_>>(), axis).unwrap();
        let array = memory(&joined.builder(), &mut joined);
        prop_assert_eq!(array.shape(), u64s(&wanted.shape));
        prop_assert_eq!(array.all().read::<Vec<u32>>().unwrap(), &wanted.items[..]);
        // Pieces, some of them cut where chunks are.
        let piece = |dice: &mut Dice| -> Vec<Selection> {
            let dim = |(&n, &c): (&usize, &usize)| {
                let start = dice.below(n / c + 1) * c;
                let end = if dice.below(2) == 0 { n } else { start + dice.below(3) * c };
                range(start as i64..end as i64)
            };
            wanted.shape.iter().zip(&chunks).map(dim).collect()
        };
        let mut selection = piece(dice);
        let first = array.slice(&selection).unwrap();
        selection[axis] = piece(dice)[axis].clone();
        let second = array.slice(&selection).unwrap();
        let mut joined = Concat::new([first.clone(), second.clone()], axis).unwrap();
        let pieces = memory(&joined.builder(), &mut joined);
        let at = first.shape()[axis] as i64;
        for (range, part) in [(range(..at), first), (range(at..), second)] {
            let mut all = vec![Selection::ALL; shape.len()];
            all[axis] = range;
            prop_assert_eq!(pieces.slice(all).unwrap().read_bytes().unwrap(), part.read_bytes().unwrap());
        }

        let n = 1 + dice.below(3);
        let new = dice.below(shape.len() + 1);
        let mut stacked = Concat::stack(vec![array.all(); n], new).unwrap();
        let array = memory(&stacked.builder(), &mut stacked);
        for k in 0..n as i64 {
            let mut selection = vec![Selection::ALL; new];
            selection.push(Selection::Index(k));
            prop_assert_eq!(array.slice(selection).unwrap().read::<Vec<u32>>().unwrap(), &wanted.items[..]);
        }
    }
}
