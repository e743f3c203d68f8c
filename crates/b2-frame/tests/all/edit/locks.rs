//! The lock file next to a frame.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use b2_core::ErrorKind;
use b2_frame::{EditOptions, FrameError, FrameWriter, Storage, SuperChunk, is_locked};

use super::{Home, options, params};
#[cfg(unix)]
use crate::common::names;
use crate::common::{compress, cparams, data};

#[cfg(unix)]
fn fifo(path: &Path) {
    assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
}

fn counter(path: &Path) -> u64 {
    let lock = fs::read(path).unwrap();
    // The part that C-Blosc2 reads, and the part that identifies our changes.
    assert_eq!(lock.len(), 32);
    assert_eq!(lock[..8], [0; 8]);
    u64::from_le_bytes(lock[8..16].try_into().unwrap())
}

fn lock_path(home: &Home, storage: Storage) -> std::path::PathBuf {
    match storage {
        Storage::Contiguous => home.path().with_file_name("frame.b2lock"),
        Storage::Sparse => home.path().join(".b2lock"),
    }
}

#[test]
fn each_commit_is_counted() {
    for storage in [Storage::Contiguous, Storage::Sparse] {
        let mut home = Home::new(Some(storage), params(&cparams(4)));
        let lock = lock_path(&home, storage);
        for commits in 1..4 {
            home.change(|editor| editor.append_bytes(&data(100, commits)).unwrap());
            assert_eq!(counter(&lock), commits);
        }
        // Without a change, nothing is counted.
        home.change(|_| {});
        assert_eq!(counter(&lock), 3);
        // The count of C-Blosc2 is continued.
        fs::write(&lock, [&[0; 8], &u64::MAX.to_le_bytes()[..]].concat()).unwrap();
        home.change(|editor| editor.append_bytes(b"x").unwrap());
        assert_eq!(counter(&lock), 0);
        // Also for changes by renaming.
        home.change(|editor| {
            while editor.nchunks() > 0 {
                editor.delete(0).unwrap()
            }
        });
        assert_eq!(counter(&lock), 1);
    }
}

#[test]
fn writers_wait_for_each_other() {
    for storage in [Storage::Contiguous, Storage::Sparse] {
        let mut home = Home::new(Some(storage), params(&cparams(4)).chunksize(100));
        let mut first = home.edit();
        let done = Arc::new(AtomicBool::new(false));
        let (path, flag) = (home.path(), done.clone());
        let second = std::thread::spawn(move || {
            let mut editor = options().edit(path).unwrap();
            assert!(flag.load(Ordering::SeqCst), "the first one is not done yet");
            // Everything committed in the meantime is there.
            assert_eq!(editor.nbytes(), 100);
            editor.append_bytes(&data(100, 2)).unwrap();
            editor.commit().unwrap();
        });
        std::thread::sleep(Duration::from_millis(30));
        assert!(is_locked(home.path()).unwrap());
        first.append_bytes(&data(100, 1)).unwrap();
        first.commit().unwrap();
        done.store(true, Ordering::SeqCst);
        drop(first);
        second.join().unwrap();
        assert!(!is_locked(home.path()).unwrap());
        assert_eq!(home.read().read_bytes(0..200).unwrap(), [data(100, 1), data(100, 2)].concat());
    }
}

#[test]
fn locking_can_be_switched_off() {
    for storage in [Storage::Contiguous, Storage::Sparse] {
        let home = Home::new(Some(storage), params(&cparams(4)));
        let mut first = options().lock(false).edit(home.path()).unwrap();
        let mut second = options().lock(false).edit(home.path()).unwrap();
        assert!(!lock_path(&home, storage).exists());
        first.append_bytes(b"first").unwrap();
        second.append_bytes(b"second").unwrap();
        first.commit().unwrap();
        // It is reported at the latest when it would do harm.
        assert!(matches!(second.commit(), Err(FrameError::Changed { .. })));
        second.rollback();
        drop(second);
        assert_eq!(home.read().read_bytes(0..5).unwrap(), b"first");
        first.append_bytes(b"!").unwrap();
        first.commit().unwrap();
        drop(first);
        assert_eq!(home.read().read_bytes(0..6).unwrap(), b"first!");
    }
}

