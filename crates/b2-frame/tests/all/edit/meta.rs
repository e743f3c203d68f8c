//! Metalayers and vlmetalayers.

use b2_frame::{Durability, FrameEditor, FrameError, FrameParams, FrameWriter, Storage, SuperChunk};

use super::{HOMES, Home, is_argument, options, params};
use crate::common::{compress, cparams, data};

#[test]
fn metalayers_change_in_place() {
    for home in HOMES {
        // The second one spans several sectors.
        let params = params(&cparams(4)).metalayer("small", b"before").metalayer("large", data(3000, 1));
        let mut home = Home::new(home, params);
        home.change(|editor| editor.append_bytes(&data(5000, 1)).unwrap());
        let committed = home.change(|editor| {
            editor.set_metalayer("small", b"after!").unwrap();
            editor.set_metalayer("large", &data(3000, 2)).unwrap();
            assert_eq!(editor.metalayers().get("small"), Some(&b"after!"[..]));
            is_argument(editor.set_metalayer("small", b"longer one"));
            is_argument(editor.set_metalayer("other", b""));
        });
        // Only the header and its redo record are written, no chunks, and index and trailer only in a sparse frame.
        assert!(committed.bytes_written < 11_000, "{committed:?}");
        let schunk = home.read();
        assert_eq!(schunk.metalayers().get("small"), Some(&b"after!"[..]));
        assert_eq!(schunk.metalayers().get("large"), Some(&data(3000, 2)[..]));
        assert_eq!(schunk.read_bytes(0..5000).unwrap(), data(5000, 1));
    }
}

/// Without checksums and syncs, vlmetalayers of a sparse frame are added to its index file, not to other names of it.
#[cfg(unix)]
#[test]
fn vlmetalayers_are_added_to_the_index_of_a_sparse_frame() {
    use std::os::unix::fs::MetadataExt;

    let dir = tempfile::tempdir().unwrap();
    let (path, link) = (dir.path().join("frame"), dir.path().join("link"));
    let write = FrameWriter::options().storage(Storage::Sparse).checksums(false);
    let mut writer = write.durability(Durability::None).create(&path, params(&cparams(4))).unwrap();
    writer.append(compress(&data(5000, 1), &cparams(4))).unwrap();
    writer.set_vlmetalayer("v", &[0; 9]).unwrap();
    writer.finish().unwrap();
    let index = path.join(b2_frame::INDEX_NAME);
    let inode = || std::fs::metadata(&index).unwrap().ino();
    let mut editor = options().lock(false).edit(&path).unwrap();
    let mut set = |value: u8| {
        editor.vlmeta().set("v", &[value; 9]).unwrap();
        editor.commit().unwrap();
        editor.snapshot().unwrap()
    };
    let value = |schunk: &SuperChunk| {
        assert_eq!(schunk.read_bytes(0..5000).unwrap(), data(5000, 1));
        schunk.vlmetalayers().get("v").unwrap().unwrap()[0]
    };
    // The first one makes space.
    let first = set(1);
    let known = inode();
    let mut opened = SuperChunk::open(&path).unwrap();
    let second = set(2);
    assert_eq!(inode(), known);
    // Chunks did not change, so older states can be read.
    assert_eq!([&first, &opened, &second].map(value), [1, 1, 2]);
    assert!(opened.refresh().unwrap() && !opened.refresh().unwrap());
    assert_eq!(value(&opened), 2);
    // Another writer changes the file in between.
    let mut other = options().lock(false).edit(&path).unwrap();
    other.vlmeta().set("v", &[3; 9]).unwrap();
    other.commit().unwrap();
    assert_eq!(inode(), known);
    assert!(editor.commit().is_ok());
    editor.vlmeta().set("v", &[4; 9]).unwrap();
    assert!(matches!(editor.commit(), Err(FrameError::Changed { .. })));
    assert_eq!(value(&SuperChunk::open(&path).unwrap()), 3);
    // A second name keeps the old content.
    std::fs::hard_link(&index, &link).unwrap();
    let before = std::fs::read(&link).unwrap();
    other.vlmeta().set("v", &[5; 9]).unwrap();
    other.commit().unwrap();
    assert_ne!(inode(), known);
    assert_eq!(std::fs::read(&link).unwrap(), before);
    assert_eq!(value(&SuperChunk::open(&path).unwrap()), 5);
}

