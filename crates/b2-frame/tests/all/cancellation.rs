//! Calls that their progress callback cancels change nothing.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::common::{compress, cparams, data};
use b2_core::{Control, ErrorKind, Progress};
use b2_frame::{
    Durability, EditOptions, FrameEditor, FrameError, FrameParams, FrameWriter, Storage, SuperChunk,
};

const CHUNK: usize = 4000;
const NCHUNKS: usize = 20;

/// Returns a control that cancels once this many bytes are done, and the progress that it received.
fn stopping(after: u64) -> (Control, Arc<Mutex<Vec<Progress>>>) {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let tell = heard.clone();
    let control = Control::new().progress(move |progress| {
        tell.lock().unwrap().push(progress);
        if progress.nbytes < after { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    (control, heard)
}

fn is_cancelled<T>(result: Result<T, FrameError>) {
    match result {
        Err(error) => assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}"),
        Ok(_) => panic!("it went on"),
    }
}

fn options() -> EditOptions {
    FrameEditor::options().durability(Durability::None)
}

/// Creates a frame of some chunks with dead space.
fn frame(path: &Path, storage: Storage) -> FrameEditor {
    let new = FrameWriter::options().storage(storage).durability(Durability::None);
    let params = FrameParams::from_cparams(&cparams(4)).chunksize(CHUNK);
    let mut editor = FrameEditor::create(path, params, &new).unwrap();
    editor.append_bytes(&data(CHUNK * NCHUNKS, 1)).unwrap();
    editor.commit().unwrap();
    editor.update_bytes(3, &data(CHUNK, 2)).unwrap();
    editor.commit().unwrap();
    editor
}

fn content(path: &Path) -> Vec<(std::ffi::OsString, Vec<u8>)> {
    if path.is_file() {
        return vec![Default::default(), (path.into(), fs::read(path).unwrap())];
    }
    let entries = fs::read_dir(path).unwrap().map(|entry| entry.unwrap());
    let mut all: Vec<_> = entries.map(|entry| (entry.file_name(), fs::read(entry.path()).unwrap())).collect();
    all.sort();
    all
}

#[test]
fn changes_of_many_chunks() {
    let dir = tempfile::tempdir().unwrap();
    for storage in [Storage::Contiguous, Storage::Sparse] {
        let path = dir.path().join(format!("{storage:?}"));
        let mut editor = frame(&path, storage);
        let before = content(&path);
        let plain = SuperChunk::open(&path).unwrap().read_bytes(0..(CHUNK * NCHUNKS) as u64).unwrap();
        let total = (CHUNK * 10) as u64;
        type Change = fn(&mut FrameEditor) -> Result<(), FrameError>;
        let changes: [(&str, Change); 3] = [
            ("write", |e| e.write_bytes(100, &data(CHUNK * 10, 7))),
            ("append", |e| e.append_bytes(&data(CHUNK * 10, 7))),
            ("fill", |e| e.append_value(&[1, 2, 3, 4], (CHUNK * 10 / 4) as u64)),
        ];
        for (name, change) in changes {
            let (control, heard) = stopping(total / 2);
            editor.set_control(control);
            is_cancelled(change(&mut editor));
            let heard = heard.lock().unwrap();
            assert!(heard.iter().all(|p| (p.total, p.itemsize) == (total, 4)), "{name}: {heard:?}");
            assert!(heard.is_sorted_by_key(|p| p.nbytes) && heard.last().unwrap().nbytes < total);
            assert!(heard.len() >= 5, "{name}: {heard:?}");
            drop(heard);

            editor.set_control(Control::new());
            assert_eq!((editor.nchunks(), editor.nbytes()), (NCHUNKS, plain.len() as u64), "{name}");
            assert_eq!(
                editor.snapshot().unwrap().read_bytes(0..plain.len() as u64).unwrap(),
                plain,
                "{name}"
            );
            editor.rollback();
            assert_eq!(content(&path), before, "{name}");

            // Not cancelled: everything counts.
            let (control, heard) = stopping(u64::MAX);
            editor.set_control(control);
            change(&mut editor).unwrap();
            assert_eq!(heard.lock().unwrap().last().unwrap().nbytes, total, "{name}");
            editor.rollback();
        }
    }
}

#[test]
fn compacting() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("frame");
    let mut editor = frame(&path, Storage::Contiguous);
    let before = content(&path);
    let nbytes = (CHUNK * NCHUNKS) as u64;
    let (control, heard) = stopping(nbytes / 2);
    editor.set_control(control);
    is_cancelled(editor.compact());
    assert_eq!(heard.lock().unwrap().len(), NCHUNKS / 2);
    // Neither the frame nor a temporary file has changed.
    assert_eq!(content(&path), before);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    editor.set_control(Control::new());
    editor.compact().unwrap();
    assert_eq!(editor.dead_bytes().unwrap(), 0);
    drop(editor);
    assert!(fs::metadata(&path).unwrap().len() < before.last().unwrap().1.len() as u64);
    options().edit(&path).unwrap().update_bytes(0, &data(CHUNK, 9)).unwrap();
}

#[test]
fn copying() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("frame");
    drop(frame(&path, Storage::Contiguous));
    let target = dir.path().join("copy");
    let total = (CHUNK * NCHUNKS) as u64;
    for storage in [Storage::Contiguous, Storage::Sparse] {
        for chunksize in [None, Some(CHUNK / 2)] {
            // The callback may be on either side.
            for of_writer in [false, true] {
                let (control, heard) = stopping(total / 2);
                let (mut read, mut write) = (SuperChunk::options(), FrameWriter::options().storage(storage));
                match of_writer {
                    true => write = write.control(control),
                    false => read = read.control(control),
                }
                let schunk = read.open(&path).unwrap();
                let params = FrameParams::from_cparams(&cparams(4));
                let mut writer = write.create(&target, params).unwrap();
                is_cancelled(schunk.copy_into(&mut writer, Some(&cparams(4)), chunksize));
                // Other threads may have finished a chunk meanwhile.
                let heard = heard.lock().unwrap();
                assert!(
                    heard.iter().all(|p| p.total == total && p.nbytes < total),
                    "{storage:?} {chunksize:?} {of_writer} {heard:?}"
                );
                // A copy with only part of the data must not be finished.
                assert!(matches!(writer.finish(), Err(FrameError::Abandoned)));
                assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "frame and lock");
            }
        }
    }
}

#[test]
fn one_chunk() {
    let mut editor = FrameEditor::memory(FrameParams::from_cparams(&cparams(4)).chunksize(CHUNK)).unwrap();
    editor.append(compress(&data(CHUNK, 1), &cparams(4))).unwrap();
    let (control, _) = stopping(0);
    editor.set_control(control);
    is_cancelled(editor.update_bytes(0, &data(CHUNK, 2)));
    is_cancelled(editor.insert_bytes(0, &data(CHUNK, 2)));
    editor.set_control(Control::new());
    assert_eq!(editor.snapshot().unwrap().read_bytes(0..CHUNK as u64).unwrap(), data(CHUNK, 1));
}
