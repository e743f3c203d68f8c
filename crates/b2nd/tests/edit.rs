//! Random changes of arrays against a plain model, on every kind of storage.

mod common;

use std::path::{Path, PathBuf};

use b2_chunk::{CParams, CodecId, FilterSlot, SpecialKind};
use b2_frame::{Durability, Entry, SuperChunk};
use b2nd::{
    ArrayBuilder, ArrayEditor, ByIndex, Concat, Dtype, Fill, NdArray, NdError, RegionSource, Select, SliceDim,
};
use bytes::Bytes;
use common::{Dice, Model};
use proptest::prelude::*;

fn u64s(shape: &[usize]) -> Vec<u64> {
    shape.iter().map(|&n| n as u64).collect()
}

fn u32s(shape: &[usize]) -> Vec<u32> {
    shape.iter().map(|&n| n as u32).collect()
}

/// Where an array is.
enum Home {
    Memory(Option<Bytes>),
    Disk(PathBuf),
}

impl Home {
    fn new(builder: &ArrayBuilder, source: &mut dyn RegionSource, kind: usize, dir: &Path) -> Self {
        let path = dir.join("array.b2nd");
        match kind {
            0 => return Self::Memory(Some(builder.to_memory(source).unwrap())),
            1 => builder.create(&path, source).unwrap(),
            _ => builder.create_sparse(&path, source).unwrap(),
        }
        Self::Disk(path)
    }

    fn edit(&mut self) -> ArrayEditor {
        let options = SuperChunk::options().durability(Durability::None).lock(false);
        let options = NdArray::options().frame_options(options);
        match self {
            Self::Memory(bytes) => options.edit_bytes(bytes.take().unwrap()).unwrap(),
            Self::Disk(path) => options.edit(path).unwrap(),
        }
    }

    /// The committed array, for those who open it now.
    fn leave(&mut self, editor: ArrayEditor) -> NdArray {
        match self {
            Self::Memory(bytes) => {
                let frame = bytes.insert(editor.into_bytes().unwrap());
                NdArray::from_bytes(frame.clone()).unwrap()
            }
            Self::Disk(path) => {
                drop(editor);
                NdArray::open(path).unwrap()
            }
        }
    }
}

#[track_caller]
fn check(array: &NdArray, model: &Model) {
    assert_eq!(array.shape(), u64s(&model.shape));
    assert_eq!(array.all().to_vec::<u32>().unwrap(), model.items);
}

/// What edge chunks hold outside the array must be zeros: C-Blosc2 shows it when the array grows.
fn check_padding(array: &NdArray) {
    let g = array.geometry();
    let lens = |lens: &[u32]| -> Vec<usize> { lens.iter().map(|&n| n as usize).collect() };
    // In the order of a chunk's bytes: places of blocks, then places in a block.
    let (blocks, items) = (Model::walk(&lens(g.blocks())), Model::walk(&lens(g.blockshape())));
    for nchunk in 0..g.nchunks() {
        let plain = array.super_chunk().decompress_chunk(nchunk as usize).unwrap();
        let (_, real) = g.chunk_box(&g.chunk_coords(nchunk));
        let mut values = plain.chunks(4);
        for block in &blocks {
            for item in &items {
                let at = |dim: usize| block[dim] * g.blockshape()[dim] as usize + item[dim];
                let behind_edge = (0..real.len()).any(|dim| at(dim) >= real[dim] as usize);
                let in_chunk = (0..real.len()).all(|dim| at(dim) < g.chunkshape()[dim] as usize);
                let value = values.next().unwrap();
                assert!(!(behind_edge && in_chunk) || value == [0; 4], "chunk {nchunk}");
            }
        }
    }
}