#[test]
fn metalayers_are_added_with_the_commit() {
    for home in HOMES {
        let mut home = Home::new(home, params(&cparams(4)).metalayer("small", b"before"));
        home.change(|editor| {
            editor.append_bytes(&data(5000, 1)).unwrap();
            editor.vlmeta().set("v", &data(500, 2)).unwrap();
        });
        home.change(|editor| {
            let before = editor.savepoint().unwrap();
            editor.add_metalayer("long", &data(3000, 3)).unwrap();
            assert!(editor.restore(&before));
            assert_eq!(editor.metalayers().names().len(), 1);
            editor.add_metalayer("other", b"").unwrap();
            editor.rollback();

            editor.add_metalayer("long", &data(3000, 4)).unwrap();
            is_argument(editor.add_metalayer("long", b"again"));
            is_argument(editor.add_metalayer("", b"no name"));
            editor.append_bytes(&data(3000, 5)).unwrap();
            editor.set_metalayer("small", b"after!").unwrap();
            // Uncommitted data can be read, too, though the header does not exist yet.
            let staged = editor.snapshot().unwrap();
            assert_eq!(staged.metalayers().get("long"), Some(&data(3000, 4)[..]));
            assert_eq!(staged.read_bytes(0..5000).unwrap(), data(5000, 1));
            let frame = SuperChunk::from_bytes(staged.to_frame().unwrap()).unwrap();
            assert_eq!(frame.read_bytes(5000..8000).unwrap(), data(3000, 5));
            assert_eq!(frame.metalayers().get("long"), Some(&data(3000, 4)[..]));
        });
        let check = |schunk: &SuperChunk, more: usize| {
            let metas: Vec<_> = schunk.metalayers().iter().map(|(name, _)| name.to_vec()).collect();
            assert_eq!(metas, [&b"small"[..], b"long"]);
            assert_eq!(schunk.metalayers().get("small"), Some(&b"after!"[..]));
            assert_eq!(schunk.metalayers().get("long"), Some(&data(3000, 4)[..]));
            assert_eq!(schunk.vlmetalayers().get("v").unwrap().unwrap(), data(500, 2));
            let all = [data(5000, 1), data(3000, 5), data(more, 6)].concat();
            assert_eq!(schunk.read_bytes(0..all.len() as u64).unwrap(), all);
        };
        check(&home.read(), 0);
        // The places of the chunks are right for changes after it, too.
        home.change(|editor| {
            editor.append_bytes(&data(100, 6)).unwrap();
            check(&editor.snapshot().unwrap(), 100);
            editor.commit().unwrap();
            editor.write_bytes(0, &data(5000, 1)).unwrap();
        });
        check(&home.read(), 100);
    }
}

/// An editor that continues after it has added a metalayer.
#[test]
fn an_editor_changes_what_it_has_written_anew() {
    for home in HOMES {
        let mut home = Home::new(home, params(&cparams(4)));
        home.change(|editor| {
            editor.append_bytes(&data(4000, 1)).unwrap();
            editor.commit().unwrap();
            editor.add_metalayer("m", &data(1000, 2)).unwrap();
            editor.commit().unwrap();
            editor.append_bytes(&data(4000, 3)).unwrap();
            editor.commit().unwrap();
            editor.add_metalayer("n", b"value").unwrap();
            editor.compact().unwrap();
            editor.write_bytes(100, &data(300, 4)).unwrap();
        });
        let mut all = [data(4000, 1), data(4000, 3)].concat();
        all[100..400].copy_from_slice(&data(300, 4));
        let schunk = home.read();
        assert_eq!(schunk.read_bytes(0..8000).unwrap(), all);
        assert_eq!(schunk.metalayers().get("m"), Some(&data(1000, 2)[..]));
        assert_eq!(schunk.metalayers().get("n"), Some(&b"value"[..]));
    }
}

