//! Crashes during everything that changes a frame: each possible state holds the old or the new frame.

#![allow(dead_code, unreachable_pub, reason = "each test uses some of it")]

pub mod contents;
pub mod dump;
pub mod errors;
pub mod reopen;

use std::path::Path;
use std::sync::Arc;

use b2_frame::{FrameError, INDEX_NAME, ReadTuning, SuperChunk};
use b2_storage_sim::{CrashPlan, CrashState, Image, SimFs, every_crash};
use contents::Contents;
use dump::Dump;
use reopen::{crash_again, lose_power_after_kills, reopen};

/// Path of the frame under test.
pub const PATH: &str = "/data/frame";
/// One in this many states is opened, changed and crashed again.
const CRASH_AGAIN: usize = 50;

/// An operation that changes a frame, in one or several commits.
pub struct Scenario<'a> {
    /// Name for reports.
    pub name: &'a str,
    /// Creates the initial frame, if there is one.
    pub start: &'a dyn Fn(&SimFs),
    /// Changes the frame, and reports each commit.
    pub steps: &'a dyn Fn(&SimFs, &mut Progress<'_>) -> Result<(), FrameError>,
}

/// Receives a report after each commit.
pub struct Progress<'a> {
    fs: &'a SimFs,
    /// Number of commits so far.
    pub done: usize,
    /// The content of the frame at first and after each commit, if it is recorded.
    recording: Option<Recording>,
}

impl Progress<'_> {
    /// Records that a commit has returned: its data must be there from now on.
    pub fn committed(&mut self) {
        self.done += 1;
        self.fs.mark(self.done as u64);
        if let Some(recording) = &mut self.recording {
            recording.take(self.fs);
        }
    }
}

/// The frame at first and after each commit.
#[derive(Default)]
pub struct Recording {
    pub frames: Vec<Option<Contents>>,
    /// Frame headers, as bytes.
    pub headers: Vec<Option<Vec<u8>>>,
}

impl Recording {
    fn take(&mut self, fs: &SimFs) {
        self.frames.push(read(fs).expect("a committed frame can be read"));
        self.headers.push(header(&fs.image()).map(<[u8]>::to_vec));
    }
}

/// Returns a file system on which `start` has run.
pub fn begin(start: &dyn Fn(&SimFs)) -> SimFs {
    let fs = SimFs::new();
    fs.write(Path::new("/data/other"), b"not a frame");
    start(&fs);
    fs.restart();
    fs
}

/// Returns the current content of the frame; `None` if there is none.
pub fn read(fs: &SimFs) -> Result<Option<Contents>, String> {
    if fs.image().read(Path::new(PATH)).is_err() && fs.image().list(Path::new(PATH)).is_err() {
        return Ok(None);
    }
    let schunk = SuperChunk::options().file_system(Arc::new(fs.clone())).open(PATH);
    let schunk = schunk.map_err(|error| format!("cannot be opened: {error}"))?;
    let contents = Contents::of(&schunk)?;
    if schunk.block_starts_len().is_some() {
        // Tables must match the frame, whichever state they are from.
        schunk.verify_checksums().map_err(|error| error.to_string())?;
        let tuning = ReadTuning::REMOTE.whole_chunk_max(100).head_len(64);
        let (far, plain) = (schunk.with_tuning(tuning), contents.plain());
        for at in (0..plain.len()).step_by(997) {
            let read = far.read_bytes(at as u64..at as u64 + 1).map_err(|error| error.to_string())?;
            if read != plain[at..=at] {
                return Err(format!("byte {at} is another one where the table of block starts is used"));
            }
        }
    }
    Ok(Some(contents))
}

/// Returns the stored frame header, if there is a frame.
pub fn header(image: &Image) -> Option<&[u8]> {
    let main = image.read(Path::new(PATH)).or_else(|_| image.read(&Path::new(PATH).join(INDEX_NAME)));
    let main = main.ok()?;
    // Its length is at byte 11 (docs/format/frame-contiguous.md).
    let len = main.get(11..15)?.try_into().map(u32::from_be_bytes).ok()?;
    main.get(..len as usize)
}

impl Scenario<'_> {
    fn begin(&self) -> SimFs {
        begin(self.start)
    }

    /// Runs the scenario without a crash.
    fn record(&self) -> (SimFs, Recording) {
        let fs = self.begin();
        let mut recording = Recording::default();
        recording.take(&fs);
        let mut progress = Progress { fs: &fs, done: 0, recording: Some(recording) };
        (self.steps)(&fs, &mut progress).unwrap_or_else(|error| panic!("{}: {error}", self.name));
        let recording = progress.recording.unwrap_or_default();
        assert!(recording.frames.len() > 1, "{}: no commit", self.name);
        (fs, recording)
    }

    /// Tests every crash: kills and power losses.
    pub fn survives_crashes(&self) {
        let (fs, recording) = self.record();
        let plan = plan();
        let mut dump = Dump::new(self.name);
        let (mut old, mut states, mut again) = (0usize, 0usize, 0usize);
        let log = fs.log();
        let counts = every_crash(&log, &plan, &mut |state| {
            let (fs, found) = self.check(state, &recording.frames)?;
            old += usize::from(found < recording.frames.len() - 1);
            dump.offer(state, &recording);
            if let Some(contents) = &recording.frames[found] {
                states += 1;
                reopen(&fs, contents, &recording)?;
                if states % CRASH_AGAIN == 0 {
                    again += crash_again(state, contents)?;
                }
            }
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{}: {error}", self.name));
        let later = lose_power_after_kills(&log, &recording.frames);
        again += later.unwrap_or_else(|error| panic!("{}: after a kill: {error}", self.name));
        println!(
            "crash: {:44} {:6} killed {:6} power losses ({} tried), {old} old, {again} crashed again; {} bytes \
             written, {} syncs, {} commits",
            self.name,
            counts.kills,
            counts.power,
            counts.tries,
            log.bytes_written(),
            log.syncs(),
            recording.frames.len() - 1
        );
        // There may be fewer distinct states, but then most of them were found.
        assert!(counts.power >= plan.power || counts.tries >= 10 * plan.power, "{}: {counts:?}", self.name);
        dump.judge();
    }

    /// Returns which of the frames a state holds; an error if it is none of the allowed ones.
    fn check(&self, state: &CrashState, frames: &[Option<Contents>]) -> Result<(SimFs, usize), String> {
        let fs = SimFs::from_image(&state.image);
        let found = read(&fs)?;
        let first = state.mark as usize;
        let allowed = &frames[first..frames.len().min(first + 2)];
        // Use the last equal one, since some commits change nothing that can be read.
        match allowed.iter().rposition(|frame| *frame == found) {
            Some(at) => Ok((fs, first + at)),
            None => {
                let other = frames.iter().position(|frame| *frame == found);
                Err(format!("holds frame {other:?}, expected {first} or the next one: {found:?}"))
            }
        }
    }
}

/// Returns how many power losses to try for each operation: 1000, or the value of `B2KIT_CRASH_STATES`.
pub fn plan() -> CrashPlan {
    let number = |name: &str, default: u64| match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|error| panic!("{name}: {error}")),
        Err(_) => default,
    };
    CrashPlan { power: number("B2KIT_CRASH_STATES", 1000) as usize, seed: number("B2KIT_CRASH_SEED", 1) }
}