/// A random operation on both.
fn step(editor: &mut ArrayEditor, model: &mut Model, dice: &mut Dice, next: &mut u32) {
    let mut fresh = |n: usize| -> Vec<u32> {
        (0..n)
            .map(|_| {
                *next += 1;
                *next
            })
            .collect()
    };
    let nd = model.shape.len();
    let axis = dice.below(nd);
    match dice.below(10) {
        0 | 1 => {
            let selection = dice.selection(&model.shape, true);
            let items = fresh(model.select(&selection).items.len());
            editor.set_items(&selection, &items).unwrap();
            model.set(&selection, &items);
        }
        2 => {
            let selection = dice.selection(&model.shape, false);
            let n = model.select(&selection).items.len();
            let item = if dice.below(3) == 0 { 0 } else { fresh(1)[0] };
            editor.fill_slice(&selection, &item.to_le_bytes()).unwrap();
            model.set(&selection, &vec![item; n]);
        }
        3 if !model.items.is_empty() => {
            let places: Vec<usize> = (0..dice.below(20)).map(|_| dice.below(model.items.len())).collect();
            let all = Model::walk(&model.shape);
            let points: Vec<Vec<i64>> =
                places.iter().map(|&place| all[place].iter().map(|&i| i as i64).collect()).collect();
            let items = fresh(places.len());
            let bytes: Vec<u8> = items.iter().flat_map(|n| n.to_le_bytes()).collect();
            editor.set_points(&points, &bytes).unwrap();
            places.iter().zip(&items).for_each(|(&place, &item)| model.items[place] = item);
        }
        4 if nd > 0 => {
            let marks: Vec<bool> = model.items.iter().map(|_| dice.below(4) == 0).collect();
            let items = fresh(marks.iter().filter(|mark| **mark).count());
            let bytes: Vec<u8> = items.iter().flat_map(|n| n.to_le_bytes()).collect();
            editor.set_mask(&marks, &bytes).unwrap();
            let places = (0..marks.len()).filter(|&place| marks[place]);
            places.zip(&items).for_each(|(place, &item)| model.items[place] = item);
        }
        5 | 6 if nd > 0 => {
            let shape: Vec<usize> = model
                .shape
                .iter()
                .map(|&n| match dice.below(4) {
                    0 => n,
                    1 => dice.below(n + 1),
                    2 => n + dice.below(3),
                    _ => dice.below(9),
                })
                .collect();
            editor.resize(&u64s(&shape)).unwrap();
            *model = model.resize(&shape);
        }
        7 | 8 if nd > 0 => {
            let mut shape = model.shape.clone();
            let c = editor.geometry().chunkshape()[axis] as usize;
            shape[axis] = if dice.below(3) == 0 { c * dice.below(3) } else { dice.below(5) };
            let n = model.shape[axis];
            let at = [n, dice.below(n + 1), dice.below(n / c + 1) * c][dice.below(3)];
            let items = fresh(shape.iter().product());
            let new = Model { shape, items };
            if at == n {
                editor.append(axis, new.shape[axis] as u64, &mut &new.bytes()[..]).unwrap();
            } else {
                editor.insert(axis, at as u64, new.shape[axis] as u64, &mut &new.bytes()[..]).unwrap();
            }
            *model = model.insert(axis, at, &new);
        }
        9 if nd > 0 => {
            let n = model.shape[axis];
            let c = editor.geometry().chunkshape()[axis] as usize;
            let unit = if dice.below(2) == 0 { 1 } else { c };
            let start = dice.below(n / unit + 1) * unit;
            let end = (start + dice.below(3) * unit).min(n);
            editor.delete(axis, start as u64..end as u64).unwrap();
            *model = model.delete(axis, start..end);
        }
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn changes_match_the_model(nd in 0..4usize, kind in 0..3usize, seed: u64) {
        let dir = tempfile::tempdir().unwrap();
        let dice = &mut Dice(seed);
        let mut shape = dice.shape(nd, 8);
        if dice.below(4) == 0 && nd > 0 {
            shape[0] = 0;
        }
        let mut model = Model::new(&shape, |i| i as u32 + 1);
        let chunks: Vec<usize> = shape.iter().map(|&n| 1 + dice.below(n + 2)).collect();
        let blocks: Vec<usize> = chunks.iter().map(|&c| 1 + dice.below(c)).collect();
        let filters: &[FilterSlot] =
            [&[FilterSlot::SHUFFLE][..], &[FilterSlot::DELTA, FilterSlot::SHUFFLE], &[]][dice.below(3)];
        let cparams = CParams::builder(4).codec(CodecId::LZ4).filters(filters).build().unwrap();
        let builder = ArrayBuilder::of::<u32>(u64s(&shape)).chunkshape(u32s(&chunks));
        let builder = builder.blockshape(u32s(&blocks)).cparams(cparams).vlmetalayer("note", *b"\xa2hi");
        let mut home = Home::new(&builder, &mut &model.bytes()[..], kind, dir.path());
        let mut next = 1_000_000;
        let mut committed = model.clone();
        let mut editor = home.edit();
        for _ in 0..12 {
            step(&mut editor, &mut model, dice, &mut next);
            check(&editor.snapshot().unwrap(), &model);
            match dice.below(5) {
                0 => {
                    editor.commit().unwrap();
                    committed = model.clone();
                }
                1 => {
                    editor.rollback().unwrap();
                    model = committed.clone();
                    check(&editor.snapshot().unwrap(), &model);
                }
                2 => {
                    // Dropped without a commit.
                    check(&home.leave(editor), &committed);
                    editor = home.edit();
                    model = committed.clone();
                }
                3 if dice.below(4) == 0 => {
                    editor.compact().unwrap();
                    committed = model.clone();
                    prop_assert_eq!(editor.dead_bytes().unwrap(), 0);
                }
                _ => {}
            }
        }
        editor.commit().unwrap();
        let array = home.leave(editor);
        check(&array, &model);
        check_padding(&array);
        prop_assert_eq!(array.super_chunk().vlmetalayers().get("note").unwrap().unwrap(), b"\xa2hi");
        prop_assert_eq!(array.chunkshape(), u32s(&chunks));
    }
}

fn memory(builder: &ArrayBuilder, source: &mut dyn RegionSource) -> ArrayEditor {
    NdArray::edit_bytes(builder.to_memory(source).unwrap()).unwrap()
}

#[test]
fn stale_values_do_not_show() {
    // What C-Blosc2 leaves behind on shrinking: a shorter shape over the same chunks.
    let frame = ArrayBuilder::of::<u32>([6, 6]).chunkshape([4, 4]).to_memory(&mut Fill::value(9u32)).unwrap();
    let shrink = |frame: &Bytes, shape: [u64; 2]| {
        let mut editor = SuperChunk::options().edit_bytes(frame.clone()).unwrap();
        let mut meta =
            b2nd::ArrayMeta::parse("b2nd", editor.metalayers().unwrap().get("b2nd").unwrap()).unwrap();
        meta.shape = shape.to_vec();
        editor.set_metalayer("b2nd", &meta.to_bytes()).unwrap();
        editor.commit().unwrap();
        editor.into_bytes().unwrap()
    };
    let mut editor = NdArray::edit_bytes(shrink(&frame, [5, 5])).unwrap();
    editor.resize(&[6, 9]).unwrap();
    let model = Model { shape: vec![5, 5], items: vec![9; 25] }.resize(&[6, 9]);
    check(&editor.snapshot().unwrap(), &model);
    // Only along the axis that grows.
    let mut editor = NdArray::edit_bytes(shrink(&frame, [5, 5])).unwrap();
    editor.append(0, 2, &mut Fill::value(7u32)).unwrap();
    editor.resize(&[8, 8]).unwrap();
    let new = Model { shape: vec![2, 5], items: vec![7; 10] };
    let model = Model { shape: vec![5, 5], items: vec![9; 25] }.insert(0, 5, &new).resize(&[8, 8]);
    check(&editor.snapshot().unwrap(), &model);
    // A NaN or value beyond the edge of a special chunk.
    let dtype = Dtype::parse("<f4").unwrap();
    let mut editor =
        memory(&ArrayBuilder::new([5], dtype.clone()).chunkshape([4]), &mut Fill::nans(&dtype).unwrap());
    editor.resize(&[9]).unwrap();
    let items = editor.snapshot().unwrap().all().to_vec::<f32>().unwrap();
    assert!(items[..5].iter().all(|x| x.is_nan()));
    assert_eq!(items[5..], [0.0; 4]);
}

#[test]
fn whole_chunks_of_one_value_take_no_space() {
    let mut editor =
        memory(&ArrayBuilder::of::<u32>([50, 50]).chunkshape([20, 20]), &mut ByIndex(|i| i as u32));
    editor.fill_slice([10..50, 0..50], &[0; 4]).unwrap();
    let array = editor.snapshot().unwrap();
    assert_eq!(array.super_chunk().entry(4).unwrap(), Entry::Special(SpecialKind::Zeros));
    editor.fill_slice([SliceDim::range(0..40)], &7u32.to_le_bytes()).unwrap();
    let array = editor.snapshot().unwrap();
    assert_eq!(array.super_chunk().chunk(4).unwrap().cbytes(), 36);
    assert_eq!(array.slice([SliceDim::Index(39)]).unwrap().to_vec::<u32>().unwrap(), [7; 50]);
    // Growth is free.
    let mut editor =
        memory(&ArrayBuilder::of::<u8>([0, 1 << 15]).chunkshape([1 << 15, 1 << 15]), &mut Fill::zeros());
    editor.resize(&[1 << 26, 1 << 15]).unwrap();
    let frame = {
        editor.commit().unwrap();
        editor.into_bytes().unwrap()
    };
    assert!(frame.len() < 1000);
    assert_eq!(NdArray::from_bytes(frame).unwrap().slice([-1, -1]).unwrap().read().unwrap(), [0]);
}

#[test]
fn chunks_that_only_move_are_not_touched() {
    let builder = ArrayBuilder::of::<u32>([30, 25]).chunkshape([10, 10]);
    let mut editor = memory(&builder, &mut ByIndex(|i| i as u32 * 3 + 1));
    editor.commit().unwrap();
    let before = editor.snapshot().unwrap();
    let bytes = |array: &NdArray, n| array.super_chunk().chunk(n).unwrap().into_bytes();
    // Another array's chunks, compressed otherwise, are taken as they are.
    let cparams = CParams::builder(4).codec(CodecId::BLOSCLZ).clevel(1).build().unwrap();
    let other = ArrayBuilder::of::<u32>([30, 20]).chunkshape([10, 10]).cparams(cparams);
    let other = NdArray::from_bytes(other.to_memory(&mut ByIndex(|i| i as u32 * 5 + 2)).unwrap()).unwrap();
    editor.insert(1, 10, 20, &mut Concat::new([other.all()], 1).unwrap()).unwrap();
    let after = editor.snapshot().unwrap();
    assert_eq!(after.shape(), [30, 45]);
    for row in 0..3 {
        assert_eq!(bytes(&before, row * 3), bytes(&after, row * 5));
        assert_eq!(bytes(&other, row * 2), bytes(&after, row * 5 + 1));
        assert_eq!(bytes(&other, row * 2 + 1), bytes(&after, row * 5 + 2));
        assert_eq!(bytes(&before, row * 3 + 1), bytes(&after, row * 5 + 3));
        assert_eq!(bytes(&before, row * 3 + 2), bytes(&after, row * 5 + 4));
    }
    // The edge chunk was in the way, the others not.
    editor.rollback().unwrap();
    editor.append(0, 3, &mut Fill::value(1u32)).unwrap();
    let written = editor.commit().unwrap().bytes_written;
    assert!(written < 1500, "{written}");
}

#[test]
fn a_failed_operation_needs_a_rollback() {
    struct Failing(u64);
    impl RegionSource for Failing {
        fn read_region(
            &mut self,
            g: &b2nd::Geometry,
            start: &[u64],
            shape: &[u64],
            dst: &mut [u8],
        ) -> std::io::Result<()> {
            if start[0] >= self.0 {
                return Err(std::io::Error::other("no more"));
            }
            Fill::value(5u8).read_region(g, start, shape, dst)
        }
    }
    // Above the size of a batch, so that some chunks are written before it fails.
    let builder = ArrayBuilder::of::<u8>([1000]).chunkshape([40 << 20]);
    let mut editor = memory(&builder, &mut ByIndex(|i| i as u8));
    editor.fill_slice([SliceDim::range(0..10)], &[1]).unwrap();
    assert!(matches!(editor.append(0, 120 << 20, &mut Failing(40 << 20)), Err(NdError::Source(_))));
    assert!(editor.snapshot().is_err());
    assert!(editor.commit().is_err());
    editor.rollback().unwrap();
    assert_eq!(
        editor.snapshot().unwrap().slice([SliceDim::range(0..12)]).unwrap().read().unwrap(),
        (0..12).collect::<Vec<_>>()
    );
    // Wrong arguments change nothing.
    editor.fill_slice([SliceDim::range(0..10)], &[1]).unwrap();
    assert!(editor.resize(&[5, 5]).is_err());
    assert!(editor.resize(&[u64::MAX]).is_err());
    assert!(editor.set_slice([SliceDim::range(0..10)], &[0; 9]).is_err());
    assert!(editor.fill_slice([SliceDim::range(0..10)], &[0; 2]).is_err());
    assert!(editor.append(1, 1, &mut Fill::zeros()).is_err());
    assert!(editor.insert(0, 1001, 1, &mut Fill::zeros()).is_err());
    assert!(editor.delete(0, 999..1001).is_err());
    assert!(editor.set_metalayer("b2nd", &[]).is_err());
    assert!(editor.set_items([SliceDim::range(0..2)], &[1u16, 2]).is_err());
    let failed: Result<(), NdError> = editor.transaction(|editor| {
        editor.resize(&[7])?;
        Err(NdError::NotAnArray)
    });
    assert!(matches!(failed, Err(NdError::NotAnArray)));
    assert_eq!(editor.shape(), [1000]);
    assert_eq!(editor.snapshot().unwrap().slice([SliceDim::range(0..3)]).unwrap().read().unwrap(), [0, 1, 2]);
}

#[test]
fn structured_and_big_endian_items() {
    let dtype = Dtype::parse("[('a', '>i4'), ('b', '|S3')]").unwrap();
    let mut editor =
        memory(&ArrayBuilder::new([6], dtype).chunkshape([4]), &mut Fill::item(*b"\0\0\0\x01abc"));
    let bytes: Vec<u8> = [2i32, 3, 4].iter().flat_map(|n| n.to_be_bytes()).collect();
    editor.set_field([SliceDim::ALL.step_by(2)], "a", &bytes).unwrap();
    let array = editor.snapshot().unwrap();
    assert_eq!(array.all().field("a").unwrap().to_vec::<i32>().unwrap(), [2, 1, 3, 1, 4, 1]);
    assert_eq!(array.all().field("b").unwrap().read().unwrap(), b"abc".repeat(6));
    let mut editor = memory(&ArrayBuilder::new([3], Dtype::parse(">f8").unwrap()), &mut Fill::zeros());
    editor.set_items([1], &[0.5f64]).unwrap();
    assert_eq!(editor.snapshot().unwrap().all().read().unwrap()[8..16], 0.5f64.to_be_bytes());
    assert_eq!(editor.snapshot().unwrap().all().to_vec::<f64>().unwrap(), [0.0, 0.5, 0.0]);
}

#[test]
fn the_old_metalayer_changes_in_place() {
    let frame = ArrayBuilder::of::<u8>([2, 3]).chunkshape([2, 3]).blockshape([2, 3]);
    let array = NdArray::from_bytes(frame.to_memory(&mut Fill::value(4u8)).unwrap()).unwrap();
    let mut meta = array.meta().to_bytes();
    meta[0] = 0x95;
    meta.truncate(3 + 1 + 18 + 2 * (1 + 10));
    let params = b2_frame::FrameParams::like(array.super_chunk().header()).metalayer("caterva", &meta);
    let mut writer = b2_frame::FrameWriter::memory(params).unwrap();
    writer.append(array.super_chunk().chunk(0).unwrap()).unwrap();
    let mut editor = NdArray::edit_bytes(writer.finish().unwrap().into_bytes()).unwrap();
    editor.resize(&[3, 4]).unwrap();
    editor.commit().unwrap();
    let array = NdArray::from_bytes(editor.into_bytes().unwrap()).unwrap();
    assert_eq!(array.super_chunk().metalayers().get("caterva").unwrap().len(), meta.len());
    assert_eq!(array.all().read().unwrap(), [4, 4, 4, 0, 4, 4, 4, 0, 0, 0, 0, 0]);
}

#[test]
fn many_threads_write_one_array() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.b2nd");
    let builder = ArrayBuilder::of::<u32>([80, 64]).chunkshape([5, 64]).blockshape([5, 32]);
    builder.create(&path, &mut Fill::zeros()).unwrap();
    let mut editor = NdArray::edit(&path).unwrap();
    let shared = editor.share().unwrap();
    std::thread::scope(|scope| {
        for t in 0..8i64 {
            let shared = &shared;
            scope.spawn(move || {
                // Whole chunks, then items in the midst of chunks that others write too.
                for band in [t, t + 8] {
                    let items = vec![t as u32 + 1; 5 * 64];
                    shared.set_items([SliceDim::range(band * 5..band * 5 + 5)], &items).unwrap();
                }
            });
        }
    });
    std::thread::scope(|scope| {
        for t in 0..8i64 {
            let shared = &shared;
            scope.spawn(move || shared.set_items([0..80, t..t + 1], &[100 + t as u32; 80]).unwrap());
        }
    });
    assert!(shared.set_items([SliceDim::range(0..81)], &[0u32]).is_err());
    drop(shared);
    editor.commit().unwrap();
    let array = NdArray::open(&path).unwrap();
    let wanted: Vec<u32> = (0..80u32)
        .flat_map(|row| (0..64).map(move |col| if col < 8 { 100 + col } else { row / 5 % 8 + 1 }))
        .collect();
    assert_eq!(array.all().to_vec::<u32>().unwrap(), wanted);
}

