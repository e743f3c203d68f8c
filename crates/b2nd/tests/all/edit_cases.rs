//! Changes of arrays, case by case.

use crate::common::{Dice, Failing, Model, check};
use b2_chunk::{CodecId, Compression, SpecialKind};
use b2_frame::{Entry, FrameEditor, Storage};
use b2nd::{
    ArrayBuilder, ArrayEditor, Axis, Concat, Dtype, NdArray, NdError, RegionSource, Selection, range, source,
};
use bytes::Bytes;

fn memory(builder: &ArrayBuilder, source: impl RegionSource) -> ArrayEditor {
    NdArray::edit_bytes(builder.to_bytes(source).unwrap()).unwrap()
}

#[test]
fn empty_arrays_of_c_grow() {
    type Change = fn(&mut ArrayEditor) -> Result<(), NdError>;
    let changes: [(Change, [u64; 3]); 4] = [
        (|editor| editor.append(Axis(1), source::value(7f32).with_length(3)), [4, 3, 3]),
        (|editor| editor.insert(Axis(1), 0, source::value(7f32).with_length(30_000)), [4, 30_000, 3]),
        (|editor| editor.resize(&[4, 2, 3]), [4, 2, 3]),
        (
            |editor| {
                editor.resize(&[0, 0, 9])?;
                editor.resize(&[0, 2, 9])?;
                editor.append(Axis(0), source::value(7f32).with_length(2))
            },
            [2, 2, 9],
        ),
    ];
    for version in ["2.15.2", "2.22.1", "3.3.5"] {
        let path =
            format!("{}/../../testdata/c-blosc2/{version}/array/zero-size.b2nd", env!("CARGO_MANIFEST_DIR"));
        let frame = std::fs::read(path).unwrap();
        let old = NdArray::from_bytes(frame.clone()).unwrap();
        assert_eq!(old.chunkshape().contains(&0), version != "2.15.2");
        for (change, shape) in changes {
            let mut editor = NdArray::edit_bytes(frame.clone()).unwrap();
            // A change that fails leaves the array unchanged.
            assert!(editor.append(Axis(1), source::value(7u8).with_length(3)).is_err());
            change(&mut editor).unwrap();
            editor.rollback().unwrap();
            assert_eq!(editor.geometry(), old.geometry());
            change(&mut editor).unwrap();
            editor.commit().unwrap();
            let array = NdArray::from_bytes(editor.into_bytes().unwrap()).unwrap();
            assert_eq!(array.shape(), shape);
            assert_eq!(array.meta().chunkshape, array.chunkshape());
            let header = array.super_chunk().header();
            assert_eq!(header.chunksize(), array.geometry().chunk_nbytes());
            assert_eq!(header.blocksize(), array.geometry().block_nbytes());
            let items = array.all().read::<Vec<f32>>().unwrap();
            let value = if shape == [4, 2, 3] { 0.0 } else { 7.0 };
            assert!(items.iter().all(|item| *item == value), "{shape:?}");
        }
    }
}

#[test]
fn copies_of_empty_arrays_can_grow() {
    for (chunks, blocks) in [(vec![0, 5], vec![0, 5]), (vec![0, 5], vec![2, 5]), (vec![7, 5], vec![0, 5])] {
        let builder = ArrayBuilder::new::<u16>([0, 5]).chunks(chunks).blocks(blocks);
        let array = NdArray::from_bytes(builder.to_bytes(source::zeros()).unwrap()).unwrap();
        let lengths = [array.chunkshape(), array.blockshape()].concat();
        assert!(!lengths.contains(&0), "{lengths:?}");
        let copy = ArrayBuilder::like(&array).to_bytes(&array).unwrap();
        let mut editor = NdArray::edit_bytes(copy).unwrap();
        editor.append(Axis(0), [1u16, 2, 3, 4, 5]).unwrap();
        assert_eq!(editor.snapshot().unwrap().all().read::<Vec<u16>>().unwrap(), [1, 2, 3, 4, 5]);
    }
}

