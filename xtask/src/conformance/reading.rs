//! Cases that C-Blosc2 writes and this project reads.

use std::fs;
use std::path::Path;

use anyhow::{Result, bail};
use b2_testkit::Rng;
use serde_json::Value;

use super::checker::{Checker, Fields};
use super::peer::{Peer, Reply};
use super::report::{CaseOutcome, Direction};
use super::session::Session;
use super::{read_array, read_chunk, read_frame, watchdog};
use crate::python;

/// Runs `ncases` cases. Cases that the peer cannot write are replaced by further ones.
pub(crate) fn run(session: &mut Session, python: &Path, ncases: u64) -> Result<()> {
    // The next case, and the number of checked ones.
    let (mut number, mut done, mut deaths) = (session.first, 0, 0);
    while done < ncases {
        let end = number + ncases - done;
        let mut command = python::script(python, "gen_cases.py");
        command.args(["--seed", &session.seed.to_string(), "--from", &number.to_string()]);
        command.args(["--to", &end.to_string(), "--out"]).arg(session.folder.path());
        let mut peer = Peer::start(command)?;
        while number < end {
            let trouble = match peer.receive()? {
                Reply::Line(line) if line["begin"].is_u64() => continue,
                Reply::Line(line) if line["case"].is_object() => {
                    one(session, &line["case"]);
                    number += 1;
                    done += 1;
                    continue;
                }
                Reply::Line(line) => {
                    let reason = line.text("error").unwrap_or("no reason given");
                    let reason = reason.trim().lines().last().unwrap_or_default();
                    session
                        .report
                        .peer_trouble(&format!("would not write: {reason}"), format!("t{number:06}"));
                    number += 1;
                    continue;
                }
                Reply::Ended(status) => format!("died while writing ({status})"),
                Reply::Silent => "hung while writing".to_owned(),
            };
            session.report.peer_trouble(&trouble, format!("t{number:06}"));
            number += 1;
            deaths += 1;
            if deaths > 20 {
                bail!("the peer died {deaths} times; it last {trouble}");
            }
            // A new process continues after the case that crashed this one.
            break;
        }
    }
    Ok(())
}

fn one(session: &mut Session, case: &Value) {
    let mut outcome = CaseOutcome::new(Direction::Reading, case);
    check(session, case, &mut outcome.checker);
    session.finish(&outcome, case);
}

/// Reads the file of a case and compares it with the case.
pub(crate) fn check(session: &Session, case: &Value, checker: &mut Checker) {
    let folder = session.folder.path();
    let id = case.text("id").unwrap_or_default();
    let _work = watchdog::enter(id);
    let path = folder.join(case.text("path").unwrap_or_default());
    let raw = match case.text("raw").map(|name| fs::read(folder.join(name))).transpose() {
        Ok(raw) => raw,
        Err(error) => return checker.fail("raw", error.to_string()),
    };
    let mut rng = Rng::case(session.seed, id.bytes().fold(7, |sum, byte| sum * 31 + u64::from(byte)));
    let read = match case["labels"].text("kind") {
        Some("frame") => read_frame::check,
        Some("array") => read_array::check,
        _ => read_chunk::check,
    };
    read(checker, case, &path, raw.as_deref(), &mut rng);
}
