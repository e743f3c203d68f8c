//! Crashes with weaker guarantees, or that involve more than one frame.

use crate::crash;

use std::path::Path;
use std::sync::Arc;

use crate::common::{compress, cparams, data};
use b2_frame::{Durability, EditOptions, FrameError, FrameParams, FrameWriter, Storage, SuperChunk};
use b2_storage_sim::{CrashPlan, CrashState, Op, SimFs, every_crash};
use crash::contents::Contents;
use crash::{PATH, begin, read};

fn create(fs: &SimFs, path: &str, storage: Storage, seed: u64) {
    let options = FrameWriter::options().file_system(Arc::new(fs.clone()));
    let params = FrameParams::from_cparams(&cparams(4)).metalayer("m", b"value");
    let writer = options.storage(storage).create(path, params);
    let mut writer = writer.unwrap();
    for i in 0..4 {
        writer.append(compress(&data(2000, seed + i), &cparams(4))).unwrap();
    }
    writer.finish().unwrap();
}

/// Returns the files that a kill left, and the frame, which must be that of the last mark or the next one.
fn survivor(frames: &[Option<Contents>], state: &CrashState) -> Result<(SimFs, Option<Contents>), String> {
    let fs = SimFs::from_image(&state.image);
    let first = state.mark as usize;
    let found = read(&fs)?;
    match frames[first..frames.len().min(first + 2)].contains(&found) {
        true => Ok((fs, found)),
        false => Err(format!("{found:?}: {}", state.how)),
    }
}

/// Without syncing, a power loss may leave anything, but a kill still leaves the old or the new frame.
#[test]
fn kills_do_no_harm_without_syncs() {
    for storage in [Storage::Contiguous, Storage::Sparse] {
        let fs = begin(&|fs| create(fs, PATH, storage, 1));
        let mut frames = vec![read(&fs).unwrap()];
        let options = EditOptions::from(SuperChunk::options().file_system(Arc::new(fs.clone())))
            .durability(Durability::None);
        let mut change = || -> Result<(), FrameError> {
            let mut editor = options.edit(PATH)?;
            for mark in 1..=6 {
                match mark {
                    1 => drop(editor.append(compress(&data(2000, 9), &cparams(4)))?),
                    2 => editor.delete(0)?,
                    3 => editor.set_metalayer("m", b"VALUE")?,
                    4 => drop(editor.compact()?),
                    5 => (0..editor.nchunks()).try_for_each(|_| editor.delete(0))?,
                    _ => editor.append_bytes(&data(700, 10))?,
                }
                editor.commit()?;
                fs.mark(mark);
                frames.push(read(&fs).unwrap());
            }
            Ok(())
        };
        change().unwrap();
        let log = fs.log();
        assert_eq!(log.syncs(), 0);
        let mut states = 0;
        let kills = log.kills(1, |state| {
            states += 1;
            let (fs, found) =
                survivor(&frames, &state).map_err(|what| format!("{what}\n{}", log.describe()))?;
            let mut editor = crash::reopen::edit(&fs).map_err(|error| error.to_string())?;
            editor
                .append_bytes(&[7; 40])
                .and_then(|()| editor.commit())
                .map_err(|error| error.to_string())?;
            drop(editor);
            let plain = [&found.unwrap().plain()[..], &[7; 40]].concat();
            match read(&fs)?.unwrap().plain() == plain {
                true => Ok(()),
                false => Err(format!("not what was appended: {}", state.how)),
            }
        });
        kills.unwrap();
        println!("crash: six commits without syncs, {storage:?}: {states} killed");
        assert!(states > 500);
    }
}

