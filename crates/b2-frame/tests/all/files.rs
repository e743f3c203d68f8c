//! Frames on disk: replacing files, leaving no temporary files, refusing anything but regular files.

use std::fs;
use std::io;

use b2_chunk::{Chunk, Compression};

use crate::common::*;
use b2_frame::{
    Disk, Durability, FileSystem, FrameError, FrameParams, FrameWriter, Links, PathKind, ReadFiles, Storage,
    Structure, SuperChunk, sniff,
};

const BOTH: [Storage; 2] = [Storage::Contiguous, Storage::Sparse];

#[test]
fn nothing_is_replaced_unless_asked_for() {
    for old in BOTH {
        for new in BOTH {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("frame");
            fill(create(&path, old, false).unwrap(), 1).unwrap();
            assert!(matches!(create(&path, new, false), Err(FrameError::Exists { .. })), "{old:?} {new:?}");
            assert_eq!(whole(&SuperChunk::open(&path).unwrap()), plain(1));
            fill(create(&path, new, true).unwrap(), 2).unwrap();
            let schunk = SuperChunk::open(&path).unwrap();
            assert_eq!((schunk.storage(), whole(&schunk)), (new, plain(2)));
            assert_eq!(names(dir.path()), ["frame"]);
        }
    }
}

#[test]
fn a_target_that_appears_meanwhile_is_kept() {
    for storage in BOTH {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("frame");
        let writer = create(&path, storage, false).unwrap();
        fs::write(&path, b"precious").unwrap();
        assert!(matches!(fill(writer, 1), Err(FrameError::Exists { .. })));
        assert_eq!(fs::read(&path).unwrap(), b"precious");
        assert_eq!(names(dir.path()), ["frame"]);
    }
}

/// Windows has devices in every folder; elsewhere these are names as others.
#[test]
fn names_of_devices_are_refused_on_windows() {
    for (name, storage) in
        ["NUL", "aux.b2nd", "Con.tar"].into_iter().flat_map(|name| BOTH.map(|of| (name, of)))
    {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        let created = create(&path, storage, false);
        if cfg!(windows) {
            let Err(FrameError::Io { source, .. }) = created else { panic!("{name}: {:?}", created.err()) };
            assert_eq!(source.kind(), io::ErrorKind::InvalidFilename);
            assert!(source.to_string().contains("is the name of a device"), "{source}");
            assert!(names(dir.path()).is_empty());
        } else {
            fill(created.unwrap(), 1).unwrap();
            assert_eq!(whole(&SuperChunk::open(&path).unwrap()), plain(1));
        }
        let made =
            [Disk.create_new(&path).map(drop), Disk.create_dir(&path)].map(|made| made.map_err(|e| e.kind()));
        let expected =
            if cfg!(windows) { io::ErrorKind::InvalidFilename } else { io::ErrorKind::AlreadyExists };
        assert_eq!(made, [Err(expected); 2], "{name}");
    }
}

#[test]
fn unfinished_frames_leave_nothing() {
    for storage in BOTH {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("frame");
        let mut writer = create(&path, storage, false).unwrap();
        writer.append(compress(&data(100_000, 1), &cparams(4))).unwrap();
        assert_eq!(names(dir.path()).len(), 1);
        drop(writer);
        assert!(names(dir.path()).is_empty());
    }
}

#[test]
fn directories_of_others_are_kept() {
    for storage in BOTH {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("frame");
        fs::create_dir(&path).unwrap();
        fs::write(path.join("0000000a.chunk"), b"no chunk of ours: lower case").unwrap();
        let error = create(&path, storage, true).err().unwrap();
        assert!(matches!(error, FrameError::NotASparseFrame { .. }), "{error}");
        assert_eq!(names(dir.path()), ["frame"]);
        assert_eq!(names(&path), ["0000000a.chunk"]);
    }
}

