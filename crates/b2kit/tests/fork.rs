//! Forked processes: files belong to the parent, and threads work in the child.

#![cfg(target_os = "linux")]
// Forking has no safe form: the child has no other threads.
#![allow(unsafe_code)]

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use b2kit::chunk::{CParams, Compression};
use b2kit::frame::Durability;
use b2kit::frame::{FrameError, FrameParams, Storage};
use b2kit::{
    ArrayBuilder, ArrayEditor, Chunk, CodecId, ErrorKind, FrameEditor, FrameWriter, NdArray, SuperChunk,
};

const BOTH: [Storage; 2] = [Storage::Contiguous, Storage::Sparse];

/// Much longer than any child needs, so that only a child that hangs exceeds it.
const FORK_TIMEOUT: Duration = Duration::from_secs(120);

/// One test, because a thread that starts or ends holds a lock of Rust's standard library for a moment, and a child that was
/// forked at that moment can start no threads. The threads of the test harness start and end with each test.
#[test]
fn forks() {
    editors_of_the_parent_change_nothing_in_the_child();
    writers_of_the_parent_write_and_remove_nothing_in_the_child();
    frames_in_memory_are_the_childs_own();
    array_editors_of_the_parent_change_nothing_in_the_child();
    children_work_in_parallel_while_the_parent_does();
}

/// A child process that runs a function and exits by itself.
struct Child(libc::pid_t);

impl Child {
    fn run(work: impl FnOnce()) -> Self {
        // SAFETY: the child only runs `work` and exits; what it needs is not locked by another thread.
        match unsafe { libc::fork() } {
            -1 => panic!("no fork: {}", std::io::Error::last_os_error()),
            0 => {
                let done = catch_unwind(AssertUnwindSafe(work));
                std::process::exit(if done.is_ok() { 0 } else { 1 });
            }
            pid => Self(pid),
        }
    }

    /// Waits for the child's end, but not for ever.
    fn wait(self, what: &str) {
        let begun = Instant::now();
        let mut status = 0;
        loop {
            // SAFETY: `status` is valid for the result; the process is a child that has not been waited for.
            match unsafe { libc::waitpid(self.0, &raw mut status, libc::WNOHANG) } {
                0 if begun.elapsed() < FORK_TIMEOUT => thread::sleep(Duration::from_millis(2)),
                0 => {
                    // SAFETY: the process is a child that has not ended.
                    unsafe {
                        libc::kill(self.0, libc::SIGKILL);
                        libc::waitpid(self.0, &raw mut status, 0);
                    }
                    panic!("{what}: the child hangs");
                }
                pid => {
                    assert_eq!(pid, self.0, "{}", std::io::Error::last_os_error());
                    assert!(libc::WIFEXITED(status), "{what}: the child was killed");
                    assert_eq!(libc::WEXITSTATUS(status), 0, "{what}: the child failed");
                    return;
                }
            }
        }
    }
}

/// Makes a child wait for the parent.
struct Gate {
    parent: UnixStream,
    child: UnixStream,
}

impl Gate {
    fn new() -> Self {
        let (parent, child) = UnixStream::pair().unwrap();
        Self { parent, child }
    }

    fn open(&mut self) {
        self.parent.write_all(b"!").unwrap();
    }

    fn pass(&mut self) {
        self.child.read_exact(&mut [0]).unwrap();
    }
}

fn cparams() -> CParams {
    Compression::new().itemsize(4).codec(CodecId::BLOSCLZ).build().unwrap()
}

fn data(len: usize, seed: u64) -> Vec<u8> {
    (0..len as u64).map(|i| ((i * (seed + 3)) >> 4) as u8).collect()
}

/// All that is at a path, by name.
fn content(path: &Path) -> Vec<(String, Vec<u8>)> {
    if path.is_file() {
        return vec![(String::new(), fs::read(path).unwrap())];
    }
    let mut files: Vec<_> = fs::read_dir(path)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()))
        .collect();
    files.sort();
    files
}