/// Without checksums and syncs, vlmetalayers of a sparse frame are added to its index file, and one byte makes them
/// visible.
#[test]
fn kills_leave_the_old_or_the_new_vlmetalayers() {
    let fs = begin(&|fs| {
        let options = FrameWriter::options().file_system(Arc::new(fs.clone()));
        let options = options.storage(Storage::Sparse).checksums(false);
        let mut writer = options.create(PATH, FrameParams::from_cparams(&cparams(4))).unwrap();
        for seed in 0..4 {
            writer.append(compress(&data(2000, seed), &cparams(4))).unwrap();
        }
        writer.set_vlmetalayer("first", b"0").unwrap();
        writer.finish().unwrap();
    });
    let mut frames = vec![read(&fs).unwrap()];
    let options = EditOptions::from(SuperChunk::options().file_system(Arc::new(fs.clone())))
        .durability(Durability::None);
    let mut editor = options.edit(PATH).unwrap();
    let index = Path::new(PATH).join(b2_frame::INDEX_NAME);
    for mark in 1..=60 {
        match mark % 12 {
            0 => assert!(editor.vlmeta().remove("other")),
            n => {
                let name = if n % 3 == 1 { "other" } else { "first" };
                editor.vlmeta().set(name, &data(n as usize * 40, mark)).unwrap();
            }
        }
        editor.commit().unwrap();
        fs.mark(mark);
        frames.push(read(&fs).unwrap());
        assert!(fs.image().read(&index).unwrap().len() < 40 << 10);
        if mark % 20 == 0 {
            drop(editor);
            editor = options.edit(PATH).unwrap();
        }
    }
    drop(editor);
    let log = fs.log();
    let renames = log.ops().iter().filter(|op| matches!(op, Op::Rename { .. })).count();
    assert!(renames <= 6, "{renames}\n{}", log.describe());
    let mut states = 0;
    let kills: Result<(), String> = log.kills(1, |state| {
        states += 1;
        let (fs, found) = survivor(&frames, &state)?;
        if states % 20 == 0 {
            let change = || -> Result<(), FrameError> {
                let mut editor = crash::reopen::edit(&fs)?;
                editor.append_bytes(&[7; 40])?;
                editor.vlmeta().set("other", b"after")?;
                editor.commit().map(drop)
            };
            change().map_err(|error| error.to_string())?;
            let plain = [&found.unwrap().plain()[..], &[7; 40]].concat();
            assert_eq!(read(&fs)?.unwrap().plain(), plain);
        }
        Ok(())
    });
    kills.unwrap();
    println!("crash: sixty changes of vlmetalayers without syncs: {states} killed");
    assert!(states > 5000);
}

/// A frame that is appended after another: the first one is unchanged, the second is complete or absent.
#[test]
fn a_frame_behind_another_is_whole_or_not_there() {
    let fs = begin(&|fs| {
        create(fs, PATH, Storage::Contiguous, 1);
        create(fs, "/data/second", Storage::Sparse, 30);
    });
    let open = |fs: &SimFs, path: &str, offset: u64| -> Result<Contents, String> {
        let options = SuperChunk::options().file_system(Arc::new(fs.clone()));
        let opened = if offset == 0 { options.open(path) } else { options.offset(offset).open(path) };
        Contents::of(&opened.map_err(|error| error.to_string())?)
    };
    let (first, second) = (open(&fs, PATH, 0).unwrap(), open(&fs, "/data/second", 0).unwrap());
    let len = fs.image().read(Path::new(PATH)).unwrap().len() as u64;
    let source = SuperChunk::options().file_system(Arc::new(fs.clone())).open("/data/second").unwrap();
    let options = FrameWriter::options().file_system(Arc::new(fs.clone()));
    assert_eq!(source.append_to_file(PATH, &options).unwrap(), len);
    fs.mark(1);
    assert_eq!(open(&fs, PATH, len).as_ref(), Ok(&second));
    let counts = every_crash(&fs.log(), &CrashPlan { power: 1000, ..crash::plan() }, &mut |state| {
        let fs = SimFs::from_image(&state.image);
        if open(&fs, PATH, 0).as_ref() != Ok(&first) {
            return Err("the first frame is not as it was".into());
        }
        match open(&fs, PATH, len) {
            Ok(found) if found == second => Ok(()),
            Ok(found) => Err(format!("neither whole nor not there: {found:?}")),
            Err(_) if state.mark == 0 => Ok(()),
            Err(error) => Err(error),
        }
    })
    .unwrap();
    println!("crash: frame after another: {counts:?}");
}
