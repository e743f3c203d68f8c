//! Outcomes of cases, the list of known gaps, and the tables.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::Value;

use super::checker::Checker;
use crate::root;

/// Numbers of cases.
#[derive(Clone, Copy, Default)]
pub(crate) struct CaseCounts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
}

impl CaseCounts {
    /// Prints the final line of a check, and returns an error if a case failed.
    pub(crate) fn verdict(&self, what: &str) -> anyhow::Result<()> {
        println!("{what}: {} passed, {} failed", self.passed, self.failed);
        anyhow::ensure!(self.failed == 0, "{} failed", self.failed);
        Ok(())
    }
}

/// The direction of a case.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
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

type Labels = BTreeMap<String, String>;

/// The result of one case.
pub(crate) struct CaseOutcome {
    pub(crate) direction: Direction,
    pub(crate) id: String,
    labels: Labels,
    pub(crate) checker: Checker,
}

impl CaseOutcome {
    /// Starts the checks of a case.
    pub(crate) fn new(direction: Direction, case: &Value) -> Self {
        let labels = case["labels"].as_object().into_iter().flatten();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let labels = labels.map(|(key, value)| (key.clone(), text(value))).collect();
        Self { direction, id: text(&case["id"]), labels, checker: Checker::default() }
    }
}

/// The content of `testdata/expected-failures.toml`.
#[derive(Deserialize)]
struct Gaps {
    #[serde(default)]
    gap: Vec<Gap>,
}

#[derive(Deserialize)]
struct Gap {
    direction: Direction,
    labels: Labels,
    /// Text that every failure of the case contains.
    message: String,
    reason: String,
    #[serde(skip)]
    hits: usize,
}

/// Cases that passed, known gaps, and cases that failed.
type Tally = [usize; 3];

const PASSED: usize = 0;
const GAP: usize = 1;
const FAILED: usize = 2;

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
    pub(crate) fn add(&mut self, outcome: &CaseOutcome) -> bool {
        self.checks += outcome.checker.checks;
        let gap = self.gaps.iter_mut().find(|gap| {
            gap.direction == outcome.direction
                && gap.labels.iter().all(|(key, value)| outcome.labels.get(key) == Some(value))
        });
        let verdict = match (gap, outcome.checker.failures.is_empty()) {
            (None, true) => PASSED,
            (Some(gap), false)
                if outcome.checker.failures.iter().all(|(_, text)| text.contains(&gap.message)) =>
            {
                gap.hits += 1;
                GAP
            }
            (Some(gap), true) => {
                let (direction, reason) = (outcome.direction.name(), &gap.reason);
                let what = "passed, but expected-failures.toml lists it";
                self.failures
                    .push(format!("{direction} {}: {what} ({reason}): take the entry out", outcome.id));
                FAILED
            }
            (_, false) => {
                self.failures.push(describe(outcome));
                FAILED
            }
        };
        for (class, value) in &outcome.labels {
            let key = (outcome.direction, class.clone(), value.clone());
            self.tallies.entry(key).or_default()[verdict] += 1;
        }
        self.total[verdict] += 1;
        verdict != FAILED
    }

    /// Records a case that could not run because of the peer.
    pub(crate) fn peer_trouble(&mut self, what: &str, case: String) {
        self.peer.entry(what.to_owned()).or_default().push(case);
    }

    /// Prints the tables and the failures. A known gap that fails as listed counts as passed.
    pub(crate) fn print(&self) -> CaseCounts {
        for direction in [Direction::Reading, Direction::Writing] {
            self.print_direction(direction);
        }
        for (what, cases) in &self.peer {
            println!("\nC-Blosc2 {what}: {} cases ({})", cases.len(), cases.join(", "));
        }
        println!("\nknown gaps (testdata/expected-failures.toml):");
        for gap in &self.gaps {
            let labels: Vec<String> = gap.labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
            println!(
                "  {:>5} cases  {} {}: {}",
                gap.hits,
                gap.direction.name(),
                labels.join(" "),
                gap.reason
            );
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
        let [passed, gaps, failed] = self.total;
        let cases = passed + gaps + failed;
        println!("\n{} comparisons in {cases} cases, {gaps} of them known gaps", self.checks);
        CaseCounts { passed: (passed + gaps) as u64, failed: failed as u64 }
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
            for ((.., value), [passed, gaps, failed]) in values {
                let mark = if *failed > 0 { "  <--" } else { "" };
                println!("{class:<12} {value:<34} {passed:>7} {gaps:>6} {failed:>7}{mark}");
            }
        }
    }
}

fn describe(outcome: &CaseOutcome) -> String {
    let failures = outcome.checker.failures.iter();
    let failures = failures.map(|(check, message)| format!("\n      {check}: {}", message.trim()));
    let labels = joined(&outcome.labels);
    format!("{} {} [{labels}]{}", outcome.direction.name(), outcome.id, failures.collect::<String>())
}

fn joined(labels: &Labels) -> String {
    labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
}

fn read_gaps() -> Result<Vec<Gap>> {
    let path = root::testdata().join("expected-failures.toml");
    parse_gaps(&fs::read_to_string(&path)?).with_context(|| format!("{}", path.display()))
}

fn parse_gaps(text: &str) -> Result<Vec<Gap>> {
    let Gaps { gap: gaps } = toml::from_str(text)?;
    let complete = |gap: &Gap| !gap.labels.is_empty() && !gap.message.is_empty() && !gap.reason.is_empty();
    ensure!(gaps.iter().all(complete), "every gap needs labels, message and reason");
    Ok(gaps)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = r#"
        [[gap]]
        direction = "reading"
        labels = { codec = "zfp_acc" }
        message = "not registered"
        reason = "no zfp"
    "#;

    /// Adds one case to a report with one gap, and checks the counts of passed and failed cases and the return value.
    #[track_caller]
    fn check(direction: Direction, codec: &str, failure: Option<&str>, wanted: (usize, usize, bool)) {
        let mut report = Report { gaps: parse_gaps(LIST).unwrap(), ..Report::default() };
        let case = serde_json::json!({ "id": "t1", "labels": { "codec": codec } });
        let mut outcome = CaseOutcome::new(direction, &case);
        if let Some(text) = failure {
            outcome.checker.fail("whole", text.to_owned());
        }
        let good = report.add(&outcome);
        assert_eq!((report.total[PASSED] + report.total[GAP], report.total[FAILED], good), wanted);
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
        assert!(parse_gaps(&LIST.replace("no zfp", "")).is_err());
        assert!(parse_gaps(&LIST.replace("reading", "somewhere")).is_err());
    }
}