#[test]
fn stale_values_do_not_show() {
    // As C-Blosc2 leaves an array after shrinking: a smaller shape with the same chunks.
    let frame = ArrayBuilder::new::<u32>([6, 6]).chunks([4, 4]).to_bytes(source::value(9u32)).unwrap();
    let shrink = |frame: &Bytes, shape: [u64; 2]| {
        let mut editor = FrameEditor::options().edit_bytes(frame.clone()).unwrap();
        let mut meta = b2nd::ArrayMeta::parse("b2nd", editor.metalayers().get("b2nd").unwrap()).unwrap();
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
    editor.append(Axis(0), source::value(7u32).with_length(2)).unwrap();
    editor.resize(&[8, 8]).unwrap();
    let new = Model { shape: vec![2, 5], items: vec![7; 10] };
    let model = Model { shape: vec![5, 5], items: vec![9; 25] }.insert(0, 5, &new).resize(&[8, 8]);
    check(&editor.snapshot().unwrap(), &model);
    // A NaN or value beyond the edge of a special chunk.
    let dtype = Dtype::parse("<f4").unwrap();
    let mut editor =
        memory(&ArrayBuilder::of_dtype([5], dtype.clone()).chunks([4]), source::nans(&dtype).unwrap());
    editor.resize(&[9]).unwrap();
    let items = editor.snapshot().unwrap().all().read::<Vec<f32>>().unwrap();
    assert!(items[..5].iter().all(|x| x.is_nan()));
    assert_eq!(items[5..], [0.0; 4]);
}

/// Windows does not replace a file that is open, and elsewhere its space is not free before it is closed.
#[test]
fn a_file_that_is_replaced_is_closed() {
    type Change = fn(&mut ArrayEditor) -> Result<(), NdError>;
    let changes: [(Change, [u64; 2]); 4] = [
        // Where nothing remains, the commit writes a new file.
        (|editor| editor.resize(&[0, 12]), [0, 12]),
        (|editor| editor.delete(Axis(1), 0..12), [10, 0]),
        (|editor| editor.resize(&[3, 3]), [3, 3]),
        (|_| Ok(()), [10, 12]),
    ];
    for (change, shape) in changes {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.b2nd");
        let builder = ArrayBuilder::new::<u32>([10, 12]).chunks([4, 5]);
        builder.write(&path, source::by_index(|i| i as u32)).unwrap();
        let mut editor = NdArray::edit(&path).unwrap();
        change(&mut editor).unwrap();
        if shape.contains(&0) {
            editor.commit().unwrap()
        } else {
            editor.compact().unwrap()
        };
        if cfg!(target_os = "linux") {
            let open: Vec<_> = std::fs::read_dir("/proc/self/fd")
                .unwrap()
                .filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok())
                .filter(|file| file.starts_with(folder.path().canonicalize().unwrap()))
                .filter(|file| !file.to_str().unwrap().ends_with(".b2lock"))
                .collect();
            // The new file, not `a.b2nd (deleted)`.
            assert_eq!(open, [path.canonicalize().unwrap()]);
        }
        // The editor continues with the new file.
        editor.resize(&[3, 3]).unwrap();
        editor.commit().unwrap();
        drop(editor);
        let array = NdArray::open(&path).unwrap();
        let model = Model::new(&[10, 12], |i| i as u32).resize(&shape.map(|n| n as usize)).resize(&[3, 3]);
        check(&array, &model);
    }
}

#[test]
fn whole_chunks_of_one_value_take_no_space() {
    let mut editor =
        memory(&ArrayBuilder::new::<u32>([50, 50]).chunks([20, 20]), source::by_index(|i| i as u32));
    editor.set([10..50, 0..50], source::item([0; 4])).unwrap();
    let array = editor.snapshot().unwrap();
    assert_eq!(array.super_chunk().chunk(4).entry().unwrap(), Entry::Special(SpecialKind::Zeros));
    editor.set(range(0..40), source::value(7u32)).unwrap();
    let array = editor.snapshot().unwrap();
    assert_eq!(array.super_chunk().chunk(4).read().unwrap().cbytes(), 36);
    assert_eq!(array.slice([Selection::Index(39)]).unwrap().read::<Vec<u32>>().unwrap(), [7; 50]);
    // Growth is free.
    let mut editor =
        memory(&ArrayBuilder::new::<u8>([0, 1 << 15]).chunks([1 << 15, 1 << 15]), source::zeros());
    editor.resize(&[1 << 26, 1 << 15]).unwrap();
    let frame = {
        editor.commit().unwrap();
        editor.into_bytes().unwrap()
    };
    assert!(frame.len() < 1000);
    assert_eq!(NdArray::from_bytes(frame).unwrap().slice([-1, -1]).unwrap().read_bytes().unwrap(), [0]);
}