#[test]
fn sparse_frames_have_the_files_that_c_expects() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("frame");
    fill(create(&path, Storage::Sparse, false).unwrap(), 1).unwrap();
    assert_eq!(names(&path), ["00000000.chunk", "00000001.chunk", "00000002.chunk", "chunks.b2frame"]);
    let index = fs::read(path.join("chunks.b2frame")).unwrap();
    assert_eq!(index[26], 1);
    let error = SuperChunk::open(path.join("chunks.b2frame")).unwrap_err();
    assert!(matches!(error.detail(), FrameError::Field { field: "frame type", .. }), "{error}");
}

#[test]
fn damaged_sparse_frames_are_errors() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("frame");
    fill(create(&path, Storage::Sparse, false).unwrap(), 1).unwrap();
    let member = path.join("00000001.chunk");
    let chunk = fs::read(&member).unwrap();
    let schunk = SuperChunk::open(&path).unwrap();
    let read = || {
        let whole = schunk.chunk(1).decompress().map(drop);
        let part = schunk.read_bytes(700..710).map(drop);
        assert_eq!(whole.is_ok(), part.is_ok());
        schunk.chunk(1).blocks(&[0], |_, _| ()).and(whole)
    };
    for cut in 0..chunk.len() {
        fs::write(&member, &chunk[..cut]).unwrap();
        assert!(read().is_err(), "cut to {cut} bytes");
    }
    // Bytes after the chunk are ignored.
    fs::write(&member, [&chunk[..], b"trailing"].concat()).unwrap();
    read().unwrap();
    // A chunk of another size.
    fs::write(&member, compress(&data(501, 1), &cparams(4)).as_bytes()).unwrap();
    assert!(matches!(
        read().map_err(FrameError::into_detail),
        Err(FrameError::Field { field: "nbytes", structure: Structure::StoredChunk { nchunk: 1, .. }, .. })
    ));
    fs::remove_file(&member).unwrap();
    match read().unwrap_err() {
        FrameError::Io { name, source, .. } => {
            assert!(name.ends_with("00000001.chunk"), "{name}");
            assert_eq!(source.kind(), io::ErrorKind::NotFound);
        }
        other => panic!("{other}"),
    }
    assert_eq!(schunk.chunk(2).decompress().unwrap(), data(500, 3));

    // File numbers above 32 bits, and a contiguous frame as index.
    let index = fs::read(path.join("chunks.b2frame")).unwrap();
    let mut odd = index.clone();
    odd[26] = 0;
    // Its copy is not used, since the frame does not end with the file.
    odd.push(0);
    fs::write(path.join("chunks.b2frame"), &odd).unwrap();
    assert!(matches!(
        SuperChunk::open(&path).unwrap_err().detail(),
        FrameError::Field { field: "frame type", .. }
    ));
    for cut in 0..index.len() {
        fs::write(path.join("chunks.b2frame"), &index[..cut]).unwrap();
        assert!(SuperChunk::open(&path).is_err());
    }
    fs::remove_file(path.join("chunks.b2frame")).unwrap();
    assert!(matches!(SuperChunk::open(&path), Err(FrameError::Io { .. })));
}

#[test]
fn file_numbers_have_32_bits() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("frame");
    let mut writer = create(&path, Storage::Sparse, false).unwrap();
    writer.append(compress(&data(500, 1), &cparams(4))).unwrap();
    writer.finish().unwrap();
    let unchecked = SuperChunk::options().checksums(false);
    // One entry is stored uncompressed.
    let index_path = path.join("chunks.b2frame");
    let index = fs::read(&index_path).unwrap();
    let at = SuperChunk::open(&path).unwrap().layout().index.start as usize + 32;
    fs::write(&index_path, patched(&index, at, &u64::from(u32::MAX).to_le_bytes())).unwrap();
    let error = unchecked.open(&path).unwrap().chunk(0).read().unwrap_err();
    assert!(matches!(&error, FrameError::Io { name, .. } if name.ends_with("FFFFFFFF.chunk")), "{error}");
    fs::write(&index_path, patched(&index, at, &(1u64 << 32).to_le_bytes())).unwrap();
    let error = unchecked.open(&path).unwrap().chunk(0).read().unwrap_err();
    assert!(matches!(error.detail(), FrameError::Field { field: "entry", .. }), "{error}");
}

