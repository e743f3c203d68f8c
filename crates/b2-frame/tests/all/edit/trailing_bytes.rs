//! Bytes after a frame: foreign data, our own leftovers, embedded frames; and files with several names.

use std::fs;

use b2_core::ErrorKind;
use b2_frame::{FrameError, FrameWriter, Storage, SuperChunk};

use super::{chunks, file, options, params};
use crate::common::{compress, cparams, data, frame, whole};

#[test]
fn foreign_bytes_are_not_written_over() {
    let dir = tempfile::tempdir().unwrap();
    let raw = data(1000, 1);
    let path = file(dir.path(), &raw, 400);
    let len = fs::metadata(&path).unwrap().len();
    let other = frame(&data(500, 2), 500, &cparams(4));
    for foreign in [&b"x"[..], b"PK\x03\x04archive", &other, &[&[0; 100], &other[..]].concat()] {
        let original = [&fs::read(&path).unwrap()[..len as usize], foreign].concat();
        fs::write(&path, &original).unwrap();
        match options().edit(&path) {
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Unsupported);
                let FrameError::ForeignBytes { offset, len: n, .. } = error else { panic!("{error:?}") };
                assert_eq!((offset, n), (len, foreign.len() as u64));
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(fs::read(&path).unwrap(), original);
        assert_eq!(whole(&SuperChunk::open(&path).unwrap()), raw);
    }
    let mut editor = options().force(true).edit(&path).unwrap();
    editor.append(compress(&data(400, 3), &cparams(4))).unwrap();
    editor.commit().unwrap();
    drop(editor);
    assert_eq!(chunks(&SuperChunk::open(&path).unwrap())[3], data(400, 3));
}

#[test]
fn leftovers_of_our_own_are_removed() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(dir.path(), &data(1000, 1), 400);
    let original = fs::read(&path).unwrap();
    let mut editor = options().edit(&path).unwrap();
    editor.append(compress(&data(400, 3), &cparams(4))).unwrap();
    editor.snapshot().unwrap();
    let staged = fs::read(&path).unwrap();
    assert!(staged.len() > original.len() && staged.starts_with(&original));
    drop(editor);
    assert_eq!(fs::read(&path).unwrap(), original);
    // As after a kill, and after a power loss in which some sectors were lost.
    for zeros in [0..0, original.len()..original.len() + 20, original.len()..staged.len()] {
        let mut left = staged.clone();
        left[zeros].fill(0);
        fs::write(&path, &left).unwrap();
        assert_eq!(whole(&SuperChunk::open(&path).unwrap()), data(1000, 1));
        drop(options().edit(&path).unwrap());
        assert_eq!(fs::read(&path).unwrap(), original);
    }
}

#[test]
fn frames_are_appended_to_files_and_read_there() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("container");
    fs::write(&path, b"something of 23 bytes..").unwrap();
    let mut expected = Vec::new();
    let mut writer = FrameWriter::options()
        .storage(Storage::Sparse)
        .create(dir.path().join("sparse"), params(&cparams(4)))
        .unwrap();
    writer.append(compress(&data(600, 1), &cparams(4))).unwrap();
    writer.set_vlmetalayer("v", b"1").unwrap();
    writer.finish().unwrap();
    let sparse = SuperChunk::open(dir.path().join("sparse")).unwrap();
    let memory = SuperChunk::from_bytes(frame(&data(1000, 2), 400, &cparams(4))).unwrap();
    let empty = SuperChunk::from_bytes(frame(&[], 1, &cparams(4))).unwrap();
    for schunk in [&sparse, &memory, &empty] {
        let offset = schunk.append_to_file(&path, &FrameWriter::options()).unwrap();
        expected.push((offset, whole(schunk), schunk.vlmetalayers().iter().len()));
    }
    assert!(fs::read(&path).unwrap().starts_with(b"something of 23 bytes.."));
    for (offset, raw, vlmetalayers) in expected {
        let schunk = SuperChunk::options().offset(offset).open(&path).unwrap();
        assert_eq!((whole(&schunk), schunk.vlmetalayers().iter().len()), (raw, vlmetalayers));
    }
    assert!(!dir.path().join("container.b2lock").exists());
    assert!(memory.append_to_file(dir.path().join("none"), &FrameWriter::options()).is_err());

    // Bytes after a frame, which stays readable and is protected from then on.
    let path = file(dir.path(), &data(300, 5), 300);
    let offset = memory.append_to_file(&path, &FrameWriter::options()).unwrap();
    assert_eq!(whole(&SuperChunk::open(&path).unwrap()), data(300, 5));
    assert_eq!(whole(&SuperChunk::options().offset(offset).open(&path).unwrap()), data(1000, 2));
    assert!(matches!(options().edit(&path), Err(FrameError::ForeignBytes { .. })));
}

#[cfg(unix)]
#[test]
fn files_with_several_names_are_not_changed() {
    let refused = |error: FrameError| {
        error.kind() == ErrorKind::Unsupported && matches!(error, FrameError::HardLinks { links: 2, .. })
    };
    let dir = tempfile::tempdir().unwrap();
    let path = file(dir.path(), &data(1000, 1), 400);
    let (other, original) = (dir.path().join("other"), fs::read(&path).unwrap());
    fs::hard_link(&path, &other).unwrap();
    for name in [&path, &other] {
        assert!(refused(options().edit(name).unwrap_err()));
        assert!(refused(options().lock(false).edit(name).unwrap_err()));
    }
    assert_eq!(fs::read(&path).unwrap(), original);
    fs::remove_file(&other).unwrap();
    // A second name that is added while the frame is open.
    let mut editor = options().edit(&path).unwrap();
    fs::hard_link(&path, &other).unwrap();
    editor.append(compress(&data(400, 3), &cparams(4))).unwrap();
    assert!(refused(editor.commit().unwrap_err()));
    assert!(refused(editor.compact().unwrap_err()));
    assert_eq!(SuperChunk::open(&other).unwrap().nchunks(), 3);
    fs::remove_file(&other).unwrap();
    editor.commit().unwrap();
    drop(editor);
    fs::hard_link(&path, &other).unwrap();
    // In place, so under both names.
    let mut editor = options().force(true).edit(&path).unwrap();
    editor.vlmeta().set("v", b"1").unwrap();
    editor.commit().unwrap();
    assert_eq!(SuperChunk::open(&other).unwrap().nchunks(), 4);
    editor.compact().unwrap();
    assert_eq!(editor.dead_bytes().unwrap(), 0);
    assert_eq!(SuperChunk::open(&other).unwrap().nchunks(), 4);
}

/// A new frame gets its final name before it loses the temporary one.
#[cfg(unix)]
#[test]
fn the_temporary_name_of_a_killed_writer_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(dir.path(), &data(1000, 1), 400);
    fs::hard_link(&path, dir.path().join(".b2kit-1-0123456789abcdef.tmp")).unwrap();
    fs::write(dir.path().join(".b2kit-2-0123456789abcdef.tmp"), b"of another writer").unwrap();
    options().edit(&path).unwrap().set_checksums(true).unwrap();
    assert_eq!(crate::common::names(dir.path()), [".b2kit-2-0123456789abcdef.tmp", "frame", "frame.b2lock"]);
}

#[cfg(unix)]
#[test]
fn replacing_a_file_keeps_its_mode() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let path = file(dir.path(), &data(1000, 1), 400);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let mut editor = options().edit(&path).unwrap();
    editor.delete(0).unwrap();
    editor.compact().unwrap();
    drop(editor);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
}
