//! Changing arrays in memory, where the space of replaced chunks is used again: snapshots must not notice.

use std::ops::ControlFlow;
use std::sync::mpsc;

use b2_chunk::{CodecId, Compression, FilterSlot};
use b2_core::Control;
use b2_frame::{Compare, SuperChunk};
use b2nd::{ArrayBuilder, ArrayEditor, Axis, NdArray, NdError, RegionSource, source};
use bytes::Bytes;

use crate::common::{Dice, Model, check};
use crate::edit::{step, u32s, u64s};

fn builder(shape: &[usize], dice: &mut Dice) -> ArrayBuilder {
    let chunks: Vec<usize> = shape.iter().map(|&n| 1 + dice.below(n + 2)).collect();
    let blocks: Vec<usize> = chunks.iter().map(|&c| 1 + dice.below(c)).collect();
    let cparams =
        Compression::new().itemsize(4).codec(CodecId::LZ4).filters([FilterSlot::SHUFFLE]).build().unwrap();
    ArrayBuilder::new::<u32>(u64s(shape)).chunks(u32s(&chunks)).blocks(u32s(&blocks)).compression(cparams)
}

/// Opens a frame and compares everything in it.
fn check_frame(frame: &Bytes, model: &Model) {
    let array = NdArray::from_bytes(frame.clone()).unwrap();
    assert!(array.super_chunk().verify().is_ok());
    check(&array, model);
    let frame = SuperChunk::from_bytes(frame.clone()).unwrap().with_compare(Compare::Always);
    check(&NdArray::from_super_chunk(frame).unwrap(), model);
}

/// A cancelled change, alone or while a commit writes pending rows. Returns the committed state if it succeeded because
/// nothing was left to do.
fn cancel(editor: &mut ArrayEditor, model: &Model, dice: &mut Dice) -> Option<Model> {
    let mut shape = model.shape.clone();
    shape[0] = 1 + dice.below(3);
    let (len, rows) = (shape[0] as u64, Model::new(&shape, |_| 7));
    let stop = Control::new().progress(|_| ControlFlow::Break(()));
    let committed = if dice.below(2) == 0 {
        editor.set_control(stop);
        let set = editor.set(.., source::value(9u32));
        assert!(set.is_err() || model.items.is_empty());
        let _ = editor.append(Axis(0), rows.bytes().with_length(len));
        false
    } else {
        // The rows wait in memory, and the commit fails.
        editor.append(Axis(0), rows.bytes().with_length(len)).unwrap();
        editor.set_control(stop);
        editor.commit().is_ok()
    };
    editor.set_control(Control::new());
    committed.then(|| model.insert(0, model.shape[0], &rows))
}

/// One sequence of changes. `reader` gets clones of snapshots, to be read by another thread.
fn run(seed: u64, reader: &mpsc::Sender<(NdArray, Model)>) {
    let dice = &mut Dice::new(seed);
    let nd = 1 + dice.below(3);
    let mut shape = dice.shape(nd, 7);
    if dice.below(6) == 0 {
        shape[0] = 0;
    }
    let mut model = Model::new(&shape, |i| i as u32 + 1);
    let frame = builder(&shape, dice).to_bytes(model.bytes()).unwrap();
    // Others may share the buffer.
    let shared = (dice.below(2) == 0).then(|| (frame.clone(), model.clone()));
    let mut editor = NdArray::edit_bytes(frame).unwrap();
    let (mut committed, mut snapshots, mut next) = (model.clone(), Vec::new(), 1_000_000);
    for _ in 0..30 {
        match dice.below(12) {
            0 | 1 => {
                editor.commit().unwrap();
                committed = model.clone();
            }
            2 => {
                editor.rollback().unwrap();
                model = committed.clone();
            }
            3 if dice.below(3) == 0 => {
                editor.compact().unwrap();
                committed = model.clone();
            }
            4 => {
                let failed: Result<(), NdError> = editor.transaction(|editor| {
                    step(editor, &mut model.clone(), dice, &mut next);
                    // There is no such axis.
                    editor.delete(9, 0..1)
                });
                assert!(failed.is_err());
                model = committed.clone();
            }
            5 => {
                if let Some(now) = cancel(&mut editor, &model, dice) {
                    committed = now;
                }
                editor.rollback().unwrap();
                model = committed.clone();
                check(&editor.snapshot().unwrap(), &model);
            }
            _ => step(&mut editor, &mut model, dice, &mut next),
        }
        if dice.below(3) == 0 {
            let snapshot = editor.snapshot().unwrap();
            check(&snapshot, &model);
            reader.send((snapshot.clone(), model.clone())).unwrap();
            snapshots.push((snapshot, model.clone()));
        }
        while snapshots.len() > 4 || !snapshots.is_empty() && dice.below(6) == 0 {
            drop(snapshots.swap_remove(dice.below(snapshots.len())));
        }
        for (snapshot, model) in &mut snapshots {
            assert!(!snapshot.refresh().unwrap_or(false));
            check(&snapshot.clone(), model);
        }
    }
    if let Some((frame, model)) = shared {
        check_frame(&frame, &model);
    }
    if dice.below(2) == 0 {
        snapshots.clear();
    }
    check_frame(&editor.into_bytes().unwrap(), &committed);
    for (snapshot, model) in &snapshots {
        check(snapshot, model);
    }
}

