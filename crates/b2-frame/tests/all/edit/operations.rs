//! Single operations: refused arguments, and cases that a model cannot cover.

use std::fs;

use b2_chunk::{Chunk, SpecialKind};
use b2_frame::{Entry, FrameEditor, FrameError, FrameParams, Storage, SuperChunk};

use super::{HOMES, Home, chunks, is_argument, options, out_of_range, params};
use crate::common::{compress, cparams, data, samples, whole};

fn editor(chunksize: usize) -> FrameEditor {
    FrameEditor::memory(params(&cparams(4)).chunksize(chunksize)).unwrap()
}

#[test]
fn what_is_not_there_cannot_be_changed() {
    let mut editor = editor(100);
    editor.append_bytes(&data(250, 1)).unwrap();
    let chunk = || compress(&data(100, 2), &cparams(4));
    out_of_range(editor.insert(4, chunk()));
    out_of_range(editor.update(3, chunk()));
    out_of_range(editor.delete(3));
    out_of_range(editor.write_bytes(200, &[0; 51]));
    out_of_range(editor.write_bytes(u64::MAX, &[0]));
    out_of_range(editor.chunk_nbytes(3));
    is_argument(editor.reorder(&[0, 1]));
    is_argument(editor.reorder(&[0, 1, 1]));
    is_argument(editor.reorder(&[0, 1, 3]));
    is_argument(editor.append_special(SpecialKind::Value, 4));
    is_argument(editor.append_special(SpecialKind::NaN, 3));
    is_argument(editor.append_value(&[1, 2, 3], 1));
    is_argument(editor.set_cparams(cparams(8)));
    // Frames need the header of Blosc2.
    let blosc1 = cparams(4).to_builder().compatibility(b2_chunk::Compatibility::Blosc1).build().unwrap();
    is_argument(editor.set_cparams(blosc1));
    editor.commit().unwrap();
    assert_eq!(whole(&editor.snapshot().unwrap()), data(250, 1));
}

#[test]
fn transactions_happen_as_a_whole() {
    for home in HOMES {
        let mut home = Home::new(home, params(&cparams(4)).chunksize(100));
        let mut editor = home.edit();
        let done: Result<usize, FrameError> = editor.transaction(|editor| {
            editor.append_bytes(&data(150, 1))?;
            editor.vlmeta().set("v", b"1")?;
            Ok(editor.nchunks())
        });
        assert_eq!(done.unwrap(), 2);
        let failed: Result<(), FrameError> = editor.transaction(|editor| {
            editor.append_bytes(&data(500, 2))?;
            editor.vlmeta().set("v", b"2")?;
            editor.delete(77)
        });
        out_of_range(failed);
        assert_eq!((editor.nchunks(), editor.nbytes()), (2, 150));
        home.close(editor);
        let schunk = home.read();
        assert_eq!(whole(&schunk), data(150, 1));
        assert_eq!(schunk.vlmetalayers().get("v").unwrap().unwrap(), b"1");
    }
}

/// Where sizes are individual, an index entry cannot store them.
#[test]
fn special_chunks_are_stored_when_sizes_become_unequal() {
    for home in HOMES {
        let mut home = Home::new(home, params(&cparams(4)).chunksize(400));
        home.change(|editor| {
            editor.append_special(SpecialKind::Zeros, 800).unwrap();
            editor.append_special(SpecialKind::NaN, 400).unwrap();
            editor.append_special(SpecialKind::Uninit, 200).unwrap();
        });
        let schunk = home.read();
        assert!((0..4).all(|n| matches!(schunk.chunk(n).entry().unwrap(), Entry::Special(_))));
        let mut expected = chunks(&schunk);
        home.change(|editor| {
            editor.insert(1, compress(&data(60, 1), &cparams(4))).unwrap();
            editor.append_special(SpecialKind::Zeros, 500).unwrap();
        });
        expected.insert(1, data(60, 1));
        expected.push(vec![0; 500]);
        let schunk = home.read();
        assert!((0..6).all(|n| matches!(schunk.chunk(n).entry().unwrap(), Entry::Stored(_))));
        assert_eq!(chunks(&schunk), expected);
        assert_eq!((schunk.chunksize(), schunk.header().general_flags()), (0, 0x53));
    }
}

#[test]
fn chunks_of_variable_length_blocks_are_edited_alike() {
    let blocks = |seed: u64| [data(50, seed), b"x".to_vec(), data(seed as usize, 7)];
    let chunk = |seed| {
        let blocks = blocks(seed);
        Chunk::compress_vl(&blocks.each_ref().map(|block| &block[..]), &cparams(4)).unwrap()
    };
    for home in HOMES {
        let mut home = Home::new(home, params(&cparams(4)));
        home.change(|editor| {
            editor.append(chunk(1)).unwrap();
            let third = blocks(3);
            editor.append_blocks(&third.each_ref().map(|block| &block[..])).unwrap();
            editor.insert(1, chunk(2)).unwrap();
            is_argument(editor.append(compress(&data(100, 1), &cparams(4))));
            is_argument(editor.append_bytes(b"plain"));
            is_argument(editor.write_bytes(0, b"plain"));
            is_argument(editor.append_special(SpecialKind::Zeros, 4));
        });
        home.change(|editor| {
            editor.update(0, chunk(4)).unwrap();
            editor.delete(1).unwrap();
            editor.reorder(&[1, 0]).unwrap();
        });
        let schunk = home.read();
        assert_eq!(schunk.chunk(0).all_blocks().unwrap(), blocks(3));
        assert_eq!(schunk.chunk(1).all_blocks().unwrap(), blocks(4));
        assert_eq!(schunk.nchunks(), 2);
        assert_eq!(schunk.header().general_flags() & 0x8F, 0x83);
        // The only chunk may be of the other kind, and so may the first.
        home.change(|editor| {
            editor.delete(0).unwrap();
            editor.update(0, compress(&data(100, 1), &cparams(4))).unwrap();
            editor.append_bytes(&data(100, 2)).unwrap();
        });
        assert_eq!(whole(&home.read()), [data(100, 1), data(100, 2)].concat());
        assert_eq!(home.read().header().general_flags() & 0x80, 0);
    }
}

