//! Compares with C-Blosc2 on the same files: what it reads must not be refused without a reason.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use anyhow::{Result, bail};
use serde_json::json;

use super::commands::{self, Verdict, remove};
use super::groups::Group;
use super::plan::{Case, Plan, Queue};
use super::report::Tally;
use super::worker::{Setup, Worker};
use crate::conformance::peer::{Peer, Reply};
use crate::sh::Counts;
use crate::{python, root};

/// The results of both sides for a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    SameData,
    BothReject,
    OnlyTheyReject,
    OnlyWeReject,
    OtherData,
    /// C-Blosc2 crashed or hung.
    TheyDie,
    /// Too large to let C-Blosc2 read it.
    Large,
}

const CLASSES: [(Class, &str); 7] = [
    (Class::SameData, "same data"),
    (Class::BothReject, "both reject"),
    (Class::OnlyTheyReject, "only C"),
    (Class::OnlyWeReject, "only we"),
    (Class::OtherData, "other data"),
    (Class::TheyDie, "C dies"),
    (Class::Large, "large"),
];

#[derive(Default)]
struct Outcome {
    tally: Tally<Class>,
    /// Messages without numbers: how often they occurred, and a case.
    messages: BTreeMap<(Class, String), (u64, u64, String)>,
}

/// Compares the cases of a queue. Valid files that only we refuse, or that we read differently, are failures.
pub(super) fn run(setup: &Setup, plan: &Plan, mut queue: Queue, seed: u64) -> Result<Counts> {
    let python = python::environment(python::PEER)?;
    let mut worker = Worker::new(setup.clone(), setup.folder.with_file_name("stderr"));
    let mut peer = Peer::start(python::script(&python, "judge_files.py"))?;
    let mut outcome = Outcome::default();
    let mut counts = Counts::default();
    loop {
        let cases = queue.take(plan, 1);
        let Some(case) = cases.first() else { break };
        let path = setup.folder.join("c");
        case.content.write(&path)?;
        let ours = commands::verify(&mut worker, "c")?;
        peer.send_line(&path.display().to_string());
        let theirs = match peer.receive()? {
            Reply::Line(line) => line,
            Reply::Ended(status) => bail!("C-Blosc2 ended with {status}"),
            Reply::Silent => bail!("C-Blosc2 is silent"),
        };
        remove(&path)?;
        let text = |key: &str| theirs[key].as_str().map(ToOwned::to_owned);
        let (class, message) = match (&ours, text("sha256"), text("error"), text("died")) {
            (_, _, _, Some(how)) => (Class::TheyDie, how),
            (Some(Verdict::Ok { sha256, .. }), Some(hash), ..) if *sha256 == hash => {
                (Class::SameData, String::new())
            }
            (Some(Verdict::Ok { .. }), Some(_), ..) => (Class::OtherData, case.group.name().to_owned()),
            (Some(Verdict::Ok { .. }), _, Some(error), _) => (Class::OnlyTheyReject, error),
            (Some(Verdict::Fail(why)), Some(_), ..) => (Class::OnlyWeReject, why.clone()),
            (Some(Verdict::Fail(_)), _, Some(_), _) => (Class::BothReject, String::new()),
            (Some(_), ..) => (Class::Large, String::new()),
            (None, ..) => (Class::OnlyWeReject, "died".into()),
        };
        outcome.add(case, class, &message);
        let bad = case.group == Group::Valid && matches!(class, Class::OnlyWeReject | Class::OtherData);
        // Uninitialised items are zeros in this project, and arbitrary in C-Blosc2.
        if bad && !case.name.contains("uninit") && !case.name.contains("special") {
            println!("{}: {class:?} {message}", case.name);
            counts.failed += 1;
        } else {
            counts.passed += 1;
        }
    }
    let text = outcome.text(seed);
    print!("{text}");
    let report = root::target().join("xtask").join("hostile-peer.txt");
    fs::write(&report, &text)?;
    println!("hostile beside C-Blosc2: {} cases, {} failures", counts.passed + counts.failed, counts.failed);
    Ok(counts)
}

impl Outcome {
    fn add(&mut self, case: &Case, class: Class, message: &str) {
        self.tally.add(case.group, class);
        if message.is_empty() {
            return;
        }
        let mut plain = String::new();
        for c in message.chars().map(|c| if c.is_ascii_digit() { '#' } else { c }) {
            if c != '#' || !plain.ends_with('#') {
                plain.push(c);
            }
        }
        let entry = self.messages.entry((class, plain)).or_insert((0, case.id, case.name.clone()));
        entry.0 += 1;
    }

    fn text(&self, seed: u64) -> String {
        let columns = CLASSES.map(|(class, name)| (name, vec![class], "0"));
        let mut out = self.tally.table(&columns, 13);
        for (class, name) in CLASSES {
            let mut messages: Vec<_> = self.messages.iter().filter(|((c, _), _)| *c == class).collect();
            if messages.is_empty() {
                continue;
            }
            messages.sort_by_key(|(_, (count, ..))| std::cmp::Reverse(*count));
            let _ = writeln!(out, "\n{name}: how often, the message without numbers, a case of seed {seed}");
            for ((_, message), (count, id, case)) in messages {
                let _ = writeln!(out, "{count:>6}  {message}  ({id}: {case})");
            }
        }
        let _ = writeln!(out, "\n{}", json!({"seed": seed, "cases": self.tally.count(None, |_| true)}));
        out
    }
}
