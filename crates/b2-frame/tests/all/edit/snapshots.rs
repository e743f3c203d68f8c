//! Snapshots and open readers while a frame changes.

use b2_frame::{FrameError, FrameWriter, Storage, SuperChunk};

use super::{HOMES, Home, chunks, params};
use crate::common::{compact_beside_readers, compress, cparams, data};

const SIZE: usize = 400;

fn chunk(seed: u64) -> Vec<u8> {
    data(SIZE, seed)
}

fn home(storage: Option<Storage>) -> Home {
    let mut home = Home::new(storage, params(&cparams(4)).chunksize(SIZE));
    home.change(|editor| {
        for seed in 0..3 {
            editor.append_bytes(&chunk(seed)).unwrap();
        }
    });
    home
}

#[test]
fn snapshots_of_committed_states_are_not_outdated() {
    for storage in HOMES {
        let mut home = home(storage);
        let mut editor = home.edit();
        for seed in 5..8 {
            editor.append_bytes(&chunk(seed)).unwrap();
            editor.vlmeta().set("seed", &[seed as u8]).unwrap();
            editor.commit().unwrap();
            let mut snapshot = editor.snapshot().unwrap();
            let frame_len = snapshot.header().frame_len();
            assert!(!snapshot.refresh().unwrap(), "{storage:?} {seed}");
            assert_eq!(frame_len, snapshot.header().frame_len());
            editor.update_bytes(1, &chunk(seed + 10)).unwrap();
            editor.commit().unwrap();
            // Frames in memory have no newer state.
            assert_eq!(snapshot.refresh().unwrap(), storage.is_some(), "{storage:?} {seed}");
        }
    }
}

#[test]
fn snapshots_stay_as_they_were() {
    for storage in HOMES {
        let mut home = home(storage);
        let mut editor = home.edit();
        let before = editor.snapshot().unwrap();
        editor.update_bytes(0, &chunk(10)).unwrap();
        editor.delete(1).unwrap();
        let staged = editor.snapshot().unwrap();
        editor.append_bytes(&chunk(11)).unwrap();
        editor.commit().unwrap();
        let after = editor.snapshot().unwrap();
        for round in 0..2 {
            assert_eq!(chunks(&before), [chunk(0), chunk(1), chunk(2)], "{storage:?} {round}");
            assert_eq!(chunks(&staged), [chunk(10), chunk(2)]);
            assert_eq!(chunks(&after), [chunk(10), chunk(2), chunk(11)]);
            assert_eq!(before.to_frame().unwrap().len() as u64, {
                let again = b2_frame::SuperChunk::from_bytes(before.to_frame().unwrap()).unwrap();
                assert_eq!(chunks(&again), chunks(&before));
                again.header().frame_len()
            });
            // Commit more. In a sparse frame, no commit may use a file that a snapshot may read.
            for seed in 20..25 {
                editor.update_bytes(0, &chunk(seed)).unwrap();
                editor.commit().unwrap();
            }
            editor.update_bytes(0, &chunk(10)).unwrap();
            editor.commit().unwrap();
        }
        drop((before, staged, after));
        editor.delete(0).unwrap();
        editor.commit().unwrap();
        editor.compact().unwrap();
        assert_eq!(editor.dead_bytes().unwrap(), 0);
        home.close(editor);
        assert_eq!(chunks(&home.read()), [chunk(2), chunk(11)]);
    }
}

#[test]
fn compacting_leaves_snapshots_alone() {
    for storage in [None, Some(Storage::Contiguous)] {
        let mut home = home(storage);
        let mut editor = home.edit();
        editor.delete(0).unwrap();
        editor.commit().unwrap();
        let snapshot = editor.snapshot().unwrap();
        assert!(editor.dead_bytes().unwrap() > 100);
        let compacted = compact_beside_readers(&mut editor);
        assert!(compacted || storage.is_some());
        editor.update_bytes(0, &chunk(9)).unwrap();
        editor.commit().unwrap();
        assert_eq!(chunks(&snapshot), [chunk(1), chunk(2)]);
        drop(snapshot);
        if !compacted {
            editor.compact().unwrap();
        }
        assert_eq!(editor.dead_bytes().unwrap() > 0, compacted, "the chunk that was replaced later");
        home.close(editor);
        assert_eq!(chunks(&home.read()), [chunk(9), chunk(2)]);
    }
}

/// Data that were rolled back may be overwritten on disk. Reading them is then an error, never other data.
#[test]
fn rolled_back_snapshots_are_of_no_use() {
    for storage in HOMES {
        let mut home = home(storage);
        let mut editor = home.edit();
        editor.update_bytes(1, &chunk(10)).unwrap();
        let staged = editor.snapshot().unwrap();
        assert_eq!(chunks(&staged)[1], chunk(10));
        editor.rollback();
        editor.update_bytes(1, &chunk(11)).unwrap();
        let second = editor.snapshot().unwrap();
        match storage {
            Some(_) => assert!(staged.chunk(1).decompress().is_err()),
            None => assert_eq!(chunks(&staged), [chunk(0), chunk(10), chunk(2)]),
        }
        assert_eq!(chunks(&second), [chunk(0), chunk(11), chunk(2)]);
        home.close(editor);
        if storage.is_some() {
            assert!(second.chunk(1).decompress().is_err());
        } else {
            assert_eq!(chunks(&second), [chunk(0), chunk(11), chunk(2)]);
        }
        assert_eq!(chunks(&home.read()), [chunk(0), chunk(1), chunk(2)]);
    }
}