#[cfg(unix)]
#[test]
fn links_and_devices_are_no_lock_files() {
    let not_used = |error: FrameError, lock: &Path| {
        error.kind() == ErrorKind::Io && matches!(&error, FrameError::Lock { path, .. } if path == lock)
    };
    for storage in [Storage::Contiguous, Storage::Sparse] {
        let home = Home::new(Some(storage), params(&cparams(4)));
        let victim = home.path().with_file_name("victim");
        fs::write(&victim, [7; 16]).unwrap();
        std::os::unix::fs::symlink(&victim, lock_path(&home, storage)).unwrap();
        assert!(not_used(options().edit(home.path()).unwrap_err(), &lock_path(&home, storage)));
        assert!(not_used(is_locked(home.path()).unwrap_err(), &lock_path(&home, storage)));
        fs::remove_file(lock_path(&home, storage)).unwrap();
        fs::create_dir(lock_path(&home, storage)).unwrap();
        assert!(not_used(options().edit(home.path()).unwrap_err(), &lock_path(&home, storage)));
        assert!(not_used(is_locked(home.path()).unwrap_err(), &lock_path(&home, storage)));
        fs::remove_dir(lock_path(&home, storage)).unwrap();
        fifo(&lock_path(&home, storage));
        assert!(not_used(options().edit(home.path()).unwrap_err(), &lock_path(&home, storage)));
        assert!(not_used(is_locked(home.path()).unwrap_err(), &lock_path(&home, storage)));
        assert_eq!(fs::read(victim).unwrap(), [7; 16]);
    }
}

#[test]
fn a_lock_file_that_is_another_file_too_is_refused() {
    for storage in [Storage::Contiguous, Storage::Sparse] {
        let mut home = Home::new(Some(storage), params(&cparams(4)));
        home.change(|editor| editor.append_bytes(b"data").unwrap());
        let lock = lock_path(&home, storage);
        let frame = match storage {
            Storage::Contiguous => home.path().to_owned(),
            Storage::Sparse => home.path().join("chunks.b2frame"),
        };
        let other = home.path().with_file_name("other");
        fs::write(&other, [7; 64]).unwrap();
        for victim in [&frame, &other] {
            let before = fs::read(victim).unwrap();
            fs::remove_file(&lock).unwrap();
            fs::hard_link(victim, &lock).unwrap();
            for force in [false, true] {
                let error = options().force(force).edit(home.path()).unwrap_err();
                assert!(
                    matches!(&error, FrameError::Lock { path, source, .. } if *path == lock
                    && source.to_string().contains("hard link")),
                    "{error:?}"
                );
            }
            assert_eq!(fs::read(victim).unwrap(), before);
        }
        fs::remove_file(&lock).unwrap();
        home.change(|editor| editor.append_bytes(b"more").unwrap());
        assert_eq!(home.read().read_bytes(0..8).unwrap(), b"datamore");
    }
}

#[cfg(unix)]
#[test]
fn a_frame_behind_a_link_is_locked_under_both_names() {
    let mut home = Home::new(Some(Storage::Contiguous), params(&cparams(4)));
    let link = home.path().with_file_name("link");
    std::os::unix::fs::symlink(home.path(), &link).unwrap();
    let mut editor = options().edit(&link).unwrap();
    editor.append_bytes(b"data").unwrap();
    editor.commit().unwrap();
    // If the target is replaced by renaming, the link stays a link.
    editor.delete(0).unwrap();
    editor.commit().unwrap();
    drop(editor);
    home.change(|editor| editor.append_bytes(b"data").unwrap());
    let dir = home.path().parent().unwrap().to_owned();
    assert_eq!(names(&dir), ["frame", "frame.b2lock", "link", "link.b2lock"]);
    assert!(link.is_symlink());
    assert_eq!((counter(&dir.join("frame.b2lock")), counter(&dir.join("link.b2lock"))), (3, 2));
}

#[cfg(unix)]
/// Changes a file as C-Blosc2 does: in place, under the lock, whose count is increased before the change.
fn overwrite(path: &Path, lock: &fs::File, new: &[u8]) {
    use std::os::unix::fs::FileExt;
    lock.lock().unwrap();
    let mut counter = [0; 8];
    lock.read_exact_at(&mut counter, 8).unwrap();
    lock.write_all_at(&(u64::from_le_bytes(counter) + 1).to_le_bytes(), 8).unwrap();
    let file = fs::File::options().write(true).open(path).unwrap();
    for (at, part) in new.chunks(1000).enumerate() {
        file.write_all_at(part, at as u64 * 1000).unwrap();
        std::thread::sleep(Duration::from_micros(50));
    }
    file.set_len(new.len() as u64).unwrap();
    lock.unlock().unwrap();
}

