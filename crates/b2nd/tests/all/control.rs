//! Progress and stopping of everything that writes.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use b2_core::{Control, Progress};
use b2_frame::Storage;
use b2nd::{ArrayBuilder, ArrayEditor, Axis, Concat, NdArray, NdError, RegionSource, Selection, source};

type ProgressLog = Arc<Mutex<Vec<Progress>>>;

/// A control that records its reports, and stops as soon as `most` bytes are done.
fn noting(most: u64) -> (Control, ProgressLog) {
    let seen = ProgressLog::default();
    let notes = Arc::clone(&seen);
    let control = Control::new().progress(move |progress| {
        notes.lock().unwrap().push(progress);
        if progress.nbytes < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    (control, seen)
}

/// Checks the reports of one call: bytes grow up to the total, which comes last.
fn check(seen: &ProgressLog, total: u64) {
    let mut seen = std::mem::take(&mut *seen.lock().unwrap());
    assert!(seen.windows(2).all(|pair| pair[0].nbytes <= pair[1].nbytes), "{seen:?}");
    let last = seen.pop().unwrap();
    assert_eq!((last.nbytes, last.total, last.itemsize), (total, total, 4));
    assert_eq!(last.items() * 4, total);
}

/// 70 x 50 items in 7 x 3 chunks.
fn builder() -> ArrayBuilder {
    ArrayBuilder::new::<u32>([70, 50]).chunks([10, 20]).blocks([5, 10])
}

const NBYTES: u64 = 70 * 50 * 4;

#[test]
fn building_tells_and_stops() {
    let dir = tempfile::tempdir().unwrap();
    let items: Vec<u32> = (0..3500).map(|n| n * n).collect();
    let frame = builder().to_bytes(&items).unwrap();
    let array = NdArray::from_bytes(frame.clone()).unwrap();
    for threads in [1, 3] {
        let (control, seen) = noting(u64::MAX);
        assert_eq!(builder().control(control.threads(threads)).to_bytes(&items).unwrap(), frame);
        check(&seen, NBYTES);
    }
    // Whatever the items come from: memory, a function, the index, chunks of other arrays.
    let joined = Concat::new([array.all()], 0).unwrap();
    let sources: [Box<dyn RegionSource>; 4] = [
        Box::new(&items),
        Box::new(source::by_index(|i| i as u32)),
        Box::new(source::zeros()),
        Box::new(joined),
    ];
    for mut source in sources {
        let (control, seen) = noting(u64::MAX);
        builder().control(control).to_bytes(&mut source).unwrap();
        check(&seen, NBYTES);
        for storage in [Storage::Contiguous, Storage::Sparse] {
            let (control, _) = noting(NBYTES / 2);
            let stopped =
                builder().storage(storage).control(control).write(dir.path().join("a"), &mut source);
            assert!(matches!(stopped, Err(NdError::Cancelled(_))), "{stopped:?}");
            assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        }
    }
    let total = Arc::new(Mutex::new(0));
    let reported = Arc::clone(&total);
    let control = Control::new().progress(move |done| {
        *reported.lock().unwrap() = done.items();
        ControlFlow::Continue(())
    });
    builder().control(control).to_bytes(&items).unwrap();
    assert_eq!(*total.lock().unwrap(), 3500);
}

/// A change with the bytes it counts.
type Change = (&'static str, u64, fn(&mut ArrayEditor) -> Result<(), NdError>);

const CHANGES: [Change; 9] = [
    ("append", 25 * 50 * 4, |e| e.append(Axis(0), source::value(3u32).with_length(25))),
    ("append columns", (10 + 15) * 70 * 4, |e| e.append(Axis(1), vec![5u32; 15 * 70])),
    ("append a row", 50 * 4, |e| e.append(Axis(0), [7u32; 50])),
    ("insert", 75 * 50 * 4, |e| e.insert(Axis(0), 5, source::by_index(|i| i as u32).with_length(5))),
    ("insert chunks", 10 * 50 * 4, |e| e.insert(Axis(0), 20, [7u32; 500])),
    ("delete", 10 * 50 * 4, |e| e.delete(Axis(0), 15..25)),
    ("set", 40 * 30 * 4, |e| e.set([10..50, 5..35], source::by_index(|i| i as u32))),
    ("set a value", 35 * 50 * 4, |e| e.set(0..35, source::value(6u32))),
    ("set a mask", 350 * 4, |e| {
        let marks: Vec<bool> = (0..3500).map(|n| n % 10 == 0).collect();
        e.set_points(Selection::mask_of([70, 50], marks), vec![1u32; 350])
    }),
];

#[test]
fn changes_tell_and_stop() {
    let items: Vec<u32> = (0..3500).map(|n| n * n).collect();
    let frame = builder().to_bytes(&items).unwrap();
    for (name, total, change) in CHANGES {
        let mut editor = NdArray::edit_bytes(frame.clone()).unwrap();
        let (control, _) = noting(total);
        editor.set_control(control);
        let stopped = change(&mut editor);
        assert!(matches!(stopped, Err(NdError::Cancelled(_))), "{name}: {stopped:?}");
        editor.set_control(Control::new());
        assert_eq!(editor.shape(), [70, 50], "{name}");
        assert_eq!(editor.snapshot().unwrap().all().read::<Vec<u32>>().unwrap(), items, "{name}");
        // It succeeds when repeated, with the same result as without the cancellation.
        let (control, seen) = noting(u64::MAX);
        editor.set_control(control);
        change(&mut editor).unwrap();
        check(&seen, total);
        editor.set_control(Control::new());
        let mut quiet = NdArray::edit_bytes(frame.clone()).unwrap();
        change(&mut quiet).unwrap();
        let [reported, unreported] = [&mut editor, &mut quiet]
            .map(|editor| editor.snapshot().unwrap().all().read::<Vec<u32>>().unwrap());
        assert_eq!(reported, unreported, "{name}");
    }
}

#[test]
fn resizing_tells_and_stops() {
    let mut editor = NdArray::edit_bytes(builder().to_bytes(vec![1u32; 3500]).unwrap()).unwrap();
    let (control, _) = noting(1);
    editor.set_control(control);
    assert!(matches!(editor.resize(&[65, 45]), Err(NdError::Cancelled(_))));
    editor.set_control(Control::new());
    assert_eq!(editor.snapshot().unwrap().all().read::<Vec<u32>>().unwrap(), [1; 3500]);
    let (control, seen) = noting(u64::MAX);
    editor.set_control(control);
    editor.resize(&[65, 45]).unwrap();
    // The chunks at both edges, padding included.
    check(&seen, 9 * 10 * 20 * 4);
}

#[test]
fn a_stopped_source_is_a_stopped_call() {
    let array = NdArray::from_bytes(builder().to_bytes(vec![1u32; 3500]).unwrap()).unwrap();
    let stopped = || Err(std::io::Error::other(NdError::Cancelled(b2_core::Cancelled)));
    let source = source::from_fn(move |_, _: &mut [u32]| stopped());
    assert!(matches!(ArrayBuilder::like(&array).to_bytes(source), Err(NdError::Cancelled(_))));
}