/// C-Blosc2 changes chunks and vlmetalayers in place. If their sizes stay the same, so does the header.
#[test]
fn changes_in_place_that_keep_the_header_are_seen_by_a_refresh() {
    // Special chunks and vlmetalayers are in the index and the trailer.
    let states = [(false, b'a'), (true, b'a'), (true, b'b'), (false, b'b')].map(|(special, value)| {
        let mut writer = FrameWriter::options().checksums(false).memory(params(&cparams(4))).unwrap();
        let (zeros, stored) = (vec![0; SIZE], chunk(1));
        let order = if special { [&zeros, &stored] } else { [&stored, &zeros] };
        for raw in order {
            writer.append(compress(raw, &cparams(4))).unwrap();
        }
        writer.set_vlmetalayer("value", &[value]).unwrap();
        (order.map(Vec::clone), value, writer.finish().unwrap().into_bytes())
    });
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("frame");
    std::fs::write(&path, &states[3].2).unwrap();
    let mut reader = SuperChunk::open(&path).unwrap();
    let header = reader.header_bytes().to_vec();
    for (raw, value, frame) in &states {
        // The file stays the same one.
        std::fs::write(&path, frame).unwrap();
        for nchunk in 0..2 {
            if let Err(error) = reader.chunk(nchunk).decompress() {
                assert!(matches!(error, FrameError::Changed { .. }), "{error}");
            }
        }
        assert!(reader.refresh().unwrap());
        assert!(!reader.refresh().unwrap());
        assert_eq!(reader.header_bytes(), header);
        assert_eq!(chunks(&reader), *raw);
        assert_eq!(reader.vlmetalayers().get("value").unwrap().unwrap(), &[*value][..]);
    }
}

#[test]
fn readers_see_the_newest_state_after_a_refresh() {
    type Refresh = fn(&mut SuperChunk) -> Result<bool, FrameError>;
    let ways: [Refresh; 3] = [SuperChunk::refresh, SuperChunk::refresh_locked, SuperChunk::refresh_to_read];
    for (refresh, storage) in
        ways.into_iter().flat_map(|way| [(way, Storage::Contiguous), (way, Storage::Sparse)])
    {
        let mut home = home(Some(storage));
        let mut reader = home.read();
        assert!(!refresh(&mut reader).unwrap());
        let mut editor = home.edit();
        editor.update_bytes(0, &chunk(10)).unwrap();
        editor.snapshot().unwrap();
        assert!(!refresh(&mut reader).unwrap(), "not committed yet");
        assert_eq!(chunks(&reader), [chunk(0), chunk(1), chunk(2)]);
        editor.commit().unwrap();
        match storage {
            Storage::Contiguous => assert_eq!(chunks(&reader), [chunk(0), chunk(1), chunk(2)]),
            Storage::Sparse => {
                assert!(matches!(reader.chunk(0).decompress(), Err(FrameError::Changed { .. })));
            }
        }
        assert!(refresh(&mut reader).unwrap());
        assert!(!refresh(&mut reader).unwrap());
        assert_eq!(chunks(&reader), [chunk(10), chunk(1), chunk(2)]);
        // Also if the file was replaced, and for a snapshot that is refreshed.
        let mut snapshot = editor.snapshot().unwrap();
        editor.delete(1).unwrap();
        if !compact_beside_readers(&mut editor) {
            editor.commit().unwrap();
        }
        drop(editor);
        assert!(refresh(&mut reader).unwrap() && refresh(&mut snapshot).unwrap());
        assert_eq!(chunks(&reader), [chunk(10), chunk(2)]);
        assert_eq!(chunks(&snapshot), [chunk(10), chunk(2)]);
    }
}

/// The number of a freed file is used again; a reader of an earlier state must notice that.
#[test]
fn readers_never_take_a_file_for_another() {
    let mut home = home(Some(Storage::Sparse));
    let mut reader = home.read();
    let mut editor = home.edit();
    for round in 0..6 {
        editor.update_bytes(round % 3, &chunk(100 + round as u64)).unwrap();
        editor.commit().unwrap();
        for nchunk in 0..3 {
            assert!(matches!(reader.chunk(nchunk).decompress(), Err(FrameError::Changed { .. })));
        }
        assert!(reader.refresh().unwrap());
        assert_eq!(chunks(&reader)[round % 3], chunk(100 + round as u64));
    }
    // Six updates, but hardly more file numbers than chunks.
    let largest = (0..3).filter_map(|n| reader.chunk_infos().nth(n).unwrap().unwrap().offset()).max();
    assert!(largest.unwrap() <= 4, "{largest:?}");
}