#[test]
fn paths_are_told_apart_by_content() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x");
    let check = |content: &[u8], kind| {
        fs::write(&path, content).unwrap();
        assert_eq!(sniff(&path).unwrap(), kind);
        SuperChunk::open(&path).map(drop)
    };
    check(&samples()[0].frame, PathKind::ContiguousFrame).unwrap();
    check(&samples()[0].frame[..10], PathKind::ContiguousFrame).unwrap_err();
    for content in
        [&b""[..], b"\x9e\xa8b2frame", b"\x9e\xa8b2framE\0", compress(b"chunk", &cparams(1)).as_bytes()]
    {
        assert!(matches!(check(content, PathKind::Chunk).unwrap_err().detail(), FrameError::NotAFrame));
    }
    assert_eq!(sniff(dir.path()).unwrap(), PathKind::SparseFrame);
    assert!(matches!(sniff(dir.path().join("no")), Err(FrameError::Io { .. })));
    let error = SuperChunk::options().offset(10).open(&path).unwrap_err();
    assert!(matches!(error.detail(), FrameError::NotAFrame), "{error}");
    assert!(matches!(SuperChunk::options().offset(1 << 40).open(&path), Err(FrameError::OutOfRange { .. })));
}

#[cfg(unix)]
mod unix {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::Path;

    use b2_core::ErrorKind;

    use super::*;

    fn fifo(path: &Path) {
        assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
    }

    /// Opening a FIFO would wait for a writer that never comes.
    #[test]
    fn fifos_and_devices_are_refused_unopened() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fifo");
        fifo(&path);
        for path in [path.as_path(), Path::new("/dev/zero"), Path::new("/dev/tty")] {
            assert!(matches!(sniff(path), Err(FrameError::NotRegular { .. })));
            assert!(matches!(SuperChunk::open(path), Err(FrameError::NotRegular { .. })));
            assert!(matches!(SuperChunk::options().offset(0).open(path), Err(FrameError::NotRegular { .. })));
            for storage in BOTH {
                assert!(matches!(create(path, storage, true), Err(FrameError::NotRegular { .. })));
            }
        }
        let error = Disk.open(&path, Links::Follow).err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn sparse_frames_hold_regular_files_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("frame");
        fill(create(&path, Storage::Sparse, false).unwrap(), 1).unwrap();
        let schunk = SuperChunk::open(&path).unwrap();
        let chunk = path.join("00000001.chunk");
        let elsewhere = dir.path().join("elsewhere");
        let refused = |result: Result<(), FrameError>| match result {
            Err(error @ FrameError::Member { .. }) => {
                assert_eq!(error.kind(), ErrorKind::Damaged);
                assert!(error.to_string().starts_with(path.to_str().unwrap()), "{error}");
            }
            other => panic!("{other:?}"),
        };
        // A link is refused, even if it leads to a valid chunk.
        fs::rename(&chunk, &elsewhere).unwrap();
        symlink(&elsewhere, &chunk).unwrap();
        refused(schunk.chunk(1).read().map(drop));
        refused(schunk.read_bytes(600..601).map(drop));
        fs::remove_file(&chunk).unwrap();
        fifo(&chunk);
        refused(schunk.chunk(1).read().map(drop));
        fs::remove_file(&chunk).unwrap();
        fs::create_dir(&chunk).unwrap();
        refused(schunk.chunk(1).read().map(drop));

