//! The simulator finds the faults it is there to find, and only those.

use std::io;
use std::path::Path;
use std::sync::Arc;

use b2_frame::{FileSystem, Links, WriteAt};
use b2_storage_sim::{Call, Calls, CrashCounts, CrashPlan, Fault, Log, Op, SimFs, Trouble, every_crash};
use b2_testkit::Rng;

const CRASH_PLAN: CrashPlan = CrashPlan { power: 500, seed: 7 };

fn file(len: usize, version: u8) -> Vec<u8> {
    let mut bytes = vec![version; len];
    bytes.extend_from_slice(&crc(&bytes).to_le_bytes());
    bytes
}

/// Any sum over all bytes and their places will do.
fn crc(bytes: &[u8]) -> u64 {
    bytes.iter().fold(17, |sum: u64, b| sum.wrapping_mul(0x0100_0000_01B3).wrapping_add(u64::from(*b) + 1))
}

/// Which version is there, if it is whole.
fn version(bytes: &[u8]) -> Result<u8, String> {
    let (data, sum) = bytes.split_last_chunk::<8>().ok_or("short")?;
    if u64::from_le_bytes(*sum) != crc(data) || data.iter().any(|b| *b != data[0]) {
        return Err(format!("{} bytes are no version", data.len()));
    }
    Ok(data[0])
}

/// Replaces version 1 by version 2 with the steps given, and looks at all crashes.
fn replace(len: usize, steps: &str) -> Result<CrashCounts, String> {
    let fs = SimFs::new();
    let (path, temporary) = (Path::new("/dir/file"), Path::new("/dir/temporary"));
    fs.write(path, &file(len, 1));
    fs.restart();
    let mut open: Option<Arc<dyn WriteAt>> = None;
    for step in steps.split(' ') {
        match step {
            "create" => open = Some(fs.create_new(temporary).unwrap()),
            "open" => open = Some(fs.open_write(path, Links::Follow).unwrap()),
            "write" => open.as_ref().unwrap().write_all_at(0, &file(len, 2)).unwrap(),
            "cut" => open.as_ref().unwrap().set_len(0).unwrap(),
            "sync" => open.as_ref().unwrap().sync().unwrap(),
            "rename" => fs.rename(temporary, path).unwrap(),
            "sync_dir" => fs.sync_dir(Path::new("/dir")).unwrap(),
            "mark" => fs.mark(1),
            other => panic!("{other}"),
        }
    }
    every_crash(&fs.log(), &CRASH_PLAN, &mut |state| {
        let found = version(state.image.read(path).map_err(|e| e.to_string())?)?;
        match (state.mark, found) {
            (0, 1 | 2) | (1, 2) => Ok(()),
            (mark, found) => Err(format!("version {found} after mark {mark}")),
        }
    })
}

#[test]
fn replacing_by_rename_is_safe_when_all_is_synced_in_order() {
    let counts = replace(5000, "create write sync rename sync_dir mark").unwrap();
    assert!(counts.kills > 100 && counts.power > 200, "{counts:?}");
    // A file within one sector is there or not. Before it has its name it does not matter.
    replace(100, "create write sync rename sync_dir mark").unwrap();
}

#[test]
fn each_step_left_out_or_out_of_order_is_found() {
    for (steps, error) in [
        ("create write rename sync_dir mark", "short"),
        ("create write rename sync sync_dir mark", "short"),
        ("create write sync rename mark", "version 1 after mark 1"),
        ("create write sync rename mark sync_dir", "version 1 after mark 1"),
        ("create write sync sync_dir rename mark", "version 1 after mark 1"),
        ("open write sync mark", "no version"),
        ("open cut write sync mark", "short"),
    ] {
        let found = replace(5000, steps).unwrap_err();
        assert!(found.contains(error), "{steps}: {found}");
    }
}

