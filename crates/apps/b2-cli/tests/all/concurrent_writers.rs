//! Reading while another program changes the file.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use b2kit::ArrayEditor;
use b2kit::NdArray;
use b2kit::frame::{Durability, EditOptions};

use crate::common::{Folder, npy};

/// Compacting a sparse frame removes files of the state that a reader has open.
#[test]
fn commands_read_again_what_a_writer_has_compacted() {
    let folder = Folder::new();
    let zeros = npy("<i4", false, "(40, 100)", &[0; 16_000]);
    folder.pack("a", &zeros, &["--format", "sframe", "--chunks", "1,100", "--codec", "blosclz"]);
    let (path, done) = (folder.path("a"), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let options = || EditOptions::default().durability(Durability::None);
            for value in 1.. {
                let started = Instant::now();
                let mut array = ArrayEditor::new(options().edit(&path).unwrap()).unwrap();
                // Not constant, because a constant chunk has no file.
                let row: Vec<i32> = (0..4000).map(|at| (value << 12) | (at % 100)).collect();
                array.set(.., &row[..]).unwrap();
                array.commit().unwrap();
                drop(array);
                let mut frame = options().edit(&path).unwrap();
                frame.compact().unwrap();
                drop(frame);
                if done.load(Ordering::SeqCst) {
                    return;
                }
                // Longer on slow file systems, so that a reader can read one state.
                std::thread::sleep(Duration::from_millis(2).max(started.elapsed() / 2));
            }
        });
        let results = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let commands: [&[&str]; 6] = [
                &["cat", "a"],
                &["verify", "-q", "a"],
                &["show", "a"],
                &["view", "a"],
                &["copy", "-q", "--force", "a", "b", "--chunks", "7,100"],
                &["cat", "a", "-o", "c", "--force"],
            ];
            for _ in 0..12 {
                for args in commands {
                    let output = folder.run(args);
                    let stderr = String::from_utf8_lossy(&output.stderr);
                    assert_eq!(output.status.code(), Some(0), "{args:?}: {stderr}");
                    let items = match args[0] {
                        "cat" if args.len() == 2 => output.stdout,
                        "cat" => folder.read("c"),
                        "copy" => NdArray::open(folder.path("b")).unwrap().all().read_bytes().unwrap(),
                        _ => continue,
                    };
                    let state = |item: &[u8]| i32::from_le_bytes(item.try_into().unwrap()) >> 12;
                    assert!(items.chunks(4).all(|item| state(item) == state(&items[..4])), "{args:?}");
                }
            }
        }));
        done.store(true, Ordering::SeqCst);
        if let Err(panic) = results {
            std::panic::resume_unwind(panic);
        }
    });
}
