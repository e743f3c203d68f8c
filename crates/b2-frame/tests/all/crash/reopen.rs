//! After a crash: the next process that opens the frame for writing finds it valid and leaves it valid.

use std::sync::Arc;

use b2_chunk::Chunk;
use b2_frame::{EditOptions, FrameEditor, FrameError, SuperChunk};
use b2_storage_sim::{CrashState, Log, SimFs};

use super::contents::Contents;
use super::{PATH, Recording, header, read};
use crate::common::data;

pub fn edit(fs: &SimFs) -> Result<FrameEditor, FrameError> {
    EditOptions::from(SuperChunk::options().file_system(Arc::new(fs.clone()))).edit(PATH)
}

/// Only opens the frame for writing.
pub fn repair(fs: &SimFs) -> Result<(), String> {
    edit(fs).map(drop).map_err(|error| format!("cannot be opened for writing: {error}"))
}

/// Returns a chunk as long as the first one, or of any length if sizes are individual.
fn next_chunk(editor: &FrameEditor, contents: &Contents) -> (Vec<u8>, Chunk) {
    let nbytes = contents.chunks.first().map_or(800, Vec::len);
    let raw = data(nbytes, 99);
    let chunk = Chunk::compress_bytes(&raw, &editor.cparams().unwrap()).unwrap();
    (raw, chunk)
}

/// Opens for writing, which repairs torn parts, and changes the frame.
pub fn reopen(fs: &SimFs, contents: &Contents, recording: &Recording) -> Result<(), String> {
    repair(fs)?;
    let image = fs.image();
    let found = header(&image);
    if found.is_none() || !recording.headers.iter().any(|header| header.as_deref() == found) {
        return Err("opening for writing has not mended the header".into());
    }
    if read(fs)?.as_ref() != Some(contents) {
        return Err("opening for writing has changed the frame".into());
    }
    let change = || -> Result<Contents, FrameError> {
        let mut editor = edit(fs)?;
        let (raw, chunk) = next_chunk(&editor, contents);
        editor.insert(0, chunk)?;
        editor.vlmeta().set("after", b"a crash")?;
        editor.commit()?;
        let mut expected = contents.clone();
        expected.chunks.insert(0, raw);
        expected.vlmetalayers.retain(|(name, _)| name != b"after");
        expected.vlmetalayers.push((b"after".to_vec(), b"a crash".to_vec()));
        Ok(expected)
    };
    let expected = change().map_err(|error| format!("cannot be changed after the crash: {error}"))?;
    match read(fs)? == Some(expected) {
        true => Ok(()),
        false => Err("is not what the change after the crash should give".into()),
    }
}

/// Changes the frame after the crash and crashes again: it must still be the old or the new one. Returns the number of
/// states.
pub fn crash_again(state: &CrashState, contents: &Contents) -> Result<usize, String> {
    let fs = SimFs::from_image(&state.image);
    let mut frames = vec![Some(contents.clone())];
    let mut change = || -> Result<(), FrameError> {
        for mark in 1..3 {
            let mut editor = edit(&fs)?;
            let (_, chunk) = next_chunk(&editor, contents);
            editor.insert(0, chunk)?;
            editor.commit()?;
            fs.mark(mark);
            drop(editor);
            frames.push(read(&fs).expect("committed"));
        }
        Ok(())
    };
    change().map_err(|error| format!("cannot be changed after the crash: {error}"))?;
    let mut count = 0;
    let mut check = |second: &CrashState| -> Result<(), String> {
        count += 1;
        let found = read(&SimFs::from_image(&second.image))?;
        let first = second.mark as usize;
        match frames[first..frames.len().min(first + 2)].contains(&found) {
            true => Ok(()),
            false => Err(format!("{found:?} after a second crash: {}\n{}", second.how, fs.log().describe())),
        }
    };
    let log = fs.log();
    log.between_calls().try_for_each(|second| check(&second))?;
    let mut left = 60;
    log.some_power_losses(state.at as u64, 0, |second| {
        left -= 1;
        check(&second).map(|()| left > 0)
    })?;
    Ok(count)
}

/// Kills the process between any two calls, lets another one change the frame, then loses power. Everything guaranteed
/// before the kill, and the commits of the other process, must be there. Returns the number of states.
pub fn lose_power_after_kills(log: &Log, frames: &[Option<Contents>]) -> Result<usize, String> {
    const LAST: u64 = 1000;
    let mut count = 0;
    for killed in log.between_calls() {
        let fs = SimFs::resume(log, killed.at);
        let Some(contents) = read(&fs)? else { continue };
        let change = || -> Result<(), FrameError> {
            let mut editor = edit(&fs)?;
            let (_, chunk) = next_chunk(&editor, &contents);
            editor.insert(0, chunk)?;
            editor.commit().map(drop)
        };
        change().map_err(|error| format!("cannot be changed after the kill: {error}"))?;
        fs.mark(LAST);
        let last = read(&fs)?;
        let log = fs.log();
        let mut left = 40;
        log.some_power_losses(killed.at as u64, killed.at, |state| {
            left -= 1;
            count += 1;
            let found = read(&SimFs::from_image(&state.image));
            let fine = match &found {
                Ok(found) if state.mark == LAST => *found == last,
                Ok(found) => {
                    let first = state.mark as usize;
                    *found == last || frames[first..frames.len().min(first + 2)].contains(found)
                }
                Err(_) => false,
            };
            match fine {
                true => Ok(left > 0),
                false => Err(format!("{found:?}: {}, {}\n{}", killed.how, state.how, log.describe())),
            }
        })?;
    }
    Ok(count)
}