/// Power losses tear a write into sectors, lines and words, in any order; kills cut it anywhere.
#[test]
fn writes_are_torn_into_pieces_by_power_losses_and_anywhere_by_kills() {
    let fs = SimFs::new();
    fs.write(Path::new("/f"), &[0; 2048]);
    fs.restart();
    let open = fs.open_write(Path::new("/f"), Links::Refuse).unwrap();
    open.write_all_at(500, &[1; 600]).unwrap();
    let log = fs.log();
    let mut seen = [512, 64, 8].map(|size| (size, std::collections::BTreeSet::new()));
    let mut tries = 0;
    log.power_losses(3, |state| {
        let bytes = state.image.read(Path::new("/f")).unwrap();
        assert_eq!(bytes.len(), 2048);
        assert!(bytes[..500].iter().chain(&bytes[1100..]).all(|b| *b == 0));
        let written = |piece: &[u8]| {
            piece.iter().all(|b| *b == 1).then_some(1).or(piece.iter().all(|b| *b == 0).then_some(0))
        };
        // The largest pieces that are whole. No word is torn.
        let cuts = |size: usize| (0..2048).step_by(size).filter(move |at| *at < 1100 && at + size > 500);
        let pieces = |size| {
            cuts(size)
                .map(|at| written(&bytes[at.max(500)..(at + size).min(1100)]))
                .collect::<Option<Vec<u8>>>()
        };
        let found = seen.iter_mut().find_map(|(size, seen)| Some((seen, pieces(*size)?)));
        let (seen, found) = found.expect("a word was torn");
        seen.insert(found);
        tries += 1;
        Ok::<_, ()>(tries < 2000)
    })
    .unwrap();
    let [sectors, lines, words] = seen.map(|(_, seen)| seen);
    assert_eq!(sectors.len(), 8);
    assert!(lines.len() > 200 && words.len() > 200, "{} {}", lines.len(), words.len());
    // Not only a first part, but a word in the middle, and all but one.
    let ones = |pieces: &Vec<u8>| pieces.iter().filter(|piece| **piece == 1).count();
    assert!(words.iter().any(|pieces| ones(pieces) == 1 && pieces[0] == 0));
    assert!(words.iter().any(|pieces| ones(pieces) == pieces.len() - 1 && pieces[0] == 1));
    let mut kills = 0;
    log.kills(1, |state| {
        let bytes = state.image.read(Path::new("/f")).unwrap();
        let written = bytes.iter().filter(|b| **b == 1).count();
        assert!(bytes[500..500 + written].iter().all(|b| *b == 1));
        kills += 1;
        Ok::<_, ()>(())
    })
    .unwrap();
    assert_eq!(kills, 601);
}

/// Whatever is done to files and names at random: what was synced is there after every crash.
#[test]
fn what_was_synced_survives() {
    for seed in 0..40 {
        let mut rng = Rng::case(seed, 0);
        let fs = SimFs::new();
        fs.write(Path::new("/d/0"), b"begin");
        fs.restart();
        let mut promised: Vec<Vec<u8>> = vec![b"begin".to_vec()];
        for mark in 1..5 {
            let path = format!("/d/{mark}");
            let open = fs.create_new(Path::new(&path)).unwrap();
            let content = rng.bytes(1 + mark as usize * 700);
            for (i, part) in content.chunks(400).enumerate() {
                open.write_all_at(i as u64 * 400, part).unwrap();
            }
            if rng.chance(50) {
                open.set_len(10).unwrap();
                open.set_len(content.len() as u64).unwrap();
                open.write_all_at(10, &content[10.min(content.len())..]).unwrap();
            }
            open.sync().unwrap();
            fs.sync_dir(Path::new("/d")).unwrap();
            promised.push(content);
            fs.mark(mark);
            // Never synced, never promised, must do no harm.
            let litter = format!("/d/litter{mark}");
            fs.create_new(Path::new(&litter)).unwrap().write_all_at(0, &rng.bytes(900)).unwrap();
            fs.rename(Path::new(&litter), Path::new("/d/litter")).unwrap();
        }
        every_crash(&fs.log(), &CrashPlan { power: 200, seed }, &mut |state| {
            for (i, content) in promised.iter().enumerate().take(state.mark as usize + 1) {
                let found = state.image.read(Path::new(&format!("/d/{i}")));
                if found.ok() != Some(content) {
                    return Err(format!("file {i} was lost"));
                }
            }
            Ok(())
        })
        .unwrap();
    }
}

