//! Errors at each call: they are reported, and the frame is the old one, or the new one if it was already complete.

use b2_frame::{FrameEditor, FrameError};
use b2_storage_sim::{Call, Calls, Fault, SimFs, Trouble};

use super::reopen::edit;
use super::{Progress, Scenario, begin, read};

/// Number of crashes tried after each error.
const CRASHES: usize = 20;

impl Scenario<'_> {
    /// Makes each call fail in turn, in several ways.
    pub fn survives_errors(&self) {
        let frames = self.record().1.frames;
        let image = self.begin().image();
        let (mut failures, mut new, mut ignored) = (0u64, 0u64, 0u64);
        for (calls, trouble, lasting) in [
            (Calls::Any, Trouble::Io, false),
            (Calls::Space, Trouble::Io, true),
            (Calls::Space, Trouble::Full, true),
            (Calls::Only(Call::Write), Trouble::Short, false),
            (Calls::Only(Call::Write), Trouble::Short, true),
        ] {
            for after in 0.. {
                let fs = SimFs::from_image(&image);
                fs.fail(Some(Fault { calls, after, trouble, lasting }));
                let mut progress = Progress { fs: &fs, done: 0, recording: None };
                let result = (self.steps)(&fs, &mut progress);
                let done = progress.done;
                let hit = fs.failed();
                fs.fail(None);
                let Some(hit) = hit else {
                    result.unwrap_or_else(|error| panic!("{}: {error}", self.name));
                    break;
                };
                let tag = format!("{}: {trouble:?}, lasting: {lasting}, at call {after}: {hit}", self.name);
                let found = read(&fs).unwrap_or_else(|error| panic!("{tag}: {error}"));
                match result {
                    // Failures while cleaning up are harmless.
                    Ok(()) => {
                        ignored += 1;
                        assert_eq!(Some(&found), frames.last(), "{tag}: not reported");
                    }
                    Err(error) => {
                        let at = frames[done..].iter().take(2).position(|frame| *frame == found);
                        match (at, &error) {
                            (Some(0), FrameError::Io { .. } | FrameError::Lock { .. }) => {}
                            // Only this error means that everything is there but may not survive a power loss.
                            (Some(at), FrameError::NotSynced { .. }) => new += at as u64,
                            _ => panic!("{tag}: {error:?}, found {at:?}\n{}", fs.log().describe()),
                        }
                    }
                }
                failures += 1;
                let mut left = CRASHES;
                let crashes = fs.log().some_power_losses(after, 0, |state| {
                    left -= 1;
                    self.check(&state, &frames)
                        .map(drop)
                        .map_err(|error| format!("{error}\n{}", state.how))?;
                    Ok::<_, String>(left > 0)
                });
                crashes.unwrap_or_else(|error| panic!("{tag}\n{error}\n{}", fs.log().describe()));
            }
        }
        println!(
            "crash: {:44} {failures:6} errors: {new} left the new frame, {ignored} did no harm",
            self.name
        );
        assert!(failures > 10);
    }
}

/// The changes of one commit.
pub type Change<'a> = &'a dyn Fn(&mut FrameEditor) -> Result<(), FrameError>;

/// Makes each call of a change and its commit fail once, then retries with the same editor: only the commit, or
/// everything. The final commit must be there, even if the system dropped data written before a failed sync.
pub fn survives_retries(name: &str, start: &dyn Fn(&SimFs), change: Change<'_>) {
    let fs = begin(start);
    let image = fs.image();
    let old = read(&fs).unwrap();
    let mut editor = edit(&fs).unwrap();
    change(&mut editor).and_then(|()| editor.commit()).unwrap();
    let new = read(&fs).unwrap();
    let (mut retried, mut refused) = (0u64, 0u64);
    for all in [false, true] {
        for (calls, trouble) in [(Calls::Any, Trouble::Io), (Calls::Only(Call::Write), Trouble::Short)] {
            for after in 0.. {
                let fs = SimFs::from_image(&image);
                let mut editor = edit(&fs).unwrap();
                fs.fail(Some(Fault { calls, after, trouble, lasting: false }));
                let staged = change(&mut editor);
                let is_staged = staged.is_ok();
                let first = staged.and_then(|()| editor.commit());
                let Some(hit) = fs.failed() else {
                    first.unwrap();
                    break;
                };
                let tag = format!("{name}: {trouble:?} at call {after}: {hit}; all again: {all}");
                let result = match first {
                    Ok(_) => Ok(()),
                    Err(FrameError::NotSynced { .. }) => {
                        assert_eq!(read(&fs).as_ref(), Ok(&new), "{tag}");
                        continue;
                    }
                    Err(_) if is_staged && !all => editor.commit().map(drop),
                    Err(_) => {
                        editor.rollback();
                        change(&mut editor).and_then(|()| editor.commit()).map(drop)
                    }
                };
                drop(editor);
                let found = read(&fs).unwrap_or_else(|error| panic!("{tag}: {error}"));
                let made = result.is_ok();
                match result {
                    Ok(()) => {
                        fs.mark(1);
                        assert_eq!(found, new, "{tag}");
                        retried += 1;
                    }
                    Err(FrameError::Abandoned) => {
                        assert!(found == old || found == new, "{tag}");
                        refused += 1;
                    }
                    Err(error) => panic!("{tag}: the second attempt failed: {error}"),
                }
                let frames = [&old, &new];
                for log in [Some(fs.log()), fs.log().given_up()].into_iter().flatten() {
                    let mut left = CRASHES;
                    let crashes = log.some_power_losses(after, 0, |state| {
                        left -= 1;
                        let found = read(&SimFs::from_image(&state.image));
                        match found {
                            Ok(found) if frames[state.mark as usize..].contains(&&found) => Ok(left > 0),
                            found => Err(format!("{found:?} after mark {}: {}", state.mark, state.how)),
                        }
                    });
                    crashes.unwrap_or_else(|error| panic!("{tag}\n{error}\n{}", log.describe()));
                    // Whatever was dropped, the committed state is there.
                    let last = SimFs::from_image(log.image(log.ops().len()));
                    let last = read(&last);
                    assert!(!made || last.as_ref() == Ok(&found), "{tag}: given up\n{}", log.describe());
                }
            }
        }
    }
    println!("crash: {name:44} {retried:6} second attempts made it, {refused} were refused");
    assert!(retried > 0);
}
