//! Random changes of arrays against a plain model, on every kind of storage.

use std::path::{Path, PathBuf};

use crate::common::{Dice, Failing, Model, check};
use b2_chunk::{CodecId, Compression, FilterSlot};
use b2_frame::{Durability, FrameEditor, Storage};
use b2nd::{ArrayBuilder, ArrayEditor, Axis, NdArray, RegionSource, Selection, source};
use bytes::Bytes;
use proptest::prelude::*;

pub(crate) fn u64s(shape: &[usize]) -> Vec<u64> {
    shape.iter().map(|&n| n as u64).collect()
}

pub(crate) fn u32s(shape: &[usize]) -> Vec<u32> {
    shape.iter().map(|&n| n as u32).collect()
}

/// Where an array is.
enum Home {
    Memory(Option<Bytes>),
    Disk(PathBuf),
}

impl Home {
    fn new(builder: &ArrayBuilder, source: impl RegionSource, kind: usize, dir: &Path) -> Self {
        let path = dir.join("array.b2nd");
        match kind {
            0 => return Self::Memory(Some(builder.to_bytes(source).unwrap())),
            1 => builder.write(&path, source).unwrap(),
            _ => builder.clone().storage(Storage::Sparse).write(&path, source).unwrap(),
        }
        Self::Disk(path)
    }

    fn edit(&mut self) -> ArrayEditor {
        let options = FrameEditor::options().durability(Durability::None).lock(false);
        let frame = match self {
            Self::Memory(bytes) => options.edit_bytes(bytes.take().unwrap()),
            Self::Disk(path) => options.edit(path),
        };
        ArrayEditor::new(frame.unwrap()).unwrap()
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

/// Padding of edge chunks must be zeros: C-Blosc2 exposes it when the array grows.
fn check_padding(array: &NdArray) {
    let g = array.geometry();
    let lens = |lens: &[u32]| -> Vec<usize> { lens.iter().map(|&n| n as usize).collect() };
    // In the order of a chunk's bytes: places of blocks, then places in a block.
    let (blocks, items) = (Model::walk(&lens(g.blocks())), Model::walk(&lens(g.blockshape())));
    for nchunk in 0..g.nchunks() {
        let plain = array.super_chunk().chunk(nchunk as usize).decompress().unwrap();
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
pub(crate) fn step(editor: &mut ArrayEditor, model: &mut Model, dice: &mut Dice, next: &mut u32) {
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
    match dice.below(11) {
        0 | 1 => {
            let selection = dice.selection(&model.shape, true);
            let items = fresh(model.select(&selection).items.len());
            editor.set(&selection, &items).unwrap();
            model.set(&selection, &items);
        }
        2 => {
            let selection = dice.selection(&model.shape, false);
            let n = model.select(&selection).items.len();
            let item = if dice.below(3) == 0 { 0 } else { fresh(1)[0] };
            editor.set(&selection, source::value(item)).unwrap();
            model.set(&selection, &vec![item; n]);
        }
        3 if nd > 0 && !model.items.is_empty() => {
            let places: Vec<usize> = (0..dice.below(20)).map(|_| dice.below(model.items.len())).collect();
            let all = Model::walk(&model.shape);
            let points: Vec<Vec<i64>> =
                (0..nd).map(|dim| places.iter().map(|&place| all[place][dim] as i64).collect()).collect();
            let items = fresh(places.len());
            editor.set_points(&points, &items).unwrap();
            places.iter().zip(&items).for_each(|(&place, &item)| model.items[place] = item);
        }
        4 if nd > 0 => {
            let marks: Vec<bool> = model.items.iter().map(|_| dice.below(4) == 0).collect();
            let items = fresh(marks.iter().filter(|mark| **mark).count());
            let mask = Selection::mask_of(editor.shape(), &marks);
            editor.set_points(mask, &items).unwrap();
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
            let (len, new) = (shape[axis] as u64, Model { shape, items });
            if at == n {
                editor.append(Axis(axis), new.bytes().with_length(len)).unwrap();
            } else {
                editor.insert(Axis(axis), at as u64, new.bytes().with_length(len)).unwrap();
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
        10 if nd > 0 => {
            // Fails sooner or later, or has nothing to read.
            let at = dice.below(model.shape[axis] + 1);
            let failed = editor.insert(Axis(axis), at as u64, Failing(dice.below(2)).with_length(4));
            if failed.is_ok() {
                let mut shape = model.shape.clone();
                shape[axis] = 4;
                *model = model.insert(axis, at, &Model::new(&shape, |_| 0));
            }
        }
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn changes_match_the_model(nd in 0..4usize, kind in 0..3usize, seed: u64) {
        let dir = tempfile::tempdir().unwrap();
        let dice = &mut Dice::new(seed);
        let mut shape = dice.shape(nd, 8);
        if dice.below(4) == 0 && nd > 0 {
            shape[0] = 0;
        }
        let mut model = Model::new(&shape, |i| i as u32 + 1);
        let chunks: Vec<usize> = shape.iter().map(|&n| 1 + dice.below(n + 2)).collect();
        let blocks: Vec<usize> = chunks.iter().map(|&c| 1 + dice.below(c)).collect();
        let filters: &[FilterSlot] =
            [&[FilterSlot::SHUFFLE][..], &[FilterSlot::DELTA, FilterSlot::SHUFFLE], &[]][dice.below(3)];
        let cparams = Compression::new().itemsize(4).codec(CodecId::LZ4).filters(filters).build().unwrap();
        let builder = ArrayBuilder::new::<u32>(u64s(&shape)).chunks(u32s(&chunks));
        let builder = builder.blocks(u32s(&blocks)).compression(cparams).vlmetalayer("note", *b"\xa2hi");
        let mut home = Home::new(&builder, model.bytes(), kind, dir.path());
        let mut next = 1_000_000;
        let mut committed = model.clone();
        let mut editor = home.edit();
        for _ in 0..12 {
            step(&mut editor, &mut model, dice, &mut next);
            prop_assert_eq!(editor.shape(), u64s(&model.shape));
            if dice.below(3) > 0 {
                check(&editor.snapshot().unwrap(), &model);
            }
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