#[test]
fn a_frame_of_empty_chunks_cannot_be_told_from_none() {
    let mut editor = editor(100);
    let empty = || Chunk::compress_bytes(&[], &cparams(4)).unwrap();
    editor.append(empty()).unwrap();
    is_argument(editor.commit());
    editor.append(compress(&data(10, 1), &cparams(4))).unwrap();
    editor.append(empty()).unwrap();
    editor.commit().unwrap();
    let schunk = SuperChunk::from_bytes(editor.into_bytes().unwrap()).unwrap();
    assert_eq!(chunks(&schunk), [vec![], data(10, 1), vec![]]);
}

/// Two entries share a chunk: changing one leaves the other unchanged.
#[test]
fn shared_chunks_are_parted_by_changes() {
    let mut editor = editor(400);
    editor.append_bytes(&data(800, 1)).unwrap();
    editor.set_checksums(false).unwrap();
    editor.commit().unwrap();
    let frame = editor.into_bytes().unwrap();
    let index = SuperChunk::from_bytes(frame.clone()).unwrap().layout().index.clone();
    // Both entries are stored uncompressed: a payload of 16 bytes is not compressed.
    let mut shared = frame.to_vec();
    let (first, second) = (index.start as usize + 32, index.start as usize + 40);
    shared.copy_within(first..second, second);
    let mut editor = options().edit_bytes(shared).unwrap();
    assert_eq!(chunks(&editor.snapshot().unwrap()), [&data(800, 1)[..400]; 2]);
    editor.update_bytes(1, &data(400, 2)).unwrap();
    editor.commit().unwrap();
    assert_eq!(chunks(&editor.snapshot().unwrap()), [&data(800, 1)[..400], &data(400, 2)]);
    // Copying gives each entry a separate chunk.
    let mut editor = options().edit_bytes(editor.into_bytes().unwrap()).unwrap();
    editor.compact().unwrap();
    let snapshot = editor.snapshot().unwrap();
    assert_ne!(snapshot.chunk(0).entry().unwrap(), snapshot.chunk(1).entry().unwrap());
}

#[test]
fn every_kind_of_frame_can_be_changed() {
    for sample in samples() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("frame");
        fs::write(&path, &sample.frame).unwrap();
        let before = chunks(&SuperChunk::open(&path).unwrap());
        let mut editor = options().edit(&path).unwrap();
        let vl = sample.name == "variable-length blocks";
        let extra = if vl {
            editor.append_blocks(&[b"one", b"two"]).unwrap();
            b"onetwo".to_vec()
        } else {
            editor.append(compress(&data(300, 9), &cparams(4))).unwrap();
            data(300, 9)
        };
        editor.vlmeta().set("new", b"value").unwrap();
        editor.commit().unwrap();
        if editor.nchunks() > 1 {
            editor.delete(0).unwrap();
            editor.commit().unwrap();
        }
        drop(editor);
        let schunk = SuperChunk::open(&path).unwrap();
        let mut expected = before.clone();
        expected.push(extra);
        let skip = usize::from(expected.len() > 1);
        assert_eq!(chunks(&schunk), expected[skip..], "{}", sample.name);
        assert_eq!(schunk.vlmetalayers().get("new").unwrap().unwrap(), b"value");
    }
}

#[test]
fn frames_are_created_to_be_changed() {
    let dir = tempfile::tempdir().unwrap();
    let options = b2_frame::FrameWriter::options().durability(b2_frame::Durability::None);
    let params = || FrameParams::from_cparams(&cparams(2)).chunksize(64).metalayer("m", b"1");
    for (name, editor) in [
        ("file", FrameEditor::create(dir.path().join("file"), params(), &options)),
        (
            "dir",
            FrameEditor::create(dir.path().join("dir"), params(), &options.clone().storage(Storage::Sparse)),
        ),
    ] {
        let mut editor = editor.unwrap();
        assert_eq!((editor.chunksize(), editor.itemsize()), (64, 2));
        editor.append_bytes(&data(100, 3)).unwrap();
        editor.commit().unwrap();
        // Dropping does not commit.
        editor.append_bytes(&data(100, 3)).unwrap();
        drop(editor);
        assert_eq!(whole(&SuperChunk::open(dir.path().join(name)).unwrap()), data(100, 3));
    }
    let again = FrameEditor::create(dir.path().join("file"), params(), &options);
    assert!(matches!(again, Err(FrameError::Exists { .. })));
}
