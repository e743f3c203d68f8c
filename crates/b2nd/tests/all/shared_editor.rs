//! Concurrent changes from many threads: each happens completely or not at all.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use b2_chunk::Compression;
use b2_core::Control;
use b2_frame::Storage;
use b2nd::{ArrayBuilder, ArrayEditor, NdArray, NdError, source};

/// Rows 0..8 of 16 items, each row a chunk. Stored uncompressed.
fn rows() -> ArrayBuilder {
    ArrayBuilder::new::<u32>([8, 16]).chunks([1, 16]).blocks([1, 8]).compression(Compression::new().level(0))
}

fn all(editor: &mut ArrayEditor) -> Vec<u32> {
    editor.snapshot().unwrap().all().read().unwrap()
}

/// A control that stops at the third chunk of thread "first" until the test decides whether to continue.
fn waiting(go_on: mpsc::Receiver<()>, reached: mpsc::Sender<()>, then: ControlFlow<()>) -> Control {
    let count = AtomicUsize::new(0);
    Control::new().progress(move |_| {
        if std::thread::current().name() != Some("first") || count.fetch_add(1, Ordering::Relaxed) != 2 {
            return ControlFlow::Continue(());
        }
        reached.send(()).unwrap();
        go_on.recv_timeout(Duration::from_secs(60)).unwrap();
        then
    })
}

/// The first thread sets the left half of all rows, the second one the rest and some of the left while the first one is
/// running. Returns the result of the first one, and the array.
fn interleaved(editor: &mut ArrayEditor, then: ControlFlow<()>) -> (Result<(), NdError>, Vec<u32>) {
    let ((tell, go_on), (reached, wait)) = (mpsc::channel(), mpsc::channel());
    editor.set_control(waiting(go_on, reached, then));
    let shared = editor.share().unwrap();
    let first = std::thread::scope(|scope| {
        let set = || shared.set([0..8, 0..8], source::value(1u32));
        let first = std::thread::Builder::new().name("first".into()).spawn_scoped(scope, set).unwrap();
        wait.recv_timeout(Duration::from_secs(60)).unwrap();
        shared.set([0..8, 8..16], source::value(2u32)).unwrap();
        // Chunks that the first thread has prepared, and others.
        shared.set([1..5, 0..1], source::value(3u32)).unwrap();
        shared.set(7..8, source::value(4u32)).unwrap();
        tell.send(()).unwrap();
        first.join().unwrap()
    });
    drop(shared);
    (first, all(editor))
}

fn wanted(item: impl Fn(usize, usize) -> u32) -> Vec<u32> {
    (0..8).flat_map(|row| (0..16).map(move |col| (row, col))).map(|(row, col)| item(row, col)).collect()
}

#[test]
fn a_change_that_is_stopped_in_the_middle_leaves_what_others_did() {
    let dir = tempfile::tempdir().unwrap();
    for storage in [None, Some(Storage::Contiguous), Some(Storage::Sparse)] {
        let path = dir.path().join(format!("{storage:?}"));
        let mut editor = match storage {
            None => NdArray::edit_bytes(rows().to_bytes(source::value(9u32)).unwrap()).unwrap(),
            Some(storage) => {
                rows().storage(storage).write(&path, source::value(9u32)).unwrap();
                NdArray::edit(&path).unwrap()
            }
        };
        let (first, items) = interleaved(&mut editor, ControlFlow::Break(()));
        assert!(matches!(first, Err(NdError::Cancelled(_))), "{first:?}");
        let others = wanted(|row, col| match (row, col) {
            (7, _) => 4,
            (1..5, 0) => 3,
            (_, 8..) => 2,
            _ => 9,
        });
        assert_eq!(items, others);
        // Unreferenced data do not appear later either.
        editor.set_control(Control::new());
        editor.commit().unwrap();
        assert_eq!(all(&mut editor), others);
        editor.compact().unwrap();
        assert_eq!(all(&mut editor), others);
    }
}

#[test]
fn a_change_keeps_what_others_set_beside_it_meanwhile() {
    let mut editor = NdArray::edit_bytes(rows().to_bytes(source::value(9u32)).unwrap()).unwrap();
    let (first, items) = interleaved(&mut editor, ControlFlow::Continue(()));
    first.unwrap();
    assert_eq!(
        items,
        wanted(|row, col| match (row, col) {
            (_, 0..8) => 1,
            (7, _) => 4,
            _ => 2,
        })
    );
}

#[test]
fn damage_in_the_middle_changes_nothing() {
    let items: Vec<u32> = (0..128).collect();
    let mut frame = rows().to_bytes(&items).unwrap().to_vec();
    let place = frame.windows(8).position(|window| *window == [80, 0, 0, 0, 81, 0, 0, 0]).unwrap();
    frame[place] ^= 1;
    let mut editor = NdArray::edit_bytes(frame).unwrap();
    let entries = |editor: &mut ArrayEditor| -> Vec<_> {
        let array = editor.snapshot().unwrap();
        (0..8).map(|nchunk| array.super_chunk().chunk(nchunk).entry().unwrap()).collect()
    };
    let before = entries(&mut editor);
    let shared = editor.share().unwrap();
    let failed = shared.set([0..8, 3..4], source::value(7u32)).unwrap_err();
    assert_eq!(failed.kind(), b2_core::ErrorKind::Damaged, "{failed}");
    drop(shared);
    assert_eq!(entries(&mut editor), before);
    // Everything but the damaged part works.
    let shared = editor.share().unwrap();
    shared.set([0..5, 3..4], source::value(7u32)).unwrap();
    shared.set(5..6, [1u32; 16]).unwrap();
    drop(shared);
    assert_eq!(entries(&mut editor)[6..], before[6..]);
    let expected = wanted(|row, col| match (row, col) {
        (0..5, 3) => 7,
        (5, _) => 1,
        _ => (row * 16 + col) as u32,
    });
    assert_eq!(all(&mut editor), expected);
}
