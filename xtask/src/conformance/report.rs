//! Outcomes of cases, the list of known gaps, and the tables.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context, Result, bail};

use crate::root;
use crate::sh::Counts;

/// The direction of a case.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Direction {
    /// Written by C-Blosc2, read here.
    Reading,
    /// Written here, read (and then changed) by C-Blosc2.
    Writing,
}

impl Direction {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Reading => "reading",
            Self::Writing => "writing",
        }
    }
}

pub(crate) type Labels = BTreeMap<String, String>;

/// The result of one case.
pub(crate) struct Outcome {
    pub(crate) direction: Direction,
    pub(crate) id: String,
    pub(crate) labels: Labels,
    /// The failures: check and message. Empty if everything was right.
    pub(crate) failures: Vec<(String, String)>,
    /// Number of comparisons made.
    pub(crate) checks: usize,
}

/// An entry of `testdata/expected-failures.toml`.
struct Gap {
    direction: String,
    labels: Labels,
    /// Text that every failure of the case contains.
    message: String,
    reason: String,
    hits: usize,
}

#[derive(Clone, Copy, Default)]
struct Tally {
    passed: usize,
    gaps: usize,
    failed: usize,
}

#[derive(Default)]
pub(crate) struct Report {
    gaps: Vec<Gap>,
    tallies: BTreeMap<(Direction, String, String), Tally>,
    total: Tally,
    checks: usize,
    /// Cases without a result from the peer: it crashed, hung or refused to write.
    peer: BTreeMap<String, Vec<String>>,
    pub(crate) failures: Vec<String>,
}

impl Report {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self { gaps: read_gaps()?, ..Self::default() })
    }

    /// Counts a case; returns true if it passed, or failed as the list of gaps says.
    pub(crate) fn add(&mut self, outcome: &Outcome) -> bool {
        self.checks += outcome.checks;
        let gap = self.gaps.iter_mut().find(|gap| {
            gap.direction == outcome.direction.name()
                && gap.labels.iter().all(|(key, value)| outcome.labels.get(key) == Some(value))
        });
        let mut one = Tally::default();
        match (gap, outcome.failures.is_empty()) {
            (None, true) => one.passed = 1,
            (Some(gap), false) if outcome.failures.iter().all(|(_, text)| text.contains(&gap.message)) => {
                gap.hits += 1;
                one.gaps = 1;
            }
            (Some(gap), true) => {
                one.failed = 1;
                self.failures.push(format!(
                    "{} {}: passed, but expected-failures.toml lists it ({}): take the entry out",
                    outcome.direction.name(),
                    outcome.id,
                    gap.reason
                ));
            }
            (_, false) => {
                one.failed = 1;
                self.failures.push(describe(outcome));
            }
        }
        for (class, value) in &outcome.labels {
            let key = (outcome.direction, class.clone(), value.clone());
            let tally = self.tallies.entry(key).or_default();
            tally.add(one);
        }
        self.total.add(one);
        one.failed == 0
    }

    /// Records a case that could not run because of the peer.
    pub(crate) fn peer_trouble(&mut self, what: &str, case: String) {
        self.peer.entry(what.to_owned()).or_default().push(case);
    }

    fn ncases(&self) -> usize {
        self.total.passed + self.total.gaps + self.total.failed
    }

    /// Prints the tables and the failures. A known gap that fails as listed counts as passed.
    pub(crate) fn print(&self) -> Counts {
        for direction in [Direction::Reading, Direction::Writing] {
            self.print_direction(direction);
        }
        for (what, cases) in &self.peer {
            println!("\nC-Blosc2 {what}: {} cases ({})", cases.len(), cases.join(", "));
        }
        println!("\nknown gaps (testdata/expected-failures.toml):");
        for gap in &self.gaps {
            let labels: Vec<String> = gap.labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
            println!("  {:>5} cases  {} {}: {}", gap.hits, gap.direction, labels.join(" "), gap.reason);
        }
        if self.gaps.is_empty() {
            println!("  none");
        }
        if !self.failures.is_empty() {
            println!("\nfailures:");
            for failure in self.failures.iter().take(40) {
                println!("  {failure}");
            }
            if self.failures.len() > 40 {
                println!("  and {} more", self.failures.len() - 40);
            }
        }
        println!(
            "\n{} comparisons in {} cases, {} of them known gaps",
            self.checks,
            self.ncases(),
            self.total.gaps
        );
        let passed = (self.total.passed + self.total.gaps) as u64;
        let counts = Counts { passed, failed: self.total.failed as u64 };
        println!("conformance: {} passed, {} failed", counts.passed, counts.failed);
        counts
    }

    fn print_direction(&self, direction: Direction) {
        let rows: Vec<_> = self.tallies.iter().filter(|((d, ..), _)| *d == direction).collect();
        if rows.is_empty() {
            return;
        }
        let what = match direction {
            Direction::Reading => "written by C-Blosc2, read here",
            Direction::Writing => "written here, read and changed by C-Blosc2",
        };
        println!("\n{what}");
        println!("{:<12} {:<34} {:>7} {:>6} {:>7}", "class", "value", "passed", "gaps", "failed");
        let classes: BTreeSet<&str> = rows.iter().map(|((_, class, _), _)| class.as_str()).collect();
        for class in classes {
            let mut values: Vec<_> = rows.iter().filter(|((_, c, _), _)| c == class).collect();
            // Sort numbers by value.
            values.sort_by_key(|((.., value), _)| (value.parse::<u64>().unwrap_or(u64::MAX), value.clone()));
            for ((.., value), tally) in values {
                let mark = if tally.failed > 0 { "  <--" } else { "" };
                println!(
                    "{class:<12} {value:<34} {:>7} {:>6} {:>7}{mark}",
                    tally.passed, tally.gaps, tally.failed
                );
            }
        }
    }
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.gaps += other.gaps;
        self.failed += other.failed;
    }
}