#[test]
fn snapshots_in_memory_stay_as_they_were() {
    let (send, receive) = mpsc::channel::<(NdArray, Model)>();
    std::thread::scope(|scope| {
        scope.spawn(move || receive.into_iter().for_each(|(snapshot, model)| check(&snapshot, &model)));
        for seed in 0..1500 {
            run(seed, &send);
        }
        drop(send);
    });
}

/// Setting boxes repeatedly takes no more space than setting them once, even if a snapshot is being read.
#[test]
fn space_in_memory_is_used_again() {
    let n = 64usize;
    let dice = &mut Dice::new(8);
    let mut model = Model::new(&[n, n], |_| dice.below(1 << 20) as u32);
    let builder = ArrayBuilder::new::<u32>([64, 64]).chunks([16, 16]).blocks([4, 16]);
    let frame = builder.to_bytes(model.bytes()).unwrap();
    let len = frame.len();
    let mut editor = NdArray::edit_bytes(frame).unwrap();
    let mut snapshot = None;
    for round in 0..300 {
        for _ in 0..3 {
            let (at, size) = ([dice.below(n - 9), dice.below(n - 9)], 1 + dice.below(9));
            let items: Vec<u32> = (0..size * size).map(|_| dice.below(1 << 20) as u32).collect();
            let ranges = at.map(|at| at as i64..(at + size) as i64);
            editor.set(ranges, &items).unwrap();
            for (k, item) in items.iter().enumerate() {
                model.items[(at[0] + k / size) * n + at[1] + k % size] = *item;
            }
        }
        if round % 3 > 0 {
            editor.commit().unwrap();
        }
        if round % 50 == 0 {
            snapshot = Some((editor.snapshot().unwrap(), model.clone()));
        }
        let (snapshot, then) = snapshot.as_ref().unwrap();
        check(snapshot, then);
        check(&editor.snapshot().unwrap(), &model);
    }
    editor.commit().unwrap();
    // The chunks of the start, those of now, and those that replaced them last.
    assert!(editor.dead_bytes().unwrap() < 2 * len as u64);
    let frame = editor.into_bytes().unwrap();
    assert!(frame.len() < 3 * len, "{} of {len}", frame.len());
    check_frame(&frame, &model);
}

/// Appended chunks follow those that were there: nothing is lost to old indices and trailers.
#[test]
fn appending_in_memory_leaves_no_dead_bytes() {
    let builder = ArrayBuilder::new::<u32>([10, 8]).chunks([5, 8]);
    let mut model = Model::new(&[10, 8], |i| i as u32);
    let mut editor = NdArray::edit_bytes(builder.to_bytes(model.bytes()).unwrap()).unwrap();
    for round in 0..20 {
        let rows = Model::new(&[5, 8], |i| i as u32 * round);
        editor.append(Axis(0), rows.bytes()).unwrap();
        model = model.insert(0, model.shape[0], &rows);
        editor.commit().unwrap();
        assert_eq!(editor.dead_bytes().unwrap(), 0);
    }
    check_frame(&editor.into_bytes().unwrap(), &model);
}
