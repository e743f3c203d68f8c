//! Cases that this project writes. C-Blosc2 reads them and changes a copy, which is read here again.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

use anyhow::{Result, bail};
use b2_testkit::Rng;
use serde_json::Value;

use super::checker::{Checker, caught};
use super::draft::Draft;
use super::peer::{Peer, Reply};
use super::report::{CaseOutcome, Direction};
use super::session::Session;
use super::{reading, watchdog, write_array, write_chunk, write_frame};
use crate::python;

/// A case, and why it could not be written.
type WrittenCase = (Value, Option<String>);

/// Runs `ncases` cases.
pub(crate) fn run(session: &mut Session, python: &Path, ncases: u64) -> Result<()> {
    let cases = start_writing(session.folder.path().to_owned(), session.seed, session.first, ncases);
    let folder = session.folder.path().to_owned();
    let start = || {
        let mut command = python::script(python, "check_cases.py");
        command.arg("--dir").arg(&folder);
        Peer::start(command)
    };
    let mut peer = start()?;
    let mut deaths = 0;
    for (case, error) in cases {
        let mut outcome = CaseOutcome::new(Direction::Writing, &case);
        if let Some(message) = error {
            outcome.checker.fail("writing", message);
            session.finish(&outcome, &case);
            continue;
        }
        peer.send(&case);
        let died = match peer.receive()? {
            Reply::Line(answer) if answer["id"] == case["id"] => {
                check_written(session, &case, &answer, &mut outcome.checker);
                None
            }
            Reply::Line(answer) => bail!("asked about {}, the peer answers {answer}", outcome.id),
            Reply::Ended(status) => Some(format!("C-Blosc2 died reading this ({status})")),
            Reply::Silent => Some("C-Blosc2 hangs reading this".to_owned()),
        };
        if let Some(message) = died {
            deaths += 1;
            if deaths > 50 {
                bail!("the peer died {deaths} times, the last time at {}: {message}", outcome.id);
            }
            outcome.checker.fail("peer", message);
            peer = start()?;
        }
        session.finish(&outcome, &case);
    }
    Ok(())
}

/// Combines the peer's findings with those of this project in the copy that the peer has changed.
fn check_written(session: &Session, case: &Value, answer: &Value, checker: &mut Checker) {
    for (check, message) in answer["checks"].as_object().into_iter().flatten() {
        checker.checks += 1;
        if let Some(message) = message.as_str() {
            checker.failures.push((check.clone(), message.to_owned()));
        }
    }
    if let Some(after) = answer["after"].as_object() {
        let mut changed = case.clone();
        // Do not compare what C may choose anew when it changes a file.
        for field in ["nchunks", "nbytes", "chunksize", "codec", "clevel", "split", "filters", "use_dict"] {
            changed[field] = Value::Null;
        }
        for (field, value) in after {
            changed[field] = value.clone();
        }
        let mut again = Checker::default();
        reading::check(session, &changed, &mut again);
        checker.checks += again.checks;
        let failures = again.failures.into_iter();
        checker.failures.extend(failures.map(|(check, text)| (format!("after C's changes, {check}"), text)));
    }
}

/// Writes the cases in a separate thread, a few ahead of the peer.
fn start_writing(folder: PathBuf, seed: u64, first: u64, ncases: u64) -> Receiver<WrittenCase> {
    let (sender, cases) = sync_channel(32);
    thread::spawn(move || {
        for number in first..first + ncases {
            if sender.send(write(&folder, seed, number)).is_err() {
                break;
            }
        }
    });
    cases
}

/// How one kind of case is written.
type CaseWriter = fn(&mut Draft<'_>) -> Result<()>;

/// The kinds of cases, and how often each is written.
const KINDS: [(&str, usize, CaseWriter); 4] = [
    ("chunk", 40, write_chunk::chunk),
    ("vlchunk", 6, write_chunk::vl_chunk),
    ("frame", 22, write_frame::frame),
    ("array", 32, write_array::array),
];

/// Writes one case; an error or a panic of the writer counts as a failure of the case.
fn write(folder: &Path, seed: u64, number: u64) -> WrittenCase {
    let mut choice = Rng::case(seed ^ 0x5EED, number)
        .within(0..=KINDS.iter().map(|(_, weight, _)| weight).sum::<usize>() - 1);
    let chosen = KINDS.iter().find(|(_, weight, _)| {
        let found = choice < *weight;
        choice = choice.saturating_sub(*weight);
        found
    });
    let (kind, _, write) = chosen.unwrap_or(&KINDS[0]);
    let mut draft = Draft::new(folder, seed, number, kind);
    let _work = watchdog::enter(&draft.id);
    let error = caught(|| write(&mut draft)).err();
    (draft.finish(), error.map(|error| format!("{error:#}")))
}