#[test]
fn chunks_that_only_move_are_not_touched() {
    let builder = ArrayBuilder::new::<u32>([30, 25]).chunks([10, 10]);
    let mut editor = memory(&builder, source::by_index(|i| i as u32 * 3 + 1));
    editor.commit().unwrap();
    let before = editor.snapshot().unwrap();
    let bytes = |array: &NdArray, n| array.super_chunk().chunk(n).read().unwrap().into_bytes();
    // Chunks of another array with different compression are copied unchanged.
    let cparams = Compression::new().itemsize(4).codec(CodecId::BLOSCLZ).level(1).build().unwrap();
    let other = ArrayBuilder::new::<u32>([30, 20]).chunks([10, 10]).compression(cparams);
    let other = NdArray::from_bytes(other.to_bytes(source::by_index(|i| i as u32 * 5 + 2)).unwrap()).unwrap();
    editor.insert(Axis(1), 10, Concat::new([other.all()], 1).unwrap()).unwrap();
    let after = editor.snapshot().unwrap();
    assert_eq!(after.shape(), [30, 45]);
    for row in 0..3 {
        assert_eq!(bytes(&before, row * 3), bytes(&after, row * 5));
        assert_eq!(bytes(&other, row * 2), bytes(&after, row * 5 + 1));
        assert_eq!(bytes(&other, row * 2 + 1), bytes(&after, row * 5 + 2));
        assert_eq!(bytes(&before, row * 3 + 1), bytes(&after, row * 5 + 3));
        assert_eq!(bytes(&before, row * 3 + 2), bytes(&after, row * 5 + 4));
    }
    // Along the first axis the chunks before stay where they are in the file.
    editor.rollback().unwrap();
    editor.append(Axis(0), source::value(1u32).with_length(13)).unwrap();
    editor.commit().unwrap();
    let after = editor.snapshot().unwrap();
    for nchunk in 0..9 {
        let entry = |array: &NdArray| array.super_chunk().chunk(nchunk).entry().unwrap();
        assert_eq!(entry(&before), entry(&after));
    }
}

#[test]
fn a_failed_operation_changes_nothing() {
    // Above the size of a batch, so that some chunks are written before it fails.
    let builder = ArrayBuilder::new::<u8>([1000]).chunks([40 << 20]);
    let mut editor = memory(&builder, source::by_index(|i| i as u8));
    editor.set(range(0..10), source::item([1])).unwrap();
    assert!(matches!(editor.append(Axis(0), Failing(1).with_length(120 << 20)), Err(NdError::Source(_))));
    // Earlier changes are still there, and nothing else.
    assert_eq!(editor.shape(), [1000]);
    assert_eq!(editor.snapshot().unwrap().shape(), [1000]);
    assert_eq!(editor.snapshot().unwrap().slice(range(8..12)).unwrap().read_bytes().unwrap(), [1, 1, 10, 11]);
    editor.rollback().unwrap();
    assert_eq!(editor.snapshot().unwrap().slice(range(8..12)).unwrap().read_bytes().unwrap(), [8, 9, 10, 11]);
    // Wrong arguments change nothing.
    editor.set(range(0..10), source::item([1])).unwrap();
    assert!(editor.resize(&[5, 5]).is_err());
    assert!(editor.resize(&[u64::MAX]).is_err());
    assert!(editor.set_bytes(range(0..10), &[0; 9]).is_err());
    assert!(editor.set(range(0..10), source::item([0; 2])).is_err());
    assert!(editor.append(Axis(1), source::zeros().with_length(1)).is_err());
    assert!(editor.insert(Axis(0), 1001, source::zeros().with_length(1)).is_err());
    assert!(editor.delete(0, 999..1001).is_err());
    assert!(editor.set_metalayer("b2nd", &[]).is_err());
    assert!(editor.set(range(0..2), &[1u16, 2]).is_err());
    let failed: Result<(), NdError> = editor.transaction(|editor| {
        editor.resize(&[7])?;
        Err(NdError::NotAnArray)
    });
    assert!(matches!(failed, Err(NdError::NotAnArray)));
    assert_eq!(editor.shape(), [1000]);
    assert_eq!(editor.snapshot().unwrap().slice(range(0..3)).unwrap().read_bytes().unwrap(), [0, 1, 2]);
}

