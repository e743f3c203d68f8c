//! Storage that fails: whichever call it is, a frame is written completely or not at all.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::common::*;
use b2_chunk::SpecialKind;
use b2_frame::{
    Disk, Durability, FileId, FileKind, FileSystem, FrameError, FrameParams, FrameWriter, Links, ReadAt,
    ReadFiles, Storage, SuperChunk, WriteAt,
};

const BOTH: [Storage; 2] = [Storage::Contiguous, Storage::Sparse];

/// A file system that records all calls, and makes one of them fail, or that one and all later calls that set names.
#[derive(Clone, Debug, Default)]
struct Failing {
    lasting: bool,
    calls: Arc<Mutex<Vec<String>>>,
    left: Arc<AtomicUsize>,
}

impl Failing {
    fn after(calls: usize) -> Self {
        Self { lasting: false, calls: Arc::default(), left: Arc::new(AtomicUsize::new(calls)) }
    }

    fn call(&self, call: &str) -> io::Result<()> {
        self.calls.lock().unwrap().push(call.to_owned());
        match self.left.fetch_sub(1, Ordering::SeqCst) {
            0 => Err(io::Error::other("injected")),
            left if self.lasting && left > usize::MAX / 2 && call.starts_with("rename") => {
                Err(io::Error::other("injected again"))
            }
            _ => Ok(()),
        }
    }
}

struct FailingFile(Failing, Arc<dyn WriteAt>);

impl ReadAt for FailingFile {
    fn len(&self) -> io::Result<u64> {
        self.1.len()
    }
    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.1.read_exact_at(offset, buf)
    }
    fn identity(&self) -> io::Result<Option<FileId>> {
        self.1.identity()
    }
}

impl WriteAt for FailingFile {
    fn write_all_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.call(&format!("write {offset}"))?;
        self.1.write_all_at(offset, data)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.call("set_len")?;
        self.1.set_len(len)
    }
    fn sync(&self) -> io::Result<()> {
        self.0.call("sync")?;
        self.1.sync()
    }
    fn lock(&self) -> io::Result<()> {
        self.1.lock()
    }
}

impl ReadFiles for Failing {
    fn open(&self, path: &Path, links: Links) -> io::Result<Arc<dyn ReadAt>> {
        self.call("open")?;
        Disk.open(path, links)
    }
    fn kind(&self, path: &Path, links: Links) -> io::Result<FileKind> {
        Disk.kind(path, links)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<OsString>> {
        Disk.list(dir)
    }
    fn writable(self: Arc<Self>) -> Option<Arc<dyn FileSystem>> {
        Some(self)
    }
}

impl FileSystem for Failing {
    fn open_write(&self, path: &Path, links: Links) -> io::Result<Arc<dyn WriteAt>> {
        self.call("open_write")?;
        Ok(Arc::new(FailingFile(self.clone(), Disk.open_write(path, links)?)))
    }
    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn WriteAt>> {
        self.call("create_new")?;
        Ok(Arc::new(FailingFile(self.clone(), Disk.create_new(path)?)))
    }
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.call("create_dir")?;
        Disk.create_dir(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call("rename")?;
        Disk.rename(from, to)
    }
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call("rename_new")?;
        Disk.rename_new(from, to)
    }
    fn remove_file(&self, path: &Path) -> io::Result<()> {
        Disk.remove_file(path)
    }
    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        Disk.remove_dir(path)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.call("sync_dir")?;
        Disk.sync_dir(dir)
    }
    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        Disk.resolve(path)
    }
    fn copy_attributes(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call("copy_attributes")?;
        Disk.copy_attributes(from, to)
    }
}

