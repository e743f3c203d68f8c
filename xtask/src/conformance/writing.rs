//! Cases that this project writes. C-Blosc2 reads them and changes a copy, which is read here again.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

use anyhow::{Result, bail};
use b2_testkit::Rng;
use serde_json::Value;

use super::checker::{Fields, panic_text};
use super::draft::Draft;
use super::peer::{Peer, Reply};
use super::report::{Direction, Labels, Outcome};
use super::{Session, reading, watchdog, write_array, write_chunk, write_frame};
use crate::python;

type Written = Result<Value, (String, Labels)>;

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
    for (number, written) in (session.first..).zip(cases) {
        let id = format!("w{number:06}");
        let (case, mut outcome) = match written {
            Err((message, labels)) => {
                let failures = vec![("writing".to_owned(), message)];
                (
                    Value::Null,
                    Outcome { direction: Direction::Writing, id: id.clone(), labels, failures, checks: 1 },
                )
            }
            Ok(case) => {
                peer.send(&case);
                let outcome = match peer.receive()? {
                    Reply::Line(answer) if answer.text("id") == Some(&id) => judge(session, &case, &answer),
                    Reply::Line(answer) => bail!("asked about {id}, the peer answers {answer}"),
                    Reply::Ended(status) => dead(&case, &format!("C-Blosc2 died reading this ({status})")),
                    Reply::Silent => dead(&case, "C-Blosc2 hangs reading this"),
                };
                (case, outcome)
            }
        };
        if outcome.failures.iter().any(|(check, _)| check == PEER) {
            deaths += 1;
            if deaths > 50 {
                bail!("the peer died {deaths} times, the last time at {id}: {:?}", outcome.failures);
            }
            peer = start()?;
        }
        outcome.id.clone_from(&id);
        let good = session.report.add(&outcome);
        session.finish(&id, &case, good);
    }
    Ok(())
}

/// Name of the check that fails if the peer crashes.
const PEER: &str = "peer";

fn dead(case: &Value, message: &str) -> Outcome {
    let failures = vec![(PEER.to_owned(), message.to_owned())];
    Outcome { direction: Direction::Writing, id: String::new(), labels: labels(case), failures, checks: 1 }
}

/// Combines the peer's findings with those of this project in the copy that the peer has changed.
fn judge(session: &Session, case: &Value, answer: &Value) -> Outcome {
    let mut outcome = Outcome {
        direction: Direction::Writing,
        id: String::new(),
        labels: labels(case),
        failures: Vec::new(),
        checks: 0,
    };
    for (check, message) in answer["checks"].as_object().into_iter().flatten() {
        outcome.checks += 1;
        if let Some(message) = message.as_str() {
            outcome.failures.push((check.clone(), message.to_owned()));
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
        let again = reading::check(session.folder.path(), &changed, Direction::Writing, session.seed);
        outcome.checks += again.checks;
        let failures =
            again.failures.into_iter().map(|(check, text)| (format!("after C's changes, {check}"), text));
        outcome.failures.extend(failures);
    }
    outcome
}

fn labels(case: &Value) -> Labels {
    let labels = case["labels"].as_object().into_iter().flatten();
    labels.map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned())).collect()
}

/// Writes the cases in a separate thread, a few ahead of the peer.
fn start_writing(folder: PathBuf, seed: u64, first: u64, ncases: u64) -> Receiver<Written> {
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

/// The relative frequency of each kind.
const KINDS: &[(&str, usize)] = &[("chunk", 40), ("vlchunk", 6), ("frame", 22), ("array", 32)];

/// Writes one case; an error or a panic of the writer counts as a failure of the case.
fn write(folder: &Path, seed: u64, number: u64) -> Written {
    let mut choice = Rng::case(seed ^ 0x5EED, number)
        .within(0..=KINDS.iter().map(|(_, weight)| weight).sum::<usize>() - 1);
    let kind = KINDS.iter().find(|(_, weight)| {
        let found = choice < *weight;
        choice = choice.saturating_sub(*weight);
        found
    });
    let kind = kind.map_or("chunk", |(kind, _)| kind);
    let mut draft = Draft::new(folder, seed, number, kind);
    let _work = watchdog::enter(&draft.id);
    let written = catch_unwind(AssertUnwindSafe(|| match kind {
        "chunk" => write_chunk::chunk(&mut draft),
        "vlchunk" => write_chunk::vl_chunk(&mut draft),
        "frame" => write_frame::frame(&mut draft),
        _ => write_array::array(&mut draft),
    }));
    let case = draft.finish();
    match written {
        Ok(Ok(())) => Ok(case),
        Ok(Err(e)) => Err((format!("{e:#}"), labels(&case))),
        Err(panic) => Err((format!("PANIC: {}", panic_text(&*panic)), labels(&case))),
    }
}