#[test]
fn structured_and_big_endian_items() {
    let dtype = Dtype::parse("[('a', '>i4'), ('b', '|S3')]").unwrap();
    let mut editor = memory(&ArrayBuilder::of_dtype([6], dtype).chunks([4]), source::item(*b"\0\0\0\x01abc"));
    editor.set_field([range(..).step(2)], "a", [2i32, 3, 4]).unwrap();
    let array = editor.snapshot().unwrap();
    assert_eq!(array.all().field("a").unwrap().read::<Vec<i32>>().unwrap(), [2, 1, 3, 1, 4, 1]);
    assert_eq!(array.all().field("b").unwrap().read_bytes().unwrap(), b"abc".repeat(6));
    let mut editor = memory(&ArrayBuilder::of_dtype([3], Dtype::parse(">f8").unwrap()), source::zeros());
    editor.set([1], &[0.5f64]).unwrap();
    assert_eq!(editor.snapshot().unwrap().all().read_bytes().unwrap()[8..16], 0.5f64.to_be_bytes());
    assert_eq!(editor.snapshot().unwrap().all().read::<Vec<f64>>().unwrap(), [0.0, 0.5, 0.0]);
}

#[test]
fn the_old_metalayer_changes_in_place() {
    let frame = ArrayBuilder::new::<u8>([2, 3]).chunks([2, 3]).blocks([2, 3]);
    let array = NdArray::from_bytes(frame.to_bytes(source::value(4u8)).unwrap()).unwrap();
    let mut meta = array.meta().to_bytes();
    meta[0] = 0x95;
    meta.truncate(3 + 1 + 18 + 2 * (1 + 10));
    let params = b2_frame::FrameParams::like(array.super_chunk().header()).metalayer("caterva", &meta);
    let mut writer = b2_frame::FrameWriter::memory(params).unwrap();
    writer.append(array.super_chunk().chunk(0).read().unwrap()).unwrap();
    let mut editor = NdArray::edit_bytes(writer.finish().unwrap().into_bytes()).unwrap();
    editor.resize(&[3, 4]).unwrap();
    editor.commit().unwrap();
    let array = NdArray::from_bytes(editor.into_bytes().unwrap()).unwrap();
    assert_eq!(array.super_chunk().metalayers().get("caterva").unwrap().len(), meta.len());
    assert_eq!(array.all().read_bytes().unwrap(), [4, 4, 4, 0, 4, 4, 4, 0, 0, 0, 0, 0]);
}

#[test]
fn many_threads_write_one_array() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.b2nd");
    let builder = ArrayBuilder::new::<u32>([80, 64]).chunks([5, 64]).blocks([5, 32]);
    builder.write(&path, source::zeros()).unwrap();
    let mut editor = NdArray::edit(&path).unwrap();
    let shared = editor.share().unwrap();
    std::thread::scope(|scope| {
        for t in 0..8i64 {
            let shared = &shared;
            scope.spawn(move || {
                // Whole chunks, then items in the midst of chunks that others write too.
                for band in [t, t + 8] {
                    let items = vec![t as u32 + 1; 5 * 64];
                    shared.set(range(band * 5..band * 5 + 5), &items).unwrap();
                }
            });
        }
    });
    std::thread::scope(|scope| {
        for t in 0..8i64 {
            let shared = &shared;
            scope.spawn(move || shared.set([0..80, t..t + 1], &[100 + t as u32; 80]).unwrap());
        }
    });
    assert!(shared.set(range(0..81), &[0u32]).is_err());
    drop(shared);
    editor.commit().unwrap();
    let array = NdArray::open(&path).unwrap();
    let wanted: Vec<u32> = (0..80u32)
        .flat_map(|row| (0..64).map(move |col| if col < 8 { 100 + col } else { row / 5 % 8 + 1 }))
        .collect();
    assert_eq!(array.all().read::<Vec<u32>>().unwrap(), wanted);
}