fn lock_file(path: &Path) -> File {
    let name = match path.is_dir() {
        true => path.join(".b2lock"),
        false => path.with_extension("b2frame.b2lock"),
    };
    File::options().read(true).write(true).open(name).unwrap()
}

fn is_foreign<T>(result: Result<T, FrameError>) {
    match result {
        Err(error @ FrameError::Forked { .. }) => assert_eq!(error.kind(), ErrorKind::Argument),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it worked"),
    }
}

fn editors_of_the_parent_change_nothing_in_the_child() {
    let dir = tempfile::tempdir().unwrap();
    for storage in BOTH {
        let path = dir.path().join(format!("{storage:?}.b2frame"));
        let options = FrameWriter::options().storage(storage).durability(Durability::None);
        let params = FrameParams::from_cparams(&cparams()).chunksize(4000);
        let mut editor = FrameEditor::create(&path, params, &options).unwrap();
        editor.append_bytes(&data(8000, 1)).unwrap();
        editor.commit().unwrap();
        // Staged, on disk, and some of it still in memory.
        editor.append_bytes(&data(9000, 2)).unwrap();
        let staged = editor.snapshot().unwrap();
        editor.append_bytes(&data(10, 3)).unwrap();

        let mut gate = Gate::new();
        let mut editor = Some(editor);
        let child = Child::run(|| {
            gate.pass();
            // The parent has committed the changes that are staged here.
            let mut editor = editor.take().unwrap();
            is_foreign(editor.append(Chunk::compress_bytes(&data(4000, 5), &cparams()).unwrap()));
            is_foreign(editor.update_bytes(0, &data(4000, 5)));
            is_foreign(editor.append_bytes(&data(9000, 5)));
            is_foreign(editor.snapshot());
            is_foreign(editor.commit());
            is_foreign(editor.compact());
            assert!(staged.read_bytes(8000..8010).is_err());
            editor.rollback();
            drop(editor);
        });
        editor.as_mut().unwrap().commit().unwrap();
        let committed = content(&path);
        gate.open();
        child.wait("editor");
        assert_eq!(content(&path), committed, "{storage:?}");
        let schunk = SuperChunk::open(&path).unwrap();
        let expected = [data(8000, 1), data(9000, 2), data(10, 3)].concat();
        assert_eq!(schunk.read_bytes(0..expected.len() as u64).unwrap(), expected);
        schunk.verify_checksums().unwrap();
        // The parent still holds the lock, and continues.
        assert!(lock_file(&path).try_lock().is_err());
        let mut editor = editor.unwrap();
        editor.delete(0).unwrap();
        editor.commit().unwrap();

        // A child with a copy of the lock does not keep it.
        let mut gate = Gate::new();
        let child = Child::run(|| gate.pass());
        drop(editor);
        lock_file(&path).try_lock().unwrap();
        gate.open();
        child.wait("sleeper");
    }
}

fn writers_of_the_parent_write_and_remove_nothing_in_the_child() {
    let dir = tempfile::tempdir().unwrap();
    for storage in BOTH {
        let path = dir.path().join(format!("{storage:?}"));
        let options = FrameWriter::options().storage(storage).durability(Durability::None);
        let params = || FrameParams::from_cparams(&cparams());
        let chunk = |seed| Chunk::compress_bytes(&data(4000, seed), &cparams()).unwrap();
        let mut writers: Vec<FrameWriter> = ["a", "b"]
            .iter()
            .map(|name| options.create(path.with_extension(name), params()).unwrap())
            .collect();
        for writer in &mut writers {
            assert_eq!(writer.append(chunk(1)).unwrap(), 0);
        }
        let mut writers = Some(writers);
        Child::run(|| {
            let [mut first, second] = <[FrameWriter; 2]>::try_from(writers.take().unwrap()).ok().unwrap();
            is_foreign(first.append(chunk(2)));
            drop(first);
            is_foreign(second.finish());
        })
        .wait("writer");
        for (mut writer, name) in writers.unwrap().into_iter().zip(["a", "b"]) {
            assert_eq!(writer.append(chunk(3)).unwrap(), 1);
            writer.finish().unwrap();
            let schunk = SuperChunk::open(path.with_extension(name)).unwrap();
            assert_eq!(schunk.read_bytes(0..8000).unwrap(), [data(4000, 1), data(4000, 3)].concat());
        }
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 4);
}