#[test]
fn readers_follow() {
    let dir = tempfile::tempdir().unwrap();
    for sparse in [false, true] {
        let path = dir.path().join(format!("{sparse}.b2nd"));
        let builder = ArrayBuilder::of::<u32>([4]).chunkshape([3]);
        match sparse {
            true => builder.create_sparse(&path, &mut Fill::value(1u32)).unwrap(),
            false => builder.create(&path, &mut Fill::value(1u32)).unwrap(),
        }
        let mut reader = NdArray::open(&path).unwrap();
        let mut editor = NdArray::edit(&path).unwrap();
        editor.append(0, 3, &mut Fill::value(2u32)).unwrap();
        assert!(!reader.refresh().unwrap());
        editor.commit().unwrap();
        assert!(reader.refresh().unwrap());
        assert_eq!(reader.all().to_vec::<u32>().unwrap(), [1, 1, 1, 1, 2, 2, 2]);
    }
}

#[test]
fn later_items_win_where_positions_repeat() {
    let mut editor =
        memory(&ArrayBuilder::of::<u8>([5, 4]).chunkshape([2, 3]).blockshape([1, 2]), &mut Fill::zeros());
    let selection = [Select::List(vec![3, 1, 3]), Select::List(vec![0, 2, 0, 0])];
    editor.set_slice(&selection, &(1..=12).collect::<Vec<u8>>()).unwrap();
    let array = editor.snapshot().unwrap();
    assert_eq!(array.slice([3]).unwrap().read().unwrap(), [12, 0, 10, 0]);
    assert_eq!(array.slice([1]).unwrap().read().unwrap(), [8, 0, 6, 0]);
}