#[test]
fn small_pieces_are_written_once() {
    let mut dice = Dice::new(7);
    let builder = ArrayBuilder::new::<u32>([0, 25]).chunks([1000, 25]);
    let mut editor = memory(&builder, source::zeros());
    let mut wanted = Vec::new();
    for k in 0..10_000 {
        let row: Vec<u8> = (0..100).map(|_| dice.below(256) as u8).collect();
        editor.append(Axis(0), &row[..]).unwrap();
        wanted.extend(row);
        assert_eq!(editor.shape(), [k + 1, 25]);
    }
    let written = editor.commit().unwrap().bytes_written;
    assert!(written < 1_010_000, "{written}");
    assert_eq!(editor.snapshot().unwrap().all().read_bytes().unwrap(), wanted);
    // Pieces of any length, from any start, with other operations between.
    let mut editor = memory(&ArrayBuilder::new::<u8>([3, 2]).chunks([7, 2]), source::value(1u8));
    let mut wanted = vec![1; 6];
    for k in 0..200u8 {
        let len = dice.below(12) as u64;
        editor.append(Axis(0), source::item([k]).with_length(len)).unwrap();
        wanted.extend(vec![k; len as usize * 2]);
        match dice.below(8) {
            0 => assert_eq!(editor.snapshot().unwrap().all().read_bytes().unwrap(), wanted),
            1 => drop(editor.commit().unwrap()),
            2 => {
                editor.set([-1], source::item([0])).unwrap();
                let end = wanted.len();
                wanted[end - 2..].fill(0);
            }
            3 => {
                editor.resize(&[wanted.len() as u64 / 2 + 1, 2]).unwrap();
                wanted.extend([0, 0]);
            }
            4 => assert!(editor.append(Axis(0), [0u8]).is_err()),
            _ => {}
        }
    }
    editor.commit().unwrap();
    assert_eq!(
        NdArray::from_bytes(editor.into_bytes().unwrap()).unwrap().all().read_bytes().unwrap(),
        wanted
    );
}

#[test]
fn readers_follow() {
    let dir = tempfile::tempdir().unwrap();
    for sparse in [false, true] {
        let path = dir.path().join(format!("{sparse}.b2nd"));
        let builder = ArrayBuilder::new::<u32>([4]).chunks([3]);
        match sparse {
            true => builder.storage(Storage::Sparse).write(&path, source::value(1u32)).unwrap(),
            false => builder.write(&path, source::value(1u32)).unwrap(),
        }
        let mut reader = NdArray::open(&path).unwrap();
        let mut editor = NdArray::edit(&path).unwrap();
        editor.append(Axis(0), source::value(2u32).with_length(3)).unwrap();
        assert!(!reader.refresh().unwrap());
        editor.commit().unwrap();
        assert!(reader.refresh().unwrap());
        assert_eq!(reader.all().read::<Vec<u32>>().unwrap(), [1, 1, 1, 1, 2, 2, 2]);
    }
}

#[test]
fn later_items_win_where_positions_repeat() {
    let mut editor = memory(&ArrayBuilder::new::<u8>([5, 4]).chunks([2, 3]).blocks([1, 2]), source::zeros());
    let selection = [Selection::List(vec![3, 1, 3]), Selection::List(vec![0, 2, 0, 0])];
    editor.set_bytes(&selection, &(1..=12).collect::<Vec<u8>>()).unwrap();
    let array = editor.snapshot().unwrap();
    assert_eq!(array.slice([3]).unwrap().read_bytes().unwrap(), [12, 0, 10, 0]);
    assert_eq!(array.slice([1]).unwrap().read_bytes().unwrap(), [8, 0, 6, 0]);
}

#[test]
fn arrays_go_between_threads() {
    fn shared<T: Send + Sync>() {}
    fn sent<T: Send>() {}
    shared::<NdArray>();
    shared::<b2nd::Slice>();
    shared::<b2nd::SharedEditor<'static>>();
    sent::<ArrayEditor>();
}