#[test]
fn faults_hit_the_call_they_are_meant_for() {
    let run = |calls, after, trouble, lasting| {
        let fs = SimFs::new();
        fs.fail(Some(Fault { calls, after, trouble, lasting }));
        let results: Vec<Result<(), io::ErrorKind>> = (0..3)
            .map(|i| {
                let open = fs.create_new(Path::new(&i.to_string())).map_err(|e| e.kind())?;
                open.write_all_at(0, b"12345678").map_err(|e| e.kind())?;
                open.sync().map_err(|e| e.kind())
            })
            .collect();
        let len = |i: usize| fs.image().read(Path::new(&i.to_string())).map_or(0, <[u8]>::len);
        (results, [0, 1, 2].map(len), fs.failed())
    };
    use io::ErrorKind::{Other, StorageFull};
    let (results, lens, hit) = run(Calls::Any, 4, Trouble::Short, false);
    assert_eq!((results, lens), (vec![Ok(()), Err(StorageFull), Ok(())], [8, 4, 8]));
    assert_eq!(hit.as_deref(), Some("Write file 3 at 0, 8 bytes"));
    let (results, lens, _) = run(Calls::Only(Call::Sync), 1, Trouble::Io, true);
    assert_eq!((results, lens), (vec![Ok(()), Err(Other), Err(Other)], [8, 8, 8]));
    let (results, lens, hit) = run(Calls::Space, 9, Trouble::Full, true);
    assert_eq!((results, lens, hit), (vec![Ok(()); 3], [8; 3], None));
}

#[test]
fn locks_exclude_and_are_released_when_the_handle_goes() {
    let fs = SimFs::new();
    fs.write(Path::new("/lock"), b"");
    let open = || fs.open_write(Path::new("/lock"), Links::Refuse).unwrap();
    let (a, b) = (open(), open());
    b.lock().unwrap();
    drop(b);
    a.lock().unwrap();
    a.lock().unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let c = open();
            c.lock().unwrap();
            fs.mark(2);
        });
        fs.mark(1);
        drop(a);
        waiting.join().unwrap();
    });
    let marks = |log: Log| -> Vec<u64> {
        log.ops().iter().filter_map(|op| if let Op::Mark(m) = op { Some(*m) } else { None }).collect()
    };
    assert_eq!(marks(fs.log()), [1, 2]);
}

/// What was written before a sync that failed may be gone, though the next sync succeeds.
#[test]
fn failed_syncs_may_give_up_what_was_written() {
    let fs = SimFs::new();
    fs.write(Path::new("/f"), &[0; 4]);
    fs.restart();
    let open = fs.open_write(Path::new("/f"), Links::Refuse).unwrap();
    open.write_all_at(0, &[1]).unwrap();
    open.sync().unwrap();
    assert!(fs.log().given_up().is_none());
    open.write_all_at(1, &[1]).unwrap();
    fs.fail(Some(Fault { calls: Calls::Only(Call::Sync), after: 0, trouble: Trouble::Io, lasting: false }));
    open.sync().unwrap_err();
    open.write_all_at(2, &[1]).unwrap();
    open.sync().unwrap();
    let log = fs.log().given_up().unwrap();
    assert_eq!(log.image(log.ops().len()).read(Path::new("/f")).unwrap(), [1, 0, 1, 0]);
    assert_eq!(fs.image().read(Path::new("/f")).unwrap(), [1, 1, 1, 0]);
}