#[cfg(unix)]
#[test]
fn readers_beside_a_writer_that_overwrites_see_one_state() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("frame");
    // Without checksums, which would detect torn data: C-Blosc2 writes none.
    let states = [1, 2].map(|seed| {
        let mut writer = FrameWriter::options().checksums(false).memory(params(&cparams(4))).unwrap();
        let raw = data(16_000, seed);
        for part in raw.chunks(2000) {
            writer.append(compress(part, &cparams(4))).unwrap();
        }
        (raw, writer.finish().unwrap().into_bytes())
    });
    fs::write(&path, &states[0].1).unwrap();
    fs::write(dir.path().join("frame.b2lock"), [0; 16]).unwrap();
    let lock = fs::File::options().read(true).write(true).open(dir.path().join("frame.b2lock")).unwrap();
    let done = AtomicBool::new(false);
    let (mut whole, mut changed) = (0, 0);
    std::thread::scope(|scope| {
        // Ends also after a failure.
        let _end = AtEnd(|| done.store(true, Ordering::SeqCst));
        scope.spawn(|| {
            let mut n = 0;
            while !done.load(Ordering::SeqCst) {
                n += 1;
                overwrite(&path, &lock, &states[n % 2].1);
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        // How often a read meets a change depends on the machine.
        for _ in 0..100_000 {
            if whole > 100 && changed > 0 {
                break;
            }
            let schunk = SuperChunk::open(&path).unwrap();
            for _ in 0..3 {
                match schunk.read_bytes(0..16_000) {
                    Ok(found) => {
                        assert!(states.iter().any(|(raw, _)| *raw == found));
                        whole += 1;
                    }
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Changed, "{error}");
                        changed += 1;
                    }
                }
            }
        }
    });
    assert!(whole > 100 && changed > 0, "{whole} {changed}");
    // An open frame reports that it has changed until it is refreshed, even if its header is unchanged.
    let mut schunk = SuperChunk::open(&path).unwrap();
    overwrite(&path, &lock, &states[1].1);
    assert_eq!(schunk.read_bytes(0..1).unwrap_err().kind(), ErrorKind::Changed);
    assert!(schunk.refresh().unwrap());
    assert_eq!(schunk.read_bytes(0..16_000).unwrap(), states[1].0);
    // The same for a caller that has the lock: the file is read again, even if the lock file is another one.
    for n in 0..4 {
        if n == 2 {
            fs::remove_file(dir.path().join("frame.b2lock")).unwrap();
            fs::write(dir.path().join("frame.b2lock"), [7; 16]).unwrap();
        }
        let (items, frame) = &states[n % 2];
        let lock = fs::File::options().read(true).write(true).open(dir.path().join("frame.b2lock")).unwrap();
        overwrite(&path, &lock, frame);
        assert!(schunk.refresh_locked().unwrap(), "{n}");
        assert!(!schunk.refresh_locked().unwrap(), "{n}");
        let held = schunk.hold_lock().unwrap();
        assert_eq!(schunk.read_bytes(0..16_000).unwrap(), *items);
        drop(held);
        overwrite(&path, &lock, frame);
        assert_eq!(schunk.read_bytes(0..1).unwrap_err().kind(), ErrorKind::Changed, "{n}");
    }
    assert!(schunk.refresh().unwrap());
    // Our own changes overwrite nothing, so readers need not wait for them.
    let mut editor = options().edit(&path).unwrap();
    let other = SuperChunk::open(&path).unwrap();
    editor.delete(0).unwrap();
    editor.commit().unwrap();
    assert_eq!(other.read_bytes(0..16_000).unwrap(), states[1].0);
    assert_eq!(schunk.read_bytes(0..16_000).unwrap(), states[1].0);
}

/// Does something when it is dropped.
#[cfg(unix)]
struct AtEnd<F: FnMut()>(F);

#[cfg(unix)]
impl<F: FnMut()> Drop for AtEnd<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Frames without checksums, as other programs write them, with a lock file that did not exist when they were opened.
#[test]
fn a_lock_file_that_appears_is_noticed() {
    for storage in [Storage::Contiguous, Storage::Sparse] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("frame");
        let options = FrameWriter::options().storage(storage).checksums(false);
        let mut writer = options.create(&path, params(&cparams(4))).unwrap();
        writer.append(compress(&data(5000, 1), &cparams(4))).unwrap();
        writer.finish().unwrap();
        let lock = match storage {
            Storage::Contiguous => dir.path().join("frame.b2lock"),
            Storage::Sparse => path.join(".b2lock"),
        };
        assert!(!lock.exists());
        let schunk = SuperChunk::open(&path).unwrap();
        assert_eq!(schunk.chunk(0).decompress().unwrap(), data(5000, 1));
        // One of our changes, which overwrites nothing.
        let editor = EditOptions::from(SuperChunk::options().checksums(false)).edit(&path);
        drop(editor.unwrap());
        assert!(lock.exists());
        assert_eq!(schunk.chunk(0).decompress().unwrap(), data(5000, 1));
        fs::remove_file(&lock).unwrap();

        let schunk = SuperChunk::open(&path).unwrap();
        let mut counted = [0; 16];
        counted[8] = 1;
        fs::write(&lock, counted).unwrap();
        let error = schunk.chunk(0).decompress().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Changed, "{error}");
        let again = SuperChunk::open(&path).unwrap();
        assert_eq!(again.chunk(0).decompress().unwrap(), data(5000, 1));
    }
}