fn describe(outcome: &Outcome) -> String {
    let labels: Vec<String> = outcome.labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
    let failures: Vec<String> = outcome
        .failures
        .iter()
        .map(|(check, message)| format!("\n      {check}: {}", message.trim()))
        .collect();
    format!("{} {} [{}]{}", outcome.direction.name(), outcome.id, labels.join(" "), failures.concat())
}

fn read_gaps() -> Result<Vec<Gap>> {
    let path = root::testdata().join("expected-failures.toml");
    parse_gaps(&fs::read_to_string(&path)?).with_context(|| format!("{}", path.display()))
}

fn parse_gaps(text: &str) -> Result<Vec<Gap>> {
    let table: toml::Table = text.parse()?;
    let mut out = Vec::new();
    for entry in table.get("gap").and_then(toml::Value::as_array).into_iter().flatten() {
        let text = |key: &str| entry.get(key).and_then(toml::Value::as_str).unwrap_or_default().to_owned();
        let mut labels = Labels::new();
        for (key, value) in entry.get("labels").and_then(toml::Value::as_table).into_iter().flatten() {
            labels.insert(key.clone(), value.as_str().context("labels are texts")?.to_owned());
        }
        let gap = Gap {
            direction: text("direction"),
            labels,
            message: text("message"),
            reason: text("reason"),
            hits: 0,
        };
        if gap.labels.is_empty() || gap.message.is_empty() || gap.reason.is_empty() {
            bail!("every gap needs labels, message and reason");
        }
        if gap.direction != "reading" && gap.direction != "writing" {
            bail!("direction is reading or writing, not {:?}", gap.direction);
        }
        out.push(gap);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GAP: &str = r#"
        [[gap]]
        direction = "reading"
        labels = { codec = "zfp_acc" }
        message = "not registered"
        reason = "no zfp"
    "#;

    /// Adds one case to a report with one gap, and checks the counts of passed and failed cases and the return value.
    #[track_caller]
    fn check(direction: Direction, codec: &str, failure: Option<&str>, wanted: (usize, usize, bool)) {
        let mut report = Report { gaps: parse_gaps(GAP).unwrap(), ..Report::default() };
        let outcome = Outcome {
            direction,
            id: "t1".into(),
            labels: Labels::from([("codec".into(), codec.into())]),
            failures: failure.map(|text| ("whole".to_owned(), text.to_owned())).into_iter().collect(),
            checks: 1,
        };
        let good = report.add(&outcome);
        assert_eq!((report.total.passed + report.total.gaps, report.total.failed, good), wanted);
        assert_eq!(report.failures.len(), wanted.1);
    }

    #[test]
    fn a_listed_gap_has_to_fail_as_listed() {
        check(Direction::Reading, "zfp_acc", Some("codec zfp_acc is not registered"), (1, 0, true));
        check(Direction::Reading, "zfp_acc", Some("PANIC: index out of bounds"), (0, 1, false));
        // An unexpected pass.
        check(Direction::Reading, "zfp_acc", None, (0, 1, false));
    }

    #[test]
    fn other_cases_have_to_pass() {
        check(Direction::Reading, "lz4", None, (1, 0, true));
        check(Direction::Reading, "lz4", Some("not registered"), (0, 1, false));
        check(Direction::Writing, "zfp_acc", Some("not registered"), (0, 1, false));
    }

    #[test]
    fn gaps_without_a_reason_are_refused() {
        assert!(parse_gaps(&GAP.replace("no zfp", "")).is_err());
        assert!(parse_gaps(&GAP.replace("reading", "somewhere")).is_err());
    }
}