fn frames_in_memory_are_the_childs_own() {
    let mut editor =
        Some(FrameEditor::memory(FrameParams::from_cparams(&cparams()).chunksize(4000)).unwrap());
    editor.as_mut().unwrap().append_bytes(&data(9000, 1)).unwrap();
    Child::run(|| {
        let mut editor = editor.take().unwrap();
        editor.append_bytes(&data(1000, 2)).unwrap();
        editor.commit().unwrap();
        let schunk = SuperChunk::from_bytes(editor.into_bytes().unwrap()).unwrap();
        assert_eq!(schunk.nbytes(), 10_000);
    })
    .wait("memory");
}

fn array_editors_of_the_parent_change_nothing_in_the_child() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("array.b2nd");
    let rows = data(160_000, 1);
    let builder = ArrayBuilder::new::<i32>([400, 100]).chunks([100, 100]).blocks([10, 100]);
    builder.write(&path, &rows[..]).unwrap();
    let mut editor = NdArray::edit(&path).unwrap();
    editor.append(0, &rows[..60_000]).unwrap();
    let mut gate = Gate::new();
    let mut editor: Option<ArrayEditor> = Some(editor);
    let child = Child::run(|| {
        gate.pass();
        let mut editor = editor.take().unwrap();
        assert!(editor.commit().is_err());
        drop(editor);
    });
    editor.as_mut().unwrap().commit().unwrap();
    let committed = content(&path);
    gate.open();
    child.wait("array editor");
    assert_eq!(content(&path), committed);
    assert_eq!(NdArray::open(&path).unwrap().shape(), [550, 100]);
}

fn children_work_in_parallel_while_the_parent_does() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("array.b2nd");
    let items = data(4 << 20, 7);
    let builder = || {
        let cparams = Compression::new().itemsize(4).codec(CodecId::LZ4).build().unwrap();
        ArrayBuilder::new::<i32>([1024, 1024]).chunks([128, 1024]).blocks([16, 1024]).compression(cparams)
    };
    builder().write(&path, &items[..]).unwrap();
    let work = || {
        let array = NdArray::open(&path).unwrap();
        assert!(array.all().read_bytes().unwrap() == items, "wrong items");
        let frame = builder().to_bytes(&items[..]).unwrap();
        assert_eq!(NdArray::from_bytes(frame).unwrap().shape(), [1024, 1024]);
    };
    // All that is made once in a process is there.
    work();
    let (stop, running) = (AtomicBool::new(false), Barrier::new(4));
    thread::scope(|scope| {
        let threads = [(); 3].map(|()| {
            scope.spawn(|| {
                running.wait();
                while !stop.load(Ordering::Relaxed) {
                    work();
                }
            })
        });
        running.wait();
        let forks = catch_unwind(AssertUnwindSafe(|| {
            for n in 0..100 {
                Child::run(|| {
                    work();
                    let path = path.with_extension(n.to_string());
                    builder().write(&path, &items[..]).unwrap();
                    let mut editor = NdArray::edit(&path).unwrap();
                    editor.append(0, &items[..512 << 10]).unwrap();
                    editor.commit().unwrap();
                    fs::remove_file(path).unwrap();
                })
                .wait(&format!("fork {n}"));
            }
        }));
        stop.store(true, Ordering::Relaxed);
        // The end of the scope would not wait until the threads are gone.
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        forks.unwrap();
    });
}