#[test]
fn the_chunk_size_can_be_set_without_chunks() {
    for home in HOMES {
        let mut home = Home::new(home, FrameParams::from_cparams(&cparams(4)));
        home.change(|editor| {
            is_argument(editor.set_chunksize(0));
            is_argument(editor.set_chunksize(b2_chunk::MAX_CHUNK_NBYTES + 1));
            editor.set_chunksize(400).unwrap();
            editor.rollback();
            assert_eq!(editor.chunksize(), 0);
            editor.set_chunksize(800).unwrap();
        });
        assert_eq!(home.read().chunksize(), 800);
        home.change(|editor| {
            editor.append_bytes(&data(2000, 1)).unwrap();
            is_argument(editor.set_chunksize(400));
        });
        let schunk = home.read();
        assert_eq!((schunk.chunksize(), schunk.nchunks()), (800, 3));
        assert_eq!(schunk.read_bytes(0..2000).unwrap(), data(2000, 1));
    }
}

#[test]
fn the_block_size_can_be_set_without_chunks() {
    for home in HOMES {
        let mut home = Home::new(home, FrameParams::from_cparams(&cparams(4)));
        home.change(|editor| {
            is_argument(editor.set_blocksize(0));
            is_argument(editor.set_blocksize(b2_chunk::MAX_BLOCKSIZE + 1));
            editor.set_blocksize(400).unwrap();
        });
        assert_eq!(home.read().header().blocksize(), 400);
        home.change(|editor| {
            editor.append_bytes(&data(2000, 1)).unwrap();
            is_argument(editor.set_blocksize(800));
        });
        assert_eq!(home.read().header().blocksize(), 400);
    }
}

#[test]
fn more_than_16_vlmetalayers_only_on_demand() {
    let mut editor = FrameEditor::memory(FrameParams::new(1)).unwrap();
    for i in 0..16 {
        editor.vlmeta().set(format!("v{i}"), b"value").unwrap();
    }
    is_argument(editor.vlmeta().set("one more", b""));
    editor.vlmeta().set("v3", b"changed").unwrap();
    is_argument(editor.vlmeta().set("", b""));
    is_argument(editor.vlmeta().set("n".repeat(32), b""));
    editor.commit().unwrap();
    let frame = editor.into_bytes().unwrap();
    let mut editor = options().many_vlmetalayers(true).edit_bytes(frame).unwrap();
    editor.vlmeta().set("one more", b"17").unwrap();
    assert_eq!(editor.vlmetalayers().iter().len(), 17);
    assert!(editor.vlmeta().remove("v0"));
    assert!(!editor.vlmeta().remove("v0"));
    editor.commit().unwrap();
    let schunk = SuperChunk::from_bytes(editor.into_bytes().unwrap()).unwrap();
    assert_eq!(schunk.vlmetalayers().get("v3").unwrap().unwrap(), b"changed");
    assert_eq!(schunk.vlmetalayers().get("one more").unwrap().unwrap(), b"17");
    assert_eq!(schunk.vlmetalayers().iter().len(), 16);
}

/// In an empty frame the trailer always follows the header.
#[test]
fn empty_frames_have_no_dead_space() {
    for home in HOMES {
        let mut home = Home::new(home, params(&cparams(4)).metalayer("m", b"value"));
        let check = |home: &Home, vlmetalayers| {
            let schunk = home.read();
            assert_eq!(schunk.layout().trailer.start, schunk.layout().header.end);
            assert_eq!((schunk.cbytes(), schunk.vlmetalayers().iter().len()), (0, vlmetalayers));
        };
        home.change(|editor| editor.vlmeta().set("v", &data(500, 1)).unwrap());
        check(&home, 1);
        home.change(|editor| editor.set_metalayer("m", b"VALUE").unwrap());
        check(&home, 1);
        home.change(|editor| editor.set_chunksize(400).unwrap());
        check(&home, 1);
        home.change(|editor| editor.append(compress(&data(400, 1), &cparams(4))).map(drop).unwrap());
        assert_eq!((home.read().nchunks(), home.read().vlmetalayers().iter().len()), (1, 1));
        home.change(|editor| editor.delete(0).unwrap());
        check(&home, 1);
        home.change(|editor| assert!(editor.vlmeta().remove("v")));
        check(&home, 0);
    }
}