        let index = path.join("chunks.b2frame");
        fs::rename(&index, &elsewhere).unwrap();
        symlink(&elsewhere, &index).unwrap();
        refused(SuperChunk::open(&path).map(drop));
        fs::remove_file(&index).unwrap();
        fifo(&index);
        refused(SuperChunk::open(&path).map(drop));
    }

    #[test]
    fn links_to_frames_are_followed_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        let (link, real) = (dir.path().join("link"), dir.path().join("sub/real"));
        fs::create_dir(dir.path().join("sub")).unwrap();
        for storage in BOTH {
            fill(create(&real, storage, true).unwrap(), 1).unwrap();
            symlink(&real, &link).unwrap();
            assert_eq!(whole(&SuperChunk::open(&link).unwrap()), plain(1));
            fill(create(&link, storage, true).unwrap(), 2).unwrap();
            assert_eq!(fs::read_link(&link).unwrap(), real);
            assert_eq!(whole(&SuperChunk::open(&real).unwrap()), plain(2));
            assert_eq!(names(dir.path()), ["link", "sub"]);
            assert_eq!(names(&dir.path().join("sub")), ["real"]);
            fs::remove_file(&link).unwrap();
        }
    }

    #[test]
    fn replacing_keeps_the_permissions() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("frame");
        for (storage, mode) in [(Storage::Contiguous, 0o640), (Storage::Sparse, 0o750)] {
            fill(create(&path, storage, true).unwrap(), 1).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            fill(create(&path, storage, true).unwrap(), 2).unwrap();
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, mode);
        }
    }
}

#[test]
fn disk_files_do_what_storage_must() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    let file = Disk.create_new(&path).unwrap();
    assert_eq!(Disk.create_new(&path).err().unwrap().kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(file.len().unwrap(), 0);
    file.write_all_at(5, b"56789").unwrap();
    file.write_all_at(0, b"01234").unwrap();
    file.sync().unwrap();
    assert_eq!(file.read_at(2..7).unwrap(), &b"23456"[..]);
    file.set_len(8).unwrap();
    let reader = Disk.open(&path, Links::Refuse).unwrap();
    assert_eq!(reader.len().unwrap(), 8);
    let mut buf = [0; 4];
    reader.read_exact_at(4, &mut buf).unwrap();
    assert_eq!(&buf, b"4567");
    assert_eq!(reader.read_exact_at(5, &mut buf).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    assert_eq!(reader.identity().unwrap(), file.identity().unwrap());
    file.lock().unwrap();
    assert!(Disk.is_locked(&path).unwrap());
    file.unlock().unwrap();
    Disk.open_write(&path, Links::Refuse).unwrap().lock().unwrap();

    let other = dir.path().join("other");
    Disk.rename_new(&path, &other).unwrap();
    fs::write(&path, b"second").unwrap();
    assert_eq!(Disk.rename_new(&path, &other).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(names(dir.path()), ["file", "other"]);
    // Not every file system of Windows can replace an open file.
    if let Err(error) = Disk.rename(&path, &other) {
        assert!(cfg!(windows) && error.to_string().contains("until it is closed"), "{error}");
        drop((file, reader));
        Disk.rename(&path, &other).unwrap();
    }
    assert_eq!(Disk.open(&other, Links::Refuse).unwrap().read_at(0..6).unwrap(), &b"second"[..]);
    assert_eq!(Disk.list(dir.path()).unwrap(), ["other"]);
    Disk.sync_dir(dir.path()).unwrap();
}

/// Preallocated space is given back, which changes nothing else in a file.
#[test]
fn a_large_file_takes_no_more_space_than_it_has_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let mut rng = b2_testkit::Rng::new(5);
    let noise: Vec<u8> = (0..1 << 20).map(|_| rng.below(256) as u8).collect();
    for durability in [Durability::Sync, Durability::None] {
        let path = dir.path().join("large.b2frame");
        let options = FrameWriter::options().durability(durability).overwrite(true);
        let mut writer = options.create(&path, FrameParams::new(1).chunksize(noise.len())).unwrap();
        for _ in 0..40 {
            let chunk =
                Chunk::compress_bytes(&noise, &Compression::new().itemsize(1).build().unwrap()).unwrap();
            writer.append(chunk).unwrap();
        }
        writer.finish().unwrap();
        let there = std::fs::metadata(&path).unwrap();
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            let taken = there.blocks() * 512;
            assert!(taken < there.len() + (1 << 20), "{} bytes take {taken}", there.len());
        }
        let frame = SuperChunk::open(&path).unwrap();
        assert_eq!(frame.layout().trailer.end, there.len());
        for nchunk in [0, 7, 39] {
            assert!(frame.chunk(nchunk).decompress().unwrap() == noise);
        }
    }
}