/// Whichever call fails, the target is the old or the new frame, and nothing else is left behind.
#[test]
fn failures_leave_the_old_frame_or_the_new_one() {
    for old in [None, Some(Storage::Contiguous), Some(Storage::Sparse)] {
        for new in BOTH {
            let mut calls = 0;
            loop {
                let dir = tempfile::tempdir().unwrap();
                let path = dir.path().join("frame");
                if let Some(old) = old {
                    fill(create(&path, old, false).unwrap(), 1).unwrap();
                }
                let fs = Failing::after(calls);
                let options =
                    FrameWriter::options().overwrite(old.is_some()).file_system(Arc::new(fs.clone()));
                let writer = options.storage(new).create(&path, FrameParams::new(4));
                let result = writer.and_then(|writer| fill(writer, 2));
                let found = path.exists().then(|| whole(&SuperChunk::open(&path).unwrap()));
                let last = fs.calls.lock().unwrap().get(calls).cloned();
                let tag = format!("{old:?} to {new:?}, failing at call {calls}: {last:?}");
                assert_eq!(names(dir.path()).len(), usize::from(found.is_some()), "{tag}");
                if result.is_ok() {
                    assert_eq!((found, last), (Some(plain(2)), None), "{tag}");
                    break;
                }
                match result {
                    // The new name exists, but may not survive a power loss.
                    Err(FrameError::NotSynced { .. }) => assert_eq!(found, Some(plain(2)), "{tag}"),
                    Err(FrameError::Io { .. }) => assert_eq!(found, old.map(|_| plain(1)), "{tag}"),
                    result => panic!("{tag}: {result:?}"),
                }
                calls += 1;
            }
            assert!(calls > 5);
        }
    }
}

/// A disk that keeps failing and cannot swap names: the old frame is under its own name or the one given in the error.
#[test]
fn what_was_there_is_never_lost_from_sight() {
    let mut aside = 0;
    for (old, new) in [Storage::Sparse, Storage::Contiguous].map(|new| (Storage::Sparse, new)) {
        for calls in 0.. {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("frame");
            fill(create(&path, old, false).unwrap(), 1).unwrap();
            let fs = Failing { lasting: true, ..Failing::after(calls) };
            let options = FrameWriter::options().overwrite(true).file_system(Arc::new(fs));
            let result =
                options.storage(new).create(&path, FrameParams::new(4)).and_then(|writer| fill(writer, 2));
            let found = |path: &Path| whole(&SuperChunk::open(path).unwrap());
            match result {
                Ok(()) => break,
                Err(FrameError::NotSynced { .. }) => assert_eq!(found(&path), plain(2)),
                Err(FrameError::SetAside { aside: place, .. }) => {
                    assert!(!path.exists());
                    assert_eq!(found(&place), plain(1));
                    aside += 1;
                }
                Err(FrameError::Io { .. }) => assert_eq!(found(&path), plain(1), "failing at call {calls}"),
                Err(error) => panic!("{error}"),
            }
            assert_eq!(names(dir.path()).len(), 1);
        }
    }
    assert_eq!(aside, 2);
}

#[test]
fn files_are_synced_before_they_take_their_names() {
    for storage in BOTH {
        for durability in [Durability::Sync, Durability::None] {
            let dir = tempfile::tempdir().unwrap();
            let fs = Failing::after(usize::MAX);
            let options = FrameWriter::options().durability(durability).file_system(Arc::new(fs.clone()));
            let path = dir.path().join("frame");
            let writer = options.storage(storage).create(path, FrameParams::new(4));
            fill(writer.unwrap(), 1).unwrap();
            let calls = fs.calls.lock().unwrap().clone();
            let named = calls.iter().position(|call| call.starts_with("rename")).unwrap();
            let count = |calls: &[String], what: &str| calls.iter().filter(|call| *call == what).count();
            let synced = (count(&calls[..named], "sync"), count(&calls[named..], "sync_dir"));
            let expected = match (durability, storage) {
                (Durability::Sync, Storage::Contiguous) => (1, 1),
                (Durability::Sync, Storage::Sparse) => (4, 1),
                _ => (0, 0),
            };
            assert_eq!(synced, expected, "{storage:?}: {calls:?}");
            assert_eq!(count(&calls[named..], "sync"), 0);
        }
    }
}

#[test]
fn a_failed_append_ends_the_frame() {
    let dir = tempfile::tempdir().unwrap();
    let fs = Failing::after(2);
    let options = FrameWriter::options().file_system(Arc::new(fs));
    let mut writer =
        options.storage(Storage::Sparse).create(dir.path().join("frame"), FrameParams::new(4)).unwrap();
    // Call 1 creates the file, call 2 writes it.
    assert!(matches!(writer.append(compress(&data(500, 1), &cparams(4))), Err(FrameError::Io { .. })));
    assert!(matches!(writer.append_special(SpecialKind::Zeros, 500), Err(FrameError::Abandoned)));
    assert_eq!(FrameError::Abandoned.kind(), b2_core::ErrorKind::Io);
    assert!(matches!(writer.finish(), Err(FrameError::Abandoned)));
    assert!(names(dir.path()).is_empty());
}
